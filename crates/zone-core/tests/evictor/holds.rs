//! Silence never evicts: what is held, by what, and that it ends by itself.

use bailiff_model::intent::HealthTaint;
use bailiff_model::outcome::NodeOutcomeState;
use bailiff_model::{Effect, Hold, HoldReason, HoldScope, Holds, Mono, ReadyStatus, Topic, Verdict, ZoneState};
use bailiff_zone_core::{Body, Input};

use crate::world::{World, mk_config, mk_toleration, secs, zone};

const NODES: [(&str, &str); 5] = [("a1", "a"), ("a2", "a"), ("a3", "a"), ("b1", "b"), ("b2", "b")];

fn mk_world() -> World {
    World::new(mk_config(|_| ()), &NODES)
}

type Switch = fn(&mut World);

/// Holds on what health causes: the reason, how it begins and how it ends.
const HEALTH_HOLDS: [(HoldReason, Switch, Switch); 6] = [
    (
        HoldReason::Incomplete,
        |world| world.set_shard(Topic::NodeHealth, false, true),
        |world| world.set_shard(Topic::NodeHealth, true, true),
    ),
    (
        HoldReason::Stale,
        |world| world.set_shard(Topic::NodeHealth, true, false),
        |world| world.set_shard(Topic::NodeHealth, true, true),
    ),
    (
        HoldReason::Stale,
        |world| world.set_shard(Topic::EvictionIntents, true, false),
        |world| world.set_shard(Topic::EvictionIntents, true, true),
    ),
    (
        HoldReason::ApiStale,
        |world| world.tell(Input::ApiFresh(false)),
        |world| world.tell(Input::ApiFresh(true)),
    ),
    (
        HoldReason::Paused,
        |world| hold(world, HoldScope::All, HoldReason::Paused, true),
        |world| hold(world, HoldScope::All, HoldReason::Paused, false),
    ),
    (
        HoldReason::Rival,
        |world| hold(world, HoldScope::Zone(zone("a")), HoldReason::Rival, true),
        |world| hold(world, HoldScope::Zone(zone("a")), HoldReason::Rival, false),
    ),
];

fn hold(world: &mut World, scope: HoldScope, reason: HoldReason, on: bool) {
    let hold = Hold {
        reason,
        detail: "as the test wanted".to_owned(),
        since: world.now.wall,
        until: None,
    };
    world.tell(Input::Braked(on.then_some((scope, hold)).into_iter().collect()));
}

/// Design §1, fail static: isolations wait, are said to wait, and go on when the reason ends.
#[test]
fn isolations_are_held_and_go_on_by_themselves() {
    for (reason, begin, end) in HEALTH_HOLDS {
        let mut world = mk_world();
        begin(&mut world);
        world.fall_silent(&["a1"]);
        world.pass(secs(100));
        assert!(world.isolated().is_empty(), "{reason}");
        assert_eq!(world.zone_held("a"), Some(reason));
        assert_eq!(world.node_held("a1"), Some(reason));
        end(&mut world);
        assert_eq!(world.isolated(), ["a1"].into(), "{reason}");
        assert_eq!(world.zone_held("a"), None);
    }
}

/// Design §1, fail static: pods that are due for a health taint wait for the same.
#[test]
fn evictions_caused_by_health_are_held_and_go_on_by_themselves() {
    for (reason, begin, end) in HEALTH_HOLDS {
        let mut world = mk_world();
        world.fall_silent(&["a1"]);
        let pod = world.add_pod("p", "a1", vec![]);
        begin(&mut world);
        world.due(&pod);
        world.pass(secs(100));
        assert_eq!((world.deleted(), world.pod_held(&pod)), (0, Some(reason)));
        end(&mut world);
        world.pass(secs(1));
        assert_eq!(world.deleted(), 1, "{reason}");
    }
}

/// Design §1, fail static: a hand-made taint that the pods of its node tolerate for ever opens no way around the brake.
#[test]
fn a_taint_tolerated_for_ever_does_not_end_the_holds_on_health() {
    for (reason, begin, end) in HEALTH_HOLDS {
        let mut world = mk_world();
        world.taint("a1", "dedicated", Effect::NoExecute);
        world.fall_silent(&["a1"]);
        let pod = world.add_pod("p", "a1", vec![mk_toleration("dedicated", None)]);
        begin(&mut world);
        world.due(&pod);
        world.pass(secs(100));
        assert_eq!((world.deleted(), world.pod_held(&pod)), (0, Some(reason)));
        end(&mut world);
        world.pass(secs(1));
        assert_eq!(world.deleted(), 1, "{reason}");
    }
}

/// Design §1: an eviction for a hand-made taint needs only eviction-intents and the API.
#[test]
fn evictions_for_hand_made_taints_do_not_wait_for_node_health() {
    for (reason, begin, end) in HEALTH_HOLDS {
        let mut world = mk_world();
        world.taint("a1", "maintenance", Effect::NoExecute);
        let pod = world.add_pod("p", "a1", vec![]);
        begin(&mut world);
        let (health_complete, health_live) = world.shards[&Topic::NodeHealth];
        let waits = health_complete && health_live;
        world.due(&pod);
        assert_eq!(world.deleted(), usize::from(!waits), "{reason}");
        end(&mut world);
        world.pass(secs(1));
        assert_eq!(world.deleted(), 1, "{reason}");
    }
}

/// Design §1, design §10: where nobody was asked to watch nodes, its topic is not missing.
#[test]
fn a_duty_that_nobody_took_is_not_a_missing_producer() {
    let mut world = World::unseen(mk_config(|config| config.duties.node_lifecycle = false));
    world.add_node("a1", "a");
    world.shards.insert(Topic::NodeHealth, (false, false));
    world.show_everything();
    world.taint("a1", HealthTaint::Unreachable.key(), Effect::NoExecute);
    let pod = world.add_pod("p", "a1", vec![]);
    world.due(&pod);
    assert_eq!(world.deleted(), 1);
}

/// Design §1: withdrawing, untainting and cancelling are never held.
#[test]
fn untainting_and_cancelling_are_never_held() {
    for (reason, begin, _) in HEALTH_HOLDS {
        let mut world = mk_world();
        world.fall_silent(&["a1"]);
        let pod = world.add_pod("p", "a1", vec![]);
        begin(&mut world);
        world.due(&pod);
        world.come_back(&["a1"]);
        world.withdraw(&pod);
        assert!(world.isolated().is_empty(), "{reason}");
        assert_eq!(
            world.pod_state(&pod),
            Some(&bailiff_model::outcome::PodOutcomeState::Cancelled),
            "{reason}"
        );
        world.pass(secs(100));
        assert_eq!(world.deleted(), 0);
    }
}

/// Design §1: a swap changes what pods must tolerate, so it waits too.
#[test]
fn swaps_are_held_and_go_on_by_themselves() {
    for (reason, begin, end) in HEALTH_HOLDS {
        let mut world = mk_world();
        world.fall_silent(&["a1"]);
        begin(&mut world);
        world.change_node("a1", |facts| {
            facts.ready = bailiff_model::ReadyStatus::False;
            facts
                .taints
                .push(bailiff_model::Taint::new(HealthTaint::NotReady.key(), Effect::NoSchedule));
        });
        world.health("a1", Verdict::NotReady);
        world.wish("a1", HealthTaint::NotReady);
        assert!(world.is_isolated_as("a1", HealthTaint::Unreachable), "{reason}");
        assert_eq!(world.node_held("a1"), Some(reason));
        end(&mut world);
        assert!(world.is_isolated_as("a1", HealthTaint::NotReady), "{reason}");
        assert!(!world.is_isolated_as("a1", HealthTaint::Unreachable), "{reason}");
    }
}

/// Design §2: a bus that cannot be reached is stale after ten seconds, and back with its first word.
#[test]
fn a_lost_bus_holds_after_ten_seconds() {
    let mut world = mk_world();
    world.fall_silent(&["a1", "a2"]);
    world.tell(Input::BusLost { since: world.now.mono });
    world.pass(secs(9));
    assert_eq!(world.zone_held("a"), None);
    world.pass(secs(1));
    assert_eq!(world.zone_held("a"), Some(HoldReason::Stale));
    world.pass(secs(60));
    assert_eq!(world.isolated(), ["a1"].into());
    world.tell(Input::Status(world.shards()));
    assert_eq!(world.isolated(), ["a1", "a2"].into());
}

/// Pause: one node or one zone is held, the others are not.
#[test]
fn a_hold_covers_its_scope_only() {
    let mut world = mk_world();
    hold(&mut world, HoldScope::Node("a1".into()), HoldReason::Paused, true);
    world.fall_silent(&["a1", "a2"]);
    assert_eq!(world.isolated(), ["a2"].into());
    assert_eq!(world.node_held("a1"), Some(HoldReason::Paused));
    let pod = world.add_pod("p", "a1", vec![]);
    world.taint("a1", "maintenance", Effect::NoExecute);
    world.due(&pod);
    assert_eq!(world.pod_held(&pod), Some(HoldReason::Paused));
    hold(&mut world, HoldScope::Node("a1".into()), HoldReason::Paused, false);
    world.pass(secs(10));
    assert_eq!(world.isolated(), ["a1", "a2"].into());
    assert_eq!(world.deleted(), 1);
}

/// Design §2: nothing is derived from a key that is missing before its topic is complete.
#[test]
fn a_missing_key_means_nothing_until_the_topic_is_complete() {
    let mut world = mk_world();
    world.fall_silent(&["a1", "a2"]);
    let pod = world.add_pod("p", "a1", vec![]);
    hold(&mut world, HoldScope::All, HoldReason::Paused, true);
    world.due(&pod);
    world.shards.insert(Topic::NodeHealth, (false, true));
    world.shards.insert(Topic::EvictionIntents, (false, true));
    world.tell(Input::Snapshot {
        records: vec![],
        shards: world.shards(),
    });
    assert_eq!(world.zone_status("a").voting, 3, "votes stay as they were");
    assert_eq!(world.evictor.due_pods(), (1, 0, 0));
    world.set_shard(Topic::EvictionIntents, true, true);
    assert_eq!(world.evictor.due_pods(), (0, 0, 0), "now it is known to be withdrawn");
    world.set_shard(Topic::NodeHealth, true, true);
    assert_eq!(world.zone_status("a").voting, 0);
}

/// NL-097: stripping needs to know of everybody.
#[test]
fn an_incomplete_view_does_not_make_all_zones_disrupted() {
    let mut world = mk_world();
    world.fall_silent(&["a1"]);
    world.shards.insert(Topic::NodeHealth, (false, true));
    let sick = world.mk_health("a1", Verdict::Unreachable);
    world.tell(Input::Snapshot {
        records: vec![sick],
        shards: world.shards(),
    });
    for name in ["a2", "a3", "b1", "b2"] {
        world.health(name, Verdict::Unreachable);
    }
    assert_eq!(world.isolated(), ["a1"].into());
    world.set_shard(Topic::NodeHealth, true, true);
    assert!(world.isolated().is_empty());
}

/// Design §2: before a view of both the API and the bus is there, nothing is done or said.
#[test]
fn nothing_happens_before_both_views_are_there() {
    let mut world = World::unseen(mk_config(|_| ()));
    world.add_node("a1", "a");
    world.mark_unknown("a1");
    world.health("a1", Verdict::Unreachable);
    world.wish("a1", HealthTaint::Unreachable);
    let records: Vec<_> = world.bus.values().cloned().collect();
    let shards = world.shards();
    assert_eq!(world.evictor.apply(Input::Snapshot { records, shards }, world.now), []);
    let other = bailiff_zone_core::Evictor::new(world.config.clone())
        .apply(Input::Nodes(world.nodes.values().cloned().collect()), world.now);
    assert_eq!(other, []);
    assert_eq!(world.now.mono, Mono::from_origin(secs(100_000)));
}

/// NL-092, NL-093: votes that are cast while the view is incomplete count as soon as it is complete, before anything is granted.
#[test]
fn a_zone_is_judged_by_the_votes_of_an_incomplete_view_once_it_is_complete() {
    let nodes = [("a1", "a"), ("a2", "a"), ("a3", "a"), ("a4", "a"), ("b1", "b")];
    let mut world = World::new(mk_config(|_| ()), &nodes);
    world.set_shard(Topic::NodeHealth, false, true);
    world.fall_silent(&["a1", "a2", "a3"]);
    assert_eq!(
        world.zone_status("a").state,
        ZoneState::Normal,
        "nobody is judged by half a view"
    );
    world.set_shard(Topic::NodeHealth, true, true);
    world.pass(secs(600));
    assert!(world.isolated().is_empty());
    let status = world.zone_status("a");
    assert_eq!((status.state, status.rate_per_second), (ZoneState::PartialDisruption, 0.0));
    // And the other way.
    world.set_shard(Topic::NodeHealth, false, true);
    world.come_back(&["a3"]);
    world.set_shard(Topic::NodeHealth, true, true);
    world.pass(secs(600));
    assert_eq!(world.zone_status("a").state, ZoneState::Normal);
    assert_eq!(world.isolated(), ["a1", "a2"].into());
}

fn cannot_read(world: &mut World, topic: Topic, key: &str) {
    let record = world.mk_record(topic, key.to_owned(), Some(Body::Unreadable));
    world.tell(Input::Changes {
        records: vec![record],
        shards: vec![],
    });
}

/// Design §2, event_bus.proto "Growth": what depends on a key whose newest record is not understood waits for one that is.
#[test]
fn a_record_that_is_not_understood_holds_what_depends_on_its_key() {
    let held = Some(HoldReason::OutdatedIntent);
    for (topic, node_key, pod_waits) in [
        (Topic::NodeHealth, "a1", true),
        (Topic::EvictionIntents, "node/a1", true),
        (Topic::EvictionIntents, "node/a2", false),
    ] {
        let mut world = mk_world();
        world.fall_silent(&["a1"]);
        let pod = world.add_pod("p", "a1", vec![]);
        cannot_read(&mut world, topic, node_key);
        world.due(&pod);
        world.pass(secs(100));
        assert_eq!(world.deleted(), usize::from(!pod_waits), "{node_key}");
        assert_eq!(world.pod_held(&pod), held.filter(|_| pod_waits), "{node_key}");
        world.health("a1", Verdict::Unreachable);
        world.wish("a1", HealthTaint::Unreachable);
        world.pass(secs(10));
        assert_eq!(world.deleted(), 1, "{node_key}");
    }
    let mut world = mk_world();
    hold(&mut world, HoldScope::All, HoldReason::Paused, true);
    world.fall_silent(&["a1"]);
    cannot_read(&mut world, Topic::NodeHealth, "a1");
    hold(&mut world, HoldScope::All, HoldReason::Paused, false);
    world.pass(secs(100));
    assert_eq!((world.isolated().len(), world.node_held("a1")), (0, held));
    world.health("a1", Verdict::Unreachable);
    world.wish("a1", HealthTaint::Unreachable);
    assert_eq!(world.isolated(), ["a1"].into());
    // A swap too.
    world.change_node("a1", |facts| {
        facts.ready = bailiff_model::ReadyStatus::False;
        facts
            .taints
            .push(bailiff_model::Taint::new(HealthTaint::NotReady.key(), Effect::NoSchedule));
    });
    world.health("a1", Verdict::NotReady);
    cannot_read(&mut world, Topic::NodeHealth, "a1");
    world.wish("a1", HealthTaint::NotReady);
    assert_eq!(
        (world.is_isolated_as("a1", HealthTaint::NotReady), world.node_held("a1")),
        (false, held)
    );
    world.health("a1", Verdict::NotReady);
    world.wish("a1", HealthTaint::NotReady);
    assert!(world.is_isolated_as("a1", HealthTaint::NotReady));
}

/// The same for a pod's own key, whatever the cause; and it is not gone either.
#[test]
fn a_pod_whose_intent_is_not_understood_is_neither_evicted_nor_called_off() {
    let mut world = mk_world();
    world.taint("a1", "maintenance", Effect::NoExecute);
    let pod = world.add_pod("p", "a1", vec![]);
    hold(&mut world, HoldScope::All, HoldReason::Paused, true);
    world.due(&pod);
    let unreadable = world.mk_record(Topic::EvictionIntents, format!("pod/{pod}"), Some(Body::Unreadable));
    hold(&mut world, HoldScope::All, HoldReason::Paused, false);
    assert_eq!(world.deleted(), 1, "the control: nothing else holds it");

    let other = world.add_pod("q", "a1", vec![]);
    hold(&mut world, HoldScope::All, HoldReason::Paused, true);
    world.due(&other);
    let unreadable = bailiff_zone_core::Record {
        key: format!("pod/{other}"),
        ..unreadable
    };
    world.tell(Input::Snapshot {
        records: world
            .bus
            .values()
            .filter(|record| record.key != unreadable.key)
            .cloned()
            .chain([unreadable.clone()])
            .collect(),
        shards: world.shards(),
    });
    hold(&mut world, HoldScope::All, HoldReason::Paused, false);
    world.pass(secs(100));
    assert_eq!(
        (world.deleted(), world.pod_held(&other)),
        (1, Some(HoldReason::OutdatedIntent))
    );
    world.due(&other);
    world.pass(secs(10));
    assert_eq!(world.deleted(), 2);
}

/// Correlated loss: records that say so hold their zone, and no other, until the last of them says otherwise.
#[test]
fn a_loss_that_the_monitor_holds_holds_its_zone() {
    let mut world = mk_world();
    world.fall_silent(&["a1"]);
    let pod = world.add_pod("p", "a1", vec![]);
    let other = world.add_pod("q", "b1", vec![]);
    world.taint("b1", "maintenance", Effect::NoExecute);
    world.hold_by_monitor(&["a2", "a3"], HoldReason::CorrelatedLoss);
    assert_eq!(world.zone_held("a"), Some(HoldReason::CorrelatedLoss));
    assert_eq!(world.zone_held("b"), None);
    for pod in [&pod, &other] {
        world.due(pod);
    }
    world.pass(secs(100));
    assert_eq!((world.pod_held(&pod), world.deleted()), (Some(HoldReason::CorrelatedLoss), 1));
    world.health("a2", Verdict::Healthy);
    assert_eq!(world.zone_held("a"), Some(HoldReason::CorrelatedLoss), "a3 still says so");
    world.health("a3", Verdict::Healthy);
    world.pass(secs(1));
    assert_eq!((world.zone_held("a"), world.deleted()), (None, 2));
}

fn observe(world: &mut World) {
    let hold = Hold {
        reason: HoldReason::Observing,
        detail: "as the test wanted".to_owned(),
        since: world.now.wall,
        until: None,
    };
    world.tell(Input::Braked([(HoldScope::All, hold)].into_iter().collect()));
}

/// Design §1: who only observes asks for no swap either, and says why.
#[test]
fn an_observer_swaps_no_taints() {
    let mut world = World::new(mk_config(|_| ()), &[("n1", "a"), ("n2", "a"), ("n3", "a")]);
    world.fall_silent(&["n1"]);
    observe(&mut world);
    world.change_node("n1", |facts| facts.ready = ReadyStatus::False);
    world.health("n1", Verdict::NotReady);
    world.wish("n1", HealthTaint::NotReady);
    assert_eq!(
        world.node_held("n1"),
        Some(HoldReason::TaintOrder),
        "whoever acts would wait, too"
    );
    world.pass(secs(60));
    assert!(world.is_isolated_as("n1", HealthTaint::Unreachable));
    assert_eq!(world.node_held("n1"), Some(HoldReason::Observing));
}

/// Design §1: nor does it ask for taints to be taken off, which is not for it to do. Once it acts it does. That they wait for something
/// first, it tells as if it acted.
#[test]
fn an_observer_clears_no_taints() {
    let mut world = World::new(mk_config(|_| ()), &[("n1", "a"), ("n2", "a"), ("n3", "a")]);
    world.fall_silent(&["n1"]);
    observe(&mut world);
    let requests = world.requests;
    world.spans.clear();
    world.change_node("n1", |facts| facts.ready = ReadyStatus::True);
    world.pass(secs(60));
    assert_eq!(world.told("n1"), ["held 5s released TAINT_ORDER"]);
    world.come_back(&["n1"]);
    world.pass(secs(60));
    assert_eq!(world.told("n1").len(), 1);
    assert_eq!((world.is_isolated("n1"), world.requests), (true, requests));
    assert_eq!(world.node_state("n1"), Some(&NodeOutcomeState::Released), "as it decides");
    world.tell(Input::Braked(Holds::NONE));
    assert_eq!((world.is_isolated("n1"), world.requests), (false, requests + 1));
}
