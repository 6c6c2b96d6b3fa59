//! What is published about a node.
//!
//! A position is published when the node enters the queue and when its reason to wait changes; not each time the queue moves, which
//! would make every grant cost the length of the queue. `expected_at` was computed for that moment; the zone's record has the rate,
//! the last grant and the queue's length to do better.

use bailiff_model::outcome::{NodeOutcome, NodeOutcomeState, Outcome};
use bailiff_model::{HoldReason, NodeName, Now};

use super::super::holds::Reason;
use super::{Evictor, Node, Said, Since, Told};
use crate::span::SpanEnd;

impl Evictor {
    /// Publishes the node's outcome if it is another one than before. One who waits in a zone that is held is held for that reason. Where
    /// only the end of the hold, or the node's place, is another, it is the same state, since when it was; so it is with a node that is
    /// evicted and whose incident has another trace by now, by which who comes after us tells it.
    pub(in crate::evictor) fn say(&mut self, name: &NodeName, said: Said, now: Now) {
        let Some(node) = self.nodes.get(name) else {
            return;
        };
        let (Some(zone), Some(of_node)) = (node.zone().cloned(), node.reference()) else {
            return;
        };
        let zone_hold = self.zones.get(&zone).and_then(|entry| entry.held.as_ref());
        let said = match (said, zone_hold) {
            (Said::Queued, Some(hold)) => Said::Held(hold.reason),
            (said, _) => said,
        };
        let waits = matches!(said, Said::Queued | Said::Held(_));
        let unhealthy_since = node.place.as_deref().filter(|_| waits).map(|(_, (since, _))| *since);
        let same = |told: &&Told| (told.said, &told.zone, &told.since.node.uid) == (said, &zone, &of_node.uid);
        let before = node.said.as_deref().filter(same);
        let is_news = before.is_none();
        let mut since = before.map_or_else(|| self.since_now(name, now), |told| told.since.clone());
        let is_retraced = said == Said::Evicted && since.follows(node.trace());
        let is_told =
            |until| !is_retraced && before.is_some_and(|told| (told.until, told.unhealthy_since) == (until, unhealthy_since));
        let state = match said {
            Said::Held(reason) => {
                let of_zone = zone_hold.filter(|hold| hold.reason == reason).cloned();
                let hold = of_zone.unwrap_or_else(|| self.why_held(name, reason).since(since.at));
                if is_told(hold.until) {
                    return;
                }
                NodeOutcomeState::Held(hold)
            }
            _ if is_told(None) => return,
            Said::Queued => self.queued(node, now),
            Said::Isolated => NodeOutcomeState::Isolated,
            Said::Released => NodeOutcomeState::Released,
            Said::Evicted => NodeOutcomeState::Evicted,
        };
        let outcome = NodeOutcome {
            node: of_node,
            zone,
            state,
            since: since.at,
            unhealthy_since,
        };
        self.say_outcome(name, said, since, outcome, is_news, now);
    }

    /// Publishes it, keeps what was said, and tells the trace of the state before if this is another one.
    fn say_outcome(&mut self, name: &NodeName, said: Said, since: Since, outcome: NodeOutcome, is_news: bool, now: Now) {
        let (detail, until) = match &outcome.state {
            NodeOutcomeState::Held(hold) => (hold.detail.clone(), hold.until),
            _ => (String::new(), None),
        };
        let mut told = Told {
            said,
            zone: outcome.zone.clone(),
            since,
            detail,
            until,
            unhealthy_since: outcome.unhealthy_since,
        };
        if is_news {
            self.follow_earlier(name, &mut told, now);
        }
        let before = self.nodes.get_mut(name).and_then(|node| node.said.replace(Box::new(told)));
        if let Some(before) = before.filter(|_| is_news) {
            self.end_told(*before, said.as_end(), now);
        }
        let (origin, trace) = (self.origin_behind(name), self.nodes.get(name).and_then(|node| node.trace()));
        let (key, route) = (format!("node/{name}"), outcome.zone.to_string());
        self.publish(key, route, origin, trace, Outcome::Node(Box::new(outcome)));
    }

    /// Nothing is wanted of the node: what was said of it holds no longer, and what was said of another one of its name was never said of
    /// this one.
    pub(in crate::evictor) fn take_back(&mut self, name: &NodeName, now: Now) {
        let Some(node) = self.nodes.get(name) else {
            return;
        };
        let uid = node.facts.as_ref().map(|facts| &facts.uid);
        let is_of_another = |told: &Told| Some(&told.since.node.uid) != uid;
        if node.said.as_deref().is_some_and(is_of_another) {
            self.unsay(name, now);
        } else if node.was_told_otherwise() {
            self.say(name, Said::Released, now);
        }
    }

    /// Takes back what was said about a node that is gone.
    pub(in crate::evictor) fn unsay(&mut self, name: &NodeName, now: Now) {
        let said = self.nodes.get_mut(name).and_then(|node| node.said.take());
        if let Some(told) = said {
            self.end_told(*told, SpanEnd::Gone, now);
            let key = format!("node/{name}");
            self.effects.push(crate::effect::Effect::Remove { key });
        }
    }

    /// The node is in a zone of another instance by now: what that one says takes the place of what was said.
    pub(in crate::evictor) fn leave_saying(&mut self, name: &NodeName, now: Now) {
        let said = self.nodes.get_mut(name).and_then(|node| node.said.take());
        if let Some(told) = said {
            self.end_told(*told, SpanEnd::Moved, now);
        }
    }

    fn queued(&self, node: &Node, now: Now) -> NodeOutcomeState {
        let place = node.place.as_deref();
        let found = place.and_then(|(zone, place)| self.zones.get(zone).map(|entry| (entry, entry.queue.position(place))));
        let (position, expected_at) = found.map_or((0, None), |(entry, position)| (position, entry.expected_at(position, now)));
        NodeOutcomeState::Queued {
            position: u32::try_from(position).unwrap_or(u32::MAX),
            expected_at,
        }
    }

    /// Why the node is held if its zone is not held for the same.
    fn why_held(&self, name: &NodeName, reason: HoldReason) -> Reason {
        let known = self.external_for_node(name).or_else(|| self.unreadable_hold(name));
        if let Some(known) = known.filter(|known| known.reason == reason) {
            return known;
        }
        match reason {
            HoldReason::OutdatedIntent => Reason::new(
                reason,
                "the node's newest health record, or its own Ready condition, does not say what the intent does",
            ),
            HoldReason::TaintOrder => Reason {
                until: self.order_ends_at(name),
                ..Reason::new(reason, "the NoSchedule counterpart was not seen on the node yet")
            },
            other => Reason::new(other, other.to_string()),
        }
    }
}
