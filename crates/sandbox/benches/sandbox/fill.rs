//! Objects as they look in a cluster: pods with what admission, controllers and kubelets add, nodes, leases.

use serde_json::{Value, json};

use super::measure::{Client, Prepared};

/// Pods per node, as a busy cluster has them.
pub const PODS_PER_NODE: usize = 10;

/// Name of a node.
pub fn node_name(nth: usize) -> String {
    format!("node-{nth:05}")
}

/// Name of a pod.
pub fn pod_name(nth: usize) -> String {
    format!("web-6d4cf56db6-{nth:06}")
}

/// Pods live in twenty namespaces.
pub fn namespace(nth: usize) -> String {
    format!("team-{:02}", nth % 20)
}

/// Path of the leases of nodes.
pub const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

/// Path of a pod.
pub fn pod_path(nth: usize) -> String {
    format!("/api/v1/namespaces/{}/pods/{}", namespace(nth), pod_name(nth))
}

/// Path of a node's lease.
pub fn lease_path(nth: usize) -> String {
    format!("{LEASES}/{}", node_name(nth))
}

/// A pod as a ReplicaSet's controller creates it, bound to a node.
pub fn pod(nth: usize) -> Value {
    let env: Vec<Value> = (0..6)
        .map(|n| json!({"name": format!("SETTING_{n}"), "value": format!("value of setting {n}")}))
        .collect();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": pod_name(nth), "namespace": namespace(nth),
            "labels": {"app": "web", "pod-template-hash": "6d4cf56db6", "app.kubernetes.io/part-of": "shop"},
            "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "9090"},
        },
        "spec": {
            "nodeName": node_name(nth / PODS_PER_NODE),
            "containers": [{
                "name": "web", "image": "registry.example.com/shop/web:1.24.3", "env": env,
                "ports": [{"containerPort": 8080, "name": "http"}, {"containerPort": 9090, "name": "metrics"}],
                "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
                "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}, "periodSeconds": 5},
            }],
        },
    })
}

/// What a kubelet says about a pod that runs.
pub fn running(nth: usize) -> Value {
    let at = "2026-11-21T01:00:00Z";
    let condition = |kind: &str| json!({"type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": at});
    let kinds = [
        "PodReadyToStartContainers",
        "Initialized",
        "Ready",
        "ContainersReady",
        "PodScheduled",
    ];
    let address = format!("10.{}.{}.{}", nth >> 16 & 0xff, nth >> 8 & 0xff, nth & 0xff);
    json!({"status": {
        "phase": "Running", "conditions": kinds.map(condition), "hostIP": "172.16.0.1", "podIP": address, "podIPs": [{"ip": address}],
        "startTime": at,
        "containerStatuses": [{
            "name": "web", "state": {"running": {"startedAt": at}}, "lastState": {}, "ready": true, "restartCount": 0, "started": true,
            "image": "registry.example.com/shop/web:1.24.3",
            "imageID": "registry.example.com/shop/web@sha256:c5b1261d6d3e43071626931fc004f70149baeba2c8ec672bd4f27761f8e1ad6b",
            "containerID": "containerd://2bbb5a26d0f7fa3bd2f5d9d7a53c6a2b1d9b8a8a2d6ff7b14f4f1d7b3a0a7f10",
        }],
    }})
}

/// A node's lease.
pub fn lease(nth: usize) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": node_name(nth), "namespace": "kube-node-lease"},
        "spec": {"holderIdentity": node_name(nth), "leaseDurationSeconds": 40, "renewTime": "2026-11-21T01:00:00.000000Z"},
    })
}

/// A renewal of a lease, for the `turn`th time, as a kubelet makes it from what it last saw.
pub fn renewal(client: &Client, nth: usize, turn: usize) -> Prepared {
    let lease = client
        .sandbox
        .get("leases.coordination.k8s.io", "kube-node-lease", &node_name(nth));
    let mut value = lease.map(|lease| lease.value()).unwrap_or_default();
    value["spec"]["renewTime"] = format!("2026-11-21T02:{:02}:{:02}.000000Z", turn / 60 % 60, turn % 60).into();
    Prepared::with("PUT", lease_path(nth), &value)
}

/// Creates the namespaces of the pods.
pub async fn namespaces(client: &mut Client) {
    for nth in 0..20 {
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace(nth)}});
        client
            .send(&Prepared::with("POST", "/api/v1/namespaces".to_owned(), &body))
            .await;
    }
}

/// Creates pods that run.
pub async fn pods(client: &mut Client, numbers: std::ops::Range<usize>) {
    for nth in numbers {
        let path = format!("/api/v1/namespaces/{}/pods", namespace(nth));
        client.send(&Prepared::with("POST", path, &pod(nth))).await;
        client
            .send(&Prepared::with("PATCH", format!("{}/status", pod_path(nth)), &running(nth)))
            .await;
    }
}

/// Creates nodes' leases.
pub async fn leases(client: &mut Client, count: usize) {
    for nth in 0..count {
        client.send(&Prepared::with("POST", LEASES.to_owned(), &lease(nth))).await;
    }
}
