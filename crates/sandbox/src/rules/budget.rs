//! PodDisruptionBudgets.

use serde_json::{Value, json};

use super::{Context, Rules, items, meta, text};
use crate::Status;
use crate::api::selector;
use crate::status::Cause;

/// Rules for disruption budgets.
#[derive(Debug)]
pub struct Budgets;

impl Rules for Budgets {
    fn prepare_create(&self, object: &mut Value, _context: &Context<'_>) -> Result<(), Status> {
        object["status"] = json!({"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0});
        Ok(())
    }

    fn validate(&self, object: &Value, causes: &mut Vec<Cause>) {
        let spec = object.get("spec").cloned().unwrap_or_default();
        if spec.get("minAvailable").is_some() && spec.get("maxUnavailable").is_some() {
            // The fields as they are called before they are JSON.
            let given = |field: &str| spec.get(field).cloned().unwrap_or_default();
            let shown = json!({
                "MinAvailable": given("minAvailable"), "Selector": given("selector"), "MaxUnavailable": given("maxUnavailable"),
                "UnhealthyPodEvictionPolicy": given("unhealthyPodEvictionPolicy"),
            });
            causes.push(Cause::invalid(
                "spec",
                &shown,
                "minAvailable and maxUnavailable cannot be both set",
            ));
        }
        for field in ["minAvailable", "maxUnavailable"] {
            amount(&spec, field, causes);
        }
        match spec.get("unhealthyPodEvictionPolicy").and_then(Value::as_str) {
            None | Some("AlwaysAllow" | "IfHealthyBudget") => {}
            Some(other) => causes.push(Cause::unsupported(
                "spec.unhealthyPodEvictionPolicy",
                &json!(other),
                &["AlwaysAllow", "IfHealthyBudget"],
            )),
        }
        if let Some(labels) = spec.get("selector") {
            selector::check_object(labels, "spec.selector", causes);
        }
    }

    fn validate_status(&self, object: &Value, _old: &Value, causes: &mut Vec<Cause>) {
        for field in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
            meta::not_negative(object, &format!("/status/{field}"), causes);
        }
        for (index, condition) in items(object, "/status/conditions").iter().enumerate() {
            for field in ["type", "status", "lastTransitionTime", "reason"] {
                if text(condition, &format!("/{field}")).is_empty() {
                    causes.push(Cause::required(format!("status.conditions[{index}].{field}"), ""));
                }
            }
        }
    }

    fn validate_name(&self, name: &str) -> Option<&'static str> {
        meta::segment(name)
    }

    fn strict_finalizers(&self) -> bool {
        false
    }

    fn unconditional_update(&self) -> bool {
        false
    }

    fn has_generation(&self) -> bool {
        true
    }
}

fn amount(spec: &Value, field: &str, causes: &mut Vec<Cause>) {
    let at = format!("spec.{field}");
    match spec.get(field) {
        Some(Value::Number(number)) if number.as_i64().is_some_and(|number| number < 0) => {
            causes.push(Cause::invalid(at, &json!(number), "must be greater than or equal to 0"));
        }
        Some(Value::String(text)) => {
            let percent = text
                .strip_suffix('%')
                .filter(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()));
            match percent.and_then(|digits| digits.parse::<i64>().ok()) {
                None => {
                    let complaint = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or \
                                     '93%', regex used for validation is '[0-9]+%')";
                    causes.push(Cause::invalid(at, &json!(text), complaint));
                }
                Some(percent) if percent > 100 => {
                    causes.push(Cause::invalid(at, &json!(text), "must not be greater than 100%"));
                }
                Some(_) => {}
            }
        }
        _ => {}
    }
}
