//! PriorityClasses.

use serde_json::{Value, json};

use super::{Context, Rules, default, meta, text};
use crate::Status;
use crate::status::Cause;
use crate::store::Store;

/// Greatest value that is not the system's.
const HIGHEST: i64 = 1_000_000_000;

/// Rules for priority classes.
#[derive(Debug)]
pub struct Classes;

/// The class of pods that name none.
pub fn default_class(store: &Store) -> Option<Value> {
    let classes = store.table("priorityclasses.scheduling.k8s.io")?;
    let marked = classes.iter().map(|class| class.value());
    marked
        .filter(|class| class.get("globalDefault") == Some(&Value::Bool(true)))
        .min_by_key(|class| class.get("value").and_then(Value::as_i64))
}

impl Rules for Classes {
    fn defaults(&self, object: &mut Value) {
        if let Value::Object(fields) = object {
            default(fields, "preemptionPolicy", "PreemptLowerPriority");
        }
    }

    fn prepare_create(&self, object: &mut Value, context: &Context<'_>) -> Result<(), Status> {
        one_default(object, context)
    }

    fn prepare_update(&self, object: &mut Value, old: &Value, context: &Context<'_>) -> Result<(), Status> {
        let _ = old;
        one_default(object, context)
    }

    fn validate(&self, object: &Value, causes: &mut Vec<Cause>) {
        let name = text(object, "/metadata/name");
        let value = object.get("value").and_then(Value::as_i64).unwrap_or(0);
        if name.starts_with("system-") {
            if !matches!(name, "system-node-critical" | "system-cluster-critical") {
                let why = format!(
                    "priority class names with 'system-' prefix are reserved for system use only. error: {name} is not a known \
                     system priority class"
                );
                causes.push(Cause::forbidden("metadata.name", &why));
            }
        } else if value > HIGHEST {
            let why = format!("maximum allowed value of a user defined priority is {HIGHEST}");
            causes.push(Cause::forbidden("value", &why));
        }
        let policy = text(object, "/preemptionPolicy");
        if !matches!(policy, "PreemptLowerPriority" | "Never") {
            let allowed = ["PreemptLowerPriority", "Never"];
            causes.push(Cause::unsupported("preemptionPolicy", &json!(policy), &allowed));
        }
    }

    fn validate_update(&self, object: &Value, old: &Value, causes: &mut Vec<Cause>) {
        if object.get("value") != old.get("value") {
            causes.push(Cause::forbidden("value", "may not be changed in an update."));
        }
        meta::immutable(object, old, "/preemptionPolicy", causes);
    }

    fn has_generation(&self) -> bool {
        true
    }
}

fn one_default(object: &Value, context: &Context<'_>) -> Result<(), Status> {
    let name = text(object, "/metadata/name");
    if object.get("globalDefault") != Some(&Value::Bool(true)) {
        return Ok(());
    }
    match default_class(context.store) {
        Some(other) if text(&other, "/metadata/name") != name => {
            let why = format!(
                "PriorityClass {} is already marked as default. Only one default can exist",
                text(&other, "/metadata/name")
            );
            Err(Status::forbidden("scheduling.k8s.io", "priorityclasses", name, &why))
        }
        _ => Ok(()),
    }
}
