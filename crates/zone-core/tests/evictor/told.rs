//! What others are told: what an outcome follows from, why something waits and since when, what is waited for.

use std::collections::BTreeSet;

use bailiff_model::intent::HealthTaint;
use bailiff_model::outcome::NodeOutcomeState;
use bailiff_model::{Effect as TaintEffect, Hold, HoldReason, HoldScope, ReadyStatus, Revision, Topic, TraceContext, Verdict};
use bailiff_zone_core::{Effect, EvictionMode, Input, SpanKind};

use crate::world::{World, mk_config, secs};

const SIX: [(&str, &str); 6] = [("n1", "a"), ("n2", "a"), ("n3", "a"), ("n4", "a"), ("n5", "a"), ("n6", "a")];

fn mk_world() -> World {
    World::new(mk_config(|_| ()), &SIX)
}

fn hold_of<'a>(world: &'a World, name: &str) -> &'a Hold {
    match world.node_state(name) {
        Some(NodeOutcomeState::Held(hold)) => hold,
        other => unreachable!("{other:?} is no hold"),
    }
}

/// NL-007: readiness names what is missing, in the order in which it is needed.
#[test]
fn what_is_waited_for_is_named() {
    for mode in [EvictionMode::Taint, EvictionMode::Node] {
        let mut world = World::unseen(mk_config(|config| config.mode = mode));
        assert_eq!(world.evictor.waits_for(), Some("the list of nodes"));
        world.tell(Input::Nodes(Vec::new().into()));
        if mode == EvictionMode::Node {
            assert_eq!(world.evictor.waits_for(), Some("the list of DaemonSets"));
            world.tell(Input::DaemonSets(Vec::new().into()));
        }
        assert_eq!(world.evictor.waits_for(), Some("the bus"), "{mode}");
        let shards = world.shards();
        world.tell(Input::Snapshot {
            records: Vec::new(),
            shards,
        });
        assert_eq!(world.evictor.waits_for(), None);
    }
}

/// Design §9: the trace of an incident goes with the write, the outcome and the spans; it is that of the intent, or else that of the
/// health record.
#[test]
fn a_trace_goes_with_everything_that_follows() {
    let trace = |part: &str| Some(TraceContext::derived(&[part]));
    for (of_health, of_wish, wanted) in [
        (trace("health"), trace("wish"), trace("wish")),
        (trace("health"), None, trace("health")),
        (None, None, None),
    ] {
        let mut world = mk_world();
        world.mark_unknown("n1");
        let mut health = world.mk_health("n1", Verdict::Unreachable);
        health.trace = of_health;
        world.publish(vec![health]);
        let mut wish = world.mk_wish("n1", HealthTaint::Unreachable);
        wish.trace = of_wish;
        world.is_slow = true;
        world.publish(vec![wish]);
        let [Effect::WriteTaints(write)] = &world.unanswered[..] else {
            unreachable!("one write, not {:?}", world.unanswered)
        };
        assert_eq!(write.trace, wanted);
        world.answer_all();
        assert_eq!(world.sources["node/n1"].1, wanted);
        let traces: BTreeSet<_> = world.spans.iter().map(|span| span.trace).collect();
        assert_eq!(traces, [wanted].into());
    }
}

/// Design §2: an outcome names the record that it follows from: the intent of a node, the newest health record counted in a zone.
#[test]
fn an_outcome_names_what_it_follows_from() {
    let mut world = mk_world();
    world.fall_silent(&["n1"]);
    let wish = world.bus[&(Topic::EvictionIntents, "node/n1".to_owned())].origin.clone();
    assert_eq!(world.sources["node/n1"].0, wish);
    let newest = |world: &World| {
        let health = world.bus.values().filter(|record| record.topic == Topic::NodeHealth);
        health.map(|record| record.origin.revision).max().unwrap_or_default()
    };
    let named = |world: &World| world.sources["zone/:a"].0.revision;
    assert_eq!(named(&world), newest(&world));
    // The vote of an older record is taken away: what is newest stays.
    world.change_node("n2", |facts| facts.excluded_from_disruption = true);
    assert_eq!((world.zone_status("a").voting, named(&world)), (5, newest(&world)));
    world.health("n3", Verdict::Late);
    assert_eq!(named(&world), newest(&world));
    // Another bus counts from 1 again: its records are newer all the same.
    world.lose_the_bus();
    world.health("n3", Verdict::Healthy);
    assert_eq!(named(&world), Revision(1));
}

/// Design §1: a hold says since when, as long as its reason is the same, and each reason counts from its own beginning.
#[test]
fn a_zones_hold_counts_from_when_its_reason_began() {
    let mut world = mk_world();
    world.tell(Input::ApiFresh(false));
    let began = world.now.wall;
    world.pass(secs(5));
    world.health("n3", Verdict::Late);
    let since = |world: &World| world.zone_status("a").held.as_ref().map(|hold| (hold.reason, hold.since));
    assert_eq!(since(&world), Some((HoldReason::ApiStale, began)));
    world.set_shard(Topic::NodeHealth, false, true);
    world.tell(Input::ApiFresh(true));
    assert_eq!(since(&world), Some((HoldReason::Incomplete, world.now.wall)));
}

/// Design §1: who waits in a zone is told when the zone is held, and when it is no longer.
#[test]
fn those_who_wait_are_told_of_the_zones_hold() {
    let mut world = mk_world();
    world.fall_silent(&["n1", "n2", "n3"]);
    world.tell(Input::ApiFresh(false));
    for name in ["n2", "n3"] {
        assert_eq!(world.node_held(name), Some(HoldReason::ApiStale));
    }
    world.tell(Input::ApiFresh(true));
    for (name, place) in [("n2", 1), ("n3", 2)] {
        let said = world.node_state(name);
        assert!(matches!(said, Some(NodeOutcomeState::Queued { position, .. }) if *position == place));
    }
}

/// Design §2: that nobody can be reached is noticed by itself, in a cluster where nothing else happens.
#[test]
fn a_lost_bus_is_noticed_in_silence() {
    let mut world = mk_world();
    world.pass(secs(60));
    world.tell(Input::BusLost { since: world.now.mono });
    world.pass(secs(10));
    assert_eq!(world.zone_held("a"), Some(HoldReason::Stale));
}

/// Design §1: what a node waits for is said in a sentence.
#[test]
fn why_a_node_waits_is_said_in_words() {
    let mut world = mk_world();
    world.change_node("n1", |facts| facts.ready = ReadyStatus::Unknown);
    world.health("n1", Verdict::Unreachable);
    world.wish("n1", HealthTaint::Unreachable);
    assert_eq!(hold_of(&world, "n1").reason, HoldReason::TaintOrder);
    assert!(hold_of(&world, "n1").detail.contains("NoSchedule"));
    world.health("n1", Verdict::Unreachable);
    assert_eq!(hold_of(&world, "n1").reason, HoldReason::OutdatedIntent);
    assert!(hold_of(&world, "n1").detail.contains("newest health record"));
    let hold = Hold {
        reason: HoldReason::Paused,
        detail: "as the test wanted".to_owned(),
        since: world.now.wall,
        until: None,
    };
    world.tell(Input::Braked([(HoldScope::Node("n1".into()), hold)].into_iter().collect()));
    world.wish("n1", HealthTaint::Unreachable);
    assert_eq!(hold_of(&world, "n1").detail, "as the test wanted");
}

/// NL-093: a stopped zone says whether it is late nodes that stop it.
#[test]
fn a_stopped_zone_names_the_late_nodes_only_if_they_stop_it() {
    for (late, named) in [(1, true), (0, false)] {
        let mut world = mk_world();
        let (silent, rest) = (["n1", "n2", "n3", "n4"], if late == 1 { 3 } else { 4 });
        world.judge(&silent[..rest], Verdict::Unreachable);
        world.judge(&silent[rest..], Verdict::Late);
        let held = world.zone_status("a").held.clone();
        let hold = held.expect("four of six are a partial disruption");
        assert_eq!(hold.reason, HoldReason::RateZero);
        assert_eq!(hold.detail.contains("late"), named, "{}", hold.detail);
    }
}

/// Design §3: the zone's record has the length of the queue as it is, who ever joins it.
#[test]
fn the_length_of_the_queue_is_told() {
    let mut world = mk_world();
    for name in ["n1", "n2", "n3"] {
        world.mark_unknown(name);
    }
    world.judge(&["n1", "n2", "n3"], Verdict::Unreachable);
    for (name, waiting) in [("n1", 0), ("n2", 1), ("n3", 2)] {
        world.wish(name, HealthTaint::Unreachable);
        assert_eq!(world.zone_status("a").queue_length, waiting, "{name}");
    }
    world.unwish("n3");
    assert_eq!(world.zone_status("a").queue_length, 1);
    assert_eq!(world.node_state("n3"), Some(&NodeOutcomeState::Released));
    world.pass(secs(60));
    assert_eq!(world.isolated(), ["n1", "n2"].into(), "a wish that was withdrawn is no wish");
}

/// Design §9: what waits for a slot is counted, new or overdue.
#[test]
fn pods_that_wait_are_counted_new_and_overdue() {
    let mut world = World::new(mk_config(|config| config.max_evictions_in_flight = 1), &SIX);
    world.taint("n1", "maintenance", TaintEffect::NoExecute);
    world.is_slow = true;
    world.tell(Input::ApiFresh(false));
    let mk_due = |world: &mut World, names: &[&str]| {
        let records = names.iter().map(|name| {
            let pod = world.add_pod(name, "n1", vec![]);
            world.mk_due(&pod, false)
        });
        let records = records.collect();
        world.publish(records);
    };
    mk_due(&mut world, &["old1", "old2", "old3"]);
    assert_eq!(world.evictor.due_pods(), (3, 0, 0));
    world.tell(Input::ApiFresh(true));
    mk_due(&mut world, &["new1", "new2"]);
    assert_eq!(world.evictor.due_pods(), (0, 4, 1));
}

/// NL-034: a grant is told although the queue is as long as before: what comes after us counts from it.
#[test]
fn a_grant_is_told_whatever_else_stays_the_same() {
    let mut world = mk_world();
    world.fall_silent(&["n1", "n2"]);
    world.mark_unknown("n3");
    world.health("n3", Verdict::Unreachable);
    assert_eq!(world.zone_status("a").queue_length, 1);
    // The process stood still; its first news after that is who joins the queue.
    world.now.mono = world.now.mono + secs(12);
    world.now.wall += secs(12);
    world.wish("n3", HealthTaint::Unreachable);
    assert_eq!(world.isolated(), ["n1", "n2"].into());
    let status = world.zone_status("a");
    assert_eq!((status.queue_length, status.last_grant), (1, Some(world.now.wall)));
}

/// Design §9: the time in the queue is told from when the node entered it, however often it was looked at there.
#[test]
fn the_time_in_the_queue_counts_from_its_beginning() {
    let mut world = mk_world();
    let began = world.now.wall;
    world.fall_silent(&["n1", "n2"]);
    world.pass(secs(5));
    world.change_node("n2", |facts| facts.excluded_from_disruption = true);
    world.pass(secs(5));
    let waited: Vec<_> = world.spans.iter().filter(|span| span.kind == SpanKind::QueueWait).collect();
    let told: Vec<_> = waited
        .iter()
        .map(|span| (span.node.name.as_str(), span.start, span.end))
        .collect();
    assert_eq!(told, [("n1", began, began), ("n2", began, world.now.wall)]);
}
