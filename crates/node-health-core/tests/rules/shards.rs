//! Several monitors share the nodes.

use bailiff_model::{NodeName, ReadyStatus};
use bailiff_node_health_core::{Config, Inherited, Input, Shard, TopicNews};

use crate::support::{World, check};

const FIRST: Shard = Shard { index: 0, count: 2 };

fn mk_config() -> Config {
    Config {
        shard: FIRST,
        ..Config::default()
    }
}

/// A name in the first shard and one in the second.
fn mk_names() -> (String, String) {
    let find = |own: bool| {
        let mut names = (0..).map(|n| format!("n{n}"));
        names
            .find(|text| FIRST.owns(&NodeName::from(text.as_str())) == own)
            .expect("half of them are")
    };
    (find(true), find(false))
}

fn mk_record(world: &World, own: &str, other: &str, ready: ReadyStatus) -> Inherited {
    let mut health = Box::new(world.record(own).clone());
    health.node.name = NodeName::from(other);
    health.ready.status = ready;
    Inherited { health, trace: None }
}

#[test]
fn the_own_topic_is_followed_only_while_it_can_change_anything() {
    let mut whole = World::new(Config::default(), &["n1"]);
    assert!(whole.monitor.needs_topic());
    whole.start();
    assert!(!whole.monitor.needs_topic());
    let mut part = World::new(mk_config(), &[]);
    part.start();
    assert!(part.monitor.needs_topic());
}

#[test]
fn only_the_shard_is_judged() {
    let (own, other) = mk_names();
    let mut world = World::new(mk_config(), &[&own, &other]);
    world.start();
    assert_eq!(world.monitor.summary().nodes, 1);
    world.pass(60.0);
    assert_eq!(world.ready(&own), ReadyStatus::Unknown);
    assert_eq!(world.ready(&other), ReadyStatus::True);
    world.delete(&other);
    assert!(!world.story().iter().any(|line| line.contains(&other)));
}

/// NL-096, NL-099: the votes of other shards' nodes come from their records, and only when all shards are complete.
#[test]
fn other_shards_vote_by_their_records() {
    let (own, other) = mk_names();
    let mut world = World::new(mk_config(), &[&own]);
    world.start();
    let other_ready = mk_record(&world, &own, &other, ReadyStatus::True);
    let other_down = mk_record(&world, &own, &other, ReadyStatus::Unknown);
    let name = NodeName::from(other.as_str());
    let give = |world: &mut World, record: Option<&Inherited>, complete| {
        let records = vec![(name.clone(), record.cloned())];
        world.give(Input::Topic(TopicNews::Changes { records, complete }));
    };
    give(&mut world, Some(&other_ready), true);
    world.change(&own, |facts| facts.ready.status = ReadyStatus::Unknown);
    assert!(!world.monitor.summary().everything_down);
    give(&mut world, Some(&other_down), false);
    assert!(!world.monitor.summary().everything_down, "a shard is missing: unchanged");
    give(&mut world, Some(&other_down), true);
    assert!(world.monitor.summary().everything_down);
    world.story();
    give(&mut world, Some(&other_ready), true);
    check(&mut world, &[&format!("0 {own} unreachable")]);
    give(&mut world, None, true);
    assert!(world.monitor.summary().everything_down, "only the own vote is left");
}

/// NL-096, design §2: a new view of the topic replaces what was known of other shards' nodes: who is not in it has no vote.
#[test]
fn a_new_view_takes_away_the_votes_that_it_does_not_show() {
    let (own, other) = mk_names();
    let mut world = World::new(mk_config(), &[&own]);
    world.start();
    let record = mk_record(&world, &own, &other, ReadyStatus::True);
    let view = |records| Input::Topic(TopicNews::Snapshot { records, complete: true });
    world.give(view(vec![record]));
    world.change(&own, |facts| facts.ready.status = ReadyStatus::Unknown);
    assert!(!world.monitor.summary().everything_down);
    world.give(view(vec![]));
    assert!(world.monitor.summary().everything_down, "only the own vote is left");
}
