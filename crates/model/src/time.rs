//! Time as an input. Cores never read a clock; every call into a core carries a [`Now`].

use std::fmt;
use std::time::Duration;

use jiff::SignedDuration;

/// Wall-clock time, as Kubernetes objects carry it.
pub type Wall = jiff::Timestamp;

/// A point on the process's monotonic clock, counted from an origin that means nothing outside the process.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mono {
    /// Nanoseconds since the origin: half of what a [`Duration`] takes, for 584 years.
    nanos: u64,
}

impl Mono {
    /// The origin of the clock.
    pub const ORIGIN: Self = Self { nanos: 0 };
    /// Later than every other point: "never".
    pub const FAR_FUTURE: Self = Self { nanos: u64::MAX };

    /// The point `since_origin` after the origin; [`Mono::FAR_FUTURE`] if it cannot be expressed.
    pub const fn from_origin(since_origin: Duration) -> Self {
        Self {
            nanos: nanos(since_origin),
        }
    }

    /// The point so many nanoseconds after the origin; [`Mono::FAR_FUTURE`] is the last that can be counted.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self { nanos }
    }

    /// Nanoseconds since the origin; of [`Mono::FAR_FUTURE`] the most that there are.
    pub const fn as_nanos(self) -> u64 {
        self.nanos
    }

    /// Time since the origin.
    pub const fn since_origin(self) -> Duration {
        Duration::from_nanos(self.nanos)
    }

    /// Time from `earlier` to this point; zero if `earlier` is later.
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.nanos.saturating_sub(earlier.nanos))
    }

    /// This point moved into the past; the origin if that is too far.
    pub const fn saturating_sub(self, by: Duration) -> Self {
        Self {
            nanos: self.nanos.saturating_sub(nanos(by)),
        }
    }
}

/// At most as many as can be counted.
const fn nanos(duration: Duration) -> u64 {
    let seconds = duration.as_secs().saturating_mul(NANOS_PER_SECOND);
    seconds.saturating_add(duration.subsec_nanos() as u64)
}

const NANOS_PER_SECOND: u64 = 1_000_000_000;

impl fmt::Debug for Mono {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Mono").field(&self.since_origin()).finish()
    }
}

impl std::ops::Add<Duration> for Mono {
    type Output = Self;

    /// The later point; [`Mono::FAR_FUTURE`] if it cannot be expressed.
    fn add(self, by: Duration) -> Self {
        Self {
            nanos: self.nanos.saturating_add(nanos(by)),
        }
    }
}

/// A moment on a process's monotonic clock that may lie before its origin: what earlier processes did counts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment {
    /// Nanoseconds since the origin; negative before it.
    nanos: i128,
}

/// More than lies between any two times, and no more than a [`Duration`] can be.
const NEVER: i128 = Duration::MAX.as_nanos() as i128;

impl Moment {
    /// The moment that lies `after` later, or earlier if that is negative.
    #[must_use]
    pub fn moved(self, after: SignedDuration) -> Self {
        Self {
            nanos: self.nanos.saturating_add(after.as_nanos()),
        }
    }

    /// The moment that lies `by` earlier.
    #[must_use]
    pub fn back(self, by: Duration) -> Self {
        Self {
            nanos: self.nanos.saturating_sub(i128::try_from(by.as_nanos()).unwrap_or(i128::MAX)),
        }
    }

    /// The point that lies `after` later; the origin if that is before it, [`Mono::FAR_FUTURE`] if it cannot be expressed.
    pub fn plus(self, after: Duration) -> Mono {
        let after = i128::try_from(after.as_nanos()).unwrap_or(i128::MAX);
        let nanos = u128::try_from(self.nanos.saturating_add(after)).unwrap_or(0);
        u64::try_from(nanos).map_or(Mono::FAR_FUTURE, |nanos| Mono { nanos })
    }

    /// The same as a point; the origin if it is before that.
    pub fn mono(self) -> Mono {
        self.plus(Duration::ZERO)
    }
}

impl From<Mono> for Moment {
    fn from(mono: Mono) -> Self {
        let is_never = mono == Mono::FAR_FUTURE;
        Self {
            nanos: if is_never { NEVER } else { i128::from(mono.nanos) },
        }
    }
}

/// A reading of somebody's wall clock, and when that was on ours.
///
/// Whoever tells of wall times, and says by which clock and how long ago he read it, can be understood without that clock being right:
/// only differences between its readings are used, so neither its error nor a step of it, or of ours, since then moves anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockReading {
    wall: Wall,
    at: Moment,
}

impl ClockReading {
    /// The clock showed `wall`, `age` ago.
    pub fn new(wall: Wall, age: Duration, now: Now) -> Self {
        Self {
            wall,
            at: Moment::from(now.mono).back(age),
        }
    }

    /// When that clock, if it was not touched, showed or will show `wall`.
    pub fn moment_of(&self, wall: Wall) -> Moment {
        self.at.moved(wall.duration_since(self.wall))
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

    /// The moment that corresponds to `wall`.
    pub fn moment_of(&self, wall: Wall) -> Moment {
        ClockReading::new(self.wall, Duration::ZERO, *self).moment_of(wall)
    }

    /// The wall time that corresponds to `moment` by the clock as it is now, clamped to what a timestamp can express.
    pub fn wall_at(&self, moment: Moment) -> Wall {
        let since = Moment::from(self.mono);
        let span = Duration::from_nanos_u128(since.nanos.abs_diff(moment.nanos));
        if moment > since {
            self.wall.checked_add(span).unwrap_or(Wall::MAX)
        } else {
            self.wall.checked_sub(span).unwrap_or(Wall::MIN)
        }
    }

    /// The wall time that corresponds to `mono`, clamped to what a timestamp can express.
    pub fn wall_of(&self, mono: Mono) -> Wall {
        self.wall_at(mono.into())
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

    /// NL-065, TE-060: whose clock is right is nobody's question
    #[test]
    fn what_another_clock_told_is_understood_by_differences_alone() {
        let hour = SignedDuration::from_hours(1);
        for theirs in [-hour, SignedDuration::ZERO, hour] {
            let read = mk_now().wall + theirs;
            let reading = ClockReading::new(read, Duration::from_secs(150), mk_now());
            let at = |seconds| reading.moment_of(read + SignedDuration::from_secs(seconds));
            assert_eq!(at(70).mono(), Mono::from_origin(Duration::from_secs(20)));
            assert_eq!(
                at(-70).plus(Duration::from_secs(200)),
                Mono::from_origin(Duration::from_secs(80))
            );
            assert_eq!(at(0).mono(), Mono::ORIGIN, "before the origin");
            assert_eq!(mk_now().wall_at(at(0)), mk_now().wall - Duration::from_secs(150));
            assert_eq!(mk_now().wall_at(at(170)), mk_now().wall + Duration::from_secs(20));
        }
        assert_eq!(mk_now().moment_of(mk_now().wall), Moment::from(mk_now().mono));
        assert_eq!(mk_now().wall_at(Moment::from(Mono::FAR_FUTURE)), Wall::MAX);
        assert_eq!(mk_now().moment_of(Wall::MIN).mono(), Mono::ORIGIN);
        assert_eq!(Moment::from(Mono::FAR_FUTURE).plus(Duration::MAX), Mono::FAR_FUTURE);
    }

    #[test]
    fn far_times_are_clamped() {
        let now = mk_now();
        assert_eq!(now.mono_of(Wall::MIN), Mono::ORIGIN);
        assert_eq!(now.wall_of(Mono::FAR_FUTURE), Wall::MAX);
        assert_eq!(now.mono + Duration::MAX, Mono::FAR_FUTURE);
        assert_eq!(Mono::from_origin(Duration::MAX), Mono::FAR_FUTURE);
        assert_eq!(Mono::FAR_FUTURE.saturating_sub(Duration::MAX), Mono::ORIGIN);
    }
}
