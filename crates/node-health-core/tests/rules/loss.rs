//! Correlated loss: leases that stop together hold what would follow (issue 4).

use std::time::Duration;

use bailiff_model::{HoldReason, ReadyStatus, Zone};
use bailiff_node_health_core::{Config, LossLimit};

use crate::support::World;

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
