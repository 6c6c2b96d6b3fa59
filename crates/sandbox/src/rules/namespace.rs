//! Namespaces: the `kubernetes` finalizer, phases, the label of their name.

use serde_json::{Value, json};

use super::{Context, Rules, keep, meta, section, text};
use crate::Status;
use crate::status::Cause;
use crate::store::Fields;

/// Rules for namespaces.
#[derive(Debug)]
pub struct Namespaces;

impl Rules for Namespaces {
    fn defaults(&self, object: &mut Value) {
        let name = text(object, "/metadata/name").to_owned();
        if !name.is_empty() {
            let labels = section(&mut object["metadata"], "labels");
            labels.insert("kubernetes.io/metadata.name".to_owned(), name.into());
        }
        let status = section(object, "status");
        if status.get("phase").is_none_or(|phase| phase == "") {
            status.insert("phase".to_owned(), "Active".into());
        }
    }

    fn prepare_create(&self, object: &mut Value, _context: &Context<'_>) -> Result<(), Status> {
        self.defaults(object);
        object["status"] = json!({"phase": "Active"});
        let spec = section(object, "spec");
        let finalizers = spec.entry("finalizers").or_insert_with(|| json!([]));
        if let Value::Array(finalizers) = finalizers
            && !finalizers.iter().any(|one| one == "kubernetes")
        {
            finalizers.push("kubernetes".into());
        }
        Ok(())
    }

    fn named(&self, object: &mut Value) {
        self.defaults(object);
    }

    fn validate_status(&self, object: &Value, _old: &Value, causes: &mut Vec<Cause>) {
        let phase = object.pointer("/status/phase").cloned().unwrap_or_default();
        let going = object.pointer("/metadata/deletionTimestamp").is_some();
        let complaint = match (phase.as_str().unwrap_or_default(), going) {
            ("Active" | "", false) | ("Terminating", true) => return,
            (_, false) => "may only be 'Active' if `deletionTimestamp` is empty",
            (_, true) => "may only be 'Terminating' if `deletionTimestamp` is not empty",
        };
        causes.push(Cause::invalid("status.Phase", &phase, complaint));
    }

    fn prepare_update(&self, object: &mut Value, old: &Value, _context: &Context<'_>) -> Result<(), Status> {
        keep(object, old, "status");
        if let Some(finalizers) = old.pointer("/spec/finalizers") {
            section(object, "spec").insert("finalizers".to_owned(), finalizers.clone());
        }
        Ok(())
    }

    fn validate_name(&self, name: &str) -> Option<&'static str> {
        meta::label(name)
    }

    fn returns_deleted(&self) -> bool {
        true
    }
}

/// Selectable fields.
pub fn fields(object: &Value) -> Fields {
    vec![("status.phase", text(object, "/status/phase").into())]
}
