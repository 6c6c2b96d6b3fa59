//! What upstream's queues remember of a node and ours do not, for its profile: turns that are had once, places that nobody gives up.

use bailiff_model::{NodeName, Now, Profile, Zone};

use super::super::Evictor;
use super::Node;
use crate::queue::Place;

/// Upstream queues a node once per zone while it is unhealthy, also if it has the taint already, and forgets no place when it moves.
#[derive(Clone, Debug, Default)]
pub(in crate::evictor) struct Turns {
    /// Zones in which it had its turn (NL-080).
    had: Vec<Zone>,
    /// Places in the queues of zones that it left (NL-026).
    left: Vec<(Zone, Place)>,
    /// The taints that it had when all zones went down are to go (NL-097).
    disrupted: bool,
}

impl Turns {
    /// It waits in the queue of a zone that it left.
    pub(super) fn is_waiting(&self) -> bool {
        !self.left.is_empty()
    }

    /// The taints that it had are off.
    pub(super) const fn cleared(&mut self) {
        self.disrupted = false;
    }

    /// It had its turn in `zone`.
    pub(super) fn had_one(&mut self, zone: &Zone) {
        if !self.had.contains(zone) {
            self.had.push(zone.clone());
        }
    }
}

impl Evictor {
    /// The right taint stands, but not by a turn of the node in its zone: upstream stamps it again when that comes (NL-072, NL-078).
    pub(super) fn owes_a_turn(&self, name: &NodeName) -> bool {
        let owes = |node: &Node| {
            node.zone()
                .is_some_and(|zone| !node.upstream.as_ref().is_some_and(|turns| turns.had.contains(zone)))
        };
        self.config.profile == Profile::Upstream && self.nodes.get(name).is_some_and(|node| owes(node))
    }

    /// All zones went down.
    pub(in crate::evictor) fn disrupt(&mut self, name: &NodeName) {
        if let Some(node) = self.nodes.get_mut(name) {
            node.upstream.get_or_insert_default().disrupted = true;
        }
    }

    /// While all zones are down no health taint stands. Upstream takes them off when that begins; what somebody puts there afterwards
    /// stays (NL-097, NL-098).
    pub(super) fn clears_for_disruption(&self, name: &NodeName) -> bool {
        let began_with = || {
            self.nodes
                .get(name)
                .is_some_and(|node| node.upstream.as_ref().is_some_and(|turns| turns.disrupted))
        };
        self.all_down && (self.config.profile == Profile::Bailiff || began_with())
    }

    /// It is ready, or all zones are down: the turns that it had count no longer.
    pub(super) fn forget_turns(&mut self, name: &NodeName) {
        if let Some(turns) = self.nodes.get_mut(name).and_then(|node| node.upstream.as_mut()) {
            turns.had.clear();
        }
    }

    /// Upstream takes a node that is ready out of the queue of the zone that it is in, and of no other (NL-074, NL-026): where it was
    /// it has its turn, which changes nothing and costs a token.
    pub(super) fn leave_own_queue(&mut self, name: &NodeName, now: Now) {
        let node = self.nodes.get(name);
        let Some(zone) = node.and_then(|node| node.facts.as_ref()).map(|facts| facts.zone.clone()) else {
            return self.leave_queue(name, now);
        };
        if node.is_some_and(|node| node.place.as_ref().is_some_and(|place| place.0 != zone)) {
            self.leave_queue_wait(name, &zone, now);
            self.move_away(name, &zone, now);
        } else {
            self.leave_queue(name, now);
        }
    }

    /// Upstream's queue does not notice that a node is gone, and spends a token on it (NL-033, NL-081).
    pub(super) fn keeps_the_place_of_the_gone(&mut self, name: &NodeName) -> bool {
        let place = self.nodes.get(name).and_then(|node| node.place.clone());
        let Some((zone, place)) = place.filter(|_| self.config.profile == Profile::Upstream).map(|place| *place) else {
            return false;
        };
        if let Some(entry) = self.zones.get_mut(&zone) {
            entry.queue.put(&place, true);
            self.changed_zones.insert(zone);
        }
        true
    }

    /// The node waits in `zone` from now on; in upstream's profile it also waits where it was (NL-026).
    pub(super) fn move_away(&mut self, name: &NodeName, zone: &Zone, now: Now) {
        let stays = self.config.profile == Profile::Upstream;
        let Some(node) = self.nodes.get_mut(name) else {
            return;
        };
        match node.place.take_if(|place| stays && place.0 != *zone).map(|place| *place) {
            Some((old, place)) => {
                if let Some(entry) = self.zones.get_mut(&old) {
                    entry.queue.put(&place, true);
                    node.upstream.get_or_insert_default().left.push((old.clone(), place));
                    self.changed_zones.insert(old);
                }
            }
            None => self.leave_queue(name, now),
        }
    }

    /// Its turn in the queue of `zone` has come.
    pub(super) fn take_place(&mut self, zone: &Zone, name: &NodeName, now: Now) {
        let Some(node) = self.nodes.get_mut(name) else {
            return;
        };
        let turns = node.upstream.get_or_insert_default();
        turns.had_one(zone);
        match turns.left.iter().position(|(old, _)| old == zone) {
            Some(nth) => {
                let (zone, place) = turns.left.remove(nth);
                self.remove_place(zone, &place);
            }
            None => self.leave_queue(name, now),
        }
    }
}
