//! The template of a workload's pods, and the selector that must mean them.

use serde_json::{Map, Value, json};

use crate::api::selector::{self, Selector};
use crate::rules::{items, meta, podspec, text};
use crate::status::Cause;

/// Rules for selector and template of a workload of this kind.
pub fn validate(object: &Value, kind: &str, causes: &mut Vec<Cause>) {
    let labels = object.pointer("/spec/template/metadata/labels");
    validate_selector(object, kind, labels, causes);
    meta::labels(labels, "spec.template.labels", causes);
    let spec = object.pointer("/spec/template/spec").unwrap_or(&Value::Null);
    podspec::validate(spec, "spec.template.spec", causes);
    if text(spec, "/restartPolicy") != "Always" {
        let given = spec.get("restartPolicy").cloned().unwrap_or_default();
        let known = matches!(given.as_str(), Some("Always" | "OnFailure" | "Never"));
        if known {
            causes.push(Cause::unsupported("spec.template.spec.restartPolicy", &given, &["Always"]));
        }
    }
    if spec.get("activeDeadlineSeconds").is_some() {
        let why = format!("activeDeadlineSeconds in {kind} is not Supported");
        causes.push(Cause::forbidden("spec.template.spec.activeDeadlineSeconds", &why));
    }
    if !items(spec, "/ephemeralContainers").is_empty() {
        let why = "ephemeral containers not allowed in pod template";
        causes.push(Cause::forbidden("spec.template.spec.ephemeralContainers", why));
    }
}

fn validate_selector(object: &Value, kind: &str, labels: Option<&Value>, causes: &mut Vec<Cause>) {
    let mismatch = || {
        let shown = labels.cloned().unwrap_or_else(|| json!({}));
        let complaint = "`selector` does not match template `labels`";
        Cause::invalid("spec.template.metadata.labels", &shown, complaint)
    };
    let Some(given) = object.pointer("/spec/selector").filter(|given| !given.is_null()) else {
        if kind != "DaemonSet" {
            causes.push(Cause::required("spec.selector", ""));
        }
        causes.push(mismatch());
        return;
    };
    let before = causes.len();
    selector::check_object(given, "spec.selector", causes);
    if causes.len() > before {
        if kind != "DaemonSet" {
            causes.push(Cause::invalid("spec.selector", given, "invalid label selector"));
        }
        return;
    }
    if given.as_object().is_some_and(Map::is_empty) {
        // The message for ReplicaSets speaks of deployments, too.
        let named = match kind {
            "DaemonSet" => "daemonset",
            "StatefulSet" => "statefulset",
            _ => "deployment",
        };
        let complaint = format!("empty selector is invalid for {named}");
        causes.push(Cause::invalid("spec.selector", given, &complaint));
        return;
    }
    let find = |key: &str| labels.and_then(|labels| labels.get(key)).and_then(Value::as_str);
    if !Selector::of_object(given).matches_labels(&find) {
        causes.push(mismatch());
    }
}

/// What is not wrong with the template but surprises.
pub fn warnings(object: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    let spec = object.pointer("/spec/template/spec").unwrap_or(&Value::Null);
    podspec::warnings(spec, "spec.template.spec", &mut warnings);
    warnings
}
