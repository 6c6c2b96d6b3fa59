//! The one thread of a service, and how it sleeps.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::{Builder, Runtime};

use super::outlook::Asked;
use super::{Wakes, outlook, work};
use crate::Clock;
use crate::telemetry::lines;

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
        let rest = lock(&wakes).done(now(), work::took(), outlook::due_in(), Asked::now());
        if !rest.is_zero() {
            #[expect(
                clippy::disallowed_methods,
                reason = "the one thread has nothing to do, and is to do nothing"
            )]
            std::thread::sleep(rest);
        }
    });
    builder.on_thread_unpark(move || {
        work::begin();
        lock(&woken).woke(now_awake());
    });
    builder.build().map(OneThread)
}

// === impl OneThread ===

impl OneThread {
    /// Drives `work` to its end, on this thread. What is said in the log meanwhile leaves when there is nothing else to do. What blocks
    /// beside it by then is not waited for: a credential plugin or the look-up of a name takes as long as it likes.
    pub fn block_on<F: Future>(self, work: F) -> F::Output {
        let _keeping = lines::keep();
        work::begin();
        let output = self.0.block_on(work);
        self.0.shutdown_background();
        output
    }
}

fn lock(wakes: &Mutex<Wakes>) -> MutexGuard<'_, Wakes> {
    wakes.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use tokio::sync::oneshot;
    use tokio::task::spawn_blocking;

    use super::*;

    #[test]
    fn who_blocks_at_the_end_is_not_waited_for() {
        let (release, never) = mpsc::channel::<()>();
        let (is_over, over) = mpsc::channel();
        std::thread::spawn(move || {
            let (begin, begun) = oneshot::channel();
            let work = async {
                drop(spawn_blocking(move || begin.send(()).map(|()| never.recv())));
                begun.await.expect("it begins");
            };
            single_threaded(None).expect("a runtime").block_on(work);
            is_over.send(()).expect("somebody waits");
        });
        // For as long as a test may hang.
        assert_eq!(over.recv_timeout(Duration::from_secs(60)), Ok(()));
        drop(release);
    }
}
