//! What comes next, and what would stop it.

use bailiff_model::Wall;
use bailiff_model::health::{NodeHealth, Verdict};
use bailiff_model::hold::{Hold, HoldReason};
use bailiff_model::intent::{Intent, IntentState, Trigger};
use bailiff_model::outcome::{NodeOutcomeState, Outcome, PodOutcomeState};
use bailiff_model::rollout::WhyNot;
use serde_json::{Value, json};

use super::Told;
use crate::Said;

/// Something that will happen unless something else does.
#[derive(Clone, Debug, PartialEq)]
pub struct Next {
    /// What.
    pub text: String,
    /// When, if a record says so.
    pub at: Option<Wall>,
    /// What would stop it.
    pub unless: Option<String>,
}

impl Next {
    fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            at: None,
            unless: None,
        }
    }

    fn at(mut self, at: impl Into<Option<Wall>>) -> Self {
        self.at = at.into();
        self
    }

    fn unless(mut self, what: &str) -> Self {
        self.unless = Some(what.to_owned());
        self
    }

    /// In plain text.
    pub fn text(&self) -> String {
        let at = self.at.map_or_else(String::new, |at| format!("at {at:.0}: "));
        let unless = self
            .unless
            .as_ref()
            .map_or_else(String::new, |what| format!(", unless {what}"));
        format!("{at}{}{unless}", self.text)
    }

    /// As JSON.
    pub fn json(&self) -> Value {
        let mut object = json!({"text": self.text});
        if let Some(at) = self.at {
            object["at"] = json!(at.to_string());
        }
        if let Some(what) = &self.unless {
            object["unless"] = json!(what);
        }
        object
    }
}

/// By what pods of nodes that are lost go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// By the NoExecute taints of their nodes.
    Taints,
    /// Node mode: by their nodes.
    Node,
}

// === impl Mode ===

impl Mode {
    /// What is wanted says it. Where nothing is, nothing follows either.
    fn of(latest: &[Told<'_>]) -> Self {
        let is_by_node = |told: &Told<'_>| match told.said {
            Some(Said::Intent(Intent::NodeEviction(_))) => true,
            Some(Said::Intent(Intent::Pod(eviction))) => eviction.trigger == Trigger::Node,
            _ => false,
        };
        if latest.iter().any(is_by_node) {
            Self::Node
        } else {
            Self::Taints
        }
    }

    /// What is done to a node whose turn it is.
    const fn done(self) -> &'static str {
        match self {
            Self::Taints => "isolated",
            Self::Node => "emptied",
        }
    }
}

/// What follows from the last record of each key.
pub(super) fn of(latest: &[Told<'_>]) -> Vec<Next> {
    // What the zone-evictor says of a pod is what became of the wish: the wish alone tells what comes only before that. A wish that
    // came after it is another where it was called off or refused; whatever else was said stands for both.
    let is_taken_up = |told: &Told<'_>| {
        latest.iter().any(|other| match other.said {
            Some(Said::Outcome(Outcome::Pod(outcome))) => match outcome.state {
                PodOutcomeState::Cancelled | PodOutcomeState::Refused(_) => other.revision > told.revision,
                _ => true,
            },
            _ => false,
        })
    };
    let mode = Mode::of(latest);
    let of = |told: &Told<'_>| one(told.said?, is_taken_up(told), mode);
    latest.iter().filter_map(of).collect()
}

fn one(said: Said<'_>, is_taken_up: bool, mode: Mode) -> Option<Next> {
    match said {
        Said::Health(health) => of_health(health),
        Said::Intent(Intent::Isolation(_)) => None,
        Said::Intent(Intent::NodeEviction(eviction)) if eviction.due => None,
        Said::Intent(Intent::NodeEviction(eviction)) => {
            let next = Next::new("all pods of the node should go").at(eviction.not_before);
            Some(next.unless("the node is Ready by then"))
        }
        Said::Intent(Intent::Pod(eviction)) => match eviction.state {
            IntentState::Scheduled => {
                let next = Next::new("the pod is evicted").at(eviction.due_at);
                Some(next.unless(match eviction.trigger {
                    Trigger::Untolerated | Trigger::Expired => "the taints go, or it gets to tolerate them",
                    Trigger::Node => "its node is Ready by then",
                }))
            }
            IntentState::Due if !is_taken_up => Some(Next::new("the zone-evictor takes it up")),
            IntentState::Due | IntentState::Withdrawn(_) => None,
        },
        Said::Outcome(Outcome::Zone(_)) => None,
        Said::Outcome(Outcome::Node(outcome)) => match &outcome.state {
            NodeOutcomeState::Queued { expected_at, .. } => {
                let next = Next::new(format!("the zone's rate lets it be {}", mode.done())).at(*expected_at);
                Some(next.unless("it recovers, or its zone's rate changes"))
            }
            NodeOutcomeState::Isolated => Some(Next::new("the NoExecute taint is taken off when the node is Ready again")),
            NodeOutcomeState::Evicted => Some(Next::new(
                "its pods are deleted, those that come later too, until it is Ready again",
            )),
            NodeOutcomeState::Held(hold) => Some(after(hold, &format!("it is {}", mode.done()))),
            NodeOutcomeState::Released => None,
        },
        Said::Outcome(Outcome::Pod(outcome)) => match &outcome.state {
            PodOutcomeState::Evicting => {
                let text = if outcome.next_try_at.is_some() {
                    "the deletion is tried again"
                } else {
                    "the pod is deleted"
                };
                let next = Next::new(text).at(outcome.next_try_at);
                Some(next.unless(match mode {
                    Mode::Taints => "the API or a last check of its taints refuses it",
                    Mode::Node => "the API or a last look at its node refuses it",
                }))
            }
            PodOutcomeState::Blocked { by } => {
                let next = Next::new(format!("it is tried again, until PodDisruptionBudget {by} lets it go"));
                Some(next.at(outcome.next_try_at).unless(match mode {
                    Mode::Taints => "the taints go first",
                    Mode::Node => "its node is Ready first",
                }))
            }
            PodOutcomeState::Held(hold) => Some(after(hold, "the pod is evicted")),
            PodOutcomeState::Deleted | PodOutcomeState::Refused(_) | PodOutcomeState::Cancelled | PodOutcomeState::Gone => None,
        },
        Said::Rollout(sync) => {
            if let Some(hold) = &sync.held {
                return Some(after(hold, "the rollout goes on"));
            }
            let waits = |reason: WhyNot| sync.reasons.iter().any(|(other, nodes)| *other == reason && *nodes > 0);
            if waits(WhyNot::RolloutPaused) {
                return Some(Next::new(
                    "old pods are replaced once bailiff.dev/rollout-paused is taken off",
                ));
            }
            if waits(WhyNot::RolloutHalted) {
                return Some(Next::new(
                    "old pods are replaced once enough nodes with the current revision are well again",
                ));
            }
            if waits(WhyNot::Held) {
                return Some(Next::new(
                    "old pods on nodes that are held are replaced once what holds them ends (bailiff pauses)",
                ));
            }
            waits(WhyNot::WaitingForBudget).then(|| Next::new("old pods are replaced as new ones become available"))
        }
    }
}

/// A node that says nothing waits for the end of its grace; as long as its zone is held, for the end of that too.
fn of_health(health: &NodeHealth) -> Option<Next> {
    let (what, unless) = match health.verdict {
        Verdict::Late => ("the node counts as unreachable", "a sign of life comes"),
        Verdict::NoStatus => ("its conditions turn Unknown", "its kubelet reports a status"),
        Verdict::Healthy | Verdict::NotReady | Verdict::Unreachable => return None,
    };
    let ends = health.counted_from.checked_add(health.grace).ok();
    let next = match &health.held {
        Some(hold) => {
            let both = ends.zip(hold.until).map(|(ends, until)| ends.max(until));
            after(hold, what).at(both)
        }
        None => Next::new(what).at(ends),
    };
    Some(next.unless(unless))
}

/// What follows the end of a hold, and what ends it.
fn after(hold: &Hold, what: &str) -> Next {
    let ends = match hold.reason {
        HoldReason::Incomplete => "every shard it depends on has told all",
        HoldReason::Stale => "the stage it depends on is live again",
        HoldReason::ApiStale => "the watch is fresh again",
        HoldReason::AllZonesDisrupted => "some zone has a ready node again",
        HoldReason::RateZero => "the zone's state changes, or --secondary-node-eviction-rate does",
        HoldReason::Paused => "the pause ends (bailiff pauses)",
        HoldReason::Rival => "the other controller is silent for long enough",
        HoldReason::CorrelatedLoss => "the Leases come back, or the hold ends",
        HoldReason::OutdatedIntent => "what is newest of its node bears it out",
        HoldReason::Observing => "it is run without --observe",
        HoldReason::TaintOrder => "the NoSchedule taint is there",
        HoldReason::RateLimited => "the others had their turn",
        HoldReason::Budget => "the budget has room again",
    };
    Next::new(format!("once {ends}, {what}")).at(hold.until)
}
