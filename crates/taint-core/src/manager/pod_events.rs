//! Pods come, change and go.

use bailiff_model::intent::IntentState;
use bailiff_model::{EvictionMode, Listed, PodUid, Profile, ReadyStatus};

use super::Manager;
use crate::deadlines::Timer;
use crate::effect::{Effect, Event};
use crate::facts::PodFacts;
use crate::pods::Removed;
use crate::start::Start;
use crate::told::Ending;

impl Manager {
    /// Some of a list. Each pod is judged by itself, so nothing waits for the others; who is gone shows only in the end.
    pub(super) fn some_pods_listed(&mut self, begins: bool, pods: Vec<PodFacts>) {
        if begins {
            self.unlisted_pods.begin(self.pods.uids().cloned());
        }
        let first = !self.progress.pods_listed;
        for facts in pods {
            self.unlisted_pods.saw(&facts.pod.uid);
            self.pod_seen(facts, first);
        }
    }

    pub(super) fn pods_listed(&mut self, list: Listed<PodFacts, PodUid>) {
        let named = list.all.iter().map(|facts| &facts.pod.uid).chain(&list.unreadable);
        let unlisted = self.unlisted_pods.end(|| self.pods.uids().cloned(), named);
        let gone: Vec<PodUid> = self.pods.uids().filter(|uid| unlisted.contains(*uid)).cloned().collect();
        for uid in gone {
            self.pod_gone(&uid);
        }
        let first = !self.progress.pods_listed;
        for facts in list.all {
            self.pod_seen(facts, first);
        }
        self.progress.pods_listed = true;
        self.finish_marking();
    }

    /// A Pod as the watch shows it; `first` in the first list of this process.
    pub(super) fn pod_seen(&mut self, facts: PodFacts, first: bool) {
        let uid = facts.pod.uid.clone();
        let since = facts.ready_since.filter(|_| facts.ready == ReadyStatus::False);
        let known_on = self.pods.get(&uid).map(|pod| pod.node.clone());
        match known_on {
            // An assignment is for life, so this is another pod in all but its uid.
            Some(node) if node != facts.node => {
                self.pod_gone(&uid);
                self.pod_arrived(facts, first);
            }
            Some(_) => self.pod_changed(facts),
            None => self.pod_arrived(facts, first),
        }
        self.note_unready(&uid, since);
    }

    fn pod_arrived(&mut self, facts: PodFacts, first: bool) {
        // Unassigned pods concern nobody here (TE-021).
        if facts.node.is_empty() || !self.config.shard.owns(&facts.node) {
            return;
        }
        let (uid, node) = (facts.pod.uid.clone(), facts.node.clone());
        let bound = match facts.bound {
            Some(bound) if first && self.config.profile == Profile::Bailiff => Start::of_wall(bound, self.now),
            _ => Start::at(self.now),
        };
        let name = self.nodes.get_key_value(&node).map_or(node, |(name, _)| name.clone());
        let place = self.pods.insert(facts, name.clone(), bound);
        self.nodes.entry(name).or_default().pods.push(place);
        if !first {
            self.mark_late_arrival(&uid);
        }
        self.evaluate_pod(&uid);
    }

    /// TE-011: only tolerations matter; status, labels, deletion and resyncs do not.
    fn pod_changed(&mut self, facts: PodFacts) {
        let uid = facts.pod.uid.clone();
        let (ready, ready_since) = (facts.ready, facts.ready_since);
        if matches!(ready, ReadyStatus::False | ReadyStatus::Absent) {
            let is_early = self.is_early(&facts.node, ready, ready_since);
            if let Some(pod) = self.pods.get_mut(&uid) {
                pod.spared |= pod.mark && is_early;
            }
            self.clear_mark(&uid);
        }
        if self.pods.update(facts) {
            self.forget_what_was_tried(&uid);
            self.evaluate_pod(&uid);
        }
        if ready == ReadyStatus::True {
            self.mark_overtaken(&uid, ready_since);
        }
    }

    /// TE-042: a running time is called off, and said so, although the pod is gone.
    pub(super) fn pod_gone(&mut self, uid: &PodUid) {
        self.clear_mark(uid);
        self.deadlines.cancel(&Timer::Pod(uid.clone()));
        self.progress.unready.remove(uid);
        let Some(removed) = self.pods.remove(uid) else { return };
        self.leave_place(&removed);
        let pod = removed.pod;
        self.note_mark_ended(&pod.node, uid, false);
        self.tell_left(uid, pod.intent.as_deref().map(|known| known.state));
        if let Some(intent) = &pod.intent {
            if intent.state == IntentState::Scheduled && self.config.mode == EvictionMode::Taint {
                self.effects
                    .push(Effect::Event(Event::cancelling(&pod.reference(uid), intent.about(&pod.node))));
            }
            let told = self.end_of(uid, &pod, intent, Ending::PodGone);
            self.tell_all(told);
            self.count(Some(intent.state), None);
            self.effects.push(Effect::Remove { key: key(uid) });
        }
        self.drop_unused_node(&pod.node);
    }

    /// Takes a pod that is forgotten from its node; another one may be in its place now.
    fn leave_place(&mut self, removed: &Removed) {
        if let Some(node) = self.nodes.get_mut(&removed.pod.node) {
            node.pods.retain(|place| *place != removed.place);
        }
        if let Some((name, before)) = &removed.moved
            && let Some(node) = self.nodes.get_mut(name)
            && let Some(place) = node.pods.iter_mut().find(|place| *place == before)
        {
            *place = removed.place;
        }
    }
}

/// Key of a pod's intent.
pub(super) fn key(uid: &PodUid) -> String {
    format!("pod/{uid}")
}
