//! Backoff: of failed daemon pods (DS-105, DS-106), and of requests that failed (DS-006).

use std::time::Duration;

use bailiff_model::{Backoff, Mono};

/// After failed requests: upstream's per-item rate limit (DS-006).
const REQUEST: Backoff = Backoff {
    first: Duration::from_millis(5),
    longest: Duration::from_secs(1000),
};

/// First delay of failed pods and the longest one (DS-003).
const POD: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(15 * 60));

/// Pauses after failed requests of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Retry {
    failures: u32,
    until: Option<Mono>,
}

impl Retry {
    /// Notes a failure; returns when to try again: at the earliest after what the server asked for.
    pub(crate) fn fail(&mut self, now: Mono, at_least: Option<Duration>) -> Mono {
        self.failures = self.failures.saturating_add(1);
        let until = now + REQUEST.heeding(self.failures, at_least);
        self.until = Some(until);
        until
    }

    /// Notes a success, or that the reason to wait is gone.
    pub(crate) fn reset(&mut self) {
        *self = Self::default();
    }

    /// What it failed at is not as it was: it is tried at once, and if it fails again the pause is longer all the same.
    pub(crate) fn reconsider(&mut self) {
        self.until = None;
    }

    /// True if it failed since the last success.
    pub(crate) const fn has_failed(&self) -> bool {
        self.failures > 0
    }

    pub(crate) fn is_open(&self, now: Mono) -> bool {
        self.until.is_none_or(|until| until <= now)
    }

    /// When the pause ends, if it has not yet.
    pub(crate) fn opens_at(&self, now: Mono) -> Option<Mono> {
        self.until.filter(|until| *until > now)
    }
}

/// How long failed pods of one node are kept before they are replaced (DS-106).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PodBackoff {
    delay: Duration,
    advanced: Mono,
}

impl PodBackoff {
    /// The state after one more failure at `now`: it doubles, unless the last failure is long enough ago.
    pub(crate) fn advance(known: Option<Self>, now: Mono) -> Self {
        let delay = match known {
            Some(known) if !known.is_forgotten(now) => known.delay.saturating_mul(2).min(POD.1),
            _ => POD.0,
        };
        Self { delay, advanced: now }
    }

    /// The delay that a pod seen failed now has to wait, if it has to wait at all.
    ///
    /// Upstream looks again after the whole delay, not after what is left of it; so do we, because that is what paces a pod that
    /// keeps failing.
    pub(crate) fn wait(&self, now: Mono) -> Option<Duration> {
        (now.saturating_since(self.advanced) < self.delay).then_some(self.delay)
    }

    /// More than twice the longest delay has passed.
    pub(crate) fn is_forgotten(&self, now: Mono) -> bool {
        now.saturating_since(self.advanced) > POD.1 * 2
    }

    /// The first moment at which it is forgotten.
    pub(crate) fn forgotten_at(&self) -> Mono {
        self.advanced + POD.1 * 2 + Duration::from_nanos(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Mono {
        Mono::from_origin(Duration::from_secs(seconds))
    }

    /// DS-003, DS-106; upstream's TestDaemonKillFailedPodsBackoff
    #[test]
    fn failed_pods_wait_twice_as_long_each_time() {
        let first = PodBackoff::advance(None, at(100));
        assert_eq!(first.wait(at(100)), Some(Duration::from_secs(1)));
        let just_before = at(101).saturating_sub(Duration::from_nanos(1));
        assert_eq!(first.wait(just_before), Some(Duration::from_secs(1)));
        assert_eq!(first.wait(at(101)), None);
        let second = PodBackoff::advance(Some(first), at(101));
        assert_eq!(second.wait(at(102)), Some(Duration::from_secs(2)));
        let mut last = second;
        for _ in 0..20 {
            last = PodBackoff::advance(Some(last), at(103));
        }
        assert_eq!(last.wait(at(103)), Some(Duration::from_secs(900)));
        assert!(!last.is_forgotten(at(103 + 1800)));
        assert!(last.is_forgotten(at(103 + 1801)));
        assert!(last.is_forgotten(last.forgotten_at()));
        assert!(!last.is_forgotten(last.forgotten_at().saturating_sub(Duration::from_nanos(1))));
        assert_eq!(
            PodBackoff::advance(Some(last), at(103 + 1801)).wait(at(103 + 1801)),
            Some(Duration::from_secs(1))
        );
    }

    /// DS-006
    #[test]
    fn failed_requests_are_retried_with_growing_pauses() {
        let mut retry = Retry::default();
        assert!(retry.is_open(at(0)));
        assert_eq!(retry.fail(at(1), None), at(1) + Duration::from_millis(5));
        assert!(!retry.is_open(at(1)));
        assert_eq!(retry.fail(at(1), None), at(1) + Duration::from_millis(10));
        assert_eq!(retry.fail(at(1), Some(Duration::from_secs(3))), at(4));
        assert_eq!(retry.fail(at(1), Some(Duration::MAX)), at(61), "a server cannot silence it");
        for _ in 0..60 {
            retry.fail(at(1), None);
        }
        assert_eq!(retry.opens_at(at(1)), Some(at(1001)));
        retry.reset();
        assert!(retry.is_open(at(1)));
    }
}
