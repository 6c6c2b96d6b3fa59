//! Reads made to be sure: what the watch does not justify is refused or evicted only by what the store says.

use bailiff_model::intent::{EvictionCause, IntentState, Trigger};
use bailiff_model::outcome::{PodOutcomeState, RefusedReason};
use bailiff_model::{Effect as TaintEffect, ReadyStatus};
use bailiff_zone_core::{Count, FailureKind, Input};

use crate::pods::{marked_and_deleted, mk_world};
use crate::world::{mk_taint, mk_toleration, secs};

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

/// Design §1, design §2: what is refused stays due. When the node's taints justify it later it goes, without another word of the
/// taint-manager, to which nothing has changed; until then it is neither marked nor told of again.
#[test]
fn what_was_refused_goes_when_its_node_justifies_it() {
    let mut world = mk_world();
    let pod = world.add_pod("p", "n1", vec![mk_toleration("tolerated", None)]);
    let due = world.mk_due(&pod, false);
    world.untaint("n1", "maintenance", TaintEffect::NoExecute);
    world.publish(vec![due]);
    assert_eq!(world.pod_state(&pod), Some(&PodOutcomeState::Refused(RefusedReason::NoTaint)));
    let before = (world.requests, world.published);
    world.taint("n1", "cordoned", TaintEffect::NoSchedule);
    world.change_node("n1", |facts| facts.ready = ReadyStatus::False);
    assert_eq!((world.requests, world.published), before, "that justifies nothing");
    world.taint("n1", "tolerated", TaintEffect::NoExecute);
    assert_eq!(
        world.pod_state(&pod),
        Some(&PodOutcomeState::Refused(RefusedReason::Tolerated))
    );
    assert_eq!(
        (world.requests, world.happened()),
        (before.0 + 1, vec![]),
        "read, and not marked"
    );
    world.taint("n1", "maintenance", TaintEffect::NoExecute);
    assert_eq!(world.happened(), marked_and_deleted("p"));
    assert_eq!(world.pod_state(&pod), Some(&PodOutcomeState::Deleted));
}

/// Design §3: a read that was made before the intent makes sure of nothing, also if the intent came while the pod was being marked.
#[test]
fn an_intent_that_comes_during_a_request_is_not_refused_by_an_earlier_read() {
    let mut world = mk_world();
    world.is_watch_stalled = true;
    world.taint("n2", "maintenance", TaintEffect::NoExecute);
    let pod = world.add_pod("p", "n2", vec![]);
    (world.is_slow, world.is_unsent) = (true, false);
    world.due(&pod);
    world.answer_first();
    assert_eq!(world.reads, 1, "sure, and being marked");
    // Taken off and put back, of which the watch shows the first half only, and the bus the second.
    world.is_watch_stalled = false;
    world.untaint("n2", "maintenance", TaintEffect::NoExecute);
    world.is_watch_stalled = true;
    world.taint("n2", "maintenance", TaintEffect::NoExecute);
    world.pass(secs(1));
    world.due(&pod);
    world.answer_all();
    world.pass(secs(10));
    assert_eq!((world.deleted(), world.reads), (1, 2));
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
