//! Node mode: all pods of a node, after a timeout.

use bailiff_model::intent::{EvictionCause, Intent, IntentState, Trigger, WithdrawnReason};
use bailiff_model::{ReadyStatus, Verdict};
use bailiff_taint_core::{Config, EvictionMode, Input, NodeFacts};

use crate::harness::{Harness, mk_health, mk_node, mk_origin, mk_pod, mk_ready, mk_tombstone, seconds};
use IntentState::{Due, Scheduled};

const RECOVERED: IntentState = IntentState::Withdrawn(WithdrawnReason::NodeRecovered);

fn begun(nodes: Vec<NodeFacts>, pods: Vec<bailiff_taint_core::PodFacts>) -> Harness {
    let mut h = Harness::new(Config {
        mode: EvictionMode::Node,
        ..Config::default()
    });
    h.begin(nodes, pods, Vec::new());
    h.health(Vec::new());
    h
}

fn not_before(h: &Harness) -> Option<i64> {
    match &h.published.get("node/n1")?.intent {
        Intent::NodeEviction(wish) => Some(seconds(wish.not_before)),
        other => unreachable!("{other:?}"),
    }
}

fn is_due(h: &Harness) -> bool {
    match &h.published["node/n1"].intent {
        Intent::NodeEviction(wish) => wish.due,
        other => unreachable!("{other:?}"),
    }
}

fn gone() -> Input {
    Input::NodeGone {
        name: "n1".into(),
        uid: "n1-1".into(),
    }
}

/// NL-202, NL-205, NL-208: recording `lg-silent`
#[test]
fn all_pods_of_a_silent_node_go_whatever_they_tolerate() {
    let pods = vec![
        mk_pod("p", "n1", &[]),
        mk_pod("all", "n1", &[("", None)]),
        mk_pod("q", "n2", &[]),
    ];
    let mut h = begun(vec![mk_node("n1", &[]), mk_node("n2", &[])], pods);
    h.at(52).health(vec![mk_health("n1", 3, Verdict::Unreachable, 2, 52)]);
    assert_eq!(not_before(&h), Some(302), "counted from the last sign of life");
    h.assert_only(&["p", "all"]);
    h.assert_state("p", Scheduled, 302);
    let scheduled = h.eviction("p").expect("scheduled");
    assert_eq!((&*scheduled.cause, scheduled.trigger), (&EvictionCause::Node, Trigger::Node));
    h.at(301).assert_state("all", Scheduled, 302);
    assert!(!is_due(&h));
    h.at(302).assert_state("all", Due, 302);
    assert!(is_due(&h), "the node is due with its pods, and says so");
    h.at(310).pod(mk_pod("late", "n1", &[("", None)]));
    h.assert_state("late", Due, 302);
}

/// NL-204, NL-202: recordings `lg-recover-before`, `lg-ready-false`
#[test]
fn recovery_cancels_and_a_full_timeout_follows() {
    let mut h = begun(vec![mk_node("n1", &[])], vec![mk_pod("p", "n1", &[])]);
    h.at(10).health(vec![mk_health("n1", 3, Verdict::NotReady, 10, 10)]);
    h.assert_state("p", Scheduled, 310);
    h.at(20).health(vec![mk_health("n1", 4, Verdict::Healthy, 20, 20)]);
    assert_eq!((h.state("p"), not_before(&h)), (Some(RECOVERED), None));
    h.at(30).health(vec![mk_health("n1", 5, Verdict::NotReady, 30, 30)]);
    h.assert_state("p", Scheduled, 330);
    h.at(330).assert_state("p", Due, 330);
    h.at(340).health(vec![mk_health("n1", 6, Verdict::Healthy, 340, 340)]);
    assert_eq!(h.state("p"), Some(RECOVERED));
    assert_eq!(h.events, [""; 0], "no cancelling event in this mode");
}

/// NL-202, NL-099, NL-207: what moves a timeout and what does not
#[test]
fn a_timeout_moves_only_with_what_it_counts_from() {
    let again = |revision, counted| mk_health("n1", revision, Verdict::Unreachable, counted, 52);
    let mut h = begun(vec![mk_node("n1", &[])], vec![mk_pod("p", "n1", &[])]);
    h.at(52).health(vec![again(3, 2)]);
    h.at(60).health(vec![again(4, 2)]);
    assert_eq!(not_before(&h), Some(302), "the same silence");
    let mut reset = again(5, 100);
    reset.health.as_mut().expect("a record").decided_at = crate::harness::wall(100);
    h.at(100).health(vec![reset.clone()]);
    assert_eq!(not_before(&h), Some(400), "counted anew (NL-099)");
    h.at(400).assert_state("p", Due, 400);
    let mut late = reset;
    late.origin = mk_origin(6);
    late.health.as_mut().expect("a record").counted_from = crate::harness::wall(410);
    h.at(410).health(vec![late]);
    assert_eq!(not_before(&h), Some(400), "what is due stays due");
}

/// A step of the monitor's clock makes nothing due before the timeout less the grace
#[test]
fn a_clock_step_makes_nothing_due() {
    let mut h = begun(vec![mk_node("n1", &[])], vec![mk_pod("p", "n1", &[])]);
    h.at(10).health(vec![mk_health("n1", 3, Verdict::Unreachable, -86_400, 10)]);
    assert_eq!(not_before(&h), Some(260));
    h.at(11).health(vec![mk_health("n1", 4, Verdict::Healthy, 11, 11)]);
    h.at(12).health(vec![mk_health("n1", 5, Verdict::Unreachable, 86_400, 10)]);
    assert_eq!(not_before(&h), Some(312));
}

/// NL-201, NL-205: recording `lg-node-deleted`
#[test]
fn a_deleted_node_is_evicted_only_if_it_was_due() {
    let play = |deleted_at: u64| {
        let mut h = begun(vec![mk_node("n1", &[])], vec![mk_pod("p", "n1", &[])]);
        h.at(50).health(vec![mk_health("n1", 3, Verdict::Unreachable, 0, 50)]);
        h.at(deleted_at).health(vec![mk_tombstone("n1", 4)]);
        h.apply(gone());
        h
    };
    let early = play(100);
    assert_eq!((early.state("p"), not_before(&early)), (None, None));
    let mut late = play(301);
    assert_eq!((late.state("p"), not_before(&late)), (Some(Due), Some(300)));
    late.apply(Input::PodGone("p".into()));
    assert!(late.published.is_empty(), "the last pod takes the wish with it");
}

/// NL-200: NoExecute taints evict nobody in this mode; recording `lg-noexecute-by-hand`
#[test]
fn taints_made_by_hand_evict_nobody() {
    let mut h = begun(vec![mk_node("n1", &["m"])], vec![mk_pod("p", "n1", &[])]);
    h.at(1).node(mk_node("n1", &["m", "o", "node.kubernetes.io/unreachable"]));
    h.assert_only(&[]);
}

/// NL-200: NoSchedule taints and marking work as in taint mode
#[test]
fn the_rest_of_the_duty_is_done() {
    let mut h = begun(vec![mk_node("n1", &[])], vec![mk_pod("p", "n1", &[])]);
    h.node(NodeFacts {
        ready: mk_ready(ReadyStatus::Unknown),
        ..mk_node("n1", &[])
    });
    assert_eq!((h.patches.len(), h.marks.len()), (1, 1));
}

/// Another Node of the name is not the one that is to be evicted
#[test]
fn another_node_of_the_name_is_spared() {
    let mut h = begun(vec![mk_node("n1", &[])], vec![mk_pod("p", "n1", &[])]);
    h.at(50).health(vec![mk_health("n1", 3, Verdict::Unreachable, 0, 50)]);
    h.at(60).node(crate::harness::recreated(mk_node("n1", &[])));
    assert_eq!(h.state("p"), Some(RECOVERED));
}
