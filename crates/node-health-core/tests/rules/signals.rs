//! What is a sign of life and what is not.

use std::time::Duration;

use bailiff_model::{Profile, ReadyStatus, ResourceVersion};
use bailiff_node_health_core::{Config, Effect, Input};
use jiff::SignedDuration;

use crate::support::{Answers, World, check, name};

/// NL-040, NL-047
#[test]
fn either_signal_alone_keeps_a_node_alive() {
    let mut world = World::running(Config::default(), &["both", "lease", "none", "status"]);
    for _ in 0..20 {
        world.pass(10.0);
        for node in ["both", "lease"] {
            world.renew(node);
        }
        for node in ["both", "status"] {
            world.post(node, ReadyStatus::True);
        }
    }
    for node in ["both", "lease", "status"] {
        assert_eq!(world.verdict(node), "healthy", "{node}");
    }
    assert_eq!(world.verdict("none"), "unreachable");
}

/// NL-040: what is looked at in turns is judged as if it had been seen at once.
#[test]
fn a_renewal_that_waited_to_be_looked_at_counts_from_its_own_time() {
    let look = Duration::from_millis(128);
    for (what, profile, seconds_ago, judged) in [
        ("seen when it came", Profile::Bailiff, 0.0, 60.05),
        ("seen later", Profile::Bailiff, 0.1, 59.95),
        ("by a clock that is behind", Profile::Bailiff, 20.0, 59.922),
        ("by one that is ahead", Profile::Bailiff, -20.0, 60.05),
        ("by a pass, when it is seen", Profile::Upstream, 0.1, 70.0),
    ] {
        let config = Config {
            look,
            profile,
            ..Config::default()
        };
        let mut world = World::running(config, &["n1"]);
        world.pass(10.05);
        let renewed = world.now.wall - SignedDuration::from_secs_f64(seconds_ago);
        world.renew_at("n1", Some(renewed));
        world.pass(60.0);
        let (node, at) = world.writes.first().cloned().expect("it is silent");
        assert_eq!((node, (at * 1000.0).round() / 1000.0), (name("n1"), judged), "{what}");
    }
}

/// NL-045, NL-046, NL-048
#[test]
fn what_counts_as_a_sign_of_life() {
    type Act = fn(&mut World);
    let cases: [(&str, Act, bool); 9] = [
        ("a later renewTime", |world| world.renew("n1"), true),
        (
            "an earlier renewTime",
            |world| {
                let back = world.now.wall - SignedDuration::from_hours(1);
                world.renew_at("n1", Some(back));
            },
            true,
        ),
        (
            "the same renewTime",
            |world| {
                let same = world.leases["n1"].renewed;
                world.renew_at("n1", same);
            },
            false,
        ),
        ("no renewTime", |world| world.renew_at("n1", None), false),
        (
            "a lease that is gone",
            |world| {
                world.leases.remove("n1");
                world.give(Input::LeaseDeleted(name("n1")));
            },
            false,
        ),
        (
            "a lease created again with the old renewTime",
            |world| {
                let same = world.leases["n1"].renewed;
                world.give(Input::LeaseDeleted(name("n1")));
                world.renew_at("n1", same);
            },
            false,
        ),
        ("a heartbeat", |world| world.post("n1", ReadyStatus::True), true),
        (
            "an earlier heartbeat",
            |world| {
                let back = world.now.wall - SignedDuration::from_hours(1);
                world.change("n1", |facts| facts.ready.heartbeat = Some(back));
            },
            true,
        ),
        (
            "Ready set by hand",
            |world| world.change("n1", |facts| facts.ready.status = ReadyStatus::False),
            false,
        ),
    ];
    for (what, act, is_sign) in cases {
        let mut world = World::running(Config::default(), &["n1"]);
        world.pass(30.0);
        act(&mut world);
        world.pass(25.0);
        assert_eq!(world.ready("n1") != ReadyStatus::Unknown, is_sign, "{what}");
    }
}

/// NL-044: Ready that appears as Unknown was written by a monitor, and is no sign of life.
#[test]
fn a_first_status_that_is_unknown_is_no_sign_of_life() {
    let mut world = World::running(Config::default(), &[]);
    world.create("new", "u", ReadyStatus::Absent);
    let counted_from = world.record("new").counted_from;
    world.pass(30.0);
    world.post("new", ReadyStatus::Unknown);
    let record = world.record("new");
    assert_eq!((record.last_sign_of_life, record.counted_from), (None, counted_from));
}

/// NL-047, NL-049
#[test]
fn the_first_sight_of_a_lease_is_a_sign_however_old_it_is() {
    let mut world = World::running(Config::default(), &["n1"]);
    world.leases.clear();
    world.create("new", "u", ReadyStatus::Absent);
    world.pass(40.0);
    let old = world.now.wall - SignedDuration::from_hours(24);
    world.renew_at("new", Some(old));
    world.pass(60.0);
    assert_eq!(world.verdict("new"), "no_status");
    world.pass(0.1);
    assert_eq!(world.verdict("new"), "unreachable");
}

/// NL-049: a lease that is older than its node is known from the start.
#[test]
fn a_lease_that_came_before_its_node_counts_when_the_node_comes() {
    let mut world = World::running(Config::default(), &[]);
    world.put_node("new", "u", ReadyStatus::Absent);
    world.nodes.get_mut("new").unwrap().created = world.now.wall - SignedDuration::from_secs(50);
    world.renew("new");
    let facts = world.nodes["new"].clone();
    world.give(Input::NodeApplied(facts));
    world.pass(59.0);
    assert_eq!(world.verdict("new"), "no_status");
    assert_eq!(
        world.record("new").last_sign_of_life,
        None,
        "when it was renewed nobody knows"
    );
}

/// NL-051
#[test]
fn without_a_lease_status_decides_alone() {
    let mut world = World::new(Config::default(), &["n1"]);
    world.leases.clear();
    world.start();
    for _ in 0..3 {
        world.pass(40.0);
        world.post("n1", ReadyStatus::True);
    }
    assert_eq!(world.verdict("n1"), "healthy");
    world.pass(50.1);
    assert_eq!(world.verdict("n1"), "unreachable");
}

/// NL-051: never posted, lease renewed.
#[test]
fn a_lease_without_status_keeps_a_node_from_being_judged() {
    let mut world = World::running(Config::default(), &[]);
    world.create("new", "u", ReadyStatus::Absent);
    world.pass_alive(300.0, &["new"]);
    assert_eq!(world.verdict("new"), "no_status");
    assert_eq!(world.ready("new"), ReadyStatus::Absent);
}

/// NL-058
#[test]
fn a_lease_alone_does_not_make_ready_true_again() {
    let mut world = World::running(Config::default(), &["n1"]);
    world.pass(51.0);
    world.story();
    world.pass_alive(100.0, &["n1"]);
    assert_eq!(world.ready("n1"), ReadyStatus::Unknown);
    assert_eq!(world.verdict("n1"), "unreachable");
    world.post("n1", ReadyStatus::True);
    let last = world.story().pop();
    assert_eq!(last.as_deref(), Some("151 n1 healthy"));
}

/// NL-058, NL-202: later stages learn that it speaks, but not every time.
#[test]
fn signs_of_life_of_an_unreachable_node_cross_the_bus_only_now_and_then() {
    let mut world = World::running(Config::default(), &["n1"]);
    world.pass(51.0);
    let judged_on = world.record("n1").counted_from;
    world.published();
    world.pass_alive(150.0, &["n1"]);
    assert_eq!(world.published(), 3, "one per three quarters of a grace");
    world.pass(200.0);
    assert_eq!(world.published(), 1, "the last one");
    assert!(world.record("n1").counted_from > judged_on);
}

/// NL-046: tainting and verdicts follow a status set by hand although it is no sign of life.
#[test]
fn a_verdict_follows_the_api_at_once() {
    let mut world = World::running(Config::default(), &["n1"]);
    for (status, verdict) in [
        (ReadyStatus::False, "not_ready"),
        (ReadyStatus::Unknown, "unreachable"),
        (ReadyStatus::True, "healthy"),
        (ReadyStatus::Absent, "no_status"),
    ] {
        world.change("n1", |facts| facts.ready.status = status);
        assert_eq!(world.verdict("n1"), verdict);
    }
}

/// NL-058: Ready set to True by hand on a silent node does not last.
#[test]
fn a_silent_node_set_ready_by_hand_is_judged_again() {
    let mut world = World::running(Config::default(), &["n1", "n2"]);
    world.pass_alive(60.0, &["n2"]);
    world.story();
    world.change("n1", |facts| facts.ready.status = ReadyStatus::True);
    world.pass(0.1);
    check(
        &mut world,
        &[
            "60 n1 late",
            "60 get n1",
            "60 write n1 Ready",
            "60 event NodeNotReady n1 u1",
            "60 n1 unreachable",
        ],
    );
}

/// A stalled watch must not look like a dead cluster: the confirming read shows the renewed leases.
#[test]
fn a_stalled_watch_judges_nobody() {
    let mut world = World::running(Config::default(), &["n1", "n2", "n3"]);
    world.watch_stalled = true;
    for _ in 0..60 {
        world.pass(10.0);
        for node in ["n1", "n2"] {
            world.renew(node);
        }
    }
    assert_eq!(world.ready("n1"), ReadyStatus::True);
    assert_eq!(world.ready("n2"), ReadyStatus::True);
    assert_eq!(world.ready("n3"), ReadyStatus::Unknown);
}

/// A watch that lags behind a read or a write of our own does not bring the past back.
#[test]
fn what_is_older_than_what_is_known_is_ignored() {
    let mut world = World::running(Config::default(), &["n1"]);
    let before = world.nodes["n1"].clone();
    world.pass(51.0);
    assert_eq!(world.verdict("n1"), "unreachable");
    world.story();
    world.give(Input::NodeApplied(before));
    check(&mut world, &[]);
}

/// A server restored from a backup counts its versions from before: a list is believed.
#[test]
fn a_list_is_believed_even_if_it_goes_back() {
    let mut world = World::running(Config::default(), &["n1"]);
    let before = world.nodes["n1"].clone();
    world.change("n1", |facts| facts.ready.status = ReadyStatus::False);
    world.give(Input::Nodes(vec![before].into()));
    assert_eq!(world.verdict("n1"), "healthy");
}

/// So is a read that is older than what was known when it was asked for; the watches may not notice.
#[test]
fn a_read_is_believed_that_goes_back() {
    for by_lease in [true, false] {
        let mut world = World::running(Config::default(), &["n1"]);
        world.pass(30.0);
        let (wall, version) = (world.now.wall, ResourceVersion::from("1"));
        if by_lease {
            let lease = world.leases.get_mut("n1").expect("it has a lease");
            (lease.renewed, lease.resource_version) = (Some(wall), version);
        } else {
            let facts = world.nodes.get_mut("n1").expect("it is there");
            (facts.ready.heartbeat, facts.resource_version) = (Some(wall), version);
        }
        world.pass(20.1);
        assert_eq!((world.verdict("n1"), world.ready("n1")), ("healthy", ReadyStatus::True));
    }
}

/// The sign that came while the read was under way saves the node, also if the read itself is older.
#[test]
fn a_sign_of_life_during_the_read_counts() {
    let mut world = World::running(Config::default(), &["n1"]);
    world.answers = Answers::Later;
    world.pass(50.1);
    assert_eq!(world.pending.len(), 1);
    world.renew("n1");
    world.answer_pending();
    assert!(world.pending.is_empty());
    assert_eq!(world.verdict("n1"), "healthy");
}

/// The read has to be asked for after the grace that it confirms.
#[test]
fn a_read_made_for_an_earlier_grace_confirms_nothing() {
    let mut world = World::running(Config::default(), &["n1"]);
    world.answers = Answers::Later;
    world.pass(50.1);
    world.renew("n1");
    world.pass(60.0);
    let old = world.pending.remove(0);
    world.answer(old);
    assert_eq!(world.ready("n1"), ReadyStatus::True);
    world.pass(1.0);
    assert_eq!(world.pending.len(), 1, "it is read again");
    world.answers = Answers::AtOnce;
    world.answer_pending();
    assert_eq!(world.ready("n1"), ReadyStatus::Unknown);
}

/// A renewal is remembered and nothing else: nothing is written, published or asked for, not even to be woken again.
#[test]
fn a_renewal_in_a_quiet_world_has_no_effects() {
    let mut world = World::running(Config::default(), &["n1", "n2"]);
    world.pass_alive(20.0, &["n1", "n2"]);
    world.pass(0.5);
    world.renew("n1");
    world.put_lease("n2");
    let lease = world.leases["n2"].clone();
    assert_eq!(world.monitor.apply(Input::LeaseApplied(lease), world.now), []);
}

/// Who leads before leases are listed waits for the list, and is woken once a period meanwhile, however long that takes.
#[test]
fn without_leases_it_is_woken_once_a_period() {
    let config = Config::default();
    let mut world = World::new(config, &["n1"]);
    let nodes = world.nodes.values().cloned().collect();
    world.give(Input::Nodes(nodes));
    world.give(Input::Leading(true));
    world.stand_still(4.0);
    for _ in 0..20 {
        let wanted = world.now.mono + config.period;
        assert_eq!(world.monitor.apply(Input::Wake, world.now), [Effect::WakeAt(wanted)]);
        world.stand_still(5.0);
    }
}
