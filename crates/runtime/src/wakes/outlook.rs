//! What a process waits for, as far as this thread knows: what its clock makes due, and requests that are not answered.

use std::cell::Cell;
use std::time::Duration;

use tokio::time::Instant;

/// How much later than due tokio's timers fire at most.
const TICK: Duration = Duration::from_millis(1);

thread_local! {
    /// What the clock makes due next for what runs on this thread, if that is known. It may be something that nobody waits for any more.
    static DUE: Cell<Option<Instant>> = const { Cell::new(None) };

    /// Requests of this thread.
    static ASKED: Cell<Asked> = const { Cell::new(Asked { open: 0, answered: 0 }) };
}

/// How many requests there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Asked {
    /// They wait for their answers.
    pub(super) open: u64,
    /// They were answered, or given up.
    pub(super) answered: u64,
}

/// A request that waits for its answer, until it is dropped.
#[derive(Debug)]
pub(crate) struct Waiting(());

// === impl Asked ===

impl Asked {
    /// Those of this thread.
    pub(super) fn now() -> Self {
        ASKED.get()
    }
}

// === impl Waiting ===

impl Waiting {
    pub(crate) fn begin() -> Self {
        let Asked { open, answered } = ASKED.get();
        let open = open.saturating_add(1);
        ASKED.set(Asked { open, answered });
        Self(())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let Asked { open, answered } = ASKED.get();
        // It may end on another thread than it began on, where nobody stays away.
        let (open, answered) = (open.saturating_sub(1), answered.saturating_add(1));
        ASKED.set(Asked { open, answered });
    }
}

/// Something on this thread is due `at`.
pub(crate) fn expect(at: Instant) {
    let earlier = DUE.get().filter(|known| *known < at && *known > Instant::now());
    DUE.set(Some(earlier.unwrap_or(at)));
}

/// In how long something is due by tokio's timers; `None` if nothing is known of it.
pub(super) fn due_in() -> Option<Duration> {
    let (now, at) = (Instant::now(), DUE.get()? + TICK);
    if at <= now {
        DUE.set(None);
        return None;
    }
    Some(at.duration_since(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// They count where they wait.
    #[test]
    fn requests_count_until_they_are_answered() {
        let (first, second) = (Waiting::begin(), Waiting::begin());
        assert_eq!(Asked::now(), Asked { open: 2, answered: 0 });
        drop(first);
        assert_eq!(Asked::now(), Asked { open: 1, answered: 1 });
        drop(second);
        assert_eq!(Asked::now(), Asked { open: 0, answered: 2 });
    }

    /// The earliest counts until it has passed.
    #[tokio::test(start_paused = true)]
    async fn what_is_due_is_known_until_it_was() {
        let (begin, millis) = (Instant::now(), Duration::from_millis);
        assert_eq!(due_in(), None);
        for later in [30, 10, 20] {
            expect(begin + millis(later));
        }
        assert_eq!(due_in(), Some(millis(10) + TICK));
        tokio::time::advance(millis(11)).await;
        expect(begin + millis(40));
        assert_eq!(due_in(), Some(millis(29) + TICK));
        tokio::time::advance(millis(60)).await;
        assert_eq!(due_in(), None);
    }
}
