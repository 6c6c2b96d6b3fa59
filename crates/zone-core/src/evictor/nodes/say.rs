//! What is published about a node.
//!
//! A position is published when the node enters the queue and when its reason to wait changes; not each time the queue moves, which
//! would make every grant cost the length of the queue. `expected_at` was computed for that moment; the zone's record has the rate,
//! the last grant and the queue's length to do better.

use bailiff_model::outcome::{NodeOutcome, NodeOutcomeState, Outcome};
use bailiff_model::{Hold, HoldReason, NodeName, NodeRef, Now};

use super::{Evictor, Node, Said};

impl Evictor {
    /// Publishes the node's outcome if it is another one than before. One who waits in a zone that is held is held for that reason.
    pub(in crate::evictor) fn say(&mut self, name: &NodeName, said: Said, now: Now) {
        let Some(node) = self.nodes.get(name) else {
            return;
        };
        let (Some(zone), Some(of_node)) = (node.zone().cloned(), reference(node)) else {
            return;
        };
        let entry = self.zones.get(&zone);
        let zone_hold = entry.and_then(|entry| entry.held.as_ref());
        let said = match (said, zone_hold) {
            (Said::Queued, Some(hold)) => Said::Held(hold.reason),
            (said, _) => said,
        };
        let new = Some((said, zone.clone()));
        if node.said == new {
            return;
        }
        let zone_hold = zone_hold.cloned();
        let state = match said {
            Said::Queued => self.queued(node, now),
            Said::Held(reason) => {
                let of_zone = zone_hold.filter(|hold| hold.reason == reason);
                NodeOutcomeState::Held(of_zone.unwrap_or_else(|| Hold {
                    reason,
                    detail: self.why_held(name, reason),
                    since: now.wall,
                    until: None,
                }))
            }
            Said::Isolated => NodeOutcomeState::Isolated,
            Said::Released => NodeOutcomeState::Released,
            Said::Evicted => NodeOutcomeState::Evicted,
        };
        let outcome = NodeOutcome {
            node: of_node,
            zone: zone.clone(),
            state,
            since: now.wall,
            unhealthy_since: None,
        };
        let (origin, trace) = (self.origin_behind(name), node.trace());
        if let Some(node) = self.nodes.get_mut(name) {
            node.said = new;
        }
        self.publish(
            format!("node/{name}"),
            zone.to_string(),
            origin,
            trace,
            Outcome::Node(outcome),
        );
    }

    /// Takes back what was said about a node that is gone.
    pub(in crate::evictor) fn unsay(&mut self, name: &NodeName) {
        let said = self.nodes.get_mut(name).and_then(|node| node.said.take());
        if said.is_some() {
            let key = format!("node/{name}");
            self.effects.push(crate::effect::Effect::Remove { key });
        }
    }

    fn queued(&self, node: &Node, now: Now) -> NodeOutcomeState {
        let place = node.place.as_ref();
        let found = place.and_then(|(zone, place)| self.zones.get(zone).map(|entry| (entry, entry.queue.position(place))));
        let (position, expected_at) = found.map_or((0, None), |(entry, position)| (position, entry.expected_at(position, now)));
        NodeOutcomeState::Queued {
            position: u32::try_from(position).unwrap_or(u32::MAX),
            expected_at,
        }
    }

    fn why_held(&self, name: &NodeName, reason: HoldReason) -> String {
        if let Some((_, detail)) = self.external_for_node(name) {
            return detail;
        }
        match reason {
            HoldReason::OutdatedIntent => {
                "the node's newest health record, or its own Ready condition, does not say what the intent does".to_owned()
            }
            HoldReason::TaintOrder => "the NoSchedule counterpart was not seen on the node yet".to_owned(),
            other => other.to_string(),
        }
    }
}

/// The node as its outcome names it; if it is gone as its wish did.
fn reference(node: &Node) -> Option<NodeRef> {
    let of_facts = node.facts.as_ref().map(crate::NodeFacts::reference);
    of_facts.or_else(|| node.wish.as_ref().map(|wish| wish.node.clone()))
}
