//! The incident that a node is in: what is remembered of it while it lasts, and what there is to tell of it.
//!
//! It begins with the last sign of life before the node was found late, silent or not ready. It ends with the record that says that the
//! node is healthy, or with the node. Whoever judges next goes on with the same trace (see `monitor/begin.rs`).

use std::sync::Arc;

use bailiff_model::{HoldReason, NodeRef, TraceContext, Verdict, Wall};

/// What is remembered while it lasts. Few nodes are in one at a time: it is boxed, and costs the others a word.
#[derive(Debug)]
pub(crate) struct Incident {
    pub(crate) trace: TraceContext,
    /// The last sign of life before it.
    pub(crate) began: Wall,
    /// The verdict of the record that it was inherited from.
    pub(crate) said: Option<Verdict>,
    /// Its node is not late any more, because its grace is counted anew (NL-099): it did not speak.
    pub(crate) recounted: bool,
    /// Its node is not read or written at the moment.
    pub(crate) wait: Option<Wait>,
    /// Requests about its node that failed last.
    pub(crate) trouble: Option<Trouble>,
}

/// Nothing is done about a silent node, because of a hold.
#[derive(Debug)]
pub(crate) struct Wait {
    pub(crate) reason: HoldReason,
    pub(crate) detail: String,
    pub(crate) since: Wall,
}

/// Requests that failed in the same way, one after the other.
#[derive(Debug)]
pub(crate) struct Trouble {
    pub(crate) request: Request,
    pub(crate) refusal: Refusal,
    /// Of the last one.
    pub(crate) detail: Arc<str>,
    /// When the first one was made.
    pub(crate) since: Wall,
    pub(crate) attempts: u32,
}

/// A request about a silent node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// The confirming read.
    Read,
    /// The write of its status.
    Write,
}

/// What came of a request that did not do what it was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It was refused, or not answered.
    Failed,
    /// The node changed since it was read.
    Conflict,
    /// There is no such node.
    Gone,
}

/// Something in an incident that is over, and in which nothing came of what was to be done: each is told once, however often it was
/// tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passage {
    /// The node.
    pub node: NodeRef,
    /// The incident.
    pub trace: TraceContext,
    /// When it began.
    pub start: Wall,
    /// When it ended.
    pub end: Wall,
    /// What it was.
    pub what: Part,
}

/// A part of an incident.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// The grace was over, and nothing was done.
    Held {
        /// Why.
        reason: HoldReason,
        /// One sentence for people.
        detail: String,
        /// How the hold ended, or what ended instead.
        outcome: Outcome,
    },
    /// Requests failed; after each there was a pause.
    Refused {
        /// Which.
        request: Request,
        /// In what way.
        refusal: Refusal,
        /// One sentence for people, about the last one.
        detail: Arc<str>,
        /// How many, one after the other.
        attempts: u32,
    },
    /// Its grace is counted anew, because something is ready again where nothing was (NL-099).
    Recounted,
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
    /// What was held may be done.
    Released,
    /// It is held for another reason.
    Replaced,
    /// Somebody else did it.
    Overtaken,
    /// The grace of the node is counted anew (NL-099).
    Recounted,
}

impl Incident {
    pub(crate) fn new(trace: TraceContext, began: Wall) -> Self {
        Self {
            trace,
            began,
            said: None,
            recounted: false,
            wait: None,
            trouble: None,
        }
    }
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
            Self::Released => "released",
            Self::Replaced => "replaced",
            Self::Overtaken => "overtaken",
            Self::Recounted => "recounted",
        }
    }
}

impl Refusal {
    /// Attribute value.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Conflict => "conflict",
            Self::Gone => "gone",
        }
    }
}
