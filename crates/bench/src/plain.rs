//! Evictions as plain as can be: the two requests that a stage sends for each pod, with nothing to decide. What comes of them is what the
//! API server can take.

use bailiff_cluster::{Api, Patch, Precondition};
use bailiff_model::wellknown;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::json;

use crate::views::TargetView;

/// Evictions under way at once, as many as a stage has at most: more, and the API server queues them.
const HANDS: usize = 256;

/// Evicts these pods, which are as they were seen.
pub(crate) async fn evict(api: &Api, pods: &[TargetView]) -> Result<(), String> {
    let evicted = stream::iter(pods).map(|pod| evict_one(api, pod));
    evicted.buffer_unordered(HANDS).try_collect().await
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
