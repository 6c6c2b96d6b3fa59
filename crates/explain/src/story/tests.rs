use std::time::Duration;

use bailiff_model::health::{NodeHealth, Ready, Verdict};
use bailiff_model::intent::{EvictionCause, Intent, IntentState, NodeEviction, PodEviction, Trigger};
use bailiff_model::outcome::{NodeOutcome, NodeOutcomeState, Outcome, PodOutcome, PodOutcomeState};
use bailiff_model::{Effect, Hold, HoldReason, Taint, Toleration, Zone};

use super::*;
use crate::fixture::{at, node, pod};

fn health(verdict: Verdict) -> NodeHealth {
    NodeHealth {
        node: node(),
        zone: Zone::default(),
        excluded_from_disruption: false,
        ready: Ready::default(),
        verdict,
        last_sign_of_life: None,
        late_since: None,
        counted_from: at(0),
        grace: Duration::from_secs(50),
        decided_at: at(0),
        held: None,
    }
}

fn intent(state: IntentState) -> Intent {
    Intent::Pod(Box::new(PodEviction {
        pod: pod("web-1"),
        node: node(),
        zone: Zone::default(),
        cause: EvictionCause::Node.into(),
        state,
        trigger: Trigger::Expired,
        due_at: at(350),
        decided_at: at(50),
    }))
}

fn outcome(state: PodOutcomeState) -> Outcome {
    Outcome::Pod(Box::new(PodOutcome {
        pod: pod("web-1"),
        node: node(),
        zone: Zone::default(),
        failed_attempts: 0,
        detail: String::new(),
        since: at(350),
        next_try_at: match state {
            PodOutcomeState::Blocked { .. } => Some(at(360)),
            _ => None,
        },
        state,
    }))
}

fn told(topic: Topic, key: &str, revision: u64, said: Option<Said<'static>>) -> Told<'static> {
    // Made up for a test, so that what is told lives as long as the test does.
    let key: &'static str = Box::leak(key.to_owned().into_boxed_str());
    Told {
        topic,
        key,
        revision,
        at: at(i64::try_from(revision).expect("small")),
        by: "stage/process",
        trace: None,
        said,
    }
}

fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

/// A stage that starts anew says everything anew, and what it does not say is gone: all with one revision.
#[test]
fn what_the_bus_changed_at_once_is_told_of_every_key() {
    let due = Said::Intent(leak(intent(IntentState::Due)));
    let records = [
        told(Topic::EvictionIntents, "pod/u", 51, Some(due)),
        told(Topic::EvictionIntents, "node/n1", 60, None),
        told(Topic::EvictionIntents, "pod/u", 60, None),
        told(Topic::EvictionIntents, "pod/u", 60, None),
    ];
    let story = Story::of("pod shop/web-1".to_owned(), &records, None);
    let past: Vec<&str> = story.past.iter().map(|line| line.text.as_str()).collect();
    assert_eq!(
        past[1..],
        ["nothing more is said of node n1", "nothing more is said of the pod"]
    );
    assert_eq!((story.present, story.future), (vec![], vec![]));
}

#[test]
fn a_pod_that_waits_says_for_what_and_what_would_stop_it() {
    let scheduled = told(
        Topic::EvictionIntents,
        "pod/u",
        51,
        Some(Said::Intent(leak(intent(IntentState::Scheduled)))),
    );
    let late = told(Topic::NodeHealth, "n1", 38, Some(Said::Health(leak(health(Verdict::Late)))));
    let dead = told(
        Topic::NodeHealth,
        "n1",
        50,
        Some(Said::Health(leak(health(Verdict::Unreachable)))),
    );
    let story = Story::of("pod shop/web-1".to_owned(), &[scheduled, dead, late, dead], None);
    let order: Vec<Wall> = story.past.iter().map(|line| line.at).collect();
    assert_eq!(order, [at(38), at(50), at(51)], "in the bus' order, each once");
    assert_eq!(story.present.len(), 2, "the last of each key");
    let future: Vec<String> = story.future.iter().map(Next::text).collect();
    assert_eq!(
        future,
        ["at 2023-11-14T22:19:10Z: the pod is evicted, unless the taints go, or it gets to tolerate them"]
    );
    assert_eq!(story.past[2].rules, ["TE-055"]);
    let before = Story::of("pod shop/web-1".to_owned(), &[scheduled, dead, late], Some(at(40)));
    assert_eq!(
        (before.past.len(), before.future.len()),
        (1, 1),
        "what was not said yet is not known"
    );
    assert!(story.text().contains("Next:\n  at 2023-11-14T22:19:10Z"), "{}", story.text());
    assert_eq!(story.json()["future"][0]["at"], "2023-11-14T22:19:10Z");
}

#[test]
fn what_became_of_a_pod_is_the_last_word() {
    let due = told(
        Topic::EvictionIntents,
        "pod/u",
        350,
        Some(Said::Intent(leak(intent(IntentState::Due)))),
    );
    let hold = Hold {
        reason: HoldReason::Paused,
        detail: "switch replacement".to_owned(),
        since: at(300),
        until: Some(at(3600)),
    };
    let cases = [
        (None, Some("the zone-evictor takes it up")),
        (
            Some(PodOutcomeState::Evicting),
            Some("the pod is deleted, unless the API or a last check of its taints refuses it"),
        ),
        (
            Some(PodOutcomeState::Blocked {
                by: "shop/web".to_owned(),
            }),
            Some(
                "at 2023-11-14T22:19:20Z: it is tried again, until PodDisruptionBudget shop/web lets it go, unless the taints go first",
            ),
        ),
        (
            Some(PodOutcomeState::Held(hold)),
            Some("at 2023-11-14T23:13:20Z: once the pause ends (bailiff pauses), the pod is evicted"),
        ),
        (Some(PodOutcomeState::Deleted), None),
        (Some(PodOutcomeState::Cancelled), None),
    ];
    for (state, next) in cases {
        let became = state.clone().map(|state| {
            let said = Some(Said::Outcome(leak(outcome(state))));
            told(Topic::EvictionOutcomes, "pod/u", 351, said)
        });
        let all: Vec<Told<'_>> = [Some(due), became].into_iter().flatten().collect();
        let story = Story::of("pod".to_owned(), &all, None);
        let future: Vec<String> = story.future.iter().map(Next::text).collect();
        assert_eq!(future, Vec::from_iter(next), "{state:?}");
    }
}

#[test]
fn of_what_nobody_spoke_nothing_is_said() {
    let story = Story::of("pod shop/web-1".to_owned(), &[], None);
    assert_eq!(
        story.text(),
        "pod shop/web-1\n  No stage has said anything about it that the bus still remembers.\n"
    );
    let withdrawn = told(Topic::EvictionIntents, "pod/u", 9, None);
    let story = Story::of("pod shop/web-1".to_owned(), &[withdrawn], None);
    assert_eq!(
        (story.past[0].text.as_str(), story.present.len()),
        ("nothing more is said of the pod", 0)
    );
}

#[test]
fn a_wish_that_came_after_what_became_of_the_last_is_another() {
    let due = |revision| {
        let said = Some(Said::Intent(leak(intent(IntentState::Due))));
        told(Topic::EvictionIntents, "pod/u", revision, said)
    };
    let cases = [
        (PodOutcomeState::Cancelled, 350, None),
        (PodOutcomeState::Cancelled, 352, Some("the zone-evictor takes it up")),
        // Said once more because of another taint: it went, and is not there to go again.
        (PodOutcomeState::Deleted, 352, None),
    ];
    for (state, revision, wanted) in cases {
        let said = Some(Said::Outcome(leak(outcome(state.clone()))));
        let became = told(Topic::EvictionOutcomes, "pod/u", 351, said);
        let story = Story::of("pod".to_owned(), &[became, due(revision)], None);
        let future: Vec<String> = story.future.iter().map(Next::text).collect();
        assert_eq!(future, Vec::from_iter(wanted), "{state:?} {revision}");
    }
}

#[test]
fn programs_get_the_records_behind_the_sentences() {
    let due = told(
        Topic::EvictionIntents,
        "pod/u",
        350,
        Some(Said::Intent(leak(intent(IntentState::Due)))),
    );
    let gone = told(Topic::EvictionIntents, "pod/u", 351, None);
    let story = Story::of("pod".to_owned(), &[due, gone], None).json();
    let past: Vec<&Value> = (0..2).map(|nth| &story["past"][nth]["record"]).collect();
    assert_eq!(
        (&past[0]["topic"], &past[0]["key"]),
        (&json!("eviction-intents"), &json!("pod/u"))
    );
    assert_eq!(past[0]["body"]["podEviction"]["state"], "due");
    assert_eq!(past[1].get("body"), None, "it is taken back");
}

#[test]
fn what_the_api_has_of_a_pod_says_why_it_stays() {
    let taints = [Taint::new("a", Effect::NoExecute), Taint::new("b", Effect::NoSchedule)];
    let tolerates = |seconds| Toleration {
        seconds,
        ..Toleration::exists("a", Effect::NoExecute)
    };
    let cases = [
        (
            vec![tolerates(None)],
            "it may stay on node n1, whose taints it tolerates without limit: a:NoExecute",
            "TE-054",
        ),
        (
            vec![tolerates(Some(30))],
            "it tolerates the taints of node n1 for 30s: a:NoExecute",
            "TE-055",
        ),
        (vec![], "it does not tolerate a:NoExecute on node n1", "TE-052"),
    ];
    for (tolerations, text, rule) in cases {
        let seen = Seen {
            at: at(0),
            node: "n1",
            tolerations: &tolerations,
            taints: &taints,
        };
        let story = Story::of("pod shop/web-1".to_owned(), &[], None).with(&seen);
        let last = story.present.last().expect("said");
        assert_eq!((last.text.as_str(), last.rules), (text, &[rule][..]));
        assert!(story.text().contains(text), "{}", story.text());
    }
}

#[test]
fn the_zone_is_the_one_that_was_named_last() {
    let in_zone = |zone: &str, revision| {
        let Outcome::Pod(outcome) = outcome(PodOutcomeState::Evicting) else {
            unreachable!("it is a pod's");
        };
        let zone = Zone::new("eu-1", zone);
        let said = Said::Outcome(leak(Outcome::Pod(Box::new(PodOutcome { zone, ..*outcome }))));
        told(Topic::EvictionOutcomes, "pod/u", revision, Some(said))
    };
    let found = keys::of_zone(&[in_zone("b", 7), in_zone("a", 3)]);
    assert_eq!(found, Some((Topic::EvictionOutcomes, "zone/eu-1:b".to_owned())));
    assert_eq!(keys::of_zone(&[]), None);
    assert_eq!(keys::of_pod("u", "n1").len(), 5, "its own, and its node's");
}

fn hold(until: Option<i64>) -> Hold {
    Hold {
        reason: HoldReason::CorrelatedLoss,
        detail: String::new(),
        since: at(40),
        until: until.map(at),
    }
}

fn future(records: &[Told<'_>]) -> Vec<String> {
    let story = Story::of("node n1".to_owned(), records, None);
    story.future.iter().map(Next::text).collect()
}

#[test]
fn a_node_whose_zone_is_held_waits_for_the_end_of_that_too() {
    let cases = [
        (
            None,
            "at 2023-11-14T22:14:10Z: the node counts as unreachable, unless a sign of life comes",
        ),
        (
            Some(hold(None)),
            "once the Leases come back, or the hold ends, the node counts as unreachable, unless a sign of life comes",
        ),
        (
            Some(hold(Some(300))),
            "at 2023-11-14T22:18:20Z: once the Leases come back, or the hold ends, the node counts as unreachable, unless a sign of \
             life comes",
        ),
        (
            Some(hold(Some(45))),
            "at 2023-11-14T22:14:10Z: once the Leases come back, or the hold ends, the node counts as unreachable, unless a sign of \
             life comes",
        ),
    ];
    for (held, wanted) in cases {
        let late = NodeHealth {
            held: held.clone(),
            ..health(Verdict::Late)
        };
        let late = told(Topic::NodeHealth, "n1", 45, Some(Said::Health(leak(late))));
        assert_eq!(future(&[late]), [wanted], "{held:?}");
    }
}

#[test]
fn in_node_mode_nothing_is_said_of_taints() {
    let wish = |due| {
        let wish = NodeEviction {
            node: node(),
            zone: Zone::default(),
            not_before: at(350),
            due,
            cause: "silent".to_owned(),
            decided_at: at(50),
        };
        let said = Said::Intent(leak(Intent::NodeEviction(Box::new(wish))));
        told(Topic::EvictionIntents, "node/n1", 50, Some(said))
    };
    let pod = |state| {
        let Intent::Pod(eviction) = intent(state) else {
            unreachable!("it is a pod's");
        };
        let trigger = Trigger::Node;
        let said = Said::Intent(leak(Intent::Pod(Box::new(PodEviction { trigger, ..*eviction }))));
        told(Topic::EvictionIntents, "pod/u", 51, Some(said))
    };
    let became = |state| {
        let outcome = NodeOutcome {
            node: node(),
            zone: Zone::default(),
            state,
            since: at(50),
            unhealthy_since: None,
        };
        let said = Said::Outcome(leak(Outcome::Node(Box::new(outcome))));
        told(Topic::EvictionOutcomes, "node/n1", 52, Some(said))
    };
    let went = |state| {
        let said = Said::Outcome(leak(outcome(state)));
        told(Topic::EvictionOutcomes, "pod/u", 53, Some(said))
    };
    let queued = NodeOutcomeState::Queued {
        position: 1,
        expected_at: None,
    };
    let blocked = PodOutcomeState::Blocked {
        by: "shop/web".to_owned(),
    };
    let cases = [
        (
            vec![wish(false), pod(IntentState::Scheduled)],
            vec![
                "at 2023-11-14T22:19:10Z: all pods of the node should go, unless the node is Ready by then",
                "at 2023-11-14T22:19:10Z: the pod is evicted, unless its node is Ready by then",
            ],
        ),
        (
            vec![wish(true), became(queued)],
            vec!["the zone's rate lets it be emptied, unless it recovers, or its zone's rate changes"],
        ),
        (
            vec![wish(true), became(NodeOutcomeState::Held(hold(None)))],
            vec!["once the Leases come back, or the hold ends, it is emptied"],
        ),
        (
            vec![pod(IntentState::Due), went(PodOutcomeState::Evicting)],
            vec!["the pod is deleted, unless the API or a last look at its node refuses it"],
        ),
        (
            vec![pod(IntentState::Due), went(blocked)],
            vec![
                "at 2023-11-14T22:19:20Z: it is tried again, until PodDisruptionBudget shop/web lets it go, unless its node is Ready first",
            ],
        ),
    ];
    for (records, wanted) in cases {
        assert_eq!(future(&records), wanted);
    }
}
