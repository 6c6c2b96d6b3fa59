//! What the monitor reads of a Node and of a Lease, and nothing more.

use std::sync::Arc;

use bailiff_model::{NodeName, NodeUid, ReadyStatus, ResourceVersion, Wall, Zone};

/// Condition Ready of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadyFacts {
    /// `status`, Absent if there is no such condition.
    pub status: ReadyStatus,
    /// `reason`, or empty.
    pub reason: Arc<str>,
    /// `lastHeartbeatTime`: compared for difference only, never with a clock.
    pub heartbeat: Option<Wall>,
    /// `lastTransitionTime`.
    pub since: Option<Wall>,
}

/// Statuses of the three pressure conditions that the monitor also turns Unknown (NL-053).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pressures {
    /// `MemoryPressure`.
    pub memory: ReadyStatus,
    /// `DiskPressure`.
    pub disk: ReadyStatus,
    /// `PIDPressure`.
    pub pid: ReadyStatus,
}

/// A Node as far as its health is concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFacts {
    /// `metadata.name`.
    pub name: NodeName,
    /// `metadata.uid`: the identity.
    pub uid: NodeUid,
    /// `metadata.resourceVersion`.
    pub resource_version: ResourceVersion,
    /// `metadata.creationTimestamp`.
    pub created: Wall,
    /// Its zone, from its labels (NL-020).
    pub zone: Zone,
    /// Label `node.kubernetes.io/exclude-disruption` is present (NL-091).
    pub excluded: bool,
    /// Condition Ready.
    pub ready: ReadyFacts,
    /// The pressure conditions.
    pub pressures: Pressures,
}

/// A Lease of namespace `kube-node-lease`. Holder, duration and owners are ignored (NL-047).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseFacts {
    /// `metadata.name`: the node's name.
    pub name: NodeName,
    /// `metadata.resourceVersion`.
    pub resource_version: ResourceVersion,
    /// `spec.renewTime`: compared with its own earlier value only, never with a clock (NL-048).
    pub renewed: Option<Wall>,
}
