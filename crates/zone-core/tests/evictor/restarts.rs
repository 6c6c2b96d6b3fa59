//! What a restart may and may not change.

use bailiff_model::intent::HealthTaint;
use bailiff_model::outcome::PodOutcomeState;
use bailiff_model::{HoldReason, Topic, Verdict, ZoneState};
use bailiff_zone_core::{Input, PodFacts, Record};

use crate::world::{World, mk_config, secs};

const SIX: [(&str, &str); 6] = [("n1", "a"), ("n2", "a"), ("n3", "a"), ("n4", "a"), ("n5", "a"), ("n6", "a")];

fn mk_world() -> World {
    World::new(mk_config(|_| ()), &SIX)
}

/// NL-034, TE-103: a restart by itself strips nothing and grants nothing early, whether the bus remembers or only `timeAdded` does.
#[test]
fn a_restart_gives_no_free_node_and_strips_nothing() {
    for forgets in [false, true] {
        let mut world = mk_world();
        world.pass(secs(6));
        world.fall_silent(&["n1", "n2", "n3"]);
        for _ in 0..5 {
            world.pass(secs(1));
            if forgets {
                world.forget_outcomes();
            }
            world.restart();
        }
        world.pass(secs(60));
        let second = world.isolations()[1];
        assert_eq!((world.isolations()[0], second.0), (("n1", 6), "n2"));
        assert!(second.1 >= 16, "forgets {forgets}: {second:?}");
        assert_eq!(world.isolated().len(), 3);
        assert_eq!(world.history.len(), 3, "nothing was stripped or written twice");
    }
}

/// NL-034, NL-082: what the bus remembers is inherited to the second; a stop that is left costs a whole interval.
#[test]
fn the_last_grant_is_inherited_from_the_own_topic() {
    let mut world = mk_world();
    world.fall_silent(&["n1", "n2"]);
    world.come_back(&["n1"]);
    world.pass(secs(4));
    world.restart();
    world.pass(secs(60));
    assert_eq!(
        world.isolations(),
        [("n1", 0), ("n2", 10)],
        "no taint tells of n1's grant, the bus does"
    );
    let mut world = mk_world();
    world.fall_silent(&["n1", "n2", "n3", "n4"]);
    assert_eq!(world.zone_status("a").state, ZoneState::PartialDisruption);
    world.stop();
    world.pass(secs(1000));
    world.come_back(&["n3", "n4"]);
    world.show_everything();
    world.pass(secs(60));
    assert_eq!(world.isolations(), [("n1", 1010), ("n2", 1020)]);
}

/// The steps of a clock, or differences between two machines' clocks, that change nothing, in seconds.
const STEPS: [i64; 7] = [-3600, -300, -7, 0, 7, 300, 3600];

/// NL-034, NL-065: the clock is stepped after a grant and the process starts again, or another takes over whose clock is another, and
/// once more when it was put right: no free node, and no longer wait.
#[test]
fn a_clock_step_across_a_restart_gives_no_free_node() {
    for seconds in STEPS {
        let mut world = mk_world();
        world.fall_silent(&["n1", "n2"]);
        world.come_back(&["n1"]);
        world.pass(secs(1));
        world.step_clock(seconds);
        world.restart();
        world.pass(secs(4));
        world.step_clock(-seconds);
        world.restart();
        world.pass(secs(60));
        assert_eq!(world.isolations(), [("n1", 0), ("n2", 10)], "{seconds} s");
    }
}

/// NL-034, NL-065: what is said again after a step tells of the last grant by the clock as it is then.
#[test]
fn a_grant_that_is_told_again_after_a_clock_step_is_told_right() {
    for seconds in STEPS {
        let mut world = mk_world();
        world.fall_silent(&["n1", "n2"]);
        world.come_back(&["n1"]);
        world.pass(secs(1));
        world.step_clock(seconds);
        world.pass(secs(1));
        world.fall_silent(&["n3"]);
        assert_eq!(world.zone_status("a").queue_length, 2);
        world.restart();
        world.pass(secs(60));
        let moments: Vec<u64> = world.isolations().iter().map(|(_, at)| *at).collect();
        assert_eq!(moments, [0, 10, 20], "{seconds} s");
    }
}

/// NL-034: a bus that does not tell how old a record is. With nodes waiting, somebody may just have been granted.
#[test]
fn a_grant_of_unknown_age_may_be_of_now() {
    for seconds in STEPS {
        let mut world = mk_world();
        world.tells_age = false;
        world.fall_silent(&["n1", "n2"]);
        world.come_back(&["n1"]);
        world.pass(secs(1));
        world.step_clock(seconds);
        world.restart();
        world.pass(secs(60));
        assert_eq!(world.isolations(), [("n1", 0), ("n2", 11)], "{seconds} s");
    }
}

/// NL-081: our own word comes back a while after it was said. That is no other grant, however old the bus thinks it is.
#[test]
fn an_echo_delays_nothing() {
    let mut world = mk_world();
    world.fall_silent(&["n1", "n2"]);
    let key = (Topic::EvictionOutcomes, "zone/:a".to_owned());
    for _ in 0..3 {
        world.pass(secs(2));
        let published = world.published;
        let echo = world.bus[&key].clone();
        world.publish(vec![echo]);
        assert_eq!(world.published, published);
    }
    world.pass(secs(60));
    assert_eq!(world.isolations(), [("n1", 0), ("n2", 10)]);
}

/// NL-024, NL-034: nothing is remembered. All nodes ready: the token is there, as upstream's. Some unhealthy already: somebody may
/// just have been granted, and the token is not there.
#[test]
fn without_memory_the_token_is_there_only_if_everybody_is_ready() {
    let mut world = mk_world();
    world.pass(secs(3));
    world.forget_outcomes();
    world.restart();
    world.fall_silent(&["n1"]);
    assert_eq!(world.isolations(), [("n1", 3)]);
    let mut world = mk_world();
    world.stop();
    world.fall_silent(&["n1"]);
    world.forget_outcomes();
    world.show_everything();
    world.pass(secs(60));
    assert_eq!(world.isolations(), [("n1", 10)]);
}

/// NL-024, NL-034: what the bus echoes of ourselves before we began is no memory of an earlier instance; nor is what an instance
/// said that did not get as far as beginning.
#[test]
fn a_fresh_start_has_its_token_although_node_health_comes_later() {
    for crashes in [false, true] {
        let mut world = mk_world();
        world.stop();
        world.forget_outcomes();
        world.shards.insert(Topic::NodeHealth, (false, true));
        world.show_everything();
        assert!(!world.outcomes.contains_key("zone/:b"));
        if crashes {
            world.restart();
        }
        let echo: Vec<Record> = world
            .bus
            .values()
            .filter(|record| record.topic == Topic::EvictionOutcomes)
            .cloned()
            .collect();
        world.publish(echo);
        world.set_shard(Topic::NodeHealth, true, true);
        world.fall_silent(&["n1", "n2"]);
        world.pass(secs(60));
        assert_eq!(world.isolations(), [("n1", 0), ("n2", 10)]);
    }
}

/// NL-034: nothing is remembered, and a node recovered lately: it may have been granted before that.
#[test]
fn without_memory_a_recovered_node_counts_as_granted_until_then() {
    // Seconds from the recovery to the restart, and from there to the first grant.
    for (after, wanted) in [(0, 10), (4, 7), (11, 0), (1000, 0)] {
        let mut world = mk_world();
        world.fall_silent(&["n1"]);
        world.come_back(&["n1"]);
        world.pass(secs(after));
        world.forget_outcomes();
        world.restart();
        world.fall_silent(&["n2"]);
        world.pass(secs(60));
        assert_eq!(world.isolations()[1..], [("n2", after + wanted)], "{after} s after");
    }
}

/// NL-034: an instance that does not know what was granted, and assumes the worst, tells the next one so.
#[test]
fn a_cautious_start_is_inherited() {
    let mut world = mk_world();
    world.stop();
    world.fall_silent(&["n1"]);
    world.forget_outcomes();
    world.show_everything();
    world.pass(secs(4));
    world.restart();
    world.pass(secs(60));
    assert_eq!(world.isolations(), [("n1", 10)]);
}

/// NL-025, NL-034: a zone whose nodes are gone keeps its place, and over a restart what it owes.
#[test]
fn a_zone_without_nodes_keeps_its_last_grant() {
    let mut world = World::new(mk_config(|_| ()), &[("n1", "a"), ("n2", "b"), ("n3", "b")]);
    world.fall_silent(&["n1"]);
    assert_eq!(world.isolations(), [("n1", 0)]);
    world.unwish("n1");
    world.delete_node("n1");
    assert_eq!(world.zone_status("a").voting, 0);
    for restarts in [false, true] {
        world.pass(secs(2));
        if restarts {
            world.restart();
        }
    }
    world.add_node("n4", "a");
    let facts = world.node("n4").clone();
    world.tell(Input::NodeApplied(facts));
    world.fall_silent(&["n4"]);
    world.pass(secs(60));
    assert_eq!(world.isolations()[1], ("n4", 10));
}

/// NL-034, NL-097: a start with every node down isolates nobody.
#[test]
fn a_start_with_everything_down_isolates_nobody() {
    let mut world = mk_world();
    world.stop();
    for (name, _) in SIX {
        world.mark_unknown(name);
        world.health(name, Verdict::Unreachable);
        world.wish(name, HealthTaint::Unreachable);
    }
    world.show_everything();
    world.pass(secs(600));
    assert!(world.history.is_empty());
}

/// Design §1: no rate is granted before every node-health shard is complete.
#[test]
fn no_rate_before_node_health_is_complete() {
    let mut world = mk_world();
    world.stop();
    world.fall_silent(&["n1"]);
    world.forget_outcomes();
    world.shards.insert(Topic::NodeHealth, (false, true));
    world.show_everything();
    world.pass(secs(100));
    assert!(world.history.is_empty());
    assert!(world.completed, "its own topic does not wait for that");
    world.set_shard(Topic::NodeHealth, true, true);
    world.pass(secs(10));
    assert_eq!(world.isolations(), [("n1", 110)]);
}

/// Design §1, the brake looks ahead: bus and monitor died together in the middle of a total silence. One node was judged before, the
/// others look healthy; until they are heard of they may be as silent as that one.
#[test]
fn nodes_that_nobody_heard_of_are_no_reason_to_isolate_others() {
    let mut world = World::unseen(mk_config(|_| ()));
    for (name, zone) in SIX {
        world.add_node(name, zone);
        world.unheard.insert(name.into());
    }
    world.mark_unknown("n1");
    for (name, _) in SIX {
        let verdict = if name == "n1" {
            Verdict::Unreachable
        } else {
            Verdict::Healthy
        };
        world.health(name, verdict);
    }
    world.wish("n1", HealthTaint::Unreachable);
    world.show_everything();
    world.pass(secs(60));
    assert_eq!(world.zone_held("a"), Some(HoldReason::AllZonesDisrupted));
    assert!(world.isolated().is_empty());
    world.unheard.clear();
    for (name, _) in &SIX[1..] {
        world.health(name, Verdict::Healthy);
    }
    world.pass(secs(10));
    assert_eq!(world.isolated(), ["n1"].into(), "they are alive");
}

/// Design §8: pods that terminate on dead nodes, for ever perhaps, are not evicted again by each next instance, whichever it learns first.
#[test]
fn a_failover_does_not_repeat_what_is_done() {
    for intents_last in [false, true] {
        let mut world = mk_world();
        world.taint("n1", "maintenance", bailiff_model::Effect::NoExecute);
        let pod = world.add_pod("p", "n1", vec![]);
        let facts = world.pods[&pod].clone();
        world.due(&pod);
        assert_eq!(world.deleted(), 1);
        let terminating = PodFacts {
            terminating: true,
            ..facts
        };
        world.pods.insert(pod.clone(), terminating);
        let (requests, published, events) = (world.requests, world.published, world.events.len());
        if intents_last {
            world.stop();
            let (intents, others): (Vec<Record>, _) = world
                .bus
                .values()
                .cloned()
                .partition(|record| record.topic == Topic::EvictionIntents);
            let shards = world.shards();
            let (known, late): (Vec<_>, _) = shards.into_iter().partition(|shard| shard.topic != Topic::EvictionIntents);
            world.list_nodes();
            world.tell(Input::Snapshot {
                records: others,
                shards: known,
            });
            world.tell(Input::Changes {
                records: intents,
                shards: late,
            });
        } else {
            world.restart();
        }
        world.pass(secs(60));
        assert_eq!(
            (world.requests, world.events.len()),
            (requests, events),
            "intents last: {intents_last}"
        );
        let said_again = world.pod_state(&pod) != Some(&PodOutcomeState::Deleted);
        assert!(
            !said_again && world.published <= published + 2,
            "zones are said again, pods are not"
        );
        world.withdraw(&pod);
        assert_eq!(world.pod_state(&pod), Some(&PodOutcomeState::Deleted), "not cancelled either");
    }
}

/// NL-153: an answer to a request of an earlier life concerns nobody.
#[test]
fn answers_to_nobody_are_ignored() {
    let mut world = mk_world();
    let ticket = bailiff_zone_core::Ticket(999);
    let facts = world.node("n1").clone();
    assert_eq!(
        world.evictor.apply(
            Input::NodeAnswer {
                ticket,
                result: Ok(facts)
            },
            world.now
        ),
        []
    );
    let result = Err(crate::world::mk_failure(bailiff_zone_core::FailureKind::Gone));
    assert_eq!(world.evictor.apply(Input::PodAnswer { ticket, result }, world.now), []);
}

/// Design §2, fencing: the last words of an instance that was replaced count, whatever its clock shows.
#[test]
fn a_grant_of_the_instance_before_that_is_heard_of_late_counts() {
    for seconds in STEPS {
        let mut world = mk_world();
        let mut status = world.zone_status("a").clone();
        world.pass(secs(8));
        world.step_clock(seconds);
        status.last_grant = Some(world.now.wall);
        let body = Some(bailiff_zone_core::Body::Outcome(bailiff_model::outcome::Outcome::Zone(
            Box::new(status),
        )));
        let record = world.mk_record(Topic::EvictionOutcomes, "zone/:a".to_owned(), body);
        world.step_clock(-seconds);
        world.publish(vec![record]);
        world.pass(secs(1));
        world.fall_silent(&["n1"]);
        world.pass(secs(60));
        assert_eq!(world.isolations(), [("n1", 18)], "{seconds} s");
    }
}

/// A bus that lost its memory: an intent that was derived from a record of the old bus is of unknown age. It is not acted on, until
/// it was derived anew, and then by itself.
#[test]
fn a_wish_of_another_bus_waits_until_it_is_derived_anew() {
    let mut world = mk_world();
    world.mark_unknown("n1");
    world.judge(&["n1"], Verdict::Unreachable);
    let old = world.mk_wish("n1", HealthTaint::Unreachable);
    world.lose_the_bus();
    let names: Vec<&str> = SIX.iter().map(|(name, _)| *name).collect();
    world.judge(&names[1..], Verdict::Healthy);
    world.judge(&["n1"], Verdict::Unreachable);
    let again = Record {
        origin: world.mk_wish("n1", HealthTaint::Unreachable).origin,
        ..old
    };
    world.publish(vec![again]);
    world.show_everything();
    world.pass(secs(30));
    assert!(world.isolated().is_empty());
    assert_eq!(world.node_held("n1"), Some(HoldReason::OutdatedIntent));
    world.wish("n1", HealthTaint::Unreachable);
    world.pass(secs(10));
    assert!(world.is_isolated("n1"));
}
