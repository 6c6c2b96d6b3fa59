//! Reads made to be sure: what the watch does not justify is refused or evicted only by what the store says.

use bailiff_model::Effect as TaintEffect;
use bailiff_model::intent::{EvictionCause, IntentState, Trigger};
use bailiff_model::outcome::{PodOutcomeState, RefusedReason};
use bailiff_zone_core::{Count, FailureKind, Input};

use crate::pods::mk_world;
use crate::world::{mk_taint, secs};

/// Design §1, one disruptor: what the API's own taints do not justify is refused, after a read made to be sure.
#[test]
fn what_the_nodes_taints_do_not_justify_is_refused() {
    let mut world = mk_world();
    let pod = world.add_pod("p", "n2", vec![]);
    let node = world.node("n2").reference();
    let cause = EvictionCause::Taints {
        taints: vec![mk_taint("invented", "")],
        tolerations: vec![],
    };
    let record = world.mk_pod_record(
        world.pods[&pod].reference(),
        node,
        cause,
        IntentState::Due,
        Trigger::Untolerated,
    );
    world.publish(vec![record]);
    assert_eq!((world.requests, world.reads), (1, 1), "one read of the node, nothing else");
    assert_eq!(world.pod_state(&pod), Some(&PodOutcomeState::Refused(RefusedReason::NoTaint)));
    assert!(world.counts.contains(&Count::PodRefused(RefusedReason::NoTaint)));
    assert!(world.events.is_empty());
}

/// Design §3: a cache that is behind what made the intent does not refuse it.
#[test]
fn a_cache_that_is_behind_is_not_trusted_to_refuse() {
    let mut world = mk_world();
    world.is_watch_stalled = true;
    world.taint("n2", "maintenance", TaintEffect::NoExecute);
    let pods = [world.add_pod("p", "n2", vec![]), world.add_pod("q", "n2", vec![])];
    let records = pods.iter().map(|pod| world.mk_due(pod, false)).collect();
    world.publish(records);
    assert_eq!((world.deleted(), world.reads), (2, 1), "one read serves all pods of the node");
}

/// Design §3: whom the watch shows to be justified waits for no read, and no node is read for nobody.
#[test]
fn a_watch_that_catches_up_is_as_good_as_a_read() {
    let mut world = mk_world();
    world.is_watch_stalled = true;
    let nodes = ["n2", "n3", "n4"];
    for node in nodes {
        world.taint(node, "maintenance", TaintEffect::NoExecute);
        let pod = world.add_pod(&format!("p-{node}"), node, vec![]);
        world.due(&pod);
    }
    assert_eq!((world.deleted(), world.reads), (1, 1));
    world.is_watch_stalled = false;
    for node in nodes {
        world.tell(Input::NodeApplied(world.node(node).clone()));
    }
    assert_eq!((world.deleted(), world.reads), (3, 1));
    world.pass(secs(60));
    assert_eq!(world.reads, 1);
}

/// Design §3: at most one read of a node per second.
#[test]
fn reads_to_be_sure_are_one_per_second() {
    let mut world = mk_world();
    for node in ["n2", "n3", "n4"] {
        let pod = world.add_pod(&format!("p-{node}"), node, vec![]);
        world.due(&pod);
    }
    assert_eq!(world.reads, 1);
    world.pass(secs(1));
    assert_eq!(world.reads, 2);
    world.failures.push_back(FailureKind::Unknown);
    world.pass(secs(1));
    assert_eq!(world.evictor.due_pods().0, 0);
    world.pass(secs(60));
    assert_eq!(world.reads, 4, "a read that failed is made again");
    let refused = world
        .counts
        .iter()
        .filter(|count| matches!(count, Count::PodRefused(_)))
        .count();
    assert_eq!(refused, 3);
}

/// Design §1: that the watch does not show a node proves nothing; one that cannot be decoded is not gone.
#[test]
fn a_node_is_gone_only_if_the_store_says_so() {
    let mut world = mk_world();
    let pod = world.add_pod("p", "n2", vec![]);
    let due = world.mk_due(&pod, false);
    let shown = world
        .nodes
        .values()
        .filter(|facts| facts.name.as_str() != "n2")
        .cloned()
        .collect();
    world.tell(Input::Nodes(shown));
    world.failures.extend([FailureKind::Unknown; 2]);
    world.publish(vec![due]);
    world.pass(secs(60));
    assert_eq!((world.reads, world.deleted()), (3, 0));
    assert_eq!(world.pod_state(&pod), Some(&PodOutcomeState::Refused(RefusedReason::NoTaint)));
}
