//! How long to wait before the next attempt to connect.

use std::time::Duration;

use bailiff_model::Backoff as Pauses;
use bailiff_runtime::Seed;

/// The first is long enough not to spin, short enough to fit many attempts into the bus's 5 s reconnect grace; the longest, with jitter,
/// stays within that grace of a bus that came back.
const PAUSES: Pauses = Pauses {
    first: Duration::from_millis(100),
    longest: Duration::from_millis(3200),
};
/// Clients that lost the same bus at the same moment must not come back at the same moment.
const JITTER: f64 = 0.5;

/// Exponential backoff with jitter.
#[derive(Debug)]
pub(super) struct Backoff {
    seed: Seed,
    failures: u32,
}

impl Backoff {
    pub(super) fn new(seed: Seed) -> Self {
        Self { seed, failures: 0 }
    }

    /// The wait after one more failure.
    pub(super) fn failed(&mut self) -> Duration {
        self.failures = self.failures.saturating_add(1);
        self.seed.jitter(PAUSES.after(self.failures), JITTER)
    }

    /// The attempt succeeded.
    pub(super) fn succeeded(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_to_a_bound_and_start_again_after_success() {
        let mut backoff = Backoff::new(Seed::new(1));
        for base in [100, 200, 400, 800, 1600, 3200, 3200, 3200] {
            let wait = backoff.failed();
            let base = Duration::from_millis(base);
            assert!((base..base * 3 / 2).contains(&wait), "{wait:?} after {base:?}");
        }
        backoff.succeeded();
        assert!(backoff.failed() < Duration::from_millis(150));
    }
}
