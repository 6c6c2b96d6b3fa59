//! Answers about revisions that were on their way when revisions were listed.

use bailiff_daemonset_core::{Input, Revision};
use serde_json::json;

use crate::late::deliver_only;
use crate::model::{ANSWERS, Cluster, DAEMONSETS, NODES, REVISIONS, merge};

fn first_revision(cluster: &Cluster) -> String {
    format!("controllerrevisions/{}", cluster.revisions()[0].name)
}

/// Clusters in which the last answer is about the first revision, of which no watch has told: to its creation, to a change, to a read.
fn mk_about_to_be_answered() -> [Cluster; 3] {
    let mut created = Cluster::with(1, json!({}));
    deliver_only(&mut created, &[NODES, DAEMONSETS]);

    let mut changed = Cluster::with(1, json!({}));
    deliver_only(&mut changed, &[NODES, DAEMONSETS, ANSWERS]);
    let mut other = changed.objects[&first_revision(&changed)].clone();
    changed.hold_back(REVISIONS);
    merge(
        &mut other,
        &json!({"metadata": {"name": "other", "uid": null}, "data": {"other": 1}, "revision": 5}),
    );
    changed.put("controllerrevisions/other", other);
    changed.change("daemonsets/ds", json!({"metadata": {"labels": {"poke": "1"}}}));
    changed.deliver(REVISIONS);
    deliver_only(&mut changed, &[DAEMONSETS]);
    assert_eq!(
        changed.writes.last(),
        Some(&format!("renumber {} 6", first_revision(&changed)))
    );

    let mut read = Cluster::with(1, json!({}));
    let foreign = json!({"metadata": {"ownerReferences": null, "labels": {"app": "other"}}});
    let (path, mut object) = (first_revision(&created), created.objects[&first_revision(&created)].clone());
    merge(&mut object, &foreign);
    read.put(&path, object);
    read.hold_back(REVISIONS);
    deliver_only(&mut read, &[NODES, DAEMONSETS]);
    read.deliver(ANSWERS);
    assert_eq!(read.requests.last().map(|(_, request)| request), Some(&format!("get {path}")));
    [created, changed, read]
}

/// DS-150, DS-157, DS-158: a revision that a list lacks is not there because an answer says so that was on its way: no watch would ever
/// tell that it is gone.
#[test]
fn an_answer_of_before_a_list_brings_no_revision_back() {
    for (index, mut cluster) in mk_about_to_be_answered().into_iter().enumerate() {
        let gone = cluster.revisions().remove(0);
        cluster.objects.remove(&first_revision(&cluster));
        cluster.hold_back(REVISIONS);
        let left = cluster.revisions();
        cluster.feed(Input::Revisions(left.into()));
        cluster.rest();
        let there = cluster.revisions().into_iter().find(|one| one.name == gone.name);
        assert!(
            there.is_some_and(|one| one.uid != gone.uid),
            "{index}: {:?}",
            cluster.requests
        );
        assert_eq!(cluster.daemonset().status.counts.updated, 1, "{index}");
    }
}

/// The same with a list that is older than the answer: the watch tells of the revision, or it is found to be there.
#[test]
fn an_answer_that_a_list_crosses_loses_no_revision() {
    for (index, mut cluster) in mk_about_to_be_answered().into_iter().enumerate() {
        let before = cluster.revisions();
        let late = cluster.hold_back(REVISIONS);
        let listed = before[1..].to_vec();
        cluster.feed(Input::Revisions(listed.into()));
        deliver_only(&mut cluster, &[ANSWERS]);
        cluster.give_back(REVISIONS, late);
        cluster.rest();
        let uids = |revisions: &[Revision]| -> Vec<_> { revisions.iter().map(|one| one.uid.clone()).collect() };
        assert_eq!(uids(&cluster.revisions()), uids(&before), "{index}: {:?}", cluster.requests);
        let ds = cluster.daemonset();
        assert_eq!((ds.status.counts.updated, ds.status.collision_count), (1, None), "{index}");
    }
}
