use bailiff_model::intent::{EvictionCause, HealthTaint, NodeIsolation, PodEviction, Trigger, WithdrawnReason};
use bailiff_model::outcome::RefusedReason;
use bailiff_model::{NodeRef, Wall, Zone};

use super::*;

fn at(second: i64) -> Wall {
    Wall::from_second(second).expect("in range")
}

fn mk_pod() -> PodRef {
    PodRef {
        namespace: "shop".into(),
        name: "web-1".into(),
        uid: "u".into(),
        ..PodRef::default()
    }
}

fn mk_node() -> NodeRef {
    NodeRef {
        name: "a".into(),
        ..NodeRef::default()
    }
}

fn mk_hold(reason: HoldReason) -> Hold {
    Hold {
        reason,
        detail: String::new(),
        since: at(0),
        until: None,
    }
}

fn mk_outcome(state: PodOutcomeState) -> Body {
    Body::Outcome(Outcome::Pod(Box::new(PodOutcome {
        pod: mk_pod(),
        node: mk_node(),
        zone: Zone::default(),
        state,
        failed_attempts: 0,
        detail: String::new(),
        since: at(0),
        next_try_at: None,
    })))
}

fn mk_intent(state: IntentState) -> Body {
    Body::Intent(Intent::Pod(Box::new(PodEviction {
        pod: mk_pod(),
        node: mk_node(),
        zone: Zone::default(),
        cause: EvictionCause::Node.into(),
        state,
        trigger: Trigger::Expired,
        due_at: at(60),
        decided_at: at(0),
    })))
}

/// Its words, with what else is compared: `~` in its turn, `!` for good.
fn words(body: &Body) -> String {
    let (key, answer) = answer(body);
    assert_eq!(key, Key::new(Question::Eviction, "pod shop/web-1").of_uid("u"));
    answer.map_or_else(String::new, |answer| {
        assert!(answer.why.contains("web-1"), "{}", answer.why);
        let marks = [(answer.in_turn, "~"), (answer.is_final, "!")];
        let marks: String = marks.iter().filter(|(is_set, _)| *is_set).map(|(_, mark)| *mark).collect();
        format!("{marks}{}", answer.says)
    })
}

#[test]
fn what_becomes_of_a_pod_is_compared_and_not_how_far_it_is() {
    use PodOutcomeState as P;
    let cases = [
        (mk_intent(IntentState::Scheduled), "goes when its toleration ends"),
        (mk_intent(IntentState::Due), "goes"),
        (mk_intent(IntentState::Withdrawn(WithdrawnReason::TaintsGone)), ""),
        (mk_outcome(P::Evicting), "goes"),
        (mk_outcome(P::Deleted), "!goes"),
        (mk_outcome(P::Gone), "!goes"),
        (mk_outcome(P::Held(mk_hold(HoldReason::Observing))), "~!goes"),
        (mk_outcome(P::Held(mk_hold(HoldReason::RateLimited))), "~goes"),
        (mk_outcome(P::Held(mk_hold(HoldReason::Paused))), "stays, held: paused"),
        (
            mk_outcome(P::Blocked {
                by: "shop/budget".to_owned(),
            }),
            "stays, PodDisruptionBudget shop/budget forbids it",
        ),
        (mk_outcome(P::Refused(RefusedReason::NoTaint)), "stays, refused: no_taint"),
        (mk_outcome(P::Cancelled), ""),
    ];
    for (body, wanted) in cases {
        assert_eq!(words(&body), wanted, "{body:?}");
    }
    let (_, answer) = answer(&mk_intent(IntentState::Scheduled));
    assert_eq!(answer.and_then(|answer| answer.at), Some(at(60)));
}

#[test]
fn a_tombstone_takes_back_what_was_not_decided() {
    let key = of_ref(&mk_pod());
    let goes = Answer::new("goes", "");
    for topic in [Topic::EvictionIntents, Topic::EvictionOutcomes] {
        assert!(is_final(topic, &key, Some(&goes)));
        assert!(!is_final(topic, &key, Some(&Answer::new("stays", ""))));
    }
    assert!(!is_final(Topic::NodeHealth, &node(Question::Health, "a"), Some(&goes)));
}

#[test]
fn nodes_that_wait_for_their_turn_are_decided() {
    let mk_node_outcome = |state| {
        Body::Outcome(Outcome::Node(Box::new(NodeOutcome {
            node: mk_node(),
            zone: Zone::default(),
            state,
            since: at(0),
            unhealthy_since: None,
        })))
    };
    let queued = NodeOutcomeState::Queued {
        position: 3,
        expected_at: None,
    };
    let cases = [
        (NodeOutcomeState::Isolated, Some(("acted on: isolated", false))),
        // Node mode: while it waits nothing tells it from the other.
        (NodeOutcomeState::Evicted, Some(("acted on: emptied", false))),
        (queued, Some(("acted on", true))),
        (
            NodeOutcomeState::Held(mk_hold(HoldReason::Observing)),
            Some(("acted on", true)),
        ),
        (
            NodeOutcomeState::Held(mk_hold(HoldReason::AllZonesDisrupted)),
            Some(("stays, held: all_zones_disrupted", false)),
        ),
        (NodeOutcomeState::Released, None),
    ];
    for (state, wanted) in cases {
        let (key, answer) = answer(&mk_node_outcome(state.clone()));
        assert_eq!(key, node(Question::Isolation, "a"));
        let found = answer.map(|answer| (answer.words(), answer.in_turn));
        let wanted = wanted.map(|(words, in_turn): (&str, bool)| (words.to_owned(), in_turn));
        assert_eq!(found, wanted, "{state:?}");
    }
    let isolation = Body::Intent(Intent::Isolation(Box::new(NodeIsolation {
        node: mk_node(),
        zone: Zone::default(),
        taint: HealthTaint::Unreachable,
        cause: "silent".to_owned(),
        decided_at: at(0),
    })));
    let (_, answer) = answer(&isolation);
    assert_eq!(
        answer.expect("it is wanted").says,
        "taint node.kubernetes.io/unreachable:NoExecute"
    );
}
