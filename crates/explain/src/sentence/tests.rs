use bailiff_model::health::{Ready, ReadyStatus, SignOfLife};
use bailiff_model::intent::HealthTaint;
use bailiff_model::rollout::Counts;
use bailiff_model::{Effect, Toleration, ZoneState};

use super::*;
use crate::fixture::{at, node, pod};

fn hold(reason: HoldReason, detail: &str) -> Hold {
    Hold {
        reason,
        detail: detail.to_owned(),
        since: at(60),
        until: None,
    }
}

/// Else a detail could say something in a line of its own.
#[test]
fn a_sentence_is_one_line_whatever_others_wrote_of_it() {
    let mut health = health(Verdict::Late);
    health.held = Some(hold(HoldReason::CorrelatedLoss, "3 of 6\nnode n2 is healthy"));
    let text = sentence(Said::Health(&health));
    assert!(text.contains("3 of 6 node n2 is healthy"), "{text:?}");
}

fn health(verdict: Verdict) -> NodeHealth {
    NodeHealth {
        node: node(),
        zone: Zone::new("eu-1", "a"),
        excluded_from_disruption: false,
        ready: Ready {
            status: ReadyStatus::True,
            reason: "KubeletReady".to_owned(),
            since: None,
        },
        verdict,
        last_sign_of_life: Some(SignOfLife {
            time: at(0),
            signal: Signal::Lease,
            renew_time: None,
        }),
        late_since: None,
        counted_from: at(0),
        grace: Duration::from_secs(50),
        decided_at: at(38),
        held: None,
    }
}

fn eviction(state: IntentState, trigger: Trigger) -> Intent {
    let since = Some(at(51));
    Intent::Pod(Box::new(PodEviction {
        pod: pod("web-1"),
        node: node(),
        zone: Zone::new("eu-1", "a"),
        cause: EvictionCause::Taints {
            taints: vec![Taint {
                time_added: since,
                ..Taint::new("node.kubernetes.io/unreachable", Effect::NoExecute)
            }],
            tolerations: Vec::new(),
        }
        .into(),
        state,
        trigger,
        due_at: at(351),
        decided_at: at(52),
    }))
}

fn of_pod_in(state: PodOutcomeState) -> String {
    sentence(Said::Outcome(&Outcome::Pod(Box::new(PodOutcome {
        pod: pod("web-1"),
        node: node(),
        zone: Zone::default(),
        state,
        failed_attempts: 0,
        detail: String::new(),
        since: at(352),
        next_try_at: None,
    }))))
}

fn of_node_in(state: NodeOutcomeState) -> String {
    sentence(Said::Outcome(&Outcome::Node(Box::new(NodeOutcome {
        node: node(),
        zone: Zone::default(),
        state,
        since: at(51),
        unhealthy_since: None,
    }))))
}

#[test]
fn a_node_says_when_it_was_heard_and_what_would_come() {
    let unheard = NodeHealth {
        last_sign_of_life: None,
        zone: Zone::default(),
        held: Some(hold(HoldReason::Paused, "switch replacement")),
        ..health(Verdict::NoStatus)
    };
    let lost = |decided_at| NodeHealth {
        decided_at: at(decided_at),
        ..health(Verdict::Unreachable)
    };
    // "Everything is down" has ended just now: its grace counts anew, and it is as silent as before.
    let recounted = NodeHealth {
        counted_from: at(600),
        ..lost(600)
    };
    let held = NodeHealth {
        held: Some(hold(HoldReason::CorrelatedLoss, "")),
        ..health(Verdict::Late)
    };
    for (health, said) in [
        (
            held,
            "node n1 in zone eu-1:a is late: last sign of life 2023-11-14T22:13:20Z by its Lease; its grace of 50s ends \
             2023-11-14T22:14:10Z; held since 2023-11-14T22:14:20Z: too many Leases stopped together",
        ),
        (
            lost(49),
            "node n1 in zone eu-1:a is unreachable by its condition Ready, which is Unknown: last sign of life 2023-11-14T22:13:20Z by \
             its Lease",
        ),
        (
            health(Verdict::Healthy),
            "node n1 in zone eu-1:a is healthy: last sign of life 2023-11-14T22:13:20Z by its Lease",
        ),
        (
            health(Verdict::Late),
            "node n1 in zone eu-1:a is late: last sign of life 2023-11-14T22:13:20Z by its Lease; unreachable at 2023-11-14T22:14:10Z, \
             50s after it counts from, unless one comes",
        ),
        (
            health(Verdict::NotReady),
            "node n1 in zone eu-1:a reports that it is not ready (KubeletReady): last sign of life 2023-11-14T22:13:20Z by its Lease",
        ),
        (
            lost(51),
            "node n1 in zone eu-1:a is unreachable: last sign of life 2023-11-14T22:13:20Z by its Lease, and none for a grace of 50s",
        ),
        (
            recounted,
            "node n1 in zone eu-1:a is unreachable: last sign of life 2023-11-14T22:13:20Z by its Lease, and none for a grace of 50s",
        ),
        (
            unheard,
            "node n1 in no zone has reported no status yet: no sign of life seen yet; its grace of 50s ends 2023-11-14T22:14:10Z; \
             held since 2023-11-14T22:14:20Z: paused (switch replacement)",
        ),
    ] {
        assert_eq!(sentence(Said::Health(&health)), said);
    }
}

#[test]
fn a_wish_says_its_cause_and_its_time() {
    let isolation = Intent::Isolation(Box::new(NodeIsolation {
        node: node(),
        zone: Zone::new("eu-1", "a"),
        taint: HealthTaint::Unreachable,
        cause: "Ready is Unknown".to_owned(),
        decided_at: at(51),
    }));
    let due = eviction(IntentState::Due, Trigger::Expired);
    let later = eviction(IntentState::Scheduled, Trigger::Expired);
    let of_whole_node = match eviction(IntentState::Scheduled, Trigger::Node) {
        Intent::Pod(eviction) => Intent::Pod(Box::new(PodEviction {
            cause: EvictionCause::Node.into(),
            ..*eviction
        })),
        other => other,
    };
    let off = eviction(IntentState::Withdrawn(WithdrawnReason::TaintsGone), Trigger::Expired);
    let taint = "node.kubernetes.io/unreachable:NoExecute since 2023-11-14T22:14:11Z";
    for (intent, said) in [
        (
            isolation,
            "node n1 in zone eu-1:a should carry node.kubernetes.io/unreachable:NoExecute: Ready is Unknown".to_owned(),
        ),
        (
            later,
            format!("pod shop/web-1 on node n1 is to go at 2023-11-14T22:19:11Z, when its toleration ends: {taint}"),
        ),
        (
            of_whole_node,
            "pod shop/web-1 on node n1 is to go at 2023-11-14T22:19:11Z: the whole node is evicted".to_owned(),
        ),
        (
            due,
            format!("pod shop/web-1 on node n1 should go, its toleration ended 2023-11-14T22:19:11Z: {taint}"),
        ),
        (
            off,
            "pod shop/web-1 on node n1 may stay: the node carries no NoExecute taint any more".to_owned(),
        ),
    ] {
        assert_eq!(sentence(Said::Intent(&intent)), said);
    }
}

#[test]
fn an_outcome_says_what_became_of_it_and_why_not() {
    let queued = NodeOutcomeState::Queued {
        position: 3,
        expected_at: Some(at(81)),
    };
    assert_eq!(
        of_node_in(queued),
        "node n1 in no zone waits for the zone's rate, place 3, expected at 2023-11-14T22:14:41Z"
    );
    assert_eq!(
        of_node_in(NodeOutcomeState::Held(hold(HoldReason::AllZonesDisrupted, ""))),
        "node n1 in no zone is held since 2023-11-14T22:14:20Z: every zone is fully disrupted"
    );
    assert_eq!(
        of_node_in(NodeOutcomeState::Released),
        "node n1 in no zone is released: no pod has to go because of its health any more"
    );
    let until = |seconds| Hold {
        until: Some(at(seconds)),
        ..hold(HoldReason::CorrelatedLoss, "")
    };
    assert_eq!(
        of_node_in(NodeOutcomeState::Held(until(360))),
        "node n1 in no zone is held since 2023-11-14T22:14:20Z, until 2023-11-14T22:19:20Z at most: too many Leases stopped together"
    );
    for (state, said) in [
        (PodOutcomeState::Deleted, "was deleted"),
        (
            PodOutcomeState::Blocked {
                by: "shop/web".to_owned(),
            },
            "may not go yet: PodDisruptionBudget shop/web forbids it",
        ),
        (
            PodOutcomeState::Refused(RefusedReason::NoTaint),
            "was not evicted: the node carries no NoExecute taint",
        ),
        (
            PodOutcomeState::Held(hold(HoldReason::Paused, "by alice")),
            "is due, and held since 2023-11-14T22:14:20Z: paused (by alice)",
        ),
        (
            PodOutcomeState::Held(hold(HoldReason::Budget, "two nodes of a zone at a time")),
            "is due, and held since 2023-11-14T22:14:20Z: a budget for disruption is used up (two nodes of a zone at a time)",
        ),
        (
            PodOutcomeState::Held(Hold {
                until: Some(at(360)),
                ..hold(HoldReason::RateLimited, "5 go per second")
            }),
            "is due, and held since 2023-11-14T22:14:20Z, its turn expected at 2023-11-14T22:19:20Z: others go first (5 go per second)",
        ),
        (
            PodOutcomeState::Held(hold(HoldReason::OutdatedIntent, "the node is read")),
            "is due, and held since 2023-11-14T22:14:20Z: what it is based on is not the newest, or not borne out (the node is read)",
        ),
    ] {
        assert_eq!(of_pod_in(state), format!("pod shop/web-1 on node n1 {said}"));
    }
    let zone = ZoneStatus {
        zone: Zone::new("eu-1", "a"),
        state: ZoneState::PartialDisruption,
        voting: 12,
        not_ready: 7,
        late: 1,
        rate_per_second: 0.01,
        last_grant: Some(at(52)),
        queue_length: 6,
        held: None,
    };
    assert_eq!(
        sentence(Said::Outcome(&Outcome::Zone(Box::new(zone)))),
        "zone eu-1:a is in state PartialDisruption: 7 of 12 voting nodes not ready, 1 late; 6 waiting at 0.01 nodes/s, last granted \
         2023-11-14T22:14:12Z"
    );
}

#[test]
fn what_waits_says_since_when_and_until_when() {
    let blocked = Outcome::Pod(Box::new(PodOutcome {
        pod: pod("web-1"),
        node: node(),
        zone: Zone::default(),
        state: PodOutcomeState::Blocked {
            by: "shop/web".to_owned(),
        },
        failed_attempts: 2,
        detail: String::new(),
        since: at(352),
        next_try_at: Some(at(360)),
    }));
    assert_eq!(
        sentence(Said::Outcome(&blocked)),
        "pod shop/web-1 on node n1 may not go yet: PodDisruptionBudget shop/web forbids it; 2 requests failed; tried again from \
         2023-11-14T22:19:20Z on"
    );
    let queued = NodeOutcomeState::Queued {
        position: 1,
        expected_at: None,
    };
    for (state, said) in [
        (queued, "waits for the zone's rate, place 1"),
        (
            NodeOutcomeState::Held(hold(HoldReason::TaintOrder, "")),
            "is held since 2023-11-14T22:14:20Z: the NoSchedule taint is not seen yet",
        ),
    ] {
        let waiting = Outcome::Node(Box::new(NodeOutcome {
            node: node(),
            zone: Zone::default(),
            state,
            since: at(51),
            unhealthy_since: Some(at(50)),
        }));
        assert_eq!(
            sentence(Said::Outcome(&waiting)),
            format!("node n1 in no zone {said}; unhealthy since 2023-11-14T22:14:10Z")
        );
    }
}

#[test]
fn a_rollout_says_how_far_it_is_and_what_it_lacks() {
    let mut sync = DaemonSetSync {
        namespace: "kube-system".into(),
        name: "cni".to_owned(),
        uid: "u".to_owned(),
        observed_generation: 2,
        current_revision: "abc".to_owned(),
        revision: 2,
        counts: Counts {
            desired: 10,
            updated: 7,
            available: 8,
            ..Counts::default()
        },
        reasons: vec![(WhyNot::Image, 1), (WhyNot::WaitingForBudget, 2)],
        nodes: Vec::new(),
        held: None,
        synced_at: at(0),
        revision_since: None,
        rolled_out_at: None,
    };
    assert_eq!(
        sentence(Said::Rollout(&sync)),
        "daemonset kube-system/cni at revision 2: 7 of 10 nodes updated, 8 available; without an available current pod: 1 without its \
         image, 2 waiting for the update's budget"
    );
    let begins = |sync: &DaemonSetSync| {
        let said = sentence(Said::Rollout(sync));
        said.split(": ").next().unwrap_or_default().to_owned()
    };
    sync.revision_since = Some(at(0));
    assert_eq!(
        begins(&sync),
        "daemonset kube-system/cni at revision 2 since 2023-11-14T22:13:20Z"
    );
    sync.rolled_out_at = Some(at(60));
    assert_eq!(
        begins(&sync),
        "daemonset kube-system/cni at revision 2, rolled out 2023-11-14T22:14:20Z"
    );
}

#[test]
fn spans_are_told_in_their_largest_units() {
    for (seconds, told) in [
        (0.0, "0s"),
        (0.5, "0.5s"),
        (9.0, "9s"),
        (59.4, "59s"),
        (60.0, "1m"),
        (61.0, "1m1s"),
        (3600.0, "1h"),
        (5400.0, "1h30m"),
    ] {
        assert_eq!(span(Duration::from_secs_f64(seconds)), told);
    }
}

#[test]
fn of_several_taints_the_sentence_names_the_one_that_the_pod_goes_for() {
    let taint = |key: &str, since| Taint {
        time_added: Some(at(since)),
        ..Taint::new(key, Effect::NoExecute)
    };
    let tolerates = |key: &str, seconds| Toleration {
        seconds,
        ..Toleration::exists(key, Effect::NoExecute)
    };
    let cases = [
        (
            vec![tolerates("a", None)],
            Trigger::Untolerated,
            "b:NoExecute since 2023-11-14T22:13:30Z",
        ),
        (
            vec![tolerates("a", Some(60)), tolerates("b", Some(10))],
            Trigger::Expired,
            "b:NoExecute since 2023-11-14T22:13:30Z",
        ),
        (
            vec![tolerates("a", Some(15)), tolerates("b", Some(10))],
            Trigger::Expired,
            "a:NoExecute since 2023-11-14T22:13:20Z",
        ),
        // What does not fit together hides nothing.
        (
            vec![tolerates("", None)],
            Trigger::Expired,
            "a:NoExecute since 2023-11-14T22:13:20Z, b:NoExecute since 2023-11-14T22:13:30Z",
        ),
    ];
    for (tolerations, trigger, wanted) in cases {
        let Intent::Pod(eviction) = eviction(IntentState::Due, trigger) else {
            unreachable!("it is a pod's");
        };
        let intent = Intent::Pod(Box::new(PodEviction {
            cause: EvictionCause::Taints {
                taints: vec![taint("a", 0), taint("b", 10)],
                tolerations,
            }
            .into(),
            ..*eviction
        }));
        let said = sentence(Said::Intent(&intent));
        assert_eq!(said.rsplit_once(": ").expect("a cause").1, wanted, "{said}");
    }
}
