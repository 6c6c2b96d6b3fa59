//! Which old pods stay: those of the last nodes in the order of the rollout, as many as are asked for.

use std::collections::BTreeSet;

use bailiff_model::NodeName;

use crate::policy::Place;

/// Nodes with an old pod, cut in two. All of the head are before all of the tail. Every operation costs the logarithm of the number of
/// nodes, and one step per node that crosses the cut.
#[derive(Debug, Default)]
pub(super) struct Partition {
    head: BTreeSet<Place>,
    tail: BTreeSet<Place>,
}

impl Partition {
    /// True if the old pod there stays.
    pub(super) fn keeps(&self, place: &Place) -> bool {
        self.tail.contains(place)
    }

    /// Adds a node with an old pod. Returns true if that is news and the pod stays.
    pub(super) fn insert(&mut self, place: &Place) -> bool {
        if self.tail.first().is_some_and(|first| first < place) {
            self.tail.insert(place.clone())
        } else {
            // It may be the first of the tail itself.
            if !self.tail.contains(place) {
                self.head.insert(place.clone());
            }
            false
        }
    }

    /// Takes a node out that has no old pod any more.
    pub(super) fn remove(&mut self, place: &Place) {
        if !self.head.remove(place) {
            self.tail.remove(place);
        }
    }

    /// Makes so many stay; returns those for which that is news.
    pub(super) fn resize(&mut self, kept: usize) -> Vec<NodeName> {
        let mut moved = Vec::new();
        while self.tail.len() > kept {
            let Some(first) = self.tail.pop_first() else { break };
            moved.push(first.node.clone());
            self.head.insert(first);
        }
        while self.tail.len() < kept {
            let Some(last) = self.head.pop_last() else { break };
            moved.push(last.node.clone());
            self.tail.insert(last);
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Rank;

    fn mk(number: u64) -> Place {
        let node = NodeName::from(format!("n{number}").as_str());
        let rank = Rank::Number(number);
        Place { rank, node }
    }

    fn kept(partition: &Partition) -> Vec<u64> {
        (0..20).filter(|number| partition.keeps(&mk(*number))).collect()
    }

    /// Rollout-partition: the last nodes in order keep their pods, whoever comes and goes.
    #[test]
    fn the_last_ones_stay() {
        let mut partition = Partition::default();
        assert_eq!(partition.resize(3), []);
        for number in [5, 1, 9, 3, 7] {
            partition.insert(&mk(number));
        }
        assert_eq!(partition.resize(3).len(), 3);
        assert_eq!(kept(&partition), [5, 7, 9]);
        assert!(partition.insert(&mk(8)), "it stays from the first moment on");
        assert!(!partition.insert(&mk(8)), "no news");
        assert!(!partition.insert(&mk(5)), "no news");
        assert_eq!(partition.resize(3), [NodeName::from("n5")]);
        assert!(!partition.insert(&mk(2)));
        assert_eq!((kept(&partition), partition.head.len()), (vec![7, 8, 9], 4));
        partition.remove(&mk(9));
        assert_eq!(partition.resize(3), [NodeName::from("n5")]);
        assert_eq!(kept(&partition), [5, 7, 8]);
        assert_eq!(partition.resize(0).len(), 3);
        assert_eq!((kept(&partition), partition.head.len()), (vec![], 6));
    }
}
