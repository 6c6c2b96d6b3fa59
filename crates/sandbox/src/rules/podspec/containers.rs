//! Containers of a pod: names, images, ports, resources.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{environment, probes, security};
use crate::api::names;
use crate::rules::{find, items, text};
use crate::schema::quantity;
use crate::status::Cause;

const PULL_POLICIES: [&str; 3] = ["Always", "IfNotPresent", "Never"];
const STANDARD: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// Fields that a container for debugging may not have.
const NOT_EPHEMERAL: [&str; 6] = [
    "ports",
    "resources",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
];

/// Rules for all containers.
pub fn validate(spec: &Value, path: &str, causes: &mut Vec<Cause>) {
    if items(spec, "/containers").is_empty() {
        causes.push(Cause::required(format!("{path}.containers"), ""));
    }
    let mut names = BTreeSet::new();
    for list in ["containers", "initContainers"] {
        for (index, one) in items(spec, &format!("/{list}")).iter().enumerate() {
            let at = format!("{path}.{list}[{index}]");
            validate_one(spec, one, &at, &mut names, causes);
            if list == "initContainers" {
                validate_init(one, &at, causes);
            }
        }
    }
    host_ports(spec, path, causes);
}

fn validate_one<'a>(spec: &Value, one: &'a Value, at: &str, seen: &mut BTreeSet<&'a str>, causes: &mut Vec<Cause>) {
    name(one, at, seen, causes);
    image(one, at, causes);
    ports(spec, one, at, causes);
    environment::validate(one, at, causes);
    probes::validate(spec, one, at, causes);
    resources(spec, one, at, causes);
    security::validate_container(one, &format!("{at}.securityContext"), causes);
    for (index, policy) in items(one, "/resizePolicy").iter().enumerate() {
        let _ = index;
        one_of(
            policy,
            "resourceName",
            &format!("{at}.resizePolicy"),
            &["cpu", "memory"],
            causes,
        );
        one_of(
            policy,
            "restartPolicy",
            &format!("{at}.resizePolicy"),
            &["NotRequired", "RestartContainer"],
            causes,
        );
    }
}

/// A text that, if it is there, is one of these; the complaint names `at` itself.
pub fn one_of(object: &Value, field: &str, at: &str, allowed: &[&str], causes: &mut Vec<Cause>) {
    if let Some(given) = object.get(field).filter(|given| !given.is_null())
        && !given.as_str().is_some_and(|given| allowed.contains(&given))
    {
        causes.push(Cause::unsupported(at, given, allowed));
    }
}

fn name<'a>(one: &'a Value, at: &str, seen: &mut BTreeSet<&'a str>, causes: &mut Vec<Cause>) {
    let name = text(one, "/name");
    if name.is_empty() {
        causes.push(Cause::required(format!("{at}.name"), ""));
    } else if !names::is_dns_label(name) {
        causes.push(Cause::invalid(
            format!("{at}.name"),
            &json!(name),
            names::dns_label_complaint(name),
        ));
    } else if seen.contains(&name) {
        causes.push(Cause::duplicate(format!("{at}.name"), &json!(name)));
    }
    seen.insert(name);
}

fn image(one: &Value, at: &str, causes: &mut Vec<Cause>) {
    let image = text(one, "/image");
    if image.is_empty() {
        causes.push(Cause::required(format!("{at}.image"), ""));
    } else if image.trim() != image {
        let complaint = "must not have leading or trailing whitespace";
        causes.push(Cause::invalid(format!("{at}.image"), &json!(image), complaint));
    }
    one_of(
        one,
        "imagePullPolicy",
        &format!("{at}.imagePullPolicy"),
        &PULL_POLICIES,
        causes,
    );
    let policies = ["File", "FallbackToLogsOnError"];
    one_of(
        one,
        "terminationMessagePolicy",
        &format!("{at}.terminationMessagePolicy"),
        &policies,
        causes,
    );
}

fn validate_init(one: &Value, at: &str, causes: &mut Vec<Cause>) {
    let policy = text(one, "/restartPolicy");
    if policy == "Always" {
        return;
    }
    one_of(
        one,
        "restartPolicy",
        &format!("{at}.restartPolicy"),
        &["Always", "OnFailure", "Never"],
        causes,
    );
    for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
        if one.get(field).is_some() {
            let complaint = "may not be set for init containers without restartPolicy=Always";
            causes.push(Cause::forbidden(format!("{at}.{field}"), complaint));
        }
    }
}

/// What is wrong with the number of a port.
pub fn port_number(number: i64, at: String, causes: &mut Vec<Cause>) {
    if !(1..=65535).contains(&number) {
        causes.push(Cause::invalid(at, &json!(number), "must be between 1 and 65535, inclusive"));
    }
}

/// What is wrong with the name of a port.
pub fn port_name(name: &str, at: &str, causes: &mut Vec<Cause>) {
    let mut complain = |complaint: &str| causes.push(Cause::invalid(at, &json!(name), complaint));
    if name.len() > 15 {
        complain("must be no more than 15 characters");
    }
    let known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if !name.bytes().all(known) {
        complain("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)");
    }
    if !name.bytes().any(|byte| byte.is_ascii_lowercase()) {
        complain("must contain at least one letter (a-z)");
    }
    if name.contains("--") {
        complain("must not contain consecutive hyphens");
    }
    if name.starts_with('-') || name.ends_with('-') {
        complain("must not begin or end with a hyphen");
    }
}

fn ports(spec: &Value, one: &Value, at: &str, causes: &mut Vec<Cause>) {
    let mut seen = BTreeSet::new();
    let host_network = spec.get("hostNetwork") == Some(&Value::Bool(true));
    for (index, port) in items(one, "/ports").iter().enumerate() {
        let at = format!("{at}.ports[{index}]");
        let name = text(port, "/name");
        if !name.is_empty() {
            port_name(name, &format!("{at}.name"), causes);
            if seen.contains(&name) {
                causes.push(Cause::duplicate(format!("{at}.name"), &json!(name)));
            }
            seen.insert(name);
        }
        let number = |field: &str| port.get(field).and_then(Value::as_i64).unwrap_or(0);
        match number("containerPort") {
            0 => causes.push(Cause::required(format!("{at}.containerPort"), "")),
            container => port_number(container, format!("{at}.containerPort"), causes),
        }
        if number("hostPort") != 0 {
            port_number(number("hostPort"), format!("{at}.hostPort"), causes);
            if host_network && number("hostPort") != number("containerPort") {
                let complaint = "must match `containerPort` when `hostNetwork` is true";
                causes.push(Cause::invalid(
                    format!("{at}.hostPort"),
                    &json!(number("hostPort")),
                    complaint,
                ));
            }
        }
        one_of(port, "protocol", &format!("{at}.protocol"), &["SCTP", "TCP", "UDP"], causes);
    }
}

/// No two containers may claim the same port of the node.
fn host_ports(spec: &Value, path: &str, causes: &mut Vec<Cause>) {
    let mut taken = Vec::new();
    for (index, one) in items(spec, "/containers").iter().enumerate() {
        for (port_index, port) in items(one, "/ports").iter().enumerate() {
            let host = port.get("hostPort").and_then(Value::as_i64).unwrap_or(0);
            if host == 0 {
                continue;
            }
            let claim = format!("{}/{}/{host}", text(port, "/protocol"), text(port, "/hostIP"));
            if taken.contains(&claim) {
                let at = format!("{path}.containers[{index}].ports[{port_index}].hostPort");
                causes.push(Cause::duplicate(at, &json!(claim)));
            }
            taken.push(claim);
        }
    }
}

fn amount(value: &Value) -> i128 {
    value.as_str().and_then(quantity::millis).map_or(0, i128::from)
}

fn resources(spec: &Value, one: &Value, at: &str, causes: &mut Vec<Cause>) {
    let at = format!("{at}.resources");
    let listed = |field: &str| find(one, &format!("/resources/{field}")).and_then(Value::as_object);
    for field in ["limits", "requests"] {
        for (name, value) in listed(field).into_iter().flatten() {
            resource(name, value, &format!("{at}.{field}[{name}]"), causes);
        }
    }
    for (name, request) in listed("requests").into_iter().flatten() {
        match listed("limits").and_then(|limits| limits.get(name)) {
            Some(limit) if amount(request) > amount(limit) => {
                let limit = limit.as_str().unwrap_or_default();
                let complaint = format!("must be less than or equal to {name} limit of {limit}");
                causes.push(Cause::invalid(format!("{at}.requests"), request, &complaint));
            }
            Some(limit) if amount(request) != amount(limit) && is_extended(name) => {
                let complaint = format!("must be equal to {name} limit of {}", limit.as_str().unwrap_or_default());
                causes.push(Cause::invalid(format!("{at}.requests"), request, &complaint));
            }
            None if is_extended(name) => {
                let why = "Limit must be set for non overcommitable resources";
                causes.push(Cause::required(format!("{at}.limits"), why));
            }
            _ => {}
        }
    }
    for (index, claim) in items(one, "/resources/claims").iter().enumerate() {
        let name = text(claim, "/name");
        if !items(spec, "/resourceClaims")
            .iter()
            .any(|known| text(known, "/name") == name)
        {
            let message = format!("Not found: \"{name}\"");
            causes.push(Cause::new("FieldValueNotFound", format!("{at}.claims[{index}]"), message));
        }
    }
}

fn is_extended(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/")
}

fn resource(name: &str, value: &Value, at: &str, causes: &mut Vec<Cause>) {
    if !names::is_qualified_name(name) {
        causes.push(Cause::invalid(at, &json!(name), names::QUALIFIED_NAME_COMPLAINT));
    } else if !name.contains('/') && !STANDARD.contains(&name) && !name.starts_with("hugepages-") {
        causes.push(Cause::invalid(
            at,
            &json!(name),
            "must be a standard resource type or fully qualified",
        ));
        causes.push(Cause::invalid(at, &json!(name), "must be a standard resource for containers"));
    }
    if amount(value) < 0 {
        causes.push(Cause::invalid(at, value, "must be greater than or equal to 0"));
    } else if is_extended(name) && amount(value) % 1000 != 0 {
        causes.push(Cause::invalid(at, value, "must be an integer"));
    }
}

/// Rules for containers that are added for debugging.
pub fn ephemeral(spec: &Value, causes: &mut Vec<Cause>) {
    let mut names = BTreeSet::new();
    for list in ["containers", "initContainers"] {
        names.extend(items(spec, &format!("/{list}")).iter().map(|one| text(one, "/name")));
    }
    let regular = names.clone();
    for (index, one) in items(spec, "/ephemeralContainers").iter().enumerate() {
        let at = format!("spec.ephemeralContainers[{index}]");
        name(one, &at, &mut names, causes);
        image(one, &at, causes);
        environment::validate(one, &at, causes);
        let target = text(one, "/targetContainerName");
        if !target.is_empty() && !regular.contains(&target) {
            let message = format!("Not found: \"{target}\"");
            causes.push(Cause::new("FieldValueNotFound", format!("{at}.targetContainerName"), message));
        }
        for field in NOT_EPHEMERAL {
            let empty = one
                .get(field)
                .is_none_or(|value| value.as_object().is_some_and(serde_json::Map::is_empty));
            if !empty {
                causes.push(Cause::forbidden(
                    format!("{at}.{field}"),
                    "cannot be set for an Ephemeral Container",
                ));
            }
        }
    }
}
