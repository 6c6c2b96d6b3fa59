//! `bailiff top`: what `bailiff status` shows, kept up with the bus on a terminal.
//!
//! What a frame looks like is [`frame`]'s, and the terminal is [`screen`]'s; here is when one is drawn, and what ends it.

mod frame;
#[cfg(test)]
mod picture;
#[cfg(test)]
mod sample;
mod screen;
mod view;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use bailiff_event_bus::{Bus, Subscription};
use bailiff_model::{Mono, Topic};
use bailiff_runtime::{Clock, Shutdown};
use serde_json::json;

use crate::bus::{Output, Shared, asked, listen, next_since, reach};
use crate::out::Reader;
use crate::{Failure, out};
use screen::{Happened, Screen};
use view::View;

/// A frame without news is as old as this at most: ages are shown in seconds.
const REDRAWN_EVERY: Duration = Duration::from_secs(1);
/// News are drawn this long after the last frame at the soonest: more often than that nobody reads, and a storm of records would keep
/// the terminal busy.
const REDRAWN_AFTER: Duration = Duration::from_millis(100);

/// Flags of `bailiff top`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  bailiff top                              until q, Esc or Ctrl-C
  bailiff top --once                       one frame, as plain text
  bailiff top --output json | jq .zones    one object for each frame: what `bailiff status` gives

Where the output is no terminal it is one frame as plain text, too, as wide as its longest line. Lists end where the screen does; the \
counts above them are of all.
NO_COLOR takes the colours away. Times are those of the stages' clocks.
Exit code 1: the bus cannot be asked, or the terminal cannot be used.")]
pub struct Args {
    /// One frame, and no more
    #[arg(long)]
    once: bool,

    #[command(flatten)]
    shared: Shared,
}

/// Runs the command.
pub fn main(args: Args) -> Result<ExitCode, Failure> {
    let came = crate::runtime()?.block_on(async {
        let clock = Clock::system();
        let bus = reach(&args.shared.bus, &clock);
        // What is lost later is waited for.
        let mut follower = Follower::new(&bus, &clock).await?;
        let is_once = args.once || (args.shared.output == Output::Text && !std::io::stdout().is_terminal());
        follower.begin().await?;
        match (args.shared.output, is_once) {
            (output, true) => {
                out::print(follower.plain(output))?;
            }
            (Output::Json, false) => lines(follower).await?,
            (Output::Text, false) => live(follower).await?,
        }
        Ok(ExitCode::SUCCESS)
    });
    asked(&args.shared.bus, came)
}

/// The view, and what keeps it up with the bus.
struct Follower {
    clock: Clock,
    subscription: Subscription,
    view: View,
    /// When it was shown, and whether it has changed since.
    shown: Mono,
    is_changed: bool,
}

// === impl Follower ===

impl Follower {
    async fn new(bus: &Bus, clock: &Clock) -> Result<Self, Failure> {
        let subscription = listen(bus, &Topic::ALL, clock).await?;
        Ok(Self {
            clock: clock.clone(),
            subscription,
            view: View::default(),
            shown: clock.now().mono,
            is_changed: false,
        })
    }

    /// Waits until everything is told.
    async fn begin(&mut self) -> Result<(), Failure> {
        let begun = self.clock.now().mono;
        while !self.view.is_told() {
            let update = next_since(begun, &mut self.subscription, &self.clock).await?;
            self.view.take(update);
        }
        Ok(())
    }

    /// Follows the bus until the next frame is to be drawn. Cancel-safe.
    async fn next_frame(&mut self) {
        loop {
            let after = if self.is_changed { REDRAWN_AFTER } else { REDRAWN_EVERY };
            let due = self.clock.instant_of(self.shown + after);
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(due) => return,
                update = self.subscription.next() => {
                    self.is_changed |= self.view.take(update);
                }
            }
        }
    }

    fn mark_shown(&mut self) {
        (self.shown, self.is_changed) = (self.clock.now().mono, false);
    }

    fn plain(&self, output: Output) -> String {
        let now = self.clock.now();
        match output {
            Output::Text => frame::plain(&self.view, screen::width(), now),
            Output::Json => {
                let mut object = crate::status::object(&self.view.overview, &self.view.shards);
                object["at"] = json!(now.wall.to_string());
                object["busLost"] = json!(self.view.lost_since.is_some());
                format!("{object}\n")
            }
        }
    }
}

/// One object for each frame, until it is interrupted or nobody reads any more.
async fn lines(mut follower: Follower) -> Result<(), Failure> {
    let shutdown = Shutdown::new();
    shutdown.on_signals()?;
    loop {
        if out::print(follower.plain(Output::Json))? == Reader::Gone {
            return Ok(());
        }
        follower.mark_shown();
        tokio::select! {
            biased;
            () = shutdown.triggered() => return Ok(()),
            () = follower.next_frame() => {}
        }
    }
}

/// Frames on the terminal, until somebody has seen enough.
async fn live(mut follower: Follower) -> Result<(), Failure> {
    let mut screen = Screen::open()?;
    loop {
        screen.draw(&follower.view, follower.clock.now())?;
        follower.mark_shown();
        tokio::select! {
            biased;
            happened = screen.next() => match happened {
                Happened::Resized => {}
                Happened::Quit => return Ok(()),
            },
            () = follower.next_frame() => {}
        }
    }
}
