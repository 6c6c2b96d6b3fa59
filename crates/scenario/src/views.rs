//! Nodes and pods as histories are read: the fields that figures and invariants are about.

use std::collections::BTreeMap;

use bailiff_cluster::views::{Condition, Meta, OwnerReference, TaintView, TolerationView};
use serde::Deserialize;

/// A Node.
#[derive(Debug, Deserialize)]
pub struct NodeView {
    pub metadata: NodeMeta,
    #[serde(default)]
    pub spec: NodeSpec,
    #[serde(default)]
    pub status: Status,
}

/// A Node's metadata.
#[derive(Debug, Deserialize)]
pub struct NodeMeta {
    pub name: String,
    pub uid: String,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

/// A Node's spec.
#[derive(Debug, Deserialize, Default)]
#[serde(default)]
pub struct NodeSpec {
    pub taints: Vec<TaintView>,
}

/// Status of a Node or a Pod.
#[derive(Debug, Deserialize, Default)]
#[serde(default)]
pub struct Status {
    pub phase: String,
    pub conditions: Vec<Condition>,
}

/// A Pod.
#[derive(Debug, Deserialize)]
pub struct PodView {
    pub metadata: PodMeta,
    #[serde(default)]
    pub spec: PodSpec,
    #[serde(default)]
    pub status: Status,
}

/// A Pod's metadata.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodMeta {
    #[serde(flatten)]
    pub meta: Meta,
    #[serde(default)]
    pub owner_references: Vec<OwnerReference>,
}

/// A Pod's spec.
#[derive(Debug, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    pub node_name: String,
    pub tolerations: Vec<TolerationView>,
    pub affinity: serde_json::Value,
}
