//! Lists that come in parts, as shells give them.

use bailiff_model::{Listed, NodeName, ReadyStatus, Zone};
use bailiff_node_health_core::{Config, Input, LeaseFacts, NodeFacts};

use crate::support::{Answers, World, check};

impl World {
    /// Lists all nodes and leases. Of each a list breaks off before, and the whole comes in parts.
    pub fn list(&mut self) {
        let mut nodes: Vec<NodeFacts> = self.nodes.values().cloned().collect();
        let mut leases: Vec<LeaseFacts> = self.leases.values().cloned().collect();
        for middle in [nodes.len().min(1), nodes.len() / 2] {
            let nodes = nodes[..middle].to_vec();
            self.give(Input::SomeNodes { first: true, nodes });
        }
        self.give(Input::Nodes(nodes.split_off(nodes.len() / 2).into()));
        for middle in [leases.len().min(1), leases.len() / 2] {
            let leases = leases[..middle].to_vec();
            self.give(Input::SomeLeases { first: true, leases });
        }
        self.give(Input::Leases(leases.split_off(leases.len() / 2).into()));
    }

    fn nodes_of(&self, names: &[&str]) -> Vec<NodeFacts> {
        names.iter().map(|name| self.nodes[*name].clone()).collect()
    }

    fn leases_of(&self, names: &[&str]) -> Vec<LeaseFacts> {
        names.iter().map(|name| self.leases[*name].clone()).collect()
    }

    /// What the record of a node says as it is now, for which something else about it has to change.
    fn has_lease(&mut self, node: &str) -> bool {
        self.change(node, |facts| facts.zone = Zone::new(&facts.zone.region, "another"));
        let sign = self.record(node).last_sign_of_life;
        sign.is_some_and(|sign| sign.renew_time.is_some())
    }
}

/// NL-037: what is gone shows in the end only; what is there but unreadable is not gone.
#[test]
fn a_node_in_no_part_is_gone_unless_it_is_unreadable() {
    for (unreadable, wanted) in [(None, &["0 event RemovingNode n2 u1", "0 retract n2"][..]), (Some("n2"), &[])] {
        let mut world = World::running(Config::default(), &["n1", "n2", "n3", "n4"]);
        // One that broke off, while it was still there.
        let nodes = world.nodes_of(&["n1", "n2"]);
        world.give(Input::SomeNodes { first: true, nodes });
        for (first, name) in [(true, "n1"), (false, "n3")] {
            let nodes = world.nodes_of(&[name]);
            world.give(Input::SomeNodes { first, nodes });
        }
        check(&mut world, &[]);
        world.give(Input::Nodes(Listed {
            all: world.nodes_of(&["n4"]),
            unreadable: unreadable.map(NodeName::from).into_iter().collect(),
        }));
        check(&mut world, wanted);
    }
}

/// The same of leases, of which a node's record tells the last renewal as long as there is one.
#[test]
fn a_lease_in_no_part_is_gone_unless_it_is_unreadable() {
    let names = ["n1", "n2", "n3", "n4"];
    let mut world = World::running(Config::default(), &names);
    world.pass_alive(10.0, &names);
    let leases = world.leases_of(&["n1", "n2"]);
    world.give(Input::SomeLeases { first: true, leases });
    for (first, name) in [(true, "n1"), (false, "n3")] {
        let leases = world.leases_of(&[name]);
        world.give(Input::SomeLeases { first, leases });
    }
    world.give(Input::Leases(Listed {
        all: Vec::new(),
        unreadable: vec!["n4".into()],
    }));
    assert_eq!(names.map(|name| world.has_lease(name)), [true, false, true, true]);
}

/// What a list that broke off has shown, and the next does not, is gone: also before anything begins.
#[test]
fn what_only_a_broken_list_showed_is_gone() {
    let mut world = World::new(Config::default(), &["n1", "n2"]);
    let (nodes, leases) = (world.nodes_of(&["n1", "n2"]), world.leases_of(&["n1", "n2"]));
    world.give(Input::SomeNodes { first: true, nodes });
    world.give(Input::SomeLeases { first: true, leases });
    world.nodes.remove("n2");
    world.leases.remove("n2");
    world.start();
    assert_eq!(world.monitor.summary().nodes, 1);
    check(&mut world, &["0 event RegisteredNode n1 u1", "0 n1 healthy", "0 complete"]);
}

/// A lease without a Node that no part shows is gone: it is not the lease of a Node that comes later.
#[test]
fn a_lease_without_a_node_is_gone_with_the_list() {
    for listed in [true, false] {
        let mut world = World::running(Config::default(), &["n1"]);
        world.put_lease("n2");
        world.give(Input::LeaseApplied(world.leases["n2"].clone()));
        let leases = world.leases_of(&["n1"]);
        world.give(Input::SomeLeases { first: true, leases });
        let rest = if listed { world.leases_of(&["n2"]) } else { Vec::new() };
        world.give(Input::Leases(rest.into()));
        world.create("n2", "u1", ReadyStatus::True);
        world.pass(1.0);
        world.give(Input::LeaseApplied(world.leases["n2"].clone()));
        assert_eq!(
            world.has_lease("n2"),
            !listed,
            "the same again is a sign of life only if it is new"
        );
    }
}

/// A list that comes in parts takes its time: what was read or written of a node since it began is newer than what it says. That is so of
/// this list only.
#[test]
fn a_list_does_not_take_back_what_came_after_it_began() {
    for in_the_end in [false, true] {
        let mut world = World::running(Config::default(), &["n1", "n2"]);
        let (n1, n2) = (world.nodes_of(&["n1"]), world.nodes_of(&["n2"]));
        world.give(Input::SomeNodes {
            first: true,
            nodes: n2.clone(),
        });
        world.pass_alive(51.0, &["n2"]);
        assert_eq!(world.verdict("n1"), "unreachable");
        world.story();
        if in_the_end {
            world.give(Input::Nodes(n1.clone().into()));
        } else {
            let nodes = n1.clone();
            world.give(Input::SomeNodes { first: false, nodes });
            world.give(Input::Nodes(Vec::new().into()));
        }
        check(&mut world, &[]);
        world.answers = Answers::Later;
        world.give(Input::Nodes([n1, n2].concat().into()));
        assert_eq!(world.verdict("n1"), "late", "the next list is believed");
    }
}

/// A list is made before it arrives: one that arrives while a node is written, and is older than what was read before, does not say what
/// is stored then.
#[test]
fn what_is_stored_is_not_told_of_an_older_state() {
    let mut world = World::running(Config::default(), &["n1", "n2"]);
    let before = world.nodes_of(&["n1", "n2"]);
    world.watch_stalled = true;
    world.change("n1", |facts| facts.excluded = true);
    world.watch_stalled = false;
    world.pass_alive(49.0, &["n2"]);
    world.answers = Answers::Later;
    world.pass_alive(2.0, &["n2"]);
    world.answer_pending();
    world.story();
    world.give(Input::Nodes(before.into()));
    world.watch_stalled = true;
    world.answer_pending();
    check(&mut world, &["51 n1 late"]);
    assert_ne!(world.record("n1").node.resource_version, world.nodes["n1"].resource_version);
    world.answers = Answers::AtOnce;
    world.pass_alive(1.0, &["n2"]);
    check(&mut world, &["51 get n1", "51 event NodeNotReady n1 u1", "51 n1 unreachable"]);
    assert!(world.record("n1").excluded_from_disruption);
}

/// NL-096: who is ready may be in the rest of a list, so amid one nothing is said of all nodes.
#[test]
fn not_everything_is_down_before_a_list_ends() {
    for is_ready in [true, false] {
        let mut world = World::running(Config::default(), &["n1"]);
        let known = world.nodes["n1"].clone();
        let mut failed = known.clone();
        failed.ready.status = ReadyStatus::False;
        world.give(Input::SomeNodes {
            first: true,
            nodes: vec![failed],
        });
        assert!(!world.monitor.summary().everything_down);
        let mut joined = NodeFacts {
            name: "n2".into(),
            uid: "u2".into(),
            ..known
        };
        if !is_ready {
            joined.ready.status = ReadyStatus::False;
        }
        world.give(Input::Nodes(vec![joined].into()));
        assert_eq!(world.monitor.summary().everything_down, !is_ready);
    }
}
