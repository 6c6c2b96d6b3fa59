//! Facts out of the API server's objects, in JSON or in what reads like it.
//!
//! Decoding is lenient where the API is (absent and null are the same, unknown fields are skipped) and strict where a rule could
//! not be applied: an object that is malformed there is an error naming the field, and is not used. Templates and revision data
//! are taken as raw JSON, so that fields this program does not know survive.

mod daemonset;

use std::fmt;
use std::sync::Arc;

use bailiff_model::decode::{named, or_default, time};
use bailiff_model::wellknown::{CONDITION_POD_SCHEDULED, CONDITION_READY};
use bailiff_model::{Effect, Namespace, NodeName, NodeUid, PodName, PodUid, ResourceVersion, Stamp, Taint, Wall};
use compact_str::CompactString;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::{Controller, Controlling, Labels, Node, Phase, Pod, Revision, Trouble};

/// Kind of a controller whose pods are of interest, of any API group (DS-022).
const DAEMON_SET: &str = "DaemonSet";

/// Metadata; their annotations are read of those kinds only where one means something.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default, bound = "Annotations: Deserialize<'de> + Default")]
struct Meta<Annotations = IgnoredAny> {
    #[serde(deserialize_with = "or_default")]
    name: CompactString,
    #[serde(deserialize_with = "or_default")]
    namespace: CompactString,
    #[serde(deserialize_with = "or_default")]
    uid: CompactString,
    #[serde(deserialize_with = "or_default")]
    resource_version: CompactString,
    #[serde(deserialize_with = "or_default")]
    generation: i64,
    #[serde(deserialize_with = "time")]
    creation_timestamp: Option<Wall>,
    deletion_timestamp: Option<IgnoredAny>,
    #[serde(deserialize_with = "labels")]
    labels: Labels,
    #[serde(deserialize_with = "or_default")]
    annotations: Annotations,
    #[serde(deserialize_with = "or_default")]
    owner_references: Vec<Owner>,
}

impl<Annotations> Meta<Annotations> {
    fn created(&self) -> Wall {
        self.creation_timestamp.unwrap_or(Wall::UNIX_EPOCH)
    }

    fn owner(&self) -> Option<&Owner> {
        self.owner_references.iter().find(|owner| owner.controller)
    }

    /// Somebody controls it who is no DaemonSet.
    fn is_of_others(&self) -> bool {
        self.owner().is_some_and(|owner| owner.kind != DAEMON_SET)
    }

    fn controller(&self) -> Controller {
        match self.owner() {
            None => Controller::None,
            Some(owner) if owner.kind == DAEMON_SET => Controller::DaemonSet(Arc::new(Controlling {
                name: Arc::from(owner.name.as_str()),
                uid: Arc::from(owner.uid.as_str()),
            })),
            Some(_) => Controller::Other,
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Owner {
    kind: CompactString,
    name: CompactString,
    uid: CompactString,
    #[serde(deserialize_with = "or_default")]
    controller: bool,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Condition {
    #[serde(rename = "type")]
    kind: CompactString,
    status: CompactString,
    #[serde(deserialize_with = "or_default")]
    reason: CompactString,
    #[serde(deserialize_with = "time")]
    last_transition_time: Option<Wall>,
}

fn condition<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.kind == kind)
}

// === Node ===

#[derive(Deserialize, Default)]
#[serde(default)]
struct NodeObject {
    metadata: Meta,
    #[serde(deserialize_with = "or_default")]
    spec: NodeSpec,
    #[serde(deserialize_with = "or_default")]
    status: NodeStatus,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct NodeSpec {
    #[serde(deserialize_with = "or_default")]
    taints: Vec<TaintObject>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct TaintObject {
    key: CompactString,
    #[serde(deserialize_with = "or_default")]
    value: CompactString,
    effect: CompactString,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct NodeStatus {
    #[serde(deserialize_with = "node_conditions")]
    conditions: Vec<Condition>,
}

fn node_conditions<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Condition>, D::Error> {
    named(deserializer, &[CONDITION_READY])
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = NodeObject::deserialize(deserializer)?;
        ensure_named(&object.metadata)?;
        let taints = object.spec.taints.iter().filter_map(|taint| {
            Some(Taint {
                key: Arc::from(taint.key.as_str()),
                value: Arc::from(taint.value.as_str()),
                effect: Effect::parse(&taint.effect)?,
                time_added: None,
            })
        });
        let bad_since = match condition(&object.status.conditions, CONDITION_READY) {
            Some(ready) if ready.status == "True" => None,
            Some(ready) => Some(ready.last_transition_time.unwrap_or(object.metadata.created())),
            None => Some(object.metadata.created()),
        };
        Ok(Self {
            name: NodeName::from(object.metadata.name.as_str()),
            uid: NodeUid::from(object.metadata.uid.as_str()),
            taints: taints.collect(),
            labels: object.metadata.labels.into(),
            bad_since,
        })
    }
}

// === Pod ===

/// A pod. Of somebody else's, which most are, nothing is read behind the metadata.
struct PodObject {
    metadata: Meta,
    spec: PodSpec,
    status: PodStatus,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(field_identifier, rename_all = "lowercase")]
enum PodField {
    Metadata,
    Spec,
    Status,
    #[serde(other)]
    Unknown,
}

impl<'de> Deserialize<'de> for PodObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = PodObject;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a pod")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<PodObject, A::Error> {
                let (mut metadata, mut spec, mut status) = (None::<Meta>, None, None);
                while let Some(field) = map.next_key()? {
                    let is_others = metadata.as_ref().is_some_and(Meta::is_of_others);
                    match field {
                        PodField::Metadata => once(&mut metadata, "metadata", map.next_value()?)?,
                        PodField::Spec => once(&mut spec, "spec", part(&mut map, is_others)?)?,
                        PodField::Status => once(&mut status, "status", part(&mut map, is_others)?)?,
                        PodField::Unknown => {
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                Ok(PodObject {
                    metadata: metadata.unwrap_or_default(),
                    spec: spec.unwrap_or_default(),
                    status: status.unwrap_or_default(),
                })
            }
        }

        deserializer.deserialize_map(Fields)
    }
}

/// The value of a field that may be there once.
fn once<T, E: serde::de::Error>(field: &mut Option<T>, name: &'static str, value: T) -> Result<(), E> {
    match field.replace(value) {
        None => Ok(()),
        Some(_) => Err(E::duplicate_field(name)),
    }
}

/// A part of a pod, null like an absent one; nothing of somebody else's.
fn part<'de, T: Deserialize<'de> + Default, A: MapAccess<'de>>(map: &mut A, is_others: bool) -> Result<T, A::Error> {
    if is_others {
        map.next_value::<IgnoredAny>()?;
        return Ok(T::default());
    }
    Ok(map.next_value::<Option<T>>()?.unwrap_or_default())
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct PodSpec {
    #[serde(deserialize_with = "or_default")]
    node_name: CompactString,
    #[serde(deserialize_with = "or_default")]
    affinity: Affinity,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Affinity {
    #[serde(deserialize_with = "or_default")]
    node_affinity: NodeAffinity,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct NodeAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution", deserialize_with = "or_default")]
    required: Required,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Required {
    #[serde(deserialize_with = "or_default")]
    node_selector_terms: Vec<Term>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Term {
    #[serde(deserialize_with = "or_default")]
    match_fields: Vec<FieldRequirement>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct FieldRequirement {
    key: CompactString,
    operator: CompactString,
    #[serde(deserialize_with = "or_default")]
    values: Vec<CompactString>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct PodStatus {
    #[serde(deserialize_with = "or_default")]
    phase: CompactString,
    #[serde(deserialize_with = "or_default")]
    reason: CompactString,
    #[serde(deserialize_with = "pod_conditions")]
    conditions: Vec<Condition>,
    #[serde(deserialize_with = "or_default")]
    init_container_statuses: Vec<ContainerStatus>,
    #[serde(deserialize_with = "or_default")]
    container_statuses: Vec<ContainerStatus>,
}

fn pod_conditions<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Condition>, D::Error> {
    named(deserializer, &[CONDITION_READY, CONDITION_POD_SCHEDULED])
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ContainerStatus {
    #[serde(deserialize_with = "or_default")]
    state: ContainerState,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ContainerState {
    #[serde(deserialize_with = "or_default")]
    waiting: Waiting,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Waiting {
    #[serde(deserialize_with = "or_default")]
    reason: CompactString,
}

impl PodSpec {
    /// DS-070
    fn target(&self) -> Option<NodeName> {
        if !self.node_name.is_empty() {
            return Some(NodeName::from(self.node_name.as_str()));
        }
        let terms = &self.affinity.node_affinity.required.node_selector_terms;
        let mut requirements = terms.iter().flat_map(|term| &term.match_fields);
        let pin = requirements.find(|requirement| requirement.key == "metadata.name" && requirement.operator == "In")?;
        match pin.values.as_slice() {
            [node] => Some(NodeName::from(node.as_str())),
            _ => None,
        }
    }
}

impl PodStatus {
    fn phase(&self) -> Phase {
        match self.phase.as_str() {
            "Succeeded" => Phase::Succeeded,
            "Failed" => Phase::Failed,
            _ => Phase::Active,
        }
    }

    fn trouble(&self) -> Option<Trouble> {
        let is_unschedulable =
            condition(&self.conditions, CONDITION_POD_SCHEDULED).is_some_and(|scheduled| scheduled.reason == "Unschedulable");
        if self.reason.starts_with("OutOf") || is_unschedulable {
            return Some(Trouble::NoRoom);
        }
        let statuses = self.init_container_statuses.iter().chain(&self.container_statuses);
        let mut reasons = statuses.map(|status| status.state.waiting.reason.as_str());
        reasons.find_map(|reason| match reason {
            "CrashLoopBackOff" => Some(Trouble::CrashLoop),
            "ErrImagePull" | "ImagePullBackOff" | "InvalidImageName" | "ErrImageNeverPull" => Some(Trouble::Image),
            _ => None,
        })
    }
}

impl<'de> Deserialize<'de> for Pod {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = PodObject::deserialize(deserializer)?;
        let meta = object.metadata;
        ensure_named(&meta)?;
        let ready = condition(&object.status.conditions, CONDITION_READY);
        Ok(Self {
            namespace: Namespace::from(meta.namespace.as_str()),
            name: PodName::from(meta.name.as_str()),
            uid: PodUid::from(meta.uid.as_str()),
            version: ResourceVersion::from(meta.resource_version.as_str()),
            controller: meta.controller(),
            target: object.spec.target(),
            bound: !object.spec.node_name.is_empty(),
            phase: object.status.phase(),
            ready: ready.is_some_and(|ready| ready.status == "True"),
            ready_changed: ready.and_then(|ready| ready.last_transition_time).map(Stamp::from),
            deleting: meta.deletion_timestamp.is_some(),
            created: meta.created().into(),
            trouble: object.status.trouble(),
            labels: Arc::new(meta.labels),
        })
    }
}

// === ControllerRevision ===

#[derive(Deserialize)]
struct RevisionObject {
    #[serde(default)]
    metadata: Meta,
    #[serde(default)]
    data: Option<Box<RawValue>>,
    #[serde(default, deserialize_with = "or_default")]
    revision: i64,
}

impl<'de> Deserialize<'de> for Revision {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let RevisionObject {
            metadata: meta,
            data,
            revision,
        } = RevisionObject::deserialize(deserializer)?;
        ensure_named(&meta)?;
        Ok(Self {
            namespace: Namespace::from(meta.namespace.as_str()),
            name: Arc::from(meta.name.as_str()),
            uid: Arc::from(meta.uid.as_str()),
            version: ResourceVersion::from(meta.resource_version.as_str()),
            controller: meta.controller(),
            deleting: meta.deletion_timestamp.is_some(),
            created: meta.created(),
            number: revision,
            data: data.map_or_else(|| Arc::from(&b""[..]), |raw| Arc::from(raw.get().as_bytes())),
            labels: Arc::new(meta.labels),
        })
    }
}

fn ensure_named<E: serde::de::Error, Annotations>(meta: &Meta<Annotations>) -> Result<(), E> {
    if meta.name.is_empty() {
        return Err(E::custom("metadata.name is missing"));
    }
    Ok(())
}

/// Labels, null like none. Keys and values go into what keeps them, without a `String` between.
fn labels<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Labels, D::Error> {
    struct Entries;

    impl<'de> Visitor<'de> for Entries {
        type Value = Labels;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("texts by text")
        }

        fn visit_none<E>(self) -> Result<Labels, E> {
            Ok(Labels::new())
        }

        fn visit_unit<E>(self) -> Result<Labels, E> {
            Ok(Labels::new())
        }

        fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Labels, D::Error> {
            deserializer.deserialize_map(self)
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Labels, A::Error> {
            let mut labels = Labels::new();
            while let Some((key, value)) = map.next_entry::<CompactString, CompactString>()? {
                labels.insert(Arc::from(key.as_str()), Arc::from(value.as_str()));
            }
            Ok(labels)
        }
    }

    deserializer.deserialize_option(Entries)
}
