//! Timers that are set again more often than they fire.
//!
//! The silence of a stream is counted anew with every event, the next decision of a core with every input. To take a timer out of the
//! runtime's wheel and put it in again each time costs more than the event itself, and wakes the process besides. So it stays where it is
//! while it is early enough, and asks for the rest of its time when it fires.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bailiff_model::Mono;
use tokio::task::coop;
use tokio::time::{Instant, Sleep};

use crate::{Clock, wakes};

/// A timer to which its point is told whenever it is asked.
#[derive(Debug, Default)]
pub struct Timer(Option<Pin<Box<Sleep>>>);

impl Timer {
    /// Ready once it is `at`; until then whoever polls is woken at that time, or before.
    pub fn poll_until(&mut self, at: Instant, context: &mut Context<'_>) -> Poll<()> {
        while Instant::now() < at {
            let sleep = self.0.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(at)));
            if sleep.is_elapsed() || sleep.deadline() > at {
                sleep.as_mut().reset(at);
            }
            ready!(sleep.as_mut().poll(context));
        }
        // As tokio's own: whoever waits for something else besides, and has no budget left to look for it, is not told that time is up.
        ready!(coop::poll_proceed(context)).made_progress();
        Poll::Ready(())
    }

    /// Waits until it is `at`. Cancel-safe.
    pub async fn until(&mut self, at: Instant) {
        poll_fn(|context| self.poll_until(at, context)).await;
    }
}

/// A timer that is set to a point of a clock: that of a decision loop, of which only the earliest wish counts.
#[derive(Debug)]
pub struct Alarm {
    clock: Clock,
    at: Option<Mono>,
    timer: Timer,
}

impl Alarm {
    /// An alarm that is not set.
    pub fn new(clock: &Clock) -> Self {
        Self {
            clock: clock.clone(),
            at: None,
            timer: Timer::default(),
        }
    }

    /// Sets it to `at`, whatever it was set to; `None` takes it back.
    pub fn set(&mut self, at: Option<Mono>) {
        self.at = at;
    }

    /// Sets it to `at` unless it is set to something earlier.
    pub fn set_earlier(&mut self, at: Mono) {
        self.at = Some(self.at.map_or(at, |present| present.min(at)));
    }

    /// Waits until it is due, then takes it back. Cancel-safe. Waits for ever while it is not set.
    ///
    /// A wish beyond what tokio's timer can hold is slept for in parts (any int64 of `tolerationSeconds`, TE-120).
    pub async fn due(&mut self) {
        let Some(at) = self.at else {
            return std::future::pending().await;
        };
        while self.clock.now().mono < at {
            let at = self.clock.instant_of(at);
            wakes::expect(at);
            self.timer.until(at).await;
        }
        self.at = None;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt;

    use super::*;

    async fn polled(timer: &mut Timer, at: Instant) -> bool {
        poll_fn(|context| Poll::Ready(timer.poll_until(at, context).is_ready())).await
    }

    /// However it is moved, it fires at the last point that it was told, neither before nor after.
    #[tokio::test(start_paused = true)]
    async fn a_timer_that_is_moved_fires_at_its_last_point() {
        let secs = Duration::from_secs;
        for moves in [&[5_u64, 9][..], &[9, 5], &[5, 9, 7], &[3, 3], &[0]] {
            let mut timer = Timer::default();
            let from = Instant::now();
            let (last, before) = moves.split_last().expect("some");
            for point in before {
                assert!(!polled(&mut timer, from + secs(*point)).await);
            }
            timer.until(from + secs(*last)).await;
            assert_eq!(from.elapsed(), secs(*last), "{moves:?}");
        }
    }

    /// Whoever asked first, the one who asks now is woken.
    #[tokio::test(start_paused = true)]
    async fn a_timer_wakes_whoever_asked_last() {
        let mut timer = Timer::default();
        let at = Instant::now() + Duration::from_secs(5);
        assert!(timer.until(at).now_or_never().is_none());
        tokio::spawn(async move { timer.until(at).await }).await.expect("woken");
        assert_eq!(Instant::now(), at);
    }

    #[tokio::test(start_paused = true)]
    async fn it_fires_at_its_time_and_only_once() {
        let clock = Clock::virtual_from(bailiff_model::Wall::UNIX_EPOCH);
        let mut alarm = Alarm::new(&clock);
        alarm.set(Some(Mono::from_origin(Duration::from_secs(9))));
        alarm.set_earlier(Mono::from_origin(Duration::from_secs(5)));
        alarm.set_earlier(Mono::from_origin(Duration::from_secs(7)));
        alarm.due().await;
        assert_eq!(clock.now().mono.since_origin().as_secs(), 5);
        let again = tokio::time::timeout(Duration::from_secs(100), alarm.due()).await;
        assert!(again.is_err(), "not set any more");
    }

    /// TE-120
    #[tokio::test(start_paused = true)]
    async fn the_far_future_is_no_danger() {
        let clock = Clock::virtual_from(bailiff_model::Wall::UNIX_EPOCH);
        let mut alarm = Alarm::new(&clock);
        alarm.set(Some(Mono::FAR_FUTURE));
        let years = Duration::from_secs(3 * 365 * 24 * 3600);
        assert!(tokio::time::timeout(years, alarm.due()).await.is_err());
    }
}
