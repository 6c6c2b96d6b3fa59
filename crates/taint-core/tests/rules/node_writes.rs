//! When nodes are patched, and when again.

use std::time::Duration;

use bailiff_model::{Load, ReadyStatus};
use bailiff_taint_core::{Answer, Config, Input, NodeFacts, Profile, Reading};

use crate::harness::{FAILED, Harness, at_version, done, mk_node, mk_ready, recreated};

fn mk(name: &str, status: ReadyStatus, version: &str) -> NodeFacts {
    let facts = NodeFacts {
        ready: mk_ready(status),
        ..mk_node(name, &[])
    };
    at_version(facts, version)
}

fn patched(h: &mut Harness, name: &str, answer: Answer) {
    h.apply(Input::NodePatched {
        name: name.into(),
        answer,
    });
}

/// The node as the last patch made it.
fn written(h: &Harness, status: ReadyStatus, version: &str) -> NodeFacts {
    let patch = h.patches.last().expect("patched");
    NodeFacts {
        taints: patch.taints.clone().expect("taints were wrong"),
        ..mk("n1", status, version)
    }
}

/// NL-110, NL-151: a change costs one write, a heartbeat none
#[test]
fn a_change_is_written_once() {
    let mut h = Harness::begun(Profile::Bailiff, vec![mk("n1", ReadyStatus::True, "1")], Vec::new());
    h.node(mk("n1", ReadyStatus::True, "2"));
    assert_eq!(h.patches.len(), 0);
    h.node(mk("n1", ReadyStatus::False, "3"));
    assert_eq!(h.patches.len(), 1);
    assert_eq!(h.patches[0].node.resource_version.to_string(), "3");
    h.node(mk("n1", ReadyStatus::False, "4"));
    patched(&mut h, "n1", done("6"));
    h.node(mk("n1", ReadyStatus::False, "5"));
    assert_eq!(h.patches.len(), 1, "what the watch shows is older than what was written");
    h.node(written(&h, ReadyStatus::False, "6"));
    h.node(written(&h, ReadyStatus::False, "7"));
    h.at(100);
    assert_eq!((h.patches.len(), h.manager.stats().node_writes), (1, 0));
}

/// NL-112: what changed while a write was under way is written after it
#[test]
fn a_change_during_a_write_is_not_lost() {
    let mut h = Harness::begun(Profile::Bailiff, vec![mk("n1", ReadyStatus::False, "1")], Vec::new());
    let first = written(&h, ReadyStatus::Unknown, "3");
    h.node(mk("n1", ReadyStatus::Unknown, "2"));
    patched(&mut h, "n1", done("3"));
    h.node(first);
    assert_eq!(h.patches.len(), 2);
    let keys: Vec<_> = h.patches[1]
        .taints
        .iter()
        .flatten()
        .map(|taint| taint.key.to_string())
        .collect();
    assert_eq!(keys, ["node.kubernetes.io/unreachable"]);
}

/// NL-115, NL-122 and the difference: a failed write is tried again, from a fresh read, though no event comes
#[test]
fn a_failed_write_is_tried_again() {
    let mut h = Harness::begun(Profile::Bailiff, vec![mk("n1", ReadyStatus::False, "1")], Vec::new());
    patched(&mut h, "n1", FAILED);
    h.node(mk("n1", ReadyStatus::False, "2"));
    assert_eq!((h.patches.len(), h.reads.len()), (1, 0), "not before its time");
    h.at(1);
    assert_eq!(h.reads, ["node/n1"]);
    let read = |reading| Input::NodeRead {
        name: "n1".into(),
        reading,
    };
    h.apply(read(Reading::Failed {
        retry_after: Some(Duration::from_secs(9)),
        load: Load::Overloaded,
    }));
    h.at(9);
    assert_eq!(h.reads.len(), 1, "the server asked for a pause");
    h.at(11);
    assert_eq!(h.reads.len(), 2);
    h.apply(read(Reading::Found(mk("n1", ReadyStatus::False, "8"))));
    assert_eq!(h.patches[1].node.resource_version.to_string(), "8");
    patched(&mut h, "n1", done("9"));
    h.node(written(&h, ReadyStatus::False, "9"));
    assert_eq!(
        (
            h.patches.len(),
            h.manager.stats().node_writes,
            h.manager.stats().failed_writes
        ),
        (2, 0, 2)
    );
}

/// What a read shows to be right is not written
#[test]
fn a_read_can_end_it() {
    let answers = [Reading::Found(mk("n1", ReadyStatus::True, "5")), Reading::Gone];
    for reading in answers {
        let mut h = Harness::begun(Profile::Bailiff, vec![mk("n1", ReadyStatus::False, "1")], Vec::new());
        patched(&mut h, "n1", FAILED);
        h.at(1).apply(Input::NodeRead {
            name: "n1".into(),
            reading,
        });
        h.at(100);
        assert_eq!((h.patches.len(), h.reads.len(), h.manager.stats().node_writes), (1, 1, 0));
    }
}

/// NL-110, NL-113: what the watch shows while a read is under way is not lost if the read is older and shows nothing wrong
#[test]
fn a_change_during_a_read_is_not_lost() {
    for (version, patches) in [("4", 1), ("6", 2)] {
        let mut h = Harness::begun(Profile::Bailiff, vec![mk("n1", ReadyStatus::False, "1")], Vec::new());
        patched(&mut h, "n1", FAILED);
        h.at(1);
        assert_eq!(h.reads, ["node/n1"]);
        h.node(mk("n1", ReadyStatus::Unknown, version));
        h.apply(Input::NodeRead {
            name: "n1".into(),
            reading: Reading::Found(mk("n1", ReadyStatus::True, "5")),
        });
        h.at(100);
        assert_eq!(h.patches.len(), patches, "version {version}");
    }
}

/// NL-035, NL-110: a Node that took the name while the other one was written, or read, is written
#[test]
fn a_node_that_takes_the_name_during_a_write_is_written() {
    for reads in [false, true] {
        let mut h = Harness::begun(Profile::Bailiff, vec![mk("n1", ReadyStatus::False, "1")], Vec::new());
        if reads {
            patched(&mut h, "n1", FAILED);
            h.at(1);
        }
        h.apply(Input::NodeGone {
            name: "n1".into(),
            uid: "n1-1".into(),
        });
        h.node(recreated(mk("n1", ReadyStatus::False, "3")));
        if reads {
            h.apply(Input::NodeRead {
                name: "n1".into(),
                reading: Reading::Gone,
            });
        } else {
            patched(&mut h, "n1", Answer::Gone);
        }
        let uids: Vec<_> = h.patches.iter().map(|patch| patch.node.uid.to_string()).collect();
        assert_eq!(uids, ["n1-1", "n1-2"], "reads: {reads}");
    }
}

/// A watch that never shows a write does not block the node for ever
#[test]
fn a_write_that_the_watch_does_not_show_is_looked_at_again() {
    let mut h = Harness::begun(Profile::Bailiff, vec![mk("n1", ReadyStatus::False, "1")], Vec::new());
    patched(&mut h, "n1", done("2"));
    h.at(9);
    assert_eq!(h.patches.len(), 1);
    h.at(11);
    assert_eq!(h.patches.len(), 2);
    patched(&mut h, "n1", done("3"));
    h.apply(Input::Nodes(vec![mk("n1", ReadyStatus::True, "9")].into()));
    assert_eq!(
        h.manager.stats().node_writes,
        0,
        "a list is newer than what was written before it"
    );
}

/// NL-110: no more than eight at a time
#[test]
fn node_writes_under_way_are_bounded() {
    let nodes: Vec<NodeFacts> = (0..100)
        .map(|index| mk(&format!("n{index:03}"), ReadyStatus::False, "1"))
        .collect();
    let mut h = Harness::begun(Profile::Bailiff, nodes, Vec::new());
    assert_eq!(h.patches.len(), Config::default().node_writes);
    for index in 0..100 {
        let name = h.patches[index].node.name.to_string();
        patched(&mut h, &name, done("2"));
    }
    assert_eq!(h.patches.len(), 100);
}

/// A node that is gone is not written
#[test]
fn a_gone_node_is_left_alone() {
    let mut h = Harness::begun(Profile::Bailiff, vec![mk("n1", ReadyStatus::False, "1")], Vec::new());
    patched(&mut h, "n1", FAILED);
    h.apply(Input::NodeGone {
        name: "n1".into(),
        uid: "n1-1".into(),
    });
    h.at(100);
    assert_eq!((h.patches.len(), h.reads.len(), h.manager.stats().node_writes), (1, 0, 0));
}
