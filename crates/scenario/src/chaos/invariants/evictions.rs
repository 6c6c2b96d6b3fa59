//! Evictions: from where, when, and that they come.

use bailiff_model::taint::{self, Taint};
use bailiff_model::{EvictionMode, Mono, Profile};

use super::super::story::{Method, Terms};
use super::super::timeline::{NodeNow, Pod, PodNow, Timeline, World};
use super::{OVERDUE, ROUNDING, Verdict, budgets, by, deleted};
use crate::StageName;

/// Evictions with what could justify them: taint (node mode: silence), since when.
pub(super) struct Eviction<'a> {
    pub(super) pod: &'a PodNow,
    pub(super) at: Mono,
    /// What justified it, now or lately, with the moment when it was due by it.
    pub(super) due: Vec<Mono>,
    /// Something was there at all that the pod does not tolerate for ever.
    is_justified: bool,
}

/// Goes through what the zone-evictor puts on its way out.
pub(super) fn evictions(timeline: &Timeline, terms: &Terms, mut visit: impl FnMut(&World, Eviction<'_>)) {
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
        let eviction = Eviction {
            pod,
            at: change.at,
            is_justified: !due.is_empty(),
            due,
        };
        visit(world, eviction);
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

pub(super) fn evictions_are_justified(timeline: &Timeline, terms: &Terms) -> Verdict {
    let mut verdict = Verdict::default();
    evictions(timeline, terms, |_, eviction| {
        verdict.premises += 1;
        if !eviction.is_justified {
            let Pod { name, node, .. } = &eviction.pod.pod;
            verdict.broken(eviction.at, format!("{name} goes from {node}, where nothing asks for it"));
        }
    });
    verdict
}

pub(super) fn evictions_are_not_early(timeline: &Timeline, terms: &Terms) -> Verdict {
    let mut verdict = Verdict::default();
    evictions(timeline, terms, |_, eviction| {
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

/// TE-076: in upstream's profile a pod stays whose eviction the API refused five times, and nothing else does.
pub(super) fn evictions_are_not_lost(timeline: &Timeline, terms: &Terms) -> Verdict {
    let mut verdict = Verdict::default();
    evictions(timeline, terms, |_, _| verdict.premises += 1);
    if terms.mode == EvictionMode::Node {
        return verdict;
    }
    let world = timeline.walk(|_, _| {});
    // What a budget forbids stays for as long as it does.
    let is_blocked = |pod: &Pod| terms.method == Method::Evict && budgets::guards(&world, pod);
    for pod in world
        .pods
        .values()
        .filter(|pod| !pod.pod.is_terminating && pod.pod.is_bound && !is_blocked(&pod.pod))
    {
        let Some(node) = world.nodes.get(&pod.pod.node) else {
            continue;
        };
        let due = node.taints.iter().filter_map(|(taint, since)| due(pod, taint, *since)).min();
        if let Some(due) = due
            && due + OVERDUE < timeline.end
        {
            if terms.profile == Profile::Upstream && timeline.given_up.contains(&pod.pod.uid) {
                verdict.excused += 1;
                continue;
            }
            let Pod { name, node, .. } = &pod.pod;
            let late = timeline.end.saturating_since(due);
            verdict.broken(timeline.end, format!("{name} is still on {node}, {late:?} after its time"));
        }
    }
    verdict
}
