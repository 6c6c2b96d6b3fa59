//! Nodes come, change and go; their NoSchedule taints and labels follow (NL-110 to NL-122).

use bailiff_model::{IndexMap, Listed, Load, NodeName, NodeUid, Profile, ReadyStatus, ResourceVersion, Taint};

use super::Manager;
use crate::deadlines::Timer;
use crate::effect::Effect;
use crate::facts::{NodeFacts, PlatformLabels};
use crate::input::{Answer, Reading};
use crate::nodes::Node;
use crate::schedule;
use crate::start::{Start, follow};
use crate::tasks::Step;

impl Manager {
    /// Some of a list. Each Node is judged by itself; who is gone shows only in the end.
    pub(super) fn some_nodes_listed(&mut self, begins: bool, nodes: Vec<NodeFacts>) {
        if begins {
            self.unlisted_nodes.begin(present(&self.nodes));
        }
        let first = !self.progress.nodes_listed;
        for facts in nodes {
            self.unlisted_nodes.saw(&facts.node.name);
            self.node_listed(facts, first);
        }
    }

    pub(super) fn nodes_listed(&mut self, list: Listed<NodeFacts, NodeName>) {
        let first = !self.progress.nodes_listed;
        self.progress.nodes_listed = true;
        let named = list.all.iter().map(|facts| &facts.node.name).chain(&list.unreadable);
        for name in self.unlisted_nodes.end(|| present(&self.nodes), named) {
            let uid = self.nodes.get(&name).map(|node| node.facts.node.uid.clone());
            self.node_gone(&name, &uid.unwrap_or_default());
        }
        for facts in list.all {
            self.node_listed(facts, first);
        }
        self.finish_marking();
    }

    /// A Node of a list; `first` as in [`Manager::node_seen`].
    fn node_listed(&mut self, facts: NodeFacts, first: bool) {
        let name = facts.node.name.clone();
        // One that became silent between two lists may have been Ready before, unseen here (NL-085).
        let fell_unseen = !first && facts.ready.is_silent() && !self.sees_fall(&facts);
        self.node_writes.listed(&name);
        self.node_seen(facts, first);
        if fell_unseen {
            self.mark_all(&name);
        }
    }

    /// True if this very Node, not another of its name, is known as Ready, or as silent since the same time: nothing happened unseen. As
    /// `Ready=False` too in upstream's profile: that marks no pods of a node that it knows so (NL-086), and few are Ready in between.
    fn sees_fall(&self, facts: &NodeFacts) -> bool {
        let known = self.nodes.get(&facts.node.name).filter(|node| node.present);
        known
            .filter(|node| node.facts.node.uid == facts.node.uid)
            .is_some_and(|node| match node.facts.ready.status {
                ReadyStatus::True => true,
                ReadyStatus::False => self.config.profile == Profile::Upstream,
                ReadyStatus::Unknown => node.facts.ready.is_silent() && node.facts.ready.since == facts.ready.since,
                ReadyStatus::Absent => false,
            })
    }

    /// A Node as the watch shows it; `first` in the first list of this process.
    pub(super) fn node_seen(&mut self, mut facts: NodeFacts, first: bool) {
        if !self.config.shard.owns(&facts.node.name) {
            return;
        }
        self.share_texts(&mut facts);
        let name = facts.node.name.clone();
        if self.node_writes.saw(&name, &facts.node.resource_version) {
            self.deadlines.cancel(&Timer::NodeWrite(name.clone()));
        }
        let starts = self.starts_of_new_taints(&facts, first);
        if self.nodes.get(&name).is_some_and(|node| node.facts.zone != facts.zone) {
            self.leave_zone(&name);
        }
        let node = self.nodes.entry(name.clone()).or_default();
        // Identity is the uid: another Node of the same name inherits nothing (NL-035, NL-036, TE-035).
        let replaced = !node.facts.node.uid.is_empty() && node.facts.node.uid != facts.node.uid;
        let ready_before = (node.present && !replaced).then_some(node.facts.ready.status);
        let known = if replaced { &[][..] } else { &node.taints[..] };
        let taints = follow(known, &facts.taints, starts);
        let before = node.taints.iter().map(|standing| &standing.taint);
        let new_taints: Vec<usize> = taints
            .iter()
            .enumerate()
            .filter(|(_, new)| !known.iter().any(|standing| standing.is_of(&new.taint)))
            .map(|(index, _)| index)
            .collect();
        // TE-012: any difference in the ordered list counts, other effects do not. Intents follow their node into another zone.
        let rezoned = node.facts.zone != facts.zone;
        let tainted = replaced || !node.present || before.ne(taints.iter().map(|standing| &standing.taint));
        self.stats.nodes += usize::from(!node.present);
        node.taints = taints;
        node.facts = facts;
        node.present = true;
        if replaced {
            self.forget_running_times(&name);
        }
        self.ready_changed(&name, ready_before);
        self.want_node_write(&name);
        if tainted {
            self.forget_what_was_tried_on(&name);
        }
        if tainted || rezoned {
            self.evaluate_node(&name);
        }
        for index in new_taints {
            self.tell_tolerated(&name, index);
        }
    }

    /// Makes the node's zone and labels those that other nodes have, too.
    fn share_texts(&mut self, facts: &mut NodeFacts) {
        let PlatformLabels {
            os,
            arch,
            os_beta,
            arch_beta,
        } = &mut facts.labels;
        let labels = [os, arch, os_beta, arch_beta].into_iter().flatten();
        for text in labels.chain([&mut facts.zone.region, &mut facts.zone.zone]) {
            *text = self.texts.share(text.clone());
        }
    }

    /// When taints that were not known before start: when seen, if seen to appear; else at `timeAdded`, clamped between the
    /// node's creation and now; else now (differences.md, "start of a toleration").
    fn starts_of_new_taints(&self, facts: &NodeFacts, first: bool) -> impl Fn(&Taint) -> (Start, bool) + use<> {
        let (now, created) = (self.now, facts.created);
        let inherits = first && self.config.profile == Profile::Bailiff;
        move |taint: &Taint| match taint.time_added {
            Some(added) if inherits => {
                let added = created.map_or(added, |created| added.max(created));
                (Start::of_wall(added, now), false)
            }
            _ => (Start::at(now), !first),
        }
    }

    /// The Node is gone. Its taints are remembered as they were: running times go on (TE-034).
    pub(super) fn node_gone(&mut self, name: &NodeName, uid: &NodeUid) {
        let Some(node) = self.nodes.get_mut(name) else { return };
        if !node.present || node.facts.node.uid != *uid {
            return;
        }
        node.present = false;
        self.stats.nodes -= 1;
        self.clear_marks(name);
        self.node_writes.forget(name);
        self.deadlines.cancel(&Timer::NodeWrite(name.clone()));
        self.drop_unused_node(name);
    }

    /// Forgets a node name that has neither a Node nor pods.
    pub(super) fn drop_unused_node(&mut self, name: &NodeName) {
        let unused = self.nodes.get(name).is_some_and(|node| !node.present && node.pods.is_empty());
        if unused {
            self.nodes.swap_remove(name);
            self.orphan_without_pods(name);
        }
    }

    /// Condition Ready of the node is known (again); `before` is what it was on this incarnation of it.
    fn ready_changed(&mut self, name: &NodeName, before: Option<ReadyStatus>) {
        let Some(node) = self.nodes.get(name) else { return };
        let ready = node.facts.ready;
        match (before, ready.status) {
            (None, _) | (_, ReadyStatus::True | ReadyStatus::Absent) if before != Some(ready.status) => self.clear_marks(name),
            // Only our own flip marks pods, never a Ready=False of the kubelet (NL-085, NL-086).
            (Some(ReadyStatus::True), _) if ready.is_silent() => self.mark_all(name),
            _ => {}
        }
    }

    // === Writing ===

    /// Queues a write if the node is not what it should be.
    fn want_node_write(&mut self, name: &NodeName) {
        if !self.config.duties.node_lifecycle {
            return;
        }
        let wrong = |facts: &NodeFacts| schedule::plan(facts, self.now).is_some();
        if self.nodes.get(name).is_some_and(|node| node.present && wrong(&node.facts)) {
            self.node_writes.want(name);
        }
    }

    pub(super) fn start_node_writes(&mut self) {
        while let Some((name, step)) = self.node_writes.next() {
            if step == Step::Read {
                self.effects.push(Effect::ReadNode(name));
                continue;
            }
            let node = self.nodes.get(&name).filter(|node| node.present);
            match node.and_then(|node| schedule::plan(&node.facts, self.now)) {
                Some(patch) => self.effects.push(Effect::PatchNode(patch)),
                None => self.node_writes.done(&name),
            }
        }
    }

    pub(super) fn node_patched(&mut self, name: &NodeName, answer: Answer) {
        match answer {
            Answer::Done(version) => match self.node_writes.settle(name, &version, self.now) {
                Some(until) => self.deadlines.set(Timer::NodeWrite(name.clone()), until),
                None => self.want_node_write(name),
            },
            Answer::Gone => self.node_write_ended(name, None),
            // Patches of nodes are not called off.
            Answer::CalledOff => self.node_write_failed(name, None, Load::None),
            Answer::Failed { retry_after, load } => self.node_write_failed(name, retry_after, load),
        }
    }

    pub(super) fn node_read(&mut self, name: &NodeName, reading: Reading<NodeFacts>) {
        match reading {
            // The state stays with the watch: a read is newer than what the watch will show next, and time would seem to go back.
            Reading::Found(facts) => match schedule::plan(&facts, self.now) {
                Some(patch) => self.effects.push(Effect::PatchNode(patch)),
                None => self.node_write_ended(name, Some(&facts.node.resource_version)),
            },
            Reading::Gone => self.node_write_ended(name, None),
            Reading::Failed { retry_after, load } => self.node_write_failed(name, retry_after, load),
        }
    }

    /// Nothing is to be written, as of this version, or because this Node is gone. The watch may know better, or another Node of the name.
    fn node_write_ended(&mut self, name: &NodeName, version: Option<&ResourceVersion>) {
        if self.node_writes.done_as_of(name, version) {
            self.want_node_write(name);
        }
    }

    fn node_write_failed(&mut self, name: &NodeName, retry_after: Option<std::time::Duration>, load: Load) {
        self.stats.failed_writes += 1;
        if let Some(at) = self.node_writes.failed(name, retry_after, load, self.now) {
            self.deadlines.set(Timer::NodeWrite(name.clone()), at);
        }
    }

    pub(super) fn node_write_expired(&mut self, name: &NodeName) {
        if self.node_writes.expired(name) {
            self.want_node_write(name);
        }
    }
}

/// The Nodes there are, as far as is known.
fn present(nodes: &IndexMap<NodeName, Box<Node>>) -> impl Iterator<Item = NodeName> {
    let present = nodes.iter().filter(|(_, node)| node.present);
    present.map(|(name, _)| name.clone())
}
