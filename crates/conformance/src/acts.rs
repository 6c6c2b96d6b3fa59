//! What happens to nodes and pods in situations, and what the stages before say of it.

use bailiff_model::intent::IntentState;
use bailiff_model::{Topic, Verdict};
use serde_json::{Value, json};

use crate::item::Item;
use crate::say::{eviction, health, isolation};
use crate::stand::{Stand, Stop};
use crate::timeline::{Timeline, condition, is_leaving};

/// Key of the taints of a node whose condition Ready is Unknown.
pub const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// Effect of taints that evict.
pub const NO_EXECUTE: &str = "NoExecute";
/// Effect of taints that keep new pods off.
pub const NO_SCHEDULE: &str = "NoSchedule";

/// `metadata.name`.
pub fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// The names of all nodes.
pub fn names(stand: &Stand) -> Vec<String> {
    stand
        .look()
        .objects("nodes")
        .iter()
        .map(|node| name_of(node).to_owned())
        .collect()
}

/// The pods of a node.
pub fn pods_of(stand: &Stand, name: &str) -> Vec<Value> {
    let pods = stand.look().objects("pods");
    pods.into_iter().filter(|pod| pod["spec"]["nodeName"] == name).collect()
}

/// The node says that it is ready.
pub fn is_ready(node: &Value) -> bool {
    condition(node, "Ready")["status"] == "True"
}

/// The pod is on its way out, gone, or another of its name is there.
pub fn leaves(seen: &Timeline, pod: &Value) -> bool {
    let now = seen.pod(name_of(pod));
    is_leaving(&now) || now["metadata"]["uid"] != pod["metadata"]["uid"]
}

/// Says so if a pod that has to stay leaves.
pub fn lost(seen: &Timeline, pod: &Value) -> Option<String> {
    leaves(seen, pod).then(|| format!("pod {} was deleted", name_of(pod)))
}

/// The cluster is not the one that the situation is written for.
pub fn uneven() -> Stop {
    Stop("the cluster has other nodes or pods than it was set up with".to_owned())
}

// === beginnings ===

/// All kubelets have said that their nodes are ready, and all pods run.
///
/// # Errors
/// They do not.
pub async fn until_up(stand: &mut Stand) -> Result<(), Stop> {
    let runs = |pod: &Value| pod["status"]["phase"] == "Running";
    let is_up = |seen: &Timeline| seen.objects("nodes").iter().all(is_ready) && seen.objects("pods").iter().all(runs);
    stand.reach("all nodes are ready and all pods run", is_up).await
}

/// The stages before have tainted nothing, and say that all nodes are well; that is all they have to say.
///
/// # Errors
/// The bus does not take it.
pub async fn all_is_well(stand: &mut Stand) -> Result<(), Stop> {
    for name in names(stand) {
        let well = health(stand, &name, Verdict::Healthy);
        stand.prepare(well)?;
    }
    stand.complete().await
}

/// Taints that newcomers get are removed, as the taint-manager does.
pub fn clear_taints(stand: &Stand) {
    for name in names(stand) {
        stand.change("nodes", "", &name, |node| node["spec"]["taints"] = json!([]));
    }
}

/// The program runs, and has said everything that it has to say.
///
/// # Errors
/// It does not.
pub async fn run(stand: &mut Stand, topic: Topic, complete: &'static Item) -> Result<(), Stop> {
    stand.start()?;
    stand
        .demand(complete, |seen| seen.is_complete(topic) && seen.is_live(topic))
        .await
}

// === what happens to nodes ===

/// The kubelet says nothing any more. Nobody has noticed yet.
pub fn go_silent(stand: &Stand, name: &str) {
    annotate(stand, name, "alive", "false");
}

/// The kubelet is back.
pub fn wake(stand: &Stand, name: &str) {
    annotate(stand, name, "alive", "true");
}

/// Tells the sandbox how a node behaves (`docs/sandbox.md`).
pub fn annotate(stand: &Stand, name: &str, what: &str, value: &str) {
    stand.change("nodes", "", name, |node| {
        node["metadata"]["annotations"][format!("sandbox.bailiff.dev/{what}")] = json!(value);
    });
}

/// The API says that the node's state is unknown, as the node-health-monitor does.
pub fn set_unknown(stand: &Stand, name: &str) {
    stand.change("nodes", "", name, |node| {
        let conditions = node["status"]["conditions"].as_array_mut().into_iter().flatten();
        for ready in conditions.filter(|condition| condition["type"] == "Ready") {
            ready["status"] = json!("Unknown");
            ready["reason"] = json!("NodeStatusUnknown");
        }
    });
}

/// Adds a taint.
pub fn taint(stand: &Stand, name: &str, taint: &Value) {
    stand.change("nodes", "", name, |node| match node["spec"]["taints"].as_array_mut() {
        Some(taints) => taints.push(taint.clone()),
        None => node["spec"]["taints"] = json!([taint]),
    });
}

/// Removes the taints of a key and effect.
pub fn untaint(stand: &Stand, name: &str, key: &str, effect: &str) {
    stand.change("nodes", "", name, |node| {
        if let Some(taints) = node["spec"]["taints"].as_array_mut() {
            taints.retain(|taint| taint["key"] != key || taint["effect"] != effect);
        }
    });
}

/// Somebody taints a node by hand, to empty it.
pub fn taint_by_hand(stand: &Stand, name: &str) {
    taint(
        stand,
        name,
        &json!({"key": "example.com/maintenance", "value": "now", "effect": NO_EXECUTE}),
    );
}

// === what the stages before say ===

/// A node is silent; node-health-monitor and taint-manager have written and said so. Its isolation is not asked for yet.
///
/// # Errors
/// The bus does not take it.
pub async fn fail_silently(stand: &mut Stand, name: &str) -> Result<(), Stop> {
    go_silent(stand, name);
    set_unknown(stand, name);
    taint(stand, name, &json!({"key": UNREACHABLE, "effect": NO_SCHEDULE}));
    let unreachable = health(stand, name, Verdict::Unreachable);
    stand.say(unreachable).await
}

/// The taint-manager wants a node isolated.
///
/// # Errors
/// The bus does not take it.
pub async fn isolate(stand: &mut Stand, name: &str) -> Result<(), Stop> {
    let wanted = isolation(stand, name);
    stand.say(wanted).await
}

/// The node is back, and the stages before have taken back what they wrote and said.
///
/// # Errors
/// The bus does not take it.
pub async fn recover(stand: &mut Stand, name: &str) -> Result<(), Stop> {
    wake(stand, name);
    stand
        .reach("the node is ready again", |seen| is_ready(&seen.node(name)))
        .await?;
    untaint(stand, name, UNREACHABLE, NO_SCHEDULE);
    let well = health(stand, name, Verdict::Healthy);
    stand.say(well).await?;
    stand.withdraw(Topic::EvictionIntents, &format!("node/{name}")).await
}

/// The taint-manager says of a pod that its eviction is in this state.
///
/// # Errors
/// The bus does not take it.
pub async fn intend(stand: &mut Stand, pod: &Value, state: IntentState) -> Result<(), Stop> {
    let intent = eviction(stand, pod, state);
    stand.say(intent).await
}
