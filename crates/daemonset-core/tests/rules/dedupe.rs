//! A second revision of the current template, while something else happens to the pods of the first.

use bailiff_daemonset_core::{FailureKind, Input};
use bailiff_model::{Hold, HoldReason, HoldScope, Holds};
use serde_json::{Value, json};

use crate::model::{ANSWERS, Cluster, DAEMONSETS, NODES, REVISIONS, path_of};

/// Lets the core see a copy of its only revision with a higher number, and look at it.
fn duplicate(cluster: &mut Cluster) {
    let path = format!("controllerrevisions/{}", cluster.revisions()[0].name);
    let mut copy = cluster.objects[&path].clone();
    copy["metadata"]["name"] = json!("copy");
    copy["metadata"]["uid"] = Value::Null;
    copy["metadata"]["labels"]["controller-revision-hash"] = json!("copied");
    copy["revision"] = json!(9);
    cluster.put("controllerrevisions/copy", copy);
    cluster.deliver(REVISIONS);
    cluster.change("daemonsets/ds", json!({"metadata": {"labels": {"poke": "1"}}}));
    cluster.deliver(DAEMONSETS);
}

fn assert_deduped(cluster: &Cluster) {
    let names: Vec<_> = cluster.revisions().into_iter().map(|revision| revision.name).collect();
    assert_eq!(names, ["copy".into()], "{:#?}", cluster.writes);
}

/// DS-160: a pod that was gone when it was to be relabelled is waited for until that is seen, and no longer.
#[test]
fn a_pod_that_goes_holds_up_no_dedupe() {
    let mut cluster = Cluster::at_rest(1, json!({}));
    cluster.failures.push(("label pods", FailureKind::NotFound));
    duplicate(&mut cluster);
    cluster.deliver(ANSWERS);
    assert_eq!(cluster.writes.len(), 1, "{:?}", cluster.writes);
    cluster.failures.clear();
    cluster.remove(&path_of(&cluster.on("n0")[0]));
    cluster.rest();
    assert_deduped(&cluster);
    assert_eq!((cluster.on("n0").len(), cluster.on("n0")[0].hash()), (1, "copied"));
}

/// DS-160: a pod that is being deleted is relabelled once that is seen: it may take long to end.
#[test]
fn a_pod_that_takes_long_to_end_holds_up_no_dedupe() {
    let mut cluster = Cluster::at_rest(2, json!({}));
    cluster.change("nodes/n0", json!({"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}}));
    cluster.deliver(NODES);
    cluster.deliver(ANSWERS);
    assert!(cluster.on("n0")[0].deleting);
    duplicate(&mut cluster);
    while cluster.pending().contains(&ANSWERS) {
        cluster.deliver(ANSWERS);
    }
    assert_eq!(cluster.revisions().len(), 2, "a pod is still of the first");
    cluster.settle();
    assert_deduped(&cluster);
    assert!(cluster.on("n0")[0].deleting);
}

/// DS-113, DS-160: a pod that is being relabelled is not deleted before that is answered, though the dedupe is over by then: the answer
/// would be taken for that of the delete, and in the end there would be no room for any other.
#[test]
fn a_pod_that_is_being_relabelled_is_deleted_after_that() {
    let mut cluster = Cluster::at_rest(1, json!({}));
    let hold = Hold {
        reason: HoldReason::Paused,
        detail: "so that a misplaced pod stays".to_owned(),
        since: cluster.now.wall,
        until: None,
    };
    cluster.feed(Input::Braked([(HoldScope::All, hold)].into_iter().collect()));
    cluster.change("nodes/n0", json!({"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}}));
    cluster.deliver(NODES);
    cluster.loses = Some("label pods");
    duplicate(&mut cluster);
    cluster.loses = None;
    cluster.remove("controllerrevisions/copy");
    cluster.deliver(REVISIONS);
    cluster.feed(Input::Braked(Holds::NONE));
    let deletes = |cluster: &Cluster| cluster.writes.iter().filter(|write| write.starts_with("delete pods")).count();
    assert!(
        cluster.writes.iter().any(|write| write.starts_with("label pods")),
        "{:?}",
        cluster.writes
    );
    assert_eq!(deletes(&cluster), 0, "{:?}", cluster.writes);
    cluster.rest_longer();
    assert_eq!((deletes(&cluster), cluster.on("n0").len()), (1, 0), "{:?}", cluster.writes);
}
