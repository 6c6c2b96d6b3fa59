//! What there is to tell of a trace: parts of it that are over (docs/adr/0006).
//!
//! Nothing is told of what is decided for nobody: pods that stay, and nodes that nothing is decided on, are in no trace.

use std::sync::Arc;
use std::time::Duration;

use bailiff_model::intent::WithdrawnReason;
use bailiff_model::{HoldReason, NodeRef, PodRef, Taint, TraceContext, Wall};

/// Something that is over. Times are for people.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    /// The node it was on.
    pub node: NodeRef,
    /// What it belongs to.
    pub trace: TraceContext,
    /// When it began.
    pub start: Wall,
    /// When it ended.
    pub end: Wall,
    /// What it was.
    pub what: Part,
}

/// A part of a trace.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// A NoExecute taint that no verdict accounts for was found to concern somebody: the first of its trace, told once.
    Taint(Arc<Taint>),
    /// A pod's toleration time; in node mode, the node's eviction timeout (no taint).
    Toleration {
        /// The pod.
        pod: PodRef,
        /// The taint that it was for.
        taint: Option<Arc<Taint>>,
        /// How long it was to be.
        allowed: Duration,
        /// How it ended.
        ending: Ending,
    },
    /// A pod that was due.
    Termination {
        /// The pod.
        pod: PodRef,
        /// The taint because of which it was.
        taint: Option<Arc<Taint>>,
        /// How it ended.
        ending: Ending,
    },
    /// Pods that may stay for ever beside a taint that appeared: how many, and what became of the others.
    Tolerated {
        /// The taint.
        taint: Arc<Taint>,
        /// Pods of the node.
        pods: Counts,
    },
    /// The pods of a silent node were marked not ready (NL-084).
    Marks {
        /// Pods that were.
        marked: usize,
        /// Pods that were not: they are gone, were not ready already, or the node is ready again.
        spared: usize,
        /// Requests that failed, and were made again.
        failed: usize,
    },
    /// The marking of a node's pods was held.
    MarksHeld {
        /// Why.
        reason: HoldReason,
        /// One sentence for people.
        detail: String,
        /// The hold ended; else the marking did.
        released: bool,
    },
}

/// How a toleration time, or the wait for a pod to go, ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The time was over (TE-055, NL-202).
    Expired,
    /// It was moved: the pod may stay until then (TE-063).
    Moved(Wall),
    /// A taint came that nothing tolerates (TE-052).
    Untolerated,
    /// It was called off, and the pod stays, as far as is known.
    Withdrawn(WithdrawnReason),
    /// The Node is gone before it was due (node mode).
    NodeGone,
    /// The pod is gone.
    PodGone,
}

/// What a taint means for the pods of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// They are due.
    pub due: usize,
    /// They may stay for a time.
    pub timed: usize,
    /// They may stay for ever.
    pub tolerating: usize,
}
