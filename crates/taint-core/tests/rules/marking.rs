//! Marking pods of silent nodes not ready.

mod held;

use bailiff_model::About;
use bailiff_model::ReadyStatus::{self, Absent, False, True, Unknown};
use bailiff_taint_core::{Answer, Component, Config, Input, NodeFacts, NodeReady, PodFacts, Profile, Reading, Severity};

use crate::harness::{FAILED, Harness, answer, done, mk_node, mk_pod, mk_pod_ready, mk_ready, wall};

fn mk(status: ReadyStatus) -> NodeFacts {
    NodeFacts {
        ready: mk_ready(status),
        ..mk_node("n1", &[])
    }
}

fn marked(h: &Harness) -> Vec<String> {
    h.marks.iter().map(|mark| mark.pod.uid.to_string()).collect()
}

/// NL-085, NL-086: only the controller's own flip from True marks
#[test]
fn only_a_node_that_fell_silent_while_ready_is_marked() {
    let by_hand = NodeFacts {
        ready: NodeReady {
            status: Unknown,
            stopped_posting: false,
            since: None,
        },
        ..mk_node("n1", &[])
    };
    let cases = [
        (vec![mk(True), mk(Unknown)], 1),
        (vec![mk(True), mk(False)], 0),
        (vec![mk(True), mk(False), mk(Unknown)], 0),
        (vec![mk(Absent), mk(Unknown)], 0),
        (vec![mk(True), by_hand], 0),
        (vec![mk(True), mk(Absent)], 0),
    ];
    for (states, wanted) in cases {
        let mut h = Harness::begun(Profile::Bailiff, vec![states[0].clone()], vec![mk_pod_ready("p", True)]);
        for state in &states[1..] {
            h.node(state.clone());
        }
        assert_eq!(h.marks.len(), wanted, "{states:?}");
    }
}

/// NL-085: a Node that was made and declared silent between two lists is one that fell silent, and so is one that came back.
#[test]
fn a_node_that_fell_silent_between_lists_is_marked() {
    let anew = |status| {
        let mut facts = mk(status);
        facts.node.uid = "another".into();
        facts
    };
    let by_hand = NodeFacts {
        ready: NodeReady {
            status: Unknown,
            stopped_posting: false,
            since: None,
        },
        ..anew(Unknown)
    };
    let cases = [
        (mk(Unknown), 1),
        (anew(Unknown), 1),
        (by_hand, 0),
        (anew(False), 0),
        (anew(True), 0),
        (mk(True), 0),
    ];
    for (listed, wanted) in cases {
        let mut h = Harness::begun(Profile::Bailiff, vec![mk(True)], vec![mk_pod_ready("p", True)]);
        h.apply(Input::Nodes(vec![listed.clone()].into()));
        assert_eq!(h.marks.len(), wanted, "{listed:?}");
    }
}

/// NL-087, NL-131
#[test]
fn a_pod_is_marked_once_and_said_to_be() {
    let pods = [("t", True), ("u", Unknown), ("f", False), ("a", Absent)].map(|(uid, ready)| mk_pod_ready(uid, ready));
    let mut h = Harness::begun(Profile::Bailiff, vec![mk(True)], pods.to_vec());
    h.at(3).node(mk(Unknown));
    assert_eq!(marked(&h), ["t", "u"]);
    assert_eq!(h.marks[0].since, h.now().wall);
    assert_eq!(h.events, [""; 0], "said when it is done");
    answer(&mut h, "t", done("2"));
    let event = h.all_events.first().expect("said").clone();
    assert_eq!(
        (event.component, event.severity),
        (Component::NodeController, Severity::Warning)
    );
    assert_eq!(
        (event.reason, &*event.message, &*event.pod.uid.to_string()),
        ("NodeNotReady", "Node is not ready", "t")
    );
    assert_eq!(
        event.about,
        About::node(&"n1".into()),
        "no verdict is known, and no taint marks pods"
    );
    h.pod(mk_pod_ready("t", False));
    h.node(mk(Unknown));
    h.pod(mk_pod_ready("t", True));
    assert_eq!(h.marks.len(), 2, "a pod that its kubelet sets ready again is left alone");
}

/// NL-088: what failed is tried again from a fresh read, while the node is not ready
#[test]
fn a_failed_mark_is_tried_again() {
    let mut h = Harness::begun(Profile::Bailiff, vec![mk(True)], vec![mk_pod_ready("p", True)]);
    h.node(mk(Unknown));
    answer(&mut h, "p", FAILED);
    assert_eq!(h.reads, [""; 0]);
    h.at(1);
    assert_eq!(h.reads, ["pod/p"]);
    let mut fresh = mk_pod_ready("p", True);
    fresh.pod.resource_version = "7".into();
    let read = |facts| Input::PodRead {
        uid: "p".into(),
        reading: Reading::Found(facts),
    };
    h.apply(read(fresh.clone()));
    assert_eq!(h.marks[1].pod.resource_version.to_string(), "7");
    answer(&mut h, "p", FAILED);
    h.at(2);
    h.node(mk(True));
    h.apply(read(fresh));
    assert_eq!(
        (h.marks.len(), h.manager.stats().pod_marks),
        (2, 0),
        "ready again: not marked any more"
    );
}

/// NL-088: a pod that is gone is done, and nothing is said
#[test]
fn a_pod_that_is_gone_needs_no_mark() {
    let pods = ["a", "b", "c"].map(|uid| mk_pod_ready(uid, True));
    let mut h = Harness::begun(Profile::Bailiff, vec![mk(True)], pods.to_vec());
    h.node(mk(Unknown));
    answer(&mut h, "a", Answer::Gone);
    h.apply(Input::PodGone("b".into()));
    answer(&mut h, "b", FAILED);
    answer(&mut h, "c", FAILED);
    h.at(1).apply(Input::PodRead {
        uid: "c".into(),
        reading: Reading::Found(PodFacts {
            pod: bailiff_model::PodRef {
                uid: "another".into(),
                ..mk_pod("c", "n1", &[]).pod
            },
            ..mk_pod("c", "n1", &[])
        }),
    });
    h.at(100);
    assert_eq!((h.events.len(), h.marks.len(), h.manager.stats().pod_marks), (0, 3, 0));
}

/// NL-084: a crash half-way is finished by the next process, whatever the lists' order
#[test]
fn marking_is_finished_after_a_restart() {
    let pods = vec![mk_pod_ready("left", True), mk_pod_ready("done", False)];
    for nodes_first in [true, false] {
        let mut h = Harness::new(Config::default());
        let lists = [Input::Nodes(vec![mk(Unknown)].into()), Input::Pods(pods.clone().into())];
        let order = if nodes_first { [0, 1] } else { [1, 0] };
        for index in order {
            h.apply(lists[index].clone());
        }
        h.health(Vec::new());
        assert_eq!(marked(&h), ["left"], "without waiting for what the bus remembers");
    }
}

/// NL-089: pods bound later are marked, on a node whose kubelet says False too
#[test]
fn pods_bound_later_are_marked() {
    for (status, wanted) in [(Unknown, 1), (False, 1), (True, 0), (Absent, 0)] {
        let mut h = Harness::begun(Profile::Bailiff, vec![mk(status)], Vec::new());
        h.pod(PodFacts {
            node: "".into(),
            ..mk_pod_ready("p", True)
        });
        h.pod(mk_pod_ready("p", True));
        assert_eq!(h.marks.len(), wanted, "{status:?}");
        h.pod(mk_pod_ready("young", Absent));
        assert_eq!(h.marks.len(), wanted, "{status:?}");
    }
    let mut h = Harness::begun(Profile::Bailiff, Vec::new(), Vec::new());
    h.pod(mk_pod_ready("p", True));
    h.node(mk(Unknown));
    assert_eq!(h.marks.len(), 0, "a node that was never judged marks nothing");
}

/// NL-085, NL-089: a pod that was ready before its node fell silent, by their conditions, is marked although it is shown so afterwards:
/// whether it was known when the node fell silent, or came later.
#[test]
fn a_pod_whose_watch_is_behind_is_marked() {
    let silent = NodeFacts {
        ready: NodeReady {
            since: Some(wall(100).into()),
            ..mk_ready(Unknown)
        },
        ..mk(Unknown)
    };
    let ready = |since: Option<i64>| PodFacts {
        ready_since: since.map(wall),
        ..mk_pod_ready("p", True)
    };
    for is_known in [true, false] {
        for before in [Absent, False] {
            for (since, wanted) in [(Some(99), 1), (Some(100), 0), (None, 0)] {
                let young = mk_pod_ready("p", before);
                let known = is_known.then(|| young.clone());
                let mut h = Harness::begun(Profile::Bailiff, vec![mk(True)], known.into_iter().collect());
                h.node(silent.clone());
                h.pod(young);
                h.pod(ready(since));
                assert_eq!(h.marks.len(), wanted, "{is_known} {before:?} {since:?}");
            }
        }
    }
}

/// NL-084, NL-085: a process that starts finds a pod that is not ready on a silent node, since before the silence: its list is behind that
/// of nodes. Shown as ready of before the silence too, it is marked; one that became not ready only afterwards may be marked already.
#[test]
fn a_pod_whose_first_list_is_behind_is_marked() {
    let mut silent = mk(Unknown);
    silent.ready.since = Some(wall(5).into());
    let cases = [
        (Absent, Some(3), 4, 1),
        (Absent, None, 4, 1),
        (Absent, Some(3), 6, 0),
        (False, Some(3), 4, 1),
        (False, Some(3), 6, 0),
        (False, Some(7), 4, 0),
        (False, None, 4, 0),
    ];
    for (ready, since, ready_since, wanted) in cases {
        let young = PodFacts {
            ready_since: since.map(wall),
            ..mk_pod_ready("p", ready)
        };
        let nodes = || vec![Input::Nodes(vec![silent.clone()].into())];
        let pods = || vec![Input::Pods(vec![young.clone()].into())];
        let watched = || vec![Input::Pods(Vec::new().into()), Input::Pod(young.clone())];
        for lists in [[nodes(), pods()], [pods(), nodes()], [watched(), nodes()]] {
            let mut h = Harness::new(Config::default());
            h.at(8);
            for input in lists.into_iter().flatten() {
                h.apply(input);
            }
            h.health(Vec::new());
            assert_eq!(h.marks, [], "{ready:?} {since:?}");
            h.pod(mk_pod_ready_since("p", True, ready_since));
            assert_eq!(h.marks.len(), wanted, "{ready:?} {since:?} {ready_since}");
        }
    }
}

/// NL-085: what its kubelet sets ready again after it was marked is left alone, whatever time it says, and so is what was not ready
/// when this process began.
#[test]
fn what_was_marked_is_not_marked_again() {
    let silent = NodeFacts {
        ready: NodeReady {
            since: Some(wall(100).into()),
            ..mk_ready(Unknown)
        },
        ..mk(Unknown)
    };
    let ready = PodFacts {
        ready_since: Some(wall(-1000)),
        ..mk_pod_ready("p", True)
    };
    let mut h = Harness::begun(Profile::Bailiff, vec![mk(True)], vec![ready.clone()]);
    h.node(silent.clone());
    answer(&mut h, "p", done("2"));
    h.pod(mk_pod_ready("p", False));
    h.pod(ready.clone());
    assert_eq!(h.marks.len(), 1, "once");
    let mut h = Harness::begun(Profile::Bailiff, vec![silent], vec![mk_pod_ready("p", False)]);
    h.pod(ready.clone());
    assert_eq!(h.marks.len(), 0, "by the process before, perhaps");
    h.node(mk(True));
    h.pod(mk_pod_ready("p", False));
    h.pod(ready);
    assert_eq!(h.marks.len(), 0, "its node is ready");
}

/// A node with a thousand pods does not open a thousand requests
#[test]
fn marks_under_way_are_bounded() {
    let pods: Vec<PodFacts> = (0..1000).map(|index| mk_pod_ready(&format!("p{index:04}"), True)).collect();
    let mut h = Harness::begun(Profile::Bailiff, vec![mk(True)], pods);
    h.node(mk(Unknown));
    let limit = Config::default().pod_marks;
    assert_eq!(h.marks.len(), limit);
    for index in 0..1000 {
        let uid = h.marks[index].pod.uid.to_string();
        answer(&mut h, &uid, done("2"));
        assert!(h.marks.len() <= index + 1 + limit);
    }
    assert_eq!((h.marks.len(), h.events.len(), h.manager.stats().marked), (1000, 1000, 1000));
}

/// NL-085, NL-086: what happened to a Node between two lists is not shown. One that was not ready in the first, and is silent in the
/// second, may have been Ready in between, and silent twice; one that is silent since the same time was not. Upstream marks no pods of one
/// whose kubelet said that it is not ready.
#[test]
fn a_fall_between_two_lists_is_found() {
    let mk = |status, second| {
        let mut facts = mk_node("n1", &[]);
        facts.ready = mk_ready(status);
        facts.ready.since = Some(wall(second).into());
        facts
    };
    let silent = mk(Unknown, 5);
    let cases = [
        (mk(False, 1), [1, 0]),
        (mk(Absent, 1), [1, 1]),
        (mk(Unknown, 1), [1, 1]),
        (silent.clone(), [0, 0]),
    ];
    for (before, wanted) in cases {
        for (profile, marks) in [Profile::Bailiff, Profile::Upstream].into_iter().zip(wanted) {
            let mut h = Harness::begun(profile, vec![mk_node("n1", &[])], Vec::new());
            h.pod(mk_pod_ready("p", False));
            h.node(before.clone());
            h.pod(mk_pod_ready("p", True));
            assert_eq!(h.marks, [], "{before:?}");
            h.apply(Input::Nodes(vec![silent.clone()].into()));
            assert_eq!(h.marks.len(), marks, "{before:?} {profile:?}");
        }
    }
}

fn mk_pod_ready_since(uid: &str, ready: ReadyStatus, since: i64) -> PodFacts {
    PodFacts {
        ready_since: Some(wall(since)),
        ..mk_pod_ready(uid, ready)
    }
}

/// NL-085, NL-088: a pod that was to be marked is shown as not ready, and then as ready again, both of before its node fell silent: its
/// watch is behind that of nodes. It is marked all the same; one that became ready afterwards is not.
#[test]
fn a_pod_that_was_ready_again_before_the_silence_is_marked() {
    for (ready_since, is_marked) in [(4, true), (6, false)] {
        let mut h = Harness::begun(
            Profile::Bailiff,
            vec![mk_node("n1", &[])],
            vec![mk_pod_ready("p", ReadyStatus::True)],
        );
        let mut silent = mk_node("n1", &[]);
        silent.ready = mk_ready(ReadyStatus::Unknown);
        silent.ready.since = Some(wall(5).into());
        h.at(7).node(silent);
        assert_eq!(h.marks.len(), 1);
        h.pod(mk_pod_ready_since("p", ReadyStatus::False, 3));
        h.pod(mk_pod_ready_since("p", ReadyStatus::True, ready_since));
        answer(&mut h, "p", FAILED);
        h.at(9);
        assert_eq!(h.reads.iter().any(|read| read == "pod/p"), is_marked, "{ready_since}");
    }
}

/// NL-085, NL-088: a kubelet that sets a marked pod ready again is left alone, also if it says that it was all along, and whether the watch
/// shows the mark before or after its answer, and whether that gets lost.
#[test]
fn what_a_kubelet_sets_back_is_not_marked_again() {
    for (answered_first, is_done) in [(true, true), (false, true), (false, false)] {
        let mut h = Harness::begun(
            Profile::Bailiff,
            vec![mk_node("n1", &[])],
            vec![mk_pod_ready_since("p", ReadyStatus::True, 4)],
        );
        let mut silent = mk_node("n1", &[]);
        silent.ready = mk_ready(ReadyStatus::Unknown);
        silent.ready.since = Some(wall(5).into());
        h.at(7).node(silent);
        assert_eq!(h.marks.len(), 1);
        let said = if is_done { done("2") } else { FAILED };
        if answered_first {
            answer(&mut h, "p", said.clone());
        }
        h.pod(mk_pod_ready_since("p", ReadyStatus::False, 7));
        if !answered_first {
            answer(&mut h, "p", said);
        }
        h.pod(mk_pod_ready_since("p", ReadyStatus::True, 4));
        h.at(60);
        let asked = h.reads.iter().filter(|read| *read == "pod/p").count();
        assert_eq!((h.marks.len(), asked), (1, 0), "{answered_first} {is_done}");
    }
}
