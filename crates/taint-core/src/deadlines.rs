//! One structure of all moments at which something is due.

use bailiff_model::timers::Keyed;
use bailiff_model::{Mono, NodeName, PodUid};

/// What is due.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Timer {
    /// What is not known of node-health is not waited for any longer.
    Complete,
    /// Nor what the monitor holds.
    Marks,
    /// A pod's toleration time ends.
    Pod(PodUid),
    /// A node's eviction timeout ends (node mode).
    Node(NodeName),
    /// A node patch may be tried again, or was not seen on the watch in time.
    NodeWrite(NodeName),
    /// A pod mark may be tried again.
    PodMark(PodUid),
}

/// Deadlines, at most one per [`Timer`].
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    all: Keyed<Timer>,
    announced: Option<Mono>,
}

impl Deadlines {
    /// Sets, or moves, the deadline of `timer`.
    pub(crate) fn set(&mut self, timer: Timer, at: Mono) {
        self.all.set(timer, at);
    }

    /// Removes the deadline of `timer`, if there is one.
    pub(crate) fn cancel(&mut self, timer: &Timer) {
        self.all.clear(timer);
    }

    /// Takes the earliest timer that is due.
    pub(crate) fn pop(&mut self, now: Mono) -> Option<Timer> {
        self.announced = None;
        self.all.pop_due(now)
    }

    /// The earliest deadline, if it was not said before.
    pub(crate) fn announce(&mut self) -> Option<Mono> {
        let earliest = self.all.first()?;
        if self.announced == Some(earliest) {
            return None;
        }
        self.announced = Some(earliest);
        Some(earliest)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn mk_mono(seconds: u64) -> Mono {
        Mono::from_origin(Duration::from_secs(seconds))
    }

    #[test]
    fn timers_come_in_order_and_a_moved_one_comes_once() {
        let timer = |name: &str| Timer::Pod(PodUid::from(name));
        let mut deadlines = Deadlines::default();
        deadlines.set(timer("a"), mk_mono(1));
        deadlines.set(timer("b"), mk_mono(2));
        deadlines.set(timer("c"), Mono::FAR_FUTURE);
        assert_eq!(deadlines.announce(), Some(mk_mono(1)));
        assert_eq!(deadlines.announce(), None);
        deadlines.set(timer("a"), mk_mono(3));
        assert_eq!(deadlines.announce(), Some(mk_mono(2)));
        assert_eq!(deadlines.pop(mk_mono(1)), None);
        assert_eq!(deadlines.pop(mk_mono(9)), Some(timer("b")));
        assert_eq!(deadlines.pop(mk_mono(9)), Some(timer("a")));
        assert_eq!(deadlines.pop(mk_mono(9)), None);
        deadlines.cancel(&timer("c"));
        assert_eq!(deadlines.announce(), None);
    }
}
