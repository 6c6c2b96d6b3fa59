//! Several evictors: each zone is one's, and the others neither do nor say anything about it.

use bailiff_model::outcome::NodeOutcomeState;
use bailiff_model::{Effect, HoldReason, Verdict};
use bailiff_zone_core::{EvictionMode, FailureKind, Input, Shard, Span, SpanEnd, SpanKind};

use crate::world::{World, mk_config, secs, zone};

const COUNT: u32 = 4;

/// A zone that is the shard's, or is not.
fn zone_of(shard: Shard, owned: bool) -> &'static str {
    let names = ["a", "b", "c", "d", "e", "f"];
    let mut found = names.into_iter().filter(|name| shard.owns_zone(&zone(name)) == owned);
    found.next().expect("one of six")
}

/// Design §8: a pod is evicted by the evictor of its node's zone, and no other says anything about pod, node or zone.
#[test]
fn what_belongs_to_another_shard_is_neither_done_nor_told() {
    let mut owners = 0;
    for index in 0..COUNT {
        let shard = Shard { index, count: COUNT };
        let mut world = World::new(
            mk_config(|config| config.shard = shard),
            &[("n1", "a"), ("n2", "a"), ("n3", "a")],
        );
        world.taint("n2", "maintenance", Effect::NoExecute);
        let pod = world.add_pod("p", "n2", vec![]);
        world.due(&pod);
        world.fall_silent(&["n1"]);
        let owns = shard.owns_zone(&zone("a"));
        owners += u32::from(owns);
        assert_eq!((world.deleted() == 1, world.is_isolated("n1")), (owns, owns), "shard {index}");
        world.withdraw(&pod);
        assert_eq!(world.outcomes.is_empty(), !owns, "{:?}", world.outcomes);
        assert_eq!(world.spans.is_empty(), !owns, "{:?}", world.spans);
    }
    assert_eq!(owners, 1);
}

/// Design §8: what was said of a node is taken back once it is gone, by who said it, whoever works on nodes without a zone.
#[test]
fn what_was_said_of_a_node_that_is_gone_is_taken_back() {
    let shards = (0..COUNT).map(|index| Shard { index, count: COUNT });
    for shard in shards.filter(|shard| !shard.owns_zone(&zone(""))) {
        let here = zone_of(shard, true);
        let nodes = [("n1", here), ("n2", here), ("n3", here)];
        let mut world = World::new(mk_config(|config| config.shard = shard), &nodes);
        world.fall_silent(&["n1"]);
        world.unwish("n1");
        assert!(world.node_state("n1").is_some(), "{shard:?}");
        world.delete_node("n1");
        assert_eq!(world.node_state("n1"), None, "{shard:?}");
    }
}

/// Design §8: a node that moves to a zone of another shard takes its pods along, however far this shard has got: what waits for its turn
/// or under the client's limit is not done any more, and what was sent is not gone on with. When the node comes back, so does the work.
#[test]
fn what_moves_to_another_shard_is_let_go() {
    let shard = Shard { index: 0, count: COUNT };
    let [here, there] = [true, false].map(|owned| zone_of(shard, owned));
    type Case = (&'static str, fn(&mut World));
    let cases: [Case; 5] = [
        ("held", |world| world.tell(Input::ApiFresh(false))),
        ("overdue", |world| world.stop()),
        ("not sent", |world| (world.is_slow, world.is_unsent) = (true, true)),
        ("marked", |world| world.is_slow = true),
        ("fails", |world| world.is_slow = true),
    ];
    for (what, begin) in cases {
        let config = mk_config(|config| (config.shard, config.overdue_per_second) = (shard, 0.001));
        let mut world = World::new(config, &[("n1", here), ("n2", here), ("n3", here)]);
        world.taint("n2", "maintenance", Effect::NoExecute);
        let first = world.add_pod("first", "n2", vec![]);
        let pod = world.add_pod("p", "n2", vec![]);
        begin(&mut world);
        for pod in [&first, &pod] {
            world.due(pod);
        }
        if what == "overdue" {
            world.show_everything();
        }
        world.change_node("n2", |facts| facts.zone = zone(there));
        world.outcomes.retain(|key, _| !key.starts_with("pod/"));
        if what == "fails" {
            world.failures.extend([FailureKind::Unknown; 2]);
        }
        world.answer_all();
        world.tell(Input::ApiFresh(true));
        world.pass(secs(1));
        world.answer_all();
        let deletes = usize::from(what == "overdue");
        assert_eq!(world.deleted(), deletes, "{what}");
        assert_eq!(world.evictor.due_pods(), (0, 0, 0), "{what}");
        let is_silent = !world.outcomes.contains_key(&format!("pod/{pod}"));
        assert!(is_silent, "{what}: the other says what there is to say");
        let left = |span: &&Span| span.kind == SpanKind::Eviction && span.outcome == SpanEnd::Moved;
        assert_eq!(world.spans.iter().filter(left).count(), 2 - deletes, "{what}");
        (world.is_slow, world.is_unsent) = (false, false);
        world.change_node("n2", |facts| facts.zone = zone(here));
        world.pass(secs(3600));
        assert_eq!(world.deleted(), 2, "{what}");
    }
}

/// What was said before a pod left is said again when it is back: the other shard has said something else of it.
#[test]
fn what_comes_back_from_another_shard_is_said_again() {
    let shard = Shard { index: 0, count: COUNT };
    let [here, there] = [true, false].map(|owned| zone_of(shard, owned));
    let mut world = World::new(mk_config(|config| config.shard = shard), &[("n1", here), ("n2", here)]);
    world.taint("n2", "maintenance", Effect::NoExecute);
    world.tell(Input::ApiFresh(false));
    let pod = world.add_pod("p", "n2", vec![]);
    world.due(&pod);
    assert_eq!(world.pod_held(&pod), Some(HoldReason::ApiStale));
    world.change_node("n2", |facts| facts.zone = zone(there));
    world.outcomes.remove(&format!("pod/{pod}"));
    world.change_node("n2", |facts| facts.zone = zone(here));
    assert_eq!(world.pod_held(&pod), Some(HoldReason::ApiStale));
}

/// A node that leaves is not queued here any more, and what was said of it is left to the other: a removal might take away its words.
#[test]
fn a_node_that_moves_to_another_shard_is_not_unsaid() {
    let shard = Shard { index: 0, count: COUNT };
    let [here, there] = [true, false].map(|owned| zone_of(shard, owned));
    let mut world = World::new(
        mk_config(|config| config.shard = shard),
        &[("n1", here), ("n2", here), ("n3", here)],
    );
    world.fall_silent(&["n1"]);
    assert!(world.is_isolated("n1"));
    let said = world.node_state("n1").cloned();
    world.change_node("n1", |facts| facts.zone = zone(there));
    assert_eq!(world.node_state("n1").cloned(), said);
    let published = world.published;
    world.change_node("n1", |facts| facts.zone = zone(here));
    assert!(
        world.published > published,
        "it is said anew: the other may have said something else"
    );
}

/// Where a node's wish has it is not where it was when it went, if it moved shortly before: who said something of it last takes that back.
#[test]
fn what_was_said_of_a_node_that_moved_before_it_went_is_taken_back() {
    let shard = Shard { index: 0, count: COUNT };
    let [here, there] = [true, false].map(|owned| zone_of(shard, owned));
    let mut world = World::new(
        mk_config(|config| config.shard = shard),
        &[("n1", there), ("n2", here), ("n3", here)],
    );
    world.fall_silent(&["n1"]);
    assert_eq!(world.node_state("n1"), None);
    world.change_node("n1", |facts| facts.zone = zone(here));
    assert!(world.node_state("n1").is_some());
    world.delete_node("n1");
    assert_eq!(world.node_state("n1"), None);
}

/// NL-204: node mode: whether a node recovers in a zone of another shard nobody sees here. When it is back it waits for its turn again.
#[test]
fn an_evicted_node_that_was_away_needs_another_turn() {
    let shard = Shard { index: 0, count: COUNT };
    let [here, there] = [true, false].map(|owned| zone_of(shard, owned));
    let config = mk_config(|config| (config.shard, config.mode) = (shard, EvictionMode::Node));
    let mut world = World::new(config, &[("n1", here), ("n2", here), ("n3", here)]);
    let fall_due = |world: &mut World, name: &str| {
        world.mark_unknown(name);
        world.health(name, Verdict::Unreachable);
        world.wish_evicted(name);
    };
    fall_due(&mut world, "n1");
    assert_eq!(world.node_state("n1"), Some(&NodeOutcomeState::Evicted));
    world.change_node("n1", |facts| facts.zone = zone(there));
    world.come_back(&["n1"]);
    fall_due(&mut world, "n1");
    world.change_node("n1", |facts| facts.zone = zone(here));
    assert!(matches!(world.node_state("n1"), Some(NodeOutcomeState::Queued { .. })));
    world.pass(secs(10));
    assert_eq!(world.node_state("n1"), Some(&NodeOutcomeState::Evicted));
}

/// Design §8: a taint write that meets a node in a zone of another shard is not made again: the other grants it, or does not.
#[test]
fn a_node_that_moves_while_it_is_written_is_left_to_the_other() {
    let shard = Shard { index: 0, count: COUNT };
    let [here, there] = [true, false].map(|owned| zone_of(shard, owned));
    let nodes = [("n1", here), ("n2", here), ("n3", here)];
    let mut world = World::new(mk_config(|config| config.shard = shard), &nodes);
    world.is_slow = true;
    world.fall_silent(&["n1"]);
    world.change_node("n1", |facts| facts.zone = zone(there));
    world.answer_all();
    assert!(world.isolated().is_empty());
}
