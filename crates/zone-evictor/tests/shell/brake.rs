//! What holds the stage, or a pod, from outside, over HTTP.

use super::*;
use crate::api::PAUSES;

fn pause_for_a_minute(world: &World) {
    let now = world.clock.wall();
    let until = now.checked_add(Duration::from_secs(60)).unwrap();
    let entry = json!({"all": true, "since": now.to_string(), "until": until.to_string(), "reason": "a test"});
    world.api.put(
        PAUSES,
        json!({"metadata": {"name": "bailiff-pauses"}, "data": {"all": entry.to_string()}}),
    );
}

/// Pause: neither isolation nor eviction while it stands; what waits for its turn is held too.
#[tokio::test(start_paused = true)]
async fn a_pause_holds_isolation_and_eviction() {
    let world = World::start(&["n1", "n2", "n3", "n4"], &[]).await;
    world.fall_silent("n1").await;
    world.pass(1).await;
    pause_for_a_minute(&world);
    world.pass(1).await;
    let pod = world.put_pod("p", "n1");
    world.due(pod, "n1");
    world.fall_silent("n2").await;
    world.pass(55).await;
    assert!(world.api.get(PODS, "p").is_some());
    assert_eq!(world.no_execute("n2"), Vec::<String>::new());
    world.pass(30).await;
    assert_eq!(world.api.get(PODS, "p"), None);
    assert_eq!(world.no_execute("n2"), ["node.kubernetes.io/unreachable"]);
    let said = world.api.events();
    assert!(
        said.iter()
            .any(|(by, reason, _, _)| (by.as_str(), reason.as_str()) == ("zone-evictor", "PauseExpired")),
        "{said:?}"
    );
}

/// Pause: a taint, and the request of a pod, that wait for their turn when it begins are not sent.
#[tokio::test(start_paused = true)]
async fn what_waits_for_its_turn_when_a_pause_begins_is_not_sent() {
    let world = World::start(&["n1", "n2", "n3", "n4"], &[]).await;
    world.fall_silent("n1").await;
    world.pass(20).await;
    let pod = world.put_pod("p", "n1");
    let before = world.api.writes().len();
    world.use_up_turns().await;
    world.fall_silent("n2").await;
    world.due(pod, "n1");
    world.pass(1).await;
    pause_for_a_minute(&world);
    world.pass(50).await;
    assert_eq!(world.api.writes()[before..], [], "nothing is sent while it stands");
    assert_eq!(world.no_execute("n2"), Vec::<String>::new());
    world.pass(30).await;
    assert_eq!(world.no_execute("n2"), ["node.kubernetes.io/unreachable"]);
    assert_eq!(world.api.get(PODS, "p"), None);
    let metrics = world.env.host.metrics.encode();
    assert!(
        metrics.contains("node_collector_evictions_total{zone=\":\0:a\"} 2"),
        "{metrics}"
    );
}

/// --eviction-method=evict: by the Eviction API with preconditions; what a budget forbids is BLOCKED with its name.
#[tokio::test(start_paused = true)]
async fn a_budget_blocks_an_eviction_and_is_named() {
    let world = World::start(&["n1", "n2", "n3"], &["--eviction-method=evict"]).await;
    world.fall_silent("n1").await;
    world.pass(1).await;
    world.api.forbid(Some("quorum"));
    let pod = world.put_pod("p", "n1");
    let version = pod.resource_version.to_string();
    world.due(pod, "n1");
    world.pass(3).await;
    let outcomes = world.outcomes().await;
    let Outcome::Pod(outcome) = &outcomes["pod/uid-p"] else {
        panic!("{outcomes:?}")
    };
    let PodOutcomeState::Blocked { by, .. } = &outcome.state else {
        panic!("{outcome:?}")
    };
    assert_eq!(by, "default/quorum");
    assert!(world.api.get(PODS, "p").is_some());
    world.api.forbid(None);
    world.pass(35).await;
    assert_eq!(world.api.get(PODS, "p"), None);
    let writes = world.api.writes();
    let (request, body) = &writes[1];
    assert_eq!(*request, format!("POST {PODS}/p/eviction"));
    assert_eq!(
        body["deleteOptions"]["preconditions"],
        json!({"uid": "uid-p", "resourceVersion": version})
    );
    assert!(!writes.iter().any(|(request, _)| request.starts_with("DELETE")), "{writes:?}");
}
