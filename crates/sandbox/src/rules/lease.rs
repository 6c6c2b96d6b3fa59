//! Leases.

use serde_json::{Value, json};

use super::{Context, Rules, find};
use crate::Status;
use crate::status::Cause;

/// Rules for leases.
#[derive(Debug)]
pub struct Leases;

impl Rules for Leases {
    fn defaults(&self, object: &mut Value) {
        // Coordinated leader election is not on by default, and then its fields are not kept.
        if let Some(Value::Object(spec)) = object.get_mut("spec") {
            spec.shift_remove("strategy");
            spec.shift_remove("preferredHolder");
        }
    }

    fn prepare_update(&self, _object: &mut Value, _old: &Value, _context: &Context<'_>) -> Result<(), Status> {
        Ok(())
    }

    fn validate(&self, object: &Value, causes: &mut Vec<Cause>) {
        let number = |field: &str| find(object, field).and_then(Value::as_i64);
        if let Some(seconds) = number("/spec/leaseDurationSeconds")
            && seconds <= 0
        {
            causes.push(Cause::invalid(
                "spec.leaseDurationSeconds",
                &json!(seconds),
                "must be greater than 0",
            ));
        }
        if let Some(transitions) = number("/spec/leaseTransitions")
            && transitions < 0
        {
            causes.push(Cause::invalid(
                "spec.leaseTransitions",
                &json!(transitions),
                "must be greater than or equal to 0",
            ));
        }
    }

    fn strict_finalizers(&self) -> bool {
        false
    }

    fn unconditional_update(&self) -> bool {
        false
    }

    fn create_on_update(&self) -> bool {
        true
    }
}
