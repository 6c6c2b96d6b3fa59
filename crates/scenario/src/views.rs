//! Nodes and pods as histories are read: the fields that figures and invariants are about.

use std::collections::BTreeMap;

use bailiff_cluster::views::{Condition, Meta, OwnerReference, TaintView, time, tolerations};
use bailiff_model::{Toleration, Wall};
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
    pub labels: BTreeMap<String, String>,
    #[serde(default)]
    pub owner_references: Vec<OwnerReference>,
}

/// A Pod's spec.
#[derive(Debug, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    pub node_name: String,
    #[serde(deserialize_with = "tolerations")]
    pub tolerations: Vec<Toleration>,
    pub affinity: serde_json::Value,
    pub containers: Vec<Container>,
}

/// A container.
#[derive(Debug, Deserialize, Default)]
#[serde(default)]
pub struct Container {
    pub image: String,
}

/// A DaemonSet.
#[derive(Debug, Deserialize)]
pub struct DaemonSetView {
    pub spec: DaemonSetSpec,
}

/// A DaemonSet's spec.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DaemonSetSpec {
    pub template: PodTemplate,
    #[serde(default)]
    pub update_strategy: UpdateStrategy,
}

/// A pod template.
#[derive(Debug, Deserialize)]
pub struct PodTemplate {
    pub spec: PodSpec,
}

/// How a DaemonSet is rolled out.
#[derive(Debug, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct UpdateStrategy {
    pub rolling_update: RollingUpdate,
}

/// Numbers of nodes; shares are not read.
#[derive(Debug, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct RollingUpdate {
    pub max_unavailable: u32,
    pub max_surge: u32,
}

/// A PodDisruptionBudget.
#[derive(Debug, Deserialize)]
pub struct BudgetView {
    pub spec: BudgetSpec,
}

/// A PodDisruptionBudget's spec; shares are not read.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BudgetSpec {
    pub min_available: usize,
}

/// A ConfigMap.
#[derive(Debug, Deserialize)]
pub struct ConfigMapView {
    #[serde(default)]
    pub data: BTreeMap<String, String>,
}

/// An Event, in either of its two forms.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EventView {
    #[serde(deserialize_with = "time")]
    pub event_time: Option<Wall>,
    pub series: Option<EventSeries>,
    pub reason: String,
    #[serde(alias = "message")]
    pub note: String,
    #[serde(alias = "reportingComponent")]
    pub reporting_controller: String,
}

/// What an Event repeats.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EventSeries {
    pub count: u32,
    #[serde(deserialize_with = "time")]
    pub last_observed_time: Option<Wall>,
}
