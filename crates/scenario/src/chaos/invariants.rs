//! What must hold whatever happens, judged by the API's history alone.
//!
//! Each invariant counts its premise: how often something happened that could have broken it. An invariant whose premise never occurs
//! in all runs together proves nothing, and fails.

mod budgets;
mod daemons;
mod evictions;
mod holds;
mod writers;

use std::collections::BTreeMap;
use std::time::Duration;

use bailiff_model::taint::{Effect, Taint};
use bailiff_model::{EvictionMode, Mono, Profile, ReadyStatus, wellknown};

use super::story::{ANEW, PROMPT, STILL, Terms};
use super::timeline::{Change, Node, NodeNow, Object, PodNow, Timeline, World, is_health};
use crate::StageName;

/// `timeAdded` and transition times have whole seconds: who goes by them after a restart may be early by less than that.
const ROUNDING: Duration = Duration::from_secs(1);
/// What a write may take at most.
const WRITE_DEADLINE: Duration = Duration::from_secs(5);
/// What is due for so long at the end and has not happened will not: the longest backoff and queue are shorter.
const OVERDUE: Duration = Duration::from_secs(60);

/// What an invariant found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// How often it could have been broken.
    pub premises: u64,
    /// How often it was broken as upstream would, in upstream's profile.
    pub excused: u64,
    /// How it was broken.
    pub violations: Vec<String>,
}

/// A named invariant.
#[derive(Clone, Copy, Debug)]
pub struct Invariant {
    /// Its name, a sentence.
    pub name: &'static str,
    /// Judges a history.
    pub judge: fn(&Timeline, &Terms) -> Verdict,
}

/// All of them.
pub const ALL: [Invariant; 18] = [
    mk(
        "no pod is evicted from a node that is healthy and untainted",
        evictions::evictions_are_justified,
    ),
    mk("no pod is evicted before its time", evictions::evictions_are_not_early),
    mk("no eviction is lost for ever", evictions::evictions_are_not_lost),
    mk(
        "no eviction breaks a budget where they are asked",
        budgets::budgets_are_respected,
    ),
    mk("no zone loses nodes faster than its rate", zone_rates_are_kept),
    mk("every field has one writer", writers::fields_have_one_writer),
    mk(
        "nothing is isolated while everything is down",
        nothing_is_isolated_while_all_is_down,
    ),
    mk(
        "health taints agree with the node's condition in the end",
        taints_agree_in_the_end,
    ),
    mk("no harm is done while a pause covers it", holds::pauses_hold),
    mk("no harm is done beside a rival", holds::rivals_hold),
    mk("nothing follows from leases that stopped together", holds::losses_hold),
    mk("a quiet world is not written to", a_quiet_world_is_not_written_to),
    mk(
        "stages that start anew on a quiet world write nothing",
        restarts_write_nothing,
    ),
    mk(
        "a node has one daemon pod, and two only while surging",
        daemons::daemon_pods_are_single,
    ),
    mk(
        "no more nodes lack their daemon pod than may",
        daemons::unavailability_is_bounded,
    ),
    mk("no more nodes surge than may", daemons::surge_is_bounded),
    mk(
        "every node ends with one daemon pod, current and available",
        daemons::every_node_ends_with_one,
    ),
    mk("no pod outside the selector is touched", daemons::others_are_left_alone),
];

const fn mk(name: &'static str, judge: fn(&Timeline, &Terms) -> Verdict) -> Invariant {
    Invariant { name, judge }
}

fn by(change: &Change, stage: StageName) -> bool {
    *change.actor == *stage.as_str()
}

fn by_a_stage(change: &Change) -> bool {
    StageName::ALL.iter().any(|stage| by(change, *stage))
}

/// The pod that `change` puts on its way out, as it was before.
fn deleted<'a>(world: &'a World, change: &Change) -> Option<&'a PodNow> {
    let Object::Pod(pod) = &change.object else { return None };
    let known = world.pods.get(&pod.uid)?;
    let is_going = change.is_gone || pod.is_terminating;
    (is_going && !known.pod.is_terminating).then_some(known)
}

/// The NoExecute taint that `change` puts on a node for its health, if it had none, and the node as it was before.
fn isolated<'a>(world: &'a World, change: &Change) -> Option<&'a NodeNow> {
    let Object::Node(node) = &change.object else { return None };
    let known = world.nodes.get(&node.name)?;
    let has = |taint: &Taint| taint.effect == Effect::NoExecute && is_health(&taint.key);
    (!change.is_gone && known.node.uid == node.uid && !known.is_isolated() && node.taints.iter().any(has)).then_some(known)
}

/// NL-024, NL-081: a bucket of one, refilled at the rate; restarts included.
fn zone_rates_are_kept(timeline: &Timeline, terms: &Terms) -> Verdict {
    let mut verdict = Verdict::default();
    // Where requests fare badly, a write reaches the API up to its deadline after it was granted. Elsewhere there is no slack.
    let in_flight = if terms.latency > PROMPT {
        WRITE_DEADLINE
    } else {
        Duration::ZERO
    };
    let mut grants: BTreeMap<String, Vec<Mono>> = BTreeMap::new();
    timeline.walk(|world, change| {
        if let Some(node) = isolated(world, change)
            && by(change, StageName::ZoneEvictor)
        {
            grants.entry(node.node.zone.to_string()).or_default().push(change.at);
        }
    });
    for (zone, times) in grants {
        for (first, from) in times.iter().enumerate() {
            for (last, to) in times.iter().enumerate().skip(first + 1) {
                verdict.premises += 1;
                let span = to.saturating_since(*from) + in_flight;
                let allowed = 1.0 + terms.rate * span.as_secs_f64();
                let count = last - first + 1;
                if count as f64 > allowed + 1e-6 {
                    verdict.broken(
                        *to,
                        format!("zone {zone} lost {count} nodes within {span:?}, allowed are {allowed:.1}"),
                    );
                }
            }
        }
    }
    verdict
}

/// The brake looks ahead (design §1): with every node not ready, none is isolated.
fn nothing_is_isolated_while_all_is_down(timeline: &Timeline, _terms: &Terms) -> Verdict {
    let mut verdict = Verdict::default();
    let mut was_down = false;
    timeline.walk(|world, change| {
        let is_down = !world.nodes.is_empty() && world.nodes.values().all(|now| now.node.ready == ReadyStatus::Unknown);
        if is_down && !was_down {
            verdict.premises += 1;
        }
        was_down = is_down;
        let Some(node) = isolated(world, change) else { return };
        // A write that was on its way when the last node went down is no violation.
        let youngest = world.nodes.values().filter_map(NodeNow::unready_since).max();
        let is_long = youngest.is_some_and(|since| change.at.saturating_since(since) > Duration::from_secs(5));
        if by(change, StageName::ZoneEvictor) && is_down && is_long {
            verdict.broken(
                change.at,
                format!("{} is isolated although every node is silent", node.node.name),
            );
        }
    });
    verdict
}

fn taints_agree_in_the_end(timeline: &Timeline, terms: &Terms) -> Verdict {
    let mut verdict = Verdict::default();
    let world = timeline.walk(|world, change| {
        verdict.premises += u64::from(isolated(world, change).is_some());
    });
    for now in world.nodes.values() {
        let Node { name, ready, taints, .. } = &now.node;
        let has = |key, effect| taints.iter().any(|taint| &*taint.key == key && taint.effect == effect);
        let settled = timeline.end.saturating_since(now.ready_since) > OVERDUE;
        for (key, status) in [
            (wellknown::TAINT_NOT_READY, ReadyStatus::False),
            (wellknown::TAINT_UNREACHABLE, ReadyStatus::Unknown),
        ] {
            if settled && has(key, Effect::NoSchedule) != (*ready == status) {
                verdict.broken(
                    timeline.end,
                    format!("{name} is Ready={} and its NoSchedule taint {key} is not so", ready.as_str()),
                );
            }
            if settled && has(key, Effect::NoExecute) && *ready != status {
                verdict.broken(
                    timeline.end,
                    format!("{name} is Ready={} and still isolated by {key}", ready.as_str()),
                );
            }
        }
        if settled && *ready != ReadyStatus::True && is_owed(&world, now) && terms.mode == EvictionMode::Taint && !now.is_isolated()
        {
            verdict.broken(
                timeline.end,
                format!("{name} is Ready={} for long and not isolated", ready.as_str()),
            );
        }
    }
    verdict
}

/// Whether its zone's state allows that a node be isolated (NL-092, NL-093: in a small zone of which most is down, none is).
fn is_owed(world: &World, node: &NodeNow) -> bool {
    let zone: Vec<_> = world.zone(&node.node.zone).collect();
    let down = zone.iter().filter(|now| now.node.ready != ReadyStatus::True).count();
    let is_partial = down < zone.len() && down > 2 && down as f64 >= 0.55 * zone.len() as f64;
    let is_all_down = world.nodes.values().all(|now| now.node.ready != ReadyStatus::True);
    !is_partial && !is_all_down
}

/// A daemon pod that waits to be bound to a node that will not take it: upstream hears nothing of a node that changes so (DS-225).
fn is_stranded(world: &World, now: &PodNow) -> bool {
    let takes_all = |node: &NodeNow| node.node.taints.is_empty();
    now.pod.is_daemon() && !now.pod.is_bound && !world.nodes.get(&now.pod.node).is_some_and(takes_all)
}

/// What stages wrote since.
fn written_since(timeline: &Timeline, terms: &Terms, since: Mono, verdict: &mut Verdict) {
    timeline.walk(|world, change| {
        // Upstream misses some changes of nodes until it starts anew (DS-225, DS-226), and deletes again what is on its way out (TE-077).
        let is_upstreams = terms.profile == Profile::Upstream
            && match &change.object {
                Object::DaemonSet(_) => true,
                Object::Pod(pod) => {
                    let known = world.pods.get(&pod.uid);
                    known.is_some_and(|known| known.pod.is_terminating || is_stranded(world, known))
                }
                _ => false,
            };
        let is_aside = matches!(change.object, Object::Aside | Object::Said { .. });
        if by_a_stage(change) && change.at > since && !is_aside && !is_upstreams {
            verdict.broken(change.at, format!("the {} writes {:?}", change.actor, change.object));
        }
    });
}

fn a_quiet_world_is_not_written_to(timeline: &Timeline, terms: &Terms) -> Verdict {
    let mut verdict = Verdict {
        premises: 1,
        ..Verdict::default()
    };
    written_since(timeline, terms, timeline.end.saturating_sub(STILL), &mut verdict);
    verdict
}

/// DS-145, DS-200: what was done is seen to be done, by whoever comes later.
fn restarts_write_nothing(timeline: &Timeline, terms: &Terms) -> Verdict {
    let mut verdict = Verdict::default();
    let anew = timeline.end.saturating_sub(ANEW);
    verdict.premises = timeline.starts.iter().filter(|(at, _)| *at >= anew).count() as u64;
    if verdict.premises > 0 {
        written_since(timeline, terms, anew, &mut verdict);
    }
    verdict
}

// === impl Verdict ===

impl Verdict {
    fn broken(&mut self, at: Mono, what: String) {
        self.violations
            .push(format!("{:.3} s: {what}", at.since_origin().as_secs_f64()));
    }
}

#[cfg(test)]
mod tests;
