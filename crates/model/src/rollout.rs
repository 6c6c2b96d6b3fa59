//! Domain form of topic `daemon-rollouts`; field meanings are those of `proto/bailiff/v1/rollouts.proto`.

use crate::hold::Hold;
use crate::ids::{Namespace, NodeName};
use crate::time::Wall;

/// Why a node has no available daemon pod of the current revision. Closed set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WhyNot {
    /// The node was not ready before this revision existed.
    NodeBadBefore,
    /// The node went bad after it got this revision.
    NodeBadAfter,
    /// The pod is created and not bound.
    Unscheduled,
    /// An image cannot be pulled.
    Image,
    /// A container crashes again and again.
    CrashLoop,
    /// Ready, but not for minReadySeconds yet.
    MinReady,
    /// An old pod waits for the update budget.
    WaitingForBudget,
    /// The pod is being deleted.
    Deleting,
    /// The node rejected the pod for lack of room.
    NoRoom,
    /// The pod failed and its backoff runs.
    FailedBackoff,
    /// The create or delete request is on its way or failed.
    RequestPending,
    /// Running, not ready, for no reason above.
    NotReady,
    /// OnDelete, and the pod is of an older revision.
    OnDelete,
    /// An old pod stays as long as the rollout is paused.
    RolloutPaused,
    /// An old pod is one of those that the rollout is to leave.
    RolloutPartition,
    /// An old pod stays as long as too many nodes are bad that got the current revision.
    RolloutHalted,
    /// An old pod stays as long as its node or zone is held.
    Held,
}

crate::words! {
    /// Label value of metrics, and word of conditions.
    WhyNot {
        NodeBadBefore => "node_bad_before",
        NodeBadAfter => "node_bad_after",
        Unscheduled => "unscheduled",
        Image => "image",
        CrashLoop => "crash_loop",
        MinReady => "min_ready",
        WaitingForBudget => "waiting_for_budget",
        Deleting => "deleting",
        NoRoom => "no_room",
        FailedBackoff => "failed_backoff",
        RequestPending => "request_pending",
        NotReady => "not_ready",
        OnDelete => "on_delete",
        RolloutPaused => "rollout_paused",
        RolloutPartition => "rollout_partition",
        RolloutHalted => "rollout_halted",
        Held => "held",
    }
}

/// The reason of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeReason {
    /// Node.
    pub node: NodeName,
    /// Reason.
    pub reason: WhyNot,
    /// Since when.
    pub since: Wall,
}

/// The seven counters of a DaemonSet's status (DS-142).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// `desiredNumberScheduled`.
    pub desired: u32,
    /// `currentNumberScheduled`.
    pub current: u32,
    /// `numberReady`.
    pub ready: u32,
    /// `numberAvailable`.
    pub available: u32,
    /// `numberUnavailable`.
    pub unavailable: u32,
    /// `updatedNumberScheduled`.
    pub updated: u32,
    /// `numberMisscheduled`.
    pub misscheduled: u32,
}

/// The latest sync of one DaemonSet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaemonSetSync {
    /// Namespace.
    pub namespace: Namespace,
    /// Name.
    pub name: String,
    /// Uid.
    pub uid: String,
    /// `status.observedGeneration`.
    pub observed_generation: i64,
    /// Hash label value of the current revision.
    pub current_revision: String,
    /// Number of the current revision.
    pub revision: i64,
    /// Counters.
    pub counts: Counts,
    /// Nodes by reason, all of them.
    pub reasons: Vec<(WhyNot, u32)>,
    /// Single nodes, at most [`DaemonSetSync::MAX_NODES`], in order of name.
    pub nodes: Vec<NodeReason>,
    /// Why nothing is done at the moment.
    pub held: Option<Hold>,
    /// When the sync ended.
    pub synced_at: Wall,
    /// Since when the current revision is current.
    pub revision_since: Option<Wall>,
    /// When the last node that is not bad itself got an available pod of the current revision.
    pub rolled_out_at: Option<Wall>,
}

impl DaemonSetSync {
    /// Bound of [`DaemonSetSync::nodes`]: what fits a screen and keeps a record below 10 kB.
    pub const MAX_NODES: usize = 100;
}
