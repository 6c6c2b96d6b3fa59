//! Marking the pods of a silent node not ready (NL-084 to NL-089).
//!
//! Upstream marks in the pass in which it flips a node's Ready to Unknown. Here the flip is read from the API: each pod of the node is
//! wanted to be marked, once, and stays wanted until it is, or is gone, or the node is ready again. A process that starts and finds a
//! node in that state wants the same, so marking is finished after a crash half-way. A pod whose kubelet sets it ready again
//! afterwards is left alone, as upstream does. One that was ready before the silence, by the times of both conditions, and is shown so only
//! after it, because its watch is behind that of nodes, is marked all the same: else it would be ready for as long as the node is silent.
//!
//! What is held, from outside or by the monitor (correlated loss), is not marked, and nothing is before a process that starts can know
//! what the monitor holds; of what waits for a hold the end of it wants anew what is still to be marked then.

use bailiff_model::{About, Holds, Load, NodeName, PodRef, PodUid, Profile, ReadyStatus, Stamp, Wall, Zone};

use super::Manager;
use super::inherit::HEALTH_WAIT;
use crate::deadlines::Timer;
use crate::effect::{Effect, Event, PodMark};
use crate::facts::PodFacts;
use crate::input::{Answer, HealthRecord, Reading};
use crate::tasks::Step;

impl Manager {
    /// All pods of a node that was just declared silent.
    pub(super) fn mark_all(&mut self, name: &NodeName) {
        if !self.progress.nodes_listed || !self.progress.pods_listed {
            // `finish_marking` will come.
            return;
        }
        let Some(node) = self.nodes.get(name) else { return };
        let pods = self.pods.at(&node.pods);
        for uid in &pods {
            self.want_mark(uid);
            self.note_spared(uid);
        }
    }

    /// After the first lists: nodes that were declared silent before this process began.
    pub(super) fn finish_marking(&mut self) {
        if !self.progress.nodes_listed || !self.progress.pods_listed || self.progress.listed.is_some() {
            return;
        }
        self.progress.listed = Some(self.now.mono);
        // To upstream every pod of the first list is one that was just bound (NL-089).
        let upstream = self.config.profile == Profile::Upstream;
        let silent = self.nodes.iter().filter(|(_, node)| {
            let ready = node.facts.ready;
            let is_not_ready = matches!(ready.status, ReadyStatus::False | ReadyStatus::Unknown);
            node.present && (ready.is_silent() || (upstream && is_not_ready))
        });
        let silent: Vec<NodeName> = silent.map(|(name, _)| name.clone()).collect();
        let unready = std::mem::take(&mut self.progress.unready);
        for name in silent {
            let Some(node) = self.nodes.get(&name) else { continue };
            for uid in &self.pods.at(&node.pods) {
                self.want_mark(uid);
                let Some(pod) = self.pods.get(uid) else { continue };
                // One that is not ready may have been marked already.
                let is_early = self.is_early(&name, pod.ready, unready.get(uid).copied());
                if let Some(pod) = self.pods.get_mut(uid) {
                    pod.spared |= is_early;
                }
            }
        }
    }

    /// Keeps since when a pod of the first lists is not ready, until its node is known. What is not kept as a pod is not kept here either:
    /// nobody would say that it is gone.
    pub(super) fn note_unready(&mut self, uid: &PodUid, since: Option<Wall>) {
        if self.progress.listed.is_some() || self.pods.get(uid).is_none() {
            return;
        }
        match since {
            Some(since) => self.progress.unready.insert(uid.clone(), since),
            None => self.progress.unready.remove(uid),
        };
    }

    /// Marks wait until all of `node-health` is known, and with it what the monitor holds, but no longer than [`Effect::Complete`] does.
    pub(super) fn begin_to_mark(&mut self) {
        let Some(listed) = self.progress.listed.filter(|_| !self.progress.marks_begun) else {
            return;
        };
        let until = listed + HEALTH_WAIT;
        if self.config.duties.node_lifecycle && !self.health.complete && self.now.mono < until {
            return self.deadlines.set(Timer::Marks, until);
        }
        self.deadlines.cancel(&Timer::Marks);
        self.progress.marks_begun = true;
        self.want_held_marks();
    }

    /// A pod that was bound to a node that is not ready (NL-089). Here a Ready=False of the kubelet counts too.
    pub(super) fn mark_late_arrival(&mut self, uid: &PodUid) {
        let Some(pod) = self.pods.get(uid) else { return };
        let Some(node) = self.nodes.get(&pod.node) else { return };
        if node.present && matches!(node.facts.ready.status, ReadyStatus::False | ReadyStatus::Unknown) {
            self.want_mark(uid);
            self.note_spared(uid);
        }
    }

    /// A pod of a silent node that was spared is ready: since before the silence?
    pub(super) fn mark_overtaken(&mut self, uid: &PodUid, ready_since: Option<Wall>) {
        let Some(pod) = self.pods.get_mut(uid) else { return };
        if !std::mem::take(&mut pod.spared) {
            return;
        }
        let node = pod.node.clone();
        if self.is_before_silence(&node, ready_since) {
            self.want_mark(uid);
        }
    }

    /// True if the node is silent, and this was earlier, by the times of both conditions.
    fn is_before_silence(&self, node: &NodeName, at: Option<Wall>) -> bool {
        let node = self.nodes.get(node);
        let node = node.filter(|node| node.present && node.facts.ready.is_silent());
        let silent_since = node.and_then(|node| node.facts.ready.since).map(Stamp::wall);
        at.zip(silent_since).is_some_and(|(at, silent)| at < silent)
    }

    /// True if a pod was not ready before its node fell silent: what is shown of it next may be of before, too. A mark is of before only if
    /// the clock of the process that made it is behind that of the monitor, by more than it took to mark. Its pod is then marked once more
    /// if its kubelet sets it ready again, with a time of before: the condition does not say who set it.
    pub(super) fn is_early(&self, node: &NodeName, ready: ReadyStatus, since: Option<Wall>) -> bool {
        match ready {
            ReadyStatus::Absent => true,
            ReadyStatus::False => self.is_before_silence(node, since),
            ReadyStatus::True | ReadyStatus::Unknown => false,
        }
    }

    /// Notes that there is nothing to mark at a pod of a node that fell silent.
    fn note_spared(&mut self, uid: &PodUid) {
        if let Some(pod) = self.pods.get_mut(uid) {
            pod.spared = !needs_mark(pod.ready);
        }
    }

    fn want_mark(&mut self, uid: &PodUid) {
        if !self.config.duties.node_lifecycle {
            return;
        }
        let Some(pod) = self.pods.get_mut(uid) else { return };
        if needs_mark(pod.ready) {
            let news = !std::mem::replace(&mut pod.mark, true);
            self.marks.want(uid);
            if news {
                self.note_mark_wanted(uid);
            }
        }
    }

    /// The node is ready again, or gone, or another: nothing of it is to be marked any more (NL-088).
    pub(super) fn clear_marks(&mut self, name: &NodeName) {
        let Some(node) = self.nodes.get(name) else { return };
        let pods = self.pods.at(&node.pods);
        for uid in &pods {
            self.clear_mark(uid);
            if let Some(pod) = self.pods.get_mut(uid) {
                pod.spared = false;
            }
        }
    }

    pub(super) fn clear_mark(&mut self, uid: &PodUid) {
        let Some(pod) = self.pods.get_mut(uid) else { return };
        if !std::mem::take(&mut pod.mark) {
            return;
        }
        let name = pod.node.clone();
        if let Some(node) = self.nodes.get(&name) {
            self.held_marks.remove(&node.facts.zone, &name, uid);
        }
        self.marks.forget(uid);
        self.deadlines.cancel(&Timer::PodMark(uid.clone()));
        // What is on its way is counted by its answer.
        if !self.marking.contains(uid) {
            self.note_mark_ended(&name, uid, false);
        }
    }

    /// Holds from outside changed. A mark that waited for one is wanted again if it still is: what is true then counts.
    pub(super) fn brake(&mut self, holds: Holds) {
        self.holds = holds;
        self.want_held_marks();
        self.call_off_held();
    }

    fn want_held_marks(&mut self) {
        for uid in self.held_marks.take_all() {
            self.want_mark(&uid);
        }
    }

    /// What health records say about zones that the monitor holds: those of all shards, because a zone is held whole.
    pub(super) fn note_holds(&mut self, snapshot: bool, complete: bool, records: &[HealthRecord]) {
        if snapshot {
            self.held_zones.doubt();
        }
        for name in &self.health.unreadable {
            self.held_zones.keep(name);
        }
        let mut free: Vec<Zone> = Vec::new();
        for record in records {
            let health = record.health.as_ref().filter(|health| health.held.is_some());
            free.extend(self.held_zones.set(&record.name, health.map(|health| &health.zone)));
        }
        if complete {
            free.extend(self.held_zones.drop_doubted());
        }
        for zone in free {
            for uid in self.held_marks.take_zone(&zone) {
                self.want_mark(&uid);
            }
        }
        self.call_off_held();
    }

    /// The node is about to leave its zone: its marks wait for nothing there.
    pub(super) fn leave_zone(&mut self, name: &NodeName) {
        let Some(node) = self.nodes.get(name) else { return };
        for uid in self.held_marks.take_node(&node.facts.zone, name) {
            self.want_mark(&uid);
        }
    }

    /// Takes marks back of pods that may not be marked by now: they may wait for their turn.
    fn call_off_held(&mut self) {
        let is_held = |uid: &&PodUid| self.pods.get(uid).is_some_and(|pod| self.is_held(&pod.node));
        let held: Vec<PodUid> = self.marking.iter().filter(is_held).cloned().collect();
        for uid in held {
            self.marking.remove(&uid);
            self.effects.push(Effect::CallOff(uid));
        }
    }

    fn is_held(&self, node: &NodeName) -> bool {
        if !self.progress.marks_begun {
            return true;
        }
        let zone = self.nodes.get(node).map(|node| &node.facts.zone);
        zone.is_some_and(|zone| self.holds.on_node(zone, node).is_some() || self.held_zones.contains(zone))
    }

    /// A task of `uid` runs: ends it until the hold on its node does.
    fn hold_mark(&mut self, uid: &PodUid) {
        self.marks.done(uid);
        let Some(pod) = self.pods.get(uid) else { return };
        let Some(node) = self.nodes.get(&pod.node) else { return };
        let name = pod.node.clone();
        self.held_marks.insert(node.facts.zone.clone(), name.clone(), uid.clone());
        self.note_marks_held(&name);
    }

    pub(super) fn start_marks(&mut self) {
        while let Some((uid, step)) = self.marks.next() {
            match self.pods.get(&uid).filter(|pod| pod.mark) {
                None => self.mark_unnecessary(&uid),
                Some(pod) if self.is_held(&pod.node) => self.hold_mark(&uid),
                Some(pod) => {
                    let (pod, node) = (pod.reference(&uid), pod.node.clone());
                    self.note_marks_released(&node);
                    match step {
                        Step::Read => self.effects.push(Effect::ReadPod(pod)),
                        Step::Write => self.mark(pod, node),
                    }
                }
            }
        }
    }

    fn mark(&mut self, pod: PodRef, node: NodeName) {
        self.marking.insert(pod.uid.clone());
        let since = self.now.wall;
        self.effects.push(Effect::MarkPod(PodMark { pod, node, since }));
    }

    pub(super) fn pod_marked(&mut self, uid: &PodUid, answer: Answer) {
        self.marking.remove(uid);
        match answer {
            Answer::Done(_) => {
                self.marks.answered(uid);
                self.stats.marked += 1;
                let Some(pod) = self.pods.get_mut(uid) else { return };
                pod.mark = false;
                // Whatever is shown of before it is not there any more.
                pod.spared = false;
                let node = pod.node.clone();
                let trace = self.wishes.get(&node).and_then(|wish| wish.trace);
                let about = About::node(&node).traced(trace);
                self.effects.push(Effect::Event(Event::not_ready(&pod.reference(uid), about)));
                self.note_mark_ended(&node, uid, true);
            }
            // NL-088: treated as done, nothing is said.
            Answer::Gone => self.mark_unnecessary(uid),
            // No failure: what is true once nothing holds it counts.
            Answer::CalledOff => {
                if self.pods.get(uid).is_some_and(|pod| pod.mark) {
                    self.marks.done(uid);
                    self.want_mark(uid);
                } else {
                    self.mark_unnecessary(uid);
                }
            }
            Answer::Failed { retry_after, load } => self.mark_failed(uid, retry_after, load),
        }
    }

    pub(super) fn pod_read(&mut self, uid: &PodUid, reading: Reading<PodFacts>) {
        let wanted = self.pods.get(uid).filter(|pod| pod.mark);
        let held = wanted.is_some_and(|pod| self.is_held(&pod.node));
        let wanted = wanted.is_some();
        match reading {
            Reading::Found(_) if held => self.hold_mark(uid),
            Reading::Found(facts) if wanted && facts.pod.uid == *uid && needs_mark(facts.ready) => {
                self.mark(facts.pod, facts.node);
            }
            Reading::Found(_) | Reading::Gone => self.mark_unnecessary(uid),
            Reading::Failed { retry_after, load } => self.mark_failed(uid, retry_after, load),
        }
    }

    fn mark_unnecessary(&mut self, uid: &PodUid) {
        self.marks.done(uid);
        let Some(pod) = self.pods.get_mut(uid) else { return };
        pod.mark = false;
        let node = pod.node.clone();
        self.note_mark_ended(&node, uid, false);
    }

    fn mark_failed(&mut self, uid: &PodUid, retry_after: Option<std::time::Duration>, load: Load) {
        self.stats.failed_writes += 1;
        self.note_mark_failed(uid);
        if let Some(at) = self.marks.failed(uid, retry_after, load, self.now) {
            self.deadlines.set(Timer::PodMark(uid.clone()), at);
        }
    }
}

/// NL-087: an absent condition, or one that is False, stays as it is.
fn needs_mark(ready: ReadyStatus) -> bool {
    matches!(ready, ReadyStatus::True | ReadyStatus::Unknown)
}

#[cfg(test)]
mod tests {
    use bailiff_model::{Mono, Now};

    use super::*;
    use crate::config::Config;
    use crate::input::Input;

    fn mk_unready(uid: &str, node: &str) -> PodFacts {
        PodFacts {
            pod: PodRef {
                uid: uid.into(),
                ..PodRef::default()
            },
            node: node.into(),
            ready: ReadyStatus::False,
            ready_since: Some(Wall::UNIX_EPOCH),
            ..PodFacts::default()
        }
    }

    /// Nodes may stay unlisted for long: pods that come and go meanwhile, or are not assigned, leave nothing.
    #[test]
    fn nothing_is_kept_of_pods_that_are_gone_before_nodes_are_listed() {
        let mut manager = Manager::new(Config::default());
        let mut give = |inputs: Vec<Input>| {
            for input in inputs {
                let now = Now {
                    mono: Mono::ORIGIN,
                    wall: Wall::UNIX_EPOCH,
                };
                manager.apply(input, now);
            }
            manager.progress.unready.keys().map(PodUid::to_string).collect::<Vec<_>>()
        };
        let all = ["a", "b", "c"].map(|uid| mk_unready(uid, "n1"));
        assert_eq!(give(vec![Input::Pods(all.to_vec().into())]), ["a", "b", "c"]);
        assert_eq!(give(vec![Input::Pod(mk_unready("d", ""))]), ["a", "b", "c"]);
        assert_eq!(give(vec![Input::PodGone("a".into())]), ["b", "c"]);
        assert_eq!(give(vec![Input::Pod(mk_unready("b", "n2"))]), ["b", "c"]);
        assert_eq!(give(vec![Input::Pod(mk_unready("b", ""))]), ["c"]);
        assert_eq!(give(vec![Input::Pods(Vec::new().into())]), [""; 0]);
    }
}
