//! What is published about a node.
//!
//! A position is published when the node enters the queue and when its reason to wait changes; not each time the queue moves, which
//! would make every grant cost the length of the queue. `expected_at` was computed for that moment; the zone's record has the rate,
//! the last grant and the queue's length to do better.

use bailiff_model::outcome::{NodeOutcome, NodeOutcomeState, Outcome};
use bailiff_model::{Hold, HoldReason, NodeName, Now};

use super::{Evictor, Node, Said, Told};
use crate::span::SpanEnd;

impl Evictor {
    /// Publishes the node's outcome if it is another one than before. One who waits in a zone that is held is held for that reason.
    pub(in crate::evictor) fn say(&mut self, name: &NodeName, said: Said, now: Now) {
        let Some(node) = self.nodes.get(name) else {
            return;
        };
        let (Some(zone), Some(of_node)) = (node.zone().cloned(), node.reference()) else {
            return;
        };
        let entry = self.zones.get(&zone);
        let zone_hold = entry.and_then(|entry| entry.held.as_ref());
        let said = match (said, zone_hold) {
            (Said::Queued, Some(hold)) => Said::Held(hold.reason),
            (said, _) => said,
        };
        if node
            .said
            .as_ref()
            .is_some_and(|told| (told.said, &told.zone) == (said, &zone))
        {
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
        let detail = match &state {
            NodeOutcomeState::Held(hold) => hold.detail.clone(),
            _ => String::new(),
        };
        let outcome = NodeOutcome {
            node: of_node,
            zone: zone.clone(),
            state,
            since: now.wall,
            unhealthy_since: None,
        };
        let (origin, trace) = (self.origin_behind(name), node.trace());
        let mut told = Told {
            said,
            zone: zone.clone(),
            since: self.since_now(name, now),
            detail,
        };
        self.follow_earlier(name, &mut told, now);
        let before = self.nodes.get_mut(name).and_then(|node| node.said.replace(told));
        if let Some(before) = before {
            self.end_told(before, said.as_end(), now);
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
    pub(in crate::evictor) fn unsay(&mut self, name: &NodeName, now: Now) {
        let said = self.nodes.get_mut(name).and_then(|node| node.said.take());
        if let Some(told) = said {
            self.end_told(told, SpanEnd::Gone, now);
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
