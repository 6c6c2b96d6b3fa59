//! Why a node has no available pod of the current revision, and when that may change by itself.

use bailiff_model::rollout::WhyNot;
use bailiff_model::{Mono, Stamp};

use super::rolling::is_kept;
use super::{Cause, Facts, Judgement, Look, Rules, Wanted, is_available, is_updated};
use crate::facts::{Availability, Phase, Pod, Trouble};

/// Why the node has no available current pod.
pub(super) fn of(
    rules: &Rules<'_>,
    facts: &Facts<'_>,
    grouped: &[Look<'_>],
    staying: &[&Pod],
    judgement: &Judgement,
) -> Option<WhyNot> {
    let node = facts.node?;
    if !facts.verdict.run && (grouped.is_empty() || !facts.verdict.keep) {
        return None;
    }
    let is_current = |pod: &&&Pod| is_updated(rules, pod);
    let current = staying.iter().rfind(is_current);
    if current.is_some_and(|pod| is_available(rules, pod)) {
        return None;
    }
    if let Some(since) = node.bad_since.map(Stamp::wall) {
        return Some(if since <= rules.since {
            WhyNot::NodeBadBefore
        } else {
            WhyNot::NodeBadAfter
        });
    }
    if facts.creating || facts.blocked || judgement.create != Wanted::Nothing {
        return Some(WhyNot::RequestPending);
    }
    let Some(pod) = current.or_else(|| staying.last()) else {
        let is_failed = judgement.deletes.iter().any(|(_, cause)| *cause == Cause::Failed);
        return Some(if is_failed { WhyNot::FailedBackoff } else { WhyNot::Deleting });
    };
    Some(match (pod.phase, pod.trouble) {
        (_, Some(Trouble::NoRoom)) => WhyNot::NoRoom,
        (Phase::Failed | Phase::Succeeded, _) => WhyNot::FailedBackoff,
        _ if current.is_none() && rules.on_delete => WhyNot::OnDelete,
        _ if current.is_none() && is_kept(rules, facts, judgement.old) => WhyNot::RolloutPartition,
        _ if current.is_none() => WhyNot::WaitingForBudget,
        (_, Some(Trouble::Image)) => WhyNot::Image,
        (_, Some(Trouble::CrashLoop)) => WhyNot::CrashLoop,
        _ if !pod.bound => WhyNot::Unscheduled,
        _ if pod.ready => WhyNot::MinReady,
        _ => WhyNot::NotReady,
    })
}

/// When a ready pod of the pair becomes available (DS-148, DS-233), or a failed one may go.
pub(super) fn wake(rules: &Rules<'_>, facts: &Facts<'_>, grouped: &[Look<'_>], failed: Option<Mono>) -> Option<Mono> {
    if facts.node.is_none() {
        return failed;
    }
    let availabilities = grouped
        .iter()
        .map(|look| look.pod.availability(rules.min_ready, rules.now.wall));
    let moments = availabilities.filter_map(|availability| match availability {
        Availability::At(at) => Some(rules.now.mono_of(at)),
        Availability::Yes | Availability::No => None,
    });
    moments.chain(failed).min()
}
