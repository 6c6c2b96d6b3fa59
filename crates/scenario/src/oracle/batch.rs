//! Many scenarios, several at a time. Each has a world of its own, so they do not know of each other.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use super::differences::Profile;
use super::file::Scenario;
use super::play::{Error, Played, play};

/// Worlds nest futures deeply in builds without optimisation; the usual 2 MiB of a thread would do, just about.
const STACK: usize = 16 << 20;

/// How many worlds this machine can run at the same time.
pub fn jobs() -> NonZeroUsize {
    thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// Plays `scenarios`, at most `jobs` at a time, and tells what came of each, in their order.
pub fn play_all(
    scenarios: &[Scenario],
    profile: Profile,
    seed: u64,
    jobs: NonZeroUsize,
    mut done: impl FnMut(usize, Result<Played, Error>),
) {
    let next = AtomicUsize::new(0);
    let (results, finished) = mpsc::sync_channel(jobs.get());
    thread::scope(|scope| {
        for _ in 0..jobs.get().min(scenarios.len()) {
            let (next, results) = (&next, results.clone());
            let work = move || {
                while let Some((nth, scenario)) = take(next, scenarios) {
                    if results.send((nth, play(scenario, profile, seed))).is_err() {
                        return;
                    }
                }
            };
            thread::Builder::new()
                .stack_size(STACK)
                .spawn_scoped(scope, work)
                .expect("the system has a thread for each of its processors");
        }
        drop(results);
        let mut waiting = BTreeMap::new();
        let mut told = 0;
        for (nth, result) in finished {
            waiting.insert(nth, result);
            while let Some(result) = waiting.remove(&told) {
                done(told, result);
                told += 1;
            }
        }
    });
}

fn take<'a>(next: &AtomicUsize, scenarios: &'a [Scenario]) -> Option<(usize, &'a Scenario)> {
    let nth = next.fetch_add(1, Ordering::Relaxed);
    Some((nth, scenarios.get(nth)?))
}
