//! What became of the requests about a pod.

use std::time::Duration;

use bailiff_model::outcome::PodOutcomeState;
use bailiff_model::{Load, Now, PodUid, ResourceVersion};

use super::super::{Evictor, Timer};
use super::{Awaited, Stage, Target};
use crate::backoff;
use crate::config::EvictionMethod;
use crate::effect::{Count, Effect, NODE_LOST, Ticket};
use crate::fact::PodFacts;
use crate::input::{Block, Failure, FailureKind, PodAnswer};

/// Conflicts that are answered with a fresh read and another try at once; then they count as failures. As TE-071's attempts.
const CONFLICTS: u32 = 5;

impl Evictor {
    pub(in crate::evictor) fn pod_answered(&mut self, uid: &PodUid, ticket: Ticket, result: Result<PodAnswer, Failure>, now: Now) {
        let stage = self.pods.all.get(uid).map(|pod| pod.stage);
        let Some(stage) = stage.filter(|stage| stage.ticket() == Some(ticket)) else {
            return;
        };
        let load = result.as_ref().map_or_else(|failure| failure.load, |_| Load::Answered);
        self.pods.slots.ended(load);
        match (stage, result) {
            (Stage::Reading(_) | Stage::Marking(_), Ok(PodAnswer::Facts(facts))) => {
                self.pod_seen(uid, facts, matches!(stage, Stage::Marking(_)), now);
            }
            (Stage::Deleting(_), Ok(PodAnswer::Blocked(block))) => self.pod_blocked(uid, block, now),
            (Stage::Deleting(_), Ok(_)) => self.pod_deleted(uid, now),
            (_, Err(failure)) => self.pod_failed(uid, stage, failure, now),
            (_, Ok(_)) => {}
        }
    }

    /// A fresh state of the pod: judge it and go on, unless it is another pod, or the intent is gone.
    fn pod_seen(&mut self, uid: &PodUid, mut facts: PodFacts, after_mark: bool, now: Now) {
        if facts.uid != *uid {
            return self.finish_pod(uid, PodOutcomeState::Gone, "another pod has its name".to_owned(), now);
        }
        let Some(pod) = self.pods.all.get_mut(uid) else {
            return;
        };
        if pod.withdrawn {
            return self.cancel_pod(uid, now);
        }
        if after_mark {
            // The server accepted it; whether its answer shows it does not matter.
            facts.marked = true;
            facts.reason = NODE_LOST.to_owned();
        }
        pod.target = Target::from(&facts.reference());
        pod.seen = Some(Box::new(facts));
        self.advance(uid, now);
    }

    fn pod_deleted(&mut self, uid: &PodUid, now: Now) {
        if let Some(pod) = self.pods.all.get(uid) {
            let late_by = now.wall.duration_since(pod.intent.due_at);
            let after = Duration::try_from(late_by).unwrap_or_default();
            self.effects.push(Effect::Count(Count::PodDeleted { after }));
        }
        self.finish_pod(uid, PodOutcomeState::Deleted, String::new(), now);
    }

    /// A budget forbids the eviction: it is tried again, ever more slowly and not before the server says, or deleted in the end.
    fn pod_blocked(&mut self, uid: &PodUid, block: Block, now: Now) {
        let Some(pod) = self.pods.all.get_mut(uid) else {
            return;
        };
        if pod.withdrawn {
            return self.cancel_pod(uid, now);
        }
        pod.seen = None;
        pod.target.resource_version = ResourceVersion::default();
        if !self.is_open(uid) {
            return self.leave_pod(uid, now);
        }
        let Some(pod) = self.pods.all.get_mut(uid) else { return };
        pod.failures = pod.failures.saturating_add(1);
        pod.blocked = true;
        // The wait for the budget tells of all the tries.
        pod.asked_at = None;
        let mut until = now.mono + backoff::pause(pod.failures, block.retry_after);
        if let EvictionMethod::EvictThenDelete { after } = self.config.method {
            until = until.min((pod.due_since + after).max(now.mono));
        }
        self.pods.set_stage(uid, Stage::Backoff);
        self.timers.set(Timer::Pod(uid.clone()), until);
        self.effects.push(Effect::Count(Count::PodBlocked));
        self.await_for_pod(uid, Awaited::Budget(block.by.clone()), block.detail.clone(), now);
        self.say_pod_blocked(uid, block.by, block.detail, until.saturating_since(now.mono), now);
    }

    fn pod_failed(&mut self, uid: &PodUid, stage: Stage, failure: Failure, now: Now) {
        let Some(pod) = self.pods.all.get_mut(uid) else {
            return;
        };
        if failure.kind == FailureKind::Gone {
            return self.finish_pod(uid, PodOutcomeState::Gone, String::new(), now);
        }
        if failure.kind != FailureKind::CalledOff {
            self.effects.push(Effect::Count(Count::RequestFailed { what: "pod" }));
        }
        if pod.withdrawn {
            return self.cancel_pod(uid, now);
        }
        // Whatever comes next begins with a fresh read.
        pod.seen = None;
        pod.target.resource_version = ResourceVersion::default();
        if !self.is_open(uid) {
            return self.leave_pod(uid, now);
        }
        let Some(pod) = self.pods.all.get_mut(uid) else { return };
        match failure.kind {
            FailureKind::CalledOff => self.pod_called_off(uid, now),
            FailureKind::Conflict if pod.conflicts < CONFLICTS && !matches!(stage, Stage::Reading(_)) => {
                pod.conflicts += 1;
                self.advance(uid, now);
            }
            _ => self.pod_attempt_failed(uid, failure, now),
        }
    }
}
