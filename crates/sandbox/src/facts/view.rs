//! The parts of Kubernetes JSON that are read here. Everything else is skipped while parsing.

use std::collections::BTreeMap;
use std::sync::Arc;

use bailiff_model::{Effect, Operator};
use serde::Deserialize;

use crate::resources::{Resources, parse_milli};

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Meta {
    pub name: String,
    pub namespace: String,
    pub uid: String,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub finalizers: Vec<String>,
    pub deletion_timestamp: Option<String>,
    pub deletion_grace_period_seconds: Option<i64>,
    pub owner_references: Vec<OwnerReference>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub uid: String,
    pub controller: bool,
    pub block_owner_deletion: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Node {
    pub metadata: Meta,
    pub spec: NodeSpec,
    pub status: NodeStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeSpec {
    pub unschedulable: bool,
    pub taints: Vec<Taint>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Taint {
    pub key: String,
    pub value: String,
    pub effect: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeStatus {
    pub conditions: Vec<Condition>,
    pub allocatable: BTreeMap<String, String>,
    pub addresses: Vec<Address>,
    pub node_info: NodeInfo,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Condition {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Address {
    #[serde(rename = "type")]
    pub kind: String,
    pub address: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeInfo {
    #[serde(rename = "bootID")]
    pub boot_id: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Pod {
    pub metadata: Meta,
    pub spec: PodSpec,
    pub status: PodStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    pub node_name: Option<String>,
    pub restart_policy: String,
    pub host_network: bool,
    pub scheduler_name: String,
    pub containers: Vec<Container>,
    pub init_containers: Vec<Container>,
    pub node_selector: BTreeMap<String, String>,
    pub affinity: Affinity,
    pub tolerations: Vec<Toleration>,
    pub scheduling_gates: Vec<serde::de::IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    pub phase: String,
    pub conditions: Vec<Condition>,
    pub start_time: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Container {
    pub name: String,
    pub image: String,
    pub resources: Requirements,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Requirements {
    pub requests: BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Toleration {
    pub key: String,
    pub operator: String,
    pub value: String,
    pub effect: String,
    pub toleration_seconds: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Affinity {
    pub node_affinity: NodeAffinity,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub required: Option<NodeSelector>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSelector {
    pub node_selector_terms: Vec<Term>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Term {
    pub match_expressions: Vec<Expression>,
    pub match_fields: Vec<Expression>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(default)]
pub struct Expression {
    pub key: String,
    pub operator: String,
    pub values: Vec<String>,
}

// === impl Taint ===

impl Taint {
    /// The taint, unless its effect is unknown.
    pub fn to_model(&self) -> Option<bailiff_model::Taint> {
        let effect = Effect::parse(&self.effect)?;
        Some(bailiff_model::Taint {
            value: Arc::from(self.value.as_str()),
            ..bailiff_model::Taint::new(&self.key, effect)
        })
    }
}

// === impl Toleration ===

impl Toleration {
    /// The toleration.
    pub fn to_model(&self) -> bailiff_model::Toleration {
        bailiff_model::Toleration {
            key: Arc::from(self.key.as_str()),
            operator: Operator::parse(&self.operator),
            value: Arc::from(self.value.as_str()),
            effect: Effect::parse(&self.effect),
            seconds: self.toleration_seconds,
        }
    }
}

// === impl PodSpec ===

impl PodSpec {
    /// What the pod asks for: the sum of its containers, or its largest init container.
    pub fn requests(&self) -> Resources {
        let of = |container: &Container, key: &str| {
            container
                .resources
                .requests
                .get(key)
                .and_then(|text| parse_milli(text))
                .unwrap_or(0)
        };
        let total = |key: &str| {
            let running: u64 = self
                .containers
                .iter()
                .map(|container| of(container, key))
                .fold(0, u64::saturating_add);
            let starting = self
                .init_containers
                .iter()
                .map(|container| of(container, key))
                .max()
                .unwrap_or(0);
            running.max(starting)
        };
        Resources::of_pod(total("cpu"), total("memory").div_ceil(1000))
    }

    /// Required node affinity, if there is any.
    pub fn required_node_affinity(&self) -> Option<&NodeSelector> {
        self.affinity.node_affinity.required.as_ref()
    }
}
