//! Facts for the tests of the parts that use them, and that they are read from what the API stores.

use serde_json::json;

use super::*;

/// An unbound pod of namespace `default` without any wish.
pub(crate) fn mk_pod(name: &str) -> PodFacts {
    PodFacts {
        key: PodKey::new("default", name),
        uid: name.into(),
        revision: 1,
        node: None,
        phase: Phase::Pending,
        ready: ReadyStatus::Absent,
        scheduled: ReadyStatus::Absent,
        terminating: None,
        annotations: BTreeMap::new(),
        containers: Arc::from([]),
        restarts_always: true,
        host_network: false,
        requests: Resources::of_pod(0, 0),
        controller: None,
        has_started: false,
        placement: Some(Box::new(Placement::of(&view::PodSpec::default()))),
    }
}

pub(crate) fn mk_object(value: serde_json::Value) -> Object {
    Object::encode(value, 42, crate::Change::Added, |_| Vec::new())
}

#[test]
fn a_daemon_pod_is_read_from_what_the_api_stores() {
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}}});
    let object = mk_object(json!({
        "metadata": {"name": "ds-x", "namespace": "default", "uid": "u", "resourceVersion": "42", "generation": 1,
            "annotations": {"sandbox.bailiff.dev/pods": "fail", "other": "x"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "ds", "uid": "owner", "controller": true}]},
        "spec": {"containers": [
                {"name": "main", "image": "i:1", "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}}},
                {"name": "side", "image": "i:2", "resources": {"requests": {"cpu": "1"}}}],
            "initContainers": [{"name": "init", "image": "i:3", "resources": {"requests": {"cpu": "500m", "memory": "2Gi"}}}],
            "restartPolicy": "Always", "schedulerName": "default-scheduler", "affinity": affinity,
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}]},
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    }));
    let facts = PodFacts::read(&object).unwrap();
    assert_eq!((facts.revision, facts.key.to_string()), (42, "default/ds-x".to_owned()));
    assert_eq!(
        facts.requests,
        Resources {
            pods: 1,
            milli_cpu: 1100,
            memory: 2 << 30
        }
    );
    assert_eq!(facts.controller.as_deref(), Some("owner"));
    assert_eq!(facts.annotations, BTreeMap::from([("pods".to_owned(), "fail".to_owned())]));
    let placement = facts.placement.unwrap();
    assert_eq!(placement.target, Some(NodeName::from("n1")));
    assert!(placement.is_ours && !placement.is_gated);
    assert_eq!(placement.tolerations.len(), 1);
}

#[test]
fn a_node_is_read_from_what_the_api_stores() {
    let object = mk_object(json!({
        "metadata": {"name": "n1", "uid": "u", "labels": {"zone": "a"}, "annotations": {"sandbox.bailiff.dev/alive": "false"}},
        "spec": {"unschedulable": true, "taints": [{"key": "k", "effect": "NoSchedule"}, {"key": "k", "effect": "Sometimes"}]},
        "status": {"allocatable": {"cpu": "4", "pods": "110"}, "nodeInfo": {"bootID": "b"},
            "addresses": [{"type": "Hostname", "address": "n1"}, {"type": "InternalIP", "address": "10.0.0.1"}],
            "conditions": [{"type": "Ready", "status": "Unknown", "reason": "r"}]},
    }));
    let facts = NodeFacts::read(&object).unwrap();
    assert_eq!(facts.condition("Ready"), ReadyStatus::Unknown);
    assert_eq!(facts.condition("DiskPressure"), ReadyStatus::Absent);
    assert_eq!(
        facts.allocatable,
        Allocatable {
            pods: Some(110),
            milli_cpu: Some(4000),
            memory: None
        }
    );
    assert_eq!(facts.taints.len(), 1);
    assert_eq!(facts.internal_ip.as_deref(), Some("10.0.0.1"));
    assert_eq!((facts.boot_id.as_str(), facts.unschedulable), ("b", true));
    assert_eq!(facts.annotations.get("alive").map(String::as_str), Some("false"));
}

#[test]
fn what_has_not_the_shape_of_its_kind_is_malformed() {
    let object = mk_object(json!({"metadata": {"name": "n1"}, "spec": {"taints": "many"}}));
    let error = NodeFacts::read(&object).unwrap_err();
    assert_eq!(error.to_string(), "cannot read Node n1");
}
