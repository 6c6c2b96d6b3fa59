//! What makes which pods be judged, as of when, and in which order (TE-010 to TE-045), whatever the watches show.

use IntentState::{Due, Scheduled};
use bailiff_model::intent::IntentState;
use bailiff_model::{Listed, NodeRef};
use bailiff_taint_core::{Config, Input, NodeFacts, Profile};

use crate::harness::{FAILED, Harness, mk_node, mk_pod, mk_ready};

/// TE-005, TE-030, TE-033: a taint judges the node's own pods, all as of one moment, and nobody else's
#[test]
fn a_taint_judges_the_nodes_own_pods_as_of_one_moment() {
    let pods = vec![
        mk_pod("a", "n1", &[("m", Some(10))]),
        mk_pod("b", "n1", &[("m", Some(10))]),
        mk_pod("c", "n1", &[]),
        mk_pod("d", "n2", &[]),
        mk_pod("e", "", &[]),
    ];
    let mut h = Harness::begun(Profile::Bailiff, vec![mk_node("n1", &[]), mk_node("n2", &[])], pods);
    h.at(5).node(mk_node("n1", &["m"]));
    h.assert_only(&["a", "b", "c"]);
    h.assert_state("a", Scheduled, 15);
    h.assert_state("b", Scheduled, 15);
    h.assert_state("c", Due, 5);
}

/// TE-020, TE-022, TE-030, TE-040: whichever the watches show first, a pod is judged by the taints of its node
#[test]
fn the_order_in_which_node_and_pod_are_seen_does_not_matter() {
    let (node, pod) = (|| Input::Node(mk_node("n1", &["m"])), || Input::Pod(mk_pod("p", "n1", &[])));
    for inputs in [[node(), pod()], [pod(), node()]] {
        let mut h = Harness::begun(Profile::Bailiff, Vec::new(), Vec::new());
        for input in inputs {
            h.apply(input);
        }
        h.assert_state("p", Due, 0);
    }
}

/// TE-100, TE-101: what happens while the lists are still awaited waits with them, and every pod is judged once they are there
#[test]
fn news_that_come_before_the_lists_wait_for_them() {
    let mut h = Harness::new(Config::default());
    h.node(mk_node("n1", &["m"]));
    h.pod(mk_pod("p", "n1", &[]));
    h.apply(Input::Nodes(vec![mk_node("n1", &["m"])].into()));
    h.apply(Input::Pods(
        vec![mk_pod("p", "n1", &[]), mk_pod("q", "n1", &[("m", Some(9))])].into(),
    ));
    assert!(h.published.is_empty());
    h.apply(Input::Inherit(Vec::new()));
    h.assert_only(&["p", "q"]);
    h.health(Vec::new());
    assert_eq!((h.publications, h.completed), (2, 1), "each once");
}

/// TE-010, TE-013, TE-124: what a new list skipped did not happen; what it shows counts, and who is missing in it is gone
#[test]
fn a_new_list_counts_as_the_last_of_what_it_skipped() {
    let pods = |uids: &[&str]| -> Listed<_, _> { uids.iter().map(|uid| mk_pod(uid, "n1", &[("m", Some(10))])).collect() };
    let mut h = Harness::begun(Profile::Bailiff, vec![mk_node("n1", &[])], pods(&["p", "q"]).all);
    h.apply(Input::Nodes(vec![mk_node("n1", &[])].into()));
    assert_eq!(h.publications, 0, "a taint that came and went meanwhile");
    h.at(3).node(mk_node("n1", &["m"]));
    h.at(5).apply(Input::Pods(pods(&["p", "r"])));
    h.assert_only(&["p", "r"]);
    h.assert_state("p", Scheduled, 13);
    h.assert_state("r", Scheduled, 15);
    assert_eq!(h.events, ["Cancelling deletion of Pod default/q"]);
    h.at(6).apply(Input::Nodes(vec![mk_node("n1", &["m", "x"])].into()));
    h.assert_state("p", Due, 6);
    let before = h.publications;
    h.apply(Input::Nodes(vec![mk_node("n1", &["m", "x"])].into()));
    h.apply(Input::Pods(pods(&["p", "r"])));
    assert_eq!(h.publications, before, "a resync judges nothing");
}

/// TE-041, TE-044: a pod that is on another node by now is judged by that node alone
#[test]
fn a_pod_is_judged_by_the_node_it_is_on() {
    let nodes = || vec![mk_node("n1", &["m"]), mk_node("n2", &[])];
    let mut h = Harness::begun(Profile::Bailiff, nodes(), vec![mk_pod("p", "n1", &[("m", Some(10))])]);
    h.assert_state("p", Scheduled, 10);
    h.at(4).pod(mk_pod("p", "n2", &[("m", Some(10))]));
    h.assert_only(&[]);
    h.at(20).assert_only(&[]);
}

/// TE-060, NL-065: times run on the monotonic clock: a step of the wall clock makes nothing due, and keeps nothing from it
#[test]
fn a_clock_step_moves_no_timer() {
    for step in [-86_400, 86_400] {
        let mut h = Harness::begun(
            Profile::Bailiff,
            vec![mk_node("n1", &[])],
            vec![mk_pod("p", "n1", &[("m", Some(10))])],
        );
        h.at(2).node(mk_node("n1", &["m"]));
        let mut states = Vec::new();
        for millis in [11_999, 12_000] {
            h.millis = millis;
            let mut now = h.now();
            now.wall = crate::harness::wall(i64::try_from(millis / 1000).expect("small") + step);
            let effects = h.manager.apply(Input::Wake, now);
            states.push(
                effects
                    .iter()
                    .any(|effect| matches!(effect, bailiff_taint_core::Effect::Publish { .. })),
            );
        }
        assert_eq!(states, [false, true], "{step}");
    }
}

/// NL-033: marks of a deleted node's pods are not tried again; nor are those of another Node of its name
#[test]
fn marks_end_with_their_node() {
    let silent = || NodeFacts {
        ready: mk_ready(bailiff_model::ReadyStatus::Unknown),
        ..mk_node("n1", &[])
    };
    let ends = [
        Input::NodeGone {
            name: "n1".into(),
            uid: "n1-1".into(),
        },
        Input::Nodes(Vec::new().into()),
        Input::Node(NodeFacts {
            node: NodeRef {
                uid: "n1-2".into(),
                ..silent().node
            },
            ..mk_node("n1", &[])
        }),
    ];
    for end in ends {
        let mut h = Harness::begun(Profile::Bailiff, vec![mk_node("n1", &[])], vec![mk_pod("p", "n1", &[])]);
        h.node(silent());
        h.apply(Input::PodMarked {
            uid: "p".into(),
            answer: FAILED,
        });
        assert_eq!(h.manager.stats().pod_marks, 1);
        h.apply(end.clone());
        h.at(100);
        assert_eq!(
            (h.reads.len(), h.marks.len(), h.manager.stats().pod_marks),
            (0, 1, 0),
            "{end:?}"
        );
    }
}
