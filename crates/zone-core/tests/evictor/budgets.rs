//! Eviction by the Eviction API: budgets are respected, what they forbid is said, and (if asked for) deleted in the end.

use std::time::Duration;

use bailiff_model::outcome::{PodOutcomeState, RefusedReason};
use bailiff_model::{Effect as TaintEffect, Hold, HoldReason, HoldScope, Holds, PodUid};
use bailiff_zone_core::{Block, Count, Effect, EvictionMethod, FailureKind, Input, PodAnswer};

use crate::world::{Happened, World, mk_config, mk_toleration, secs};

const NODES: [(&str, &str); 2] = [("n1", "a"), ("n2", "a")];
const THEN_DELETE: EvictionMethod = EvictionMethod::EvictThenDelete {
    after: Duration::from_secs(615),
};

/// A world with a pod that nothing keeps on its node.
fn mk_world(method: EvictionMethod) -> (World, PodUid) {
    let mut world = World::new(mk_config(|config| config.method = method), &NODES);
    world.taint("n1", "maintenance", TaintEffect::NoExecute);
    let pod = world.add_pod("p", "n1", vec![]);
    (world, pod)
}

fn forbid(world: &mut World, pod: &PodUid, retry_after: Option<u64>) {
    let block = Block {
        by: "default/web".to_owned(),
        retry_after: retry_after.map(secs),
        detail: "The disruption budget web needs 1 healthy pods and has 1 currently".to_owned(),
    };
    world.budgets.insert(pod.clone(), block);
}

fn blocked() -> PodOutcomeState {
    let by = "default/web".to_owned();
    PodOutcomeState::Blocked { by }
}

fn evicted() -> Vec<Happened> {
    vec![Happened::Evicted("p".to_owned())]
}

/// What was read is what is evicted; the Eviction API sets the condition itself.
#[test]
fn a_pod_that_no_budget_guards_is_read_and_evicted() {
    for method in [EvictionMethod::Evict, THEN_DELETE] {
        let (mut world, pod) = mk_world(method);
        world.due(&pod);
        assert_eq!(world.happened(), evicted(), "{method:?}");
        assert_eq!(world.requests, 2);
        assert_eq!(world.pod_state(&pod), Some(&PodOutcomeState::Deleted));
        assert_eq!(world.events.len(), 1);
    }
}

/// BLOCKED names the budget, and is no news while it stands; the pod goes as soon as a try finds the budget free.
#[test]
fn a_budget_blocks_and_is_named_until_it_allows() {
    let (mut world, pod) = mk_world(EvictionMethod::Evict);
    forbid(&mut world, &pod, None);
    world.due(&pod);
    assert_eq!(world.pod_state(&pod), Some(&blocked()));
    world.pass(secs(3600));
    assert_eq!(world.happened(), []);
    assert_eq!(world.pod_state(&pod), Some(&blocked()));
    assert!(world.counts.contains(&Count::PodBlocked));
    let (tried, published) = (world.evictions_tried, world.published);
    assert!((115..135).contains(&tried), "every 30 s in the end: {tried}");
    assert_eq!(world.events.len(), 1, "one Event for all tries");
    world.pass(secs(3600));
    assert_eq!(world.published, published, "what stays as it is is not said again");
    world.budgets.clear();
    world.pass(secs(30));
    assert_eq!(world.happened(), evicted());
}

/// Retry-After is honoured, for a minute at most.
#[test]
fn a_blocked_eviction_is_not_tried_before_the_server_says() {
    let (mut world, pod) = mk_world(EvictionMethod::Evict);
    forbid(&mut world, &pod, Some(45));
    world.due(&pod);
    world.pass(secs(44));
    assert_eq!(world.evictions_tried, 1);
    forbid(&mut world, &pod, Some(10_000));
    world.pass(secs(1));
    assert_eq!(world.evictions_tried, 2);
    world.pass(secs(59));
    assert_eq!(world.evictions_tried, 2);
    world.pass(secs(1));
    assert_eq!(world.evictions_tried, 3);
}

#[test]
fn an_eviction_that_is_withdrawn_before_it_is_sent_is_not_sent() {
    let (mut world, pod) = mk_world(EvictionMethod::Evict);
    (world.is_slow, world.is_unsent) = (true, true);
    world.due(&pod);
    let Some(Effect::ReadPod { ticket, .. }) = world.unanswered.pop() else {
        panic!("the pod is read first");
    };
    let result = Ok(PodAnswer::Facts(world.pods[&pod].clone()));
    world.tell(Input::PodAnswer { ticket, result });
    assert!(matches!(world.unanswered.as_slice(), [Effect::EvictPod { .. }]));
    world.withdraw(&pod);
    world.answer_all();
    assert_eq!((world.evictions_tried, world.happened()), (0, vec![]));
    assert_eq!(world.pod_state(&pod), Some(&PodOutcomeState::Cancelled));
}

/// evict-then-delete deletes what is forbidden still, when it has been due for so long, and not before.
#[test]
fn what_a_budget_forbids_for_too_long_is_deleted() {
    let (mut world, pod) = mk_world(THEN_DELETE);
    forbid(&mut world, &pod, Some(10_000));
    world.due(&pod);
    world.pass(secs(614));
    assert_eq!(world.happened(), []);
    assert_eq!(world.pod_state(&pod), Some(&blocked()));
    world.pass(secs(1));
    let wanted = [Happened::Marked("p".to_owned()), Happened::Deleted("p".to_owned())];
    assert_eq!(world.happened(), wanted);
}

/// After a long hold nothing is deleted that nobody tried to evict.
#[test]
fn a_hold_does_not_use_up_the_time_to_evict() {
    let (mut world, pod) = mk_world(THEN_DELETE);
    let hold = Hold {
        reason: HoldReason::Paused,
        detail: "as the test wanted".to_owned(),
        since: world.now.wall,
        until: None,
    };
    world.tell(Input::Braked([(HoldScope::All, hold)].into_iter().collect()));
    world.due(&pod);
    world.pass(secs(3600));
    world.tell(Input::Braked(Holds::NONE));
    world.pass(secs(1));
    assert_eq!(world.happened(), evicted());
}

/// A blocked eviction is judged anew before each try, and called off when its reason is gone.
#[test]
fn a_blocked_eviction_ends_with_its_reason() {
    type Change = fn(&mut World, &PodUid);
    let tolerate: Change = |world, pod| world.change_pod(pod, |facts| facts.tolerations = vec![mk_toleration("maintenance", None)]);
    let changes: [(Change, PodOutcomeState); 2] = [
        (|world, pod| world.withdraw(pod), PodOutcomeState::Cancelled),
        (tolerate, PodOutcomeState::Refused(RefusedReason::Tolerated)),
    ];
    for (change, wanted) in changes {
        let (mut world, pod) = mk_world(EvictionMethod::Evict);
        forbid(&mut world, &pod, None);
        world.due(&pod);
        change(&mut world, &pod);
        world.budgets.clear();
        world.pass(secs(60));
        assert_eq!(world.happened(), []);
        assert_eq!(world.pod_state(&pod), Some(&wanted));
    }
}

/// TE-076: other failures of an eviction are retried as those of a delete are.
#[test]
fn other_failures_of_an_eviction_are_retried_too() {
    for kind in [
        FailureKind::Unknown,
        FailureKind::Conflict,
        FailureKind::Denied,
        FailureKind::Throttled,
    ] {
        let (mut world, pod) = mk_world(EvictionMethod::Evict);
        world.failures.extend([kind; 3]);
        world.due(&pod);
        world.pass(secs(10));
        assert_eq!(world.happened(), evicted(), "{kind:?}");
    }
}
