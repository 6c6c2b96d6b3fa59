//! Writes that meet another state than they were decided on, or whose fate is not known.

use bailiff_model::intent::HealthTaint;
use bailiff_model::outcome::PodOutcomeState;
use bailiff_model::{Effect as TaintEffect, Hold, HoldReason, HoldScope, ReadyStatus, Verdict};
use bailiff_zone_core::{Count, Effect, FailureKind, Input, SpanEnd};

use crate::isolation::report_false;
use crate::world::{Happened, World, mk_config, mk_failure, secs, zone};

const SIX: [(&str, &str); 6] = [("n1", "a"), ("n2", "a"), ("n3", "a"), ("n4", "a"), ("n5", "a"), ("n6", "a")];

fn mk_world() -> World {
    World::new(mk_config(|_| ()), &SIX)
}

/// Answers every write with a conflict and every read truthfully, until nothing more is asked; how many writes there were.
fn meet_conflicts(world: &mut World) -> usize {
    let mut writes = 0;
    while let Some(request) = world.unanswered.first().filter(|_| writes < 50) {
        if !matches!(request, Effect::ReadNode { .. } | Effect::ReadPod { .. }) {
            world.failures.push_back(FailureKind::Conflict);
            writes += 1;
        }
        world.answer_first();
    }
    writes
}

fn failed(world: &World, what: &str) -> usize {
    let counts = world.counts.iter();
    counts
        .filter(|count| matches!(count, Count::RequestFailed { what: of } if *of == what))
        .count()
}

/// NL-077: a conflict is answered with a fresh read and another write, a few times at once; then it is a failure like others.
#[test]
fn a_taint_write_that_meets_conflicts_is_tried_a_few_times_at_once() {
    type Act = fn(&mut World);
    let purposes: [(Act, Happened); 3] = [
        (
            |world| world.fall_silent(&["n1"]),
            Happened::Isolated("n1".to_owned(), zone("a")),
        ),
        (|world| report_false(world, "n2"), Happened::Swapped("n2".to_owned())),
        (|world| world.come_back(&["n2"]), Happened::Cleared("n2".to_owned())),
    ];
    for (act, wanted) in purposes {
        let mut world = mk_world();
        world.fall_silent(&["n2"]);
        world.pass(secs(60));
        world.is_slow = true;
        act(&mut world);
        let writes = meet_conflicts(&mut world);
        assert!((5..=6).contains(&writes), "{wanted:?}: {writes} writes");
        assert_ne!(world.happened().last(), Some(&wanted));
        world.is_slow = false;
        world.pass(secs(5));
        assert_eq!(world.happened().last(), Some(&wanted));
    }
}

/// NL-075, NL-081: what became of a write decides whether it counts, and what becomes of the token.
#[test]
fn a_write_counts_if_it_was_ours_that_was_applied() {
    // How the write failed, whether the taint stands by then; whether that is an isolation, and whether the next node has its turn.
    let cases = [
        (FailureKind::Unknown, true, true, false),
        (FailureKind::Unknown, false, false, false),
        (FailureKind::Conflict, true, false, true),
        (FailureKind::Conflict, false, true, false),
    ];
    for (failure, stands, is_ours, next) in cases {
        let mut world = mk_world();
        world.is_slow = true;
        world.fall_silent(&["n1", "n2"]);
        world.is_watch_stalled = true;
        if stands {
            world.taint("n1", HealthTaint::Unreachable.key(), TaintEffect::NoExecute);
        }
        world.failures.push_back(failure);
        world.answer_all();
        let told = |name: &str| {
            let mut spans = world.spans.iter();
            spans.any(|span| span.outcome == SpanEnd::Isolated && span.why.detail.is_empty() && span.node.name.as_str() == name)
        };
        assert_eq!((told("n1"), told("n2")), (is_ours, next), "{failure:?}, stands: {stands}");
        let counted = world.counts.iter().filter(|count| **count == Count::NodeEvicted(zone("a")));
        assert_eq!(counted.count(), usize::from(is_ours) + usize::from(next));
    }
}

/// NL-074: a removal whose fate is not known is looked up; if it was not applied it is made again, after a pause.
#[test]
fn a_lost_removal_is_made_again_after_a_pause() {
    let mut world = mk_world();
    world.fall_silent(&["n1"]);
    world.is_slow = true;
    world.come_back(&["n1"]);
    world.failures.push_back(FailureKind::Unknown);
    world.answer_first();
    world.answer_first();
    assert_eq!(world.unanswered, [], "not at once");
    world.is_slow = false;
    world.pass(secs(1));
    assert!(!world.is_isolated("n1"));
}

/// Pause: a hold that begins between the conflict and the fresh read holds the second write.
#[test]
fn a_hold_between_two_writes_holds_the_second() {
    for (scope, next) in [
        (HoldScope::Node("n1".into()), vec!["n2"]),
        (HoldScope::Zone(zone("a")), vec![]),
    ] {
        let mut world = mk_world();
        world.is_slow = true;
        world.fall_silent(&["n1", "n2"]);
        world.failures.push_back(FailureKind::Conflict);
        world.answer_first();
        let hold = Hold {
            reason: HoldReason::Paused,
            detail: "as the test wanted".to_owned(),
            since: world.now.wall,
            until: None,
        };
        world.tell(Input::Braked([(scope.clone(), hold)].into_iter().collect()));
        world.answer_all();
        assert_eq!(world.isolated(), next.into_iter().collect(), "{scope}");
        assert_eq!(world.node_held("n1"), Some(HoldReason::Paused));
    }
}

/// NL-026, pause: a node that moves between the two is held where it is by then, whatever its zone was granted where it was.
#[test]
fn a_node_that_moves_between_two_writes_is_held_where_it_is() {
    let mut world = World::new(mk_config(|_| ()), &[("n1", "a"), ("n2", "a"), ("n3", "b"), ("n4", "b")]);
    let hold = Hold {
        reason: HoldReason::Paused,
        detail: "as the test wanted".to_owned(),
        since: world.now.wall,
        until: None,
    };
    world.tell(Input::Braked([(HoldScope::Zone(zone("b")), hold)].into_iter().collect()));
    world.is_slow = true;
    world.fall_silent(&["n1"]);
    world.change_node("n1", |facts| facts.zone = zone("b"));
    world.answer_all();
    assert!(world.isolated().is_empty());
    assert_eq!(world.node_held("n1"), Some(HoldReason::Paused));
}

/// NL-026, NL-081: nor is it isolated by the token of the zone that it left: it waits for a turn where it is, which a stopped zone has not.
#[test]
fn a_node_that_moves_between_two_writes_waits_for_a_turn_where_it_is() {
    let nodes = [("n1", "a"), ("n2", "a"), ("n3", "b"), ("n4", "b"), ("n5", "b"), ("n6", "b")];
    for (silent, wanted) in [(&[][..], vec![("n1", 0), ("n2", 0)]), (&["n3", "n4", "n5"], vec![("n2", 0)])] {
        let mut world = World::new(mk_config(|_| ()), &nodes);
        world.judge(silent, Verdict::Unreachable);
        world.is_slow = true;
        world.fall_silent(&["n1"]);
        world.change_node("n1", |facts| facts.zone = zone("b"));
        world.answer_all();
        world.fall_silent(&["n2"]);
        world.pass(secs(60));
        assert_eq!(world.isolations(), wanted, "{silent:?}");
        assert_eq!(world.zone_held("b").is_some(), !silent.is_empty());
        assert_eq!(world.node_held("n1"), world.zone_held("b"));
    }
}

/// NL-032, NL-081: a node that is deleted while its taint is written spends its token, and keeps nobody waiting for longer.
#[test]
fn a_node_that_is_deleted_while_it_is_written_does_not_stop_its_zone() {
    let mut world = mk_world();
    world.is_slow = true;
    world.fall_silent(&["n1", "n2"]);
    world.delete_node("n1");
    world.answer_all();
    world.pass(secs(60));
    assert_eq!(world.isolations(), [("n2", 10)]);
}

/// NL-035: the answer to a request about a node that is gone says nothing about its namesake.
#[test]
fn an_answer_about_the_incarnation_before_concerns_nobody() {
    let ticket_of = |request: &Effect| match request {
        Effect::WriteTaints(write) => write.ticket,
        Effect::ReadNode { ticket, .. } => *ticket,
        other => unreachable!("{other:?} is not about a node"),
    };
    for reads in [false, true] {
        let mut world = mk_world();
        world.is_slow = true;
        world.fall_silent(&["n1"]);
        if reads {
            world.failures.push_back(FailureKind::Unknown);
            world.answer_first();
        }
        let old = ticket_of(&world.unanswered.remove(0));
        world.delete_node("n1");
        world.add_node("n1", "a");
        world.fall_silent(&["n1"]);
        world.pass(secs(10));
        if reads {
            world.failures.push_back(FailureKind::Unknown);
            world.answer_first();
        }
        assert_eq!(world.unanswered.len(), 1, "the namesake's own");
        let result = Err(mk_failure(FailureKind::Unknown));
        let effects = world.evictor.apply(Input::NodeAnswer { ticket: old, result }, world.now);
        assert_eq!(effects, [], "reads: {reads}");
        world.answer_all();
        world.pass(secs(60));
        assert!(world.is_isolated("n1"));
    }
}

/// TE-071, TE-076: the same for the writes of a pod's eviction.
#[test]
fn a_pod_that_changes_all_the_time_is_tried_a_few_times_at_once() {
    let mut world = mk_world();
    world.taint("n1", "maintenance", TaintEffect::NoExecute);
    let pod = world.add_pod("p", "n1", vec![]);
    world.is_slow = true;
    world.due(&pod);
    let writes = meet_conflicts(&mut world);
    assert!((5..=6).contains(&writes), "{writes} writes");
    world.is_slow = false;
    world.pass(secs(1));
    assert_eq!(world.pod_state(&pod), Some(&PodOutcomeState::Deleted));
}

/// TE-076: a read that fails waits, whatever it fails with.
#[test]
fn a_pod_that_cannot_be_read_is_not_read_again_at_once() {
    let mut world = mk_world();
    world.taint("n1", "maintenance", TaintEffect::NoExecute);
    let pod = world.add_pod("p", "n1", vec![]);
    world.failures.extend([FailureKind::Conflict; 50]);
    world.due(&pod);
    assert_eq!(world.requests, 2, "the mark, and the read after it");
    world.failures.clear();
    world.pass(secs(5));
    assert_eq!(world.deleted(), 1);
}

/// TE-076: a pause ends by time alone: neither news of the node nor the intent said again ends it early.
#[test]
fn a_pause_is_not_cut_short() {
    let mut world = mk_world();
    world.taint("n1", "maintenance", TaintEffect::NoExecute);
    let pod = world.add_pod("p", "n1", vec![]);
    world.failures.push_back(FailureKind::Throttled);
    world.retry_after = Some(secs(20));
    world.due(&pod);
    world.pass(secs(5));
    world.change_node("n1", |facts| facts.ready = ReadyStatus::False);
    world.due(&pod);
    world.pass(secs(14));
    assert_eq!(world.requests, 1);
    world.pass(secs(1));
    assert_eq!(world.deleted(), 1);
}

/// TE-076: what the server refused goes after what is new.
#[test]
fn a_pod_that_was_refused_goes_last() {
    let mut world = World::new(mk_config(|config| config.max_evictions_in_flight = 1), &SIX);
    world.taint("n1", "maintenance", TaintEffect::NoExecute);
    let refused = world.add_pod("refused", "n1", vec![]);
    world.failures.push_back(FailureKind::Invalid);
    world.due(&refused);
    world.is_slow = true;
    for name in ["busy", "new"] {
        if name == "new" {
            world.pass(secs(5));
        }
        let pod = world.add_pod(name, "n1", vec![]);
        world.due(&pod);
    }
    assert_eq!(world.evictor.due_pods(), (0, 2, 1));
    world.answer_all();
    world.pass(secs(60));
    let order: Vec<Happened> = ["busy", "new", "refused"]
        .iter()
        .map(|name| Happened::Deleted((*name).to_owned()))
        .collect();
    let mut deleted = world.happened();
    deleted.retain(|happened| matches!(happened, Happened::Deleted(_)));
    assert_eq!(deleted, order);
}

/// Pause: what was called off before it was sent is no failure; what failed is one.
#[test]
fn only_what_was_sent_can_fail() {
    for is_unsent in [true, false] {
        let mut world = mk_world();
        world.taint("n1", "maintenance", TaintEffect::NoExecute);
        let pod = world.add_pod("p", "n1", vec![]);
        (world.is_slow, world.is_unsent) = (true, is_unsent);
        world.due(&pod);
        world.tell(Input::ApiFresh(false));
        world.failures.extend((!is_unsent).then_some(FailureKind::Throttled));
        world.answer_all();
        assert_eq!(failed(&world, "pod"), usize::from(!is_unsent));
    }
}

/// Design §3: a pod that was read already: a cache that is behind is not trusted to refuse it either.
#[test]
fn a_cache_that_fell_behind_later_is_not_trusted_to_refuse() {
    let mut world = mk_world();
    world.taint("n1", "maintenance", TaintEffect::NoExecute);
    let pod = world.add_pod("p", "n1", vec![]);
    world.is_slow = true;
    world.due(&pod);
    world.failures.push_back(FailureKind::Conflict);
    world.answer_first();
    assert!(matches!(world.unanswered[..], [Effect::ReadPod { .. }]));
    world.untaint("n1", "maintenance", TaintEffect::NoExecute);
    world.is_watch_stalled = true;
    world.taint("n1", "maintenance", TaintEffect::NoExecute);
    world.answer_all();
    assert_eq!((world.reads, world.pod_state(&pod)), (1, Some(&PodOutcomeState::Deleted)));
}

/// Design §3: that a node is gone is known as long as pods of it are due; who comes later asks again.
#[test]
fn a_node_that_was_gone_is_asked_for_again() {
    let mut world = mk_world();
    world.taint("n1", "maintenance", TaintEffect::NoExecute);
    let pods = ["p", "q"].map(|name| world.add_pod(name, "n1", vec![]));
    let records = pods.each_ref().map(|pod| world.mk_due(pod, false));
    world.delete_node("n1");
    for (nth, record) in records.into_iter().enumerate() {
        world.publish(vec![record]);
        world.pass(secs(5));
        assert_eq!((world.deleted(), world.reads), (nth + 1, nth + 1));
        world.withdraw(&pods[nth]);
        world.pass(secs(5));
    }
}

/// The server's words are for people; what it asks for is heeded, a minute at most (NL-077).
#[test]
fn a_taint_write_heeds_what_the_server_asks_for() {
    let mut world = mk_world();
    world.failures.push_back(FailureKind::Throttled);
    world.retry_after = Some(secs(30));
    world.fall_silent(&["n1"]);
    world.pass(secs(29));
    assert!(!world.is_isolated("n1"));
    world.pass(secs(1));
    assert!(world.is_isolated("n1"));
    assert_eq!(failed(&world, "taints"), 1);
}
