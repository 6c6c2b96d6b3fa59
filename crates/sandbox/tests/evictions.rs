//! What an eviction leaves behind, and where there is none.

use serde_json::{Value, json};

#[path = "refusals/server.rs"]
#[allow(dead_code, reason = "another file uses the rest")]
mod server;

use server::{MERGE, PODS, Server, causes, pod};

fn eviction(name: &str) -> Value {
    json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}})
}

/// Evictions, bindings and tokens are created, and nothing is created in a namespace that goes.
#[tokio::test(start_paused = true)]
async fn nothing_is_evicted_or_bound_in_a_namespace_that_goes() {
    let server = Server::new();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "going"}});
    assert_eq!(server.post("/api/v1/namespaces", &namespace).await.0, 201);
    let pods = "/api/v1/namespaces/going/pods";
    assert_eq!(server.post(pods, &pod("p", json!({}), json!({}))).await.0, 201);
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "s"}});
    let accounts = "/api/v1/namespaces/going/serviceaccounts";
    assert_eq!(server.post(accounts, &account).await.0, 201);
    let (code, _, _) = server
        .send("DELETE", "/api/v1/namespaces/going", "application/json", &Value::Null)
        .await;
    assert_eq!(code, 200);
    let binding =
        json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    let token = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    for (path, body, name, kind) in [
        (format!("{pods}/p/eviction"), eviction("p"), "p", "pods"),
        (format!("{pods}/p/binding"), binding.clone(), "p", "pods"),
        ("/api/v1/namespaces/going/bindings".to_owned(), binding, "p", "bindings"),
        (format!("{accounts}/s/token"), token, "s", "serviceaccounts"),
    ] {
        let (code, answer) = server.post(&path, &body).await;
        assert_eq!((code, &answer["reason"]), (403, &json!("Forbidden")), "{path}: {answer}");
        assert_eq!(causes(&answer), ["NamespaceTerminating metadata.namespace"]);
        assert_eq!(
            (&answer["details"]["name"], &answer["details"]["kind"]),
            (&json!(name), &json!(kind))
        );
    }
    let missing = "/api/v1/namespaces/none/pods/p/eviction";
    assert_eq!(server.post(missing, &eviction("p")).await.0, 404);
}

/// A condition that is true already has been so since it began.
#[tokio::test(start_paused = true)]
async fn a_pod_that_is_marked_already_keeps_the_moment_that_it_was_marked_at() {
    let server = Server::new();
    assert_eq!(server.post(PODS, &pod("p", json!({"nodeName": "n"}), json!({}))).await.0, 201);
    let since = "2024-01-02T03:04:05Z";
    let marked = json!({
        "type": "DisruptionTarget", "status": "True", "lastTransitionTime": since, "reason": "DeletionByTaintManager",
        "message": "Taint manager: deleting due to NoExecute taint",
    });
    let status = json!({"status": {"phase": "Running", "conditions": [marked]}});
    assert_eq!(server.patch(&format!("{PODS}/p/status"), MERGE, status).await.0, 200);
    assert_eq!(server.post(&format!("{PODS}/p/eviction"), &eviction("p")).await.0, 201);
    let (_, found) = server.get(&format!("{PODS}/p")).await;
    assert!(found["metadata"]["deletionTimestamp"].is_string(), "{found}");
    let condition = &found["status"]["conditions"][0];
    assert_eq!(condition["lastTransitionTime"], since);
    assert_eq!(condition["reason"], "EvictionByEvictionAPI");
}
