//! Domain form of topic `eviction-intents`; field meanings are those of `proto/bailiff/v1/intents.proto`.

use crate::ids::{NodeRef, PodRef};
use crate::taint::{Effect, Taint, Toleration};
use crate::time::Wall;
use crate::wellknown;
use crate::zone::Zone;

/// One of the two NoExecute taints that health causes (NL-070).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HealthTaint {
    /// For Ready=False.
    NotReady,
    /// For Ready=Unknown.
    Unreachable,
}

impl HealthTaint {
    /// Taint key.
    pub const fn key(self) -> &'static str {
        match self {
            Self::NotReady => wellknown::TAINT_NOT_READY,
            Self::Unreachable => wellknown::TAINT_UNREACHABLE,
        }
    }

    /// The other one.
    pub const fn opposite(self) -> Self {
        match self {
            Self::NotReady => Self::Unreachable,
            Self::Unreachable => Self::NotReady,
        }
    }

    /// The health taint that `taint` is, if it is one with effect NoExecute.
    pub fn of(taint: &Taint) -> Option<Self> {
        if taint.effect != Effect::NoExecute {
            return None;
        }
        [Self::NotReady, Self::Unreachable]
            .into_iter()
            .find(|health| health.key() == &*taint.key)
    }
}

/// A node should carry a NoExecute health taint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeIsolation {
    /// The node.
    pub node: NodeRef,
    /// Its zone.
    pub zone: Zone,
    /// The taint wanted.
    pub taint: HealthTaint,
    /// One sentence for people.
    pub cause: String,
    /// When it was decided.
    pub decided_at: Wall,
}

/// All pods of a node should go (node mode).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeEviction {
    /// The node.
    pub node: NodeRef,
    /// Its zone.
    pub zone: Zone,
    /// When it is due, by the producer's clock: information.
    pub not_before: Wall,
    /// It may be acted on.
    pub due: bool,
    /// One sentence for people.
    pub cause: String,
    /// When it was decided.
    pub decided_at: Wall,
}

/// Why a pod should go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvictionCause {
    /// NoExecute taints, each with its start in `time_added`, and the tolerations that applied.
    Taints {
        /// The taints; `time_added` carries the start the taint-manager counted from.
        taints: Vec<Taint>,
        /// The tolerations used.
        tolerations: Vec<Toleration>,
    },
    /// The whole node is evicted.
    Node,
}

/// Why an eviction was called off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WithdrawnReason {
    /// No NoExecute taint is left on the node (TE-032).
    TaintsGone,
    /// Every taint is tolerated without limit now (TE-054).
    Tolerated,
    /// The node recovered (node mode).
    NodeRecovered,
}

/// Where a pod's eviction stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IntentState {
    /// A toleration time runs.
    Scheduled,
    /// Act.
    Due,
    /// Called off.
    Withdrawn(WithdrawnReason),
}

/// What made, or will make, the eviction due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Trigger {
    /// A taint that nothing tolerates (TE-052).
    Untolerated,
    /// A toleration time that ran out (TE-055).
    Expired,
    /// The eviction timeout of the node (NL-202); the only one that goes with [`EvictionCause::Node`].
    Node,
}

/// A pod should be evicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodEviction {
    /// The pod.
    pub pod: PodRef,
    /// The node it is bound to.
    pub node: NodeRef,
    /// The node's zone, the last that was known.
    pub zone: Zone,
    /// Why.
    pub cause: EvictionCause,
    /// Where it stands.
    pub state: IntentState,
    /// What made or makes it due.
    pub trigger: Trigger,
    /// When it is due; information.
    pub due_at: Wall,
    /// When it was decided.
    pub decided_at: Wall,
}

/// A record of topic `eviction-intents`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Intent {
    /// Key `node/<name>`, taint mode.
    Isolation(NodeIsolation),
    /// Key `node/<name>`, node mode.
    NodeEviction(NodeEviction),
    /// Key `pod/<uid>`.
    Pod(PodEviction),
}
