//! Deleting pods: what manage wants gone (DS-101 to DS-113), and what a rolling update replaces (DS-134 to DS-138).

use bailiff_model::{About, NodeName, PodName, PodUid, Profile};

use super::claims::{self, Kind};
use super::{BURST, Cx, Set, Timer};
use crate::effect::{Answer, FailureKind, Request, Severity};
use crate::facts::Strategy;
use crate::pair::{Cause, Rolled};
use crate::policy::Place;
use crate::retry::PodBackoff;

use std::collections::BTreeMap;

/// Requests to delete.
#[derive(Debug, Default)]
pub(crate) struct Deletes {
    /// Deletes that are not answered.
    pub(super) in_flight: usize,
    /// Deletes that are not answered or not seen yet.
    pub(super) outstanding: usize,
}

impl Set {
    fn room_for_deletes(&self) -> usize {
        BURST.saturating_sub(self.deletes.outstanding)
    }

    /// Deletes what manage wants gone.
    pub(super) fn delete_unwanted(&mut self, cx: &mut Cx<'_>) {
        let unwanted = self.tally.delete.iter().filter(|(uid, (node, _))| !cx.keeps(node, uid));
        let unwanted = unwanted.take(self.room_for_deletes());
        let unwanted: Vec<(PodUid, NodeName, Cause)> = unwanted
            .map(|(uid, (node, cause))| (uid.clone(), node.clone(), *cause))
            .collect();
        for (uid, node, cause) in unwanted {
            // Deleting one pod of a node may save another one.
            if self.tally.delete.contains_key(&uid) {
                self.delete(&node, &uid, cause, cx);
            }
        }
    }

    fn delete(&mut self, node: &NodeName, uid: &PodUid, cause: Cause, cx: &mut Cx<'_>) {
        let Some(pod) = cx.world.pod(uid) else { return };
        let (namespace, name) = (&pod.namespace, &pod.name);
        match cause {
            Cause::Plain => {}
            Cause::Failed => {
                self.advance_backoff(node, cx);
                let message = format!("Found failed daemon pod {namespace}/{name} on node {node}, will try to kill it");
                cx.out
                    .event(&self.owner, Severity::Warning, "FailedDaemonPod", message, About::node(node));
            }
            Cause::Succeeded => {
                let message = format!("Found succeeded daemon pod {namespace}/{name} on node {node}, will try to delete it");
                cx.out.event(
                    &self.owner,
                    Severity::Normal,
                    "SucceededDaemonPod",
                    message,
                    About::node(node),
                );
            }
        }
        let (name, uid) = (name.clone(), uid.clone());
        self.work_on(pod, Kind::Delete, Request::DeletePod { name, uid }, cx);
        self.judge(node, cx);
    }

    /// DS-105, DS-106
    fn advance_backoff(&mut self, node: &NodeName, cx: &Cx<'_>) {
        let backoff = PodBackoff::advance(self.backoffs.get(node).copied(), cx.now.mono);
        self.backoffs.insert(node.clone(), backoff);
        self.timers.set(&Timer::Forget(node.clone()), Some(backoff.forgotten_at()));
    }

    /// True if the rollout goes no further before nodes recover: as many went bad with a current pod as the budget allows.
    pub(super) fn is_halted(&self) -> bool {
        let limits = self.ds.strategy.limits(self.tally.counts().desired);
        let limit = if self.ds.strategy.is_surging() {
            limits.surge
        } else {
            limits.unavailable
        };
        self.tally.broken > 0 && self.tally.broken >= limit
    }

    /// True if a rolling update does nothing at the moment.
    pub(super) fn is_resting(&self, profile: Profile) -> bool {
        let is_stuck = self.tally.lost > 0 && profile == Profile::Upstream;
        self.ds.strategy == Strategy::OnDelete || is_stuck || self.policy.paused || self.is_halted()
    }

    /// When a rollout comes to rest, pairs whose pods it is about to delete or to create are judged once more: what was not sent is taken
    /// back.
    pub(super) fn note_rest(&mut self, cx: &mut Cx<'_>) {
        let rests = self.is_resting(cx.profile);
        let did_rest = std::mem::replace(&mut self.rests, rests);
        if rests && !did_rest {
            self.touched = self.nodes_of_deletes(cx.world);
            self.touched.extend(self.creates.waiting_nodes().cloned());
            self.judge_touched(cx);
        }
    }

    /// Replaces old pods as far as the budgets go. Creating new ones is [`Set::create_wanted`]'s.
    pub(super) fn roll(&mut self, cx: &mut Cx<'_>) {
        if self.is_resting(cx.profile) {
            return;
        }
        let desired = self.tally.counts().desired;
        let limit = self.ds.strategy.limits(desired).unavailable;
        let is_surging = self.ds.strategy.is_surging();
        let mut room = self.room_for_deletes();
        if self.policy.strict && !is_surging {
            room = room.min(usize::try_from(limit.saturating_sub(self.tally.taken)).unwrap_or(usize::MAX));
        }
        for (place, uid) in self.replaceable(room, cx) {
            self.replace(&place, &uid, Rolled::Unavailable, cx);
        }
        if is_surging {
            // DS-138: capacity is not lost before others serve.
            while self.tally.served > desired && self.roll_one(|set| &set.tally.late, cx) {}
        } else {
            // DS-135
            while self.tally.used < limit && self.roll_one(|set| &set.tally.candidates, cx) {}
        }
    }

    /// Old pods that go at once, as far as there is room.
    fn replaceable(&self, room: usize, cx: &Cx<'_>) -> Vec<(Place, PodUid)> {
        let replace = self.tally.replace.iter().filter(|(place, uid)| !cx.keeps(&place.node, uid));
        replace.take(room).map(|(place, uid)| (place.clone(), uid.clone())).collect()
    }

    /// Deletes the first pod of a candidate set that may go; false if there is none or no room.
    fn roll_one(&mut self, candidates: impl Fn(&Self) -> &BTreeMap<Place, PodUid>, cx: &mut Cx<'_>) -> bool {
        if self.room_for_deletes() == 0 {
            return false;
        }
        let Some((place, uid)) = candidates(self)
            .iter()
            .find(|(place, uid)| !cx.keeps(&place.node, uid))
            .map(|(place, uid)| (place.clone(), uid.clone()))
        else {
            return false;
        };
        self.replace(&place, &uid, Rolled::Available, cx);
        candidates(self).get(&place) != Some(&uid)
    }

    fn replace(&mut self, place: &Place, uid: &PodUid, rolled: Rolled, cx: &mut Cx<'_>) {
        if let Some(pair) = self.pairs.get_mut(&place.node) {
            pair.rolled = rolled;
        }
        self.delete(&place.node, uid, Cause::Plain, cx);
    }

    /// A request about a pod was answered.
    pub(super) fn pod_answered(&mut self, pod: (&PodUid, &PodName, &About), kind: Kind, answer: &Answer, cx: &mut Cx<'_>) {
        let (uid, name, about) = pod;
        let is_delete = kind == Kind::Delete;
        if is_delete {
            self.deletes.in_flight -= 1;
        }
        match answer {
            Answer::Failed(failure) if claims::is_moot(failure) => self.pod_done(uid, kind, true, cx),
            Answer::Failed(failure) if failure.kind == FailureKind::CalledOff => self.pod_called_off(uid, cx.world),
            Answer::Failed(failure) => {
                // What did not leave this process within its time was refused by nobody.
                if is_delete && failure.kind != FailureKind::NotSent {
                    let message = format!("Error deleting: {}", failure.message);
                    cx.out
                        .event(&self.owner, Severity::Warning, "FailedDelete", message, about.clone());
                }
                self.pod_failed(uid, failure.kind, failure.retry_after, cx);
            }
            // As if it had been refused: asked for at once again it would be without end.
            Answer::Pod(pod) if !self.has_effect(pod, kind) => self.pod_failed(uid, FailureKind::Other, None, cx),
            _ => {
                if is_delete {
                    cx.out.event(
                        &self.owner,
                        Severity::Normal,
                        "SuccessfulDelete",
                        format!("Deleted pod: {name}"),
                        about.clone(),
                    );
                }
                self.pod_done(uid, kind, false, cx);
            }
        }
        self.claims.answered(kind);
        // The pods are looked through once per batch.
        self.history_dirty |= kind == Kind::Relabel && self.claims.relabelling == 0;
        self.touched.extend(about.node.clone());
    }
}
