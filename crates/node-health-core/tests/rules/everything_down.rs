//! The level "no voting node is ready", and leaving it (NL-096, NL-099).

use bailiff_model::ReadyStatus;
use bailiff_node_health_core::{Config, Effect, Input, Measurement};

use crate::support::{Answers, World, check};

/// NL-099
#[test]
fn leaving_gives_silent_nodes_a_fresh_grace_and_leaves_unknown_ones_so() {
    let mut world = World::running(Config::default(), &["n1", "n2"]);
    // n3 came later and reports not ready: silent, not yet judged when the mode ends.
    world.pass(30.0);
    world.create("n3", "u3", ReadyStatus::False);
    world.pass(30.0);
    assert!(world.monitor.summary().everything_down);
    world.story();
    world.pass(10.0);
    world.post("n1", ReadyStatus::True);
    check(&mut world, &["70 n1 healthy", "70 n2 unreachable", "70 n3 not_ready"]);
    assert_eq!(world.record("n3").counted_from, world.now.wall);
    assert_eq!(
        world.record("n2").counted_from,
        world.now.wall,
        "node mode counts its timeout from here (NL-207)"
    );
    assert_eq!(world.ready("n2"), ReadyStatus::Unknown);
    assert!(world.record("n2").late_since.is_some(), "before it was judged");
    world.pass_alive(49.0, &["n1"]);
    assert_eq!(
        world.ready("n3"),
        ReadyStatus::False,
        "30 s of silence before the end of the mode do not count"
    );
    world.pass_alive(2.0, &["n1"]);
    assert_eq!(world.ready("n3"), ReadyStatus::Unknown);
}

/// NL-099: late nodes are late no longer.
#[test]
fn leaving_makes_late_nodes_healthy() {
    let mut world = World::running(Config::default(), &["n1", "n2"]);
    world.change("n1", |facts| facts.ready.status = ReadyStatus::False);
    world.change("n2", |facts| facts.excluded = true);
    world.create("n3", "u3", ReadyStatus::False);
    assert!(world.monitor.summary().everything_down, "n2 has no vote (NL-091)");
    world.pass(40.0);
    assert_eq!(world.verdict("n2"), "late");
    world.post("n3", ReadyStatus::True);
    assert_eq!(world.verdict("n2"), "healthy");
}

/// NL-099: who waits to be read at that moment is watched again, also one that never posted a status.
#[test]
fn leaving_forgets_nobody_who_waits_to_be_read() {
    let mut world = World::running(Config::default(), &[]);
    for nth in 1..=9 {
        world.create(&format!("m{nth}"), "u1", ReadyStatus::Absent);
    }
    world.answers = Answers::Later;
    world.pass(60.1);
    assert_eq!((world.pending.len(), world.monitor.summary().waiting), (8, 1));
    world.create("n1", "u2", ReadyStatus::True);
    world.answers = Answers::AtOnce;
    world.answer_pending();
    world.pass_alive(59.0, &["n1"]);
    assert_eq!(world.monitor.summary().verdicts[3], ("unreachable", 0));
    world.pass_alive(2.0, &["n1"]);
    assert_eq!(world.monitor.summary().verdicts[3], ("unreachable", 9));
}

/// NL-096: nobody votes: nothing happens.
#[test]
fn no_votes_change_nothing() {
    let mut world = World::running(Config::default(), &["n1"]);
    world.change("n1", |facts| facts.ready.status = ReadyStatus::False);
    assert!(world.monitor.summary().everything_down);
    world.change("n1", |facts| facts.excluded = true);
    assert!(world.monitor.summary().everything_down);
    world.change("n1", |facts| {
        facts.excluded = false;
        facts.ready.status = ReadyStatus::True;
    });
    assert!(!world.monitor.summary().everything_down);
}

/// NL-101
#[test]
fn one_ready_node_anywhere_prevents_it() {
    let mut world = World::running(Config::default(), &["n1", "n2", "n3"]);
    for (node, down) in [("n1", false), ("n2", false), ("n3", true)] {
        world.change(node, |facts| facts.ready.status = ReadyStatus::Unknown);
        assert_eq!(world.monitor.summary().everything_down, down, "{node}");
    }
}

/// NL-102 is not repeated: a ready node in a new zone ends it like any other.
#[test]
fn a_ready_node_in_a_new_zone_ends_it() {
    let mut world = World::running(Config::default(), &["n1"]);
    world.pass(60.0);
    assert!(world.monitor.summary().everything_down);
    world.put_node("n2", "u2", ReadyStatus::True);
    let mut facts = world.nodes["n2"].clone();
    facts.zone = bailiff_model::Zone::new("r", "new");
    let effects = world.monitor.apply(Input::NodeApplied(facts), world.now);
    let left = Effect::Measure(Measurement::NoLongerEverythingDown { recounted: 1 });
    assert!(effects.contains(&left), "{effects:?}");
}

/// NL-090: absent counts as not ready.
#[test]
fn a_node_without_status_votes_not_ready() {
    let mut world = World::running(Config::default(), &[]);
    world.create("n1", "u1", ReadyStatus::Absent);
    assert!(world.monitor.summary().everything_down);
}
