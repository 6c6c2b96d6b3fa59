//! Stories in which something else changes in the middle: strategy, selector, budgets, nodes, pods that fail.

use bailiff_daemonset_core::FailureKind;
use serde_json::{Value, json};

use crate::model::{Cluster, merge, path_of};
use crate::rollout::mk;

fn deletes(cluster: &Cluster) -> usize {
    count(cluster, "delete pods")
}

fn count(cluster: &Cluster, prefix: &str) -> usize {
    cluster.writes.iter().filter(|write| write.starts_with(prefix)).count()
}

/// Nodes whose pod that stays is of this template generation.
fn of_generation(cluster: &Cluster, generation: &str) -> Vec<String> {
    let pods = cluster.pods().into_iter();
    let is_it = |pod: &bailiff_daemonset_core::Pod| {
        !pod.deleting
            && pod
                .labels
                .get("pod-template-generation")
                .is_some_and(|label| &**label == generation)
    };
    let mut nodes: Vec<String> = pods.filter(is_it).filter_map(|pod| Some(pod.target?.to_string())).collect();
    nodes.sort();
    nodes
}

/// DS-140, DS-141: OnDelete stops a rollout where it is, and RollingUpdate takes it up there: nobody restarts twice.
#[test]
fn on_delete_in_the_middle_stops_a_rollout_and_going_back_finishes_it() {
    let mut cluster = mk(4, json!(1), json!(0));
    cluster.set_image("v2");
    while of_generation(&cluster, "2").is_empty() {
        cluster.settle();
        cluster.kubelets();
        cluster.pass(1);
    }
    cluster.edit(json!({"updateStrategy": {"type": "OnDelete", "rollingUpdate": null}}));
    cluster.rest();
    let stopped = of_generation(&cluster, "1").len();
    assert!((2..4).contains(&stopped), "{stopped} are still old");
    assert_eq!(cluster.pods().len(), 4);
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}});
    cluster.edit(json!({"updateStrategy": strategy}));
    cluster.rest();
    assert_eq!((of_generation(&cluster, "2").len(), deletes(&cluster)), (4, 4));
    assert_eq!(cluster.revisions().len(), 2, "the strategy is in no revision (DS-152)");
}

/// DS-062, DS-170: a selector may be made of expressions.
#[test]
fn selectors_may_be_expressions() {
    let expressions = json!([
        {"key": "app", "operator": "In", "values": ["ds", "other"]},
        {"key": "tier", "operator": "DoesNotExist"},
    ]);
    let selector = json!({"matchLabels": null, "matchExpressions": expressions});
    let mut cluster = Cluster::with(2, json!({"selector": selector}));
    cluster.rest();
    assert_eq!((cluster.pods().len(), cluster.daemonset().status.counts.available), (2, 2));
    // One that stops matching is let go, and another one is made in its place.
    let pod = cluster.on("n0")[0].clone();
    cluster.change(&path_of(&pod), json!({"metadata": {"labels": {"tier": "x"}}}));
    cluster.rest();
    assert_eq!((count(&cluster, "release pods"), cluster.on("n0").len()), (1, 2));
    assert_eq!(deletes(&cluster), 0);
}

/// DS-118, DS-134, DS-148: minReadySeconds raised in the middle makes the rollout wait longer, lowered it goes on at once. Old pods were
/// ready for longer than any of these; else they would count as broken.
#[test]
fn min_ready_seconds_may_change_in_the_middle_of_a_rollout() {
    let mut cluster = mk(3, json!(1), json!(0));
    cluster.pass(1000);
    cluster.edit(json!({"minReadySeconds": 60}));
    cluster.set_image("v2");
    cluster.rest();
    assert_eq!(of_generation(&cluster, "2").len(), 1, "the first is not available yet");
    cluster.edit(json!({"minReadySeconds": 600}));
    cluster.pass(120);
    assert_eq!(deletes(&cluster), 1, "and it takes longer now");
    cluster.edit(json!({"minReadySeconds": 0}));
    cluster.rest();
    assert_eq!((of_generation(&cluster, "2").len(), deletes(&cluster)), (3, 3));
}

/// DS-161: a limit of 0 keeps what pods still have, and nothing else.
#[test]
fn a_history_limit_of_nothing_keeps_live_revisions_only() {
    let mut cluster = mk(3, json!(1), json!(0));
    cluster.edit(json!({"revisionHistoryLimit": 0, "updateStrategy": {"type": "OnDelete", "rollingUpdate": null}}));
    for image in ["v2", "v3"] {
        cluster.set_image(image);
        cluster.rest();
    }
    let numbers = |cluster: &Cluster| -> Vec<i64> {
        let mut numbers: Vec<i64> = cluster.revisions().iter().map(|revision| revision.number).collect();
        numbers.sort_unstable();
        numbers
    };
    assert_eq!(numbers(&cluster), [1, 3], "the first has pods, the second none");
    for pod in cluster.pods() {
        cluster.change(
            &path_of(&pod),
            json!({"metadata": {"deletionTimestamp": cluster.now.wall.to_string()}}),
        );
    }
    cluster.rest();
    assert_eq!((numbers(&cluster), of_generation(&cluster, "3").len()), (vec![3], 3));
}

/// DS-161: of revisions with the same number the one that was made first goes first, whatever they are called.
#[test]
fn of_equal_numbers_the_oldest_revision_goes_first() {
    for names in [["a", "b"], ["b", "a"]] {
        let mut cluster = mk(1, json!(1), json!(0));
        let mut twin = cluster.objects[&format!("controllerrevisions/{}", cluster.revisions()[0].name)].clone();
        for name in names {
            let labels = json!({"app": "ds", "controller-revision-hash": name});
            let patch = json!({"metadata": {"name": name, "uid": null, "labels": labels}, "data": {"is": name}, "revision": 0});
            merge(&mut twin, &patch);
            cluster.put(&format!("controllerrevisions/{name}"), twin.clone());
            cluster.pass(1);
        }
        cluster.edit(json!({"revisionHistoryLimit": 1}));
        cluster.rest();
        let is_left = |name: &str| cluster.objects.contains_key(&format!("controllerrevisions/{name}"));
        assert_eq!(names.map(is_left), [false, true], "{names:?}");
    }
}

/// DS-131, DS-132: a percentage of few nodes is rounded up, so that 1 % surges one node at a time; and 100 % all of them.
#[test]
fn a_small_percentage_surges_one_node_at_a_time() {
    for (percent, at_once) in [("1%", 1), ("34%", 2), ("100%", 3)] {
        let mut cluster = mk(3, json!(0), json!(percent));
        cluster.set_image("v2");
        cluster.settle();
        cluster.pass(1);
        assert_eq!(of_generation(&cluster, "2").len(), at_once, "{percent}");
        assert_eq!(deletes(&cluster), 0, "{percent}");
        cluster.rest();
        assert_eq!((of_generation(&cluster, "2").len(), deletes(&cluster)), (3, 3), "{percent}");
    }
}

/// DS-109, DS-138, DS-226: a node that goes while its new pod waits beside the old one gives its place in the surge to another.
#[test]
fn a_node_deleted_while_it_surges_frees_its_place() {
    let mut cluster = mk(3, json!(0), json!(1));
    cluster.set_image("v2");
    cluster.settle();
    cluster.pass(1);
    let surging = of_generation(&cluster, "2");
    assert_eq!(surging, ["n0"]);
    cluster.remove("nodes/n0");
    cluster.settle();
    cluster.pass(1);
    assert_eq!(of_generation(&cluster, "2"), ["n1"], "the unbound one of n0 is deleted");
    // The pod garbage collector takes the rest.
    for pod in cluster.on("n0") {
        cluster.remove(&path_of(&pod));
    }
    cluster.rest();
    assert_eq!(of_generation(&cluster, "2"), ["n1", "n2"]);
    assert_eq!(cluster.daemonset().status.counts.desired, 2);
}

/// DS-101, DS-105, DS-135: a new pod that the kubelet evicts in the middle of a rollout is replaced, and counts against the budget until
/// another one is there.
#[test]
fn a_new_pod_evicted_by_its_kubelet_holds_the_rollout_until_it_is_replaced() {
    let mut cluster = mk(3, json!(1), json!(0));
    cluster.set_image("v2");
    cluster.settle();
    cluster.kubelets();
    cluster.pass(1);
    let pod = cluster.on("n0").into_iter().find(|pod| !pod.deleting).expect("the new one");
    cluster.bind(&pod);
    cluster.set_phase(&pod, "Failed", false);
    cluster.settle();
    cluster.pass(1);
    assert_eq!(of_generation(&cluster, "1"), ["n1", "n2"], "nobody else goes meanwhile");
    assert!(cluster.events.iter().any(|event| event.starts_with("FailedDaemonPod")));
    cluster.rest();
    assert_eq!(of_generation(&cluster, "2").len(), 3);
    assert_eq!(
        (deletes(&cluster), cluster.revisions().len()),
        (4, 2),
        "three old ones and the failed one"
    );
}

/// DS-080: what ports, resources and other pods a node has, and whether it is ready, keeps no daemon pod from being created.
#[test]
fn ports_and_room_are_the_schedulers_business() {
    let mut cluster = Cluster::with(0, json!({}));
    let container = json!({
        "name": "c", "image": "v1", "ports": [{"containerPort": 80, "hostPort": 80}], "resources": {"requests": {"cpu": "64"}},
    });
    cluster.edit(json!({"template": {"spec": {"containers": [container]}}}));
    let node = json!({"metadata": {"name": "n0"}, "spec": {"unschedulable": true},
        "status": {"allocatable": {"cpu": "1"}, "conditions": [{"type": "Ready", "status": "False"}]}});
    cluster.put("nodes/n0", node);
    let foreign = json!({"metadata": {"name": "web", "namespace": "ns", "labels": {"app": "web"},
            "ownerReferences": [{"kind": "ReplicaSet", "name": "web", "uid": "rs", "controller": true}]},
        "spec": {"nodeName": "n0", "containers": [container_with_port()]}, "status": {"phase": "Running"}});
    cluster.put("pods/web", foreign);
    cluster.rest();
    assert_eq!(count(&cluster, "create pods"), 1);
    assert_eq!(deletes(&cluster), 0);
}

fn container_with_port() -> Value {
    json!({"name": "c", "image": "web", "ports": [{"containerPort": 80, "hostPort": 80}]})
}

/// DS-155: going back and forth between two templates renumbers their two revisions, and makes no third; pods that were not replaced yet
/// are current again at once.
#[test]
fn going_back_and_forth_renumbers_two_revisions() {
    let mut cluster = mk(3, json!(1), json!(0));
    let mut wanted = 1;
    for image in ["v2", "v1", "v2", "v1"] {
        cluster.set_image(image);
        wanted += 1;
        cluster.rest();
        let mut numbers: Vec<i64> = cluster.revisions().iter().map(|revision| revision.number).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, [wanted - 1, wanted], "{image}");
    }
    assert_eq!(deletes(&cluster), 12);
    // Back before anything was done: nobody restarts.
    cluster.set_image("v2");
    cluster.deliver(crate::model::DAEMONSETS);
    cluster.set_image("v1");
    cluster.deliver(crate::model::DAEMONSETS);
    cluster.rest();
    assert_eq!(deletes(&cluster), 12, "{:?}", cluster.writes);
}

/// DS-132, DS-135: a budget that is raised in the middle is used at once, and one that is lowered stops what exceeds it.
#[test]
fn a_budget_may_change_in_the_middle_of_a_rollout() {
    let budget = |amount: u32| json!({"updateStrategy": {"rollingUpdate": {"maxUnavailable": amount, "maxSurge": 0}}});
    let mut cluster = mk(6, json!(1), json!(0));
    cluster.set_image("v2");
    cluster.settle();
    assert_eq!(deletes(&cluster), 1);
    cluster.edit(budget(4));
    cluster.settle();
    assert_eq!(deletes(&cluster), 4);
    cluster.edit(budget(1));
    cluster.settle();
    cluster.kubelets();
    cluster.settle();
    cluster.pass(1);
    assert_eq!(deletes(&cluster), 4, "four are missing, and one may be");
    cluster.rest();
    assert_eq!((of_generation(&cluster, "2").len(), deletes(&cluster)), (6, 6));
}

/// DS-006: what failed for long is tried at once when a person has changed the DaemonSet, perhaps to mend it.
#[test]
fn a_change_of_the_daemonset_ends_the_pauses() {
    let changes: [fn(&mut Cluster); 2] = [|_| {}, |cluster| cluster.set_image("v2")];
    for (what, break_it) in ["create pods", "create controllerrevisions"].into_iter().zip(changes) {
        let mut cluster = mk(2, json!(1), json!(0));
        cluster.failures.push((what, FailureKind::Other));
        cluster.add_node("n2", json!({}), json!([]));
        break_it(&mut cluster);
        cluster.pass(3600);
        cluster.failures.clear();
        cluster.requests.clear();
        cluster.set_image("v3");
        cluster.settle();
        assert_eq!(cluster.on("n2").len(), 1, "{what}: {:?}", cluster.requests);
    }
}

/// DS-155: above the highest number that there can be there is none: the current revision gets it, too.
#[test]
fn a_revision_of_the_highest_number_is_no_reason_to_fall_over() {
    let mut cluster = mk(1, json!(1), json!(0));
    let path = format!("controllerrevisions/{}", cluster.revisions()[0].name);
    let mut other = cluster.objects[&path].clone();
    let patch = json!({"metadata": {"name": "other", "uid": null}, "data": {"other": 1}, "revision": i64::MAX});
    merge(&mut other, &patch);
    cluster.put("controllerrevisions/other", other);
    for image in ["v2", "v3"] {
        cluster.set_image(image);
        cluster.rest();
        let status = cluster.daemonset().status;
        assert_eq!(
            (status.counts.updated, status.observed_generation),
            (1, cluster.daemonset().generation)
        );
    }
    let highest = cluster.revisions().into_iter().filter(|one| one.number == i64::MAX);
    assert_eq!(highest.count(), 3);
}

/// DS-118: a pod of which nobody knows since when it is ready is not available while minReadySeconds asks for that.
#[test]
fn a_pod_that_does_not_say_since_when_it_is_ready_is_not_available() {
    let mut cluster = mk(1, json!(1), json!(0));
    let path = path_of(&cluster.on("n0")[0]);
    let conditions = json!([{"type": "Ready", "status": "True"}]);
    cluster.change(&path, json!({"status": {"conditions": conditions}}));
    for (seconds, available) in [(0, 1), (30, 0)] {
        cluster.edit(json!({"minReadySeconds": seconds}));
        cluster.pass(3600);
        let counts = cluster.daemonset().status.counts;
        assert_eq!((counts.ready, counts.available), (1, available), "{seconds}");
    }
}
