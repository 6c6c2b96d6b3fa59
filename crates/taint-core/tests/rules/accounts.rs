//! What a manager says of itself, and the references that what it says carries.

use bailiff_model::intent::{EvictionCause, IntentState, Trigger, WithdrawnReason};
use bailiff_model::{HoldScope, ReadyStatus, Verdict};
use bailiff_taint_core::{Config, Effect, Input, NodeFacts, PodFacts, Profile, Reading};

use crate::harness::{FAILED, Harness, at_version, brake, done, mk_health, mk_node, mk_pod, mk_ready, recreated, wall};

fn mk_silent(name: &str) -> NodeFacts {
    NodeFacts {
        ready: mk_ready(ReadyStatus::Unknown),
        ..at_version(mk_node(name, &[]), "2")
    }
}

#[test]
fn what_is_waited_for_is_said() {
    let mut h = Harness::new(Config::default());
    let lists = [
        ("the list of Nodes", Input::Nodes(vec![mk_node("n1", &[])].into())),
        ("the list of Pods", Input::Pods(vec![mk_pod("p", "n1", &[])].into())),
        ("what the bus remembers of eviction-intents", Input::Inherit(Vec::new())),
        (
            "a complete view of node-health",
            Input::Health {
                snapshot: true,
                complete: true,
                records: Vec::new(),
                unreadable: Vec::new(),
            },
        ),
    ];
    for (wanted, input) in lists {
        assert_eq!(h.manager.waits_for(), Some(wanted));
        h.apply(input);
    }
    assert_eq!(h.manager.waits_for(), None);
    // The lists come in any order.
    let mut h = Harness::new(Config::default());
    h.apply(Input::Pods(Vec::new().into()));
    assert_eq!(h.manager.waits_for(), Some("the list of Nodes"));
}

#[test]
fn sizes_are_those_of_what_is_held() {
    let pods = vec![
        mk_pod("timed", "n1", &[("m", Some(60))]),
        mk_pod("due", "n1", &[]),
        mk_pod("spared", "n1", &[("m", None)]),
        mk_pod("elsewhere", "n2", &[]),
    ];
    let mut h = Harness::begun(Profile::Bailiff, vec![mk_node("n1", &[]), mk_node("n2", &[])], pods);
    h.node(mk_node("n1", &["m"]));
    let stats = h.manager.stats();
    assert_eq!((stats.nodes, stats.pods), (2, 4));
    assert_eq!((stats.scheduled, stats.due, stats.withdrawn), (1, 1, 0));
    h.node(mk_node("n1", &[]));
    let stats = h.manager.stats();
    assert_eq!((stats.scheduled, stats.due, stats.withdrawn), (0, 0, 2));
    assert_eq!(
        (stats.wishes, stats.node_writes, stats.pod_marks, stats.failed_writes),
        (0, 0, 0, 0)
    );

    h.health(vec![mk_health("n2", 5, Verdict::Unreachable, 0, 1)]);
    h.node(mk_silent("n2"));
    let stats = h.manager.stats();
    assert_eq!((stats.wishes, stats.node_writes, stats.pod_marks), (1, 1, 1));
    for failures in 1..=3 {
        h.apply(Input::NodePatched {
            name: "n2".into(),
            answer: FAILED,
        });
        assert_eq!(h.manager.stats().failed_writes, failures * 2 - 1);
        let failed = FAILED;
        h.apply(Input::PodMarked {
            uid: "elsewhere".into(),
            answer: failed,
        });
        assert_eq!(h.manager.stats().failed_writes, failures * 2);
        // What is tried again begins with a read.
        h.at(failures * 400);
        h.apply(Input::NodeRead {
            name: "n2".into(),
            reading: Reading::Found(mk_silent("n2")),
        });
        h.apply(Input::PodRead {
            uid: "elsewhere".into(),
            reading: Reading::Found(mk_pod("elsewhere", "n2", &[])),
        });
    }
    h.apply(Input::NodePatched {
        name: "n2".into(),
        answer: done("7"),
    });
    h.apply(Input::PodMarked {
        uid: "elsewhere".into(),
        answer: done("7"),
    });
    // A write is over when the watch has shown it.
    let taints = h.patches.last().and_then(|patch| patch.taints.clone()).expect("patched");
    h.node(NodeFacts {
        taints,
        ..at_version(mk_silent("n2"), "7")
    });
    let stats = h.manager.stats();
    assert_eq!((stats.node_writes, stats.pod_marks, stats.marked), (0, 0, 1));
    h.apply(Input::PodGone("elsewhere".into()));
    assert_eq!(h.manager.stats().pods, 3);
}

/// Pause: a mark that was read again under a hold waits for its end.
#[test]
fn a_mark_that_is_tried_again_waits_for_a_hold() {
    let mut h = Harness::begun(Profile::Bailiff, vec![mk_node("n1", &[])], vec![mk_pod("p", "n1", &[])]);
    h.node(mk_silent("n1"));
    assert_eq!(h.marks.len(), 1);
    h.apply(Input::PodMarked {
        uid: "p".into(),
        answer: FAILED,
    });
    h.at(100);
    assert!(h.reads.contains(&"pod/p".to_owned()), "{:?}", h.reads);
    brake(&mut h, Some(HoldScope::All));
    h.apply(Input::PodRead {
        uid: "p".into(),
        reading: Reading::Found(mk_pod("p", "n1", &[])),
    });
    let stats = h.manager.stats();
    assert_eq!((h.marks.len(), stats.pod_marks, stats.held_marks), (1, 1, 1));
    brake(&mut h, None);
    assert_eq!((h.marks.len(), h.manager.stats().held_marks), (2, 0));
}

/// TE-034, TE-080: an intent and an Event are about one pod, by namespace, name and uid, at the version last seen.
#[test]
fn references_survive_changes_of_the_pod() {
    let mut h = Harness::begun(
        Profile::Bailiff,
        vec![mk_node("n1", &[])],
        vec![mk_pod("p", "n1", &[("m", Some(9))])],
    );
    let mut facts = mk_pod("p", "n1", &[("m", Some(9))]);
    facts.pod.resource_version = "8".into();
    h.pod(facts);
    h.node(mk_node("n1", &["m"]));
    let pod = &h.eviction("p").expect("published").pod;
    let shown = (
        pod.namespace.as_str(),
        pod.name.as_str(),
        &*pod.uid.to_string(),
        pod.resource_version.to_string(),
    );
    assert_eq!(shown, ("default", "p", "p", "8".to_owned()));
    h.node(mk_node("n1", &[]));
    let event = h.all_events.first().expect("said");
    assert_eq!((event.pod.namespace.as_str(), event.pod.name.as_str()), ("default", "p"));
    let withdrawn = h.eviction("p").expect("published");
    assert_eq!(withdrawn.state, IntentState::Withdrawn(WithdrawnReason::TaintsGone));
    assert!(
        matches!(*withdrawn.cause, EvictionCause::Taints { .. }),
        "{:?}",
        withdrawn.cause
    );
}

/// NL-112: a condition taint says since when
#[test]
fn a_taint_that_is_written_says_since_when() {
    let mut h = Harness::begun(Profile::Bailiff, vec![mk_node("n1", &[])], Vec::new());
    h.at(7).node(mk_silent("n1"));
    let taints = h.patches.last().and_then(|patch| patch.taints.as_ref()).expect("patched");
    assert_eq!(
        taints.iter().map(|taint| taint.time_added).collect::<Vec<_>>(),
        [Some(wall(7))]
    );
}

/// TE-052: what was due because its time ended is due anew, and now, when a taint comes that nothing tolerates
#[test]
fn an_untolerated_taint_has_a_due_time_of_its_own() {
    let mut h = Harness::begun(
        Profile::Bailiff,
        vec![mk_node("n1", &[])],
        vec![mk_pod("p", "n1", &[("m", Some(2))])],
    );
    h.at(2).node(mk_node("n1", &["m"]));
    h.at(5).assert_state("p", IntentState::Due, 4);
    h.at(10).node(mk_node("n1", &["m", "other"]));
    h.assert_state("p", IntentState::Due, 10);
    assert_eq!(h.eviction("p").expect("published").trigger, Trigger::Untolerated);
    h.at(20).node(mk_node("n1", &["m", "other", "more"]));
    h.assert_state("p", IntentState::Due, 10);
}

/// NL-035, NL-084: a Node that replaces another of its name was never Ready, so it did not fall silent
#[test]
fn a_node_that_replaces_a_ready_one_did_not_fall_silent() {
    let mut h = Harness::begun(Profile::Bailiff, vec![mk_node("n1", &[])], vec![mk_pod("p", "n1", &[])]);
    h.node(recreated(mk_silent("n1")));
    assert_eq!(h.marks.len(), 0);
}

/// NL-084: only what a controller declared silent is finished after a restart
#[test]
fn a_node_that_says_unknown_by_itself_is_not_finished() {
    let mut facts = mk_silent("n1");
    facts.ready.stopped_posting = false;
    let h = Harness::begun(Profile::Bailiff, vec![facts], vec![mk_pod("p", "n1", &[])]);
    assert_eq!(h.marks.len(), 0);
}

/// TE-102: what is remembered is told once; what comes later are this process's own words
#[test]
fn only_the_first_memory_counts() {
    let mut before = Harness::begun(
        Profile::Bailiff,
        vec![mk_node("n1", &["m"])],
        vec![mk_pod("p", "n1", &[("m", Some(60))])],
    );
    before.at(1);
    let memory = before.memory_at(30);
    let mut h = Harness::new(Config::default());
    h.millis = 30_000;
    h.apply(Input::Inherit(memory));
    h.apply(Input::Inherit(Vec::new()));
    h.apply(Input::Nodes(vec![mk_node("n1", &["m"])].into()));
    let pods: Vec<PodFacts> = vec![mk_pod("p", "n1", &[("m", Some(60))])];
    h.apply(Input::Pods(pods.into()));
    h.assert_state("p", IntentState::Scheduled, 60);
}

/// 100,000 pending timers: one wake is asked for at a time, the earliest, and only when it changed. All that fall due at once
/// are published by one wake, and none before.
#[test]
fn a_hundred_thousand_timers_ask_for_one_wake_at_a_time() {
    const NODES: u64 = 100;
    const PODS: u64 = 1000;
    // Half of all pods are due at one moment, the others a hundred at a time.
    let seconds = |index: u64| if index.is_multiple_of(2) { 5_000 } else { 60 + index };
    let nodes: Vec<NodeFacts> = (0..NODES).map(|node| mk_node(&format!("n{node}"), &[])).collect();
    let pods = (0..NODES * PODS).map(|index| {
        let time = i64::try_from(seconds(index / NODES)).expect("small");
        mk_pod(&format!("p{index:06}"), &format!("n{}", index % NODES), &[("m", Some(time))])
    });
    let mut h = Harness::begun(Profile::Bailiff, nodes, pods.collect());
    h.health(Vec::new());
    // From here on without the harness, which keeps a copy of everything.
    let mut wake_at = None;
    let mut asked = 0;
    for node in 0..NODES {
        let tainted = mk_node(&format!("n{node}"), &["m"]);
        for effect in h.manager.apply(Input::Node(tainted), h.now()) {
            if let Effect::WakeAt(at) = effect {
                (wake_at, asked) = (Some(at), asked + 1);
            }
        }
    }
    let scheduled = h.manager.stats().scheduled;
    assert_eq!((scheduled, asked), (100_000, 1), "the first node has the earliest timer");
    let (mut due, mut turns) = (0, 0);
    while let Some(at) = wake_at.take() {
        h.millis = u64::try_from(at.since_origin().as_millis()).expect("small");
        let effects = h.manager.apply(Input::Wake, h.now());
        let published = effects
            .iter()
            .filter(|effect| matches!(effect, Effect::Publish { .. }))
            .count();
        let wanted = if h.millis == 5_000_000 { 50_000 } else { 100 };
        assert_eq!(published, wanted, "at {} ms", h.millis);
        (due, turns) = (due + published, turns + 1);
        // And the end of each time is told.
        assert_eq!(effects.len(), 2 * published + usize::from(due < 100_000), "and one wake");
        assert_eq!(h.manager.stats().due, due);
        if let Some(Effect::WakeAt(at)) = effects.last() {
            wake_at = Some(*at);
        }
    }
    assert_eq!((turns, due, h.manager.stats().scheduled), (501, 100_000, 0));
}

/// Of several taints the one that decides is found again from what is published, and an Event names it, also after a restart.
#[test]
fn an_event_names_the_taint_that_decides() {
    let pods = || vec![mk_pod("p", "n1", &[("b", Some(10)), ("", Some(300))])];
    let h = Harness::begun(Profile::Bailiff, vec![mk_node("n1", &["a", "b=x"])], pods());
    let eviction = h.eviction("p").expect("published");
    assert_eq!(
        eviction.decisive_taints().iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["b=x:NoExecute"]
    );
    let trace = h.published["pod/p"].trace;
    assert!(trace.is_some());
    let mut restarted = Harness::new(Config::default());
    restarted.millis = h.millis;
    restarted.begin(Vec::new(), pods(), h.memory());
    for mut h in [h, restarted] {
        h.apply(Input::PodGone("p".into()));
        let about = &h.all_events.first().expect("called off").about;
        let named = (
            about.node.as_ref().map(ToString::to_string),
            about.taint.as_ref().map(ToString::to_string),
        );
        assert_eq!(named, (Some("n1".to_owned()), Some("b=x:NoExecute".to_owned())));
        assert_eq!(about.trace, trace);
    }
}
