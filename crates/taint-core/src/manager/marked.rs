//! What is told of marking: how many pods of a node were marked, and for how long that was held.

use bailiff_model::{HoldReason, NodeName, PodUid, Topic, Wall};

use super::Manager;
use crate::markings::{Marking, Wait};
use crate::told::{Part, Told};

impl Manager {
    /// A pod of a silent node is to be marked.
    pub(super) fn note_mark_wanted(&mut self, uid: &PodUid) {
        let node = self.pods.get(uid).and_then(|pod| self.nodes.get(&pod.node));
        if let Some(node) = node {
            let name = node.facts.node.name.clone();
            self.markings.want(&node.facts.node, uid, self.now.wall);
            self.note_trace_of_marks(&name);
        }
    }

    /// The verdict about the node is known, or became so: it may come later than the condition.
    pub(super) fn note_trace_of_marks(&mut self, node: &NodeName) {
        let trace = self.wishes.get(node).and_then(|wish| wish.trace);
        if let Some(marking) = self.markings.get_mut(node) {
            marking.trace = marking.trace.or(trace);
        }
    }

    /// It was marked, or will not be.
    pub(super) fn note_mark_ended(&mut self, node: &NodeName, uid: &PodUid, marked: bool) {
        if let Some(marking) = self.markings.end(node, uid, marked) {
            self.tell_marking(marking);
        }
    }

    /// A request failed; it will be made again.
    pub(super) fn note_mark_failed(&mut self, uid: &PodUid) {
        let Some(pod) = self.pods.get(uid) else { return };
        if let Some(marking) = self.markings.get_mut(&pod.node) {
            marking.failed += 1;
        }
    }

    /// Pods of the node are not marked at the moment, because of a hold. Said again of the next pod, it changes nothing.
    pub(super) fn note_marks_held(&mut self, node: &NodeName) {
        let Some((reason, detail)) = self.hold_on(node) else { return };
        let wait = Wait {
            reason,
            detail,
            since: self.now.wall,
        };
        let Some(marking) = self.markings.get_mut(node) else { return };
        let same = |known: &Wait| (known.reason, &known.detail) == (wait.reason, &wait.detail);
        if marking.wait.as_ref().is_some_and(same) {
            return;
        }
        let before = marking.wait.replace(wait);
        self.tell_wait(node, before);
    }

    /// A pod of the node is about to be marked: nothing holds that any more.
    pub(super) fn note_marks_released(&mut self, node: &NodeName) {
        let before = self.markings.get_mut(node).and_then(|marking| marking.wait.take());
        self.tell_wait(node, before);
    }

    /// Why pods of the node are not marked.
    fn hold_on(&self, name: &NodeName) -> Option<(HoldReason, String)> {
        let zone = &self.nodes.get(name)?.facts.zone;
        let hold = self.holds.on_node(zone, name);
        let outside = hold.map(|hold| (hold.reason, hold.detail.clone()));
        let by_monitor = || {
            let held = self.held_zones.contains(zone);
            held.then(|| (HoldReason::CorrelatedLoss, format!("leases of zone {zone} stopped together")))
        };
        let unknown = || {
            let detail = format!("not every shard of topic {} is complete", Topic::NodeHealth);
            (!self.progress.marks_begun).then_some((HoldReason::Incomplete, detail))
        };
        outside.or_else(by_monitor).or_else(unknown)
    }

    fn tell_wait(&mut self, node: &NodeName, wait: Option<Wait>) {
        let now = self.now.wall;
        let Some(marking) = self.markings.get_mut(node) else { return };
        let told = wait.and_then(|wait| told_of_wait(marking, wait, now, true));
        self.tell_all(told);
    }

    fn tell_marking(&mut self, mut marking: Marking) {
        let now = self.now.wall;
        let wait = marking.wait.take();
        let wait = wait.and_then(|wait| told_of_wait(&marking, wait, now, false));
        self.tell_all(wait);
        let Marking {
            node,
            trace: Some(trace),
            since,
            marked,
            spared,
            failed,
            ..
        } = marking
        else {
            return;
        };
        // Nothing was done, nor tried.
        if marked + failed > 0 {
            self.tell(Told {
                node,
                trace,
                start: since,
                end: now,
                what: Part::Marks { marked, spared, failed },
            });
        }
    }
}

fn told_of_wait(marking: &Marking, wait: Wait, now: Wall, released: bool) -> Option<Told> {
    Some(Told {
        node: marking.node.clone(),
        trace: marking.trace?,
        start: wait.since,
        end: now,
        what: Part::MarksHeld {
            reason: wait.reason,
            detail: wait.detail,
            released,
        },
    })
}
