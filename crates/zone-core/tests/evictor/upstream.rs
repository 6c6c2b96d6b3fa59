//! What upstream's queues do and ours do not: each case in both profiles, as it was seen of kube-controller-manager.

use std::time::Duration;

use bailiff_model::intent::HealthTaint;
use bailiff_model::outcome::{Outcome, PodOutcomeState, RefusedReason};
use bailiff_model::{Hold, HoldReason, HoldScope, Profile, Taint, Topic, Verdict, Wall, Zone};
use bailiff_zone_core::{Config, FailureKind, Input};

use crate::world::{START, World, mk_config, mk_taint, secs};

const SIX: [(&str, &str); 6] = [("n1", "a"), ("n2", "a"), ("n3", "a"), ("n4", "a"), ("n5", "a"), ("n6", "a")];
const PROFILES: [Profile; 2] = [Profile::Bailiff, Profile::Upstream];

fn mk_world(profile: Profile, nodes: &[(&str, &str)], change: impl FnOnce(&mut Config)) -> World {
    let config = mk_config(|config| {
        config.profile = profile;
        change(config);
    });
    World::new(config, nodes)
}

/// What makes the right taint that somebody puts on a queued node one of his.
fn by_hand() -> Taint {
    Taint {
        time_added: Wall::from_second(START - 100).ok(),
        ..mk_taint(HealthTaint::Unreachable.key(), "hand")
    }
}

fn standing(world: &World, node: &str) -> (String, Option<i64>) {
    let (_, taint) = world.node(node).health_taints().next().expect("it is isolated");
    (taint.value.to_string(), taint.time_added.map(|at| at.as_second() - START))
}

/// NL-072, NL-078: upstream stamps the right taint again when the node's turn comes, once.
#[test]
fn a_taint_made_by_hand_on_a_queued_node() {
    for (profile, isolations, wanted) in [
        (Profile::Bailiff, vec![("n1", 0), ("n3", 10)], ("hand".to_owned(), Some(-100))),
        (
            Profile::Upstream,
            vec![("n1", 0), ("n2", 10), ("n3", 20)],
            (String::new(), Some(10)),
        ),
    ] {
        let mut world = mk_world(profile, &SIX, |_| ());
        world.fall_silent(&["n1", "n2", "n3"]);
        world.pass(secs(3));
        world.change_node("n2", |facts| facts.taints.push(by_hand()));
        world.pass(secs(60));
        assert_eq!(world.isolations(), isolations, "{profile}");
        assert_eq!(standing(&world, "n2"), wanted, "{profile}");
        // A node that had its turn is not stamped again, also after a swap and back.
        let before = world.isolations().len();
        world.change_node("n1", |facts| {
            facts.taints.iter_mut().for_each(|taint| taint.value = "hand".into())
        });
        world.pass(secs(60));
        assert_eq!(
            (world.isolations().len(), standing(&world, "n1").0.as_str()),
            (before, "hand"),
            "{profile}"
        );
    }
}

/// NL-034: a process that starts stamps nothing that it finds, in either profile.
#[test]
fn taints_found_at_the_start_had_their_turn() {
    for profile in PROFILES {
        let mut world = mk_world(profile, &SIX, |_| ());
        world.fall_silent(&["n1"]);
        world.pass(secs(60));
        world.restart();
        world.pass(secs(60));
        assert_eq!(world.isolations(), [("n1", 0)], "{profile}");
        // It recovers, is silent again, and gets the right taint by hand.
        world.come_back(&["n1"]);
        world.pass(secs(5));
        assert!(world.isolated().is_empty(), "{profile}");
    }
}

/// NL-026: a node that moves while it is queued is queued in both zones, and each has its turn.
#[test]
fn a_node_that_moves_while_it_is_queued() {
    for (profile, wanted) in [
        (Profile::Bailiff, vec![("n1", 0), ("n2", 4), ("n3", 10)]),
        (Profile::Upstream, vec![("n1", 0), ("n2", 4), ("n2", 10), ("n3", 20)]),
    ] {
        let mut world = mk_world(profile, &SIX, |_| ());
        world.fall_silent(&["n1", "n2", "n3"]);
        world.pass(secs(4));
        world.change_node("n2", |facts| facts.zone = Zone::new("", "b"));
        world.pass(secs(60));
        assert_eq!(world.isolations(), wanted, "{profile}");
    }
    // It recovers before its turn where it was: upstream spends the token on nothing.
    for (profile, turn) in [(Profile::Bailiff, 12), (Profile::Upstream, 20)] {
        let mut world = mk_world(profile, &SIX, |_| ());
        world.fall_silent(&["n1", "n2"]);
        world.pass(secs(4));
        world.change_node("n2", |facts| facts.zone = Zone::new("", "b"));
        world.pass(secs(2));
        world.come_back(&["n2"]);
        world.pass(secs(6));
        world.fall_silent(&["n3"]);
        world.pass(secs(60));
        assert_eq!(world.isolations(), [("n1", 0), ("n2", 4), ("n3", turn)], "{profile}");
    }
}

/// NL-026, pause: what holds a node, or the zone that it is in by now, holds it also where it is still queued.
#[test]
fn a_node_that_moves_to_where_it_is_held() {
    for scope in [HoldScope::Zone(Zone::new("", "b")), HoldScope::Node("n2".into())] {
        let mut world = mk_world(Profile::Upstream, &SIX, |_| ());
        world.fall_silent(&["n1", "n2"]);
        let hold = Hold {
            reason: HoldReason::Paused,
            detail: "as the test wanted".to_owned(),
            since: world.now.wall,
            until: None,
        };
        world.tell(Input::Braked([(scope.clone(), hold)].into_iter().collect()));
        world.change_node("n2", |facts| facts.zone = Zone::new("", "b"));
        world.pass(secs(60));
        assert_eq!(world.isolations(), [("n1", 0)], "{scope}");
    }
}

/// NL-033, NL-081: a node that is deleted while it is queued costs upstream a token.
#[test]
fn a_node_that_is_deleted_while_it_is_queued() {
    for (profile, turn) in [(Profile::Bailiff, 12), (Profile::Upstream, 20)] {
        let mut world = mk_world(profile, &SIX, |_| ());
        world.fall_silent(&["n1", "n2"]);
        world.pass(secs(5));
        world.delete_node("n2");
        world.pass(secs(7));
        world.fall_silent(&["n3"]);
        world.pass(secs(60));
        assert_eq!(world.isolations(), [("n1", 0), ("n3", turn)], "{profile}");
        assert_eq!(world.zone_status("a").queue_length, 0, "{profile}");
    }
}

/// NL-026, NL-033, NL-081: also one of which nothing else is known any more, and one that waits in a zone that it left. Each costs one
/// turn, and not a second.
#[test]
fn a_deleted_node_costs_one_turn_only() {
    for moves in [false, true] {
        let mut world = mk_world(Profile::Upstream, &SIX, |_| ());
        world.fall_silent(&["n1", "n2"]);
        if moves {
            world.change_node("n2", |facts| facts.zone = Zone::new("", "b"));
        }
        world.pass(secs(5));
        world.delete_node("n2");
        world.unwish("n2");
        let forgotten = world.mk_record(Topic::NodeHealth, "n2".to_owned(), None);
        world.publish(vec![forgotten]);
        world.fall_silent(&["n3"]);
        world.pass(secs(60));
        assert_eq!(world.isolations().last(), Some(&("n3", 20)), "moves: {moves}");
        assert_eq!(world.zone_status("a").queue_length, 0, "moves: {moves}");
    }
}

/// NL-097, NL-098: taints go when all zones go down. One that somebody makes after that stays in upstream's profile, and evicts.
#[test]
fn a_health_taint_made_by_hand_while_all_zones_are_down() {
    let profiles = [(Profile::Bailiff, (0, 0)), (Profile::Upstream, (1, 1))];
    // One that was never isolated, and one that was.
    for (node, (profile, wanted)) in ["n2", "n1"].into_iter().flat_map(|node| profiles.map(|case| (node, case))) {
        let mut world = mk_world(profile, &SIX[..3], |_| ());
        let pod = world.add_pod("p", node, vec![]);
        world.fall_silent(&["n1"]);
        assert!(world.is_isolated("n1"), "{profile}");
        world.fall_silent(&["n2", "n3"]);
        world.pass(secs(10));
        assert!(world.isolated().is_empty(), "{profile}");
        world.change_node(node, |facts| facts.taints.push(by_hand()));
        world.due(&pod);
        world.pass(secs(60));
        assert_eq!((world.deleted(), world.isolated().len()), wanted, "{node} {profile}");
    }
}

/// NL-097: the same where somebody else took off what stood when all zones went down.
#[test]
fn a_health_taint_made_by_hand_after_ours_was_taken_off_by_hand() {
    for (profile, isolated) in [(Profile::Bailiff, 0), (Profile::Upstream, 1)] {
        let mut world = mk_world(profile, &SIX[..3], |_| ());
        world.fall_silent(&["n1"]);
        world.failures.extend([FailureKind::Denied; 3]);
        world.fall_silent(&["n2", "n3"]);
        assert!(world.is_isolated("n1"), "{profile}: it cannot be taken off");
        world.change_node("n1", |facts| facts.taints.clear());
        world.failures.clear();
        world.change_node("n1", |facts| facts.taints.push(by_hand()));
        world.pass(secs(60));
        assert_eq!(world.isolated().len(), isolated, "{profile}");
    }
}

/// NL-024, NL-095: a zone whose nodes all went begins anew with those that come.
#[test]
fn a_zone_that_is_gone_and_back() {
    for (profile, turn) in [(Profile::Bailiff, 10), (Profile::Upstream, 3)] {
        let mut world = mk_world(profile, &[("n1", "a"), ("n2", "a"), ("n9", "b")], |_| ());
        world.fall_silent(&["n1"]);
        for node in ["n1", "n2"] {
            world.delete_node(node);
        }
        world.pass(secs(3));
        for node in ["n3", "n4"] {
            world.add_node(node, "a");
            world.change_node(node, |_| ());
            world.health(node, Verdict::Healthy);
        }
        world.fall_silent(&["n3"]);
        world.pass(secs(60));
        assert_eq!(world.isolations(), [("n1", 0), ("n3", turn)], "{profile}");
    }
}

/// NL-083: a rate of zero isolates one node of a zone, and leaving a stop at exactly one per second does not work.
#[test]
fn rates_of_zero_and_one() {
    for (profile, isolated) in [(Profile::Bailiff, vec![]), (Profile::Upstream, vec![("n1", 0)])] {
        let mut world = mk_world(profile, &SIX, |config| config.rates.primary = 0.0);
        world.fall_silent(&["n1", "n2"]);
        world.pass(secs(600));
        assert_eq!(world.isolations(), isolated, "{profile}");
    }
    for (profile, rate, resumes) in [
        (Profile::Bailiff, 1.0, true),
        (Profile::Upstream, 1.0, false),
        (Profile::Upstream, 0.5, true),
    ] {
        let mut world = mk_world(profile, &[("n1", "a"), ("n2", "a"), ("n3", "a")], |config| {
            config.rates.primary = rate
        });
        world.fall_silent(&["n1", "n2", "n3"]);
        world.pass(secs(10));
        assert!(world.isolated().is_empty(), "{profile}: all zones are down");
        world.come_back(&["n3"]);
        world.pass(secs(60));
        assert_eq!(!world.isolated().is_empty(), resumes, "{profile} {rate}");
    }
}

/// NL-099, NL-102: the way out of full disruption begins in a zone that is new.
#[test]
fn the_first_ready_node_in_a_new_zone() {
    for (profile, new_zone, resumes) in [
        (Profile::Bailiff, true, true),
        (Profile::Upstream, true, false),
        (Profile::Upstream, false, true),
    ] {
        let mut world = mk_world(profile, &[("n1", "a"), ("n2", "b")], |_| ());
        world.fall_silent(&["n1", "n2"]);
        world.pass(secs(30));
        assert!(world.isolated().is_empty(), "{profile}: all zones are down");
        world.add_node("n3", if new_zone { "c" } else { "b" });
        world.change_node("n3", |_| ());
        world.health("n3", Verdict::Healthy);
        world.pass(secs(60));
        assert_eq!(world.is_isolated("n1"), resumes, "{profile}");
    }
}

/// TE-052, NL-078: a health taint that somebody puts on a Ready node evicts in upstream's profile until it is taken off; in ours it is
/// held, as the taint is about to go.
#[test]
fn a_health_taint_made_by_hand_on_a_ready_node() {
    for (profile, deleted) in [(Profile::Bailiff, 0), (Profile::Upstream, 1)] {
        let mut world = mk_world(profile, &SIX, |_| ());
        let pod = world.add_pod("p", "n1", vec![]);
        world.change_node("n1", |facts| facts.taints.push(by_hand()));
        world.due(&pod);
        world.pass(secs(1));
        assert_eq!((world.deleted(), world.isolated().len()), (deleted, 0), "{profile}");
    }
}

/// NL-097: of a node that says that it is ready and was not heard since its monitor began, nobody knows: it counts for the brake, but
/// not in upstream's profile.
#[test]
fn nodes_that_were_not_heard_yet() {
    for (profile, isolated) in [(Profile::Bailiff, vec![]), (Profile::Upstream, vec![("n1", 0)])] {
        let mut world = mk_world(profile, &SIX[..4], |_| ());
        for node in ["n2", "n3", "n4"] {
            world.unheard.insert(node.into());
            world.health(node, Verdict::Healthy);
        }
        world.fall_silent(&["n1"]);
        world.pass(secs(60));
        assert_eq!(world.isolations(), isolated, "{profile}");
    }
}

/// NL-097, observations 1: so do late ones, by which ours sees that everything is about to be down.
#[test]
fn nodes_that_are_late() {
    for (profile, isolated) in [(Profile::Bailiff, vec![]), (Profile::Upstream, vec![("n1", 0)])] {
        let mut world = mk_world(profile, &SIX[..4], |_| ());
        world.judge(&["n2", "n3", "n4"], Verdict::Late);
        world.fall_silent(&["n1"]);
        assert_eq!(world.isolations(), isolated, "{profile}");
        world.fall_silent(&["n2", "n3", "n4"]);
        assert!(world.isolated().is_empty(), "{profile}: all zones are down");
    }
}

/// TE-075, TE-076: five attempts, 10 ms apart; then the pod is given up, which is said, until it is judged again, or a process starts.
#[test]
fn a_pod_is_given_up_after_five_attempts_in_upstreams_profile() {
    let given_up = PodOutcomeState::Refused(RefusedReason::Api);
    for kind in [
        FailureKind::Unknown,
        FailureKind::Denied,
        FailureKind::Invalid,
        FailureKind::Throttled,
    ] {
        let mut world = mk_tainted(Profile::Upstream);
        let pod = world.add_pod("p", "n1", vec![]);
        world.failures.extend([kind; 5]);
        world.due(&pod);
        world.pass(Duration::from_millis(40));
        assert_eq!((world.pod_state(&pod), world.requests), (Some(&given_up), 5), "{kind:?}");
        let Some(Outcome::Pod(outcome)) = world.outcomes.get(&format!("pod/{pod}")) else {
            unreachable!("it was said")
        };
        let said = (outcome.failed_attempts, &outcome.detail[..]);
        assert_eq!(said, (5, "given up after 5 attempts: as the test wanted"));
        world.pass(secs(3600));
        assert_eq!((world.deleted(), world.requests, world.events.len()), (0, 5, 1), "{kind:?}");
        // Judged again; another five.
        world.failures.extend([kind; 4]);
        world.due(&pod);
        world.pass(secs(1));
        assert_eq!((world.deleted(), world.events.len()), (1, 2), "{kind:?}");
    }
}

/// TE-076: what a process gave up, the next one tries (TE-102).
#[test]
fn a_process_that_starts_tries_what_was_given_up() {
    let mut world = mk_tainted(Profile::Upstream);
    let pod = world.add_pod("p", "n1", vec![]);
    world.failures.extend([FailureKind::Invalid; 5]);
    world.due(&pod);
    world.pass(secs(60));
    assert_eq!(world.deleted(), 0);
    world.restart();
    world.pass(secs(60));
    assert_eq!(world.deleted(), 1);
}

/// TE-076: what was not sent, and what the server asks to wait for, is no attempt; nothing ever is by default.
#[test]
fn what_is_no_attempt_gives_nothing_up() {
    let cases = [
        (Profile::Upstream, FailureKind::NotSent, None),
        (Profile::Upstream, FailureKind::Throttled, Some(secs(1))),
        (Profile::Bailiff, FailureKind::Unknown, None),
        (Profile::Bailiff, FailureKind::Invalid, None),
    ];
    for (profile, kind, retry_after) in cases {
        let mut world = mk_tainted(profile);
        let pod = world.add_pod("p", "n1", vec![]);
        world.failures.extend([kind; 8]);
        world.retry_after = retry_after;
        world.due(&pod);
        world.pass(secs(3600));
        assert_eq!(world.deleted(), 1, "{profile} {kind:?}");
    }
}

fn mk_tainted(profile: Profile) -> World {
    let mut world = mk_world(profile, &SIX, |_| ());
    world.change_node("n1", |facts| facts.taints.push(mk_taint("m", "")));
    world
}
