//! Whose pods are whose: adoption, release, and the races around them.

use bailiff_daemonset_core::{FailureKind, Input, Profile, Watched};
use serde_json::{Value, json};

use crate::model::{ANSWERS, Cluster, PODS, merge, path_of};

fn mk_orphan(node: &str, labels: Value) -> Value {
    json!({
        "metadata": {"name": "orphan", "namespace": "ns", "labels": labels},
        "spec": {"nodeName": node},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2023-01-01T00:00:00Z"}]},
    })
}

/// DS-060, DS-062, DS-063, DS-064, DS-067, DS-068, DS-065, DS-140; the story of `ds-adopt-ondelete`
#[test]
fn orphans_are_adopted_released_and_adopted_again() {
    let mut cluster = Cluster::with(1, json!({"updateStrategy": {"type": "OnDelete"}}));
    cluster.put("pods/orphan", mk_orphan("n0", json!({"app": "ds"})));
    cluster.rest();
    assert!(cluster.writes.contains(&"adopt pods/orphan".to_owned()));
    assert!(
        !cluster.writes.iter().any(|write| write.starts_with("create pods")),
        "{:?}",
        cluster.writes
    );
    cluster.writes.clear();
    cluster.change("pods/orphan", json!({"metadata": {"labels": {"app": "released"}}}));
    cluster.rest();
    assert_eq!(cluster.writes[..2], ["release pods/orphan", "create pods n0"]);
    cluster.writes.clear();
    cluster.change("pods/orphan", json!({"metadata": {"labels": {"app": "ds"}}}));
    cluster.settle();
    assert_eq!(cluster.writes[0], "adopt pods/orphan");
    cluster.rest();
    let left = cluster.on("n0");
    assert_eq!(
        (left.len(), left[0].name.as_str()),
        (1, "orphan"),
        "the older one stays (DS-103)"
    );
}

/// DS-130: an adopted pod without hash and generation labels is old.
#[test]
fn an_adopted_pod_without_labels_is_replaced_by_a_rolling_update() {
    let mut cluster = Cluster::with(1, json!({}));
    cluster.put("pods/orphan", mk_orphan("n0", json!({"app": "ds"})));
    cluster.rest();
    let left = cluster.on("n0");
    assert_eq!(left.len(), 1);
    assert_ne!(left[0].name.as_str(), "orphan");
}

/// DS-062: foreign, unselected, deleting and other namespaces' pods are let be; terminal orphans are adopted.
#[test]
fn only_fitting_orphans_are_adopted() {
    let foreign = json!([{"kind": "ReplicaSet", "name": "x", "uid": "x", "controller": true}]);
    let cases: [(&str, Value, bool); 5] = [
        ("fits", json!({}), true),
        ("terminal", json!({"status": {"phase": "Failed"}}), true),
        ("not selected", json!({"metadata": {"labels": {"app": "other"}}}), false),
        ("foreign", json!({"metadata": {"ownerReferences": foreign}}), false),
        (
            "deleting",
            json!({"metadata": {"deletionTimestamp": "2024-01-01T00:00:00Z"}}),
            false,
        ),
    ];
    for (name, patch, adopted) in cases {
        let mut cluster = Cluster::with(1, json!({"updateStrategy": {"type": "OnDelete"}}));
        let mut orphan = mk_orphan("n0", json!({"app": "ds"}));
        crate::model::merge(&mut orphan, &patch);
        cluster.put("pods/orphan", orphan);
        cluster.settle();
        assert_eq!(cluster.writes.contains(&"adopt pods/orphan".to_owned()), adopted, "{name}");
    }
}

/// DS-063, DS-191; upstream's TestDontDoAnythingIfBeingDeletedRace: the store knows better than the watch does yet.
#[test]
fn nothing_is_adopted_if_the_live_daemonset_is_deleting_or_another_one() {
    for live in [json!({"deletionTimestamp": "2024-01-01T00:00:00Z"}), json!({"uid": "other"})] {
        let mut cluster = Cluster::with(1, json!({}));
        cluster.rest();
        cluster.writes.clear();
        let mut ds = cluster.objects["daemonsets/ds"].clone();
        crate::model::merge(&mut ds["metadata"], &live);
        cluster.objects.insert("daemonsets/ds".to_owned(), ds);
        cluster.put("pods/orphan", mk_orphan("n0", json!({"app": "ds"})));
        let path = format!("controllerrevisions/{}", cluster.revisions()[0].name);
        cluster.change(&path, json!({"metadata": {"ownerReferences": null}}));
        cluster.settle();
        assert!(
            !cluster.writes.iter().any(|write| write.starts_with("adopt")),
            "{live}: {:?}",
            cluster.writes
        );
    }
}

/// DS-080, DS-108: an adopted pod stays where a pod may only stay, and counts as misscheduled.
#[test]
fn an_orphan_stays_where_it_may_only_stay() {
    let mut cluster = Cluster::with(1, json!({"updateStrategy": {"type": "OnDelete"}}));
    cluster.add_node("n1", json!({}), json!([{"key": "k", "effect": "NoSchedule"}]));
    cluster.rest();
    cluster.put("pods/orphan", mk_orphan("n1", json!({"app": "ds"})));
    cluster.rest();
    assert_eq!(
        (cluster.on("n1").len(), cluster.daemonset().status.counts.misscheduled),
        (1, 1)
    );
}

/// DS-066, DS-239: an adoption that fails holds its own node, and no other.
#[test]
fn a_failing_adoption_holds_only_its_node() {
    let mut cluster = Cluster::with(2, json!({}));
    cluster.failures.push(("adopt", FailureKind::Invalid));
    cluster.put("pods/orphan", mk_orphan("n0", json!({"app": "ds"})));
    cluster.pass(5);
    assert_eq!((cluster.on("n0").len(), cluster.on("n1").len()), (1, 1));
    assert_eq!(cluster.daemonset().status.counts.desired, 2);
}

/// DS-066, DS-239: in upstream's profile it stops the whole DaemonSet, status included, until it succeeds, or there is nothing to adopt.
#[test]
fn a_failing_adoption_stops_its_daemonset_in_upstreams_profile() {
    for (profile, others) in [(Profile::Bailiff, 1), (Profile::Upstream, 0)] {
        for ends_otherwise in [false, true] {
            let mut cluster = Cluster::new(profile);
            for node in ["n0", "n1"] {
                cluster.add_node(node, json!({}), json!([]));
            }
            cluster.put("pods/orphan", mk_orphan("n0", json!({"app": "ds"})));
            cluster.failures.push(("adopt", FailureKind::Invalid));
            cluster.add_daemonset("ds", json!({}));
            cluster.pass(30);
            assert_eq!(cluster.on("n1").len(), others, "{profile}");
            let status = cluster.daemonset().status;
            let written = i64::try_from(others).expect("small");
            assert_eq!(
                (status.observed_generation, i64::from(status.counts.desired)),
                (written, 2 * written),
                "{profile}"
            );
            if ends_otherwise {
                cluster.change("pods/orphan", json!({"metadata": {"labels": {"app": "other"}}}));
            } else {
                cluster.failures.clear();
            }
            cluster.pass(1200);
            assert_eq!(
                (cluster.on("n1").len(), cluster.daemonset().status.counts.desired),
                (1, 2),
                "{profile}"
            );
        }
    }
}

/// DS-066: a pod that is gone when it is to be adopted stops nothing.
#[test]
fn an_orphan_that_is_gone_already_stops_nothing() {
    let mut cluster = Cluster::new(Profile::Upstream);
    for node in ["n0", "n1"] {
        cluster.add_node(node, json!({}), json!([]));
    }
    cluster.put("pods/orphan", mk_orphan("n0", json!({"app": "ds"})));
    cluster.failures.push(("adopt", FailureKind::NotFound));
    cluster.add_daemonset("ds", json!({}));
    cluster.pass(30);
    assert_eq!(cluster.on("n1").len(), 1);
}

/// DS-060, DS-022: a pod whose owner reference has our uid but another name is not ours.
#[test]
fn kind_name_and_uid_of_the_owner_must_agree() {
    let mut cluster = Cluster::with(1, json!({}));
    cluster.settle();
    let uid = cluster.daemonset().uid.to_string();
    for (kind, name, uid) in [
        ("DaemonSet", "other", uid.as_str()),
        ("ReplicaSet", "ds", &uid),
        ("DaemonSet", "ds", "other"),
    ] {
        let mut pod = mk_orphan("n0", json!({"app": "ds"}));
        pod["metadata"]["ownerReferences"] = json!([{"kind": kind, "name": name, "uid": uid, "controller": true}]);
        pod["metadata"]["name"] = json!("stranger");
        cluster.put("pods/stranger", pod);
        cluster.rest();
        assert_eq!(cluster.pods().len(), 2, "{kind} {name} {uid}");
        cluster.remove("pods/stranger");
        cluster.rest();
    }
    assert!(!cluster.writes.iter().any(|write| write.starts_with("delete pods")));
}

/// DS-070: a pod of ours without a known target stays ours and is not counted.
#[test]
fn a_pod_without_target_is_left_out() {
    let mut cluster = Cluster::with(1, json!({}));
    cluster.rest();
    let uid = cluster.daemonset().uid.to_string();
    let mut pod = mk_orphan("n0", json!({"app": "ds"}));
    pod["spec"] = json!({});
    pod["metadata"]["ownerReferences"] = json!([{"kind": "DaemonSet", "name": "ds", "uid": uid, "controller": true}]);
    let writes = cluster.writes.len();
    cluster.put("pods/orphan", pod);
    cluster.settle();
    assert_eq!(cluster.writes.len(), writes);
}

/// DS-192: after an orphaning deletion and re-creation with the same template the pods stay.
#[test]
fn a_recreated_daemonset_takes_its_orphans_back() {
    let mut cluster = Cluster::with(2, json!({}));
    cluster.rest();
    let before: Vec<_> = cluster.pods().into_iter().map(|pod| pod.uid).collect();
    cluster.remove("daemonsets/ds");
    let orphans: Vec<String> = cluster
        .objects
        .keys()
        .filter(|path| !path.starts_with("nodes"))
        .cloned()
        .collect();
    for path in orphans {
        cluster.change(&path, json!({"metadata": {"ownerReferences": null}}));
    }
    cluster.settle();
    cluster.add_daemonset("ds", json!({}));
    cluster.rest();
    let after: Vec<_> = cluster.pods().into_iter().map(|pod| pod.uid).collect();
    assert_eq!(after, before);
    assert_eq!(cluster.revisions().len(), 1);
}

/// DS-192, DS-236: with another template the orphans are old, unless they carry the new DaemonSet's template generation.
#[test]
fn orphans_of_another_template_are_old_unless_the_generation_says_otherwise() {
    for (generation, kept) in [("1", true), ("2", false)] {
        let mut cluster = Cluster::with(1, json!({}));
        cluster.rest();
        let before = cluster.on("n0").remove(0).uid;
        cluster.remove("daemonsets/ds");
        let path = crate::model::path_of(&cluster.on("n0")[0]);
        cluster.change(&path, json!({"metadata": {"ownerReferences": null}}));
        cluster.settle();
        cluster.add_daemonset(
            "ds",
            json!({"template": {"spec": {"containers": [{"name": "c", "image": "v2"}]}}}),
        );
        let annotations = json!({"deprecated.daemonset.template.generation": generation});
        cluster.change("daemonsets/ds", json!({"metadata": {"annotations": annotations}}));
        cluster.rest();
        assert_eq!(cluster.on("n0")[0].uid == before, kept, "generation {generation}");
    }
}

/// DS-202: of two pods on a node the one that is bound, then older, then first by name stays.
#[test]
fn two_controllers_agree_on_the_survivor() {
    let older = json!({"metadata": {"creationTimestamp": "2023-01-01T00:00:00Z"}});
    let mut unbound = Cluster::with(1, json!({}));
    unbound.settle();
    let mut unbound = json!({"spec": unbound.objects[&path_of(&unbound.on("n0")[0])]["spec"]});
    unbound["spec"]["nodeName"] = Value::Null;
    merge(&mut unbound, &older);
    let cases = [
        ("the last by name", "ds-zzzzzz", json!({}), false),
        ("the first by name", "ds-000000", json!({}), true),
        ("an older one", "ds-zzzzzz", older, true),
        ("an older one that is not bound", "ds-000000", unbound, false),
    ];
    for (what, name, patch, stays) in cases {
        let mut cluster = Cluster::at_rest(1, json!({}));
        let mut twin = cluster.objects[&path_of(&cluster.on("n0")[0])].clone();
        twin["metadata"]["name"] = json!(name);
        twin["metadata"]["uid"] = json!("twin");
        merge(&mut twin, &patch);
        cluster.put(&format!("pods/{name}"), twin);
        cluster.rest();
        let left: Vec<bool> = cluster.on("n0").iter().map(|pod| pod.name.as_str() == name).collect();
        assert_eq!(left, [stays], "{what}");
    }
}

fn count(cluster: &Cluster, prefix: &str) -> usize {
    let all = cluster.requests.iter();
    all.filter(|(_, request)| request.starts_with(prefix)).count()
}

/// So many orphans without a node, beside a DaemonSet at rest.
fn mk_orphans(count: usize) -> Cluster {
    let mut cluster = Cluster::at_rest(1, json!({}));
    for index in 0..count {
        let mut orphan = mk_orphan("n0", json!({"app": "ds"}));
        orphan["metadata"]["name"] = json!(format!("orphan-{index}"));
        orphan["spec"] = json!({});
        cluster.put(&format!("pods/orphan-{index}"), orphan);
    }
    cluster
}

/// DS-063: orphans are adopted so many at a time, and the DaemonSet is read before each batch.
#[test]
fn many_orphans_are_adopted_in_batches() {
    let mut cluster = mk_orphans(600);
    cluster.is_slow = true;
    cluster.settle();
    // The first of them is a batch of its own.
    let mut adopted = 0;
    while cluster.waiting() > 0 {
        assert!(cluster.waiting() <= 250, "{} at a time", cluster.waiting());
        adopted += cluster.waiting();
        cluster.send(250);
        cluster.settle();
    }
    assert_eq!((adopted, count(&cluster, "adopt pods")), (600, 600));
    assert_eq!(count(&cluster, "get daemonsets"), 4);
}

/// DS-062: pods are released so many at a time.
#[test]
fn many_pods_are_released_in_batches() {
    let mut cluster = mk_orphans(600);
    cluster.rest();
    cluster.requests.clear();
    for index in 0..600 {
        cluster.change(
            &format!("pods/orphan-{index}"),
            json!({"metadata": {"labels": {"app": "other"}}}),
        );
    }
    while cluster.pending().contains(&PODS) {
        cluster.deliver(PODS);
    }
    assert_eq!(count(&cluster, "release pods"), 250);
    cluster.settle();
    assert_eq!(count(&cluster, "release pods"), 600);
}

/// DS-063, DS-191: the live DaemonSet's word is about the orphans that were known when it was read.
#[test]
fn an_orphan_that_comes_after_the_read_waits_for_another_one() {
    let mut cluster = mk_orphans(1);
    cluster.deliver(PODS);
    assert_eq!(count(&cluster, "get daemonsets"), 1);
    let late = cluster.hold_back(ANSWERS);
    let path = path_of(&cluster.on("n0")[0]);
    cluster.change(&path, json!({"metadata": {"ownerReferences": null}}));
    cluster.deliver(PODS);
    cluster.give_back(ANSWERS, late);
    cluster.deliver(ANSWERS);
    assert_eq!(count(&cluster, "adopt pods"), 1);
    cluster.settle();
    assert_eq!((count(&cluster, "get daemonsets"), count(&cluster, "adopt pods")), (2, 2));
}

/// DS-063, DS-191: while a watch is stale nobody sees whether the DaemonSet goes. What waits for its turn is taken back, what was allowed
/// before is allowed no more, and all is adopted after another read.
#[test]
fn nothing_is_adopted_by_a_word_from_before_a_hold() {
    let stale = || Input::WatchStale {
        watch: Watched::DaemonSets,
        reason: "no answer".to_owned(),
    };
    for is_asked in [true, false] {
        let mut cluster = mk_orphans(3);
        if is_asked {
            cluster.is_slow = true;
            cluster.settle();
            assert!(cluster.waiting() > 0);
        } else {
            cluster.deliver(PODS);
            assert_eq!(count(&cluster, "get daemonsets"), 1);
        }
        cluster.feed(stale());
        cluster.settle();
        assert_eq!(
            (cluster.waiting(), count(&cluster, "adopt pods")),
            (0, 0),
            "asked: {is_asked}"
        );
        cluster.is_slow = false;
        let reads = count(&cluster, "get daemonsets");
        cluster.feed(Input::WatchFresh(Watched::DaemonSets));
        cluster.settle();
        assert_eq!(count(&cluster, "adopt pods"), 3, "asked: {is_asked}");
        assert!(count(&cluster, "get daemonsets") > reads, "asked: {is_asked}");
    }
}

/// DS-190, DS-191: adoptions that wait for their turn are taken back when the DaemonSet goes.
#[test]
fn nothing_is_adopted_for_a_daemonset_that_goes() {
    type Change = fn(&mut Cluster);
    let deleting: Change = |cluster| {
        cluster.change(
            "daemonsets/ds",
            json!({"metadata": {"deletionTimestamp": "2024-01-01T00:00:00Z"}}),
        );
    };
    let deleted: Change = |cluster| cluster.remove("daemonsets/ds");
    for change in [deleting, deleted] {
        let mut cluster = mk_orphans(3);
        cluster.is_slow = true;
        cluster.settle();
        assert!(cluster.waiting() > 0);
        change(&mut cluster);
        cluster.settle();
        assert_eq!(cluster.waiting(), 0);
    }
}

/// DS-063: nothing is adopted as long as the DaemonSet cannot be read.
#[test]
fn nothing_is_adopted_if_the_live_daemonset_cannot_be_read() {
    let mut cluster = mk_orphans(3);
    let path = format!("controllerrevisions/{}", cluster.revisions()[0].name);
    cluster.change(&path, json!({"metadata": {"ownerReferences": null}}));
    cluster.failures.push(("get daemonsets", FailureKind::Other));
    cluster.pass(60);
    assert_eq!(count(&cluster, "adopt"), 0);
    assert!(count(&cluster, "get daemonsets") > 1);
    cluster.failures.clear();
    cluster.rest_longer();
    assert_eq!(count(&cluster, "adopt"), 4);
}

/// DS-065, DS-066: in upstream's profile a pod that can never be released stops its DaemonSet no more than one that is gone; any other
/// failure does.
#[test]
fn a_pod_that_can_never_be_released_stops_nothing() {
    for (kind, others) in [(FailureKind::Invalid, 1), (FailureKind::NotFound, 1), (FailureKind::Other, 0)] {
        let mut cluster = Cluster::at_rest(1, json!({}));
        cluster.restart(Profile::Upstream);
        cluster.failures.push(("release pods", kind));
        let path = path_of(&cluster.on("n0")[0]);
        cluster.change(&path, json!({"metadata": {"labels": {"app": "other"}}}));
        cluster.settle();
        cluster.add_node("n1", json!({}), json!([]));
        cluster.pass(30);
        assert_eq!(cluster.on("n1").len(), others, "{kind:?}");
    }
}
