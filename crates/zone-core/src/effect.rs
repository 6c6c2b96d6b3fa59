//! What the evictor wants done, as data.

use std::time::Duration;

use bailiff_model::outcome::{Outcome, RefusedReason};
use bailiff_model::{About, Mono, NodeName, NodeRef, Origin, PodRef, Taint, TraceContext, Wall, Zone};

use crate::span::Span;

/// Ties an answer to its request. Never used twice by one evictor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// One thing to be done. The order of a list of effects matters.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Replace a Node's taints; answered by [`crate::Input::NodeAnswer`].
    WriteTaints(TaintWrite),
    /// Read a Node from the server's store; answered by [`crate::Input::NodeAnswer`].
    ReadNode {
        /// Ticket.
        ticket: Ticket,
        /// Name.
        node: NodeName,
    },
    /// Read a Pod from the server's store; answered by [`crate::Input::PodAnswer`].
    ReadPod {
        /// Ticket.
        ticket: Ticket,
        /// Namespace and name.
        pod: PodRef,
    },
    /// Patch a Pod's status, with uid and resourceVersion as preconditions; answered by [`crate::Input::PodAnswer`].
    MarkPod {
        /// Ticket.
        ticket: Ticket,
        /// The pod and the state it must be in.
        pod: PodRef,
        /// What to write.
        mark: Mark,
    },
    /// Delete a Pod, with uid and resourceVersion as preconditions; answered by [`crate::Input::PodAnswer`].
    DeletePod {
        /// Ticket.
        ticket: Ticket,
        /// The pod and the state it must be in.
        pod: PodRef,
    },
    /// Evict a Pod by the Eviction API, with uid and resourceVersion as preconditions; answered by [`crate::Input::PodAnswer`].
    EvictPod {
        /// Ticket.
        ticket: Ticket,
        /// The pod and the state it must be in.
        pod: PodRef,
    },
    /// Do not send the request of this ticket, a write, if it was not sent yet. It is answered all the same, with
    /// [`crate::FailureKind::CalledOff`] if it was not.
    CallOff {
        /// Ticket.
        ticket: Ticket,
    },
    /// Publish an outcome.
    Publish(Draft),
    /// Take an outcome back.
    Remove {
        /// Key.
        key: String,
    },
    /// All that was known at the start is published: the shard may be declared complete.
    Complete,
    /// Emit a Kubernetes Event.
    Emit(Event),
    /// Count something.
    Count(Count),
    /// Record what took how long.
    Span(Span),
    /// Send [`crate::Input::Wake`] at this moment. The latest one replaces earlier ones.
    WakeAt(Mono),
}

/// Why taints are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The first health NoExecute taint, with a token.
    Isolate,
    /// The other one instead, at once (NL-071).
    Swap,
    /// None (NL-074, NL-097).
    Clear,
}

/// A replacement of a Node's taint list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaintWrite {
    /// Ticket.
    pub ticket: Ticket,
    /// The node and the state it must be in.
    pub node: NodeRef,
    /// The whole new list.
    pub taints: Vec<Taint>,
    /// Why.
    pub purpose: Purpose,
    /// Trace of the incident.
    pub trace: Option<TraceContext>,
}

/// What is written into a pod's status before it is deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Condition DisruptionTarget (TE-072).
    DisruptionTarget {
        /// `lastTransitionTime`; `None` keeps the one of a condition that is True already (TE-073).
        transition: Option<Wall>,
        /// `observedGeneration`.
        generation: i64,
    },
    /// `status.reason` NodeLost with this message (NL-206).
    NodeLost {
        /// `status.message`.
        message: String,
    },
}

/// `reason` of condition DisruptionTarget (TE-072).
pub const DISRUPTION_REASON: &str = "DeletionByTaintManager";
/// `message` of condition DisruptionTarget (TE-072).
pub const DISRUPTION_MESSAGE: &str = "Taint manager: deleting due to NoExecute taint";
/// `status.reason` in node mode (NL-206).
pub const NODE_LOST: &str = "NodeLost";

/// An outcome to be published.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    /// Key.
    pub key: String,
    /// Route.
    pub route: String,
    /// The record behind it, if any.
    pub derived_from: Origin,
    /// Trace.
    pub trace: Option<TraceContext>,
    /// Payload.
    pub outcome: Outcome,
}

/// Which of upstream's controllers an Event is said to come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Component {
    /// `node-controller` (NL-002).
    Node,
    /// `taint-eviction-controller` (TE-002).
    TaintEviction,
}

impl Component {
    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Node => "node-controller",
            Self::TaintEviction => "taint-eviction-controller",
        }
    }
}

/// What an Event is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Regarding {
    /// A node.
    Node(NodeRef),
    /// A pod.
    Pod {
        /// The pod.
        pod: PodRef,
        /// The reference carries the uid. Upstream's taint eviction leaves it out (TE-080), which hides the Event from
        /// `kubectl describe` and mixes namesakes up.
        with_uid: bool,
    },
}

/// A Kubernetes Event of type Normal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Who says it.
    pub component: Component,
    /// About what.
    pub regarding: Regarding,
    /// Reason.
    pub reason: &'static str,
    /// Message.
    pub note: String,
    /// The node that is emptied, the taint that decided it, and the trace.
    pub about: About,
}

/// Something counted; never a second source of truth.
#[derive(Clone, Debug, PartialEq)]
pub enum Count {
    /// A node was isolated, or evicted in node mode: `node_collector_evictions_total` (NL-140).
    NodeEvicted(Zone),
    /// A pod was deleted, so long after it was due (TE-090).
    PodDeleted {
        /// From due to deleted.
        after: Duration,
    },
    /// A pod's eviction was refused.
    PodRefused(RefusedReason),
    /// A budget forbade a pod's eviction.
    PodBlocked,
    /// A request failed.
    RequestFailed {
        /// `taints`, `pod` or `node_read`.
        what: &'static str,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NL-002, TE-002: Events come from upstream's controllers.
    #[test]
    fn events_come_from_upstreams_controllers() {
        assert_eq!(Component::Node.as_str(), "node-controller");
        assert_eq!(Component::TaintEviction.as_str(), "taint-eviction-controller");
    }
}
