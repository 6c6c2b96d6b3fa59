//! What is told of traces: what waited, for how long, and how that ended.

use bailiff_model::ReadyStatus::{True, Unknown};
use bailiff_model::{HoldScope, TraceContext, Verdict};
use bailiff_taint_core::told::{Counts, Ending, Part};
use bailiff_taint_core::{Config, EvictionMode, Input, NodeFacts, PodFacts, Profile, Told};

use crate::harness::{
    FAILED, Harness, answer, brake, done, mk_health, mk_node, mk_pod, mk_pod_ready, mk_ready, recreated, seconds,
};

/// What was told since the last call: what, from when to when, in seconds of the test, and how it ended.
fn told(h: &mut Harness) -> Vec<String> {
    std::mem::take(&mut h.told).iter().map(say).collect()
}

fn say(told: &Told) -> String {
    let (start, end) = (seconds(told.start), seconds(told.end));
    let taint = |taint: &Option<std::sync::Arc<bailiff_model::Taint>>| {
        taint.as_ref().map_or("node mode".to_owned(), |taint| taint.to_string())
    };
    let (who, what) = match &told.what {
        Part::Taint(taint) => (told.node.uid.to_string(), format!("taint {taint}")),
        Part::Toleration {
            pod,
            taint: of,
            allowed,
            ending,
        } => {
            let what = format!("toleration of {} for {} s {}", taint(of), allowed.as_secs(), word(*ending));
            (pod.uid.to_string(), what)
        }
        Part::Termination { pod, taint: of, ending } => {
            (pod.uid.to_string(), format!("termination by {} {}", taint(of), word(*ending)))
        }
        Part::Tolerated { taint, pods } => {
            let Counts { due, timed, tolerating } = pods;
            (
                told.node.name.to_string(),
                format!("{taint} due {due} timed {timed} tolerating {tolerating}"),
            )
        }
        Part::Marks { marked, spared, failed } => (
            told.node.name.to_string(),
            format!("marked {marked} spared {spared} failed {failed}"),
        ),
        Part::MarksHeld { reason, released, .. } => {
            (told.node.name.to_string(), format!("marks held {reason} released {released}"))
        }
    };
    format!("{who}: {what} {start}-{end}")
}

fn word(ending: Ending) -> String {
    match ending {
        Ending::Moved(to) => format!("moved to {}", seconds(to)),
        other => format!("{other:?}"),
    }
}

fn incident() -> TraceContext {
    TraceContext::derived(&["incident", "n1"])
}

/// TE-042, TE-055, TE-066: a time that ran out, one that was called off, one whose pod went, and pods that were due; each is told when
/// it is over, in the trace that their intents carry. Nothing is told of a pod that nothing is decided on, but how many stay.
#[test]
fn a_time_is_told_when_it_is_over() {
    let pods = vec![
        mk_pod("none", "n1", &[]),
        mk_pod("short", "n1", &[("m", Some(10))]),
        mk_pod("gone", "n1", &[("m", Some(100))]),
        mk_pod("long", "n1", &[("m", Some(100))]),
        mk_pod("zero", "n1", &[("m", Some(0))]),
        mk_pod("ever", "n1", &[("m", None)]),
        mk_pod("all", "n1", &[("", None)]),
    ];
    let mut h = Harness::begun(Profile::Bailiff, vec![mk_node("n1", &[])], pods);
    h.at(2).node(mk_node("n1", &["m=v"]));
    let trace = h.published["pod/none"].trace;
    assert!(h.told.iter().all(|told| Some(told.trace) == trace), "{:?}", h.told);
    let wanted = [
        "n1-1: taint m=v:NoExecute 2-2",
        "n1: m=v:NoExecute due 2 timed 3 tolerating 2 2-2",
    ];
    assert_eq!(told(&mut h), wanted);
    h.at(12);
    assert_eq!(told(&mut h), ["short: toleration of m=v:NoExecute for 10 s Expired 2-12"]);
    h.at(20).apply(Input::PodGone("gone".into()));
    h.apply(Input::PodGone("none".into()));
    h.apply(Input::PodGone("ever".into()));
    let wanted = [
        "gone: toleration of m=v:NoExecute for 100 s PodGone 2-20",
        "none: termination by m=v:NoExecute PodGone 2-20",
    ];
    assert_eq!(told(&mut h), wanted);
    h.at(30).node(mk_node("n1", &[]));
    let wanted = [
        "long: toleration of m=v:NoExecute for 100 s Withdrawn(TaintsGone) 2-30",
        "short: termination by m=v:NoExecute Withdrawn(TaintsGone) 12-30",
        "zero: termination by m=v:NoExecute Withdrawn(TaintsGone) 2-30",
    ];
    assert_eq!(told(&mut h), wanted);
    h.apply(Input::PodGone("short".into()));
    assert_eq!(told(&mut h), [""; 0], "it was called off");
}

/// A deletion that was accepted is not undone: who was being deleted when it was called off ends with being gone, also after a restart.
#[test]
fn a_pod_that_was_being_deleted_is_told_to_be_gone() {
    let leaving = |uid: &str| PodFacts {
        terminating: true,
        ..mk_pod(uid, "n1", &[])
    };
    let mut h = Harness::begun(
        Profile::Bailiff,
        vec![mk_node("n1", &[])],
        ["goes", "stays", "again"].map(|uid| mk_pod(uid, "n1", &[])).to_vec(),
    );
    h.at(1).node(mk_node("n1", &["m"]));
    h.at(2).pod(leaving("goes"));
    h.pod(leaving("again"));
    told(&mut h);
    h.at(10).node(mk_node("n1", &[]));
    assert_eq!(told(&mut h), ["stays: termination by m:NoExecute Withdrawn(TaintsGone) 1-10"]);
    let memory = h.memory_at(15);
    let mut next = Harness::new(Config::default());
    next.millis = 15_000;
    let pods = vec![leaving("goes"), mk_pod("stays", "n1", &[]), leaving("again")];
    next.begin(vec![mk_node("n1", &[])], pods, memory);
    assert_eq!(told(&mut next), [""; 0]);
    next.at(18).apply(Input::PodGone("goes".into()));
    assert_eq!(told(&mut next), ["goes: termination by node mode PodGone 1-18"]);
    h.at(20).apply(Input::PodGone("goes".into()));
    assert_eq!(told(&mut h), ["goes: termination by m:NoExecute PodGone 1-20"]);
    // Due anew, it goes because of that.
    h.at(30).node(mk_node("n1", &["x"]));
    told(&mut h);
    h.at(40).apply(Input::PodGone("again".into()));
    let wanted = [
        "again: termination by m:NoExecute Withdrawn(TaintsGone) 1-10",
        "again: termination by x:NoExecute PodGone 30-40",
    ];
    assert_eq!(told(&mut h), wanted);
}

/// TE-052, TE-063: a time that is moved, and one that ends at once because another taint comes.
#[test]
fn a_time_that_is_moved_or_cut_short_is_told() {
    let mut h = Harness::begun(
        Profile::Bailiff,
        vec![mk_node("n1", &["m"])],
        vec![mk_pod("p", "n1", &[("m", Some(10))])],
    );
    told(&mut h);
    h.at(4).pod(mk_pod("p", "n1", &[("m", Some(100))]));
    h.at(6).node(mk_node("n1", &["m", "x"]));
    let wanted = [
        "p: toleration of m:NoExecute for 10 s moved to 100 0-4",
        "p: toleration of m:NoExecute for 100 s Untolerated 0-6",
        "n1-1: taint x:NoExecute 6-6",
    ];
    assert_eq!(told(&mut h), wanted);
}

/// TE-063: a time that ran out and is lengthened then runs again, and its end is told again.
#[test]
fn a_time_that_is_lengthened_after_its_end_is_told_to_end_twice() {
    let mut h = Harness::begun(
        Profile::Bailiff,
        vec![mk_node("n1", &["m"])],
        vec![mk_pod("p", "n1", &[("m", Some(10))])],
    );
    h.at(12);
    told(&mut h);
    h.pod(mk_pod("p", "n1", &[("m", Some(20))]));
    h.at(25);
    assert_eq!(told(&mut h), ["p: toleration of m:NoExecute for 20 s Expired 0-20"]);
}

/// A taint that the API has, and nobody put because of a verdict, begins a trace once; another one of its name begins another.
#[test]
fn a_taint_begins_its_trace_once() {
    let taints = |h: &mut Harness| told(h).into_iter().filter(|told| told.contains(": taint ")).count();
    let mut h = Harness::begun(
        Profile::Bailiff,
        vec![mk_node("n1", &[])],
        vec![mk_pod("p", "n1", &[("m", Some(60))])],
    );
    h.at(1).node(mk_node("n1", &["m"]));
    assert_eq!(taints(&mut h), 1);
    h.pod(mk_pod("q", "n1", &[]));
    assert_eq!(taints(&mut h), 0, "the same one");
    let trace = h.published["pod/p"].trace;
    let memory = h.memory();
    // Another process, with a clock that is a little off.
    let mut next = Harness::new(Config::default());
    (next.millis, next.ahead) = (5_000, 1);
    let pods = vec![mk_pod("p", "n1", &[("m", Some(60))]), mk_pod("q", "n1", &[])];
    next.begin(vec![mk_node("n1", &["m"])], pods, memory);
    assert_eq!((taints(&mut next), next.published["pod/p"].trace), (0, trace), "inherited");
    next.at(6).node(mk_node("n1", &[]));
    next.at(7).node(mk_node("n1", &["m"]));
    assert_eq!(taints(&mut next), 1, "put again");
    next.at(8).node(recreated(mk_node("n1", &["m"])));
    assert_eq!(taints(&mut next), 1, "on another node");
}

/// Which of several taints the trace of an intent is of is not on record: after a restart none of them is taken for it.
#[test]
fn a_taint_takes_no_trace_that_may_be_of_another() {
    let both = || mk_node("n1", &["m", "x"]);
    let pod = || mk_pod("p", "n1", &[("m", Some(60)), ("x", Some(90))]);
    let mut h = Harness::begun(Profile::Bailiff, vec![mk_node("n1", &[])], vec![pod()]);
    h.at(1).node(both());
    let (trace, memory) = (h.published["pod/p"].trace, h.memory());
    let mut next = Harness::new(Config::default());
    next.millis = 5_000;
    next.begin(vec![both()], vec![pod(), mk_pod("q", "n1", &[("m", None)])], memory);
    assert_eq!(next.published["pod/p"].trace, trace);
    assert_ne!(next.published["pod/q"].trace, trace, "it goes because of x");
}

/// NL-036: what ends because another Node took the name is told of the one that it was on, whose trace it is in.
#[test]
fn what_ends_with_its_node_is_told_of_that_node() {
    let pods = vec![mk_pod("timed", "n1", &[("m", Some(10))]), mk_pod("due", "n1", &[])];
    let mut h = Harness::begun(Profile::Bailiff, vec![mk_node("n1", &["m"])], pods);
    h.at(5).node(recreated(mk_node("n1", &[])));
    assert!(h.told.iter().all(|told| told.node.uid.to_string() == "n1-1"), "{:?}", h.told);
    let told = told(&mut h);
    assert_eq!(told.len(), 3, "the taint, and what ended: {told:?}");
}

/// A node whose taint outlives its verdict: what followed from that ends in its incident, and begins no other.
#[test]
fn what_follows_from_a_verdict_that_was_taken_back_stays_in_its_incident() {
    let unreachable = "node.kubernetes.io/unreachable";
    let pods = vec![mk_pod("p", "n1", &[(unreachable, Some(10))])];
    let mut h = Harness::begun(Profile::Bailiff, vec![mk_node("n1", &[])], pods);
    h.health(vec![mk_health("n1", 3, Verdict::Unreachable, 0, 50)]);
    h.at(60).node(mk_node("n1", &[unreachable]));
    h.at(65).health(vec![mk_health("n1", 4, Verdict::Healthy, 65, 65)]);
    h.at(71).apply(Input::PodGone("p".into()));
    assert!(h.told.iter().all(|told| told.trace == incident()), "{:?}", h.told);
    let wanted = [
        "p: toleration of node.kubernetes.io/unreachable:NoExecute for 10 s Expired 60-70",
        "p: termination by node.kubernetes.io/unreachable:NoExecute PodGone 70-71",
    ];
    assert_eq!(told(&mut h), wanted);
}

/// A verdict accounts for its taint: that is no beginning, and all is told in the incident.
#[test]
fn what_follows_from_a_verdict_is_told_in_its_incident() {
    let unreachable = "node.kubernetes.io/unreachable";
    let pods = vec![
        mk_pod("p", "n1", &[(unreachable, Some(10))]),
        mk_pod("q", "n1", &[("", None)]),
    ];
    let mut h = Harness::begun(Profile::Bailiff, vec![mk_node("n1", &[])], pods);
    h.health(vec![mk_health("n1", 3, Verdict::Unreachable, 0, 50)]);
    h.at(60).node(mk_node("n1", &[unreachable]));
    h.at(80).apply(Input::PodGone("p".into()));
    assert!(h.told.iter().all(|told| told.trace == incident()), "{:?}", h.told);
    let wanted = [
        "n1: node.kubernetes.io/unreachable:NoExecute due 0 timed 1 tolerating 1 60-60",
        "p: toleration of node.kubernetes.io/unreachable:NoExecute for 10 s Expired 60-70",
        "p: termination by node.kubernetes.io/unreachable:NoExecute PodGone 70-80",
    ];
    assert_eq!(told(&mut h), wanted);
}

/// TE-102: what was over before a restart is not told again; what was over meanwhile is, with the time that it had.
#[test]
fn a_restart_tells_only_what_was_not_told() {
    let pods = || vec![mk_pod("a", "n1", &[("m", Some(10))]), mk_pod("b", "n1", &[("m", Some(30))])];
    let mut h = Harness::begun(Profile::Bailiff, vec![mk_node("n1", &[])], pods());
    h.at(1).node(mk_node("n1", &["m"]));
    h.at(20);
    assert!(told(&mut h).contains(&"a: toleration of m:NoExecute for 10 s Expired 1-11".to_owned()));
    let memory = h.memory_at(40);
    let mut next = Harness::new(Config::default());
    next.millis = 40_000;
    next.begin(vec![mk_node("n1", &["m"])], pods(), memory);
    assert_eq!(told(&mut next), ["b: toleration of m:NoExecute for 30 s Expired 1-31"]);
    next.at(50).apply(Input::PodGone("a".into()));
    assert_eq!(told(&mut next), ["a: termination by m:NoExecute PodGone 11-50"]);
}

/// NL-202, and recording `lg-node-deleted`: in node mode it is the node's timeout that is waited for.
#[test]
fn in_node_mode_the_timeout_is_told() {
    let mut h = Harness::new(Config {
        mode: EvictionMode::Node,
        ..Config::default()
    });
    let nodes = vec![mk_node("n1", &[]), mk_node("n2", &[])];
    h.begin(nodes, vec![mk_pod("p", "n1", &[]), mk_pod("q", "n2", &[])], Vec::new());
    h.health(Vec::new());
    h.at(52).health(vec![mk_health("n1", 3, Verdict::Unreachable, 2, 52)]);
    h.at(100).health(vec![mk_health("n2", 4, Verdict::Unreachable, 50, 100)]);
    h.at(110).health(vec![mk_health("n2", 5, Verdict::Healthy, 110, 110)]);
    h.at(302);
    h.at(310).apply(Input::PodGone("p".into()));
    let wanted = [
        "q: toleration of node mode for 300 s Withdrawn(NodeRecovered) 50-110",
        "p: toleration of node mode for 300 s Expired 2-302",
        "p: termination by node mode PodGone 302-310",
    ];
    assert_eq!(told(&mut h), wanted);
}

fn mk(status: bailiff_model::ReadyStatus) -> NodeFacts {
    NodeFacts {
        ready: mk_ready(status),
        ..mk_node("n1", &[])
    }
}

/// NL-084: the marks of a node are told once for all its pods, when the last one is answered; the verdict may come in between.
#[test]
fn marks_are_told_once_per_node() {
    let pods = ["a", "b", "c", "d"].map(|uid| mk_pod_ready(uid, True)).to_vec();
    let mut h = Harness::begun(Profile::Bailiff, vec![mk(True)], pods);
    h.at(3).node(mk(Unknown));
    answer(&mut h, "a", done("2"));
    h.health(vec![mk_health("n1", 3, Verdict::Unreachable, 0, 3)]);
    answer(&mut h, "b", FAILED);
    // The watch shows what was written before the answer comes.
    h.pod(mk_pod_ready("c", bailiff_model::ReadyStatus::False));
    h.apply(Input::PodGone("d".into()));
    assert_eq!(told(&mut h), [""; 0]);
    h.at(5);
    h.apply(Input::PodRead {
        uid: "b".into(),
        reading: bailiff_taint_core::Reading::Found(mk_pod_ready("b", True)),
    });
    answer(&mut h, "c", done("3"));
    answer(&mut h, "b", done("4"));
    assert!(h.told.iter().all(|told| told.trace == incident()));
    assert_eq!(told(&mut h), ["n1: marked 3 spared 1 failed 1 3-5"]);
}

/// Pause: what is held is told once per node, whether its end frees the marks or the node comes back first.
#[test]
fn marks_that_are_held_are_told_once_per_node() {
    for comes_back in [false, true] {
        let pods = ["a", "b"].map(|uid| mk_pod_ready(uid, True)).to_vec();
        let mut h = Harness::begun(Profile::Bailiff, vec![mk(True)], pods);
        h.health(vec![mk_health("n1", 3, Verdict::Unreachable, 0, 3)]);
        brake(&mut h, Some(HoldScope::All));
        h.at(3).node(mk(Unknown));
        h.at(4);
        brake(&mut h, Some(HoldScope::All));
        assert_eq!(told(&mut h), [""; 0]);
        h.at(9);
        if comes_back {
            h.node(mk(True));
            assert_eq!(
                told(&mut h),
                ["n1: marks held paused released false 3-9"],
                "nothing was marked"
            );
        } else {
            brake(&mut h, None);
            assert_eq!(told(&mut h), ["n1: marks held paused released true 3-9"]);
        }
    }
}
