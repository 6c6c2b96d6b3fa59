//! Pods that are due: two requests, judged twice, and never the wrong one.

use std::time::Duration;

use bailiff_model::intent::{EvictionCause, HealthTaint, IntentState, Trigger, WithdrawnReason};
use bailiff_model::outcome::{PodOutcomeState, RefusedReason};
use bailiff_model::{Effect as TaintEffect, NodeRef, Topic};
use bailiff_zone_core::{AcceptIntents, Component, Count, Effect, FailureKind, Input, Profile, Regarding};

use crate::world::{Happened, World, mk_config, mk_taint, mk_toleration, secs};

const NODES: [(&str, &str); 4] = [("n1", "a"), ("n2", "a"), ("n3", "a"), ("n4", "a")];

pub fn mk_world() -> World {
    let mut world = World::new(mk_config(|_| ()), &NODES);
    world.taint("n1", "maintenance", TaintEffect::NoExecute);
    world
}

pub fn marked_and_deleted(name: &str) -> Vec<Happened> {
    vec![Happened::Marked(name.to_owned()), Happened::Deleted(name.to_owned())]
}

/// TE-052, TE-070 to TE-074, TE-080, TE-090, TE-115: condition first, then the delete, one Event, one count.
#[test]
fn a_due_pod_is_marked_then_deleted() {
    for (profile, with_uid) in [(Profile::Bailiff, true), (Profile::Upstream, false)] {
        let mut world = World::new(mk_config(|config| config.profile = profile), &NODES);
        world.taint("n1", "maintenance", TaintEffect::NoExecute);
        let pod = world.add_pod("p", "n1", vec![]);
        let due = world.mk_due(&pod, false);
        world.pass(secs(2));
        world.publish(vec![due]);
        assert_eq!(world.happened(), marked_and_deleted("p"));
        assert_eq!(world.requests, 2, "an eviction is two requests");
        assert_eq!(world.pod_state(&pod), Some(&PodOutcomeState::Deleted));
        assert!(world.counts.contains(&Count::PodDeleted { after: secs(2) }));
        let [event] = &world.events[..] else {
            unreachable!("one event, not {:?}", world.events)
        };
        assert_eq!(
            (event.component, event.reason),
            (Component::TaintEviction, "TaintManagerEviction")
        );
        assert_eq!(event.note, "Marking for deletion Pod default/p");
        assert!(matches!(&event.regarding, Regarding::Pod { with_uid: shown, .. } if *shown == with_uid));
    }
}

/// TE-072, TE-073: what is True already keeps its transition; what is ours already is not written again.
#[test]
fn an_existing_condition_is_kept_or_completed() {
    let mut world = mk_world();
    let pod = world.add_pod("other", "n1", vec![]);
    world.change_pod(&pod, |facts| facts.disruption_target = true);
    world.due(&pod);
    assert_eq!(
        world.happened(),
        marked_and_deleted("other"),
        "the world checks that the transition is kept"
    );
    let mut world = mk_world();
    let pod = world.add_pod("ours", "n1", vec![]);
    world.change_pod(&pod, |facts| {
        facts.disruption_target = true;
        facts.marked = true;
    });
    world.change_pod(&pod, |facts| facts.generation = 0);
    world.due(&pod);
    assert_eq!(
        world.happened(),
        [Happened::Deleted("ours".to_owned())],
        "read because its generation is not known, then deleted"
    );
    assert_eq!(world.events.len(), 1);
}

/// TE-055, TE-056: SCHEDULED is information.
#[test]
fn only_due_intents_are_acted_on() {
    let mut world = mk_world();
    let pod = world.add_pod("p", "n1", vec![mk_toleration("maintenance", Some(60))]);
    let due = world.mk_due(&pod, false);
    let Some(bailiff_zone_core::Body::Intent(bailiff_model::intent::Intent::Pod(intent))) = due.body else {
        unreachable!("a pod intent")
    };
    for state in [IntentState::Scheduled, IntentState::Withdrawn(WithdrawnReason::Tolerated)] {
        let record = world.mk_pod_record(
            intent.pod.clone(),
            intent.node.clone(),
            intent.cause.clone(),
            state,
            Trigger::Expired,
        );
        world.publish(vec![record]);
        world.pass(secs(100));
        assert!(world.history.is_empty());
        assert_eq!(world.evictor.due_pods(), (0, 0, 0), "a scheduled pod costs nothing here");
    }
}

/// TE-074, TE-071: every write has uid and resourceVersion; a change in between is judged afresh.
#[test]
fn a_conflict_leads_to_a_fresh_read_and_a_fresh_judgement() {
    // The pod changes after the intent was made, and again between mark and delete.
    let mut world = mk_world();
    let pod = world.add_pod("p", "n1", vec![]);
    let due = world.mk_due(&pod, false);
    world.change_pod(&pod, |_| ());
    world.publish(vec![due]);
    assert_eq!(world.happened(), marked_and_deleted("p"));
    let mut world = mk_world();
    let pod = world.add_pod("p", "n1", vec![]);
    let due = world.mk_due(&pod, false);
    world.change_pod(&pod, |facts| facts.tolerations = vec![mk_toleration("maintenance", None)]);
    world.publish(vec![due]);
    assert_eq!(world.happened(), [], "tolerated without limit meanwhile");
    assert_eq!(
        world.pod_state(&pod),
        Some(&PodOutcomeState::Refused(RefusedReason::Tolerated))
    );
}

/// Design §3: tolerations are judged once more on the answer to the mark.
#[test]
fn the_answer_to_the_mark_is_judged() {
    let mut world = mk_world();
    let pod = world.add_pod("p", "n1", vec![mk_toleration("maintenance", Some(5))]);
    let due = world.mk_due(&pod, false);
    world.change_pod(&pod, |facts| {
        facts.tolerations = vec![mk_toleration("maintenance", Some(500))]
    });
    world.publish(vec![due]);
    assert_eq!(
        world.pod_state(&pod),
        Some(&PodOutcomeState::Refused(RefusedReason::Tolerated))
    );
    world.pods.get_mut(&pod).expect("it lives").tolerations = vec![mk_toleration("maintenance", Some(5))];
    world.due(&pod);
    assert_eq!(
        world.pod_state(&pod),
        Some(&PodOutcomeState::Deleted),
        "a new intent is judged anew"
    );
}

/// Design §1: `--accept-intents=any` trusts, but still only for the incarnation meant.
#[test]
fn any_intent_is_accepted_if_so_configured() {
    let mut world = World::new(mk_config(|config| config.accept = AcceptIntents::Any), &NODES);
    let pod = world.add_pod("p", "n2", vec![]);
    world.due(&pod);
    assert_eq!(world.happened(), marked_and_deleted("p"));
}

/// TE-034: a node object that is gone leaves its intents standing.
#[test]
fn pods_of_a_node_that_is_gone_are_still_evicted() {
    let mut world = mk_world();
    let pod = world.add_pod("p", "n1", vec![]);
    let due = world.mk_due(&pod, false);
    world.delete_node("n1");
    world.publish(vec![due]);
    assert_eq!(world.happened(), marked_and_deleted("p"));
}

/// TE-035, NL-035: a node of another uid voids them.
#[test]
fn pods_of_a_node_that_was_replaced_are_not_evicted() {
    let mut world = mk_world();
    let pod = world.add_pod("p", "n1", vec![]);
    let due = world.mk_due(&pod, false);
    world.delete_node("n1");
    world.add_node("n1", "a");
    world.taint("n1", "maintenance", TaintEffect::NoExecute);
    world.publish(vec![due]);
    assert_eq!(
        world.pod_state(&pod),
        Some(&PodOutcomeState::Refused(RefusedReason::NodeReplaced))
    );
    assert!(world.history.is_empty());
}

/// TE-043, TE-044: the namesake of an evicted pod is another pod.
#[test]
fn a_pod_created_again_is_not_touched() {
    let mut world = mk_world();
    let pod = world.add_pod("p", "n1", vec![]);
    let due = world.mk_due(&pod, false);
    world.pods.remove(&pod);
    world.add_pod("p", "n1", vec![]);
    world.publish(vec![due]);
    assert_eq!(world.pod_state(&pod), Some(&PodOutcomeState::Gone));
    assert_eq!((world.pods.len(), world.deleted()), (1, 0));
}

/// TE-075: a pod that is gone is no failure.
#[test]
fn a_pod_that_is_gone_is_done() {
    let mut world = mk_world();
    let pod = world.add_pod("p", "n1", vec![]);
    let due = world.mk_due(&pod, false);
    world.pods.remove(&pod);
    world.publish(vec![due]);
    world.pass(secs(600));
    assert_eq!((world.pod_state(&pod), world.requests), (Some(&PodOutcomeState::Gone), 1));
}

/// TE-075: that it is gone is believed until the taint-manager, which sees it, says again that it is due.
#[test]
fn a_pod_that_was_said_to_be_gone_and_is_due_again_is_evicted() {
    for restarts in [false, true] {
        let mut world = mk_world();
        let pod = world.add_pod("p", "n1", vec![]);
        world.failures.push_back(FailureKind::Gone);
        world.due(&pod);
        assert_eq!(world.pod_state(&pod), Some(&PodOutcomeState::Gone));
        if restarts {
            world.restart();
        }
        world.pass(secs(600));
        assert_eq!(world.deleted(), 0, "restarts: {restarts}");
        world.due(&pod);
        assert_eq!(world.happened(), marked_and_deleted("p"), "restarts: {restarts}");
    }
}

/// TE-041, TE-070: the pod is where the intent says, or it is refused.
#[test]
fn a_pod_on_another_node_is_refused() {
    let mut world = mk_world();
    let pod = world.add_pod("p", "n1", vec![]);
    let due = world.mk_due(&pod, false);
    world.change_pod(&pod, |facts| facts.node = "n2".into());
    world.publish(vec![due]);
    assert_eq!(
        world.pod_state(&pod),
        Some(&PodOutcomeState::Refused(RefusedReason::OtherNode))
    );
    assert!(world.history.is_empty());
}

/// TE-076: failures are retried with growing pauses as long as the intent stands, and said; TE-081: with one Event.
#[test]
fn failures_are_retried_until_the_intent_is_gone() {
    let mut world = mk_world();
    let pod = world.add_pod("p", "n1", vec![]);
    world.failures.extend([FailureKind::Unknown, FailureKind::Denied]);
    world.due(&pod);
    world.pass(Duration::from_millis(250));
    world.failures.push_back(FailureKind::Throttled);
    world.retry_after = Some(secs(20));
    world.pass(secs(19));
    assert_eq!((world.deleted(), world.requests), (0, 3), "the server asked for 20 s");
    let Some(bailiff_model::outcome::Outcome::Pod(outcome)) = world.outcomes.get(&format!("pod/{pod}")) else {
        unreachable!("it was said")
    };
    assert_eq!((outcome.failed_attempts, &outcome.detail[..]), (3, "as the test wanted"));
    world.pass(secs(5));
    assert_eq!((world.deleted(), world.events.len()), (1, 1));
    let other = world.add_pod("q", "n1", vec![]);
    world.failures.extend([FailureKind::Unknown; 3]);
    world.due(&other);
    world.withdraw(&other);
    world.pass(secs(600));
    assert_eq!(world.pod_state(&other), Some(&PodOutcomeState::Cancelled));
    assert!(world.pods.contains_key(&other));
}

/// TE-076: a webhook or a policy that refuses the request may be gone tomorrow. It is tried as long as it stands, but seldom.
#[test]
fn what_the_server_refuses_is_tried_again_and_seldom() {
    let mut world = mk_world();
    let pod = world.add_pod("p", "n1", vec![]);
    world.failures.extend([FailureKind::Invalid; 50]);
    world.due(&pod);
    world.pass(secs(3600));
    let tries = world.requests;
    assert!((10..30).contains(&tries), "{tries} tries");
    assert_eq!(world.pod_state(&pod), Some(&PodOutcomeState::Evicting));
    world.failures.clear();
    world.pass(secs(300));
    assert_eq!(world.pod_state(&pod), Some(&PodOutcomeState::Deleted));
}

/// TE-066, TE-068: a withdrawal ends everything but a delete that was sent.
#[test]
fn a_withdrawn_pod_is_not_deleted_unless_the_delete_was_sent() {
    // Withdrawn while it is being marked.
    let mut world = mk_world();
    let pod = world.add_pod("p", "n1", vec![]);
    world.is_slow = true;
    world.due(&pod);
    world.withdraw(&pod);
    world.answer_all();
    world.pass(secs(600));
    assert_eq!(world.happened(), [Happened::Marked("p".to_owned())]);
    assert_eq!(world.pod_state(&pod), Some(&PodOutcomeState::Cancelled));
    // Withdrawn after the delete was sent: accepted, or failed and not tried again.
    for failure in [None, Some(FailureKind::Unknown), Some(FailureKind::Conflict)] {
        let mut world = mk_world();
        let pod = world.add_pod("p", "n1", vec![]);
        let due = world.mk_due(&pod, false);
        world.is_slow = true;
        world.publish(vec![due]);
        let mark = world.unanswered.remove(0);
        assert!(matches!(mark, Effect::MarkPod { .. }));
        world.unanswered = vec![mark];
        answer_one_slowly(&mut world);
        assert!(matches!(world.unanswered[..], [Effect::DeletePod { .. }]));
        world.withdraw(&pod);
        world.failures.extend(failure);
        world.answer_all();
        world.pass(secs(600));
        let wanted = if failure.is_none() {
            PodOutcomeState::Deleted
        } else {
            PodOutcomeState::Cancelled
        };
        assert_eq!(world.pod_state(&pod), Some(&wanted), "{failure:?}");
        assert_eq!(world.pods.contains_key(&pod), failure.is_some());
        assert_eq!(world.evictor.due_pods(), (0, 0, 0));
    }
}

/// Answers what is kept now, and keeps what is asked next.
fn answer_one_slowly(world: &mut World) {
    let request = world.unanswered.remove(0);
    let Effect::MarkPod { ticket, pod, mark } = request else {
        unreachable!("a mark")
    };
    let Some(facts) = world.pods.get_mut(&pod.uid) else {
        unreachable!("it lives")
    };
    assert!(matches!(mark, bailiff_zone_core::Mark::DisruptionTarget { .. }));
    facts.marked = true;
    let answer = bailiff_zone_core::PodAnswer::Facts(facts.clone());
    world.tell(Input::PodAnswer {
        ticket,
        result: Ok(answer),
    });
}

/// TE-024, weakness 7: not more requests at a time than configured, and everybody's turn comes.
#[test]
fn evictions_in_flight_are_bounded() {
    let mut world = World::new(mk_config(|config| config.max_evictions_in_flight = 4), &NODES);
    world.taint("n1", "maintenance", TaintEffect::NoExecute);
    world.is_slow = true;
    let records = (0..20)
        .map(|n| {
            let pod = world.add_pod(&format!("p{n}"), "n1", vec![]);
            world.mk_due(&pod, false)
        })
        .collect();
    world.publish(records);
    assert_eq!(world.unanswered.len(), 4);
    assert_eq!(world.evictor.due_pods(), (0, 16, 4));
    world.answer_all();
    assert_eq!((world.deleted(), world.evictor.due_pods()), (20, (0, 0, 0)));
}

/// Few at first, one more with each answer, and fewer again when the server is in trouble.
#[test]
fn evictions_in_flight_are_more_while_the_server_answers() {
    let mut world = World::new(mk_config(|config| config.max_evictions_in_flight = 34), &NODES);
    world.taint("n1", "maintenance", TaintEffect::NoExecute);
    world.is_slow = true;
    let mk_due = |n: usize| {
        let pod = world.add_pod(&format!("p{n:02}"), "n1", vec![]);
        world.mk_due(&pod, false)
    };
    let records = (0..60).map(mk_due).collect();
    world.publish(records);
    let mut under_way = vec![world.unanswered.len()];
    for failure in [None, None, None, Some(FailureKind::Conflict)] {
        world.failures.extend(failure);
        world.answer_first();
        under_way.push(world.unanswered.len());
    }
    assert_eq!(under_way, [32, 33, 34, 34, 34]);
    world.failures.push_back(FailureKind::Unknown);
    world.answer_first();
    assert_eq!(world.unanswered.len(), 33, "nobody takes the place of the one that failed");
    world.answer_all();
    world.pass(secs(60));
    assert_eq!((world.deleted(), world.evictor.due_pods()), (60, (0, 0, 0)));
}

/// TE-001, design §1: who was not asked to evict does not.
#[test]
fn without_the_duty_no_pod_is_evicted() {
    let mut world = World::new(mk_config(|config| config.duties.taint_eviction = false), &NODES);
    world.taint("n1", "maintenance", TaintEffect::NoExecute);
    let pod = world.add_pod("p", "n1", vec![]);
    world.due(&pod);
    world.pass(secs(60));
    assert!(world.history.is_empty());
}

/// TE-063, TE-111: the short taint is gone, a longer tolerated one stands. Upstream's timer fires all the same.
#[test]
fn what_armed_the_timer_must_still_stand_except_under_upstreams_profile() {
    for (profile, deleted) in [(Profile::Bailiff, 0), (Profile::Upstream, 1)] {
        let mut world = World::new(mk_config(|config| config.profile = profile), &NODES);
        world.taint("n1", "short", TaintEffect::NoExecute);
        world.taint("n1", "long", TaintEffect::NoExecute);
        let tolerations = vec![mk_toleration("short", Some(5)), mk_toleration("long", Some(500))];
        let pod = world.add_pod("p", "n1", tolerations.clone());
        let cause = EvictionCause::Taints {
            taints: vec![mk_taint("short", "")],
            tolerations,
        };
        let node = world.node("n1").reference();
        let due = world.mk_pod_record(world.pods[&pod].reference(), node, cause, IntentState::Due, Trigger::Expired);
        world.untaint("n1", "short", TaintEffect::NoExecute);
        world.publish(vec![due]);
        assert_eq!(world.deleted(), deleted, "{profile}");
    }
}

/// TE-112: untainting makes an intent that is still on its way harmless.
#[test]
fn a_due_intent_that_comes_after_the_untainting_is_refused() {
    let mut world = World::new(mk_config(|_| ()), &NODES);
    world.fall_silent(&["n1"]);
    let pod = world.add_pod("p", "n1", vec![mk_toleration(HealthTaint::Unreachable.key(), Some(300))]);
    let due = world.mk_due(&pod, false);
    world.come_back(&["n1"]);
    world.publish(vec![due]);
    assert_eq!(world.pod_state(&pod), Some(&PodOutcomeState::Refused(RefusedReason::NoTaint)));
}

/// Style §21: an intent of a pod whose node nobody knows yet does nothing to others.
#[test]
fn an_intent_without_a_node_is_for_a_node_that_is_gone() {
    let mut world = mk_world();
    let pod = world.add_pod("p", "nowhere", vec![]);
    let record = world.mk_pod_record(
        world.pods[&pod].reference(),
        NodeRef {
            name: "nowhere".into(),
            uid: "gone".into(),
            ..NodeRef::default()
        },
        EvictionCause::Taints {
            taints: vec![mk_taint("maintenance", "")],
            tolerations: vec![],
        },
        IntentState::Due,
        Trigger::Expired,
    );
    assert_eq!(record.topic, Topic::EvictionIntents);
    world.publish(vec![record]);
    assert_eq!(world.happened(), marked_and_deleted("p"));
}
