//! What is over, and told: times of pods, hand-made taints, pods that stay.

use bailiff_model::intent::IntentState;
use bailiff_model::{EvictionMode, Moment, Mono, NodeName, Now, PodUid, Wall};

use super::Manager;
use super::evict::trace_of_taint;
use crate::effect::Effect;
use crate::pods::{Pod, Published};
use crate::told::{Counts, Ending, Part, Told};

impl Manager {
    pub(super) fn tell(&mut self, told: Told) {
        self.effects.push(Effect::Tell(Box::new(told)));
    }

    pub(super) fn tell_all(&mut self, told: Option<Told>) {
        self.effects.extend(told.map(|told| Effect::Tell(Box::new(told))));
    }

    /// What was said last about a pod is about to stand no longer. A pod that is on its way out goes all the same: that is told when it
    /// is gone.
    pub(super) fn tell_end(&mut self, uid: &PodUid, ending: Ending) {
        let Some(pod) = self.pods.get(uid) else { return };
        let told = pod.intent.as_deref().and_then(|known| self.end_of(uid, pod, known, ending));
        let Some(told) = told else { return };
        let is_leaving = pod.terminating && matches!(told.what, Part::Termination { .. });
        let over = if is_leaving {
            self.leaving.insert(uid.clone(), told)
        } else {
            Some(told)
        };
        self.tell_all(over);
    }

    /// A pod is gone; `state` is what was said last about it. One that was called off on its way out went: one that was due anew since
    /// then went because of that.
    pub(super) fn tell_left(&mut self, uid: &PodUid, state: Option<IntentState>) {
        let Some(mut told) = self.leaving.remove(uid) else { return };
        if state != Some(IntentState::Due)
            && let Part::Termination { ending, .. } = &mut told.what
        {
            *ending = Ending::PodGone;
            told.end = self.now.wall.max(told.end);
        }
        self.tell(told);
    }

    /// A time that runs is moved to `due` (TE-063), if it is.
    pub(super) fn tell_moved(&mut self, uid: &PodUid, due: Mono) {
        let known = self.pods.get(uid).and_then(|pod| pod.intent.as_deref());
        let runs = known.is_some_and(|known| known.state == IntentState::Scheduled && known.due != due);
        if runs && due > self.now.mono {
            self.tell_end(uid, Ending::Moved(self.now.wall_of(due)));
        }
    }

    /// A time ran out, as was just published: once, and not if there was none to wait for.
    pub(super) fn tell_expired(&mut self, uid: &PodUid) {
        let Some(pod) = self.pods.get_mut(uid) else { return };
        if std::mem::replace(&mut pod.told, true) {
            return;
        }
        let Some(pod) = self.pods.get(uid) else { return };
        let Some(known) = pod.intent.as_deref() else { return };
        let Some(why) = known.why.clone() else { return };
        let ran = Published {
            state: IntentState::Scheduled,
            ..known.clone()
        };
        if why.since < self.now.wall_of(known.due) {
            let told = self.end_of(uid, pod, &ran, Ending::Expired);
            self.tell_all(told);
        }
    }

    pub(super) fn is_scheduled(&self, uid: &PodUid) -> bool {
        let known = self.pods.get(uid).and_then(|pod| pod.intent.as_deref());
        known.is_some_and(|known| known.state == IntentState::Scheduled)
    }

    /// What is over with what was said last about a pod: a running time, or the wait for it to go.
    pub(super) fn end_of(&self, uid: &PodUid, pod: &Pod, known: &Published, ending: Ending) -> Option<Told> {
        let due = self.now.wall_of(known.due);
        let taint = known.why.as_ref().map(|why| why.taint.clone());
        let (start, what) = match known.state {
            IntentState::Withdrawn(_) => return None,
            IntentState::Scheduled => {
                let start = self.ran_since(known);
                let allowed = due.duration_since(start).try_into().unwrap_or_default();
                let pod = pod.reference(uid);
                let part = Part::Toleration {
                    pod,
                    taint,
                    allowed,
                    ending,
                };
                (start, part)
            }
            IntentState::Due => {
                let pod = pod.reference(uid);
                (due, Part::Termination { pod, taint, ending })
            }
        };
        Some(Told {
            node: known.node.clone(),
            trace: known.trace?,
            start,
            end: ended(ending, due, self.now),
            what,
        })
    }

    /// Since when the time of a pod ran: in node mode the whole of it lies before the moment when it is due.
    fn ran_since(&self, known: &Published) -> Wall {
        match &known.why {
            Some(why) => why.since,
            None => self
                .now
                .wall_at(Moment::from(known.due).back(self.config.pod_eviction_timeout)),
        }
    }

    /// A taint that was put by hand concerns somebody: the first of its trace, unless it was told.
    pub(super) fn tell_taint(&mut self, name: &NodeName, index: usize) {
        let Some(node) = self.nodes.get_mut(name) else { return };
        let Some(standing) = node.taints.get_mut(index) else { return };
        if standing.trace.is_some() {
            return;
        }
        let trace = trace_of_taint(&node.facts.node, standing);
        standing.trace = Some(trace);
        let (taint, since, reference) = (standing.taint.clone(), standing.since.wall, node.facts.node.clone());
        self.tell(Told {
            node: reference,
            trace,
            start: since.min(self.now.wall),
            end: self.now.wall,
            what: Part::Taint(taint),
        });
    }

    /// The pods of a node were judged by a taint that is new to it. Who may stay is told once for all of them.
    pub(super) fn tell_tolerated(&mut self, name: &NodeName, index: usize) {
        let decides = self.config.mode == EvictionMode::Taint && self.config.duties.taint_eviction;
        if self.progress.begun.is_none() || !decides {
            return;
        }
        let pods = self.counts(name);
        let Some(node) = self.nodes.get(name).filter(|_| pods.tolerating > 0) else {
            return;
        };
        let Some(standing) = node.taints.get(index) else { return };
        let origin = self.origin(node, standing);
        let told = Told {
            node: node.facts.node.clone(),
            trace: origin.trace,
            start: standing.since.wall.min(self.now.wall),
            end: self.now.wall,
            what: Part::Tolerated {
                taint: standing.taint.clone(),
                pods,
            },
        };
        if origin.by_hand {
            self.tell_taint(name, index);
        }
        self.tell(told);
    }

    fn counts(&self, name: &NodeName) -> Counts {
        let mut counts = Counts::default();
        let pods = self.nodes.get(name).map(|node| self.pods.at(&node.pods)).unwrap_or_default();
        for pod in pods.iter().filter_map(|uid| self.pods.get(uid)) {
            match pod.intent.as_deref().map(|known| known.state) {
                Some(IntentState::Due) => counts.due += 1,
                Some(IntentState::Scheduled) => counts.timed += 1,
                Some(IntentState::Withdrawn(_)) | None => counts.tolerating += 1,
            }
        }
        counts
    }
}

/// A time that ran out ended when it was over, whenever that was found.
fn ended(ending: Ending, due: Wall, now: Now) -> Wall {
    match ending {
        Ending::Expired => due.min(now.wall),
        _ => now.wall,
    }
}
