//! Nodes that go, come back, or are others by now, and views that come in another order than things happened.

use bailiff_model::intent::HealthTaint;
use bailiff_model::outcome::NodeOutcomeState;
use bailiff_model::{HoldReason, Listed, NodeName, ReadyStatus, Verdict};
use bailiff_zone_core::{EvictionMode, Input, NodeFacts};

use crate::world::{World, mk_config, secs};

const FOUR: [(&str, &str); 4] = [("n1", "a"), ("n2", "a"), ("n3", "a"), ("n4", "a")];

fn mk_world() -> World {
    World::new(mk_config(|_| ()), &FOUR)
}

/// NL-032: a list tells also who is gone: no vote any more, nothing said, no place. Who is listed stays what it was, and who is there but
/// unreadable. One in parts tells it in the end, and one that broke off not at all.
#[test]
fn a_node_that_is_not_listed_any_more_is_gone() {
    for (in_parts, unreadable) in [(false, None), (true, None), (true, Some("n2"))] {
        let mut world = mk_world();
        world.fall_silent(&["n1", "n2"]);
        world.is_watch_stalled = true;
        let before: Vec<NodeFacts> = world.nodes.values().cloned().collect();
        world.delete_node("n2");
        let mut all: Vec<NodeFacts> = world.nodes.values().cloned().collect();
        if in_parts {
            world.tell(Input::SomeNodes {
                first: true,
                nodes: before,
            });
            for (first, nodes) in [(true, vec![all.remove(0)]), (false, vec![all.remove(0)])] {
                world.tell(Input::SomeNodes { first, nodes });
            }
            assert_eq!(world.zone_status("a").voting, 4, "nobody is missed before the end");
        }
        world.tell(Input::Nodes(Listed {
            all,
            unreadable: unreadable.map(NodeName::from).into_iter().collect(),
        }));
        let wanted = if unreadable.is_some() { (4, 1, true) } else { (3, 0, false) };
        let status = world.zone_status("a");
        let found = (status.voting, status.queue_length, world.node_state("n2").is_some());
        assert_eq!(found, wanted);
        assert_eq!(world.node_state("n1"), Some(&NodeOutcomeState::Isolated));
    }
}

/// NL-077: a watch may deliver what the answer to a write has overtaken; that is not how the node is.
#[test]
fn an_older_state_of_a_node_is_not_believed() {
    let mut world = mk_world();
    world.mark_unknown("n1");
    let before = world.node("n1").clone();
    world.fall_silent(&["n1"]);
    let requests = world.requests;
    world.pass(secs(30));
    world.tell(Input::NodeApplied(before));
    world.pass(secs(30));
    assert_eq!(
        (world.requests, world.node_state("n1")),
        (requests, Some(&NodeOutcomeState::Isolated))
    );
}

/// NL-036, NL-090: the monitor's word about the next incarnation may come before the watch shows it. It counts once it does.
#[test]
fn a_verdict_that_comes_before_its_node_counts_when_that_comes() {
    let mut world = mk_world();
    world.is_watch_stalled = true;
    world.delete_node("n1");
    world.add_node("n1", "a");
    world.health("n1", Verdict::Healthy);
    assert_eq!(world.zone_status("a").voting, 3, "about nobody that is known");
    world.tell(Input::NodeApplied(world.node("n1").clone()));
    assert_eq!(world.zone_status("a").voting, 4);
}

/// NL-035, NL-036: another node of the name takes no place in the queue over, whether its predecessor was seen to go or not.
#[test]
fn another_node_of_the_name_waits_behind_who_waited_before_it() {
    let nodes = ["n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8"].map(|name| (name, "a"));
    for is_seen_to_go in [true, false] {
        let mut world = World::new(mk_config(|_| ()), &nodes);
        for name in ["n1", "n2", "n3"] {
            world.fall_silent(&[name]);
            world.pass(secs(1));
        }
        world.is_watch_stalled = !is_seen_to_go;
        world.delete_node("n2");
        world.is_watch_stalled = false;
        world.add_node("n2", "a");
        world.fall_silent(&["n2"]);
        world.pass(secs(30));
        let order: Vec<&str> = world.isolations().iter().map(|(name, _)| *name).collect();
        assert_eq!(order, ["n1", "n3", "n2"], "seen to go: {is_seen_to_go}");
    }
}

/// NL-035, NL-036: not by a record about its predecessor either that comes when it is known already.
#[test]
fn a_late_record_about_a_predecessor_gives_no_place_away() {
    let mut world = World::new(
        mk_config(|_| ()),
        &["n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8"].map(|name| (name, "a")),
    );
    world.fall_silent(&["n1", "n2"]);
    let late = world.mk_health("n2", Verdict::NotReady);
    world.pass(secs(1));
    world.fall_silent(&["n3"]);
    world.pass(secs(1));
    world.delete_node("n2");
    world.add_node("n2", "a");
    world.change_node("n2", |_| ());
    world.publish(vec![late]);
    world.change_node("n2", |facts| facts.ready = ReadyStatus::False);
    world.health("n2", Verdict::NotReady);
    world.wish("n2", HealthTaint::NotReady);
    world.pass(secs(30));
    let order: Vec<&str> = world.isolations().iter().map(|(name, _)| *name).collect();
    assert_eq!(order, ["n1", "n3", "n2"]);
}

/// NL-036: a verdict about the dead incarnation does not isolate its namesake, however new the intent is.
#[test]
fn a_verdict_about_the_dead_does_not_isolate_the_living() {
    let mut world = mk_world();
    world.health("n1", Verdict::Unreachable);
    world.delete_node("n1");
    world.add_node("n1", "a");
    world.mark_unknown("n1");
    world.wish("n1", HealthTaint::Unreachable);
    world.pass(secs(60));
    assert_eq!(
        (world.is_isolated("n1"), world.node_held("n1")),
        (false, Some(HoldReason::OutdatedIntent))
    );
    world.fall_silent(&["n1"]);
    assert!(world.is_isolated("n1"));
}

/// NL-071: a wish that the node's own condition does not bear out waits until one of the two changes.
#[test]
fn a_wish_that_the_node_itself_contradicts_is_held() {
    let mut world = mk_world();
    world.fall_silent(&["n2"]);
    world.mark_unknown("n1");
    world.health("n1", Verdict::Unreachable);
    world.wish("n1", HealthTaint::NotReady);
    world.pass(secs(60));
    assert_eq!(
        (world.is_isolated("n1"), world.node_held("n1")),
        (false, Some(HoldReason::OutdatedIntent))
    );
    world.change_node("n1", |facts| facts.ready = ReadyStatus::False);
    world.pass(secs(10));
    assert!(world.is_isolated_as("n1", HealthTaint::NotReady));
}

/// NL-035: of a node that was replaced unseen nothing stays said but of its successor.
#[test]
fn what_was_said_of_a_predecessor_is_taken_back() {
    type Case = (EvictionMode, fn(&mut World), Option<NodeOutcomeState>);
    let cases: [Case; 5] = [
        (
            EvictionMode::Taint,
            |world| world.fall_silent(&["n1"]),
            Some(NodeOutcomeState::Isolated),
        ),
        (EvictionMode::Taint, |world| world.fall_silent(&["n2", "n1"]), None),
        (
            EvictionMode::Taint,
            |world| {
                world.fall_silent(&["n1"]);
                world.come_back(&["n1"]);
            },
            Some(NodeOutcomeState::Released),
        ),
        (
            EvictionMode::Node,
            |world| fall_due(world, &["n1"]),
            Some(NodeOutcomeState::Evicted),
        ),
        (EvictionMode::Node, |world| fall_due(world, &["n2", "n1"]), None),
    ];
    for (mode, befall, said) in cases {
        let mut world = World::new(mk_config(|config| config.mode = mode), &FOUR);
        befall(&mut world);
        match (world.node_state("n1"), said) {
            (Some(NodeOutcomeState::Queued { .. }), None) => {}
            (before, said) => assert_eq!(before, said.as_ref(), "{mode}"),
        }
        world.is_watch_stalled = true;
        world.delete_node("n1");
        world.is_watch_stalled = false;
        world.add_node("n1", "a");
        world.change_node("n1", |_| ());
        assert_eq!(world.node_state("n1"), None, "{mode}");
    }
}

fn fall_due(world: &mut World, names: &[&str]) {
    for name in names {
        world.mark_unknown(name);
        world.health(name, Verdict::Unreachable);
        world.wish_evicted(name);
    }
}
