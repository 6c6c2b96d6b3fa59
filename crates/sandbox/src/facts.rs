//! What the simulated parts of a cluster need to know of Nodes and Pods, read from the stored JSON once per change.
//!
//! Views ([`view`]) are the shape of the JSON; facts are what is kept. A field that has an unexpected type makes the object malformed
//! for whoever reads it, which the API server's validation should have prevented; a malformed object is skipped and reported.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bailiff_model::{Namespace, NodeName, NodeUid, PodName, PodUid, ReadyStatus, Taint, Toleration, wellknown};

use crate::Object;
use crate::kubelet::annotations::PREFIX;
use crate::resources::{Allocatable, Resources};

pub mod affinity;
pub mod view;

pub use affinity::NodeAffinity;

/// Namespace and name of a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodKey {
    /// Namespace.
    pub namespace: Namespace,
    /// Name.
    pub name: PodName,
}

/// A Node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeFacts {
    /// Name.
    pub name: NodeName,
    /// Uid.
    pub uid: NodeUid,
    /// resourceVersion as a number.
    pub revision: u64,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations of this sandbox, without the prefix.
    pub annotations: BTreeMap<String, String>,
    /// Cordoned.
    pub unschedulable: bool,
    /// Taints with a known effect.
    pub taints: Vec<Taint>,
    /// Condition statuses and transition times, by type.
    pub conditions: BTreeMap<Arc<str>, ReadyStatus>,
    /// What it offers.
    pub allocatable: Allocatable,
    /// First address of type InternalIP.
    pub internal_ip: Option<Arc<str>>,
    /// `status.nodeInfo.bootID`, or empty.
    pub boot_id: String,
    /// Deletion was asked for.
    pub is_terminating: bool,
}

/// Phase of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Not started.
    #[default]
    Pending,
    /// Started.
    Running,
    /// All containers ended well.
    Succeeded,
    /// A container ended badly.
    Failed,
}

/// A container of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// Name.
    pub name: String,
    /// Image.
    pub image: String,
}

/// A Pod.
#[derive(Clone, Debug, PartialEq)]
pub struct PodFacts {
    /// Namespace and name.
    pub key: PodKey,
    /// Uid.
    pub uid: PodUid,
    /// resourceVersion as a number.
    pub revision: u64,
    /// `spec.nodeName`.
    pub node: Option<NodeName>,
    /// Phase.
    pub phase: Phase,
    /// Condition Ready.
    pub ready: ReadyStatus,
    /// Condition PodScheduled.
    pub scheduled: ReadyStatus,
    /// deletionGracePeriodSeconds, once deletion was asked for.
    pub terminating: Option<u64>,
    /// Annotations of this sandbox, without the prefix.
    pub annotations: BTreeMap<String, String>,
    /// Containers, then none of the init containers.
    pub containers: Arc<[Container]>,
    /// `restartPolicy: Always`.
    pub restarts_always: bool,
    /// `hostNetwork`.
    pub host_network: bool,
    /// What it asks for.
    pub requests: Resources,
    /// Uid of the controlling owner.
    pub controller: Option<Box<str>>,
    /// `status.startTime` is set.
    pub has_started: bool,
    /// How it wants to be placed; only while it is not bound.
    pub placement: Option<Box<Placement>>,
}

/// How an unbound pod wants to be placed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Placement {
    /// The node it names by affinity.
    pub target: Option<NodeName>,
    /// It has scheduling gates.
    pub is_gated: bool,
    /// `schedulerName` is the default scheduler's.
    pub is_ours: bool,
    /// `nodeSelector`.
    pub selector: BTreeMap<String, String>,
    /// Required node affinity.
    pub affinity: Option<NodeAffinity>,
    /// Tolerations.
    pub tolerations: Vec<Toleration>,
}

/// An object that does not have the shape of its kind.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {kind} {name}")]
pub struct Malformed {
    /// Kind.
    pub kind: &'static str,
    /// Name, after the namespace if there is one.
    pub name: String,
    /// Why.
    pub source: serde_json::Error,
}

// === impl PodKey ===

impl PodKey {
    /// The key of a name in a namespace.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl fmt::Display for PodKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

// === impl NodeFacts ===

impl NodeFacts {
    /// Reads a stored Node.
    ///
    /// # Errors
    /// When it does not have the shape of one.
    pub fn read(object: &Object) -> Result<Self, Malformed> {
        let node: view::Node = object.decode().map_err(|source| malformed("Node", object, source))?;
        let conditions = node.status.conditions.iter();
        let addresses = node.status.addresses.into_iter();
        Ok(Self {
            name: object.name().into(),
            uid: object.uid().into(),
            revision: object.revision(),
            labels: node.metadata.labels,
            annotations: own_annotations(node.metadata.annotations),
            unschedulable: node.spec.unschedulable,
            taints: node.spec.taints.iter().filter_map(view::Taint::to_model).collect(),
            conditions: conditions
                .map(|condition| (condition.kind.as_str().into(), ReadyStatus::parse(&condition.status)))
                .collect(),
            allocatable: Allocatable::from_map(&node.status.allocatable),
            internal_ip: addresses
                .filter(|address| address.kind == "InternalIP")
                .map(|address| address.address.into())
                .next(),
            boot_id: node.status.node_info.boot_id,
            is_terminating: node.metadata.deletion_timestamp.is_some(),
        })
    }

    /// Status of a condition.
    pub fn condition(&self, kind: &str) -> ReadyStatus {
        self.conditions.get(kind).copied().unwrap_or_default()
    }
}

// === impl Phase ===

impl Phase {
    /// The API text.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
        }
    }

    /// It will never run again.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }

    fn parse(text: &str) -> Self {
        match text {
            "Running" => Self::Running,
            "Succeeded" => Self::Succeeded,
            "Failed" => Self::Failed,
            _ => Self::Pending,
        }
    }
}

// === impl PodFacts ===

impl PodFacts {
    /// Reads a stored Pod.
    ///
    /// # Errors
    /// When it does not have the shape of one.
    pub fn read(object: &Object) -> Result<Self, Malformed> {
        let pod: view::Pod = object.decode().map_err(|source| malformed("Pod", object, source))?;
        let node = pod
            .spec
            .node_name
            .as_deref()
            .filter(|name| !name.is_empty())
            .map(NodeName::from);
        let condition = |kind: &str| {
            let found = pod.status.conditions.iter().find(|condition| condition.kind == kind);
            found.map_or(ReadyStatus::Absent, |condition| ReadyStatus::parse(&condition.status))
        };
        let terminating = pod.metadata.deletion_timestamp.as_ref();
        let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or(0);
        let owners = pod.metadata.owner_references.iter();
        Ok(Self {
            key: PodKey::new(object.namespace(), object.name()),
            uid: object.uid().into(),
            revision: object.revision(),
            phase: Phase::parse(&pod.status.phase),
            ready: condition(wellknown::CONDITION_READY),
            scheduled: condition("PodScheduled"),
            terminating: terminating.map(|_| u64::try_from(grace).unwrap_or(0)),
            annotations: own_annotations(pod.metadata.annotations),
            requests: pod.spec.requests(),
            restarts_always: matches!(pod.spec.restart_policy.as_str(), "" | "Always"),
            host_network: pod.spec.host_network,
            controller: owners
                .filter(|owner| owner.controller)
                .map(|owner| owner.uid.as_str().into())
                .next(),
            has_started: pod.status.start_time.is_some(),
            placement: node.is_none().then(|| Box::new(Placement::of(&pod.spec))),
            containers: pod.spec.containers.into_iter().map(Container::from).collect(),
            node,
        })
    }
}

// === impl Placement ===

impl Placement {
    fn of(spec: &view::PodSpec) -> Self {
        let affinity = spec.required_node_affinity().map(NodeAffinity::from);
        Self {
            target: affinity.as_ref().and_then(NodeAffinity::target),
            is_gated: !spec.scheduling_gates.is_empty(),
            is_ours: matches!(spec.scheduler_name.as_str(), "" | "default-scheduler"),
            selector: spec.node_selector.clone(),
            affinity,
            tolerations: spec.tolerations.iter().map(view::Toleration::to_model).collect(),
        }
    }
}

impl From<view::Container> for Container {
    fn from(container: view::Container) -> Self {
        Self {
            name: container.name,
            image: container.image,
        }
    }
}

fn own_annotations(all: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let own = all.into_iter();
    own.filter_map(|(key, value)| key.strip_prefix(PREFIX).map(|key| (key.to_owned(), value)))
        .collect()
}

fn malformed(kind: &'static str, object: &Object, source: serde_json::Error) -> Malformed {
    let name = match object.namespace() {
        "" => object.name().to_owned(),
        namespace => format!("{namespace}/{}", object.name()),
    };
    Malformed { kind, name, source }
}

#[cfg(test)]
pub(crate) mod tests;
