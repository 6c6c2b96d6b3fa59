//! DaemonSets and their revisions; Deployments, ReplicaSets and StatefulSets as plain objects with defaults.

use serde_json::{Value, json};

use super::{Context, Rules, default, keep, meta, podspec, section, text};
use crate::Status;
use crate::api::selector::{self, Selector};
use crate::status::Cause;
use crate::store::Fields;

/// Counts changes of the template.
pub const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// Rules for DaemonSets.
#[derive(Debug)]
pub struct DaemonSets;

/// Rules for ControllerRevisions.
#[derive(Debug)]
pub struct Revisions;

/// Rules for the other workloads.
#[derive(Debug)]
pub struct Workloads;

impl Rules for DaemonSets {
    fn defaults(&self, object: &mut Value) {
        let spec = section(object, "spec");
        template_defaults(spec);
        default(spec, "revisionHistoryLimit", 10);
        let strategy = spec.entry("updateStrategy").or_insert_with(|| json!({}));
        if let Value::Object(strategy) = strategy {
            default(strategy, "type", "RollingUpdate");
            if strategy.get("type").and_then(Value::as_str) == Some("RollingUpdate") {
                let rolling = strategy.entry("rollingUpdate").or_insert_with(|| json!({}));
                if let Value::Object(rolling) = rolling {
                    default(rolling, "maxUnavailable", 1);
                    default(rolling, "maxSurge", 0);
                }
            }
        }
    }

    fn prepare_create(&self, object: &mut Value, _context: &Context<'_>) -> Result<(), Status> {
        object["status"] =
            json!({"currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0});
        annotate(object, 1);
        Ok(())
    }

    fn prepare_update(&self, object: &mut Value, old: &Value, _context: &Context<'_>) -> Result<(), Status> {
        keep(object, old, "status");
        let generation = text(old, &format!("/metadata/annotations/{TEMPLATE_GENERATION}"))
            .parse()
            .unwrap_or(1_i64);
        let changed = object.pointer("/spec/template") != old.pointer("/spec/template");
        annotate(object, generation + i64::from(changed));
        if object.get("spec") != old.get("spec") {
            meta::grow_generation(object, old);
        }
        Ok(())
    }

    fn validate(&self, object: &Value, causes: &mut Vec<Cause>) {
        validate_template(object, causes);
        if text(object, "/spec/template/spec/restartPolicy") != "Always" {
            let given = object
                .pointer("/spec/template/spec/restartPolicy")
                .cloned()
                .unwrap_or_default();
            causes.push(Cause::unsupported("spec.template.spec.restartPolicy", &given, &["Always"]));
        }
        for field in ["minReadySeconds", "revisionHistoryLimit"] {
            meta::not_negative(object, &format!("/spec/{field}"), causes);
        }
        match text(object, "/spec/updateStrategy/type") {
            "OnDelete" => {}
            "RollingUpdate" => validate_rolling(object, causes),
            other => {
                let allowed = ["RollingUpdate", "OnDelete"];
                causes.push(Cause::unsupported("spec.updateStrategy.type", &json!(other), &allowed));
            }
        }
    }

    fn validate_update(&self, object: &Value, old: &Value, causes: &mut Vec<Cause>) {
        meta::immutable(object, old, "/spec/selector", causes);
        self.validate(object, causes);
    }

    fn validate_status(&self, object: &Value, old: &Value, causes: &mut Vec<Cause>) {
        for field in [
            "currentNumberScheduled",
            "numberMisscheduled",
            "desiredNumberScheduled",
            "numberReady",
            "observedGeneration",
            "updatedNumberScheduled",
            "numberAvailable",
            "numberUnavailable",
            "collisionCount",
        ] {
            meta::not_negative(object, &format!("/status/{field}"), causes);
        }
        let collisions = |object: &Value| object.pointer("/status/collisionCount").and_then(Value::as_i64);
        if let (Some(now), Some(before)) = (collisions(object), collisions(old))
            && now < before
        {
            causes.push(Cause::invalid("status.collisionCount", &json!(now), "cannot be decremented"));
        }
    }

    fn has_generation(&self) -> bool {
        true
    }
}

impl Rules for Revisions {
    fn prepare_update(&self, _object: &mut Value, _old: &Value, _context: &Context<'_>) -> Result<(), Status> {
        Ok(())
    }

    fn validate(&self, object: &Value, causes: &mut Vec<Cause>) {
        if object.get("data").is_none_or(Value::is_null) {
            causes.push(Cause::required("data", "data is mandatory"));
        }
        meta::not_negative(object, "/revision", causes);
    }

    fn validate_update(&self, object: &Value, old: &Value, causes: &mut Vec<Cause>) {
        self.validate(object, causes);
        meta::immutable(object, old, "/data", causes);
    }
}

impl Rules for Workloads {
    fn defaults(&self, object: &mut Value) {
        let kind = text(object, "/kind").to_owned();
        let spec = section(object, "spec");
        template_defaults(spec);
        default(spec, "replicas", 1);
        match kind.as_str() {
            "Deployment" => {
                default(spec, "revisionHistoryLimit", 10);
                default(spec, "progressDeadlineSeconds", 600);
                let strategy = spec.entry("strategy").or_insert_with(|| json!({}));
                if let Value::Object(strategy) = strategy {
                    default(strategy, "type", "RollingUpdate");
                    if strategy.get("type").and_then(Value::as_str) == Some("RollingUpdate") {
                        default(strategy, "rollingUpdate", json!({"maxUnavailable": "25%", "maxSurge": "25%"}));
                    }
                }
            }
            "StatefulSet" => {
                default(spec, "revisionHistoryLimit", 10);
                default(spec, "podManagementPolicy", "OrderedReady");
            }
            _ => {}
        }
    }

    fn prepare_create(&self, object: &mut Value, _context: &Context<'_>) -> Result<(), Status> {
        let counted = text(object, "/kind") != "Deployment";
        object["status"] = if counted { json!({"replicas": 0}) } else { json!({}) };
        Ok(())
    }

    fn validate(&self, object: &Value, causes: &mut Vec<Cause>) {
        validate_template(object, causes);
        for field in ["replicas", "minReadySeconds", "revisionHistoryLimit"] {
            meta::not_negative(object, &format!("/spec/{field}"), causes);
        }
    }

    fn validate_update(&self, object: &Value, old: &Value, causes: &mut Vec<Cause>) {
        meta::immutable(object, old, "/spec/selector", causes);
        self.validate(object, causes);
    }

    fn has_generation(&self) -> bool {
        true
    }
}

fn template_defaults(spec: &mut serde_json::Map<String, Value>) {
    let template = spec.entry("template").or_insert_with(|| json!({}));
    podspec::defaults(section(template, "spec"));
}

fn annotate(object: &mut Value, generation: i64) {
    let metadata = section(object, "metadata");
    let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
    if let Value::Object(annotations) = annotations {
        annotations.insert(TEMPLATE_GENERATION.to_owned(), generation.to_string().into());
        annotations.sort_keys();
    }
}

fn validate_template(object: &Value, causes: &mut Vec<Cause>) {
    let labels = object.pointer("/spec/template/metadata/labels");
    match object.pointer("/spec/selector") {
        None | Some(Value::Null) => causes.push(Cause::required("spec.selector", "")),
        Some(given) => {
            selector::check_object(given, "spec.selector", causes);
            let find = |key: &str| labels.and_then(|labels| labels.get(key)).and_then(Value::as_str);
            if given.as_object().is_some_and(serde_json::Map::is_empty) {
                let complaint = "empty selector is invalid for daemonset";
                causes.push(Cause::invalid("spec.selector", given, complaint));
            } else if !Selector::of_object(given).matches_labels(&find) {
                let shown = labels.cloned().unwrap_or_else(|| json!({}));
                let complaint = "`selector` does not match template `labels`";
                causes.push(Cause::invalid("spec.template.metadata.labels", &shown, complaint));
            }
        }
    }
    meta::labels(labels, "spec.template.labels", causes);
    let spec = object.pointer("/spec/template/spec").unwrap_or(&Value::Null);
    podspec::validate(spec, "spec.template.spec", causes);
}

fn validate_rolling(object: &Value, causes: &mut Vec<Cause>) {
    let amount = |field: &str| object.pointer(&format!("/spec/updateStrategy/rollingUpdate/{field}"));
    let zero = |value: Option<&Value>| match value {
        None => true,
        Some(Value::Number(number)) => number.as_i64() == Some(0),
        Some(Value::String(text)) => text == "0%" || text == "0",
        Some(_) => false,
    };
    for field in ["maxUnavailable", "maxSurge"] {
        meta::not_negative(object, &format!("/spec/updateStrategy/rollingUpdate/{field}"), causes);
    }
    let (unavailable, surge) = (amount("maxUnavailable"), amount("maxSurge"));
    let at = "spec.updateStrategy.rollingUpdate";
    if zero(unavailable) && zero(surge) {
        causes.push(Cause::required(
            format!("{at}.maxUnavailable"),
            "cannot be 0 when maxSurge is 0",
        ));
    } else if !zero(unavailable) && !zero(surge) {
        let shown = surge.cloned().unwrap_or_default();
        causes.push(Cause::invalid(
            format!("{at}.maxSurge"),
            &shown,
            "may not be set when maxUnavailable is non-zero",
        ));
    }
}

/// Selectable fields of ReplicaSets.
pub fn replica_set_fields(object: &Value) -> Fields {
    let replicas = object.pointer("/status/replicas").and_then(Value::as_i64).unwrap_or(0);
    vec![("status.replicas", replicas.to_string().into())]
}
