use std::time::Duration;

use bailiff_model::health::Ready;
use bailiff_model::hold::{Hold, HoldReason};
use bailiff_model::intent::{EvictionCause, NodeEviction, PodEviction, Trigger};
use bailiff_model::outcome::RefusedReason;
use bailiff_model::{NodeRef, Zone};

use super::*;
use crate::fixture::{at, pod};

fn intent(name: &str, state: IntentState, due: i64) -> Intent {
    Intent::Pod(Box::new(PodEviction {
        pod: pod(name),
        node: NodeRef::default(),
        zone: Zone::default(),
        cause: EvictionCause::Node.into(),
        state,
        trigger: Trigger::Expired,
        due_at: at(due),
        decided_at: at(0),
    }))
}

fn outcome(name: &str, state: PodOutcomeState) -> Outcome {
    Outcome::Pod(Box::new(PodOutcome {
        pod: pod(name),
        node: NodeRef::default(),
        zone: Zone::default(),
        state,
        failed_attempts: 0,
        detail: String::new(),
        since: at(0),
        next_try_at: None,
    }))
}

#[test]
fn the_next_pod_to_go_comes_first_and_each_counts_once() {
    let mut overview = Overview::default();
    let mut say = |name: &str, state: Option<(IntentState, i64)>| {
        let intent = state.map(|(state, due)| intent(name, state, due));
        overview.apply(
            Topic::EvictionIntents,
            &format!("pod/{name}"),
            intent.as_ref().map(Said::Intent),
        );
        let next: Vec<String> = overview
            .next_due()
            .filter_map(|timer| match &timer.end {
                End::Toleration(pod) => Some(pod.name.to_string()),
                End::Grace | End::Eviction => None,
            })
            .collect();
        assert_eq!((next.len(), next.len()), (overview.scheduled(), overview.timers()));
        next.join(" ")
    };
    assert_eq!(say("a", Some((IntentState::Scheduled, 30))), "a");
    assert_eq!(say("b", Some((IntentState::Scheduled, 10))), "b a");
    assert_eq!(say("b", Some((IntentState::Scheduled, 40))), "a b");
    assert_eq!(say("a", Some((IntentState::Due, 30))), "b");
    assert_eq!(say("b", None), "");
}

#[test]
fn what_should_go_and_does_not_is_listed_until_it_does() {
    let mut overview = Overview::default();
    let hold = Hold {
        reason: HoldReason::Paused,
        detail: String::new(),
        since: at(0),
        until: None,
    };
    let steps = [
        (PodOutcomeState::Evicting, [1, 0, 0, 0], 0),
        (PodOutcomeState::Blocked { by: "ns/web".to_owned() }, [0, 1, 0, 0], 1),
        (PodOutcomeState::Held(hold), [0, 0, 1, 0], 1),
        (PodOutcomeState::Refused(RefusedReason::Api), [0, 0, 0, 1], 1),
        (PodOutcomeState::Deleted, [0, 0, 0, 0], 0),
    ];
    let standings = [
        PodStanding::Evicting,
        PodStanding::Blocked,
        PodStanding::Held,
        PodStanding::Refused,
    ];
    for (state, counts, stuck) in steps {
        let outcome = outcome("a", state.clone());
        overview.apply(Topic::EvictionOutcomes, "pod/a", Some(Said::Outcome(&outcome)));
        let counted = standings.map(|standing| overview.pods_standing(standing));
        assert_eq!((counted, overview.stuck().count()), (counts, stuck), "{state:?}");
    }
    let blocked = outcome("a", PodOutcomeState::Blocked { by: "ns/web".to_owned() });
    overview.apply(Topic::EvictionOutcomes, "pod/a", Some(Said::Outcome(&blocked)));
    overview.apply(Topic::EvictionOutcomes, "pod/a", None);
    assert_eq!(
        (overview.pods_standing(PodStanding::Blocked), overview.stuck().count()),
        (0, 0)
    );
}

fn health(name: &str, verdict: Verdict, counted_from: i64) -> NodeHealth {
    NodeHealth {
        node: NodeRef {
            name: name.into(),
            ..NodeRef::default()
        },
        zone: Zone::default(),
        excluded_from_disruption: false,
        ready: Ready::default(),
        verdict,
        last_sign_of_life: None,
        late_since: None,
        counted_from: at(counted_from),
        grace: Duration::from_secs(50),
        decided_at: at(0),
        held: None,
    }
}

#[test]
fn timers_of_all_kinds_are_told_in_the_order_in_which_they_end() {
    let mut overview = Overview::default();
    for (name, verdict, counted_from) in [
        ("n1", Verdict::Late, 10),
        ("n2", Verdict::NoStatus, 0),
        ("n3", Verdict::Healthy, 0),
    ] {
        let health = health(name, verdict, counted_from);
        overview.apply(Topic::NodeHealth, name, Some(Said::Health(&health)));
    }
    let pod = intent("web", IntentState::Scheduled, 55);
    overview.apply(Topic::EvictionIntents, "pod/web", Some(Said::Intent(&pod)));
    let eviction = |due| {
        Intent::NodeEviction(Box::new(NodeEviction {
            node: crate::fixture::node(),
            zone: Zone::default(),
            not_before: at(52),
            due,
            cause: String::new(),
            decided_at: at(0),
        }))
    };
    overview.apply(Topic::EvictionIntents, "node/n1", Some(Said::Intent(&eviction(false))));
    let told = |overview: &Overview| overview.next_due().map(Timer::text).collect::<Vec<_>>();
    let wanted = [
        "node n2 counts as silent",
        "all pods of node n1 are to go",
        "pod shop/web on  is to go",
        "node n1 counts as silent",
    ];
    assert_eq!(told(&overview), wanted);
    assert_eq!((overview.timers(), overview.scheduled()), (4, 1));

    overview.apply(Topic::EvictionIntents, "node/n1", Some(Said::Intent(&eviction(true))));
    let health = health("n1", Verdict::Unreachable, 10);
    overview.apply(Topic::NodeHealth, "n1", Some(Said::Health(&health)));
    overview.apply(Topic::NodeHealth, "n2", None);
    assert_eq!(told(&overview), wanted[2..3]);
}

#[test]
fn a_grace_that_is_held_does_not_run() {
    let mut overview = Overview::default();
    let mut timers = |held: Option<Hold>| {
        let health = NodeHealth {
            held,
            ..health("n1", Verdict::Late, 10)
        };
        overview.apply(Topic::NodeHealth, "n1", Some(Said::Health(&health)));
        overview.timers()
    };
    let hold = Hold {
        reason: HoldReason::CorrelatedLoss,
        detail: String::new(),
        since: at(0),
        until: Some(at(300)),
    };
    assert_eq!([timers(None), timers(Some(hold)), timers(None)], [1, 0, 1]);
}

#[test]
fn nodes_wait_in_the_order_in_which_they_came() {
    let mut overview = Overview::default();
    let mut say = |name: &str, since: i64, state: Option<NodeOutcomeState>| {
        let outcome = state.map(|state| {
            Outcome::Node(Box::new(NodeOutcome {
                node: NodeRef {
                    name: name.into(),
                    ..NodeRef::default()
                },
                zone: Zone::default(),
                state,
                since: at(since),
                unhealthy_since: None,
            }))
        });
        let key = format!("node/{name}");
        overview.apply(Topic::EvictionOutcomes, &key, outcome.as_ref().map(Said::Outcome));
        overview
            .waiting()
            .map(|node| node.node.name.to_string())
            .collect::<Vec<_>>()
            .join(" ")
    };
    let queued = |position| NodeOutcomeState::Queued {
        position,
        expected_at: None,
    };
    let hold = Hold {
        reason: HoldReason::Paused,
        detail: String::new(),
        since: at(0),
        until: None,
    };
    assert_eq!(say("b", 1, Some(queued(1))), "b");
    assert_eq!(say("a", 2, Some(NodeOutcomeState::Held(hold))), "b a");
    assert_eq!(say("b", 3, Some(queued(2))), "a b");
    assert_eq!(say("a", 4, Some(NodeOutcomeState::Isolated)), "b");
    assert_eq!(say("b", 4, None), "");
}
