//! Node mode: what becomes of the pods of a node that is lost, and what keeps a node from its turn.

use bailiff_model::outcome::{NodeOutcomeState, PodOutcomeState, RefusedReason};
use bailiff_model::{Hold, HoldReason, HoldScope, Holds, Topic, Verdict};
use bailiff_zone_core::{Block, Body, Effect, EvictionMethod, EvictionMode, FailureKind, Input, Mark, NODE_LOST};

use crate::node_mode::{NODES, deleted, fall_due, mk_daemon_set, mk_world};
use crate::world::{Happened, World, mk_config, secs};

/// NL-206: the status is rewritten, as upstream words it; a pod that changed meanwhile is read and judged again, and never deleted
/// without it.
#[test]
fn the_mark_of_a_lost_node_comes_before_the_delete() {
    let mut world = mk_world(0.1);
    world.is_slow = true;
    fall_due(&mut world, "n1");
    let Some(Effect::MarkPod {
        mark: Mark::NodeLost { message },
        ..
    }) = world.unanswered.first()
    else {
        unreachable!("a mark, not {:?}", world.unanswered)
    };
    assert_eq!(message, "Node n1 which was running pod p-n1 is unresponsive");
    world.failures.push_back(FailureKind::Conflict);
    world.answer_all();
    let wanted = ["p-n1"; 2].map(str::to_owned);
    let [marked, gone] = wanted;
    assert_eq!(world.happened(), [Happened::Marked(marked), Happened::Deleted(gone)]);
}

/// NL-206: with the Eviction API the pods of a lost node are marked all the same, and budgets are respected.
#[test]
fn pods_of_a_lost_node_are_evicted_by_budget() {
    for forbidden in [false, true] {
        let config = mk_config(|config| {
            config.mode = EvictionMode::Node;
            config.method = EvictionMethod::Evict;
        });
        let mut world = World::new(config, &NODES);
        let pod = world.add_pod("p", "n1", vec![]);
        let block = Block {
            by: "default/web".to_owned(),
            retry_after: None,
            detail: String::new(),
        };
        world.budgets.extend(forbidden.then(|| (pod.clone(), block)));
        world.mark_unknown("n1");
        world.health("n1", Verdict::Unreachable);
        world.wish_evicted("n1");
        world.due_with_node(&pod);
        world.pass(secs(10));
        let evicted = (!forbidden).then(|| Happened::Evicted("p".to_owned()));
        let wanted: Vec<Happened> = [Happened::Marked("p".to_owned())].into_iter().chain(evicted).collect();
        assert_eq!(world.happened(), wanted);
        if forbidden {
            assert_eq!(world.pods[&pod].reason, NODE_LOST);
            assert!(matches!(world.pod_state(&pod), Some(PodOutcomeState::Blocked { .. })));
        }
    }
}

/// NL-206: a DaemonSet that selects other pods by now spares others.
#[test]
fn a_daemon_set_that_selects_others_by_now_spares_no_more() {
    let mut world = mk_world(0.1);
    world.tell(Input::DaemonSetApplied(mk_daemon_set("default", "set", "ds")));
    let pod = world.add_pod("p", "n1", vec![]);
    world.change_pod(&pod, |facts| {
        facts.labels.insert("app".into(), "ds".into());
    });
    world.mark_unknown("n1");
    world.health("n1", Verdict::Unreachable);
    world.wish_evicted("n1");
    world.due_with_node(&pod);
    assert_eq!(
        world.pod_state(&pod),
        Some(&PodOutcomeState::Refused(RefusedReason::DaemonSet))
    );
    world.tell(Input::DaemonSetApplied(mk_daemon_set("default", "set", "other")));
    assert_eq!(world.pod_state(&pod), Some(&PodOutcomeState::Deleted));
}

/// Design §1, design §2: a whole node waits for the same as a taint does: its own pause, a record that is not understood, a verdict
/// that does not bear the wish out.
#[test]
fn a_node_whose_eviction_is_held_does_not_have_its_turn() {
    type Act = fn(&mut World);
    let cases: [(HoldReason, Act, Act); 3] = [
        (
            HoldReason::Paused,
            |world| {
                let hold = Hold {
                    reason: HoldReason::Paused,
                    detail: "as the test wanted".to_owned(),
                    since: world.now.wall,
                    until: None,
                };
                let holds = [(HoldScope::Node("n1".into()), hold)].into_iter().collect();
                world.tell(Input::Braked(holds));
            },
            |world| world.tell(Input::Braked(Holds::NONE)),
        ),
        (
            HoldReason::OutdatedIntent,
            |world| {
                let record = world.mk_record(Topic::NodeHealth, "n1".to_owned(), Some(Body::Unreadable));
                let (records, shards) = (vec![record], vec![]);
                world.tell(Input::Changes { records, shards });
            },
            |world| world.health("n1", Verdict::Unreachable),
        ),
        (
            HoldReason::OutdatedIntent,
            |world| world.health("n1", Verdict::Healthy),
            |world| world.health("n1", Verdict::Unreachable),
        ),
    ];
    for (reason, begin, end) in cases {
        let mut world = mk_world(0.1);
        world.mark_unknown("n1");
        world.health("n1", Verdict::Unreachable);
        begin(&mut world);
        world.wish_evicted("n1");
        world.pass(secs(60));
        assert_eq!(world.node_held("n1"), Some(reason));
        end(&mut world);
        assert_eq!(world.node_state("n1"), Some(&NodeOutcomeState::Evicted), "{reason}");
    }
}

/// NL-205: a node that was evicted and then deleted stays evicted: pods that become due later go at once.
#[test]
fn later_pods_of_a_deleted_node_that_had_its_turn_go_at_once() {
    let mut world = mk_world(0.1);
    fall_due(&mut world, "n1");
    fall_due(&mut world, "n2");
    let later = world.add_pod("later", "n1", vec![]);
    world.delete_node("n1");
    world.due_with_node(&later);
    world.pass(secs(2));
    assert_eq!(deleted(&world), ["p-n1", "later"]);
}

/// NL-032, NL-205: a node deleted while it waits keeps its place although the monitor forgets it.
#[test]
fn a_deleted_node_keeps_its_place_when_the_monitor_forgets_it() {
    let mut world = mk_world(0.1);
    fall_due(&mut world, "n1");
    for name in ["n2", "n3"] {
        world.pass(secs(1));
        world.mark_unknown(name);
        world.health(name, Verdict::Unreachable);
    }
    // The one that was silent first is wished for last.
    for name in ["n3", "n2"] {
        world.pass(secs(1));
        world.wish_evicted(name);
        let pod = world.add_pod(&format!("p-{name}"), name, vec![]);
        world.due_with_node(&pod);
    }
    world.delete_node("n2");
    let forgotten = world.mk_record(Topic::NodeHealth, "n2".to_owned(), None);
    world.publish(vec![forgotten]);
    world.pass(secs(10));
    assert_eq!(deleted(&world), ["p-n1", "p-n2"]);
}

/// NL-009, NL-203: whole nodes are evicted in node mode, by who has the duty. Others leave such intents alone.
#[test]
fn an_intent_for_a_whole_node_is_nobodys_in_taint_mode() {
    for (mode, duty) in [
        (EvictionMode::Taint, true),
        (EvictionMode::Node, false),
        (EvictionMode::Node, true),
    ] {
        let config = mk_config(|config| {
            config.mode = mode;
            config.duties.node_lifecycle = duty;
        });
        let mut world = World::new(config, &NODES);
        let pod = fall_due(&mut world, "n1");
        world.pass(secs(60));
        let theirs = mode == EvictionMode::Node && duty;
        assert_eq!(world.pod_state(&pod).is_some(), theirs, "{mode} {duty}");
    }
}

/// NL-205: a node that is gone, and with it the last of its zone, does not have its turn while everything is held.
#[test]
fn a_deleted_node_alone_in_its_zone_is_held_as_others_are() {
    let mut world = mk_world(0.1);
    let hold = Hold {
        reason: HoldReason::Paused,
        detail: "as the test wanted".to_owned(),
        since: world.now.wall,
        until: None,
    };
    let holds: Holds = [(HoldScope::All, hold)].into_iter().collect();
    world.tell(Input::Braked(holds.clone()));
    world.add_node("lone", "b");
    world.change_node("lone", |_| ());
    fall_due(&mut world, "lone");
    world.delete_node("lone");
    world.stop();
    world.tell(Input::Braked(holds));
    world.show_everything();
    world.pass(secs(60));
    assert_eq!(world.node_held("lone"), Some(HoldReason::Paused));
}
