//! A token bucket: so many at once, then so many per second.

use std::time::Duration;

use bailiff_model::Mono;

/// A token bucket. It starts full.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    /// Time in which one token comes.
    interval: Duration,
    /// Time in which an empty bucket fills.
    full: Duration,
    /// When the bucket is, or was, full.
    full_at: Mono,
}

// === impl TokenBucket ===

impl TokenBucket {
    /// A bucket of `burst` tokens (at least one) into which `per_second` come; `None` if that is no rate.
    pub fn new(per_second: f64, burst: u32) -> Option<Self> {
        if per_second.is_nan() || per_second <= 0.0 {
            return None;
        }
        let interval = Duration::try_from_secs_f64(1.0 / per_second).ok()?;
        Some(Self {
            interval,
            full: interval.saturating_mul(burst.max(1)),
            full_at: Mono::ORIGIN,
        })
    }

    /// Takes a token.
    ///
    /// # Errors
    /// There is none: the moment when there will be one.
    pub fn try_take(&mut self, now: Mono) -> Result<(), Mono> {
        // Each token taken moves the moment of fullness by one interval; that moment is never further away than a whole bucket.
        let full_at = self.full_at.max(now) + self.interval;
        let missing = full_at.saturating_since(now);
        if missing > self.full {
            return Err(now + (missing - self.full));
        }
        self.full_at = full_at;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Mono {
        Mono::from_origin(Duration::from_millis(millis))
    }

    #[test]
    fn a_burst_passes_then_the_rate_holds() {
        let mut bucket = TokenBucket::new(10.0, 3).expect("a rate");
        for _ in 0..3 {
            assert_eq!(bucket.try_take(at(0)), Ok(()));
        }
        for tick in 1..=20 {
            let before = at(tick * 100 - 1);
            assert_eq!(bucket.try_take(before), Err(at(tick * 100)));
            assert_eq!(bucket.try_take(at(tick * 100)), Ok(()));
        }
    }

    #[test]
    fn a_pause_fills_the_bucket_but_not_beyond_its_size() {
        let mut bucket = TokenBucket::new(1.0, 2).expect("a rate");
        for now in [at(0), at(3_600_000)] {
            assert_eq!(bucket.try_take(now), Ok(()));
            assert_eq!(bucket.try_take(now), Ok(()));
            assert!(bucket.try_take(now).is_err());
        }
    }

    #[test]
    fn being_refused_costs_nothing() {
        let mut bucket = TokenBucket::new(1.0, 1).expect("a rate");
        assert_eq!(bucket.try_take(at(0)), Ok(()));
        for now in 0..1000 {
            assert_eq!(bucket.try_take(at(now)), Err(at(1000)));
        }
        assert_eq!(bucket.try_take(at(1000)), Ok(()));
    }

    /// Over any window no more than the burst and the rate times the window pass.
    #[test]
    fn no_window_sees_more_than_burst_and_rate() {
        let seed = crate::Seed::new(3);
        let mut bucket = TokenBucket::new(20.0, 30).expect("a rate");
        let (mut now, mut taken) = (0, Vec::new());
        for _ in 0..20_000 {
            now += seed.below(30);
            if bucket.try_take(at(now)).is_ok() {
                taken.push(now);
            }
        }
        for (index, start) in taken.iter().enumerate() {
            for (count, end) in taken[index..].iter().enumerate().take(200) {
                let allowed = 30.0 + (end - start) as f64 * 0.02;
                assert!((count + 1) as f64 <= allowed + 1e-6, "{count} in {start}..={end}");
            }
        }
    }

    #[test]
    fn what_is_no_rate_is_no_bucket() {
        for per_second in [0.0, -1.0, f64::NAN, 1e-300] {
            assert!(TokenBucket::new(per_second, 1).is_none(), "{per_second}");
        }
        let mut one = TokenBucket::new(1.0, 0).expect("a rate");
        assert_eq!(one.try_take(at(0)), Ok(()));
    }
}
