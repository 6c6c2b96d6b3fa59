//! Restarts and changes of leader.

use bailiff_model::{Mono, Now, ReadyStatus};
use bailiff_node_health_core::{Config, Effect, Input, Monitor};

use crate::support::{Answers, World, check, epoch, secs};

/// NL-043
#[test]
fn after_a_restart_everybody_who_was_not_late_has_a_full_grace() {
    let mut world = World::running(Config::default(), &["n1"]);
    world.pass(30.0);
    world.restart(Config::default());
    world.story();
    world.pass(49.0);
    assert_eq!(world.ready("n1"), ReadyStatus::True);
    world.pass(1.1);
    assert_eq!(world.ready("n1"), ReadyStatus::Unknown);
}

/// An API server that does not answer costs one wake a period, however long it takes: no turn asks for another at once.
#[test]
fn who_waits_for_the_first_lists_does_not_spin() {
    let (config, mut now) = (
        Config::default(),
        Now {
            mono: Mono::from_origin(secs(1000.0)),
            wall: epoch(),
        },
    );
    let mut monitor = Monitor::new(config);
    let mut effects = monitor.apply(Input::Leading(true), now);
    for turn in 0..20 {
        let wakes: Vec<Mono> = effects
            .iter()
            .filter_map(|effect| match effect {
                Effect::WakeAt(at) => Some(*at),
                _ => None,
            })
            .collect();
        assert_eq!(wakes, [now.mono + config.period], "turn {turn}");
        now.mono = wakes[0];
        effects = monitor.apply(Input::Wake, now);
    }
}

/// Design §1, the brake looks ahead: the first sight of a lease, which may be as old as a total silence, is not told as a sign of life;
/// the first renewal, or status, is.
#[test]
fn the_first_sight_of_a_lease_is_no_sign_of_life() {
    let heard = |world: &World, node: &str| world.record(node).last_sign_of_life.is_some();
    let mut world = World::running(Config::default(), &["n1", "n2", "n3"]);
    assert_eq!(["n1", "n2", "n3"].map(|node| heard(&world, node)), [false; 3]);
    world.pass(5.0);
    world.renew("n1");
    world.post("n2", ReadyStatus::True);
    assert_eq!(["n1", "n2", "n3"].map(|node| heard(&world, node)), [true, true, false]);
    let told = world.record("n1").clone();
    world.pass(10.0);
    world.renew("n1");
    assert_eq!(*world.record("n1"), told, "no heartbeat crosses the bus");
    // Bus and monitor die together: nothing is remembered, and nobody was heard of yet.
    world.topic.clear();
    world.restart(Config::default());
    assert_eq!(["n1", "n2", "n3"].map(|node| heard(&world, node)), [false; 3]);
    world.renew("n3");
    assert_eq!(["n1", "n2", "n3"].map(|node| heard(&world, node)), [false, false, true]);
}

/// Design §8: however long the silence was that is inherited, two periods are left of the grace.
#[test]
fn of_a_short_grace_two_periods_are_left() {
    let config = Config {
        grace: secs(20.0),
        ..Config::default()
    };
    let mut world = World::running(config, &["n1"]);
    world.pass(18.0);
    world.restart(config);
    world.pass(9.9);
    assert_eq!((world.verdict("n1"), world.ready("n1")), ("late", ReadyStatus::True));
    world.pass(0.2);
    assert_eq!(world.ready("n1"), ReadyStatus::Unknown);
}

/// Design §8: judged nodes are inherited, with the moment their silence began and with their trace.
#[test]
fn a_judged_node_is_inherited() {
    let mut world = World::running(Config::default(), &["n1"]);
    world.pass(55.0);
    let before = world.topic["n1"].clone();
    world.restart(Config::default());
    check(
        &mut world,
        &[
            "37.5 n1 late",
            "50 get n1",
            "50 write n1 Ready,MemoryPressure,DiskPressure,PIDPressure",
            "50 event NodeNotReady n1 u1",
            "50 n1 unreachable",
            "1 -- restart",
            "1 event RegisteredNode n1 u1",
            "1 n1 unreachable",
            "1 complete",
        ],
    );
    let after = &world.topic["n1"];
    assert_eq!(after.health.counted_from, before.health.counted_from);
    assert_eq!(after.health.late_since, before.health.late_since);
    assert_eq!(after.health.last_sign_of_life, before.health.last_sign_of_life);
    assert_eq!(after.trace, before.trace);
    assert!(after.trace.is_some());
}

/// Design §8: late nodes are inherited: the brake stays on, and what another process counted is credited up to 3/4.
#[test]
fn a_late_node_is_inherited() {
    let mut world = World::running(Config::default(), &["n1"]);
    world.pass(45.0);
    let trace = world.topic["n1"].trace;
    world.restart(Config::default());
    assert_eq!(world.verdict("n1"), "late");
    world.pass(12.4);
    assert_eq!(world.ready("n1"), ReadyStatus::True);
    world.pass(0.2);
    assert_eq!(world.ready("n1"), ReadyStatus::Unknown);
    assert_eq!(world.topic["n1"].trace, trace);
}

/// A late node that renews its lease after the restart is alive, although the first sight of its lease said nothing.
#[test]
fn a_late_node_that_speaks_after_the_restart_is_healthy() {
    let mut world = World::running(Config::default(), &["n1"]);
    world.pass(45.0);
    world.restart(Config::default());
    world.pass(10.0);
    world.renew("n1");
    assert_eq!(world.verdict("n1"), "healthy");
}

/// The record may be long out of date: a lease renewed well after it is a sign of life.
#[test]
fn a_node_that_spoke_while_nobody_listened_is_not_late() {
    let mut world = World::running(Config::default(), &["n1"]);
    world.pass(40.0);
    assert_eq!(world.verdict("n1"), "late");
    world.watch_stalled = true;
    world.renew("n1");
    world.watch_stalled = false;
    world.restart(Config::default());
    assert_eq!(world.verdict("n1"), "healthy");
}

/// The same of one that stands judged: once another hand takes its condition back, it has a full grace since that restart, whatever restarts
/// follow.
#[test]
fn a_judged_node_that_spoke_while_nobody_listened_has_a_full_grace() {
    let by_hand = |world: &mut World, status| world.change("n1", |facts| facts.ready.status = status);
    for (spoke, restarts) in [(true, 1), (true, 2), (false, 1)] {
        let mut world = World::running(Config::default(), &["n1", "n2"]);
        world.pass_alive(1.0, &["n1", "n2"]);
        world.pass_alive(40.0, &["n2"]);
        assert_eq!(world.verdict("n1"), "late");
        by_hand(&mut world, ReadyStatus::Unknown);
        world.pass_alive(5.0, &["n2"]);
        if spoke {
            world.watch_stalled = true;
            world.renew("n1");
            world.watch_stalled = false;
        }
        let at = world.now.wall;
        for _ in 0..restarts {
            world.restart(Config::default());
            world.pass_alive(1.0, &["n2"]);
        }
        assert_eq!(world.verdict("n1"), "unreachable");
        assert_eq!(world.topic["n1"].health.counted_from >= at, spoke, "{restarts}");
        by_hand(&mut world, ReadyStatus::True);
        world.pass_alive(47.0, &["n2"]);
        let expected = if spoke { ReadyStatus::True } else { ReadyStatus::Unknown };
        assert_eq!(world.ready("n1"), expected, "it spoke: {spoke}, {restarts}");
        world.pass_alive(4.0, &["n2"]);
        assert_eq!(world.ready("n1"), ReadyStatus::Unknown);
    }
}

/// The record has the renewTime that was seen last: the kubelet's clock may be anywhere.
#[test]
fn a_renewal_while_nobody_listened_is_seen_whatever_the_clocks_say() {
    for hours in [-24, 24] {
        let mut world = World::running(Config::default(), &["n1", "n2"]);
        let kubelet = |world: &World| Some(world.now.wall + jiff::SignedDuration::from_hours(hours));
        world.pass(10.0);
        for node in ["n1", "n2"] {
            world.renew_at(node, kubelet(&world));
        }
        world.pass(40.0);
        assert_eq!((world.verdict("n1"), world.verdict("n2")), ("late", "late"), "{hours} h");
        let sign = world.topic["n1"].health.last_sign_of_life.expect("it spoke");
        assert_eq!(sign.renew_time, world.leases["n1"].renewed);
        world.watch_stalled = true;
        world.renew_at("n1", kubelet(&world));
        world.watch_stalled = false;
        world.restart(Config::default());
        assert_eq!((world.verdict("n1"), world.verdict("n2")), ("healthy", "late"), "{hours} h");
    }
}

/// Wall clocks of two processes are never compared to justify an act: whatever they say, the last quarter is counted here.
#[test]
fn a_wall_clock_step_across_a_restart_judges_nobody() {
    for hours in [-24, 24] {
        let mut world = World::running(Config::default(), &["n1", "n2"]);
        world.pass(45.0);
        world.renew("n2");
        world.now.wall += jiff::SignedDuration::from_hours(hours);
        world.restart(Config::default());
        world.pass(12.4);
        assert_eq!(world.ready("n1"), ReadyStatus::True, "{hours} h");
        world.pass(37.5);
        assert_eq!(world.ready("n2"), ReadyStatus::True, "{hours} h");
    }
}

/// NL-035: the record of another uid says nothing.
#[test]
fn the_record_of_another_uid_is_not_inherited() {
    let mut world = World::running(Config::default(), &["n1"]);
    world.pass(45.0);
    world.put_node("n1", "u2", ReadyStatus::True);
    world.restart(Config::default());
    assert_eq!(world.verdict("n1"), "healthy");
}

/// A node that became Unknown by other hands while nobody led is judged all the same (NL-054); one that recovered is healthy.
#[test]
fn the_api_wins_over_the_record() {
    let mut world = World::running(Config::default(), &["n1", "n2"]);
    world.pass(55.0);
    world.watch_stalled = true;
    world.post("n1", ReadyStatus::True);
    world.watch_stalled = false;
    world.restart(Config::default());
    assert_eq!((world.verdict("n1"), world.verdict("n2")), ("healthy", "unreachable"));
}

/// Without a bus nothing is inherited, and nothing is forgotten that the API says.
#[test]
fn without_the_topic_there_is_the_api() {
    let mut world = World::running(Config::default(), &["n1", "n2"]);
    world.pass_alive(45.0, &["n2"]);
    world.topic.clear();
    world.restart(Config::default());
    assert_eq!(world.verdict("n1"), "healthy", "it gets a full grace");
    world.pass_alive(49.0, &["n2"]);
    assert_eq!(world.ready("n1"), ReadyStatus::True);
}

/// Leadership lost: nothing is written or published any more, what is under way is not heeded; regained: as after a restart.
#[test]
fn without_leadership_nothing_is_done() {
    let mut world = World::running(Config::default(), &["n1"]);
    world.answers = Answers::Later;
    world.pass(50.1);
    world.give(Input::Leading(false));
    world.story();
    world.answer_pending();
    world.pass(100.0);
    world.renew("n1");
    check(&mut world, &[]);
    assert_eq!(world.monitor.summary().under_way, 0);

    world.answers = Answers::AtOnce;
    world.give(Input::Leading(true));
    world.give(Input::Topic(bailiff_node_health_core::TopicNews::Snapshot {
        records: Vec::new(),
        complete: true,
    }));
    world.pass(50.0);
    assert_eq!(world.ready("n1"), ReadyStatus::True);
    world.pass(0.1);
    assert_eq!(world.ready("n1"), ReadyStatus::Unknown);
}
