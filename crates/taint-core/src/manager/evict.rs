//! What should happen to pods: judging them, running their times, publishing what was decided.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use bailiff_model::intent::{EvictionCause, Intent, IntentState, PodEviction, Trigger, WithdrawnReason};
use bailiff_model::{EvictionMode, Mono, NodeName, NodeRef, Now, Origin, PodUid, Profile, Taint, TraceContext, Zone};

use super::Manager;
use crate::deadlines::Timer;
use crate::effect::{Effect, Event};
use crate::judge::{Armed, Judgement, judge};
use crate::nodes::Node;
use crate::pods::{Pod, Published, Why};
use crate::start::{Standing, Start};
use crate::told::Ending;

/// Most taints, and most tolerations, that a cause names: as many as the bus accepts. What is judged is never cut.
const MOST_IN_CAUSE: usize = 256;

/// An attempt to delete a pod is over by then, and our watch has shown it: upstream gives up after 50 ms, if nothing is slow (TE-076).
const ATTEMPTS_TAKE: Duration = Duration::from_secs(1);

/// What is to be published about a pod.
pub(super) struct Word {
    pub(super) state: IntentState,
    pub(super) trigger: Trigger,
    pub(super) due: Mono,
    pub(super) cause: Arc<EvictionCause>,
    /// Since when each taint of the cause counts.
    pub(super) starts: Vec<Start>,
    pub(super) derived_from: Origin,
    pub(super) trace: Option<TraceContext>,
    /// The taint that decides it; none in node mode.
    pub(super) why: Option<Why>,
}

/// Where an eviction comes from.
pub(super) struct Cause {
    derived_from: Origin,
    pub(super) trace: TraceContext,
    /// No verdict accounts for it: the taint itself began the trace.
    pub(super) by_hand: bool,
}

impl Manager {
    /// Judges all pods of a node.
    pub(super) fn evaluate_node(&mut self, name: &NodeName) {
        if self.progress.begun.is_none() {
            return;
        }
        let Some(node) = self.nodes.get(name) else { return };
        let pods = self.pods.at(&node.pods);
        for uid in &pods {
            self.evaluate_pod(uid);
        }
    }

    /// As [`Self::forget_what_was_tried`], of all pods of a node.
    pub(super) fn forget_what_was_tried_on(&mut self, name: &NodeName) {
        let pods = self.nodes.get(name).map(|node| self.pods.at(&node.pods));
        for uid in pods.into_iter().flatten() {
            self.forget_what_was_tried(&uid);
        }
    }

    /// Judges one pod, now that intents are decided at all.
    pub(super) fn evaluate_pod(&mut self, uid: &PodUid) {
        if self.progress.begun.is_some() {
            self.judge_pod(uid, Start::at(self.now));
        }
    }

    /// Upstream a deletion is over, done or given up, soon after it began, and is forgotten then: taints or tolerations that change later
    /// find a pod that is still there as one on which nothing was decided (TE-055, TE-076). So a pod that is due is said to be due once
    /// more, and a time that ran out begins anew, unless the pod is on its way out.
    pub(super) fn forget_what_was_tried(&mut self, uid: &PodUid) {
        if self.config.profile != Profile::Upstream || self.config.mode != EvictionMode::Taint {
            return;
        }
        let Some(pod) = self.pods.get_mut(uid) else { return };
        let Some(known) = pod.intent.as_deref_mut() else { return };
        if known.state == IntentState::Due && known.due + ATTEMPTS_TAKE <= self.now.mono {
            known.again = true;
            if !pod.terminating {
                pod.armed = None;
            }
        }
    }

    /// Judges one pod; a time that is not running yet counts from `arming`.
    pub(super) fn judge_pod(&mut self, uid: &PodUid, arming: Start) {
        match self.config.mode {
            EvictionMode::Taint if self.config.duties.taint_eviction => {
                let Some(pod) = self.pods.get(uid) else { return };
                // A Node that is gone has no taints to judge by; what runs goes on (TE-034, TE-040).
                if self.nodes.get(&pod.node).is_some_and(|node| node.present) {
                    self.judge_by_taints(uid, arming);
                }
            }
            EvictionMode::Node if self.config.duties.node_lifecycle => self.judge_by_node(uid),
            EvictionMode::Taint | EvictionMode::Node => {}
        }
    }

    /// The toleration time of a pod is over (TE-055). Judged once more, unless there is no Node to judge by: what ran because of
    /// one that is gone fires as scheduled (TE-034).
    pub(super) fn time_is_over(&mut self, uid: &PodUid) {
        let Some(pod) = self.pods.get(uid) else { return };
        let Some(node) = self.nodes.get(&pod.node) else { return };
        if node.present {
            return self.judge_by_taints(uid, Start::at(self.now));
        }
        let Some(known) = self.published(uid) else { return };
        let (cause, starts) = cause(node, pod, self.now);
        self.tell_end(uid, Ending::Expired);
        let word = Word {
            state: IntentState::Due,
            trigger: known.trigger,
            due: known.due,
            cause,
            starts,
            derived_from: known.derived_from,
            trace: known.trace,
            why: known.why,
        };
        self.publish_pod(uid, word);
    }

    // === Taint mode ===

    fn judge_by_taints(&mut self, uid: &PodUid, arming: Start) {
        let Some(pod) = self.pods.get_mut(uid) else { return };
        let Some(node) = self.nodes.get(&pod.node) else { return };
        let armed = pod.armed.as_deref().copied();
        let judgement = judge(&node.taints, pod.tolerations(), armed, arming, self.config.profile);
        let armed = match judgement {
            Judgement::Timed(_, armed) => Some(armed),
            Judgement::Clear(_) | Judgement::Untolerated(_) => None,
        };
        pod.armed = armed.map(Box::new);
        match armed {
            Some(armed) if armed.due > self.now.mono => self.deadlines.set(Timer::Pod(uid.clone()), armed.due),
            _ => self.deadlines.cancel(&Timer::Pod(uid.clone())),
        }
        // A time that runs, or none: the end of the next one is to be told.
        pod.told &= armed.is_some_and(|armed| armed.due <= self.now.mono);
        match judgement {
            Judgement::Clear(reason) => self.withdraw(uid, reason),
            Judgement::Untolerated(index) => self.untolerated(uid, index),
            Judgement::Timed(index, armed) => self.timed(uid, index, armed),
        }
    }

    /// TE-052: at once. A running time is called off first, and said so (TE-081).
    fn untolerated(&mut self, uid: &PodUid, index: usize) {
        self.say_cancelled(uid);
        if self.is_scheduled(uid) {
            self.tell_end(uid, Ending::Untolerated);
        }
        let due = self
            .published(uid)
            .filter(|known| known.state == IntentState::Due && known.trigger == Trigger::Untolerated)
            .map_or(self.now.mono, |known| known.due);
        self.publish_by_taint(uid, index, IntentState::Due, Trigger::Untolerated, due);
    }

    /// TE-055. No event when a time starts to run (TE-082).
    fn timed(&mut self, uid: &PodUid, index: usize, armed: Armed) {
        let state = if armed.due > self.now.mono {
            IntentState::Scheduled
        } else {
            IntentState::Due
        };
        self.tell_moved(uid, armed.due);
        self.publish_by_taint(uid, index, state, Trigger::Expired, armed.due);
        if state == IntentState::Due {
            self.tell_expired(uid);
        }
    }

    fn publish_by_taint(&mut self, uid: &PodUid, index: usize, state: IntentState, trigger: Trigger, due: Mono) {
        let Some(pod) = self.pods.get(uid) else { return };
        let Some(node) = self.nodes.get(&pod.node) else { return };
        let (name, standing) = (pod.node.clone(), &node.taints[index]);
        let Cause {
            derived_from,
            trace,
            by_hand,
        } = self.origin(node, standing);
        // The verdict that accounted for the taint may be taken back before the taint is: what follows stays in the incident.
        let (trace, by_hand) = match trace_so_far(pod, node, standing) {
            Some(so_far) if by_hand => (so_far, false),
            _ => (trace, by_hand),
        };
        let (cause, starts) = cause(node, pod, self.now);
        let why = Why {
            taint: standing.taint.clone(),
            since: counted(pod, standing).told_at(self.now),
        };
        let word = Word {
            state,
            trigger,
            due,
            cause,
            starts,
            derived_from,
            trace: Some(trace),
            why: Some(why),
        };
        if self.publish_pod(uid, word) && by_hand {
            self.tell_taint(&name, index);
        }
    }

    /// Where an eviction for this taint comes from: the health record behind it, or a hand.
    pub(super) fn origin(&self, node: &Node, standing: &Standing) -> Cause {
        let identity = &node.facts.node;
        let wish = self
            .wishes
            .get(&identity.name)
            .filter(|wish| wish.causes(identity, &standing.taint));
        if let Some((derived_from, Some(trace))) = wish.map(|wish| (&wish.derived_from, wish.trace)) {
            return Cause {
                derived_from: derived_from.clone(),
                trace,
                by_hand: false,
            };
        }
        Cause {
            derived_from: wish.map_or_else(Origin::default, |wish| wish.derived_from.clone()),
            trace: trace_of_taint(identity, standing),
            by_hand: true,
        }
    }

    // === Node mode ===

    /// Every pod of a node that is to be evicted goes when the node's time is over, whatever it tolerates (NL-202, NL-208).
    /// Which pods are spared is found out when they are deleted (NL-206).
    fn judge_by_node(&mut self, uid: &PodUid) {
        let Some(pod) = self.pods.get(uid) else { return };
        let node = self.nodes.get(&pod.node);
        let wish = self
            .wishes
            .get(&pod.node)
            .filter(|wish| node.is_none_or(|node| !node.present || node.facts.node.uid == wish.node.uid));
        let Some((wish, due)) = wish.and_then(|wish| Some((wish, wish.due?))) else {
            return self.withdraw(uid, WithdrawnReason::NodeRecovered);
        };
        let word = Word {
            state: if due > self.now.mono {
                IntentState::Scheduled
            } else {
                IntentState::Due
            },
            trigger: Trigger::Node,
            due,
            cause: EvictionCause::Node.into(),
            starts: Vec::new(),
            derived_from: wish.derived_from.clone(),
            trace: wish.trace,
            why: None,
        };
        if word.state == IntentState::Due && self.is_scheduled(uid) {
            self.tell_end(uid, Ending::Expired);
        } else {
            self.tell_moved(uid, due);
        }
        self.publish_pod(uid, word);
    }

    /// The node does not exist any more and was not due: its pods are left alone (recording `lg-node-deleted`).
    pub(super) fn drop_intents(&mut self, name: &NodeName) {
        let Some(node) = self.nodes.get(name) else { return };
        for uid in self.pods.at(&node.pods) {
            self.tell_end(&uid, Ending::NodeGone);
            let taken = self.pods.get_mut(&uid).and_then(|pod| pod.intent.take());
            if let Some(published) = taken {
                self.count(Some(published.state), None);
                let key = super::pod_events::key(&uid);
                self.effects.push(Effect::Remove { key });
            }
        }
    }

    // === Publishing ===

    /// Calls off what was published, if it stands (TE-032, TE-054, TE-066).
    fn withdraw(&mut self, uid: &PodUid, reason: WithdrawnReason) {
        let Some(known) = self.published(uid) else { return };
        if matches!(known.state, IntentState::Withdrawn(_)) {
            return;
        }
        self.say_cancelled(uid);
        self.tell_end(uid, Ending::Withdrawn(reason));
        let Some(pod) = self.pods.get(uid) else { return };
        let (cause, starts) = match (self.config.mode, self.nodes.get(&pod.node)) {
            (EvictionMode::Taint, Some(node)) => cause(node, pod, self.now),
            _ => (EvictionCause::Node.into(), Vec::new()),
        };
        let word = Word {
            state: IntentState::Withdrawn(reason),
            trigger: known.trigger,
            due: known.due,
            cause,
            starts,
            derived_from: known.derived_from,
            trace: known.trace,
            why: known.why,
        };
        self.publish_pod(uid, word);
    }

    /// TE-080, TE-066: only a running time is called off with an Event. Node mode has no such Event.
    fn say_cancelled(&mut self, uid: &PodUid) {
        let Some(pod) = self.pods.get(uid) else { return };
        let Some(known) = &pod.intent else { return };
        if known.state == IntentState::Scheduled && self.config.mode == EvictionMode::Taint {
            self.effects
                .push(Effect::Event(Event::cancelling(&pod.reference(uid), known.about(&pod.node))));
        }
    }

    fn published(&self, uid: &PodUid) -> Option<Published> {
        self.pods.get(uid)?.intent.as_deref().cloned()
    }

    /// The node that a pod is on, and its zone.
    pub(super) fn identity(&self, pod: &Pod) -> (NodeRef, Zone) {
        match self.nodes.get(&pod.node) {
            Some(node) if !node.facts.node.uid.is_empty() => (node.facts.node.clone(), node.facts.zone.clone()),
            // Node mode: a Node that was never seen here, known from its health record.
            _ => match self.wishes.get(&pod.node) {
                Some(wish) => (wish.node.clone(), wish.zone.clone()),
                None => (NodeRef::default(), Zone::default()),
            },
        }
    }

    /// Publishes a word if it is news; true if it was.
    pub(super) fn publish_pod(&mut self, uid: &PodUid, word: Word) -> bool {
        let Some(pod) = self.pods.get(uid) else { return false };
        let (node, zone) = self.identity(pod);
        let Some(pod) = self.pods.get_mut(uid) else { return false };
        let digest = digest(&word, &node, &zone);
        let before = pod.intent.as_deref().map(|known| known.state);
        if pod
            .intent
            .as_deref()
            .is_some_and(|known| known.digest == digest && !known.again)
        {
            return false;
        }
        pod.intent = Some(Box::new(Published {
            node: node.clone(),
            state: word.state,
            trigger: word.trigger,
            due: word.due,
            digest,
            again: false,
            derived_from: word.derived_from.clone(),
            trace: word.trace,
            why: word.why,
        }));
        let eviction = PodEviction {
            pod: pod.reference(uid),
            node,
            zone,
            cause: word.cause,
            state: word.state,
            trigger: word.trigger,
            due_at: self.now.wall_of(word.due),
            decided_at: self.now.wall,
        };
        self.effects.push(Effect::Publish {
            intent: Intent::Pod(Box::new(eviction)),
            derived_from: word.derived_from,
            trace: word.trace,
        });
        self.count(before, Some(word.state));
        true
    }

    /// Keeps the sizes by state.
    pub(super) fn count(&mut self, before: Option<IntentState>, after: Option<IntentState>) {
        if let Some(before) = before {
            *self.counter(before) -= 1;
        }
        if let Some(after) = after {
            *self.counter(after) += 1;
        }
    }

    fn counter(&mut self, state: IntentState) -> &mut usize {
        match state {
            IntentState::Scheduled => &mut self.stats.scheduled,
            IntentState::Due => &mut self.stats.due,
            IntentState::Withdrawn(_) => &mut self.stats.withdrawn,
        }
    }

    /// Another Node took the name: times that ran because of the old one are void (TE-035 by uid).
    pub(super) fn forget_running_times(&mut self, name: &NodeName) {
        let Some(node) = self.nodes.get(name) else { return };
        for uid in self.pods.at(&node.pods) {
            if let Some(pod) = self.pods.get_mut(&uid) {
                pod.armed = None;
            }
        }
    }
}

/// The taints that stand, each with the start that this pod's time counts from, and the tolerations that applied (TE-051); and the
/// starts once more. They are told by the clock as it is now, as is when the pod is due: a step of it lies between none of them.
fn cause(node: &Node, pod: &Pod, now: Now) -> (Arc<EvictionCause>, Vec<Start>) {
    let counted = |standing: &Standing| counted(pod, standing);
    let named = || node.taints.iter().take(MOST_IN_CAUSE);
    let taints = named().map(|standing| Taint {
        time_added: Some(counted(standing).told_at(now)),
        ..Taint::clone(&standing.taint)
    });
    // In the pod's order, so that a reader finds the same one used for each taint.
    let first_match = |standing: &Standing| pod.tolerations().iter().position(|one| one.matches(&standing.taint));
    let used: BTreeSet<usize> = named().filter_map(first_match).collect();
    let cause = EvictionCause::Taints {
        taints: taints.collect(),
        tolerations: used.into_iter().map(|index| pod.tolerations()[index].clone()).collect(),
    };
    (cause.into(), named().map(counted).collect())
}

/// Since when a pod's time counts for this taint.
fn counted(pod: &Pod, standing: &Standing) -> Start {
    match &pod.armed {
        Some(armed) => standing.since.max(armed.since),
        None => standing.since,
    }
}

/// The trace of what stands about a pod because of this taint.
fn trace_so_far(pod: &Pod, node: &Node, standing: &Standing) -> Option<TraceContext> {
    let known = pod.intent.as_deref()?;
    let stands = !matches!(known.state, IntentState::Withdrawn(_)) && known.node.uid == node.facts.node.uid;
    let is_of_taint = known.why.as_ref().is_some_and(|why| standing.is_of(&why.taint));
    known.trace.filter(|_| stands && is_of_taint)
}

/// The trace that a taint begins which no verdict accounts for.
pub(super) fn trace_of_taint(node: &NodeRef, standing: &Standing) -> TraceContext {
    standing.trace.unwrap_or_else(|| {
        let (taint, since) = (standing.taint.to_string(), standing.since.wall.as_microsecond().to_string());
        TraceContext::derived(&[&node.uid.to_string(), "\0", &taint, "\0", &since])
    })
}

/// A digest of what a reader can act on: not of the moment of the decision, nor of versions, nor of what the clock says to a moment.
fn digest(word: &Word, node: &NodeRef, zone: &Zone) -> u64 {
    // Of the standard library, with fixed keys: the same in every run.
    let mut hasher = DefaultHasher::new();
    (word.state, word.trigger, word.due, &node.uid, zone).hash(&mut hasher);
    if let EvictionCause::Taints { taints, tolerations } = &*word.cause {
        for taint in taints {
            (&taint.key, &taint.value, taint.effect).hash(&mut hasher);
        }
        (&word.starts, tolerations).hash(&mut hasher);
    }
    hasher.finish()
}
