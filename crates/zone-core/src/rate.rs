//! A zone's tokens: burst 1, one more every `1/rate` seconds (NL-081, NL-082).
//!
//! ```text
//! full ── take ──▶ empty since t ── 1/rate later ──▶ full
//! stopped (rate 0) ── set_rate(r) at t ──▶ empty since t: leaving a stop costs a whole interval
//! ```

use std::time::Duration;

use bailiff_model::{Mono, Profile};

/// One token, and when the next one comes.
#[derive(Clone, Debug, PartialEq)]
pub struct Bucket {
    rate: f64,
    /// When the token was last taken, or found missing; `None`: it is there.
    empty_since: Option<Mono>,
    /// As upstream's: a bucket that begins with rate 0 has its token, and one that was stopped passes for one of rate 1 (NL-083).
    upstream: bool,
    /// Upstream's never grants.
    stopped: bool,
}

impl Bucket {
    /// A bucket that holds its token (NL-024).
    pub const fn full(rate: f64) -> Self {
        Self {
            rate,
            empty_since: None,
            upstream: false,
            stopped: false,
        }
    }

    /// A bucket whose token was taken at `since`.
    pub const fn empty(rate: f64, since: Mono) -> Self {
        Self {
            empty_since: Some(since),
            ..Self::full(rate)
        }
    }

    /// The same with the quirks of upstream's, if that is the profile.
    pub fn of(self, profile: Profile) -> Self {
        let upstream = profile == Profile::Upstream;
        Self { upstream, ..self }
    }

    /// Tokens per second.
    pub const fn rate(&self) -> f64 {
        self.rate
    }

    /// When a token is there, if nothing slower than `ceiling` tokens per second is wanted; `FAR_FUTURE` for never.
    pub fn available_at(&self, ceiling: f64) -> Mono {
        if self.stopped {
            return Mono::FAR_FUTURE;
        }
        match (interval(self.rate.min(ceiling)), self.empty_since) {
            (None, None) if self.upstream && ceiling > 0.0 => Mono::ORIGIN,
            (None, _) => Mono::FAR_FUTURE,
            (Some(_), None) => Mono::ORIGIN,
            (Some(interval), Some(since)) => since + interval,
        }
    }

    /// Takes the token.
    pub const fn take(&mut self, now: Mono) {
        self.empty_since = Some(now);
    }

    /// Gives back a token that was taken for nothing: the bucket is as it was `before`.
    pub const fn give_back(&mut self, before: Option<Mono>) {
        self.empty_since = before;
    }

    /// Since when the token is missing.
    pub const fn empty_since(&self) -> Option<Mono> {
        self.empty_since
    }

    /// Changes the rate. The new bucket holds its token only if the old one did at this moment (NL-082).
    ///
    /// Unlike upstream's, a stopped bucket never counts as one with rate 1, and one that begins stopped holds no token (NL-083).
    pub fn set_rate(&mut self, rate: f64, now: Mono) {
        let known = if self.stopped { 1.0 } else { self.rate };
        if rate.to_bits() == known.to_bits() {
            return;
        }
        self.empty_since = (self.available_at(f64::INFINITY) > now).then_some(now);
        self.rate = rate;
        self.stopped = self.upstream && rate <= 0.0;
    }
}

/// Seconds between tokens; `None` for a rate that never grants.
pub fn interval(rate: f64) -> Option<Duration> {
    if rate.is_nan() || rate <= 0.0 {
        return None;
    }
    Some(Duration::try_from_secs_f64(rate.recip()).unwrap_or(Duration::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Mono {
        Mono::from_origin(Duration::from_millis(millis))
    }

    /// NL-081
    #[test]
    fn the_burst_is_one() {
        let mut bucket = Bucket::full(0.1);
        assert!(bucket.available_at(f64::INFINITY) <= at(0));
        bucket.take(at(1_000_000));
        assert_eq!(bucket.available_at(f64::INFINITY), at(1_010_000));
        assert_eq!(bucket.available_at(0.01), at(1_100_000), "a lower ceiling waits longer");
    }

    /// NL-082, NL-083
    #[test]
    fn changing_the_rate_never_makes_a_token() {
        let cases = [
            // before, after, token there before, available at (changed at 5 s)
            (Bucket::full(0.1), 0.5, at(0)),
            (Bucket::empty(0.1, at(0)), 0.5, at(7_000)),
            (Bucket::empty(0.0, at(0)), 0.5, at(7_000)),
            (Bucket::full(0.0), 1.0, at(6_000)),
            (Bucket::empty(1.0, at(0)), 0.1, at(0)),
            (Bucket::empty(0.1, at(0)), 0.1, at(10_000)),
            (Bucket::full(0.1), 0.0, Mono::FAR_FUTURE),
            // The token comes at the very moment of the change.
            (Bucket::empty(0.2, at(0)), 0.5, at(0)),
        ];
        for (mut bucket, rate, wanted) in cases {
            let before = bucket.clone();
            bucket.set_rate(rate, at(5_000));
            let found = bucket.available_at(f64::INFINITY);
            if wanted == at(0) {
                assert!(found <= at(5_000), "{before:?} -> {rate}");
            } else {
                assert_eq!(found, wanted, "{before:?} -> {rate}");
            }
        }
    }

    /// NL-081: a token that was taken for nothing is as old as it was, which a slower ceiling counts from.
    #[test]
    fn a_token_given_back_is_as_old_as_before() {
        let mut bucket = Bucket::empty(0.1, at(5_000));
        let before = bucket.empty_since();
        bucket.take(at(20_000));
        bucket.give_back(before);
        assert_eq!(bucket.available_at(0.01), at(105_000));
        assert_eq!(bucket.available_at(f64::INFINITY), at(15_000));
    }

    /// NL-083: as upstream has it.
    #[test]
    fn upstreams_bucket_begins_with_a_token_and_may_stay_stopped() {
        let mk = |rate| Bucket::full(rate).of(Profile::Upstream);
        let at_once = |bucket: &Bucket| bucket.available_at(f64::INFINITY) == Mono::ORIGIN;
        let mut bucket = mk(0.0);
        assert!(at_once(&bucket), "one node, whatever the rate");
        assert_eq!(bucket.available_at(0.0), Mono::FAR_FUTURE, "but nobody while it is held");
        bucket.take(at(1_000));
        assert_eq!(bucket.available_at(f64::INFINITY), Mono::FAR_FUTURE);
        for (rate, wanted) in [(1.0, Mono::FAR_FUTURE), (0.5, at(7_000))] {
            let mut bucket = mk(rate);
            bucket.set_rate(0.0, at(2_000));
            assert_eq!((bucket.available_at(f64::INFINITY), bucket.rate()), (Mono::FAR_FUTURE, 0.0));
            bucket.set_rate(rate, at(5_000));
            assert_eq!(bucket.available_at(f64::INFINITY), wanted, "{rate}");
        }
        let mut bucket = mk(0.1);
        bucket.set_rate(0.5, at(5_000));
        assert!(at_once(&bucket));
    }

    #[test]
    fn extreme_rates_do_not_overflow() {
        assert_eq!(interval(f64::MIN_POSITIVE), Some(Duration::MAX));
        assert_eq!(interval(f64::NAN), None);
        assert_eq!(interval(f64::MAX), Some(Duration::ZERO));
        assert_eq!(Bucket::empty(1e-300, at(9)).available_at(1.0), Mono::FAR_FUTURE);
    }
}
