//! What is done every so often, and need not be done on time.
//!
//! To be woken costs a sleeping process many times what such a thing does. So what a stage reports, its session and its health, the
//! renewal of its Lease, and the bus's ticks and bookmarks are due at the ends of the same turns, at which connections that stream are
//! looked at too ([`LOOK`](crate::client::LOOK)): together they wake a process at most four times a second, if none of those streams
//! is wanted sooner ([`Attention`](crate::client::Attention)).

use std::time::Duration;

use tokio::time::Instant;

use crate::client::LOOK;
use crate::{Clock, Timer};

/// Ticks at ends of turns.
#[derive(Debug)]
pub struct Ticks {
    clock: Clock,
    every: Duration,
    /// `None`: at once.
    next: Option<Instant>,
    timer: Timer,
}

// === impl Ticks ===

impl Ticks {
    /// Ticks at once, then at the end of every n-th turn: as many whole turns as fit into `every`, at least one. Ticks that are missed are
    /// left out.
    pub fn new(clock: &Clock, every: Duration) -> Self {
        let turns = every.as_nanos() / LOOK.as_nanos();
        Self {
            clock: clock.clone(),
            every: LOOK * u32::try_from(turns.max(1)).unwrap_or(u32::MAX),
            next: None,
            timer: Timer::default(),
        }
    }

    /// Waits for the next tick. Cancel-safe.
    pub async fn tick(&mut self) {
        if let Some(next) = self.next {
            self.timer.until(next).await;
        }
        self.next = Some(self.clock.end_of_turn(self.every));
    }

    /// The next tick is at once.
    pub fn hurry(&mut self) {
        self.next = None;
    }
}

#[cfg(test)]
mod tests {
    use bailiff_model::Wall;
    use futures::FutureExt;

    use super::*;

    /// Whenever they began and whatever for, they wake together; no later than they were asked to, if that is not less than a turn.
    #[tokio::test(start_paused = true)]
    async fn ticks_are_at_ends_of_turns() {
        let clock = Clock::virtual_from(Wall::UNIX_EPOCH);
        let millis = Duration::from_millis;
        for (every, turns) in [(millis(1_000), 3), (millis(2_000), 7), (LOOK * 4, 4), (millis(20), 1)] {
            tokio::time::advance(millis(77)).await;
            let mut ticks = Ticks::new(&clock, every);
            assert!(ticks.tick().now_or_never().is_some(), "the first one is at once");
            ticks.tick().await;
            for _ in 0..3 {
                let before = Instant::now();
                assert_eq!(clock.end_of_turn(LOOK), before + LOOK, "{every:?}: a turn has just ended");
                ticks.tick().await;
                assert_eq!(before.elapsed(), LOOK * turns, "{every:?}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_missed_is_left_out_and_what_hurries_does_not_wait() {
        let clock = Clock::virtual_from(Wall::UNIX_EPOCH);
        let mut ticks = Ticks::new(&clock, LOOK);
        ticks.tick().await;
        tokio::time::advance(LOOK * 10).await;
        assert!(ticks.tick().now_or_never().is_some(), "one that was missed");
        assert!(ticks.tick().now_or_never().is_none(), "and no other");
        ticks.hurry();
        assert!(ticks.tick().now_or_never().is_some());
        assert!(ticks.tick().now_or_never().is_none());
    }

    /// A loop that waits for other things too asks again each time.
    #[tokio::test(start_paused = true)]
    async fn who_asked_before_and_went_away_misses_nothing() {
        let clock = Clock::virtual_from(Wall::UNIX_EPOCH);
        let mut ticks = Ticks::new(&clock, LOOK * 4);
        ticks.tick().await;
        let end = clock.end_of_turn(LOOK * 4);
        for _ in 0..3 {
            assert!(ticks.tick().now_or_never().is_none());
            tokio::time::advance(LOOK).await;
        }
        ticks.tick().await;
        assert_eq!(Instant::now(), end);
    }
}
