//! What the API server's defaults and oddities come to.

use std::time::Duration;

use bailiff_daemonset_core::DaemonSet;
use bailiff_daemonset_core::facts::{Amount, Strategy};
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
