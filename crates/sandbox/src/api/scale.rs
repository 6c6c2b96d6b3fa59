//! The subresource `scale`: how many replicas there are to be, in one form for all kinds.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::negotiate::Shape;
use super::patching::{self, Patch};
use super::reply::Reply;
use super::write::Change;
use super::{Call, input, options, pods, table};
use crate::rules::text;
use crate::status::Cause;
use crate::store::{Object, Store};
use crate::{Status, apply};

/// Where a kind keeps what its scale says, as pointers.
#[derive(Clone, Debug)]
pub struct Paths {
    /// The replicas that are wanted.
    pub spec: String,
    /// Those that there are.
    pub status: String,
    /// The selector in its text form, `""` if it is nowhere.
    pub selector: String,
}

impl Paths {
    /// What a version of a CustomResourceDefinition says, if it has the subresource.
    pub fn of(version: &Value) -> Option<Self> {
        let scale = version.pointer("/subresources/scale").filter(|scale| scale.is_object())?;
        let pointer = |field: &str| text(scale, field).replace('.', "/");
        Some(Self {
            spec: pointer("/specReplicasPath"),
            status: pointer("/statusReplicasPath"),
            selector: pointer("/labelSelectorPath"),
        })
    }
}

/// What a scale is to become.
#[derive(Debug)]
enum Asked {
    /// What a patch makes of it.
    Patched(Patch),
    /// What this states. What is wrong with it is told once it is known that there is something to scale.
    Applied(Result<Value, Status>),
    /// This.
    Put(Value),
}

/// Serves the request.
///
/// # Errors
/// The refusal.
pub fn serve(call: &Call<'_>) -> Result<Reply, Status> {
    // Reading takes as long as the body is large, and others wait for the store.
    let asked = match call.request.method.as_str() {
        "GET" => None,
        "PATCH" if patching::media(call) == patching::APPLY => {
            options::check_write(&call.request.query, "PatchOptions", true)?;
            Some(Asked::Applied(apply::scale::read(call)))
        }
        "PATCH" => Some(Asked::Patched(patching::read(call)?)),
        _ => Some(Asked::Put(given(call)?)),
    };
    let mut store = if asked.is_none() { call.store() } else { call.judged_store() };
    let current = call.current(&store)?;
    let mut object = call.kind.rules.to_served(current.value());
    match asked {
        None if call.kind.custom.is_some() && object.pointer(&paths(call).spec).is_none() => return Err(unset(call)),
        None => {}
        Some(asked) => change(call, &mut store, &current, &mut object, asked)?,
    }
    let scale = shown(call, &object);
    Ok(match call.accepted.shape {
        Shape::Whole => Reply::object(200, scale),
        Shape::Table(version) => Reply::object(200, table::of_scale(call, version, &scale)),
        Shape::Partial(version) | Shape::PartialList(version) => Reply::object(200, table::partial(&scale, version)),
    })
}

/// 500 for a custom resource that does not say how many replicas it wants.
fn unset(call: &Call<'_>) -> Status {
    let path = paths(call).spec.replace('/', ".");
    let why = format!("the spec replicas field \"{path}\" does not exist");
    let message = format!("Internal error occurred: {why}");
    Status::new(500, "InternalError", message).because(vec![Cause::new("", "", why)])
}

/// Carries out a change of the scale of an object, and leaves the object as it is then.
fn change(call: &Call<'_>, store: &mut Store, current: &Arc<Object>, object: &mut Value, asked: Asked) -> Result<(), Status> {
    let before = shown(call, object);
    let mut managers = None;
    let wanted = match asked {
        Asked::Patched(patch) => patching::patched(patch, &before, "Scale")?,
        Asked::Put(scale) => scale,
        Asked::Applied(applied) => {
            let outcome = apply::scale::merged(call, object, &paths(call).spec, applied?)?;
            managers = Some(outcome.managers);
            outcome.scale
        }
    };
    let replicas = wanted.pointer("/spec/replicas").cloned().unwrap_or(json!(0));
    input::check_revision(call, text(&wanted, "/metadata/resourceVersion"), current)?;
    if replicas.as_i64().is_some_and(|replicas| replicas < 0) {
        return Err(negative(call, &replicas));
    }
    set(object, &paths(call).spec, replicas);
    call.admit_other(store, "UPDATE", &shown(call, object), &before)?;
    let change = Change {
        object: object.clone(),
        status: false,
        warnings: Vec::new(),
        raw: None,
        managers,
    };
    call.commit(store, current, &current.value(), change)?;
    if !call.dry_run() {
        *object = call.kind.rules.to_served(call.current(store)?.value());
    }
    Ok(())
}

fn negative(call: &Call<'_>, replicas: &Value) -> Status {
    if call.kind.custom.is_some() {
        let path = paths(call).spec.replace('/', ".");
        let cause = Cause::invalid(path, replicas, "should be a non-negative integer");
        return call.invalid(&call.target.name, vec![cause]);
    }
    let cause = Cause::invalid("spec.replicas", replicas, "must be greater than or equal to 0");
    Status::invalid("autoscaling", "Scale", &call.target.name, vec![cause])
}

/// The Scale that was sent.
fn given(call: &Call<'_>) -> Result<Value, Status> {
    options::check_write(&call.request.query, "UpdateOptions", false)?;
    let given = pods::body(call, "Scale")?;
    let (version, kind) = (text(&given, "/apiVersion"), text(&given, "/kind"));
    if !matches!(version, "" | "autoscaling/v1") || !matches!(kind, "" | "Scale") {
        let why = format!("converting (v1.{kind}) to (autoscaling.Scale): unknown conversion");
        let message = format!("{kind} in version \"v1\" cannot be handled as a Scale: {why}");
        return Err(Status::bad_request(message));
    }
    let mut given = input::formed(given, "Scale")?;
    if text(&given, "/metadata/name").is_empty() {
        return Err(input::nameless(call));
    }
    input::place(call, &mut given)?;
    Ok(given)
}

fn paths(call: &Call<'_>) -> Paths {
    let own = call.kind.custom.as_ref().and_then(|custom| custom.scale.clone());
    own.unwrap_or_else(|| Paths {
        spec: "/spec/replicas".to_owned(),
        status: "/status/replicas".to_owned(),
        selector: String::new(),
    })
}

/// Sets a nested value, making what it is nested in.
fn set(object: &mut Value, pointer: &str, value: Value) {
    let mut place = object;
    for step in pointer.split('/').skip(1) {
        if !place.is_object() {
            *place = Value::Object(Map::new());
        }
        place = &mut place[step];
    }
    *place = value;
}

fn shown(call: &Call<'_>, object: &Value) -> Value {
    let paths = paths(call);
    let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0);
    let selector = if call.kind.custom.is_some() {
        text(object, &paths.selector).to_owned()
    } else {
        labels(object)
    };
    let mut metadata = Map::new();
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object.pointer(&format!("/metadata/{field}")) {
            metadata.insert(field.to_owned(), value.clone());
        }
    }
    let mut status = json!({"replicas": number(&paths.status)});
    if !selector.is_empty() {
        status["selector"] = selector.into();
    }
    let spec = match number(&paths.spec) {
        0 => json!({}),
        replicas => json!({"replicas": replicas}),
    };
    json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status})
}

fn labels(object: &Value) -> String {
    let labels = object.pointer("/spec/selector/matchLabels").and_then(Value::as_object);
    let pairs = labels.into_iter().flatten();
    let pairs: Vec<String> = pairs
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    pairs.join(",")
}
