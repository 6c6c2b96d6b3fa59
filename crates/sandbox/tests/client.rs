//! What kube-rs clients need, in the process: no socket, no real time.

use bailiff_runtime::{Clock, Seed};
use bailiff_sandbox::{Config, Sandbox, User};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::{Client, ResourceExt};
use serde_json::json;

fn sandbox() -> Sandbox {
    let wall = "2026-11-21T01:00:00Z".parse().expect("a time");
    Sandbox::new(Config::default(), Clock::virtual_from(wall), &Seed::new(1))
}

fn client(sandbox: &Sandbox) -> Client {
    Client::new(sandbox.service(User::admin()), "default")
}

fn pod(name: &str) -> Pod {
    let pod = json!({"metadata": {"name": name}, "spec": {"nodeName": "n1", "containers": [{"name": "m", "image": "i:1"}]}});
    serde_json::from_value(pod).expect("a pod")
}

#[tokio::test(start_paused = true)]
async fn a_client_sees_what_it_wrote_and_every_change_after_its_list() {
    let client = client(&sandbox());
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let created = pods.create(&PostParams::default(), &pod("a")).await.expect("it is created");
    assert_eq!(created.spec.as_ref().and_then(|spec| spec.priority), Some(0));
    let list = pods
        .list(&ListParams::default().fields("spec.nodeName=n1"))
        .await
        .expect("a list");
    assert_eq!(list.items.len(), 1);
    let from = list.metadata.resource_version.expect("a list has a version");
    let mut events = pods
        .watch(&WatchParams::default().timeout(30), &from)
        .await
        .expect("a watch")
        .boxed();

    let status = json!({"metadata": {"uid": created.uid()}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    pods.patch_status("a", &PatchParams::default(), &Patch::Strategic(status))
        .await
        .expect("patched");
    pods.delete("a", &DeleteParams::default().grace_period(0))
        .await
        .expect("deleted");

    let mut seen = Vec::new();
    while seen.len() < 3 {
        seen.push(match events.try_next().await.expect("an event").expect("the watch is open") {
            WatchEvent::Added(_) => "added",
            WatchEvent::Modified(_) => "modified",
            WatchEvent::Deleted(_) => "deleted",
            WatchEvent::Bookmark(_) => "bookmark",
            WatchEvent::Error(_) => "error",
        });
    }
    assert_eq!(seen, ["modified", "modified", "deleted"]);
    assert!(
        events.try_next().await.expect("no error").is_none(),
        "the watch ends after its time"
    );
}

#[tokio::test(start_paused = true)]
async fn a_lost_race_is_a_conflict() {
    let client = client(&sandbox());
    let leases: Api<Lease> = Api::namespaced(client, "kube-system");
    let lease = json!({"metadata": {"name": "leader"}, "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15}});
    let lease: Lease = serde_json::from_value(lease).expect("a lease");
    let first = leases.create(&PostParams::default(), &lease).await.expect("created");
    let mut renewed = first.clone();
    if let Some(spec) = &mut renewed.spec {
        spec.lease_transitions = Some(1);
    }
    leases
        .replace("leader", &PostParams::default(), &renewed)
        .await
        .expect("the first wins");
    let lost = leases.replace("leader", &PostParams::default(), &renewed).await;
    assert!(matches!(lost, Err(kube::Error::Api(status)) if status.code == 409 && status.reason == "Conflict"));
}

#[tokio::test(start_paused = true)]
async fn nodes_are_tainted_and_untainted_by_patches() {
    let client = client(&sandbox());
    let nodes: Api<Node> = Api::all(client);
    let node: Node = serde_json::from_value(json!({"metadata": {"name": "n1"}})).expect("a node");
    let created = nodes.create(&PostParams::default(), &node).await.expect("created");
    let taints = |node: &Node| {
        node.spec
            .as_ref()
            .and_then(|spec| spec.taints.clone())
            .unwrap_or_default()
            .len()
    };
    assert_eq!(taints(&created), 1, "admission taints a new node");
    let patch = json!({"metadata": {"resourceVersion": created.resource_version()}, "spec": {"taints": null}});
    let patched = nodes
        .patch("n1", &PatchParams::default(), &Patch::Strategic(&patch))
        .await
        .expect("patched");
    assert_eq!(taints(&patched), 0);
    let stale = nodes.patch("n1", &PatchParams::default(), &Patch::Strategic(&patch)).await;
    assert!(matches!(stale, Err(kube::Error::Api(status)) if status.code == 409));
}

#[tokio::test(start_paused = true)]
async fn watches_are_counted_and_the_one_too_many_is_told_to_wait() {
    let sandbox = sandbox();
    let open = || {
        let request = http::Request::get("/api/v1/configmaps?watch=true").body(http_body_util::Empty::<bytes::Bytes>::new());
        tower::ServiceExt::oneshot(sandbox.service(User::admin()), request.expect("a request"))
    };
    let mut watches = Vec::new();
    let refused = loop {
        let answer = open().await.expect("the service cannot fail");
        if answer.status() != 200 {
            break answer;
        }
        watches.push(answer);
    };
    assert_eq!((refused.status().as_u16(), watches.len()), (429, 32_768));
    assert_eq!(refused.headers()["retry-after"], "1");
    watches.pop();
    assert_eq!(open().await.expect("the service cannot fail").status(), 200);
}
