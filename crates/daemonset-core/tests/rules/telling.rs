//! What is told: reports, status, conditions and Events, and when.

use std::time::Duration;

use bailiff_daemonset_core::{FailureKind, Input};
use bailiff_model::rollout::WhyNot;
use bailiff_model::{About, Holds};
use serde_json::{Value, json};

use crate::model::{Cluster, NODES, path_of};
use crate::rollout::mk;

fn count(cluster: &Cluster, prefix: &str) -> usize {
    cluster.writes.iter().filter(|write| write.starts_with(prefix)).count()
}

fn annotate(cluster: &mut Cluster, annotation: &str, value: Value) {
    let annotation = format!("bailiff.dev/{annotation}");
    cluster.change("daemonsets/ds", json!({"metadata": {"annotations": {annotation: value}}}));
}

fn taint(cluster: &mut Cluster, node: &str) {
    let taints = json!([{"key": "k", "effect": "NoExecute"}]);
    cluster.change(&format!("nodes/{node}"), json!({"spec": {"taints": taints}}));
}

/// Reports: nodes that wait for their turn are told to wait for the budget, and since when.
#[test]
fn a_node_is_told_with_its_reason_and_since_when() {
    let mut cluster = mk(3, json!(1), json!(0));
    cluster.pass(60);
    let begun = cluster.now.wall;
    cluster.set_image("v2");
    cluster.pass(5);
    let told = |cluster: &Cluster| cluster.published.clone().expect("published");
    assert!(
        told(&cluster).reasons.contains(&(WhyNot::WaitingForBudget, 2)),
        "{:?}",
        told(&cluster)
    );
    cluster.change(&path_of(&cluster.on("n2")[0]), json!({"metadata": {"labels": {"poke": "1"}}}));
    let pod = cluster.on("n2").remove(0);
    cluster.set_phase(&pod, "Running", false);
    cluster.pass(30);
    let node = told(&cluster).nodes.into_iter().find(|node| node.node.as_str() == "n1");
    assert_eq!(
        node.map(|node| (node.reason, node.since)),
        Some((WhyNot::WaitingForBudget, begun))
    );
}

/// Reports: since when the current revision is current. One of long ago that is current again is so anew.
#[test]
fn a_revision_is_told_with_its_beginning() {
    let mut cluster = mk(3, json!(1), json!(0));
    let image = cluster.objects["daemonsets/ds"]["spec"]["template"]["spec"]["containers"][0]["image"].clone();
    for image in ["v2", image.as_str().expect("it has one")] {
        cluster.pass(60);
        let begun = cluster.now.wall;
        cluster.set_image(image);
        cluster.pass(60);
        let since = cluster.published.as_ref().and_then(|sync| sync.revision_since);
        assert_eq!(since, Some(begun), "{image}");
    }
}

/// Reports: what was told already is not told again.
#[test]
fn nothing_is_told_twice() {
    let mut cluster = mk(2, json!(1), json!(0));
    cluster.pass(60);
    let effects = cluster.core.apply(Input::Braked(Holds::NONE), cluster.now);
    assert_eq!(effects, []);
}

/// DS-142, DS-147: a status waits for requests under way, for a second at most: it is written with the last answer, or without.
#[test]
fn a_status_waits_for_answers_but_not_for_long() {
    let mut cluster = mk(2, json!(1), json!(0));
    taint(&mut cluster, "n0");
    cluster.settle();
    assert_eq!(
        (count(&cluster, "delete pods"), count(&cluster, "status")),
        (1, 1),
        "with the answer"
    );
    cluster.rest();
    cluster.writes.clear();
    cluster.add_node("n2", json!({}), json!([]));
    cluster.deliver(NODES);
    assert_eq!((count(&cluster, "create pods"), count(&cluster, "status")), (1, 0));
    cluster.pass_some(Duration::from_millis(999));
    assert_eq!(count(&cluster, "status"), 0);
    cluster.pass_some(Duration::from_millis(1));
    assert_eq!(count(&cluster, "status"), 1, "without it");
}

/// Rollout-conditions: a text that changes by itself is written at once, and then no sooner than after ten seconds, but then it is.
#[test]
fn a_condition_alone_is_written_every_ten_seconds_at_most() {
    let mut cluster = mk(3, json!(1), json!(0));
    annotate(&mut cluster, "rollout-conditions", json!("true"));
    annotate(&mut cluster, "rollout-paused", json!("true"));
    cluster.set_image("v2");
    cluster.rest();
    cluster.pass(30);
    let reason = |cluster: &Cluster| cluster.objects["daemonsets/ds"]["status"]["conditions"][0]["reason"].clone();
    assert_eq!(reason(&cluster), "RolloutPaused");
    annotate(&mut cluster, "rollout-partition", json!("100%"));
    cluster.settle();
    assert_eq!(reason(&cluster), "RolloutPartition");
    annotate(&mut cluster, "rollout-partition", Value::Null);
    cluster.pass(9);
    assert_eq!(reason(&cluster), "RolloutPartition");
    cluster.pass(2);
    assert_eq!(reason(&cluster), "RolloutPaused");
}

/// Rollout-conditions: the message counts nodes, also where the reason stays what it was.
#[test]
fn the_message_of_a_condition_follows_the_number_of_nodes() {
    let mut cluster = mk(3, json!(1), json!(0));
    annotate(&mut cluster, "rollout-conditions", json!("true"));
    annotate(&mut cluster, "rollout-paused", json!("true"));
    cluster.set_image("v2");
    cluster.rest();
    for (left, gone) in [(3, None), (2, Some("n2"))] {
        if let Some(node) = gone {
            taint(&mut cluster, node);
            cluster.rest();
        }
        cluster.pass(30);
        let message = cluster.objects["daemonsets/ds"]["status"]["conditions"][0]["message"].to_string();
        assert!(message.contains(&format!("rollout_paused {left}")), "{message}");
    }
}

/// DS-112, DS-113: an Event says that a pod could not be created or deleted; not what was never sent, nor other failures.
#[test]
fn only_creates_and_deletes_that_were_refused_are_told() {
    type When = fn(&mut Cluster);
    let create: When = |cluster| cluster.add_node("n2", json!({}), json!([]));
    let delete: When = |cluster| taint(cluster, "n0");
    let release: When = |cluster| {
        let path = path_of(&cluster.on("n0")[0]);
        cluster.change(&path, json!({"metadata": {"labels": {"app": "other"}}}));
    };
    let cases = [
        ("create pods", FailureKind::Other, create, true),
        ("create pods", FailureKind::NotSent, create, false),
        ("delete pods", FailureKind::Other, delete, true),
        ("delete pods", FailureKind::NotSent, delete, false),
        ("release pods", FailureKind::Other, release, false),
    ];
    for (what, kind, when, is_told) in cases {
        let mut cluster = mk(2, json!(1), json!(0));
        cluster.failures.push((what, kind));
        when(&mut cluster);
        cluster.pass(1);
        assert!(count(&cluster, what) > 1, "{what} {kind:?}: it is tried again");
        let told = cluster.events.iter().any(|event| event.starts_with("Failed"));
        assert_eq!(told, is_told, "{what} {kind:?}: {:?}", cluster.events);
    }
}

/// An Event about a pod names its node, and the taint if that is why it goes.
#[test]
fn an_event_names_the_node_and_the_taint_that_drives_a_pod_away() {
    let mut cluster = mk(2, json!(1), json!(0));
    cluster.pass(60);
    let said = |cluster: &mut Cluster| {
        let reasons = std::mem::take(&mut cluster.events).into_iter();
        let reasons = reasons.map(|event| event.split(' ').next().unwrap_or_default().to_owned());
        let text = |about: About| {
            let node = about.node.map_or_else(String::new, |node| format!(" {node}"));
            node + &about.taint.map_or_else(String::new, |taint| format!(" {taint}"))
        };
        let abouts = std::mem::take(&mut cluster.abouts).into_iter().map(text);
        let mut said: Vec<String> = reasons.zip(abouts).map(|(reason, about)| reason + &about).collect();
        said.sort();
        said
    };
    assert_eq!(said(&mut cluster), ["SuccessfulCreate n0", "SuccessfulCreate n1"]);
    taint(&mut cluster, "n0");
    let failed = cluster.on("n1").remove(0);
    cluster.set_phase(&failed, "Failed", false);
    cluster.pass(60);
    let wanted = [
        "FailedDaemonPod n1",
        "SuccessfulCreate n1",
        "SuccessfulDelete n0 k:NoExecute",
        "SuccessfulDelete n1",
    ];
    assert_eq!(said(&mut cluster), wanted);
    cluster.set_image("v2");
    cluster.pass(60);
    assert_eq!(
        said(&mut cluster),
        ["SuccessfulCreate n1", "SuccessfulDelete n1"],
        "a rollout is no taint's work"
    );
    annotate(&mut cluster, "rollout-partition", json!("none"));
    cluster.pass(5);
    assert_eq!(said(&mut cluster), ["InvalidAnnotation"]);
}
