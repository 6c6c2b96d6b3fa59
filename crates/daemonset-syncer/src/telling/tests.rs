use bailiff_model::rollout::{Counts, NodeReason, WhyNot};
use bailiff_model::{Hold, HoldReason};
use bailiff_runtime::trace::{Finished, Recorder, Value};

use super::*;

fn at(seconds: i64) -> Wall {
    Wall::from_second(1_700_000_000 + seconds).expect("in range")
}

/// A node, why it lacks a pod, and since when as the core says.
type Lacks<'a> = (&'a str, WhyNot, i64);

/// A state of revision `revision` of a DaemonSet for ten nodes, and those that lack a pod.
fn mk(revision: i64, now: i64, nodes: &[Lacks<'_>]) -> DaemonSetSync {
    let mut reasons: BTreeMap<WhyNot, u32> = BTreeMap::new();
    for (_, reason, _) in nodes {
        *reasons.entry(*reason).or_default() += 1;
    }
    let lacking = u32::try_from(nodes.len()).expect("few");
    DaemonSetSync {
        namespace: "ns".into(),
        name: "ds".to_owned(),
        uid: "uid".to_owned(),
        observed_generation: revision,
        current_revision: format!("hash-{revision}"),
        revision,
        counts: Counts {
            desired: 10.max(lacking),
            updated: 10.max(lacking) - lacking,
            ..Counts::default()
        },
        reasons: reasons.into_iter().collect(),
        nodes: nodes
            .iter()
            .take(DaemonSetSync::MAX_NODES)
            .map(|(node, reason, since)| NodeReason {
                node: (*node).into(),
                reason: *reason,
                since: at(*since),
            })
            .collect(),
        held: None,
        synced_at: at(now),
        revision_since: Some(at(100 * revision)),
        rolled_out_at: None,
    }
}

struct Told {
    telling: Telling,
    recorder: Recorder,
}

impl Told {
    fn new() -> Self {
        let (spans, recorder) = Spans::recorded();
        Self {
            telling: Telling::new(spans),
            recorder,
        }
    }

    /// Another process, on what this one published last.
    fn restart(self, last: &DaemonSetSync) -> Self {
        let trace = self.telling.rollouts.values().next().and_then(Rollout::trace);
        let mut next = Self::new();
        let rollout = Rollout::remembered(last.clone(), trace);
        next.telling.remembered.insert(key(last), rollout);
        next
    }

    fn publish(&mut self, mut sync: DaemonSetSync) -> DaemonSetSync {
        self.telling.publish(&mut sync);
        sync
    }

    /// The spans told since: name, node or number of nodes, reason or outcome, and from when to when.
    fn spans(&self) -> Vec<String> {
        self.recorder.take().iter().map(text).collect()
    }
}

fn attribute(span: &Finished, key: &str) -> Option<String> {
    let found = span.span.attributes.iter().find(|kv| kv.key.as_str() == key)?;
    Some(match &found.value {
        Value::I64(number) => number.to_string(),
        other => other.as_str().into_owned(),
    })
}

fn text(told: &Finished) -> String {
    assert_eq!(attribute(told, "k8s.daemonset.uid").as_deref(), Some("uid"));
    assert_eq!(told.parent.is_none(), told.span.name == "rollout", "{told:?}");
    let mut words = vec![told.span.name.to_string()];
    let keys = [
        "k8s.node.name",
        "bailiff.nodes",
        "bailiff.reason",
        "bailiff.outcome",
        "bailiff.untold",
    ];
    words.extend(keys.iter().filter_map(|key| attribute(told, key)));
    let second = |wall: Wall| wall.as_second() - 1_700_000_000;
    format!("{} {}..{}", words.join(" "), second(told.span.start), second(told.span.end))
}

#[test]
fn each_reason_that_a_node_leaves_is_told_once() {
    use WhyNot::{Deleting, MinReady, WaitingForBudget};
    let mut told = Told::new();
    told.publish(mk(1, 100, &[("a", Deleting, 100), ("b", WaitingForBudget, 90)]));
    assert_eq!(told.spans(), ["rollout 100..100"]);
    told.publish(mk(1, 105, &[("a", MinReady, 103), ("b", WaitingForBudget, 90)]));
    assert_eq!(told.spans(), ["rollout wait a DELETING 100..103"]);
    told.publish(mk(1, 110, &[("b", WaitingForBudget, 90)]));
    assert_eq!(told.spans(), ["rollout wait a MIN_READY 103..110"]);
    let last = told.publish(mk(1, 120, &[]));
    // What began before the revision was current counts from then on.
    assert_eq!(
        told.spans(),
        [
            "rollout wait b WAITING_FOR_BUDGET 100..120",
            "rollout end 10 completed 100..120"
        ]
    );
    assert_eq!(last.rolled_out_at, Some(at(120)));
    // What goes wrong later is no matter of the rollout.
    let later = told.publish(mk(1, 500, &[("a", WhyNot::CrashLoop, 400)]));
    told.publish(mk(1, 600, &[]));
    assert!(told.spans().is_empty());
    assert_eq!(later.rolled_out_at, Some(at(120)));
}

#[test]
fn a_reason_that_the_whole_rollout_gives_begins_when_it_does() {
    use WhyNot::{RolloutPaused, WaitingForBudget};
    let mut told = Told::new();
    told.publish(mk(1, 100, &[("a", WaitingForBudget, 100)]));
    let paused = told.publish(mk(1, 110, &[("a", RolloutPaused, 100)]));
    assert_eq!(paused.nodes[0].since, at(110));
    let paused = told.publish(mk(1, 115, &[("a", RolloutPaused, 100)]));
    assert_eq!(paused.nodes[0].since, at(110));
    told.publish(mk(1, 120, &[("a", WaitingForBudget, 100)]));
    told.publish(mk(1, 130, &[("a", WaitingForBudget, 127)]));
    assert_eq!(
        told.spans(),
        [
            "rollout 100..100",
            "rollout wait a WAITING_FOR_BUDGET 100..110",
            "rollout wait a ROLLOUT_PAUSED 110..120",
            "rollout wait a WAITING_FOR_BUDGET 120..127",
        ]
    );
}

#[test]
fn another_revision_ends_a_rollout_and_begins_its_own() {
    let mut told = Told::new();
    let waits = [("a", WhyNot::Image, 100)];
    told.publish(mk(1, 100, &waits));
    let first = told.telling.going_on(&"ns".into(), "ds").expect("it goes on");
    told.publish(mk(2, 200, &waits));
    let second = told.telling.going_on(&"ns".into(), "ds").expect("it goes on");
    assert_ne!(first.trace_id, second.trace_id);
    told.telling.withdraw(&"ns".into(), "ds", at(250));
    assert_eq!(told.telling.going_on(&"ns".into(), "ds"), None);
    assert_eq!(
        told.spans(),
        [
            "rollout 100..100",
            "rollout wait a IMAGE 100..200",
            "rollout end 10 superseded 100..200",
            "rollout 200..200",
            "rollout wait a IMAGE 200..250",
            "rollout end 10 withdrawn 200..250",
        ]
    );
}

#[test]
fn what_holds_a_rollout_is_told_when_it_ends() {
    let mut told = Told::new();
    let waits = [("a", WhyNot::NotReady, 100)];
    let held = |now, since| DaemonSetSync {
        held: Some(Hold {
            reason: HoldReason::Paused,
            detail: "a switch".to_owned(),
            since: at(since),
            until: None,
        }),
        ..mk(1, now, &waits)
    };
    for sync in [held(100, 105), held(110, 105), held(130, 120), mk(1, 140, &waits)] {
        told.publish(sync);
    }
    assert_eq!(
        told.spans(),
        ["rollout 100..100", "held PAUSED 105..130", "held PAUSED 120..140"]
    );
}

#[test]
fn a_restart_goes_on_where_it_was() {
    use WhyNot::{Image, NoRoom, WaitingForBudget};
    let mut told = Told::new();
    let last = told.publish(mk(
        1,
        100,
        &[("a", NoRoom, 100), ("b", WaitingForBudget, 100), ("c", Image, 100)],
    ));
    told.spans();
    let mut told = told.restart(&last);
    // The core begins anew, and says that it all began now. The revision was made earlier than it became current.
    let began = |now| DaemonSetSync {
        revision_since: Some(at(10)),
        ..mk(1, now, &[("a", NoRoom, 150), ("b", WaitingForBudget, 150)])
    };
    let last = told.publish(began(150));
    assert_eq!(told.spans(), ["rollout wait c IMAGE 100..150"]);
    assert_eq!((last.revision_since, last.nodes[0].since), (Some(at(100)), at(100)));
    told.publish(began(155));
    let last = told.publish(mk(1, 160, &[]));
    assert_eq!(
        told.spans(),
        [
            "rollout wait a NO_ROOM 100..160",
            "rollout wait b WAITING_FOR_BUDGET 100..160",
            "rollout end 10 completed 100..160",
        ]
    );
    // One that was over stays so.
    let mut told = told.restart(&last);
    let last = told.publish(mk(1, 200, &[("a", NoRoom, 200)]));
    assert_eq!((told.spans(), last.rolled_out_at), (Vec::new(), Some(at(160))));
    // The next one that began while nobody looked is told.
    let mut told = told.restart(&last);
    told.publish(mk(2, 300, &[("a", NoRoom, 300)]));
    assert_eq!(told.spans(), ["rollout 200..300"]);
}

#[test]
fn what_was_done_before_anybody_looked_is_not_told() {
    let cases: [(&[Lacks<'_>], u32, bool); 4] = [
        (&[], 10, false),
        (&[("a", WhyNot::NodeBadBefore, 90)], 9, false),
        (&[("a", WhyNot::CrashLoop, 90)], 10, false),
        (&[("a", WhyNot::WaitingForBudget, 90)], 9, true),
    ];
    for (nodes, updated, is_told) in cases {
        let mut told = Told::new();
        let mut sync = mk(1, 120, nodes);
        sync.counts.updated = updated;
        let sync = told.publish(sync);
        assert_eq!(told.spans().len(), usize::from(is_told), "{nodes:?}");
        assert_eq!(sync.rolled_out_at, (!is_told).then_some(at(120)), "{nodes:?}");
    }
}

#[test]
fn nodes_that_are_bad_themselves_do_not_keep_a_rollout_open() {
    let mut told = Told::new();
    told.publish(mk(1, 100, &[("a", WhyNot::NotReady, 100), ("b", WhyNot::NodeBadBefore, 100)]));
    told.publish(mk(1, 110, &[("b", WhyNot::NodeBadBefore, 100)]));
    let told = told.spans();
    assert_eq!(
        told.last().map(String::as_str),
        Some("rollout end 10 completed 100..110"),
        "{told:?}"
    );
}

#[test]
fn of_many_that_wait_for_the_same_it_is_told_once() {
    let names: Vec<String> = (0..300).map(|number| format!("n{number:03}")).collect();
    let waiting = |from: usize| -> Vec<Lacks<'_>> {
        names[from..]
            .iter()
            .map(|name| (name.as_str(), WhyNot::WaitingForBudget, 100))
            .collect()
    };
    let mut told = Told::new();
    told.publish(mk(1, 100, &waiting(0)));
    // Behind the last that is named nobody knows; those before it went.
    told.publish(mk(1, 110, &waiting(150)));
    assert_eq!(told.spans(), ["rollout 100..100"]);
    let last = told.publish(mk(1, 120, &waiting(190)));
    let mut told = told.restart(&last);
    told.publish(mk(1, 130, &waiting(295)));
    assert!(told.spans().is_empty());
    told.publish(mk(1, 140, &waiting(300)));
    let spans = told.spans();
    assert_eq!(spans.len(), 7, "{spans:?}");
    assert_eq!(spans[0], "rollout wait n295 WAITING_FOR_BUDGET 100..140");
    assert_eq!(
        spans[5..],
        [
            "rollout wait 110 WAITING_FOR_BUDGET 100..140",
            "rollout end 10 completed 100..140"
        ]
    );
}

#[test]
fn a_trace_stays_readable_however_long_a_rollout_goes_on() {
    let mut told = Told::new();
    let mut now = 100;
    let mut turn = |told: &mut Told, lasts: i64| {
        told.publish(mk(1, now, &[("a", WhyNot::NotReady, now), ("b", WhyNot::Image, 100)]));
        now += lasts;
        told.publish(mk(1, now, &[("b", WhyNot::Image, 100)]));
    };
    for _ in 0..1_010 {
        turn(&mut told, 5);
    }
    turn(&mut told, 60);
    let spans = told.spans();
    assert_eq!(spans.len(), 1 + 1_000 + 1, "the root, so many waits, and the long one");
    told.telling.withdraw(&"ns".into(), "ds", at(now));
    assert_eq!(
        told.spans(),
        [
            format!("rollout wait b IMAGE 100..{now}"),
            format!("rollout end 10 withdrawn 10 100..{now}"),
        ]
    );
}
