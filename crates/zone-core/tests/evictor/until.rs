//! Until when something waits, as it is told: the end of what holds it, the next try, and since when a node is ill.

use std::time::Duration;

use bailiff_model::intent::HealthTaint;
use bailiff_model::outcome::{NodeOutcomeState, PodOutcomeState};
use bailiff_model::{Effect as TaintEffect, Hold, HoldReason, HoldScope, PodUid, Profile, ReadyStatus, Verdict, Wall};
use bailiff_zone_core::{Block, EvictionMethod, FailureKind, Input};

use crate::world::{START, World, mk_config, secs, zone};

const SIX: [(&str, &str); 6] = [("n1", "a"), ("n2", "a"), ("n3", "a"), ("n4", "a"), ("n5", "a"), ("n6", "a")];

fn mk_world() -> World {
    World::new(mk_config(|_| ()), &SIX)
}

fn at(seconds: i64) -> Wall {
    Wall::from_second(START + seconds).expect("in range")
}

fn pause(world: &mut World, scopes: &[HoldScope], until: Option<Wall>) {
    let hold = Hold {
        reason: HoldReason::Paused,
        detail: "as the test wanted".to_owned(),
        since: at(0),
        until,
    };
    let holds = scopes.iter().map(|scope| (scope.clone(), hold.clone()));
    world.tell(Input::Braked(holds.collect()));
}

type Begin = fn(&mut World, Option<Wall>);

/// What holds nodes and pods of zone a, or at least these two nodes, until then; and whether it holds the zone.
const HOLDS: [(&str, bool, Begin); 4] = [
    ("all paused", true, |world, until| pause(world, &[HoldScope::All], until)),
    ("zone paused", true, |world, until| {
        pause(world, &[HoldScope::Zone(zone("a"))], until);
    }),
    ("nodes paused", false, |world, until| {
        let nodes = ["n1", "n2"].map(|name| HoldScope::Node(name.into()));
        pause(world, &nodes, until);
    }),
    ("leases lost", true, |world, until| {
        world.hold_by_monitor_until(&["n5", "n6"], HoldReason::CorrelatedLoss, until);
    }),
];

/// The ends of the holds that were told of the node and of the pod, and since when each is in that state.
fn told(world: &World, name: &str, pod: &PodUid) -> [(Option<Wall>, Wall); 2] {
    let node = world.node_outcome(name).expect("something was said of it");
    let pod = world.pod_outcome(pod).expect("something was said of it");
    match (&node.state, &pod.state) {
        (NodeOutcomeState::Held(of_node), PodOutcomeState::Held(of_pod)) => {
            assert_eq!(of_pod.since, pod.since);
            [(of_node.until, node.since), (of_pod.until, pod.since)]
        }
        other => unreachable!("{other:?} are not both held"),
    }
}

/// Design §1: who is held says until when, says so again if that is another time, and is held since when it was; the same again is no
/// news.
#[test]
fn what_is_held_says_until_when() {
    for (what, of_zone, hold) in HOLDS {
        let mut world = mk_world();
        world.fall_silent(&["n1"]);
        let pod = world.add_pod("p", "n1", vec![]);
        hold(&mut world, Some(at(60)));
        world.due(&pod);
        world.fall_silent(&["n2"]);
        assert_eq!(told(&world, "n2", &pod), [(Some(at(60)), at(0)); 2], "{what}");
        for (later, until) in [(5, Some(at(90))), (3, Some(at(30))), (2, None)] {
            world.pass(secs(later));
            hold(&mut world, until);
            assert_eq!(told(&world, "n2", &pod), [(until, at(0)); 2], "{what}");
            let held = world.zone_status("a").held.as_ref();
            assert_eq!(
                held.map(|hold| (hold.until, hold.since)),
                of_zone.then_some((until, at(0))),
                "{what}"
            );
            let published = world.published;
            world.pass(secs(1));
            hold(&mut world, until);
            world.change_node("n2", |_| ());
            assert_eq!(world.published, published, "{what}: the same again");
        }
        assert!(
            world.spans.iter().all(|span| span.node.name.as_str() != "n2"),
            "it is one wait: {what}"
        );
    }
}

/// Correlated loss: several parts of the monitor may each hold the zone for a time of their own. It is held for the longest.
#[test]
fn a_zone_that_several_hold_is_held_for_the_longest() {
    let mut world = mk_world();
    let until = |world: &World| world.zone_status("a").held.as_ref().and_then(|hold| hold.until);
    let hold = |world: &mut World, name, seconds| {
        world.hold_by_monitor_until(&[name], HoldReason::CorrelatedLoss, Some(at(seconds)));
    };
    hold(&mut world, "n5", 60);
    hold(&mut world, "n6", 300);
    assert_eq!(until(&world), Some(at(300)));
    let published = world.published;
    hold(&mut world, "n4", 120);
    assert_eq!(
        (until(&world), world.published),
        (Some(at(300)), published + 1),
        "one more is late"
    );
    world.health("n6", Verdict::Healthy);
    assert_eq!(until(&world), Some(at(120)));
}

/// NL-071: the wait for the NoSchedule counterpart ends by itself, which is told; looking at the node again moves nothing, whatever the
/// clock shows by then.
#[test]
fn the_wait_for_the_counterpart_says_when_it_ends() {
    let mut world = mk_world();
    world.change_node("n1", |facts| facts.ready = ReadyStatus::Unknown);
    world.health("n1", Verdict::Unreachable);
    world.wish("n1", HealthTaint::Unreachable);
    let until = |world: &World| match world.node_state("n1") {
        Some(NodeOutcomeState::Held(hold)) if hold.reason == HoldReason::TaintOrder => hold.until,
        _ => None,
    };
    assert_eq!(until(&world), Some(at(5)));
    let published = world.published;
    world.pass(secs(2));
    world.step_clock(3600);
    world.taint("n1", "other", TaintEffect::NoSchedule);
    assert_eq!((until(&world), world.published), (Some(at(5)), published));
    assert!(!world.is_isolated("n1"));
    world.pass(secs(3));
    assert!(world.is_isolated("n1"));
}

/// TE-076: when a request that failed is made again is told, and it is made then.
#[test]
fn the_next_try_is_told_and_made_then() {
    let cases = [
        (Profile::Bailiff, FailureKind::Denied, None, 100),
        (Profile::Bailiff, FailureKind::Throttled, Some(7), 7_000),
        (Profile::Bailiff, FailureKind::Invalid, None, 5_000),
        (Profile::Upstream, FailureKind::Denied, None, 10),
        (Profile::Upstream, FailureKind::NotSent, Some(3), 3_000),
    ];
    for (profile, kind, asked, millis) in cases {
        let what = format!("{profile:?}, {kind:?}");
        let mut world = World::new(mk_config(|config| config.profile = profile), &SIX);
        world.taint("n1", "maintenance", TaintEffect::NoExecute);
        let pod = world.add_pod("p", "n1", vec![]);
        world.failures.push_back(kind);
        world.retry_after = asked.map(secs);
        world.due(&pod);
        let pause = Duration::from_millis(millis);
        let told = world.pod_outcome(&pod).and_then(|outcome| outcome.next_try_at);
        assert_eq!(told, at(0).checked_add(pause).ok(), "{what}");
        let short = Duration::from_millis(1);
        let requests = world.requests;
        world.pass(pause - short);
        assert_eq!(world.requests, requests, "{what}");
        world.pass(short);
        let told = world.pod_outcome(&pod).expect("something was said of it");
        assert_eq!((&told.state, told.next_try_at), (&PodOutcomeState::Deleted, None), "{what}");
    }
}

/// The next try of an eviction that a budget forbids is told as long as it is ever later, or the server asks for another time. Tries
/// that are as far apart as those before are no news.
#[test]
fn a_blocked_eviction_says_when_it_is_tried_again() {
    let mut world = World::new(mk_config(|config| config.method = EvictionMethod::Evict), &SIX);
    world.taint("n1", "maintenance", TaintEffect::NoExecute);
    let pod = world.add_pod("p", "n1", vec![]);
    let forbid = |world: &mut World, asked: Option<u64>| {
        let block = Block {
            by: "default/web".to_owned(),
            retry_after: asked.map(secs),
            detail: String::new(),
        };
        world.budgets.insert(pod.clone(), block);
    };
    let next = |world: &World| {
        let outcome = world.pod_outcome(&pod).expect("something was said of it");
        assert_eq!(outcome.since, at(0), "it is blocked since the first try");
        outcome.next_try_at
    };
    forbid(&mut world, None);
    world.due(&pod);
    for millis in [100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000] {
        let pause = Duration::from_millis(millis);
        assert_eq!(next(&world), world.now.wall.checked_add(pause).ok(), "{pause:?}");
        world.pass(pause);
    }
    let (told, published) = (next(&world), world.published);
    world.pass(secs(3600));
    assert_eq!((next(&world), world.published), (told, published));
    forbid(&mut world, Some(45));
    world.pass(secs(30));
    assert_eq!(world.published, published + 1);
    let in_seconds = next(&world).map(|next| next.duration_since(world.now.wall).as_secs());
    assert!(matches!(in_seconds, Some(15..=45)), "{in_seconds:?}");
}

/// NL-080: who waits says since when it counts as unhealthy, which is its place in the queue; who does not wait has none.
#[test]
fn who_waits_for_its_zone_says_since_when_it_is_unhealthy() {
    let mut world = mk_world();
    for name in ["n1", "n2", "n3"] {
        world.fall_silent(&[name]);
        world.pass(secs(2));
    }
    let since = |world: &World| ["n1", "n2", "n3"].map(|name| world.node_outcome(name).and_then(|outcome| outcome.unhealthy_since));
    assert_eq!(since(&world), [None, Some(at(2)), Some(at(4))]);
    pause(&mut world, &[HoldScope::All], None);
    assert_eq!(since(&world), [None, Some(at(2)), Some(at(4))], "held, and in line still");
    world.come_back(&["n2"]);
    assert_eq!(since(&world), [None, None, Some(at(4))]);
}
