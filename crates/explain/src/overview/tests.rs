use bailiff_model::hold::{Hold, HoldReason};
use bailiff_model::intent::{EvictionCause, PodEviction, Trigger};
use bailiff_model::outcome::RefusedReason;
use bailiff_model::{NodeRef, Zone};

use super::*;
use crate::fixture::{at, pod};

fn intent(name: &str, state: IntentState, due: i64) -> Intent {
    Intent::Pod(PodEviction {
        pod: pod(name),
        node: NodeRef::default(),
        zone: Zone::default(),
        cause: EvictionCause::Node,
        state,
        trigger: Trigger::Expired,
        due_at: at(due),
        decided_at: at(0),
    })
}

fn outcome(name: &str, state: PodOutcomeState) -> Outcome {
    Outcome::Pod(PodOutcome {
        pod: pod(name),
        node: NodeRef::default(),
        zone: Zone::default(),
        state,
        failed_attempts: 0,
        detail: String::new(),
        since: at(0),
        next_try_at: None,
    })
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
        let next: Vec<String> = overview.next_due().map(|pod| pod.pod.name.to_string()).collect();
        assert_eq!(next.len(), overview.scheduled());
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
