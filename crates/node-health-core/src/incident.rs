//! The incident that a node is in: what is remembered of it while it lasts, and what there is to tell of it.
//!
//! It begins with the last sign of life before the node was found late, silent or not ready. It ends with the record that says that the
//! node is healthy, or with the node. Whoever judges next goes on with the same trace (see `monitor/begin.rs`).

use bailiff_model::{NodeRef, TraceContext, Verdict, Wall};

/// What is remembered while it lasts. Few nodes are in one at a time: it is boxed, and costs the others a word.
#[derive(Debug)]
pub(crate) struct Incident {
    pub(crate) trace: TraceContext,
    /// The last sign of life before it.
    pub(crate) began: Wall,
}

/// An incident began. Said once of each: whoever inherits it does not say it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The node.
    pub node: NodeRef,
    /// The incident.
    pub trace: TraceContext,
    /// The last sign of life before it.
    pub began: Wall,
    /// When the verdict that opens it was reached.
    pub opened: Wall,
    /// That verdict.
    pub verdict: Verdict,
}

/// An incident is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closing {
    /// The node.
    pub node: NodeRef,
    /// The incident.
    pub trace: TraceContext,
    /// The last sign of life before it; of an inherited one, before the record it was inherited from.
    pub began: Wall,
    /// When it ended.
    pub closed: Wall,
    /// The verdict published before.
    pub was: Option<Verdict>,
    /// How it ended.
    pub outcome: Outcome,
}

/// How something ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The node spoke.
    Recovered,
    /// The node is gone.
    Deleted,
}

/// A node whose grace had ended was read, and spoke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reprieve {
    /// The node.
    pub node: NodeRef,
    /// The incident it was in when it was read; none if it never had a status.
    pub trace: Option<TraceContext>,
    /// What its grace was counted from.
    pub counted_from: Wall,
    /// When it ended.
    pub grace_ended: Wall,
    /// When the confirming read was asked for.
    pub asked: Wall,
    /// When it was answered.
    pub answered: Wall,
}

impl Outcome {
    /// Attribute value.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Recovered => "recovered",
            Self::Deleted => "deleted",
        }
    }
}
