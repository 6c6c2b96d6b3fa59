//! Which rules a record follows from (docs/rules.md).

use bailiff_model::health::Verdict;
use bailiff_model::hold::HoldReason;
use bailiff_model::intent::{Intent, IntentState, Trigger, WithdrawnReason};
use bailiff_model::outcome::{NodeOutcomeState, Outcome, PodOutcomeState, RefusedReason};

use crate::Said;
use crate::sentence::is_silent;

/// The rules behind what is said; none where it is this project's own and no rule of upstream's.
pub(super) fn of(said: Said<'_>) -> &'static [&'static str] {
    match said {
        Said::Health(health) => match health.verdict {
            Verdict::Healthy => &["NL-040"],
            Verdict::Late | Verdict::NotReady => &[],
            Verdict::Unreachable if is_silent(health) => &["NL-052", "NL-053"],
            Verdict::Unreachable => &[],
            Verdict::NoStatus => &["NL-041"],
        },
        Said::Intent(Intent::Isolation(_)) => &["NL-070"],
        Said::Intent(Intent::NodeEviction(_)) => &["NL-202"],
        Said::Intent(Intent::Pod(eviction)) => match (eviction.state, eviction.trigger) {
            (IntentState::Withdrawn(WithdrawnReason::TaintsGone), _) => &["TE-032"],
            (IntentState::Withdrawn(WithdrawnReason::Tolerated), _) => &["TE-054"],
            (IntentState::Withdrawn(WithdrawnReason::NodeRecovered), _) | (_, Trigger::Node) => &["NL-202"],
            (_, Trigger::Untolerated) => &["TE-052"],
            (_, Trigger::Expired) => &["TE-055"],
        },
        Said::Outcome(Outcome::Zone(_)) => &["NL-092", "NL-093"],
        Said::Outcome(Outcome::Node(outcome)) => match &outcome.state {
            NodeOutcomeState::Queued { .. } => &["NL-072", "NL-093"],
            NodeOutcomeState::Isolated => &["NL-075"],
            NodeOutcomeState::Released => &["NL-074"],
            NodeOutcomeState::Evicted => &["NL-205"],
            NodeOutcomeState::Held(hold) => held(hold.reason),
        },
        Said::Outcome(Outcome::Pod(outcome)) => match &outcome.state {
            PodOutcomeState::Deleted => &["TE-071"],
            PodOutcomeState::Held(hold) => held(hold.reason),
            PodOutcomeState::Refused(RefusedReason::DaemonSet) => &["NL-206"],
            _ => &[],
        },
        Said::Rollout(_) => &["DS-142"],
    }
}

fn held(reason: HoldReason) -> &'static [&'static str] {
    match reason {
        HoldReason::AllZonesDisrupted => &["NL-096"],
        HoldReason::RateZero | HoldReason::RateLimited => &["NL-093"],
        _ => &[],
    }
}
