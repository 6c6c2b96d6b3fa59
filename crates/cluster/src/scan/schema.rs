//! The fields that are read of each message, by number and by the name that JSON has for them.
//!
//! Numbers are those of the `generated.proto` files of `k8s.io/api` and `k8s.io/apimachinery`; they never change. A field that no view
//! reads is not in its table. What is in none is passed over.

use super::Kind::{Flag, Json, Map, Micros, Number, Text, Texts, Time};
use super::{Field, Kind, Message};

/// A field that JSON leaves out when it is empty or zero, though protobuf has it.
const fn filled(number: u32, name: &'static str, kind: Kind) -> Field {
    Field {
        number,
        name,
        kind,
        when_empty: false,
    }
}

/// A field that JSON has whenever protobuf has it: a pointer in the API's own types, or one that is written always.
const fn kept(number: u32, name: &'static str, kind: Kind) -> Field {
    Field {
        number,
        name,
        kind,
        when_empty: true,
    }
}

/// A message.
const fn one(number: u32, name: &'static str, message: &'static Message) -> Field {
    kept(number, name, Kind::One(message))
}

/// A list of messages.
const fn many(number: u32, name: &'static str, message: &'static Message) -> Field {
    kept(number, name, Kind::Many(message))
}

const fn message(name: &'static str, fields: &'static [Field]) -> Message {
    Message { name, fields }
}

// === meta/v1 ===

/// `ObjectMeta`
pub static OBJECT_META: Message = message(
    "ObjectMeta",
    &[
        filled(1, "name", Text),
        filled(3, "namespace", Text),
        filled(5, "uid", Text),
        filled(6, "resourceVersion", Text),
        filled(7, "generation", Number),
        filled(8, "creationTimestamp", Time),
        filled(9, "deletionTimestamp", Time),
        kept(11, "labels", Map),
        kept(12, "annotations", Map),
        many(13, "ownerReferences", &OWNER_REFERENCE),
        many(17, "managedFields", &MANAGED_FIELDS_ENTRY),
    ],
);

/// An object of any kind: its metadata, which has this number in all.
pub static OBJECT: Message = message("Object", &[one(1, "metadata", &OBJECT_META)]);

/// `OwnerReference`
pub static OWNER_REFERENCE: Message = message(
    "OwnerReference",
    &[
        kept(1, "kind", Text),
        kept(3, "name", Text),
        kept(4, "uid", Text),
        kept(5, "apiVersion", Text),
        kept(6, "controller", Flag),
    ],
);

/// `ManagedFieldsEntry`
pub static MANAGED_FIELDS_ENTRY: Message = message(
    "ManagedFieldsEntry",
    &[
        filled(1, "manager", Text),
        filled(4, "time", Time),
        kept(7, "fieldsV1", Json),
        filled(8, "subresource", Text),
    ],
);

/// `LabelSelector`
pub static LABEL_SELECTOR: Message = message(
    "LabelSelector",
    &[
        kept(1, "matchLabels", Map),
        many(2, "matchExpressions", &LABEL_SELECTOR_REQUIREMENT),
    ],
);

/// `LabelSelectorRequirement`
pub static LABEL_SELECTOR_REQUIREMENT: Message = message(
    "LabelSelectorRequirement",
    &[kept(1, "key", Text), kept(2, "operator", Text), kept(3, "values", Texts)],
);

// === core/v1 ===

/// `Node`
pub static NODE: Message = message(
    "Node",
    &[
        one(1, "metadata", &OBJECT_META),
        one(2, "spec", &NODE_SPEC),
        one(3, "status", &NODE_STATUS),
    ],
);

/// `NodeSpec`
pub static NODE_SPEC: Message = message("NodeSpec", &[filled(4, "unschedulable", Flag), many(5, "taints", &TAINT)]);

/// `Taint`
pub static TAINT: Message = message(
    "Taint",
    &[
        kept(1, "key", Text),
        filled(2, "value", Text),
        kept(3, "effect", Text),
        filled(4, "timeAdded", Time),
    ],
);

/// `NodeStatus`
pub static NODE_STATUS: Message = message("NodeStatus", &[many(4, "conditions", &NODE_CONDITION)]);

/// `NodeCondition`
pub static NODE_CONDITION: Message = message(
    "NodeCondition",
    &[
        kept(1, "type", Text),
        kept(2, "status", Text),
        filled(3, "lastHeartbeatTime", Time),
        filled(4, "lastTransitionTime", Time),
        filled(5, "reason", Text),
        filled(6, "message", Text),
    ],
);

/// `Pod`
pub static POD: Message = message(
    "Pod",
    &[
        one(1, "metadata", &OBJECT_META),
        one(2, "spec", &POD_SPEC),
        one(3, "status", &POD_STATUS),
    ],
);

/// `PodSpec`
pub static POD_SPEC: Message = message(
    "PodSpec",
    &[
        filled(10, "nodeName", Text),
        one(18, "affinity", &AFFINITY),
        many(22, "tolerations", &TOLERATION),
    ],
);

/// `Affinity`
pub static AFFINITY: Message = message("Affinity", &[one(1, "nodeAffinity", &NODE_AFFINITY)]);

/// `NodeAffinity`
pub static NODE_AFFINITY: Message = message(
    "NodeAffinity",
    &[one(1, "requiredDuringSchedulingIgnoredDuringExecution", &NODE_SELECTOR)],
);

/// `NodeSelector`
pub static NODE_SELECTOR: Message = message("NodeSelector", &[many(1, "nodeSelectorTerms", &NODE_SELECTOR_TERM)]);

/// `NodeSelectorTerm`
pub static NODE_SELECTOR_TERM: Message = message("NodeSelectorTerm", &[many(2, "matchFields", &NODE_SELECTOR_REQUIREMENT)]);

/// `NodeSelectorRequirement`
pub static NODE_SELECTOR_REQUIREMENT: Message = message(
    "NodeSelectorRequirement",
    &[kept(1, "key", Text), kept(2, "operator", Text), kept(3, "values", Texts)],
);

/// `Toleration`
pub static TOLERATION: Message = message(
    "Toleration",
    &[
        filled(1, "key", Text),
        filled(2, "operator", Text),
        filled(3, "value", Text),
        filled(4, "effect", Text),
        kept(5, "tolerationSeconds", Number),
    ],
);

/// `PodStatus`
pub static POD_STATUS: Message = message(
    "PodStatus",
    &[
        filled(1, "phase", Text),
        many(2, "conditions", &POD_CONDITION),
        filled(4, "reason", Text),
        many(8, "containerStatuses", &CONTAINER_STATUS),
        many(10, "initContainerStatuses", &CONTAINER_STATUS),
    ],
);

/// `PodCondition`
pub static POD_CONDITION: Message = message(
    "PodCondition",
    &[
        kept(1, "type", Text),
        kept(2, "status", Text),
        filled(4, "lastTransitionTime", Time),
        filled(5, "reason", Text),
        filled(6, "message", Text),
    ],
);

/// `ContainerStatus`
pub static CONTAINER_STATUS: Message = message("ContainerStatus", &[one(2, "state", &CONTAINER_STATE)]);

/// `ContainerState`
pub static CONTAINER_STATE: Message = message("ContainerState", &[one(1, "waiting", &CONTAINER_STATE_WAITING)]);

/// `ContainerStateWaiting`
pub static CONTAINER_STATE_WAITING: Message = message("ContainerStateWaiting", &[filled(1, "reason", Text)]);

/// `Event`: who tells.
pub static EVENT: Message = message(
    "Event",
    &[
        one(1, "metadata", &OBJECT_META),
        one(5, "source", &EVENT_SOURCE),
        kept(14, "reportingComponent", Text),
    ],
);

/// `EventSource`
pub static EVENT_SOURCE: Message = message("EventSource", &[filled(1, "component", Text)]);

// === apps/v1 ===

/// `DaemonSet`: whom it selects. Who needs its template reads JSON, which has all of it.
pub static DAEMON_SET: Message = message(
    "DaemonSet",
    &[one(1, "metadata", &OBJECT_META), one(2, "spec", &DAEMON_SET_SPEC)],
);

/// `DaemonSetSpec`
pub static DAEMON_SET_SPEC: Message = message("DaemonSetSpec", &[one(1, "selector", &LABEL_SELECTOR)]);

// === coordination/v1 ===

/// `Lease`
pub static LEASE: Message = message("Lease", &[one(1, "metadata", &OBJECT_META), one(2, "spec", &LEASE_SPEC)]);

/// `LeaseSpec`
pub static LEASE_SPEC: Message = message(
    "LeaseSpec",
    &[
        kept(1, "holderIdentity", Text),
        filled(3, "acquireTime", Micros),
        filled(4, "renewTime", Micros),
    ],
);

/// Every kind that is read from protobuf by a table.
pub static KINDS: [&Message; 5] = [&DAEMON_SET, &EVENT, &LEASE, &NODE, &POD];
