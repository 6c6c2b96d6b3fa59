//! How often a process wakes up while much happens.
//!
//! To wake up costs about the same whether one answer is there or twenty, and a machine that is busy has forgotten by then what a
//! process worked with. So a process that was woken often stays away for some milliseconds, and then takes all that came meanwhile,
//! as a network card does with its interrupts. One that is rarely woken never waits.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bailiff_model::Mono;
use tokio::runtime::{Builder, Runtime};

use crate::Clock;
use crate::client::TokenBucket;
use crate::telemetry::lines;

/// Wakes in a row that are not waited for: a node that fails, or a pod that is due, meets a process that rested.
const BURST: u32 = 16;

/// What takes that long costs far more than to wake up for it, and does not count: a long list is not read in turns.
const WORTH_IT: Duration = Duration::from_millis(1);

/// How many wakes there may be, and when the last one was.
#[derive(Debug)]
pub struct Wakes {
    bucket: TokenBucket,
    woke: Mono,
}

// === impl Wakes ===

impl Wakes {
    /// So many a second once there were many; `None` if that is no rate.
    pub fn new(per_second: f64) -> Option<Self> {
        Some(Self {
            bucket: TokenBucket::new(per_second, BURST)?,
            woke: Mono::ORIGIN,
        })
    }

    /// All is done, and it waits for what comes: how long it stays away before it looks.
    fn done(&mut self, now: Mono) -> Duration {
        if now.saturating_since(self.woke) >= WORTH_IT {
            return Duration::ZERO;
        }
        let Err(at) = self.bucket.try_take(now) else {
            return Duration::ZERO;
        };
        // There is one by then.
        let _ = self.bucket.try_take(at);
        at.saturating_since(now)
    }

    fn woke(&mut self, now: Mono) {
        self.woke = now;
    }
}

/// A runtime of one thread.
#[derive(Debug)]
pub struct OneThread(Runtime);

/// A runtime of one thread, which stays away from what comes as `wakes` has it.
///
/// # Errors
/// When the system has no more of what it needs.
pub fn single_threaded(wakes: Option<Wakes>) -> io::Result<OneThread> {
    let mut builder = Builder::new_current_thread();
    builder.enable_all();
    let Some(wakes) = wakes else {
        return builder.on_thread_park(lines::send).build().map(OneThread);
    };
    let (clock, wakes) = (Clock::system(), Arc::new(Mutex::new(wakes)));
    let now = move || clock.now().mono;
    let (now_awake, woken) = (now.clone(), Arc::clone(&wakes));
    builder.on_thread_park(move || {
        lines::send();
        let rest = lock(&wakes).done(now());
        if !rest.is_zero() {
            #[expect(
                clippy::disallowed_methods,
                reason = "the one thread has nothing to do, and is to do nothing"
            )]
            std::thread::sleep(rest);
        }
    });
    builder.on_thread_unpark(move || lock(&woken).woke(now_awake()));
    builder.build().map(OneThread)
}

// === impl OneThread ===

impl OneThread {
    /// Drives `work` to its end, on this thread. What is said in the log meanwhile leaves when there is nothing else to do.
    pub fn block_on<F: Future>(self, work: F) -> F::Output {
        let _keeping = lines::keep();
        self.0.block_on(work)
    }
}

fn lock(wakes: &Mutex<Wakes>) -> MutexGuard<'_, Wakes> {
    wakes.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: f64 = 32.0;
    const INTERVAL: Duration = Duration::from_nanos(31_250_000);

    fn at(micros: u64) -> Mono {
        Mono::from_origin(Duration::from_micros(micros))
    }

    /// Plays what keeps a process busy for `work` whenever it looks, `every` so often, for ten seconds: how often it woke, and how long
    /// it stayed away at most.
    fn play(every: Duration, work: Duration) -> (u32, Duration) {
        let mut wakes = Wakes::new(RATE).expect("a rate");
        let (mut now, mut count, mut longest) = (at(0), 0, Duration::ZERO);
        while now < at(10_000_000) {
            wakes.woke(now);
            count += 1;
            now = now + work;
            let rest = wakes.done(now);
            longest = longest.max(rest);
            now = now + rest.max(every);
        }
        (count, longest)
    }

    #[test]
    fn who_is_woken_often_stays_away_and_who_is_not_never_does() {
        let micros = Duration::from_micros;
        let cases = [
            ("an answer each 0.4 ms", micros(400), micros(100), 320 + BURST, true),
            ("a look each 125 ms", micros(125_000), micros(400), 80, false),
            (
                "a list that comes as fast as it is read",
                micros(100),
                micros(1_500),
                6_250,
                false,
            ),
        ];
        for (what, every, work, wanted, waits) in cases {
            let (count, longest) = play(every, work);
            assert!(count.abs_diff(wanted) <= wanted / 20, "{what}: woke {count} times");
            assert_eq!(longest > Duration::ZERO, waits, "{what}: stayed away for {longest:?}");
            assert!(longest <= INTERVAL, "{what}: stayed away for {longest:?}");
        }
    }

    #[test]
    fn after_a_pause_a_burst_meets_nobody_who_is_away() {
        let mut wakes = Wakes::new(RATE).expect("a rate");
        for start in [0, 60_000_000] {
            let mut away = (0..=u64::from(BURST)).map(|turn| {
                let now = at(start + turn);
                wakes.woke(now);
                wakes.done(now)
            });
            let last = away.find(|rest| !rest.is_zero());
            assert!(last.is_some() && away.next().is_none());
        }
    }

    /// Without turns it would take some 50 ms; with them it cannot take less than 240, however fast the machine is.
    #[test]
    fn a_runtime_stays_away_and_does_its_work() {
        const TURNS: u32 = 40;
        let clock = Clock::system();
        let runtime = single_threaded(Wakes::new(100.0)).expect("a runtime");
        let before = clock.now().mono;
        runtime.block_on(async {
            for _ in 0..TURNS {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        let took = clock.now().mono.saturating_since(before);
        assert!(took >= Duration::from_millis(10) * (TURNS - BURST - 1), "{took:?}");
    }

    #[test]
    fn what_is_no_rate_is_no_limit() {
        assert!([0.0, -1.0, f64::NAN].into_iter().all(|rate| Wakes::new(rate).is_none()));
    }
}
