//! The one timer of a decision loop.
//!
//! A core says when it wants to be woken; only the earliest wish counts, and a wish for the far future costs nothing.

use bailiff_model::Mono;
use bailiff_runtime::Clock;

/// A timer that is set to a point of a clock.
#[derive(Clone, Debug)]
pub struct Alarm {
    clock: Clock,
    at: Option<Mono>,
}

impl Alarm {
    /// An alarm that is not set.
    pub fn new(clock: &Clock) -> Self {
        Self {
            clock: clock.clone(),
            at: None,
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
            tokio::time::sleep_until(self.clock.instant_of(at)).await;
        }
        self.at = None;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

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
