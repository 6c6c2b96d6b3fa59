//! Connections beside the first, for as long as more is under way than that has room for.
//!
//! A further one comes about in the background. Nobody waits for it, and places on it are given only while it is there: if it cannot come
//! about, everything waits for room on the first one, as if there were no others.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::connection::Sender;
use super::{AT_ONCE, CONNECT_WITHIN, FURTHER};

/// After one that did not come about, or ended at once: longer than it takes to know that.
const NEXT_AFTER: Duration = Duration::from_secs(2 * CONNECT_WITHIN.as_secs());

/// Those that are there, and what is known of the next.
#[derive(Default)]
pub(super) struct Further {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    lines: Vec<Arc<Line>>,
    /// One comes about, or did not come about: until then none is tried.
    none_before: Option<Instant>,
}

/// A connection that is there.
#[derive(Debug)]
pub(super) struct Line {
    sender: Sender,
    born: Instant,
    places: Arc<Semaphore>,
    /// It was used since it was last asked.
    is_used: AtomicBool,
    is_gone: AtomicBool,
}

// === impl Further ===

impl Further {
    /// True, once, if there may be another one. Whoever is told so says if it [`came`](Self::came); if not, one is tried again after a
    /// while.
    pub(super) fn may_another_come(&self) -> bool {
        let mut state = self.state();
        let now = Instant::now();
        if state.lines.len() >= FURTHER || state.none_before.is_some_and(|before| now < before) {
            return false;
        }
        state.none_before = Some(now + NEXT_AFTER);
        true
    }

    /// One came about; `places` of all become more.
    pub(super) fn came(&self, sender: Sender, places: &Semaphore) -> Arc<Line> {
        let line = Arc::new(Line {
            sender,
            born: Instant::now(),
            places: Arc::new(Semaphore::new(AT_ONCE)),
            is_used: AtomicBool::new(true),
            is_gone: AtomicBool::new(false),
        });
        let mut state = self.state();
        state.none_before = None;
        state.lines.push(Arc::clone(&line));
        places.add_permits(AT_ONCE);
        line
    }

    /// A place on the first connection or, if that has none, on one of these that is alive. Who looks has one of `places`, and looks while
    /// nobody else does: so there is one, unless a connection ended.
    pub(super) fn place(&self, first: &Arc<Semaphore>, places: &Semaphore) -> Option<(Option<Arc<Line>>, OwnedSemaphorePermit)> {
        let mut state = self.state();
        state.end_those(|line| line.sender.is_closed(), places);
        if let Ok(permit) = Arc::clone(first).try_acquire_owned() {
            return Some((None, permit));
        }
        state.lines.iter().find_map(|line| {
            let permit = Arc::clone(&line.places).try_acquire_owned().ok()?;
            line.is_used.store(true, Ordering::Relaxed);
            Some((Some(Arc::clone(line)), permit))
        })
    }

    /// It is not used any more.
    pub(super) fn end(&self, line: &Arc<Line>, places: &Semaphore) {
        self.state().end_those(|other| Arc::ptr_eq(other, line), places);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl State ===

impl State {
    /// Those that `are_over` are not used any more. If one of them had only just begun, the next would fare no better.
    fn end_those(&mut self, are_over: impl Fn(&Arc<Line>) -> bool, places: &Semaphore) {
        let now = Instant::now();
        self.lines.retain(|line| {
            let is_over = are_over(line);
            if is_over {
                line.go(places);
                if now.duration_since(line.born) < NEXT_AFTER {
                    self.none_before = Some(now + NEXT_AFTER);
                }
            }
            !is_over
        });
    }
}

// === impl Line ===

impl Line {
    pub(super) fn sender(&self) -> Sender {
        self.sender.clone()
    }

    /// Of `places` of all those on it that nobody has are gone; the others go when they are given back. One that is given back just now,
    /// or that somebody has who still looks for it, is one too many: who does not find it takes it away.
    fn go(&self, places: &Semaphore) {
        self.is_gone.store(true, Ordering::Release);
        places.forget_permits(self.places.forget_permits(AT_ONCE));
    }

    pub(super) fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Acquire)
    }

    /// It ended, or nobody has a place on it nor had one since this was last asked.
    pub(super) fn is_idle(&self) -> bool {
        let was_used = self.is_used.swap(false, Ordering::Relaxed);
        self.sender.is_closed() || (!was_used && self.places.available_permits() == AT_ONCE)
    }
}
