use bailiff_model::rollout::{Counts, NodeReason, WhyNot};
use bailiff_model::{Hold, HoldReason};

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

/// A process that publishes, and what it told since it was asked last.
#[derive(Default)]
struct Process {
    rollouts: Rollouts,
    told: Vec<Told>,
}

impl Process {
    /// Another process, on what this one published last.
    fn restart(self, last: &DaemonSetSync) -> Self {
        let trace = self.rollouts.known.values().next().and_then(Rollout::trace);
        let mut next = Self::default();
        next.rollouts.remember([(Box::new(last.clone()), trace)]);
        next
    }

    fn publish(&mut self, sync: DaemonSetSync) -> DaemonSetSync {
        let Publication { sync, told, .. } = self.rollouts.publish(Box::new(sync));
        self.told.extend(told);
        *sync
    }

    fn withdraw(&mut self, now: i64) {
        self.told.extend(self.rollouts.withdraw(&"ns".into(), "ds", at(now)));
    }

    fn going_on(&self) -> Option<TraceContext> {
        self.rollouts.going_on(&"ns".into(), "ds")
    }

    /// What was told since: what, of which node or how many, why or how it ended, and from when to when.
    fn spans(&mut self) -> Vec<String> {
        std::mem::take(&mut self.told).iter().map(text).collect()
    }
}

fn text(told: &Told) -> String {
    assert_eq!((&*told.uid, &*told.name, told.namespace.as_str()), ("uid", "ds", "ns"));
    let word = |reason: &WhyNot| reason.as_str().to_ascii_uppercase();
    let what = match &told.what {
        Part::Rollout => "rollout".to_owned(),
        Part::Held { reason, .. } => format!("held {}", reason.as_str().to_ascii_uppercase()),
        Part::Wait { node, reason } => format!("rollout wait {node} {}", word(reason)),
        Part::SharedWait { reason, nodes } => format!("rollout wait {nodes} {}", word(reason)),
        Part::End {
            outcome,
            nodes,
            untold: 0,
        } => format!("rollout end {nodes} {}", outcome.as_str()),
        Part::End { outcome, nodes, untold } => format!("rollout end {nodes} {} {untold}", outcome.as_str()),
    };
    let second = |wall: Wall| wall.as_second() - 1_700_000_000;
    format!("{what} {}..{}", second(told.start), second(told.end))
}

#[test]
fn each_reason_that_a_node_leaves_is_told_once() {
    use WhyNot::{Deleting, MinReady, WaitingForBudget};
    let mut process = Process::default();
    process.publish(mk(1, 100, &[("a", Deleting, 100), ("b", WaitingForBudget, 90)]));
    assert_eq!(process.spans(), ["rollout 100..100"]);
    process.publish(mk(1, 105, &[("a", MinReady, 103), ("b", WaitingForBudget, 90)]));
    assert_eq!(process.spans(), ["rollout wait a DELETING 100..103"]);
    process.publish(mk(1, 110, &[("b", WaitingForBudget, 90)]));
    assert_eq!(process.spans(), ["rollout wait a MIN_READY 103..110"]);
    let last = process.publish(mk(1, 120, &[]));
    // What began before the revision was current counts from then on.
    assert_eq!(
        process.spans(),
        [
            "rollout wait b WAITING_FOR_BUDGET 100..120",
            "rollout end 10 completed 100..120"
        ]
    );
    assert_eq!(last.rolled_out_at, Some(at(120)));
    // What goes wrong later is no matter of the rollout.
    let later = process.publish(mk(1, 500, &[("a", WhyNot::CrashLoop, 400)]));
    process.publish(mk(1, 600, &[]));
    assert!(process.spans().is_empty());
    assert_eq!(later.rolled_out_at, Some(at(120)));
}

#[test]
fn a_reason_that_the_whole_rollout_gives_begins_when_it_does() {
    use WhyNot::{RolloutPaused, WaitingForBudget};
    let mut process = Process::default();
    process.publish(mk(1, 100, &[("a", WaitingForBudget, 100)]));
    let paused = process.publish(mk(1, 110, &[("a", RolloutPaused, 100)]));
    assert_eq!(paused.nodes[0].since, at(110));
    let paused = process.publish(mk(1, 115, &[("a", RolloutPaused, 100)]));
    assert_eq!(paused.nodes[0].since, at(110));
    process.publish(mk(1, 120, &[("a", WaitingForBudget, 100)]));
    process.publish(mk(1, 130, &[("a", WaitingForBudget, 127)]));
    assert_eq!(
        process.spans(),
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
    let mut process = Process::default();
    let waits = [("a", WhyNot::Image, 100)];
    process.publish(mk(1, 100, &waits));
    let first = process.going_on().expect("it goes on");
    process.publish(mk(2, 200, &waits));
    let second = process.going_on().expect("it goes on");
    assert_ne!(first.trace_id(), second.trace_id());
    process.withdraw(250);
    assert_eq!(process.going_on(), None);
    assert_eq!(
        process.spans(),
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
    let mut process = Process::default();
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
        process.publish(sync);
    }
    assert_eq!(
        process.spans(),
        ["rollout 100..100", "held PAUSED 105..130", "held PAUSED 120..140"]
    );
}

#[test]
fn a_restart_goes_on_where_it_was() {
    use WhyNot::{Image, NoRoom, WaitingForBudget};
    let mut process = Process::default();
    let last = process.publish(mk(
        1,
        100,
        &[("a", NoRoom, 100), ("b", WaitingForBudget, 100), ("c", Image, 100)],
    ));
    process.spans();
    let mut process = process.restart(&last);
    // The core begins anew, and says that it all began now. The revision was made earlier than it became current.
    let began = |now| DaemonSetSync {
        revision_since: Some(at(10)),
        ..mk(1, now, &[("a", NoRoom, 150), ("b", WaitingForBudget, 150)])
    };
    let last = process.publish(began(150));
    assert_eq!(process.spans(), ["rollout wait c IMAGE 100..150"]);
    assert_eq!((last.revision_since, last.nodes[0].since), (Some(at(100)), at(100)));
    process.publish(began(155));
    let last = process.publish(mk(1, 160, &[]));
    assert_eq!(
        process.spans(),
        [
            "rollout wait a NO_ROOM 100..160",
            "rollout wait b WAITING_FOR_BUDGET 100..160",
            "rollout end 10 completed 100..160",
        ]
    );
    // One that was over stays so.
    let mut process = process.restart(&last);
    let last = process.publish(mk(1, 200, &[("a", NoRoom, 200)]));
    assert_eq!((process.spans(), last.rolled_out_at), (Vec::new(), Some(at(160))));
    // The next one that began while nobody looked is told.
    let mut process = process.restart(&last);
    process.publish(mk(2, 300, &[("a", NoRoom, 300)]));
    assert_eq!(process.spans(), ["rollout 200..300"]);
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
        let mut process = Process::default();
        let mut sync = mk(1, 120, nodes);
        sync.counts.updated = updated;
        let sync = process.publish(sync);
        assert_eq!(process.spans().len(), usize::from(is_told), "{nodes:?}");
        assert_eq!(sync.rolled_out_at, (!is_told).then_some(at(120)), "{nodes:?}");
    }
}

/// Nothing of a rollout begins before its root: where it is not known yet since when the revision is current, the root waits for that.
#[test]
fn the_root_is_told_when_it_is_known_since_when_the_revision_is_current() {
    let waits = |now| mk(1, now, &[("a", WhyNot::Image, 90), ("b", WhyNot::NotReady, 105)]);
    let unknown = |now| DaemonSetSync {
        revision_since: None,
        ..waits(now)
    };
    let mut process = Process::default();
    let early = process.rollouts.publish(Box::new(unknown(110)));
    assert_eq!((early.trace, &*early.told), (None, &[][..]));
    assert_eq!(process.going_on(), None, "nothing that an Event could name");
    // Another process finds it no better.
    let mut process = process.restart(&early.sync);
    process.publish(unknown(115));
    assert!(process.spans().is_empty());
    process.publish(waits(120));
    assert!(process.going_on().is_some());
    process.publish(mk(1, 130, &[("b", WhyNot::NotReady, 105)]));
    process.publish(mk(1, 140, &[]));
    let wanted = [
        "rollout 100..120",
        "rollout wait a IMAGE 100..130",
        "rollout wait b NOT_READY 105..140",
        "rollout end 10 completed 100..140",
    ];
    assert_eq!(process.spans(), wanted);
}

#[test]
fn nodes_that_are_bad_themselves_do_not_keep_a_rollout_open() {
    let mut process = Process::default();
    process.publish(mk(1, 100, &[("a", WhyNot::NotReady, 100), ("b", WhyNot::NodeBadBefore, 100)]));
    process.publish(mk(1, 110, &[("b", WhyNot::NodeBadBefore, 100)]));
    let told = process.spans();
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
    let mut process = Process::default();
    process.publish(mk(1, 100, &waiting(0)));
    // Behind the last that is named nobody knows; those before it went.
    process.publish(mk(1, 110, &waiting(150)));
    assert_eq!(process.spans(), ["rollout 100..100"]);
    let last = process.publish(mk(1, 120, &waiting(190)));
    let mut process = process.restart(&last);
    process.publish(mk(1, 130, &waiting(295)));
    assert!(process.spans().is_empty());
    process.publish(mk(1, 140, &waiting(300)));
    let spans = process.spans();
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
    let mut process = Process::default();
    let mut now = 100;
    let mut turn = |process: &mut Process, lasts: i64| {
        process.publish(mk(1, now, &[("a", WhyNot::NotReady, now), ("b", WhyNot::Image, 100)]));
        now += lasts;
        process.publish(mk(1, now, &[("b", WhyNot::Image, 100)]));
    };
    for _ in 0..1_010 {
        turn(&mut process, 5);
    }
    turn(&mut process, 60);
    let spans = process.spans();
    assert_eq!(spans.len(), 1 + 1_000 + 1, "the root, so many waits, and the long one");
    process.withdraw(now);
    assert_eq!(
        process.spans(),
        [
            format!("rollout wait b IMAGE 100..{now}"),
            format!("rollout end 10 withdrawn 10 100..{now}"),
        ]
    );
}
