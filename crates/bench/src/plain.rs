//! Evictions as plain as can be: the two requests that a stage sends for each pod, with nothing to decide. What comes of them is what the
//! API server can take, and what they cost whoever sends them as a stage does.

use std::path::{Path, PathBuf};

use bailiff_cluster::{Api, Patch, Precondition};
use bailiff_model::wellknown;
use bailiff_processes::Usage;
use bailiff_runtime::{Clock, Wakes, single_threaded};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::json;
use tokio::sync::oneshot;

use crate::cluster;
use crate::views::TargetView;

/// Evictions under way at once, as many as a stage has at most: more, and the API server queues them.
const HANDS: usize = 256;

/// How often it wakes up a second, as a stage does while much happens.
const WAKES_PER_SECOND: f64 = 32.0;

/// Evicts these pods, which are as they were seen, on a thread of its own; answers how many seconds of a processor that took.
pub(crate) async fn evict(kubeconfig: PathBuf, clock: Clock, pods: Vec<TargetView>) -> Result<f64, String> {
    let (done, evicted) = oneshot::channel();
    // Nobody waits for it if the benchmark is called off.
    std::thread::spawn(move || done.send(evict_here(&kubeconfig, &clock, &pods)));
    evicted
        .await
        .unwrap_or_else(|_| Err("the thread that evicts ended".to_owned()))
}

fn evict_here(kubeconfig: &Path, clock: &Clock, pods: &[TargetView]) -> Result<f64, String> {
    let runtime = single_threaded(Wakes::new(WAKES_PER_SECOND)).map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let api = cluster::reach_as_a_stage(kubeconfig, clock).await?;
        let before = Usage::cpu_of_this_thread()?;
        let evicted = stream::iter(pods).map(|pod| evict_one(&api, pod));
        let () = evicted.buffer_unordered(HANDS).try_collect().await?;
        Ok(Usage::cpu_of_this_thread()? - before)
    })
}

/// `DisruptionTarget` first (KEP-3329), then the deletion; neither if the pod is not as it was seen.
async fn evict_one(api: &Api, pod: &TargetView) -> Result<(), String> {
    let seen = &pod.metadata;
    let path = format!("/api/v1/namespaces/{}/pods/{}", seen.namespace, seen.name);
    let condition = json!({
        "type": wellknown::CONDITION_DISRUPTION_TARGET,
        "status": "True",
        "reason": "DeletionByTaintManager",
        "message": "Taint manager: deleting due to NoExecute taint",
        "lastTransitionTime": format!("{:.0}", api.clock().wall()),
    });
    let body = json!({
        "metadata": {"uid": seen.uid, "resourceVersion": seen.resource_version},
        "status": {"conditions": [condition]},
    });
    let marked = api
        .patch::<TargetView>(&format!("{path}/status"), &Patch::Strategic(body))
        .await;
    let marked = marked.map_err(|error| format!("pod {} cannot be marked: {error}", seen.name))?;
    let precondition = Precondition {
        uid: Some(seen.uid.clone()),
        resource_version: Some(marked.metadata.resource_version.into()),
    };
    let deleted = api.delete(&path, &precondition).await;
    deleted.map_err(|error| format!("pod {} cannot be deleted: {error}", seen.name))
}
