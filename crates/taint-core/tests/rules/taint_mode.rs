//! Taint mode: pods against the NoExecute taints of their node.

use bailiff_model::intent::{EvictionCause, IntentState, Trigger, WithdrawnReason};
use bailiff_model::{Effect as TaintEffect, Listed, Origin, Taint, TraceContext, Verdict, Wall, Zone};
use bailiff_taint_core::{Component, Input, NodeFacts, PodFacts, Profile, Severity};

use crate::harness::{Harness, at_version, mk_health, mk_node, mk_origin, mk_pod, mk_taint, recreated, wall};

const BOTH: [Profile; 2] = [Profile::Bailiff, Profile::Upstream];
const GONE: IntentState = IntentState::Withdrawn(WithdrawnReason::TaintsGone);
const TOLERATED: IntentState = IntentState::Withdrawn(WithdrawnReason::Tolerated);
use IntentState::{Due, Scheduled};

/// TE-050, TE-052, TE-053, TE-054, TE-055, TE-082, TE-113, TE-114, TE-120, TE-121: recording `te-toleration-lengths`
#[test]
fn a_pod_stays_as_long_as_it_tolerates() {
    for profile in BOTH {
        let pods = vec![
            mk_pod("none", "n1", &[]),
            mk_pod("2s", "n1", &[("m", Some(2))]),
            mk_pod("forever", "n1", &[("m", None)]),
            mk_pod("zero", "n1", &[("m", Some(0))]),
            mk_pod("negative", "n1", &[("m", Some(-7))]),
            mk_pod("wrong-key", "n1", &[("other", None)]),
            mk_pod("everything", "n1", &[("", None)]),
            mk_pod("endless", "n1", &[("m", Some(i64::MAX))]),
            mk_pod("elsewhere", "n2", &[]),
        ];
        let mut h = Harness::begun(profile, vec![mk_node("n1", &[]), mk_node("n2", &[])], pods);
        h.assert_only(&[]);
        h.at(2).node(mk_node("n1", &["m=x"]));
        let trigger = |h: &Harness, uid: &str| h.eviction(uid).expect("published").trigger;
        h.assert_only(&["none", "2s", "zero", "negative", "wrong-key"]);
        for (uid, wanted) in [
            ("none", Trigger::Untolerated),
            ("zero", Trigger::Expired),
            ("negative", Trigger::Expired),
        ] {
            h.assert_state(uid, Due, 2);
            assert_eq!(trigger(&h, uid), wanted, "{uid}");
        }
        h.assert_state("2s", Scheduled, 4);
        h.at(3).assert_state("2s", Scheduled, 4);
        h.at(4).assert_state("2s", Due, 4);
        assert_eq!(trigger(&h, "2s"), Trigger::Expired);
        assert_eq!(h.events, [""; 0], "no event when a time starts or ends");
    }
}

/// TE-055, design §2: all times of an intent are told by one clock, so that they bear each other out whatever that clock did
/// meanwhile; and a step of it is no news.
#[test]
fn a_clock_that_is_put_back_does_not_belie_what_is_due() {
    let mut h = Harness::begun(
        Profile::Bailiff,
        vec![mk_node("n1", &[])],
        vec![mk_pod("p", "n1", &[("m", Some(300))]), mk_pod("q", "n1", &[("m", Some(200))])],
    );
    let check = |h: &Harness, uid: &str, seconds: u64| {
        let eviction = h.eviction(uid).expect("published");
        let EvictionCause::Taints { taints, .. } = &*eviction.cause else {
            unreachable!("taint mode")
        };
        let since = taints[0].time_added.expect("it counts since then");
        assert_eq!(since + std::time::Duration::from_secs(seconds), eviction.due_at, "{uid}");
    };
    h.at(2).node(mk_node("n1", &["m"]));
    h.at(100).ahead = -60;
    let before = h.publications;
    h.node(at_version(mk_node("n1", &["m"]), "2"));
    h.at(202).assert_state("q", Due, 142);
    check(&h, "q", 200);
    h.at(302).assert_state("p", Due, 242);
    check(&h, "p", 300);
    assert_eq!(h.publications, before + 2);
}

/// TE-012, TE-104, TE-114: other effects, other fields and resyncs evaluate nothing
#[test]
fn what_does_not_matter_is_not_evaluated() {
    let mut h = Harness::begun(
        Profile::Bailiff,
        vec![mk_node("n1", &["m"])],
        vec![mk_pod("p", "n1", &[("m", Some(9))])],
    );
    let before = h.publications;
    let schedule = NodeFacts {
        taints: vec![mk_taint("m"), Taint::new("x", TaintEffect::NoSchedule)],
        ..mk_node("n1", &[])
    };
    h.at(1).node(at_version(schedule, "2"));
    h.pod(mk_pod("p", "n1", &[("m", Some(9))]));
    h.apply(Input::Nodes(vec![mk_node("n1", &["m"])].into()));
    h.apply(Input::Pods(vec![mk_pod("p", "n1", &[("m", Some(9))])].into()));
    assert_eq!(h.publications, before);
    h.assert_state("p", Scheduled, 9);
}

/// TE-032, TE-064, TE-066, TE-080, TE-112: recording `te-untaint-and-retaint`
#[test]
fn removing_the_taint_cancels_and_a_new_one_starts_anew() {
    for profile in BOTH {
        let mut h = Harness::begun(profile, vec![mk_node("n1", &[])], vec![mk_pod("p", "n1", &[("m", Some(4))])]);
        h.at(2).node(mk_node("n1", &["m"]));
        h.assert_state("p", Scheduled, 6);
        h.at(4).node(mk_node("n1", &[]));
        assert_eq!(h.state("p"), Some(GONE));
        assert_eq!(h.events, ["Cancelling deletion of Pod default/p"]);
        h.at(6).node(mk_node("n1", &["m"]));
        h.assert_state("p", Scheduled, 10);
        h.at(10).assert_state("p", Due, 10);
        assert_eq!(h.events.len(), 1);
    }
}

/// TE-002, TE-080
#[test]
fn the_cancelling_event_names_the_pod_without_uid() {
    let mut h = Harness::begun(
        Profile::Bailiff,
        vec![mk_node("n1", &["m"])],
        vec![mk_pod("p", "n1", &[("m", Some(4))])],
    );
    h.node(mk_node("n1", &[]));
    let event = h.all_events.first().expect("said");
    assert_eq!(
        (event.component, event.severity),
        (Component::TaintEvictionController, Severity::Normal)
    );
    assert_eq!((event.reason, &*event.pod.uid.to_string()), ("TaintManagerEviction", ""));
    assert_eq!(event.about.trace, h.published["pod/p"].trace);
}

/// TE-052, TE-081: from a running time to at once: cancelled first
#[test]
fn an_untolerated_taint_is_due_at_once() {
    for profile in BOTH {
        let mut h = Harness::begun(
            profile,
            vec![mk_node("n1", &["m"])],
            vec![mk_pod("p", "n1", &[("m", Some(50))])],
        );
        h.at(3).node(mk_node("n1", &["m", "other"]));
        h.assert_state("p", Due, 3);
        assert_eq!(h.eviction("p").expect("due").trigger, Trigger::Untolerated);
        assert_eq!(h.events, ["Cancelling deletion of Pod default/p"]);
        let before = h.publications;
        h.at(5).node(mk_node("n1", &["other", "m"]));
        h.assert_state("p", Due, 3);
        assert!(h.publications <= before + 1, "the order of taints is news at most once");
        h.at(9).node(mk_node("n1", &[]));
        assert_eq!(h.state("p"), Some(GONE));
        assert_eq!(h.events.len(), 1, "TE-066: what was due is withdrawn without an event");
    }
}

/// TE-051, TE-053, TE-122, TE-123: recording `te-minimum-and-first-match`
#[test]
fn the_first_match_counts_and_the_minimum_over_taints() {
    for profile in BOTH {
        let pods = vec![
            mk_pod("5-and-2", "n1", &[("m", Some(5)), ("o", Some(2))]),
            mk_pod("6-then-1", "n1", &[("m", Some(6)), ("m", Some(1)), ("o", None)]),
            mk_pod("forever-then-1", "n1", &[("m", None), ("m", Some(1)), ("o", None)]),
            mk_pod("forever-and-4", "n1", &[("m", None), ("o", Some(4))]),
            mk_pod("only-one", "n1", &[("m", None)]),
        ];
        let mut h = Harness::begun(profile, vec![mk_node("n1", &[])], pods);
        h.at(2).node(mk_node("n1", &["m", "o=v"]));
        for (uid, state, due) in [
            ("5-and-2", Scheduled, 4),
            ("6-then-1", Scheduled, 8),
            ("forever-and-4", Scheduled, 6),
            ("only-one", Due, 2),
        ] {
            h.assert_state(uid, state, due);
        }
        h.assert_only(&["5-and-2", "6-then-1", "forever-and-4", "only-one"]);
    }
}

/// TE-054, TE-063, TE-123 and the difference: recording `te-short-taint-removed`
#[test]
fn removing_the_shorter_taint_postpones() {
    for (profile, due) in [(Profile::Bailiff, 32), (Profile::Upstream, 7)] {
        let pods = vec![
            mk_pod("finite", "n1", &[("m", Some(5)), ("o", Some(30))]),
            mk_pod("forever", "n1", &[("m", Some(5)), ("o", None)]),
        ];
        let mut h = Harness::begun(profile, vec![mk_node("n1", &[])], pods);
        h.at(2).node(mk_node("n1", &["m", "o"]));
        h.at(4).node(mk_node("n1", &["o"]));
        h.assert_state("finite", Scheduled, due);
        assert_eq!(h.state("forever"), Some(TOLERATED));
        assert_eq!(h.events, ["Cancelling deletion of Pod default/forever"]);
        h.at(due.unsigned_abs()).assert_state("finite", Due, due);
    }
}

/// TE-011, TE-063, TE-065 and the difference
#[test]
fn a_running_time_can_be_lengthened_never_shortened() {
    let cases = [
        (Some(100), Profile::Bailiff, 102),
        (Some(100), Profile::Upstream, 7),
        (Some(1), Profile::Bailiff, 7),
        (Some(0), Profile::Upstream, 7),
    ];
    for (seconds, profile, due) in cases {
        let mut h = Harness::begun(profile, vec![mk_node("n1", &[])], vec![mk_pod("p", "n1", &[("m", Some(5))])]);
        h.at(2).node(mk_node("n1", &["m"]));
        h.at(4).pod(mk_pod("p", "n1", &[("m", seconds)]));
        h.assert_state("p", Scheduled, due);
        assert_eq!(h.events, [""; 0]);
        h.at(5).pod(mk_pod("p", "n1", &[("m", None)]));
        assert_eq!(h.state("p"), Some(TOLERATED), "an unlimited one cancels");
        h.at(6).pod(mk_pod("p", "n1", &[("m", Some(5))]));
        h.assert_state("p", Scheduled, 11);
    }
}

/// TE-125, recording `te-value-change`: the identity of a taint includes its value
#[test]
fn another_value_is_another_taint() {
    for profile in BOTH {
        let pods = vec![
            mk_pod("v1", "n1", &[("m=v1", None)]),
            mk_pod("v1-then-v2", "n1", &[("m=v1", None), ("m=v2", Some(3))]),
            mk_pod("v1-20s-v2-3s", "n1", &[("m=v1", Some(20)), ("m=v2", Some(3))]),
            mk_pod("v2-9s", "n1", &[("m=v2", Some(9))]),
        ];
        let mut h = Harness::begun(profile, vec![mk_node("n1", &[])], pods);
        h.at(2).node(mk_node("n1", &["m=v1"]));
        h.assert_state("v2-9s", Due, 2);
        h.assert_state("v1-20s-v2-3s", Scheduled, 22);
        h.at(5).node(mk_node("n1", &["m=v2"]));
        h.assert_state("v1", Due, 5);
        h.assert_state("v1-then-v2", Scheduled, 8);
        h.assert_state("v1-20s-v2-3s", Scheduled, 22);
        h.assert_state("v2-9s", Scheduled, 14);
    }
}

/// TE-111: the deadline stands through a swap, in one step or in two
#[test]
fn a_swap_of_the_health_taints_keeps_the_deadline() {
    const NOT_READY: &str = "node.kubernetes.io/not-ready";
    const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
    let steps: [&[&[&str]]; 2] = [&[&[NOT_READY]], &[&[UNREACHABLE, NOT_READY], &[NOT_READY]]];
    for (profile, steps) in BOTH.into_iter().flat_map(|profile| steps.map(|steps| (profile, steps))) {
        let pods = vec![
            mk_pod("both", "n1", &[(NOT_READY, Some(300)), (UNREACHABLE, Some(300))]),
            mk_pod("late", "n1", &[(UNREACHABLE, None), (NOT_READY, Some(60))]),
        ];
        let mut h = Harness::begun(profile, vec![mk_node("n1", &[])], pods);
        h.at(10).node(mk_node("n1", &[UNREACHABLE]));
        h.at(100);
        for taints in steps {
            h.node(mk_node("n1", taints));
        }
        h.assert_state("both", Scheduled, 310);
        h.assert_state("late", Scheduled, 160);
        assert_eq!(h.events, [""; 0]);
    }
}

/// TE-021, TE-040, TE-045: recording `te-late-assignment`
#[test]
fn time_counts_from_the_assignment() {
    for profile in BOTH {
        let mut h = Harness::begun(profile, vec![mk_node("n1", &["m"])], vec![mk_pod("p", "", &[("m", Some(3))])]);
        h.assert_only(&[]);
        h.at(4).pod(mk_pod("p", "n1", &[("m", Some(3))]));
        h.assert_state("p", Scheduled, 7);
        h.at(6).pod(mk_pod("q", "n1", &[]));
        h.assert_state("q", Due, 6);
    }
}

/// TE-042
#[test]
fn a_pod_that_is_gone_is_called_off() {
    let pods = vec![mk_pod("waits", "n1", &[("m", Some(5))]), mk_pod("due", "n1", &[])];
    let mut h = Harness::begun(Profile::Bailiff, vec![mk_node("n1", &["m"])], pods);
    h.apply(Input::PodGone("waits".into()));
    h.apply(Input::Pods(Vec::new().into()));
    h.assert_only(&[]);
    assert_eq!(h.events, ["Cancelling deletion of Pod default/waits"]);
    assert_eq!(
        h.manager.stats(),
        bailiff_taint_core::Stats {
            nodes: 1,
            ..Default::default()
        }
    );
}

/// TE-042: one broken object must not look like a deleted one.
#[test]
fn what_a_list_names_as_unreadable_stays_as_it_was() {
    let pods = vec![mk_pod("p", "n1", &[("m", Some(5))])];
    let mut h = Harness::begun(Profile::Bailiff, vec![mk_node("n1", &["m"])], pods);
    h.apply(Input::Nodes(Listed {
        all: Vec::new(),
        unreadable: vec!["n1".into()],
    }));
    h.apply(Input::Pods(Listed {
        all: Vec::new(),
        unreadable: vec!["p".into()],
    }));
    h.assert_only(&["p"]);
    assert_eq!(h.manager.stats().nodes, 1);
}

/// TE-043, TE-044: identity is the uid
#[test]
fn a_pod_of_the_same_name_inherits_nothing() {
    let mut h = Harness::begun(
        Profile::Upstream,
        vec![mk_node("n1", &["m"])],
        vec![mk_pod("old", "n1", &[("m", Some(5))])],
    );
    let mut new = mk_pod("new", "n1", &[("m", Some(5))]);
    new.pod.name = "old".into();
    h.at(3).apply(Input::Pods(vec![new].into()));
    h.assert_only(&["new"]);
    h.assert_state("new", Scheduled, 8);
}

/// TE-034: recordings `te-node-recreated`, `nl-node-deleted-while-tainted`
#[test]
fn times_run_on_when_the_node_is_gone() {
    for profile in BOTH {
        let pods = vec![mk_pod("5s", "n1", &[("m", Some(5))]), mk_pod("8s", "n1", &[("m", Some(8))])];
        let mut h = Harness::begun(profile, vec![mk_node("n1", &[])], pods);
        h.at(2).node(mk_node("n1", &["m"]));
        h.at(4).apply(Input::NodeGone {
            name: "n1".into(),
            uid: "n1-1".into(),
        });
        h.pod(mk_pod("late", "n1", &[]));
        h.at(7).assert_state("5s", Due, 7);
        h.at(8).node(recreated(mk_node("n1", &[])));
        assert_eq!(h.state("8s"), Some(GONE));
        assert_eq!(h.events, ["Cancelling deletion of Pod default/8s"]);
        h.assert_only(&["5s", "8s"]);
    }
}

/// TE-035, NL-035, NL-036: another Node under the same name voids times, in the same event or a new list
#[test]
fn another_node_of_the_name_starts_anew() {
    for list in [false, true] {
        let mut h = Harness::begun(
            Profile::Upstream,
            vec![mk_node("n1", &["m"])],
            vec![mk_pod("p", "n1", &[("m", Some(6))])],
        );
        let new = recreated(mk_node("n1", &["m"]));
        h.at(3).apply(if list {
            Input::Nodes(vec![new].into())
        } else {
            Input::Node(new)
        });
        h.assert_state("p", Scheduled, 9);
        assert_eq!(h.eviction("p").expect("scheduled").node.uid.to_string(), "n1-2");
        h.apply(Input::NodeGone {
            name: "n1".into(),
            uid: "n1-1".into(),
        });
        assert_eq!(h.manager.stats().nodes, 1, "the old one's end says nothing about the new one");
    }
}

/// TE-063: a stamp moves nothing
#[test]
fn stamping_a_taint_again_moves_nothing() {
    let mut h = Harness::begun(
        Profile::Bailiff,
        vec![mk_node("n1", &["m"])],
        vec![mk_pod("p", "n1", &[("m", Some(9))])],
    );
    let mut stamped = mk_node("n1", &["m"]);
    stamped.taints[0].time_added = Some(Wall::MIN);
    h.at(5).node(stamped);
    h.assert_state("p", Scheduled, 9);
}

/// TE-055, TE-076: upstream, an eviction that is over is forgotten. What is judged after that is decided anew, and said: a time that
/// ran out begins again, unless the pod is on its way out. What no judgement follows says nothing.
#[test]
fn what_was_tried_is_forgotten_when_a_pod_is_judged_again() {
    for (profile, leaving, said_again) in [(Profile::Bailiff, (Scheduled, 23), 0), (Profile::Upstream, (Due, 4), 1)] {
        let pods = || {
            vec![
                mk_pod("finite", "n1", &[("m", Some(3))]),
                mk_pod("leaving", "n1", &[("m", Some(3))]),
                mk_pod("none", "n1", &[]),
            ]
        };
        let mut h = Harness::begun(profile, vec![mk_node("n1", &[])], pods());
        h.at(1).node(mk_node("n1", &["m"]));
        h.at(4);
        h.pod(PodFacts {
            terminating: true,
            ..pods().remove(1)
        });
        for pod in ["finite", "leaving"] {
            h.assert_state(pod, Due, 4);
        }
        let none = h.eviction("none").cloned();
        h.at(10).node(at_version(mk_node("n1", &["m"]), "2"));
        assert_eq!(h.eviction("none").cloned(), none, "{profile}: nothing is judged");
        // The value changed: another taint, which all of them tolerate as they did the one before.
        h.at(20).node(mk_node("n1", &["m=v"]));
        h.assert_state("finite", Scheduled, 23);
        h.assert_state("leaving", leaving.0, leaving.1);
        // The same taints, stamped again, are judged again, too.
        let said = h.eviction("none").map(|eviction| eviction.decided_at);
        let mut stamped = mk_node("n1", &["m=v"]);
        stamped.taints[0].time_added = Some(wall(21));
        h.at(22).node(stamped);
        let again = h.eviction("none").map(|eviction| eviction.decided_at) != said;
        assert_eq!(i32::from(again), said_again, "{profile}");
    }
}

/// TE-120: no length of a toleration breaks a timer
#[test]
fn any_number_of_seconds_is_a_time() {
    for seconds in [i64::MIN, -1, 0, 1, 68_000_000, 9_223_372_036, 9_223_372_037, i64::MAX] {
        let mut h = Harness::begun(
            Profile::Bailiff,
            vec![mk_node("n1", &[])],
            vec![mk_pod("p", "n1", &[("m", Some(seconds))])],
        );
        h.at(1).node(mk_node("n1", &["m"]));
        let wanted = match seconds {
            ..=0 => Some(Due),
            1..=9_223_372_036 => Some(Scheduled),
            _ => None,
        };
        assert_eq!(h.state("p"), wanted, "{seconds}");
    }
}

/// A cause says which taints stood, since when, and what tolerated them; the trace leads to the hand or to the incident
#[test]
fn an_intent_says_why() {
    let mut h = Harness::begun(
        Profile::Bailiff,
        vec![mk_node("n1", &[])],
        vec![mk_pod("p", "n1", &[("m", Some(9)), ("o", None)])],
    );
    h.at(2).node(mk_node("n1", &["m=v"]));
    h.at(3).node(mk_node("n1", &["m=v", "o"]));
    let eviction = h.eviction("p").expect("scheduled");
    let EvictionCause::Taints { taints, tolerations } = &*eviction.cause else {
        panic!("{eviction:?}");
    };
    let since: Vec<_> = taints.iter().map(|taint| (&*taint.key, taint.time_added)).collect();
    assert_eq!(since, [("m", Some(wall(2))), ("o", Some(wall(3)))]);
    assert_eq!(tolerations.len(), 2);
    let record = &h.published["pod/p"];
    let micros = wall(2).as_microsecond().to_string();
    let by_hand = TraceContext::derived(&["n1-1", "\0", "m=v:NoExecute", "\0", &micros]);
    assert_eq!((&record.derived_from, record.trace), (&Origin::default(), Some(by_hand)));
}

#[test]
fn an_eviction_for_health_carries_the_incident() {
    let mut h = Harness::begun(Profile::Bailiff, vec![mk_node("n1", &[])], vec![mk_pod("p", "n1", &[])]);
    let record = mk_health("n1", 7, Verdict::Unreachable, 0, 2);
    let trace = record.trace;
    h.at(2).health(vec![record]);
    h.node(mk_node("n1", &["node.kubernetes.io/unreachable"]));
    assert_eq!(h.published["pod/p"].derived_from, mk_origin(7));
    assert_eq!(h.published["pod/p"].trace, trace);
}

/// Readers filter by zone: what is wanted of the pods goes along when their node changes it
#[test]
fn intents_follow_their_node_into_another_zone() {
    let node = mk_node("n1", &["k"]);
    let pods = vec![mk_pod("p", "n1", &[("k", Some(60))]), mk_pod("q", "n1", &[("k", None)])];
    let mut h = Harness::begun(Profile::Bailiff, vec![node.clone()], pods);
    assert!(h.eviction("p").expect("scheduled").zone.is_unlabelled());
    let (zone, before) = (Zone::new("r", "z"), h.publications);
    h.at(5).node(NodeFacts {
        zone: zone.clone(),
        ..at_version(node, "2")
    });
    assert_eq!(h.eviction("p").expect("scheduled").zone, zone);
    assert_eq!(h.publications, before + 1, "what is not wanted is not said");
    h.assert_state("p", IntentState::Scheduled, 60);
}
