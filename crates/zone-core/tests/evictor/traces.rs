//! What traces tell: each state that a node or a pod has left, how long it was in it, and why.

use bailiff_model::intent::HealthTaint;
use bailiff_model::{
    About, Effect as TaintEffect, Hold, HoldReason, HoldScope, Holds, NodeUid, PodUid, ReadyStatus, Taint, TraceContext, Verdict,
};
use bailiff_zone_core::{Block, EvictionMethod, EvictionMode, FailureKind, Input, Record, SpanKind};

use crate::world::{World, mk_config, mk_toleration, secs};

const SIX: [(&str, &str); 6] = [("n1", "a"), ("n2", "a"), ("n3", "a"), ("n4", "a"), ("n5", "a"), ("n6", "a")];

fn mk_world() -> World {
    World::new(mk_config(|_| ()), &SIX)
}

fn pause(world: &mut World, scope: HoldScope) {
    let hold = Hold {
        reason: HoldReason::Paused,
        detail: "as the test wanted".to_owned(),
        since: world.now.wall,
        until: None,
    };
    world.tell(Input::Braked([(scope, hold)].into_iter().collect()));
}

fn go_on(world: &mut World) {
    world.tell(Input::Braked(Holds::NONE));
}

/// Design §9: the wait for the rate, what held the node meanwhile, the write, and the release, each with its real time.
#[test]
fn a_trace_has_every_state_that_a_node_left() {
    let mut world = mk_world();
    world.fall_silent(&["n1", "n2"]);
    world.pass(secs(5));
    world.tell(Input::ApiFresh(false));
    world.pass(secs(3));
    world.tell(Input::ApiFresh(true));
    world.pass(secs(2));
    world.pass(secs(60));
    world.come_back(&["n2"]);
    let told = [
        "held 3s queued API_STALE",
        "zone queue wait 10s granted RATE_LIMITED",
        "isolation 0s isolated",
        "release 0s released",
    ];
    assert_eq!(world.told("n2"), told);
    let uid = world.node("n2").uid.clone();
    assert!(
        world
            .spans
            .iter()
            .all(|span| span.node.uid == uid || span.node.name.as_str() != "n2")
    );
    let wait = world
        .spans
        .iter()
        .find(|span| span.kind == SpanKind::QueueWait && span.node.uid == uid);
    let why = &wait.expect("it waited").why;
    assert_eq!(
        why.detail,
        "it came as number 1 of its zone, which is granted 0.1 nodes per second"
    );
    let held: Vec<_> = why
        .meanwhile
        .iter()
        .map(|(hold, until)| (hold.reason, until.duration_since(hold.since)))
        .collect();
    assert_eq!(held.len(), 1);
    assert_eq!((held[0].0, held[0].1.as_secs()), (HoldReason::ApiStale, 3));
}

/// Design §9: who left the queue without its turn says so, and where it stands.
#[test]
fn a_wait_that_ended_without_a_turn_says_why() {
    type Act = fn(&mut World);
    let acts: [(Act, &str); 5] = [
        (|world| world.come_back(&["n2"]), "recovered"),
        (|world| world.unwish("n2"), "withdrawn"),
        (|world| world.delete_node("n2"), "gone"),
        (
            |world| world.change_node("n2", |facts| facts.zone = crate::world::zone("b")),
            "moved",
        ),
        (
            |world| world.taint("n2", HealthTaint::Unreachable.key(), TaintEffect::NoExecute),
            "isolated",
        ),
    ];
    for (act, end) in acts {
        let mut world = mk_world();
        world.fall_silent(&["n1", "n2"]);
        world.pass(secs(4));
        act(&mut world);
        assert_eq!(
            world.told("n2").first(),
            Some(&format!("zone queue wait 4s {end} RATE_LIMITED"))
        );
    }
}

/// Design §9: a hold of a zone is said to the first of those who wait; the others' traces tell of it when their wait ends.
#[test]
fn a_zones_hold_reaches_the_trace_of_the_last_who_waits() {
    let names: Vec<String> = (0..300).map(|n| format!("n{n:03}")).collect();
    let nodes: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "a")).collect();
    let mut world = World::new(mk_config(|_| ()), &nodes);
    let silent: Vec<&str> = names.iter().take(110).map(String::as_str).collect();
    world.fall_silent(&silent);
    world.pass(secs(2));
    world.tell(Input::ApiFresh(false));
    world.pass(secs(6));
    world.tell(Input::ApiFresh(true));
    world.pass(secs(1));
    world.come_back(&["n002", "n109"]);
    assert_eq!(
        world.told("n002"),
        ["held 6s queued API_STALE", "zone queue wait 9s recovered API_STALE"]
    );
    assert_eq!(world.told("n109"), ["zone queue wait 9s recovered API_STALE"]);
}

/// NL-077, design §9: a write that failed, one that was not sent, and the other taint instead.
#[test]
fn what_became_of_a_write_is_in_the_trace() {
    let mut world = mk_world();
    world.failures.push_back(FailureKind::Denied);
    world.fall_silent(&["n1"]);
    world.pass(secs(10));
    let told = [
        "zone queue wait 0s granted",
        "isolation 0s failed DENIED",
        "zone queue wait 0s granted RATE_LIMITED",
        "isolation 0s isolated",
    ];
    assert_eq!(world.told("n1"), told);
    assert!(world.spans[1].has_failed());
    assert_eq!(
        world.spans[1].why.detail,
        "as the test wanted; it may be tried again after 100ms"
    );
    world.change_node("n1", |facts| {
        facts.ready = ReadyStatus::False;
        facts.taints.push(bailiff_model::Taint::new(
            HealthTaint::NotReady.key(),
            TaintEffect::NoSchedule,
        ));
    });
    world.health("n1", Verdict::NotReady);
    world.wish("n1", HealthTaint::NotReady);
    assert_eq!(world.told("n1").last().map(String::as_str), Some("isolation 0s swapped"));

    let mut world = mk_world();
    (world.is_slow, world.is_unsent) = (true, true);
    world.fall_silent(&["n1"]);
    world.pass(secs(2));
    world.tell(Input::ApiFresh(false));
    world.answer_all();
    assert_eq!(world.told("n1")[1], "isolation 2s called off API_STALE");
}

/// NL-074: the removal waits for the NoSchedule counterpart, and the trace says so.
#[test]
fn a_removal_that_waits_for_the_order_says_so() {
    let mut world = mk_world();
    world.fall_silent(&["n1"]);
    world.pass(secs(30));
    world.change_node("n1", |facts| facts.ready = ReadyStatus::True);
    world.pass(secs(2));
    world.come_back(&["n1"]);
    assert_eq!(world.told("n1")[2..], ["held 2s released TAINT_ORDER", "release 0s released"]);
}

/// NL-205: a node object that is gone keeps its place, and its trace.
#[test]
fn a_node_that_is_gone_waits_on_in_its_trace() {
    let mut world = World::new(mk_config(|config| config.mode = EvictionMode::Node), &SIX);
    let trace = Some(TraceContext::derived(&["incident"]));
    for name in ["n1", "n2"] {
        world.mark_unknown(name);
        let mut health = world.mk_health(name, Verdict::Unreachable);
        health.trace = trace;
        world.publish(vec![health]);
        world.wish_evicted(name);
    }
    let uid: NodeUid = world.node("n2").uid.clone();
    world.pass(secs(3));
    world.delete_node("n2");
    world.pass(secs(30));
    assert_eq!(world.told("n2"), ["zone queue wait 10s granted RATE_LIMITED"]);
    let last = world.spans.last().expect("it waited");
    assert_eq!((&last.node.uid, last.trace), (&uid, trace));
}

// === pods ===

fn mk_due(world: &mut World) -> PodUid {
    world.taint("n1", "maintenance", TaintEffect::NoExecute);
    let pod = world.add_pod("p", "n1", vec![]);
    world.due(&pod);
    pod
}

/// Design §9: a hold, the attempt after it, and the whole of it from when the pod was due.
#[test]
fn a_trace_has_the_holds_of_a_pod() {
    let mut world = mk_world();
    pause(&mut world, HoldScope::Node("n1".into()));
    let pod = mk_due(&mut world);
    world.pass(secs(30));
    go_on(&mut world);
    let told = ["held 30s waiting PAUSED", "pod delete 0s deleted", "pod eviction 30s deleted"];
    assert_eq!(world.told(&pod.to_string()), told);
    assert!(world.spans.iter().all(|span| !span.node.uid.is_empty()));
}

/// TE-032: who is called off while something holds it says both.
#[test]
fn a_pod_that_is_called_off_says_what_it_waited_for() {
    let mut world = mk_world();
    pause(&mut world, HoldScope::All);
    let pod = mk_due(&mut world);
    world.pass(secs(5));
    world.withdraw(&pod);
    assert_eq!(
        world.told(&pod.to_string()),
        ["held 5s cancelled PAUSED", "pod eviction 5s cancelled PAUSED"]
    );
    let details: Vec<&str> = world.spans.iter().map(|span| span.why.detail.as_str()).collect();
    assert_eq!(details, ["as the test wanted"; 2]);
}

/// TE-076: each failure, the pause after it, and the end.
#[test]
fn a_trace_has_the_attempts_that_failed() {
    let mut world = mk_world();
    world.failures.push_back(FailureKind::Throttled);
    world.retry_after = Some(secs(3));
    let pod = mk_due(&mut world);
    world.pass(secs(10));
    let told = [
        "pod delete 0s failed THROTTLED",
        "retry 3s waiting THROTTLED",
        "pod delete 0s deleted",
        "pod eviction 3s deleted",
    ];
    assert_eq!(world.told(&pod.to_string()), told);
    assert_eq!(world.spans.iter().filter(|span| span.has_failed()).count(), 1);
}

/// Design §9: a budget is told once, however often it is tried, with its name and the server's words.
#[test]
fn a_trace_has_the_budget_that_blocks() {
    let mut world = World::new(mk_config(|config| config.method = EvictionMethod::Evict), &SIX);
    world.taint("n1", "maintenance", TaintEffect::NoExecute);
    let pod = world.add_pod("p", "n1", vec![]);
    let block = Block {
        by: "default/web".to_owned(),
        retry_after: Some(secs(10)),
        detail: "it needs 1".to_owned(),
    };
    world.budgets.insert(pod.clone(), block);
    world.due(&pod);
    world.pass(secs(25));
    world.budgets.clear();
    world.pass(secs(10));
    let told = ["blocked by budget 30s deleted DISRUPTION_BUDGET", "pod eviction 30s deleted"];
    let all = world.told(&pod.to_string());
    let waits: Vec<&str> = all
        .iter()
        .map(String::as_str)
        .filter(|span| !span.starts_with("pod delete"))
        .collect();
    assert_eq!(waits, told, "{all:?}");
    let blocked = world.spans.iter().find(|span| span.kind == SpanKind::Blocked);
    assert_eq!(blocked.map(|span| span.why.detail.as_str()), Some("default/web: it needs 1"));
}

/// TE-058, design §9: a refusal is told with its reason; so is that it was gone.
#[test]
fn a_trace_has_the_refusal() {
    let mut world = mk_world();
    world.taint("n1", "maintenance", TaintEffect::NoExecute);
    let pod = world.add_pod("p", "n1", vec![]);
    world.change_pod(&pod, |facts| facts.tolerations = vec![mk_toleration("maintenance", None)]);
    let gone = world.add_pod("q", "n1", vec![]);
    let records = [&pod, &gone].map(|uid| world.mk_due(uid, false));
    world.pods.remove(&gone);
    world.change_pod(&pod, |_| ());
    for record in records {
        world.publish(vec![record]);
    }
    world.pass(secs(2));
    assert_eq!(
        world.told(&pod.to_string()).last().map(String::as_str),
        Some("pod eviction 0s refused TOLERATED")
    );
    assert_eq!(
        world.told(&gone.to_string()).last().map(String::as_str),
        Some("pod eviction 0s gone")
    );
}

/// An Event names the pod's node, the taint that it does not tolerate, of several, and the trace.
#[test]
fn an_event_names_what_caused_it() {
    let mut world = mk_world();
    world.taint("n1", "tolerated", TaintEffect::NoExecute);
    world.taint("n1", "maintenance", TaintEffect::NoExecute);
    let pod = world.add_pod("p", "n1", vec![mk_toleration("tolerated", None)]);
    let trace = Some(TraceContext::derived(&["by hand"]));
    let due = Record {
        trace,
        ..world.mk_due(&pod, false)
    };
    world.publish(vec![due]);
    let named: Vec<&About> = world.events.iter().map(|event| &event.about).collect();
    let taint = Taint::new("maintenance", TaintEffect::NoExecute);
    assert_eq!(named, [&About::node(&"n1".into()).because_of(Some(&taint)).traced(trace)]);
}
