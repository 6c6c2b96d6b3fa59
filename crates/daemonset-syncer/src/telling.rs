//! The trace of each rollout: what its nodes waited for.
//!
//! A rollout begins when a revision becomes current, and ends when the last node that is not bad itself has an available pod of it, or
//! another revision takes its place. Its trace follows from what is published of the DaemonSet: when a reason that was told is not told
//! any more, a span says how long it lasted. What was published before this process began is remembered from the bus, so that a restart
//! goes on where it was: a rollout is told once, and one that was over stays so.
//!
//! Of many nodes little is told of each: a reason that all of a set share is told once, with how many waited, where they are more than
//! a record names.

mod rollout;

use std::collections::BTreeMap;

use bailiff_event_bus::{Body, Record};
use bailiff_model::rollout::DaemonSetSync;
use bailiff_model::{Namespace, TraceContext, Wall};
use bailiff_runtime::Spans;

use rollout::Rollout;

/// Namespace and name.
type Key = (Namespace, String);

/// Tells of all rollouts.
#[derive(Debug)]
pub(crate) struct Telling {
    spans: Spans,
    /// Those of the DaemonSets that something was published of.
    rollouts: BTreeMap<Key, Rollout>,
    /// What was published before this process began, until something new is.
    remembered: BTreeMap<Key, Rollout>,
}

// === impl Telling ===

impl Telling {
    pub(crate) fn new(spans: Spans) -> Self {
        Self {
            spans,
            rollouts: BTreeMap::new(),
            remembered: BTreeMap::new(),
        }
    }

    /// Takes what the bus has of former processes.
    pub(crate) fn remember(&mut self, records: impl IntoIterator<Item = Record>) {
        for record in records {
            if let Some(Body::DaemonSetSync(sync)) = record.body {
                self.remembered.insert(key(&sync), Rollout::remembered(sync, record.trace));
            }
        }
    }

    /// Takes what is to be published next, adds what only the past tells, and answers the trace of its rollout, if it has one.
    pub(crate) fn publish(&mut self, sync: &mut DaemonSetSync) -> Option<TraceContext> {
        let key = key(sync);
        let known = self.rollouts.remove(&key).or_else(|| self.remembered.remove(&key));
        let rollout = match known {
            Some(known) if known.is_of(sync) => known.go_on(sync, &self.spans),
            Some(known) => {
                let outcome = if known.uid() == sync.uid { "superseded" } else { "withdrawn" };
                known.end(outcome, sync.synced_at, &self.spans);
                Rollout::begin(sync, &self.spans)
            }
            None => Rollout::find(sync, &self.spans),
        };
        let trace = rollout.trace();
        self.rollouts.insert(key, rollout);
        trace
    }

    /// A DaemonSet is gone.
    pub(crate) fn withdraw(&mut self, namespace: &Namespace, name: &str, now: Wall) {
        let key = (namespace.clone(), name.to_owned());
        let known = self.rollouts.remove(&key).or_else(|| self.remembered.remove(&key));
        if let Some(known) = known {
            known.end("withdrawn", now, &self.spans);
        }
    }

    /// The trace of the DaemonSet's rollout, if one goes on.
    pub(crate) fn going_on(&self, namespace: &Namespace, name: &str) -> Option<TraceContext> {
        let rollout = self.rollouts.get(&(namespace.clone(), name.to_owned()))?;
        rollout.trace().filter(|_| rollout.is_open())
    }
}

fn key(sync: &DaemonSetSync) -> Key {
    (sync.namespace.clone(), sync.name.clone())
}

#[cfg(test)]
mod tests;
