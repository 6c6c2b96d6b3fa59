//! Which waiting request goes next.
//!
//! By urgency: what a node lacks goes before rollouts, which have slots of their own, so that none of them is in the way. Within one
//! urgency DaemonSets take turns, and none may have more requests under way than there are slots left for all others: one whose
//! requests hang gets half of them, two get two thirds, and somebody else's request always finds one.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::effect::Urgency;

/// Requests that wait, and how many are under way.
///
/// # Guarantees
/// - At most `most` requests for pods that nodes lack are under way, and at most as many others.
/// - Taking one costs the logarithm of what waits, and a step per DaemonSet that has its share already: fewer than `most`.
/// - What waits is bounded by the core: 250 pod requests of a kind per DaemonSet, and a few more.
#[derive(Debug)]
pub struct Lanes<T> {
    /// For what nodes lack, and for everything else.
    pools: [Pool<T>; 2],
    most: usize,
}

/// A request whose turn it is.
#[derive(Debug)]
pub struct Turn<T> {
    /// The request.
    pub request: T,
    /// Gives the slot back.
    pub ticket: Ticket,
}

/// A slot that is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    owner: Arc<str>,
    pool: usize,
}

#[derive(Debug)]
struct Pool<T> {
    waiting: BTreeMap<Urgency, Queues<T>>,
    /// Requests under way, by the DaemonSet they are for.
    under_way: BTreeMap<Arc<str>, usize>,
    taken: usize,
}

/// Waiting requests of one urgency, by the DaemonSet they are for.
#[derive(Debug)]
struct Queues<T> {
    turns: VecDeque<Arc<str>>,
    queues: BTreeMap<Arc<str>, VecDeque<T>>,
}

impl<T> Default for Queues<T> {
    fn default() -> Self {
        Self {
            turns: VecDeque::new(),
            queues: BTreeMap::new(),
        }
    }
}

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self {
            waiting: BTreeMap::new(),
            under_way: BTreeMap::new(),
            taken: 0,
        }
    }
}

impl<T> Lanes<T> {
    /// Nothing waits, and `most` (at least one) slots are free of each kind.
    pub fn new(most: usize) -> Self {
        Self {
            pools: [Pool::default(), Pool::default()],
            most: most.max(1),
        }
    }

    /// Adds a request for the DaemonSet of this uid.
    pub fn push(&mut self, urgency: Urgency, owner: &Arc<str>, request: T) {
        let pool = &mut self.pools[usize::from(urgency > Urgency::Missing)];
        let queues = pool.waiting.entry(urgency).or_default();
        let queue = queues.queues.entry(owner.clone()).or_default();
        if queue.is_empty() {
            queues.turns.push_back(owner.clone());
        }
        queue.push_back(request);
    }

    /// Takes the next request that may begin.
    pub fn pop(&mut self) -> Option<Turn<T>> {
        let most = self.most;
        (0..).zip(&mut self.pools).find_map(|(index, pool)| {
            let (owner, request) = pool.pop(most)?;
            let ticket = Ticket { owner, pool: index };
            Some(Turn { request, ticket })
        })
    }

    /// A request has ended.
    pub fn done(&mut self, ticket: &Ticket) {
        let pool = &mut self.pools[ticket.pool];
        if let Some(under_way) = pool.under_way.get_mut(&ticket.owner) {
            *under_way -= 1;
            pool.taken -= 1;
            if *under_way == 0 {
                pool.under_way.remove(&ticket.owner);
            }
        }
    }

    /// True if a request may begin.
    pub fn has_next(&self) -> bool {
        self.pools.iter().any(|pool| pool.has_next(self.most))
    }

    /// Takes out what waits and is not wanted any more. Costs what waits.
    pub fn take_out(&mut self, mut is_unwanted: impl FnMut(&T) -> bool) -> Vec<T> {
        let mut taken = Vec::new();
        for queues in self.pools.iter_mut().flat_map(|pool| pool.waiting.values_mut()) {
            for queue in queues.queues.values_mut() {
                for request in std::mem::take(queue) {
                    if is_unwanted(&request) {
                        taken.push(request);
                    } else {
                        queue.push_back(request);
                    }
                }
            }
            queues.queues.retain(|_, queue| !queue.is_empty());
            let left = &queues.queues;
            queues.turns.retain(|owner| left.contains_key(owner));
        }
        taken
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        let queues = self.pools.iter().flat_map(|pool| pool.waiting.values());
        queues.flat_map(|queues| queues.queues.values()).map(VecDeque::len).sum()
    }

    /// Forgets what waits.
    pub fn clear(&mut self) {
        for pool in &mut self.pools {
            pool.waiting.clear();
        }
    }
}

impl<T> Pool<T> {
    fn has_next(&self, most: usize) -> bool {
        let free = most.saturating_sub(self.taken);
        let may_begin = |owner: &Arc<str>| self.under_way.get(owner).copied().unwrap_or(0) < free;
        self.waiting.values().any(|queues| queues.turns.iter().any(may_begin))
    }

    fn pop(&mut self, most: usize) -> Option<(Arc<str>, T)> {
        let free = most.saturating_sub(self.taken);
        let under_way = &self.under_way;
        let has_share = |owner: &Arc<str>| under_way.get(owner).copied().unwrap_or(0) >= free;
        let (owner, request) = self.waiting.values_mut().find_map(|queues| queues.pop(has_share))?;
        *self.under_way.entry(owner.clone()).or_default() += 1;
        self.taken += 1;
        Some((owner, request))
    }
}

impl<T> Queues<T> {
    /// Takes the first request of the first DaemonSet that does not have its share; its next turn is behind all others.
    fn pop(&mut self, has_share: impl Fn(&Arc<str>) -> bool) -> Option<(Arc<str>, T)> {
        let index = self.turns.iter().position(|owner| !has_share(owner))?;
        let owner = self.turns.remove(index)?;
        let queue = self.queues.get_mut(&owner)?;
        let request = queue.pop_front()?;
        if queue.is_empty() {
            self.queues.remove(&owner);
        } else {
            self.turns.push_back(owner.clone());
        }
        Some((owner, request))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Urgency::{ClusterCritical, Missing, NodeCritical, Replacing, Routine};

    fn mk(most: usize, requests: &[(Urgency, &str, u32)]) -> Lanes<u32> {
        let mut lanes = Lanes::new(most);
        for (urgency, owner, number) in requests {
            lanes.push(*urgency, &Arc::from(*owner), *number);
        }
        lanes
    }

    /// Lanes: missing pods before rollouts, critical ones first, DaemonSets in turns.
    #[test]
    fn what_is_critical_goes_first_and_owners_take_turns() {
        let requests = [
            (Routine, "a", 1),
            (Routine, "a", 2),
            (Routine, "a", 3),
            (Missing, "a", 4),
            (Missing, "a", 5),
            (Missing, "b", 6),
            (ClusterCritical, "c", 7),
            (NodeCritical, "d", 8),
            (Routine, "b", 9),
            (Replacing, "a", 10),
        ];
        let mut lanes = mk(1, &requests);
        let mut order = Vec::new();
        while let Some(turn) = lanes.pop() {
            order.push(turn.request);
            lanes.done(&turn.ticket);
        }
        assert_eq!(order, [8, 7, 4, 6, 5, 10, 1, 9, 2, 3]);
        assert_eq!(lanes.waiting(), 0);
    }

    /// Lanes: requests that never end hold up nobody else's, however many DaemonSets they are of.
    #[test]
    fn requests_that_hang_leave_room_for_others() {
        for (hanging, left) in [(1, 6), (2, 4), (3, 3), (5, 2)] {
            let mut lanes = Lanes::new(12);
            for number in 0..hanging * 100 {
                lanes.push(Missing, &Arc::from(format!("broken{}", number % hanging)), number);
            }
            let mut begun = 0;
            while lanes.pop().is_some() {
                begun += 1;
            }
            assert_eq!(begun, 12 - left, "{hanging} of them hang");
            for number in 0..1000 {
                lanes.push(Missing, &Arc::from("fine"), number);
                let turn = lanes.pop().expect("there is room");
                assert_eq!((turn.request, &*turn.ticket.owner), (number, "fine"));
                lanes.done(&turn.ticket);
            }
        }
    }

    /// Lanes: whatever was under way before, a slot that is given back is free, and what waits is told as it is.
    #[test]
    fn a_slot_that_is_given_back_is_free_again() {
        let mut lanes = Lanes::new(4);
        for round in 0..10 {
            for number in 0..3 {
                lanes.push(Missing, &Arc::from("a"), number);
            }
            assert_eq!((lanes.waiting(), lanes.has_next()), (3, true), "round {round}");
            let begun: Vec<_> = std::iter::from_fn(|| lanes.pop()).collect();
            assert_eq!(
                (begun.len(), lanes.waiting(), lanes.has_next()),
                (2, 1, false),
                "half of them"
            );
            for turn in begun {
                lanes.done(&turn.ticket);
                assert!(lanes.has_next());
            }
            let last = lanes.pop().expect("there is room again");
            lanes.done(&last.ticket);
        }
    }

    /// Pause: what is taken out leaves its turn to others.
    #[test]
    fn what_is_not_wanted_leaves_the_line() {
        let requests = [
            (Routine, "a", 1),
            (Routine, "a", 2),
            (Routine, "b", 3),
            (Missing, "b", 4),
            (Routine, "c", 5),
        ];
        let mut lanes = mk(1, &requests);
        assert_eq!(lanes.take_out(|number| [1, 3, 4].contains(number)), [4, 1, 3]);
        let mut order = Vec::new();
        while let Some(turn) = lanes.pop() {
            order.push(turn.request);
            lanes.done(&turn.ticket);
        }
        assert_eq!((order, lanes.has_next()), (vec![2, 5], false));
    }

    /// Lanes: rollouts take no slot of what nodes lack.
    #[test]
    fn rollouts_take_no_room_of_missing_pods() {
        let mut lanes = Lanes::new(4);
        for number in 0..100 {
            lanes.push(Routine, &Arc::from(format!("set{number}")), number);
        }
        let begun = std::iter::from_fn(|| lanes.pop()).count();
        assert_eq!(begun, 4);
        lanes.push(Missing, &Arc::from("set0"), 1000);
        assert_eq!(lanes.pop().map(|turn| turn.request), Some(1000));
        assert!(!lanes.has_next());
        lanes.clear();
        assert_eq!(lanes.waiting(), 0);
    }
}
