//! Time as an input. Cores never read a clock; every call into a core carries a [`Now`].

use std::time::Duration;

/// Wall-clock time, as Kubernetes objects carry it.
pub type Wall = jiff::Timestamp;

/// A point on the process's monotonic clock, counted from an origin that means nothing outside the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mono(Duration);

impl Mono {
    /// The origin of the clock.
    pub const ORIGIN: Self = Self(Duration::ZERO);
    /// Later than every other point: "never".
    pub const FAR_FUTURE: Self = Self(Duration::MAX);

    /// The point `since_origin` after the origin.
    pub const fn from_origin(since_origin: Duration) -> Self {
        Self(since_origin)
    }

    /// Time since the origin.
    pub const fn since_origin(self) -> Duration {
        self.0
    }

    /// Time from `earlier` to this point; zero if `earlier` is later.
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// This point moved into the past; the origin if that is too far.
    pub const fn saturating_sub(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(by))
    }
}

impl std::ops::Add<Duration> for Mono {
    type Output = Self;

    /// The later point; [`Mono::FAR_FUTURE`] if it cannot be expressed.
    fn add(self, by: Duration) -> Self {
        Self(self.0.saturating_add(by))
    }
}

/// The present: one reading of both clocks, taken together.
///
/// Deadlines are computed on [`Now::mono`]; [`Now::wall`] is only for stamping what is written, and for turning a wall time that
/// was read into a monotonic one, once, when a timer is armed ([`Now::mono_of`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Monotonic clock.
    pub mono: Mono,
    /// Wall clock.
    pub wall: Wall,
}

/// The longest that a server's Retry-After is heeded, by every stage. A minute is more than servers ask for and less than a grace and a
/// half; a wrong one, or a proxy's, must not silence a stage for an hour.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(60);

/// What is heeded of a server's Retry-After; nothing if there was none.
pub fn heeded_retry_after(asked: Option<Duration>) -> Duration {
    asked.unwrap_or_default().min(LONGEST_RETRY_AFTER)
}

impl Now {
    /// The monotonic point that corresponds to `wall`, clamped to the origin for the far past.
    pub fn mono_of(&self, wall: Wall) -> Mono {
        let ahead = wall.duration_since(self.wall);
        let by = ahead.unsigned_abs();
        if ahead.is_negative() {
            self.mono.saturating_sub(by)
        } else {
            self.mono + by
        }
    }

    /// The wall time that corresponds to `mono`, clamped to what a timestamp can express.
    pub fn wall_of(&self, mono: Mono) -> Wall {
        if mono >= self.mono {
            let ahead = mono.saturating_since(self.mono);
            self.wall.checked_add(ahead).unwrap_or(Wall::MAX)
        } else {
            let behind = self.mono.saturating_since(mono);
            self.wall.checked_sub(behind).unwrap_or(Wall::MIN)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_now() -> Now {
        Now {
            mono: Mono::from_origin(Duration::from_secs(100)),
            wall: Wall::UNIX_EPOCH,
        }
    }

    #[test]
    fn wall_and_mono_convert_both_ways() {
        let now = mk_now();
        for seconds in [-100_i64, -1, 0, 1, 3_000_000_000] {
            let wall = now.wall + jiff::SignedDuration::from_secs(seconds);
            assert_eq!(now.wall_of(now.mono_of(wall)), wall, "{seconds} s");
        }
    }

    #[test]
    fn a_server_cannot_ask_for_more_than_a_minute() {
        let heeded = |asked: Option<u64>| heeded_retry_after(asked.map(Duration::from_secs)).as_secs();
        assert_eq!([None, Some(7), Some(60), Some(u64::MAX)].map(heeded), [0, 7, 60, 60]);
    }

    #[test]
    fn far_times_are_clamped() {
        let now = mk_now();
        assert_eq!(now.mono_of(Wall::MIN), Mono::ORIGIN);
        assert_eq!(now.wall_of(Mono::FAR_FUTURE), Wall::MAX);
        assert_eq!(now.mono + Duration::MAX, Mono::FAR_FUTURE);
    }
}
