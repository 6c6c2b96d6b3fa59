//! What annotations ask of rollouts. Without them nothing of this happens: all other tests are about that.

use std::collections::{BTreeMap, BTreeSet};

use bailiff_daemonset_core::Profile;
use bailiff_model::rollout::WhyNot;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::model::{Cluster, merge, path_of};
use crate::properties::Dice;
use crate::rollout::{finish_deletes, make_ready, mk, step};

fn annotate(cluster: &mut Cluster, annotation: &str, value: Value) {
    let annotation = format!("bailiff.dev/{annotation}");
    cluster.change("daemonsets/ds", json!({"metadata": {"annotations": {annotation: value}}}));
}

fn reasons(cluster: &Cluster) -> Vec<(WhyNot, u32)> {
    cluster.published.clone().expect("published").reasons
}

fn updated(cluster: &Cluster) -> u32 {
    cluster.daemonset().status.counts.updated
}

/// Nodes by pod.
fn targets(cluster: &Cluster) -> BTreeMap<String, String> {
    let pods = cluster.pods().into_iter();
    pods.map(|pod| (path_of(&pod), pod.target.unwrap_or_default().to_string()))
        .collect()
}

/// Nodes in the order in which these pods of theirs were deleted.
fn deleted(cluster: &Cluster, targets: &BTreeMap<String, String>) -> Vec<String> {
    let paths = cluster.writes.iter().filter_map(|write| write.strip_prefix("delete "));
    paths.filter_map(|path| targets.get(path).cloned()).collect()
}

/// Kubelets work and time passes, but not on these nodes.
fn rest_without(cluster: &mut Cluster, bad: &[&str]) {
    for _ in 0..30 {
        cluster.settle();
        for pod in cluster.pods() {
            if pod.target.as_ref().is_some_and(|node| bad.contains(&node.as_str())) {
                continue;
            }
            if pod.deleting {
                cluster.remove(&path_of(&pod));
            } else if !pod.bound {
                cluster.bind(&pod);
            } else if !pod.ready {
                cluster.set_phase(&pod, "Running", true);
            }
        }
        cluster.pass(1);
    }
}

/// A node stops, or comes back; its pods are marked.
fn set_node(cluster: &mut Cluster, node: &str, ready: bool) {
    let (status, since) = (if ready { "True" } else { "Unknown" }, cluster.now.wall.to_string());
    let condition = json!([{"type": "Ready", "status": status, "lastTransitionTime": since}]);
    cluster.change(&format!("nodes/{node}"), json!({"status": {"conditions": condition}}));
    for pod in cluster.on(node).into_iter().filter(|pod| pod.bound) {
        cluster.set_phase(&pod, "Running", ready);
    }
}

/// Rollout-paused: old pods stay, available or not; what a node lacks is of the current revision, and history is kept.
#[test]
fn a_paused_rollout_replaces_no_old_pod() {
    for (unavailable, surge) in [(2, 0), (0, 2)] {
        let mut cluster = mk(4, json!(unavailable), json!(surge));
        annotate(&mut cluster, "rollout-paused", json!("true"));
        let pod = cluster.on("n0").remove(0);
        cluster.set_phase(&pod, "Running", false);
        cluster.settle();
        cluster.set_image("v2");
        assert_eq!(step(&mut cluster), (0, 0), "surge: {surge}");
        cluster.restart(Profile::Upstream);
        cluster.pass(5);
        assert_eq!(
            (cluster.revisions().len(), reasons(&cluster)),
            (2, vec![(WhyNot::RolloutPaused, 4)])
        );
        cluster.add_node("new", json!({}), json!([]));
        let pod = cluster.on("n1").remove(0);
        cluster.set_phase(&pod, "Failed", false);
        cluster.rest();
        assert_eq!((updated(&cluster), cluster.pods().len()), (2, 5), "surge: {surge}");
        assert_eq!(reasons(&cluster), [(WhyNot::RolloutPaused, 3)]);
        annotate(&mut cluster, "rollout-paused", json!("false"));
        cluster.rest();
        assert_eq!((updated(&cluster), reasons(&cluster)), (5, vec![]), "surge: {surge}");
    }
}

/// Rollout-paused: where a new pod runs beside the old one already, the old one goes.
#[test]
fn what_was_begun_is_finished_while_paused() {
    let mut cluster = mk(3, json!(0), json!(1));
    cluster.set_image("v2");
    assert_eq!(step(&mut cluster), (1, 0));
    annotate(&mut cluster, "rollout-paused", json!("true"));
    cluster.rest();
    assert_eq!((updated(&cluster), cluster.pods().len()), (1, 3));
}

/// Rollout-order: listed values, then numbers, then nodes without the label; with surge too, and whatever failed before.
#[test]
fn nodes_are_served_in_the_order_of_their_label() {
    for (unavailable, surge) in [(1, 0), (0, 1)] {
        let mut cluster = mk(5, json!(unavailable), json!(surge));
        for (node, wave) in [("n0", "10"), ("n1", "9"), ("n3", "canary"), ("n4", "2")] {
            cluster.change(&format!("nodes/{node}"), json!({"metadata": {"labels": {"wave": wave}}}));
        }
        annotate(&mut cluster, "rollout-order", json!("wave=canary"));
        let before = targets(&cluster);
        cluster.set_image("v2");
        cluster.rest();
        assert_eq!(deleted(&cluster, &before), ["n3", "n4", "n1", "n0", "n2"], "surge: {surge}");
        // A node that is labelled anew has another place.
        cluster.change("nodes/n2", json!({"metadata": {"labels": {"wave": "1"}}}));
        let before = targets(&cluster);
        cluster.set_image("v3");
        cluster.rest();
        assert_eq!(deleted(&cluster, &before), ["n3", "n2", "n4", "n1", "n0"], "surge: {surge}");
    }
}

/// Rollout-partition: the last old pods in order stay, whoever comes and goes; less of it lets more go.
#[test]
fn a_partition_keeps_the_last_old_pods() {
    for (unavailable, surge) in [(2, 0), (0, 2)] {
        let mut cluster = mk(5, json!(unavailable), json!(surge));
        annotate(&mut cluster, "rollout-partition", json!("2"));
        let before = targets(&cluster);
        cluster.set_image("v2");
        cluster.rest();
        assert_eq!(
            (updated(&cluster), reasons(&cluster)),
            (3, vec![(WhyNot::RolloutPartition, 2)])
        );
        cluster.restart(Profile::Bailiff);
        cluster.add_node("n9", json!({}), json!([]));
        cluster.rest();
        assert_eq!(updated(&cluster), 4, "a new node has no old pod to keep");
        annotate(&mut cluster, "rollout-partition", json!("20%"));
        cluster.rest();
        assert_eq!((updated(&cluster), deleted(&cluster, &before).len()), (4, 3), "two of six");
        annotate(&mut cluster, "rollout-partition", json!("1"));
        cluster.rest();
        let mut gone = deleted(&cluster, &before);
        gone.sort();
        assert_eq!(gone, ["n0", "n1", "n2", "n3"]);
        annotate(&mut cluster, "rollout-partition", Value::Null);
        cluster.rest();
        assert_eq!((updated(&cluster), reasons(&cluster)), (6, vec![]), "surge: {surge}");
    }
}

/// Rollout-partition: an annotation that is nobody's business here changes nothing in the middle of a rollout.
#[test]
fn other_annotations_move_no_partition() {
    let mut cluster = mk(5, json!(1), json!(0));
    annotate(&mut cluster, "rollout-partition", json!("2"));
    cluster.set_image("v2");
    cluster.settle();
    cluster.change("daemonsets/ds", json!({"metadata": {"annotations": {"other": "1"}}}));
    cluster.settle();
    let pod = cluster.on("n1").remove(0);
    cluster.change(&path_of(&pod), json!({"metadata": {"labels": {"poke": "1"}}}));
    cluster.rest();
    assert_eq!(updated(&cluster), 3);
}

/// Rollout-partition: a node that is let go counts as that, whatever else changes with the number.
#[test]
fn a_partition_that_shrinks_lets_nodes_go_that_change_otherwise() {
    let mut cluster = mk(4, json!(4), json!(0));
    annotate(&mut cluster, "rollout-partition", json!("2"));
    cluster.set_image("v2");
    cluster.rest();
    assert_eq!(updated(&cluster), 2);
    // No pod is available any more, the old ones of n2 and n3 neither.
    let mut ds = cluster.objects["daemonsets/ds"].clone();
    let annotations = json!({"bailiff.dev/rollout-partition": "1"});
    let patch = json!({"metadata": {"generation": 9, "annotations": annotations}, "spec": {"minReadySeconds": 3600}});
    merge(&mut ds, &patch);
    cluster.put("daemonsets/ds", ds);
    cluster.rest();
    assert_eq!(updated(&cluster), 3);
}

/// Rollout-partition, DS-137: a pod that nothing would replace stays as well.
#[test]
fn a_partition_keeps_misplaced_pods() {
    let mut cluster = mk(3, json!(3), json!(0));
    cluster.change(
        "nodes/n1",
        json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}),
    );
    annotate(&mut cluster, "rollout-partition", json!("100%"));
    cluster.set_image("v2");
    cluster.rest();
    assert_eq!((cluster.pods().len(), updated(&cluster)), (3, 0));
    assert_eq!(reasons(&cluster), [(WhyNot::RolloutPartition, 3)]);
}

/// Strict-max-unavailable, DS-136: unavailable old pods are replaced within the budget, not all at once.
#[test]
fn a_strict_budget_counts_broken_old_pods() {
    let run = |strict: Value, unavailable: u32, surge: u32| {
        let mut cluster = mk(8, json!(unavailable), json!(surge));
        annotate(&mut cluster, "strict-max-unavailable", strict);
        for pod in cluster.pods().into_iter().take(5) {
            cluster.set_phase(&pod, "Running", false);
        }
        cluster.settle();
        cluster.set_image("v2");
        let mut story = Vec::new();
        for _ in 0..4 {
            story.push(step(&mut cluster));
            finish_deletes(&mut cluster);
            cluster.settle();
            make_ready(&mut cluster);
        }
        cluster.rest();
        assert_eq!(updated(&cluster), 8);
        story
    };
    // Pods that are made ready meanwhile are old ones too.
    assert_eq!(run(json!("false"), 2, 0)[0], (0, 5));
    assert_eq!(run(json!("true"), 2, 0), [(0, 2); 4]);
    assert_eq!(run(json!("no"), 2, 0), [(0, 2); 4], "a malformed one is strict");
    // With surge a node whose old pod is gone is done, available or not, unless the budget is strict.
    assert_eq!(run(json!("false"), 0, 3)[0], (8, 5));
    assert_eq!(run(json!("true"), 0, 3)[0], (3, 3));
}

/// Exclude-unready-nodes: nodes that are bad since before do not stop the rollout; those that go bad with it halt it.
#[test]
fn nodes_that_were_bad_before_use_up_no_budget() {
    for (exclude, unavailable, surge) in [("false", 1, 0), ("true", 1, 0), ("true", 0, 1)] {
        let what = format!("{exclude}, surge: {surge}");
        let mut cluster = mk(6, json!(unavailable), json!(surge));
        annotate(&mut cluster, "exclude-unready-nodes", json!(exclude));
        set_node(&mut cluster, "n0", false);
        set_node(&mut cluster, "n1", false);
        cluster.pass(10);
        cluster.set_image("v2");
        rest_without(&mut cluster, &["n0", "n1"]);
        if exclude == "false" {
            assert!(updated(&cluster) <= 2, "{what}: stuck, as upstream is");
            continue;
        }
        assert_eq!(reasons(&cluster), [(WhyNot::NodeBadBefore, 2)], "{what}");
        // A rollback is a new rollout: what was bad before it does not count either.
        cluster.set_image("v1");
        rest_without(&mut cluster, &["n0", "n1"]);
        assert_eq!(reasons(&cluster), [(WhyNot::NodeBadBefore, 2)], "{what}");
    }
}

/// Exclude-unready-nodes: as many nodes as the budget allows went bad with the new revision, and it goes no further.
#[test]
fn a_rollout_halts_when_nodes_go_bad_with_it() {
    let mut cluster = mk(6, json!(2), json!(0));
    annotate(&mut cluster, "exclude-unready-nodes", json!("true"));
    set_node(&mut cluster, "n5", false);
    cluster.pass(10);
    cluster.set_image("v2");
    cluster.settle();
    finish_deletes(&mut cluster);
    cluster.settle();
    cluster.pass(1);
    make_ready_but(&mut cluster, "n5");
    for node in ["n0", "n1"] {
        assert_eq!(cluster.on(node).len(), 1);
        set_node(&mut cluster, node, false);
    }
    let pod = cluster.on("n4").remove(0);
    cluster.set_phase(&pod, "Running", false);
    let before = targets(&cluster);
    rest_without(&mut cluster, &["n0", "n1", "n4", "n5"]);
    assert_eq!(
        deleted(&cluster, &before),
        [] as [&str; 0],
        "an unavailable old pod stays too"
    );
    let halted = [
        (WhyNot::NodeBadBefore, 1),
        (WhyNot::NodeBadAfter, 2),
        (WhyNot::RolloutHalted, 3),
    ];
    let mut told = reasons(&cluster);
    told.sort();
    assert_eq!(told, halted);
    // What else happens to its revision makes it no new rollout.
    let path = format!("controllerrevisions/{}", cluster.revisions()[0].name);
    cluster.change(&path, json!({"metadata": {"annotations": {"poke": "1"}}}));
    cluster.settle();
    let pod = path_of(&cluster.on("n0")[0]);
    cluster.change(&pod, json!({"metadata": {"labels": {"poke": "1"}}}));
    rest_without(&mut cluster, &["n0", "n1", "n4", "n5"]);
    let mut told = reasons(&cluster);
    told.sort();
    assert_eq!(told, halted);
    set_node(&mut cluster, "n0", true);
    rest_without(&mut cluster, &["n1", "n5"]);
    assert_eq!(reasons(&cluster), [(WhyNot::NodeBadBefore, 1), (WhyNot::NodeBadAfter, 1)]);
}

fn make_ready_but(cluster: &mut Cluster, bad: &str) {
    for pod in cluster.pods() {
        if pod.target.as_ref().is_some_and(|node| node.as_str() != bad) && !pod.ready {
            cluster.bind(&pod);
            cluster.set_phase(&pod, "Running", true);
        }
    }
}

/// Opt-in: what is malformed is said once, again after a restart, and holds as long as it stands.
#[test]
fn malformed_annotations_are_complained_about_once() {
    let mut cluster = mk(3, json!(1), json!(0));
    let complaints = |cluster: &Cluster| -> Vec<String> {
        let events = cluster.events.iter().filter(|event| event.starts_with("InvalidAnnotation "));
        events.cloned().collect()
    };
    annotate(&mut cluster, "rollout-paused", json!("yes"));
    cluster.set_image("v2");
    cluster.rest();
    assert_eq!(
        (complaints(&cluster).len(), updated(&cluster)),
        (1, 0),
        "{:?}",
        cluster.events
    );
    assert!(complaints(&cluster)[0].contains("bailiff.dev/rollout-paused: \"yes\""));
    cluster.restart(Profile::Bailiff);
    cluster.rest();
    assert_eq!(complaints(&cluster).len(), 2);
    annotate(&mut cluster, "rollout-paused", Value::Null);
    annotate(&mut cluster, "rollout-pause", json!("true"));
    cluster.rest();
    assert_eq!((complaints(&cluster).len(), updated(&cluster)), (3, 3));
    assert!(complaints(&cluster)[2].contains("it is ignored"));
}

/// Rollout-conditions: in the same write as counters, and rarely by itself; others' conditions stay; taken off with the
/// annotation, and never written without it (DS-144).
#[test]
fn a_condition_tells_why_a_rollout_is_not_complete() {
    let mut cluster = mk(3, json!(1), json!(0));
    let foreign = json!([{"type": "Foreign", "status": "True"}]);
    cluster.change("daemonsets/ds", json!({"status": {"conditions": foreign}}));
    let conditions = |cluster: &Cluster| cluster.objects["daemonsets/ds"]["status"]["conditions"].clone();
    cluster.rest();
    assert_eq!((conditions(&cluster), cluster.writes.len()), (foreign.clone(), 0));
    annotate(&mut cluster, "rollout-conditions", json!("true"));
    cluster.rest();
    let told = |cluster: &Cluster| {
        let ours = &conditions(cluster)[1];
        assert_eq!(
            (&conditions(cluster)[0], &ours["type"]),
            (&foreign[0], &json!("bailiff.dev/RolloutComplete"))
        );
        (
            ours["status"].clone(),
            ours["reason"].clone(),
            ours["lastTransitionTime"].clone(),
        )
    };
    let (status, reason, since) = told(&cluster);
    assert_eq!((status, reason, cluster.writes.len()), (json!("True"), json!("Complete"), 1));
    annotate(&mut cluster, "rollout-paused", json!("true"));
    cluster.set_image("v2");
    cluster.rest();
    cluster.pass(30);
    let (status, reason, changed) = told(&cluster);
    assert_eq!((status, reason), (json!("False"), json!("RolloutPaused")));
    assert_ne!(since, changed);
    let writes = cluster.writes.len();
    cluster.restart(Profile::Bailiff);
    cluster.pass(60);
    assert_eq!(cluster.writes.len(), writes, "{:?}", cluster.writes);
    annotate(&mut cluster, "rollout-paused", Value::Null);
    cluster.rest();
    cluster.pass(30);
    assert_eq!(told(&cluster).1, json!("Complete"));
    annotate(&mut cluster, "rollout-conditions", Value::Null);
    cluster.rest();
    assert_eq!(conditions(&cluster), foreign);
}

/// A rollout under lagging watches: kubelets, deliveries and time in any order. `look` sees every state of the API server.
fn play(cluster: &mut Cluster, dice: &mut Dice, mut look: impl FnMut(&Cluster)) {
    for _ in 0..250 {
        match dice.roll(12) {
            0 => {
                cluster.settle();
                cluster.pass_one_second();
            }
            1..=5 => {
                let pods = cluster.pods();
                match dice.pick(&pods) {
                    Some(pod) if pod.deleting => cluster.remove(&path_of(&pod)),
                    Some(pod) if !pod.bound => cluster.bind(&pod),
                    Some(pod) if !pod.ready => cluster.set_phase(&pod, "Running", true),
                    _ => {}
                }
            }
            _ => {
                let pending = cluster.pending();
                if let Some(stream) = dice.pick(&pending) {
                    cluster.deliver(stream);
                }
            }
        }
        look(cluster);
    }
    cluster.rest_longer();
    look(cluster);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    /// Strict-max-unavailable: whatever was broken before, the rollout has taken no more pods than the budget allows.
    #[test]
    fn a_strict_budget_is_never_exceeded(seed in any::<u64>()) {
        let mut dice = Dice(seed);
        let (nodes, budget) = (3 + dice.roll(5) as usize, 1 + dice.roll(3) as usize);
        let mut cluster = mk(nodes, json!(budget), json!(0));
        annotate(&mut cluster, "strict-max-unavailable", json!("true"));
        let broken = dice.roll(nodes as u64 + 1) as usize;
        for pod in cluster.pods().into_iter().take(broken) {
            cluster.set_phase(&pod, "Running", false);
        }
        cluster.settle();
        cluster.set_image("v2");
        play(&mut cluster, &mut dice, |cluster| {
            let is_there = |node: &usize| cluster.on(&format!("n{node}")).iter().any(|pod| !pod.deleting);
            let is_served = |node: &usize| cluster.on(&format!("n{node}")).iter().any(|pod| pod.ready && !pod.deleting);
            let gone = nodes - (0..nodes).filter(is_there).count();
            let lacking = nodes - (0..nodes).filter(is_served).count();
            assert!(gone <= budget && lacking <= budget.max(broken), "{gone} gone, {lacking} lack one: {:#?}", cluster.writes);
        });
        prop_assert_eq!(updated(&cluster) as usize, nodes);
    }

    /// Rollout-partition and rollout-order: the pods of the last nodes are never touched, all others are, in order.
    #[test]
    fn a_partition_is_never_undercut_and_the_order_kept(seed in any::<u64>()) {
        let mut dice = Dice(seed);
        let (nodes, kept) = (2 + dice.roll(6) as usize, dice.roll(8) as usize);
        let amount = 1 + dice.roll(3);
        let (unavailable, surge) = if dice.roll(2) == 0 { (0, amount) } else { (amount, 0) };
        let mut cluster = mk(nodes, json!(unavailable), json!(surge));
        let mut order = Vec::new();
        for node in 0..nodes {
            let wave = dice.roll(3);
            cluster.change(&format!("nodes/n{node}"), json!({"metadata": {"labels": {"wave": wave.to_string()}}}));
            order.push((wave, format!("n{node}")));
        }
        order.sort();
        let order: Vec<String> = order.into_iter().map(|(_, node)| node).collect();
        let going = &order[..nodes.saturating_sub(kept)];
        annotate(&mut cluster, "rollout-order", json!("wave"));
        annotate(&mut cluster, "rollout-partition", json!(kept.to_string()));
        cluster.settle();
        let before = targets(&cluster);
        cluster.set_image("v2");
        play(&mut cluster, &mut dice, |cluster| {
            let stays: BTreeSet<String> = targets(cluster).into_iter().filter(|pod| before.get(&pod.0) == Some(&pod.1)).map(|pod| pod.1).collect();
            assert!(order[going.len()..].iter().all(|node| stays.contains(node)), "{:#?}", cluster.writes);
        });
        let mut rolled = deleted(&cluster, &before);
        if surge > 0 {
            // Old pods go as new ones become available, in any order.
            rolled.sort_by_key(|node| order.iter().position(|one| one == node));
        }
        prop_assert_eq!(&rolled, going);
        prop_assert_eq!(updated(&cluster) as usize, going.len());
    }
}
