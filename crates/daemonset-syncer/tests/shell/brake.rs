//! What holds the stage from outside, over HTTP.

use super::*;

/// Issue 4, pause: daemon pods that run are not deleted while it stands; missing ones are created.
#[tokio::test(start_paused = true)]
async fn a_pause_holds_the_deletion_of_daemon_pods() {
    let world = World::start(2);
    world.api.put("daemonsets/ds", mk_daemonset("v1", 1));
    world.pass(4).await;
    let now = world.env.clock.wall();
    let until = now.checked_add(Duration::from_secs(60)).unwrap();
    let entry = json!({"all": true, "since": now.to_string(), "until": until.to_string(), "reason": "a test"});
    let pauses = json!({"metadata": {"name": "bailiff-pauses"}, "data": {"all": entry.to_string()}});
    world.api.put("configmaps/bailiff-pauses", pauses);
    world.pass(1).await;
    let mut next = mk_daemonset("v2", 2);
    next["status"] = world.status();
    world.api.put("daemonsets/ds", next);
    world.api.put("nodes/n2", mk_node("n2"));
    world.pass(50).await;
    let mut images = world.images();
    images.sort();
    assert_eq!(images, ["v1", "v1", "v2"]);
    world.pass(30).await;
    assert_eq!(world.images(), ["v2", "v2", "v2"]);
}
