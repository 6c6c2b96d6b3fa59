//! What the API server's defaults and oddities come to.

use std::time::Duration;

use bailiff_daemonset_core::facts::{Amount, Controller, Strategy, Trouble};
use bailiff_daemonset_core::{DaemonSet, Node, Pod, Revision};
use bailiff_model::ResourceVersion;
use serde_json::{Value, json};

use crate::model::merge;

fn read(patch: &Value) -> Result<DaemonSet, serde_json::Error> {
    let mut ds = json!({
        "metadata": {"name": "ds", "namespace": "ns", "uid": "u"},
        "spec": {"selector": {"matchLabels": {"app": "ds"}}, "template": {"metadata": {"labels": {"app": "ds"}}}},
    });
    merge(&mut ds, patch);
    serde_json::from_str(&ds.to_string())
}

fn rolling(max_unavailable: Amount, max_surge: Amount) -> Strategy {
    Strategy::RollingUpdate {
        max_unavailable,
        max_surge,
    }
}

/// DS-132, DS-170: what is left out is upstream's default.
#[test]
fn what_a_strategy_leaves_out_has_upstreams_default() {
    use Amount::{Absolute, Percent};
    let cases = [
        (json!(null), rolling(Absolute(1), Absolute(0))),
        (json!({}), rolling(Absolute(1), Absolute(0))),
        (json!({"type": "RollingUpdate"}), rolling(Absolute(1), Absolute(0))),
        (json!({"type": "OnDelete"}), Strategy::OnDelete),
        (
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%"}}),
            rolling(Percent(25), Absolute(0)),
        ),
        (
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": "1%"}}),
            rolling(Absolute(0), Percent(1)),
        ),
    ];
    for (strategy, wanted) in cases {
        let ds = read(&json!({"spec": {"updateStrategy": strategy}})).expect("decodes");
        assert_eq!(ds.strategy, wanted, "{strategy}");
    }
}

/// DS-132: an amount that is no number and no percentage is refused with what is allowed.
#[test]
fn an_amount_that_is_no_number_is_refused() {
    for amount in ["ten", "10", "%", "-1%"] {
        let strategy = json!({"rollingUpdate": {"maxUnavailable": amount}});
        let error = read(&json!({"spec": {"updateStrategy": strategy}}))
            .expect_err("malformed")
            .to_string();
        assert!(error.contains(amount) && error.contains("percentage"), "{error}");
    }
}

/// DS-161, DS-170
#[test]
fn history_limit_and_min_ready_have_defaults() {
    let ds = read(&json!({})).expect("decodes");
    assert_eq!((ds.history_limit, ds.min_ready), (10, Duration::ZERO));
    let ds = read(&json!({"spec": {"revisionHistoryLimit": 0, "minReadySeconds": 7}})).expect("decodes");
    assert_eq!((ds.history_limit, ds.min_ready), (0, Duration::from_secs(7)));
}

/// DS-090, DS-172: the template's generation is known only if the annotation is a number.
#[test]
fn the_generation_annotation_may_be_missing_or_no_number() {
    for (annotation, wanted) in [(json!("12"), Some(12)), (json!("twelve"), None), (json!(null), None)] {
        let annotations = json!({"deprecated.daemonset.template.generation": annotation});
        let ds = read(&json!({"metadata": {"annotations": annotations}})).expect("decodes");
        assert_eq!(ds.template_generation, wanted, "{annotation}");
    }
}

fn read_pod(spec: &Value, status: &Value) -> Pod {
    let pod = json!({"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": spec, "status": status});
    serde_json::from_str(&pod.to_string()).expect("decodes")
}

/// DS-070: a pod belongs to the node it is bound to, or to the only one it is pinned to by name.
#[test]
fn a_pod_belongs_to_the_node_it_is_bound_or_pinned_to() {
    let terms = |terms: Value| {
        let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
        json!({"affinity": {"nodeAffinity": required}})
    };
    let pin = |key: &str, operator: &str, nodes: Value| {
        terms(json!([{"matchFields": [{"key": key, "operator": operator, "values": nodes}]}]))
    };
    let term = |nodes: Value| json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": nodes}]});
    let label = json!({"matchExpressions": [{"key": "a", "operator": "Exists"}]});
    let cases = [
        (json!({"nodeName": "n1"}), Some("n1")),
        (pin("metadata.name", "In", json!(["n1"])), Some("n1")),
        // The first term that names nodes counts, whatever others do.
        (terms(json!([label, term(json!(["n1"])), term(json!(["n2"]))])), Some("n1")),
        (terms(json!([term(json!(["n1", "n2"])), term(json!(["n2"]))])), None),
        (pin("metadata.name", "NotIn", json!(["n1"])), None),
        (pin("metadata.uid", "In", json!(["n1"])), None),
        (pin("metadata.name", "In", json!(["n1", "n2"])), None),
        (json!({}), None),
    ];
    for (spec, wanted) in cases {
        let pod = read_pod(&spec, &json!({}));
        assert_eq!(pod.target.as_ref().map(|node| node.as_str()), wanted, "{spec}");
    }
}

/// What keeps a pod from running, as scheduler and kubelet say it.
#[test]
fn what_keeps_a_pod_from_running_is_read_from_its_status() {
    let waiting = |containers: &str, reason: &str| json!({containers: [{"state": {}}, {"state": {"waiting": {"reason": reason}}}]});
    let scheduled = |reason: &str| json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": reason}]});
    let cases = [
        (json!({}), None),
        (json!({"phase": "Failed", "reason": "OutOfcpu"}), Some(Trouble::NoRoom)),
        (json!({"phase": "Failed", "reason": "Evicted"}), None),
        (scheduled("Unschedulable"), Some(Trouble::NoRoom)),
        (scheduled("SchedulingGated"), None),
        (waiting("containerStatuses", "CrashLoopBackOff"), Some(Trouble::CrashLoop)),
        (waiting("initContainerStatuses", "CrashLoopBackOff"), Some(Trouble::CrashLoop)),
        (waiting("containerStatuses", "ErrImagePull"), Some(Trouble::Image)),
        (waiting("containerStatuses", "ImagePullBackOff"), Some(Trouble::Image)),
        (waiting("initContainerStatuses", "InvalidImageName"), Some(Trouble::Image)),
        (waiting("containerStatuses", "ErrImageNeverPull"), Some(Trouble::Image)),
        (waiting("containerStatuses", "ContainerCreating"), None),
    ];
    for (status, wanted) in cases {
        assert_eq!(read_pod(&json!({}), &status).trouble, wanted, "{status}");
    }
}

/// DS-022: of somebody else's pod, which most are, only the metadata are read, wherever they stand; so nothing behind them is amiss.
#[test]
fn of_somebody_elses_pod_nothing_else_is_read() {
    let pod = |owner: &str, behind: &str| {
        let owners =
            format!(r#"[{{"kind":"Node","name":"n","uid":"o"}},{{"kind":"{owner}","name":"a","uid":"o","controller":true}}]"#);
        let metadata = format!(r#""metadata":{{"name":"p","namespace":"ns","uid":"u","ownerReferences":{owners}}}"#);
        [format!("{{{metadata},{behind}}}"), format!("{{{behind},{metadata}}}")].map(|text| serde_json::from_str::<Pod>(&text))
    };
    let whole = r#""spec":{"nodeName":"n1"},"status":{"phase":"Failed"}"#;
    for known in pod("DaemonSet", whole) {
        let known = known.expect("decodes");
        assert!(known.is_terminal() && known.bound && known.controller != Controller::Other);
    }
    for other in pod("ReplicaSet", whole) {
        assert_eq!(other.expect("decodes").controller, Controller::Other);
    }
    let amiss = r#""spec":{"nodeName":7},"status":null"#;
    assert!(pod("DaemonSet", amiss).iter().all(Result::is_err));
    assert!(pod("ReplicaSet", amiss).into_iter().next().expect("two").is_ok());
    let twice = r#""spec":null,"spec":null"#;
    assert!(
        pod("DaemonSet", twice)
            .iter()
            .chain(&pod("ReplicaSet", twice))
            .all(Result::is_err)
    );
    for known in pod("DaemonSet", r#""spec":null,"status":null"#) {
        assert_eq!(known.expect("decodes").target, None);
    }
}

#[test]
fn labels_are_texts_by_text() {
    let cases = [
        (r#","labels":null"#, Some("{}")),
        ("", Some("{}")),
        (r#","labels":{}"#, Some("{}")),
        (r#","labels":{"b":"","a":"x\ny"}"#, Some(r#"{"a": "x\ny", "b": ""}"#)),
        (r#","labels":{"a":null}"#, None),
        (r#","labels":{"a":7}"#, None),
        (r#","labels":["a"]"#, None),
    ];
    for (labels, wanted) in cases {
        let text = format!(r#"{{"metadata":{{"name":"x","namespace":"ns","uid":"u"{labels}}}}}"#);
        let found = serde_json::from_str::<Pod>(&text).ok().map(|pod| format!("{:?}", pod.labels));
        assert_eq!(found.as_deref(), wanted, "{text}");
    }
}

/// One malformed object is refused by itself, and it is said why.
#[test]
fn an_object_without_a_name_is_refused() {
    let text = r#"{"metadata": {"namespace": "ns", "uid": "u"}, "spec": {"template": {}}}"#;
    let errors = [
        serde_json::from_str::<Node>(text).err(),
        serde_json::from_str::<Pod>(text).err(),
        serde_json::from_str::<DaemonSet>(text).err(),
        serde_json::from_str::<Revision>(text).err(),
    ];
    for error in errors {
        let error = error.expect("refused").to_string();
        assert!(error.contains("metadata.name is missing"), "{error}");
    }
}

/// DS-056: a version is older than another one as a number, and never if one of them is none.
#[test]
fn versions_are_compared_as_numbers() {
    for (version, than, wanted) in [
        ("9", "10", true),
        ("10", "9", false),
        ("9", "9", false),
        ("a", "b", false),
        ("1", "b", false),
        ("", "1", false),
    ] {
        let is_it = ResourceVersion::from(version).is_older_than(&ResourceVersion::from(than));
        assert_eq!(is_it, wanted, "{version:?} {than:?}");
    }
}
