//! What holds the stage from outside, over HTTP, and what is not sent because it is not wanted any more.

use super::*;

fn pause_for_a_minute(world: &World) {
    let now = world.env.host.clock.wall();
    let until = now.checked_add(Duration::from_secs(60)).unwrap();
    let entry = json!({"all": true, "since": now.to_string(), "until": until.to_string(), "reason": "a test"});
    let pauses = json!({"metadata": {"name": "bailiff-pauses"}, "data": {"all": entry.to_string()}});
    world.api.put("configmaps/bailiff-pauses", pauses);
}

/// Pause: daemon pods that run are not deleted while it stands; missing ones are created.
#[tokio::test(start_paused = true)]
async fn a_pause_holds_the_deletion_of_daemon_pods() {
    let world = World::start(2);
    world.api.put("daemonsets/ds", mk_daemonset("v1", 1));
    world.pass(4).await;
    pause_for_a_minute(&world);
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

/// Pause: of a hundred deletes that wait for room and for their turn when it begins none is sent, and they keep nobody else
/// waiting. When it ends the present counts: what the template has taken back meanwhile stays.
#[tokio::test(start_paused = true)]
async fn deletes_that_wait_for_their_turn_when_a_pause_begins_are_not_sent() {
    for rolled_back in [false, true] {
        let nodes = 100;
        let api = FakeApi::default();
        for index in 0..nodes {
            api.put(&format!("nodes/n{index}"), mk_node(&format!("n{index}")));
        }
        let world = World::start_limited(api, 10.0);
        let set = |image: &str, generation: u64| {
            let mut ds = mk_daemonset(image, generation);
            ds["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"] = json!("100%");
            if generation > 1 {
                ds["status"] = world.status();
            }
            world.api.put("daemonsets/ds", ds);
        };
        let deletes = || {
            world
                .api
                .writes()
                .iter()
                .filter(|write| write.starts_with("DELETE pods/"))
                .count()
        };
        set("v1", 1);
        world.pass(90).await;
        assert_eq!(world.images().len(), nodes);
        set("v2", 2);
        world.pass(2).await;
        pause_for_a_minute(&world);
        // The watch brings it within the moment.
        tokio::time::sleep(Duration::from_millis(1)).await;
        let sent = deletes();
        assert!((1..60).contains(&sent), "{sent} were sent before");
        world.api.put("nodes/new", mk_node("new"));
        world.pass(50).await;
        assert_eq!(deletes(), sent, "rolled back: {rolled_back}");
        let old = world.images().iter().filter(|image| *image == "v1").count();
        assert_eq!(
            (old, world.images().len()),
            (nodes - sent, nodes + 1),
            "what is missing is created"
        );
        if rolled_back {
            set("v1", 3);
        }
        world.pass(180).await;
        let (image, wanted) = if rolled_back { ("v1", sent + sent + 1) } else { ("v2", nodes) };
        assert_eq!(deletes(), wanted, "rolled back: {rolled_back}");
        assert_eq!(world.images(), vec![image; nodes + 1], "rolled back: {rolled_back}");
        let said = world.api.events();
        assert!(!said.iter().any(|event| event.contains("FailedDelete")), "{said:?}");
    }
}

/// DS-155, DS-190: of a hundred creates that wait for room and for their turn when the template is edited, or the DaemonSet goes, none is
/// sent any more. What an edit wants instead follows at once.
#[tokio::test(start_paused = true)]
async fn creates_that_wait_for_their_turn_are_not_sent_when_they_are_not_wanted_any_more() {
    for edited in [false, true] {
        let nodes = 300;
        let api = FakeApi::default();
        for index in 0..nodes {
            api.put(&format!("nodes/n{index}"), mk_node(&format!("n{index}")));
        }
        let world = World::start_limited(api, 10.0);
        world.api.put("daemonsets/ds", mk_daemonset("v1", 1));
        world.pass(20).await;
        let before = world.images().len();
        assert!((100..250).contains(&before), "{before} were created");
        if edited {
            let mut next = mk_daemonset("v2", 2);
            next["status"] = world.status();
            world.api.put("daemonsets/ds", next);
        } else {
            world.api.remove("daemonsets/ds");
        }
        // The watch brings it within the moment.
        tokio::time::sleep(Duration::from_millis(1)).await;
        let of_v1 = || world.images().iter().filter(|image| *image == "v1").count();
        let sent = of_v1();
        world.pass(5).await;
        assert!(of_v1() <= sent, "edited: {edited}");
        assert_eq!(world.images().len() > sent, edited);
        let said = world.api.events();
        assert!(!said.iter().any(|event| event.contains("FailedCreate")), "{said:?}");
    }
}
