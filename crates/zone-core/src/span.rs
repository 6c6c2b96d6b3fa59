//! Parts of incidents that are over, for traces: each state that a node or a pod has left, with why it was in it.

use bailiff_model::outcome::RefusedReason;
use bailiff_model::{Hold, HoldReason, NodeRef, PodRef, TraceContext, Wall};

use crate::input::FailureKind;

/// A part of an incident that is over: real start and end (design §9).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// What it was.
    pub kind: SpanKind,
    /// Trace of the incident.
    pub trace: Option<TraceContext>,
    /// When it began.
    pub start: Wall,
    /// When it ended.
    pub end: Wall,
    /// The node it concerns.
    pub node: NodeRef,
    /// The pod it concerns.
    pub pod: Option<PodRef>,
    /// How it ended.
    pub outcome: SpanEnd,
    /// Why it was so, or ended so.
    pub why: Why,
}

impl Span {
    /// True if what was wanted did not come about because a request failed.
    pub fn has_failed(&self) -> bool {
        self.outcome == SpanEnd::Failed || self.why.reason == Some(SpanReason::Refused(RefusedReason::Api))
    }
}

/// Why a state was entered, or left as it was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Why {
    /// One of few.
    pub reason: Option<SpanReason>,
    /// One sentence for people, or nothing.
    pub detail: String,
    /// Holds of the zone meanwhile, in order, and when each ended; the last ones, if there were many.
    pub meanwhile: Vec<(Hold, Wall)>,
}

impl Why {
    pub(crate) fn new(reason: impl Into<Option<SpanReason>>, detail: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            detail: detail.into(),
            meanwhile: Vec::new(),
        }
    }

    pub(crate) fn held(reason: HoldReason, detail: impl Into<String>) -> Self {
        Self::new(SpanReason::Hold(reason), detail)
    }
}

/// What a [`Span`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// From entering the zone's queue to leaving it.
    QueueWait,
    /// What was decided waits for something else than the rate.
    Held,
    /// From the grant to the NoExecute taint in the API, or from the request for the other one instead to its answer.
    Isolation,
    /// From the request that takes the NoExecute taints off to its answer.
    Release,
    /// From the intent to the end of it, whatever that is.
    Eviction,
    /// From the first request about a pod to the answer that ends the attempt.
    Delete,
    /// A PodDisruptionBudget forbids the eviction, however often it is tried.
    Blocked,
    /// From a request that failed to the next one.
    Retry,
}

impl SpanKind {
    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::QueueWait => "zone queue wait",
            Self::Held => "held",
            Self::Isolation => "isolation",
            Self::Release => "release",
            Self::Eviction => "pod eviction",
            Self::Delete => "pod delete",
            Self::Blocked => "blocked by budget",
            Self::Retry => "retry",
        }
    }

    /// True if it is a request to the API; the others are waits.
    pub const fn is_request(self) -> bool {
        matches!(self, Self::Isolation | Self::Release | Self::Delete)
    }
}

/// How a [`Span`] ended: what was reached, or the state that came next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanEnd {
    /// The zone's rate was granted.
    Granted,
    /// The node is Ready again.
    Recovered,
    /// It is not wished for any more.
    Withdrawn,
    /// The node is in another zone now, or another instance's.
    Moved,
    /// The node or the pod is gone.
    Gone,
    /// It waits for the zone's rate.
    Queued,
    /// It is held, for another reason if it was.
    Held,
    /// The NoExecute taint stands.
    Isolated,
    /// The other NoExecute taint stands instead.
    Swapped,
    /// No NoExecute taint stands.
    Released,
    /// Node mode: the node's pods may go.
    Evicted,
    /// It waits for its turn among the pods that are due.
    Waiting,
    /// Requests about the pod are made.
    Evicting,
    /// A budget forbids it.
    Blocked,
    /// The API accepted the deletion.
    Deleted,
    /// The facts do not justify it.
    Refused,
    /// Called off before anything was deleted.
    Cancelled,
    /// The request was not sent, because something began to hold it.
    CalledOff,
    /// The request failed.
    Failed,
}

impl SpanEnd {
    /// Its word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::Recovered => "recovered",
            Self::Withdrawn => "withdrawn",
            Self::Moved => "moved",
            Self::Gone => "gone",
            Self::Queued => "queued",
            Self::Held => "held",
            Self::Isolated => "isolated",
            Self::Swapped => "swapped",
            Self::Released => "released",
            Self::Evicted => "evicted",
            Self::Waiting => "waiting",
            Self::Evicting => "evicting",
            Self::Blocked => "blocked",
            Self::Deleted => "deleted",
            Self::Refused => "refused",
            Self::Cancelled => "cancelled",
            Self::CalledOff => "called off",
            Self::Failed => "failed",
        }
    }
}

/// Why, as one of few words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanReason {
    /// Something holds it.
    Hold(HoldReason),
    /// The facts do not justify it.
    Refused(RefusedReason),
    /// A PodDisruptionBudget forbids it.
    DisruptionBudget,
    /// A request failed.
    Failure(FailureKind),
}

impl SpanReason {
    /// The word: that of the contract, if it has one.
    pub fn word(self) -> String {
        let word = match self {
            Self::Hold(reason) => reason.as_str(),
            Self::Refused(reason) => reason.as_str(),
            Self::DisruptionBudget => "disruption_budget",
            Self::Failure(kind) => kind.as_str(),
        };
        word.to_ascii_uppercase()
    }
}

impl From<HoldReason> for SpanReason {
    fn from(reason: HoldReason) -> Self {
        Self::Hold(reason)
    }
}

impl From<FailureKind> for SpanReason {
    fn from(kind: FailureKind) -> Self {
        Self::Failure(kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// People look for spans by these words.
    #[test]
    fn spans_are_found_by_name_and_word() {
        use SpanKind::*;
        let spans = [QueueWait, Held, Isolation, Release, Eviction, Delete, Blocked, Retry];
        let named = [
            "zone queue wait",
            "held",
            "isolation",
            "release",
            "pod eviction",
            "pod delete",
            "blocked by budget",
            "retry",
        ];
        assert_eq!(spans.map(SpanKind::as_str), named);
        let reasons = [
            SpanReason::Hold(HoldReason::RateLimited),
            SpanReason::Refused(RefusedReason::OtherNode),
            SpanReason::DisruptionBudget,
            SpanReason::Failure(FailureKind::NotSent),
        ];
        assert_eq!(
            reasons.map(SpanReason::word),
            ["RATE_LIMITED", "OTHER_NODE", "DISRUPTION_BUDGET", "NOT_SENT"]
        );
    }
}
