//! Lists of nodes and pods that come in parts.

use bailiff_daemonset_core::{Input, Watched};
use bailiff_model::Listed;
use bailiff_model::rollout::DaemonSetSync;
use serde_json::json;

use crate::model::{ANSWERS, Cluster, NODES, PODS, all_pods, mk_node, scope, some_pods};
use crate::rollout::mk;

fn mk_stale(watch: Watched) -> Input {
    Input::WatchStale {
        watch,
        reason: "silence".to_owned(),
    }
}

fn first(cluster: &Cluster) -> Input {
    let pods = cluster.pods();
    some_pods(true, pods)
}

/// A cluster at rest but for this: unseen by the core, the pod of n0 is gone and another is in its place.
fn mk_replaced() -> Cluster {
    let mut cluster = Cluster::at_rest(2, json!({}));
    let old = cluster.on("n0").remove(0);
    let mut object = cluster.objects[&format!("pods/{}", old.name)].clone();
    cluster.remove(&format!("pods/{}", old.name));
    object["metadata"]["uid"] = json!("another");
    object["metadata"]["name"] = json!("ds-another");
    cluster.put("pods/ds-another", object);
    cluster.hold_back(PODS);
    cluster
}

/// DS-102: a pod that is gone and the one in its place look like one too many until the list ends.
#[test]
fn a_pod_and_the_one_in_its_place_are_not_one_too_many() {
    let mut cluster = mk_replaced();
    let input = first(&cluster);
    cluster.feed(input);
    cluster.pass_one_second();
    // It broke off.
    let input = first(&cluster);
    cluster.feed(input);
    cluster.pass_one_second();
    cluster.feed(all_pods(Vec::new()));
    cluster.rest();
    assert_eq!(cluster.writes, [""; 0]);
}

/// What is gone shows in the end only, and what is there but unreadable is not gone.
#[test]
fn a_pod_in_no_part_is_gone_unless_it_is_unreadable() {
    for (unreadable, wanted) in [(false, &["create pods n0"][..]), (true, &[])] {
        let mut cluster = Cluster::at_rest(2, json!({}));
        let (lost, kept) = (cluster.on("n0").remove(0), cluster.on("n1"));
        cluster.feed(some_pods(true, kept));
        cluster.pass_one_second();
        assert_eq!(cluster.writes, [""; 0]);
        cluster.feed(all_pods(Listed {
            all: Vec::new(),
            unreadable: if unreadable { vec![lost.uid] } else { Vec::new() },
        }));
        assert_eq!(cluster.writes, wanted, "{unreadable}");
    }
}

/// A node that joined unseen gets its pod when it is known which others there are.
#[test]
fn nothing_is_created_amid_a_list_of_nodes() {
    let mut cluster = Cluster::at_rest(2, json!({}));
    for first in [true, true, false] {
        let nodes = vec![mk_node("n9")];
        cluster.feed(Input::SomeNodes { first, nodes });
        cluster.pass_one_second();
    }
    assert_eq!(cluster.writes, [""; 0]);
    cluster.feed(Input::Nodes(vec![mk_node("n0"), mk_node("n1")].into()));
    assert_eq!(cluster.writes, ["create pods n9"]);
}

/// The same of nodes: the status does not ask for a pod any more on one that is gone.
#[test]
fn a_node_in_no_part_is_gone_unless_it_is_unreadable() {
    for (unreadable, wanted) in [(false, &["status daemonsets/ds"][..]), (true, &[])] {
        let mut cluster = Cluster::at_rest(3, json!({}));
        for (first, names) in [(true, &["n0", "n1"][..]), (true, &["n0"])] {
            let nodes = names.iter().map(|name| mk_node(name)).collect();
            cluster.feed(Input::SomeNodes { first, nodes });
        }
        cluster.pass_one_second();
        assert_eq!(cluster.writes, [""; 0]);
        cluster.feed(Input::Nodes(Listed {
            all: vec![mk_node("n2")],
            unreadable: if unreadable { vec!["n1".into()] } else { Vec::new() },
        }));
        cluster.pass_one_second();
        assert_eq!(cluster.writes, wanted, "{unreadable}");
    }
}

/// While a list that broke off is waited for nothing is written, but that the watch is stale is said.
#[test]
fn a_stale_watch_is_told_amid_a_list() {
    let mut cluster = mk_replaced();
    let input = first(&cluster);
    cluster.feed(input);
    cluster.feed(mk_stale(Watched::Pods(scope())));
    cluster.pass(60);
    let hold = cluster.published.as_ref().and_then(|sync| sync.held.as_ref());
    assert!(hold.is_some_and(|hold| hold.detail.contains("silence")), "{hold:?}");
    let input = first(&cluster);
    cluster.feed(input);
    cluster.feed(all_pods(Vec::new()));
    cluster.feed(Input::WatchFresh(Watched::Pods(scope())));
    cluster.rest();
    assert_eq!(cluster.writes, [""; 0]);
}

/// Reports: amid a list that takes long nothing else is told: nodes of before beside those of now are no cluster.
#[test]
fn counters_of_two_times_are_not_told() {
    let mut cluster = Cluster::at_rest(2, json!({}));
    cluster.pass(60);
    let before = cluster.published.clone().expect("published");
    let nodes = vec![mk_node("n9")];
    cluster.feed(Input::SomeNodes { first: true, nodes });
    cluster.feed(mk_stale(Watched::Nodes));
    cluster.pass(60);
    let told = cluster.published.clone().expect("published");
    assert!(told.held.is_some());
    let but_for_the_hold = DaemonSetSync {
        held: None,
        synced_at: before.synced_at,
        ..told
    };
    assert_eq!(but_for_the_hold, before);
    cluster.feed(Input::Nodes(Vec::new().into()));
    cluster.feed(Input::WatchFresh(Watched::Nodes));
    cluster.pass(60);
    let told = cluster.published.clone().expect("published");
    assert_eq!((told.counts.desired, told.held), (1, None));
}

/// DS-050: a list may be older than a pod that was created, however long ago that was when it ends: the watch has its time after it.
#[test]
fn a_pod_that_was_created_amid_a_list_is_not_made_again() {
    let mut cluster = Cluster::at_rest(1, json!({}));
    let before = cluster.pods();
    cluster.add_node("n1", json!({}), json!([]));
    cluster.deliver(NODES);
    cluster.feed(some_pods(true, before));
    cluster.deliver(ANSWERS);
    let late = cluster.hold_back(PODS);
    cluster.feed(mk_stale(Watched::Pods(scope())));
    cluster.pass(400);
    cluster.feed(all_pods(Vec::new()));
    cluster.feed(Input::WatchFresh(Watched::Pods(scope())));
    cluster.pass(5);
    cluster.give_back(PODS, late);
    cluster.rest();
    let creates = cluster.writes.iter().filter(|write| write.starts_with("create pods"));
    assert_eq!(creates.count(), 1, "{:?}", cluster.writes);
}

/// What waits for its turn was decided by what may be past amid a list, or while a watch is stale: it is taken back, and whatever was
/// changed meanwhile counts.
#[test]
fn what_was_not_sent_is_taken_back_while_what_is_known_may_be_past() {
    for is_stale in [false, true] {
        for (edit, wanted) in [
            (
                json!({"metadata": {"annotations": {"bailiff.dev/rollout-paused": "true"}}}),
                0,
            ),
            (
                json!({"spec": {"updateStrategy": {"type": "OnDelete", "rollingUpdate": null}}}),
                0,
            ),
            (json!({"metadata": {"labels": {"changed": "yes"}}}), 3),
        ] {
            let mut cluster = mk(3, json!("100%"), json!(0));
            cluster.is_slow = true;
            cluster.set_image("v2");
            cluster.settle();
            assert_eq!(cluster.waiting(), 3);
            let pods = cluster.pods();
            if is_stale {
                cluster.feed(mk_stale(Watched::Pods(scope())));
            } else {
                let input = first(&cluster);
                cluster.feed(input);
            }
            cluster.change("daemonsets/ds", edit.clone());
            cluster.settle();
            assert_eq!(cluster.waiting(), 0, "{is_stale} {edit}");
            cluster.feed(all_pods(pods));
            if is_stale {
                cluster.feed(Input::WatchFresh(Watched::Pods(scope())));
            }
            cluster.settle();
            assert_eq!(cluster.waiting(), wanted, "{is_stale} {edit}");
        }
    }
}

/// Nobody works on a DaemonSet that is being deleted, so nobody would say that it is held no longer.
#[test]
fn a_daemonset_that_goes_is_not_told_to_be_held() {
    for goes_first in [true, false] {
        let mut cluster = Cluster::at_rest(2, json!({}));
        let meta = json!({"deletionTimestamp": "2024-01-01T00:00:00Z"});
        let go = json!({ "metadata": meta });
        if goes_first {
            cluster.change("daemonsets/ds", go.clone());
            cluster.settle();
        }
        let nodes = vec![mk_node("n9")];
        cluster.feed(Input::SomeNodes { first: true, nodes });
        cluster.feed(mk_stale(Watched::Nodes));
        cluster.pass(60);
        let is_held = |cluster: &Cluster| cluster.published.as_ref().is_some_and(|sync| sync.held.is_some());
        assert_eq!(is_held(&cluster), !goes_first);
        if !goes_first {
            cluster.change("daemonsets/ds", go);
            cluster.settle();
        }
        assert!(!is_held(&cluster), "{goes_first}");
    }
}

/// DS-190: what waits for its turn is taken back amid a list, too, when the DaemonSet goes.
#[test]
fn a_daemonset_that_goes_amid_a_list_deletes_nothing_more() {
    let mut cluster = mk(3, json!("100%"), json!(0));
    cluster.is_slow = true;
    cluster.set_image("v2");
    cluster.settle();
    assert_eq!(cluster.waiting(), 3);
    let input = first(&cluster);
    cluster.feed(input);
    let meta = json!({"deletionTimestamp": "2024-01-01T00:00:00Z"});
    cluster.change("daemonsets/ds", json!({"metadata": meta}));
    cluster.settle();
    assert_eq!(cluster.waiting(), 0);
}
