//! Nodes: admission taints new ones, some fields are set once.

use serde_json::{Value, json};

use super::{Context, Rules, items, keep, section, text};
use crate::Status;
use crate::api::names;
use crate::status::Cause;
use crate::store::Fields;

const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// Rules for nodes.
#[derive(Debug)]
pub struct Nodes;

impl Rules for Nodes {
    fn defaults(&self, object: &mut Value) {
        let spec = section(object, "spec");
        if let Some(cidr) = spec.get("podCIDR").cloned()
            && !spec.contains_key("podCIDRs")
        {
            spec.insert("podCIDRs".to_owned(), json!([cidr]));
        }
        let status = section(object, "status");
        if let Some(capacity) = status.get("capacity").cloned()
            && !status.contains_key("allocatable")
        {
            status.insert("allocatable".to_owned(), capacity);
        }
    }

    fn prepare_create(&self, object: &mut Value, _context: &Context<'_>) -> Result<(), Status> {
        let has = items(object, "/spec/taints")
            .iter()
            .any(|taint| text(taint, "/key") == NOT_READY && text(taint, "/effect") == "NoSchedule");
        if !has {
            let taints = section(object, "spec").entry("taints").or_insert_with(|| json!([]));
            if let Value::Array(taints) = taints {
                taints.push(json!({"key": NOT_READY, "effect": "NoSchedule"}));
            }
        }
        Ok(())
    }

    fn prepare_update(&self, object: &mut Value, old: &Value, _context: &Context<'_>) -> Result<(), Status> {
        keep(object, old, "status");
        Ok(())
    }

    fn validate(&self, object: &Value, causes: &mut Vec<Cause>) {
        taints(object, causes);
    }

    fn validate_update(&self, object: &Value, old: &Value, causes: &mut Vec<Cause>) {
        self.validate(object, causes);
        let (provider, before) = (text(object, "/spec/providerID"), text(old, "/spec/providerID"));
        if !before.is_empty() && provider != before {
            let why = "node updates may not change providerID except from \"\" to valid";
            causes.push(Cause::forbidden("spec.providerID", why));
        }
        let cidrs = |object: &Value| items(object, "/spec/podCIDRs").to_vec();
        if !cidrs(old).is_empty() && cidrs(object) != cidrs(old) {
            let why = "node updates may not change podCIDR except from \"\" to valid";
            causes.push(Cause::forbidden("spec.podCIDRs", why));
        }
    }

    fn validate_status(&self, object: &Value, old: &Value, causes: &mut Vec<Cause>) {
        self.validate_update(object, old, causes);
    }
}

fn taints(object: &Value, causes: &mut Vec<Cause>) {
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for (index, taint) in items(object, "/spec/taints").iter().enumerate() {
        let at = format!("spec.taints[{index}]");
        let (key, value, effect) = (text(taint, "/key"), text(taint, "/value"), text(taint, "/effect"));
        if !names::is_qualified_name(key) {
            causes.push(Cause::invalid(
                format!("{at}.key"),
                &json!(key),
                names::QUALIFIED_NAME_COMPLAINT,
            ));
        }
        if !names::is_label_value(value) {
            causes.push(Cause::invalid(
                format!("{at}.value"),
                &json!(value),
                names::LABEL_VALUE_COMPLAINT,
            ));
        }
        match effect {
            "NoSchedule" | "PreferNoSchedule" | "NoExecute" => {}
            "" => causes.push(Cause::required(format!("{at}.effect"), "")),
            other => {
                let allowed = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
                causes.push(Cause::unsupported(format!("{at}.effect"), &json!(other), &allowed));
            }
        }
        if seen.contains(&(key, effect)) {
            causes.push(Cause::duplicate(at, taint));
        }
        seen.push((key, effect));
    }
}

/// Selectable fields.
pub fn fields(object: &Value) -> Fields {
    let unschedulable = object.pointer("/spec/unschedulable") == Some(&Value::Bool(true));
    vec![("spec.unschedulable", if unschedulable { "true" } else { "false" }.into())]
}
