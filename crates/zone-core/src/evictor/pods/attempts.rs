//! What follows a request about a pod that failed (TE-075, TE-076).
//!
//! It is tried again for as long as the pod is due, ever later. In upstream's profile there are five attempts, 10 ms apart; then the pod
//! is given up, which is said, until it is judged again: its tolerations or its node's taints changed, or a stage started anew. An attempt
//! is all the requests from one read of the pod to the first error. What says nothing about the API server's answer is none: what was not
//! sent, a conflict (upstream requires no resourceVersion), a budget.

use std::time::Duration;

use bailiff_model::intent::EvictionCause;
use bailiff_model::outcome::{PodOutcomeState, RefusedReason};
use bailiff_model::{Now, PodUid, Profile};

use super::super::{Evictor, Timer};
use super::{Awaited, Pod, Stage};
use crate::backoff;
use crate::input::{Failure, FailureKind};

/// TE-004
const ATTEMPTS: u32 = 5;
/// TE-004
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(10);
/// A server that says when to come again is heeded by upstream's client, so often within one attempt.
const WAITS: u32 = 10;

/// What came of the attempts to delete a pod since it was judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Attempts {
    failed: u32,
    /// Of the present one.
    waited: u32,
}

// === impl Attempts ===

impl Attempts {
    /// How long to wait before the next request, of this attempt or of another; nothing if this was the last. `failures` is how many
    /// requests failed so far.
    fn pause(&mut self, failure: &Failure, failures: u32) -> Option<Duration> {
        if failure.kind == FailureKind::NotSent {
            return Some(backoff::pause(failures, failure.retry_after));
        }
        if failure.retry_after.is_some() && self.waited < WAITS {
            self.waited += 1;
            return Some(backoff::pause(1, failure.retry_after));
        }
        self.waited = 0;
        self.failed += 1;
        (self.failed < ATTEMPTS).then_some(BETWEEN_ATTEMPTS)
    }
}

// === impl Pod ===

impl Pod {
    /// Another judgement, so another deletion (TE-076). One that was given up is announced as another, too (TE-081).
    pub(super) fn judged_again(&mut self) {
        self.attempts = Attempts::default();
        if self.said() == Some(&PodOutcomeState::Refused(RefusedReason::Api)) {
            self.announced = false;
        }
    }
}

// === impl Evictor ===

impl Evictor {
    pub(super) fn pod_attempt_failed(&mut self, uid: &PodUid, failure: Failure, now: Now) {
        let is_upstreams = self.config.profile == Profile::Upstream;
        let Some(pod) = self.pods.all.get_mut(uid) else {
            return;
        };
        pod.failures = pod.failures.saturating_add(1);
        pod.conflicts = 0;
        let is_by_taint = matches!(*pod.intent.cause, EvictionCause::Taints { .. });
        let pause = if is_upstreams && is_by_taint {
            let Some(pause) = pod.attempts.pause(&failure, pod.failures) else {
                let detail = format!("given up after {ATTEMPTS} attempts: {}", failure.detail);
                return self.refuse_pod(uid, RefusedReason::Api, detail, now);
            };
            pause
        } else if failure.kind == FailureKind::Invalid {
            // What the server refuses today (a webhook, a policy, a proxy) it may accept tomorrow. Until then it goes last.
            pod.overdue = true;
            backoff::pause_refused(pod.failures)
        } else {
            backoff::pause(pod.failures, failure.retry_after)
        };
        // Said first: it is being evicted since the attempt began.
        self.say_pod_failed(uid, failure.detail.clone(), pause, now);
        self.attempt_failed(uid, &failure, now);
        self.await_for_pod(uid, Awaited::Retry(failure.kind), failure.detail, now);
        self.pods.set_stage(uid, Stage::Backoff);
        self.timers.set(Timer::Pod(uid.clone()), now.mono + pause);
    }
}
