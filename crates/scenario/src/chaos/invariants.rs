//! What must hold whatever happens, judged by the API's history alone.
//!
//! Each invariant counts its premise: how often something happened that could have broken it. An invariant whose premise never occurs
//! in all runs together proves nothing, and fails.

use std::collections::BTreeMap;
use std::time::Duration;

use bailiff_model::taint::{self, Effect, Taint};
use bailiff_model::{EvictionMode, Mono, Profile, ReadyStatus, wellknown};

use super::story::{PROMPT, STILL, Terms};
use super::timeline::{Change, Node, NodeNow, Object, Pod, PodNow, Timeline, World, is_health};
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
pub const ALL: [Invariant; 9] = [
    Invariant {
        name: "no pod is evicted from a node that is healthy and untainted",
        judge: evictions_are_justified,
    },
    Invariant {
        name: "no pod is evicted before its time",
        judge: evictions_are_not_early,
    },
    Invariant {
        name: "no eviction is lost for ever",
        judge: evictions_are_not_lost,
    },
    Invariant {
        name: "no zone loses nodes faster than its rate",
        judge: zone_rates_are_kept,
    },
    Invariant {
        name: "every field has one writer",
        judge: fields_have_one_writer,
    },
    Invariant {
        name: "nothing is isolated while everything is down",
        judge: nothing_is_isolated_while_all_is_down,
    },
    Invariant {
        name: "health taints agree with the node's condition in the end",
        judge: taints_agree_in_the_end,
    },
    Invariant {
        name: "a quiet world is not written to",
        judge: a_quiet_world_is_not_written_to,
    },
    Invariant {
        name: "a node has one daemon pod, never two",
        judge: daemon_pods_are_single,
    },
];

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

/// Evictions with what could justify them: taint (node mode: silence), since when.
struct Eviction<'a> {
    pod: &'a PodNow,
    at: Mono,
    /// What justified it, now or lately, with the moment when it was due by it.
    due: Vec<Mono>,
    /// Something was there at all that the pod does not tolerate for ever.
    is_justified: bool,
}

fn evictions(timeline: &Timeline, terms: &Terms, mut visit: impl FnMut(Eviction<'_>)) {
    timeline.walk(|world, change| {
        if !by(change, StageName::ZoneEvictor) {
            return;
        }
        let Some(pod) = deleted(world, change) else { return };
        let is_lately = |until: Mono| change.at.saturating_since(until) <= terms.latency;
        // What stands when a node object goes, stands on (design §3); another node of its name ends that.
        let stands = |node: &NodeNow, until: Mono| is_lately(until) || !world.nodes.contains_key(&node.node.name);
        let gone = world.former.iter().filter(|(node, until)| stands(node, *until));
        let lately = gone.map(|(node, _)| node);
        let nodes = world.nodes.values().chain(lately).filter(|now| now.node.name == pod.pod.node);
        let due: Vec<Mono> = match terms.mode {
            EvictionMode::Taint => nodes
                .flat_map(|node| taints_of(node, is_lately).map(|(taint, since)| (taint, start(node, since, terms.profile))))
                .filter_map(|(taint, since)| due(pod, taint, since))
                .collect(),
            EvictionMode::Node => nodes
                .flat_map(|node| node.unready_since().into_iter().chain(lately_unready(node, is_lately)))
                .collect(),
        };
        visit(Eviction {
            pod,
            at: change.at,
            is_justified: !due.is_empty(),
            due,
        });
    });
}

/// TE-063: upstream, a timer that runs goes on although the taint that armed it is replaced, as long as there is one.
fn start(node: &NodeNow, since: Mono, profile: Profile) -> Mono {
    match profile {
        Profile::Bailiff => since,
        Profile::Upstream => since.min(node.tainted_since),
    }
}

fn taints_of(node: &NodeNow, is_lately: impl Fn(Mono) -> bool) -> impl Iterator<Item = (&Taint, Mono)> {
    let former = node.former.iter().filter(move |(_, _, until)| is_lately(*until));
    let former = former.map(|(taint, since, _)| (taint, *since));
    node.taints.iter().map(|(taint, since)| (taint, *since)).chain(former)
}

fn lately_unready(node: &NodeNow, is_lately: impl Fn(Mono) -> bool) -> Option<Mono> {
    let (since, until) = node.was_unready?;
    is_lately(until).then_some(since)
}

/// When `pod` is due by `taint` alone; `None` if it tolerates it for ever (TE-052, TE-055).
fn due(pod: &PodNow, taint: &Taint, since: Mono) -> Option<Mono> {
    let Some(toleration) = taint::used(taint, &pod.pod.tolerations) else {
        return Some(since);
    };
    Some(since.max(pod.bound_at) + taint::limit(toleration.seconds?))
}

fn evictions_are_justified(timeline: &Timeline, terms: &Terms) -> Verdict {
    let mut verdict = Verdict::default();
    evictions(timeline, terms, |eviction| {
        verdict.premises += 1;
        if !eviction.is_justified {
            let Pod { name, node, .. } = &eviction.pod.pod;
            verdict.broken(eviction.at, format!("{name} goes from {node}, where nothing asks for it"));
        }
    });
    verdict
}

fn evictions_are_not_early(timeline: &Timeline, terms: &Terms) -> Verdict {
    let mut verdict = Verdict::default();
    evictions(timeline, terms, |eviction| {
        let Some(first) = eviction.due.iter().min() else { return };
        verdict.premises += 1;
        if eviction.at + ROUNDING < *first {
            let Pod { name, node, .. } = &eviction.pod.pod;
            let early = first.saturating_since(eviction.at);
            verdict.broken(eviction.at, format!("{name} goes from {node} {early:?} before its time"));
        }
    });
    verdict
}

fn evictions_are_not_lost(timeline: &Timeline, terms: &Terms) -> Verdict {
    let mut verdict = Verdict::default();
    evictions(timeline, terms, |_| verdict.premises += 1);
    if terms.mode == EvictionMode::Node {
        return verdict;
    }
    let world = timeline.walk(|_, _| {});
    for pod in world.pods.values().filter(|pod| !pod.pod.is_terminating && pod.pod.is_bound) {
        let Some(node) = world.nodes.get(&pod.pod.node) else {
            continue;
        };
        let due = node.taints.iter().filter_map(|(taint, since)| due(pod, taint, *since)).min();
        if let Some(due) = due
            && due + OVERDUE < timeline.end
        {
            let Pod { name, node, .. } = &pod.pod;
            let late = timeline.end.saturating_since(due);
            verdict.broken(timeline.end, format!("{name} is still on {node}, {late:?} after its time"));
        }
    }
    verdict
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

/// Design §3.
fn fields_have_one_writer(timeline: &Timeline, _terms: &Terms) -> Verdict {
    let mut verdict = Verdict::default();
    timeline.walk(|world, change| {
        if !by_a_stage(change) {
            return;
        }
        let (written, who): (Vec<&str>, &str) = match &change.object {
            Object::Node(node) => match world.nodes.get(&node.name) {
                Some(known) => node_fields(&known.node, node),
                None => (vec!["a new node"], ""),
            },
            Object::Pod(pod) => pod_fields(world.pods.get(&pod.uid), pod, change),
            Object::Aside => return,
            Object::Other(what) if what.starts_with("daemonsets") || what.starts_with("controllerrevisions") => {
                (vec!["a DaemonSet or its history"], StageName::DaemonsetSyncer.as_str())
            }
            Object::Other(what) => {
                verdict.broken(change.at, format!("the {} writes {what}", change.actor));
                return;
            }
        };
        // Going for good is the other half of a deletion that is judged already.
        if let Object::Pod(pod) = &change.object
            && change.is_gone
            && world.pods.get(&pod.uid).is_some_and(|known| known.pod.is_terminating)
        {
            return;
        }
        verdict.premises += 1;
        if *change.actor != *who || written.len() > 1 && who.is_empty() {
            verdict.broken(
                change.at,
                format!("the {} writes {}, which is not its own", change.actor, written.join(", ")),
            );
        }
    });
    verdict
}

/// What changed of a node, and whose it is; nobody's if it is of several.
fn node_fields(before: &Node, after: &Node) -> (Vec<&'static str>, &'static str) {
    let taints = |node: &Node, effect| -> Vec<Taint> {
        let mut taints: Vec<Taint> = node.taints.iter().filter(|taint| taint.effect == effect).cloned().collect();
        taints.sort();
        taints
    };
    let mut fields = Vec::new();
    if before.ready != after.ready {
        fields.push(("Ready", StageName::NodeHealthMonitor));
    }
    if taints(before, Effect::NoSchedule) != taints(after, Effect::NoSchedule) {
        fields.push(("NoSchedule taints", StageName::TaintManager));
    }
    if before.labels != after.labels {
        fields.push(("labels", StageName::TaintManager));
    }
    if taints(before, Effect::NoExecute) != taints(after, Effect::NoExecute) {
        fields.push(("NoExecute taints", StageName::ZoneEvictor));
    }
    owner_of(&fields, StageName::NodeHealthMonitor)
}

fn pod_fields(before: Option<&PodNow>, after: &Pod, change: &Change) -> (Vec<&'static str>, &'static str) {
    let Some(PodNow { pod: before, .. }) = before else {
        return (vec!["a new pod"], StageName::DaemonsetSyncer.as_str());
    };
    let mut fields = Vec::new();
    if before.ready != after.ready {
        fields.push(("Ready", StageName::TaintManager));
    }
    if before.is_target != after.is_target {
        fields.push(("DisruptionTarget", StageName::ZoneEvictor));
    }
    if (change.is_gone || after.is_terminating) && !before.is_terminating {
        // A daemon pod is its DaemonSet's to delete; it tolerates what isolates nodes, but not every operator's taint.
        let is_own = before.daemon_of.is_some() && by(change, StageName::DaemonsetSyncer);
        let owner = if is_own {
            StageName::DaemonsetSyncer
        } else {
            StageName::ZoneEvictor
        };
        fields.push(("the deletion", owner));
    }
    owner_of(&fields, StageName::ZoneEvictor)
}

/// The owner of all these fields. What changes none of them, such as a message or a time, is taken for `otherwise`'s.
fn owner_of(fields: &[(&'static str, StageName)], otherwise: StageName) -> (Vec<&'static str>, &'static str) {
    let names = fields.iter().map(|(name, _)| *name).collect();
    let mut owners = fields.iter().map(|(_, owner)| *owner);
    let first = owners.next().unwrap_or(otherwise);
    let is_one = owners.all(|owner| owner == first);
    (names, if is_one { first.as_str() } else { "" })
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

fn a_quiet_world_is_not_written_to(timeline: &Timeline, _terms: &Terms) -> Verdict {
    let mut verdict = Verdict {
        premises: 1,
        ..Verdict::default()
    };
    for change in &timeline.changes {
        if by_a_stage(change) && change.at + STILL > timeline.end && !matches!(change.object, Object::Aside) {
            verdict.broken(change.at, format!("the {} writes {:?}", change.actor, change.object));
        }
    }
    verdict
}

/// DS-100, DS-101, DS-102 with `maxSurge` 0: a pod that is on its way out, or has ended, does not count.
fn daemon_pods_are_single(timeline: &Timeline, _terms: &Terms) -> Verdict {
    let mut verdict = Verdict::default();
    let is_live = |pod: &Pod| !pod.is_terminating && !pod.is_finished;
    let world = timeline.walk(|world, change| {
        let Object::Pod(pod) = &change.object else { return };
        let is_new = !change.is_gone && !world.pods.contains_key(&pod.uid);
        let (Some(set), true) = (&pod.daemon_of, is_new) else { return };
        verdict.premises += 1;
        let mut others = world.pods.values().map(|other| &other.pod);
        if let Some(other) = others.find(|other| other.daemon_of.as_ref() == Some(set) && other.node == pod.node && is_live(other))
        {
            verdict.broken(
                change.at,
                format!("{} is created for {} although {} is there", pod.name, pod.node, other.name),
            );
        }
    });
    for node in world.nodes.values() {
        let is_operators = |taint: &Taint| !taint.key.starts_with("node.kubernetes.io/");
        if node.node.taints.iter().any(is_operators) {
            continue;
        }
        let pods = world
            .pods
            .values()
            .filter(|pod| pod.pod.daemon_of.is_some() && pod.pod.node == node.node.name);
        let count = pods.filter(|pod| is_live(&pod.pod)).count();
        // A node that is silent does not let its old pod go, so there may be none that lives.
        if count > 1 || count == 0 && node.node.ready == ReadyStatus::True {
            verdict.broken(timeline.end, format!("{} has {count} daemon pods in the end", node.node.name));
        }
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
