//! Environment variables of containers.

use serde_json::{Value, json};

use super::containers::one_of;
use crate::api::names;
use crate::rules::{items, text};
use crate::status::Cause;

const COMPLAINT: &str = "a valid environment variable name must consist only of printable ASCII characters other than '='";
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
/// What a variable or a file may hold of the pod.
const PATHS: [&str; 10] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
    "metadata.labels",
];

/// Rules for the variables of a container.
pub fn validate(one: &Value, at: &str, causes: &mut Vec<Cause>) {
    for (index, variable) in items(one, "/env").iter().enumerate() {
        let at = format!("{at}.env[{index}]");
        let name = text(variable, "/name");
        if name.is_empty() {
            causes.push(Cause::required(format!("{at}.name"), ""));
        } else if !is_name(name) {
            causes.push(Cause::invalid(format!("{at}.name"), &json!(name), COMPLAINT));
        }
        if let Some(source) = variable.get("valueFrom") {
            value_from(variable, source, &format!("{at}.valueFrom"), causes);
        }
    }
    for (index, source) in items(one, "/envFrom").iter().enumerate() {
        env_from(source, &format!("{at}.envFrom"), index, causes);
    }
}

fn is_name(name: &str) -> bool {
    name.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=')
}

fn value_from(variable: &Value, source: &Value, at: &str, causes: &mut Vec<Cause>) {
    let kinds = [
        "fieldRef",
        "resourceFieldRef",
        "configMapKeyRef",
        "secretKeyRef",
        "fileKeyRef",
    ];
    let given = kinds.iter().filter(|kind| source.get(**kind).is_some()).count();
    let nothing = json!("");
    if let Some(field) = source.get("fieldRef") {
        field_ref(field, &format!("{at}.fieldRef"), causes);
    }
    if let Some(resource) = source.get("resourceFieldRef") {
        resource_ref(resource, &format!("{at}.resourceFieldRef"), causes);
    }
    for kind in ["configMapKeyRef", "secretKeyRef"] {
        if let Some(key) = source.get(kind) {
            let at = format!("{at}.{kind}");
            object_name(text(key, "/name"), &format!("{at}.name"), causes);
            config_key(text(key, "/key"), &format!("{at}.key"), causes);
        }
    }
    if given == 0 {
        let complaint = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`";
        causes.push(Cause::invalid(at, &nothing, complaint));
    } else if !text(variable, "/value").is_empty() {
        causes.push(Cause::invalid(at, &nothing, "may not be specified when `value` is not empty"));
    } else if given > 1 {
        causes.push(Cause::invalid(
            at,
            &nothing,
            "may not have more than one field specified at a time",
        ));
    }
}

/// Rules for a reference to a field of the pod.
pub fn field_ref(field: &Value, at: &str, causes: &mut Vec<Cause>) {
    let path = text(field, "/fieldPath");
    if path.is_empty() {
        causes.push(Cause::required(format!("{at}.fieldPath"), ""));
        return;
    }
    let subscripted = ["metadata.labels['", "metadata.annotations['"]
        .iter()
        .any(|prefix| path.starts_with(prefix) && path.ends_with("']"));
    if !subscripted && path != "metadata.annotations" && !PATHS.contains(&path) {
        let complaint = format!("error converting fieldPath: field label not supported: {path}");
        causes.push(Cause::invalid(format!("{at}.fieldPath"), &json!(path), &complaint));
    }
}

/// Rules for a reference to a resource of a container.
pub fn resource_ref(resource: &Value, at: &str, causes: &mut Vec<Cause>) {
    let name = text(resource, "/resource");
    if name.is_empty() {
        causes.push(Cause::required(format!("{at}.resource"), ""));
    } else if !name.contains("hugepages-") {
        one_of(resource, "resource", &format!("{at}.resource"), &RESOURCES, causes);
    }
}

/// Rules for the name of an object that is referred to.
pub fn object_name(name: &str, at: &str, causes: &mut Vec<Cause>) {
    if !names::is_subdomain(name) {
        causes.push(Cause::invalid(at, &json!(name), names::SUBDOMAIN_COMPLAINT));
    }
}

/// Rules for a key of a ConfigMap or Secret, whatever is kept under it.
pub fn config_key(key: &str, at: &str, causes: &mut Vec<Cause>) {
    if key.is_empty() {
        causes.push(Cause::required(at, ""));
    } else if let Some(complaint) = crate::rules::config::key_complaint(key) {
        causes.push(Cause::invalid(at, &json!(key), complaint));
    }
}

fn env_from(source: &Value, at: &str, index: usize, causes: &mut Vec<Cause>) {
    let prefix = text(source, "/prefix");
    if !is_name(prefix) {
        causes.push(Cause::invalid(format!("{at}[{index}].prefix"), &json!(prefix), COMPLAINT));
    }
    let mut given = 0;
    for kind in ["configMapRef", "secretRef"] {
        if let Some(reference) = source.get(kind) {
            given += 1;
            object_name(text(reference, "/name"), &format!("{at}[{index}].{kind}.name"), causes);
        }
    }
    if given == 0 {
        causes.push(Cause::invalid(
            at,
            &json!(""),
            "must specify one of: `configMapRef` or `secretRef`",
        ));
    } else if given > 1 {
        let complaint = "may not have more than one field specified at a time";
        causes.push(Cause::invalid(format!("{at}[{index}]"), &json!(""), complaint));
    }
}
