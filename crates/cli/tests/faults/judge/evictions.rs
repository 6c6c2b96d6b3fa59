//! Nobody is marked, isolated or evicted early, twice, without a reason, or faster than the zone's rate.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use super::{CUT_OFF, Premises};
use crate::system::{GRACE, RATE, SILENT_ZONE, TOLERATION};
use crate::witness::Seen;
use crate::witness::nodes::{Isolation, Node};
use crate::witness::pods::Pod;

pub fn judge(seen: &Seen, stops: usize, now: Timestamp, premises: &mut Premises) {
    for what in [
        "a node was marked",
        "a pod was evicted",
        "a pod of a healthy node stayed",
        "a span of isolations",
    ] {
        premises.saw_so_many(what, 0);
    }
    let healthy = seen.nodes.values().filter(|node| node.zone != SILENT_ZONE);
    let late: usize = healthy.map(|node| node.lapses(now).len()).sum();
    println!("{late} times a kubelet that was not silenced was too late");
    for (name, node) in &seen.nodes {
        judge_node(name, node, &node.lapses(now), late, premises);
    }
    for pod in seen.pods.values().filter(|pod| pod.daemon_set.is_none()) {
        let node = &seen.nodes[&pod.node];
        judge_pod(seen, pod, node, &node.lapses(now), premises);
    }
    let zones: BTreeSet<&str> = seen.nodes.values().map(|node| &*node.zone).collect();
    for zone in zones {
        let nodes = seen.nodes.values().filter(|node| node.zone == zone);
        let mut isolations: Vec<&Isolation> = nodes.flat_map(|node| &node.isolated).collect();
        isolations.sort_by_key(|isolation| isolation.revision);
        judge_rate(seen, &isolations, stops + late, premises);
        judge_total(seen, zone, &isolations, stops + late);
    }
}

/// `late` says how often nodes lapsed that were not to: once all zones are down nobody stays isolated, and each may be so again.
fn judge_node(name: &str, node: &Node, lapses: &[Timestamp], late: usize, premises: &mut Premises) {
    if node.zone == SILENT_ZONE {
        assert!(!node.unknown.is_empty(), "{name} was not marked: {node:?}");
        assert!(!node.isolated.is_empty(), "{name} was not isolated: {node:?}");
    }
    let Some(renewed) = lapses.first() else {
        assert!(node.unknown.is_empty(), "{name} was marked, and never silent: {node:?}");
        assert!(node.isolated.is_empty(), "{name} was isolated, and never silent: {node:?}");
        return;
    };
    assert!(
        node.isolated.len() <= lapses.len() + late,
        "{name} was isolated twice: {node:?}"
    );
    if let Some(unknown) = node.unknown.first() {
        let silent = unknown.duration_since(*renewed);
        assert!(
            silent >= GRACE,
            "{name} was marked {silent:?} after its last renewal: {node:?}"
        );
        premises.saw("a node was marked");
    }
}

fn judge_pod(seen: &Seen, pod: &Pod, node: &Node, lapses: &[Timestamp], premises: &mut Premises) {
    let Some(renewed) = lapses.first().filter(|_| node.zone == SILENT_ZONE || !pod.is_live()) else {
        assert!(pod.is_live(), "evicted from a healthy node: {pod:?}");
        premises.saw("a pod of a healthy node stayed");
        return;
    };
    let (_, deleted) = pod.deleted.unwrap_or_else(|| panic!("never evicted: {pod:?}"));
    let silent = deleted.duration_since(*renewed);
    assert!(
        silent >= GRACE + TOLERATION,
        "evicted {silent:?} after its node's last renewal: {pod:?}, {node:?}"
    );
    let isolated = node.isolated.first();
    let isolated = isolated.unwrap_or_else(|| panic!("evicted from a node that never was isolated: {pod:?}"));
    // Nodes and pods are watched apart from each other, and one may be seen later than the other.
    let tolerated = deleted.duration_since(seen.not_before(isolated.revision)) + CUT_OFF;
    assert!(
        tolerated >= TOLERATION,
        "evicted {tolerated:?} after its node was isolated: {pod:?}, {node:?}"
    );
    assert_eq!(pod.targets.len(), 1, "marked as evicted not once: {pod:?}");
    assert_eq!(pod.deletions.len(), 1, "evicted not once: {pod:?}");
    premises.saw("a pod was evicted");
}

/// So many nodes a zone may lose within a span: a bucket of one, and one write in flight at each stop of an evictor.
fn allowed(span: SignedDuration, stops: usize) -> usize {
    let span = span + CUT_OFF;
    (RATE * span.as_secs_f64()).floor() as usize + 1 + stops
}

/// Isolations of a zone, in order.
fn judge_rate(seen: &Seen, isolations: &[&Isolation], stops: usize, premises: &mut Premises) {
    for (first, from) in isolations.iter().enumerate() {
        let begin = seen.not_before(from.revision);
        for (last, until) in isolations.iter().enumerate().skip(first) {
            let span = until.seen.duration_since(begin);
            assert!(
                last - first < allowed(span, stops),
                "{} nodes were isolated within {span:?}: {isolations:?}",
                last - first + 1
            );
            premises.saw("a span of isolations");
        }
    }
}

/// A node has one pod: what was evicted in total is bounded by the rate since the first isolation.
fn judge_total(seen: &Seen, zone: &str, isolations: &[&Isolation], stops: usize) {
    let of_apps = seen.pods.values().filter(|pod| pod.daemon_set.is_none());
    let of_zone = of_apps.filter(|pod| seen.nodes[&pod.node].zone == zone);
    let mut evicted: Vec<Timestamp> = of_zone.filter_map(|pod| pod.deleted).map(|(_, at)| at).collect();
    evicted.sort();
    for (nth, at) in evicted.iter().enumerate() {
        let first = isolations.first().expect("it was isolated");
        let span = at.duration_since(seen.not_before(first.revision));
        assert!(
            nth < allowed(span, stops),
            "{} pods were evicted within {span:?}: {evicted:?}",
            nth + 1
        );
    }
}
