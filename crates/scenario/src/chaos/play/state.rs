//! What a run leaves behind.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::chaos::timeline::{Timeline, World};
use crate::fixture::Fixture;

/// What is in the API in the end, as far as it must be the same whatever fault there was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndState {
    /// Ready and taints, by node.
    pub nodes: BTreeMap<String, String>,
    /// Pods that are not daemon pods, and what they are.
    pub pods: BTreeMap<String, String>,
    /// Daemon pods that live, by node.
    pub daemon_pods: BTreeMap<String, usize>,
    /// The DaemonSet's status.
    pub daemon_set: String,
}

// === impl EndState ===

impl EndState {
    pub(super) fn of(timeline: &Timeline, fixture: &Fixture) -> Self {
        let world: World = timeline.walk(|_, _| {});
        let mut state = Self::default();
        for (name, now) in &world.nodes {
            let mut taints: Vec<String> = now.node.taints.iter().map(ToString::to_string).collect();
            taints.sort();
            state.nodes.insert(
                name.clone(),
                format!("Ready={} {}", now.node.ready.as_str(), taints.join(" ")),
            );
        }
        for now in world.pods.values() {
            let pod = &now.pod;
            if pod.daemon_of.is_some() {
                *state.daemon_pods.entry(pod.node.clone()).or_default() += usize::from(!pod.is_terminating);
            } else {
                let text = format!(
                    "on {} ready={} target={} terminating={}",
                    pod.node, pod.ready, pod.is_target, pod.is_terminating
                );
                state.pods.insert(pod.name.clone(), text);
            }
        }
        let set = fixture
            .sandbox
            .get("daemonsets.apps", "default", "agent")
            .map(|set| set.value());
        state.daemon_set = set
            .and_then(|set| set.get("status").map(Value::to_string))
            .unwrap_or_default();
        state
    }

    /// How `other` differs, a sentence each.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let mut found = Vec::new();
        differ("node", &self.nodes, &other.nodes, &mut found);
        differ("pod", &self.pods, &other.pods, &mut found);
        let counts = |state: &Self| {
            state
                .daemon_pods
                .iter()
                .map(|(node, count)| (node.clone(), count.to_string()))
                .collect()
        };
        differ("daemon pods of", &counts(self), &counts(other), &mut found);
        if self.daemon_set != other.daemon_set {
            found.push(format!(
                "the DaemonSet ends as {}, undisturbed as {}",
                other.daemon_set, self.daemon_set
            ));
        }
        found
    }
}

fn differ(what: &str, calm: &BTreeMap<String, String>, other: &BTreeMap<String, String>, found: &mut Vec<String>) {
    let names: BTreeSet<&String> = calm.keys().chain(other.keys()).collect();
    for name in names {
        let (calm, other) = (calm.get(name), other.get(name));
        if calm != other {
            let text = |state: Option<&String>| state.map_or("not there", String::as_str).to_owned();
            found.push(format!(
                "{what} {name} ends as {}, undisturbed as {}",
                text(other),
                text(calm)
            ));
        }
    }
}
