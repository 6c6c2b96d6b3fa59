//! Custom resources: what a CustomResourceDefinition brings to be served, and what goes with it.
//!
//! [`written`] is called after every write, with the store still held, so that no request sees a definition without its resources or
//! resources without their definition. Definitions are followed here rather than by a controller: a client waits for the
//! condition Established, and finds it at once.

use std::sync::Arc;

use serde_json::{Value, json};

use super::Call;
use super::kinds::{Custom, Kind, Kinds, Particular, SCALE};
use super::scale::Paths;
use super::table::custom::Column;
use crate::Status;
use crate::rules::custom::Objects;
use crate::rules::definition::{FINALIZER, storage_version};
use crate::rules::{items, section, text};
use crate::schema::time;
use crate::store::{Key, Store};

/// Where definitions are stored.
const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// Refuses to create what would go with its definition at once.
///
/// # Errors
/// 405.
pub fn check(call: &Call<'_>) -> Result<(), Status> {
    if call.kind.custom.is_none() {
        return Ok(());
    }
    // The store is held by now, and the request may have begun before it was.
    match served(call).as_deref().and_then(|kind| kind.custom.as_ref()) {
        None => Err(Status::no_such_path()),
        Some(custom) if custom.terminating => {
            let message = "create not allowed while custom resource definition is terminating";
            Err(Status::new(405, "MethodNotAllowed", message).about(&call.kind.group, &call.kind.resource, ""))
        }
        Some(_) => Ok(()),
    }
}

fn served(call: &Call<'_>) -> Option<Arc<Kind>> {
    let kinds = call.sandbox.kinds();
    let kind = kinds.find(&call.kind.group, &call.kind.version, &call.kind.resource)?;
    (kind.namespaced == call.kind.namespaced).then(|| kind.clone())
}

/// Follows a write of a definition, and the end of an object that one waits for.
pub fn written(call: &Call<'_>, store: &mut Store, key: &Key) {
    if call.kind.storage == DEFINITIONS {
        follow(call, store, &key.name);
        return;
    }
    let Some(custom) = &call.kind.custom else { return };
    let is_terminating = |kind: Arc<Kind>| kind.custom.as_ref().is_some_and(|custom| custom.terminating);
    let is_last = store.table(&call.kind.storage).is_none_or(|table| table.is_empty());
    if is_last && served(call).is_some_and(is_terminating) {
        follow(call, store, &custom.definition);
    }
}

/// Brings what is served, and the definition's status, into line with the definition.
fn follow(call: &Call<'_>, store: &mut Store, name: &str) {
    let key = Key::new("", name);
    let Some(current) = store.get(DEFINITIONS, &key).cloned() else {
        clear(call, store, name, true);
        call.sandbox.serve(name, Vec::new());
        if !is_built_in(call, name) {
            store.retire(name);
        }
        return admit_others(call, store, name);
    };
    let mut definition = current.value();
    let is_terminating = definition.pointer("/metadata/deletionTimestamp").is_some();
    if is_terminating {
        call.sandbox.serve(name, brought(call, &definition, true));
        if !items(&definition, "/metadata/finalizers").iter().any(|one| one == FINALIZER) {
            return;
        }
        let reason = ("InstanceDeletionInProgress", "CustomResource deletion is in progress");
        condition(call, &mut definition, "Terminating", true, reason);
        if clear(call, store, name, false) {
            let metadata = section(&mut definition, "metadata");
            if let Some(Value::Array(finalizers)) = metadata.get_mut("finalizers") {
                finalizers.retain(|one| one != FINALIZER);
                if finalizers.is_empty() {
                    store.remove(DEFINITIONS, &key, None, call.now);
                    return follow(call, store, name);
                }
            }
        }
    } else {
        accept(call, &mut definition);
        let kinds = brought(call, &definition, false);
        for kind in &kinds {
            store.register(&kind.storage, kind.fields());
        }
        call.sandbox.serve(name, kinds);
    }
    if !super::write::same(&definition, &current.value()) {
        store.put(DEFINITIONS, definition, call.now);
    }
}

/// A definition that went may have had the names that others of its group want.
fn admit_others(call: &Call<'_>, store: &mut Store, gone: &str) {
    let group = gone.split_once('.').map_or("", |(_, group)| group).to_owned();
    let waiting = |definition: &Value| {
        let conditions = items(definition, "/status/conditions");
        let is_refused = |one: &Value| text(one, "/type") == "NamesAccepted" && text(one, "/status") == "False";
        text(definition, "/spec/group") == group && conditions.iter().any(is_refused)
    };
    let definitions = store.table(DEFINITIONS).into_iter().flat_map(|table| table.iter());
    let waiting: Vec<String> = definitions
        .filter(|object| waiting(&object.value()))
        .map(|object| object.name().to_owned())
        .collect();
    for name in waiting {
        follow(call, store, &name);
    }
}

/// Deletes the objects of a definition, by force or as far as their finalizers let it. Whether none are left.
fn clear(call: &Call<'_>, store: &mut Store, name: &str, by_force: bool) -> bool {
    if is_built_in(call, name) {
        return true;
    }
    let objects: Vec<_> = store
        .table(name)
        .into_iter()
        .flat_map(|table| table.iter().cloned())
        .collect();
    let mut is_empty = true;
    for object in objects {
        let mut value = object.value();
        if by_force || items(&value, "/metadata/finalizers").is_empty() {
            store.remove(name, object.key(), None, call.now);
            continue;
        }
        is_empty = false;
        let metadata = section(&mut value, "metadata");
        if metadata.get("deletionTimestamp").is_none() {
            metadata.insert("deletionTimestamp".to_owned(), time::seconds(call.now.wall).into());
            metadata.insert("deletionGracePeriodSeconds".to_owned(), 0.into());
            store.put(name, value, call.now);
        }
    }
    is_empty
}

/// Whether what a definition of this name would define is built in; such a definition never has its names.
fn is_built_in(call: &Call<'_>, name: &str) -> bool {
    let kinds = call.sandbox.kinds();
    kinds.iter().any(|kind| kind.storage == name && kind.custom.is_none())
}

/// Takes the names of a definition for its own if they are free, and says so in its status.
fn accept(call: &Call<'_>, definition: &mut Value) {
    let clash = clash(&call.sandbox.kinds(), definition);
    if let Some((reason, taken)) = clash {
        condition(
            call,
            definition,
            "NamesAccepted",
            false,
            (reason, &format!("{taken:?} is already in use")),
        );
        if !is_established(definition) {
            let why = ("NotAccepted", "not all names are accepted");
            condition(call, definition, "Established", false, why);
        }
        return;
    }
    let names = definition.pointer("/spec/names").cloned().unwrap_or_default();
    section(definition, "status").insert("acceptedNames".to_owned(), names);
    condition(call, definition, "NamesAccepted", true, ("NoConflicts", "no conflicts found"));
    let why = ("InitialNamesAccepted", "the initial names have been accepted");
    condition(call, definition, "Established", true, why);
}

/// The first of a definition's names that another kind of its group has.
fn clash(kinds: &Kinds, definition: &Value) -> Option<(&'static str, String)> {
    let name = text(definition, "/metadata/name");
    let group = text(definition, "/spec/group");
    let is_other = |kind: &&Arc<Kind>| kind.group == group && kind.custom.as_ref().is_none_or(|custom| custom.definition != name);
    let names = |field: &str| text(definition, &format!("/spec/names/{field}")).to_owned();
    let short = items(definition, "/spec/names/shortNames").iter();
    let mut resources = vec![("PluralConflict", names("plural")), ("SingularConflict", names("singular"))];
    resources.extend(short.filter_map(|name| Some(("ShortNamesConflict", name.as_str()?.to_owned()))));
    for kind in kinds.iter().filter(is_other) {
        let has = |wanted: &str| kind.resource == wanted || kind.singular == wanted || kind.short.iter().any(|one| one == wanted);
        if let Some(found) = resources.iter().find(|(_, wanted)| has(wanted)) {
            return Some(found.clone());
        }
        for (reason, field) in [("KindConflict", "kind"), ("ListKindConflict", "listKind")] {
            let wanted = names(field);
            if kind.kind == wanted || format!("{}List", kind.kind) == wanted {
                return Some((reason, wanted));
            }
        }
    }
    None
}

fn is_established(definition: &Value) -> bool {
    let conditions = items(definition, "/status/conditions").iter();
    conditions
        .filter(|one| text(one, "/type") == "Established")
        .any(|one| text(one, "/status") == "True")
}

fn condition(call: &Call<'_>, definition: &mut Value, ty: &str, is_true: bool, (reason, message): (&str, &str)) {
    let status = if is_true { "True" } else { "False" };
    let at = time::seconds(call.now.wall);
    let new = json!({"type": ty, "status": status, "lastTransitionTime": at, "reason": reason, "message": message});
    let conditions = section(definition, "status").entry("conditions").or_insert_with(|| json!([]));
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Value::Array(conditions) = conditions else { return };
    match conditions.iter_mut().find(|one| text(one, "/type") == ty) {
        Some(known)
            if ["status", "reason", "message"]
                .iter()
                .all(|field| known.get(field) == new.get(field)) => {}
        Some(known) => *known = new,
        None => conditions.push(new),
    }
}

/// What an established definition brings, by its accepted names.
fn brought(call: &Call<'_>, definition: &Value, terminating: bool) -> Vec<Kind> {
    // A status can be written by anybody who may; what is built in stays.
    if !is_established(definition) || is_built_in(call, text(definition, "/metadata/name")) {
        return Vec::new();
    }
    let name = |field: &str| text(definition, &format!("/status/acceptedNames/{field}")).to_owned();
    let names = |field: &str| {
        let list = items(definition, &format!("/status/acceptedNames/{field}")).iter();
        list.filter_map(|one| one.as_str().map(str::to_owned)).collect()
    };
    let group = text(definition, "/spec/group");
    let versions = items(definition, "/spec/versions");
    let converts = versions.len() > 1 || items(definition, "/status/storedVersions").len() > 1;
    let served = versions
        .iter()
        .filter(|version| version.get("served") == Some(&Value::Bool(true)));
    served
        .map(|version| {
            let scale = Paths::of(version);
            let has_status = version.pointer("/subresources/status").is_some_and(Value::is_object);
            let rules = Objects {
                served: format!("{group}/{}", text(version, "/name")),
                stored: format!("{group}/{}", storage_version(definition)),
                converts,
                status: has_status,
            };
            Kind {
                group: group.to_owned(),
                version: text(version, "/name").to_owned(),
                resource: name("plural"),
                singular: name("singular"),
                kind: name("kind"),
                schema: "",
                storage: text(definition, "/metadata/name").to_owned(),
                namespaced: text(definition, "/spec/scope") == "Namespaced",
                short: names("shortNames"),
                categories: names("categories"),
                subresources: if scale.is_some() { SCALE } else { &[] },
                status: has_status,
                virtual_: false,
                delete_collection: true,
                rules: Particular::Own(Box::new(rules)),
                custom: Some(Custom {
                    definition: text(definition, "/metadata/name").to_owned(),
                    terminating,
                    columns: Column::of(version),
                    scale,
                }),
            }
        })
        .collect()
}
