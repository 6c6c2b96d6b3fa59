//! Pods whose node was deleted: nobody else will ever say that they are gone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bailiff_model::{Mono, NodeName, Now, PodUid};
use serde_json::json;

use crate::effect::{Answer, Effect, seconds};
use crate::facts::{PodFacts, PodKey};
use crate::timers::{TimerId, Timers};

/// How long a node must be gone, as for Kubernetes' pod garbage collector: a node that is re-created at once keeps its pods.
pub const QUARANTINE: Duration = Duration::from_secs(40);

/// Removes pods of nodes that are gone.
#[derive(Debug, Default)]
pub struct LostPods {
    nodes: BTreeSet<NodeName>,
    by_node: BTreeMap<NodeName, BTreeMap<PodKey, Lost>>,
    node_of: BTreeMap<PodKey, NodeName>,
    quarantine: BTreeMap<NodeName, Option<TimerId>>,
    timers: Timers<NodeName>,
    is_synced: bool,
}

#[derive(Debug)]
struct Lost {
    uid: PodUid,
    is_terminal: bool,
}

// === impl LostPods ===

impl LostPods {
    /// Everything that exists has been given.
    pub fn synced(&mut self, now: Now) {
        self.is_synced = true;
        let names: Vec<NodeName> = self.by_node.keys().cloned().collect();
        names.iter().for_each(|name| self.check(name, now));
    }

    /// A node exists.
    pub fn node_seen(&mut self, name: &NodeName) {
        self.nodes.insert(name.clone());
        if let Some(mut timer) = self.quarantine.remove(name) {
            self.timers.cancel(&mut timer);
        }
    }

    /// A node is gone.
    pub fn node_gone(&mut self, name: &NodeName, now: Now) {
        self.nodes.remove(name);
        self.check(name, now);
    }

    /// A pod is as follows.
    pub fn pod_seen(&mut self, facts: &PodFacts, now: Now) {
        let Some(node) = &facts.node else { return };
        let lost = Lost {
            uid: facts.uid.clone(),
            is_terminal: facts.phase.is_terminal(),
        };
        self.node_of.insert(facts.key.clone(), node.clone());
        self.by_node.entry(node.clone()).or_default().insert(facts.key.clone(), lost);
        self.check(node, now);
    }

    /// A pod is gone.
    pub fn pod_gone(&mut self, key: &PodKey) {
        let Some(node) = self.node_of.remove(key) else { return };
        if let Some(pods) = self.by_node.get_mut(&node) {
            pods.remove(key);
            if pods.is_empty() {
                self.by_node.remove(&node);
            }
        }
    }

    /// Time passed.
    pub fn wake(&mut self, now: Now) -> Vec<Effect> {
        let mut effects = Vec::new();
        while let Some((_, node)) = self.timers.pop(now.mono) {
            self.quarantine.remove(&node);
            for (key, lost) in self.by_node.get(&node).into_iter().flatten() {
                remove(key, lost, now, &mut effects);
            }
        }
        effects
    }

    /// When [`LostPods::wake`] is wanted next.
    pub fn next_deadline(&self) -> Option<Mono> {
        self.timers.next()
    }

    fn check(&mut self, node: &NodeName, now: Now) {
        let is_lost = self.is_synced && !self.nodes.contains(node) && self.by_node.contains_key(node);
        if is_lost && !self.quarantine.contains_key(node) {
            let timer = self.timers.arm(now.mono + QUARANTINE, node.clone());
            self.quarantine.insert(node.clone(), Some(timer));
        }
    }
}

fn remove(key: &PodKey, lost: &Lost, now: Now, effects: &mut Vec<Effect>) {
    if !lost.is_terminal {
        let status = json!({"phase": "Failed", "conditions": [{
            "type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC", "message": "PodGC: node no longer exists",
            "lastTransitionTime": seconds(now.wall),
        }]});
        effects.push(Effect::pod_status(key, &lost.uid, status, Answer::None));
    }
    effects.push(Effect::delete_pod_now(key, &lost.uid, Answer::None));
}
