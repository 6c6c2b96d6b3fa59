//! The objects that are created: nodes as their kubelets register them, Leases, pods. Pure.

use bailiff_model::{Wall, wellknown};
use serde_json::{Value, json};

use super::LoadFlags;
use super::fleet::Pod;
use crate::cluster::NODE_LEASES;

/// The label by which everything is found again, and its value.
pub(crate) const LABEL: &str = "app.kubernetes.io/managed-by";
pub(crate) const OWNER: &str = "bailiff-bench";
/// The DaemonSet that is rolled out.
pub(crate) const DAEMONSET: &str = "bailiff-bench";

/// The namespace of pods, and that of the DaemonSet, which as in nearly every cluster is another.
const NAMESPACE: &str = "default";
const DAEMONS: &str = "kube-system";
/// Where pods are.
pub(super) const NAMESPACES: [&str; 2] = [NAMESPACE, DAEMONS];
/// How long a Lease counts, seconds: a kubelet's default.
const LEASE_SECONDS: u32 = 40;

/// Name of a node: of the zones in turns.
pub(super) fn node_name(index: usize, zones: usize) -> String {
    format!("bench-z{}-{}", index % zones, index / zones)
}

/// Where it is created, and the object.
pub(super) fn node(index: usize, flags: &LoadFlags, now: Wall) -> (String, Value) {
    let (name, zone) = (node_name(index, flags.zones), format!("bench-z{}", index % flags.zones));
    let offer = json!({"cpu": "16", "memory": "64Gi", "pods": "110", "ephemeral-storage": "100Gi"});
    let conditions: Vec<Value> = ["MemoryPressure", "DiskPressure", "PIDPressure", wellknown::CONDITION_READY]
        .into_iter()
        .map(|kind| condition(kind, now))
        .collect();
    let object = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {
            LABEL: OWNER,
            "kubernetes.io/hostname": name,
            wellknown::LABEL_OS: "linux",
            wellknown::LABEL_ARCH: "amd64",
            // Kubelets set these too, still.
            wellknown::LABEL_OS_BETA: "linux",
            wellknown::LABEL_ARCH_BETA: "amd64",
            wellknown::LABEL_REGION: "bench",
            wellknown::LABEL_ZONE: zone,
        }},
        "status": {
            "capacity": offer, "allocatable": offer, "conditions": conditions,
            "addresses": [{"type": "Hostname", "address": name}],
            "nodeInfo": {
                "machineID": name, "systemUUID": name, "bootID": name, "kernelVersion": "6.1.0", "osImage": "bench",
                "containerRuntimeVersion": "containerd://2.0.0", "kubeletVersion": "v1.36.0", "kubeProxyVersion": "",
                "operatingSystem": "linux", "architecture": "amd64",
            },
        },
    });
    ("/api/v1/nodes".to_owned(), object)
}

fn condition(kind: &str, now: Wall) -> Value {
    let is_ready = kind == wellknown::CONDITION_READY;
    let (status, reason) = if is_ready {
        ("True", "KubeletReady")
    } else {
        ("False", "KubeletHasEnough")
    };
    let now = whole_seconds(now);
    json!({
        "type": kind, "status": status, "reason": reason, "message": "", "lastHeartbeatTime": now, "lastTransitionTime": now,
    })
}

/// What a kubelet posts: that it is ready, and since when if it was not before.
pub(super) fn heartbeat(now: Wall, is_back: bool) -> Value {
    let mut ready = condition(wellknown::CONDITION_READY, now);
    if !is_back && let Some(fields) = ready.as_object_mut() {
        fields.remove("lastTransitionTime");
    }
    json!({"status": {"conditions": [ready]}})
}

/// Where the Lease of a node is created, and the object; replaced at a version if there is one.
pub(super) fn lease(name: &str, version: &str, now: Wall) -> (String, Value) {
    let object = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {
            "name": name, "namespace": NODE_LEASES, "labels": {LABEL: OWNER},
            "resourceVersion": (!version.is_empty()).then_some(version),
        },
        "spec": {"holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": format!("{now:.6}")},
    });
    (
        format!("/apis/coordination.k8s.io/v1/namespaces/{NODE_LEASES}/leases"),
        object,
    )
}

/// Where a pod is created, and the object. Like nearly every pod of a cluster it has a controller: its node, as static pods do, by uid.
pub(super) fn pod(index: usize, nth: usize, owner: &str, flags: &LoadFlags) -> (String, Value) {
    let node = node_name(index, flags.zones);
    let keys = [wellknown::TAINT_NOT_READY, wellknown::TAINT_UNREACHABLE];
    let tolerations = keys
        .map(|key| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": flags.toleration_seconds}));
    let object = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("{node}-{nth}"), "namespace": NAMESPACE, "labels": {LABEL: OWNER, "app": "bench"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": node, "uid": owner, "controller": true}],
        },
        "spec": {
            "nodeName": node, "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 1,
            "tolerations": tolerations,
            "containers": [{"name": "main", "image": "registry.k8s.io/pause:3.10"}],
        },
    });
    (format!("/api/v1/namespaces/{NAMESPACE}/pods"), object)
}

/// What pods of a namespace run as, on a server on which no controller made it.
pub(super) fn service_account(namespace: &str) -> (String, Value) {
    let object = json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": "default", "namespace": namespace, "labels": {LABEL: OWNER}},
    });
    (format!("/api/v1/namespaces/{namespace}/serviceaccounts"), object)
}

/// What a kubelet posts of a pod that it started.
pub(super) fn running(now: Wall) -> Value {
    let now = whole_seconds(now);
    let conditions = ["PodScheduled", "Initialized", "ContainersReady", "Ready"]
        .map(|kind| json!({"type": kind, "status": "True", "lastTransitionTime": now}));
    json!({"status": {
        "phase": "Running", "startTime": now, "conditions": conditions,
        "containerStatuses": [{
            "name": "main", "ready": true, "started": true, "restartCount": 0, "image": "registry.k8s.io/pause:3.10", "imageID": "",
            "state": {"running": {"startedAt": now}},
        }],
    }})
}

/// What a scheduler posts of a pod that goes to a node.
pub(super) fn binding(pod: &Pod, node: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod.name, "namespace": pod.namespace},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    })
}

/// As the API keeps times of conditions.
fn whole_seconds(now: Wall) -> String {
    format!("{now:.0}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_flags() -> LoadFlags {
        LoadFlags {
            kubeconfig: "k".into(),
            nodes: 5,
            zones: 3,
            pods_per_node: 2,
            toleration_seconds: 30,
        }
    }

    #[test]
    fn nodes_are_spread_over_zones_and_end_with_their_number() {
        let names: Vec<String> = (0..5).map(|index| node_name(index, 3)).collect();
        assert_eq!(names, ["bench-z0-0", "bench-z1-0", "bench-z2-0", "bench-z0-1", "bench-z1-1"]);
        let (_, object) = node(4, &mk_flags(), Wall::UNIX_EPOCH);
        assert_eq!(object["metadata"]["labels"][wellknown::LABEL_ZONE], "bench-z1");
        assert_eq!(object["status"]["conditions"][3]["lastHeartbeatTime"], "1970-01-01T00:00:00Z");
    }

    #[test]
    fn a_lease_is_renewed_to_the_microsecond_at_its_version() {
        let (_, created) = lease("bench-z0-0", "", Wall::UNIX_EPOCH);
        assert_eq!(created["metadata"]["resourceVersion"], Value::Null);
        let (_, renewed) = lease("bench-z0-0", "7", Wall::UNIX_EPOCH);
        assert_eq!(renewed["metadata"]["resourceVersion"], "7");
        assert_eq!(renewed["spec"]["renewTime"], "1970-01-01T00:00:00.000000Z");
    }

    #[test]
    fn a_heartbeat_moves_the_transition_only_when_the_node_is_back() {
        let ready = |is_back| heartbeat(Wall::UNIX_EPOCH, is_back)["status"]["conditions"][0].clone();
        assert!(ready(true)["lastTransitionTime"].is_string());
        assert!(ready(false).get("lastTransitionTime").is_none());
    }

    #[test]
    fn pods_are_on_their_node_and_tolerate_its_failure_for_so_long() {
        let (path, object) = pod(3, 1, "uid-3", &mk_flags());
        assert_eq!(path, "/api/v1/namespaces/default/pods");
        assert_eq!(object["metadata"]["name"], "bench-z0-1-1");
        assert_eq!(object["spec"]["nodeName"], "bench-z0-1");
        assert_eq!(object["metadata"]["ownerReferences"][0]["uid"], "uid-3");
        assert_eq!(object["spec"]["tolerations"][1]["tolerationSeconds"], 30);
    }
}
