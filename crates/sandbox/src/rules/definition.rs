//! CustomResourceDefinitions: what may be said in one. What becomes of it is [`crate::api::custom`]'s.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Context, Rules, default, items, keep, meta, section, text};
use crate::Status;
use crate::status::Cause;

/// Holds a definition until its objects are gone.
pub const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";
const APPROVAL: &str = "/metadata/annotations/api-approved.kubernetes.io";

/// Rules for definitions.
#[derive(Debug)]
pub struct Definitions;

impl Rules for Definitions {
    fn defaults(&self, object: &mut Value) {
        let spec = section(object, "spec");
        if let Some(Value::Object(names)) = spec.get_mut("names") {
            let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
            if !kind.is_empty() {
                default(names, "singular", kind.to_lowercase());
                default(names, "listKind", format!("{kind}List"));
            }
        }
        default(spec, "conversion", json!({"strategy": "None"}));
    }

    fn prepare_create(&self, object: &mut Value, _context: &Context<'_>) -> Result<(), Status> {
        object["status"] = json!({"conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": []});
        remember_stored(object);
        Ok(())
    }

    fn prepare_update(&self, object: &mut Value, old: &Value, _context: &Context<'_>) -> Result<(), Status> {
        keep(object, old, "status");
        remember_stored(object);
        if object.get("spec") != old.get("spec") {
            meta::grow_generation(object, old);
        }
        Ok(())
    }

    fn validate(&self, object: &Value, causes: &mut Vec<Cause>) {
        validate_names(object, causes);
        validate_versions(object, causes);
        let scope = text(object, "/spec/scope");
        if !matches!(scope, "Cluster" | "Namespaced") {
            causes.push(Cause::unsupported("spec.scope", &scope.into(), &["Cluster", "Namespaced"]));
        }
        let strategy = text(object, "/spec/conversion/strategy");
        if strategy != "None" {
            causes.push(Cause::unsupported("spec.conversion.strategy", &strategy.into(), &["None"]));
        }
    }

    fn validate_update(&self, object: &Value, old: &Value, causes: &mut Vec<Cause>) {
        self.validate(object, causes);
        // The name was right once.
        causes.retain(|cause| cause.field != "metadata.name");
        for pointer in ["/spec/scope", "/spec/group", "/spec/names/plural"] {
            meta::immutable(object, old, pointer, causes);
        }
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn unconditional_update(&self) -> bool {
        false
    }

    fn finalizer(&self) -> Option<&'static str> {
        Some(FINALIZER)
    }
}

/// The version that objects are stored in, `""` if none is marked.
pub fn storage_version(definition: &Value) -> &str {
    let marked = |version: &&Value| version.get("storage") == Some(&Value::Bool(true));
    let version = items(definition, "/spec/versions").iter().find(marked);
    version.map_or("", |version| text(version, "/name"))
}

fn remember_stored(definition: &mut Value) {
    let version = storage_version(definition).to_owned();
    if version.is_empty() {
        return;
    }
    let stored = section(definition, "status")
        .entry("storedVersions")
        .or_insert_with(|| json!([]));
    if let Value::Array(stored) = stored
        && !stored.iter().any(|one| *one == version)
    {
        stored.push(version.into());
    }
}

fn validate_names(object: &Value, causes: &mut Vec<Cause>) {
    let (group, plural) = (text(object, "/spec/group"), text(object, "/spec/names/plural"));
    let name = text(object, "/metadata/name");
    if name != format!("{plural}.{group}") {
        let why = "must be spec.names.plural+\".\"+spec.group";
        causes.push(Cause::invalid("metadata.name", &name.into(), why));
    }
    if group.is_empty() {
        causes.push(Cause::required("spec.group", ""));
    } else if let Some(complaint) = meta::subdomain(group) {
        causes.push(Cause::invalid("spec.group", &group.into(), complaint));
    } else if !group.contains('.') {
        causes.push(Cause::invalid(
            "spec.group",
            &group.into(),
            "should be a domain with at least one dot",
        ));
    }
    let is_protected = ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|domain| group == *domain || group.ends_with(&format!(".{domain}")));
    if is_protected && object.pointer(APPROVAL).is_none_or(|approval| approval.as_str() == Some("")) {
        let why = "protected groups must have approval annotation \"api-approved.kubernetes.io\", see \
                   https://github.com/kubernetes/enhancements/pull/1111";
        causes.push(Cause::required("metadata.annotations[api-approved.kubernetes.io]", why));
    }
    for field in ["plural", "singular", "kind", "listKind"] {
        let given = text(object, &format!("/spec/names/{field}"));
        name_complaint(&format!("spec.names.{field}"), given, field.ends_with("ind"), causes);
    }
    for (nth, short) in items(object, "/spec/names/shortNames").iter().enumerate() {
        let given = short.as_str().unwrap_or_default();
        name_complaint(&format!("spec.names.shortNames[{nth}]"), given, false, causes);
    }
    for (nth, category) in items(object, "/spec/names/categories").iter().enumerate() {
        let given = category.as_str().unwrap_or_default();
        name_complaint(&format!("spec.names.categories[{nth}]"), given, false, causes);
    }
}

/// Names are DNS labels; those of kinds may have capitals.
fn name_complaint(field: &str, given: &str, capitals: bool, causes: &mut Vec<Cause>) {
    let shown: Value = given.into();
    let folded = if capitals { given.to_lowercase() } else { given.to_owned() };
    if given.is_empty() {
        causes.push(Cause::required(field, ""));
    } else if let Some(complaint) = meta::label(&folded) {
        causes.push(Cause::invalid(field, &shown, complaint));
    }
}

fn validate_versions(object: &Value, causes: &mut Vec<Cause>) {
    let versions = items(object, "/spec/versions");
    let mut names = BTreeSet::new();
    for (nth, version) in versions.iter().enumerate() {
        let path = format!("spec.versions[{nth}]");
        let name = text(version, "/name");
        name_complaint(&format!("{path}.name"), name, false, causes);
        if !names.insert(name) {
            causes.push(Cause::duplicate(format!("{path}.name"), &name.into()));
        }
        for flag in ["served", "storage"] {
            if !version.get(flag).is_some_and(Value::is_boolean) {
                causes.push(Cause::required(format!("{path}.{flag}"), ""));
            }
        }
        if !version.pointer("/schema/openAPIV3Schema").is_some_and(Value::is_object) {
            let field = format!("{path}.schema.openAPIV3Schema");
            causes.push(Cause::required(field, "schemas are required"));
        }
    }
    let is_storage = |version: &&Value| version.get("storage") == Some(&Value::Bool(true));
    if versions.iter().filter(is_storage).count() != 1 {
        let why = "must have exactly one version marked as storage version";
        causes.push(Cause::invalid("spec.versions", &json!(names), why));
    }
    for (nth, stored) in items(object, "/status/storedVersions").iter().enumerate() {
        let stored = stored.as_str().unwrap_or_default();
        if !names.contains(stored) {
            let why = "missing from spec.versions; this version may contain objects";
            causes.push(Cause::invalid(format!("status.storedVersions[{nth}]"), &stored.into(), why));
        }
    }
}
