//! Health NoExecute taints: which, when, and in which order with their NoSchedule counterparts.

use bailiff_model::intent::HealthTaint;
use bailiff_model::outcome::NodeOutcomeState;
use bailiff_model::{Effect, HoldReason, ReadyStatus, Taint, Topic, Verdict, Wall};
use bailiff_zone_core::{FailureKind, Input};

use crate::world::{Happened, START, World, mk_config, secs};

const FOUR: [(&str, &str); 4] = [("n1", "a"), ("n2", "a"), ("n3", "a"), ("n4", "a")];

fn mk_world() -> World {
    World::new(mk_config(|_| ()), &FOUR)
}

fn no_execute(world: &World, name: &str) -> Vec<(String, Option<i64>)> {
    let list = world.node(name).no_execute();
    list.iter()
        .map(|taint| (taint.key.to_string(), taint.time_added.map(Wall::as_second)))
        .collect()
}

/// The kubelet reports Ready=False; everybody before us did their part.
pub fn report_false(world: &mut World, name: &str) {
    world.change_node(name, |facts| {
        facts.ready = ReadyStatus::False;
        facts.taints.retain(|taint| taint.effect != Effect::NoSchedule);
        facts.taints.push(Taint::new(HealthTaint::NotReady.key(), Effect::NoSchedule));
    });
    world.health(name, Verdict::NotReady);
    world.wish(name, HealthTaint::NotReady);
}

/// NL-066, NL-070, NL-075, NL-076: the taint that matches Ready, without value, stamped in whole seconds, last in the list.
#[test]
fn a_silent_node_gets_unreachable_and_one_that_says_no_gets_not_ready() {
    let mut world = mk_world();
    world.taint("n1", "other", Effect::NoExecute);
    world.pass(std::time::Duration::from_millis(2_700));
    world.fall_silent(&["n1"]);
    let stamped = Some(START + 2);
    assert_eq!(
        no_execute(&world, "n1"),
        [
            ("other".to_owned(), None),
            (HealthTaint::Unreachable.key().to_owned(), stamped)
        ]
    );
    assert_eq!(world.node_state("n1"), Some(&NodeOutcomeState::Isolated));
    let mut world = mk_world();
    report_false(&mut world, "n1");
    assert_eq!(
        no_execute(&world, "n1"),
        [(HealthTaint::NotReady.key().to_owned(), Some(START))]
    );
}

/// NL-071, NL-076, TE-111: one patch, at once, outside the rate, and the time added stays.
#[test]
fn a_swap_is_one_write_that_keeps_the_time_and_costs_no_token() {
    let mut world = mk_world();
    report_false(&mut world, "n1");
    world.pass(secs(3));
    world.fall_silent(&["n1"]);
    assert_eq!(
        no_execute(&world, "n1"),
        [(HealthTaint::Unreachable.key().to_owned(), Some(START))]
    );
    assert_eq!(world.happened().last(), Some(&Happened::Swapped("n1".to_owned())));
    world.pass(secs(7));
    world.fall_silent(&["n2"]);
    assert!(world.is_isolated("n2"), "the zone's next token was not touched");
}

/// NL-078: the wrong one made by hand on an unhealthy node is swapped at once; the right one counts as ours and is left as it is.
#[test]
fn hand_made_taints_on_unhealthy_nodes_are_swapped_or_kept() {
    let mut world = mk_world();
    world.fall_silent(&["n1", "n2", "n3"]);
    world.taint("n2", HealthTaint::NotReady.key(), Effect::NoExecute);
    assert_eq!(world.happened().last(), Some(&Happened::Swapped("n2".to_owned())));
    let writes = world.history.len();
    world.taint("n3", HealthTaint::Unreachable.key(), Effect::NoExecute);
    world.pass(secs(60));
    assert_eq!(world.history.len(), writes);
    assert_eq!(world.node_state("n3"), Some(&NodeOutcomeState::Isolated));
}

/// NL-074, NL-078: recovery removes both, hand-made ones too, in one write; other keys and effects stay.
#[test]
fn a_ready_node_loses_both_health_taints() {
    let mut world = mk_world();
    world.fall_silent(&["n1"]);
    world.come_back(&["n1"]);
    assert_eq!(no_execute(&world, "n1"), []);
    assert_eq!(world.node_state("n1"), Some(&NodeOutcomeState::Released));
    world.change_node("n2", |facts| {
        facts.taints.push(Taint::new(HealthTaint::NotReady.key(), Effect::NoExecute));
        facts
            .taints
            .push(Taint::new(HealthTaint::Unreachable.key(), Effect::NoExecute));
        facts.taints.push(Taint::new("other", Effect::NoExecute));
    });
    assert_eq!(no_execute(&world, "n2"), [("other".to_owned(), None)]);
    let cleared = |happened: &Happened| *happened == Happened::Cleared("n2".to_owned());
    assert_eq!(world.happened().iter().filter(|happened| cleared(happened)).count(), 1);
}

/// Design §1, order of taints (NL-116): added only after the NoSchedule counterpart was seen, or after one monitor period.
#[test]
fn the_no_execute_taint_waits_for_its_no_schedule_counterpart() {
    let mut world = mk_world();
    world.change_node("n1", |facts| facts.ready = ReadyStatus::Unknown);
    world.health("n1", Verdict::Unreachable);
    world.wish("n1", HealthTaint::Unreachable);
    assert_eq!(world.node_held("n1"), Some(HoldReason::TaintOrder));
    world.fall_silent(&["n2"]);
    assert_eq!(world.isolated(), ["n2"].into(), "who waits for that does not block the next");
    world.pass(secs(4));
    assert!(!world.is_isolated("n1"));
    world.taint("n1", HealthTaint::Unreachable.key(), Effect::NoSchedule);
    assert!(matches!(
        world.node_state("n1"),
        Some(NodeOutcomeState::Queued { position: 1, .. })
    ));
    world.pass(secs(6));
    assert!(world.is_isolated("n1"));
}

/// Design §1, order of taints: the wait ends by itself.
#[test]
fn the_wait_for_the_counterpart_ends_after_one_monitor_period() {
    let mut world = mk_world();
    world.change_node("n1", |facts| facts.ready = ReadyStatus::Unknown);
    world.health("n1", Verdict::Unreachable);
    world.wish("n1", HealthTaint::Unreachable);
    world.pass(secs(5));
    assert_eq!(world.isolations(), [("n1", 5)]);
    // The same on the way back: the counterpart is still there.
    world.taint("n1", HealthTaint::Unreachable.key(), Effect::NoSchedule);
    world.change_node("n1", |facts| facts.ready = ReadyStatus::True);
    world.health("n1", Verdict::Healthy);
    assert!(world.is_isolated("n1"));
    world.untaint("n1", HealthTaint::Unreachable.key(), Effect::NoSchedule);
    assert!(!world.is_isolated("n1"));
    world.fall_silent(&["n2"]);
    world.pass(secs(10));
    assert!(world.is_isolated("n2"));
    world.change_node("n2", |facts| facts.ready = ReadyStatus::True);
    world.pass(secs(4));
    assert!(world.is_isolated("n2"));
    world.pass(secs(1));
    assert!(!world.is_isolated("n2"));
}

/// NL-079: the taints of shutdown and of out-of-service are others', on a node that is isolated, swapped and back again.
#[test]
fn taints_of_others_stay_through_everything() {
    let others = [
        ("node.kubernetes.io/out-of-service", Effect::NoExecute),
        ("node.cloudprovider.kubernetes.io/shutdown", Effect::NoExecute),
    ];
    let mut world = mk_world();
    for (key, effect) in others {
        world.taint("n1", key, effect);
    }
    let count = |world: &World| {
        let taints = &world.node("n1").taints;
        taints
            .iter()
            .filter(|taint| others.contains(&(&*taint.key, taint.effect)))
            .count()
    };
    world.fall_silent(&["n1"]);
    assert_eq!((count(&world), world.is_isolated("n1")), (2, true));
    report_false(&mut world, "n1");
    world.pass(secs(6));
    assert_eq!((count(&world), world.is_isolated("n1")), (2, true));
    world.come_back(&["n1"]);
    world.pass(secs(6));
    assert_eq!((count(&world), world.is_isolated("n1")), (2, false));
}

/// NL-073: a node without Ready is neither isolated nor cleared.
#[test]
fn a_node_without_ready_is_left_alone() {
    let mut world = mk_world();
    world.fall_silent(&["n1", "n2"]);
    world.change_node("n1", |facts| facts.ready = ReadyStatus::Absent);
    world.change_node("n2", |facts| facts.ready = ReadyStatus::Absent);
    world.pass(secs(60));
    assert_eq!(world.isolated(), ["n1"].into());
    assert_eq!(world.zone_status("a").queue_length, 0);
}

/// NL-075: what counts is the node as it is when its turn comes.
#[test]
fn a_node_that_recovers_in_the_queue_is_not_isolated() {
    let mut world = mk_world();
    for name in ["n5", "n6"] {
        world.add_node(name, "a");
        world.change_node(name, |_| ());
        world.health(name, Verdict::Healthy);
    }
    world.fall_silent(&["n1", "n2", "n3"]);
    world.change_node("n2", |facts| facts.ready = ReadyStatus::True);
    assert_eq!(world.node_state("n2"), Some(&NodeOutcomeState::Released));
    world.pass(secs(10));
    assert_eq!(world.isolated(), ["n1", "n3"].into());
}

/// Design §2: an intent older than its node's newest health record never isolates.
#[test]
fn an_outdated_wish_never_isolates() {
    let mut world = mk_world();
    world.mark_unknown("n1");
    world.health("n1", Verdict::Unreachable);
    let wish = world.mk_wish("n1", HealthTaint::Unreachable);
    world.health("n1", Verdict::NotReady);
    world.publish(vec![wish]);
    world.pass(secs(60));
    assert_eq!(world.node_held("n1"), Some(HoldReason::OutdatedIntent));
    assert!(world.history.is_empty());
    world.health("n1", Verdict::Unreachable);
    world.pass(secs(60));
    assert_eq!(
        world.node_held("n1"),
        Some(HoldReason::OutdatedIntent),
        "a newer record does not make it newer"
    );
    assert!(world.history.is_empty());
    world.wish("n1", HealthTaint::Unreachable);
    assert!(world.is_isolated("n1"), "derived from that record it stands");
}

/// NL-035, NL-036: a wish for another incarnation is void.
#[test]
fn a_wish_means_one_incarnation() {
    let mut world = mk_world();
    world.fall_silent(&["n1", "n2"]);
    world.delete_node("n2");
    assert_eq!(world.node_state("n2"), None, "what was said about it is taken back");
    world.add_node("n2", "a");
    world.mark_unknown("n2");
    world.pass(secs(60));
    assert!(!world.is_isolated("n2"));
    world.fall_silent(&["n2"]);
    assert!(world.is_isolated("n2"));
}

/// NL-074, NL-115: removing is retried until it works.
#[test]
fn clearing_is_retried_with_backoff() {
    let mut world = mk_world();
    world.fall_silent(&["n1"]);
    world
        .failures
        .extend([FailureKind::Unknown, FailureKind::Unknown, FailureKind::Denied]);
    world.come_back(&["n1"]);
    assert!(world.is_isolated("n1"));
    world.pass(secs(1));
    assert!(!world.is_isolated("n1"));
}

/// NL-077: a conflict that never ends does not become a busy loop.
#[test]
fn endless_conflicts_back_off() {
    let mut world = mk_world();
    world.fall_silent(&["n1"]);
    let before = world.requests;
    for _ in 0..200 {
        world.failures.extend([FailureKind::Conflict]);
    }
    world.come_back(&["n1"]);
    assert!(world.requests - before < 30, "{} requests at once", world.requests - before);
    world.failures.clear();
    world.pass(secs(60));
    assert!(!world.is_isolated("n1"));
}

/// NL-151, style §21: the same view twice has no second effect.
#[test]
fn a_quiet_world_is_written_to_zero_times() {
    let mut world = mk_world();
    world.fall_silent(&["n1", "n2"]);
    world.pass(secs(60));
    let (published, requests) = (world.published, world.requests);
    let nodes = world.nodes.values().cloned().collect::<Vec<_>>();
    let records = world.bus.values().cloned().collect::<Vec<_>>();
    let shards = world.shards();
    let inputs = [
        Input::Nodes(nodes.into()),
        Input::Snapshot {
            records: records.clone(),
            shards: shards.clone(),
        },
        Input::Changes {
            records,
            shards: shards.clone(),
        },
        Input::Status(shards),
        Input::Wake,
    ];
    for input in inputs {
        assert_eq!(world.evictor.apply(input.clone(), world.now), [], "{input:?}");
    }
    assert_eq!((world.published, world.requests), (published, requests));
    assert_eq!(world.wake_at(), None, "nothing is waited for");
}

/// NL-026, design §8: zones of other shards are read, counted, and left alone.
#[test]
fn another_shards_zone_is_left_alone() {
    let count = 4;
    let zone = crate::world::zone("a");
    for index in 0..count {
        let shard = bailiff_zone_core::Shard { index, count };
        let mut world = World::new(mk_config(|config| config.shard = shard), &FOUR);
        world.fall_silent(&["n1"]);
        assert_eq!(world.is_isolated("n1"), shard.owns_zone(&zone), "shard {index}");
    }
}

/// NL-009, design §1: who was not asked to take the duty does nothing of it.
#[test]
fn without_the_duty_no_health_taint_is_touched() {
    let mut world = World::new(mk_config(|config| config.duties.node_lifecycle = false), &FOUR);
    world.fall_silent(&["n1"]);
    world.taint("n2", HealthTaint::NotReady.key(), Effect::NoExecute);
    world.pass(secs(60));
    assert!(world.history.is_empty());
    assert_eq!(world.outcomes.keys().filter(|key| key.starts_with("zone/")).count(), 0);
}

/// NL-152: without a verdict there is no vote and no isolation.
#[test]
fn a_wish_without_a_health_record_is_held() {
    let mut world = mk_world();
    let record = world.mk_record(Topic::NodeHealth, "n1".to_owned(), None);
    world.publish(vec![record]);
    world.mark_unknown("n1");
    world.wish("n1", HealthTaint::Unreachable);
    world.pass(secs(60));
    assert_eq!(world.node_held("n1"), Some(HoldReason::OutdatedIntent));
    assert_eq!(world.zone_status("a").voting, 3);
}

/// NL-076, NL-078: both made by hand: the one that matches Ready stays as it is, the other goes.
#[test]
fn of_two_hand_made_taints_the_right_one_keeps_its_time() {
    let mut world = mk_world();
    world.fall_silent(&["n1", "n2"]);
    let by_hand = |health: HealthTaint, ago: i64| Taint {
        time_added: Wall::from_second(START - ago).ok(),
        ..Taint::new(health.key(), Effect::NoExecute)
    };
    world.change_node("n2", |facts| {
        facts.taints.push(by_hand(HealthTaint::Unreachable, 50));
        facts.taints.push(by_hand(HealthTaint::NotReady, 100));
    });
    let unreachable = HealthTaint::Unreachable.key().to_owned();
    assert_eq!(no_execute(&world, "n2"), [(unreachable, Some(START - 50))]);
}
