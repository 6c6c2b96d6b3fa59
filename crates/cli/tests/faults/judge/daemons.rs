//! Daemon pods: one on a node, replaced within the budget, never evicted, and current in the end.

use std::collections::{BTreeMap, BTreeSet};

use super::Premises;
use crate::system::{DAEMON_SETS, DaemonSet, SILENT_ZONE};
use crate::witness::Seen;
use crate::witness::pods::Pod;

pub fn judge(seen: &Seen, premises: &mut Premises) {
    for what in [
        "a node that was silent ended with a current daemon pod",
        "a daemon pod followed another",
        "a node had a daemon pod more by surge",
        "an available daemon pod was replaced",
        "a node ended with a current daemon pod",
    ] {
        premises.saw_so_many(what, 0);
    }
    for set in DAEMON_SETS {
        let mut by_node: BTreeMap<&str, Vec<&Pod>> = BTreeMap::new();
        for pod in seen.pods.values().filter(|pod| pod.daemon_set.as_deref() == Some(set.name)) {
            assert!(pod.targets.is_empty(), "a daemon pod was evicted: {pod:?}");
            by_node.entry(&pod.node).or_default().push(pod);
        }
        by_node.values_mut().for_each(|pods| pods.sort_by_key(|pod| pod.appeared));
        judge_number(set, &by_node, premises);
        judge_budget(seen, set, &by_node, premises);
        judge_end(seen, set, &by_node, premises);
    }
}

/// Never two on a node, but for surge, and then on so many nodes.
fn judge_number(set: &DaemonSet, by_node: &BTreeMap<&str, Vec<&Pod>>, premises: &mut Premises) {
    let surges = set.max_surge > 0;
    let mut changes: Vec<(u64, &str, bool)> = Vec::new();
    for (node, pods) in by_node {
        for pod in pods {
            // What surges goes as soon as the one that follows it is available, and it is given its time to end.
            let left = if surges {
                pod.deleted.map(|deletion| deletion.moment)
            } else {
                pod.ended
            };
            changes.push((pod.appeared, node, true));
            changes.extend(left.map(|at| (at, *node, false)));
        }
    }
    changes.sort_unstable();
    let mut there: BTreeMap<&str, usize> = BTreeMap::new();
    for (moment, node, comes) in changes {
        let number = there.entry(node).or_default();
        if !comes {
            *number -= 1;
            continue;
        }
        *number += 1;
        let most = if surges { 2 } else { 1 };
        assert!(
            *number <= most,
            "{number} pods of {} at moment {moment} on {node}: {:?}",
            set.name,
            by_node[node]
        );
        if *number == 2 {
            premises.saw("a node had a daemon pod more by surge");
            // DS-138: a node whose new pod is available surges no more, whether or not the old one was deleted yet.
            let is_new_here = |pods: &&Vec<&Pod>| {
                pods.iter()
                    .rfind(|pod| pod.appeared <= moment)
                    .is_some_and(|pod| !pod.was_available(moment + 1))
            };
            let two = there.iter().filter(|(_, number)| **number == 2);
            let surging = two.map(|(node, _)| &by_node[node]).filter(is_new_here).count();
            assert!(surging <= set.max_surge, "{surging} nodes surge at moment {moment}: {set:?}");
        }
    }
    let followers = by_node.values().map(|pods| pods.len() - 1).sum();
    premises.saw_so_many("a daemon pod followed another", followers);
}

/// Whoever deletes an available pod leaves enough nodes with an available one.
fn judge_budget(seen: &Seen, set: &DaemonSet, by_node: &BTreeMap<&str, Vec<&Pod>>, premises: &mut Premises) {
    for pod in by_node.values().flatten() {
        let deleted = pod.deleted.map(|deletion| deletion.moment);
        let Some(moment) = deleted.filter(|moment| pod.was_available(*moment)) else {
            continue;
        };
        let has = |pods: &Vec<&Pod>| pods.iter().any(|other| other.was_available(moment + 1));
        // DS-133: a node that should have no pod and has none does not count. So it is with those of the silent zone between the end of
        // what ran there and that of their taints, which pods do not tell.
        let counts = |name: &str, pods: &Vec<&Pod>| {
            seen.nodes[name].zone != SILENT_ZONE || pods.iter().any(|other| other.was_there(moment + 1))
        };
        let is_lacking = |(name, pods): &(&&str, &Vec<&Pod>)| counts(name, pods) && !has(pods);
        let unavailable: BTreeSet<&str> = by_node.iter().filter(is_lacking).map(|(name, _)| *name).collect();
        assert!(
            unavailable.len() <= set.max_unavailable,
            "{} of {} on {} was deleted at moment {moment}, which left {} nodes without:\n{}",
            pod.name,
            set.name,
            pod.node,
            unavailable.len(),
            histories(unavailable.iter().map(|name| (*name, &by_node[name])))
        );
        premises.saw("an available daemon pod was replaced");
    }
}

/// A line for each pod of these nodes.
fn histories<'a>(of: impl Iterator<Item = (&'a str, &'a Vec<&'a Pod>)>) -> String {
    let lines = of.flat_map(|(node, pods)| pods.iter().map(move |pod| format!("{node}: {pod:?}\n")));
    lines.collect()
}

/// Each node has one pod in the end, of the last edit.
fn judge_end(seen: &Seen, set: &DaemonSet, by_node: &BTreeMap<&str, Vec<&Pod>>, premises: &mut Premises) {
    let last = by_node
        .values()
        .flatten()
        .map(|pod| pod.edit.as_str())
        .max_by_key(|edit| edit.parse::<u32>().unwrap());
    for (name, node) in seen.nodes.iter().filter(|(_, node)| set.is_for(&node.zone)) {
        let pods = by_node
            .get(name.as_str())
            .unwrap_or_else(|| panic!("{name} never had a pod of {}", set.name));
        let left: Vec<&&Pod> = pods.iter().filter(|pod| pod.ended.is_none()).collect();
        let is_current = |pod: &Pod| pod.is_live() && Some(pod.edit.as_str()) == last;
        assert!(left.len() == 1 && is_current(left[0]), "{name} ends with {left:?}");
        premises.saw("a node ended with a current daemon pod");
        if node.zone == SILENT_ZONE {
            premises.saw("a node that was silent ended with a current daemon pod");
        }
    }
}
