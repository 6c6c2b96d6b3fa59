//! How reads are batched and bounded.

use bailiff_model::Shard;
use bailiff_node_health_core::{Config, ReadBy};

use crate::support::{Answers, Pending, World, name};

fn mk_names(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("n{n:03}")).collect()
}

fn mk_world(count: usize) -> (World, Vec<String>) {
    let names = mk_names(count);
    let nodes: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut world = World::running(Config::default(), &nodes);
    world.answers = Answers::Later;
    (world, names)
}

/// Of 60 nodes 20 are silent, and a read of them is asked for.
fn mk_silent_third() -> World {
    let (mut world, names) = mk_world(60);
    world.pass(10.0);
    for node in &names[20..] {
        world.renew(node);
    }
    world.pass(40.1);
    world
}

#[test]
fn a_zone_that_falls_silent_together_is_read_by_one_list() {
    let mut world = mk_silent_third();
    let [Pending::Read(_, ReadBy::List, nodes)] = world.pending.as_slice() else {
        panic!("{:?}", world.pending)
    };
    assert_eq!(nodes.len(), 20);
    world.answers = Answers::AtOnce;
    world.answer_pending();
    assert_eq!(world.monitor.summary().verdicts[3], ("unreachable", 20));
}

/// A LIST may be refused, or too slow to come to its end, while single reads are answered.
#[test]
fn who_a_list_did_not_get_to_is_read_one_by_one() {
    let mut world = mk_silent_third();
    assert!(
        matches!(world.pending[..], [Pending::Read(_, ReadBy::List, _)]),
        "{:?}",
        world.pending
    );
    world.answers = Answers::Fails;
    world.answer_pending();
    world.answers = Answers::Later;
    world.pass(1.0);
    let is_get = |request: &Pending| matches!(request, Pending::Read(_, ReadBy::Get, _));
    assert!(
        world.pending.len() == 8 && world.pending.iter().all(is_get),
        "{:?}",
        world.pending
    );
    world.answers = Answers::AtOnce;
    world.answer_pending();
    assert_eq!(world.monitor.summary().verdicts[3], ("unreachable", 20));
}

#[test]
fn a_few_of_many_are_read_one_by_one_and_not_all_at_once() {
    let (mut world, names) = mk_world(400);
    world.pass(10.0);
    for node in &names[20..] {
        world.renew(node);
    }
    world.pass(40.1);
    assert_eq!(world.pending.len(), 8);
    assert!(
        world
            .pending
            .iter()
            .all(|request| matches!(request, Pending::Read(_, ReadBy::Get, nodes) if nodes.len() == 1))
    );
    world.answers = Answers::AtOnce;
    world.answer_pending();
    assert_eq!(world.monitor.summary().verdicts[3], ("unreachable", 20));
    assert_eq!(world.monitor.summary().under_way, 0);
}

/// A LIST reads the nodes of all shards, so it has to be worth that.
#[test]
fn a_few_of_a_shard_are_read_one_by_one_however_small_it_is() {
    let shard = Shard { index: 1, count: 4 };
    let names = mk_names(400);
    let own: Vec<&str> = names
        .iter()
        .map(String::as_str)
        .filter(|node| shard.owns(&name(node)))
        .collect();
    assert!((60..160).contains(&own.len()), "{}", own.len());
    let mut world = World::running(
        Config {
            shard,
            ..Config::default()
        },
        &own,
    );
    world.answers = Answers::Later;
    world.pass(10.0);
    own[20..].iter().for_each(|node| world.renew(node));
    world.pass(40.1);
    let is_get = |request: &Pending| matches!(request, Pending::Read(_, ReadBy::Get, _));
    assert!(
        world.pending.len() == 8 && world.pending.iter().all(is_get),
        "{:?}",
        world.pending
    );
}

/// An answer that was lost in one entry does not block the next: every read gives its place back.
#[test]
fn places_are_given_back_even_if_the_nodes_are_gone() {
    let (mut world, names) = mk_world(400);
    world.pass(10.0);
    for node in &names[8..] {
        world.renew(node);
    }
    world.pass(40.1);
    assert_eq!(world.pending.len(), 8);
    for node in &names[..8] {
        world.delete(node);
    }
    world.answer_pending();
    assert_eq!(world.monitor.summary().under_way, 0);
    assert!(!world.nodes.contains_key(&name("n000")));
}
