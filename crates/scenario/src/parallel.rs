//! Many worlds, several at a time. Each runs on one thread, so they do not know of each other.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

/// Worlds nest futures deeply in builds without optimisation; the usual 2 MiB of a thread would do, just about.
const STACK: usize = 16 << 20;

/// How many worlds this machine can run at the same time.
pub fn jobs() -> NonZeroUsize {
    thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// Works on `items`, at most `jobs` at a time, and tells what came of each, in their order.
pub fn each<T: Sync, R: Send>(items: &[T], jobs: NonZeroUsize, work: impl Fn(&T) -> R + Sync, mut done: impl FnMut(usize, R)) {
    let next = AtomicUsize::new(0);
    let (results, finished) = mpsc::sync_channel(jobs.get());
    thread::scope(|scope| {
        for _ in 0..jobs.get().min(items.len()) {
            let (next, work, results) = (&next, &work, results.clone());
            let worker = move || {
                while let Some((nth, item)) = take(next, items) {
                    if results.send((nth, work(item))).is_err() {
                        return;
                    }
                }
            };
            thread::Builder::new()
                .stack_size(STACK)
                .spawn_scoped(scope, worker)
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

fn take<'a, T>(next: &AtomicUsize, items: &'a [T]) -> Option<(usize, &'a T)> {
    let nth = next.fetch_add(1, Ordering::Relaxed);
    Some((nth, items.get(nth)?))
}
