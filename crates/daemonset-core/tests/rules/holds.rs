//! Holds from outside: what is not begun because of them, and what is taken back.

use bailiff_daemonset_core::{FailureKind, Input};
use bailiff_model::rollout::{DaemonSetSync, WhyNot};
use bailiff_model::{Hold, HoldReason, HoldScope, Holds, Zone};
use serde_json::json;

use crate::model::Cluster;
use crate::rollout::mk;

fn pause(cluster: &mut Cluster, scope: &HoldScope) -> Hold {
    let hold = Hold {
        reason: HoldReason::Paused,
        detail: "as the test wanted".to_owned(),
        since: cluster.now.wall,
        until: None,
    };
    cluster.feed(Input::Braked([(scope.clone(), hold.clone())].into_iter().collect()));
    hold
}

fn deletes(cluster: &Cluster) -> usize {
    cluster.writes.iter().filter(|write| write.starts_with("delete pods")).count()
}

/// Pause: while a scope is held, running daemon pods in it are not deleted; others are, pods that are missing are created,
/// and when it ends the rollout goes on by its own budget.
#[test]
fn running_pods_of_what_is_held_are_not_deleted() {
    let scopes = [(HoldScope::All, 3), (HoldScope::Node("n0".into()), 1)];
    for (scope, kept) in scopes {
        let mut cluster = mk(3, json!("100%"), json!(0));
        let hold = pause(&mut cluster, &scope);
        cluster.set_image("v2");
        cluster.rest();
        cluster.pass(5);
        assert_eq!(deletes(&cluster), 3 - kept, "{scope}: {:?}", cluster.writes);
        let said = cluster.published.as_ref().and_then(|sync| sync.held.clone());
        assert_eq!(said, (scope == HoldScope::All).then_some(hold), "{scope}");
        // What is held by itself is told apart from what waits for others.
        let whys = |sync: &DaemonSetSync| {
            (
                sync.reasons.clone(),
                sync.nodes.iter().map(|node| node.reason).collect::<Vec<_>>(),
            )
        };
        let why = if scope == HoldScope::All {
            WhyNot::WaitingForBudget
        } else {
            WhyNot::Held
        };
        let nodes = u32::try_from(kept).expect("few");
        assert_eq!(
            cluster.published.as_ref().map(whys),
            Some((vec![(why, nodes)], vec![why; kept])),
            "{scope}"
        );
        cluster.feed(Input::Braked(Holds::NONE));
        cluster.rest();
        assert_eq!(deletes(&cluster), 3, "{scope}");
        assert_eq!(cluster.daemonset().status.counts.updated, 3, "{scope}");
    }
}

/// Pause: deletes that wait for their turn when it begins are taken back, all of them if all is held; what was sent stays
/// sent. When it ends the present counts: what is wanted then is deleted at once, without a pause as after a failure.
#[test]
fn deletes_that_were_not_sent_when_a_hold_begins_are_taken_back() {
    let zone = |name: &str| json!({"topology.kubernetes.io/zone": name});
    let scopes = [
        (HoldScope::All, 6),
        (HoldScope::Zone(Zone::new("", "a")), 3),
        (HoldScope::Node("n5".into()), 1),
    ];
    for (scope, held) in scopes {
        for rolled_back in [false, true] {
            let what = format!("{scope}, rolled back: {rolled_back}");
            let mut cluster = mk(6, json!("100%"), json!(0));
            for name in ["n3", "n4", "n5"] {
                cluster.change(&format!("nodes/{name}"), json!({"metadata": {"labels": zone("a")}}));
            }
            cluster.rest();
            cluster.is_slow = true;
            cluster.set_image("v2");
            cluster.settle();
            assert_eq!(cluster.waiting(), 6, "{what}");
            pause(&mut cluster, &scope);
            cluster.settle();
            assert_eq!((cluster.waiting(), deletes(&cluster)), (6 - held, 0), "{what}");
            cluster.pass(600);
            assert_eq!(
                cluster.waiting(),
                6 - held,
                "{what}: nothing else is asked for while it stands"
            );
            cluster.is_slow = false;
            cluster.send(6);
            cluster.rest();
            assert_eq!(deletes(&cluster), 6 - held, "{what}");
            let mut wanted = 6;
            if rolled_back {
                cluster.set_image("v1");
                cluster.settle();
                wanted = 6 - held;
                if scope != HoldScope::All {
                    // What was replaced outside of the hold goes back too.
                    cluster.rest();
                    wanted += 6 - held;
                }
            }
            cluster.feed(Input::Braked(Holds::NONE));
            cluster.settle();
            assert_eq!(deletes(&cluster), wanted, "{what}: at once");
            let failures: Vec<&String> = cluster.events.iter().filter(|event| event.starts_with("Failed")).collect();
            assert!(failures.is_empty(), "{what}: {failures:?}");
        }
    }
}

/// The same for pods that manage wants gone; one that has ended is no loss to anybody and is deleted all the same.
#[test]
fn deletes_of_misplaced_pods_are_taken_back_and_those_of_ended_ones_are_not() {
    let mut cluster = mk(2, json!(1), json!(0));
    cluster.is_slow = true;
    let failed = cluster.on("n0").remove(0);
    cluster.set_phase(&failed, "Failed", false);
    let taint = json!([{"key": "k", "effect": "NoExecute"}]);
    cluster.change("nodes/n1", json!({"spec": {"taints": taint}}));
    cluster.settle();
    assert_eq!(cluster.waiting(), 2);
    pause(&mut cluster, &HoldScope::All);
    cluster.settle();
    assert_eq!(cluster.waiting(), 1);
    cluster.send(1);
    cluster.settle();
    assert_eq!(
        (
            deletes(&cluster),
            cluster.on("n0").iter().any(|pod| pod.uid == failed.uid && !pod.deleting)
        ),
        (1, false)
    );
    // Tolerable again by the time it ends.
    cluster.change("nodes/n1", json!({"spec": {"taints": []}}));
    cluster.settle();
    cluster.feed(Input::Braked(Holds::NONE));
    cluster.pass(60);
    assert_eq!(cluster.waiting(), 0);
}

/// Pods that have ended are no loss to anybody, also where they are misplaced or old: they are deleted all the same.
#[test]
fn ended_pods_of_what_is_held_are_deleted_for_whatever_reason() {
    type Change = fn(&mut Cluster);
    let changes: [(&str, Change); 2] = [
        ("misplaced", |cluster| {
            let taint = json!([{"key": "k", "effect": "NoExecute"}]);
            cluster.change("nodes/n0", json!({"spec": {"taints": taint}}));
        }),
        ("old", |cluster| cluster.set_image("v2")),
    ];
    for (name, change) in changes {
        let mut cluster = mk(1, json!(1), json!(0));
        pause(&mut cluster, &HoldScope::All);
        for _ in 0..2 {
            let pod = cluster.on("n0").remove(0);
            cluster.bind(&pod);
            cluster.set_phase(&pod, "Failed", false);
            cluster.settle();
        }
        assert_eq!(deletes(&cluster), 1, "{name}: the second waits for a second");
        change(&mut cluster);
        cluster.settle();
        assert_eq!(deletes(&cluster), 2, "{name}");
    }
}

/// What failed before it was taken back is tried again no sooner than it would have been.
#[test]
fn failures_before_a_hold_are_remembered() {
    let mut cluster = mk(1, json!(1), json!(0));
    cluster.failures = vec![("delete pods", FailureKind::Other)];
    cluster.set_image("v2");
    // 5 ms, 10 ms, … 2.56 s: ten tries, the next one 5.12 s after the last.
    cluster.pass(6);
    assert_eq!(deletes(&cluster), 11);
    cluster.is_slow = true;
    cluster.pass(5);
    assert_eq!(cluster.waiting(), 1);
    pause(&mut cluster, &HoldScope::All);
    cluster.settle();
    cluster.feed(Input::Braked(Holds::NONE));
    cluster.settle();
    assert_eq!(cluster.waiting(), 1, "asked for anew");
    cluster.send(1);
    cluster.pass(10);
    assert_eq!(cluster.waiting(), 0, "the pause is 10.24 s by now");
    cluster.pass(1);
    assert_eq!(cluster.waiting(), 1);
}

/// DS-110: what was taken back makes room again, also where it had failed before.
#[test]
fn what_is_taken_back_makes_room() {
    let mut cluster = mk(250, json!("100%"), json!(0));
    cluster.failures = vec![("delete pods", FailureKind::Other)];
    cluster.set_image("v2");
    cluster.settle();
    cluster.is_slow = true;
    cluster.pass(1);
    assert_eq!(cluster.waiting(), 250);
    pause(&mut cluster, &HoldScope::All);
    cluster.settle();
    assert_eq!(cluster.waiting(), 0);
    cluster.feed(Input::Braked(Holds::NONE));
    cluster.settle();
    assert_eq!(cluster.waiting(), 250);
}

/// What waits is told as held as long as it is, whatever changes: holds, judgements or zones. A condition says it too, also of what holds
/// everything, which a record says by itself.
#[test]
fn what_is_held_is_told_as_that() {
    let zone = |name: &str| json!({"metadata": {"labels": {"topology.kubernetes.io/zone": name}}});
    let mut cluster = mk(3, json!(1), json!(0));
    for (node, name) in [("n0", "a"), ("n1", "a"), ("n2", "b")] {
        cluster.change(&format!("nodes/{node}"), zone(name));
    }
    let conditions = json!({"metadata": {"annotations": {"bailiff.dev/rollout-conditions": "true"}}});
    cluster.change("daemonsets/ds", conditions);
    cluster.rest();
    let told = |cluster: &mut Cluster| {
        cluster.pass(20);
        let sync = cluster.published.clone().expect("published");
        let nodes = |reason: WhyNot| sync.nodes.iter().filter(|node| node.reason == reason).count();
        let counted = |reason: WhyNot| {
            sync.reasons
                .iter()
                .find(|(other, _)| *other == reason)
                .map_or(0, |(_, nodes)| *nodes)
        };
        for reason in [WhyNot::Held, WhyNot::WaitingForBudget] {
            assert_eq!(nodes(reason), counted(reason) as usize, "{sync:?}");
        }
        let condition = &cluster.objects["daemonsets/ds"]["status"]["conditions"][0];
        let message = condition["message"].as_str().and_then(|text| text.split(": ").nth(1));
        (
            counted(WhyNot::Held),
            counted(WhyNot::WaitingForBudget),
            message.unwrap_or_default().to_owned(),
        )
    };
    let in_a = HoldScope::Zone(Zone::new("", "a"));
    pause(&mut cluster, &in_a);
    // No kubelet moves: the old pod of n2 is being deleted, and uses up the budget.
    cluster.set_image("v2");
    assert_eq!(told(&mut cluster), (2, 0, "deleting 1, held 2".to_owned()));
    cluster.change("nodes/n1", zone("b"));
    assert_eq!(
        told(&mut cluster),
        (1, 1, "waiting_for_budget 1, deleting 1, held 1".to_owned())
    );
    pause(&mut cluster, &HoldScope::All);
    assert_eq!(told(&mut cluster), (0, 2, "held 2, deleting 1".to_owned()));
    pause(&mut cluster, &in_a);
    assert_eq!(
        told(&mut cluster),
        (1, 1, "waiting_for_budget 1, deleting 1, held 1".to_owned())
    );
    cluster.feed(Input::Braked(Holds::NONE));
    assert_eq!(told(&mut cluster), (0, 2, "waiting_for_budget 2, deleting 1".to_owned()));
}

/// The deletion of the revision before the current one waits for its turn.
fn mk_clean_up_that_waits() -> Cluster {
    let mut cluster = mk(2, json!("100%"), json!(0));
    cluster.set_image("v2");
    cluster.rest();
    cluster.is_slow = true;
    cluster.edit(json!({"revisionHistoryLimit": 0}));
    cluster.settle();
    assert_eq!((cluster.waiting(), cluster.revisions().len()), (1, 2));
    cluster
}

/// DS-155, DS-161: the deletion of an old revision that waits for its turn holds up no edit, and is taken back if the edit makes the
/// revision current again.
#[test]
fn a_clean_up_that_waits_holds_up_no_edit() {
    for (image, revisions) in [("v3", 3), ("v1", 2)] {
        let mut cluster = mk_clean_up_that_waits();
        cluster.writes.clear();
        cluster.set_image(image);
        cluster.settle();
        let first = cluster.writes[0].as_str();
        assert!(
            first.starts_with(if image == "v3" {
                "create controllerrevisions"
            } else {
                "renumber"
            }),
            "{first}"
        );
        assert_eq!(cluster.revisions().len(), revisions);
        cluster.is_slow = false;
        cluster.send(10);
        cluster.rest();
        assert_eq!((cluster.revisions().len(), cluster.daemonset().status.counts.updated), (1, 2));
    }
}

/// DS-190: the history of a DaemonSet that goes is not cleaned up any more.
#[test]
fn a_clean_up_that_waits_is_taken_back_when_the_daemonset_goes() {
    let mut cluster = mk_clean_up_that_waits();
    cluster.change(
        "daemonsets/ds",
        json!({"metadata": {"deletionTimestamp": "2024-01-01T00:00:00Z"}}),
    );
    cluster.settle();
    assert_eq!((cluster.waiting(), cluster.revisions().len()), (0, 2));
}
