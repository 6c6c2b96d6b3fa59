//! One sentence for each record. Times are those of the record, which are of its producer's clock.

use std::fmt::Write as _;
use std::time::Duration;

use bailiff_model::health::{NodeHealth, Signal, Verdict};
use bailiff_model::hold::{Hold, HoldReason};
use bailiff_model::intent::{
    EvictionCause, Intent, IntentState, NodeEviction, NodeIsolation, PodEviction, Trigger, WithdrawnReason,
};
use bailiff_model::outcome::{NodeOutcome, NodeOutcomeState, Outcome, PodOutcome, PodOutcomeState, RefusedReason, ZoneStatus};
use bailiff_model::rollout::{DaemonSetSync, WhyNot};
use bailiff_model::{PodRef, Taint, Wall, Zone};

use crate::Said;

/// What it says, without a full stop. It is one line: what others wrote of it, such as why something is held, ends none.
pub fn sentence(said: Said<'_>) -> String {
    words(said).replace(char::is_control, " ")
}

fn words(said: Said<'_>) -> String {
    match said {
        Said::Health(health) => of_health(health),
        Said::Intent(Intent::Isolation(isolation)) => of_isolation(isolation),
        Said::Intent(Intent::NodeEviction(eviction)) => of_node_eviction(eviction),
        Said::Intent(Intent::Pod(eviction)) => of_pod_eviction(eviction),
        Said::Outcome(Outcome::Zone(zone)) => of_zone(zone),
        Said::Outcome(Outcome::Node(node)) => of_node(node),
        Said::Outcome(Outcome::Pod(pod)) => of_pod(pod),
        Said::Rollout(sync) => of_sync(sync),
    }
}

/// A moment, to the second.
fn at(wall: Wall) -> String {
    format!("{wall:.0}")
}

/// A span, in the largest units that tell it to the second, or to a tenth below ten seconds.
fn span(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, _) if seconds < 10 && duration.subsec_millis() >= 50 => format!("{:.1}s", duration.as_secs_f64()),
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, 0) => format!("{minutes}m"),
        (0, minutes, seconds) => format!("{minutes}m{seconds}s"),
        (hours, 0, 0) => format!("{hours}h"),
        (hours, minutes, _) => format!("{hours}h{minutes}m"),
    }
}

/// `in zone eu-1:a`; nodes without zone labels are in a zone of their own.
fn inside(zone: &Zone) -> String {
    if *zone == Zone::default() {
        "in no zone".to_owned()
    } else {
        format!("in zone {zone}")
    }
}

fn name_of(pod: &PodRef) -> String {
    format!("{}/{}", pod.namespace, pod.name)
}

/// `; held: …`, or nothing.
fn but_held(hold: Option<&Hold>) -> String {
    hold.map_or_else(String::new, |hold| format!("; {}", held(hold)))
}

/// Why something does not happen, and since when.
fn held(hold: &Hold) -> String {
    let why = match hold.reason {
        HoldReason::Incomplete => "not every shard of a topic it depends on is complete",
        HoldReason::Stale => "a stage it depends on is not live",
        HoldReason::ApiStale => "a Kubernetes watch it depends on is not fresh",
        HoldReason::AllZonesDisrupted => "every zone is fully disrupted",
        HoldReason::RateZero => "the zone's rate is zero in its present state",
        HoldReason::Paused => "paused",
        HoldReason::Rival => "another controller does the same duty",
        HoldReason::CorrelatedLoss => "too many Leases stopped together",
        HoldReason::OutdatedIntent => "what it is based on is not the newest, or not borne out",
        HoldReason::Observing => "this process only observes",
        HoldReason::TaintOrder => "the NoSchedule taint is not seen yet",
        HoldReason::RateLimited => "others go first",
        HoldReason::Budget => "a budget for disruption is used up",
    };
    let until = hold.until.map_or_else(String::new, |until| match hold.reason {
        HoldReason::RateLimited => format!(", its turn expected at {}", at(until)),
        _ => format!(", until {} at most", at(until)),
    });
    let why = match hold.detail.as_str() {
        "" => why.to_owned(),
        // `paused by ada until …`
        detail if detail.starts_with(why) => detail.to_owned(),
        detail => format!("{why} ({detail})"),
    };
    format!("held since {}{until}: {why}", at(hold.since))
}

// === node-health ===

fn of_health(health: &NodeHealth) -> String {
    let sign = health.last_sign_of_life.map(|sign| {
        let by = match sign.signal {
            Signal::Lease => "Lease",
            Signal::Status => "status",
        };
        format!("last sign of life {} by its {by}", at(sign.time))
    });
    let sign = sign.unwrap_or_else(|| "no sign of life seen yet".to_owned());
    let ends = health.counted_from.checked_add(health.grace).map(at);
    let ends = ends.unwrap_or_else(|_| "never".to_owned());
    let grace = span(health.grace);
    let said = match health.verdict {
        Verdict::Healthy => format!("is healthy: {sign}"),
        Verdict::Late if health.held.is_some() => format!("is late: {sign}; its grace of {grace} ends {ends}"),
        Verdict::Late => format!("is late: {sign}; unreachable at {ends}, {grace} after it counts from, unless one comes"),
        Verdict::NotReady if health.ready.reason.is_empty() => format!("reports that it is not ready: {sign}"),
        Verdict::NotReady => format!("reports that it is not ready ({}): {sign}", health.ready.reason),
        Verdict::Unreachable if is_silent(health) => format!("is unreachable: {sign}, and none for a grace of {grace}"),
        Verdict::Unreachable => format!("is unreachable by its condition Ready, which is Unknown: {sign}"),
        Verdict::NoStatus => format!("has reported no status yet: {sign}; its grace of {grace} ends {ends}"),
    };
    let held = but_held(health.held.as_ref());
    format!("node {} {} {said}{held}", health.node.name, inside(&health.zone))
}

/// It gave no sign of life for its grace. A node whose Ready is Unknown in the API may speak all the same: somebody else wrote that, or its
/// kubelet has renewed its Lease and not yet posted a status. Its last sign of life tells: the grace of one that is silent counts anew when
/// the disruption of all zones ends (NL-099).
pub(crate) fn is_silent(health: &NodeHealth) -> bool {
    let since = health.last_sign_of_life.map_or(health.counted_from, |sign| sign.time);
    let ends = since.checked_add(health.grace);
    ends.is_ok_and(|ends| ends <= health.decided_at)
}

// === eviction-intents ===

fn of_isolation(isolation: &NodeIsolation) -> String {
    let NodeIsolation {
        node,
        zone,
        taint,
        cause,
        ..
    } = isolation;
    let inside = inside(zone);
    format!("node {} {inside} should carry {}:NoExecute: {cause}", node.name, taint.key())
}

fn of_node_eviction(eviction: &NodeEviction) -> String {
    let NodeEviction { node, zone, cause, .. } = eviction;
    let node = format!("node {} {}", node.name, inside(zone));
    if eviction.due {
        format!("all pods of {node} should go: {cause}")
    } else {
        format!("all pods of {node} should go at {}: {cause}", at(eviction.not_before))
    }
}

fn of_pod_eviction(eviction: &PodEviction) -> String {
    let pod = format!("pod {} on node {}", name_of(&eviction.pod), eviction.node.name);
    let cause = match &*eviction.cause {
        EvictionCause::Taints { .. } => in_words(&eviction.decisive_taints()),
        EvictionCause::Node => "the whole node is evicted".to_owned(),
    };
    match (eviction.state, eviction.trigger) {
        (IntentState::Scheduled, Trigger::Node) => format!("{pod} is to go at {}: {cause}", at(eviction.due_at)),
        (IntentState::Scheduled, Trigger::Untolerated | Trigger::Expired) => {
            format!("{pod} is to go at {}, when its toleration ends: {cause}", at(eviction.due_at))
        }
        (IntentState::Due, Trigger::Untolerated) => format!("{pod} should go, it does not tolerate it: {cause}"),
        (IntentState::Due, Trigger::Expired) => format!("{pod} should go, its toleration ended {}: {cause}", at(eviction.due_at)),
        (IntentState::Due, Trigger::Node) => format!("{pod} should go: {cause}"),
        (IntentState::Withdrawn(reason), _) => format!("{pod} may stay: {}", withdrawn(reason)),
    }
}

fn withdrawn(reason: WithdrawnReason) -> &'static str {
    match reason {
        WithdrawnReason::TaintsGone => "the node carries no NoExecute taint any more",
        WithdrawnReason::Tolerated => "it tolerates every taint now",
        WithdrawnReason::NodeRecovered => "the node recovered",
    }
}

fn in_words(taints: &[&Taint]) -> String {
    let one = |taint: &&Taint| {
        let value = if taint.value.is_empty() {
            String::new()
        } else {
            format!("={}", taint.value)
        };
        let since = taint
            .time_added
            .map_or_else(String::new, |since| format!(" since {}", at(since)));
        format!("{}{value}:NoExecute{since}", taint.key)
    };
    taints.iter().map(one).collect::<Vec<_>>().join(", ")
}

// === eviction-outcomes ===

fn of_zone(zone: &ZoneStatus) -> String {
    let mut text = format!(
        "zone {} is in state {}: {} of {} voting nodes not ready, {} late; {} waiting at {} nodes/s",
        zone.zone, zone.state, zone.not_ready, zone.voting, zone.late, zone.queue_length, zone.rate_per_second
    );
    if let Some(granted) = zone.last_grant {
        let _ = write!(text, ", last granted {}", at(granted));
    }
    text + &but_held(zone.held.as_ref())
}

fn of_node(outcome: &NodeOutcome) -> String {
    let node = format!("node {} {}", outcome.node.name, inside(&outcome.zone));
    let unhealthy = outcome
        .unhealthy_since
        .map_or_else(String::new, |since| format!("; unhealthy since {}", at(since)));
    match &outcome.state {
        NodeOutcomeState::Queued { position, expected_at } => {
            let when = expected_at.map_or_else(String::new, |when| format!(", expected at {}", at(when)));
            format!("{node} waits for the zone's rate, place {position}{when}{unhealthy}")
        }
        NodeOutcomeState::Isolated => format!("{node} is isolated: its NoExecute taint stands"),
        NodeOutcomeState::Released => format!("{node} is released: no pod has to go because of its health any more"),
        NodeOutcomeState::Evicted => format!("{node} is being emptied: its turn has come, and all its pods go"),
        NodeOutcomeState::Held(hold) => format!("{node} is {}{unhealthy}", held(hold)),
    }
}

fn of_pod(outcome: &PodOutcome) -> String {
    let pod = format!("pod {} on node {}", name_of(&outcome.pod), outcome.node.name);
    format!("{pod} {}", what_of(outcome))
}

/// What became of the eviction of a pod, without the pod.
pub fn what_of(outcome: &PodOutcome) -> String {
    let said = match &outcome.state {
        PodOutcomeState::Evicting => "is being evicted".to_owned(),
        PodOutcomeState::Deleted => "was deleted".to_owned(),
        PodOutcomeState::Blocked { by } => format!("may not go yet: PodDisruptionBudget {by} forbids it"),
        PodOutcomeState::Refused(reason) => format!("was not evicted: {}", refused(*reason)),
        PodOutcomeState::Cancelled => "was not evicted: called off in time".to_owned(),
        PodOutcomeState::Gone => "was gone already".to_owned(),
        PodOutcomeState::Held(hold) => format!("is due, and {}", held(hold)),
    };
    let tries = match outcome.failed_attempts {
        0 => String::new(),
        1 => "; one request failed".to_owned(),
        failed => format!("; {failed} requests failed"),
    };
    let next = outcome.next_try_at.map_or_else(String::new, |next| match outcome.state {
        // Of those that follow at the same distance nothing more is said.
        PodOutcomeState::Blocked { .. } => format!("; tried again from {} on", at(next)),
        _ => format!("; next try {}", at(next)),
    });
    // What the API or the budget said itself, where that is more than the state says.
    let detail = match &outcome.state {
        PodOutcomeState::Evicting | PodOutcomeState::Blocked { .. } | PodOutcomeState::Refused(_) if !outcome.detail.is_empty() => {
            format!(" ({})", outcome.detail)
        }
        _ => String::new(),
    };
    format!("{said}{detail}{tries}{next}")
}

fn refused(reason: RefusedReason) -> &'static str {
    match reason {
        RefusedReason::NoTaint => "the node carries no NoExecute taint",
        RefusedReason::Tolerated => "it tolerates every taint of the node",
        RefusedReason::OtherNode => "it is bound to another node",
        RefusedReason::NodeReplaced => "the node was replaced by another of its name",
        RefusedReason::NodeReady => "the node is Ready",
        RefusedReason::Api => "the API server refused it for good",
        RefusedReason::DaemonSet => "a DaemonSet selects it",
    }
}

// === daemon-rollouts ===

fn of_sync(sync: &DaemonSetSync) -> String {
    let counts = &sync.counts;
    let since = match (sync.rolled_out_at, sync.revision_since) {
        (Some(done), _) => format!(", rolled out {}", at(done)),
        (None, Some(since)) => format!(" since {}", at(since)),
        (None, None) => String::new(),
    };
    let mut text = format!(
        "daemonset {}/{} at revision {}{since}: {} of {} nodes updated, {} available",
        sync.namespace, sync.name, sync.revision, counts.updated, counts.desired, counts.available
    );
    if !sync.reasons.is_empty() {
        let _ = write!(text, "; without an available current pod: {}", reasons(sync));
    }
    text + &but_held(sync.held.as_ref())
}

/// How many nodes have no available current pod, and why.
pub fn reasons(sync: &DaemonSetSync) -> String {
    let one = |(reason, nodes): &(WhyNot, u32)| format!("{nodes} {}", why_not(*reason, *nodes == 1));
    sync.reasons.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Why one node, or several, have no available current pod.
fn why_not(reason: WhyNot, is_one: bool) -> &'static str {
    match (reason, is_one) {
        (WhyNot::NodeBadBefore, true) => "on a node that was bad before this revision",
        (WhyNot::NodeBadBefore, false) => "on nodes that were bad before this revision",
        (WhyNot::NodeBadAfter, true) => "on a node that went bad after it got this revision",
        (WhyNot::NodeBadAfter, false) => "on nodes that went bad after they got this revision",
        (WhyNot::Unscheduled, _) => "created and not bound",
        (WhyNot::Image, true) => "without its image",
        (WhyNot::Image, false) => "without their image",
        (WhyNot::CrashLoop, _) => "crashing",
        (WhyNot::MinReady, _) => "waiting for minReadySeconds",
        (WhyNot::WaitingForBudget, _) => "waiting for the update's budget",
        (WhyNot::Deleting, _) => "being deleted",
        (WhyNot::NoRoom, _) => "without room",
        (WhyNot::FailedBackoff, _) => "failed and waiting",
        (WhyNot::RequestPending, _) => "being asked for",
        (WhyNot::NotReady, _) => "not ready",
        (WhyNot::OnDelete, true) => "old until somebody deletes it",
        (WhyNot::OnDelete, false) => "old until somebody deletes them",
        (WhyNot::RolloutPaused, _) => "old while the rollout is paused",
        (WhyNot::RolloutPartition, _) => "old by the rollout's partition",
        (WhyNot::RolloutHalted, _) => "old while the rollout is halted",
        (WhyNot::Held, true) => "old while its node or zone is held",
        (WhyNot::Held, false) => "old while their node or zone is held",
    }
}

#[cfg(test)]
mod tests;
