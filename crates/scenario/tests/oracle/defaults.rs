//! The whole pipeline with every flag left at its default: when things happen.

use std::collections::BTreeMap;

use bailiff_scenario::oracle::{Profile, Scenario, play};
use serde_json::{Value, json};

fn mk_node(name: &str) -> Value {
    let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "lastHeartbeatTime": "<now>", "lastTransitionTime": "<now>"});
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/os": "linux"}},
        "status": {"conditions": [
            condition("MemoryPressure", "False"), condition("DiskPressure", "False"), condition("PIDPressure", "False"),
            condition("Ready", "True"),
        ]},
    })
}

fn mk_pod(name: &str, tolerations: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default", "labels": {"app": name}},
        "spec": {"nodeName": "n1", "tolerations": tolerations, "containers": [{"name": "c", "image": "registry.example/app:1"}]},
    })
}

/// Tolerates both health taints for so long.
fn tolerating(seconds: i64) -> Value {
    let one = |key: &str| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds});
    json!([one("node.kubernetes.io/not-ready"), one("node.kubernetes.io/unreachable")])
}

/// Four nodes, of which n1 falls silent 2 s after time zero, with a pod that tolerates nothing for a while, one that gets the
/// default tolerations from admission, one that tolerates for ever.
fn mk_scenario() -> Scenario {
    let scenario = json!({
        "id": "defaults", "controllers": ["node-lifecycle-controller", "taint-eviction-controller"], "activation": ["node-label"],
        "objects": [
            mk_node("n1"), mk_node("n2"), mk_node("n3"), mk_node("n4"),
            mk_pod("p-zero", tolerating(0)), mk_pod("p-negative", tolerating(-5)), mk_pod("p-default", json!([])),
            mk_pod("p-forever", json!([{"operator": "Exists"}])),
        ],
        "steps": [{"at": 2, "kubelet": {"node": "n1", "alive": false}}],
        "duration": 365, "tolerance_s": 0,
    });
    serde_json::from_value(scenario).expect("a scenario")
}

/// NL-003, NL-060, TE-058, TE-110: silent at 1 to 2 s; Unknown 50 to 55 s later, tainted and untolerating pods deleted right then,
/// pods with admission's tolerations 300 s after that, nobody else ever.
#[test]
fn with_defaults_a_silent_node_is_unknown_after_50_s_and_its_pods_go_300_s_later() {
    for profile in [Profile::Upstream, Profile::Bailiff] {
        let observed = play(&mk_scenario(), profile, 1).expect("plays").observed.to_json();
        let when = |object: &str, fields: &[(&str, &str)]| -> Option<f64> {
            let lines = observed["observed"][object].as_array()?;
            let line = lines
                .iter()
                .find(|line| fields.iter().all(|(field, value)| line[field] == *value))?;
            line["t"][0].as_f64()
        };
        let pods = ["p-zero", "p-negative", "p-default", "p-forever"];
        let deleted: BTreeMap<&str, Option<f64>> = pods
            .map(|name| (name, when(&format!("pod/default/{name}"), &[("change", "delete")])))
            .into();
        let unknown = when("node/n1", &[("type", "Ready"), ("to", "Unknown")]).expect("Unknown");
        let taint = [
            ("change", "taint-added"),
            ("effect", "NoExecute"),
            ("key", "node.kubernetes.io/unreachable"),
        ];
        let tainted = when("node/n1", &taint).expect("tainted");
        // Upstream counts from the pass that sees the last signal, up to a period after it, and looks again every period.
        let latest = if profile == Profile::Upstream { 62.0 } else { 57.0 };
        assert!((51.0..=latest).contains(&unknown), "{profile:?}: {unknown}");
        assert!((0.0..=5.0).contains(&(tainted - unknown)), "{profile:?}: {tainted}");
        let after = |name: &str| deleted[name].map(|at| (at - tainted).round());
        let wanted = [Some(0.0), Some(0.0), Some(300.0), None];
        assert_eq!(pods.map(after), wanted, "{profile:?}: {deleted:?}, tainted at {tainted}");
    }
}
