//! What a server makes for itself before anybody asks: namespaces, priority classes, its own service, roles.

use bailiff_model::Now;
use bailiff_runtime::Seed;
use serde_json::{Value, json};

use crate::Authorization;
use crate::schema::time;
use crate::store::Store;

mod roles;

/// Fills a new store. What happened until then cannot be watched.
pub fn fill(store: &mut Store, seed: &Seed, now: Now, authorization: Authorization) {
    let created = time::seconds(now.wall);
    let mut put = |resource: &str, mut object: Value| {
        object["metadata"]["uid"] = seed.uuid().into();
        object["metadata"]["creationTimestamp"] = created.as_str().into();
        store.put(resource, object, now);
    };
    for name in ["default", "kube-node-lease", "kube-public", "kube-system"] {
        put("namespaces", namespace(name));
    }
    for (name, value, about) in [
        (
            "system-cluster-critical",
            2_000_000_000,
            "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
        ),
        (
            "system-node-critical",
            2_000_001_000,
            "Used for system critical pods that must not be moved from their current node.",
        ),
    ] {
        put("priorityclasses.scheduling.k8s.io", priority_class(name, value, about));
    }
    put("services", service());
    if authorization == Authorization::Rbac {
        for (table, object) in roles::all() {
            put(table, object);
        }
    }
    store.compact();
}

fn namespace(name: &str) -> Value {
    json!({
        "kind": "Namespace", "apiVersion": "v1",
        "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    })
}

fn priority_class(name: &str, value: i64, about: &str) -> Value {
    json!({
        "kind": "PriorityClass", "apiVersion": "scheduling.k8s.io/v1",
        "metadata": {"name": name, "generation": 1},
        "value": value, "description": about, "preemptionPolicy": "PreemptLowerPriority",
    })
}

fn service() -> Value {
    json!({
        "kind": "Service", "apiVersion": "v1",
        "metadata": {
            "name": "kubernetes", "namespace": "default", "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": 6443}],
            "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "type": "ClusterIP", "sessionAffinity": "None",
            "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "internalTrafficPolicy": "Cluster",
        },
        "status": {"loadBalancer": {}},
    })
}
