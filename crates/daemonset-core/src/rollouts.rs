//! What there is to tell of rollouts: which goes on, since when, what its nodes wait for, and when it is over.
//!
//! A rollout begins when a revision becomes current, and ends when the last node that is not bad itself has an available pod of it, or
//! another revision takes its place. It follows from what is published of the DaemonSet: when a reason that was told is not told any
//! more, that is told with how long it lasted. What was published before this process began is remembered from the bus, so that a
//! restart goes on where it was: a rollout is told once, and one that was over stays so.
//!
//! Of many nodes little is told of each: a reason that all of a set share is told once, with how many waited, where they are more than
//! a record names.

mod rollout;

use std::collections::BTreeMap;

use bailiff_model::rollout::{DaemonSetSync, WhyNot};
use bailiff_model::{HoldReason, Namespace, NodeName, TraceContext, Wall};

use rollout::Rollout;

/// Namespace and name.
type Key = (Namespace, String);

/// The rollouts of all DaemonSets that something is published of.
#[derive(Debug, Default)]
pub struct Rollouts {
    known: BTreeMap<Key, Rollout>,
    /// What was published before this process began, until something new is.
    remembered: BTreeMap<Key, Rollout>,
}

/// What is to be published of a DaemonSet, and told because of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Publication {
    /// The state of it, with what only the past tells.
    pub sync: Box<DaemonSetSync>,
    /// The trace of its rollout, if it has one.
    pub trace: Option<TraceContext>,
    /// What is over, in order.
    pub told: Vec<Told>,
}

/// Something of a rollout that is over (docs/adr/0006). Times are for people.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    /// The DaemonSet's namespace.
    pub namespace: Namespace,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// The number of the revision.
    pub revision: i64,
    /// The rollout's trace.
    pub trace: TraceContext,
    /// When it began.
    pub start: Wall,
    /// When it ended.
    pub end: Wall,
    /// What it was.
    pub what: Part,
}

/// A part of a rollout.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// A revision became current, and there is something to do: told first, once, and only when it is known since when it is current.
    Rollout,
    /// Nothing was done to the DaemonSet.
    Held {
        /// Why.
        reason: HoldReason,
        /// One sentence for people.
        detail: String,
    },
    /// One node waited for a pod of the revision.
    Wait {
        /// The node.
        node: NodeName,
        /// What for.
        reason: WhyNot,
    },
    /// More nodes than a record names waited for the same.
    SharedWait {
        /// What for.
        reason: WhyNot,
        /// How many did at most.
        nodes: u32,
    },
    /// The rollout is over.
    End {
        /// How it ended.
        outcome: Outcome,
        /// Nodes that should have a pod.
        nodes: u32,
        /// Waits that were too short, and too many, to be told.
        untold: u32,
    },
}

/// How a rollout ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The last node that is not bad itself has an available pod of the revision.
    Completed,
    /// Another revision is current.
    Superseded,
    /// The DaemonSet is gone.
    Withdrawn,
}

// === impl Outcome ===

impl Outcome {
    /// Attribute value.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Superseded => "superseded",
            Self::Withdrawn => "withdrawn",
        }
    }
}

// === impl Rollouts ===

impl Rollouts {
    /// Takes what former processes published, and under which trace.
    pub fn remember(&mut self, records: impl IntoIterator<Item = (Box<DaemonSetSync>, Option<TraceContext>)>) {
        for (sync, trace) in records {
            self.remembered.insert(key(&sync), Rollout::remembered(*sync, trace));
        }
    }

    /// Takes what is to be published next, and adds what only the past tells.
    pub fn publish(&mut self, mut sync: Box<DaemonSetSync>) -> Publication {
        let (key, mut told) = (key(&sync), Vec::new());
        let rollout = match self.take(&key) {
            Some(known) if known.is_of(&sync) => known.go_on(&mut sync, &mut told),
            Some(known) => {
                let outcome = if known.uid() == sync.uid {
                    Outcome::Superseded
                } else {
                    Outcome::Withdrawn
                };
                known.end(outcome, sync.synced_at, &mut told);
                Rollout::begin(&mut sync, &mut told)
            }
            None => Rollout::find(&mut sync, &mut told),
        };
        let trace = rollout.trace();
        self.known.insert(key, rollout);
        Publication { sync, trace, told }
    }

    /// A DaemonSet is gone; answers what is over with it.
    pub fn withdraw(&mut self, namespace: &Namespace, name: &str, now: Wall) -> Vec<Told> {
        let mut told = Vec::new();
        if let Some(known) = self.take(&(namespace.clone(), name.to_owned())) {
            known.end(Outcome::Withdrawn, now, &mut told);
        }
        told
    }

    /// The trace of the DaemonSet's rollout, if one goes on.
    pub fn going_on(&self, namespace: &Namespace, name: &str) -> Option<TraceContext> {
        let rollout = self.known.get(&(namespace.clone(), name.to_owned()))?;
        rollout.trace().filter(|_| rollout.is_open())
    }

    fn take(&mut self, key: &Key) -> Option<Rollout> {
        let remembered = self.remembered.remove(key);
        self.known.remove(key).or(remembered)
    }
}

fn key(sync: &DaemonSetSync) -> Key {
    (sync.namespace.clone(), sync.name.clone())
}

#[cfg(test)]
mod tests;
