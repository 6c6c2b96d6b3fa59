//! Server-side apply: a manager states the fields it wants, and owns them from then on.
//!
//! (A) What a manager states is what the object has afterwards. (B) What it stated before, states no more and nobody else owns is
//! removed. (C) Changing what another manager owns is a conflict, unless forced; then the other owns it no more. (D) Every other
//! write is tracked as ownership, too ([`managers::track`]).

use serde_json::{Map, Value};

use crate::Status;
use crate::api::input::{self, Input};
use crate::api::reply::Reply;
use crate::api::write::Change;
use crate::api::{Call, create, raw};
use crate::rules::text;
use crate::schema::decode::{self, Oddities};
use crate::schema::{Type, lookup};
use crate::status::Cause;

pub mod fields;
pub mod managers;
mod merge;
pub mod scale;

use fields::Fields;
use managers::{Entry, Managers};

/// Serves an apply.
///
/// # Errors
/// The refusal; 409 with a cause per field that another manager owns.
pub fn patch(call: &Call<'_>) -> Result<Reply, Status> {
    // Reading takes as long as the body is large, and others wait for the store.
    let applied = read(call);
    let mut store = call.judged_store();
    let found = store.get(&call.kind.storage, &call.key()).cloned();
    if found.is_none() && call.about_status() {
        return Err(call.not_found());
    }
    let applied = applied?;
    let Some(current) = found else {
        drop(store);
        return create_applied(call, applied);
    };
    let old = current.value();
    let outcome = merged(call, &old, &applied)?;
    input::check_revision(call, text(&applied, "/metadata/resourceVersion"), &current)?;
    let mut oddities = Oddities::default();
    let mut object = input::typed(outcome.object, call.kind, &mut oddities).map_err(|why| Status::new(500, "", why))?;
    let change = Change {
        raw: raw::rewritten(call, &mut object),
        object,
        status: call.about_status(),
        warnings: Vec::new(),
        managers: Some(outcome.managers),
    };
    call.commit(&mut store, &current, &old, change)
}

/// What an applied object is to be.
struct Sort<'a> {
    api_version: String,
    kind: &'a str,
    schema: &'a str,
}

fn read(call: &Call<'_>) -> Result<Value, Status> {
    let sort = Sort {
        api_version: call.kind.api_version(),
        kind: &call.kind.kind,
        schema: call.kind.schema,
    };
    read_as(call, &sort)
}

fn read_as(call: &Call<'_>, sort: &Sort<'_>) -> Result<Value, Status> {
    let mut oddities = Oddities::default();
    let unreadable = |why: String| Status::bad_request(format!("error decoding YAML: {why}"));
    let applied = match &call.request.body {
        crate::api::request::Body::Value(value) => value.clone(),
        crate::api::request::Body::Bytes(bytes) => input::yaml(bytes).map_err(unreadable)?,
    };
    let (version, kind) = (text(&applied, "/apiVersion"), text(&applied, "/kind"));
    if version != sort.api_version || kind != sort.kind {
        let shown = if version.is_empty() {
            "/".to_owned()
        } else {
            version.to_owned()
        };
        return Err(Status::bad_request(format!("invalid object type: {shown}, Kind={kind}")));
    }
    if applied
        .pointer("/metadata/managedFields")
        .is_some_and(|fields| !fields.is_null())
    {
        return Err(Status::bad_request("metadata.managedFields must be nil"));
    }
    place(call, &applied)?;
    let name = text(&applied, "/metadata/name");
    let untyped = |why: String| {
        let namespace = text(&applied, "/metadata/namespace");
        let slash = if version.contains('/') { "" } else { "/" };
        let message = format!("failed to create typed patch object ({namespace}/{name}; {slash}{version}, Kind={kind}): {why}");
        Status::new(500, "", message)
    };
    if !sort.schema.is_empty() {
        let mut bare = applied.clone();
        if let Value::Object(fields) = &mut bare {
            fields.shift_remove("kind");
            fields.shift_remove("apiVersion");
        }
        decode::normal(bare, sort.schema, &mut oddities).map_err(untyped)?;
        if let Some(path) = fields::duplicate(&applied, named(sort.schema).as_ref()) {
            return Err(untyped(path));
        }
        if let Some(path) = oddities.unknown.first() {
            return Err(untyped(format!(".{path}: field not declared in schema")));
        }
    }
    Ok(applied)
}

/// Checks name and namespace against the path.
fn place(call: &Call<'_>, applied: &Value) -> Result<(), Status> {
    let name = text(applied, "/metadata/name");
    if name.is_empty() {
        return Err(input::nameless(call));
    }
    if name != call.target.name {
        let path = &call.target.name;
        let message = format!("the name of the object ({name}) does not match the name on the URL ({path})");
        return Err(Status::bad_request(message));
    }
    let namespace = text(applied, "/metadata/namespace");
    if call.kind.namespaced && !namespace.is_empty() && namespace != call.target.namespace {
        let message = "the namespace of the provided object does not match the namespace sent on the request";
        return Err(Status::bad_request(message));
    }
    Ok(())
}

/// The root type of a kind; nothing for objects without a schema.
pub fn root(call: &Call<'_>) -> Option<Type> {
    named(call.kind.schema)
}

fn named(schema: &str) -> Option<Type> {
    lookup(schema).map(|found| Type::Struct(found.name))
}

fn create_applied(call: &Call<'_>, mut applied: Value) -> Result<Reply, Status> {
    let uid = text(&applied, "/metadata/uid");
    if !uid.is_empty() {
        let why = format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
        return Err(call.conflict(&call.target.name, &why));
    }
    // Which state it was meant for says nothing where there is none.
    crate::rules::section(&mut applied, "metadata").shift_remove("resourceVersion");
    create::check_right(call)?;
    let set = stated(call, &applied);
    let mut managers = Managers::default();
    managers.set(entry(call), set, call.now.wall);
    let mut oddities = Oddities::default();
    let mut object = input::typed(applied, call.kind, &mut oddities).map_err(|why| Status::new(500, "", why))?;
    // The revision of what does not exist yet says nothing.
    crate::rules::section(&mut object, "metadata").shift_remove("resourceVersion");
    let input = Input {
        object,
        warnings: Vec::new(),
    };
    create::store_new(call, input, Some(managers))
}

fn entry(call: &Call<'_>) -> Entry {
    Entry {
        manager: call.request.query.get("fieldManager").to_owned(),
        apply: true,
        api_version: call.kind.api_version(),
        subresource: call.target.subresource.clone(),
    }
}

/// Who owns what was there before anybody's ownership was tracked.
fn unnamed(call: &Call<'_>) -> Entry {
    Entry {
        manager: "before-first-apply".to_owned(),
        apply: false,
        api_version: call.kind.api_version(),
        subresource: String::new(),
    }
}

/// All fields of an object that somebody can own.
fn everything(call: &Call<'_>, live: &Value) -> Fields {
    let mut all = Fields::changes(&nothing(call), live, root(call).as_ref()).set;
    all.forget_system(call.about_status(), call.kind.status);
    all
}

/// What the applied object states, but for what is not the client's to own.
fn stated(call: &Call<'_>, applied: &Value) -> Fields {
    let mut set = Fields::of(applied, root(call).as_ref());
    set.forget_system(call.about_status(), call.kind.status);
    set
}

struct Outcome {
    object: Value,
    managers: Managers,
}

fn merged(call: &Call<'_>, current: &Value, applied: &Value) -> Result<Outcome, Status> {
    let live = call.kind.rules.to_served(current.clone());
    let ty = root(call);
    let own = entry(call);
    let mut managers = Managers::of(&live);
    if managers.is_empty() {
        managers.set(unnamed(call), everything(call, &live), call.now.wall);
    }
    let set = stated(call, applied);
    let before = managers.get(&own).cloned().unwrap_or_default();
    let others = managers.others(&own);
    let mut object = live.clone();
    merge::apply(&mut object, &without_system(applied), ty.as_ref());
    // What identifies the object is stated, too, though nobody comes to own it.
    let kept = others.union(&Fields::of(applied, ty.as_ref()));
    merge::prune(&mut object, &before.minus(&set), &kept, ty.as_ref());
    let mut changed = Fields::changes(&live, &object, ty.as_ref());
    changed.set.forget_system(call.about_status(), call.kind.status);
    changed.removed.forget_system(call.about_status(), call.kind.status);
    if !call.request.query.flag("force") {
        let disputed = changed.set.minus(&last_applied(call, &live));
        let conflicts = managers.conflicts(&own, &disputed);
        if !conflicts.is_empty() {
            return Err(conflict(&conflicts));
        }
    }
    managers.lose(&own, &changed.set);
    record_last_applied(call, &live, applied, &mut object);
    managers.lose(&own, &changed.removed);
    if crate::api::write::same(&object, &live) {
        managers.restate(own, set);
    } else {
        managers.set(own, set, call.now.wall);
    }
    Ok(Outcome { object, managers })
}

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The fields that `kubectl apply` set before it knew server-side apply: they are its own, whatever name it used then.
fn last_applied(call: &Call<'_>, live: &Value) -> Fields {
    if call.request.query.get("fieldManager") != "kubectl" {
        return Fields::default();
    }
    let annotations = live.pointer("/metadata/annotations");
    let recorded = annotations
        .and_then(|annotations| annotations.get(LAST_APPLIED))
        .and_then(Value::as_str);
    let recorded: Option<Value> = recorded.and_then(|text| serde_json::from_str(text).ok());
    let Some(recorded) = recorded else { return Fields::default() };
    let ty = root(call);
    // What somebody changed since is theirs.
    let since = Fields::changes(&recorded, live, ty.as_ref()).set;
    Fields::of(&recorded, ty.as_ref()).minus(&since)
}

/// Keeps what `kubectl apply` will compare with, should it go back to its older way.
fn record_last_applied(call: &Call<'_>, live: &Value, applied: &Value, object: &mut Value) {
    let annotations = live.pointer("/metadata/annotations");
    let recorded = annotations.and_then(|annotations| annotations.get(LAST_APPLIED));
    if call.request.query.get("fieldManager") != "kubectl" || recorded.is_none() {
        return;
    }
    let mut bare = sorted(applied);
    if let Some(Value::Object(annotations)) = bare.pointer_mut("/metadata/annotations") {
        annotations.shift_remove(LAST_APPLIED);
    }
    let annotations = crate::rules::section(&mut object["metadata"], "annotations");
    annotations.insert(LAST_APPLIED.to_owned(), format!("{bare}\n").into());
}

fn sorted(value: &Value) -> Value {
    let mut value = value.clone();
    value.sort_all_objects();
    value
}

/// Name, uid and the like are not merged: they are checked.
fn without_system(applied: &Value) -> Value {
    let mut applied = applied.clone();
    if let Some(Value::Object(metadata)) = applied.get_mut("metadata") {
        for field in [
            "name",
            "namespace",
            "resourceVersion",
            "creationTimestamp",
            "generation",
            "managedFields",
        ] {
            metadata.shift_remove(field);
        }
    }
    applied
}

fn conflict(conflicts: &[(String, String)]) -> Status {
    let causes: Vec<Cause> = conflicts
        .iter()
        .map(|(who, field)| Cause::new("FieldManagerConflict", field.as_str(), format!("conflict with {who}")))
        .collect();
    let list: Vec<String> = conflicts
        .iter()
        .map(|(who, field)| format!("conflict with {who}: {field}"))
        .collect();
    let plural = if list.len() == 1 { "conflict" } else { "conflicts" };
    let message = format!("Apply failed with {} {plural}: {}", list.len(), list.join("\n"));
    Status::new(409, "Conflict", message).because(causes)
}

/// An object of a kind that has nothing: what a new object is compared with.
pub fn nothing(call: &Call<'_>) -> Value {
    input::bare(Value::Object(Map::new()), call.kind)
}
