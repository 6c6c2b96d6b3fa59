//! What an update may change about a pod.

use serde_json::{Map, Value, json};

use super::MIRROR;
use crate::rules::{equal_field, find, items, text};
use crate::status::Cause;

const CHANGEABLE: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,\
    `spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` \
    (allow it to be set to 1 if it was previously negative)";

/// Rules for a change.
pub fn validate(object: &Value, old: &Value, causes: &mut Vec<Cause>) {
    mirror(object, old, causes);
    let count = |object: &Value, list: &str| items(object, &format!("/spec/{list}")).len();
    for list in ["containers", "initContainers"] {
        if count(object, list) != count(old, list) {
            let complaint = "pod updates may not add or remove containers";
            causes.push(Cause::forbidden(format!("spec.{list}"), complaint));
            return;
        }
    }
    validate_deadline(object, old, causes);
    validate_tolerations(object, old, causes);
    validate_gates(object, old, causes);
    if equal_field(object, old, "spec") {
        return;
    }
    let mut expected = object.get("spec").cloned();
    if let (Some(Value::Object(spec)), Some(before)) = (&mut expected, old.get("spec")) {
        forget_changeable(spec, before);
    }
    if expected.as_ref() != old.get("spec") {
        causes.push(Cause::forbidden("spec", CHANGEABLE));
    }
}

/// Puts back what may change, so that what is left shows what may not.
fn forget_changeable(spec: &mut Map<String, Value>, old: &Value) {
    for list in ["containers", "initContainers"] {
        let before = old.get(list).and_then(Value::as_array);
        let now = spec.get_mut(list).and_then(Value::as_array_mut);
        for (one, before) in now.into_iter().flatten().zip(before.into_iter().flatten()) {
            if let Some(image) = before.get("image") {
                one["image"] = image.clone();
            }
        }
    }
    let mut allowed = vec!["activeDeadlineSeconds", "tolerations"];
    let grace = |value: Option<&Value>| value.and_then(Value::as_i64);
    if grace(old.get("terminationGracePeriodSeconds")).is_some_and(|seconds| seconds < 0)
        && grace(spec.get("terminationGracePeriodSeconds")) == Some(1)
    {
        allowed.push("terminationGracePeriodSeconds");
    }
    if old.get("schedulingGates").is_some() {
        allowed.extend(["schedulingGates", "nodeSelector"]);
    }
    for field in allowed {
        match old.get(field) {
            Some(value) => {
                spec.insert(field.to_owned(), value.clone());
            }
            None => {
                spec.shift_remove(field);
            }
        }
    }
}

fn validate_deadline(object: &Value, old: &Value, causes: &mut Vec<Cause>) {
    let deadline = |object: &Value| find(object, "/spec/activeDeadlineSeconds").and_then(Value::as_i64);
    match (deadline(object), deadline(old)) {
        (Some(now), Some(before)) if now > before => {
            let complaint = "must be less than or equal to previous value";
            causes.push(Cause::invalid("spec.activeDeadlineSeconds", &json!(now), complaint));
        }
        (None, Some(_)) => {
            causes.push(Cause::invalid(
                "spec.activeDeadlineSeconds",
                &Value::Null,
                "must not update from a positive integer to nil value",
            ));
        }
        _ => {}
    }
}

fn validate_tolerations(object: &Value, old: &Value, causes: &mut Vec<Cause>) {
    let without_seconds = |toleration: &Value| {
        let mut bare = toleration.clone();
        if let Value::Object(fields) = &mut bare {
            fields.shift_remove("tolerationSeconds");
        }
        bare
    };
    let now: Vec<Value> = items(object, "/spec/tolerations").iter().map(without_seconds).collect();
    let kept = items(old, "/spec/tolerations")
        .iter()
        .all(|one| now.contains(&without_seconds(one)));
    if !kept {
        let complaint = "existing toleration can not be modified except its tolerationSeconds";
        causes.push(Cause::forbidden("spec.tolerations", complaint));
    }
}

/// Gates only ever go; while there are some, the pod may still be narrowed to fewer nodes.
fn validate_gates(object: &Value, old: &Value, causes: &mut Vec<Cause>) {
    let before = items(old, "/spec/schedulingGates");
    for (index, gate) in items(object, "/spec/schedulingGates").iter().enumerate() {
        if !before.contains(gate) {
            let why = format!(
                "only deletion is allowed, but found new scheduling gate '{}'",
                text(gate, "/name")
            );
            causes.push(Cause::forbidden(format!("spec.schedulingGates[{index}].name"), &why));
        }
    }
    let selector = |object: &Value| find(object, "/spec/nodeSelector").and_then(Value::as_object).cloned();
    let now = selector(object).unwrap_or_default();
    let kept = selector(old)
        .unwrap_or_default()
        .iter()
        .all(|(key, value)| now.get(key) == Some(value));
    if !before.is_empty() && !kept {
        let complaint = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        causes.push(Cause::invalid("spec.nodeSelector", &json!(now), complaint));
    }
}

/// The mark of a kubelet's own pod is neither taken off nor put on.
fn mirror(object: &Value, old: &Value, causes: &mut Vec<Cause>) {
    let mark = |object: &Value| {
        object
            .pointer("/metadata/annotations")
            .and_then(|all| all.get(MIRROR))
            .cloned()
    };
    let why = match (mark(object), mark(old)) {
        (now, before) if now == before => return,
        (_, Some(_)) => "may not remove or update mirror pod annotation",
        (_, None) => "may not add mirror pod annotation",
    };
    causes.push(Cause::forbidden(format!("metadata.annotations[{MIRROR}]"), why));
}
