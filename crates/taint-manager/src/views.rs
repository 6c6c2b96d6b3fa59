//! What is decoded of a Node and of a Pod: the fields that the core knows, and no others.

use std::sync::Arc;

use bailiff_cluster::scan::{Message, schema};
use bailiff_cluster::views::{
    CompactString, Condition, Conditions, Meta, TaintView, condition, named, or_default, time, tolerations,
};
use bailiff_cluster::{Decode, View};
use bailiff_model::{NodeRef, PodRef, ReadyStatus, Stamp, Toleration, Wall, Zone, wellknown};
use bailiff_taint_core::{NodeFacts, NodeReady, PlatformLabels, PodFacts, Pressure};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

/// Reason of a Ready condition that a controller set to Unknown because nothing was posted any more (NL-053).
const REASON_STOPPED_POSTING: &str = "NodeStatusUnknown";

/// A Node.
#[derive(Debug, Deserialize)]
#[serde(from = "RawNode")]
pub(crate) struct NodeView {
    meta: Meta,
    facts: NodeFacts,
}

/// A Pod.
#[derive(Debug, Deserialize)]
#[serde(from = "RawPod")]
pub(crate) struct PodView {
    meta: Meta,
    facts: PodFacts,
}

#[derive(Deserialize)]
struct RawNode {
    metadata: NodeMeta,
    #[serde(default, deserialize_with = "or_default")]
    spec: NodeSpec,
    #[serde(default, deserialize_with = "or_default")]
    status: Conditions,
}

/// Name and uid are what an object is known by: one without them cannot be decoded.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NodeMeta {
    name: CompactString,
    uid: String,
    #[serde(default)]
    resource_version: CompactString,
    #[serde(default, deserialize_with = "time")]
    creation_timestamp: Option<Wall>,
    #[serde(default, deserialize_with = "or_default")]
    labels: Labels,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Labels {
    #[serde(rename = "kubernetes.io/os")]
    os: Option<Arc<str>>,
    #[serde(rename = "kubernetes.io/arch")]
    arch: Option<Arc<str>>,
    #[serde(rename = "beta.kubernetes.io/os")]
    os_beta: Option<Arc<str>>,
    #[serde(rename = "beta.kubernetes.io/arch")]
    arch_beta: Option<Arc<str>>,
    #[serde(rename = "failure-domain.beta.kubernetes.io/region")]
    region_legacy: Option<CompactString>,
    #[serde(rename = "topology.kubernetes.io/region")]
    region: Option<CompactString>,
    #[serde(rename = "failure-domain.beta.kubernetes.io/zone")]
    zone_legacy: Option<CompactString>,
    #[serde(rename = "topology.kubernetes.io/zone")]
    zone: Option<CompactString>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NodeSpec {
    #[serde(deserialize_with = "or_default")]
    taints: Vec<TaintView>,
    #[serde(deserialize_with = "or_default")]
    unschedulable: bool,
}

#[derive(Deserialize)]
struct RawPod {
    metadata: PodMeta,
    #[serde(default, deserialize_with = "or_default")]
    spec: PodSpec,
    #[serde(default, deserialize_with = "or_default")]
    status: PodStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodMeta {
    name: CompactString,
    namespace: CompactString,
    uid: String,
    #[serde(default)]
    resource_version: CompactString,
    #[serde(default)]
    generation: i64,
    #[serde(default, deserialize_with = "time")]
    creation_timestamp: Option<Wall>,
    #[serde(default)]
    deletion_timestamp: Option<IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodSpec {
    #[serde(deserialize_with = "or_default")]
    node_name: CompactString,
    #[serde(deserialize_with = "tolerations")]
    tolerations: Vec<Toleration>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PodStatus {
    #[serde(deserialize_with = "pod_conditions")]
    conditions: Vec<Condition>,
}

fn pod_conditions<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Condition>, D::Error> {
    let read = &[
        wellknown::CONDITION_READY,
        wellknown::CONDITION_POD_SCHEDULED,
        wellknown::CONDITION_DISRUPTION_TARGET,
    ];
    named(deserializer, read)
}

// === impl NodeView ===

impl From<RawNode> for NodeView {
    fn from(raw: RawNode) -> Self {
        let RawNode { metadata, spec, status } = raw;
        let taints: Vec<_> = spec.taints.iter().filter_map(TaintView::to_model).collect();
        let is_true = |kind| condition(&status.conditions, kind).is_some_and(|found| found.status == "True");
        let ready = condition(&status.conditions, wellknown::CONDITION_READY);
        let facts = NodeFacts {
            node: NodeRef {
                name: metadata.name.as_str().into(),
                uid: metadata.uid.as_str().into(),
                resource_version: metadata.resource_version.as_str().into(),
            },
            zone: metadata.labels.to_zone(),
            created: metadata.creation_timestamp,
            taints_unreadable: taints.len() < spec.taints.len(),
            taints,
            ready: NodeReady {
                status: ready.map_or(ReadyStatus::Absent, Condition::ready_status),
                stopped_posting: ready.is_some_and(|ready| ready.reason == REASON_STOPPED_POSTING),
                since: ready.and_then(|ready| ready.last_transition_time).map(Stamp::from),
            },
            pressure: Pressure {
                memory: is_true(wellknown::CONDITION_MEMORY_PRESSURE),
                disk: is_true(wellknown::CONDITION_DISK_PRESSURE),
                pid: is_true(wellknown::CONDITION_PID_PRESSURE),
                network: is_true(wellknown::CONDITION_NETWORK_UNAVAILABLE),
            },
            unschedulable: spec.unschedulable,
            labels: metadata.labels.into(),
        };
        let meta = Meta {
            name: metadata.name,
            uid: metadata.uid,
            resource_version: metadata.resource_version,
            ..Meta::default()
        };
        Self { meta, facts }
    }
}

impl Labels {
    fn to_zone(&self) -> Zone {
        Zone::from_labels(|key| {
            let value = match key {
                wellknown::LABEL_REGION_LEGACY => &self.region_legacy,
                wellknown::LABEL_REGION => &self.region,
                wellknown::LABEL_ZONE_LEGACY => &self.zone_legacy,
                wellknown::LABEL_ZONE => &self.zone,
                _ => &None,
            };
            value.as_deref()
        })
    }
}

impl From<Labels> for PlatformLabels {
    fn from(labels: Labels) -> Self {
        let Labels {
            os,
            arch,
            os_beta,
            arch_beta,
            ..
        } = labels;
        Self {
            os,
            arch,
            os_beta,
            arch_beta,
        }
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
    pub(crate) fn into_facts(self) -> NodeFacts {
        self.facts
    }
}

// === impl PodView ===

impl From<RawPod> for PodView {
    fn from(raw: RawPod) -> Self {
        let RawPod { metadata, spec, status } = raw;
        let found = |kind| condition(&status.conditions, kind);
        let ready = found(wellknown::CONDITION_READY);
        let scheduled = found(wellknown::CONDITION_POD_SCHEDULED).filter(|scheduled| scheduled.status == "True");
        let facts = PodFacts {
            pod: PodRef {
                namespace: metadata.namespace.as_str().into(),
                name: metadata.name.as_str().into(),
                uid: metadata.uid.as_str().into(),
                resource_version: metadata.resource_version.as_str().into(),
                disruption_target: found(wellknown::CONDITION_DISRUPTION_TARGET).is_some_and(|target| target.status == "True"),
                generation: metadata.generation,
            },
            node: spec.node_name.as_str().into(),
            tolerations: spec.tolerations,
            ready: ready.map_or(ReadyStatus::Absent, Condition::ready_status),
            ready_since: ready.and_then(|ready| ready.last_transition_time),
            bound: scheduled
                .and_then(|scheduled| scheduled.last_transition_time)
                .or(metadata.creation_timestamp),
            terminating: metadata.deletion_timestamp.is_some(),
        };
        let meta = Meta {
            name: metadata.name,
            namespace: metadata.namespace,
            uid: metadata.uid,
            resource_version: metadata.resource_version,
            ..Meta::default()
        };
        Self { meta, facts }
    }
}

impl Decode for PodView {
    const MESSAGE: Option<&'static Message> = Some(&schema::POD);
}

impl View for PodView {
    fn meta(&self) -> &Meta {
        &self.meta
    }
}

impl PodView {
    pub(crate) fn into_facts(self) -> PodFacts {
        self.facts
    }
}

#[cfg(test)]
mod tests {
    use bailiff_cluster::Encoded;
    use bailiff_model::{Effect, Taint};
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

    fn mk_wall(text: &str) -> Wall {
        text.parse().expect("a time")
    }

    /// TE-006, NL-111, NL-120
    #[test]
    fn a_node_is_decoded() {
        let facts = read(
            &json!({
                "metadata": {
                    "name": "n1", "uid": "u1", "resourceVersion": "7", "creationTimestamp": "2024-05-01T10:00:00Z",
                    "labels": {"kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "", "x": "y",
                        "topology.kubernetes.io/region": "r", "topology.kubernetes.io/zone": "z"},
                },
                "spec": {"unschedulable": true, "taints": [
                    {"key": "k", "value": "v", "effect": "NoExecute", "timeAdded": "2024-05-01T11:00:00Z"},
                    {"key": "l", "effect": "NoSchedule"},
                ]},
                "status": {"conditions": [
                    {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "lastTransitionTime": "2024-05-01T11:30:00Z"},
                    {"type": "DiskPressure", "status": "True"},
                    {"type": "PIDPressure", "status": "Unknown"},
                ]},
            }),
            NodeView::into_facts,
        )
        .expect("decodes");
        let wanted = NodeFacts {
            node: NodeRef {
                name: "n1".into(),
                uid: "u1".into(),
                resource_version: "7".into(),
            },
            zone: Zone::new("r", "z"),
            created: Some(mk_wall("2024-05-01T10:00:00Z")),
            taints: vec![
                Taint {
                    value: "v".into(),
                    time_added: Some(mk_wall("2024-05-01T11:00:00Z")),
                    ..Taint::new("k", Effect::NoExecute)
                },
                Taint::new("l", Effect::NoSchedule),
            ],
            taints_unreadable: false,
            ready: NodeReady {
                status: ReadyStatus::Unknown,
                stopped_posting: true,
                since: Some(mk_wall("2024-05-01T11:30:00Z").into()),
            },
            pressure: Pressure {
                disk: true,
                ..Pressure::default()
            },
            unschedulable: true,
            labels: PlatformLabels {
                os: Some("linux".into()),
                arch_beta: Some("".into()),
                ..PlatformLabels::default()
            },
        };
        assert_eq!(facts, wanted);
    }

    #[test]
    fn a_taint_of_an_unknown_effect_is_not_lost_silently() {
        let facts = read(
            &json!({
                "metadata": {"name": "n1", "uid": "u1"},
                "spec": {"taints": [{"key": "k", "effect": "Later"}, {"key": "l", "effect": "NoExecute"}]},
            }),
            NodeView::into_facts,
        )
        .expect("decodes");
        assert!(facts.taints_unreadable);
        assert_eq!(facts.taints, [Taint::new("l", Effect::NoExecute)]);
    }

    /// TE-006
    #[test]
    fn a_pod_is_decoded() {
        let facts = read(&json!({
            "metadata": {
                "name": "p", "namespace": "d", "uid": "u", "resourceVersion": "9", "generation": 3,
                "creationTimestamp": "2024-05-01T10:00:00Z",
            },
            "spec": {"nodeName": "n1", "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": -1}]},
            "status": {"conditions": [
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2024-05-01T10:00:05Z"},
                {"type": "Ready", "status": "True", "lastTransitionTime": "2024-05-01T10:00:08Z"},
                {"type": "DisruptionTarget", "status": "True"},
            ]},
        }), PodView::into_facts).expect("decodes");
        let wanted = PodFacts {
            pod: PodRef {
                namespace: "d".into(),
                name: "p".into(),
                uid: "u".into(),
                resource_version: "9".into(),
                disruption_target: true,
                generation: 3,
            },
            node: "n1".into(),
            tolerations: vec![Toleration {
                seconds: Some(-1),
                ..Toleration::exists("k", Effect::NoExecute)
            }],
            ready: ReadyStatus::True,
            ready_since: Some(mk_wall("2024-05-01T10:00:08Z")),
            bound: Some(mk_wall("2024-05-01T10:00:05Z")),
            terminating: false,
        };
        assert_eq!(facts, wanted);
    }

    /// TE-014, TE-077, TE-078, TE-079, NL-087, NL-208: what kind of pod it is, and how far it got, is not even read, but for whether it
    /// is being deleted; a static pod's own toleration is what spares it. Recordings `nl-special-pods`, `te-user-terminating`.
    #[test]
    fn terminating_finished_mirror_and_daemon_pods_are_pods_like_others() {
        let mk = |metadata: serde_json::Value, status: serde_json::Value| {
            let mut pod = json!({
                "metadata": {"name": "p", "namespace": "d", "uid": "u"},
                "spec": {"nodeName": "n1", "tolerations": [{"operator": "Exists", "effect": "NoExecute"}]},
                "status": status,
            });
            for (field, value) in metadata.as_object().expect("an object") {
                pod["metadata"][field] = value.clone();
            }
            read(&pod, PodView::into_facts).expect("decodes")
        };
        let plain = mk(json!({}), json!({}));
        let deleted = mk(
            json!({"deletionTimestamp": "2024-05-01T10:00:00Z", "deletionGracePeriodSeconds": 30}),
            json!({}),
        );
        assert!(deleted.terminating);
        let kinds = [
            PodFacts {
                terminating: false,
                ..deleted
            },
            mk(json!({}), json!({"phase": "Succeeded"})),
            mk(json!({}), json!({"phase": "Failed"})),
            mk(json!({"annotations": {"kubernetes.io/config.mirror": "abc"}}), json!({})),
            mk(
                json!({"ownerReferences": [{"kind": "DaemonSet", "name": "ds", "controller": true}]}),
                json!({}),
            ),
        ];
        for facts in kinds {
            assert_eq!(facts, plain);
        }
        assert!(plain.tolerations[0].matches(&Taint::new("any", Effect::NoExecute)));
    }

    #[test]
    fn a_bare_pod_is_decoded_and_one_without_uid_is_not() {
        let bare = json!({"metadata": {"name": "p", "namespace": "d", "uid": "u", "creationTimestamp": "2024-05-01T10:00:00Z"}, "spec": null});
        let facts = read(&bare, PodView::into_facts).expect("decodes");
        assert_eq!((facts.ready, facts.node.is_empty()), (ReadyStatus::Absent, true));
        assert_eq!(
            facts.bound,
            Some(mk_wall("2024-05-01T10:00:00Z")),
            "creation, where nobody said when it was bound"
        );
        let nobody = json!({"metadata": {"name": "p", "namespace": "d"}});
        assert_eq!(read(&nobody, PodView::into_facts), None);
        assert_eq!(read(&nobody, NodeView::into_facts), None);
    }
}
