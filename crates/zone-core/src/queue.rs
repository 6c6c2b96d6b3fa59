//! Who waits for a zone's rate: first unhealthy, first served (design, instead of NL-072's order across passes).

use std::collections::BTreeSet;

use bailiff_model::{NodeName, Wall};

/// A place in the queue: since when the node is unhealthy, then its name.
pub type Place = (Wall, NodeName);

/// The waiting nodes of one zone.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    waiting: BTreeSet<Place>,
    /// Those that may be granted now; the others wait for something of their own and do not block them.
    eligible: BTreeSet<Place>,
}

impl Queue {
    /// Puts a node in its place; true if it was not there.
    pub fn put(&mut self, place: &Place, eligible: bool) -> bool {
        if eligible {
            self.eligible.insert(place.clone());
        } else {
            self.eligible.remove(place);
        }
        self.waiting.insert(place.clone())
    }

    /// Takes a node out; true if it was there.
    pub fn remove(&mut self, place: &Place) -> bool {
        self.eligible.remove(place);
        self.waiting.remove(place)
    }

    /// The node whose turn it is.
    pub fn first(&self) -> Option<&Place> {
        self.eligible.first()
    }

    /// Waiting nodes.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// The first waiting nodes.
    pub fn iter(&self) -> impl Iterator<Item = &Place> {
        self.waiting.iter()
    }

    /// The node's position, from 1. Counted from the end, where new ones arrive.
    pub fn position(&self, place: &Place) -> usize {
        let behind = self.waiting.range(place..).skip(1).count();
        self.waiting.len().saturating_sub(behind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NL-072, NL-080
    #[test]
    fn the_first_unhealthy_is_first_and_the_unready_do_not_block() {
        let place = |second, name: &str| (Wall::from_second(second).expect("in range"), NodeName::from(name));
        let mut queue = Queue::default();
        assert!(queue.put(&place(2, "b"), true));
        assert!(queue.put(&place(1, "a"), false));
        assert!(queue.put(&place(3, "c"), true));
        assert!(!queue.put(&place(3, "c"), true));
        assert_eq!(queue.first(), Some(&place(2, "b")));
        queue.put(&place(1, "a"), true);
        assert_eq!(queue.first(), Some(&place(1, "a")));
        assert_eq!(
            [1, 2, 3].map(|s| queue.position(&place(s, ["", "a", "b", "c"][s as usize]))),
            [1, 2, 3]
        );
        assert!(queue.remove(&place(1, "a")));
        assert!(!queue.remove(&place(1, "a")));
        assert_eq!(queue.position(&place(3, "c")), 2);
        assert_eq!(queue.len(), 2);
    }
}
