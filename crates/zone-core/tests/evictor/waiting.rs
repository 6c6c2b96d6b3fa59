//! Pods that are due and wait for nothing but others: for their turn, or for a read of their node. They are told so, once.

use std::collections::BTreeMap;
use std::time::Duration;

use bailiff_model::outcome::{PodOutcome, PodOutcomeState};
use bailiff_model::{Effect as TaintEffect, Hold, HoldReason, PodUid, Topic, Wall};
use bailiff_zone_core::{Block, Config, EvictionMethod, FailureKind, Input};

use crate::world::{START, World, mk_config, secs};

const NODES: [(&str, &str); 3] = [("n1", "a"), ("n2", "a"), ("n3", "a")];

fn mk_world(change: impl FnOnce(&mut Config)) -> World {
    let mut world = World::new(mk_config(change), &NODES);
    world.taint("n1", "maintenance", TaintEffect::NoExecute);
    world
}

fn at(seconds: i64) -> Wall {
    Wall::from_second(START + seconds).expect("in range")
}

/// So many pods of n1, all due at once.
fn due(world: &mut World, count: usize) -> Vec<PodUid> {
    let pods: Vec<PodUid> = (0..count).map(|n| world.add_pod(&format!("p{n:03}"), "n1", vec![])).collect();
    let records = pods.iter().map(|pod| world.mk_due(pod, false)).collect();
    world.publish(records);
    pods
}

/// The same, due before the evictor came.
fn overdue(world: &mut World, count: usize) -> Vec<PodUid> {
    world.stop();
    let pods = due(world, count);
    world.show_everything();
    pods
}

fn hold_of<'a>(world: &'a World, pod: &PodUid) -> Option<&'a Hold> {
    match world.pod_outcome(pod) {
        Some(PodOutcome {
            state: PodOutcomeState::Held(hold),
            ..
        }) => Some(hold),
        _ => None,
    }
}

/// Design §1: who waits for a slot is told so, with the flag that would help, since when it waits.
#[test]
fn who_waits_for_a_slot_is_told() {
    let mut world = mk_world(|config| config.max_evictions_in_flight = 2);
    world.is_slow = true;
    let pods = due(&mut world, 4);
    world.pass(Duration::from_millis(29_999));
    assert!(
        pods[2..].iter().all(|pod| world.pod_state(pod).is_none()),
        "its intent says enough"
    );
    world.pass(Duration::from_millis(1));
    assert_eq!(world.pod_state(&pods[1]), Some(&PodOutcomeState::Evicting));
    for pod in &pods[2..] {
        let hold = hold_of(&world, pod).expect("it waits");
        assert_eq!((hold.reason, hold.since, hold.until), (HoldReason::RateLimited, at(0), None));
        assert!(hold.detail.contains("2 evictions") && hold.detail.contains("--concurrent-evictions"));
    }
    world.answer_all();
    assert_eq!(world.deleted(), 4);
}

/// A burst that an API which answers takes in no time costs no record more.
#[test]
fn who_goes_at_once_is_not_told_that_it_waits() {
    let mut world = mk_world(|config| config.max_evictions_in_flight = 1);
    let published = world.published;
    world.is_slow = true;
    due(&mut world, 100);
    while !world.unanswered.is_empty() {
        world.answer_first();
    }
    world.pass(secs(30));
    assert_eq!((world.deleted(), world.published - published), (100, 100), "deleted");
    assert_eq!(world.wake_at(), None, "nothing is left to be told of them");
}

/// That a pod is being evicted is told when it takes long, since when it is; and at once, if something else was told to keep it.
#[test]
fn who_is_evicted_for_long_is_told() {
    let mut world = mk_world(|_| {});
    world.is_slow = true;
    let pods = due(&mut world, 2);
    world.pass(Duration::from_millis(1_999));
    assert!(pods.iter().all(|pod| world.pod_state(pod).is_none()));
    world.pass(Duration::from_millis(1));
    for pod in &pods {
        let outcome = world.pod_outcome(pod).expect("it is told");
        assert_eq!((&outcome.state, outcome.since), (&PodOutcomeState::Evicting, at(0)));
    }
    world.answer_all();

    world.tell(Input::ApiFresh(false));
    world.is_slow = true;
    let kept = world.add_pod("kept", "n1", vec![]);
    world.due(&kept);
    assert!(hold_of(&world, &kept).is_some());
    world.tell(Input::ApiFresh(true));
    assert_eq!(world.pod_state(&kept), Some(&PodOutcomeState::Evicting));
    world.answer_all();
    world.pass(secs(10));
    assert_eq!((world.deleted(), world.wake_at()), (3, None));
}

/// What goes in the first view is told at once, slow as its request may be: what is not said then counts as withdrawn.
#[test]
fn who_goes_in_the_first_view_is_told() {
    for earlier in [None, Some(HoldReason::RateLimited), Some(HoldReason::Stale)] {
        let mut world = mk_world(|config| config.max_evictions_in_flight = 1);
        world.set_shard(Topic::EvictionIntents, true, earlier != Some(HoldReason::Stale));
        world.is_slow = true;
        let pods = due(&mut world, if earlier == Some(HoldReason::RateLimited) { 2 } else { 1 });
        world.pass(secs(if earlier == Some(HoldReason::RateLimited) { 30 } else { 1 }));
        let pod = pods.last().expect("there is one");
        assert_eq!(world.pod_held(pod), earlier);
        world.stop();
        world.pods.retain(|uid, _| uid == pod);
        world.bus.retain(|_, record| {
            !pods
                .iter()
                .any(|other| other != pod && record.key.ends_with(&other.to_string()))
        });
        world.set_shard(Topic::EvictionIntents, true, true);
        world.show_everything();
        assert_eq!(world.pod_state(pod), Some(&PodOutcomeState::Evicting), "{earlier:?}");
        assert_eq!(world.unanswered.len(), 1);
    }
}

/// TE-066: a pod that is withdrawn while its request is under way ends with the answer, whether it was told that it goes or not.
#[test]
fn who_is_withdrawn_as_it_goes_ends_with_the_answer() {
    for is_told in [false, true] {
        let mut world = mk_world(|_| {});
        world.is_slow = true;
        let pod = due(&mut world, 1).remove(0);
        world.pass(secs(1));
        world.withdraw(&pod);
        world.pass(secs(u64::from(is_told)));
        assert_eq!(world.pod_state(&pod), is_told.then_some(&PodOutcomeState::Evicting));
        world.answer_all();
        assert_eq!(world.pod_state(&pod), Some(&PodOutcomeState::Cancelled));
        let published = world.published;
        world.pass(secs(10));
        assert_eq!((world.published, world.wake_at(), world.deleted()), (published, None, 0));
    }
}

/// Who was told in the meantime what else keeps it is not told that it goes, long as its next request takes; nor does the time of an
/// attempt that failed count for the next.
#[test]
fn who_is_blocked_meanwhile_stays_so() {
    let mut world = mk_world(|config| config.method = EvictionMethod::Evict);
    world.is_slow = true;
    let pods = due(&mut world, 2);
    let by = "default/web".to_owned();
    let block = Block {
        by: by.clone(),
        retry_after: Some(secs(1)),
        detail: String::new(),
    };
    world.budgets.insert(pods[1].clone(), block);
    // The second is read, and its eviction refused; the first has no answer.
    for _ in 0..2 {
        world.unanswered.swap(0, 1);
        world.answer_first();
    }
    let blocked = Some(&PodOutcomeState::Blocked { by });
    assert_eq!(world.pod_state(&pods[1]), blocked);
    world.pass(Duration::from_millis(1_500));
    assert_eq!(world.unanswered.len(), 2, "it is tried again");
    let published = world.published;
    world.pass(secs(10));
    assert_eq!(world.pod_state(&pods[0]), Some(&PodOutcomeState::Evicting));
    assert_eq!((world.pod_state(&pods[1]), world.published - published), (blocked, 1));
}

/// A failure is told at once, with when the attempt began.
#[test]
fn who_fails_at_first_is_evicted_since_it_was_asked() {
    let mut world = mk_world(|_| {});
    world.is_slow = true;
    let pod = due(&mut world, 1).remove(0);
    world.pass(secs(1));
    world.failures.push_back(FailureKind::Denied);
    world.answer_first();
    let outcome = world.pod_outcome(&pod).expect("it is told");
    assert_eq!(
        (&outcome.state, outcome.since, outcome.failed_attempts),
        (&PodOutcomeState::Evicting, at(0), 1)
    );
}

/// Design §8: who is overdue is told when its turn is expected, and has it then. However long the line is, each is told once.
#[test]
fn who_waits_for_the_pace_is_told_its_turn() {
    let mut world = mk_world(|config| config.overdue_per_second = 2.0);
    let published = world.published;
    let pods = overdue(&mut world, 200);
    let turns: BTreeMap<Wall, PodUid> = pods
        .iter()
        .filter_map(|pod| Some((hold_of(&world, pod)?.until?, pod.clone())))
        .collect();
    assert_eq!(turns.len(), 199, "the first goes at once, and no two together");
    for (nth, (turn, pod)) in turns.into_iter().enumerate() {
        let hold = hold_of(&world, &pod).expect("it waits");
        assert_eq!((hold.reason, hold.since), (HoldReason::RateLimited, at(0)));
        assert!(hold.detail.contains("--overdue-eviction-rate"));
        assert_eq!(world.deleted(), nth + 1);
        let left = turn.duration_since(world.now.wall);
        world.pass(left.try_into().expect("it is to come"));
        assert_eq!(world.pod_state(&pod), Some(&PodOutcomeState::Deleted), "{nth}");
    }
    let zones = 1;
    assert_eq!(world.published - published, 2 + 199 * 2 + zones, "held, deleted");
}

/// What a hold kept back and goes on is overdue: it is told that it waits for its turn by then, and no longer for the hold.
#[test]
fn who_was_held_waits_for_its_turn_after_that() {
    let mut world = mk_world(|config| config.overdue_per_second = 1.0);
    world.tell(Input::ApiFresh(false));
    let pods = due(&mut world, 5);
    world.pass(secs(7));
    world.tell(Input::ApiFresh(true));
    world.pass(secs(1));
    let hold = hold_of(&world, &pods[4]).expect("it waits");
    assert_eq!(
        (hold.reason, hold.since, hold.until),
        (HoldReason::RateLimited, at(7), Some(at(11)))
    );
}

/// Design §8: after a restart it waits since it did, until when it was told, as long as that is to come: the bus takes that for the same
/// record. Its trace has one wait.
#[test]
fn a_restart_does_not_tell_anew_who_waits() {
    let mut world = mk_world(|config| config.overdue_per_second = 1.0);
    let pods = overdue(&mut world, 20);
    let last = &pods[19];
    let told = world.pod_outcome(last).cloned();
    assert_eq!(hold_of(&world, last).map(|hold| hold.until), Some(Some(at(19))));
    for _ in 0..3 {
        world.pass(secs(3));
        let said = &world.sources[&format!("pod/{last}")].clone();
        world.restart();
        assert_eq!(world.pod_outcome(last).cloned(), told);
        assert_eq!(&world.sources[&format!("pod/{last}")], said);
    }
    world.stop();
    world.pass(secs(30));
    world.show_everything();
    let hold = hold_of(&world, last).expect("it waits");
    assert_eq!(
        (hold.since, hold.until),
        (at(0), Some(at(45))),
        "it takes longer than was told"
    );
    world.pass(secs(60));
    let waits: Vec<String> = world
        .told(&last.to_string())
        .into_iter()
        .filter(|span| span.starts_with("held"))
        .collect();
    assert_eq!(waits.len(), 1, "{waits:?}");
}

/// The same for what something holds.
#[test]
fn a_restart_does_not_tell_anew_who_is_held() {
    let mut world = mk_world(|_| ());
    world.shards.insert(Topic::EvictionIntents, (true, false));
    world.tell(Input::Status(world.shards()));
    let pod = due(&mut world, 1).remove(0);
    let told = world.pod_outcome(&pod).cloned();
    assert_eq!(world.pod_held(&pod), Some(HoldReason::Stale));
    world.pass(secs(5));
    world.restart();
    assert_eq!(world.pod_outcome(&pod).cloned(), told);
}

/// Design §3: a pod that its node, as it is known, does not justify waits for a read of that, and is told so if the read takes its time,
/// however often it fails.
#[test]
fn who_waits_for_a_read_of_its_node_is_told() {
    for fails in [false, true] {
        let mut world = World::new(mk_config(|_| ()), &NODES);
        world.is_watch_stalled = true;
        world.taint("n1", "maintenance", TaintEffect::NoExecute);
        (world.is_slow, world.retry_after) = (!fails, None);
        if fails {
            world.unreadable.insert("n1".into());
        }
        let pod = due(&mut world, 1).remove(0);
        assert_eq!(world.pod_state(&pod), None, "it is read at once");
        world.pass(secs(2));
        let hold = hold_of(&world, &pod).expect("it waits");
        assert_eq!(
            (hold.reason, hold.since, hold.until),
            (HoldReason::OutdatedIntent, at(0), None)
        );
        assert!(hold.detail.contains("the node is read"), "{}", hold.detail);
        let published = world.published;
        world.pass(secs(3600));
        assert_eq!(world.published, published, "fails: {fails}");
        world.unreadable.clear();
        world.answer_all();
        world.pass(secs(60));
        assert_eq!(world.pod_state(&pod), Some(&PodOutcomeState::Deleted), "fails: {fails}");
    }
}

/// While a budget forbids an eviction it is blocked, also where it waits in line to be tried again.
#[test]
fn who_is_blocked_stays_so_in_line() {
    let mut world = mk_world(|config| (config.method, config.max_evictions_in_flight) = (EvictionMethod::Evict, 1));
    let blocked = world.add_pod("blocked", "n1", vec![]);
    let by = "default/web".to_owned();
    let block = Block {
        by: by.clone(),
        retry_after: Some(secs(10)),
        detail: String::new(),
    };
    world.budgets.insert(blocked.clone(), block);
    world.due(&blocked);
    world.is_slow = true;
    let other = due(&mut world, 2).remove(1);
    world.pass(secs(20));
    assert_eq!(world.pod_held(&other), Some(HoldReason::RateLimited));
    assert_eq!(world.pod_state(&blocked), Some(&PodOutcomeState::Blocked { by }));
}

/// TE-076: one whose request failed waits in line for its next try as others do.
#[test]
fn who_is_tried_again_waits_in_line_for_it() {
    let mut world = mk_world(|config| config.max_evictions_in_flight = 1);
    world.failures.push_back(FailureKind::Denied);
    let pod = due(&mut world, 1).remove(0);
    world.is_slow = true;
    let other = world.add_pod("other", "n1", vec![]);
    world.due(&other);
    world.pass(secs(5));
    let outcome = world.pod_outcome(&pod).expect("it waits");
    assert_eq!(
        (world.pod_held(&pod), outcome.failed_attempts),
        (Some(HoldReason::RateLimited), 1)
    );
    world.answer_all();
    assert_eq!(world.deleted(), 2);
}
