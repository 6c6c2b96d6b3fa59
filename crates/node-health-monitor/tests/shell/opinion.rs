//! Nodes that somebody speaks for.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use bailiff_model::{NodeName, Now};
use bailiff_node_health_monitor::{SecondOpinion, run_asking};

use super::*;

/// Speaks for these nodes, as long as they are in here.
#[derive(Clone, Default)]
struct Friend(Arc<Mutex<BTreeSet<String>>>);

impl SecondOpinion for Friend {
    fn on(&mut self, node: &NodeName, _: Now) -> Option<String> {
        let nodes = self.0.lock().unwrap();
        nodes.contains(node.as_str()).then(|| "a friend saw it".to_owned())
    }
}

impl World {
    /// What Events say of doubts.
    fn doubts(&self) -> Vec<String> {
        let all = self.api.events().into_iter();
        all.filter(|(reason, _)| reason == "SilenceDoubted")
            .map(|(_, note)| note)
            .collect()
    }
}

/// A world whose monitor asks the friend.
async fn start(nodes: &[&str], friend: &Friend) -> World {
    let mut world = World::start(nodes).await;
    world.stage.abort();
    world.env.host.identity.push('\'');
    world.env.epoch += 1;
    world.stage = tokio::spawn(run_asking(mk_options(), world.env.clone(), friend.clone()));
    world.pass(1).await;
    world.api.requests();
    world
}

#[tokio::test(start_paused = true)]
async fn a_silent_node_that_somebody_speaks_for_is_late_and_not_read() {
    let friend = Friend::default();
    friend.0.lock().unwrap().insert("n1".to_owned());
    let world = start(&["n1", "n2", "n3"], &friend).await;
    let mut topic = world.follow();
    world.pass_alive(100, &["n2"]).await;
    let status = |name: &str| world.ready(name)["status"].as_str().unwrap_or_default().to_owned();
    assert_eq!(["n1", "n2", "n3"].map(status), ["True", "True", "Unknown"]);
    let said = news(&mut topic).await;
    let of_n1 = said
        .iter()
        .rev()
        .find(|(name, _)| name == "n1")
        .and_then(|(_, verdict)| *verdict);
    assert_eq!(of_n1, Some(Verdict::Late), "{said:?}");
    let sent = world.api.requests();
    assert!(
        sent.iter().all(|request| !request.contains("n1")),
        "it is said once: {sent:?}"
    );
    assert_eq!(world.doubts(), ["Node n1 is silent, and not given up: a friend saw it"]);

    // Another silence is said again: one more of a series, as it says the same.
    world.pass_alive(2, &["n1", "n2"]).await;
    world.pass_alive(100, &["n2"]).await;
    assert_eq!(status("n1"), "True");
    let sent = world.api.requests();
    let of_series = |request: &&String| request.starts_with("PATCH") && request.contains("/events/n1.");
    assert!(sent.iter().any(|request| of_series(&request)), "{sent:?}");

    friend.0.lock().unwrap().clear();
    world.pass_alive(6, &["n2"]).await;
    assert_eq!(status("n1"), "Unknown");
    let told = world.spans.take();
    let refused = told
        .iter()
        .flat_map(attributes)
        .find(|attribute| attribute == "bailiff.detail=a friend saw it");
    assert!(refused.is_some(), "the incident tells it: {told:?}");
}

/// One list answers for all but those who are spoken for.
#[tokio::test(start_paused = true)]
async fn of_many_silent_nodes_only_the_others_are_judged() {
    let (friend, names) = (Friend::default(), (0..40).map(|n| format!("n{n:02}")).collect::<Vec<_>>());
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    friend.0.lock().unwrap().extend(names[..10].iter().map(ToString::to_string));
    let world = start(&names, &friend).await;
    world.pass(70).await;
    for (number, name) in names.iter().enumerate() {
        let wanted = if number < 10 { "True" } else { "Unknown" };
        assert_eq!(world.ready(name)["status"], wanted, "{name}");
    }
}
