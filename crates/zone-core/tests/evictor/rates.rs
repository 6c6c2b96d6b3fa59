//! Zone states, rates and the queue.

use std::time::Duration;

use bailiff_model::intent::HealthTaint;
use bailiff_model::outcome::NodeOutcomeState;
use bailiff_model::{HoldReason, ReadyStatus, Taint, Verdict, Wall, ZoneState};
use bailiff_zone_core::{Count, FailureKind, Profile, Span, SpanKind};

use crate::world::{START, World, mk_config, secs, zone};

const SIX: [(&str, &str); 6] = [("n1", "a"), ("n2", "a"), ("n3", "a"), ("n4", "a"), ("n5", "a"), ("n6", "a")];

/// NL-003, NL-081: the token is there at first, then one more every ten seconds.
#[test]
fn nodes_of_a_zone_are_isolated_at_its_rate() {
    let mut world = World::new(mk_config(|_| ()), &SIX);
    world.pass(secs(6));
    world.fall_silent(&["n1", "n2", "n3"]);
    world.pass(secs(60));
    assert_eq!(world.isolations(), [("n1", 6), ("n2", 16), ("n3", 26)]);
    let counted = Count::NodeEvicted(zone("a"));
    assert_eq!(world.counts.iter().filter(|count| **count == counted).count(), 3);
}

/// NL-023, NL-080, NL-140: what is published says who waits and until when.
#[test]
fn the_queue_is_published_with_positions_and_expected_turns() {
    let mut world = World::new(mk_config(|_| ()), &SIX);
    world.fall_silent(&["n1", "n2", "n3"]);
    let at = |seconds| Some(Wall::from_second(START + seconds).expect("in range"));
    let queued = |position, seconds| NodeOutcomeState::Queued {
        position,
        expected_at: at(seconds),
    };
    assert_eq!(world.node_state("n1"), Some(&NodeOutcomeState::Isolated));
    assert_eq!(world.node_state("n2"), Some(&queued(1, 10)));
    assert_eq!(world.node_state("n3"), Some(&queued(2, 20)));
    let status = world.zone_status("a");
    assert_eq!((status.state, status.voting, status.not_ready), (ZoneState::Normal, 6, 3));
    assert_eq!(
        (status.queue_length, status.last_grant, status.held.clone()),
        (2, at(0), None)
    );
    let before = world.published;
    world.pass(secs(10));
    assert_eq!(world.isolated(), ["n1", "n2"].into());
    assert!(world.published - before <= 3, "the rest of the queue is not told again");
}

/// NL-092, NL-093, NL-082: a small zone in partial disruption is stopped; leaving that costs a whole interval.
#[test]
fn a_small_zone_stops_in_partial_disruption_and_leaves_it_with_an_empty_bucket() {
    let mut world = World::new(mk_config(|config| config.rates.primary = 0.2), &SIX[..5]);
    world.pass(secs(6));
    world.fall_silent(&["n1"]);
    world.pass(secs(3));
    world.fall_silent(&["n2", "n3"]);
    world.pass(secs(11));
    assert_eq!(world.zone_status("a").state, ZoneState::PartialDisruption);
    assert_eq!(world.zone_held("a"), Some(HoldReason::RateZero));
    assert_eq!(world.node_held("n2"), Some(HoldReason::RateZero));
    assert_eq!(world.isolated(), ["n1"].into());
    world.come_back(&["n3"]);
    world.pass(secs(20));
    assert_eq!(world.isolations(), [("n1", 6), ("n2", 25)]);
}

/// NL-100: while not all zones are down a zone's state is its own: one falls into partial disruption and leaves it, the other keeps
/// its rate and its token all the while.
#[test]
fn a_zones_rate_changes_with_its_own_state_only() {
    let nodes = [
        ("a1", "a"),
        ("a2", "a"),
        ("a3", "a"),
        ("a4", "a"),
        ("b1", "b"),
        ("b2", "b"),
        ("b3", "b"),
        ("b4", "b"),
    ];
    let mut world = World::new(mk_config(|_| ()), &nodes);
    let rates = |world: &World| ["a", "b"].map(|name| (world.zone_status(name).state, world.zone_status(name).rate_per_second));
    let (normal, stopped) = ((ZoneState::Normal, 0.1), (ZoneState::PartialDisruption, 0.0));
    assert_eq!(rates(&world), [normal, normal]);
    world.fall_silent(&["a1", "a2", "a3"]);
    assert_eq!(rates(&world), [stopped, normal]);
    world.pass(secs(2));
    world.fall_silent(&["b1", "b2"]);
    world.come_back(&["a3"]);
    assert_eq!(rates(&world), [normal, normal]);
    world.pass(secs(60));
    let granted: Vec<_> = world
        .isolations()
        .into_iter()
        .filter(|(name, _)| name.starts_with('b'))
        .collect();
    assert_eq!(granted, [("b1", 2), ("b2", 12)]);
}

/// NL-030, NL-097: all that one input brings is counted before anything is granted with it: nodes that fall silent in one set do
/// not slip through one by one.
#[test]
fn votes_are_counted_before_anything_is_granted() {
    let mut world = World::new(mk_config(|_| ()), &SIX[..3]);
    let records = ["n1", "n2", "n3"].map(|name| {
        world.mark_unknown(name);
        let judged = world.mk_health(name, Verdict::Unreachable);
        (judged, world.mk_wish(name, HealthTaint::Unreachable))
    });
    let (judged, wishes): (Vec<_>, Vec<_>) = records.into_iter().unzip();
    world.publish(judged.into_iter().chain(wishes).collect());
    world.pass(secs(600));
    assert!(world.isolated().is_empty(), "{:?}", world.isolated());
}

/// NL-093: a large zone goes on slowly.
#[test]
fn a_large_zone_is_granted_the_secondary_rate_in_partial_disruption() {
    let mut world = World::new(mk_config(|config| config.rates.large_zone = 4), &SIX[..5]);
    world.pass(secs(6));
    world.fall_silent(&["n1", "n2", "n3"]);
    assert_eq!(world.zone_status("a").rate_per_second, 0.01);
    world.pass(secs(250));
    assert_eq!(world.isolations(), [("n1", 6), ("n2", 106), ("n3", 206)]);
}

/// NL-094: upstream keeps the rate while the state stays; ours follows the size too.
#[test]
fn a_zone_that_grows_gets_its_rate_at_once_except_under_upstreams_profile() {
    for (profile, wanted) in [(Profile::Bailiff, 0.01), (Profile::Upstream, 0.0)] {
        let config = mk_config(|config| {
            config.profile = profile;
            config.rates.large_zone = 5;
        });
        let mut world = World::new(config, &SIX[..5]);
        world.fall_silent(&["n1", "n2", "n3", "n4"]);
        assert_eq!(world.zone_status("a").rate_per_second, 0.0);
        world.add_node("n6", "a");
        world.change_node("n6", |_| ());
        world.health("n6", Verdict::Healthy);
        assert_eq!(world.zone_status("a").state, ZoneState::PartialDisruption);
        assert_eq!(world.zone_status("a").rate_per_second, wanted, "{profile}");
    }
}

/// NL-093, NL-101: one zone fully down beside a healthy one goes on at the normal rate.
#[test]
fn one_zone_fully_down_is_evicted_at_the_normal_rate() {
    let nodes = [("a1", "a"), ("a2", "a"), ("b1", "b"), ("c1", "c")];
    let mut world = World::new(mk_config(|config| config.rates.primary = 0.25), &nodes);
    world.pass(secs(6));
    world.fall_silent(&["a1", "a2"]);
    world.pass(secs(20));
    assert_eq!(world.zone_status("a").state, ZoneState::FullDisruption);
    assert_eq!(world.isolations(), [("a1", 6), ("a2", 10)]);
}

/// NL-020, NL-022, NL-024: zones do not share a rate, and nodes without labels share one zone.
#[test]
fn each_zone_has_its_own_rate() {
    let nodes = [
        ("a1", "a"),
        ("a2", "a"),
        ("a3", "a"),
        ("b1", "b"),
        ("b2", "b"),
        ("n1", ""),
        ("n2", ""),
        ("n3", ""),
    ];
    let mut world = World::new(mk_config(|_| ()), &nodes);
    world.fall_silent(&["a1", "a2", "b1", "n1", "n2"]);
    assert_eq!(world.isolated(), ["a1", "b1", "n1"].into());
}

/// NL-096, NL-097, NL-098, NL-099, NL-082, TE-112: all zones down withdraws the taints; the way out costs a whole interval, in
/// every zone, and keeps the queue.
#[test]
fn all_zones_down_strips_the_taints_and_starts_over_when_a_node_is_back() {
    let nodes = [("a1", "a"), ("b1", "b"), ("b2", "b")];
    let mut world = World::new(mk_config(|config| config.rates.primary = 0.2), &nodes);
    world.pass(secs(6));
    world.fall_silent(&["a1", "b2"]);
    assert_eq!(world.isolated(), ["a1", "b2"].into());
    world.pass(secs(4));
    world.fall_silent(&["b1"]);
    assert!(
        world.isolated().is_empty(),
        "no health NoExecute taint exists while all zones are down"
    );
    assert_eq!(world.zone_held("a"), Some(HoldReason::AllZonesDisrupted));
    assert_eq!(world.zone_held("b"), Some(HoldReason::AllZonesDisrupted));
    assert_eq!(world.zone_status("b").state, ZoneState::FullDisruption);
    assert_eq!(world.node_held("a1"), Some(HoldReason::AllZonesDisrupted));
    // It is a level: what is added by hand meanwhile goes too.
    world.taint("a1", HealthTaint::NotReady.key(), bailiff_model::Effect::NoExecute);
    assert!(world.isolated().is_empty());
    world.pass(secs(7));
    world.come_back(&["b1"]);
    world.pass(secs(4));
    assert!(world.isolated().is_empty());
    world.pass(secs(1));
    assert_eq!(world.isolated(), ["a1", "b2"].into());
    assert_eq!(world.isolations(), [("a1", 6), ("b2", 6), ("a1", 22), ("b2", 22)]);
}

/// NL-096, observations 1: judged before anything is granted, late nodes counted, nobody slips through.
#[test]
fn nothing_is_isolated_when_everything_goes_silent_at_once() {
    let nodes = [("a1", "a"), ("a2", "a"), ("b1", "b"), ("b2", "b")];
    let mut world = World::new(mk_config(|_| ()), &nodes);
    world.judge(&["a1", "a2", "b1", "b2"], Verdict::Late);
    assert_eq!(
        world.zone_status("a").state,
        ZoneState::Normal,
        "the actual state is published"
    );
    assert_eq!(world.zone_status("a").late, 2);
    // The first to be judged; the others are still late.
    world.fall_silent(&["a1"]);
    world.pass(secs(60));
    assert_eq!(world.zone_held("a"), Some(HoldReason::AllZonesDisrupted));
    world.fall_silent(&["a2", "b1", "b2"]);
    world.pass(secs(600));
    assert!(world.history.is_empty());
}

/// NL-092 with the brake: late nodes stop a small zone before they are judged.
#[test]
fn late_nodes_hold_a_small_zone_and_are_let_go_when_they_are_not_late() {
    let mut world = World::new(mk_config(|_| ()), &SIX[..5]);
    world.judge(&["n1", "n2", "n3"], Verdict::Late);
    world.fall_silent(&["n1"]);
    assert_eq!(world.zone_held("a"), Some(HoldReason::RateZero));
    let status = world.zone_status("a");
    assert_eq!(status.rate_per_second, 0.0, "the rate that counts is told");
    let detail = &status.held.as_ref().expect("it is held").detail;
    assert!(detail.contains("2 that are late"), "{detail}");
    world.judge(&["n2"], Verdict::Healthy);
    assert_eq!(world.isolated(), ["n1"].into(), "a brake that is released costs no interval");
}

/// NL-090: no status is not ready; a node without a record has no vote.
#[test]
fn votes_are_the_monitors_word_about_this_incarnation() {
    let mut world = World::new(mk_config(|_| ()), &SIX[..4]);
    world.judge(&["n1"], Verdict::NoStatus);
    assert_eq!((world.zone_status("a").voting, world.zone_status("a").not_ready), (4, 1));
    // Deleted and created again: the record is about the old one (NL-035, NL-036).
    world.delete_node("n1");
    world.add_node("n1", "a");
    world.change_node("n1", |_| ());
    assert_eq!((world.zone_status("a").voting, world.zone_status("a").not_ready), (3, 0));
    world.judge(&["n1"], Verdict::Healthy);
    assert_eq!(world.zone_status("a").voting, 4);
}

/// NL-091: exclusion takes the vote, not the eviction. NL-095: a zone without votes is served at the normal rate.
#[test]
fn an_excluded_node_has_no_vote_and_is_evicted_itself() {
    let mut world = World::unseen(mk_config(|_| ()));
    world.add_node("n1", "a");
    world.change_node("n1", |facts| facts.excluded_from_disruption = true);
    world.health("n1", Verdict::Healthy);
    world.show_everything();
    world.fall_silent(&["n1"]);
    assert_eq!(world.isolated(), ["n1"].into());
    assert_eq!(
        (world.zone_status("a").voting, world.zone_status("a").state),
        (0, ZoneState::Initial)
    );
    let view = world.evictor.zones().next().expect("one zone");
    assert!((view.health() - 100.0).abs() < 1e-9);
}

/// NL-026, observations 10: a relabelled node waits in its new zone only, and there it keeps its seniority.
#[test]
fn a_relabelled_node_leaves_its_old_queue() {
    let nodes = [
        ("a1", "a"),
        ("a2", "a"),
        ("a3", "a"),
        ("a4", "a"),
        ("b1", "b"),
        ("b2", "b"),
        ("b3", "b"),
        ("b4", "b"),
        ("b5", "b"),
    ];
    let mut world = World::new(mk_config(|_| ()), &nodes);
    world.fall_silent(&["a1", "a2", "b1"]);
    assert_eq!(world.isolated(), ["a1", "b1"].into());
    world.pass(secs(2));
    world.fall_silent(&["b2"]);
    world.change_node("a2", |facts| facts.zone = zone("b"));
    assert_eq!(world.zone_status("a").queue_length, 0);
    assert_eq!(world.zone_status("b").queue_length, 2);
    world.pass(secs(8));
    assert_eq!(world.isolated(), ["a1", "a2", "b1"].into(), "a2 was unhealthy before b2");
    world.come_back(&["a2"]);
    world.pass(secs(60));
    assert_eq!(world.isolated(), ["a1", "b1", "b2"].into());
}

/// NL-072, NL-080: first unhealthy, first served, whatever the order of the wishes.
#[test]
fn the_queue_is_in_order_of_falling_ill() {
    let mut world = World::new(mk_config(|_| ()), &SIX);
    world.fall_silent(&["n6"]);
    for name in ["n3", "n1"] {
        world.pass(secs(1));
        world.mark_unknown(name);
        world.health(name, Verdict::Unreachable);
    }
    world.wish("n1", HealthTaint::Unreachable);
    world.wish("n3", HealthTaint::Unreachable);
    world.pass(secs(30));
    assert_eq!(world.isolations(), [("n6", 0), ("n3", 10), ("n1", 20)]);
}

/// NL-077, NL-081: what surely was not applied costs no token, and does not stop the zone.
#[test]
fn a_write_that_was_refused_gives_the_token_to_the_next_node() {
    for kind in [FailureKind::Denied, FailureKind::Invalid, FailureKind::Throttled] {
        let mut world = World::new(mk_config(|_| ()), &SIX);
        world.failures.push_back(kind);
        world.fall_silent(&["n1", "n2"]);
        assert_eq!(world.isolated(), ["n2"].into(), "{kind:?}");
        world.pass(secs(10));
        assert_eq!(world.isolations(), [("n2", 0), ("n1", 10)], "{kind:?}");
    }
}

/// NL-077: a write of unknown fate is looked up; applied or not, its token stays spent.
#[test]
fn a_write_of_unknown_fate_costs_its_token() {
    let mut world = World::new(mk_config(|_| ()), &SIX);
    world.failures.push_back(FailureKind::Unknown);
    world.fall_silent(&["n1", "n2"]);
    assert_eq!((world.isolated().len(), world.reads), (0, 1));
    world.pass(secs(20));
    assert_eq!(world.isolations(), [("n1", 10), ("n2", 20)]);
}

/// NL-056, NL-077: a conflict is answered with a fresh read and another try under the same grant.
#[test]
fn a_conflict_is_retried_from_a_fresh_read_with_the_same_token() {
    let mut world = World::new(mk_config(|_| ()), &SIX);
    world.is_slow = true;
    world.fall_silent(&["n1", "n2"]);
    world.is_watch_stalled = true;
    world.change_node("n1", |facts| facts.taints.push(crate::world::mk_taint("by-hand", "x")));
    world.answer_all();
    assert_eq!(world.isolated(), ["n1"].into());
    assert_eq!(world.node("n1").taints.len(), 3, "what somebody else wrote stays");
    assert_eq!(world.reads, 1);
}

/// NL-081: the token counts from when the API has the taint, so slow requests do not bunch.
#[test]
fn a_slow_write_delays_the_next_grant() {
    let mut world = World::new(mk_config(|_| ()), &SIX);
    world.is_slow = true;
    world.fall_silent(&["n1", "n2"]);
    world.pass(secs(30));
    assert_eq!(world.unanswered.len(), 1, "one node of a zone at a time");
    world.answer_all();
    world.pass(Duration::from_millis(9_999));
    assert_eq!(world.isolated(), ["n1"].into());
    world.pass(Duration::from_millis(1));
    assert_eq!(world.isolated(), ["n1", "n2"].into());
}

/// NL-083: rate 0 isolates nobody, not even one.
#[test]
fn rate_zero_grants_nothing() {
    let mut world = World::new(mk_config(|config| config.rates.primary = 0.0), &SIX);
    world.fall_silent(&["n1"]);
    world.pass(secs(100_000));
    assert!(world.isolated().is_empty());
    assert_eq!(world.zone_held("a"), Some(HoldReason::RateZero));
}

/// NL-102: the first ready node may be in a zone that appears just then; the others leave the stop all the same.
#[test]
fn leaving_full_disruption_works_from_a_new_zone() {
    let mut world = World::new(mk_config(|_| ()), &SIX[..2]);
    world.fall_silent(&["n1", "n2"]);
    world.pass(secs(100));
    world.add_node("b1", "b");
    world.change_node("b1", |_| ());
    world.health("b1", Verdict::Healthy);
    world.pass(secs(10));
    assert_eq!(world.isolations(), [("n1", 110)]);
}

/// Design §9: the wait in the queue, the isolation and each deletion are spans with their real times.
#[test]
fn waits_and_acts_are_spans() {
    let mut world = World::new(mk_config(|_| ()), &SIX);
    world.fall_silent(&["n1", "n2"]);
    world.pass(secs(10));
    let pod = world.add_pod("p", "n2", vec![]);
    world.due(&pod);
    let took = |span: &Span| {
        (
            span.kind,
            span.node.name.to_string(),
            span.end.duration_since(span.start).as_secs(),
        )
    };
    let wanted = [
        (SpanKind::QueueWait, "n1".to_owned(), 0),
        (SpanKind::Isolation, "n1".to_owned(), 0),
        (SpanKind::QueueWait, "n2".to_owned(), 10),
        (SpanKind::Isolation, "n2".to_owned(), 0),
        (SpanKind::Delete, "n2".to_owned(), 0),
        (SpanKind::Eviction, "n2".to_owned(), 0),
    ];
    assert_eq!(world.spans.iter().map(took).collect::<Vec<_>>(), wanted);
}

/// NL-090: a node that said no and then fell silent still counts as not ready, and is not let go because it is late.
#[test]
fn a_late_node_that_was_not_ready_is_not_ready() {
    let mut world = World::new(mk_config(|_| ()), &SIX);
    world.change_node("n1", |facts| {
        facts.ready = ReadyStatus::False;
        facts
            .taints
            .push(Taint::new(HealthTaint::NotReady.key(), bailiff_model::Effect::NoSchedule));
    });
    world.health("n1", Verdict::Late);
    assert_eq!((world.zone_status("a").not_ready, world.zone_status("a").late), (1, 0));
    world.wish("n1", HealthTaint::NotReady);
    assert_eq!(world.isolated(), ["n1"].into());
}
