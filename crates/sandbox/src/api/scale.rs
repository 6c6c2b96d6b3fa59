//! The subresource `scale`: how many replicas there are to be, in one form for all kinds.

use serde_json::{Map, Value, json};

use super::negotiate::Shape;
use super::reply::Reply;
use super::write::Change;
use super::{Call, input, patching, pods, table};
use crate::Status;
use crate::rules::text;
use crate::status::Cause;

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

/// Serves the request.
///
/// # Errors
/// The refusal.
pub fn serve(call: &Call<'_>) -> Result<Reply, Status> {
    let mut store = call.store();
    let current = call.current(&store)?;
    let mut object = call.kind.rules.to_served(current.value());
    let is_custom = call.kind.custom.is_some();
    if is_custom && call.request.method == "GET" && object.pointer(&paths(call).spec).is_none() {
        let path = paths(call).spec.replace('/', ".");
        let why = format!("Internal error occurred: the spec replicas field \"{path}\" does not exist");
        let cause = Cause::new("", "", why.trim_start_matches("Internal error occurred: "));
        return Err(Status::new(500, "InternalError", why.as_str()).because(vec![cause]));
    }
    let media = call.request.content_type.as_deref().unwrap_or_default();
    if is_custom && call.request.method == "PATCH" && media.starts_with("application/strategic") {
        return Err(Status::new(415, "UnsupportedMediaType", "415: Unsupported Media Type").about("", "", ""));
    }
    if call.request.method != "GET" {
        let before = shown(call, &object);
        let wanted = if call.request.method == "PATCH" {
            patching::patched(call, &before, "Scale")?
        } else {
            input::formed(given(call)?, "Scale")?
        };
        let replicas = wanted.pointer("/spec/replicas").cloned().unwrap_or(json!(0));
        input::check_revision(call, text(&wanted, "/metadata/resourceVersion"), &current)?;
        if is_custom && replicas.as_i64().is_some_and(|replicas| replicas < 0) {
            let path = paths(call).spec.replace('/', ".");
            let cause = Cause::invalid(path, &replicas, "should be a non-negative integer");
            return Err(call.invalid(&call.target.name, vec![cause]));
        }
        if replicas.as_i64().is_some_and(|replicas| replicas < 0) {
            let cause = Cause::invalid("spec.replicas", &replicas, "must be greater than or equal to 0");
            return Err(Status::invalid("autoscaling", "Scale", &call.target.name, vec![cause]));
        }
        set(&mut object, &paths(call).spec, replicas);
        call.admit_other(&store, "UPDATE", &shown(call, &object), &before)?;
        let change = Change {
            object: object.clone(),
            status: false,
            warnings: Vec::new(),
            raw: None,
            managers: None,
        };
        call.commit(&mut store, &current, &current.value(), change)?;
        object = call.kind.rules.to_served(call.current(&store)?.value());
    }
    let scale = shown(call, &object);
    Ok(match call.accepted.shape {
        Shape::Whole => Reply::object(200, scale),
        Shape::Table(version) => Reply::object(200, table::of_scale(call, version, &scale)),
        Shape::Partial(version) | Shape::PartialList(version) => Reply::object(200, table::partial(&scale, version)),
    })
}

fn given(call: &Call<'_>) -> Result<Value, Status> {
    let given = pods::body(call, "Scale")?;
    let (version, kind) = (text(&given, "/apiVersion"), text(&given, "/kind"));
    if matches!(version, "" | "autoscaling/v1") && matches!(kind, "" | "Scale") {
        return Ok(given);
    }
    let why = format!("converting (v1.{kind}) to (autoscaling.Scale): unknown conversion");
    let message = format!("{kind} in version \"v1\" cannot be handled as a Scale: {why}");
    Err(Status::bad_request(message))
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
