//! Node mode: whole nodes are evicted, at the zone's rate (NL-200 to NL-209).
//!
//! ```text
//!            wish, its time has come          token
//! unmarked ─────────────────────────▶ queued ───────▶ evicted: its pod intents are carried out, later ones at once
//!     ▲                                  │               │
//!     └── ready, or the wish withdrawn ──┴───────────────┤
//!                                        ▲               │
//!                                        └── all zones down: unmarked and queued again (observations 9)
//! ```
//! A node that left its zone's queue, by recovery or by a new label, is in no queue any more: an old place is never honoured
//! (observations 10). A node object that is gone stays where it was, and its pods go at its turn (NL-205).

use bailiff_model::{HoldReason, NodeName, NodeUid, Now, ReadyStatus, Topic, Zone};

use super::Evictor;
use super::holds::Reason;
use super::nodes::{Node, Said, WishKind};
use super::zones::GrantEnd;
use crate::effect::{Count, Effect};

impl Evictor {
    pub(super) fn plan_eviction(&mut self, name: &NodeName, now: Now) {
        let Some((meant, due)) = self.nodes.get(name).and_then(|node| eviction_wanted(node)) else {
            return self.unmark(name, now);
        };
        let incident = self.nodes.get(name).and_then(|node| node.incident(&meant));
        let is_sure = self.is_complete(Topic::NodeHealth);
        if let Some(stays) = self.inherited.take_evicted(name, &meant, incident, is_sure) {
            self.set_evicted(name, stays.then(|| meant.clone()));
        }
        if self.all_down {
            self.set_evicted(name, None);
        }
        if self.is_evicted(name) {
            self.leave_queue(name, now);
            return self.say(name, Said::Evicted, now);
        }
        if !due {
            return self.leave_queue(name, now);
        }
        let hold = self.eviction_hold(name);
        if let Some(zone) = self.nodes.get(name).and_then(|node| node.zone()).cloned() {
            self.register_zone_late(&zone, now);
        }
        self.enter_queue(name, hold.is_none(), now);
        self.say(name, hold.map_or(Said::Queued, Said::Held), now);
    }

    /// The granted node becomes evicted; nothing is written to it, its pods follow (NL-205).
    pub(super) fn evict_node(&mut self, zone: &Zone, name: &NodeName, now: Now) {
        self.end_queue_wait(name, zone, now);
        self.leave_queue(name, now);
        let Some((meant, _)) = self.nodes.get(name).and_then(|node| eviction_wanted(node)) else {
            return self.end_grant(zone, name, GrantEnd::Void, now);
        };
        self.set_evicted(name, Some(meant));
        self.end_grant(zone, name, GrantEnd::Kept, now);
        if self.nodes.get(name).is_some_and(|node| node.facts.is_some()) {
            self.effects.push(Effect::Count(Count::NodeEvicted(zone.clone())));
        }
        self.say(name, Said::Evicted, now);
        self.pods.look_again_at_node(name);
    }

    /// Ready, withdrawn, or another node by now (NL-204).
    fn unmark(&mut self, name: &NodeName, now: Now) {
        self.leave_queue(name, now);
        self.set_evicted(name, None);
        let are_known = self.is_complete(Topic::EvictionIntents);
        let Some(node) = self.nodes.get(name) else {
            return;
        };
        if node.is_ready() || (are_known && node.wish.is_none()) {
            self.inherited.forget_evicted(name);
        }
        if node.facts.is_none() {
            self.unsay(name, now);
        } else {
            self.take_back(name, now);
        }
    }

    fn eviction_hold(&self, name: &NodeName) -> Option<HoldReason> {
        if let Some(hold) = self.external_for_node(name).or_else(|| self.unreadable_hold(name)) {
            return Some(hold.reason);
        }
        let node = self.nodes.get(name)?;
        // One that is gone has no health any more; its wish stands.
        node.facts.as_ref()?;
        let not_ready = node.health.as_ref().is_some_and(super::nodes::Health::is_not_ready);
        (!not_ready).then_some(HoldReason::OutdatedIntent)
    }

    /// Why a pod of the node must wait: the node's turn has not come.
    pub(super) fn node_mode_hold(&self, name: &NodeName) -> Option<Reason> {
        (!self.is_evicted(name)).then(|| {
            let detail = format!("node {name} has not had its turn in its zone");
            Reason::new(HoldReason::RateLimited, detail)
        })
    }

    fn is_evicted(&self, name: &NodeName) -> bool {
        let node = self.nodes.get(name);
        node.is_some_and(|node| {
            node.evicted.is_some() && node.evicted.as_deref() == eviction_wanted(node).map(|(meant, _)| meant).as_ref()
        })
    }

    pub(super) fn set_evicted(&mut self, name: &NodeName, evicted: Option<NodeUid>) {
        if let Some(node) = self.nodes.get_mut(name) {
            if evicted.is_none() {
                node.announced = false;
            }
            node.evicted = evicted.map(Box::new);
        }
    }
}

/// The incarnation whose eviction is wished for, and whether its time is over; `None` if it is Ready or was replaced.
fn eviction_wanted(node: &Node) -> Option<(NodeUid, bool)> {
    let wish = node.wish.as_ref()?;
    let stands = node
        .facts
        .as_ref()
        .is_none_or(|facts| facts.uid == wish.node.uid && facts.ready != ReadyStatus::True);
    match wish.kind {
        WishKind::Evict { due } if stands => Some((wish.node.uid.clone(), due)),
        WishKind::Evict { .. } | WishKind::Isolate(_) => None,
    }
}
