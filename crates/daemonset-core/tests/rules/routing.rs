//! Which event concerns which DaemonSet (section 2), and what waits for what (sections 3 and 4).

use std::collections::{BTreeMap, BTreeSet};

use bailiff_daemonset_core::{FailureKind, Input, Options, Profile, Shard};
use serde_json::{Value, json};

use crate::model::{ANSWERS, Cluster, DAEMONSETS, NODES, PODS, REVISIONS, path_of, shown};

fn count(cluster: &Cluster, prefix: &str) -> usize {
    let like = cluster.requests.iter().filter(|(_, request)| request.starts_with(prefix));
    like.count()
}

fn mk_orphan(node: &str, labels: Value) -> Value {
    json!({"metadata": {"name": format!("orphan-{node}"), "namespace": "ns", "labels": labels}, "spec": {"nodeName": node}})
}

/// Delivers all that comes by these streams, again and again.
fn deliver_only(cluster: &mut Cluster, streams: &[usize]) {
    while let Some(stream) = streams.iter().find(|stream| cluster.pending().contains(stream)) {
        cluster.deliver(*stream);
    }
}

/// Design §8: DaemonSets are shared out by uid.
#[test]
fn each_daemonset_is_served_by_the_shard_that_has_it() {
    let mut cluster = Cluster::new(Profile::Bailiff);
    for node in ["n0", "n1", "n2"] {
        cluster.add_node(node, json!({}), json!([]));
    }
    cluster.restart_with(Options {
        shard: Shard { index: 0, count: 2 },
        ..Options::default()
    });
    for set in 0..8 {
        cluster.add_daemonset(&format!("ds{set}"), json!({}));
    }
    cluster.rest();
    let mut served = BTreeMap::new();
    for index in [0, 1, 0] {
        let shard = Shard { index, count: 2 };
        let options = Options {
            shard,
            ..Options::default()
        };
        cluster.restart_with(options);
        cluster.rest();
        let mut owners: BTreeMap<String, usize> = BTreeMap::new();
        for pod in cluster
            .objects
            .iter()
            .filter(|(path, _)| path.starts_with("pods/"))
            .map(|(_, pod)| pod)
        {
            let owner = &pod["metadata"]["ownerReferences"][0]["uid"];
            *owners.entry(owner.as_str().expect("a daemon pod").to_owned()).or_default() += 1;
        }
        assert!(owners.values().all(|pods| *pods == 3), "{owners:?}");
        assert!(owners.keys().any(|uid| shard.owns_daemonset(uid)));
        assert!(served.len() <= owners.len());
        served = owners;
    }
    assert_eq!(served.len(), 8, "each by one of them");
    assert_eq!(count(&cluster, "delete pods"), 0);
}

/// DS-021, design §8: another shard's DaemonSet takes the name of one of ours.
#[test]
fn a_namesake_of_another_shard_is_left_alone() {
    let shard = |uid: &str| {
        (0..2)
            .map(|index| Shard { index, count: 2 })
            .find(|shard| shard.owns_daemonset(uid))
    };
    let mut cluster = Cluster::at_rest(2, json!({}));
    let ours = cluster.daemonset();
    cluster.restart_with(Options {
        shard: shard(&ours.uid).expect("one of two"),
        ..Options::default()
    });
    cluster.rest();
    let name = |number: u32| format!("other-{number}");
    let uid = (0..)
        .map(name)
        .find(|uid| shard(uid) != shard(&ours.uid))
        .expect("half of them are");
    let mut other = ours.clone();
    other.uid = uid.as_str().into();
    other.version = "9999".into();
    cluster.feed(Input::DaemonSetApplied(other));
    cluster.requests.clear();
    cluster.rest();
    assert_eq!(cluster.requests, [], "{:?}", cluster.requests);
    assert_eq!(cluster.published, None);
}

/// DS-023, DS-110: a created pod that is seen makes room for the next one.
#[test]
fn a_pod_that_is_seen_makes_room_for_the_next() {
    let mut cluster = Cluster::with(252, json!({}));
    deliver_only(&mut cluster, &[NODES, DAEMONSETS, ANSWERS]);
    assert_eq!(count(&cluster, "create pods"), 250);
    for created in [251, 252] {
        cluster.deliver(PODS);
        deliver_only(&mut cluster, &[ANSWERS]);
        assert_eq!(count(&cluster, "create pods"), created);
    }
}

/// DS-003, DS-110: not more than 250 deletes are under way either, whoever wants them.
#[test]
fn no_more_than_250_deletes_are_under_way() {
    type Change = fn(&mut Cluster);
    fn unready(cluster: &mut Cluster) {
        for pod in cluster.pods() {
            cluster.set_phase(&pod, "Running", false);
        }
        cluster.set_image("v2");
    }
    fn succeeded(cluster: &mut Cluster) {
        for pod in cluster.pods() {
            cluster.set_phase(&pod, "Succeeded", false);
        }
    }
    fn intolerant(cluster: &mut Cluster) {
        for index in 0..260 {
            let taints = json!([{"key": "k", "effect": "NoSchedule"}]);
            cluster.change(&format!("nodes/n{index}"), json!({"spec": {"taints": taints}}));
        }
        cluster.set_image("v2");
    }
    let misplaced = |cluster: &mut Cluster| cluster.edit(json!({"template": {"spec": {"nodeSelector": {"a": "b"}}}}));
    let cases: [(&str, &str, i32, Change); 5] = [
        ("unready", "1%", 0, unready),
        ("succeeded", "1%", 0, succeeded),
        ("misplaced", "1%", 0, misplaced),
        ("within the budget", "100%", 0, |cluster| cluster.set_image("v2")),
        ("not needed any more", "0%", 1, intolerant),
    ];
    for (name, limit, surge, change) in cases {
        let strategy = json!({"rollingUpdate": {"maxUnavailable": limit, "maxSurge": surge}});
        let mut cluster = Cluster::at_rest(260, json!({"updateStrategy": strategy}));
        change(&mut cluster);
        for _ in 0..260 {
            cluster.deliver(PODS);
        }
        deliver_only(&mut cluster, &[NODES, DAEMONSETS, REVISIONS, ANSWERS]);
        assert_eq!(count(&cluster, "delete pods"), 250, "{name}");
        cluster.settle();
        assert_eq!(count(&cluster, "delete pods"), 260, "{name}: what is seen to go makes room");
        cluster.rest();
        assert_eq!(count(&cluster, "delete pods"), 260, "{name}");
    }
}

/// DS-052, DS-110: deletes that were seen before they were answered, and those that failed, make room for others, too.
#[test]
fn deletes_that_ended_make_room_for_others() {
    for failure in [None, Some(FailureKind::Other), Some(FailureKind::Unknown)] {
        let strategy = json!({"rollingUpdate": {"maxUnavailable": "100%"}});
        let mut cluster = Cluster::at_rest(260, json!({"updateStrategy": strategy}));
        cluster.failures.extend(failure.map(|kind| ("delete pods", kind)));
        cluster.set_image("v2");
        cluster.settle();
        let asked: BTreeSet<&String> = cluster
            .writes
            .iter()
            .filter(|write| write.starts_with("delete pods"))
            .collect();
        assert_eq!(asked.len(), 260, "{failure:?}");
    }
}

/// DS-025, DS-102: a pod that is first seen while it is being deleted is waited for, and neither adopted nor deleted again.
#[test]
fn a_pod_first_seen_while_it_is_deleted_is_waited_for() {
    let mut cluster = Cluster::at_rest(1, json!({}));
    let path = path_of(&cluster.on("n0")[0]);
    cluster.change(&path, json!({"metadata": {"deletionTimestamp": "2024-01-01T00:00:00Z"}}));
    let mut orphan = mk_orphan("n0", json!({"app": "ds"}));
    orphan["metadata"]["deletionTimestamp"] = json!("2024-01-01T00:00:00Z");
    cluster.put("pods/orphan-n0", orphan);
    cluster.restart(Profile::Bailiff);
    cluster.pass(60);
    assert!(
        !cluster.writes.iter().any(|write| write.contains(" pods")),
        "{:?}",
        cluster.writes
    );
    cluster.remove(&path);
    cluster.settle();
    assert_eq!(cluster.writes.iter().filter(|write| *write == "create pods n0").count(), 1);
}

/// DS-026: what was said already, and what is older, changes nothing.
#[test]
fn a_pod_said_again_changes_nothing() {
    let mut cluster = Cluster::at_rest(1, json!({}));
    let old = cluster.on("n0").remove(0);
    assert_eq!(cluster.core.apply(shown(old.clone()), cluster.now), []);
    cluster.set_phase(&old, "Failed", false);
    deliver_only(&mut cluster, &[PODS]);
    let effects = cluster.core.apply(shown(old), cluster.now);
    assert_eq!(effects, [], "an older state");
}

/// DS-022, DS-027; upstream's TestUpdatePodChangeControllerRef: both the old owner and the new one act.
#[test]
fn a_pod_that_changes_its_owner_concerns_both() {
    let mut cluster = Cluster::at_rest(1, json!({}));
    cluster.add_daemonset("other", json!({}));
    cluster.rest();
    cluster.writes.clear();
    let uid = cluster.objects["daemonsets/other"]["metadata"]["uid"].clone();
    let pods = cluster.on("n0");
    let moved = pods.iter().find(|pod| pod.name.as_str().starts_with("ds-")).expect("ours");
    let owner = json!([{"kind": "DaemonSet", "name": "other", "uid": uid, "controller": true}]);
    cluster.change(
        &path_of(moved),
        json!({"metadata": {"ownerReferences": owner, "labels": {"app": "other"}}}),
    );
    cluster.settle();
    assert!(cluster.writes.contains(&"create pods n0".to_owned()), "{:?}", cluster.writes);
    let deleted = cluster.writes.iter().filter(|write| write.starts_with("delete pods/"));
    assert_eq!(deleted.count(), 1, "one too many for the other: {:?}", cluster.writes);
}

/// DS-024, DS-028; upstream's TestAddPodOrphan, TestUpdatePodOrphanSameLabels, TestUpdatePodOrphanWithNewLabels
#[test]
fn an_orphan_concerns_those_that_select_it() {
    let mut cluster = Cluster::at_rest(1, json!({"updateStrategy": {"type": "OnDelete"}}));
    cluster.add_daemonset("other", json!({"updateStrategy": {"type": "OnDelete"}}));
    cluster.rest();
    cluster.requests.clear();
    cluster.put("pods/orphan-n0", mk_orphan("n0", json!({"app": "nobody"})));
    cluster.put(
        "pods/bare",
        json!({"metadata": {"name": "bare", "namespace": "ns"}, "spec": {"nodeName": "n0"}}),
    );
    cluster.change("pods/orphan-n0", json!({"status": {"phase": "Running"}}));
    cluster.settle();
    assert_eq!(cluster.requests, [], "no labels match nothing");
    cluster.change("pods/orphan-n0", json!({"metadata": {"labels": {"app": "other"}}}));
    cluster.settle();
    let asked: Vec<&str> = cluster.requests.iter().take(2).map(|(_, request)| request.as_str()).collect();
    assert_eq!(asked, ["get daemonsets/other", "adopt pods/orphan-n0"]);
}

/// DS-029; upstream's TestDeletePod, TestDeletePodOrphan
#[test]
fn a_deleted_pod_concerns_its_owner_only() {
    let mut cluster = Cluster::at_rest(2, json!({}));
    cluster.put("pods/orphan-n0", mk_orphan("n0", json!({"app": "nobody"})));
    cluster.remove("pods/orphan-n0");
    cluster.settle();
    assert_eq!(cluster.requests, []);
    let path = path_of(&cluster.on("n1")[0]);
    cluster.remove(&path);
    cluster.settle();
    assert_eq!(cluster.writes[0], "create pods n1");
    assert_eq!(count(&cluster, "create"), 1);
}

/// DS-030; upstream's TestShouldIgnoreNodeUpdate: labels and taints matter, nothing else asks for anything.
#[test]
fn a_heartbeat_of_a_node_asks_for_nothing() {
    let mut cluster = Cluster::at_rest(2, json!({}));
    let patches = [
        json!({"metadata": {"annotations": {"a": "b"}}}),
        json!({"spec": {"unschedulable": true}}),
        json!({"status": {"allocatable": {"cpu": "1"}}}),
        json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}),
    ];
    for patch in patches {
        cluster.change("nodes/n0", patch.clone());
        cluster.pass(5);
        assert_eq!(cluster.requests, [], "{patch}");
    }
}

/// DS-041, DS-147: creates that fail hold up no status, and a status that fails holds up no creates.
#[test]
fn creates_and_status_do_not_hold_each_other_up() {
    for (failing, other) in [("create pods", "status"), ("status", "create pods")] {
        let mut cluster = Cluster::at_rest(1, json!({}));
        cluster.failures.push((failing, FailureKind::Other));
        cluster.add_node("n1", json!({}), json!([]));
        cluster.pass(5);
        assert!(count(&cluster, failing) > 2, "{failing} is tried again");
        assert_eq!(count(&cluster, other), 1, "{other} is done once");
    }
}

/// DS-043, DS-063, DS-223: one read of the DaemonSet allows all adoptions that wait for it, here the first, then the others.
#[test]
fn many_orphans_are_adopted_after_few_reads() {
    let mut cluster = Cluster::at_rest(20, json!({"updateStrategy": {"type": "OnDelete"}}));
    for index in 0..20 {
        let node = format!("n{index}");
        cluster.put(&format!("pods/orphan-{node}"), mk_orphan(&node, json!({"app": "ds"})));
    }
    deliver_only(&mut cluster, &[PODS, ANSWERS]);
    assert_eq!((count(&cluster, "get daemonsets"), count(&cluster, "adopt pods")), (2, 20));
}

/// DS-053: the history goes on while pods are outstanding.
#[test]
fn outstanding_pods_do_not_hold_up_the_history() {
    let mut cluster = Cluster::with(1, json!({}));
    deliver_only(&mut cluster, &[NODES, DAEMONSETS, ANSWERS]);
    assert_eq!(
        (count(&cluster, "create pods"), count(&cluster, "create controllerrevisions")),
        (1, 1)
    );
    cluster.set_image("v2");
    deliver_only(&mut cluster, &[DAEMONSETS]);
    assert_eq!(count(&cluster, "create controllerrevisions"), 2);
}

/// DS-054: a pod that is created and not seen yet uses up the budget, so that nothing is rolled on its account.
#[test]
fn a_rolling_update_waits_for_what_is_outstanding() {
    let mut cluster = Cluster::at_rest(2, json!({"updateStrategy": {"rollingUpdate": {"maxUnavailable": 1}}}));
    cluster.add_node("n2", json!({}), json!([]));
    deliver_only(&mut cluster, &[NODES]);
    cluster.set_image("v2");
    deliver_only(&mut cluster, &[DAEMONSETS, REVISIONS, ANSWERS]);
    assert_eq!((count(&cluster, "create pods"), count(&cluster, "delete pods")), (1, 0));
}

/// DS-040, DS-062, DS-190: whatever the way of deletion, nothing is deleted, adopted or released by the controller.
#[test]
fn a_daemonset_being_deleted_neither_adopts_nor_releases() {
    for finalizers in [json!([]), json!(["foregroundDeletion"]), json!(["orphan"])] {
        let mut cluster = Cluster::at_rest(2, json!({}));
        let meta = json!({"deletionTimestamp": "2024-01-01T00:00:00Z", "finalizers": finalizers});
        cluster.change("daemonsets/ds", json!({"metadata": meta}));
        cluster.settle();
        let (orphaned, relabelled) = (path_of(&cluster.on("n0")[0]), path_of(&cluster.on("n1")[0]));
        cluster.change(&orphaned, json!({"metadata": {"ownerReferences": null}}));
        cluster.change(&relabelled, json!({"metadata": {"labels": {"app": "other"}}}));
        cluster.settle();
        let revisions: Vec<String> = cluster
            .revisions()
            .iter()
            .map(|one| format!("controllerrevisions/{}", one.name))
            .collect();
        for path in revisions {
            cluster.change(&path, json!({"metadata": {"ownerReferences": null}}));
        }
        cluster.pass(60);
        assert_eq!(cluster.requests, [], "{finalizers}");
    }
}
