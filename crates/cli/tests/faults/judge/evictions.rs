//! Nobody is marked, isolated or evicted early, twice, without a reason, or faster than the zone's rate.

use jiff::{SignedDuration, Timestamp};

use super::{CUT_OFF, Premises};
use crate::system::{GRACE, RATE, SILENT_ZONE, TOLERATION};
use crate::witness::Seen;
use crate::witness::nodes::Node;
use crate::witness::pods::Pod;

pub fn judge(seen: &Seen, stops: usize, premises: &mut Premises) {
    for what in [
        "a node was marked",
        "a pod was evicted",
        "a pod of a healthy node stayed",
        "a span of isolations",
    ] {
        premises.saw_so_many(what, 0);
    }
    for (name, node) in &seen.nodes {
        judge_node(name, node, premises);
    }
    for pod in seen.pods.values().filter(|pod| pod.daemon_set.is_none()) {
        judge_pod(pod, &seen.nodes[&pod.node], premises);
    }
    let mut isolated: Vec<Timestamp> = seen.nodes.values().flat_map(|node| node.isolated.clone()).collect();
    isolated.sort();
    judge_rate(&isolated, stops, premises);
    judge_total(seen, &isolated, stops);
}

fn judge_node(name: &str, node: &Node, premises: &mut Premises) {
    let is_silent = node.zone == SILENT_ZONE;
    assert_eq!(!node.unknown.is_empty(), is_silent, "{name}: {node:?}");
    assert_eq!(!node.isolated.is_empty(), is_silent, "{name}: {node:?}");
    assert!(node.isolated.len() <= 1, "{name} was isolated twice: {node:?}");
    if let Some(unknown) = node.unknown.first() {
        let silent = unknown.duration_since(node.renewed.expect("its kubelet was there"));
        assert!(
            silent >= GRACE,
            "{name} was marked {silent:?} after its last renewal: {node:?}"
        );
        premises.saw("a node was marked");
    }
}

fn judge_pod(pod: &Pod, node: &Node, premises: &mut Premises) {
    if node.zone != SILENT_ZONE {
        assert!(pod.is_live(), "evicted from a healthy node: {pod:?}");
        premises.saw("a pod of a healthy node stayed");
        return;
    }
    let (_, deleted) = pod.deleted.unwrap_or_else(|| panic!("never evicted: {pod:?}"));
    let silent = deleted.duration_since(node.renewed.expect("its kubelet was there"));
    assert!(
        silent >= GRACE + TOLERATION,
        "evicted {silent:?} after its node's last renewal: {pod:?}, {node:?}"
    );
    let isolated = node.isolated.first();
    let isolated = isolated.unwrap_or_else(|| panic!("evicted from a node that never was isolated: {pod:?}"));
    let tolerated = deleted.duration_since(*isolated) + CUT_OFF;
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

fn judge_rate(isolated: &[Timestamp], stops: usize, premises: &mut Premises) {
    for (first, from) in isolated.iter().enumerate() {
        for (last, until) in isolated.iter().enumerate().skip(first) {
            let span = until.duration_since(*from);
            assert!(
                last - first < allowed(span, stops),
                "{} nodes were isolated within {span:?}: {isolated:?}",
                last - first + 1
            );
            premises.saw("a span of isolations");
        }
    }
}

/// A node has one pod: what was evicted in total is bounded by the rate since the first isolation.
fn judge_total(seen: &Seen, isolated: &[Timestamp], stops: usize) {
    let of_apps = seen.pods.values().filter(|pod| pod.daemon_set.is_none());
    let mut evicted: Vec<Timestamp> = of_apps.filter_map(|pod| pod.deleted).map(|(_, at)| at).collect();
    evicted.sort();
    let first = isolated.first().expect("a zone was silent");
    for (nth, at) in evicted.iter().enumerate() {
        let span = at.duration_since(*first);
        assert!(
            nth < allowed(span, stops),
            "{} pods were evicted within {span:?}: {evicted:?}",
            nth + 1
        );
    }
}
