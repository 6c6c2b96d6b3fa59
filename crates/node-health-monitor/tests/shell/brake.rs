//! What holds the stage from outside, over HTTP.

use super::*;
use crate::api::{LEADERS, PAUSES};

/// A pause of everything for two minutes, from now on.
fn pause(world: &World) -> Value {
    let now = world.clock.wall();
    let until = now.checked_add(Duration::from_secs(120)).unwrap();
    let entry = json!({"all": true, "since": now.to_string(), "until": until.to_string(), "reason": "a test"});
    json!({"metadata": {"name": "bailiff-pauses"}, "data": {"all": entry.to_string()}})
}

/// Pause: a silent node is not marked while it stands, and its incident tells why; it ends by itself, and says so.
#[tokio::test(start_paused = true)]
async fn a_pause_holds_the_marking_of_nodes() {
    let world = World::start(&["n1", "n2"]).await;
    world.api.put(PAUSES, pause(&world));
    world.pass_alive(110, &["n2"]).await;
    assert_eq!(world.ready("n1")["status"], "True");
    assert!(
        world
            .env
            .host
            .metrics
            .encode()
            .contains("node_health_monitor_braked{scope=\"everything\",reason=\"paused\"} 1")
    );
    world.pass_alive(30, &["n2"]).await;
    assert_eq!(world.ready("n1")["status"], "Unknown");
    let said: Vec<String> = world.api.events().into_iter().map(|(reason, _)| reason).collect();
    assert!(said.contains(&"PauseExpired".to_owned()), "{said:?}");
    let told = world.spans.take();
    let held: Vec<&Finished> = told.iter().filter(|span| span.span.name == "held").collect();
    let [held] = held[..] else { panic!("{told:?}") };
    let attributes = attributes(held);
    for wanted in ["k8s.node.name=n1", "bailiff.outcome=released", "bailiff.reason=PAUSED"] {
        assert!(attributes.iter().any(|attribute| attribute == wanted), "{attributes:?}");
    }
    let detail = attributes.last().unwrap();
    assert!(
        detail.starts_with("bailiff.detail=") && detail.ends_with("a test"),
        "{detail}"
    );
}

/// Rival: a write of conditions that is seen holds; the one before the start did not. It is said everywhere.
#[tokio::test(start_paused = true)]
async fn a_rival_holds_the_marking_of_nodes() {
    let rival = |world: &World, node: &str, at: &str| {
        let mut node = mk_node(node, "Unknown", &world.clock);
        node["status"]["conditions"][0]["lastTransitionTime"] = json!(at);
        node["metadata"]["managedFields"] = json!([{"manager": "kube-controller-manager", "subresource": "status", "time": at,
            "fieldsV1": {"f:status": {"f:conditions": {"k:{\"type\":\"Ready\"}": {"f:status": {}}}}}}]);
        world.api.put(NODES, node);
    };
    let world = World::start(&["n1", "n2", "n3"]).await;
    let lease = |world: &World| {
        let spec = json!({"holderIdentity": "kcm", "renewTime": world.clock.wall().to_string()});
        world.api.put(
            LEADERS,
            json!({"metadata": {"name": "kube-controller-manager"}, "spec": spec}),
        );
    };
    for _ in 0..3 {
        lease(&world);
        world.pass_alive(2, &["n1", "n2", "n3"]).await;
    }
    rival(&world, "n3", "2024-01-01T00:00:05Z");
    for _ in 0..30 {
        lease(&world);
        world.pass_alive(2, &["n2"]).await;
    }
    assert_eq!(world.ready("n1")["status"], "True", "held");
    let notes: Vec<String> = world
        .env
        .host
        .readiness
        .readiness()
        .into_iter()
        .filter_map(|check| check.note)
        .collect();
    let wanted = "everything: rival (kube-controller-manager (kcm) wrote health conditions of node n3)";
    assert_eq!(notes, [wanted]);
    let metrics = world.env.host.metrics.encode();
    for line in [
        "node_health_monitor_braked{scope=\"everything\",reason=\"rival\"} 1",
        "node_health_monitor_rival_signs_total 1",
    ] {
        assert!(metrics.contains(line), "{line} is missing in {metrics}");
    }
    // It stops renewing: gone a minute later.
    world.pass_alive(70, &["n2"]).await;
    assert_eq!(world.ready("n1")["status"], "Unknown");
    let said: Vec<String> = world.api.events().into_iter().map(|(reason, _)| reason).collect();
    for reason in ["RivalController", "RivalControllerGone"] {
        assert!(said.iter().any(|said| said == reason), "{said:?}");
    }
}

/// Pause: a write that waits for its turn when it begins is not sent; when it ends the node is read again.
#[tokio::test(start_paused = true)]
async fn a_write_that_waits_for_its_turn_when_a_pause_begins_is_not_sent() {
    let world = World::start(&["n1", "n2"]).await;
    world.pass_alive(47, &["n2"]).await;
    world.use_up_turns().await;
    world.api.requests();
    let mut reads = 0;
    for _ in 0..20 {
        if reads < 2 {
            world.pass_alive(1, &["n2"]).await;
            reads += world.api.requests().iter().filter(|request| request.contains("n1")).count();
        }
    }
    assert_eq!(
        (reads, world.ready("n1")["status"].as_str()),
        (2, Some("True")),
        "confirmed, not written yet"
    );
    world.api.put(PAUSES, pause(&world));
    world.pass_alive(110, &["n2"]).await;
    let sent = world.api.requests();
    assert_eq!(sent.iter().filter(|request| request.contains("n1")).count(), 0, "{sent:?}");
    assert_eq!(world.ready("n1")["status"], "True");
    world.pass_alive(30, &["n2"]).await;
    assert_eq!(world.ready("n1")["status"], "Unknown");
}
