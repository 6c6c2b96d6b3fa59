//! DaemonSets and their revisions; Deployments, ReplicaSets and StatefulSets as plain objects with defaults.

use serde_json::{Value, json};

use super::{Context, Rules, default, keep, meta, podspec, section, text};
use crate::Status;
use crate::status::Cause;

mod rollout;
mod template;

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
        // It stands for a field of the spec, which is there, said or not.
        if object
            .pointer("/metadata/annotations")
            .and_then(|all| all.get(TEMPLATE_GENERATION))
            .is_none()
        {
            annotate(object, 0);
        }
        let spec = section(object, "spec");
        template_defaults(spec);
        default(spec, "revisionHistoryLimit", 10);
        let strategy = spec.entry("updateStrategy").or_insert_with(|| json!({}));
        if let Value::Object(strategy) = strategy {
            default(strategy, "type", "RollingUpdate");
            if strategy.get("type").and_then(Value::as_str) == Some("RollingUpdate") {
                strategy.entry("rollingUpdate").or_insert_with(|| json!({}));
            }
            if let Some(Value::Object(rolling)) = strategy.get_mut("rollingUpdate") {
                default(rolling, "maxUnavailable", 1);
                default(rolling, "maxSurge", 0);
            }
        }
    }

    fn prepare_create(&self, object: &mut Value, _context: &Context<'_>) -> Result<(), Status> {
        object["status"] =
            json!({"currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0});
        annotate(object, template_generation(object).max(1));
        Ok(())
    }

    fn prepare_update(&self, object: &mut Value, old: &Value, _context: &Context<'_>) -> Result<(), Status> {
        keep(object, old, "status");
        let changed = object.pointer("/spec/template") != old.pointer("/spec/template");
        annotate(object, template_generation(old) + i64::from(changed));
        if object.get("spec") != old.get("spec") {
            meta::grow_generation(object, old);
        }
        Ok(())
    }

    fn prepare_status(&self, object: &mut Value, old: &Value) {
        keep(object, old, "spec");
        annotate(object, template_generation(old));
    }

    fn validate(&self, object: &Value, causes: &mut Vec<Cause>) {
        template::validate(object, "DaemonSet", causes);
        for field in ["minReadySeconds", "revisionHistoryLimit"] {
            meta::not_negative(object, &format!("/spec/{field}"), causes);
        }
        match text(object, "/spec/updateStrategy/type") {
            "OnDelete" => {}
            "RollingUpdate" => rollout::daemons(object, causes),
            _ => {
                let strategy = object.pointer("/spec/updateStrategy").cloned().unwrap_or_default();
                causes.push(Cause::unsupported(
                    "spec.updateStrategy",
                    &strategy,
                    &["RollingUpdate", "OnDelete"],
                ));
            }
        }
    }

    fn warnings(&self, object: &Value) -> Vec<String> {
        template::warnings(object)
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
        let collisions = |object: &Value| object.pointer("/status/collisionCount").and_then(Value::as_i64).unwrap_or(0);
        let now = collisions(object);
        if now < collisions(old) {
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
        match object.get("data") {
            None | Some(Value::Null) => causes.push(Cause::required("data", "data is mandatory")),
            Some(Value::Object(_)) => {}
            Some(_) => causes.push(Cause::required("data", "data must be a valid JSON object")),
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
                        let rolling = strategy.entry("rollingUpdate").or_insert_with(|| json!({}));
                        if let Value::Object(rolling) = rolling {
                            default(rolling, "maxUnavailable", "25%");
                            default(rolling, "maxSurge", "25%");
                        }
                    }
                }
            }
            "StatefulSet" => {
                default(spec, "revisionHistoryLimit", 10);
                default(spec, "podManagementPolicy", "OrderedReady");
                default(
                    spec,
                    "persistentVolumeClaimRetentionPolicy",
                    json!({"whenDeleted": "Retain", "whenScaled": "Retain"}),
                );
                let strategy = spec.entry("updateStrategy").or_insert_with(|| json!({}));
                if let Value::Object(strategy) = strategy {
                    default(strategy, "type", "RollingUpdate");
                    if strategy.get("type").and_then(Value::as_str) == Some("RollingUpdate") {
                        let rolling = strategy.entry("rollingUpdate").or_insert_with(|| json!({}));
                        if let Value::Object(rolling) = rolling {
                            default(rolling, "partition", 0);
                        }
                    }
                }
            }
            _ => {}
        }
    }

    fn prepare_create(&self, object: &mut Value, _context: &Context<'_>) -> Result<(), Status> {
        object["status"] = match text(object, "/kind") {
            "Deployment" => json!({}),
            "StatefulSet" => json!({"replicas": 0, "availableReplicas": 0}),
            _ => json!({"replicas": 0}),
        };
        Ok(())
    }

    fn prepare_update(&self, object: &mut Value, old: &Value, _context: &Context<'_>) -> Result<(), Status> {
        keep(object, old, "status");
        let annotated = object.pointer("/metadata/annotations") != old.pointer("/metadata/annotations");
        if object.get("spec") != old.get("spec") || (annotated && text(object, "/kind") == "Deployment") {
            meta::grow_generation(object, old);
        }
        Ok(())
    }

    fn prepare_status(&self, object: &mut Value, old: &Value) {
        keep(object, old, "spec");
        if text(object, "/kind") == "Deployment" {
            let labels = old.get("metadata").cloned().unwrap_or_default();
            keep(&mut object["metadata"], &labels, "labels");
        }
    }

    fn validate(&self, object: &Value, causes: &mut Vec<Cause>) {
        template::validate(object, text(object, "/kind"), causes);
        for field in [
            "replicas",
            "minReadySeconds",
            "revisionHistoryLimit",
            "progressDeadlineSeconds",
        ] {
            meta::not_negative(object, &format!("/spec/{field}"), causes);
        }
        match text(object, "/kind") {
            "Deployment" => rollout::deployment(object, causes),
            "StatefulSet" => rollout::stateful(object, causes),
            _ => {}
        }
    }

    fn warnings(&self, object: &Value) -> Vec<String> {
        template::warnings(object)
    }

    fn validate_update(&self, object: &Value, old: &Value, causes: &mut Vec<Cause>) {
        if text(object, "/kind") == "StatefulSet" {
            rollout::stateful_change(object, old, causes);
        } else {
            meta::immutable(object, old, "/spec/selector", causes);
        }
        self.validate(object, causes);
    }

    fn validate_status(&self, object: &Value, _old: &Value, causes: &mut Vec<Cause>) {
        rollout::counts(object, causes);
    }

    fn has_generation(&self) -> bool {
        true
    }
}

fn template_defaults(spec: &mut serde_json::Map<String, Value>) {
    let template = spec.entry("template").or_insert_with(|| json!({}));
    podspec::defaults(section(template, "spec"));
}

fn template_generation(object: &Value) -> i64 {
    let annotation = format!("/metadata/annotations/{TEMPLATE_GENERATION}");
    text(object, &annotation).parse().unwrap_or(1)
}

fn annotate(object: &mut Value, generation: i64) {
    let metadata = section(object, "metadata");
    let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
    if let Value::Object(annotations) = annotations {
        annotations.insert(TEMPLATE_GENERATION.to_owned(), generation.to_string().into());
        annotations.sort_keys();
    }
}
