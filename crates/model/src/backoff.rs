//! How long to wait after a failure: exponential, bounded, and not shorter than what a server asks for. No jitter: whoever needs it
//! draws it.

use std::time::Duration;

/// The longest that a server's Retry-After is heeded, by every stage. A minute is more than servers ask for and less than a grace and a
/// half; a wrong one, or a proxy's, must not silence a stage for an hour.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(60);

/// What is heeded of a server's Retry-After; nothing if there was none.
pub fn heeded_retry_after(asked: Option<Duration>) -> Duration {
    asked.unwrap_or_default().min(LONGEST_RETRY_AFTER)
}

/// Pauses that double with every failure in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The pause after the first failure.
    pub first: Duration,
    /// No pause is longer, unless a server asks for it.
    pub longest: Duration,
}

impl Backoff {
    /// The pause after the `failures`-th failure in a row, counted from 1.
    pub fn after(self, failures: u32) -> Duration {
        let factor = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
        self.first.saturating_mul(factor).min(self.longest)
    }

    /// The same, or what the server asked for where that is longer.
    pub fn heeding(self, failures: u32, retry_after: Option<Duration>) -> Duration {
        self.after(failures).max(heeded_retry_after(retry_after))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_bound_and_honour_the_server() {
        let backoff = Backoff {
            first: Duration::from_millis(100),
            longest: Duration::from_secs(30),
        };
        let after = |failures| backoff.after(failures).as_millis();
        assert_eq!(
            [0, 1, 2, 3, 9, 10, 32, 33, 64, u32::MAX].map(after),
            [100, 100, 200, 400, 25_600, 30_000, 30_000, 30_000, 30_000, 30_000]
        );
        let asked = |failures, seconds| backoff.heeding(failures, Some(Duration::from_secs(seconds))).as_secs();
        assert_eq!([asked(1, 45), asked(10, 45), asked(10, 1)], [45, 45, 30]);
        assert_eq!(backoff.heeding(1, None), backoff.after(1));
    }

    #[test]
    fn a_server_cannot_ask_for_more_than_a_minute() {
        let heeded = |asked: Option<u64>| heeded_retry_after(asked.map(Duration::from_secs)).as_secs();
        assert_eq!([None, Some(7), Some(60), Some(u64::MAX)].map(heeded), [0, 7, 60, 60]);
    }
}
