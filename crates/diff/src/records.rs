//! What the records of the bus answer.

use std::fmt::Display;

use bailiff_event_bus::Body;
use bailiff_explain::{Said, sentence};
use bailiff_model::health::{NodeHealth, Verdict};
use bailiff_model::intent::{Intent, IntentState, NodeEviction};
use bailiff_model::outcome::{NodeOutcome, NodeOutcomeState, Outcome, PodOutcome, PodOutcomeState, ZoneStatus};
use bailiff_model::rollout::DaemonSetSync;
use bailiff_model::{Hold, HoldReason, PodRef, Topic};

use crate::answer::{Answer, Key, Question};

/// A pod is deleted.
const GOES: &str = "goes";

/// What is wanted of a node is done: it has its taint, or all its pods go (node mode). Which taint is not said with it, and of a node that
/// waits for its turn, as all do with an observer, neither which of the two.
pub(crate) const DONE: &str = "acted on";

/// The question that a record answers, and the answer; `None` if nothing is wanted any more.
pub fn answer(body: &Body) -> (Key, Option<Answer>) {
    let why = || sentence::sentence(said(body));
    match body {
        Body::NodeHealth(health) => (node(Question::Health, &health.node.name), Some(of_health(health, why()))),
        Body::Intent(Intent::Isolation(isolation)) => {
            let answer = Answer::new(tainted(isolation.taint.key()), why());
            (node(Question::Isolation, &isolation.node.name), Some(answer))
        }
        Body::Intent(Intent::NodeEviction(eviction)) => (
            node(Question::Isolation, &eviction.node.name),
            Some(of_node_eviction(eviction, why())),
        ),
        Body::Intent(Intent::Pod(eviction)) => {
            let answer = match eviction.state {
                IntentState::Scheduled => Some(Answer::new("goes when its toleration ends", why()).at(eviction.due_at)),
                IntentState::Due => Some(Answer::new(GOES, why())),
                IntentState::Withdrawn(_) => None,
            };
            (of_ref(&eviction.pod), answer)
        }
        Body::Outcome(Outcome::Zone(zone)) => (
            Key::new(Question::Zone, format!("zone {}", zone.zone)),
            Some(of_zone(zone, why())),
        ),
        Body::Outcome(Outcome::Node(outcome)) => (node(Question::Isolation, &outcome.node.name), of_node(outcome, why())),
        Body::Outcome(Outcome::Pod(outcome)) => (of_ref(&outcome.pod), of_pod(outcome, why())),
        Body::DaemonSetSync(sync) => {
            let key = daemonset(&sync.namespace, &sync.name, sync.uid.as_str());
            (key, Some(of_sync(sync, why())))
        }
    }
}

/// The object of a question is gone with this record's tombstone, and its last answer is what was decided. Otherwise nothing is wanted
/// any more.
pub fn is_final(topic: Topic, key: &Key, answer: Option<&Answer>) -> bool {
    let is_pods = matches!(topic, Topic::EvictionIntents | Topic::EvictionOutcomes) && key.question == Question::Eviction;
    is_pods && answer.is_some_and(|answer| answer.says == GOES)
}

/// What a record says, for whoever puts it into words.
pub fn said(body: &Body) -> Said<'_> {
    match body {
        Body::NodeHealth(health) => Said::Health(health),
        Body::Intent(intent) => Said::Intent(intent),
        Body::Outcome(outcome) => Said::Outcome(outcome),
        Body::DaemonSetSync(sync) => Said::Rollout(sync),
    }
}

pub(crate) fn node(question: Question, name: impl Display) -> Key {
    Key::new(question, format!("node {name}"))
}

pub(crate) fn pod(namespace: impl Display, name: impl Display, uid: impl Into<String>) -> Key {
    Key::new(Question::Eviction, format!("pod {namespace}/{name}")).of_uid(uid)
}

pub(crate) fn daemonset(namespace: impl Display, name: impl Display, uid: impl Into<String>) -> Key {
    Key::new(Question::Rollout, format!("daemonset {namespace}/{name}")).of_uid(uid)
}

fn of_ref(named: &PodRef) -> Key {
    pod(&named.namespace, &named.name, named.uid.to_string())
}

/// A pod is deleted, whatever its node does then.
pub(crate) fn gone(why: String) -> Answer {
    Answer::new(GOES, why).for_good()
}

/// A node has the taint of this key that makes pods go.
pub(crate) fn tainted(key: &str) -> String {
    format!("taint {key}:NoExecute")
}

fn of_health(health: &NodeHealth, why: String) -> Answer {
    let mut says = health.verdict.as_str().to_owned();
    says += &format!(" in zone {}", health.zone);
    if health.excluded_from_disruption {
        says += ", without a vote";
    }
    says += &held(health.held.as_ref());
    // A record says HEALTHY of a node whose Ready is anything but True only by mistake.
    if health.verdict == Verdict::Healthy {
        says += &format!(", Ready={}", health.ready.status.as_str());
    }
    Answer::new(says, why)
}

fn of_node_eviction(eviction: &NodeEviction, why: String) -> Answer {
    if eviction.due {
        Answer::new("all its pods go", why)
    } else {
        Answer::new("all its pods go when its time ends", why).at(eviction.not_before)
    }
}

fn of_zone(zone: &ZoneStatus, why: String) -> Answer {
    Answer::new(
        format!(
            "{} at {} nodes/s{}",
            zone.state,
            zone.rate_per_second,
            held(zone.held.as_ref())
        ),
        why,
    )
}

fn of_node(outcome: &NodeOutcome, why: String) -> Option<Answer> {
    let answer = match &outcome.state {
        NodeOutcomeState::Isolated => Answer::new(DONE, why).by("isolated"),
        NodeOutcomeState::Evicted => Answer::new(DONE, why).by("emptied"),
        NodeOutcomeState::Queued { .. } => Answer::new(DONE, why).in_turn(),
        NodeOutcomeState::Held(hold) if is_in_turn(hold) => Answer::new(DONE, why).in_turn(),
        NodeOutcomeState::Held(hold) => Answer::new(format!("stays{}", held(Some(hold))), why),
        NodeOutcomeState::Released => return None,
    };
    Some(answer)
}

fn of_pod(outcome: &PodOutcome, why: String) -> Option<Answer> {
    let answer = match &outcome.state {
        PodOutcomeState::Evicting => Answer::new(GOES, why),
        PodOutcomeState::Deleted | PodOutcomeState::Gone => gone(why),
        // Nothing else keeps it from that (it is the last reason there is): what an observer would have deleted at this moment does not
        // come back when its node does. With the other it may be waiting for a slot, which is told late; an observer's waits for none.
        PodOutcomeState::Held(hold) if hold.reason == HoldReason::Observing => gone(why).in_turn(),
        PodOutcomeState::Held(hold) if is_in_turn(hold) => Answer::new(GOES, why).in_turn(),
        PodOutcomeState::Held(hold) => Answer::new(format!("stays{}", held(Some(hold))), why),
        PodOutcomeState::Blocked { by } => Answer::new(format!("stays, PodDisruptionBudget {by} forbids it"), why),
        PodOutcomeState::Refused(reason) => Answer::new(format!("stays, refused: {}", reason.as_str()), why),
        PodOutcomeState::Cancelled => return None,
    };
    Some(answer)
}

fn of_sync(sync: &DaemonSetSync, why: String) -> Answer {
    let counts = &sync.counts;
    let says = rollout(sync.observed_generation, counts.desired, counts.updated, counts.misscheduled);
    Answer::new(says + &held(sync.held.as_ref()), why)
}

/// How far a DaemonSet is, by what its controller decides alone; readiness is the kubelets', and on the way from one revision to the next
/// no two look at the same moment.
pub(crate) fn rollout(generation: i64, desired: u32, updated: u32, misscheduled: u32) -> String {
    let is_done = if updated >= desired { "all run" } else { "not all run" };
    format!(
        "generation {generation}: {desired} nodes should run it, {is_done} the current revision, {misscheduled} run it and should not"
    )
}

/// It is decided, and acted on when others are done. An observer's nodes never get their turn: it grants none.
fn is_in_turn(hold: &Hold) -> bool {
    matches!(
        hold.reason,
        HoldReason::RateLimited | HoldReason::TaintOrder | HoldReason::Observing
    )
}

/// Why nothing happens. An observer does nothing by intent, which is no answer.
fn held(hold: Option<&Hold>) -> String {
    match hold {
        Some(hold) if hold.reason != HoldReason::Observing => format!(", held: {}", hold.reason),
        Some(_) | None => String::new(),
    }
}

#[cfg(test)]
mod tests;
