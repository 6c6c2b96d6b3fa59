//! What is decoded of a Node and of a Lease: the fields that the core knows, and no others.

use std::sync::Arc;

use bailiff_cluster::scan::{Message, schema};
use bailiff_cluster::views::{CompactString, Condition, Meta, condition, or_default, time};
use bailiff_cluster::{Decode, View};
use bailiff_model::{NodeName, NodeUid, ReadyStatus, ResourceVersion, Wall, Zone, wellknown};
use bailiff_node_health_core::{LeaseFacts, NodeFacts, Pressures, ReadyFacts};
use serde::Deserialize;

/// A Node.
#[derive(Debug, Deserialize)]
#[serde(from = "RawNode")]
pub struct NodeView {
    meta: Meta,
    facts: NodeFacts,
}

/// A Lease.
#[derive(Debug, Deserialize)]
#[serde(from = "RawLease")]
pub struct LeaseView {
    meta: Meta,
    spec: LeaseSpec,
}

#[derive(Deserialize)]
struct RawLease {
    metadata: LeaseMeta,
    #[serde(default, deserialize_with = "or_default")]
    spec: LeaseSpec,
}

/// Without the uid: Leases are known by their names.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LeaseMeta {
    name: CompactString,
    #[serde(default, deserialize_with = "or_default")]
    namespace: CompactString,
    #[serde(default)]
    resource_version: CompactString,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct LeaseSpec {
    #[serde(deserialize_with = "time")]
    renew_time: Option<Wall>,
}

#[derive(Deserialize)]
struct RawNode {
    metadata: RawMeta,
    #[serde(default, deserialize_with = "or_default")]
    status: RawStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawMeta {
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
struct RawStatus {
    #[serde(deserialize_with = "or_default")]
    conditions: Vec<Condition>,
}

/// The labels that are read; present and empty is not absent (NL-020).
#[derive(Default, Deserialize)]
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

impl From<RawNode> for NodeView {
    fn from(raw: RawNode) -> Self {
        let RawNode { metadata, status } = raw;
        let of = |kind| condition(&status.conditions, kind).map_or(ReadyStatus::Absent, Condition::ready_status);
        let ready = condition(&status.conditions, wellknown::CONDITION_READY);
        let facts = NodeFacts {
            zone: Zone::from_labels(|key| metadata.labels.get(key)),
            excluded: metadata.labels.get(wellknown::LABEL_EXCLUDE_DISRUPTION).is_some(),
            ready: ready.map_or_else(ReadyFacts::default, |ready| ReadyFacts {
                status: ready.ready_status(),
                reason: Arc::from(ready.reason.as_str()),
                heartbeat: ready.last_heartbeat_time,
                since: ready.last_transition_time,
            }),
            pressures: Pressures {
                memory: of(wellknown::CONDITION_MEMORY_PRESSURE),
                disk: of(wellknown::CONDITION_DISK_PRESSURE),
                pid: of(wellknown::CONDITION_PID_PRESSURE),
            },
            // One without a creation time, which no server leaves out, has no startup grace left, and the confirming read decides.
            created: metadata.creation_timestamp.unwrap_or(Wall::UNIX_EPOCH),
            name: NodeName::from(metadata.name.as_str()),
            uid: NodeUid::from(metadata.uid),
            resource_version: ResourceVersion::from(metadata.resource_version.as_str()),
        };
        let meta = Meta {
            name: metadata.name,
            resource_version: metadata.resource_version,
            ..Meta::default()
        };
        Self { meta, facts }
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
    pub fn into_facts(self) -> NodeFacts {
        self.facts
    }
}

// === impl LeaseView ===

impl From<RawLease> for LeaseView {
    fn from(raw: RawLease) -> Self {
        let meta = Meta {
            name: raw.metadata.name,
            namespace: raw.metadata.namespace,
            resource_version: raw.metadata.resource_version,
            ..Meta::default()
        };
        Self { meta, spec: raw.spec }
    }
}

impl Decode for LeaseView {
    const MESSAGE: Option<&'static Message> = Some(&schema::LEASE);
}

impl View for LeaseView {
    fn meta(&self) -> &Meta {
        &self.meta
    }
}

impl LeaseView {
    /// The facts.
    pub fn into_facts(self) -> LeaseFacts {
        LeaseFacts {
            name: NodeName::from(self.meta.name.as_str()),
            resource_version: ResourceVersion::from(self.meta.resource_version.as_str()),
            renewed: self.spec.renew_time,
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
            wellknown::LABEL_EXCLUDE_DISRUPTION => &self.exclude_disruption,
            _ => &None,
        };
        value.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use bailiff_cluster::Encoded;
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

    fn mk_facts(node: Value) -> NodeFacts {
        read(&node, NodeView::into_facts).expect("a node")
    }

    fn at(text: &str) -> Wall {
        text.parse().expect("a time")
    }

    #[test]
    fn a_node_becomes_facts() {
        let facts = mk_facts(json!({
            "metadata": {
                "name": "n1", "uid": "u1", "resourceVersion": "7", "creationTimestamp": "2024-01-01T00:00:00Z",
                "labels": {"topology.kubernetes.io/region": "r", "topology.kubernetes.io/zone": "z", "other": "x"},
                "managedFields": [{"manager": "kubelet"}],
            },
            "spec": {"podCIDR": "10.0.0.0/24"},
            "status": {
                "capacity": {"cpu": "4"},
                "conditions": [
                    {"type": "MemoryPressure", "status": "False"},
                    {"type": "PIDPressure", "status": "True"},
                    {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "m",
                     "lastHeartbeatTime": "2024-01-01T00:00:09Z", "lastTransitionTime": "2024-01-01T00:00:05Z"},
                ],
            },
        }));
        let wanted = NodeFacts {
            name: "n1".into(),
            uid: "u1".into(),
            resource_version: "7".into(),
            created: at("2024-01-01T00:00:00Z"),
            zone: Zone::new("r", "z"),
            excluded: false,
            ready: ReadyFacts {
                status: ReadyStatus::True,
                reason: "KubeletReady".into(),
                heartbeat: Some(at("2024-01-01T00:00:09Z")),
                since: Some(at("2024-01-01T00:00:05Z")),
            },
            pressures: Pressures {
                memory: ReadyStatus::False,
                disk: ReadyStatus::Absent,
                pid: ReadyStatus::True,
            },
        };
        assert_eq!(facts, wanted);
    }

    /// NL-020, NL-091
    #[test]
    fn labels_that_are_present_and_empty_count() {
        let facts = mk_facts(json!({"metadata": {
            "name": "n1", "uid": "u1",
            "labels": {
                "failure-domain.beta.kubernetes.io/zone": "", "topology.kubernetes.io/zone": "z",
                "node.kubernetes.io/exclude-disruption": "",
            },
        }}));
        assert_eq!(facts.zone, Zone::default());
        assert!(facts.excluded);
    }

    #[test]
    fn what_is_absent_or_null_is_not_an_error() {
        let facts = mk_facts(json!({"metadata": {"name": "n1", "uid": "u1", "labels": null}, "status": {"conditions": null}}));
        assert_eq!(facts.ready.status, ReadyStatus::Absent);
        let lease = |spec: Value| {
            let view = json!({"metadata": {"name": "n1", "resourceVersion": "3"}, "spec": spec});
            read(&view, LeaseView::into_facts).expect("a lease").renewed
        };
        assert_eq!(lease(Value::Null), None);
        assert_eq!(lease(json!({"renewTime": null, "holderIdentity": "n1"})), None);
        let renewed = "2024-01-01T00:00:00.123456Z";
        assert_eq!(lease(json!({"renewTime": renewed})), Some(at(renewed)));
    }

    #[test]
    fn a_node_without_identity_is_refused() {
        for node in [
            json!({}),
            json!({"metadata": {"name": "n1"}}),
            json!({"metadata": {"uid": "u1"}}),
        ] {
            assert_eq!(read(&node, NodeView::into_facts), None);
        }
    }

    #[test]
    fn a_lease_without_a_name_is_refused() {
        for lease in [json!({}), json!({"metadata": {"uid": "u1", "resourceVersion": "3"}})] {
            assert_eq!(read(&lease, LeaseView::into_facts), None);
        }
    }
}
