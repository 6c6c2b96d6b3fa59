//! Policies such as a chart has: each ServiceAccount may change its fields and no others.

use bailiff_sandbox::User;
use serde_json::{Value, json};

use super::server::{MERGE, Server};
use super::{bound, create};

fn monitor() -> User {
    User::new("system:serviceaccount:kube-system:bailiff-monitor", &["system:masters"])
}

async fn guarded() -> Server {
    let server = Server::new();
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": {"a": "b", "c": "d"}},
        "spec": {"taints": [{"key": "own", "effect": "NoSchedule"}], "podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"]},
    });
    create(&server, "/api/v1/nodes", node).await;
    let old = "oldObject.?spec.?taints.orValue([])";
    let new = "object.?spec.?taints.orValue([])";
    let spec = json!({
        "matchConstraints": {"resourceRules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["nodes", "nodes/status"]},
        ]},
        "matchConditions": [
            {"name": "monitor", "expression": "request.userInfo.username == 'system:serviceaccount:kube-system:bailiff-monitor'"},
        ],
        "variables": [{"name": "old", "expression": old}, {"name": "new", "expression": new}],
        "validations": [
            {
                "expression": "variables.new.all(t, t in variables.old || t.key.startsWith('node.kubernetes.io/'))",
                "messageExpression": "'foreign taints: ' + variables.new.filter(t, !(t in variables.old)).map(t, t.key).join(', ')",
            },
            {"expression": "object.metadata.labels == oldObject.metadata.labels", "message": "labels"},
            {"expression": "has(object.spec.unschedulable) == has(oldObject.spec.unschedulable)", "message": "cordon"},
            {"expression": "!has(object.metadata.annotations) || !('x' in object.metadata.annotations)", "message": "annotation"},
        ],
    });
    bound(&server, spec).await;
    server
}

#[tokio::test(start_paused = true)]
async fn a_service_account_changes_its_fields_and_no_others() {
    let own = json!({"key": "own", "effect": "NoSchedule"});
    let unreachable = json!({"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"});
    for (path, change, refusal) in [
        ("n1", json!({"spec": {"taints": [own, unreachable]}}), None),
        (
            "n1",
            json!({"spec": {"taints": [own, {"key": "other", "effect": "NoExecute"}]}}),
            Some("foreign taints: other"),
        ),
        (
            "n1",
            json!({"spec": {"taints": [{"key": "own", "effect": "NoExecute"}]}}),
            Some("foreign taints: own"),
        ),
        ("n1", json!({"spec": {"taints": null}}), None),
        ("n1", json!({"metadata": {"labels": {"a": "z"}}}), Some("labels")),
        ("n1", json!({"metadata": {"labels": {"c": null}}}), Some("labels")),
        ("n1", json!({"metadata": {"labels": {"a": "b"}}}), None),
        ("n1", json!({"spec": {"unschedulable": true}}), Some("cordon")),
        ("n1", json!({"metadata": {"annotations": {"x": "1"}}}), Some("annotation")),
        ("n1", json!({"metadata": {"annotations": {"y": "1"}}}), None),
        (
            "n1/status",
            json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}),
            None,
        ),
        ("n1/status", json!({"metadata": {"labels": {"a": "z"}}}), Some("labels")),
    ] {
        let server = guarded().await;
        let path = format!("/api/v1/nodes/{path}");
        let send = async |user: User| server.send_as(user, "PATCH", &path, ("content-type", MERGE), &change).await;
        let (status, _, answer) = send(monitor()).await;
        let message = answer["message"].as_str().unwrap_or_default();
        let told = message.rsplit("denied request: ").next();
        match refusal {
            None => assert_eq!(status, 200, "{change}: {answer}"),
            Some(refusal) => assert_eq!((status, told), (422, Some(refusal)), "{change}"),
        }
        let (status, _, answer) = send(User::admin()).await;
        assert_eq!(status, 200, "{change}: {answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn deletions_are_judged_by_what_goes() {
    let server = Server::new();
    let pod = |name: &str, labels: Value| {
        let mut pod = super::pod(name, json!({}), json!({}));
        pod["metadata"]["labels"] = labels;
        pod
    };
    create(&server, super::PODS, pod("kept", json!({"keep": "yes"}))).await;
    create(&server, super::PODS, pod("other", json!({}))).await;
    let spec = json!({
        "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["pods"]}]},
        "validations": [{"expression": "oldObject.?metadata.?labels[?'keep'].orValue('') != 'yes'", "reason": "Forbidden"}],
    });
    bound(&server, spec).await;
    let delete = async |name: &str| {
        server
            .send("DELETE", &format!("{}/{name}", super::PODS), "application/json", &Value::Null)
            .await
            .0
    };
    assert_eq!(delete("kept").await, 403);
    assert_eq!(delete("other").await, 200);
    // An eviction is no deletion.
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "kept"}});
    let (status, answer) = server.post(&format!("{}/kept/eviction", super::PODS), &eviction).await;
    assert_eq!(status, 201, "{answer}");
}
