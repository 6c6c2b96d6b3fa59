//! A node-health-monitor that asks somebody else before it gives a node up: a prober, by the file that it writes.
//!
//! Everything but that is ours: the core decides, our shell carries out. What is here stands before the core's confirming reads: a node
//! that the prober reached a short while ago is not read, and so not judged. README.md says what follows, and what does not.

mod probes;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use bailiff_model::{NodeName, Now};
use bailiff_node_health_monitor::{Options, SecondOpinion, run, run_asking};
use bailiff_runtime::GoDuration;
use bailiff_runtime::args::{Error as FlagError, Valid, Validate};
use bailiff_stage::{Env, Error, Stage};
use clap::Args;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use probes::Probes;

/// How often it is looked whether the file changed.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long a read of the file may take before that is told. Another one does not begin before it ends.
const SLOW: Duration = Duration::from_secs(5);
/// The longest validity: a prober that was away for longer knows nothing.
const LONGEST: GoDuration = GoDuration::from_secs(3600);

/// Flags of the stage, and two more.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Second opinion")]
struct ProbeFlags {
    /// File with a prober's results, a JSON object per line; nobody is asked without it
    #[arg(long, env = "BAILIFF_PROBE_RESULTS", value_name = "FILE")]
    probe_results: Option<PathBuf>,

    /// How long a result counts, from when it was seen to change: some times as long as the prober takes for a round
    #[arg(long, env = "BAILIFF_PROBE_VALIDITY", default_value = "30s", value_name = "DURATION")]
    probe_validity: GoDuration,

    #[command(flatten)]
    monitor: Options,
}

impl Validate for ProbeFlags {
    fn validate(&self) -> Result<(), FlagError> {
        if self.probe_validity.is_zero() || self.probe_validity > LONGEST {
            let allowed = "allowed is more than 0 and at most 1h, such as 30s";
            return Err(FlagError::new("probe-validity", self.probe_validity, allowed));
        }
        Ok(())
    }
}

struct Asking;

impl Stage for Asking {
    const NAME: &'static str = "node-health-monitor";
    const ABOUT: &'static str = "A node-health-monitor that asks a prober before it gives a silent node up";
    type Options = Valid<ProbeFlags>;

    async fn run(options: Self::Options, env: Env) -> Result<(), Error> {
        let ProbeFlags {
            probe_results,
            probe_validity: validity,
            monitor,
        } = options.into_inner();
        let Some(path) = probe_results else {
            return run(monitor, env).await;
        };
        let (sender, probes) = watch::channel(Probes::default());
        let prober = Prober { probes, validity };
        tokio::select! {
            ended = run_asking(monitor, env.clone(), prober) => ended,
            () = follow(path, validity.get(), &env, &sender) => Err(Error::Ended),
        }
    }
}

fn main() -> ExitCode {
    bailiff_stage::service::main::<Asking>()
}

/// What the prober says, to whoever asks.
struct Prober {
    probes: watch::Receiver<Probes>,
    validity: GoDuration,
}

impl SecondOpinion for Prober {
    fn on(&mut self, node: &NodeName, now: Now) -> Option<String> {
        self.probes.borrow().reached(node, now.mono, self.validity.get())?;
        Some(format!("the prober reached it in the last {}", self.validity))
    }
}

/// Reads the file whenever it changed; says on `/readyz` what is wrong with it. Never ends.
async fn follow(path: PathBuf, validity: Duration, env: &Env, probes: &watch::Sender<Probes>) {
    let check = env.host.readiness.check("probe results");
    let (mut known, mut said) = (None, None);
    let mut look = tokio::time::interval(LOOK_EVERY);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        look.tick().await;
        let place = path.clone();
        let mut reading = tokio::task::spawn_blocking(move || probes::load(&place, known));
        let read = loop {
            match tokio::time::timeout(SLOW, &mut reading).await {
                Ok(read) => break read.unwrap_or_else(|died| Err(std::io::Error::other(died))),
                // What was read before grows too old meanwhile.
                Err(_) => check.note(format!("{} cannot be read for {} s", path.display(), SLOW.as_secs())),
            }
        };
        let wrong = match read {
            Ok(None) => continue,
            Ok(Some((stamp, (said, wrong)))) => {
                let now = env.host.clock.now().mono;
                known = Some(stamp);
                probes.send_modify(|probes| probes.take(said, now, validity));
                wrong
            }
            Err(error) => {
                known = None;
                Some(error.to_string())
            }
        };
        let note = wrong.map(|wrong| format!("{}: {wrong}", path.display()));
        if let Some(note) = note.as_deref().filter(|_| note != said) {
            tracing::warn!("{note}");
        }
        note.as_ref().map_or_else(|| check.ok(), |note| check.note(note.as_str()));
        said = note;
    }
}

#[cfg(test)]
mod tests;
