//! Why the monitor holds a zone, as the records of its nodes say one by one.

use std::collections::{BTreeMap, BTreeSet};

use bailiff_model::{Hold, NodeName, Wall};

/// The holds in the health records of one zone's nodes. Mostly they are one and the same; where they are not, the one that lasts longest
/// stands for all: it is the last to end.
#[derive(Clone, Debug, Default)]
pub(in crate::evictor) struct Monitored {
    by_node: BTreeMap<NodeName, Hold>,
    by_end: BTreeSet<(Wall, NodeName)>,
}

impl Monitored {
    /// The node's record says this.
    pub(super) fn set(&mut self, name: &NodeName, hold: Option<Hold>) {
        let end = hold.as_ref().map(end_of);
        let before = match hold {
            Some(hold) => self.by_node.insert(name.clone(), hold),
            None => self.by_node.remove(name),
        };
        if let Some(before) = before {
            self.by_end.remove(&(end_of(&before), name.clone()));
        }
        self.by_end.extend(end.map(|end| (end, name.clone())));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_node.is_empty()
    }

    /// The one that lasts longest.
    pub(super) fn last(&self) -> Option<&Hold> {
        let (_, name) = self.by_end.last()?;
        self.by_node.get(name)
    }
}

/// One of which nobody knows when it ends may outlast every other.
fn end_of(hold: &Hold) -> Wall {
    hold.until.unwrap_or(Wall::MAX)
}

#[cfg(test)]
mod tests {
    use bailiff_model::HoldReason;

    use super::*;

    fn mk_hold(until: Option<i64>) -> Hold {
        Hold {
            reason: HoldReason::CorrelatedLoss,
            detail: String::new(),
            since: Wall::UNIX_EPOCH,
            until: until.map(|second| Wall::from_second(second).expect("in range")),
        }
    }

    #[test]
    fn the_hold_that_lasts_longest_stands_for_all() {
        let mut zone = Monitored::default();
        // What each record says, and until when the zone is held then.
        let steps = [
            ("a", Some(Some(10)), Some(Some(10))),
            ("b", Some(Some(30)), Some(Some(30))),
            ("c", Some(Some(20)), Some(Some(30))),
            ("b", Some(Some(5)), Some(Some(20))),
            ("a", Some(None), Some(None)),
            ("a", None, Some(Some(20))),
            ("c", None, Some(Some(5))),
            ("b", None, None),
        ];
        for (name, says, wanted) in steps {
            zone.set(&NodeName::from(name), says.map(mk_hold));
            let until = zone.last().map(|hold| hold.until.map(Wall::as_second));
            assert_eq!(until, wanted, "{name} says {says:?}");
        }
        assert!(zone.is_empty() && zone.by_end.is_empty());
    }
}
