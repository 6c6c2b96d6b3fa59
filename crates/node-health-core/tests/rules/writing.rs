//! What is written, and what becomes of the write.

use bailiff_model::{NodeUid, ReadyStatus, ResourceVersion, wellknown};
use bailiff_node_health_core::{ConditionWrite, Config, Input, Pressures, WriteOutcome};
use jiff::SignedDuration;

use crate::support::{Answers, Pending, World, check, epoch, secs};

/// Reason and message.
type Text = (&'static str, &'static str);

/// Type of a condition, with its text.
type Written = (&'static str, Text);

/// Of Ready, MemoryPressure, DiskPressure, PIDPressure.
type Statuses = [ReadyStatus; 4];

const NEVER: Text = ("NodeStatusNeverUpdated", "Kubelet never posted node status.");
const STOPPED: Text = ("NodeStatusUnknown", "Kubelet stopped posting node status.");

/// NL-053, NL-054, NL-066
#[test]
fn conditions_become_unknown_each_in_its_own_way() {
    use ReadyStatus::{Absent, False, True, Unknown};
    let [ready, memory, disk, pid] = [
        wellknown::CONDITION_READY,
        wellknown::CONDITION_MEMORY_PRESSURE,
        wellknown::CONDITION_DISK_PRESSURE,
        wellknown::CONDITION_PID_PRESSURE,
    ];
    let cases: [(Statuses, &[Written]); 4] = [
        (
            [True, False, False, False],
            &[(ready, STOPPED), (memory, STOPPED), (disk, STOPPED), (pid, STOPPED)],
        ),
        (
            [False, Absent, Unknown, True],
            &[(ready, STOPPED), (memory, NEVER), (pid, STOPPED)],
        ),
        (
            [Absent, Absent, Absent, Absent],
            &[(ready, NEVER), (memory, NEVER), (disk, NEVER), (pid, NEVER)],
        ),
        ([Absent, False, Unknown, Unknown], &[(ready, NEVER), (memory, STOPPED)]),
    ];
    for (statuses, wanted) in cases {
        let mut world = World::new(Config::default(), &[]);
        world.put_node("n1", "u1", statuses[0]);
        let facts = world.nodes.get_mut("n1").unwrap();
        facts.pressures = Pressures {
            memory: statuses[1],
            disk: statuses[2],
            pid: statuses[3],
        };
        world.now.wall = epoch() + SignedDuration::from_millis(700);
        world.start();
        world.answers = Answers::Later;
        world.pass(61.0);
        world.answer_pending();
        let [Pending::Write(write)] = world.pending.as_slice() else {
            panic!("{:?}", world.pending)
        };
        let since = epoch() + SignedDuration::from_secs(61);
        let wanted: Vec<ConditionWrite> = wanted
            .iter()
            .map(|&(kind, text)| ConditionWrite {
                kind,
                reason: text.0,
                message: text.1,
                heartbeat: (text == NEVER).then_some(epoch()),
                since,
            })
            .collect();
        assert_eq!(write.conditions, wanted, "{statuses:?}");
        let facts = &world.nodes["n1"];
        assert_eq!(
            (&write.node.uid, &write.node.resource_version),
            (&facts.uid, &facts.resource_version)
        );
    }
}

/// NL-054: Unknown in the API when the monitor starts stands for a verdict; nothing is written, not even pressures.
#[test]
fn ready_already_unknown_is_unreachable_without_a_write() {
    let mut world = World::new(Config::default(), &[]);
    world.put_node("n1", "u1", ReadyStatus::Unknown);
    world.start();
    world.pass(300.0);
    check(
        &mut world,
        &["0 event RegisteredNode n1 u1", "0 n1 unreachable", "0 complete"],
    );
}

/// NL-086
#[test]
fn only_a_node_that_was_ready_is_told_not_ready() {
    for (status, told) in [
        (ReadyStatus::True, true),
        (ReadyStatus::False, false),
        (ReadyStatus::Absent, false),
    ] {
        let mut world = World::new(Config::default(), &[]);
        world.put_node("n1", "u1", status);
        world.start();
        world.pass(61.0);
        let story = world.story();
        assert_eq!(world.verdict("n1"), "unreachable");
        assert_eq!(story.iter().any(|line| line.contains("NodeNotReady")), told, "{story:?}");
    }
}

/// NL-055, NL-056: the post that came between read and write is not overwritten, and saves the node.
#[test]
fn a_post_between_read_and_write_wins() {
    let mut world = World::running(Config::default(), &["n1"]);
    world.answers = Answers::Later;
    world.pass(50.1);
    world.answer_pending();
    assert!(matches!(world.pending.as_slice(), [Pending::Write(_)]));
    world.watch_stalled = true;
    world.post("n1", ReadyStatus::True);
    world.answers = Answers::AtOnce;
    world.answer_pending();
    assert_eq!(world.verdict("n1"), "healthy");
    assert_eq!(world.ready("n1"), ReadyStatus::True);
}

/// NL-056: a conflict that was not a sign of life does not start the grace again.
#[test]
fn a_conflict_with_anybody_else_is_tried_again_at_once() {
    let mut world = World::running(Config::default(), &["n1"]);
    world.answers = Answers::Later;
    world.pass(50.1);
    world.answer_pending();
    world.watch_stalled = true;
    world.change("n1", |facts| facts.excluded = true);
    world.answers = Answers::AtOnce;
    world.answer_pending();
    assert_eq!(world.verdict("n1"), "unreachable");
    assert_eq!(world.elapsed(), 50.1);
}

/// NL-150: nodes are judged each for itself: one whose write hangs, or fails, or that is gone, delays nobody.
#[test]
fn one_nodes_trouble_is_not_anothers() {
    let mut world = World::running(Config::default(), &["n1", "n2", "n3", "n4"]);
    world.answers = Answers::Later;
    world.pass(50.1);
    world.answer_pending();
    world.nodes.remove("n4");
    let pending = std::mem::take(&mut world.pending);
    assert!(
        pending.iter().all(|request| matches!(request, Pending::Write(_))),
        "{pending:?}"
    );
    for request in pending {
        let Pending::Write(write) = &request else { continue };
        match write.node.name.as_str() {
            "n1" => {}
            "n2" => {
                world.answers = Answers::FailsWrites;
                world.answer(request);
                world.answers = Answers::Later;
            }
            _ => world.answer(request),
        }
    }
    let verdicts = ["n1", "n2", "n3"].map(|node| world.verdict(node));
    assert_eq!(verdicts, ["late", "late", "unreachable"]);
}

/// NL-056, NL-057: conflicts without end are no busy loop.
#[test]
fn conflicts_without_end_back_off() {
    let mut world = World::running(Config::default(), &["n1"]);
    world.answers = Answers::Later;
    world.pass(50.1);
    let mut requests = 0;
    for _ in 0..600 {
        for request in std::mem::take(&mut world.pending) {
            requests += 1;
            if matches!(request, Pending::Write(_)) {
                world.watch_stalled = true;
                world.change("n1", |_| {});
            }
            world.answer(request);
        }
        world.pass(0.1);
    }
    assert!((20..60).contains(&requests), "{requests} in a minute");
    assert_eq!(world.ready("n1"), ReadyStatus::True);
}

/// The echo of a write is not news.
#[test]
fn the_echo_of_a_write_changes_nothing() {
    for status in [ReadyStatus::True, ReadyStatus::Absent] {
        let mut world = World::new(Config::default(), &[]);
        world.put_node("n1", "u1", status);
        world.start();
        world.pass(61.0);
        assert_eq!(world.verdict("n1"), "unreachable");
        world.published();
        let facts = world.nodes["n1"].clone();
        world.give(Input::NodeApplied(facts));
        assert_eq!(world.published(), 0);
        world.pass(600.0);
        assert_eq!(world.published(), 0, "it was no sign of life either");
    }
}

/// The watch may bring the condition before the write's own answer: one verdict, one event.
#[test]
fn the_echo_may_come_before_the_answer() {
    let mut world = World::running(Config::default(), &["n1"]);
    world.answers = Answers::Later;
    world.pass(50.1);
    world.answer_pending();
    let Some(Pending::Write(write)) = world.pending.pop() else {
        panic!("a write was asked for")
    };
    world.story();
    world.change("n1", |facts| {
        facts.ready.status = ReadyStatus::Unknown;
        facts.ready.reason = "NodeStatusUnknown".into();
        facts.ready.since = Some(write.conditions[0].since);
        facts.pressures = Pressures {
            memory: ReadyStatus::Unknown,
            disk: ReadyStatus::Unknown,
            pid: ReadyStatus::Unknown,
        };
    });
    let stored = world.nodes["n1"].resource_version.clone();
    world.give(Input::Written {
        node: write.node,
        outcome: WriteOutcome::Stored(stored),
    });
    check(&mut world, &["50.1 event NodeNotReady n1 u1", "50.1 n1 unreachable"]);
}

/// The answer may come after all that was written since: what it stood for is over.
#[test]
fn an_answer_that_comes_late_does_not_take_back_what_was_posted_since() {
    let mut world = World::running(Config::default(), &["n1"]);
    world.answers = Answers::Later;
    world.pass(50.1);
    world.answer_pending();
    let Some(Pending::Write(write)) = world.pending.pop() else {
        panic!("a write was asked for")
    };
    let outcome = world.store(&write);
    world.watch_stalled = true;
    world.post("n1", ReadyStatus::True);
    world.watch_stalled = false;
    world.list();
    world.story();
    let node = write.node;
    world.give(Input::Written { node, outcome });
    check(&mut world, &[]);
    assert_eq!(world.verdict("n1"), "healthy");
    world.answers = Answers::AtOnce;
    world.pass(50.1);
    assert_eq!(world.verdict("n1"), "unreachable", "it is watched as before");
}

/// What became of one write is not taken for another's.
#[test]
fn an_answer_to_a_write_of_another_node_is_ignored() {
    let mut world = World::running(Config::default(), &["n1"]);
    world.answers = Answers::Later;
    world.pass(50.1);
    world.answer_pending();
    let Some(Pending::Write(mut write)) = world.pending.pop() else {
        panic!("a write was asked for")
    };
    write.node.uid = NodeUid::from("other");
    world.give(Input::Written {
        node: write.node,
        outcome: WriteOutcome::Stored(ResourceVersion::from("9999")),
    });
    assert_eq!(world.verdict("n1"), "late");
}

/// A verdict that waited for its turn to be written is read again: its lease may have been renewed since.
#[test]
fn a_verdict_that_waited_longer_than_a_period_is_read_again() {
    let names: Vec<String> = (0..40).map(|n| format!("n{n:02}")).collect();
    let nodes: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut world = World::running(Config::default(), &nodes);
    world.answers = Answers::Later;
    world.pass(50.1);
    world.answer_pending();
    assert_eq!(world.pending.len(), 16, "writes are bounded");
    world.pass(10.0);
    world.watch_stalled = true;
    for node in &nodes[16..] {
        world.renew(node);
    }
    world.watch_stalled = false;
    world.answers = Answers::AtOnce;
    world.answer_pending();
    for node in &nodes[16..] {
        assert_eq!(world.ready(node), ReadyStatus::True, "{node}");
    }
    assert_eq!(world.record("n00").grace, secs(50.0));
}
