//! Daemon pods: how many there are, and how they are replaced.

use std::collections::BTreeMap;

use bailiff_model::{Mono, ReadyStatus};

use super::super::story::Terms;
use super::super::timeline::{Change, Object, Pod, PodNow, Timeline, World};
use super::{OVERDUE, Verdict, by, deleted};
use crate::StageName;

/// The pod that a change adds, if it is a daemon pod.
fn created<'a>(world: &World, change: &'a Change) -> Option<&'a Pod> {
    let Object::Pod(pod) = &change.object else { return None };
    let is_new = !change.is_gone && !world.pods.contains_key(&pod.uid);
    (is_new && pod.is_daemon()).then_some(pod)
}

/// DS-100 to DS-104: a pod that is on its way out, or has ended, does not count. While surging there may be one of each revision.
pub(super) fn daemon_pods_are_single(timeline: &Timeline, _terms: &Terms) -> Verdict {
    let mut verdict = Verdict::default();
    timeline.walk(|world, change| {
        let Some(pod) = created(world, change) else { return };
        verdict.premises += 1;
        let may_surge = world.set.as_ref().is_some_and(|(set, _)| set.max_surge > 0);
        let others: Vec<&PodNow> = world.daemon_pods(&pod.node).collect();
        let is_excess = |other: &&&PodNow| !may_surge || others.len() > 1 || other.pod.image == pod.image;
        if let Some(other) = others.iter().find(is_excess) {
            verdict.broken(
                change.at,
                format!(
                    "{} is created for {} although {} is there",
                    pod.name, pod.node, other.pod.name
                ),
            );
        }
    });
    verdict
}

/// The available daemon pod that a rollout takes away: of an old revision, on a node that keeps daemon pods.
fn rolled<'a>(world: &'a World, change: &Change, terms: &Terms) -> Option<&'a Pod> {
    let pod = &deleted(world, change).filter(|_| by(change, StageName::DaemonsetSyncer))?.pod;
    let node = world.nodes.get(&pod.node)?;
    let (set, _) = world.set.as_ref()?;
    let is_old = pod.image != set.image && pod.daemon_of.as_ref() == Some(&set.uid);
    (is_old && pod.is_live() && pod.is_ready() && node.takes_daemons(change.at, terms.blindness)).then_some(pod)
}

/// DS-134, DS-135: an available old pod goes only if no more nodes lack theirs than `maxUnavailable` then; while surging only if the new
/// one on its node is available. What broke just now nobody has seen yet.
pub(super) fn unavailability_is_bounded(timeline: &Timeline, terms: &Terms) -> Verdict {
    let mut verdict = Verdict::default();
    // Nodes that the rollout took a pod from and that have no other yet.
    let mut owed: BTreeMap<String, Mono> = BTreeMap::new();
    timeline.walk(|world, change| {
        if let Object::Pod(pod) = &change.object
            && pod.is_daemon()
            && pod.is_ready()
            && pod.is_live()
        {
            owed.remove(&pod.node);
        }
        let (Some(pod), Some((set, _))) = (rolled(world, change, terms), &world.set) else {
            return;
        };
        verdict.premises += 1;
        let is_seen = |since: Mono| change.at.saturating_since(since) > terms.blindness;
        let serves = |now: &&PodNow| now.pod.is_ready() || !is_seen(now.ready_since);
        if set.max_surge > 0 {
            if !world.daemon_pods(&pod.node).any(|now| now.pod.uid != pod.uid && serves(&now)) {
                verdict.broken(
                    change.at,
                    format!("{} goes from {}, and nothing is available there", pod.name, pod.node),
                );
            }
            return;
        }
        let lacks = |name: &String| {
            let is_broken = |now: &PodNow| !serves(&now);
            let mut pods = world.daemon_pods(name).peekable();
            *name != pod.node && (owed.contains_key(name) || pods.peek().is_some() && pods.all(is_broken))
        };
        let free = world
            .nodes
            .iter()
            .filter(|(_, now)| now.takes_daemons(change.at, terms.blindness));
        let lacking: Vec<&String> = free.map(|(name, _)| name).filter(|name| lacks(name)).collect();
        if lacking.len() >= set.max_unavailable as usize {
            verdict.broken(
                change.at,
                format!("{} goes from {} while {lacking:?} lack theirs", pod.name, pod.node),
            );
        }
        owed.insert(pod.node.clone(), change.at);
    });
    verdict
}

/// DS-138: beside an old pod that is known to be available a new one is created only if no more nodes have two than `maxSurge` then. A node
/// whose new pod is available is done with, also while its old one is still to be deleted.
pub(super) fn surge_is_bounded(timeline: &Timeline, terms: &Terms) -> Verdict {
    let mut verdict = Verdict::default();
    timeline.walk(|world, change| {
        let (Some(pod), Some((set, _))) = (created(world, change), &world.set) else {
            return;
        };
        let is_seen = |now: &PodNow| change.at.saturating_since(now.ready_since) > terms.blindness;
        let is_available = |now: &PodNow| now.pod.is_ready() && is_seen(now);
        if set.max_surge == 0 || !world.daemon_pods(&pod.node).any(is_available) {
            return;
        }
        verdict.premises += 1;
        let is_done = |now: &PodNow| now.pod.image == pod.image && now.pod.is_ready();
        let has_two = |name: &String| world.daemon_pods(name).nth(1).is_some() && !world.daemon_pods(name).any(is_done);
        let surged = |name: &&String| **name == pod.node || has_two(name);
        let surging = world.nodes.keys().filter(surged).count();
        if surging > set.max_surge as usize {
            verdict.broken(
                change.at,
                format!("{} is created for {}: {surging} nodes have two", pod.name, pod.node),
            );
        }
    });
    verdict
}

/// DS-100, DS-134: a node that is silent does not let its old pod go, and holds up a rollout.
pub(super) fn every_node_ends_with_one(timeline: &Timeline, _terms: &Terms) -> Verdict {
    let mut verdict = Verdict::default();
    let world = timeline.walk(|_, _| {});
    let Some((set, since)) = &world.set else { return verdict };
    let is_late = |since: Mono| timeline.end.saturating_since(since) > OVERDUE;
    let all_well = is_late(*since)
        && world
            .nodes
            .values()
            .all(|now| now.node.ready == ReadyStatus::True && is_late(now.ready_since));
    for now in world.nodes.values().filter(|now| now.is_free_of_operators()) {
        let name = &now.node.name;
        let pods: Vec<&Pod> = world.daemon_pods(name).map(|now| &now.pod).collect();
        let is_well = now.node.ready == ReadyStatus::True && is_late(now.ready_since);
        verdict.premises += u64::from(is_well);
        let count = pods.len();
        if count > 1 || count == 0 && is_well {
            verdict.broken(timeline.end, format!("{name} has {count} daemon pods in the end"));
        }
        let is_done = |pod: &&Pod| pod.is_ready() && (!all_well || pod.image == set.image);
        if is_well && !pods.iter().all(is_done) {
            verdict.broken(timeline.end, format!("{name} ends with {pods:?}, wanted is {}", set.image));
        }
    }
    verdict
}

/// DS-060 to DS-065: what the syncer writes is its own, or was until it is let go.
pub(super) fn others_are_left_alone(timeline: &Timeline, _terms: &Terms) -> Verdict {
    let mut verdict = Verdict::default();
    timeline.walk(|world, change| {
        let Object::Pod(pod) = &change.object else { return };
        if !by(change, StageName::DaemonsetSyncer) {
            return;
        }
        let before = world.pods.get(&pod.uid).map_or(pod, |now| &now.pod);
        let is_selected = before.labels.get("app").is_some_and(|app| app == "agent");
        verdict.premises += u64::from(world.pods.values().any(|now| now.pod.daemon_of.is_none()));
        if !is_selected && before.daemon_of.is_none() {
            verdict.broken(change.at, format!("{} is written to, which is none of its own", pod.name));
        }
    });
    verdict
}
