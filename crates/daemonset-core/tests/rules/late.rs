//! What is said late, twice, out of order or not at all: new lists, older states, answers before watches, objects that were replaced.

use std::time::Duration;

use bailiff_daemonset_core::{FailureKind, Input, Profile};
use serde_json::{Value, json};

use crate::model::{ANSWERS, Cluster, DAEMONSETS, NODES, PODS, REVISIONS, path_of, shown};

pub fn deliver_only(cluster: &mut Cluster, streams: &[usize]) {
    for _ in 0..200 {
        match streams.iter().find(|stream| cluster.pending().contains(stream)) {
            Some(stream) => cluster.deliver(*stream),
            None => return,
        }
    }
    unreachable!("it does not come to rest: {:#?}", cluster.requests);
}

fn count(cluster: &Cluster, prefix: &str) -> usize {
    cluster.writes.iter().filter(|write| write.starts_with(prefix)).count()
}

fn revision(cluster: &Cluster) -> String {
    format!("controllerrevisions/{}", cluster.revisions()[0].name)
}

fn on(cluster: &Cluster, node: &str) -> String {
    path_of(&cluster.on(node)[0])
}

/// DS-005: what is in a new list stays as it was, and what is not is gone, though no watch said so.
#[test]
fn a_new_list_takes_out_what_it_leaves_out() {
    type Pick = fn(&Cluster) -> Option<String>;
    let cases: [(&str, Pick, &[&str]); 5] = [
        ("nothing", |_| None, &[]),
        ("a pod", |cluster| Some(on(cluster, "n1")), &["create pods n1"]),
        (
            "a revision",
            |cluster| Some(revision(cluster)),
            &["create controllerrevisions"],
        ),
        ("a node", |_| Some("nodes/n1".to_owned()), &["status daemonsets/ds"]),
        ("the DaemonSet", |_| Some("daemonsets/ds".to_owned()), &[]),
    ];
    for (name, pick, wanted) in cases {
        let mut cluster = Cluster::at_rest(3, json!({}));
        if let Some(path) = pick(&cluster) {
            cluster.objects.remove(&path);
        }
        cluster.relist();
        let begun: Vec<&String> = cluster.writes.iter().take(1).collect();
        assert_eq!(begun, wanted, "{name}");
        assert_eq!(cluster.published.is_none(), name == "the DaemonSet", "{name}");
        cluster.rest();
        assert_eq!(count(&cluster, "delete"), 0, "{name}: {:?}", cluster.writes);
    }
}

/// DS-050: a pod that was created, was not seen, and is in no new list either was deleted meanwhile: it is made again soon.
#[test]
fn a_created_pod_that_is_in_no_new_list_is_made_again_soon() {
    let mut cluster = Cluster::at_rest(1, json!({}));
    cluster.add_node("n1", json!({}), json!([]));
    deliver_only(&mut cluster, &[NODES, ANSWERS]);
    let path = on(&cluster, "n1");
    cluster.objects.remove(&path);
    cluster.relist();
    cluster.pass(9);
    assert_eq!(count(&cluster, "create pods n1"), 1, "perhaps the list was a little old");
    cluster.pass(2);
    assert_eq!(count(&cluster, "create pods n1"), 2);
}

/// DS-050, DS-052: a pod whose life was seen from its beginning to its end before the answer to its creation is not waited for.
#[test]
fn a_pod_that_was_gone_before_its_creation_was_answered_is_made_again() {
    let mut cluster = Cluster::at_rest(1, json!({}));
    cluster.add_node("n1", json!({}), json!([]));
    deliver_only(&mut cluster, &[NODES]);
    cluster.remove(&on(&cluster, "n1"));
    deliver_only(&mut cluster, &[PODS]);
    assert_eq!(count(&cluster, "create pods n1"), 1);
    deliver_only(&mut cluster, &[ANSWERS]);
    assert_eq!(count(&cluster, "create pods n1"), 2);
}

/// DS-029: what is gone does not come back by a list that is older than that.
#[test]
fn what_is_gone_does_not_come_back() {
    let mut cluster = Cluster::at_rest(1, json!({}));
    let pod = cluster.on("n0").remove(0);
    cluster.remove(&path_of(&pod));
    cluster.settle();
    cluster.feed(shown(pod));
    cluster.rest();
    assert_eq!((count(&cluster, "create pods"), count(&cluster, "delete pods")), (1, 0));
    let ds = cluster.daemonset();
    cluster.remove("daemonsets/ds");
    cluster.settle();
    cluster.feed(Input::DaemonSetApplied(ds));
    assert_eq!(cluster.published, None);
}

/// DS-026, DS-056: an older state of an object changes nothing, whatever a newer one has led to.
#[test]
fn older_states_change_nothing() {
    let mut cluster = Cluster::at_rest(2, json!({}));
    let (pod, ds, revision) = (cluster.on("n0").remove(0), cluster.daemonset(), cluster.revisions().remove(0));
    cluster.set_phase(&pod, "Running", false);
    cluster.set_image("v2");
    cluster.edit(json!({"updateStrategy": {"type": "OnDelete"}}));
    cluster.settle();
    cluster.set_image("v1");
    cluster.pass(5);
    let settled = (cluster.daemonset().status.counts, cluster.writes.len());
    assert_eq!((settled.0.ready, settled.0.updated), (1, 2));
    for input in [shown(pod), Input::RevisionApplied(revision), Input::DaemonSetApplied(ds)] {
        let what = format!("{input:?}");
        cluster.feed(input);
        cluster.pass(5);
        assert_eq!((cluster.daemonset().status.counts, cluster.writes.len()), settled, "{what}");
    }
}

/// DS-020, DS-021: another DaemonSet of the same name is another one, though nobody said that the first is gone.
#[test]
fn a_daemonset_that_took_a_name_over_unseen_is_another_one() {
    let mut cluster = Cluster::at_rest(2, json!({}));
    cluster.objects.remove("daemonsets/ds");
    cluster.add_daemonset("ds", json!({}));
    cluster.settle();
    let uid = cluster.daemonset().uid;
    let owners = cluster.objects.iter().filter(|(path, _)| path.starts_with("pods/"));
    let ours = owners.filter(|(_, pod)| pod["metadata"]["ownerReferences"][0]["uid"] == json!(&*uid));
    assert_eq!(
        ours.count(),
        2,
        "the pods of the first one are not its own: {:?}",
        cluster.writes
    );
}

/// DS-062, DS-063: another selector that matches the same pods, one of which was adopted before: nobody is counted twice.
#[test]
fn a_selector_that_matches_the_same_pods_changes_nothing() {
    let mut cluster = Cluster::at_rest(1, json!({"updateStrategy": {"type": "OnDelete"}}));
    let path = on(&cluster, "n0");
    cluster.change(&path, json!({"metadata": {"ownerReferences": null}}));
    cluster.rest();
    assert!(cluster.writes.contains(&format!("adopt {path}")));
    let expressions = json!([{"key": "app", "operator": "Exists"}]);
    cluster.edit(json!({"selector": {"matchLabels": null, "matchExpressions": expressions}}));
    cluster.rest();
    assert_eq!(count(&cluster, "delete"), 0, "{:?}", cluster.writes);
}

/// DS-062, DS-064: what an answer shows counts, however late the watch is: an adopted pod serves its node.
#[test]
fn an_answer_is_as_good_as_a_watch() {
    let mut cluster = Cluster::at_rest(1, json!({"updateStrategy": {"type": "OnDelete"}}));
    let orphan = json!({"metadata": {"name": "orphan", "namespace": "ns", "labels": {"app": "ds"}}, "spec": {"nodeName": "n1"}});
    cluster.put("pods/orphan", orphan);
    deliver_only(&mut cluster, &[PODS]);
    cluster.add_node("n1", json!({}), json!([]));
    deliver_only(&mut cluster, &[NODES, ANSWERS]);
    cluster.pass_one_second();
    let counts = cluster.daemonset().status.counts;
    assert_eq!((counts.desired, counts.current), (2, 2), "{:?}", cluster.writes);
}

/// DS-160, DS-161: a revision that was deleted is not asked for again while the watch does not say so.
#[test]
fn a_revision_that_was_deleted_is_not_deleted_again() {
    for kind in [None, Some(FailureKind::NotFound)] {
        let mut cluster = Cluster::at_rest(1, json!({}));
        cluster.set_image("v2");
        cluster.rest();
        cluster.requests.clear();
        cluster.failures.extend(kind.map(|kind| ("delete controllerrevisions", kind)));
        cluster.edit(json!({"revisionHistoryLimit": 0}));
        deliver_only(&mut cluster, &[DAEMONSETS, ANSWERS]);
        cluster.pass_one_second();
        deliver_only(&mut cluster, &[DAEMONSETS, ANSWERS]);
        let deletes = cluster
            .requests
            .iter()
            .filter(|(_, what)| what.starts_with("delete controllerrevisions"));
        assert_eq!(deletes.count(), 1, "{kind:?}");
    }
}

/// DS-052: a delete that was accepted and is not seen yet is not asked for again because the pod is seen to change otherwise.
#[test]
fn a_pod_on_its_way_out_may_change_meanwhile() {
    for loses in [None, Some("delete pods")] {
        let mut cluster = Cluster::at_rest(1, json!({}));
        cluster.loses = loses;
        let path = on(&cluster, "n0");
        cluster.change("nodes/n0", json!({"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}}));
        deliver_only(&mut cluster, &[NODES, ANSWERS]);
        // This happened before it was deleted, and the watch is late.
        cluster.hold_back(PODS);
        cluster.change(
            &path,
            json!({"metadata": {"deletionTimestamp": null, "labels": {"poke": "1"}}}),
        );
        deliver_only(&mut cluster, &[PODS, ANSWERS]);
        cluster.pass_one_second();
        assert_eq!(count(&cluster, "delete pods"), 1, "lost: {loses:?}");
    }
}

/// DS-105, DS-106: a failed pod waits for its time, and no longer because its node or itself changes meanwhile.
#[test]
fn changes_do_not_prolong_the_wait_of_a_failed_pod() {
    let mut cluster = Cluster::at_rest(1, json!({}));
    for _ in 0..2 {
        let pod = cluster.on("n0").remove(0);
        cluster.bind(&pod);
        cluster.set_phase(&pod, "Failed", false);
        cluster.settle();
    }
    assert_eq!(count(&cluster, "delete pods"), 1, "the second waits for a second");
    let path = on(&cluster, "n0");
    for index in 0..10 {
        cluster.change(&path, json!({"metadata": {"labels": {"poke": index.to_string()}}}));
        cluster.settle();
        cluster.pass_some(Duration::from_millis(100));
    }
    assert_eq!(count(&cluster, "delete pods"), 2);
}

/// DS-032, DS-061: revisions that appear without an owner, or are given to a DaemonSet that does not select them, concern it at once.
#[test]
fn revisions_that_appear_or_change_hands_are_looked_at_at_once() {
    let mut cluster = Cluster::at_rest(1, json!({}));
    let mut orphan = cluster.objects[&revision(&cluster)].clone();
    orphan["metadata"]["name"] = json!("orphan");
    orphan["metadata"]["uid"] = Value::Null;
    orphan["metadata"]["ownerReferences"] = Value::Null;
    orphan["data"] = json!({"spec": {"template": {"other": 1}}});
    orphan["revision"] = json!(0);
    cluster.put("controllerrevisions/orphan", orphan.clone());
    deliver_only(&mut cluster, &[REVISIONS, ANSWERS]);
    assert_eq!(cluster.writes, ["adopt controllerrevisions/orphan"]);
    cluster.rest();
    cluster.writes.clear();
    orphan["metadata"]["name"] = json!("foreign");
    orphan["metadata"]["labels"]["app"] = json!("foreign");
    orphan["metadata"]["ownerReferences"] = json!([{"kind": "DaemonSet", "name": "x", "uid": "x", "controller": true}]);
    cluster.put("controllerrevisions/foreign", orphan);
    cluster.rest();
    assert_eq!(cluster.writes, [""; 0], "not its own");
    let uid = cluster.daemonset().uid;
    let owners = json!([{"kind": "DaemonSet", "name": "ds", "uid": &*uid, "controller": true}]);
    cluster.change(
        "controllerrevisions/foreign",
        json!({"metadata": {"ownerReferences": owners}}),
    );
    cluster.rest();
    assert_eq!(cluster.writes, ["release controllerrevisions/foreign"]);
}

/// DS-155, DS-157: one step of the history at a time: what changes meanwhile begins no second one.
#[test]
fn a_revision_is_created_once_whatever_changes_meanwhile() {
    let mut cluster = Cluster::at_rest(1, json!({}));
    let old = revision(&cluster);
    cluster.failures.push(("create controllerrevisions", FailureKind::Other));
    cluster.set_image("v2");
    deliver_only(&mut cluster, &[DAEMONSETS]);
    cluster.change(&old, json!({"metadata": {"annotations": {"poke": "1"}}}));
    deliver_only(&mut cluster, &[REVISIONS]);
    assert_eq!(count(&cluster, "create controllerrevisions"), 1);
}

/// DS-030, DS-031, DS-225: which changes of a node upstream's controller acts on at once, and which it misses.
#[test]
fn upstreams_profile_acts_on_the_changes_of_nodes_that_upstream_does() {
    let taint = |effect: &str| json!({"spec": {"taints": [{"key": "k", "effect": effect}]}});
    let mut cluster = Cluster::at_rest(2, json!({}));
    cluster.restart(Profile::Upstream);
    cluster.rest();
    assert_eq!(cluster.writes, [""; 0]);
    cluster.add_node("n2", json!({}), json!([]));
    cluster.settle();
    assert_eq!(cluster.writes[0], "create pods n2");
    cluster.rest();
    cluster.writes.clear();
    cluster.change("nodes/n0", taint("NoSchedule"));
    cluster.pass(60);
    assert_eq!(cluster.writes, [""; 0], "missed: its pod runs and may stay");
    cluster.change("daemonsets/ds", json!({"metadata": {"labels": {"poke": "1"}}}));
    cluster.rest();
    assert_eq!(
        cluster.daemonset().status.counts.misscheduled,
        1,
        "until something else happens"
    );
    cluster.change("nodes/n0", json!({"spec": {"taints": null}}));
    cluster.rest();
    assert_eq!(
        cluster.daemonset().status.counts.misscheduled,
        0,
        "not missed: one was misplaced"
    );
    cluster.writes.clear();
    cluster.change("nodes/n1", taint("NoExecute"));
    cluster.settle();
    assert_eq!(count(&cluster, "delete pods"), 1, "not missed: it may not stay");
}

/// DS-032, DS-155: what somebody else made, while our own request was refused and its pause runs, is taken at once: beside an observer,
/// which writes nothing, kube-controller-manager makes the revisions.
#[test]
fn a_revision_that_somebody_else_made_is_taken_at_once() {
    let mut probe = Cluster::at_rest(1, json!({}));
    let old = probe.revisions()[0].name.clone();
    probe.set_image("v2");
    probe.rest();
    let new = probe
        .revisions()
        .into_iter()
        .find(|revision| revision.name != old)
        .expect("two");
    let path = format!("controllerrevisions/{}", new.name);
    let mut made = probe.objects[&path].clone();

    let mut cluster = Cluster::at_rest(1, json!({}));
    cluster.failures.push(("create controllerrevisions", FailureKind::NotSent));
    cluster.retry_after = Some(Duration::from_secs(30));
    cluster.set_image("v2");
    cluster.settle();
    assert_eq!(cluster.revisions().len(), 1, "ours was refused");
    made["metadata"]["uid"] = json!("made");
    made["metadata"]["ownerReferences"][0]["uid"] = json!(&*cluster.daemonset().uid);
    cluster.put(&path, made);
    cluster.settle();
    assert_eq!(cluster.daemonset().status.observed_generation, 2);
    assert!(
        cluster.writes.iter().any(|write| write.starts_with("delete pods")),
        "{:?}",
        cluster.writes
    );
}

/// What a DaemonSet asked for before it was missing in a list is not answered to the one that comes after it, of the same uid.
#[test]
fn an_answer_is_for_who_asked() {
    let mut cluster = Cluster::at_rest(2, json!({}));
    cluster.add_node("n2", json!({}), json!([]));
    deliver_only(&mut cluster, &[NODES]);
    assert_eq!(cluster.writes, ["create pods n2"]);
    let ds = cluster.daemonset();
    cluster.feed(Input::DaemonSets(Vec::new().into()));
    cluster.feed(Input::DaemonSets(vec![ds].into()));
    cluster.rest();
    assert_eq!(cluster.on("n2").len(), 1);
    assert_eq!(cluster.daemonset().status.counts.desired, 3);
}

/// DS-158: what is learnt of the name that a template would have had raises no count once there is another template.
#[test]
fn a_collision_of_a_template_of_before_raises_no_count() {
    let mut probe = Cluster::at_rest(1, json!({}));
    let old = revision(&probe);
    probe.set_image("v2");
    probe.rest();
    let name = |path: &&String| path.starts_with("controllerrevisions/") && **path != old;
    let path = probe.objects.keys().find(name).expect("two").clone();
    // The template changes before the name is found taken, before it is known by what, and before the DaemonSet is read; or it is in what
    // is read, and the watch is behind.
    for (steps, is_behind) in [(1, false), (2, false), (3, false), (2, true)] {
        let mut cluster = Cluster::at_rest(1, json!({}));
        let name = path.trim_start_matches("controllerrevisions/");
        let foreign = json!({"metadata": {"name": name, "namespace": "ns"}, "data": {"other": 1}, "revision": 5});
        cluster.put(&path, foreign);
        cluster.rest();
        cluster.set_image("v2");
        cluster.deliver(DAEMONSETS);
        for _ in 1..steps {
            cluster.deliver(ANSWERS);
        }
        cluster.set_image("v3");
        if is_behind {
            cluster.deliver(ANSWERS);
            cluster.deliver(ANSWERS);
        }
        cluster.deliver(DAEMONSETS);
        cluster.rest();
        let status = cluster.daemonset().status;
        assert_eq!(
            (status.collision_count, status.counts.updated),
            (None, 1),
            "{steps}, {is_behind}: {:?}",
            cluster.writes
        );
    }
}

/// DS-005, DS-157: a list of revisions that is older than the answer to a creation does not bury what was created.
#[test]
fn a_list_that_is_older_than_an_answer_buries_nothing() {
    let mut cluster = Cluster::with(1, json!({}));
    deliver_only(&mut cluster, &[NODES, DAEMONSETS, ANSWERS]);
    assert_eq!(cluster.revisions().len(), 1);
    let uid = cluster.revisions()[0].uid.clone();
    cluster.feed(Input::Revisions(Vec::new().into()));
    cluster.rest();
    assert_eq!((cluster.revisions().len(), cluster.on("n0").len()), (1, 1));
    assert_eq!(
        count(&cluster, "create controllerrevisions"),
        2,
        "it looked as if there were none"
    );
    let name = revision(&cluster);
    cluster.writes.clear();
    cluster.change(&name, json!({"metadata": {"labels": {"app": "other"}}}));
    cluster.rest();
    assert_eq!(cluster.writes[0], format!("release {name}"), "its changes are seen");
    assert_eq!(cluster.revisions()[0].uid, uid);
}

/// DS-153: of the template the watch tells, not answers, which may come from an API server that writes it otherwise.
#[test]
fn an_answer_changes_no_template() {
    let mut cluster = Cluster::at_rest(1, json!({}));
    let mut other = cluster.objects["daemonsets/ds"].clone();
    other["spec"]["template"]["spec"]["dnsPolicy"] = json!("ClusterFirst");
    cluster.objects.insert("daemonsets/ds".to_owned(), other);
    cluster.add_node("n1", json!({}), json!([]));
    deliver_only(&mut cluster, &[NODES, PODS, ANSWERS]);
    cluster.pass_one_second();
    deliver_only(&mut cluster, &[NODES, PODS, ANSWERS]);
    assert!(count(&cluster, "status") > 0);
    assert_eq!(count(&cluster, "create controllerrevisions"), 0, "{:?}", cluster.writes);
}
