//! Nodes: admission taints new ones, some fields are set once.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{Context, Rules, find, items, keep, section, text};
use crate::Status;
use crate::api::names;
use crate::schema::quantity;
use crate::status::Cause;
use crate::store::Fields;

const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// Rules for nodes.
#[derive(Debug)]
pub struct Nodes;

impl Rules for Nodes {
    fn defaults(&self, object: &mut Value) {
        let spec = section(object, "spec");
        // Long gone, but the field is still known.
        spec.shift_remove("configSource");
        same_networks(spec);
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
        networks(object, causes);
        amounts(object, causes);
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

    fn warnings(&self, object: &Value) -> Vec<String> {
        if text(object, "/spec/externalID").is_empty() {
            return Vec::new();
        }
        vec!["spec.externalID: this field is deprecated, and is unused by Kubernetes".to_owned()]
    }
}

/// The single network is the first of all; where they differ, the single one counts.
fn same_networks(spec: &mut Map<String, Value>) {
    let single = spec.get("podCIDR").and_then(Value::as_str).unwrap_or_default().to_owned();
    let first = spec.get("podCIDRs").and_then(|list| list.get(0)).cloned();
    match first {
        Some(first) if single.is_empty() => {
            spec.insert("podCIDR".to_owned(), first);
        }
        Some(first) if first == single.as_str() => {}
        _ if single.is_empty() => {}
        _ => {
            spec.insert("podCIDRs".to_owned(), json!([single]));
        }
    }
}

fn networks(object: &Value, causes: &mut Vec<Cause>) {
    let list = items(object, "/spec/podCIDRs");
    let mut families = Vec::new();
    for (index, network) in list.iter().enumerate() {
        let (address, bits) = network.as_str().and_then(|text| text.split_once('/')).unwrap_or_default();
        let address = address.parse::<std::net::IpAddr>();
        let most = if matches!(address, Ok(std::net::IpAddr::V4(_))) {
            32
        } else {
            128
        };
        if let Ok(address) = address
            && bits.parse::<u8>().is_ok_and(|bits| bits <= most)
        {
            families.push(address.is_ipv4());
        } else {
            let complaint = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
            causes.push(Cause::invalid(format!("spec.podCIDRs[{index}]"), network, complaint));
        }
    }
    if list.len() > 1 && (list.len() > 2 || families.first() == families.get(1)) {
        let complaint = "may specify no more than one CIDR for each IP family";
        causes.push(Cause::invalid("spec.podCIDRs", &json!(list), complaint));
    }
}

/// Amounts are never negative, and whole where the resource only comes in pieces.
fn amounts(object: &Value, causes: &mut Vec<Cause>) {
    for list in ["capacity", "allocatable"] {
        let pointer = format!("/status/{list}");
        for (name, value) in find(object, &pointer).and_then(Value::as_object).into_iter().flatten() {
            if value.as_str().and_then(quantity::millis).is_some_and(|amount| amount < 0) {
                let complaint = "must be greater than or equal to 0";
                causes.push(Cause::invalid(format!("status.{list}.{name}"), value, complaint));
            }
        }
    }
}

fn taints(object: &Value, causes: &mut Vec<Cause>) {
    let mut seen: BTreeSet<(&str, &str)> = BTreeSet::new();
    for (index, taint) in items(object, "/spec/taints").iter().enumerate() {
        let at = format!("metadata.taints[{index}]");
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
        seen.insert((key, effect));
    }
}

/// Selectable fields.
pub fn fields(object: &Value) -> Fields {
    let unschedulable = find(object, "/spec/unschedulable") == Some(&Value::Bool(true));
    vec![("spec.unschedulable", if unschedulable { "true" } else { "false" }.into())]
}
