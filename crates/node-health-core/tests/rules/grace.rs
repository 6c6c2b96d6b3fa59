//! When a node is late, and when it is judged.

use std::collections::BTreeSet;

use bailiff_model::ReadyStatus;
use bailiff_node_health_core::{Config, Input};

use crate::support::{Answers, Pending, World, check, secs};

/// NL-040, NL-043, NL-052, NL-053, NL-060, NL-085
#[test]
fn a_silent_node_is_late_then_confirmed_then_written_then_published() {
    let mut world = World::running(Config::default(), &["n1", "n2"]);
    world.pass_alive(60.0, &["n2"]);
    check(
        &mut world,
        &[
            "37.5 n1 late",
            "50 get n1",
            "50 write n1 Ready,MemoryPressure,DiskPressure,PIDPressure",
            "50 event NodeNotReady n1 u1",
            "50 n1 unreachable",
        ],
    );
    assert_eq!(world.ready("n1"), ReadyStatus::Unknown);
    assert_eq!(world.ready("n2"), ReadyStatus::True);
}

/// Nodes that renew cost no wake each; one that is silent among them is found at the very end of its grace (NL-052).
#[test]
fn who_renews_wakes_nobody() {
    let names: Vec<String> = (0..100).map(|nth| format!("n{nth:02}")).collect();
    let nodes: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut world = World::running(Config::default(), &nodes);
    for turn in 0..12 {
        let before = world.wakes;
        for node in &nodes {
            world.pass(0.1);
            if turn < 5 || *node != "n42" {
                world.renew(node);
            }
        }
        // Once a second, once a period, and for the one that is silent.
        assert!(world.wakes - before <= 15, "{} in turn {turn}", world.wakes - before);
    }
    let judged: Vec<(&str, f64)> = world
        .writes
        .iter()
        .map(|(node, at)| (node.as_str(), (at * 1e3).round() / 1e3))
        .collect();
    assert_eq!(judged, [("n42", 44.3 + 50.0)]);
}

/// Who falls silent together is found late together, a two-hundredth of its grace early at most, and never after three quarters of it.
#[test]
fn nodes_become_late_at_common_instants() {
    let names: Vec<String> = (0..100).map(|nth| format!("n{nth:02}")).collect();
    let nodes: Vec<&str> = names.iter().map(String::as_str).collect();
    for grace in [40.0, 50.0, 300.0] {
        let config = Config {
            grace: secs(grace),
            ..Config::default()
        };
        let mut world = World::running(config, &nodes);
        let renewed: Vec<f64> = nodes
            .iter()
            .map(|node| {
                world.pass(0.103);
                world.renew(node);
                world.elapsed()
            })
            .collect();
        world.story();
        world.pass(0.75 * grace);
        let story = world.story();
        let late = story.iter().filter_map(|told| told.strip_suffix(" late")?.split_once(" n"));
        let late: Vec<(&str, &str)> = late.collect();
        assert_eq!(late.len(), nodes.len());
        for (at, node) in &late {
            let (at, node): (f64, usize) = (at.parse().expect("seconds"), node.parse().expect("a number"));
            let early = renewed[node] + 0.75 * grace - at;
            assert!((-0.001..=grace / 200.0).contains(&early), "{early} of {grace}");
        }
        let instants: BTreeSet<&str> = late.iter().map(|(at, _)| *at).collect();
        let most = 10.3 / (grace / 200.0) + 2.0;
        assert!((instants.len() as f64) < most, "{instants:?}");
    }
}

/// NL-052: exactly at the end of its grace a node is not expired.
#[test]
fn the_grace_is_over_strictly_after_its_end() {
    let mut world = World::running(Config::default(), &["n1"]);
    world.pass(50.0);
    check(&mut world, &["37.5 n1 late"]);
    world.now.mono = world.now.mono + std::time::Duration::from_nanos(1);
    world.give(Input::Wake);
    assert_eq!(world.verdict("n1"), "unreachable");
}

/// NL-041, NL-059
#[test]
fn a_node_without_status_has_its_startup_grace_from_its_creation() {
    let mut world = World::running(Config::default(), &["n1"]);
    world.pass(10.0);
    world.renew("n1");
    world.create("new", "u", ReadyStatus::Absent);
    world.pass_alive(70.0, &["n1"]);
    check(
        &mut world,
        &[
            "10 event RegisteredNode new u",
            "10 new no_status",
            "70 get new",
            "70 write new Ready(never),MemoryPressure(never),DiskPressure(never),PIDPressure(never)",
            "70 new unreachable",
        ],
    );
    let created = world.nodes["new"].created;
    assert_eq!(world.nodes["new"].ready.heartbeat, Some(created));
    assert_eq!(
        world.record("new").grace,
        secs(50.0),
        "it has a Ready now: the monitor grace holds (NL-059)"
    );
}

/// NL-041, NL-065: creation counts between the far past and now, whatever the API server's clock says.
#[test]
fn creation_is_clamped_to_now() {
    for (age, judged_at) in [(3600, 0.0), (20, 40.0), (-3600, 60.0)] {
        let mut world = World::new(Config::default(), &[]);
        world.put_node("new", "u", ReadyStatus::Absent);
        let created = world.now.wall - jiff::SignedDuration::from_secs(age);
        world.nodes.get_mut("new").unwrap().created = created;
        world.start();
        world.pass(judged_at);
        assert_eq!(world.verdict("new"), "no_status", "created {age} s ago");
        world.pass(0.001);
        assert_eq!(world.verdict("new"), "unreachable", "created {age} s ago");
    }
}

/// NL-042
#[test]
fn ready_removed_from_a_live_node_is_no_sign_of_life_and_brings_the_startup_grace() {
    let mut world = World::running(Config::default(), &["n1"]);
    world.pass(20.0);
    world.change("n1", |facts| facts.ready = Default::default());
    assert_eq!(world.verdict("n1"), "no_status");
    world.pass(40.0);
    assert_eq!(
        world.verdict("n1"),
        "no_status",
        "60 s since the last sign, 40 s since the removal"
    );
    world.pass(0.1);
    assert_eq!(world.verdict("n1"), "unreachable");
}

/// NL-044
#[test]
fn the_first_status_of_a_node_is_a_sign_of_life() {
    let mut world = World::running(Config::default(), &[]);
    world.create("new", "u", ReadyStatus::Absent);
    world.pass(40.0);
    world.post("new", ReadyStatus::False);
    assert_eq!(world.verdict("new"), "not_ready");
    world.pass(50.0);
    assert_eq!(world.verdict("new"), "not_ready");
    world.pass(0.1);
    assert_eq!(world.verdict("new"), "unreachable");
}

#[test]
fn a_late_node_that_speaks_is_healthy_again() {
    let mut world = World::running(Config::default(), &["n1"]);
    world.pass(40.0);
    let late_since = world.record("n1").late_since.expect("it is late");
    assert_eq!(
        late_since,
        crate::support::epoch() + jiff::SignedDuration::from_millis(37_500)
    );
    world.renew("n1");
    world.pass(37.0);
    check(&mut world, &["37.5 n1 late", "40 n1 healthy"]);
    assert_eq!(world.record("n1").late_since, None);
}

/// Who said no before it fell silent is told to be not ready, and not late.
#[test]
fn who_is_not_ready_is_not_late() {
    let mut world = World::running(Config::default(), &["n1"]);
    world.post("n1", ReadyStatus::False);
    world.pass(40.0);
    world.change("n1", |facts| facts.excluded = true);
    assert_eq!((world.verdict("n1"), world.record("n1").late_since), ("not_ready", None));
}

/// Design §10: a lost process or a stopped machine is not a dead node.
#[test]
fn after_the_process_stood_still_nothing_is_late_until_inputs_were_taken_in() {
    let mut world = World::running(Config::default(), &["n1", "n2"]);
    world.pass(12.0);
    world.stand_still(600.0);
    world.give(Input::Wake);
    world.renew("n1");
    assert_eq!(world.verdict("n2"), "healthy", "there was no time to hear it");
    world.pass(5.1);
    world.story();
    assert_eq!(world.verdict("n1"), "healthy");
    assert_eq!(
        world.verdict("n2"),
        "unreachable",
        "it was silent all the time, and the read confirmed it"
    );
}

/// Design §10: a read that was answered before the process stood still confirms nothing after it: its node may have spoken meanwhile.
#[test]
fn after_the_process_stood_still_what_was_read_before_is_read_again() {
    for renewed in [true, false] {
        let mut world = World::running(Config::default(), &["n1"]);
        world.answers = Answers::Later;
        world.pass(50.1);
        let Some(Pending::Read(asked, by, nodes)) = world.pending.pop() else {
            panic!("a read was asked for")
        };
        let answer = world.read_now(asked, by, nodes);
        world.stand_still(30.0);
        world.watch_stalled = true;
        if renewed {
            world.renew("n1");
        }
        world.watch_stalled = false;
        world.answers = Answers::AtOnce;
        world.give(answer);
        world.pass(4.9);
        assert_eq!(world.ready("n1"), ReadyStatus::True, "nothing is judged for a period");
        world.list();
        world.pass(0.2);
        assert_eq!(world.verdict("n1"), if renewed { "healthy" } else { "unreachable" });
    }
}

/// The same of one that waits for its turn to be written.
#[test]
fn after_the_process_stood_still_nothing_is_written_on_an_earlier_read() {
    let names: Vec<String> = (0..17).map(|n| format!("n{n:02}")).collect();
    let nodes: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut world = World::running(Config::default(), &nodes);
    world.answers = Answers::Later;
    world.pass(54.9);
    world.answer_pending();
    assert_eq!(world.writes.len(), 16, "writes are bounded");
    world.stand_still(1.5);
    let write = world.pending.remove(0);
    world.answer(write);
    world.pass(4.9);
    assert_eq!(world.writes.len(), 16);
    world.answers = Answers::AtOnce;
    world.pass(0.2);
    assert_eq!((world.writes.len(), world.verdict("n16")), (16 + 16, "unreachable"));
}

/// The same of one that was decided, and waits for its turn on the wire: its node may have spoken meanwhile.
#[test]
fn after_the_process_stood_still_what_was_not_sent_is_called_off() {
    let mut world = World::running(Config::default(), &["n1"]);
    world.answers = Answers::Later;
    world.pass(50.1);
    world.answer_pending();
    assert_eq!((world.writes.len(), world.pending.len()), (1, 1));
    world.stand_still(7.0);
    world.story();
    world.give(Input::Wake);
    check(&mut world, &["57.1 call off n1"]);
    world.renew("n1");
    world.answers = Answers::AtOnce;
    world.pass(20.0);
    assert_eq!((world.ready("n1"), world.verdict("n1")), (ReadyStatus::True, "healthy"));
}

/// NL-065: wall clock steps move no deadline.
#[test]
fn wall_clock_steps_change_nothing() {
    for step in [-86_400, 86_400] {
        let config = Config {
            look: secs(0.128),
            ..Config::default()
        };
        let mut world = World::running(config, &["n1"]);
        world.pass(10.0);
        let renewed = world.now.wall;
        world.now.wall += jiff::SignedDuration::from_secs(step);
        // By a clock that was not stepped: it counts as seen now, or a look ago.
        world.renew_at("n1", Some(renewed));
        let look = if step > 0 { 0.128 } else { 0.0 };
        world.pass(37.2 - look);
        check(&mut world, &[]);
        world.pass(12.8);
        check(&mut world, &[if step > 0 { "47.25 n1 late" } else { "47.5 n1 late" }]);
        world.pass(0.1);
        assert_eq!(world.verdict("n1"), "unreachable", "step {step}");
    }
}

/// NL-151
#[test]
fn a_quiet_cluster_costs_no_request_and_no_record() {
    let mut world = World::running(Config::default(), &["n1", "n2", "n3"]);
    world.pass_alive(600.0, &["n1", "n2", "n3"]);
    check(&mut world, &[]);
}

/// A renewal allocates nothing that stays, and does not even return anything.
#[test]
fn a_renewal_asks_for_nothing() {
    let mut world = World::running(Config::default(), &["n1"]);
    world.pass(1.0);
    world.renew("n1");
    let mut lease = world.leases["n1"].clone();
    lease.renewed = lease.renewed.map(|at| at + jiff::SignedDuration::from_secs(1));
    let effects = world.monitor.apply(Input::LeaseApplied(lease), world.now);
    assert_eq!(effects.capacity(), 0);
}

/// Holds: nothing is written while acts are held, late is said all the same, and it ends by itself.
#[test]
fn nothing_is_written_while_acts_are_held() {
    let mut world = World::running(Config::default(), &["n1"]);
    world.brake(true);
    world.pass(120.0);
    check(&mut world, &["37.5 n1 late"]);
    assert_eq!(world.record("n1").held, None, "whoever reads it watches pauses itself");
    world.brake(false);
    world.pass(5.0);
    assert_eq!(world.verdict("n1"), "unreachable");
}

#[test]
fn a_hold_that_begins_between_read_and_write_holds_the_write() {
    let mut world = World::running(Config::default(), &["n1"]);
    world.answers = Answers::Later;
    world.pass(50.1);
    world.brake(true);
    world.answer_pending();
    assert!(world.pending.is_empty(), "{:?}", world.pending);
    assert_eq!(world.ready("n1"), ReadyStatus::True);
}

/// A world in which n1 fell silent, was read, and waits to be written.
fn about_to_write() -> World {
    let mut world = World::running(Config::default(), &["n1"]);
    world.answers = Answers::Later;
    world.pass(50.1);
    let read = world.pending.remove(0);
    world.answer(read);
    assert!(matches!(world.pending[..], [Pending::Write(_)]), "{:?}", world.pending);
    world.story();
    world
}

/// A pause: a write that waits for its turn when it begins is taken back. That is no failure; when it ends the node is read
/// again before anything is written.
#[test]
fn a_write_that_was_not_sent_when_a_hold_begins_is_taken_back() {
    for renewed in [false, true] {
        let mut world = about_to_write();
        world.brake(true);
        world.brake(true);
        assert!(world.pending.is_empty(), "{:?}", world.pending);
        world.answers = Answers::AtOnce;
        world.pass(120.0);
        let story = world.story();
        assert_eq!(story, ["50.1 call off n1"], "once");
        if renewed {
            world.renew("n1");
        }
        world.brake(false);
        world.pass(5.0);
        assert_eq!(world.verdict("n1"), if renewed { "healthy" } else { "unreachable" });
        let read = world.story().iter().position(|line| line.contains("get n1"));
        assert_eq!(read.is_some(), !renewed);
    }
}

/// NL-040: a node that is heard of while the write about it waits for its turn is not called silent.
#[test]
fn a_write_that_was_not_sent_when_the_node_is_heard_of_is_taken_back() {
    let mut world = about_to_write();
    world.renew("n1");
    world.renew("n1");
    assert_eq!(world.story(), ["50.1 call off n1", "50.1 n1 healthy"], "once");
    assert!(world.pending.is_empty(), "{:?}", world.pending);
    world.answers = Answers::AtOnce;
    world.pass(40.0);
    assert_eq!((world.verdict("n1"), world.ready("n1")), ("late", ReadyStatus::True));
    world.pass(20.0);
    assert_eq!(world.verdict("n1"), "unreachable", "it fell silent again");
}
