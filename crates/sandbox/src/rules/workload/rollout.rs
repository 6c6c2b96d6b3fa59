//! How workloads replace their pods, and what their status counts.

use serde_json::{Value, json};

use crate::rules::text;
use crate::status::Cause;

const PERCENT: &str = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for \
    validation is '[0-9]+%')";
/// What may change about a StatefulSet.
const STATEFUL: &str = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', \
    'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";

/// Checks a number or percentage; answers its value, of which malformed ones have none.
fn amount(object: &Value, at: &str, causes: &mut Vec<Cause>) -> i64 {
    let Some(given) = object.pointer(&format!("/{}", at.replace('.', "/"))) else {
        return 0;
    };
    match given {
        Value::String(text) => {
            let digits = text
                .strip_suffix('%')
                .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
            let percent = digits.and_then(|digits| digits.parse::<i64>().ok());
            match percent {
                None => causes.push(Cause::invalid(at, given, PERCENT)),
                Some(percent) if percent > 100 => causes.push(Cause::invalid(at, given, "must not be greater than 100%")),
                Some(_) => {}
            }
            percent.unwrap_or(0)
        }
        other => {
            let number = other.as_i64().unwrap_or(0);
            if number < 0 {
                causes.push(Cause::invalid(at, given, "must be greater than or equal to 0"));
            }
            number
        }
    }
}

/// Rules for the rolling update of a DaemonSet.
pub fn daemons(object: &Value, causes: &mut Vec<Cause>) {
    let at = "spec.updateStrategy.rollingUpdate";
    let unavailable = amount(object, &format!("{at}.maxUnavailable"), causes);
    let surge = amount(object, &format!("{at}.maxSurge"), causes);
    if unavailable == 0 && surge == 0 {
        let why = "cannot be 0 when maxSurge is 0";
        causes.push(Cause::required(format!("{at}.maxUnavailable"), why));
    } else if unavailable != 0 && surge != 0 {
        let complaint = "may not be set when maxUnavailable is non-zero";
        causes.push(Cause::invalid(format!("{at}.maxSurge"), &json!(surge), complaint));
    }
}

/// Rules for the strategy of a Deployment.
pub fn deployment(object: &Value, causes: &mut Vec<Cause>) {
    let rolling = object.pointer("/spec/strategy/rollingUpdate");
    match text(object, "/spec/strategy/type") {
        "Recreate" if rolling.is_some() => {
            let why = "may not be specified when strategy `type` is 'Recreate'";
            causes.push(Cause::forbidden("spec.strategy.rollingUpdate", why));
        }
        "Recreate" => {}
        "RollingUpdate" => {
            let before = causes.len();
            let unavailable = amount(object, "spec.strategy.rollingUpdate.maxUnavailable", causes);
            let surge = amount(object, "spec.strategy.rollingUpdate.maxSurge", causes);
            if unavailable == 0 && surge == 0 && causes.len() == before {
                let complaint = "may not be 0 when `maxSurge` is 0";
                let at = "spec.strategy.rollingUpdate.maxUnavailable";
                causes.push(Cause::invalid(at, &json!(0), complaint));
            }
        }
        _ => {
            let strategy = object.pointer("/spec/strategy").cloned().unwrap_or_default();
            causes.push(Cause::unsupported("spec.strategy", &strategy, &["Recreate", "RollingUpdate"]));
        }
    }
    let number = |field: &str| object.pointer(field).and_then(Value::as_i64);
    if let Some(deadline) = number("/spec/progressDeadlineSeconds")
        && deadline <= number("/spec/minReadySeconds").unwrap_or(0)
    {
        let complaint = "must be greater than minReadySeconds";
        causes.push(Cause::invalid("spec.progressDeadlineSeconds", &json!(deadline), complaint));
    }
}

/// Rules for a StatefulSet.
pub fn stateful(object: &Value, causes: &mut Vec<Cause>) {
    let policy = text(object, "/spec/podManagementPolicy");
    if !matches!(policy, "OrderedReady" | "Parallel") {
        let complaint = "must be 'OrderedReady' or 'Parallel'";
        causes.push(Cause::invalid("spec.podManagementPolicy", &json!(policy), complaint));
    }
    let kind = text(object, "/spec/updateStrategy/type");
    if !matches!(kind, "RollingUpdate" | "OnDelete") {
        let complaint = "must be 'RollingUpdate' or 'OnDelete'";
        causes.push(Cause::invalid("spec.updateStrategy", &json!(kind), complaint));
    }
}

/// Rules for a changed StatefulSet.
pub fn stateful_change(object: &Value, old: &Value, causes: &mut Vec<Cause>) {
    let fixed = |object: &Value| {
        let mut spec = object.get("spec").and_then(Value::as_object).cloned().unwrap_or_default();
        for field in [
            "replicas",
            "ordinals",
            "template",
            "updateStrategy",
            "revisionHistoryLimit",
            "persistentVolumeClaimRetentionPolicy",
            "minReadySeconds",
        ] {
            spec.shift_remove(field);
        }
        spec
    };
    if fixed(object) != fixed(old) {
        causes.push(Cause::forbidden("spec", STATEFUL));
    }
}

/// No part is more than the whole.
pub fn counts(object: &Value, causes: &mut Vec<Cause>) {
    let number = |field: &str| {
        object
            .pointer(&format!("/status/{field}"))
            .and_then(Value::as_i64)
            .unwrap_or(0)
    };
    let total = number("replicas");
    let parts = [
        "fullyLabeledReplicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
    ];
    for field in ["replicas", "observedGeneration"].into_iter().chain(parts) {
        if number(field) < 0 {
            let complaint = "must be greater than or equal to 0";
            causes.push(Cause::invalid(format!("status.{field}"), &json!(number(field)), complaint));
        }
    }
    let kind = text(object, "/kind");
    for field in parts {
        let counted = match field {
            "fullyLabeledReplicas" => kind == "ReplicaSet",
            "updatedReplicas" => kind != "ReplicaSet",
            _ => true,
        };
        if counted && number(field) > total {
            let complaint = "cannot be greater than status.replicas";
            causes.push(Cause::invalid(format!("status.{field}"), &json!(number(field)), complaint));
        }
    }
    if number("availableReplicas") > number("readyReplicas") {
        let complaint = "cannot be greater than readyReplicas";
        let available = json!(number("availableReplicas"));
        causes.push(Cause::invalid("status.availableReplicas", &available, complaint));
    }
}
