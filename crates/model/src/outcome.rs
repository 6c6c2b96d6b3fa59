//! Domain form of topic `eviction-outcomes`; field meanings are those of `proto/bailiff/v1/outcomes.proto`.

use crate::hold::Hold;
use crate::ids::{NodeRef, PodRef};
use crate::time::Wall;
use crate::zone::{Zone, ZoneState};

/// A zone as the evictor sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct ZoneStatus {
    /// The zone.
    pub zone: Zone,
    /// Its state.
    pub state: ZoneState,
    /// Voting nodes.
    pub voting: u32,
    /// Of these, not ready.
    pub not_ready: u32,
    /// Of these, late.
    pub late: u32,
    /// Rate in the present state, in nodes per second.
    pub rate_per_second: f64,
    /// When the rate was last granted; where that was forgotten, the latest moment at which it may have been.
    pub last_grant: Option<Wall>,
    /// Nodes waiting.
    pub queue_length: u32,
    /// Why nothing is granted.
    pub held: Option<Hold>,
}

/// What became of a node's isolation or eviction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeOutcomeState {
    /// Waiting for the zone's rate.
    Queued {
        /// Place in the queue, from 1.
        position: u32,
        /// When its turn is expected at the present rate.
        expected_at: Option<Wall>,
    },
    /// The NoExecute taint stands.
    Isolated,
    /// The taint was removed, or the wish withdrawn.
    Released,
    /// Its turn has come: all its pods are evicted, those that come later too (node mode).
    Evicted,
    /// Not acted on.
    Held(Hold),
}

/// A node's outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeOutcome {
    /// The node.
    pub node: NodeRef,
    /// Its zone.
    pub zone: Zone,
    /// State.
    pub state: NodeOutcomeState,
    /// When the state was entered.
    pub since: Wall,
    /// Since when it counts as unhealthy for its place in the queue.
    pub unhealthy_since: Option<Wall>,
}

/// Closed set of reasons to refuse an eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RefusedReason {
    /// No NoExecute taint stands on the node.
    NoTaint,
    /// The pod tolerates every taint at this moment.
    Tolerated,
    /// The pod is bound to another node.
    OtherNode,
    /// The node was replaced by another of its name.
    NodeReplaced,
    /// Node mode: the node is Ready.
    NodeReady,
    /// The API server refused for good.
    Api,
    /// Node mode: a DaemonSet of its namespace selects the pod (NL-206).
    DaemonSet,
}

crate::words! {
    /// Label value and log word.
    RefusedReason {
        NoTaint => "no_taint",
        Tolerated => "tolerated",
        OtherNode => "other_node",
        NodeReplaced => "node_replaced",
        NodeReady => "node_ready",
        Api => "api",
        DaemonSet => "daemon_set",
    }
}

/// What became of a pod's eviction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodOutcomeState {
    /// Requests are under way or retried.
    Evicting,
    /// The API accepted the deletion.
    Deleted,
    /// A budget, `<namespace>/<name>`, forbids it at the moment.
    Blocked {
        /// The budget.
        by: String,
    },
    /// The API's own facts do not justify it.
    Refused(RefusedReason),
    /// Withdrawn in time.
    Cancelled,
    /// The pod was gone already.
    Gone,
    /// Due, but held.
    Held(Hold),
}

impl PodOutcomeState {
    /// True if nothing more happens unless the intent changes. Terminal outcomes are exempt from replace and expire on the bus.
    pub const fn is_terminal(&self) -> bool {
        matches!(self, Self::Deleted | Self::Refused(_) | Self::Cancelled | Self::Gone)
    }
}

/// A pod's outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodOutcome {
    /// The pod.
    pub pod: PodRef,
    /// Its node.
    pub node: NodeRef,
    /// The node's zone, the last that was known.
    pub zone: Zone,
    /// State.
    pub state: PodOutcomeState,
    /// Requests that failed so far.
    pub failed_attempts: u32,
    /// One sentence for people.
    pub detail: String,
    /// When the state was entered.
    pub since: Wall,
    /// When the next request is made, after one that failed or was forbidden.
    pub next_try_at: Option<Wall>,
}

/// A record of topic `eviction-outcomes`. Each kind takes what it needs, not what the largest does.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Key `zone/<printable key>`.
    Zone(Box<ZoneStatus>),
    /// Key `node/<name>`.
    Node(Box<NodeOutcome>),
    /// Key `pod/<uid>`.
    Pod(Box<PodOutcome>),
}
