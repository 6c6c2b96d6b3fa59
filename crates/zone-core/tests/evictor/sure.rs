//! Reads made to be sure: what the watch does not justify is refused or evicted only by what the store says.

use bailiff_model::intent::{EvictionCause, IntentState, Trigger};
use bailiff_model::outcome::{PodOutcomeState, RefusedReason};
use bailiff_model::{Effect as TaintEffect, HoldReason, ReadyStatus, Verdict};
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

/// Design §3: a node that is to be read again is, also if by then nobody waits for the read of another one that was to come first.
#[test]
fn a_read_that_failed_is_made_again_whoever_waits_no_more() {
    let mut world = mk_world();
    let pods = [world.add_pod("p", "n2", vec![]), world.add_pod("q", "n3", vec![])];
    world.retry_after = Some(secs(3));
    world.failures.push_back(FailureKind::NotSent);
    for pod in &pods {
        world.due(pod);
    }
    world.withdraw(&pods[1]);
    world.pass(secs(60));
    assert_eq!(world.reads, 2);
    assert_eq!(
        world.pod_state(&pods[0]),
        Some(&PodOutcomeState::Refused(RefusedReason::NoTaint))
    );
}

/// NL-035, NL-036, TE-034, design §3: what a read shows is as old as when it was asked for. An incarnation that was seen to go since is
/// not there again, and one that has come since is not gone: neither evicts a pod, nor does it vote.
#[test]
fn a_read_that_the_watch_has_overtaken_makes_sure_of_nothing() {
    // What the read shows is gone, or tainted; whether another node takes its name, and what becomes of the pod by the next read.
    let replaced = PodOutcomeState::Refused(RefusedReason::NodeReplaced);
    let cases = [
        (true, true, replaced.clone()),
        (false, true, replaced),
        (false, false, PodOutcomeState::Deleted),
    ];
    for (shows_gone, is_replaced, wanted) in cases {
        let case = format!("shows gone: {shows_gone}, replaced: {is_replaced}");
        let mut world = mk_world();
        world.is_watch_stalled = true;
        world.taint("n2", "maintenance", TaintEffect::NoExecute);
        let pod = world.add_pod("p", "n2", vec![]);
        let due = world.mk_due(&pod, false);
        let before = world.node("n2").clone();
        if shows_gone {
            world.delete_node("n2");
        }
        world.late.are_answers_late = true;
        world.publish(vec![due]);
        world.is_watch_stalled = false;
        if shows_gone {
            world.tell(Input::NodeDeleted {
                name: before.name,
                uid: Some(before.uid),
            });
        } else {
            world.delete_node("n2");
        }
        if is_replaced {
            world.add_node("n2", "a");
            world.change_node("n2", |_| ());
            world.health("n2", Verdict::Healthy);
        }
        world.late.are_answers_late = false;
        for answer in std::mem::take(&mut world.late.answers) {
            world.tell(answer);
        }
        assert_eq!((world.reads, world.deleted()), (1, 0), "{case}");
        world.pass(secs(10));
        assert_eq!((world.reads, world.pod_state(&pod)), (2, Some(&wanted)), "{case}");
        assert_eq!(world.zone_status("a").voting, if is_replaced { 4 } else { 3 }, "{case}");
    }
}

/// Design §3: such a read did not fail: the next one is not made later each time.
#[test]
fn a_node_that_changes_all_the_time_is_read_once_per_second() {
    let mut world = mk_world();
    let pod = world.add_pod("p", "n2", vec![]);
    let due = world.mk_due(&pod, false);
    world.late.are_answers_late = true;
    world.publish(vec![due]);
    for reads in 1..10 {
        assert_eq!(world.reads, reads);
        world.change_node("n2", |_| ());
        for answer in std::mem::take(&mut world.late.answers) {
            world.tell(answer);
        }
        world.pass(secs(1));
    }
    assert_eq!(world.pod_held(&pod), Some(HoldReason::OutdatedIntent));
    world.late.are_answers_late = false;
    for answer in std::mem::take(&mut world.late.answers) {
        world.tell(answer);
    }
    assert_eq!(world.pod_state(&pod), Some(&PodOutcomeState::Refused(RefusedReason::NoTaint)));
}

/// NL-035, TE-034: that a node was gone says nothing of another one that has its name by now, which the watch does not show yet.
#[test]
fn another_node_of_a_name_that_was_gone_is_read() {
    for is_told_late in [false, true] {
        let mut world = mk_world();
        let pod = world.add_pod("p", "n2", vec![]);
        let due = world.mk_due(&pod, false);
        world.delete_node("n2");
        world.late.are_answers_late = is_told_late;
        world.publish(vec![due]);
        world.pass(secs(10));
        world.add_node("n2", "a");
        let other = world.add_pod("q", "n2", vec![]);
        world.due(&other);
        world.late.are_answers_late = false;
        for answer in std::mem::take(&mut world.late.answers) {
            world.tell(answer);
        }
        world.pass(secs(10));
        assert_eq!(
            (world.reads, world.happened()),
            (2, marked_and_deleted("p")),
            "its intents stand"
        );
        assert_eq!(
            world.pod_state(&other),
            Some(&PodOutcomeState::Refused(RefusedReason::NoTaint)),
            "told late: {is_told_late}"
        );
    }
}

/// TE-034: what a node said before it went does not refuse any more.
#[test]
fn a_pod_that_its_node_refused_goes_once_that_is_gone() {
    let mut world = mk_world();
    let pod = world.add_pod("p", "n2", vec![]);
    world.due(&pod);
    assert_eq!(world.pod_state(&pod), Some(&PodOutcomeState::Refused(RefusedReason::NoTaint)));
    world.delete_node("n2");
    world.pass(secs(10));
    assert_eq!((world.reads, world.happened()), (2, marked_and_deleted("p")));
}
