//! What is decoded of the objects that are looked at: the fields that tell what a controller did, and no others.

use bailiff_cluster::scan::{Message, schema};
use bailiff_cluster::views::{Condition, Conditions, Meta, OwnerReference, TaintView, Taints, condition, or_default, tolerations};
use bailiff_cluster::{Decode, View};
use bailiff_model::{Effect, ReadyStatus, Taint, Toleration, Wall, wellknown};
use serde::Deserialize;

/// A Node.
#[derive(Debug, Deserialize)]
pub(crate) struct NodeView {
    metadata: Meta,
    #[serde(default, deserialize_with = "or_default")]
    spec: Taints,
    #[serde(default, deserialize_with = "or_default")]
    status: Conditions,
}

/// A Pod.
#[derive(Debug, Deserialize)]
#[serde(from = "RawPod")]
pub(crate) struct PodView {
    pub(crate) meta: Meta,
    pub(crate) node: String,
    pub(crate) wanted_node: Option<String>,
    pub(crate) phase: String,
    pub(crate) is_daemon: bool,
    pub(crate) is_leaving: bool,
    pub(crate) tolerations: Vec<Toleration>,
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
    name: String,
    uid: String,
    #[serde(default, deserialize_with = "or_default")]
    namespace: String,
    #[serde(default)]
    deletion_timestamp: Option<Wall>,
    #[serde(default, deserialize_with = "or_default")]
    owner_references: Vec<OwnerReference>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodSpec {
    #[serde(deserialize_with = "or_default")]
    node_name: String,
    #[serde(deserialize_with = "tolerations")]
    tolerations: Vec<Toleration>,
    #[serde(deserialize_with = "or_default")]
    affinity: serde_json::Value,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PodStatus {
    #[serde(deserialize_with = "or_default")]
    phase: String,
}

/// A pod that can be evicted as it is, or as a write left it.
#[derive(Debug, Deserialize)]
pub(crate) struct TargetView {
    pub(crate) metadata: Meta,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) spec: TargetSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct TargetSpec {
    #[serde(deserialize_with = "or_default")]
    pub(crate) node_name: String,
}

/// When a node renewed its Lease.
#[derive(Debug, Deserialize)]
pub(crate) struct LeaseView {
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) spec: LeaseSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct LeaseSpec {
    pub(crate) renew_time: Option<Wall>,
}

/// Where a DaemonSet stands.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct DaemonSetView {
    metadata: Generation,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) status: Rollout,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Generation {
    generation: i64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Rollout {
    observed_generation: i64,
    desired_number_scheduled: usize,
    updated_number_scheduled: usize,
    number_available: usize,
}

// === impl NodeView ===

impl NodeView {
    /// What its Ready condition says.
    pub(crate) fn ready(&self) -> ReadyStatus {
        condition(&self.status.conditions, wellknown::CONDITION_READY).map_or(ReadyStatus::Absent, Condition::ready_status)
    }

    /// When its kubelet posted its status last, by its own word.
    pub(crate) fn posted(&self) -> Option<Wall> {
        condition(&self.status.conditions, wellknown::CONDITION_READY)?.last_heartbeat_time
    }

    /// Its taints that make pods go.
    pub(crate) fn evicting_taints(&self) -> Vec<Taint> {
        let taints = self.spec.taints.iter().filter_map(TaintView::to_model);
        taints.filter(|taint| taint.effect == Effect::NoExecute).collect()
    }
}

impl Decode for NodeView {
    const MESSAGE: Option<&'static Message> = Some(&schema::NODE);
}

impl View for NodeView {
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

// === impl PodView ===

impl From<RawPod> for PodView {
    fn from(RawPod { metadata, spec, status }: RawPod) -> Self {
        let is_daemon = metadata.owner_references.iter().any(|owner| owner.kind == "DaemonSet");
        Self {
            is_daemon,
            is_leaving: metadata.deletion_timestamp.is_some(),
            wanted_node: wanted_node(&spec.affinity),
            node: spec.node_name,
            phase: status.phase,
            tolerations: spec.tolerations,
            meta: Meta {
                name: metadata.name.into(),
                namespace: metadata.namespace.into(),
                uid: metadata.uid,
                ..Meta::default()
            },
        }
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

/// The node that a daemon pod asks for, by the name in its affinity.
fn wanted_node(affinity: &serde_json::Value) -> Option<String> {
    let path = "/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchFields/0";
    let field = affinity.pointer(path)?;
    let is_name = field["key"] == "metadata.name" && field["operator"] == "In";
    is_name.then(|| field["values"][0].as_str().map(str::to_owned))?
}

impl Decode for TargetView {
    const MESSAGE: Option<&'static Message> = Some(&schema::POD);
}

impl Decode for LeaseView {}

// === impl DaemonSetView ===

impl Decode for DaemonSetView {}

impl DaemonSetView {
    /// Every node of so many has an available pod of the template as it is.
    pub(crate) fn is_complete(&self, nodes: usize) -> bool {
        let Rollout {
            observed_generation,
            desired_number_scheduled,
            updated_number_scheduled,
            number_available,
        } = self.status;
        observed_generation >= self.metadata.generation
            && [desired_number_scheduled, updated_number_scheduled, number_available] == [nodes; 3]
    }
}

impl Rollout {
    /// For people who wait.
    pub(crate) fn told(&self) -> String {
        let Self {
            desired_number_scheduled: desired,
            updated_number_scheduled: updated,
            number_available: available,
            ..
        } = self;
        format!("{available} available and {updated} updated of {desired}")
    }
}

#[cfg(test)]
mod tests {
    use bailiff_cluster::Encoded;
    use serde_json::{Value, json};

    use super::*;

    /// What a view says of an object, which is the same in both encodings.
    fn read<T: Decode + std::fmt::Debug>(object: &Value) -> T {
        let message = bailiff_sandbox::protobuf::message(object, T::MESSAGE.unwrap().name);
        let protobuf = T::decode(&Encoded::Protobuf(message.into())).unwrap();
        let json = T::decode(&Encoded::Json(&object.to_string())).unwrap();
        assert_eq!(format!("{json:?}"), format!("{protobuf:?}"));
        protobuf
    }

    #[test]
    fn a_daemon_pod_says_where_it_wants_to_be() {
        let pod = json!({
            "metadata": {"name": "d-1", "uid": "u", "namespace": "default", "ownerReferences": [{"kind": "DaemonSet", "name": "d"}]},
            "spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n-1"]}]}
            ]}}}},
        });
        let view: PodView = read(&pod);
        assert!(view.is_daemon && !view.is_leaving && view.node.is_empty());
        assert_eq!(view.wanted_node.as_deref(), Some("n-1"));
    }

    #[test]
    fn a_pod_to_be_evicted_says_what_it_is_and_where() {
        let pod = json!({
            "metadata": {"name": "p-1", "uid": "u", "namespace": "default", "resourceVersion": "7"},
            "spec": {"nodeName": "n-1"},
        });
        let TargetView { metadata, spec } = read(&pod);
        assert_eq!(
            (&*metadata.uid, &*metadata.resource_version, &*spec.node_name),
            ("u", "7", "n-1")
        );
    }

    #[test]
    fn a_rollout_is_complete_when_what_was_asked_for_last_is_everywhere() {
        let set = |generation, numbers: [usize; 3]| -> DaemonSetView {
            serde_json::from_value(json!({
                "metadata": {"generation": generation},
                "status": {
                    "observedGeneration": 2, "desiredNumberScheduled": numbers[0],
                    "updatedNumberScheduled": numbers[1], "numberAvailable": numbers[2],
                },
            }))
            .unwrap()
        };
        assert!(set(2, [5, 5, 5]).is_complete(5));
        assert!(!set(3, [5, 5, 5]).is_complete(5), "the last change was not seen yet");
        assert!(!set(2, [5, 4, 5]).is_complete(5) && !set(2, [4, 4, 4]).is_complete(5));
    }

    #[test]
    fn only_taints_that_make_pods_go_count() {
        let node = json!({
            "metadata": {"name": "n", "uid": "u"},
            "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "b", "effect": "NoExecute"}]},
            "status": {"conditions": [{"type": "Ready", "status": "Unknown", "lastHeartbeatTime": "2024-01-01T00:00:00Z"}]},
        });
        let view: NodeView = read(&node);
        assert_eq!(view.ready(), ReadyStatus::Unknown);
        assert_eq!(
            view.evicting_taints().iter().map(|taint| &*taint.key).collect::<Vec<_>>(),
            ["b"]
        );
    }
}
