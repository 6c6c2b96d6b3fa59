//! Evictions as plain as can be: the two requests that a stage sends for each pod, with nothing to decide. A pace to hold that of others
//! against, and what the requests cost whoever sends them as a stage does.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bailiff_cluster::{Api, Error, Kind, Patch, Precondition};
use bailiff_model::wellknown;
use bailiff_processes::Usage;
use bailiff_runtime::{Clock, Pace, Wakes, single_threaded};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::json;
use tokio::sync::oneshot;

use crate::cluster;
use crate::views::TargetView;

/// Evictions under way at once, as many as a stage has at most: more, and the API server queues them.
const HANDS: usize = 256;

/// How often a pod is tried, if it does not fail for good, and the pause before it is tried again.
const TRIES: u32 = 6;
const PAUSE: Duration = Duration::from_secs(1);

/// Evicts these pods, which are as they were seen, on a thread of its own, which ends with who waits for it; answers how many seconds of a
/// processor that took.
pub(crate) async fn evict(kubeconfig: PathBuf, clock: Clock, pods: Vec<TargetView>) -> Result<f64, String> {
    let (mut done, evicted) = oneshot::channel();
    let thread = std::thread::Builder::new().name("evictions".to_owned());
    let work = move || {
        let result = evict_here(&kubeconfig, &clock, &pods, &mut done);
        // Nobody waits for it if the benchmark is called off.
        let _ = done.send(result);
    };
    thread
        .spawn(work)
        .map_err(|error| format!("there is no thread for plain evictions: {error}"))?;
    evicted
        .await
        .unwrap_or_else(|_| Err("the thread that evicts ended".to_owned()))
}

fn evict_here(
    kubeconfig: &Path,
    clock: &Clock,
    pods: &[TargetView],
    waited_for: &mut oneshot::Sender<Result<f64, String>>,
) -> Result<f64, String> {
    // As the zone-evictor wakes up.
    let runtime = single_threaded(Wakes::new(Pace::USUAL)).map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let api = cluster::reach_as_a_stage(kubeconfig, clock).await?;
        let before = Usage::cpu_of_this_thread()?;
        let evicted = stream::iter(pods).map(|pod| evict_surely(&api, pod));
        tokio::select! {
            biased;
            () = waited_for.closed() => return Err("called off".to_owned()),
            all = evicted.buffer_unordered(HANDS).try_collect::<()>() => all?,
        }
        Ok(Usage::cpu_of_this_thread()? - before)
    })
}

/// Evicts a pod, also if the API server stalls or the pod changes: as a stage does, by what it is by then.
async fn evict_surely(api: &Api, pod: &TargetView) -> Result<(), String> {
    let path = format!("/api/v1/namespaces/{}/pods/{}", pod.metadata.namespace, pod.metadata.name);
    let told = |error: Error| format!("pod {} cannot be evicted: {error}", pod.metadata.name);
    let mut ended = evict_one(api, &path, pod).await;
    for _ in 1..TRIES {
        match &ended {
            Err(error) if error.is_transient() || error.kind == Kind::Conflict => {}
            _ => break,
        }
        tokio::time::sleep(PAUSE).await;
        ended = match api.get::<TargetView>(&path).await {
            Ok(now) if now.metadata.uid == pod.metadata.uid => evict_one(api, &path, &now).await,
            // Another one of its name: it is gone.
            Ok(_) => Ok(()),
            Err(error) if error.kind == Kind::NotFound => Ok(()),
            Err(error) => Err(error),
        };
    }
    ended.map_err(told)
}

/// `DisruptionTarget` first (KEP-3329), then the deletion; neither if the pod is not as it was seen.
async fn evict_one(api: &Api, path: &str, pod: &TargetView) -> Result<(), Error> {
    let seen = &pod.metadata;
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
        .await?;
    let precondition = Precondition {
        uid: Some(seen.uid.clone()),
        resource_version: Some(marked.metadata.resource_version.into()),
    };
    api.delete(path, &precondition).await
}
