//! What a restart keeps, and what it must not do.

use bailiff_model::intent::{EvictionCause, Intent, IntentState};
use bailiff_model::{Taint, Verdict};
use bailiff_taint_core::{Effect, Inherited, Input, NodeFacts, Profile};

use crate::harness::{
    Harness, mk_config, mk_health, mk_node, mk_origin, mk_pod, mk_taint, mk_toleration, mk_tombstone, recreated, seconds, wall,
};
use IntentState::{Due, Scheduled};

/// Plays taint `m` at 2 s and a pod that tolerates it for 8 s, and restarts at 6 s with what `keep` leaves of the bus's memory.
fn restart(profile: Profile, keep: impl Fn(&mut Vec<Inherited>), node: NodeFacts) -> Harness {
    let mut before = Harness::begun(profile, vec![mk_node("n1", &[])], vec![mk_pod("p", "n1", &[("m", Some(8))])]);
    before.at(2).node(mk_node("n1", &["m"]));
    before.assert_state("p", Scheduled, 10);
    let mut memory = before.memory_at(6);
    keep(&mut memory);
    let mut after = Harness::new(mk_config(profile));
    after
        .at(6)
        .begin(vec![node], vec![mk_pod("p", "n1", &[("m", Some(8))])], memory);
    after
}

fn mk_stamped(added: i64) -> NodeFacts {
    NodeFacts {
        taints: vec![Taint {
            time_added: Some(wall(added)),
            ..mk_taint("m")
        }],
        ..mk_node("n1", &[])
    }
}

/// TE-057, TE-102 and the difference: recording `te-restart`
#[test]
fn a_restart_does_not_start_the_clock_again() {
    let bailiff = restart(Profile::Bailiff, |_| {}, mk_node("n1", &["m"]));
    bailiff.assert_state("p", Scheduled, 10);
    let upstream = restart(Profile::Upstream, |_| {}, mk_stamped(2));
    upstream.assert_state("p", Scheduled, 14);
}

/// What the bus lost is replaced: by `timeAdded`, clamped; else by now. What was over before the process began is due at its origin
#[test]
fn without_memory_time_added_counts() {
    let forget = |memory: &mut Vec<Inherited>| memory.clear();
    let young = NodeFacts {
        created: Some(wall(3)),
        ..mk_stamped(1)
    };
    let cases = [
        (mk_stamped(3), Scheduled, 11),
        (mk_stamped(-500), Due, 0),
        (mk_stamped(900), Scheduled, 14),
        (young, Scheduled, 11),
        (mk_node("n1", &["m"]), Scheduled, 14),
    ];
    for (node, state, due) in cases {
        let text = format!("{node:?}");
        let h = restart(Profile::Bailiff, forget, node);
        assert_eq!((h.state("p"), h.due("p")), (Some(state), Some(due)), "{text}");
    }
}

/// Bound-at is PodScheduled's transition
#[test]
fn without_memory_the_binding_counts_too() {
    let mut h = Harness::new(mk_config(Profile::Bailiff));
    let mut pod = mk_pod("p", "n1", &[("m", Some(8))]);
    pod.bound = Some(wall(4));
    h.at(6).begin(vec![mk_stamped(2)], vec![pod], Vec::new());
    h.assert_state("p", Scheduled, 12);
}

/// TE-043, NL-035: what is remembered of another pod, or another Node of the name, is void
#[test]
fn memory_is_by_uid() {
    let node = restart(Profile::Bailiff, |_| {}, recreated(mk_node("n1", &["m"])));
    node.assert_state("p", Scheduled, 14);
    let mut h = Harness::new(mk_config(Profile::Bailiff));
    let memory = restart(Profile::Bailiff, |_| {}, mk_node("n1", &["m"])).memory();
    h.at(6).begin(
        vec![mk_node("n1", &["m"])],
        vec![mk_pod("q", "n1", &[("m", Some(8))])],
        memory,
    );
    h.assert_only(&["q"]);
}

/// What was due stays due; what ended meanwhile is not said again, without an event
#[test]
fn memory_of_what_ended_is_dropped() {
    let h = restart(Profile::Bailiff, |_| {}, mk_node("n1", &[]));
    h.assert_only(&[]);
    assert!(h.events.is_empty());
    let mut late = Harness::new(mk_config(Profile::Bailiff));
    let memory = restart(Profile::Bailiff, |_| {}, mk_node("n1", &["m"])).memory_at(60);
    late.at(60).begin(
        vec![mk_node("n1", &["m"])],
        vec![mk_pod("p", "n1", &[("m", Some(8))])],
        memory,
    );
    late.assert_state("p", Due, 10);
}

/// A deadline that was kept (TE-063) is kept by the next process too, although the pod asks for less now
#[test]
fn a_restart_makes_nothing_earlier() {
    let mut before = Harness::begun(
        Profile::Bailiff,
        vec![mk_node("n1", &["m"])],
        vec![mk_pod("p", "n1", &[("m", Some(50))])],
    );
    before.at(1).pod(mk_pod("p", "n1", &[("m", Some(3))]));
    before.assert_state("p", Scheduled, 50);
    let mut after = Harness::new(mk_config(Profile::Bailiff));
    after.at(6).begin(
        vec![mk_node("n1", &["m"])],
        vec![mk_pod("p", "n1", &[("m", Some(3))])],
        before.memory_at(6),
    );
    after.assert_state("p", Scheduled, 50);
}

/// TE-111 across a restart
#[test]
fn a_swap_while_nobody_looked_keeps_the_deadline() {
    let (unreachable, not_ready) = ("node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready");
    let pod = || {
        let mut pod = mk_pod("p", "n1", &[]);
        pod.tolerations = [unreachable, not_ready].map(|key| mk_toleration(key, Some(300))).to_vec();
        pod
    };
    let mut before = Harness::begun(Profile::Bailiff, vec![mk_node("n1", &[])], vec![pod()]);
    before.at(2).node(mk_node("n1", &[unreachable]));
    let mut after = Harness::new(mk_config(Profile::Bailiff));
    after
        .at(60)
        .begin(vec![mk_node("n1", &[not_ready])], vec![pod()], before.memory_at(60));
    after.assert_state("p", Scheduled, 302);
}

/// TE-057, TE-060, TE-102: the clock is stepped and the process starts again, or another takes over whose clock is another. Nothing is
/// early, nothing late; nor when it was put right in the end.
#[test]
fn a_clock_step_across_a_restart_moves_no_deadline() {
    for ahead in [-3600, -300, -7, 0, 7, 300, 3600] {
        let pod = |seconds| vec![mk_pod("p", "n1", &[("m", Some(seconds))])];
        let mut before = Harness::begun(Profile::Bailiff, vec![mk_node("n1", &[])], pod(8));
        before.at(2).node(mk_node("n1", &["m"]));
        let mut after = Harness::new(mk_config(Profile::Bailiff));
        after.ahead = ahead;
        after.at(6).begin(vec![mk_node("n1", &["m"])], pod(8), before.memory_at(6));
        after.assert_state("p", Scheduled, 10 + ahead);
        let mut last = Harness::new(mk_config(Profile::Bailiff));
        last.at(8).begin(vec![mk_node("n1", &["m"])], pod(8), after.memory_at(8));
        last.at(9).assert_state("p", Scheduled, 10);
        last.at(10).assert_state("p", Due, 10);
        // The start of the taint is where it was, too.
        after.at(9).pod(mk_pod("p", "n1", &[("m", Some(20))]));
        after.assert_state("p", Scheduled, 22 + ahead);
    }
}

/// TE-034, TE-060: neither does it where there is no Node any more to judge by
#[test]
fn a_clock_step_moves_nothing_of_a_gone_node() {
    for ahead in [-3600, 3600] {
        let pods = || vec![mk_pod("p", "n1", &[("m", Some(8))])];
        let mut before = Harness::begun(Profile::Bailiff, vec![mk_node("n1", &["m"])], pods());
        before.at(2);
        let mut after = Harness::new(mk_config(Profile::Bailiff));
        after.ahead = ahead;
        after.at(4).begin(Vec::new(), pods(), before.memory_at(4));
        after.assert_state("p", Scheduled, 8 + ahead);
        let mut last = Harness::new(mk_config(Profile::Bailiff));
        last.at(6).begin(Vec::new(), pods(), after.memory_at(6));
        last.at(7).assert_state("p", Scheduled, 8);
        let told = last.eviction("p").expect("published");
        let EvictionCause::Taints { taints, .. } = &*told.cause else {
            unreachable!("taint mode")
        };
        assert_eq!(taints[0].time_added, Some(wall(0)), "by the clock that due-at is told by");
        last.at(8).assert_state("p", Due, 8);
    }
}

/// TE-102: a bus that does not tell how old a record is. What was left of the time when it was decided is the longest that can be left
#[test]
fn a_record_of_unknown_age_is_as_good_as_new() {
    let forget_age = |memory: &mut Vec<Inherited>| memory.iter_mut().for_each(|record| record.age = None);
    let h = restart(Profile::Bailiff, forget_age, mk_node("n1", &["m"]));
    h.assert_state("p", Scheduled, 14);
}

/// TE-034: a Node that is gone leaves its intents standing, also across a restart
#[test]
fn intents_of_a_gone_node_survive_a_restart() {
    let pods = || vec![mk_pod("waits", "n1", &[("m", Some(8))]), mk_pod("due", "n1", &[])];
    let mut before = Harness::begun(Profile::Bailiff, vec![mk_node("n1", &["m"])], pods());
    before.at(2);
    let mut after = Harness::new(mk_config(Profile::Bailiff));
    after.at(4).begin(Vec::new(), pods(), before.memory_at(4));
    after.assert_state("waits", Scheduled, 8);
    assert_eq!(after.state("due"), Some(Due));
    after.at(8).assert_state("waits", Due, 8);
}

/// What is seen to happen between the first list and the beginning is not what the bus remembers
#[test]
fn a_taint_put_back_before_the_beginning_starts_anew() {
    let mut before = Harness::begun(
        Profile::Bailiff,
        vec![mk_node("n1", &["m"])],
        vec![mk_pod("p", "n1", &[("m", Some(8))])],
    );
    before.at(1);
    let mut after = Harness::new(mk_config(Profile::Bailiff));
    after.at(2).apply(Input::Nodes(vec![mk_node("n1", &["m"])].into()));
    after.apply(Input::Pods(vec![mk_pod("p", "n1", &[("m", Some(8))])].into()));
    after.at(4).node(mk_node("n1", &[]));
    after.at(30).node(mk_node("n1", &["m"]));
    after.at(35).apply(Input::Inherit(before.memory_at(35)));
    after.assert_state("p", Scheduled, 38);
}

/// Nothing is completed, nothing decided about pods, before Nodes, Pods and the past are known, in whatever order
#[test]
fn nothing_is_complete_before_everything_is_known() {
    let inputs = || {
        [
            Input::Nodes(vec![mk_node("n1", &["m"])].into()),
            Input::Pods(vec![mk_pod("p", "n1", &[])].into()),
            Input::Inherit(Vec::new()),
        ]
    };
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let mut h = Harness::new(mk_config(Profile::Bailiff));
        for (position, index) in order.into_iter().enumerate() {
            let effects = h.apply(inputs()[index].clone());
            let last = position == 2;
            assert!(!effects.contains(&Effect::Complete), "{order:?}: node-health is not complete");
            assert_eq!(h.state("p").is_some(), last, "{order:?}");
            assert!(h.manager.waits_for().is_some(), "{order:?}");
        }
        h.health(Vec::new());
        assert_eq!((h.completed, h.manager.waits_for()), (1, None), "{order:?}");
        let again = h.apply(Input::Inherit(Vec::new()));
        assert_eq!(again, [], "{order:?}");
    }
}

/// NL-034: wishes survive a restart until a verdict says otherwise, and are not dropped while node-health is incomplete
#[test]
fn wishes_are_carried_over_until_health_is_complete() {
    let mut before = Harness::begun(Profile::Bailiff, Vec::new(), Vec::new());
    before.health(vec![
        mk_health("n1", 3, Verdict::Unreachable, 0, 2),
        mk_health("n2", 4, Verdict::NotReady, 0, 2),
        mk_health("n3", 5, Verdict::Unreachable, 0, 2),
    ]);
    let mut after = Harness::new(mk_config(Profile::Bailiff));
    after.begin(Vec::new(), Vec::new(), before.memory());
    assert_eq!(after.completed, 0, "verdicts may still be missing");
    assert_eq!(after.memory(), before.memory(), "as they were, derived from the same records");
    after.apply(Input::Health {
        snapshot: true,
        complete: false,
        records: vec![mk_health("n1", 9, Verdict::Healthy, 0, 2)],
        unreadable: Vec::new(),
    });
    assert_eq!(after.published.keys().collect::<Vec<_>>(), ["node/n2", "node/n3"]);
    after.health(vec![mk_health("n2", 10, Verdict::NotReady, 0, 2)]);
    assert_eq!(after.completed, 1);
    assert_eq!(
        after.published.keys().collect::<Vec<_>>(),
        ["node/n2"],
        "complete: n3 is known to be gone"
    );
    assert_eq!(after.published["node/n2"].derived_from, mk_origin(10));
}

/// NL-034, NL-205: the bus remembers nothing, and verdicts come late. Until they are answered a missing wish means nothing; but evictions
/// for hand-made taints wait for that only so long, and not at all where nobody was asked for verdicts.
#[test]
fn intents_are_not_complete_before_verdicts_are_answered() {
    let begin = |h: &mut Harness| h.begin(vec![mk_node("n1", &["m"])], vec![mk_pod("p", "n1", &[])], Vec::new());
    let partly = |complete| Input::Health {
        snapshot: false,
        complete,
        records: vec![mk_health("n1", 3, Verdict::Unreachable, 0, 2)],
        unreadable: Vec::new(),
    };
    let mut h = Harness::new(mk_config(Profile::Bailiff));
    begin(&mut h);
    h.apply(partly(false));
    assert_eq!((h.completed, h.published.len()), (0, 2));
    let effects = h.at(5).apply(partly(true));
    assert_eq!((h.completed, effects.last()), (1, Some(&Effect::Complete)));
    let mut alone = Harness::new(mk_config(Profile::Bailiff));
    begin(&mut alone);
    assert_eq!(alone.at(29).completed, 0);
    assert_eq!(alone.at(30).completed, 1);
    let mut config = mk_config(Profile::Bailiff);
    config.duties.node_lifecycle = false;
    let mut relieved = Harness::new(config);
    begin(&mut relieved);
    assert_eq!(relieved.completed, 1);
}

/// NL-207: node mode forgets timeouts; recording `lg-restart-waiting`
#[test]
fn a_restart_starts_node_timeouts_again() {
    for profile in [Profile::Bailiff, Profile::Upstream] {
        let config = bailiff_taint_core::Config {
            mode: bailiff_taint_core::EvictionMode::Node,
            ..mk_config(profile)
        };
        let not_before = |h: &Harness| match &h.published["node/n1"].intent {
            Intent::NodeEviction(wish) => seconds(wish.not_before),
            other => panic!("{other:?}"),
        };
        let mut before = Harness::new(config);
        before.begin(vec![mk_node("n1", &[])], vec![mk_pod("p", "n1", &[])], Vec::new());
        before.health(Vec::new());
        before.at(50).health(vec![mk_health("n1", 3, Verdict::Unreachable, 0, 50)]);
        assert_eq!(not_before(&before), 300);
        let mut after = Harness::new(config);
        after
            .at(100)
            .begin(vec![mk_node("n1", &[])], vec![mk_pod("p", "n1", &[])], before.memory_at(100));
        assert_eq!(not_before(&after), 400);
        after.at(101).apply(Input::Health {
            snapshot: true,
            complete: true,
            records: vec![mk_health("n1", 3, Verdict::Unreachable, 0, 50)],
            unreadable: Vec::new(),
        });
        assert_eq!(not_before(&after), 401);
        after.assert_state("p", Scheduled, 401);
    }
}

/// NL-009, NL-034: without the duty of node lifecycle no wish is taken over from who had it
#[test]
fn wishes_are_not_carried_over_without_the_duty() {
    let mut before = Harness::begun(Profile::Bailiff, Vec::new(), Vec::new());
    before.health(vec![mk_health("n1", 3, Verdict::Unreachable, 0, 2)]);
    for duty in [true, false] {
        let mut config = mk_config(Profile::Bailiff);
        config.duties.node_lifecycle = duty;
        let mut after = Harness::new(config);
        after.begin(Vec::new(), Vec::new(), before.memory());
        assert_eq!(after.published.contains_key("node/n1"), duty);
    }
}

/// A taint that the bus does not remember counts from its own `timeAdded`, beside one that it remembers
#[test]
fn a_taint_put_on_while_nobody_looked_counts_from_its_own_time() {
    let pod = |uid| mk_pod(uid, "n1", &[("m", Some(500)), ("k", Some(20))]);
    let mut before = Harness::begun(Profile::Bailiff, vec![mk_node("n1", &["m"])], vec![pod("p")]);
    before.at(2);
    let mut node = mk_node("n1", &["m"]);
    node.taints.push(Taint {
        time_added: Some(wall(55)),
        ..mk_taint("k")
    });
    let mut after = Harness::new(mk_config(Profile::Bailiff));
    let mut late = pod("q");
    late.bound = Some(wall(50));
    after.at(60).begin(vec![node], vec![pod("p"), late], before.memory_at(60));
    after.assert_state("q", Scheduled, 75);
    after.assert_state("p", Scheduled, 500);
}

/// NL-034, NL-073: a verdict that changes nothing by itself leaves what was wished before this process, whichever of the two comes first
#[test]
fn a_verdict_that_changes_nothing_does_not_end_an_inherited_wish() {
    let mut before = Harness::begun(Profile::Bailiff, Vec::new(), Vec::new());
    before.health(vec![mk_health("n1", 3, Verdict::Unreachable, 0, 2)]);
    let record = |revision, verdict| mk_health("n1", revision, verdict, 0, 2);
    let end = |records: Vec<bailiff_taint_core::HealthRecord>, inherits_first: bool| {
        let mut after = Harness::new(mk_config(Profile::Bailiff));
        let mut memory = vec![Input::Inherit(before.memory())];
        if inherits_first {
            after.apply(memory.remove(0));
        }
        for record in records {
            after.health(vec![record]);
        }
        for input in memory {
            after.apply(input);
        }
        after.published
    };
    for first in [true, false] {
        let wishes = end(vec![record(9, Verdict::NoStatus)], first);
        assert_eq!(wishes["node/n1"].derived_from, mk_origin(9), "{first}");
        assert_eq!(wishes["node/n1"].intent, before.published["node/n1"].intent, "{first}");
        assert_eq!(
            end(vec![record(9, Verdict::NoStatus), record(10, Verdict::Healthy)], first).len(),
            0,
            "{first}"
        );
        assert_eq!(
            end(vec![record(9, Verdict::NoStatus), mk_tombstone("n1", 10)], first).len(),
            0,
            "{first}"
        );
    }
}
