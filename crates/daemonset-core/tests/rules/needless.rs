//! Deletes that wait for their turn, minutes if there are many, while what they were decided on changes.

use serde_json::{Value, json};

use crate::model::{Cluster, merge, path_of};
use crate::retries::{CASES, HOUR, assert_paced, moments};
use crate::rollout::mk;

/// As many nodes with an edited template, whose deletes of old pods all wait.
fn mk_waiting(nodes: usize) -> Cluster {
    let mut cluster = mk(nodes, json!("100%"), json!(0));
    cluster.add_daemonset("other", json!({"template": {"spec": {"nodeSelector": {"a": "b"}}}}));
    cluster.rest();
    cluster.writes.clear();
    cluster.is_slow = true;
    cluster.set_image("v2");
    cluster.settle();
    assert_eq!(cluster.waiting(), nodes);
    cluster
}

fn deletes(cluster: &Cluster) -> usize {
    cluster.writes.iter().filter(|write| write.starts_with("delete pods")).count()
}

fn annotate(cluster: &mut Cluster, annotations: Value) {
    cluster.change("daemonsets/ds", json!({"metadata": {"annotations": annotations}}));
}

/// DS-040, DS-135, DS-155, DS-190, the annotation `rollout-paused`: what the DaemonSet does not want any more is taken back; what was sent
/// stays sent.
#[test]
fn deletes_that_are_not_wanted_any_more_are_taken_back() {
    type Change = fn(&mut Cluster);
    let cases: [(&str, Change, usize); 7] = [
        ("rolled back", |cluster| cluster.set_image("v1"), 0),
        (
            "paused",
            |cluster| annotate(cluster, json!({"bailiff.dev/rollout-paused": "true"})),
            0,
        ),
        (
            "another strategy",
            |cluster| cluster.edit(json!({"updateStrategy": {"type": "OnDelete", "rollingUpdate": null}})),
            0,
        ),
        (
            "being deleted",
            |cluster| {
                cluster.change(
                    "daemonsets/ds",
                    json!({"metadata": {"deletionTimestamp": "2024-01-01T00:00:00Z"}}),
                )
            },
            0,
        ),
        ("deleted", |cluster| cluster.remove("daemonsets/ds"), 0),
        ("edited again", |cluster| cluster.set_image("v3"), 5),
        ("annotated", |cluster| annotate(cluster, json!({"a": "b"})), 5),
    ];
    for (name, change, left) in cases {
        let mut cluster = mk_waiting(6);
        cluster.send(1);
        change(&mut cluster);
        cluster.settle();
        assert_eq!((cluster.waiting(), deletes(&cluster)), (left, 1), "{name}");
        let failures: Vec<&String> = cluster.events.iter().filter(|event| event.starts_with("Failed")).collect();
        assert!(failures.is_empty(), "{name}: {failures:?}");
    }
}

/// A pause that ends soon costs the rollout nothing.
#[test]
fn what_was_taken_back_is_asked_for_again() {
    let mut cluster = mk_waiting(250);
    for paused in ["true", "false"] {
        annotate(&mut cluster, json!({"bailiff.dev/rollout-paused": paused}));
        cluster.settle();
    }
    assert_eq!(cluster.waiting(), 250);
    cluster.is_slow = false;
    cluster.send(250);
    cluster.rest();
    assert_eq!((deletes(&cluster), cluster.daemonset().status.counts.updated), (250, 250));
}

/// DS-107: a pod that may stay again stays.
#[test]
fn a_pod_that_may_stay_again_is_not_deleted() {
    let mut cluster = mk(2, json!(1), json!(0));
    cluster.is_slow = true;
    for (taints, waiting) in [(json!([{"key": "k", "effect": "NoExecute"}]), 1), (json!([]), 0)] {
        cluster.change("nodes/n1", json!({"spec": {"taints": taints}}));
        cluster.settle();
        assert_eq!(cluster.waiting(), waiting);
    }
    cluster.pass(60);
    assert_eq!((cluster.waiting(), deletes(&cluster)), (0, 0));
}

/// DS-104, DS-138: while surging, an old pod stays if its successor does not serve the node after all.
#[test]
fn an_old_pod_whose_successor_fails_is_not_deleted() {
    let mut cluster = mk(1, json!(0), json!(1));
    cluster.is_slow = true;
    cluster.set_image("v2");
    cluster.rest();
    assert_eq!(cluster.waiting(), 1);
    let new = cluster.on("n0").into_iter().max_by_key(|pod| pod.created).expect("two");
    for (ready, waiting) in [(false, 0), (true, 1)] {
        cluster.set_phase(&new, "Running", ready);
        cluster.settle();
        assert_eq!(cluster.waiting(), waiting, "ready: {ready}");
    }
}

/// DS-105, DS-136: a failed pod beside an old one that is to go is on its way out itself, and no reason to let the other stay: what is
/// asked for would be taken back and asked for again without end.
#[test]
fn a_failed_pod_that_waits_to_go_keeps_no_other() {
    let mut cluster = mk(1, json!(1), json!(0));
    cluster.is_slow = true;
    let pod = cluster.on("n0").remove(0);
    let mut failed = cluster.objects[&path_of(&pod)].clone();
    let patch = json!({"metadata": {"name": "failed", "uid": "failed"}, "status": {"phase": "Failed"}});
    merge(&mut failed, &patch);
    cluster.put("pods/failed", failed);
    cluster.set_phase(&pod, "Running", false);
    cluster.settle();
    assert_eq!(cluster.waiting(), 1);
    cluster.set_image("v2");
    cluster.settle();
    assert_eq!((cluster.waiting(), cluster.called_off), (2, 0));
}

/// DS-133, DS-134, DS-138: two old pods of a node that is gone are left alone, and none is taken for the only one because the other is
/// asked for: both would be asked for and taken back without end.
#[test]
fn two_old_pods_of_a_node_that_is_gone_are_left_alone() {
    for (unavailable, surge) in [(1, 0), (0, 1)] {
        let mut cluster = mk(1, json!(unavailable), json!(surge));
        let mut twin = cluster.objects[&path_of(&cluster.on("n0")[0])].clone();
        merge(&mut twin, &json!({"metadata": {"name": "twin", "uid": "twin"}}));
        cluster.is_slow = true;
        cluster.set_image("v2");
        cluster.rest();
        cluster.remove("nodes/n0");
        cluster.settle();
        assert_eq!(cluster.waiting(), 1, "{surge}");
        cluster.put("pods/twin", twin);
        cluster.settle();
        assert_eq!((cluster.waiting(), cluster.called_off), (0, 1), "{surge}");
        cluster.pass(60);
        assert_eq!((cluster.waiting(), deletes(&cluster)), (0, 0), "{surge}");
    }
}

/// Exclude-unready-nodes: a rollout that halts takes back what it has not begun.
#[test]
fn a_rollout_that_halts_deletes_nothing_more() {
    let mut cluster = mk(3, json!(1), json!(0));
    annotate(&mut cluster, json!({"bailiff.dev/exclude-unready-nodes": "true"}));
    cluster.is_slow = true;
    cluster.set_image("v2");
    cluster.rest();
    cluster.send(1);
    cluster.rest();
    assert_eq!((cluster.waiting(), deletes(&cluster)), (1, 1));
    let since = cluster.now.wall.to_string();
    let condition = json!([{"type": "Ready", "status": "False", "lastTransitionTime": since}]);
    cluster.change("nodes/n0", json!({"status": {"conditions": condition}}));
    cluster.settle();
    assert_eq!(cluster.waiting(), 0);
}

/// DS-006: what is answered as done and changes nothing, as where a webhook undoes it, is not repeated without end.
#[test]
fn what_has_no_effect_is_tried_ever_more_rarely() {
    for case in CASES
        .iter()
        .filter(|case| ["adopt pods", "release pods", "label pods"].contains(&case.what))
    {
        let mut cluster = (case.given)();
        cluster.pretends = Some(case.what);
        cluster.requests.clear();
        (case.when)(&mut cluster);
        cluster.pass(HOUR);
        for (request, moments) in &moments(&cluster, case.what) {
            assert_paced(request, moments);
        }
        cluster.pretends = None;
        cluster.requests.clear();
        cluster.rest_longer();
        let tried: Vec<usize> = moments(&cluster, case.what).values().map(Vec::len).collect();
        assert!(
            !tried.is_empty() && tried.iter().all(|times| *times == 1),
            "{}: {tried:?}",
            case.what
        );
    }
}
