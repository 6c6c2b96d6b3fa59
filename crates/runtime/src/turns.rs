//! What is done every so often, and need not be done on time.
//!
//! To be woken costs a sleeping process many times what such a thing does. So they all are done at the ends of the same turns, at which
//! connections that stream are looked at too ([`LOOK`](crate::client::LOOK)): a process that rests wakes four times a second, whatever it
//! has to report, keep alive or look after.

use std::time::Duration;

use tokio::time::Instant;

use crate::client::LOOK;
use crate::{Clock, Timer};

/// Ticks at ends of turns.
#[derive(Debug)]
pub struct Turns {
    clock: Clock,
    every: Duration,
    next: Instant,
    timer: Timer,
}

// === impl Turns ===

impl Turns {
    /// Ticks at once, and then at least every `every`, if that is not less than a turn: every so many whole turns. Ticks that are missed
    /// are left out.
    pub fn new(clock: &Clock, every: Duration) -> Self {
        let turns = every.as_nanos() / LOOK.as_nanos();
        Self {
            clock: clock.clone(),
            every: LOOK * u32::try_from(turns.max(1)).unwrap_or(u32::MAX),
            next: Instant::now(),
            timer: Timer::default(),
        }
    }

    /// Waits for the next tick. Cancel-safe.
    pub async fn tick(&mut self) {
        self.timer.until(self.next).await;
        self.next = self.clock.end_of_turn(self.every);
    }

    /// The next tick is at once.
    pub fn hurry(&mut self) {
        self.next = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use bailiff_model::Wall;
    use futures::FutureExt;

    use super::*;

    /// Whatever they began with and are for, they wake together, no later than they were asked to.
    #[tokio::test(start_paused = true)]
    async fn who_ticks_ticks_at_ends_of_turns() {
        let clock = Clock::virtual_from(Wall::UNIX_EPOCH);
        let millis = Duration::from_millis;
        for (every, turns) in [(millis(1_000), 3), (millis(2_000), 7), (LOOK * 4, 4), (millis(20), 1)] {
            tokio::time::advance(millis(77)).await;
            let mut ticks = Turns::new(&clock, every);
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
        let mut ticks = Turns::new(&clock, LOOK);
        ticks.tick().await;
        tokio::time::advance(LOOK * 10).await;
        assert!(ticks.tick().now_or_never().is_some(), "one that was missed");
        assert!(ticks.tick().now_or_never().is_none(), "and no other");
        ticks.hurry();
        assert!(ticks.tick().now_or_never().is_some());
        assert!(ticks.tick().now_or_never().is_none());
    }
}
