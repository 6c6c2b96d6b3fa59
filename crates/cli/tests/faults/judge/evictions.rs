//! Nobody is marked, isolated or evicted early, twice, without a reason, or faster than the zone's rate.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use super::{CUT_OFF, Premises};
use crate::system::{GRACE, RATE, SILENT_ZONE, TOLERATION};
use crate::witness::Seen;
use crate::witness::nodes::{Lapse, Node, Write};
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
    let stalls = stalls(seen, now);
    println!("{stalls} times kubelets that were not silenced were too late");
    for (name, node) in &seen.nodes {
        judge_node(seen, name, node, &seen.lapses(node, now), stalls, premises);
    }
    for pod in seen.pods.values().filter(|pod| pod.daemon_set.is_none()) {
        let node = &seen.nodes[&pod.node];
        judge_pod(seen, pod, node, &seen.lapses(node, now), premises);
    }
    let zones: BTreeSet<&str> = seen.nodes.values().map(|node| &*node.zone).collect();
    for zone in zones {
        let nodes = seen.nodes.values().filter(|node| node.zone == zone);
        let mut isolations: Vec<&Write> = nodes.flat_map(|node| &node.isolated).collect();
        isolations.sort_by_key(|isolation| isolation.revision);
        judge_rate(seen, &isolations, stops + stalls, premises);
        judge_total(seen, zone, &isolations, stops + stalls);
    }
}

/// How often nodes were silent that were not to be. What overlaps is one, such as all of them on a machine that stood still.
fn stalls(seen: &Seen, now: Timestamp) -> usize {
    let healthy = seen.nodes.values().filter(|node| node.zone != SILENT_ZONE);
    let mut lapses: Vec<Lapse> = healthy.flat_map(|node| seen.lapses(node, now)).collect();
    lapses.sort_by_key(|lapse| lapse.renewed);
    let (mut stalls, mut end) = (0, Timestamp::MIN);
    for lapse in lapses {
        stalls += usize::from(lapse.renewed > end);
        end = end.max(lapse.until);
    }
    stalls
}

/// In a stall all zones may be down: nobody stays isolated then, and each may be so again.
fn judge_node(seen: &Seen, name: &str, node: &Node, lapses: &[Lapse], stalls: usize, premises: &mut Premises) {
    if node.zone == SILENT_ZONE {
        assert!(!node.unknown.is_empty(), "{name} was not marked: {node:?}");
        assert!(!node.isolated.is_empty(), "{name} was not isolated: {node:?}");
    }
    assert!(
        node.isolated.len() <= lapses.len() + stalls,
        "{name} was isolated twice: {node:?}"
    );
    for mark in &node.unknown {
        let silence = seen.silence(lapses, mark);
        assert!(
            silence.is_some(),
            "{name} was marked too early: {mark:?}, {lapses:?}, {node:?}"
        );
        premises.saw("a node was marked");
    }
    for isolation in &node.isolated {
        let mark = node.marked_before(isolation.revision);
        assert!(mark.is_some(), "{name} was isolated, and not marked: {isolation:?}, {node:?}");
    }
}

fn judge_pod(seen: &Seen, pod: &Pod, node: &Node, lapses: &[Lapse], premises: &mut Premises) {
    if node.zone != SILENT_ZONE && pod.is_live() {
        premises.saw("a pod of a healthy node stayed");
        return;
    }
    let deletion = pod.deleted.unwrap_or_else(|| panic!("never evicted: {pod:?}"));
    let isolated = node.isolated.iter().rfind(|isolation| isolation.revision < deletion.revision);
    let isolated = isolated.unwrap_or_else(|| panic!("evicted from a node that was not isolated: {pod:?}, {node:?}"));
    let mark = node.marked_before(isolated.revision);
    let silence = mark.and_then(|mark| seen.silence(lapses, mark));
    let silence = silence.unwrap_or_else(|| panic!("evicted from a node that was not silent: {pod:?}, {node:?}"));
    let silent = deletion.seen.duration_since(silence.renewed);
    assert!(
        silent >= GRACE + TOLERATION,
        "evicted {silent:?} after its node's last renewal: {pod:?}, {node:?}"
    );
    // Nodes and pods are watched apart from each other, and one may be seen later than the other.
    let tolerated = deletion.seen.duration_since(seen.not_before(isolated.revision)) + CUT_OFF;
    assert!(
        tolerated >= TOLERATION,
        "evicted {tolerated:?} after its node was isolated: {pod:?}, {node:?}"
    );
    assert_eq!(pod.targets.len(), 1, "marked as evicted not once: {pod:?}");
    assert_eq!(pod.deletions.len(), 1, "evicted not once: {pod:?}");
    premises.saw("a pod was evicted");
}

/// So many nodes a zone may lose within a span: a bucket of one, and one write in flight at each stop of an evictor, or of the machine.
fn allowed(span: SignedDuration, stops: usize) -> usize {
    let span = span + CUT_OFF;
    (RATE * span.as_secs_f64()).floor() as usize + 1 + stops
}

/// Isolations of a zone, in order.
fn judge_rate(seen: &Seen, isolations: &[&Write], stops: usize, premises: &mut Premises) {
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
fn judge_total(seen: &Seen, zone: &str, isolations: &[&Write], stops: usize) {
    let of_apps = seen.pods.values().filter(|pod| pod.daemon_set.is_none());
    let of_zone = of_apps.filter(|pod| seen.nodes[&pod.node].zone == zone);
    let mut evicted: Vec<Timestamp> = of_zone.filter_map(|pod| pod.deleted).map(|deletion| deletion.seen).collect();
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
