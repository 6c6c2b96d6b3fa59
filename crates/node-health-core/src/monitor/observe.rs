//! Taking in what the API and the own topic say.

use std::collections::BTreeMap;

use bailiff_model::timers::Place;
use bailiff_model::{IndexMap, Listed, NodeName, NodeUid, Now, Profile, ReadyStatus, Signal, Stamp};

use super::Monitor;
use crate::effect::{Effect, EventKind};
use crate::facts::{LeaseFacts, NodeFacts};
use crate::incident::Outcome;
use crate::input::TopicNews;
use crate::node::{Count, Node, Phase, Sign};
use crate::votes::Vote;

impl Monitor {
    /// Some of a list. Each node is taken by itself; who is gone shows only in the end.
    pub(super) fn take_some_nodes(&mut self, begins: bool, nodes: Vec<NodeFacts>, now: Now, out: &mut Vec<Effect>) {
        if begins {
            self.seen.newer_nodes.clear();
            self.seen.unlisted_nodes.begin(self.nodes.keys().cloned());
        }
        for facts in nodes {
            self.seen.unlisted_nodes.saw(&facts.name);
            self.take_node(facts, true, now, out);
        }
    }

    pub(super) fn take_nodes(&mut self, list: Listed<NodeFacts, NodeName>, now: Now, out: &mut Vec<Effect>) {
        let Listed { all, unreadable } = list;
        let named = all.iter().map(|facts| &facts.name).chain(&unreadable);
        for name in self.seen.unlisted_nodes.end(|| self.nodes.keys().cloned(), named) {
            self.forget_node(&name, &NodeUid::default(), now, out);
        }
        for facts in all {
            self.take_node(facts, true, now, out);
        }
        self.seen.newer_nodes.clear();
        self.seen.nodes = true;
        self.seen.unreadable = unreadable.into_iter().collect();
    }

    /// A node as it is now. What is older than what is known is ignored unless it is part of a `snapshot`; then too if what is known came
    /// after that began.
    pub(super) fn take_node(&mut self, facts: NodeFacts, snapshot: bool, now: Now, out: &mut Vec<Effect>) {
        if !self.config.shard.owns(&facts.name) {
            return;
        }
        let name = facts.name.clone();
        if !snapshot {
            self.seen.node_since_list(&name);
        }
        let is_believed = snapshot && !self.seen.newer_nodes.contains(&name);
        match self.nodes.get(&name) {
            Some(node) if !is_believed && node.is_ahead_of(&facts) => {}
            Some(node) if node.uid == facts.uid => self.update_node(&name, facts, now, out),
            Some(_) => {
                // Another node of the same name: it inherits nothing (NL-035, NL-036). Its record replaces the old one.
                self.remove_node(&name, now, out);
                self.insert_node(facts, now, out);
            }
            None => self.insert_node(facts, now, out),
        }
    }

    fn insert_node(&mut self, mut facts: NodeFacts, now: Now, out: &mut Vec<Effect>) {
        let zone = self.interner.enter(facts.zone.clone());
        facts.ready.reason = self.interner.reason(facts.ready.reason);
        let (name, mut node) = Node::new(facts, zone, now);
        if let Some(lease) = self.stray_leases.remove(&name) {
            node.lease.take(&lease, true, self.config.profile);
        }
        self.nodes.insert(name.clone(), Box::new(node));
        if self.running {
            self.register(&name, None, now, out);
        }
    }

    fn update_node(&mut self, name: &NodeName, facts: NodeFacts, now: Now, out: &mut Vec<Effect>) {
        let Some(node) = self.nodes.get_mut(name) else { return };
        let mut left = None;
        let posted = node.is_posted(&facts.ready);
        if node.says_otherwise(&facts) {
            node.changed = true;
            if *node.zone != facts.zone {
                let zone = std::mem::replace(&mut node.zone, self.interner.enter(facts.zone));
                self.interner.leave(&zone);
                left = Some(zone);
            }
            if node.ready.reason != facts.ready.reason {
                node.ready.reason = self.interner.reason(facts.ready.reason);
            }
        }
        let was = node.ready.status;
        node.version = facts.resource_version;
        node.excluded = facts.excluded;
        node.pressures = facts.pressures;
        node.ready.status = facts.ready.status;
        node.ready.heartbeat = facts.ready.heartbeat.map(Stamp::from);
        node.ready.since = facts.ready.since.map(Stamp::from);
        if let Some(zone) = left {
            self.change_zone_of_loss(name, &zone, now);
        }
        if !self.running {
            return;
        }
        if posted {
            self.note_sign(name, Signal::Status, now, now, out);
        }
        if was != ReadyStatus::Unknown && facts.ready.status == ReadyStatus::Unknown {
            self.unknown_arrived(name, now, out);
        }
        self.refresh(name, now, out);
    }

    pub(super) fn forget_node(&mut self, name: &NodeName, uid: &NodeUid, now: Now, out: &mut Vec<Effect>) {
        let Some(node) = self.nodes.get(name) else { return };
        if !uid.is_empty() && *uid != node.uid {
            return;
        }
        let said = node.said.is_some();
        self.remove_node(name, now, out);
        if said {
            out.push(Effect::Retract(name.clone()));
        }
    }

    /// NL-032
    fn remove_node(&mut self, name: &NodeName, now: Now, out: &mut Vec<Effect>) {
        let Some((place, _, mut node)) = self.nodes.swap_remove_full(name) else {
            return;
        };
        self.timers.swap_remove(place as Place, self.nodes.len() as Place);
        // From here on neither zone nor cluster has it.
        self.interner.leave(&node.zone);
        self.leave_loss(name, &node.zone);
        self.list_unhealthy(name, false);
        self.queue.remove(name);
        self.votes.change(&mut node.vote, Vote::None);
        self.count_verdict(node.said, None);
        if let Some(lease) = node.lease.left_behind(name) {
            self.stray_leases.insert(name.clone(), lease);
        }
        if self.running {
            out.push(Self::event(name, &node, EventKind::RemovingNode));
            Self::close_incident(name, &mut node, Outcome::Deleted, now, out);
        }
    }

    /// Some of a list. Each lease is taken by itself; which are gone shows only in the end.
    pub(super) fn take_some_leases(&mut self, begins: bool, leases: Vec<LeaseFacts>, now: Now, out: &mut Vec<Effect>) {
        if begins {
            self.seen.unlisted_leases.begin(known_leases(&self.nodes, &self.stray_leases));
        }
        for lease in leases {
            self.seen.unlisted_leases.saw(&lease.name);
            self.take_lease(lease, true, now, out);
        }
    }

    pub(super) fn take_leases(&mut self, list: Listed<LeaseFacts, NodeName>, now: Now, out: &mut Vec<Effect>) {
        let named = list.all.iter().map(|lease| &lease.name).chain(&list.unreadable);
        let known = || known_leases(&self.nodes, &self.stray_leases);
        for name in self.seen.unlisted_leases.end(known, named) {
            self.forget_lease(&name);
        }
        for lease in list.all {
            self.take_lease(lease, true, now, out);
        }
        self.seen.leases = true;
    }

    /// A lease is gone, which says nothing about its node (NL-051).
    pub(super) fn forget_lease(&mut self, name: &NodeName) {
        self.stray_leases.remove(name);
        if let Some(node) = self.nodes.get_mut(name) {
            node.lease.set_gone();
        }
    }

    /// A lease as it is now: the hot path. Of a node that is neither late nor judged it changes a few fields and nothing else.
    pub(super) fn take_lease(&mut self, lease: LeaseFacts, snapshot: bool, now: Now, out: &mut Vec<Effect>) {
        let Some(node) = self.nodes.get_mut(&lease.name) else {
            if self.config.shard.owns(&lease.name) {
                self.stray_leases.insert(lease.name.clone(), lease);
            }
            return;
        };
        let renewed = node.lease.take(&lease, snapshot, self.config.profile);
        if !renewed || !self.running {
            return;
        }
        let is_well = node.late_since.is_none() && node.ready.status != ReadyStatus::Unknown && !node.unsaid;
        // What waits for a request has no timer.
        let quiet = node.heard && is_well && matches!(node.phase, Phase::Watched);
        let came = self.cadence.came(lease.renewed, node.count.mono, now);
        self.note_sign(&lease.name, Signal::Lease, came, now, out);
        if !quiet {
            self.refresh(&lease.name, now, out);
        }
    }

    /// A sign of life that came, or was noticed, at `at`: grace begins again (NL-040).
    fn note_sign(&mut self, name: &NodeName, signal: Signal, at: Now, now: Now, out: &mut Vec<Effect>) {
        let Some(node) = self.nodes.get_mut(name) else { return };
        let mut noticed = self.cadence.notices(at.mono);
        if signal == Signal::Status && self.config.profile == Profile::Upstream {
            let with_lease = node
                .sign
                .is_some_and(|sign| sign.signal == Signal::Lease && self.cadence.notices(sign.mono) == noticed);
            if node.lease.is_seen() && !with_lease {
                // NL-050: the lease is forgotten with the old status, and is new to the next pass.
                noticed = self.cadence.next(noticed);
            }
            node.lease.drop_saved();
        }
        node.count_from(Count::anew(noticed, at.wall));
        node.sign = Some(Sign {
            wall: at.wall.into(),
            mono: at.mono,
            signal,
        });
        node.changed |= !std::mem::replace(&mut node.heard, true);
        node.failures = 0;
        node.unsaid = false;
        Self::end_delays(name, node, Outcome::Recovered, now, out);
        if node.ready.status != ReadyStatus::Unknown {
            node.late_since = None;
            node.doubtful = None;
        }
        if matches!(node.phase, Phase::Queued | Phase::Confirmed(_)) {
            node.phase = Phase::Watched;
            self.queue.remove(name);
        } else if matches!(node.phase, Phase::Writing(_)) {
            self.call_off_write(name, out);
        }
    }

    pub(super) fn take_topic(&mut self, news: TopicNews) {
        match news {
            TopicNews::Snapshot { records, complete } => {
                self.votes.clear_others();
                self.inherited.clear();
                for record in records {
                    let name = record.health.node.name.clone();
                    self.take_record(name, Some(record));
                }
                self.seen.topic = true;
                self.seen.topic_complete = complete;
            }
            TopicNews::Changes { records, complete } => {
                for (name, record) in records {
                    self.take_record(name, record);
                }
                self.seen.topic_complete = complete;
            }
        }
    }

    /// Own nodes' records are what is inherited, and echoes once this monitor acts; other shards' are votes.
    fn take_record(&mut self, name: NodeName, record: Option<crate::input::Inherited>) {
        if !self.config.shard.owns(&name) {
            self.votes.change_other(name, record.as_ref().map(|record| &*record.health));
        } else if !self.running {
            match record {
                Some(record) => self.inherited.insert(name, record),
                None => self.inherited.remove(&name),
            };
        }
    }
}

/// Whose leases are known.
fn known_leases<'a>(
    nodes: &'a IndexMap<NodeName, Box<Node>>,
    stray: &'a BTreeMap<NodeName, LeaseFacts>,
) -> impl Iterator<Item = NodeName> + use<'a> {
    let of_nodes = nodes.iter().filter(|(_, node)| node.lease.is_present()).map(|(name, _)| name);
    of_nodes.chain(stray.keys()).cloned()
}
