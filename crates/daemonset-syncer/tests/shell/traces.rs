//! The traces of rollouts.

use bailiff_runtime::trace::Finished;

use super::*;

fn attribute(told: &Finished, key: &str) -> Option<String> {
    let found = told.span.attributes.iter().find(|kv| kv.key.as_str() == key)?;
    Some(found.value.as_str().into_owned())
}

/// Name, and reason or outcome.
fn what(told: &Finished) -> (String, String) {
    let why = attribute(told, "bailiff.reason").or_else(|| attribute(told, "bailiff.outcome"));
    (told.span.name.to_string(), why.unwrap_or_default())
}

/// All spans are of one trace, below its root, which comes first.
fn is_one_trace(spans: &[Finished]) -> bool {
    let root = &spans[0];
    let is_below =
        |told: &Finished| told.parent == Some(root.context.span_id()) && told.context.trace_id() == root.context.trace_id();
    root.span.name == "rollout" && root.parent.is_none() && spans[1..].iter().all(is_below)
}

fn next_of(world: &World, image: &str, generation: u64) -> Value {
    let mut next = mk_daemonset(image, generation);
    next["status"] = world.status();
    next
}

/// A rollout is a trace: the record names it, and its spans say what each node waited for, how long, and when it was done.
#[tokio::test(start_paused = true)]
async fn a_rollout_is_told_as_one_trace() {
    let mut world = World::start(3);
    world.api.put("daemonsets/ds", mk_daemonset("v1", 1));
    world.pass(8).await;
    let first = world.recorder.take();
    assert!(is_one_trace(&first), "{first:#?}");
    world.api.put("daemonsets/ds", next_of(&world, "v2", 2));
    world.pass(20).await;
    let second = world.recorder.take();
    assert!(is_one_trace(&second), "{second:#?}");
    assert_ne!(first[0].context.trace_id(), second[0].context.trace_id());
    assert_eq!(
        second.last().map(what),
        Some(("rollout end".to_owned(), "completed".to_owned()))
    );
    let waited = |told: &&Finished| what(told).1 == "WAITING_FOR_BUDGET";
    let nodes: Vec<_> = second
        .iter()
        .filter(waited)
        .map(|told| attribute(told, "k8s.node.name"))
        .collect();
    assert!(nodes.len() >= 2, "{nodes:?}");
    let sync = world.published().await.expect("published");
    let ended = second.last().map(|told| (told.span.start, told.span.end));
    assert_eq!(ended, sync.revision_since.zip(sync.rolled_out_at));
    // At rest nothing is told.
    world.pass(60).await;
    assert!(world.recorder.take().is_empty());
}

/// A restart in the middle repeats nothing and loses nothing: waits count from when they began, and the rollout is told once.
#[tokio::test(start_paused = true)]
async fn a_restart_goes_on_with_the_trace() {
    let world = World::start(3);
    world.api.put("daemonsets/ds", mk_daemonset("v1", 1));
    world.pass(8).await;
    world.recorder.take();
    let mut next = next_of(&world, "v2", 2);
    next["metadata"]["annotations"]["bailiff.dev/rollout-paused"] = json!("true");
    world.api.put("daemonsets/ds", next);
    world.pass(5).await;
    let mut spans = world.recorder.take();
    assert_eq!(spans.len(), 1, "the root: {spans:#?}");
    let world = world.restart().await;
    let restarted = world.env.host.clock.wall();
    world.pass(5).await;
    assert!(world.recorder.take().is_empty());
    let go_on = json!({"metadata": {"annotations": {"bailiff.dev/rollout-paused": "false"}}});
    world.api.change("daemonsets/ds", &go_on);
    world.pass(20).await;
    spans.extend(world.recorder.take());
    assert!(is_one_trace(&spans), "{spans:#?}");
    let paused: Vec<_> = spans.iter().filter(|told| what(told).1 == "ROLLOUT_PAUSED").collect();
    assert_eq!(paused.len(), 3);
    assert!(
        paused
            .iter()
            .all(|told| told.span.start < restarted && told.span.end > restarted)
    );
    assert_eq!(
        spans.last().map(what),
        Some(("rollout end".to_owned(), "completed".to_owned()))
    );
}

/// Events name the node that a pod is for, the rollout's trace while it goes on, and the taint that drives a pod away.
#[tokio::test(start_paused = true)]
async fn events_name_what_caused_them() {
    let world = World::start(2);
    world.api.put("daemonsets/ds", mk_daemonset("v1", 1));
    world.pass(8).await;
    let causes = world.api.causes();
    let root = world.recorder.take()[0].context;
    let trace = json!(format!("{:032x}", root.trace_id()));
    assert!(
        causes.iter().all(|causes| causes["bailiff.dev/trace-id"] == trace),
        "{causes:?}"
    );
    let mut nodes: Vec<&str> = causes
        .iter()
        .filter_map(|causes| causes["bailiff.dev/node"].as_str())
        .collect();
    nodes.sort_unstable();
    assert_eq!(nodes, ["n0", "n1"]);
    let taints = json!({"spec": {"taints": [{"key": "example.com/m", "value": "v", "effect": "NoExecute"}]}});
    world.api.change("nodes/n1", &taints);
    world.pass(5).await;
    let said = world.api.events().pop().unwrap_or_default();
    assert!(said.contains("SuccessfulDelete"), "{said}");
    let wanted = json!({"bailiff.dev/node": "n1", "bailiff.dev/taint": "example.com/m=v:NoExecute"});
    assert_eq!(world.api.causes().last(), Some(&wanted), "the rollout is over");
}
