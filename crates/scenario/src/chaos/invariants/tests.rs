use std::sync::Arc;

use bailiff_model::taint::{Operator, Toleration};
use bailiff_model::{Wall, Zone};
use jiff::SignedDuration;

use super::super::story::Method;
use super::super::timeline::Pod;
use super::*;

/// Milliseconds since the origin.
fn mono(millis: u64) -> Mono {
    Mono::from_origin(Duration::from_millis(millis))
}

fn mk_node(ready: ReadyStatus, taints: &[&str]) -> Object {
    let taint = |key: &&str| Taint::new(key, Effect::NoExecute);
    Object::Node(Node {
        name: "n0".to_owned(),
        uid: "n0-uid".to_owned(),
        zone: Zone::new("r", "z0"),
        ready,
        taints: taints.iter().map(taint).collect(),
        ..Node::default()
    })
}

/// The pod `app` on n0, which tolerates everything for 10 s.
fn mk_pod(ready: &str, is_terminating: bool) -> Object {
    Object::Pod(Pod {
        uid: "uid".to_owned(),
        name: "app".to_owned(),
        node: "n0".to_owned(),
        is_bound: true,
        daemon_of: None,
        tolerations: vec![Toleration {
            operator: Operator::Exists,
            seconds: Some(10),
            ..Toleration::exists("", Effect::NoExecute)
        }],
        ready: ready.to_owned(),
        is_target: is_terminating,
        is_terminating,
        is_finished: false,
        is_running: true,
        labels: BTreeMap::from([("app".to_owned(), "web".to_owned())]),
        image: String::new(),
    })
}

/// What the monitor says of zone z0, by a clock that is right.
fn mk_news(reason: &str, count: u32, said: u64) -> Object {
    Object::Said {
        by: "node-controller".to_owned(),
        reason: reason.to_owned(),
        note: "2 of 2 leases of zone r:z0 stopped together".to_owned(),
        name: format!("{reason}.1"),
        count,
        said: Some(Wall::UNIX_EPOCH + Duration::from_millis(said)),
    }
}

/// Changes at times in milliseconds, each by somebody.
fn mk_timeline(changes: Vec<(u64, &str, Object)>) -> Timeline {
    let changes = changes.into_iter().map(|(at, actor, object)| Change {
        at: mono(at),
        actor: Arc::from(actor),
        is_gone: false,
        object,
    });
    Timeline {
        changes: changes.collect(),
        end: mono(100_000),
        ..Timeline::default()
    }
}

/// A zone that is held at 20 s, and its node that is isolated at 35 s; between them it is said that the hold ended.
fn judge_loss(end: Option<(u64, u32, u64)>, steps: &[(StageName, SignedDuration)]) -> usize {
    let monitor = StageName::NodeHealthMonitor.as_str();
    let mut changes = vec![
        (0, "admin", mk_node(ReadyStatus::True, &[])),
        (10_000, monitor, mk_news("CorrelatedLossEnded", 2, 10_000)),
        (20_000, monitor, mk_news("CorrelatedLoss", 1, 20_000)),
        (30_000, monitor, mk_node(ReadyStatus::Unknown, &[])),
    ];
    let isolated = mk_node(ReadyStatus::Unknown, &[wellknown::TAINT_UNREACHABLE]);
    changes.push((35_000, StageName::ZoneEvictor.as_str(), isolated));
    changes.extend(end.map(|(at, count, said)| (at, monitor, mk_news("CorrelatedLossEnded", count, said))));
    changes.sort_by_key(|(at, ..)| *at);
    let timeline = Timeline {
        steps: steps.to_vec(),
        ..mk_timeline(changes)
    };
    holds::losses_hold(&timeline, &Terms::default()).violations.len()
}

/// NL-132: a hold ends when that is said, however late it is written: what is said again and again is written every half minute.
#[test]
fn a_hold_ends_when_it_is_said_to() {
    let monitor = |by| [(StageName::NodeHealthMonitor, SignedDuration::from_secs(by))];
    let other = [(StageName::TaintManager, SignedDuration::from_secs(16))];
    assert_eq!(judge_loss(None, &[]), 2, "the node is marked Unknown, and isolated");
    assert_eq!(judge_loss(Some((29_000, 3, 29_000)), &[]), 0);
    assert_eq!(judge_loss(Some((40_000, 3, 29_000)), &[]), 0, "written late");
    assert_eq!(judge_loss(Some((40_000, 3, 32_000)), &[]), 1);
    assert_eq!(judge_loss(Some((40_000, 3, 40_000)), &[]), 2);
    assert_eq!(judge_loss(Some((40_000, 3, 16_000)), &[]), 2, "an earlier one");
    assert_eq!(
        judge_loss(Some((40_000, 4, 39_000)), &[]),
        0,
        "one that is not told may lie anywhere before"
    );
    // What the monitor's own clock says is taken with what it was stepped by.
    assert_eq!(judge_loss(Some((40_000, 3, 3_640_000)), &monitor(3_600)), 2);
    assert_eq!(judge_loss(Some((40_000, 3, 3_629_000)), &monitor(3_600)), 0);
    assert_eq!(judge_loss(Some((40_000, 3, 40_000)), &other), 2);
}

/// TE-102: what waits for a budget waits since `timeAdded`, in whole seconds, if its process was started since.
#[test]
fn a_budget_holds_until_the_wait_is_over_but_for_the_rounding() {
    let terms = Terms {
        method: Method::EvictThenDelete(Duration::from_secs(20)),
        ..Terms::default()
    };
    for (at, broken) in [(35_000, 1), (41_799, 1), (41_900, 0), (43_000, 0)] {
        let timeline = mk_timeline(vec![
            (0, "admin", mk_node(ReadyStatus::True, &[])),
            (0, "admin", mk_pod("True", false)),
            (1_000, "admin", Object::Budget(1)),
            (12_800, "admin", mk_node(ReadyStatus::True, &["example.com/a"])),
            (at, StageName::ZoneEvictor.as_str(), mk_pod("True", true)),
        ]);
        let verdict = budgets::budgets_are_respected(&timeline, &terms);
        assert_eq!((verdict.premises, verdict.violations.len()), (1, broken), "{at}");
    }
}

/// DS-225: what upstream leaves for its next start is a daemon pod that no node takes, and nothing else.
#[test]
fn a_stranded_daemon_pod_is_left_for_the_next_start_by_upstream_alone() {
    let daemon = |is_bound, is_terminating| {
        let mut object = mk_pod("", is_terminating);
        if let Object::Pod(pod) = &mut object {
            pod.is_bound = is_bound;
            pod.daemon_of = Some("set".to_owned());
            pod.labels = BTreeMap::from([("app".to_owned(), "agent".to_owned())]);
        }
        object
    };
    let judge = |profile, is_bound, taints: &[&str]| {
        let timeline = mk_timeline(vec![
            (0, "admin", mk_node(ReadyStatus::True, taints)),
            (1_000, "daemonset-syncer", daemon(is_bound, false)),
            (90_000, StageName::DaemonsetSyncer.as_str(), daemon(is_bound, true)),
        ]);
        let terms = Terms {
            profile,
            ..Terms::default()
        };
        a_quiet_world_is_not_written_to(&timeline, &terms).violations.len()
    };
    assert_eq!(judge(Profile::Upstream, false, &["example.com/a"]), 0);
    assert_eq!(judge(Profile::Upstream, true, &["example.com/a"]), 1, "bound");
    assert_eq!(judge(Profile::Upstream, false, &[]), 1, "its node takes it");
    assert_eq!(judge(Profile::Bailiff, false, &["example.com/a"]), 1);
}
