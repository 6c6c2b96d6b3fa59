//! Why an act that is decided does not happen at the moment.

use std::fmt;

use crate::time::Wall;

/// Closed set of reasons; the meaning of each is in `proto/bailiff/v1/types.proto`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HoldReason {
    /// Not every shard of a topic that the act depends on is complete.
    Incomplete,
    /// A producer that the act depends on is not live.
    Stale,
    /// The Kubernetes watches that the act depends on are not fresh.
    ApiStale,
    /// All voting zones are fully disrupted (NL-096).
    AllZonesDisrupted,
    /// The zone's rate is zero in its present state (NL-093).
    RateZero,
    /// A person paused it.
    Paused,
    /// Another controller does the same duty.
    Rival,
    /// A large share of leases stopped together.
    CorrelatedLoss,
    /// The intent is older than the newest health record of its node; or the newest record of either cannot be read.
    OutdatedIntent,
    /// The process only observes.
    Observing,
    /// The NoSchedule counterpart of the taint has not been seen yet.
    TaintOrder,
    /// The zone's rate is granted to others first.
    RateLimited,
    /// A budget for disruption is used up.
    Budget,
}

impl HoldReason {
    /// Label value and log word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Incomplete => "incomplete",
            Self::Stale => "stale",
            Self::ApiStale => "api_stale",
            Self::AllZonesDisrupted => "all_zones_disrupted",
            Self::RateZero => "rate_zero",
            Self::Paused => "paused",
            Self::Rival => "rival",
            Self::CorrelatedLoss => "correlated_loss",
            Self::OutdatedIntent => "outdated_intent",
            Self::Observing => "observing",
            Self::TaintOrder => "taint_order",
            Self::RateLimited => "rate_limited",
            Self::Budget => "budget",
        }
    }
}

impl fmt::Display for HoldReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A reason, with the moment it began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Why.
    pub reason: HoldReason,
    /// One sentence for people.
    pub detail: String,
    /// Since when.
    pub since: Wall,
}
