//! What a pod says about the nodes and the company it wants.

use serde_json::{Value, json};

use crate::api::{names, selector};
use crate::rules::{items, meta, text};
use crate::status::Cause;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Rules for an affinity at `at`.
pub fn validate(affinity: &Value, at: &str, causes: &mut Vec<Cause>) {
    if let Some(node) = affinity.get("nodeAffinity") {
        let at = format!("{at}.nodeAffinity");
        if let Some(required) = node.get(REQUIRED) {
            node_selector(required, &format!("{at}.{REQUIRED}"), causes);
        }
        for (index, preferred) in items(node, &format!("/{PREFERRED}")).iter().enumerate() {
            let at = format!("{at}.{PREFERRED}[{index}]");
            weight(preferred, &at, causes);
            term(
                preferred.get("preference").unwrap_or(&Value::Null),
                &format!("{at}.preference"),
                causes,
            );
        }
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(pods) = affinity.get(kind) else { continue };
        let at = format!("{at}.{kind}");
        for (index, term) in items(pods, &format!("/{REQUIRED}")).iter().enumerate() {
            pod_term(term, &format!("{at}.{REQUIRED}[{index}]"), causes);
        }
        for (index, preferred) in items(pods, &format!("/{PREFERRED}")).iter().enumerate() {
            let at = format!("{at}.{PREFERRED}[{index}]");
            weight(preferred, &at, causes);
            let term = preferred.get("podAffinityTerm").unwrap_or(&Value::Null);
            pod_term(term, &format!("{at}.podAffinityTerm"), causes);
        }
    }
}

fn weight(preferred: &Value, at: &str, causes: &mut Vec<Cause>) {
    let weight = preferred.get("weight").and_then(Value::as_i64).unwrap_or(0);
    if !(1..=100).contains(&weight) {
        causes.push(Cause::invalid(
            format!("{at}.weight"),
            &json!(weight),
            "must be in the range 1-100",
        ));
    }
}

fn node_selector(required: &Value, at: &str, causes: &mut Vec<Cause>) {
    let terms = items(required, "/nodeSelectorTerms");
    let at = format!("{at}.nodeSelectorTerms");
    if terms.is_empty() {
        causes.push(Cause::required(&at, "must have at least one node selector term"));
    }
    for (index, one) in terms.iter().enumerate() {
        term(one, &format!("{at}[{index}]"), causes);
    }
}

fn term(term: &Value, at: &str, causes: &mut Vec<Cause>) {
    for (index, expression) in items(term, "/matchExpressions").iter().enumerate() {
        label_expression(expression, &format!("{at}.matchExpressions[{index}]"), causes);
    }
    for (index, expression) in items(term, "/matchFields").iter().enumerate() {
        field_expression(expression, &format!("{at}.matchFields[{index}]"), causes);
    }
}

fn label_expression(expression: &Value, at: &str, causes: &mut Vec<Cause>) {
    let (key, operator) = (text(expression, "/key"), text(expression, "/operator"));
    let values = items(expression, "/values");
    match operator {
        "In" | "NotIn" if values.is_empty() => {
            let why = "must be specified when `operator` is 'In' or 'NotIn'";
            causes.push(Cause::required(format!("{at}.values"), why));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            causes.push(Cause::forbidden(format!("{at}.values"), why));
        }
        "Gt" | "Lt" if values.len() != 1 => {
            let why = "must be specified single value when `operator` is 'Lt' or 'Gt'";
            causes.push(Cause::required(format!("{at}.values"), why));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        other => causes.push(Cause::invalid(
            format!("{at}.operator"),
            &json!(other),
            "not a valid selector operator",
        )),
    }
    qualified(key, &format!("{at}.key"), causes);
}

/// What is wrong with the name of a label.
pub fn qualified(key: &str, at: &str, causes: &mut Vec<Cause>) {
    if !names::is_qualified_name(key) {
        causes.push(Cause::invalid(at, &json!(key), names::QUALIFIED_NAME_COMPLAINT));
    }
}

fn field_expression(expression: &Value, at: &str, causes: &mut Vec<Cause>) {
    let (key, operator) = (text(expression, "/key"), text(expression, "/operator"));
    match operator {
        "In" | "NotIn" if items(expression, "/values").len() != 1 => {
            let why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            causes.push(Cause::required(format!("{at}.values"), why));
        }
        "In" | "NotIn" => {}
        other => causes.push(Cause::invalid(
            format!("{at}.operator"),
            &json!(other),
            "not a valid selector operator",
        )),
    }
    if key != "metadata.name" {
        causes.push(Cause::invalid(
            format!("{at}.key"),
            &json!(key),
            "not a valid field selector key",
        ));
        return;
    }
    for (index, value) in items(expression, "/values").iter().enumerate() {
        if let Some(complaint) = meta::subdomain(value.as_str().unwrap_or_default()) {
            causes.push(Cause::invalid(format!("{at}.values[{index}]"), value, complaint));
        }
    }
}

fn pod_term(term: &Value, at: &str, causes: &mut Vec<Cause>) {
    for field in ["labelSelector", "namespaceSelector"] {
        if let Some(labels) = term.get(field) {
            selector::check_object(labels, &format!("{at}.{field}"), causes);
        }
    }
    for namespace in items(term, "/namespaces") {
        if let Some(complaint) = meta::label(namespace.as_str().unwrap_or_default()) {
            causes.push(Cause::invalid(format!("{at}.namespace"), namespace, complaint));
        }
    }
    let topology = text(term, "/topologyKey");
    if topology.is_empty() {
        causes.push(Cause::required(format!("{at}.topologyKey"), "can not be empty"));
    }
    qualified(topology, &format!("{at}.topologyKey"), causes);
}
