//! What a trace is told of a pod: each wait of its eviction that is over, each attempt, and the end of it all.
//!
//! A wait in line is told when it ends with the pod's turn. Where thousands are called off together while they wait, the end of each
//! says what it waited for, and that is all.

use bailiff_model::intent::EvictionCause;
use bailiff_model::outcome::{PodOutcome, PodOutcomeState};
use bailiff_model::{HoldReason, Now, PodUid, Wall};

use super::super::Evictor;
use super::{Pod, Told};
use crate::effect::Effect;
use crate::input::{Failure, FailureKind};
use crate::span::{Span, SpanEnd, SpanKind, SpanReason, Why};

/// What a due pod waits for, and since when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    since: Wall,
    what: Awaited,
    detail: String,
}

/// What is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Awaited {
    /// That a hold ends.
    Hold(HoldReason),
    /// Its turn.
    Turn,
    /// That this budget allows it.
    Budget(String),
    /// Another try.
    Retry(FailureKind),
}

impl Awaited {
    /// A hold and a budget are waited for as long as they are the same; each failure is followed by a wait of its own.
    fn goes_on_as(&self, other: &Self) -> bool {
        self == other && !matches!(self, Self::Retry(_))
    }

    const fn kind(&self) -> SpanKind {
        match self {
            Self::Hold(_) | Self::Turn => SpanKind::Held,
            Self::Budget(_) => SpanKind::Blocked,
            Self::Retry(_) => SpanKind::Retry,
        }
    }

    const fn reason(&self) -> SpanReason {
        match self {
            Self::Hold(reason) => SpanReason::Hold(*reason),
            Self::Turn => SpanReason::Hold(HoldReason::RateLimited),
            Self::Budget(_) => SpanReason::DisruptionBudget,
            Self::Retry(kind) => SpanReason::Failure(*kind),
        }
    }

    /// As what comes next.
    const fn as_end(&self) -> SpanEnd {
        match self {
            Self::Hold(_) => SpanEnd::Held,
            Self::Turn => SpanEnd::Waiting,
            Self::Budget(_) => SpanEnd::Blocked,
            Self::Retry(_) => SpanEnd::Failed,
        }
    }
}

impl Wait {
    fn why(&self) -> Why {
        let detail = match &self.what {
            Awaited::Budget(by) if self.detail.is_empty() => by.clone(),
            Awaited::Budget(by) => format!("{by}: {}", self.detail),
            Awaited::Turn if self.detail.is_empty() => "others were ahead of it".to_owned(),
            _ => self.detail.clone(),
        };
        Why::new(self.what.reason(), detail)
    }
}

impl Evictor {
    fn tell_of_pod(&mut self, uid: &PodUid, kind: SpanKind, start: Wall, outcome: SpanEnd, why: Why, now: Now) {
        let Some(pod) = self.pods.all.get(uid) else {
            return;
        };
        let span = Span {
            kind,
            trace: pod.trace,
            start,
            end: now.wall,
            node: pod.intent.node.clone(),
            pod: Some(pod.reference()),
            outcome,
            why,
        };
        self.effects.push(Effect::Span(span));
    }

    /// The pod waits for this from now on; if it does so already it goes on waiting.
    pub(super) fn await_for_pod(&mut self, uid: &PodUid, what: Awaited, detail: String, now: Now) {
        let waits = self.pods.all.get(uid).and_then(|pod| pod.wait.as_ref());
        if waits.is_some_and(|wait| wait.what.goes_on_as(&what)) {
            return;
        }
        self.end_wait(uid, what.as_end(), now);
        if let Some(pod) = self.pods.all.get_mut(uid) {
            let since = now.wall;
            pod.wait = Some(Box::new(Wait { since, what, detail }));
        }
    }

    /// True while a budget forbids the eviction, also while it is tried again.
    pub(super) fn is_blocked(&self, uid: &PodUid) -> bool {
        let wait = self.pods.all.get(uid).and_then(|pod| pod.wait.as_ref());
        wait.is_some_and(|wait| matches!(wait.what, Awaited::Budget(_)))
    }

    pub(super) fn end_wait(&mut self, uid: &PodUid, next: SpanEnd, now: Now) {
        let wait = self.pods.all.get_mut(uid).and_then(|pod| pod.wait.take());
        if let Some(wait) = wait.filter(|wait| wait.since != now.wall) {
            self.tell_of_pod(uid, wait.what.kind(), wait.since, next, wait.why(), now);
        }
    }

    /// The attempt to delete the pod, all the requests from the first on, is over.
    pub(super) fn end_attempt(&mut self, uid: &PodUid, end: SpanEnd, why: Why, now: Now) {
        let asked = self.pods.all.get_mut(uid).and_then(|pod| pod.asked_at.take());
        if let Some(asked) = asked {
            self.tell_of_pod(uid, SpanKind::Delete, asked.wall, end, why, now);
        }
    }

    pub(super) fn attempt_failed(&mut self, uid: &PodUid, failure: &Failure, now: Now) {
        let why = Why::new(SpanReason::from(failure.kind), failure.detail.clone());
        self.end_attempt(uid, SpanEnd::Failed, why, now);
    }

    /// Nothing more happens unless the intent changes.
    pub(super) fn end_eviction(&mut self, uid: &PodUid, end: SpanEnd, reason: Option<SpanReason>, detail: &str, now: Now) {
        let Some(pod) = self.pods.all.get(uid) else {
            return;
        };
        let (start, last) = (pod.since, pod.wait.as_ref().map(|wait| wait.why()));
        let in_line = pod.wait.as_ref().is_some_and(|wait| wait.what == Awaited::Turn);
        let why = match (reason, end) {
            (None, SpanEnd::Cancelled) if detail.is_empty() => last.unwrap_or_default(),
            (None, SpanEnd::Cancelled) => Why {
                detail: detail.to_owned(),
                ..last.unwrap_or_default()
            },
            _ => Why::new(reason, detail),
        };
        self.end_attempt(uid, end, Why::new(reason, detail), now);
        if !in_line {
            self.end_wait(uid, end, now);
        }
        self.tell_of_pod(uid, SpanKind::Eviction, start, end, why, now);
    }
}

impl Pod {
    /// It is where it was when an earlier instance said this.
    pub(super) fn goes_on(&mut self, said: PodOutcome) {
        let since = said.since.min(self.since);
        self.since = since;
        self.earlier = Some(Box::new(Told::earlier(said.state.clone(), said.since)));
        let with_node = *self.intent.cause == EvictionCause::Node;
        let (what, detail) = match said.state {
            // Where the whole node is evicted it may have been the node that waited for its turn.
            PodOutcomeState::Held(hold) if hold.reason == HoldReason::RateLimited && !with_node => (Awaited::Turn, String::new()),
            PodOutcomeState::Held(hold) => (Awaited::Hold(hold.reason), hold.detail),
            PodOutcomeState::Blocked { by } => (Awaited::Budget(by), said.detail),
            _ => return,
        };
        self.wait = Some(Box::new(Wait { since, what, detail }));
    }

    /// Since when it waits for its turn, or for a hold to end.
    pub(super) fn waits_since(&self) -> Option<Wall> {
        let wait = self.wait.as_ref()?;
        matches!(wait.what, Awaited::Turn | Awaited::Hold(_)).then_some(wait.since)
    }

    /// It is done with, and begins anew.
    pub(super) fn begin_anew(&mut self, now: Now) {
        self.since = now.wall;
        self.wait = None;
    }
}

/// As the end of an eviction, with the reason that the state itself has.
pub(super) const fn end_of(state: &PodOutcomeState) -> (SpanEnd, Option<SpanReason>) {
    match state {
        PodOutcomeState::Deleted => (SpanEnd::Deleted, None),
        PodOutcomeState::Gone => (SpanEnd::Gone, None),
        PodOutcomeState::Refused(reason) => (SpanEnd::Refused, Some(SpanReason::Refused(*reason))),
        PodOutcomeState::Cancelled => (SpanEnd::Cancelled, None),
        PodOutcomeState::Evicting => (SpanEnd::Evicting, None),
        PodOutcomeState::Blocked { .. } => (SpanEnd::Blocked, None),
        PodOutcomeState::Held(_) => (SpanEnd::Held, None),
    }
}
