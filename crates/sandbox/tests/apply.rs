//! What server-side apply makes of structs: those that are owned as a whole, and those that nothing is left of.

use serde_json::{Value, json};

#[path = "refusals/server.rs"]
#[allow(dead_code, reason = "another file uses the rest")]
mod server;

use server::Server;

const SETS: &str = "/apis/apps/v1/namespaces/default/daemonsets";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

async fn apply(server: &Server, path: &str, manager: &str, object: Value) -> Value {
    let path = format!("{path}?fieldManager={manager}&force=true");
    let (code, answer) = server.patch(&path, "application/apply-patch+yaml", object).await;
    assert!(matches!(code, 200 | 201), "{code} {answer}");
    answer
}

/// A DaemonSet that states these fields of itself and of its container.
fn set(metadata: Value, spec: Value, container: Value) -> Value {
    let mut main = json!({"name": "main", "image": "x"});
    server::merge(&mut main, container);
    let mut named = json!({"name": "d"});
    server::merge(&mut named, metadata);
    let labels = json!({"app": "d"});
    let mut all = json!({
        "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": {"containers": [main]}},
    });
    server::merge(&mut all, spec);
    json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": named, "spec": all})
}

#[tokio::test(start_paused = true)]
async fn a_struct_that_is_owned_as_a_whole_is_replaced() {
    let server = Server::new();
    let budget = |labels: Value| {
        json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"},
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": labels}},
        })
    };
    assert_eq!(server.post(BUDGETS, &budget(json!({"a": "1"}))).await.0, 201);
    let applied = apply(&server, &format!("{BUDGETS}/b"), "m", budget(json!({"b": "2"}))).await;
    assert_eq!(applied["spec"]["selector"], json!({"matchLabels": {"b": "2"}}));

    let path = format!("{SETS}/d");
    let env = |reference: Value| json!({"env": [{"name": "A", "valueFrom": {"configMapKeyRef": reference}}]});
    let optional = env(json!({"name": "a", "key": "k", "optional": true}));
    apply(&server, &path, "one", set(json!({}), json!({}), optional)).await;
    let applied = apply(
        &server,
        &path,
        "two",
        set(json!({}), json!({}), env(json!({"name": "b", "key": "k"}))),
    )
    .await;
    assert_eq!(
        applied.pointer("/spec/template/spec/containers/0/env/0/valueFrom/configMapKeyRef"),
        Some(&json!({"name": "b", "key": "k"}))
    );
}

#[tokio::test(start_paused = true)]
async fn a_struct_that_nobody_states_anything_of_goes_and_one_that_is_shared_stays() {
    let server = Server::new();
    let path = format!("{SETS}/d");
    let strategy = json!({"updateStrategy": {"rollingUpdate": {"maxUnavailable": 3}}});
    let full = set(
        json!({"labels": {"a": "b"}}),
        strategy,
        json!({"securityContext": {"runAsUser": 1}, "resources": {"limits": {"cpu": "1"}}}),
    );
    apply(&server, &path, "m", full).await;
    let applied = apply(&server, &path, "m", set(json!({}), json!({}), json!({}))).await;
    let container = &applied["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container.get("securityContext"), None, "{container}");
    assert_eq!(container["resources"], json!({}));
    assert_eq!(applied["metadata"].get("labels"), None);
    // It went, and has its default again.
    assert_eq!(applied["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"], 1);
    assert_eq!(applied["spec"]["template"]["metadata"]["labels"], json!({"app": "d"}));

    let security = |field: &str| set(json!({}), json!({}), json!({"securityContext": {field: true}}));
    apply(&server, &path, "m", security("privileged")).await;
    apply(&server, &path, "n", security("readOnlyRootFilesystem")).await;
    let applied = apply(&server, &path, "m", set(json!({}), json!({}), json!({}))).await;
    assert_eq!(
        applied.pointer("/spec/template/spec/containers/0/securityContext"),
        Some(&json!({"readOnlyRootFilesystem": true}))
    );
}
