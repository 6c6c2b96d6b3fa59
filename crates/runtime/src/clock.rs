//! The one place that reads a clock.
//!
//! In production wall time is the system's. In a world it is tied to tokio's paused clock, so that five minutes of a cluster pass
//! in seconds and the same seed gives the same log. Monotonic time is tokio's in both.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use bailiff_model::{Mono, Now, Wall};
use jiff::SignedDuration;
use tokio::time::Instant;

/// What tokio's timer counts in.
const TICK: Duration = Duration::from_millis(1);

/// A clock; cloning it gives the same clock.
#[derive(Clone, Debug)]
pub struct Clock {
    origin: Instant,
    wall: Source,
}

#[derive(Clone, Debug)]
enum Source {
    System,
    /// Wall time at the origin, and by how many nanoseconds it was stepped since.
    Virtual(Wall, Arc<AtomicI64>),
}

impl Clock {
    /// The system's clock.
    pub fn system() -> Self {
        Self {
            origin: Instant::now(),
            wall: Source::System,
        }
    }

    /// A clock that starts at `wall` now and runs with tokio's. Must be called inside the runtime it belongs to.
    pub fn virtual_from(wall: Wall) -> Self {
        Self {
            origin: Instant::now(),
            wall: Source::Virtual(wall, Arc::new(AtomicI64::new(0))),
        }
    }

    /// The present, on both clocks.
    pub fn now(&self) -> Now {
        let mono = Mono::from_origin(Instant::now().duration_since(self.origin));
        Now {
            mono,
            wall: self.wall_at(mono),
        }
    }

    /// The present wall time.
    pub fn wall(&self) -> Wall {
        self.now().wall
    }

    /// tokio's instant for a monotonic point of this clock; far points are clamped to what tokio's timer can hold.
    pub fn instant_of(&self, mono: Mono) -> Instant {
        // tokio panics beyond roughly 795 days ahead; a waker that fires early only asks again (TE-120).
        const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);
        let now = Instant::now();
        let ahead = mono.saturating_since(Mono::from_origin(now.duration_since(self.origin)));
        now + ahead.min(LONGEST)
    }

    /// When to wake with the present turn of `every`. Turns are counted since this clock began, so that who waits for the end of one wakes
    /// together with others who do.
    ///
    /// It is a millisecond before the turn ends: tokio's timer, if it began less than that before the clock, rounds up to a multiple of
    /// `every` by its own count. If that is a power of two, up to 64 ms, or a multiple of 64 ms, it needs no other wake on the way (its
    /// wheels have 64 slots), but for one at the end of 4,096 ms that it reaches beyond. A clock that began later costs such wakes, and
    /// nothing else.
    pub fn end_of_turn(&self, every: Duration) -> Instant {
        let now = Instant::now();
        let elapsed = Mono::from_origin(now.saturating_duration_since(self.origin));
        now + self.turn_from(elapsed, every).saturating_since(elapsed)
    }

    /// The same, with the turn of `every` at `at`: later than that by `every` at most.
    pub fn turn_from(&self, at: Mono, every: Duration) -> Mono {
        let every = every.max(TICK);
        let passed = at.since_origin().saturating_add(TICK).as_nanos() % every.as_nanos();
        at + Duration::from_nanos_u128(every.as_nanos() - passed)
    }

    /// Steps a virtual wall clock, as an operator or NTP might. The system's clock is not touched.
    pub fn step(&self, by: SignedDuration) {
        if let Source::Virtual(_, stepped) = &self.wall {
            let nanos = i64::try_from(by.as_nanos()).unwrap_or(if by.is_negative() { i64::MIN } else { i64::MAX });
            stepped.fetch_add(nanos, Ordering::Relaxed);
        }
    }

    /// This clock with a wall time of its own that can be stepped apart from the original's: another machine's clock.
    pub fn fork(&self) -> Self {
        let wall = match &self.wall {
            Source::System => Source::System,
            Source::Virtual(start, stepped) => Source::Virtual(*start, Arc::new(AtomicI64::new(stepped.load(Ordering::Relaxed)))),
        };
        Self {
            origin: self.origin,
            wall,
        }
    }

    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    fn wall_at(&self, mono: Mono) -> Wall {
        match &self.wall {
            Source::System => Wall::now(),
            Source::Virtual(start, stepped) => {
                let elapsed = SignedDuration::try_from(mono.since_origin()).unwrap_or(SignedDuration::MAX);
                let stepped = SignedDuration::from_nanos(stepped.load(Ordering::Relaxed));
                start.checked_add(elapsed.saturating_add(stepped)).unwrap_or(Wall::MAX)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever waits within one turn wakes at one instant, which is a multiple of tokio's own count, where the clock is a little younger.
    #[tokio::test(start_paused = true)]
    async fn turns_end_together() {
        let (every, micros) = (Duration::from_millis(32), Duration::from_micros);
        let runtime = Instant::now();
        tokio::time::advance(micros(300)).await;
        let clock = Clock::virtual_from(Wall::UNIX_EPOCH);
        for (passed, turn) in [(0, 1), (1, 1), (30_998, 1), (1, 2), (1, 2), (32_000, 3), (64_000, 5)] {
            tokio::time::advance(micros(passed)).await;
            let end = clock.end_of_turn(every);
            let ticks = end.duration_since(runtime).as_nanos().div_ceil(1_000_000);
            assert_eq!(ticks, turn * 32, "after {passed} more microseconds");
        }
        assert!(clock.end_of_turn(Duration::ZERO) > Instant::now(), "never the present");
        let at = |millis| Mono::from_origin(Duration::from_millis(millis));
        assert_eq!(clock.turn_from(Mono::FAR_FUTURE, every), Mono::FAR_FUTURE);
        for (point, end) in [(0, 31), (30, 31), (31, 63), (32, 63), (1_000, 1_023)] {
            assert_eq!(clock.turn_from(at(point), every), at(end), "the turn at {point} ms");
        }
    }
}
