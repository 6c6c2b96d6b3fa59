//! All records of the bus in one view: how many nodes are what, how zones stand, which pods go when, how far rollouts are.
//!
//! It follows the bus: each record, or its end, is taken as it comes, at the logarithm of what is there.

use std::collections::{BTreeMap, BTreeSet};

use bailiff_model::health::Verdict;
use bailiff_model::intent::{Intent, IntentState};
use bailiff_model::outcome::{NodeOutcomeState, Outcome, PodOutcome, PodOutcomeState, ZoneStatus};
use bailiff_model::rollout::DaemonSetSync;
use bailiff_model::{NodeName, PodRef, Topic, Wall};

use crate::Said;

/// Everything, as it is now.
#[derive(Clone, Debug, Default)]
pub struct Overview {
    verdicts: Tally<Verdict>,
    nodes: Tally<NodeStanding>,
    zones: BTreeMap<String, ZoneStatus>,
    scheduled: BTreeMap<String, Scheduled>,
    by_due: BTreeSet<(Wall, String)>,
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

/// A pod whose toleration time runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheduled {
    /// When it ends.
    pub due_at: Wall,
    /// The pod.
    pub pod: PodRef,
    /// Its node.
    pub node: NodeName,
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

// === impl Overview ===

impl Overview {
    /// Takes the record of a key, or that it is gone.
    pub fn apply(&mut self, topic: Topic, key: &str, said: Option<Said<'_>>) {
        match (topic, said) {
            (_, Some(Said::Health(health))) => self.verdicts.set(key, Some(health.verdict)),
            (_, Some(Said::Intent(intent))) => self.take_intent(key, Some(intent)),
            (_, Some(Said::Outcome(outcome))) => self.take_outcome(key, Some(outcome)),
            (_, Some(Said::Rollout(sync))) => drop(self.rollouts.insert(key.to_owned(), sync.clone())),
            (Topic::NodeHealth, None) => self.verdicts.set(key, None),
            (Topic::EvictionIntents, None) => self.take_intent(key, None),
            (Topic::EvictionOutcomes, None) => self.take_outcome(key, None),
            (Topic::DaemonRollouts, None) => drop(self.rollouts.remove(key)),
        }
    }

    fn take_intent(&mut self, key: &str, intent: Option<&Intent>) {
        if let Some(old) = self.scheduled.remove(key) {
            self.by_due.remove(&(old.due_at, key.to_owned()));
        }
        let Some(Intent::Pod(eviction)) = intent else { return };
        if eviction.state == IntentState::Scheduled {
            let scheduled = Scheduled {
                due_at: eviction.due_at,
                pod: eviction.pod.clone(),
                node: eviction.node.name.clone(),
            };
            self.by_due.insert((scheduled.due_at, key.to_owned()));
            self.scheduled.insert(key.to_owned(), scheduled);
        }
    }

    fn take_outcome(&mut self, key: &str, outcome: Option<&Outcome>) {
        match outcome {
            Some(Outcome::Zone(zone)) => drop(self.zones.insert(key.to_owned(), zone.clone())),
            Some(Outcome::Node(node)) => {
                let standing = match &node.state {
                    NodeOutcomeState::Queued { .. } => Some(NodeStanding::Waiting),
                    NodeOutcomeState::Isolated | NodeOutcomeState::Evicted => Some(NodeStanding::Isolated),
                    NodeOutcomeState::Held(_) => Some(NodeStanding::Held),
                    NodeOutcomeState::Released => None,
                };
                self.nodes.set(key, standing);
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
                    self.stuck.insert(key.to_owned(), pod.clone());
                } else {
                    self.stuck.remove(key);
                }
            }
            None => {
                self.zones.remove(key);
                self.nodes.set(key, None);
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

    /// How many toleration times run.
    pub fn scheduled(&self) -> usize {
        self.scheduled.len()
    }

    /// Pods whose toleration time runs, the next one first.
    pub fn next_due(&self) -> impl Iterator<Item = &Scheduled> {
        self.by_due.iter().filter_map(|(_, key)| self.scheduled.get(key))
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
