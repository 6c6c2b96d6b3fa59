//! What holds the stage from outside, over HTTP.

use super::*;
use crate::api::PAUSES;

/// Pause: pods of a silent node are not marked while it stands, which is told once of the node; NoSchedule taints follow all the same.
#[tokio::test(start_paused = true)]
async fn a_pause_holds_the_marking_of_pods() {
    let start = Wall::from_second(START).unwrap();
    let until = start.checked_add(Duration::from_secs(60)).unwrap();
    let entry = json!({"all": true, "since": start.to_string(), "until": until.to_string(), "reason": "a test"});
    let pauses = json!({"metadata": {"name": "bailiff-pauses"}, "data": {"all": entry.to_string()}});
    let objects = vec![
        (NODES, mk_node("n1", "Unknown")),
        (PODS, mk_pod("p", "n1", None)),
        (PAUSES, pauses),
    ];
    let world = World::start(objects).await;
    let monitor = world.monitor();
    monitor.set(mk_health(Verdict::Unreachable));
    monitor.complete();
    world.pass(50).await;
    let ready = |world: &World| world.api.get(PODS, "p")["status"]["conditions"][0]["status"].clone();
    assert_eq!(ready(&world), "True");
    assert_eq!(world.api.get(NODES, "n1")["spec"]["taints"][0]["effect"], "NoSchedule");
    world.pass(15).await;
    assert_eq!(ready(&world), "False");
    let told: Vec<String> = world.spans.take().iter().map(say).collect();
    let wanted = [
        "held 60 s: k8s.node.name=n1 k8s.node.uid=uid-n1 bailiff.outcome=released bailiff.reason=PAUSED \
         bailiff.detail=marking pods not ready: paused until 2024-01-01T00:01:00Z: a test",
        "mark pods not ready 60 s: k8s.node.name=n1 k8s.node.uid=uid-n1 bailiff.outcome=marked bailiff.pods.marked=1 \
         bailiff.pods.spared=0 bailiff.failed.attempts=0",
    ];
    assert_eq!(told, wanted);
}

/// Pause: marks that wait for their turn when it begins are not sent; the node's taints are.
#[tokio::test(start_paused = true)]
async fn marks_that_wait_for_their_turn_when_a_pause_begins_are_not_sent() {
    let objects = vec![
        (NODES, mk_node("n1", "True")),
        (PODS, mk_pod("p", "n1", None)),
        (PODS, mk_pod("q", "n1", None)),
    ];
    let world = World::start(objects).await;
    let monitor = world.monitor();
    monitor.set(mk_health(Verdict::Healthy));
    monitor.complete();
    world.pass(1).await;
    world.use_up_turns().await;
    world.api.put(NODES, mk_node("n1", "Unknown"));
    monitor.set(mk_health(Verdict::Unreachable));
    world.pass(1).await;
    let now = world.clock.wall();
    let until = now.checked_add(Duration::from_secs(60)).unwrap();
    let entry = json!({"node": "n1", "since": now.to_string(), "until": until.to_string(), "reason": "a test"});
    let pauses = json!({"metadata": {"name": "bailiff-pauses"}, "data": {"x": entry.to_string()}});
    world.api.put(PAUSES, pauses);
    world.pass(55).await;
    let ready = |pod: &str| world.api.get(PODS, pod)["status"]["conditions"][0]["status"].clone();
    assert_eq!([ready("p"), ready("q")], ["True", "True"]);
    assert_eq!(world.api.get(NODES, "n1")["spec"]["taints"][0]["effect"], "NoSchedule");
    world.pass(15).await;
    assert_eq!([ready("p"), ready("q")], ["False", "False"]);
}
