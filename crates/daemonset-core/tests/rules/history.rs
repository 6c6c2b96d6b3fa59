//! Revisions: creation, rollback, collisions, dedupe, clean-up, takeover.

use bailiff_daemonset_core::{FailureKind, Profile};
use serde_json::{Value, json};

use crate::model::Cluster;

/// `(number, image)` of every revision, in order of number.
fn images(cluster: &Cluster) -> Vec<(i64, String)> {
    let image = |data: &[u8]| {
        let data: Value = serde_json::from_slice(data).expect("JSON");
        data["spec"]["template"]["spec"]["containers"][0]["image"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let mut images: Vec<_> = cluster
        .revisions()
        .iter()
        .map(|revision| (revision.number, image(&revision.data)))
        .collect();
    images.sort();
    images
}

fn numbered(pairs: &[(i64, &str)]) -> Vec<(i64, String)> {
    pairs.iter().map(|(number, image)| (*number, (*image).to_owned())).collect()
}

/// DS-042, DS-090, DS-157
#[test]
fn a_new_revision_carries_template_labels_annotations_and_owner() {
    let mut cluster = Cluster::with(1, json!({}));
    cluster.rest();
    let path = cluster
        .objects
        .keys()
        .find(|path| path.starts_with("controllerrevisions/"))
        .cloned()
        .expect("created");
    let revision = &cluster.objects[&path];
    let hash = revision["metadata"]["labels"]["controller-revision-hash"]
        .as_str()
        .expect("labelled");
    assert_eq!(path, format!("controllerrevisions/ds-{hash}"));
    assert_eq!(revision["metadata"]["labels"]["app"], "ds");
    assert_eq!(
        revision["metadata"]["annotations"]["deprecated.daemonset.template.generation"],
        "1"
    );
    assert_eq!(
        revision["metadata"]["ownerReferences"][0]["uid"],
        cluster.objects["daemonsets/ds"]["metadata"]["uid"]
    );
    assert_eq!(revision["revision"], 1);
    let pod = cluster.on("n0").remove(0);
    assert_eq!((pod.hash(), &*pod.labels["pod-template-generation"]), (hash, "1"));
}

/// DS-150, DS-152, DS-155: a rollback reuses the old revision, and other changes make none.
#[test]
fn a_rollback_reuses_and_renumbers_the_old_revision() {
    let mut cluster = Cluster::with(2, json!({}));
    cluster.rest();
    cluster.edit(json!({"minReadySeconds": 1}));
    cluster.rest();
    assert_eq!(images(&cluster), numbered(&[(1, "v1")]));
    cluster.set_image("v2");
    cluster.rest();
    assert_eq!(images(&cluster), numbered(&[(1, "v1"), (2, "v2")]));
    cluster.writes.clear();
    cluster.set_image("v1");
    cluster.rest();
    assert_eq!(images(&cluster), numbered(&[(2, "v2"), (3, "v1")]));
    assert!(
        cluster.writes[0].starts_with("renumber ") && cluster.writes[0].ends_with(" 3"),
        "{:?}",
        cluster.writes
    );
}

/// DS-155: pods of the old revision are current at once when it is rolled back to in the middle of a rollout.
#[test]
fn a_rollback_in_the_middle_keeps_untouched_pods() {
    let mut cluster = Cluster::with(3, json!({"updateStrategy": {"type": "OnDelete"}}));
    cluster.rest();
    let names = |cluster: &Cluster| -> Vec<String> { cluster.pods().iter().map(|pod| pod.name.to_string()).collect() };
    let before = names(&cluster);
    cluster.set_image("v2");
    cluster.rest();
    cluster.edit(json!({"updateStrategy": {"type": "RollingUpdate"}}));
    cluster.settle();
    cluster.set_image("v1");
    cluster.rest();
    let kept = names(&cluster).into_iter().filter(|name| before.contains(name)).count();
    assert!(kept >= 2, "at most one was on its way out");
}

/// DS-161: the lowest numbers go first, the current one and live ones never.
#[test]
fn surplus_revisions_are_deleted_but_never_live_ones() {
    let mut cluster = Cluster::with(2, json!({"revisionHistoryLimit": 1, "updateStrategy": {"type": "OnDelete"}}));
    cluster.rest();
    for image in ["v2", "v3", "v4"] {
        cluster.set_image(image);
        cluster.rest();
    }
    assert_eq!(
        images(&cluster),
        numbered(&[(1, "v1"), (4, "v4")]),
        "v1 is live on both nodes"
    );
    for node in ["n0", "n1"] {
        let pod = cluster.on(node).remove(0);
        cluster.remove(&crate::model::path_of(&pod));
    }
    cluster.rest();
    assert_eq!(images(&cluster), numbered(&[(1, "v1"), (4, "v4")]), "one old one may stay");
    cluster.edit(json!({"revisionHistoryLimit": 0}));
    cluster.rest();
    assert_eq!(images(&cluster), numbered(&[(4, "v4")]));
}

/// DS-161: a limit that is lowered is heeded at once, and one deletion after the other, without a pause between them.
#[test]
fn surplus_revisions_go_at_once() {
    let mut cluster = Cluster::with(1, json!({}));
    for image in ["v1", "v2", "v3", "v4", "v5"] {
        cluster.set_image(image);
        cluster.rest();
    }
    assert_eq!(cluster.revisions().len(), 5);
    cluster.writes.clear();
    cluster.edit(json!({"revisionHistoryLimit": 0}));
    cluster.settle();
    let begin: Vec<bool> = cluster
        .writes
        .iter()
        .map(|write| write.starts_with("delete controllerrevisions"))
        .collect();
    assert!(begin[0] && cluster.revisions().len() == 1, "{:?}", cluster.writes);
}

/// A DaemonSet whose revision's name somebody else's revision has.
fn mk_collision() -> Cluster {
    let mut probe = Cluster::with(1, json!({}));
    probe.rest();
    let name = probe.revisions()[0].name.to_string();
    let mut cluster = Cluster::new(Profile::Bailiff);
    let foreign = json!({"metadata": {"name": name, "namespace": "ns"}, "data": {"other": 1}, "revision": 5});
    cluster.put(&format!("controllerrevisions/{name}"), foreign);
    cluster.add_node("n0", json!({}), json!([]));
    cluster.add_daemonset("ds", json!({}));
    cluster
}

/// DS-158, DS-159; upstream's TestLaunchWithHashCollision
#[test]
fn a_hash_collision_raises_the_collision_count() {
    let mut cluster = mk_collision();
    cluster.rest();
    assert_eq!(cluster.daemonset().status.collision_count, Some(1));
    assert_eq!(cluster.revisions().len(), 2);
    assert_eq!(cluster.pods().len(), 1);
    assert_eq!(
        cluster.writes.iter().filter(|write| write.starts_with("collision")).count(),
        1
    );
}

/// DS-158: a revision of our name with our data is used as it is, whoever owns it.
#[test]
fn a_foreign_revision_of_the_same_data_is_used() {
    let mut probe = Cluster::with(1, json!({}));
    probe.rest();
    let mut revision = probe.objects[&format!("controllerrevisions/{}", probe.revisions()[0].name)].clone();
    let name = probe.revisions()[0].name.to_string();
    revision["metadata"]["ownerReferences"] = json!([{"kind": "StatefulSet", "name": "x", "uid": "x", "controller": true}]);
    let mut cluster = Cluster::new(Profile::Bailiff);
    cluster.put(&format!("controllerrevisions/{name}"), revision);
    cluster.add_node("n0", json!({}), json!([]));
    cluster.add_daemonset("ds", json!({}));
    cluster.rest();
    assert_eq!(cluster.pods().len(), 1);
    assert_eq!(
        (cluster.revisions().len(), cluster.daemonset().status.collision_count),
        (1, None)
    );
    // It is used for that template only.
    cluster.set_image("v2");
    cluster.rest();
    assert_eq!((cluster.revisions().len(), cluster.daemonset().status.counts.updated), (2, 1));
    let hash = cluster.on("n0")[0].hash().to_owned();
    assert!(!name.ends_with(&hash), "{name} {hash}");
}

/// DS-155, DS-157, DS-158: a DaemonSet that was replaced by one of the same template uses the old one's revision until that is collected,
/// and has its own then.
#[test]
fn a_foreign_revision_is_used_no_longer_than_it_is_there() {
    let mut cluster = Cluster::at_rest(1, json!({}));
    let (revision, pod) = (cluster.revisions()[0].clone(), cluster.on("n0").remove(0));
    cluster.remove("daemonsets/ds");
    cluster.add_daemonset("ds", json!({}));
    cluster.settle();
    assert_eq!((cluster.revisions().len(), cluster.pods().len()), (1, 2), "it is used");
    cluster.remove(&crate::model::path_of(&pod));
    cluster.remove(&format!("controllerrevisions/{}", revision.name));
    cluster.rest();
    let left = cluster.revisions();
    assert_eq!((left.len(), cluster.pods().len()), (1, 1));
    assert_eq!((&left[0].name, left[0].uid == revision.uid), (&revision.name, false));
}

/// DS-158: a count that somebody else has raised meanwhile is tried before it is raised further.
#[test]
fn a_collision_count_that_was_raised_meanwhile_is_tried_first() {
    let mut cluster = mk_collision();
    let mut raised = cluster.objects["daemonsets/ds"].clone();
    raised["status"]["collisionCount"] = json!(1);
    cluster.objects.insert("daemonsets/ds".to_owned(), raised);
    cluster.rest();
    assert_eq!(cluster.daemonset().status.collision_count, Some(1), "{:?}", cluster.writes);
    assert_eq!((cluster.revisions().len(), cluster.pods().len()), (2, 1));
}

/// DS-032, DS-155: a revision deleted by hand is made again, and pods are not touched.
#[test]
fn a_deleted_revision_is_made_again() {
    let mut cluster = Cluster::with(2, json!({}));
    cluster.rest();
    let name = cluster.revisions()[0].name.clone();
    cluster.writes.clear();
    cluster.remove(&format!("controllerrevisions/{name}"));
    cluster.rest();
    assert_eq!(cluster.writes, ["create controllerrevisions"]);
    assert_eq!(cluster.revisions()[0].name, name);
}

/// DS-061, DS-062, DS-063, DS-154, DS-162
#[test]
fn an_orphaned_revision_is_adopted_and_labelled_with_its_name() {
    let mut cluster = Cluster::with(1, json!({}));
    cluster.rest();
    let name = cluster.revisions()[0].name.clone();
    cluster.writes.clear();
    cluster.requests.clear();
    let path = format!("controllerrevisions/{name}");
    cluster.change(
        &path,
        json!({"metadata": {"ownerReferences": null, "labels": {"controller-revision-hash": null}}}),
    );
    cluster.rest();
    assert_eq!(cluster.writes, [format!("adopt {path}"), format!("label {path} \"{name}\"")]);
    assert_eq!(
        cluster.requests[0].1, "get daemonsets/ds",
        "it is looked at before anything is adopted"
    );
    assert_eq!(cluster.pods().len(), 1);
}

/// DS-162: a revision whose labels no longer match is let go, and another one made in its place.
#[test]
fn a_revision_that_is_not_selected_is_released() {
    let mut cluster = Cluster::with(1, json!({}));
    cluster.rest();
    let name = cluster.revisions()[0].name.clone();
    let path = format!("controllerrevisions/{name}");
    cluster.writes.clear();
    cluster.change(&path, json!({"metadata": {"labels": {"app": "other"}}}));
    cluster.rest();
    assert_eq!(cluster.writes[0], format!("release {path}"));
    // The name is taken by the released one, whose data is ours: it is used as it is (DS-158).
    assert_eq!(cluster.pods().len(), 1);
    assert!(
        !cluster.writes.iter().any(|write| write.contains(" pods")),
        "{:?}",
        cluster.writes
    );
}

/// DS-160, DS-234; upstream's TestDSCUpdatesPodLabelAfterDedupCurHistories
#[test]
fn duplicates_are_reduced_to_the_highest_number() {
    for (profile, old_is_relabelled) in [(Profile::Bailiff, false), (Profile::Upstream, true)] {
        let mut cluster = Cluster::with(2, json!({"updateStrategy": {"type": "OnDelete"}}));
        cluster.rest();
        cluster.set_image("v2");
        cluster.rest();
        let pod = cluster.on("n1").remove(0);
        cluster.remove(&crate::model::path_of(&pod));
        cluster.rest();
        cluster.restart(profile);
        cluster.rest();
        let original = cluster
            .revisions()
            .into_iter()
            .find(|revision| revision.number == 2)
            .expect("v2");
        let mut copy = cluster.objects[&format!("controllerrevisions/{}", original.name)].clone();
        copy["metadata"]["name"] = json!("copy");
        copy["metadata"]["uid"] = Value::Null;
        copy["metadata"]["labels"]["controller-revision-hash"] = json!("copied");
        copy["revision"] = json!(9);
        cluster.put("controllerrevisions/copy", copy);
        cluster.rest();
        poke(&mut cluster);
        cluster.rest();
        assert_eq!(images(&cluster), numbered(&[(1, "v1"), (9, "v2")]), "{profile:?}");
        assert_eq!(cluster.on("n1")[0].hash(), "copied", "{profile:?}");
        assert_eq!(cluster.on("n0")[0].hash() == "copied", old_is_relabelled, "{profile:?}");
        cluster.add_node("n2", json!({}), json!([]));
        cluster.rest();
        assert_eq!(
            cluster.on("n2")[0].hash(),
            "copied",
            "{profile:?}: new pods are of the one that is left"
        );
    }
}

/// DS-040: without a revision nothing is managed, and no status written.
#[test]
fn history_comes_before_everything_else() {
    let mut cluster = Cluster::with(2, json!({}));
    cluster.failures.push(("create controllerrevisions", FailureKind::Other));
    cluster.pass(3);
    assert!(
        cluster.writes.iter().all(|write| write == "create controllerrevisions"),
        "{:?}",
        cluster.writes
    );
    cluster.failures.clear();
    cluster.rest_longer();
    assert_eq!(cluster.pods().len(), 2);
}

/// DS-200, DS-205, DS-210, DS-213: names, hashes and who made it play no part; with the state in order nothing is written.
#[test]
fn a_takeover_writes_nothing() {
    for surge in [0, 1] {
        let strategy = json!({"rollingUpdate": {"maxSurge": surge, "maxUnavailable": 1 - surge}});
        let mut cluster = Cluster::with(3, json!({"updateStrategy": strategy}));
        cluster.rest();
        cluster.set_image("v2");
        cluster.rest();
        // Give the revisions names and hashes as another controller would.
        for (index, revision) in cluster.revisions().into_iter().enumerate() {
            let mut object = cluster.objects[&format!("controllerrevisions/{}", revision.name)].clone();
            let hash = format!("hash{index}");
            for pod in cluster
                .pods()
                .into_iter()
                .filter(|pod| Some(pod.hash()) == revision.hash().map(|hash| &**hash))
            {
                let labels = json!({"metadata": {"labels": {"controller-revision-hash": hash}}});
                cluster.change(&crate::model::path_of(&pod), labels);
            }
            cluster.remove(&format!("controllerrevisions/{}", revision.name));
            object["metadata"]["name"] = json!(format!("ds-{hash}"));
            object["metadata"]["uid"] = Value::Null;
            object["metadata"]["labels"]["controller-revision-hash"] = json!(hash);
            cluster.put(&format!("controllerrevisions/ds-{hash}"), object);
        }
        cluster.writes.clear();
        cluster.restart(Profile::Bailiff);
        cluster.rest();
        assert_eq!(cluster.writes, [] as [String; 0], "surge {surge}");
    }
}

/// DS-150, DS-153, DS-155, DS-208, DS-235: the same template in other bytes, as controllers before 1.34 wrote them, is another, old revision.
#[test]
fn foreign_bytes_are_another_revision() {
    let mut cluster = Cluster::with(1, json!({}));
    cluster.rest();
    let original = cluster.revisions().remove(0);
    let mut copy = cluster.objects[&format!("controllerrevisions/{}", original.name)].clone();
    copy["metadata"]["name"] = json!("copy");
    copy["metadata"]["uid"] = Value::Null;
    copy["metadata"]["labels"]["controller-revision-hash"] = json!("copied");
    copy["data"]["spec"]["template"]["metadata"]["creationTimestamp"] = Value::Null;
    copy["revision"] = json!(7);
    cluster.writes.clear();
    cluster.put("controllerrevisions/copy", copy);
    cluster.rest();
    poke(&mut cluster);
    cluster.rest();
    assert_eq!(cluster.writes, [format!("renumber controllerrevisions/{} 8", original.name)]);
}

/// DS-065, DS-162, DS-208: a revision that the server does not let go of is let be.
#[test]
fn a_revision_that_cannot_be_released_holds_nothing_up() {
    let mut cluster = Cluster::with(1, json!({}));
    cluster.rest();
    let path = format!("controllerrevisions/{}", cluster.revisions()[0].name);
    cluster.failures.push(("release controllerrevisions", FailureKind::Invalid));
    cluster.change(&path, json!({"metadata": {"labels": {"app": "other"}}}));
    cluster.add_node("n1", json!({}), json!([]));
    cluster.rest();
    assert_eq!(cluster.pods().len(), 2);
    let releases = cluster.writes.iter().filter(|write| write.starts_with("release"));
    assert_eq!(releases.count(), 1);
}

/// DS-154, DS-237: a revision without any label is no reason to fall over.
#[test]
fn a_revision_without_labels_is_adopted_and_labelled() {
    let selector = json!({"matchLabels": null, "matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]});
    let mut cluster = Cluster::with(1, json!({"selector": selector}));
    cluster.rest();
    let path = format!("controllerrevisions/{}", cluster.revisions()[0].name);
    cluster.writes.clear();
    cluster.change(&path, json!({"metadata": {"ownerReferences": null, "labels": null}}));
    cluster.rest();
    assert!(
        cluster.writes[0].starts_with("adopt ") && cluster.writes[1].starts_with("label "),
        "{:?}",
        cluster.writes
    );
}

/// DS-155, DS-175, DS-215: what `kubectl rollout` relies on. Undo sends the data of a revision as a patch of the DaemonSet; status
/// compares generations and counters.
#[test]
fn kubectl_can_undo_and_watch_a_rollout() {
    let mut cluster = Cluster::with(2, json!({}));
    cluster.rest();
    let first = cluster.objects["daemonsets/ds"]["spec"]["template"].clone();
    cluster.set_image("v2");
    cluster.rest();
    let old = cluster
        .revisions()
        .into_iter()
        .find(|revision| revision.number == 1)
        .expect("v1");
    let mut patch: Value = serde_json::from_slice(&old.data).expect("an object");
    let template = patch["spec"]["template"].as_object_mut().expect("an object");
    assert_eq!(template.shift_remove("$patch"), Some(json!("replace")));
    assert_eq!(Value::Object(template.clone()), first);
    cluster.edit(patch["spec"].clone());
    cluster.rest();
    assert_eq!(images(&cluster), numbered(&[(2, "v2"), (3, "v1")]));
    let ds = cluster.daemonset();
    assert!(ds.generation <= ds.status.observed_generation);
    let counts = ds.status.counts;
    assert_eq!((counts.updated, counts.available), (counts.desired, counts.desired));
}

/// DS-032: an owned revision that appears wakes nobody; it counts with the next change.
#[test]
fn an_owned_revision_that_appears_is_looked_at_later() {
    let mut cluster = Cluster::with(2, json!({}));
    cluster.rest();
    let path = format!("controllerrevisions/{}", cluster.revisions()[0].name);
    let mut copy = cluster.objects[&path].clone();
    copy["metadata"]["name"] = "ds-copy".into();
    copy["metadata"]["uid"] = "copy".into();
    copy["metadata"]["labels"]["controller-revision-hash"] = "copy".into();
    copy["revision"] = 7.into();
    cluster.writes.clear();
    cluster.put("controllerrevisions/ds-copy", copy);
    cluster.rest();
    assert_eq!(cluster.writes, [""; 0]);
    poke(&mut cluster);
    cluster.rest();
    assert_ne!(cluster.writes, [""; 0]);
}

/// DS-090, DS-172: a template that was changed and changed back unseen has another generation, and new pods say so.
#[test]
fn a_new_pod_carries_the_present_generation() {
    let mut cluster = Cluster::with(1, json!({}));
    cluster.rest();
    cluster.writes.clear();
    let annotations = json!({"deprecated.daemonset.template.generation": "3"});
    cluster.change(
        "daemonsets/ds",
        json!({"metadata": {"generation": 3, "annotations": annotations}}),
    );
    cluster.settle();
    cluster.add_node("n1", json!({}), json!([]));
    cluster.settle();
    assert_eq!(&*cluster.on("n1")[0].labels["pod-template-generation"], "3");
    assert!(
        !cluster
            .writes
            .iter()
            .any(|write| write.starts_with("delete") || write.contains("controllerrevisions"))
    );
}

/// Changes the DaemonSet without a new generation, so that it is looked at.
fn poke(cluster: &mut Cluster) {
    cluster.change("daemonsets/ds", json!({"metadata": {"labels": {"poke": "1"}}}));
}
