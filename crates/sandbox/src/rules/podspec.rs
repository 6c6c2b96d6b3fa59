//! Pod specs, in pods and in templates: defaults and validation.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{default, find, items, section, text};
use crate::schema::quantity;
use crate::status::Cause;

mod affinity;
mod containers;
mod environment;
mod probes;
mod scheduling;
mod security;
mod volumes;

pub use containers::{ephemeral, port_name, port_number};

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
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        for one in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            if let Value::Object(one) = one {
                container(one);
            }
        }
    }
    for volume in spec.get_mut("volumes").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Value::Object(volume) = volume {
            self::volume(volume);
        }
    }
}

fn container(one: &mut Map<String, Value>) {
    default(one, "terminationMessagePath", "/dev/termination-log");
    default(one, "terminationMessagePolicy", "File");
    let image = one.get("image").and_then(Value::as_str).unwrap_or_default();
    let policy = if tag(image) == "latest" { "Always" } else { "IfNotPresent" };
    default(one, "imagePullPolicy", policy);
    for port in one.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Value::Object(port) = port {
            default(port, "protocol", "TCP");
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
    for phase in ["postStart", "preStop"] {
        if let Some(Value::Object(get)) = one
            .get_mut("lifecycle")
            .and_then(|hooks| hooks.pointer_mut(&format!("/{phase}/httpGet")))
        {
            default(get, "path", "/");
            default(get, "scheme", "HTTP");
        }
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
                let text = find(one, &format!("/resources/{kind}/{resource}")).and_then(Value::as_str);
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

/// What a pod may leave out and a template of pods may not be given: requests follow limits, ports of a pod in the node's network
/// are the node's.
pub fn pod_defaults(spec: &mut Map<String, Value>) {
    let host_network = spec.get("hostNetwork") == Some(&Value::Bool(true));
    for list in ["containers", "initContainers"] {
        for one in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let ports = one.get_mut("ports").and_then(Value::as_array_mut);
            for port in ports.into_iter().flatten().filter_map(Value::as_object_mut) {
                if let (true, Some(number)) = (host_network, port.get("containerPort").cloned()) {
                    default(port, "hostPort", number);
                }
            }
            let Some(resources) = one.get_mut("resources") else { continue };
            let Some(Value::Object(limits)) = resources.get("limits").cloned() else {
                continue;
            };
            let requests = section(resources, "requests");
            for (name, amount) in limits {
                default(requests, &name, amount);
            }
            requests.sort_keys();
        }
    }
}

/// What is not wrong but surprises.
pub fn warnings(spec: &Value, path: &str, warnings: &mut Vec<String>) {
    for (index, secret) in items(spec, "/imagePullSecrets").iter().enumerate() {
        if text(secret, "/name").is_empty() {
            warnings.push(format!("{path}.imagePullSecrets[{index}].name: invalid empty name \"\""));
        }
    }
    if spec
        .get("terminationGracePeriodSeconds")
        .and_then(Value::as_i64)
        .is_some_and(|seconds| seconds < 0)
    {
        warnings.push(format!(
            "{path}.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"
        ));
    }
    for list in ["initContainers", "containers"] {
        for (index, one) in items(spec, &format!("/{list}")).iter().enumerate() {
            let mut seen: BTreeSet<&str> = BTreeSet::new();
            for (variable_index, variable) in items(one, "/env").iter().enumerate() {
                let name = text(variable, "/name");
                if seen.contains(&name) {
                    warnings.push(format!(
                        "{path}.{list}[{index}].env[{variable_index}]: hides previous definition of \"{name}\", which may be dropped \
                         when using apply"
                    ));
                }
                seen.insert(name);
            }
        }
    }
}

/// Rules for a pod spec at `path`.
pub fn validate(spec: &Value, path: &str, causes: &mut Vec<Cause>) {
    containers::validate(spec, path, causes);
    volumes::validate(spec, path, causes);
    scheduling::validate(spec, path, causes);
    security::validate(spec, path, causes);
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
