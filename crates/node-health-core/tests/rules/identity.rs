//! Nodes come and go; identity is the uid.

use bailiff_model::{Listed, ReadyStatus, Zone};
use bailiff_node_health_core::{Config, EventKind, Input, NodeEvent};

use crate::support::{Answers, Pending, World, check, name};

/// NL-031, NL-032, NL-034
#[test]
fn nodes_are_announced_when_they_come_and_go() {
    let mut world = World::new(Config::default(), &["n1"]);
    world.start();
    world.create("n2", "u2", ReadyStatus::True);
    world.delete("n1");
    check(
        &mut world,
        &[
            "0 event RegisteredNode n1 u1",
            "0 n1 healthy",
            "0 complete",
            "0 event RegisteredNode n2 u2",
            "0 n2 healthy",
            "0 event RemovingNode n1 u1",
            "0 retract n1",
        ],
    );
}

/// NL-130
#[test]
fn events_say_what_upstream_says() {
    let node = bailiff_model::NodeRef {
        name: "n1".into(),
        ..Default::default()
    };
    for (kind, reason, message) in [
        (
            EventKind::RegisteredNode,
            "RegisteredNode",
            "Node n1 event: Registered Node n1 in Controller",
        ),
        (
            EventKind::RemovingNode,
            "RemovingNode",
            "Node n1 event: Removing Node n1 from Controller",
        ),
        (EventKind::NodeNotReady, "NodeNotReady", "Node n1 status is now: NodeNotReady"),
    ] {
        let event = NodeEvent {
            node: node.clone(),
            kind,
            trace: None,
        };
        assert_eq!((kind.reason(), event.message().as_str()), (reason, message));
    }
}

/// NL-035, NL-036: design §10: a re-created node inherits nothing, whether or not its deletion was seen.
#[test]
fn another_node_of_the_same_name_inherits_nothing() {
    for deletion_seen in [true, false] {
        let mut world = World::running(Config::default(), &["n1"]);
        world.pass(51.0);
        world.story();
        if deletion_seen {
            world.delete("n1");
        }
        world.create("n1", "u2", ReadyStatus::Absent);
        let story = world.story();
        assert_eq!(story.first().map(String::as_str), Some("51 event RemovingNode n1 u1"));
        assert_eq!(story.last().map(String::as_str), Some("51 n1 no_status"));
        world.pass(59.0);
        assert_eq!(world.verdict("n1"), "no_status", "it has a startup grace of its own");
        assert_eq!(world.record("n1").node.uid.to_string(), "u2");
    }
}

#[test]
fn what_is_under_way_for_the_old_node_does_not_touch_the_new_one() {
    let mut world = World::running(Config::default(), &["n1"]);
    world.answers = Answers::Later;
    world.pass(50.1);
    world.create("n1", "u2", ReadyStatus::True);
    world.answer_pending();
    assert!(world.pending.is_empty());
    assert_eq!(world.verdict("n1"), "healthy");

    // The same between read and write: the uid is a precondition.
    world.pass(50.1);
    world.answer_pending();
    world.watch_stalled = true;
    world.create("n1", "u3", ReadyStatus::True);
    world.answers = Answers::AtOnce;
    world.answer_pending();
    assert_eq!(world.ready("n1"), ReadyStatus::True);
    assert_eq!(
        world.record("n1").node.uid.to_string(),
        "u3",
        "the read after the conflict found it"
    );
}

/// NL-036: the watch may be behind a read that found the next node of that name.
#[test]
fn what_is_told_late_of_an_earlier_uid_is_ignored() {
    let mut world = World::running(Config::default(), &["n1"]);
    world.change("n1", |facts| facts.ready.status = ReadyStatus::False);
    let earlier = world.nodes["n1"].clone();
    world.create("n1", "u2", ReadyStatus::True);
    world.story();
    world.give(Input::NodeApplied(earlier));
    world.give(Input::NodeDeleted {
        name: "n1".into(),
        uid: "u1".into(),
    });
    check(&mut world, &[]);
}

/// A deletion of an earlier node of that name, told late.
#[test]
fn the_deletion_of_another_uid_is_ignored() {
    let mut world = World::running(Config::default(), &["n1"]);
    world.give(Input::NodeDeleted {
        name: "n1".into(),
        uid: "u0".into(),
    });
    check(&mut world, &[]);
}

/// NL-037: a repeated list says what is gone.
#[test]
fn a_list_removes_what_it_does_not_mention() {
    let mut world = World::running(Config::default(), &["n1", "n2", "n3"]);
    world.nodes.remove("n2");
    world.give(Input::Nodes(world.nodes.values().cloned().collect()));
    check(&mut world, &["0 event RemovingNode n2 u1", "0 retract n2"]);
}

/// One broken object must not look like a deleted node, nor like one without a lease.
#[test]
fn what_a_list_names_as_unreadable_stays_as_it_was() {
    let mut world = World::running(Config::default(), &["n1", "n2"]);
    let unreadable = vec!["n2".into()];
    let nodes = world.nodes.values().filter(|facts| facts.name.as_str() == "n1");
    world.give(Input::Nodes(Listed {
        all: nodes.cloned().collect(),
        unreadable: unreadable.clone(),
    }));
    let leases = world.leases.values().filter(|facts| facts.name.as_str() == "n1");
    world.give(Input::Leases(Listed {
        all: leases.cloned().collect(),
        unreadable,
    }));
    check(&mut world, &[]);
}

/// NL-020, NL-026, NL-091: what else a record says is republished when it changes.
#[test]
fn zone_exclusion_and_reason_are_published_when_they_change() {
    let mut world = World::running(Config::default(), &["n1"]);
    world.change("n1", |facts| facts.zone = Zone::new("r", "other"));
    assert_eq!((world.published(), &world.record("n1").zone), (1, &Zone::new("r", "other")));
    world.change("n1", |facts| facts.excluded = true);
    assert_eq!((world.published(), world.record("n1").excluded_from_disruption), (1, true));
    world.change("n1", |facts| facts.ready.reason = "Other".into());
    assert_eq!((world.published(), world.record("n1").ready.reason.as_str()), (1, "Other"));
    world.change("n1", |_| {});
    world.post("n1", ReadyStatus::True);
    assert_eq!(
        world.published(),
        1,
        "the reason again; neither heartbeats nor versions cross the bus"
    );
}

/// NL-007: what is missing is said; the own topic is waited for, but not for ever.
#[test]
fn nothing_happens_before_leadership_and_snapshots() {
    let mut world = World::new(Config::default(), &["n1"]);
    let (nodes, leases) = (
        world.nodes.values().cloned().collect(),
        world.leases.values().cloned().collect(),
    );
    assert_eq!(world.monitor.summary().waits_for, Some("leadership"));
    world.give(Input::Leading(true));
    assert_eq!(world.monitor.summary().waits_for, Some("the list of nodes"));
    world.give(Input::Nodes(nodes));
    assert_eq!(world.monitor.summary().waits_for, Some("the list of leases"));
    world.give(Input::Leases(leases));
    assert_eq!(world.monitor.summary().waits_for, Some("the records of its own topic"));
    check(&mut world, &[]);
    world.pass(10.0);
    assert_eq!(
        world.monitor.summary().waits_for,
        None,
        "a bus that does not answer is not waited for"
    );
    check(&mut world, &["10 event RegisteredNode n1 u1", "10 n1 healthy", "10 complete"]);
}

/// NL-041: the lease of a node that is gone was deleted while it was read. It is not the lease of the next node of that name, whose grace
/// is counted from its creation.
#[test]
fn a_lease_that_was_deleted_while_it_was_read_is_gone() {
    let mut world = World::running(Config::default(), &["n1", "n2"]);
    world.answers = Answers::Later;
    world.pass_alive(50.1, &["n2"]);
    let Some(Pending::Read(asked, by, nodes)) = world.pending.pop() else {
        panic!("it is read");
    };
    let answer = world.read_now(asked, by, nodes);
    world.leases.remove("n1");
    world.give(Input::LeaseDeleted(name("n1")));
    world.give(answer);
    world.answers = Answers::AtOnce;
    world.answer_pending();
    world.delete("n1");
    world.put_node("n1", "u2", ReadyStatus::Absent);
    world.pass_alive(30.0, &["n2"]);
    world.give(Input::NodeApplied(world.nodes["n1"].clone()));
    world.pass_alive(31.0, &["n2"]);
    assert_eq!(world.verdict("n1"), "unreachable");
}
