//! Pods that are due.
//!
//! ```text
//!  DUE ─▶ held ◀─▶ waiting ─▶ (reading) ─▶ marking ─▶ deleting ─▶ done
//!           ▲         │  ▲                    │           │
//!           └─────────┘  └── backoff ◀────────┴───────────┘   any failure but "gone" (TE-076)
//!                     └─▶ confirming: the node's taints, as known, justify nothing; the watch or a read of the node decides
//! ```
//! In upstream's profile a pod is given up after five attempts, until it is judged again ([`attempts`]).
//! With `--eviction-method=evict` it is reading ─▶ evicting: the Eviction API sets the condition itself, once budgets allow it.
//!
//! Judged before the first request and again on the answer to the mark; the delete carries the resourceVersion of that answer, so what
//! was judged is what is deleted. A withdrawal ends everything but a delete that was sent; what waits for its turn under the client's rate
//! limit is not sent yet, and is called off when the pod is withdrawn, its node says that it is Ready or justifies it no more, or a hold
//! begins.
//!
//! **Pace.** What was due before this process could act or before the taint-manager could say so, or became free when a hold ended, is
//! *overdue*: it is served at `overdue_per_second`, after what is new. The pace comes from the API client's own limit
//! (`--kube-api-qps`), of which it leaves half.

mod answers;
mod attempts;
mod gone;
mod lines;
mod recall;
mod say;
mod spared;
mod steps;
mod untold;
mod waits;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bailiff_model::intent::{EvictionCause, IntentState, PodEviction, Trigger};
use bailiff_model::outcome::{PodOutcomeState, RefusedReason};
use bailiff_model::{
    About, EvictionMode, HoldReason, IndexMap, Mono, NodeName, Now, Origin, PodRef, PodUid, ResourceVersion, Toleration,
    TraceContext, Wall, Window,
};

use super::holds::Reason;
use super::{Asker, Evictor, Timer};
use crate::effect::{Count, Effect, Mark, Ticket};
use crate::fact::PodFacts;
use crate::rate::Bucket;
use crate::span::SpanEnd;

use attempts::Attempts;
use gone::Gone;
use say::Told;
pub(super) use spared::DaemonSets;
use untold::{Untold, unsure};
use waits::{Awaited, Wait, end_of};

/// A time that was over for longer when its intent was made ran out while nobody watched. As long as a bus may be silent before what it
/// said counts as old (design §2); a stage that runs is never that late.
const LATE_AFTER: Duration = Duration::from_secs(10);

/// Where a pod's eviction stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Not looked at yet, or belongs to another instance's zone.
    New,
    /// Something holds it. Left when a gate, or its node, changes.
    Held(HoldReason),
    /// In line for a free slot; the number is its place.
    Waiting(u64),
    /// A read of its node was asked for. Left by the answer, or once its node as the watch shows it justifies it.
    Confirming,
    /// A request is under way. Left by the answer.
    Reading(Ticket),
    Marking(Ticket),
    Deleting(Ticket),
    /// A request failed. Left by time.
    Backoff,
    /// Nothing more happens unless the intent changes, or what it was refused for.
    Done,
}

impl Stage {
    const fn is_in_flight(self) -> bool {
        self.ticket().is_some()
    }

    /// Of the request that is under way.
    const fn ticket(self) -> Option<Ticket> {
        match self {
            Self::Reading(ticket) | Self::Marking(ticket) | Self::Deleting(ticket) => Some(ticket),
            _ => None,
        }
    }
}

/// The state of the pod that the next request requires; no resourceVersion: it must be read first.
#[derive(Clone, Debug)]
struct Target {
    resource_version: ResourceVersion,
    disruption_target: bool,
    generation: i64,
}

/// What is kept of a pod that is due.
#[derive(Clone, Debug)]
struct Pod {
    intent: PodEviction,
    origin: Origin,
    trace: Option<TraceContext>,
    /// When the present intent was received.
    received_at: Mono,
    /// When it was first due, as far as we know, or due again after we were done with it.
    since: Wall,
    /// What it waits for.
    wait: Option<Box<Wait>>,
    /// When the first request of the present attempt was made.
    asked_at: Option<Now>,
    due_since: Mono,
    /// A budget forbade its eviction since.
    blocked: bool,
    stage: Stage,
    target: Target,
    /// The pod as the last answer showed it, if that is still `target`.
    seen: Option<Box<PodFacts>>,
    failures: u32,
    conflicts: u32,
    attempts: Attempts,
    overdue: bool,
    announced: bool,
    withdrawn: bool,
    /// The request under way was called off, if it was not sent yet.
    recalled: bool,
    said: Option<Box<Told>>,
    /// What an earlier instance said last, as long as this one said nothing.
    earlier: Option<Box<Told>>,
}

/// The pods that are due, and who is next.
#[derive(Debug)]
pub(super) struct Pods {
    /// Boxed: the table doubles as it grows.
    all: IndexMap<PodUid, Box<Pod>>,
    by_node: IndexMap<NodeName, BTreeSet<PodUid>>,
    /// To be looked at before this input is done with.
    dirty: BTreeSet<PodUid>,
    held: BTreeSet<PodUid>,
    fresh: BTreeMap<u64, PodUid>,
    overdue: BTreeMap<u64, PodUid>,
    next_place: u64,
    in_flight: BTreeSet<PodUid>,
    gone: Gone,
    pace: Bucket,
    slots: Window,
    untold: Untold,
}

/// What is to be done next about a pod.
enum Step {
    Hold(Reason),
    Confirm,
    Refuse(RefusedReason),
    Read,
    Mark(Mark),
    Delete,
    Evict,
    /// Node mode: somebody deleted it already (NL-206).
    Leave,
}

// === impl Target ===

impl From<&PodRef> for Target {
    fn from(pod: &PodRef) -> Self {
        Self {
            resource_version: pod.resource_version.clone(),
            disruption_target: pod.disruption_target,
            generation: pod.generation,
        }
    }
}

// === impl Pod ===

impl Pod {
    /// The pod in the state that the next request requires.
    fn reference(&self) -> PodRef {
        let Target {
            resource_version,
            disruption_target,
            generation,
        } = self.target.clone();
        PodRef {
            resource_version,
            disruption_target,
            generation,
            ..self.intent.pod.clone()
        }
    }

    /// What it tolerates, if it was read.
    fn tolerations(&self) -> Option<&[Toleration]> {
        self.seen.as_ref().map(|seen| seen.tolerations.as_slice())
    }

    /// The state that was said last.
    fn said(&self) -> Option<&PodOutcomeState> {
        self.said.as_ref().map(|told| &told.state)
    }

    /// What its Events name: of several taints that decide alike the first, in the node's order.
    fn about(&self) -> About {
        About::node(&self.intent.node.name)
            .because_of(self.intent.decisive_taints().first().copied())
            .traced(self.trace)
    }
}

// === impl Evictor: intents ===

impl Evictor {
    pub(super) fn take_pod_intent(
        &mut self,
        origin: Origin,
        trace: Option<TraceContext>,
        intent: PodEviction,
        overdue: bool,
        now: Now,
    ) {
        let ours = match *intent.cause {
            EvictionCause::Taints { .. } => self.config.duties.taint_eviction,
            EvictionCause::Node => self.config.duties.node_lifecycle && self.config.mode == EvictionMode::Node,
        };
        if !ours {
            return;
        }
        match intent.state {
            IntentState::Due => {
                let overdue = overdue || is_told_late(&intent);
                self.pod_due(origin, trace, intent, overdue, now);
            }
            IntentState::Scheduled | IntentState::Withdrawn(_) => self.withdraw_pod(&intent.pod.uid.clone(), now),
        }
    }

    fn pod_due(&mut self, origin: Origin, trace: Option<TraceContext>, mut intent: PodEviction, overdue: bool, now: Now) {
        self.share_alike(&mut intent);
        let origin = self.common.origin(origin);
        let uid = intent.pod.uid.clone();
        if let Some(pod) = self.pods.all.get_mut(&uid) {
            if pod.origin == origin {
                return;
            }
            pod.origin = origin.clone();
            pod.trace = trace;
            pod.withdrawn = false;
            pod.judged_again();
            let deleted = pod.said() == Some(&PodOutcomeState::Deleted);
            if deleted || pod.stage.is_in_flight() {
                // What is under way is finished; what is done is not done twice for one incarnation (TE-052 would).
                return self.pods.take_intent(&uid, intent, now.mono);
            }
            if pod.intent.node.name == intent.node.name {
                pod.target = Target::from(&intent.pod);
                pod.seen = None;
                if pod.stage == Stage::Done {
                    pod.begin_anew(now);
                }
                if matches!(pod.stage, Stage::Done | Stage::Confirming) {
                    self.pods.set_stage(&uid, Stage::New);
                }
                self.pods.take_intent(&uid, intent, now.mono);
                self.pods.dirty.insert(uid);
                return;
            }
            if self.is_open(&uid) {
                self.end_eviction(&uid, SpanEnd::Cancelled, None, "the pod is on another node", now);
            }
            self.pods.remove(&uid);
        }
        let node = intent.node.name.clone();
        self.pods.by_node.entry(node).or_default().insert(uid.clone());
        self.pods.dirty.insert(uid.clone());
        let pod = Pod {
            target: Target::from(&intent.pod),
            intent,
            origin,
            trace,
            received_at: now.mono,
            since: now.wall,
            wait: None,
            asked_at: None,
            due_since: now.mono,
            blocked: false,
            stage: Stage::New,
            seen: None,
            failures: 0,
            conflicts: 0,
            attempts: Attempts::default(),
            overdue,
            announced: false,
            withdrawn: false,
            recalled: false,
            said: None,
            earlier: None,
        };
        self.enter_pod(uid, pod);
    }
}

/// Its time was over long before anybody said so: no taint-manager ran, or it could not see or speak. By one clock, that of who says it.
fn is_told_late(intent: &PodEviction) -> bool {
    let late_by = Duration::try_from(intent.decided_at.duration_since(intent.due_at)).unwrap_or_default();
    intent.trigger == Trigger::Expired && late_by > LATE_AFTER
}

// === impl Evictor: what intents have in common ===

impl Evictor {
    /// What thousands of intents say alike is kept once.
    fn share_alike(&mut self, intent: &mut PodEviction) {
        if let Some((name, _)) = self.nodes.get_key_value(&intent.node.name) {
            intent.node.name = name.clone();
        }
        let mut share = |text: &mut Arc<str>| self.common.share(text);
        let mut namespace = Arc::from(std::mem::take(&mut intent.pod.namespace));
        share(&mut namespace);
        intent.pod.namespace = namespace.into();
        share(&mut intent.zone.region);
        share(&mut intent.zone.zone);
        intent.cause = self.common.cause(&intent.cause);
    }
}

// === impl Evictor: decisions ===

impl Evictor {
    /// Looks at the pods something changed for, then serves those whose turn it is.
    pub(super) fn evict(&mut self, now: Now) {
        loop {
            while let Some(uid) = self.pods.dirty.pop_first() {
                self.look_at_pod(&uid, now);
            }
            let Some(uid) = self.next_pod(now) else {
                break;
            };
            self.advance(&uid, now);
        }
        self.read_to_be_sure(now);
        self.tell_who_waits(now);
        self.tell_who_goes(now);
    }

    fn look_at_pod(&mut self, uid: &PodUid, now: Now) {
        let Some(pod) = self.pods.all.get(uid) else {
            return;
        };
        if pod.stage.is_in_flight() {
            return self.recall_if_held(uid);
        }
        if !self.owns_pod(&pod.intent) {
            return self.leave_pod(uid, now);
        }
        if matches!(pod.stage, Stage::Done | Stage::Waiting(_)) {
            return;
        }
        // The watch may show what justifies it before its node's turn to be read comes.
        if pod.stage == Stage::Confirming && !self.is_sure(pod) && self.judge_pod(pod).is_err() {
            return;
        }
        if pod.stage == Stage::Backoff && !self.pods_timer_is_over(uid) {
            return;
        }
        match self.pod_hold(&pod.intent, pod.tolerations()) {
            Some(reason) => self.hold_pod(uid, reason, now),
            None => {
                let own = [HoldReason::RateLimited, HoldReason::OutdatedIntent];
                let freed = matches!(pod.stage, Stage::Held(reason) if !own.contains(&reason));
                self.line_up(uid, freed, now);
            }
        }
    }

    /// True if this instance works on the pod: by the zone of its node, as the intent has it if the node is gone.
    fn owns_pod(&self, intent: &PodEviction) -> bool {
        self.config.shard.owns_zone(self.zone_of(&intent.node.name, &intent.zone))
    }

    /// A pod that backs off is looked at again by its timer only; the timer is gone once it fired.
    fn pods_timer_is_over(&self, uid: &PodUid) -> bool {
        self.timers.get(&Timer::Pod(uid.clone())).is_none()
    }

    /// Makes the next step of one pod's eviction: from waiting, or from the answer to the step before.
    fn advance(&mut self, uid: &PodUid, now: Now) {
        let Some(pod) = self.pods.all.get(uid) else {
            return;
        };
        if !self.owns_pod(&pod.intent) {
            return self.leave_pod(uid, now);
        }
        match self.next_step(pod, now) {
            Step::Hold(reason) => self.hold_pod(uid, reason, now),
            Step::Confirm => {
                let node = pod.intent.node.name.clone();
                let hold = unsure(&node);
                self.end_attempt(uid, SpanEnd::Held, hold.clone().into(), now);
                self.await_for_pod(uid, Awaited::Hold(hold.reason), hold.detail, now);
                self.pods.set_stage(uid, Stage::Confirming);
                self.pod_waits(uid, now);
                self.confirm_node(&node);
            }
            Step::Refuse(reason) => self.refuse_pod(uid, reason, String::new(), now),
            Step::Read => {
                let (ticket, pod) = self.pod_request(uid, Stage::Reading, now);
                self.effects.push(Effect::ReadPod { ticket, pod });
            }
            Step::Mark(mark) => {
                self.announce(uid, false);
                let (ticket, pod) = self.pod_request(uid, Stage::Marking, now);
                self.effects.push(Effect::MarkPod { ticket, pod, mark });
            }
            Step::Delete => {
                self.announce(uid, true);
                let (ticket, pod) = self.pod_request(uid, Stage::Deleting, now);
                self.effects.push(Effect::DeletePod { ticket, pod });
            }
            Step::Evict => {
                self.announce(uid, true);
                let (ticket, pod) = self.pod_request(uid, Stage::Deleting, now);
                self.effects.push(Effect::EvictPod { ticket, pod });
            }
            Step::Leave => self.finish_pod(uid, PodOutcomeState::Deleted, "it was being deleted already".to_owned(), now),
        }
    }

    fn pod_request(&mut self, uid: &PodUid, stage: fn(Ticket) -> Stage, now: Now) -> (Ticket, PodRef) {
        let ticket = self.ticket(Asker::Pod(uid.clone()));
        let blocked = self.pods.all.get(uid).and_then(|pod| pod.said());
        // While a budget is tried again and again it stays blocked: that is no news.
        if !matches!(blocked, Some(PodOutcomeState::Blocked { .. })) {
            self.pod_goes(uid, now);
        }
        self.pods.set_stage(uid, stage(ticket));
        if !self.is_blocked(uid) {
            self.end_wait(uid, SpanEnd::Evicting, now);
        }
        let target = self.pods.all.get_mut(uid).map(|pod| {
            pod.recalled = false;
            pod.asked_at.get_or_insert(now);
            pod.reference()
        });
        (ticket, target.unwrap_or_default())
    }

    fn hold_pod(&mut self, uid: &PodUid, reason: Reason, now: Now) {
        let node = self.pods.all.get(uid).map(|pod| pod.intent.node.name.clone());
        if let Some(node) = node.filter(|_| reason.reason == HoldReason::OutdatedIntent) {
            self.ask_if_ready(&node);
        }
        self.pods.set_stage(uid, Stage::Held(reason.reason));
        self.end_attempt(uid, SpanEnd::Held, reason.clone().into(), now);
        self.await_for_pod(uid, Awaited::Hold(reason.reason), reason.detail.clone(), now);
        self.say_pod_held(uid, reason, now);
    }

    fn refuse_pod(&mut self, uid: &PodUid, reason: RefusedReason, detail: String, now: Now) {
        self.effects.push(Effect::Count(Count::PodRefused(reason)));
        self.finish_pod(uid, PodOutcomeState::Refused(reason), detail, now);
    }

    fn finish_pod(&mut self, uid: &PodUid, state: PodOutcomeState, detail: String, now: Now) {
        let (end, reason) = end_of(&state);
        self.end_eviction(uid, end, reason, &detail, now);
        self.say_pod(uid, state, detail, now);
        self.pods.set_stage(uid, Stage::Done);
        let withdrawn = self.pods.all.get_mut(uid).is_some_and(|pod| {
            pod.seen = None;
            pod.withdrawn
        });
        if withdrawn {
            self.pods.remove(uid);
        }
    }
}
