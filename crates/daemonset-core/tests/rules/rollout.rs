//! Rolling updates, with and without surge; upstream's update_test.go as stories.

use bailiff_daemonset_core::{FailureKind, Input, Profile, Urgency};
use serde_json::{Value, json};

use crate::model::{Cluster, path_of};

pub fn mk(nodes: usize, max_unavailable: Value, max_surge: Value) -> Cluster {
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": max_unavailable, "maxSurge": max_surge}});
    let mut cluster = Cluster::with(nodes, json!({"updateStrategy": strategy}));
    cluster.rest();
    cluster.writes.clear();
    cluster
}

/// Delivers everything, and says how many pods were created and deleted.
pub fn step(cluster: &mut Cluster) -> (usize, usize) {
    let from = cluster.writes.len();
    cluster.settle();
    let count = |prefix: &str| {
        cluster.writes[from..]
            .iter()
            .filter(|write| write.starts_with(prefix))
            .count()
    };
    (count("create pods"), count("delete pods"))
}

pub fn finish_deletes(cluster: &mut Cluster) {
    for pod in cluster.pods().into_iter().filter(|pod| pod.deleting) {
        cluster.remove(&path_of(&pod));
    }
}

pub fn make_ready(cluster: &mut Cluster) {
    for pod in cluster.pods().into_iter().filter(|pod| !pod.deleting && !pod.ready) {
        cluster.bind(&pod);
        cluster.set_phase(&pod, "Running", true);
    }
}

/// DS-134, DS-135; upstream's TestDaemonSetUpdatesPods
#[test]
fn max_unavailable_bounds_what_is_replaced_at_once() {
    let mut cluster = mk(5, json!(2), json!(0));
    cluster.set_image("v2");
    let mut story = Vec::new();
    for _ in 0..4 {
        story.push(step(&mut cluster));
        finish_deletes(&mut cluster);
        story.push(step(&mut cluster));
        make_ready(&mut cluster);
    }
    assert_eq!(story, [(0, 2), (2, 0), (0, 2), (2, 0), (0, 1), (1, 0), (0, 0), (0, 0)]);
}

/// DS-135; upstream's TestDaemonSetUpdatesWhenNewPodIsNotReady
#[test]
fn an_unready_new_pod_stops_the_rollout() {
    let mut cluster = mk(5, json!(3), json!(0));
    cluster.set_image("v2");
    assert_eq!(step(&mut cluster), (0, 3));
    finish_deletes(&mut cluster);
    assert_eq!(step(&mut cluster), (3, 0));
    for _ in 0..3 {
        assert_eq!(step(&mut cluster), (0, 0));
    }
}

/// DS-136; upstream's TestDaemonSetUpdatesAllOldPodsNotReady, TestDaemonSetUpdatesSaveOldHealthyPods
#[test]
fn broken_old_pods_are_replaced_all_at_once_and_healthy_ones_saved() {
    let mut cluster = mk(20, json!(5), json!(0));
    for pod in cluster.pods().into_iter().take(10) {
        cluster.set_phase(&pod, "Running", false);
    }
    cluster.settle();
    cluster.set_image("v2");
    assert_eq!(step(&mut cluster), (0, 10), "ten unready ones use up the five");
    let ready = cluster.pods().into_iter().filter(|pod| pod.ready && !pod.deleting).count();
    assert_eq!(ready, 10);
}

/// DS-132, DS-174: percentages, and a budget of nothing means one.
#[test]
fn budgets_may_be_percentages() {
    for (nodes, limit, wanted) in [
        (4, json!("50%"), 2),
        (3, json!("50%"), 2),
        (5, json!("1%"), 1),
        (5, json!(0), 1),
    ] {
        let mut cluster = mk(nodes, limit.clone(), json!(0));
        cluster.set_image("v2");
        assert_eq!(step(&mut cluster), (0, wanted), "{limit} of {nodes}");
    }
}

/// DS-118, DS-134: minReadySeconds paces the rollout by itself.
#[test]
fn min_ready_seconds_paces_the_rollout() {
    let mut cluster = mk(2, json!(1), json!(0));
    cluster.edit(json!({"minReadySeconds": 30}));
    cluster.pass(60);
    cluster.set_image("v2");
    step(&mut cluster);
    finish_deletes(&mut cluster);
    step(&mut cluster);
    make_ready(&mut cluster);
    cluster.pass(25);
    let deletes = |cluster: &Cluster| cluster.writes.iter().filter(|write| write.starts_with("delete pods")).count();
    assert_eq!(deletes(&cluster), 1);
    cluster.pass(10);
    assert_eq!(deletes(&cluster), 2);
}

/// DS-137: an old pod where it may only stay is replaced by nothing.
#[test]
fn a_pod_on_a_tainted_node_is_lost_in_a_rollout() {
    let mut cluster = mk(2, json!(2), json!(0));
    cluster.change(
        "nodes/n1",
        json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}),
    );
    cluster.settle();
    cluster.set_image("v2");
    cluster.rest();
    assert_eq!((cluster.on("n0").len(), cluster.on("n1").len()), (1, 0));
}

/// DS-132, DS-136, DS-137: the same without any node that should run one, so that a percentage comes to nothing.
#[test]
fn a_broken_pod_where_none_should_be_is_lost_in_a_rollout() {
    let mut cluster = mk(1, json!("50%"), json!(0));
    cluster.change(
        "nodes/n0",
        json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}),
    );
    let pod = cluster.on("n0").remove(0);
    cluster.set_phase(&pod, "Running", false);
    cluster.settle();
    cluster.set_image("v2");
    cluster.rest();
    assert_eq!(cluster.pods().len(), 0);
}

/// DS-140, DS-141
#[test]
fn on_delete_replaces_only_what_others_delete() {
    let mut cluster = mk(2, json!(1), json!(0));
    cluster.edit(json!({"updateStrategy": {"type": "OnDelete"}}));
    cluster.settle();
    cluster.set_image("v2");
    cluster.rest();
    assert_eq!(cluster.daemonset().status.counts.updated, 0);
    let pod = cluster.on("n0").remove(0);
    cluster.remove(&path_of(&pod));
    cluster.rest();
    assert_eq!(cluster.daemonset().status.counts.updated, 1);
    let sync = cluster.published.clone().expect("published");
    assert_eq!(sync.nodes.len(), 1);
    assert_eq!(
        (sync.nodes[0].node.as_str(), sync.nodes[0].reason),
        ("n1", bailiff_model::rollout::WhyNot::OnDelete)
    );
}

/// DS-130, DS-211: pods that carry the template generation are current even if the revision's identity changed.
#[test]
fn the_generation_label_is_a_safety_net() {
    let mut cluster = mk(2, json!(1), json!(0));
    for pod in cluster.pods() {
        cluster.change(
            &path_of(&pod),
            json!({"metadata": {"labels": {"controller-revision-hash": "foreign"}}}),
        );
    }
    cluster.rest();
    assert_eq!(cluster.writes, [] as [String; 0]);
    assert_eq!(cluster.daemonset().status.counts.updated, 2);
}

/// DS-138, DS-143; upstream's TestDaemonSetUpdatesPodsWithMaxSurge
#[test]
fn surge_creates_first_and_deletes_when_the_new_pod_is_available() {
    let mut cluster = mk(5, json!(0), json!(2));
    cluster.set_image("v2");
    let mut story = Vec::new();
    for _ in 0..6 {
        story.push(step(&mut cluster));
        finish_deletes(&mut cluster);
        make_ready(&mut cluster);
    }
    assert_eq!(story, [(2, 0), (2, 2), (1, 2), (0, 1), (0, 0), (0, 0)]);
    assert_eq!(cluster.pods().len(), 5);
}

/// DS-138; upstream's TestDaemonSetUpdatesAllOldPodsNotReadyMaxSurge
#[test]
fn unready_old_pods_are_surged_outside_the_limit() {
    let mut cluster = mk(5, json!(0), json!(3));
    for pod in cluster.pods() {
        cluster.set_phase(&pod, "Running", false);
    }
    cluster.settle();
    cluster.set_image("v2");
    assert_eq!(step(&mut cluster).0, 5);
}

/// DS-138: misplaced available pods go only once enough others serve.
#[test]
fn misplaced_old_pods_go_late_while_surging() {
    let toleration = json!([{"key": "zone", "operator": "Equal", "value": "z", "effect": "NoSchedule"}]);
    let strategy = json!({"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}});
    let mut cluster = Cluster::new(Profile::Bailiff);
    for (name, zone) in [("n0", "y"), ("n1", "y"), ("n2", "z")] {
        cluster.add_node(
            name,
            json!({}),
            json!([{"key": "zone", "value": zone, "effect": "NoSchedule"}]),
        );
    }
    cluster.add_daemonset(
        "ds",
        json!({"updateStrategy": strategy, "template": {"spec": {"tolerations": [{"operator": "Exists"}]}}}),
    );
    cluster.rest();
    assert_eq!(cluster.pods().len(), 3);
    let wanted = cluster.on("n2").remove(0);
    cluster.set_phase(&wanted, "Running", false);
    cluster.settle();
    cluster.edit(json!({"template": {"spec": {"tolerations": toleration}}}));
    cluster.settle();
    let misplaced = ["n0", "n1"].into_iter().flat_map(|node| cluster.on(node));
    let serving = misplaced.filter(|pod| !pod.deleting).count();
    assert_eq!(serving, 1, "as many as are wanted, until the wanted one serves");
    cluster.rest();
    let left: Vec<_> = cluster.pods().into_iter().filter_map(|pod| pod.target).collect();
    assert_eq!(left.iter().map(|node| node.as_str()).collect::<Vec<_>>(), ["n2"]);
    assert_eq!(cluster.daemonset().status.counts.updated, 1);
}

/// DS-104, DS-102: an old pod deleted by hand is replaced at once, above the limit.
#[test]
fn a_deleted_pod_is_replaced_at_once_while_surging() {
    let mut cluster = mk(3, json!(0), json!(1));
    let pod = cluster.on("n0").remove(0);
    cluster.change(
        &path_of(&pod),
        json!({"metadata": {"deletionTimestamp": "2024-01-01T00:00:00Z"}}),
    );
    assert_eq!(step(&mut cluster), (1, 0));
    assert_eq!(cluster.on("n0").len(), 2);
}

/// DS-139, DS-232: a pod left on a deleted node stops upstream's surge rollout until the node is there again, and not ours.
#[test]
fn a_pod_on_a_deleted_node_does_not_stop_a_surge() {
    for (profile, created) in [(Profile::Bailiff, true), (Profile::Upstream, false)] {
        let mut cluster = mk(3, json!(0), json!(1));
        cluster.restart(profile);
        cluster.remove("nodes/n2");
        cluster.set_image("v2");
        let (creates, _) = step(&mut cluster);
        assert_eq!(creates > 0, created, "{profile:?}");
        cluster.add_node("n2", json!({}), json!([]));
        cluster.rest();
        let updated = cluster.daemonset().status.counts.updated;
        assert_eq!(updated, 3, "{profile:?}");
    }
}

/// DS-033, DS-233: a restart in the middle of a surge goes on by itself.
#[test]
fn a_restart_during_a_surge_loses_no_timer() {
    let mut cluster = mk(1, json!(0), json!(1));
    cluster.edit(json!({"minReadySeconds": 30}));
    cluster.pass(60);
    cluster.set_image("v2");
    step(&mut cluster);
    make_ready(&mut cluster);
    cluster.pass(5);
    cluster.restart(Profile::Bailiff);
    cluster.pass(40);
    assert!(
        cluster.writes.iter().any(|write| write.starts_with("delete pods")),
        "{:?}",
        cluster.writes
    );
}

/// DS-029, DS-052, DS-228: deletes are known by uid, so that a lagging watch never lets a rollout exceed its budget.
#[test]
fn a_lagging_watch_does_not_widen_the_budget() {
    let mut cluster = mk(6, json!(1), json!(0));
    cluster.set_image("v2");
    cluster.deliver(2);
    for _ in 0..50 {
        // Only answers arrive.
        cluster.deliver(4);
        cluster.feed(Input::Tick);
    }
    let deletes = cluster.writes.iter().filter(|write| write.starts_with("delete pods")).count();
    assert_eq!(deletes, 1);
}

/// DS-133, DS-231: old pods where no pod should be, and on nodes that do not exist, are rolled too; nodes go in order of name.
#[test]
fn pods_of_nodes_that_are_gone_are_rolled_too() {
    let mut cluster = mk(3, json!(1), json!(0));
    cluster.remove("nodes/n0");
    cluster.rest();
    assert_eq!(cluster.pods().len(), 3, "left to the pod garbage collector");
    cluster.set_image("v2");
    let first = format!("delete {}", path_of(&cluster.on("n0")[0]));
    cluster.writes.clear();
    cluster.rest();
    let deletes: Vec<&String> = cluster
        .writes
        .iter()
        .filter(|write| write.starts_with("delete pods"))
        .collect();
    assert_eq!((deletes.len(), deletes[0]), (3, &first), "{:?}", cluster.writes);
    assert_eq!((cluster.on("n0").len(), cluster.pods().len()), (0, 2));
}

/// DS-136: an old failed pod that waits for its backoff is replaced by the rolling update all the same.
#[test]
fn a_rolling_update_does_not_wait_for_failed_pods() {
    let mut cluster = mk(1, json!(1), json!(0));
    for _ in 0..3 {
        cluster.rest();
        let pod = cluster.on("n0").remove(0);
        cluster.set_phase(&pod, "Failed", false);
        cluster.settle();
    }
    cluster.settle();
    for pod in cluster.on("n0") {
        cluster.bind(&pod);
        cluster.set_phase(&pod, "Failed", false);
    }
    let from = cluster.writes.len();
    assert_eq!(step(&mut cluster), (0, 0), "it waits: {:?}", &cluster.writes[from..]);
    cluster.set_image("v2");
    let (_, deletes) = step(&mut cluster);
    assert_eq!(deletes, 1);
}

/// DS-227: while surging, a node that rejects every pod gets them at the pace of the backoff; upstream's at its own.
#[test]
fn a_node_that_rejects_every_pod_is_not_flooded_while_surging() {
    let creates = |profile| {
        let mut cluster = mk(1, json!(0), json!(1));
        cluster.restart(profile);
        let pod = cluster.on("n0").remove(0);
        cluster.set_phase(&pod, "Failed", false);
        for _ in 0..300 {
            cluster.settle();
            for pod in cluster.pods().into_iter().filter(|pod| !pod.is_terminal()) {
                cluster.bind(&pod);
                cluster.set_phase(&pod, "Failed", false);
            }
            cluster.pass(1);
        }
        cluster.writes.iter().filter(|write| write.starts_with("create pods")).count()
    };
    // 1 + 2 + 4 + … + 128 s
    assert_eq!(creates(Profile::Bailiff), 9);
    assert!(creates(Profile::Upstream) > 250);
}

/// DS-138: another revision's rollout begins at the beginning, whichever node could not be served before.
#[test]
fn a_new_rollout_begins_at_the_beginning() {
    let mut cluster = mk(3, json!(0), json!(1));
    cluster.failures.push(("create pods n1", FailureKind::Other));
    cluster.set_image("v2");
    cluster.pass(1);
    cluster.kubelets();
    cluster.pass(1);
    cluster.kubelets();
    cluster.pass(1);
    assert!(cluster.writes.contains(&"create pods n2".to_owned()), "{:?}", cluster.writes);
    cluster.failures.clear();
    cluster.kubelets();
    cluster.settle();
    cluster.writes.clear();
    cluster.set_image("v3");
    cluster.settle();
    let first = cluster.writes.iter().find(|write| write.starts_with("create pods"));
    assert_eq!(first.map(String::as_str), Some("create pods n0"), "{:?}", cluster.writes);
}

/// Lanes: what a rollout has taken is replaced after what nodes lack, and what somebody else takes later is lacking.
#[test]
fn a_pod_that_is_lost_after_its_rollout_is_missing() {
    let mut cluster = mk(2, json!(1), json!(0));
    cluster.urgencies.clear();
    cluster.set_image("v2");
    cluster.rest();
    assert_eq!(cluster.urgencies, [Urgency::Replacing; 2]);
    let pod = cluster.on("n0").remove(0);
    cluster.remove(&path_of(&pod));
    cluster.settle();
    assert_eq!(cluster.urgencies[2..], [Urgency::Missing]);
}

/// Lanes: a DaemonSet that lacks many pods at once is urgent for the first of them only, unless it is critical.
#[test]
fn many_missing_pods_take_turns_with_rollouts() {
    for (class, urgent, wanted) in [
        (json!("plain"), Urgency::Missing, 91),
        (json!("system-cluster-critical"), Urgency::ClusterCritical, 100),
    ] {
        let cluster = {
            let mut cluster = Cluster::with(100, json!({"template": {"spec": {"priorityClassName": class}}}));
            cluster.settle();
            cluster
        };
        // In batches of 1, 2, 4, 8, 16, 32 and 37.
        let count = cluster.urgencies.iter().filter(|urgency| **urgency == urgent).count();
        assert_eq!((count, cluster.urgencies.len()), (wanted, 100), "{class}");
    }
}

/// DS-220, DS-221: cost follows change; a pod event of one node is one decision, whatever the number of nodes.
#[test]
fn inputs_of_a_rollout_grow_linearly() {
    let inputs = |nodes: usize| {
        let mut cluster = Cluster::with(nodes, json!({"updateStrategy": {"rollingUpdate": {"maxUnavailable": "10%"}}}));
        cluster.rest();
        cluster.set_image("v2");
        cluster.rest();
        (cluster.inputs, cluster.writes.len())
    };
    let (small, large) = (inputs(20), inputs(200));
    assert!(large.0 <= small.0 * 12 && large.1 <= small.1 * 12, "{small:?} {large:?}");
}
