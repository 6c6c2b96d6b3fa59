//! Pod specs, in pods and in templates: defaults and validation.

use serde_json::{Map, Value, json};

use super::{default, items, section, text};
use crate::api::names;
use crate::schema::quantity;
use crate::status::Cause;

/// Fills in what a pod spec may leave out.
pub fn defaults(spec: &mut Map<String, Value>) {
    default(spec, "dnsPolicy", "ClusterFirst");
    default(spec, "restartPolicy", "Always");
    default(spec, "securityContext", json!({}));
    default(spec, "terminationGracePeriodSeconds", 30);
    default(spec, "schedulerName", "default-scheduler");
    // The older name of the field is written too.
    if let Some(account) = spec.get("serviceAccountName").cloned() {
        spec.insert("serviceAccount".to_owned(), account);
    } else if let Some(account) = spec.get("serviceAccount").cloned() {
        spec.insert("serviceAccountName".to_owned(), account);
    }
    let host_network = spec.get("hostNetwork") == Some(&Value::Bool(true));
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        for one in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            if let Value::Object(one) = one {
                container(one, host_network);
            }
        }
    }
    for volume in spec.get_mut("volumes").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Value::Object(volume) = volume {
            self::volume(volume);
        }
    }
}

fn container(one: &mut Map<String, Value>, host_network: bool) {
    default(one, "terminationMessagePath", "/dev/termination-log");
    default(one, "terminationMessagePolicy", "File");
    let image = one.get("image").and_then(Value::as_str).unwrap_or_default();
    let policy = if tag(image) == "latest" { "Always" } else { "IfNotPresent" };
    default(one, "imagePullPolicy", policy);
    for port in one.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        let number = port.get("containerPort").cloned();
        if let Value::Object(port) = port {
            default(port, "protocol", "TCP");
            if let (true, Some(number)) = (host_network, number) {
                default(port, "hostPort", number);
            }
        }
    }
    for variable in one.get_mut("env").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(Value::Object(field)) = variable.pointer_mut("/valueFrom/fieldRef") {
            default(field, "apiVersion", "v1");
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(Value::Object(probe)) = one.get_mut(name) {
            self::probe(probe);
        }
    }
    if let Some(resources) = one.get_mut("resources")
        && let Some(Value::Object(limits)) = resources.get("limits").cloned()
    {
        let requests = section(resources, "requests");
        for (name, amount) in limits {
            default(requests, &name, amount);
        }
        requests.sort_keys();
    }
}

fn probe(probe: &mut Map<String, Value>) {
    for (field, seconds) in [
        ("timeoutSeconds", 1),
        ("periodSeconds", 10),
        ("successThreshold", 1),
        ("failureThreshold", 3),
    ] {
        default(probe, field, seconds);
    }
    if let Some(Value::Object(get)) = probe.get_mut("httpGet") {
        default(get, "path", "/");
        default(get, "scheme", "HTTP");
    }
    if let Some(Value::Object(grpc)) = probe.get_mut("grpc") {
        default(grpc, "service", "");
    }
}

fn volume(volume: &mut Map<String, Value>) {
    if volume.len() == 1 {
        volume.insert("emptyDir".to_owned(), json!({}));
    }
    for (source, mode) in [("secret", 420), ("configMap", 420), ("downwardAPI", 420), ("projected", 420)] {
        if let Some(Value::Object(source)) = volume.get_mut(source) {
            default(source, "defaultMode", mode);
        }
    }
    if let Some(Value::Object(path)) = volume.get_mut("hostPath") {
        default(path, "type", "");
    }
}

/// The tag of an image; an untagged one means the latest.
fn tag(image: &str) -> &str {
    let last = image.rsplit('/').next().unwrap_or_default();
    if last.contains('@') {
        return "";
    }
    last.split_once(':').map_or("latest", |(_, tag)| tag)
}

/// The QoS class that a pod's resources give it.
pub fn qos(spec: &Value) -> &'static str {
    let mut any = false;
    let mut guaranteed = true;
    for one in items(spec, "/containers").iter().chain(items(spec, "/initContainers")) {
        for resource in ["cpu", "memory"] {
            let amount = |kind: &str| {
                let text = one.pointer(&format!("/resources/{kind}/{resource}")).and_then(Value::as_str);
                text.and_then(quantity::millis).filter(|amount| *amount > 0)
            };
            let (limit, request) = (amount("limits"), amount("requests"));
            any |= limit.is_some() || request.is_some();
            guaranteed &= limit.is_some() && limit == request;
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

/// Rules for a pod spec at `path`.
pub fn validate(spec: &Value, path: &str, causes: &mut Vec<Cause>) {
    let containers = items(spec, "/containers");
    if containers.is_empty() {
        causes.push(Cause::required(format!("{path}.containers"), ""));
    }
    let mut names = Vec::new();
    for (list, required) in [("containers", true), ("initContainers", false)] {
        for (index, one) in items(spec, &format!("/{list}")).iter().enumerate() {
            validate_container(one, &format!("{path}.{list}[{index}]"), required, &mut names, causes);
        }
    }
    one_of(spec, "restartPolicy", path, &["Always", "OnFailure", "Never"], causes);
    one_of(
        spec,
        "dnsPolicy",
        path,
        &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"],
        causes,
    );
    validate_volumes(spec, path, causes);
    for (index, toleration) in items(spec, "/tolerations").iter().enumerate() {
        validate_toleration(toleration, &format!("{path}.tolerations[{index}]"), causes);
    }
    let node = text(spec, "/nodeName");
    if !node.is_empty() && !names::is_subdomain(node) {
        causes.push(Cause::invalid(
            format!("{path}.nodeName"),
            &json!(node),
            names::SUBDOMAIN_COMPLAINT,
        ));
    }
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
    super::meta::labels(spec.get("nodeSelector"), &format!("{path}.nodeSelector"), causes);
}

fn one_of(spec: &Value, field: &str, path: &str, allowed: &[&str], causes: &mut Vec<Cause>) {
    let given = text(spec, &format!("/{field}"));
    if given.is_empty() {
        causes.push(Cause::required(format!("{path}.{field}"), ""));
    } else if !allowed.contains(&given) {
        causes.push(Cause::unsupported(format!("{path}.{field}"), &json!(given), allowed));
    }
}

fn validate_container<'a>(one: &'a Value, at: &str, image_required: bool, seen: &mut Vec<&'a str>, causes: &mut Vec<Cause>) {
    let name = text(one, "/name");
    if name.is_empty() {
        causes.push(Cause::required(format!("{at}.name"), ""));
    } else if !names::is_dns_label(name) {
        causes.push(Cause::invalid(format!("{at}.name"), &json!(name), names::DNS_LABEL_COMPLAINT));
    } else if seen.contains(&name) {
        causes.push(Cause::duplicate(format!("{at}.name"), &json!(name)));
    }
    seen.push(name);
    if text(one, "/image").is_empty() && image_required {
        causes.push(Cause::required(format!("{at}.image"), ""));
    }
    match text(one, "/imagePullPolicy") {
        "Always" | "IfNotPresent" | "Never" => {}
        other => {
            let allowed = ["Always", "IfNotPresent", "Never"];
            causes.push(Cause::unsupported(format!("{at}.imagePullPolicy"), &json!(other), &allowed));
        }
    }
    for (index, port) in items(one, "/ports").iter().enumerate() {
        let number = port.get("containerPort").and_then(Value::as_i64).unwrap_or(0);
        let port_at = format!("{at}.ports[{index}].containerPort");
        if number == 0 {
            causes.push(Cause::required(port_at, ""));
        } else if !(1..=65535).contains(&number) {
            causes.push(Cause::invalid(
                port_at,
                &json!(number),
                "must be between 1 and 65535, inclusive",
            ));
        }
    }
    validate_resources(one, at, causes);
}

fn validate_resources(one: &Value, at: &str, causes: &mut Vec<Cause>) {
    let limits = one.pointer("/resources/limits").and_then(Value::as_object);
    for (name, request) in one
        .pointer("/resources/requests")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        let amount = |value: &Value| value.as_str().and_then(quantity::millis).unwrap_or(0);
        if let Some(limit) = limits.and_then(|limits| limits.get(name))
            && amount(request) > amount(limit)
        {
            let complaint = format!(
                "must be less than or equal to {name} limit of {}",
                limit.as_str().unwrap_or_default()
            );
            causes.push(Cause::invalid(format!("{at}.resources.requests"), request, &complaint));
        }
    }
}

fn validate_volumes(spec: &Value, path: &str, causes: &mut Vec<Cause>) {
    let mut seen = Vec::new();
    for (index, volume) in items(spec, "/volumes").iter().enumerate() {
        let name = text(volume, "/name");
        let at = format!("{path}.volumes[{index}].name");
        if name.is_empty() {
            causes.push(Cause::required(at, ""));
        } else if seen.contains(&name) {
            causes.push(Cause::duplicate(at, &json!(name)));
        }
        seen.push(name);
    }
    for list in ["containers", "initContainers"] {
        for (index, one) in items(spec, &format!("/{list}")).iter().enumerate() {
            for (mount_index, mount) in items(one, "/volumeMounts").iter().enumerate() {
                let name = text(mount, "/name");
                if !seen.contains(&name) {
                    let at = format!("{path}.{list}[{index}].volumeMounts[{mount_index}].name");
                    causes.push(Cause::new("FieldValueNotFound", at, format!("Not found: \"{name}\"")));
                }
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn untagged_images_are_the_latest() {
        for (image, expected) in [
            ("a", "latest"),
            ("a:1", "1"),
            ("host:5000/a", "latest"),
            ("host:5000/a:2", "2"),
            ("a@sha256:00", ""),
        ] {
            assert_eq!(tag(image), expected, "{image}");
        }
    }
}
