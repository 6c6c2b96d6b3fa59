//! What the own topic remembers, and what of it is not believed.

use bailiff_model::outcome::{NodeOutcomeState, Outcome, PodOutcomeState};
use bailiff_model::{Effect, Hold, HoldReason, HoldScope, Holds, Topic, TraceContext, Verdict};
use bailiff_zone_core::{Block, Body, EvictionMethod, EvictionMode, FailureKind, Input, Record};

use crate::world::{World, mk_config, secs};

const SIX: [(&str, &str); 6] = [("n1", "a"), ("n2", "a"), ("n3", "a"), ("n4", "a"), ("n5", "a"), ("n6", "a")];

fn mk_world(mode: EvictionMode) -> World {
    World::new(mk_config(|config| config.mode = mode), &SIX)
}

/// Stops with one node granted at the start that left no trace in the API, and one waiting; what comes next does not know of node-health
/// yet.
fn stop_after_a_grant(world: &mut World) {
    world.fall_silent(&["n1", "n2"]);
    world.come_back(&["n1"]);
    world.stop();
    world.shards.insert(Topic::NodeHealth, (false, true));
}

/// NL-034: an instance that stops before it began passes on what it inherited, whichever view it had first.
#[test]
fn a_start_that_does_not_get_far_forgets_nothing() {
    for nodes_first in [true, false] {
        let mut world = mk_world(EvictionMode::Taint);
        stop_after_a_grant(&mut world);
        if nodes_first {
            world.show_everything();
        } else {
            let records = world.bus.values().map(|record| world.aged(record)).collect();
            let shards = world.shards();
            world.tell(Input::Snapshot { records, shards });
            world.list_nodes();
        }
        assert_eq!(world.zone_held("a"), Some(HoldReason::Incomplete), "it says so");
        world.pass(secs(2));
        world.shards.insert(Topic::NodeHealth, (true, true));
        world.restart();
        world.pass(secs(60));
        assert_eq!(world.isolations(), [("n1", 0), ("n2", 10)], "nodes first: {nodes_first}");
    }
}

/// Design §2, fencing: before we begin, the last words of the instance before count if they tell of a later grant, and only then.
#[test]
fn a_later_grant_that_is_told_before_the_beginning_counts() {
    // How long ago the grant was that is told of, and when the next one is.
    for (ago, wanted) in [(Some(0), 14), (Some(3), 11), (Some(4), 10), (Some(600), 10), (None, 10)] {
        let mut world = mk_world(EvictionMode::Taint);
        stop_after_a_grant(&mut world);
        world.show_everything();
        world.pass(secs(4));
        let mut status = world.zone_status("a").clone();
        status.last_grant = ago.map(|ago| world.now.wall - secs(ago));
        let record = world.mk_record(
            Topic::EvictionOutcomes,
            "zone/:a".to_owned(),
            Some(Body::Outcome(Outcome::Zone(Box::new(status)))),
        );
        world.publish(vec![record]);
        world.set_shard(Topic::NodeHealth, true, true);
        world.pass(secs(60));
        assert_eq!(world.isolations()[1..], [("n2", wanted)], "{ago:?} s ago");
    }
}

/// NL-034, NL-093: the rate that an earlier instance told of is told until one is decided, and no longer.
#[test]
fn a_rate_that_is_remembered_is_told_until_there_is_one() {
    let mut world = mk_world(EvictionMode::Taint);
    world.fall_silent(&["n1", "n2", "n3", "n4"]);
    world.restart();
    assert_eq!(world.zone_status("a").rate_per_second, 0.0, "partially disrupted");
    world.come_back(&["n1", "n2", "n3"]);
    assert_eq!(world.zone_status("a").rate_per_second, 0.1);
}

/// The node is silent and due.
fn fall_due(world: &mut World, name: &str) {
    world.mark_unknown(name);
    world.health(name, Verdict::Unreachable);
    world.wish_evicted(name);
}

/// The same, in the incident of that trace, as the monitor and the taint-manager have it.
fn fall_due_in(world: &mut World, by_health: Option<&str>, by_wish: &str) {
    world.mark_unknown("n1");
    let mut health = world.mk_health("n1", Verdict::Unreachable);
    health.trace = by_health.map(|incident| TraceContext::derived(&[incident]));
    world.publish(vec![health]);
    let mut wish = world.mk_wish_evicted("n1", world.now.wall, true);
    wish.trace = Some(TraceContext::derived(&[by_wish]));
    world.publish(vec![wish]);
}

/// NL-202, design §2: our own word that a node was evicted, coming back late, is no turn of the node when it falls silent again.
#[test]
fn an_echo_evicts_nobody() {
    let mut world = mk_world(EvictionMode::Node);
    fall_due(&mut world, "n1");
    let echo = world.bus[&(Topic::EvictionOutcomes, "node/n1".to_owned())].clone();
    world.come_back(&["n1"]);
    world.publish(vec![echo]);
    fall_due(&mut world, "n1");
    assert!(matches!(world.node_state("n1"), Some(NodeOutcomeState::Queued { .. })));
    world.pass(secs(10));
    assert_eq!(world.node_state("n1"), Some(&NodeOutcomeState::Evicted));
}

/// NL-204: who was evicted, recovered and is due again by the time somebody looks waits for its turn: it is in another incident.
#[test]
fn who_is_in_another_incident_is_not_evicted_any_more() {
    // By the monitor, and by a taint-manager that may have been away too; whether both are known at once.
    let cases = [
        (Some("first"), "first", true),
        (Some("second"), "second", false),
        (Some("second"), "first", false),
        (None, "first", true),
        (None, "second", false),
    ];
    for ((by_health, by_wish, is_evicted), at_once) in cases.into_iter().flat_map(|case| [(case, true), (case, false)]) {
        let mut world = mk_world(EvictionMode::Node);
        fall_due_in(&mut world, Some("first"), "first");
        assert_eq!(world.node_state("n1"), Some(&NodeOutcomeState::Evicted));
        world.stop();
        world.come_back(&["n1"]);
        fall_due_in(&mut world, by_health, by_wish);
        let health = world.bus[&(Topic::NodeHealth, "n1".to_owned())].clone();
        if !at_once {
            world.bus.remove(&(Topic::NodeHealth, "n1".to_owned()));
            world.shards.insert(Topic::NodeHealth, (false, true));
        }
        world.show_everything();
        if !at_once {
            world.publish(vec![health]);
            world.set_shard(Topic::NodeHealth, true, true);
        }
        let state = world.node_state("n1");
        let case = format!("{by_health:?}, {by_wish}, at once: {at_once}");
        assert_eq!(state == Some(&NodeOutcomeState::Evicted), is_evicted, "{case}: {state:?}");
    }
}

/// NL-204: an eviction that is gone on with after a restart ends with its wish, also while the monitor's newest word is not known.
#[test]
fn an_inherited_eviction_ends_with_its_wish() {
    for is_withdrawn in [false, true] {
        let mut world = mk_world(EvictionMode::Node);
        fall_due_in(&mut world, Some("first"), "first");
        world.stop();
        let health = world.bus[&(Topic::NodeHealth, "n1".to_owned())].clone();
        world.bus.remove(&(Topic::NodeHealth, "n1".to_owned()));
        world.shards.insert(Topic::NodeHealth, (false, true));
        world.show_everything();
        assert_eq!(world.node_state("n1"), Some(&NodeOutcomeState::Evicted));
        if is_withdrawn {
            world.unwish("n1");
            let wish = world.mk_wish_evicted("n1", world.now.wall, true);
            world.publish(vec![wish]);
        }
        world.publish(vec![health]);
        world.set_shard(Topic::NodeHealth, true, true);
        let state = world.node_state("n1");
        assert_eq!(state == Some(&NodeOutcomeState::Evicted), !is_withdrawn, "{state:?}");
    }
}

/// NL-204: a monitor that forgot tells the incident that goes on by another trace. Who is evicted stays so, and so it is after a restart.
#[test]
fn who_is_evicted_stays_so_if_its_incident_is_told_anew() {
    let mut world = mk_world(EvictionMode::Node);
    fall_due_in(&mut world, Some("first"), "first");
    let since = |world: &World| world.node_outcome("n1").map(|said| (said.state.clone(), said.since));
    let said = since(&world);
    world.pass(secs(5));
    for _ in 0..2 {
        fall_due_in(&mut world, Some("second"), "second");
        assert_eq!(since(&world), said);
        assert_eq!(world.sources["node/n1"].1, Some(TraceContext::derived(&["second"])));
        let published = world.published;
        world.change_node("n1", |_| ());
        assert_eq!(world.published, published, "it is said once");
    }
    world.restart();
    assert_eq!(world.node_state("n1"), Some(&NodeOutcomeState::Evicted));
}

/// NL-202, design §2: who waited for its turn waits for it after a restart too.
#[test]
fn a_place_in_the_queue_is_no_turn() {
    let mut world = mk_world(EvictionMode::Node);
    fall_due(&mut world, "n1");
    fall_due(&mut world, "n2");
    world.pass(secs(3));
    world.restart();
    assert_eq!(world.node_state("n1"), Some(&NodeOutcomeState::Evicted));
    assert!(matches!(world.node_state("n2"), Some(NodeOutcomeState::Queued { .. })));
    world.pass(secs(7));
    assert_eq!(world.node_state("n2"), Some(&NodeOutcomeState::Evicted));
}

/// NL-034, NL-082, NL-205: a zone of which only nodes that are gone are left has no token after a restart if it was stopped, or if nobody
/// knows when it was granted last.
#[test]
fn a_zone_of_the_gone_has_no_token_after_a_restart() {
    type Act = fn(&mut World);
    let cases: [(Act, &str); 3] = [
        (|_| (), "stopped"),
        (
            |world| {
                world.come_back(&["a1"]);
                pause(world);
                world.pass(secs(60));
                world.tells_age = false;
            },
            "held, and nobody knows how long ago that was",
        ),
        (|world| world.forget_outcomes(), "nothing is remembered"),
    ];
    for ((act, state), is_health_late) in cases.into_iter().flat_map(|case| [(case, false), (case, true)]) {
        let case = format!("{state}, health is known late: {is_health_late}");
        let config = mk_config(|config| config.mode = EvictionMode::Node);
        let mut world = World::new(config, &[("a1", "a"), ("b1", "b")]);
        fall_due(&mut world, "a1");
        fall_due(&mut world, "b1");
        let pod = world.add_pod("p", "b1", vec![]);
        world.due_with_node(&pod);
        act(&mut world);
        assert_eq!((world.zone_status("b").last_grant, world.deleted()), (None, 0), "{case}");
        world.stop();
        world.come_back(&["a1"]);
        world.delete_node("b1");
        let gone = world.mk_record(Topic::NodeHealth, "b1".to_owned(), None);
        world.publish(vec![gone]);
        world.shards.insert(Topic::NodeHealth, (!is_health_late, true));
        world.show_everything();
        world.set_shard(Topic::NodeHealth, true, true);
        world.pass(secs(9));
        assert_eq!(world.deleted(), 0, "{case}");
        world.pass(secs(2));
        assert_eq!(world.deleted(), 1, "{case}");
    }
}

/// NL-025, NL-082: nor for a node that comes to it then.
#[test]
fn a_zone_that_was_stopped_owes_an_interval_after_a_restart() {
    let mut world = World::new(mk_config(|_| ()), &[("a1", "a"), ("b1", "b")]);
    world.fall_silent(&["a1", "b1"]);
    world.stop();
    world.come_back(&["a1"]);
    world.delete_node("b1");
    world.unwish("b1");
    let gone = world.mk_record(Topic::NodeHealth, "b1".to_owned(), None);
    world.publish(vec![gone]);
    world.show_everything();
    world.add_node("b2", "b");
    world.fall_silent(&["b2"]);
    world.pass(secs(9));
    assert!(world.isolated().is_empty());
    world.pass(secs(2));
    assert!(world.is_isolated("b2"));
}

/// Design §8: what an earlier instance was not done with is done after a restart, however far it had come.
#[test]
fn a_restart_goes_on_with_what_is_not_done() {
    type Act = fn(&mut World);
    let states: [(Act, &str); 3] = [
        (|world| pause(world), "held"),
        (|world| world.is_slow = true, "under way"),
        (
            |world| world.failures.push_back(FailureKind::Invalid),
            "refused by the server",
        ),
    ];
    for (act, state) in states {
        let mut world = mk_world(EvictionMode::Taint);
        world.taint("n1", "maintenance", Effect::NoExecute);
        let pod = world.add_pod("p", "n1", vec![]);
        act(&mut world);
        world.due(&pod);
        assert_eq!(world.deleted(), 0, "{state}");
        world.is_slow = false;
        world.restart();
        world.tell(Input::Braked(Holds::NONE));
        world.pass(secs(10));
        assert_eq!(world.pod_state(&pod), Some(&PodOutcomeState::Deleted), "{state}");
    }
}

fn pause(world: &mut World) {
    let hold = Hold {
        reason: HoldReason::Paused,
        detail: "as the test wanted".to_owned(),
        since: world.now.wall,
        until: None,
    };
    world.tell(Input::Braked([(HoldScope::All, hold)].into_iter().collect()));
}

/// TE-077: what an earlier instance did to a pod stands for the intent it had. A later one is carried out like any other.
#[test]
fn a_new_reason_is_a_new_eviction_after_a_restart_too() {
    for restarts in [false, true] {
        let mut world = mk_world(EvictionMode::Taint);
        world.taint("n1", "maintenance", Effect::NoExecute);
        let pod = world.add_pod("p", "n1", vec![]);
        let facts = world.pods[&pod].clone();
        world.due(&pod);
        world.pods.insert(pod.clone(), facts);
        world.change_pod(&pod, |facts| facts.terminating = true);
        world.withdraw(&pod);
        if restarts {
            world.restart();
        }
        world.due(&pod);
        assert_eq!(world.deleted(), 2, "restarts: {restarts}");
    }
}

/// Design §2: the own topic's records of an earlier life are read once; what others put there about pods changes nothing later.
#[test]
fn a_word_about_a_pod_that_comes_later_ends_nothing() {
    let mut world = mk_world(EvictionMode::Taint);
    world.taint("n1", "maintenance", Effect::NoExecute);
    let pod = world.add_pod("p", "n1", vec![]);
    world.due(&pod);
    let told: Record = world.bus[&(Topic::EvictionOutcomes, format!("pod/{pod}"))].clone();
    let other = world.add_pod("q", "n1", vec![]);
    let mut body = told.body.clone();
    if let Some(Body::Outcome(Outcome::Pod(outcome))) = &mut body {
        outcome.pod = world.pods[&other].reference();
    }
    world.publish(vec![Record {
        key: format!("pod/{other}"),
        body,
        ..told
    }]);
    world.due(&other);
    assert_eq!(world.deleted(), 2);
}

/// NL-034: of a grant whose record does not tell its age only the API can say whether it was the last: who waits, or waited when it
/// was told, may have been granted since.
#[test]
fn a_grant_of_unknown_age_was_the_last_if_nobody_waited() {
    // Whether a node waited when the zone was told of last, and whether one waits at the start; when the next one is granted.
    for (waited, waits, wanted) in [(false, false, 100), (true, false, 110), (false, true, 110)] {
        let mut world = mk_world(EvictionMode::Taint);
        world.tells_age = false;
        world.fall_silent(&["n1"]);
        world.come_back(&["n1"]);
        if waited {
            world.fall_silent(&["n2"]);
        }
        world.stop();
        world.pass(secs(50));
        world.come_back(&["n2"]);
        world.pass(secs(50));
        if waits {
            world.fall_silent(&["n3"]);
        }
        world.show_everything();
        world.fall_silent(&["n3"]);
        world.pass(secs(60));
        let isolations = world.isolations();
        assert_eq!(isolations[1..], [("n3", wanted)], "waited: {waited}, waits: {waits}");
    }
}

/// Design §2, fencing: a grant of the instance before counts if it was after our own last one. An older one makes no token.
#[test]
fn only_a_later_grant_of_another_takes_the_token() {
    for (ago, wanted) in [(1, 14), (600, 10)] {
        let mut world = mk_world(EvictionMode::Taint);
        world.fall_silent(&["n1"]);
        world.pass(secs(5));
        let mut status = world.zone_status("a").clone();
        status.last_grant = Some(world.now.wall - secs(ago));
        let record = world.mk_record(
            Topic::EvictionOutcomes,
            "zone/:a".to_owned(),
            Some(Body::Outcome(Outcome::Zone(Box::new(status)))),
        );
        world.publish(vec![record]);
        world.fall_silent(&["n2"]);
        world.pass(secs(60));
        assert_eq!(world.isolations(), [("n1", 0), ("n2", wanted)], "{ago} s ago");
    }
}

/// Design §9: a trace does not show a shorter wait because we restarted: nodes first or the bus first.
#[test]
fn a_restart_does_not_shorten_the_waits_of_traces() {
    for nodes_first in [true, false] {
        let mut world = mk_world(EvictionMode::Taint);
        world.fall_silent(&["n1", "n2", "n3"]);
        world.pass(secs(4));
        world.tell(Input::ApiFresh(false));
        world.pass(secs(3));
        world.stop();
        world.spans.clear();
        if nodes_first {
            world.show_everything();
        } else {
            let (records, shards) = (world.bus.values().map(|record| world.aged(record)).collect(), world.shards());
            world.tell(Input::Snapshot { records, shards });
            world.list_nodes();
        }
        // The taint of n1 is stamped in whole seconds, so the grant before may have been up to a second later.
        world.pass(secs(4));
        world.come_back(&["n3"]);
        let n2 = [
            "held 3s queued API_STALE",
            "zone queue wait 7s granted RATE_LIMITED",
            "isolation 0s isolated",
        ];
        assert_eq!(world.told("n2"), n2, "nodes first: {nodes_first}");
        assert_eq!(
            world.told("n3"),
            ["held 3s queued API_STALE", "zone queue wait 7s recovered RATE_LIMITED"]
        );
    }
}

/// Design §9: who was isolated, or recovered, while nobody looked has a trace that says so.
#[test]
fn what_ended_while_nobody_looked_is_told() {
    let mut world = mk_world(EvictionMode::Taint);
    world.fall_silent(&["n1", "n2", "n3"]);
    world.pass(secs(9));
    world.is_slow = true;
    world.pass(secs(1));
    let Some(bailiff_zone_core::Effect::WriteTaints(write)) = world.unanswered.pop() else {
        unreachable!("n2 is granted")
    };
    world.stop();
    world.spans.clear();
    world.is_slow = false;
    // It was applied, and nobody got the answer; n3 is back.
    world.change_node("n2", |facts| facts.taints = write.taints);
    world.come_back(&["n3"]);
    world.pass(secs(5));
    world.show_everything();
    assert_eq!(
        world.told("n2"),
        ["zone queue wait 10s granted RATE_LIMITED", "isolation 0s isolated"]
    );
    assert_eq!(world.told("n3"), ["zone queue wait 15s recovered RATE_LIMITED"]);
}

/// Design §9: what a pod waited for before the restart is in its trace from when it began.
#[test]
fn a_restart_does_not_shorten_the_waits_of_pods() {
    let mut world = World::new(mk_config(|config| config.method = EvictionMethod::Evict), &SIX);
    world.taint("n1", "maintenance", Effect::NoExecute);
    let [held, blocked] = ["held", "blocked"].map(|name| world.add_pod(name, "n1", vec![]));
    let block = Block {
        by: "default/web".to_owned(),
        retry_after: Some(secs(10)),
        detail: "it needs 1".to_owned(),
    };
    world.budgets.insert(blocked.clone(), block);
    world.due(&blocked);
    world.pass(secs(2));
    pause(&mut world);
    world.due(&held);
    world.pass(secs(3));
    world.stop();
    world.budgets.clear();
    world.spans.clear();
    world.show_everything();
    world.pass(secs(1));
    let told = |uid: &bailiff_model::PodUid| world.told(&uid.to_string());
    let wanted = [
        "held 3s waiting PAUSED",
        "held 0s evicting RATE_LIMITED",
        "pod delete 0s deleted",
        "pod eviction 3s deleted",
    ];
    assert_eq!(told(&held), wanted);
    let wanted = [
        "pod delete 0s deleted",
        "blocked by budget 5s deleted DISRUPTION_BUDGET",
        "pod eviction 5s deleted",
    ];
    assert_eq!(told(&blocked), wanted);
}
