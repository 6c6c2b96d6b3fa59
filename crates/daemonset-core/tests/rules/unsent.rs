//! Creates that wait for their turn while what they were decided on changes.

use std::collections::{BTreeSet, VecDeque};

use bailiff_daemonset_core::{FailureKind, Input, Watched};
use serde_json::json;

use crate::model::{Cluster, PODS};
use crate::rollout::mk;

fn creates(cluster: &Cluster) -> usize {
    cluster.writes.iter().filter(|write| write.starts_with("create pods")).count()
}

/// Fifteen nodes that join: seven have a pod that is available, and the creates for the others wait, a batch of eight.
fn mk_waiting() -> Cluster {
    let mut cluster = Cluster::with(0, json!({}));
    cluster.creates_wait = true;
    for index in 0..15 {
        cluster.add_node(&format!("n{index:02}"), json!({}), json!([]));
    }
    for _ in 0..3 {
        cluster.settle();
        cluster.send(usize::MAX);
    }
    for _ in ["bound", "ready"] {
        cluster.settle();
        cluster.kubelets();
    }
    cluster.settle();
    assert_eq!((creates(&cluster), cluster.waiting()), (7, 8));
    cluster
}

fn set_stale(cluster: &mut Cluster, is_stale: bool) {
    let watch = Watched::Nodes;
    cluster.feed(if is_stale {
        let reason = "late".to_owned();
        Input::WatchStale { watch, reason }
    } else {
        Input::WatchFresh(watch)
    });
    cluster.settle();
}

/// DS-080, DS-110, DS-155, DS-190: what the DaemonSet does not want any more is taken back. What it wants of another revision begins
/// slowly again; what is still wanted waits on.
#[test]
fn creates_that_are_not_wanted_any_more_are_taken_back() {
    type Change = fn(&mut Cluster);
    let cases: [(&str, Change, usize); 8] = [
        (
            "being deleted",
            |cluster| {
                let patch = json!({"metadata": {"deletionTimestamp": "2024-01-01T00:00:00Z"}});
                cluster.change("daemonsets/ds", patch);
            },
            0,
        ),
        ("deleted", |cluster| cluster.remove("daemonsets/ds"), 0),
        ("edited", |cluster| cluster.set_image("v2"), 1),
        (
            "nowhere",
            |cluster| cluster.edit(json!({"template": {"spec": {"nodeSelector": {"a": "b"}}}})),
            0,
        ),
        (
            "a node is deleted, and another one not for it any more",
            |cluster| {
                cluster.remove("nodes/n13");
                let taints = json!([{"key": "k", "effect": "NoSchedule"}]);
                cluster.change("nodes/n14", json!({"spec": {"taints": taints}}));
            },
            6,
        ),
        ("not to be trusted", |cluster| set_stale(cluster, true), 0),
        (
            "another strategy",
            |cluster| cluster.edit(json!({"updateStrategy": {"type": "OnDelete", "rollingUpdate": null}})),
            8,
        ),
        (
            "annotated",
            |cluster| cluster.change("daemonsets/ds", json!({"metadata": {"annotations": {"a": "b"}}})),
            8,
        ),
    ];
    for (name, change, left) in cases {
        let mut cluster = mk_waiting();
        change(&mut cluster);
        cluster.settle();
        assert_eq!((cluster.waiting(), creates(&cluster)), (left, 7), "{name}");
        let failures: Vec<&String> = cluster.events.iter().filter(|event| event.starts_with("Failed")).collect();
        assert!(failures.is_empty(), "{name}: {failures:?}");
    }
}

/// DS-111: what was taken back proves nothing: the next batch is twice as large as what was answered of the last one.
#[test]
fn what_was_taken_back_is_asked_for_again_slowly() {
    for (sent, next) in [(0, 1), (1, 2), (2, 4)] {
        let mut cluster = mk_waiting();
        cluster.send(sent);
        set_stale(&mut cluster, true);
        assert_eq!(cluster.waiting(), 0, "{sent}");
        set_stale(&mut cluster, false);
        assert_eq!(cluster.waiting(), next, "{sent}");
        cluster.creates_wait = false;
        cluster.send(next);
        cluster.rest();
        assert_eq!(
            (creates(&cluster), cluster.daemonset().status.counts.available),
            (15, 15),
            "{sent}"
        );
    }
}

/// DS-138, the annotation `rollout-paused`: pods that a rollout was about to create beside old ones are not created while it rests.
#[test]
fn a_rollout_that_rests_creates_nothing_beside_old_pods() {
    let mut cluster = mk(2, json!(0), json!("100%"));
    cluster.creates_wait = true;
    cluster.set_image("v2");
    cluster.settle();
    assert_eq!(cluster.waiting(), 1);
    for (paused, waiting) in [("true", 0), ("false", 1)] {
        let annotations = json!({"bailiff.dev/rollout-paused": paused});
        cluster.change("daemonsets/ds", json!({"metadata": {"annotations": annotations}}));
        cluster.settle();
        assert_eq!(cluster.waiting(), waiting, "{paused}");
    }
    cluster.edit(json!({"updateStrategy": {"type": "OnDelete", "rollingUpdate": null}}));
    cluster.settle();
    assert_eq!((cluster.waiting(), creates(&cluster)), (0, 0));
}

/// DS-062, DS-100: a node that gets a pod otherwise needs none of ours.
#[test]
fn a_node_whose_orphan_is_adopted_meanwhile_gets_no_other_pod() {
    let mut cluster = mk(1, json!(1), json!(0));
    cluster.creates_wait = true;
    cluster.add_node("n1", json!({}), json!([]));
    cluster.settle();
    assert_eq!(cluster.waiting(), 1);
    let orphan = json!({"metadata": {"name": "orphan", "namespace": "ns", "labels": {"app": "ds"}}, "spec": {"nodeName": "n1"}});
    cluster.put("pods/orphan", orphan);
    cluster.settle();
    cluster.send(1);
    cluster.settle();
    assert_eq!((cluster.on("n1").len(), creates(&cluster)), (1, 0));
    assert!(cluster.writes.contains(&"adopt pods/orphan".to_owned()));
}

/// DS-114: a create that was taken back was not refused: its failures before are remembered, and a node that had come to lack its pod
/// while others are refused waits for them no more than before.
#[test]
fn what_was_taken_back_is_neither_success_nor_failure() {
    let mut cluster = mk(1, json!(1), json!(0));
    cluster.failures.push(("create pods bad", FailureKind::Other));
    cluster.add_node("bad", json!({}), json!([]));
    // 5 ms, 10 ms, … 2.56 s: ten tries, the next one 5.12 s after the last.
    cluster.pass(6);
    assert_eq!(creates(&cluster), 11);
    cluster.creates_wait = true;
    cluster.add_node("n1", json!({}), json!([]));
    cluster.settle();
    assert_eq!(cluster.waiting(), 1, "it is tried by itself");
    for is_stale in [true, false] {
        set_stale(&mut cluster, is_stale);
    }
    assert_eq!(cluster.waiting(), 1, "and still is");
    cluster.send(1);
    cluster.settle();
    assert_eq!(cluster.on("n1").len(), 1);
    cluster.pass(5);
    assert_eq!(cluster.waiting(), 1);
    for is_stale in [true, false] {
        set_stale(&mut cluster, is_stale);
    }
    assert_eq!(cluster.waiting(), 1, "asked for anew");
    cluster.send(1);
    cluster.pass(10);
    assert_eq!(cluster.waiting(), 0, "the pause is 10.24 s by now");
    cluster.pass(1);
    assert_eq!(cluster.waiting(), 1);
}

/// A node whose pod was created, which nobody answered and the watch does not show yet; so it is asked for again, which waits.
fn mk_doubtful() -> (Cluster, VecDeque<Input>) {
    let mut cluster = mk(1, json!(1), json!(0));
    cluster.loses = Some("create pods");
    cluster.add_node("n1", json!({}), json!([]));
    cluster.deliver(crate::model::NODES);
    let late = cluster.hold_back(PODS);
    assert_eq!((creates(&cluster), late.len()), (1, 1));
    cluster.loses = None;
    cluster.creates_wait = true;
    cluster.pass(11);
    assert_eq!(cluster.waiting(), 1);
    (cluster, late)
}

/// DS-050, DS-110: what is asked for again, as it was perhaps not created before, is taken back once the watch shows that it was.
#[test]
fn what_turns_out_to_be_there_is_not_created_again() {
    let (mut cluster, late) = mk_doubtful();
    cluster.give_back(PODS, late);
    cluster.settle();
    assert_eq!((cluster.waiting(), cluster.called_off), (0, 1));
    cluster.rest();
    assert_eq!((cluster.on("n1").len(), creates(&cluster)), (1, 1));
}

/// DS-050, DS-095: what was perhaps created before is asked for under the same name, also after that was taken back.
#[test]
fn a_name_that_is_in_doubt_is_kept() {
    let (mut cluster, late) = mk_doubtful();
    for is_stale in [true, false] {
        set_stale(&mut cluster, is_stale);
    }
    assert_eq!(cluster.waiting(), 1);
    cluster.send(1);
    cluster.settle();
    cluster.give_back(PODS, late);
    cluster.rest();
    let names: BTreeSet<String> = cluster.on("n1").iter().map(|pod| pod.name.to_string()).collect();
    assert_eq!((names.len(), creates(&cluster)), (1, 2));
}
