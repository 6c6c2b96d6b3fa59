//! What is decoded of a Node and of a Pod: the fields that the core knows, and no others.

use bailiff_cluster::scan::{Message, schema};
use bailiff_cluster::views::{
    CompactString, Condition, Meta, SelectorView, TaintView, Taints, condition, named, or_default, time, tolerations,
};
use bailiff_cluster::{Decode, View};
use bailiff_model::{ReadyStatus, Selector, Toleration, Wall, Zone, wellknown};
use bailiff_zone_core::{DISRUPTION_MESSAGE, DISRUPTION_REASON, DaemonSetFacts, NodeFacts, PodFacts};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

/// A Node.
#[derive(Debug, Deserialize)]
#[serde(try_from = "RawNode")]
pub(crate) struct NodeView {
    meta: Meta,
    facts: NodeFacts,
}

/// A taint has an effect that no API server known to us accepts: a list that cannot be read whole must not be written back.
#[derive(Debug, thiserror::Error)]
#[error("spec.taints: effect '{effect}' of '{key}' is none of NoSchedule, PreferNoSchedule, NoExecute")]
struct UnknownEffect {
    key: String,
    effect: String,
}

/// A DaemonSet: whom it selects.
#[derive(Debug, Deserialize)]
pub(crate) struct DaemonSetView {
    metadata: Meta,
    #[serde(default, deserialize_with = "or_default")]
    spec: DaemonSetSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct DaemonSetSpec {
    selector: Option<SelectorView>,
}

/// A Pod.
#[derive(Debug, Deserialize)]
pub(crate) struct PodView {
    metadata: RawMeta<bailiff_model::Labels>,
    #[serde(default, deserialize_with = "or_default")]
    spec: PodSpec,
    #[serde(default, deserialize_with = "or_default")]
    status: PodStatus,
}

#[derive(Deserialize)]
struct RawNode {
    metadata: RawMeta<Labels>,
    #[serde(default, deserialize_with = "or_default")]
    spec: Taints,
    #[serde(default, deserialize_with = "or_default")]
    status: NodeStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NodeStatus {
    #[serde(deserialize_with = "node_conditions")]
    conditions: Vec<Condition>,
}

fn node_conditions<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Condition>, D::Error> {
    named(deserializer, &[wellknown::CONDITION_READY])
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawMeta<L> {
    name: CompactString,
    uid: String,
    #[serde(default, deserialize_with = "or_default")]
    namespace: CompactString,
    #[serde(default)]
    resource_version: CompactString,
    #[serde(default, deserialize_with = "or_default")]
    generation: i64,
    #[serde(default, deserialize_with = "time")]
    creation_timestamp: Option<Wall>,
    #[serde(default)]
    deletion_timestamp: Option<IgnoredAny>,
    #[serde(default, deserialize_with = "or_default")]
    #[serde(bound(deserialize = "L: Default + Deserialize<'de>"))]
    labels: L,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodSpec {
    #[serde(deserialize_with = "or_default")]
    node_name: CompactString,
    #[serde(deserialize_with = "tolerations")]
    tolerations: Vec<Toleration>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PodStatus {
    #[serde(deserialize_with = "or_default")]
    reason: String,
    #[serde(deserialize_with = "pod_conditions")]
    conditions: Vec<PodCondition>,
}

fn pod_conditions<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<PodCondition>, D::Error> {
    named(deserializer, &[wellknown::CONDITION_DISRUPTION_TARGET])
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PodCondition {
    #[serde(rename = "type")]
    kind: CompactString,
    status: CompactString,
    #[serde(deserialize_with = "or_default")]
    reason: CompactString,
    #[serde(deserialize_with = "or_default")]
    message: String,
}

/// The labels that are read; present and empty is not absent (NL-020).
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Labels {
    #[serde(rename = "failure-domain.beta.kubernetes.io/region")]
    region_legacy: Option<CompactString>,
    #[serde(rename = "topology.kubernetes.io/region")]
    region: Option<CompactString>,
    #[serde(rename = "failure-domain.beta.kubernetes.io/zone")]
    zone_legacy: Option<CompactString>,
    #[serde(rename = "topology.kubernetes.io/zone")]
    zone: Option<CompactString>,
    #[serde(rename = "node.kubernetes.io/exclude-disruption")]
    exclude_disruption: Option<CompactString>,
}

// === impl NodeView ===

impl TryFrom<RawNode> for NodeView {
    type Error = UnknownEffect;

    fn try_from(raw: RawNode) -> Result<Self, UnknownEffect> {
        let facts = raw.facts()?;
        let meta = Meta {
            name: raw.metadata.name,
            resource_version: raw.metadata.resource_version,
            ..Meta::default()
        };
        Ok(Self { meta, facts })
    }
}

impl Decode for NodeView {
    const MESSAGE: Option<&'static Message> = Some(&schema::NODE);
}

impl View for NodeView {
    fn meta(&self) -> &Meta {
        &self.meta
    }
}

impl NodeView {
    /// The facts.
    pub(crate) fn into_facts(self) -> NodeFacts {
        self.facts
    }
}

// === impl RawNode ===

impl RawNode {
    fn facts(&self) -> Result<NodeFacts, UnknownEffect> {
        let Self { metadata, spec, status } = self;
        let ready = condition(&status.conditions, wellknown::CONDITION_READY);
        let taint = |taint: &TaintView| {
            taint.to_model().ok_or_else(|| UnknownEffect {
                key: taint.key.clone(),
                effect: taint.effect.to_string(),
            })
        };
        Ok(NodeFacts {
            zone: Zone::from_labels(|key| metadata.labels.get(key)),
            excluded_from_disruption: metadata.labels.exclude_disruption.is_some(),
            ready: ready.map_or(ReadyStatus::Absent, Condition::ready_status),
            recovered_at: ready
                .filter(|ready| ready.ready_status() == ReadyStatus::True)
                .and_then(|ready| ready.last_transition_time)
                .filter(|at| metadata.creation_timestamp.is_none_or(|created| created < *at)),
            taints: spec.taints.iter().map(taint).collect::<Result<_, _>>()?,
            name: metadata.name.as_str().into(),
            uid: metadata.uid.as_str().into(),
            resource_version: metadata.resource_version.as_str().into(),
        })
    }
}

// === impl DaemonSetView ===

impl Decode for DaemonSetView {
    const MESSAGE: Option<&'static Message> = Some(&schema::DAEMON_SET);
}

impl View for DaemonSetView {
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

impl DaemonSetView {
    /// The facts.
    pub(crate) fn into_facts(self) -> DaemonSetFacts {
        DaemonSetFacts {
            key: (self.metadata.namespace.as_str().into(), self.metadata.name.into()),
            selector: self.spec.selector.map_or(Selector::Nothing, |selector| selector.to_model()),
        }
    }
}

// === impl PodView ===

impl Decode for PodView {
    const MESSAGE: Option<&'static Message> = Some(&schema::POD);
}

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
            namespace: metadata.namespace.as_str().into(),
            name: metadata.name.as_str().into(),
            uid: metadata.uid.into(),
            resource_version: metadata.resource_version.as_str().into(),
            generation: metadata.generation,
            node: spec.node_name.as_str().into(),
            tolerations: spec.tolerations,
            reason: status.reason,
            terminating: metadata.deletion_timestamp.is_some(),
            labels: metadata.labels,
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

    use bailiff_cluster::Encoded;
    use bailiff_model::{Effect, Operator, Taint, Toleration};
    use serde_json::{Value, json};

    use super::*;

    /// What a view says of an object, which is the same in both encodings; `None` if it is refused in both.
    fn read<T: Decode, F: PartialEq + std::fmt::Debug>(object: &Value, facts: impl Fn(T) -> F) -> Option<F> {
        let message = bailiff_sandbox::protobuf::message(object, T::MESSAGE.expect("it has a table").name);
        let json = T::decode(&Encoded::Json(&object.to_string())).ok().map(&facts);
        let protobuf = T::decode(&Encoded::Protobuf(message.into())).ok().map(&facts);
        assert_eq!(json, protobuf);
        json
    }

    fn mk_node(node: Value) -> Option<NodeFacts> {
        read(&node, NodeView::into_facts)
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
            recovered_at: None,
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
        assert_eq!(mk_node(node.clone()), None);
        let refused = NodeView::decode(&Encoded::Json(&node.to_string())).unwrap_err().to_string();
        let wanted = "spec.taints: effect 'Later' of 'k' is none of NoSchedule, PreferNoSchedule, NoExecute";
        assert!(refused.starts_with(wanted), "{refused}");
    }

    /// NL-034: Ready since a later second than its creation is a recovery, as far as anybody can tell.
    #[test]
    fn a_recovery_is_told_by_the_transition_time() {
        let recovered_at = |created: Option<&str>, status: &str| {
            let facts = mk_node(json!({
                "metadata": {"name": "n", "uid": "u", "creationTimestamp": created},
                "status": {"conditions": [{"type": "Ready", "status": status, "lastTransitionTime": "2024-01-01T00:00:05Z"}]},
            }));
            facts.and_then(|facts| facts.recovered_at).map(|at| at.to_string())
        };
        let at = Some("2024-01-01T00:00:05Z".to_owned());
        let cases = [
            (Some("2024-01-01T00:00:04Z"), "True", at.clone()),
            (Some("2024-01-01T00:00:05Z"), "True", None),
            (Some("2024-01-01T00:00:04Z"), "False", None),
            (None, "True", at),
        ];
        for (created, status, wanted) in cases {
            assert_eq!(recovered_at(created, status), wanted, "{created:?} {status}");
        }
    }

    /// NL-206
    #[test]
    fn a_daemon_set_becomes_facts() {
        let mk = |spec: Value| {
            let object = json!({"metadata": {"namespace": "d", "name": "ds", "uid": "u"}, "spec": spec});
            read(&object, DaemonSetView::into_facts).expect("decodes")
        };
        let facts = mk(json!({"selector": {"matchLabels": {"app": "a"}}, "template": {}}));
        assert_eq!(facts.key, ("d".into(), "ds".to_owned()));
        assert_eq!(facts.selector, Selector::new([("app", "a")], []));
        for nothing in [json!({}), json!({"selector": null}), Value::Null] {
            assert_eq!(mk(nothing).selector, Selector::Nothing, "selects nobody");
        }
    }

    /// TE-072, TE-073
    #[test]
    fn a_pod_becomes_facts() {
        let pod = |condition: Value| {
            let pod = json!({
                "metadata": {"name": "p", "namespace": "ns", "uid": "u", "resourceVersion": "9", "generation": 3, "labels": {"app": "a"},
                             "deletionTimestamp": "2024-01-01T00:00:00Z"},
                "spec": {"nodeName": "n1", "tolerations": [
                    {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": -1}]},
                "status": {"reason": "NodeLost", "conditions": [condition]},
            });
            read(&pod, PodView::into_facts).expect("a pod")
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
            labels: [("app".into(), "a".into())].into(),
        };
        assert_eq!(ours, wanted);
        let other = pod(json!({"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}));
        assert_eq!((other.disruption_target, other.marked), (true, false));
        let no =
            pod(json!({"type": "DisruptionTarget", "status": "False", "reason": DISRUPTION_REASON, "message": DISRUPTION_MESSAGE}));
        assert_eq!((no.disruption_target, no.marked), (false, false));
    }
}
