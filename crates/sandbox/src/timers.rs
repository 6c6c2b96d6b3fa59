//! Deadlines of a state machine that serves many nodes and pods from one task.
//!
//! Responsible for order only: which deadline comes next, and in which order deadlines of the same moment were armed. It reads no
//! clock and wakes nobody; a driver asks [`Timers::next`] and sleeps.

use std::collections::BTreeMap;

use bailiff_model::Mono;

/// Deadlines with something to remember at each.
#[derive(Debug)]
pub struct Timers<T> {
    by_time: BTreeMap<TimerId, T>,
    armed: u64,
}

/// One armed deadline. Equal moments are told apart, and ordered, by when they were armed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimerId {
    at: Mono,
    nth: u64,
}

impl TimerId {
    /// When it is due.
    pub fn at(self) -> Mono {
        self.at
    }
}

// === impl Timers ===

impl<T> Default for Timers<T> {
    fn default() -> Self {
        Self {
            by_time: BTreeMap::new(),
            armed: 0,
        }
    }
}

impl<T> Timers<T> {
    /// Arms a deadline.
    pub fn arm(&mut self, at: Mono, what: T) -> TimerId {
        self.armed += 1;
        let id = TimerId { at, nth: self.armed };
        self.by_time.insert(id, what);
        id
    }

    /// Disarms a deadline; one that has fired already is ignored. Leaves `None` behind.
    pub fn cancel(&mut self, id: &mut Option<TimerId>) {
        if let Some(id) = id.take() {
            self.by_time.remove(&id);
        }
    }

    /// The next deadline.
    pub fn next(&self) -> Option<Mono> {
        self.by_time.first_key_value().map(|(id, _)| id.at)
    }

    /// Takes the earliest deadline that is due.
    pub fn pop(&mut self, now: Mono) -> Option<(TimerId, T)> {
        if self.next()? > now {
            return None;
        }
        self.by_time.pop_first()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(seconds: u64) -> Mono {
        Mono::from_origin(Duration::from_secs(seconds))
    }

    #[test]
    fn deadlines_fire_by_time_then_in_the_order_they_were_armed() {
        let mut timers = Timers::default();
        timers.arm(at(2), "c");
        timers.arm(at(1), "a");
        let mut cancelled = Some(timers.arm(at(1), "x"));
        timers.arm(at(1), "b");
        timers.cancel(&mut cancelled);
        assert_eq!(cancelled, None);
        assert_eq!(timers.next(), Some(at(1)));
        assert_eq!(timers.pop(at(0)), None);
        let fired: Vec<_> = std::iter::from_fn(|| timers.pop(at(2)).map(|(_, what)| what)).collect();
        assert_eq!(fired, ["a", "b", "c"]);
        assert_eq!(timers.next(), None);
    }
}
