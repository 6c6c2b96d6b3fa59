//! Domain form of topic `node-health`; field meanings are those of `proto/bailiff/v1/health.proto`.

use std::time::Duration;

use crate::hold::Hold;
use crate::ids::NodeRef;
use crate::time::Wall;
use crate::zone::Zone;

/// The monitor's judgement of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// Signs of life within the grace, and Ready is True.
    Healthy,
    /// No sign of life for three quarters of the grace.
    Late,
    /// The kubelet reports Ready=False.
    NotReady,
    /// Ready=Unknown stands in the API.
    Unreachable,
    /// No Ready condition, startup grace runs.
    NoStatus,
}

crate::words! {
    /// Label value and log word.
    Verdict {
        Healthy => "healthy",
        Late => "late",
        NotReady => "not_ready",
        Unreachable => "unreachable",
        NoStatus => "no_status",
    }
}

/// Status of condition Ready, `Absent` if there is no such condition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReadyStatus {
    /// True.
    True,
    /// False.
    False,
    /// Unknown.
    Unknown,
    /// No such condition.
    #[default]
    Absent,
}

impl ReadyStatus {
    /// The status of a present condition with this API text; a text that is none of the three counts as Unknown.
    pub fn parse(text: &str) -> Self {
        match text {
            "True" => Self::True,
            "False" => Self::False,
            _ => Self::Unknown,
        }
    }

    /// The API text, "" for absent.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
            Self::Absent => "",
        }
    }
}

/// Condition Ready as it stands in the API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ready {
    /// Status.
    pub status: ReadyStatus,
    /// Reason, or empty.
    pub reason: String,
    /// `lastTransitionTime`.
    pub since: Option<Wall>,
}

/// What a sign of life came by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Signal {
    /// A changed `renewTime` of the node's Lease.
    Lease,
    /// A changed `lastHeartbeatTime` of Ready.
    Status,
}

/// The latest sign of life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignOfLife {
    /// When the monitor noticed it.
    pub time: Wall,
    /// By what.
    pub signal: Signal,
    /// renewTime of the node's Lease as last seen, if there is one. For equality only.
    pub renew_time: Option<Wall>,
}

/// What the monitor decided about one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeHealth {
    /// The node judged.
    pub node: NodeRef,
    /// Its zone.
    pub zone: Zone,
    /// The node has no vote (NL-091).
    pub excluded_from_disruption: bool,
    /// Condition Ready.
    pub ready: Ready,
    /// The judgement.
    pub verdict: Verdict,
    /// Latest sign of life that was observed; `None` if none was since its monitor began, or by the one before.
    pub last_sign_of_life: Option<SignOfLife>,
    /// When the node became late.
    pub late_since: Option<Wall>,
    /// What grace is counted from.
    pub counted_from: Wall,
    /// The grace that applies.
    pub grace: Duration,
    /// When it was judged.
    pub decided_at: Wall,
    /// Why nothing that follows from its silence may happen; its zone is held.
    pub held: Option<Hold>,
}
