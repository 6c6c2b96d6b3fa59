//! What is decoded of a Node and of a Pod: the fields that the core knows, and no others.

use bailiff_cluster::View;
use bailiff_cluster::views::{Condition, Meta, TaintView, TolerationView, condition, or_default};
use bailiff_model::{ReadyStatus, Zone, wellknown};
use bailiff_zone_core::{DISRUPTION_MESSAGE, DISRUPTION_REASON, NodeFacts, PodFacts};
use serde::Deserialize;

/// A Node.
#[derive(Debug, Deserialize)]
#[serde(from = "RawNode")]
pub(crate) struct NodeView {
    meta: Meta,
    labels: Labels,
    taints: Vec<TaintView>,
    conditions: Vec<Condition>,
}

/// A Pod.
#[derive(Debug, Deserialize)]
pub(crate) struct PodView {
    metadata: RawMeta,
    #[serde(default, deserialize_with = "or_default")]
    spec: PodSpec,
    #[serde(default, deserialize_with = "or_default")]
    status: PodStatus,
}

#[derive(Deserialize)]
struct RawNode {
    metadata: RawMeta,
    #[serde(default, deserialize_with = "or_default")]
    spec: NodeSpec,
    #[serde(default, deserialize_with = "or_default")]
    status: NodeStatus,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawMeta {
    name: String,
    uid: String,
    #[serde(default, deserialize_with = "or_default")]
    namespace: String,
    #[serde(default)]
    resource_version: String,
    #[serde(default, deserialize_with = "or_default")]
    generation: i64,
    #[serde(default)]
    deletion_timestamp: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    labels: Labels,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NodeSpec {
    #[serde(deserialize_with = "or_default")]
    taints: Vec<TaintView>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NodeStatus {
    #[serde(deserialize_with = "or_default")]
    conditions: Vec<Condition>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodSpec {
    #[serde(deserialize_with = "or_default")]
    node_name: String,
    #[serde(deserialize_with = "or_default")]
    tolerations: Vec<TolerationView>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PodStatus {
    #[serde(deserialize_with = "or_default")]
    reason: String,
    #[serde(deserialize_with = "or_default")]
    conditions: Vec<PodCondition>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PodCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    #[serde(deserialize_with = "or_default")]
    reason: String,
    #[serde(deserialize_with = "or_default")]
    message: String,
}

/// The labels that are read; present and empty is not absent (NL-020).
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Labels {
    #[serde(rename = "failure-domain.beta.kubernetes.io/region")]
    region_legacy: Option<String>,
    #[serde(rename = "topology.kubernetes.io/region")]
    region: Option<String>,
    #[serde(rename = "failure-domain.beta.kubernetes.io/zone")]
    zone_legacy: Option<String>,
    #[serde(rename = "topology.kubernetes.io/zone")]
    zone: Option<String>,
    #[serde(rename = "node.kubernetes.io/exclude-disruption")]
    exclude_disruption: Option<String>,
}

// === impl NodeView ===

impl From<RawNode> for NodeView {
    fn from(raw: RawNode) -> Self {
        let RawNode { metadata, spec, status } = raw;
        let meta = Meta {
            name: metadata.name,
            uid: metadata.uid,
            resource_version: metadata.resource_version,
            ..Meta::default()
        };
        Self {
            meta,
            labels: metadata.labels,
            taints: spec.taints,
            conditions: status.conditions,
        }
    }
}

impl View for NodeView {
    fn meta(&self) -> &Meta {
        &self.meta
    }
}

impl NodeView {
    /// The facts; `None` if a taint has an effect that no API server known to us accepts: a list that cannot be read whole must not
    /// be written back.
    pub(crate) fn into_facts(self) -> Option<NodeFacts> {
        let ready = condition(&self.conditions, wellknown::CONDITION_READY);
        Some(NodeFacts {
            zone: Zone::from_labels(|key| self.labels.get(key)),
            excluded_from_disruption: self.labels.exclude_disruption.is_some(),
            ready: ready.map_or(ReadyStatus::Absent, Condition::ready_status),
            taints: self.taints.iter().map(TaintView::to_model).collect::<Option<_>>()?,
            name: self.meta.name.into(),
            uid: self.meta.uid.into(),
            resource_version: self.meta.resource_version.into(),
        })
    }
}

// === impl PodView ===

impl PodView {
    /// The facts.
    pub(crate) fn into_facts(self) -> PodFacts {
        let Self { metadata, spec, status } = self;
        let target = status
            .conditions
            .iter()
            .find(|condition| condition.kind == wellknown::CONDITION_DISRUPTION_TARGET && condition.status == "True");
        PodFacts {
            disruption_target: target.is_some(),
            marked: target.is_some_and(|target| target.reason == DISRUPTION_REASON && target.message == DISRUPTION_MESSAGE),
            namespace: metadata.namespace.into(),
            name: metadata.name.into(),
            uid: metadata.uid.into(),
            resource_version: metadata.resource_version.into(),
            generation: metadata.generation,
            node: spec.node_name.into(),
            tolerations: spec.tolerations.iter().map(TolerationView::to_model).collect(),
            reason: status.reason,
            terminating: metadata.deletion_timestamp.is_some(),
        }
    }
}

// === impl Labels ===

impl Labels {
    fn get(&self, key: &str) -> Option<&str> {
        let value = match key {
            wellknown::LABEL_REGION_LEGACY => &self.region_legacy,
            wellknown::LABEL_REGION => &self.region,
            wellknown::LABEL_ZONE_LEGACY => &self.zone_legacy,
            wellknown::LABEL_ZONE => &self.zone,
            _ => &None,
        };
        value.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bailiff_model::{Effect, Operator, Taint, Toleration};
    use serde_json::{Value, json};

    use super::*;

    fn mk_node(node: Value) -> Option<NodeFacts> {
        serde_json::from_value::<NodeView>(node).expect("a node").into_facts()
    }

    /// NL-020, NL-070, NL-091
    #[test]
    fn a_node_becomes_facts() {
        let facts = mk_node(json!({
            "metadata": {
                "name": "n1", "uid": "u1", "resourceVersion": "7", "generation": null,
                "labels": {"topology.kubernetes.io/region": "r", "topology.kubernetes.io/zone": "z",
                           "node.kubernetes.io/exclude-disruption": ""},
            },
            "spec": {"podCIDR": "10.0.0.0/24", "taints": [
                {"key": "k", "value": "v", "effect": "NoExecute", "timeAdded": "2024-01-01T00:00:00Z"},
                {"key": "k", "effect": "PreferNoSchedule"},
            ]},
            "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]},
        }));
        let first = Taint {
            value: Arc::from("v"),
            time_added: Some("2024-01-01T00:00:00Z".parse().expect("a time")),
            ..Taint::new("k", Effect::NoExecute)
        };
        let wanted = NodeFacts {
            name: "n1".into(),
            uid: "u1".into(),
            resource_version: "7".into(),
            zone: Zone::new("r", "z"),
            excluded_from_disruption: true,
            ready: ReadyStatus::Unknown,
            taints: vec![first, Taint::new("k", Effect::PreferNoSchedule)],
        };
        assert_eq!(facts, Some(wanted));
    }

    #[test]
    fn what_is_absent_or_null_is_not_an_error() {
        let facts =
            mk_node(json!({"metadata": {"name": "n1", "uid": "u1", "labels": null}, "spec": {"taints": null}, "status": null}));
        let facts = facts.expect("readable");
        assert_eq!(
            (facts.ready, facts.taints.len(), facts.excluded_from_disruption),
            (ReadyStatus::Absent, 0, false)
        );
        assert_eq!(facts.zone, Zone::default());
    }

    #[test]
    fn a_list_with_an_unknown_effect_is_not_half_read() {
        let node = json!({"metadata": {"name": "n1", "uid": "u1"}, "spec": {"taints": [{"key": "k", "effect": "Later"}]}});
        assert_eq!(mk_node(node), None);
    }

    /// TE-072, TE-073
    #[test]
    fn a_pod_becomes_facts() {
        let pod = |condition: Value| {
            let pod = json!({
                "metadata": {"name": "p", "namespace": "ns", "uid": "u", "resourceVersion": "9", "generation": 3,
                             "deletionTimestamp": "2024-01-01T00:00:00Z"},
                "spec": {"nodeName": "n1", "tolerations": [
                    {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": -1}]},
                "status": {"reason": "NodeLost", "conditions": [condition]},
            });
            serde_json::from_value::<PodView>(pod).expect("a pod").into_facts()
        };
        let ours =
            pod(json!({"type": "DisruptionTarget", "status": "True", "reason": DISRUPTION_REASON, "message": DISRUPTION_MESSAGE}));
        let wanted = PodFacts {
            namespace: "ns".into(),
            name: "p".into(),
            uid: "u".into(),
            resource_version: "9".into(),
            generation: 3,
            node: "n1".into(),
            tolerations: vec![Toleration {
                operator: Operator::Exists,
                seconds: Some(-1),
                ..Toleration::exists("k", Effect::NoExecute)
            }],
            disruption_target: true,
            marked: true,
            reason: "NodeLost".to_owned(),
            terminating: true,
        };
        assert_eq!(ours, wanted);
        let other = pod(json!({"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}));
        assert_eq!((other.disruption_target, other.marked), (true, false));
        let no =
            pod(json!({"type": "DisruptionTarget", "status": "False", "reason": DISRUPTION_REASON, "message": DISRUPTION_MESSAGE}));
        assert_eq!((no.disruption_target, no.marked), (false, false));
    }
}
