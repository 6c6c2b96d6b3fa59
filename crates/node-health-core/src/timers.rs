//! One ordered set of deadlines, at most one per node.

use std::collections::BTreeSet;

use bailiff_model::{Mono, NodeName};

/// Deadlines in order. The owner keeps each node's own deadline and passes it in, so that nothing is looked up by name.
#[derive(Debug, Default)]
pub(crate) struct Timers(BTreeSet<(Mono, NodeName)>);

impl Timers {
    /// Moves a node's deadline from `old` to `new`; O(log n), nothing if they are equal.
    pub(crate) fn set(&mut self, name: &NodeName, old: &mut Option<Mono>, new: Option<Mono>) {
        if *old == new {
            return;
        }
        if let Some(at) = old.take() {
            self.0.remove(&(at, name.clone()));
        }
        if let Some(at) = new {
            self.0.insert((at, name.clone()));
        }
        *old = new;
    }

    /// Takes the first deadline that is not after `now`. The owner forgets the node's own.
    pub(crate) fn pop_due(&mut self, now: Mono) -> Option<NodeName> {
        if self.0.first()?.0 > now {
            return None;
        }
        self.0.pop_first().map(|(_, name)| name)
    }

    /// The first deadline.
    pub(crate) fn first(&self) -> Option<Mono> {
        self.0.first().map(|(at, _)| *at)
    }

    /// Forgets all; the owner forgets the nodes' own.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn deadlines_come_in_order_move_and_are_forgotten() {
        let at = |seconds| Mono::from_origin(Duration::from_secs(seconds));
        let [a, b] = ["a", "b"].map(NodeName::from);
        let (mut of_a, mut of_b) = (None, None);
        let mut timers = Timers::default();
        timers.set(&a, &mut of_a, Some(at(5)));
        timers.set(&b, &mut of_b, Some(at(7)));
        timers.set(&a, &mut of_a, Some(at(9)));
        assert_eq!((timers.first(), of_a), (Some(at(7)), Some(at(9))));
        assert_eq!(timers.pop_due(at(6)), None);
        assert_eq!(timers.pop_due(at(7)), Some(b), "due at its very time");
        timers.set(&a, &mut of_a, None);
        assert_eq!((timers.first(), of_a), (None, None));
        timers.set(&a, &mut of_a, Some(at(5)));
        timers.clear();
        assert_eq!((timers.first(), timers.pop_due(at(100))), (None, None));
    }
}
