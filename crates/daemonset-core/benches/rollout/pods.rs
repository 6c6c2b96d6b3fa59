//! Daemon pods as the cluster keeps them, and as an API server writes them.

use std::collections::BTreeMap;
use std::sync::Arc;

use bailiff_model::NodeName;
use serde_json::{Value, json};

/// A pod, as small as may be: what the cluster keeps lies in the processor's caches beside what the core keeps.
#[derive(Clone, Debug)]
pub struct Running {
    pub name: Arc<str>,
    pub node: NodeName,
    /// Which template it was created from.
    pub generation: usize,
    /// `metadata.resourceVersion`.
    pub version: u64,
    pub stage: Stage,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    Created,
    Bound,
    Ready,
    Deleting,
}

/// Pods as text, with marks where they differ.
#[derive(Default)]
pub struct Templates {
    created: BTreeMap<usize, String>,
    texts: BTreeMap<(usize, Stage), String>,
}

impl Templates {
    /// Takes the first pod that is created from a template as the pattern of all: its text, its name and its node.
    pub fn learn<'a>(&mut self, generation: usize, first: impl FnOnce() -> (String, &'a str, &'a str)) {
        self.created.entry(generation).or_insert_with(|| {
            let (text, name, node) = first();
            text.replace(name, "@NAME@").replace(node, "@NODE@")
        });
    }

    /// A pod as watches and answers show it.
    pub fn text(&mut self, uid: u64, pod: &Running) -> String {
        let key = (pod.generation, pod.stage);
        let created = &self.created;
        let text = self
            .texts
            .entry(key)
            .or_insert_with(|| at(pod.stage, created.get(&pod.generation).expect("it was created")));
        let uid = format!("5f2b7c1e-90d4-4c57-8a36-{uid:012}");
        text.replace("@NAME@", &pod.name)
            .replace("@NODE@", pod.node.as_str())
            .replace("@UID@", &uid)
            .replace("@VERSION@", &pod.version.to_string())
    }
}

/// What API server, scheduler and kubelet make of a pod that was created.
fn at(stage: Stage, created: &str) -> String {
    let mut pod: Value = serde_json::from_str(created).expect("JSON");
    let meta = &mut pod["metadata"];
    meta["namespace"] = json!("ns");
    meta["uid"] = json!("@UID@");
    meta["resourceVersion"] = json!("@VERSION@");
    meta["creationTimestamp"] = json!("2023-11-14T22:13:20Z");
    if stage == Stage::Deleting {
        meta["deletionTimestamp"] = json!("2023-11-14T22:23:20Z");
        meta["deletionGracePeriodSeconds"] = json!(30);
    }
    let is_ready = matches!(stage, Stage::Ready | Stage::Deleting);
    if stage != Stage::Created {
        pod["spec"]["nodeName"] = json!("@NODE@");
    }
    let condition = |kind: &str, status: bool| {
        let status = if status { "True" } else { "False" };
        json!({"type": kind, "status": status, "lastProbeTime": null, "lastTransitionTime": "2023-11-14T22:13:25Z"})
    };
    pod["status"] = json!({
        "phase": if is_ready { "Running" } else { "Pending" },
        "conditions": [
            condition("PodScheduled", stage != Stage::Created),
            condition("Initialized", is_ready),
            condition("ContainersReady", is_ready),
            condition("Ready", is_ready),
        ],
        "hostIP": "10.0.0.1",
        "podIP": "10.1.0.1",
        "qosClass": "BestEffort",
        "startTime": "2023-11-14T22:13:21Z",
    });
    pod.to_string()
}
