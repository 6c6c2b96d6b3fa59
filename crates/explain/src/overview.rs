//! All records of the bus in one view: how many nodes are what, how zones stand, which pods go when, how far rollouts are.
//!
//! It follows the bus: each record, or its end, is taken as it comes, at the logarithm of what is there.

mod agenda;

use std::collections::BTreeMap;

use bailiff_model::health::{NodeHealth, Verdict};
use bailiff_model::intent::{Intent, IntentState};
use bailiff_model::outcome::{NodeOutcome, NodeOutcomeState, Outcome, PodOutcome, PodOutcomeState, ZoneStatus};
use bailiff_model::rollout::DaemonSetSync;
use bailiff_model::{NodeName, PodRef, Topic, Wall};

use crate::Said;
use agenda::Agenda;

/// Everything, as it is now.
#[derive(Clone, Debug, Default)]
pub struct Overview {
    verdicts: Tally<Verdict>,
    nodes: Tally<NodeStanding>,
    zones: BTreeMap<String, ZoneStatus>,
    /// By the time at which the node began to wait.
    lines: Agenda<NodeOutcome>,
    graces: Agenda<Timer>,
    tolerations: Agenda<Timer>,
    /// Node mode.
    evictions: Agenda<Timer>,
    pods: Tally<PodStanding>,
    stuck: BTreeMap<String, PodOutcome>,
    rollouts: BTreeMap<String, DaemonSetSync>,
}

/// What the zone-evictor says of a node that is not well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeStanding {
    /// It waits for its zone's rate.
    Waiting,
    /// It is isolated, or being emptied.
    Isolated,
    /// It is held.
    Held,
}

/// What the zone-evictor says of a pod that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PodStanding {
    /// Its eviction is under way.
    Evicting,
    /// A budget forbids it.
    Blocked,
    /// It is held.
    Held,
    /// It was refused.
    Refused,
}

/// What happens at a time that is known, unless something else does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timer {
    /// When.
    pub due_at: Wall,
    /// The node that it concerns.
    pub node: NodeName,
    /// What.
    pub end: End,
}

/// What it is that ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The grace of a silent node.
    Grace,
    /// The time for which this pod tolerates the node's taints.
    Toleration(PodRef),
    /// The time for which all pods of the node may stay (node mode).
    Eviction,
}

/// How many keys are what.
#[derive(Clone, Debug)]
struct Tally<S> {
    by_key: BTreeMap<String, S>,
    counts: BTreeMap<S, usize>,
}

// === impl Tally ===

impl<S> Default for Tally<S> {
    fn default() -> Self {
        Self {
            by_key: BTreeMap::new(),
            counts: BTreeMap::new(),
        }
    }
}

impl<S: Copy + Ord> Tally<S> {
    fn set(&mut self, key: &str, state: Option<S>) {
        let before = match state {
            Some(state) => {
                *self.counts.entry(state).or_default() += 1;
                self.by_key.insert(key.to_owned(), state)
            }
            None => self.by_key.remove(key),
        };
        if let Some(count) = before.and_then(|before| self.counts.get_mut(&before)) {
            *count -= 1;
        }
    }

    fn count(&self, state: S) -> usize {
        self.counts.get(&state).copied().unwrap_or(0)
    }
}

// === impl End ===

impl End {
    /// A word for programs.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Grace => "grace",
            Self::Toleration(_) => "toleration",
            Self::Eviction => "eviction",
        }
    }
}

// === impl Timer ===

impl Timer {
    fn new(due_at: Wall, node: &NodeName, end: End) -> (Wall, Self) {
        let node = node.clone();
        (due_at, Self { due_at, node, end })
    }

    /// What happens when it ends.
    pub fn text(&self) -> String {
        let node = &self.node;
        match &self.end {
            End::Grace => format!("node {node} counts as silent"),
            End::Toleration(pod) => format!("pod {}/{} on {node} is to go", pod.namespace, pod.name),
            End::Eviction => format!("all pods of node {node} are to go"),
        }
    }
}

// === impl Overview ===

impl Overview {
    /// Takes the record of a key, or that it is gone.
    pub fn apply(&mut self, topic: Topic, key: &str, said: Option<Said<'_>>) {
        match (topic, said) {
            (_, Some(Said::Health(health))) => self.take_health(key, Some(health)),
            (_, Some(Said::Intent(intent))) => self.take_intent(key, Some(intent)),
            (_, Some(Said::Outcome(outcome))) => self.take_outcome(key, Some(outcome)),
            (_, Some(Said::Rollout(sync))) => drop(self.rollouts.insert(key.to_owned(), sync.clone())),
            (Topic::NodeHealth, None) => self.take_health(key, None),
            (Topic::EvictionIntents, None) => self.take_intent(key, None),
            (Topic::EvictionOutcomes, None) => self.take_outcome(key, None),
            (Topic::DaemonRollouts, None) => drop(self.rollouts.remove(key)),
        }
    }

    fn take_health(&mut self, key: &str, health: Option<&NodeHealth>) {
        self.verdicts.set(key, health.map(|health| health.verdict));
        let timer = health.and_then(|health| match health.verdict {
            // What is held ends with its hold, of which a record tells.
            Verdict::Late | Verdict::NoStatus if health.held.is_none() => {
                let due_at = health.counted_from.checked_add(health.grace).ok()?;
                Some(Timer::new(due_at, &health.node.name, End::Grace))
            }
            _ => None,
        });
        self.graces.set(key, timer);
    }

    fn take_intent(&mut self, key: &str, intent: Option<&Intent>) {
        let (mut toleration, mut eviction) = (None, None);
        match intent {
            Some(Intent::Pod(pod)) if pod.state == IntentState::Scheduled => {
                toleration = Some(Timer::new(pod.due_at, &pod.node.name, End::Toleration(pod.pod.clone())));
            }
            Some(Intent::NodeEviction(node)) if !node.due => {
                eviction = Some(Timer::new(node.not_before, &node.node.name, End::Eviction));
            }
            Some(Intent::Pod(_) | Intent::NodeEviction(_) | Intent::Isolation(_)) | None => {}
        }
        self.tolerations.set(key, toleration);
        self.evictions.set(key, eviction);
    }

    fn take_outcome(&mut self, key: &str, outcome: Option<&Outcome>) {
        match outcome {
            Some(Outcome::Zone(zone)) => drop(self.zones.insert(key.to_owned(), ZoneStatus::clone(zone))),
            Some(Outcome::Node(node)) => {
                let standing = match &node.state {
                    NodeOutcomeState::Queued { .. } => Some(NodeStanding::Waiting),
                    NodeOutcomeState::Isolated | NodeOutcomeState::Evicted => Some(NodeStanding::Isolated),
                    NodeOutcomeState::Held(_) => Some(NodeStanding::Held),
                    NodeOutcomeState::Released => None,
                };
                self.nodes.set(key, standing);
                let is_waiting = matches!(standing, Some(NodeStanding::Waiting | NodeStanding::Held));
                self.lines
                    .set(key, is_waiting.then(|| (node.since, NodeOutcome::clone(node))));
            }
            Some(Outcome::Pod(pod)) => {
                let standing = match &pod.state {
                    PodOutcomeState::Evicting => Some(PodStanding::Evicting),
                    PodOutcomeState::Blocked { .. } => Some(PodStanding::Blocked),
                    PodOutcomeState::Held(_) => Some(PodStanding::Held),
                    PodOutcomeState::Refused(_) => Some(PodStanding::Refused),
                    PodOutcomeState::Deleted | PodOutcomeState::Cancelled | PodOutcomeState::Gone => None,
                };
                self.pods.set(key, standing);
                let is_stuck = matches!(
                    standing,
                    Some(PodStanding::Blocked | PodStanding::Held | PodStanding::Refused)
                );
                if is_stuck || pod.failed_attempts > 0 && standing.is_some() {
                    self.stuck.insert(key.to_owned(), PodOutcome::clone(pod));
                } else {
                    self.stuck.remove(key);
                }
            }
            None => {
                self.zones.remove(key);
                self.nodes.set(key, None);
                self.lines.set(key, None);
                self.pods.set(key, None);
                self.stuck.remove(key);
            }
        }
    }

    /// How many nodes were judged so.
    pub fn nodes_judged(&self, verdict: Verdict) -> usize {
        self.verdicts.count(verdict)
    }

    /// How many nodes stand so at the zone-evictor.
    pub fn nodes_standing(&self, standing: NodeStanding) -> usize {
        self.nodes.count(standing)
    }

    /// How many pods stand so at the zone-evictor.
    pub fn pods_standing(&self, standing: PodStanding) -> usize {
        self.pods.count(standing)
    }

    /// Zones, by name.
    pub fn zones(&self) -> impl Iterator<Item = &ZoneStatus> {
        self.zones.values()
    }

    /// Nodes that wait for their zone's rate, or are held; who has waited longest first.
    pub fn waiting(&self) -> impl Iterator<Item = &NodeOutcome> {
        self.lines.iter().map(|(_, node)| node)
    }

    /// How many toleration times run.
    pub fn scheduled(&self) -> usize {
        self.tolerations.len()
    }

    /// How many timers run.
    pub fn timers(&self) -> usize {
        self.graces.len() + self.tolerations.len() + self.evictions.len()
    }

    /// All timers, the one that ends next first.
    pub fn next_due(&self) -> impl Iterator<Item = &Timer> {
        let mut heads = [
            Box::new(self.graces.iter()) as Box<dyn Iterator<Item = &(Wall, Timer)>>,
            Box::new(self.tolerations.iter()),
            Box::new(self.evictions.iter()),
        ]
        .map(Iterator::peekable);
        std::iter::from_fn(move || {
            let next = heads
                .iter_mut()
                .filter_map(|head| Some((head.peek()?.0, head)))
                .min_by_key(|(at, _)| *at);
            next.and_then(|(_, head)| head.next()).map(|(_, timer)| timer)
        })
    }

    /// Pods that should go and do not: blocked, held, refused, or after a failed request.
    pub fn stuck(&self) -> impl Iterator<Item = &PodOutcome> {
        self.stuck.values()
    }

    /// DaemonSets, by namespace and name.
    pub fn rollouts(&self) -> impl Iterator<Item = &DaemonSetSync> {
        self.rollouts.values()
    }
}

#[cfg(test)]
mod tests;
