//! Creates that are refused for long: who waits with their nodes, and who does not.

use bailiff_daemonset_core::FailureKind;
use serde_json::json;

use crate::model::{Cluster, path_of};

const HOUR: u64 = 3600;

fn creates(cluster: &Cluster, node: &str) -> usize {
    let what = format!("create pods {node}");
    cluster
        .requests
        .iter()
        .filter(|(_, request)| request.starts_with(&what))
        .count()
}

fn join(cluster: &mut Cluster, nodes: impl IntoIterator<Item = usize>) {
    for index in nodes {
        cluster.add_node(&format!("n{index}"), json!({}), json!([]));
    }
}

/// A cluster of nodes n0, n1, and one whose pod is refused for an hour by now.
fn mk() -> Cluster {
    let mut cluster = Cluster::at_rest(2, json!({}));
    cluster.failures.push(("create pods bad", FailureKind::Other));
    cluster.add_node("bad", json!({}), json!([]));
    cluster.pass(HOUR);
    cluster.requests.clear();
    cluster
}

/// DS-029, DS-031, DS-114: a node that joins, or whose pod is deleted, gets its pod at once, whose ever pod is refused. That one is not
/// tried sooner for it.
#[test]
fn a_node_that_comes_to_lack_a_pod_waits_for_no_other() {
    let mut cluster = mk();
    join(&mut cluster, [3]);
    cluster.settle();
    let pod = cluster.on("n0").remove(0);
    cluster.remove(&path_of(&pod));
    cluster.settle();
    assert_eq!((cluster.on("n3").len(), cluster.on("n0").len()), (1, 1));
    assert_eq!((creates(&cluster, "n"), creates(&cluster, "bad")), (2, 0));
    cluster.failures.clear();
    cluster.pass(1000);
    assert_eq!(cluster.on("bad").len(), 1);
}

/// DS-111, DS-114: of many that join together each is tried once, after pauses that grow as long as all are refused; then they wait with
/// the others. One that is not refused begins the next, larger batch.
#[test]
fn nodes_that_join_together_are_tried_by_and_by() {
    let mut cluster = mk();
    cluster.failures.push(("create pods", FailureKind::Other));
    join(&mut cluster, 3..103);
    cluster.settle();
    assert_eq!(creates(&cluster, "n"), 1);
    // 5 ms, 10 ms, … 640 ms.
    cluster.pass(1);
    assert_eq!(creates(&cluster, "n"), 8);
    cluster.failures.pop();
    cluster.pass(1);
    assert_eq!(cluster.pods().len(), 2 + 92, "all but those that were refused");
    assert_eq!((creates(&cluster, "n"), creates(&cluster, "bad")), (100, 0), "each once");
}

/// DS-114: one of two that join together is refused, too.
#[test]
fn a_newcomer_that_is_refused_holds_up_no_other() {
    let mut cluster = mk();
    cluster.failures.push(("create pods n3", FailureKind::Other));
    join(&mut cluster, [3, 4]);
    cluster.pass(1);
    assert_eq!((cluster.on("n3").len(), cluster.on("n4").len()), (0, 1));
    cluster.failures.clear();
    cluster.pass(HOUR);
    assert_eq!((cluster.on("bad").len(), cluster.on("n3").len()), (1, 1));
}

/// DS-135: a node whose new pod is refused holds up no replacement of another one's.
#[test]
fn a_replacement_waits_for_no_other() {
    let strategy = json!({"rollingUpdate": {"maxUnavailable": 2}});
    let mut cluster = Cluster::at_rest(4, json!({"updateStrategy": strategy}));
    cluster.failures.push(("create pods n0", FailureKind::Other));
    cluster.set_image("v2");
    cluster.settle();
    cluster.kubelets();
    // The new pod of n1 does not become ready for an hour.
    cluster.pass(HOUR);
    assert_eq!((cluster.on("n0").len(), cluster.on("n1").len()), (0, 1));
    let current = cluster.on("n1")[0].hash().to_owned();
    for _ in 0..8 {
        cluster.kubelets();
        cluster.settle();
    }
    for node in ["n2", "n3"] {
        assert_eq!(cluster.on(node)[0].hash(), current, "{node}: {:#?}", cluster.writes);
    }
}
