//! Requests that fail: no verdict, no vote, and another try.

use std::time::Duration;

use bailiff_model::{Load, ReadyStatus};
use bailiff_node_health_core::{Config, Input, Read};

use crate::support::{Answers, Pending, World, check};

/// NL-057, NL-152
#[test]
fn while_requests_fail_nothing_is_decided_and_everything_is_tried_again() {
    for answers in [Answers::Fails, Answers::FailsWrites] {
        let mut world = World::running(Config::default(), &["n1"]);
        world.answers = answers;
        world.pass(600.0);
        assert_eq!(world.verdict("n1"), "late", "{answers:?}");
        let tries = world.story().iter().filter(|line| line.contains(" get ")).count();
        assert!((105..125).contains(&tries), "{answers:?}: about one per period, {tries}");
        world.answers = Answers::AtOnce;
        world.pass(5.0);
        assert_eq!(world.verdict("n1"), "unreachable", "{answers:?}");
    }
}

/// NL-057: the vote of a node that could not be judged is missing; it does not count as ready nor as not ready.
#[test]
fn a_node_that_cannot_be_judged_has_no_vote() {
    let mut world = World::running(Config::default(), &["n1", "n2"]);
    world.change("n2", |facts| facts.ready.status = ReadyStatus::Unknown);
    assert!(!world.monitor.summary().everything_down, "n1 votes ready");
    world.answers = Answers::Fails;
    world.pass(51.0);
    assert!(world.monitor.summary().everything_down, "only n2 votes");
    world.renew("n1");
    assert!(!world.monitor.summary().everything_down);
}

/// NL-057: what fails after the node spoke was asked about a silence that is over.
#[test]
fn who_spoke_since_it_was_asked_about_keeps_its_vote() {
    for read_fails in [true, false] {
        let mut world = World::running(Config::default(), &["n1", "n2"]);
        world.change("n2", |facts| facts.ready.status = ReadyStatus::Unknown);
        world.answers = Answers::Later;
        world.pass(50.1);
        if !read_fails {
            world.answer_pending();
        }
        let request = world.pending.pop().expect("it was asked for");
        assert_eq!(matches!(request, Pending::Read(..)), read_fails, "{request:?}");
        world.renew("n1");
        world.answers = Answers::Fails;
        world.answer(request);
        assert!(!world.monitor.summary().everything_down, "n1 votes ready");
        world.answers = Answers::AtOnce;
        world.pass(50.1);
        assert_eq!(world.verdict("n1"), "unreachable", "it is watched as before");
    }
}

/// NL-057: that nothing can be said ends with the verdict, whoever comes to it.
#[test]
fn who_was_judged_while_it_was_asked_about_keeps_its_vote() {
    let mut world = World::running(Config::default(), &["n1", "n2"]);
    world.answers = Answers::Later;
    world.pass_alive(50.1, &["n2"]);
    let request = world.pending.pop().expect("a read was asked for");
    world.change("n1", |facts| facts.ready.status = ReadyStatus::Unknown);
    world.answers = Answers::Fails;
    world.answer(request);
    assert!(!world.monitor.summary().everything_down, "n2 votes ready");
    world.delete("n2");
    assert!(world.monitor.summary().everything_down, "n1 votes not ready");
}

/// NL-056: a node that the read does not find is left alone until the watch says so too.
#[test]
fn a_node_that_is_gone_is_not_written() {
    let mut world = World::running(Config::default(), &["n1"]);
    world.pass(45.0);
    world.watch_stalled = true;
    world.delete("n1");
    world.pass(20.0);
    let story = world.story();
    assert!(!story.iter().any(|line| line.contains("write")), "{story:?}");
    world.give(Input::NodeDeleted {
        name: "n1".into(),
        uid: "u1".into(),
    });
    check(&mut world, &["65 event RemovingNode n1 u1", "65 retract n1"]);
}

/// A write whose answer was lost is found done by the next read; the event is emitted all the same, once.
#[test]
fn a_write_whose_answer_was_lost_is_still_told() {
    let mut world = World::running(Config::default(), &["n1"]);
    world.answers = Answers::StoresInSilence;
    world.pass(55.0);
    let story = world.story();
    assert_eq!(
        story.iter().filter(|line| line.contains("NodeNotReady")).count(),
        1,
        "{story:?}"
    );
    assert_eq!(story.iter().filter(|line| line.contains("write")).count(), 1, "{story:?}");
    assert_eq!(world.verdict("n1"), "unreachable");
}

/// NL-086: who spoke after a write whose end is not known is not told of as if that had succeeded, should others write the same.
#[test]
fn what_others_write_after_a_failed_write_and_a_sign_of_life_is_theirs() {
    let mut world = World::running(Config::default(), &["n1"]);
    world.answers = Answers::FailsWrites;
    world.pass(50.1);
    world.renew("n1");
    world.story();
    world.change("n1", |facts| facts.ready.status = ReadyStatus::Unknown);
    check(&mut world, &["50.1 n1 unreachable"]);
}

/// 429 with Retry-After.
#[test]
fn the_server_may_ask_for_a_longer_pause() {
    let mut world = World::running(Config::default(), &["n1"]);
    world.answers = Answers::Later;
    world.pass(50.1);
    let Some(Pending::Read(asked, by, nodes)) = world.pending.pop() else {
        panic!("a read was asked for")
    };
    let read = Read::Failed {
        retry_after: Some(Duration::from_secs(20)),
        load: Load::Overloaded,
        detail: "429".into(),
    };
    world.give(Input::Confirmed {
        asked,
        by,
        answers: vec![(nodes[0].clone(), read)],
    });
    world.pass(19.9);
    assert!(world.pending.is_empty());
    world.pass(0.2);
    assert_eq!(world.pending.len(), 1);
}

/// A failing API does not keep a node late that speaks.
#[test]
fn a_sign_of_life_ends_the_retries() {
    let mut world = World::running(Config::default(), &["n1"]);
    world.answers = Answers::Fails;
    world.pass(60.0);
    world.renew("n1");
    world.story();
    world.pass(37.4);
    check(&mut world, &[]);
    assert_eq!(world.verdict("n1"), "healthy");
}

/// A node that was to be read again, and lives, is watched again: it may fall silent.
#[test]
fn who_lives_while_it_waits_for_a_read_is_watched_again() {
    let others: Vec<String> = (0..11).map(|nth| format!("other{nth:02}")).collect();
    let mut nodes: Vec<&str> = others.iter().map(String::as_str).collect();
    nodes.extend(["alive", "n1"]);
    let mut world = World::running(Config::default(), &nodes);
    world.answers = Answers::Later;
    world.pass_alive(10.0, &["alive"]);
    for node in &others {
        world.renew(node);
    }
    world.pass_alive(41.0, &["alive"]);
    world.answer_pending();
    let is_write = |pending: &Pending| matches!(pending, Pending::Write(_));
    let write = world.pending.iter().position(is_write).expect("n1 is being written");
    let write = world.pending.remove(write);
    // As many reads as there may be are under way when the write fails, because its kubelet was first.
    world.pass_alive(10.0, &["alive"]);
    assert_eq!(world.pending.len(), 8);
    world.post("n1", ReadyStatus::True);
    world.answer(write);
    world.renew("n1");
    let last = world.elapsed();
    world.writes.clear();
    world.answers = Answers::AtOnce;
    world.answer_pending();
    world.pass_alive(60.0, &["alive"]);
    let judged = world.writes.iter().find(|(node, _)| node.as_str() == "n1");
    assert_eq!(judged.map(|(_, at)| at.round()), Some(last + 50.0));
}
