//! What holds for the metadata of every object.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Rules, find, items, text};
use crate::api::names;
use crate::status::Cause;

/// Annotations may take this many bytes together, as in the real server.
const ANNOTATION_BYTES: usize = 256 * 1024;

/// Raises the generation above the old one.
pub fn grow_generation(object: &mut Value, old: &Value) {
    let generation = find(old, "/metadata/generation").and_then(Value::as_i64).unwrap_or(0);
    object["metadata"]["generation"] = (generation + 1).into();
}

/// Whether an object is a namespace, which has a second list of finalizers.
pub fn is_namespace(object: &Value) -> bool {
    text(object, "/kind") == "Namespace" && text(object, "/apiVersion") == "v1"
}

/// Whether finalizers hold an object.
pub fn is_held(object: &Value) -> bool {
    let has = |pointer| !super::items(object, pointer).is_empty();
    has("/metadata/finalizers") || (is_namespace(object) && has("/spec/finalizers"))
}

/// What is wrong with a name that must be a DNS subdomain.
pub fn subdomain(name: &str) -> Option<&'static str> {
    if name.len() > 253 {
        Some("must be no more than 253 bytes")
    } else {
        (!names::is_subdomain(name)).then_some(names::SUBDOMAIN_COMPLAINT)
    }
}

/// What is wrong with a name that must be a DNS label.
pub fn label(name: &str) -> Option<&'static str> {
    if name.len() > 63 {
        Some("must be no more than 63 bytes")
    } else {
        (!names::is_dns_label(name)).then(|| names::dns_label_complaint(name))
    }
}

/// What is wrong with a name that only must be one path segment.
pub fn segment(name: &str) -> Option<&'static str> {
    match name {
        "." | ".." => Some("may not be '.' or '..'"),
        _ if name.contains('/') => Some("may not contain '/'"),
        _ if name.contains('%') => Some("may not contain '%'"),
        _ => None,
    }
}

/// Rules for metadata, of a new object or a changed one.
pub fn validate(object: &Value, rules: &dyn Rules, causes: &mut Vec<Cause>) {
    let name = text(object, "/metadata/name");
    if name.is_empty() {
        causes.push(Cause::required("metadata.name", "name or generateName is required"));
    } else if let Some(complaint) = rules.validate_name(name) {
        causes.push(Cause::invalid("metadata.name", &json!(name), complaint));
    }
    labels(find(object, "/metadata/labels"), "metadata.labels", causes);
    annotations(object, causes);
    finalizers(object, rules.strict_finalizers(), causes);
    owners(object, causes);
}

/// Rules for labels.
pub fn labels(labels: Option<&Value>, path: &str, causes: &mut Vec<Cause>) {
    for (key, value) in labels.and_then(Value::as_object).into_iter().flatten() {
        if !names::is_qualified_name(key) {
            causes.push(Cause::invalid(path, &json!(key), names::QUALIFIED_NAME_COMPLAINT));
        }
        if !names::is_label_value(value.as_str().unwrap_or_default()) {
            causes.push(Cause::invalid(path, value, names::LABEL_VALUE_COMPLAINT));
        }
    }
}

fn annotations(object: &Value, causes: &mut Vec<Cause>) {
    let mut bytes = 0;
    for (key, value) in object
        .pointer("/metadata/annotations")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        if !names::is_qualified_name(&key.to_lowercase()) {
            causes.push(Cause::invalid(
                "metadata.annotations",
                &json!(key),
                names::QUALIFIED_NAME_COMPLAINT,
            ));
        }
        bytes += key.len() + value.as_str().map_or(0, str::len);
    }
    if bytes > ANNOTATION_BYTES {
        let complaint = format!("Too long: may not be more than {ANNOTATION_BYTES} bytes");
        causes.push(Cause::new("FieldValueTooLong", "metadata.annotations", complaint));
    }
}

fn finalizers(object: &Value, strict: bool, causes: &mut Vec<Cause>) {
    let list = items(object, "/metadata/finalizers");
    for (index, finalizer) in list.iter().enumerate() {
        let name = finalizer.as_str().unwrap_or_default();
        if !names::is_qualified_name(name) {
            causes.push(Cause::invalid(
                "metadata.finalizers",
                finalizer,
                names::QUALIFIED_NAME_COMPLAINT,
            ));
        }
        if strict && !name.contains('/') && !matches!(name, "orphan" | "foregroundDeletion" | "kubernetes") {
            let complaint = "name is neither a standard finalizer name nor is it fully qualified";
            causes.push(Cause::invalid(format!("metadata.finalizers[{index}]"), finalizer, complaint));
        }
    }
    let has = |name: &str| list.iter().any(|one| one.as_str() == Some(name));
    if has("orphan") && has("foregroundDeletion") {
        let complaint = "finalizer orphan and foregroundDeletion cannot be both set";
        causes.push(Cause::invalid("metadata.finalizers", &json!(list), complaint));
    }
}

fn owners(object: &Value, causes: &mut Vec<Cause>) {
    let list = items(object, "/metadata/ownerReferences");
    let path = "metadata.ownerReferences";
    for owner in list {
        for field in ["apiVersion", "kind", "name", "uid"] {
            let value = text(owner, &format!("/{field}"));
            // A group has no slash in it.
            if value.is_empty() || (field == "apiVersion" && value.matches('/').count() > 1) {
                let complaint = if field == "apiVersion" {
                    "version must not be empty"
                } else {
                    "must not be empty"
                };
                causes.push(Cause::invalid(format!("{path}.{field}"), &json!(value), complaint));
            }
        }
        if (text(owner, "/apiVersion"), text(owner, "/kind")) == ("v1", "Event") {
            causes.push(Cause::invalid(
                path,
                owner,
                "/v1, Kind=Event is disallowed from being an owner",
            ));
        }
    }
    let controllers = list
        .iter()
        .filter(|owner| owner.get("controller") == Some(&Value::Bool(true)));
    if controllers.count() > 1 {
        let complaint = "Only one reference can have Controller set to true";
        let list: Value = list.iter().map(shown_owner).collect();
        causes.push(Cause::invalid(path, &list, complaint));
    }
}

/// An owner with its fields in the order of the Go type, in which refusals show it.
fn shown_owner(owner: &Value) -> Value {
    let fields = ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];
    let given = fields
        .into_iter()
        .filter_map(|field| Some((field.to_owned(), owner.get(field)?.clone())));
    Value::Object(given.collect())
}

/// Rules for changed metadata: what may never change. The real server checks it with all objects' metadata, and again with its kind's.
pub fn validate_update(object: &Value, old: &Value, causes: &mut Vec<Cause>) {
    for _ in ["any", "own"] {
        unchanged(object, old, causes);
        annotations(object, causes);
    }
}

fn unchanged(object: &Value, old: &Value, causes: &mut Vec<Cause>) {
    for field in [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        let pointer = format!("/metadata/{field}");
        if find(object, &pointer) != find(old, &pointer) {
            let value = find(object, &pointer).cloned().unwrap_or_default();
            causes.push(Cause::invalid(format!("metadata.{field}"), &value, "field is immutable"));
        }
    }
    if find(old, "/metadata/deletionTimestamp").is_some() {
        let before: BTreeSet<Option<&str>> = items(old, "/metadata/finalizers").iter().map(Value::as_str).collect();
        let added: Vec<&Value> = items(object, "/metadata/finalizers")
            .iter()
            .filter(|one| !before.contains(&one.as_str()))
            .collect();
        if !added.is_empty() {
            let complaint =
                format!("no new finalizers can be added if the object is being deleted, found new finalizers {added:?}");
            causes.push(Cause::forbidden("metadata.finalizers", &complaint));
        }
    }
}

/// `must be greater than or equal to 0`, for a number that is there.
pub fn not_negative(object: &Value, pointer: &str, causes: &mut Vec<Cause>) {
    if let Some(value) = find(object, pointer)
        && value.as_i64().is_some_and(|number| number < 0)
    {
        causes.push(Cause::invalid(path_of(pointer), value, "must be greater than or equal to 0"));
    }
}

/// `/spec/a` as `spec.a`.
pub fn path_of(pointer: &str) -> String {
    pointer.trim_start_matches('/').replace('/', ".")
}

/// `field is immutable`, if it changed.
pub fn immutable(object: &Value, old: &Value, pointer: &str, causes: &mut Vec<Cause>) {
    if find(object, pointer) != find(old, pointer) {
        let value = find(object, pointer).cloned().unwrap_or_default();
        causes.push(Cause::invalid(path_of(pointer), &value, "field is immutable"));
    }
}
