//! Correlated loss: leases that stop together hold what would follow.

use std::collections::BTreeSet;
use std::time::Duration;

use bailiff_model::{HoldReason, ReadyStatus, Shard, Zone};
use bailiff_node_health_core::{Config, Effect, Input, LossLimit, Monitor, TopicNews};

use crate::support::{World, name};

const NODES: [&str; 8] = ["n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8"];

/// Half of the leases within 30 s, held for ten minutes.
fn mk_config() -> Config {
    Config {
        loss: Some(LossLimit {
            millionths: 500_000,
            window: Duration::from_secs(30),
            hold: Duration::from_secs(600),
        }),
        ..Config::default()
    }
}

/// The number of nodes that were marked, and of those whose records say that they are held.
fn marked_and_held(world: &World) -> (usize, usize) {
    let marked = world
        .nodes
        .values()
        .filter(|facts| facts.ready.status == ReadyStatus::Unknown)
        .count();
    let held = |node: &&str| {
        let held = world.record(node).held.as_ref();
        held.is_some_and(|hold| hold.reason == HoldReason::CorrelatedLoss)
    };
    (marked, NODES[..world.nodes.len()].iter().copied().filter(held).count())
}

#[test]
fn leases_that_stop_together_hold_their_marking_until_enough_return() {
    let mut world = World::running(mk_config(), &NODES);
    world.pass_alive(45.0, &NODES[4..]);
    assert_eq!(
        (marked_and_held(&world), world.monitor.summary().losses_held),
        ((0, 4), 2),
        "cluster and zone"
    );
    // A fifth one follows.
    world.pass_alive(300.0, &NODES[5..]);
    assert_eq!(marked_and_held(&world), (0, 5));
    // Two speak: three of eight are below the half, and those are judged.
    world.pass_alive(10.0, &["n1", "n2", "n6", "n7", "n8"]);
    assert_eq!((marked_and_held(&world), world.monitor.summary().losses_held), ((3, 0), 0));
}

/// A zone that is held with the whole cluster, or no longer: each record there is told once.
#[test]
fn what_is_held_twice_is_told_once() {
    let mut world = World::running(mk_config(), &NODES);
    world.published();
    world.pass_alive(45.0, &NODES[4..]);
    assert_eq!(
        (world.published(), world.monitor.summary().losses_held),
        (8, 2),
        "late, then held"
    );
    world.renew("n1");
    assert_eq!(
        (world.published(), world.monitor.summary().losses_held),
        (4, 0),
        "one healthy, three free"
    );
}

#[test]
fn fewer_or_slower_losses_are_judged_as_ever() {
    // Three of eight together.
    let mut world = World::running(mk_config(), &NODES);
    world.pass_alive(60.0, &NODES[3..]);
    assert_eq!(marked_and_held(&world), (3, 0));
    // Five of eight, each 31 s after the one before.
    let mut world = World::running(mk_config(), &NODES);
    for lost in 1..=5 {
        world.pass_alive(31.0, &NODES[lost..]);
    }
    world.pass_alive(60.0, &NODES[5..]);
    assert_eq!(marked_and_held(&world), (5, 0));
    // All of them, but nobody asked for a hold.
    let mut world = World::running(Config::default(), &NODES);
    world.pass(60.0);
    assert_eq!(marked_and_held(&world), (8, 0));
}

/// A loss in the cluster holds every zone where something would follow, also for nodes that were judged before or say so themselves.
#[test]
fn a_loss_in_the_cluster_holds_what_runs_in_zones_that_lost_nothing() {
    let mut world = World::running(mk_config(), &NODES);
    world.change("n8", |facts| facts.zone = Zone::new("r", "b"));
    world.change("n7", |facts| facts.zone = Zone::new("r", "c"));
    world.pass_alive(120.0, &NODES[..7]);
    assert_eq!((marked_and_held(&world), world.ready("n8")), ((1, 0), ReadyStatus::Unknown));
    world.pass_alive(45.0, &["n5", "n6", "n7"]);
    let held = |world: &World, node| world.record(node).held.clone();
    assert!(held(&world, "n8").is_some(), "judged long ago, in another zone");
    assert_eq!((held(&world, "n7"), held(&world, "n6")), (None, None), "nothing would follow");
    world.pass_alive(10.0, &NODES[..7]);
    assert_eq!((marked_and_held(&world), held(&world, "n8")), ((1, 0), None));
}

/// One silent node is no correlation, whatever its share.
#[test]
fn a_single_node_is_judged_as_ever() {
    let mut world = World::running(mk_config(), &["n1"]);
    world.pass(60.0);
    assert_eq!(world.ready("n1"), ReadyStatus::Unknown);
}

#[test]
fn a_hold_runs_out_and_does_not_begin_again_for_the_same_silence() {
    let mut world = World::running(mk_config(), &NODES);
    world.pass_alive(630.0, &NODES[4..]);
    assert_eq!(marked_and_held(&world), (0, 4), "held since 37.5 s");
    world.pass_alive(30.0, &NODES[4..]);
    assert_eq!(marked_and_held(&world), (4, 0));
    assert_eq!(world.monitor.summary().losses_held, 0);
    world.pass_alive(600.0, &NODES[4..]);
    assert_eq!(marked_and_held(&world), (4, 0));
}

#[test]
fn a_zone_is_held_alone() {
    let mut world = World::running(mk_config(), &NODES);
    for node in ["n1", "n2"] {
        world.change(node, |facts| facts.zone = Zone::new("r", "b"));
    }
    // Both of zone b and one of six elsewhere: three of eight in the cluster.
    world.pass_alive(60.0, &NODES[3..]);
    assert_eq!(world.ready("n3"), ReadyStatus::Unknown);
    assert_eq!((marked_and_held(&world), world.monitor.summary().losses_held), ((1, 2), 1));
    // One of them goes, the other is a single one and is judged.
    world.delete("n1");
    world.pass_alive(10.0, &NODES[3..]);
    assert_eq!(world.ready("n2"), ReadyStatus::Unknown);
}

/// The share of a zone is of the nodes that it has: one that is deleted, or moves away, is in neither number.
#[test]
fn a_lost_node_that_leaves_its_zone_leaves_both_numbers() {
    let others = ["m1", "m2", "m3", "m4", "m5"];
    for moves in [false, true] {
        let mut world = World::running(mk_config(), &[&NODES[..7], &others].concat());
        for node in others {
            world.change(node, |facts| facts.zone = Zone::new("r", "b"));
        }
        world.pass_alive(45.0, &[&NODES[4..7], &others].concat());
        let found = (held(&world, &NODES[1..4]), world.losses.len());
        assert_eq!(found, (vec![true; 3], 1), "four of seven, and of twelve");
        if moves {
            world.change("n1", |facts| facts.zone = Zone::new("r", "b"));
        } else {
            world.delete("n1");
        }
        let found = (held(&world, &NODES[1..4]), world.losses.len());
        assert_eq!(found, (vec![true; 3], 1), "three of six are half");
        world.renew("n2");
        assert_eq!(held(&world, &["n3", "n4"]), [false; 2], "two of six");
    }
}

/// To the cluster a lost node that is in another zone by now is as lost as before, also one that was judged already.
#[test]
fn a_lost_node_that_changes_its_zone_stays_lost_to_the_cluster() {
    let mut world = World::running(mk_config(), &NODES);
    world.pass_alive(45.0, &NODES[4..]);
    let (before, summary) = (world.losses.len(), world.monitor.summary().losses_held);
    assert_eq!((held(&world, &NODES[..4]), summary), (vec![true; 4], 2));
    world.change("n1", |facts| facts.zone = Zone::new("r", "b"));
    world.change("n2", |facts| {
        facts.zone = Zone::new("r", "b");
        facts.ready.status = ReadyStatus::Unknown;
    });
    let everywhere = world.losses[before..].iter().filter(|news| news.scope.is_none());
    assert_eq!(everywhere.count(), 0, "its hold did not end");
    assert_eq!(held(&world, &NODES[..4]), [true; 4]);
}

/// Nodes that were judged long ago are no loss of now, after a restart either.
#[test]
fn old_verdicts_are_no_correlated_loss() {
    let mut world = World::running(Config::default(), &NODES);
    world.pass_alive(120.0, &NODES[5..]);
    world.restart(mk_config());
    world.pass_alive(5.0, &NODES[5..]);
    assert_eq!(world.monitor.summary().losses_held, 0);
    world.pass_alive(60.0, &NODES[6..]);
    assert_eq!(marked_and_held(&world).0, 6, "one more is judged as ever");
}

/// What the records of these nodes say of a hold.
fn held(world: &World, nodes: &[&str]) -> Vec<bool> {
    nodes.iter().map(|node| world.record(node).held.is_some()).collect()
}

/// What the same process would have published when it says that its set is whole.
fn held_when_complete(world: &World, config: Config) -> Vec<String> {
    let mut monitor = Monitor::new(config);
    let inputs = [
        Input::Nodes(world.nodes.values().cloned().collect()),
        Input::Leases(world.leases.values().cloned().collect()),
        Input::Leading(true),
        Input::Topic(TopicNews::Snapshot {
            records: world.topic.values().cloned().collect(),
            complete: true,
        }),
    ];
    let effects: Vec<Effect> = inputs.into_iter().flat_map(|input| monitor.apply(input, world.now)).collect();
    let mut held = BTreeSet::new();
    for effect in effects.iter().take_while(|effect| !matches!(effect, Effect::Complete)) {
        if let Effect::Publish { health, .. } = effect {
            let name = health.node.name.to_string();
            if health.held.is_some() {
                held.insert(name);
            } else {
                held.remove(&name);
            }
        }
    }
    held.into_iter().collect()
}

/// Machines that never booted are no leases that stopped, even if a lease of their name was left behind; a node without a status whose
/// lease was renewed is one.
#[test]
fn nodes_that_never_lived_are_no_loss() {
    let alive = &NODES[..4];
    let mut world = World::running(mk_config(), alive);
    world.put_lease("m4");
    let left_behind = world.leases.get(&name("m4")).expect("just put").clone();
    world.give(Input::LeaseApplied(left_behind));
    for machine in ["m1", "m2", "m3", "m4"] {
        world.create(machine, "u1", ReadyStatus::Absent);
    }
    for _ in 0..14 {
        world.pass_alive(5.0, alive);
        assert_eq!(world.monitor.summary().losses_held, 0, "at {} s", world.elapsed());
    }
    for machine in ["m1", "m2", "m3", "m4"] {
        assert_eq!(
            (world.ready(machine), world.record(machine).held.clone()),
            (ReadyStatus::Unknown, None)
        );
    }
    assert_eq!(world.losses, []);

    let mut world = World::running(mk_config(), alive);
    for booted in ["m1", "m2", "m3", "m4"] {
        world.create(booted, "u1", ReadyStatus::Absent);
        world.renew(booted);
    }
    world.pass_alive(90.0, alive);
    assert_eq!(
        (world.monitor.summary().losses_held, world.ready("m1")),
        (2, ReadyStatus::Absent)
    );
}

/// A monitor that starts anew counts the late nodes that it inherits: there is no moment at which nothing is held.
#[test]
fn a_hold_outlives_its_monitor() {
    let mut world = World::running(mk_config(), &NODES);
    world.pass_alive(45.0, &NODES[4..]);
    assert_eq!(marked_and_held(&world), (0, 4));
    assert_eq!(held_when_complete(&world, mk_config()), ["n1", "n2", "n3", "n4"]);
    world.restart(mk_config());
    assert_eq!((marked_and_held(&world), world.monitor.summary().losses_held), ((0, 4), 2));
    world.pass_alive(300.0, &NODES[4..]);
    assert_eq!(marked_and_held(&world), (0, 4));
    world.pass_alive(10.0, &NODES[1..]);
    assert_eq!((marked_and_held(&world), world.ready("n1")), ((1, 0), ReadyStatus::Unknown));
}

/// The monitor and the bus are lost together: nobody is late, so nothing would be held for most of a grace, and what runs because of
/// nodes that were judged before the loss would be carried out. Those that were not heard yet are waited for until they are late.
#[test]
fn a_hold_outlives_its_monitor_and_the_bus() {
    let mut world = World::running(mk_config(), &NODES);
    world.pass_alive(90.0, &NODES[2..]);
    world.pass_alive(45.0, &NODES[6..]);
    assert_eq!(
        (marked_and_held(&world), held(&world, &["n1", "n2"])),
        ((2, 6), vec![true; 2])
    );
    world.topic.clear();
    world.losses.clear();
    assert_eq!(
        held_when_complete(&world, mk_config()),
        ["n1", "n2"],
        "the others are healthy as far as is known"
    );
    world.restart(mk_config());
    while world.elapsed() < 100.0 {
        assert_eq!(held(&world, &["n1", "n2"]), [true; 2], "at {} s", world.elapsed());
        assert_eq!(world.losses.is_empty(), world.elapsed() < 38.5, "an alarm once they are late");
        world.pass_alive(1.0, &NODES[6..]);
    }
    assert_eq!(marked_and_held(&world).0, 2, "the late ones are held as before");
    world.pass_alive(10.0, &NODES[2..]);
    assert_eq!(marked_and_held(&world), (2, 0));
}

/// A start in a healthy cluster: what was judged before waits for the few seconds in which kubelets renew their leases, and nobody is
/// alarmed. That is so whether the bus was lost or not: a record that says healthy may be older than the silence.
#[test]
fn a_fresh_start_waits_for_most_nodes_without_an_alarm() {
    for bus_lost in [true, false] {
        let mut world = World::running(mk_config(), &NODES);
        world.pass_alive(90.0, &NODES[2..]);
        if bus_lost {
            world.topic.clear();
        }
        world.restart(mk_config());
        assert_eq!(held(&world, &["n1", "n2"]), [true; 2]);
        world.pass(3.0);
        for node in &NODES[2..4] {
            world.renew(node);
        }
        assert_eq!(held(&world, &["n1", "n2"]), [true; 2], "four of eight are missing");
        world.renew(NODES[4]);
        assert_eq!(held(&world, &["n1", "n2"]), [false; 2], "three are");
        world.pass_alive(60.0, &NODES[2..]);
        assert_eq!((world.losses.len(), world.monitor.summary().losses_held), (0, 0));
        assert_eq!(held(&world, &["n1", "n2"]), [false; 2]);
    }
    // A node that goes while it is waited for is not waited for any more; the zone of the others is not the cluster.
    let mut world = World::new(mk_config(), &NODES);
    world.change("n8", |facts| facts.zone = Zone::new("r", "b"));
    world.change("n1", |facts| facts.ready.status = ReadyStatus::False);
    world.start();
    world.pass(1.0);
    for node in &NODES[..3] {
        world.renew(node);
    }
    assert_eq!(held(&world, &["n1"]), [true], "five of eight");
    world.delete("n8");
    assert_eq!(held(&world, &["n1"]), [true], "four of seven");
    world.delete("n7");
    assert_eq!(held(&world, &["n1"]), [true], "three of six are half");
    world.renew("n6");
    assert_eq!(held(&world, &["n1"]), [false], "two of six");
}

/// What is waited for delays no verdict: a late node that was inherited is judged when its grace ends, and only what follows waits.
#[test]
fn waiting_for_signs_delays_no_verdict() {
    let mut world = World::running(mk_config(), &NODES);
    world.pass_alive(40.0, &NODES[1..]);
    world.restart(mk_config());
    world.pass(14.0);
    assert_eq!((world.ready("n1"), held(&world, &["n1"])), (ReadyStatus::Unknown, vec![true]));
    world.pass_alive(1.0, &NODES[1..]);
    assert_eq!(held(&world, &["n1"]), [false]);
}

/// What is waited for ends after a grace, even if graces began anew meanwhile (NL-099).
#[test]
fn waiting_for_signs_is_bounded() {
    let mut world = World::new(mk_config(), &NODES);
    for node in NODES {
        world.change(node, |facts| facts.ready.status = ReadyStatus::False);
    }
    world.start();
    world.pass(30.0);
    world.post("n8", ReadyStatus::True);
    world.pass_alive(15.0, &["n8"]);
    assert_eq!((held(&world, &["n1"]), world.monitor.summary().losses_held), (vec![true], 0));
    world.pass_alive(10.0, &["n8"]);
    assert_eq!((held(&world, &["n1"]), world.monitor.summary().losses_held), (vec![false], 0));
    world.pass_alive(20.0, &["n8"]);
    assert_eq!((held(&world, &["n1"]), world.monitor.summary().losses_held), (vec![true], 2));
}

/// A process that stood still after its start had no time to hear anybody: it goes on waiting until those that are silent are late.
#[test]
fn waiting_for_signs_outlasts_a_stall() {
    let mut world = World::running(mk_config(), &NODES);
    world.pass_alive(90.0, &NODES[2..]);
    world.topic.clear();
    world.restart(mk_config());
    world.pass(1.0);
    world.stand_still(120.0);
    for _ in 0..20 {
        world.pass(1.0);
        assert_eq!(held(&world, &["n1", "n2"]), [true; 2], "at {} s", world.elapsed());
    }
    assert_eq!(world.monitor.summary().losses_held, 2);
}

/// With several shards each counts its own nodes: those of another shard neither add to a loss nor hide one.
#[test]
fn each_shard_counts_its_own_nodes() {
    let names: Vec<String> = (0..40).map(|index| format!("node-{index}")).collect();
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    let shard = Shard { index: 1, count: 2 };
    let config = Config { shard, ..mk_config() };
    let (own, others): (Vec<&str>, Vec<&str>) = all.iter().partition(|node| shard.owns(&name(node)));
    assert!(own.len() > 10 && others.len() > 10, "{} and {}", own.len(), others.len());
    // All of the other shard's, and all but one of half of its own.
    let silent = own.len().div_ceil(2) - 1;
    let mut world = World::running(config, &all);
    world.pass_alive(70.0, &own[silent..]);
    assert_eq!(world.monitor.summary().losses_held, 0);
    let unknown = |world: &World| all.iter().filter(|node| world.ready(node) == ReadyStatus::Unknown).count();
    assert_eq!(unknown(&world), silent);
    // One more of its own: not half of all nodes, but half of its own.
    let mut world = World::running(config, &all);
    let alive: Vec<&str> = own[silent + 1..].iter().chain(&others).copied().collect();
    world.pass_alive(70.0, &alive);
    assert_eq!((world.monitor.summary().losses_held, unknown(&world)), (2, 0));
    // After a restart too, whatever the other shard's records say.
    for node in &others {
        let record = world.topic[&name(own[0])].clone();
        let mut other = record.clone();
        other.health.node.name = name(node);
        other.health.held = None;
        world.topic.insert(name(node), other);
    }
    world.restart(config);
    assert_eq!((world.monitor.summary().losses_held, unknown(&world)), (2, 0));
}

/// The hold says of what scope and how many; while the share stands, one that speaks lifts nothing.
#[test]
fn a_hold_names_its_scope_and_stands_while_the_share_does() {
    let mut world = World::running(mk_config(), &NODES);
    world.change("n8", |facts| facts.zone = Zone::new("r", "b"));
    world.pass_alive(60.0, &["n1", "n8"]);
    let said = |world: &World| world.record("n2").held.clone().map(|hold| hold.detail);
    assert_eq!(
        said(&world).as_deref(),
        Some("4 of 8 leases of the cluster stopped within 30s")
    );
    world.pass_alive(20.0, &["n1", "n2", "n8"]);
    assert_eq!(
        (marked_and_held(&world).0, said(&world)),
        (0, None),
        "five of eight are still lost"
    );
    assert!(world.record("n3").held.is_some());

    let mut world = World::running(mk_config(), &NODES);
    for node in ["n1", "n2"] {
        world.change(node, |facts| facts.zone = Zone::new("r", "b"));
    }
    world.pass_alive(60.0, &NODES[2..]);
    let detail = world.record("n1").held.clone().map(|hold| hold.detail);
    assert_eq!(detail.as_deref(), Some("2 of 2 leases of zone r:b stopped within 30s"));
}

/// The window includes its ends.
#[test]
fn losses_exactly_one_window_apart_belong_together() {
    for (apart, held) in [(30.0, 2), (30.5, 0)] {
        let mut world = World::running(mk_config(), &NODES[..4]);
        world.renew("n2");
        world.pass(apart);
        for node in ["n1", "n3", "n4"] {
            world.renew(node);
        }
        for _ in 0..60 {
            world.pass(1.0);
            world.renew("n3");
            world.renew("n4");
        }
        assert_eq!(world.monitor.summary().losses_held, held, "{apart} s apart");
    }
}
