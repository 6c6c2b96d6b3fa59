use std::time::Duration;

use bailiff_model::health::{NodeHealth, Ready, Verdict};
use bailiff_model::intent::{EvictionCause, Intent, IntentState, PodEviction, Trigger};
use bailiff_model::outcome::{Outcome, PodOutcome, PodOutcomeState};
use bailiff_model::{Hold, HoldReason, Zone};

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
    Intent::Pod(PodEviction {
        pod: pod("web-1"),
        node: node(),
        zone: Zone::default(),
        cause: EvictionCause::Node,
        state,
        trigger: Trigger::Expired,
        due_at: at(350),
        decided_at: at(50),
    })
}

fn outcome(state: PodOutcomeState) -> Outcome {
    Outcome::Pod(PodOutcome {
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
    })
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
    assert_eq!((story.past[0].text.as_str(), story.present.len()), ("pod/u is withdrawn", 0));
}
