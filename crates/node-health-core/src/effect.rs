//! What the monitor wants done. Effects are data; the shell performs them in order.

use std::time::Duration;

use bailiff_model::{Mono, NodeHealth, NodeName, NodeRef, TraceContext, Wall};

use crate::incident::{Closing, Opening, Passage, Reprieve};
use crate::loss::LossNews;
use crate::unknown::StatusWrite;

/// How a confirming read is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadBy {
    /// A GET of the node and one of its lease.
    Get,
    /// One LIST of nodes and one of leases, for a batch.
    List,
}

/// What an event on a node says (NL-130).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// NL-031
    RegisteredNode,
    /// NL-032
    RemovingNode,
    /// NL-085, first case.
    NodeNotReady,
}

impl EventKind {
    /// The event's `reason`.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::RegisteredNode => "RegisteredNode",
            Self::RemovingNode => "RemovingNode",
            Self::NodeNotReady => "NodeNotReady",
        }
    }
}

/// An event on a node: type Normal, in namespace `default`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeEvent {
    /// The node; its uid is part of the event's reference.
    pub node: NodeRef,
    /// What it says.
    pub kind: EventKind,
    /// The incident it belongs to.
    pub trace: Option<TraceContext>,
}

impl NodeEvent {
    /// The event's text (NL-130).
    pub fn message(&self) -> String {
        let name = &self.node.name;
        match self.kind {
            EventKind::RegisteredNode => format!("Node {name} event: Registered Node {name} in Controller"),
            EventKind::RemovingNode => format!("Node {name} event: Removing Node {name} from Controller"),
            EventKind::NodeNotReady => format!("Node {name} status is now: NodeNotReady"),
        }
    }
}

/// How a node came to be judged silent, for spans and histograms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// The node.
    pub node: NodeRef,
    /// The incident.
    pub trace: TraceContext,
    /// What its grace was counted from.
    pub counted_from: Wall,
    /// When it ended.
    pub grace_ended: Wall,
    /// When the confirming read was asked for.
    pub asked: Wall,
    /// When it was answered.
    pub answered: Wall,
    /// When the verdict stood in the API.
    pub judged: Wall,
    /// From the end of the grace to the verdict.
    pub past_grace: Duration,
    /// From the confirming read to the verdict: one node's turn (NL-140).
    pub turn: Duration,
}

/// Something to be measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Measurement {
    /// An incident of a node began, whatever opens it.
    Opened(Opening),
    /// A node was judged silent.
    Judged(Judgement),
    /// A node whose grace had ended showed a sign of life in the confirming read.
    Reprieved(Reprieve),
    /// Something in an incident is over that kept it from going on.
    Passed(Passage),
    /// An incident of a node is over.
    Closed(Closing),
    /// The process did not run for this long; nothing is judged for a monitor period, until what waited has been taken in.
    Stalled(Duration),
    /// Leases stopped together, or returned.
    Loss(LossNews),
    /// Every voting node is not ready: nothing ready is left anywhere (NL-097).
    EverythingDown,
    /// A voting node is ready again; this many silent nodes had their grace counted anew (NL-099).
    NoLongerEverythingDown {
        /// Nodes of this shard that were late or judged.
        recounted: usize,
    },
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Read these nodes and their leases, now, from the API server's store and not from a cache. Every one of these is answered by
    /// one [`crate::Input::Confirmed`].
    Confirm {
        /// When it was asked for; to be sent back.
        asked: Mono,
        /// How.
        by: ReadBy,
        /// The nodes: one for [`ReadBy::Get`].
        nodes: Vec<NodeName>,
    },
    /// Write conditions of a node's status, on condition of its uid and resourceVersion (NL-055, NL-154). Answered by one
    /// [`crate::Input::Written`].
    WriteUnknown(StatusWrite),
    /// Do not send the write about this node, if it was not sent yet. It is answered all the same, with
    /// [`crate::WriteOutcome::CalledOff`] if it was not.
    CallOff(NodeRef),
    /// Publish a record of topic node-health: key is the node's name, route its zone.
    Publish {
        /// The record.
        health: Box<NodeHealth>,
        /// The incident it belongs to.
        trace: Option<TraceContext>,
    },
    /// Remove the record of a node.
    Retract(NodeName),
    /// Every node of this shard has been published: the initial set is complete.
    Complete,
    /// Emit an event.
    Event(NodeEvent),
    /// Measure.
    Measure(Measurement),
    /// Send [`crate::Input::Wake`] at this moment. Replaces the moment asked for before.
    WakeAt(Mono),
}
