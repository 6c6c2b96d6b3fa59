//! What is kept of a Node and of a Pod: the fields that are read, no more.

use std::sync::Arc;

use bailiff_model::{NodeName, NodeRef, PodRef, ReadyStatus, Stamp, Taint, Toleration, Wall, Zone};

/// Condition Ready of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeReady {
    /// Status.
    pub status: ReadyStatus,
    /// Unknown because a controller found that the kubelet stopped posting (reason `NodeStatusUnknown`, NL-053).
    pub stopped_posting: bool,
    /// `lastTransitionTime`.
    pub since: Option<Stamp>,
}

impl NodeReady {
    /// True if a controller declared the node silent.
    pub(crate) fn is_silent(self) -> bool {
        self.status == ReadyStatus::Unknown && self.stopped_posting
    }
}

/// Which conditions are True.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pressure {
    /// `MemoryPressure`.
    pub memory: bool,
    /// `DiskPressure`.
    pub disk: bool,
    /// `PIDPressure`.
    pub pid: bool,
    /// `NetworkUnavailable`.
    pub network: bool,
}

/// The four labels of NL-120.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlatformLabels {
    /// `kubernetes.io/os`.
    pub os: Option<Arc<str>>,
    /// `kubernetes.io/arch`.
    pub arch: Option<Arc<str>>,
    /// `beta.kubernetes.io/os`.
    pub os_beta: Option<Arc<str>>,
    /// `beta.kubernetes.io/arch`.
    pub arch_beta: Option<Arc<str>>,
}

/// What is read of a Node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFacts {
    /// Name, uid, resourceVersion.
    pub node: NodeRef,
    /// Its zone, from its labels (NL-020).
    pub zone: Zone,
    /// `metadata.creationTimestamp`.
    pub created: Option<Wall>,
    /// `spec.taints`, in order, without those that could not be read.
    pub taints: Vec<Taint>,
    /// `spec.taints` holds an entry that could not be read: the list must not be replaced, it would be lost.
    pub taints_unreadable: bool,
    /// Condition Ready.
    pub ready: NodeReady,
    /// The other conditions.
    pub pressure: Pressure,
    /// `spec.unschedulable`.
    pub unschedulable: bool,
    /// Platform labels.
    pub labels: PlatformLabels,
}

/// What is read of a Pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodFacts {
    /// Namespace, name, uid, resourceVersion, generation, DisruptionTarget.
    pub pod: PodRef,
    /// `spec.nodeName`; empty while unassigned.
    pub node: NodeName,
    /// `spec.tolerations`, in order.
    pub tolerations: Vec<Toleration>,
    /// Condition Ready.
    pub ready: ReadyStatus,
    /// Its `lastTransitionTime`.
    pub ready_since: Option<Wall>,
    /// When it was bound: `PodScheduled`'s transition, else creation.
    pub bound: Option<Wall>,
    /// It is being deleted. It is judged like any other (TE-077); this tells that its deletion did not fail.
    pub terminating: bool,
}
