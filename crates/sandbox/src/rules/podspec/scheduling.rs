//! Where a pod may run, under which name and for how long.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::affinity;
use super::containers::one_of;
use crate::api::names;
use crate::rules::{items, meta, text};
use crate::status::Cause;

/// Rules for what decides where a pod runs.
pub fn validate(spec: &Value, path: &str, causes: &mut Vec<Cause>) {
    policies(spec, path, causes);
    naming(spec, path, causes);
    for (index, toleration) in items(spec, "/tolerations").iter().enumerate() {
        validate_toleration(toleration, &format!("{path}.tolerations[{index}]"), causes);
    }
    if let Some(wanted) = spec.get("affinity") {
        affinity::validate(wanted, &format!("{path}.affinity"), causes);
    }
    meta::labels(spec.get("nodeSelector"), &format!("{path}.nodeSelector"), causes);
    spread(spec, path, causes);
    gates(spec, path, causes);
    if let Some(deadline) = spec.get("activeDeadlineSeconds").and_then(Value::as_i64)
        && !(1..=i64::from(i32::MAX)).contains(&deadline)
    {
        let complaint = "must be between 1 and 2147483647, inclusive";
        causes.push(Cause::invalid(
            format!("{path}.activeDeadlineSeconds"),
            &json!(deadline),
            complaint,
        ));
    }
}

fn policies(spec: &Value, path: &str, causes: &mut Vec<Cause>) {
    let restarts = ["Always", "OnFailure", "Never"];
    one_of(spec, "restartPolicy", &format!("{path}.restartPolicy"), &restarts, causes);
    let resolvers = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    one_of(spec, "dnsPolicy", &format!("{path}.dnsPolicy"), &resolvers, causes);
    if text(spec, "/dnsPolicy") == "None" {
        match spec.get("dnsConfig") {
            None => {
                let why = "must provide `dnsConfig` when `dnsPolicy` is None";
                causes.push(Cause::required(format!("{path}.dnsConfig"), why));
            }
            Some(given) if items(given, "/nameservers").is_empty() => {
                let why = "must provide at least one DNS nameserver when `dnsPolicy` is None";
                causes.push(Cause::required(format!("{path}.dnsConfig.nameservers"), why));
            }
            Some(_) => {}
        }
    }
    one_of(
        spec,
        "preemptionPolicy",
        &format!("{path}.preemptionPolicy"),
        &["PreemptLowerPriority", "Never"],
        causes,
    );
}

fn naming(spec: &Value, path: &str, causes: &mut Vec<Cause>) {
    for field in ["nodeName", "serviceAccountName", "runtimeClassName"] {
        let name = text(spec, &format!("/{field}"));
        if !name.is_empty()
            && let Some(complaint) = meta::subdomain(name)
        {
            causes.push(Cause::invalid(format!("{path}.{field}"), &json!(name), complaint));
        }
    }
    for field in ["hostname", "subdomain"] {
        let name = text(spec, &format!("/{field}"));
        if name.is_empty() {
            continue;
        }
        if name.contains('.') {
            causes.push(Cause::invalid(
                format!("{path}.{field}"),
                &json!(name),
                "must not contain dots",
            ));
        } else if let Some(complaint) = meta::label(name) {
            causes.push(Cause::invalid(format!("{path}.{field}"), &json!(name), complaint));
        }
    }
    for (index, alias) in items(spec, "/hostAliases").iter().enumerate() {
        let ip = text(alias, "/ip");
        if ip.parse::<std::net::IpAddr>().is_err() {
            let complaint = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
            causes.push(Cause::invalid(
                format!("{path}.hostAliases[{index}].ip"),
                &json!(ip),
                complaint,
            ));
        }
    }
    for (index, gate) in items(spec, "/readinessGates").iter().enumerate() {
        let at = format!("{path}.readinessGates[{index}].conditionType");
        affinity::qualified(text(gate, "/conditionType"), &at, causes);
    }
}

fn spread(spec: &Value, path: &str, causes: &mut Vec<Cause>) {
    for (index, constraint) in items(spec, "/topologySpreadConstraints").iter().enumerate() {
        let at = format!("{path}.topologySpreadConstraints[{index}]");
        let skew = constraint.get("maxSkew").and_then(Value::as_i64).unwrap_or(0);
        if skew <= 0 {
            causes.push(Cause::invalid(
                format!("{at}.maxSkew"),
                &json!(skew),
                "must be greater than zero",
            ));
        }
        let key = text(constraint, "/topologyKey");
        if key.is_empty() {
            causes.push(Cause::required(format!("{at}.topologyKey"), "can not be empty"));
        } else {
            affinity::qualified(key, &format!("{at}.topologyKey"), causes);
        }
        let allowed = ["DoNotSchedule", "ScheduleAnyway"];
        one_of(
            constraint,
            "whenUnsatisfiable",
            &format!("{at}.whenUnsatisfiable"),
            &allowed,
            causes,
        );
    }
}

fn gates(spec: &Value, path: &str, causes: &mut Vec<Cause>) {
    let gates = items(spec, "/schedulingGates");
    let mut seen = BTreeSet::new();
    for (index, gate) in gates.iter().enumerate() {
        let (name, at) = (text(gate, "/name"), format!("{path}.schedulingGates[{index}]"));
        affinity::qualified(name, &at, causes);
        if seen.contains(&name) {
            causes.push(Cause::duplicate(at, &json!(name)));
        }
        seen.insert(name);
    }
    if !gates.is_empty() && !text(spec, "/nodeName").is_empty() {
        let why = "cannot be set until all schedulingGates have been cleared";
        causes.push(Cause::forbidden(format!("{path}.nodeName"), why));
    }
}

fn validate_toleration(toleration: &Value, at: &str, causes: &mut Vec<Cause>) {
    let (key, operator) = (text(toleration, "/key"), text(toleration, "/operator"));
    let (value, effect) = (text(toleration, "/value"), text(toleration, "/effect"));
    if !key.is_empty() && !names::is_qualified_name(key) {
        causes.push(Cause::invalid(
            format!("{at}.key"),
            &json!(key),
            names::QUALIFIED_NAME_COMPLAINT,
        ));
    }
    if key.is_empty() && operator != "Exists" {
        let complaint = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        causes.push(Cause::invalid(format!("{at}.operator"), &json!(operator), complaint));
    }
    if toleration.get("tolerationSeconds").is_some() && effect != "NoExecute" {
        let complaint = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        causes.push(Cause::invalid(format!("{at}.effect"), &json!(effect), complaint));
    }
    match operator {
        "Equal" | "" if !names::is_label_value(value) => {
            causes.push(Cause::invalid(
                format!("{at}.operator"),
                &json!(value),
                names::LABEL_VALUE_COMPLAINT,
            ));
        }
        "Exists" if !value.is_empty() => {
            let complaint = "value must be empty when `operator` is 'Exists'";
            causes.push(Cause::invalid(format!("{at}.operator"), &json!(value), complaint));
        }
        "Equal" | "" | "Exists" => {}
        other => causes.push(Cause::unsupported(
            format!("{at}.operator"),
            &json!(other),
            &["Equal", "Exists"],
        )),
    }
    if !matches!(effect, "" | "NoSchedule" | "PreferNoSchedule" | "NoExecute") {
        let allowed = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        causes.push(Cause::unsupported(format!("{at}.effect"), &json!(effect), &allowed));
    }
}
