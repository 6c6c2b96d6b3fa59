//! What was decided, or asked for, and is not wanted any more.

use bailiff_model::intent::HealthTaint;
use bailiff_model::outcome::{PodOutcomeState, RefusedReason};
use bailiff_model::{Effect, Hold, HoldReason, HoldScope, Holds, ReadyStatus, Taint, Verdict};
use bailiff_zone_core::{Body, Count, Input, NodeFacts};

use crate::isolation::report_false;
use crate::world::{Happened, World, mk_config, mk_toleration, secs};

/// Design §3: reads made to be sure are in the order they were asked for, and a node that cannot be read keeps nobody waiting.
#[test]
fn a_node_that_cannot_be_read_does_not_starve_the_others() {
    let mut world = mk_world();
    world.is_watch_stalled = true;
    world.unreadable.insert("n1".into());
    let pods = ["n1", "n3", "n2"].map(|node| {
        world.taint(node, "maintenance", Effect::NoExecute);
        let pod = world.add_pod(&format!("p-{node}"), node, vec![]);
        world.due(&pod);
        pod
    });
    world.pass(secs(3));
    assert_eq!((world.deleted(), world.pods.contains_key(&pods[0])), (2, true));
    let before = world.reads;
    world.pass(secs(600));
    assert!(
        world.reads - before < 40,
        "{} reads of a node that cannot be read",
        world.reads - before
    );
    world.unreadable.clear();
    world.pass(secs(31));
    assert_eq!(world.deleted(), 3);
}

/// The API's store was restored from a backup: versions go back. A read that shows an older state than the watch makes sure of nothing; a
/// list does, and is believed.
#[test]
fn a_server_that_goes_back_is_followed_by_its_list() {
    let mut world = mk_world();
    let tainted = |taint: Taint| NodeFacts {
        resource_version: "50".into(),
        taints: vec![taint],
        ..world.node("n1").clone()
    };
    let restored = tainted(Taint::new("maintenance", Effect::NoExecute));
    world.nodes.insert("n1".into(), restored);
    let pod = world.add_pod("p", "n1", vec![]);
    world.due(&pod);
    world.pass(secs(10));
    assert_eq!(
        (world.deleted(), world.pod_held(&pod)),
        (0, Some(HoldReason::OutdatedIntent)),
        "neither evicted nor refused"
    );
    assert!(world.reads > 1, "it is asked again");
    world.list_nodes();
    world.pass(secs(31));
    assert_eq!(world.deleted(), 1);
}

fn mk_world() -> World {
    World::new(mk_config(|_| ()), &[("n1", "a"), ("n2", "a"), ("n3", "a"), ("n4", "a")])
}

/// NL-074: a node that is Ready again is about to be untainted. What its health caused waits, and what is not sent yet is not sent.
#[test]
fn pods_of_a_node_that_is_ready_again_are_not_evicted() {
    let ready = |world: &mut World| world.change_node("n1", |facts| facts.ready = ReadyStatus::True);
    // Ready before the pod is due; its NoSchedule taint stands, so the NoExecute one does too for a while.
    let mut world = mk_world();
    world.fall_silent(&["n1"]);
    ready(&mut world);
    let pod = world.add_pod("p", "n1", vec![]);
    world.due(&pod);
    assert_eq!((world.requests, world.pod_held(&pod)), (1, Some(HoldReason::OutdatedIntent)));
    world.mark_unknown("n1");
    assert_eq!(world.deleted(), 1, "it fell silent again before it was untainted");
    // Ready while a request waits for its turn.
    for withdrawn in [false, true] {
        let mut world = mk_world();
        world.fall_silent(&["n1"]);
        let pod = world.add_pod("p", "n1", vec![]);
        (world.is_slow, world.is_unsent) = (true, true);
        world.due(&pod);
        if withdrawn {
            world.withdraw(&pod);
        } else {
            ready(&mut world);
        }
        let before = world.requests;
        world.answer_all();
        assert_eq!(world.requests, before, "withdrawn: {withdrawn}");
        let wanted = (!withdrawn).then_some(HoldReason::OutdatedIntent);
        assert_eq!(world.pod_held(&pod), wanted);
        world.pass(secs(600));
        assert!(world.pods.contains_key(&pod));
        assert_eq!(world.pod_state(&pod) == Some(&PodOutcomeState::Cancelled), withdrawn);
    }
}

fn pause(world: &mut World, scope: &HoldScope) {
    let hold = Hold {
        reason: HoldReason::Paused,
        detail: "as the test wanted".to_owned(),
        since: world.now.wall,
        until: None,
    };
    world.tell(Input::Braked([(scope.clone(), hold)].into_iter().collect()));
}

/// Pause: what waits for its turn under the client's rate limit when a hold begins is not sent, whatever step it is; when the
/// hold ends the present counts.
#[test]
fn a_hold_calls_off_what_is_not_sent_yet() {
    let scopes = [
        HoldScope::All,
        HoldScope::Zone(crate::world::zone("a")),
        HoldScope::Node("n1".into()),
    ];
    for scope in scopes {
        for steps_before in 0..2 {
            let mut world = mk_world();
            world.fall_silent(&["n1"]);
            let pod = world.add_pod("p", "n1", vec![]);
            (world.is_slow, world.is_unsent) = (true, true);
            world.due(&pod);
            for _ in 0..steps_before {
                world.answer_first();
            }
            let reason = HoldReason::Paused;
            pause(&mut world, &scope);
            let before = world.requests;
            world.answer_all();
            world.pass(secs(600));
            assert_eq!(world.requests, before, "{scope}, {steps_before} steps");
            assert_eq!((world.pod_held(&pod), world.pods.contains_key(&pod)), (Some(reason), true));
            world.tell(Input::Braked(Holds::NONE));
            world.pass(secs(60));
            world.answer_all();
            assert_eq!(world.deleted(), 1, "{scope}, {steps_before} steps");
        }
    }
}

/// Pause: the same for taints that are about to be added, whatever closes the gate. It is no failure: the token is given back,
/// and once the gate is open the node, if it still should be, is isolated at once.
#[test]
fn taints_that_were_not_sent_when_a_gate_closes_are_called_off() {
    type Gate = (&'static str, HoldReason, fn(&mut World), fn(&mut World));
    fn paused(world: &mut World, scope: HoldScope) {
        pause(world, &scope);
    }
    fn resumed(world: &mut World) {
        world.tell(Input::Braked(Holds::NONE));
    }
    let gates: [Gate; 4] = [
        ("all", HoldReason::Paused, |world| paused(world, HoldScope::All), resumed),
        (
            "zone",
            HoldReason::Paused,
            |world| paused(world, HoldScope::Zone(crate::world::zone("a"))),
            resumed,
        ),
        (
            "node",
            HoldReason::Paused,
            |world| paused(world, HoldScope::Node("n1".into())),
            resumed,
        ),
        (
            "watch",
            HoldReason::ApiStale,
            |world| world.tell(Input::ApiFresh(false)),
            |world| world.tell(Input::ApiFresh(true)),
        ),
    ];
    for (what, reason, close, open) in gates {
        for (swaps, comes_back) in [(false, false), (true, false), (false, true)] {
            let what = format!("{what}, swaps: {swaps}, comes back: {comes_back}");
            let mut world = mk_world();
            if swaps {
                report_false(&mut world, "n1");
                world.pass(secs(20));
            }
            (world.is_slow, world.is_unsent) = (true, true);
            world.fall_silent(&["n1"]);
            assert_eq!(world.unanswered.len(), 1, "{what}");
            close(&mut world);
            let (requests, written) = (world.requests, world.history.len());
            world.answer_all();
            world.pass(secs(600));
            assert_eq!((world.requests, world.history.len()), (requests, written), "{what}");
            assert_eq!(world.node_held("n1"), Some(reason), "{what}");
            if comes_back {
                world.come_back(&["n1"]);
            }
            open(&mut world);
            let unreachable = Taint::new(HealthTaint::Unreachable.key(), Effect::NoExecute);
            let is_there = world.node("n1").taints.iter().any(|taint| taint.is_same_entry(&unreachable));
            assert_eq!(is_there, !comes_back, "{what}");
            assert_eq!(
                world
                    .counts
                    .iter()
                    .filter(|count| matches!(count, Count::RequestFailed { .. }))
                    .count(),
                0
            );
            assert!(world.history.len() - written <= 1, "{what}");
        }
    }
}

/// A token whose taint was called off is the next node's, and a taint that is withdrawn is never called off.
#[test]
fn a_node_that_is_paused_gives_its_turn_back_and_withdrawing_goes_on() {
    let mut world = mk_world();
    (world.is_slow, world.is_unsent) = (true, true);
    world.fall_silent(&["n1"]);
    world.fall_silent(&["n2"]);
    pause(&mut world, &HoldScope::Node("n1".into()));
    world.answer_all();
    assert_eq!(world.isolated(), ["n2"].into());
    world.is_slow = true;
    world.come_back(&["n2"]);
    pause(&mut world, &HoldScope::All);
    world.answer_all();
    assert_eq!(world.isolated(), [].into());
}

/// The evictor's own watch is half-open: it still shows a node as silent that the monitor says is Ready. What its health caused waits for
/// a read of the node, which ends the wait either way, and removes the taints if it is Ready.
#[test]
fn pods_of_a_node_that_the_monitor_calls_ready_wait_for_a_read() {
    for ready in [true, false] {
        let mut world = mk_world();
        world.fall_silent(&["n1"]);
        let pod = world.add_pod("p", "n1", vec![]);
        world.is_watch_stalled = true;
        world.change_node("n1", |facts| facts.ready = ReadyStatus::True);
        world.health("n1", Verdict::Healthy);
        if !ready {
            // Silent again; the monitor's next word is not there yet.
            world.mark_unknown("n1");
        }
        let before = world.reads;
        world.unreadable.insert("n1".into());
        world.due(&pod);
        world.pass(secs(3));
        let held = (world.deleted(), world.pod_held(&pod));
        assert_eq!(held, (0, Some(HoldReason::OutdatedIntent)), "ready: {ready}");
        assert!(world.reads > before, "it is asked");
        assert_eq!(world.isolated(), ["n1"].into());
        world.unreadable.clear();
        world.pass(secs(31));
        let (isolated, reads) = (world.isolated().len(), world.reads);
        assert_eq!((world.deleted(), isolated), if ready { (0, 0) } else { (1, 1) });
        world.pass(secs(600));
        assert_eq!(world.reads, reads, "a read that was answered is enough");
        assert_eq!(world.pods.contains_key(&pod), ready);
    }
}

/// The same while a request waits for its turn: it is not sent.
#[test]
fn what_is_not_sent_is_called_off_when_the_monitor_calls_its_node_ready() {
    let mut world = mk_world();
    world.fall_silent(&["n1"]);
    let pod = world.add_pod("p", "n1", vec![]);
    (world.is_slow, world.is_unsent, world.is_watch_stalled) = (true, true, true);
    world.due(&pod);
    world.change_node("n1", |facts| facts.ready = ReadyStatus::True);
    world.health("n1", Verdict::Healthy);
    world.answer_all();
    world.pass(secs(600));
    assert_eq!((world.deleted(), world.pods.contains_key(&pod)), (0, true));
    assert!(
        !world.happened().contains(&Happened::Marked("p".to_owned())),
        "not even marked"
    );
    assert!(world.isolated().is_empty());
}

/// Design §1, NL-035, TE-112: what is not sent yet when the watch shows that the node justifies it no more is not sent; then a read makes
/// sure, as of what is new.
#[test]
fn what_its_node_justifies_no_more_is_not_sent() {
    type Act = fn(&mut World);
    let cases: [(RefusedReason, Act); 3] = [
        (RefusedReason::NoTaint, |world| {
            world.untaint("n1", "maintenance", Effect::NoExecute);
        }),
        (RefusedReason::Tolerated, |world| {
            world.taint("n1", "tolerated", Effect::NoExecute);
            world.untaint("n1", "maintenance", Effect::NoExecute);
        }),
        (RefusedReason::NodeReplaced, |world| {
            world.change_node("n1", |facts| facts.uid = "another".into());
        }),
    ];
    for (reason, change) in cases {
        for steps_before in 0..2 {
            let mut world = mk_world();
            world.taint("n1", "maintenance", Effect::NoExecute);
            let pod = world.add_pod("p", "n1", vec![mk_toleration("tolerated", None)]);
            (world.is_slow, world.is_unsent) = (true, true);
            world.due(&pod);
            for _ in 0..steps_before {
                world.answer_first();
            }
            change(&mut world);
            world.answer_all();
            world.pass(secs(60));
            assert_eq!(
                world.pod_state(&pod),
                Some(&PodOutcomeState::Refused(reason)),
                "{steps_before} steps"
            );
            assert!(world.pods.contains_key(&pod), "{reason:?}, {steps_before} steps");
        }
    }
}

/// A watch that is behind calls a request off, too: the read shows that the node justifies it, and it goes.
#[test]
fn what_was_called_off_by_a_watch_that_is_behind_goes_after_a_read() {
    let mut world = mk_world();
    let before: Vec<NodeFacts> = world.nodes.values().cloned().collect();
    world.taint("n1", "maintenance", Effect::NoExecute);
    let pod = world.add_pod("p", "n1", vec![]);
    (world.is_slow, world.is_unsent) = (true, true);
    world.due(&pod);
    world.tell(Input::Nodes(before.into()));
    world.answer_all();
    world.pass(secs(10));
    assert_eq!((world.deleted(), world.reads), (1, 1));
}

/// Only what health causes waits for that, and only for a word about this very node.
#[test]
fn a_node_that_the_monitor_calls_ready_is_emptied_for_a_taint_set_by_hand() {
    let mut world = mk_world();
    world.fall_silent(&["n1", "n2"]);
    world.taint("n1", "maintenance", Effect::NoExecute);
    let pods = ["n1", "n2"].map(|node| world.add_pod(&format!("p-{node}"), node, vec![]));
    world.is_watch_stalled = true;
    world.pass(secs(20));
    for node in ["n1", "n2"] {
        world.change_node(node, |facts| facts.ready = ReadyStatus::True);
    }
    world.health("n1", Verdict::Healthy);
    let mut stranger = world.mk_health("n2", Verdict::Healthy);
    if let Some(Body::Health(health)) = &mut stranger.body {
        health.node.uid = "another".into();
    }
    world.publish(vec![stranger]);
    let before = world.reads;
    for pod in &pods {
        world.due(pod);
    }
    assert_eq!((world.deleted(), world.reads), (2, before));
}

/// A read makes sure of what came before it was asked for, not of what came while it was under way.
#[test]
fn a_read_that_was_under_way_when_the_monitor_spoke_makes_sure_of_nothing() {
    let mut world = mk_world();
    world.fall_silent(&["n1"]);
    let pod = world.add_pod("p", "n1", vec![]);
    (world.is_slow, world.is_watch_stalled) = (true, true);
    let speak_again = |world: &mut World| {
        world.change_node("n1", |facts| facts.ready = ReadyStatus::True);
        world.health("n1", Verdict::Healthy);
    };
    speak_again(&mut world);
    world.due(&pod);
    world.pass(secs(1));
    speak_again(&mut world);
    // It shows the node as it was before that.
    world.mark_unknown("n1");
    world.answer_first();
    speak_again(&mut world);
    assert_eq!(world.pod_held(&pod), Some(HoldReason::OutdatedIntent));
    world.answer_all();
    world.pass(secs(60));
    assert_eq!((world.deleted(), world.isolated().len()), (0, 0));
}
