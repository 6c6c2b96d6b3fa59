//! Reading bodies: media types, YAML, strictness, and whether the object is what the path is about.

use serde_json::{Map, Value};

use super::Call;
use super::kinds::Kind;
use super::request::Body;
use super::write::MODIFIED;
use crate::schema::decode::{self, DEEPEST, Oddities};
use crate::store::Object;
use crate::{Status, protobuf};

/// What is done about unknown and duplicate fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// Nothing.
    Ignore,
    /// The answer carries warnings.
    Warn,
    /// The request is refused.
    Strict,
}

/// An object from a request, in its stored form but for the version, with defaults.
#[derive(Debug)]
pub struct Input {
    /// The object.
    pub object: Value,
    /// What the answer is to warn about.
    pub warnings: Vec<String>,
}

impl Strictness {
    /// What the query asks for.
    pub fn of(call: &Call<'_>) -> Self {
        match call.request.query.get("fieldValidation") {
            "Strict" => Self::Strict,
            "Ignore" => Self::Ignore,
            _ => Self::Warn,
        }
    }
}

/// Checks that an object can be read again, with all that the server added to it, once it is stored.
///
/// # Errors
/// 400 when it is nested too deeply.
pub fn readable(object: &Value) -> Result<(), Status> {
    match decode::depth(object) {
        ..=DEEPEST => Ok(()),
        levels => {
            let message = format!("the object is nested too deeply: it has {levels} levels, {DEEPEST} are stored at most");
            Err(Status::bad_request(message))
        }
    }
}

/// Checks what was sent for a subresource against the form that it has, and brings it into this form.
///
/// # Errors
/// 400 when a field has the wrong type.
pub fn formed(value: Value, kind: &str) -> Result<Value, Status> {
    decode::normal(value, kind, &mut Oddities::default()).map_err(|why| {
        let message = format!("{kind} in version \"v1\" cannot be handled as a {kind}: {why}");
        Status::bad_request(message)
    })
}

/// Reads a body of any accepted media type as a value.
///
/// # Errors
/// 415 for other media types, 400 for what cannot be parsed.
pub fn value(call: &Call<'_>, kind: &str, oddities: &mut Oddities) -> Result<Value, Status> {
    let content_type = call.request.content_type.as_deref();
    let body = &call.request.body;
    let bytes = match body {
        Body::Value(value) => return Ok(value.clone()),
        Body::Bytes(bytes) => bytes,
    };
    let mut parts = content_type.unwrap_or("application/json").split(';');
    let media = parts.next().unwrap_or_default().trim().to_lowercase();
    let media = if parts.all(|part| part.trim().is_empty() || part.contains('=')) {
        media.as_str()
    } else {
        "malformed"
    };
    let unreadable = |why: String| {
        let message = format!("the object provided is unrecognized (must be of type {kind}): {why}");
        Status::bad_request(message)
    };
    match media {
        "application/json" | "" => decode::parse(bytes, oddities).map_err(|why| {
            let what = summary(bytes);
            unreadable(format!("couldn't get version/kind; json parse error: {why} ({what})"))
        }),
        protobuf::MEDIA if !call.kind.schema.is_empty() => {
            protobuf::read(bytes, kind, &call.sandbox.kinds()).map_err(|error| unreadable(error.to_string()))
        }
        "application/yaml" => yaml(bytes).map_err(|error| unreadable(format!("error converting YAML to JSON: {error}"))),
        _ => {
            let accepted = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
            let message = format!("the body of the request was in an unknown format - accepted media types include: {accepted}");
            Err(Status::new(415, "UnsupportedMediaType", message))
        }
    }
}

/// What a refusal shows of a body that cannot be read.
fn summary(body: &[u8]) -> String {
    const SHOWN: usize = 30;
    let start = body.get(..SHOWN).unwrap_or(body);
    let shown = match body.first() {
        None => return "<empty>".to_owned(),
        Some(b'{') => String::from_utf8_lossy(start).into_owned(),
        Some(_) => start.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    if body.len() > SHOWN { format!("{shown} ...") } else { shown }
}

/// Reads YAML, of which JSON is a part.
///
/// # Errors
/// What is wrong with it.
pub fn yaml(bytes: &[u8]) -> Result<Value, String> {
    let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
    serde_saphyr::from_str(text).map_err(|error| error.to_string())
}

/// Reads the object of a create or an update.
///
/// # Errors
/// 400 for what is no object of this kind, or has problems while the request asks for strictness.
pub fn object(call: &Call<'_>) -> Result<Input, Status> {
    let mut oddities = Oddities::default();
    let mut value = value(call, &call.kind.kind, &mut oddities)?;
    let kind = &call.kind.kind;
    let refused = |said: String, why: String| Status::bad_request(format!("{said} cannot be handled as a {kind}: {why}"));
    check_kind(&value, call.kind).map_err(|why| refused(said(&value, call.kind), why))?;
    forget_managers(&mut value);
    shaped(value, call.kind, &mut oddities)
        .and_then(|object| {
            let problems = oddities.messages();
            if Strictness::of(call) == Strictness::Strict && !problems.is_empty() {
                return Err(format!("strict decoding error: {}", problems.join(", ")));
            }
            let warnings = if Strictness::of(call) == Strictness::Warn {
                problems
            } else {
                Vec::new()
            };
            Ok(Input { object, warnings })
        })
        // By now it says what it is expected to be.
        .map_err(|why| refused(said(&Value::Null, call.kind), why))
}

/// What a value says it is; what it does not say is what is expected.
fn said(value: &Value, expected: &Kind) -> String {
    let given = |field: &str| value.get(field).and_then(Value::as_str).filter(|text| !text.is_empty());
    let kind = given("kind").unwrap_or(&expected.kind);
    let version = given("apiVersion").map_or(expected.version.as_str(), |version| {
        version.split_once('/').map_or(version, |(_, version)| version)
    });
    format!("{kind} in version \"{version}\"")
}

/// Brings a value into the stored form of a kind, with its defaults.
///
/// # Errors
/// When it is of another kind, or a field has the wrong type.
pub fn typed(value: Value, kind: &Kind, oddities: &mut Oddities) -> Result<Value, String> {
    check_kind(&value, kind)?;
    shaped(value, kind, oddities)
}

/// Checks what a value says it is.
fn check_kind(value: &Value, kind: &Kind) -> Result<(), String> {
    let given = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default();
    let (given_kind, given_version) = (given("kind"), given("apiVersion"));
    if kind.custom.is_some() && (given_kind.is_empty() || given_version.is_empty()) {
        return Err("Object 'Kind' and 'apiVersion' must be set".to_owned());
    }
    if !given_version.is_empty() && given_version != kind.api_version() {
        // Go types of definitions, and of what they bring, are registered elsewhere.
        let is_legacy = kind.custom.is_none() && kind.group != "apiextensions.k8s.io";
        let scheme = if is_legacy {
            " in scheme \"k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30\""
        } else {
            ""
        };
        return Err(format!(
            "no kind \"{given_kind}\" is registered for version \"{given_version}\"{scheme}"
        ));
    }
    if !given_kind.is_empty() && given_kind != kind.kind {
        // The packages of Go types, by the version and by the group.
        let package = match kind.group.split_once('.').map_or(&*kind.group, |(first, _)| first) {
            "" | "events" => "core",
            other => other,
        };
        let (version, wanted) = (&kind.version, &kind.kind);
        return Err(format!(
            "converting ({version}.{given_kind}) to ({package}.{wanted}): unknown conversion"
        ));
    }
    Ok(())
}

/// Brings a value into the stored form of a kind, whatever it says it is.
fn shaped(value: Value, kind: &Kind, oddities: &mut Oddities) -> Result<Value, String> {
    let value = if value.is_null() { Value::Object(Map::new()) } else { value };
    let Value::Object(mut fields) = value else {
        return Err("json: cannot unmarshal into Go value: it is no object".to_owned());
    };
    fields.shift_remove("kind");
    fields.shift_remove("apiVersion");
    let body = if kind.schema.is_empty() {
        plain(fields, oddities)?
    } else {
        decode::normal(Value::Object(fields), kind.schema, oddities)?
    };
    let mut object = Map::new();
    object.insert("kind".to_owned(), kind.kind.as_str().into());
    object.insert("apiVersion".to_owned(), kind.api_version().into());
    if let Value::Object(mut fields) = body {
        object.append(&mut fields);
    }
    let mut object = Value::Object(object);
    kind.rules.defaults(&mut object);
    Ok(object)
}

/// The fields of an object without a schema: only its metadata has a form, and comes first.
fn plain(mut fields: Map<String, Value>, oddities: &mut Oddities) -> Result<Value, String> {
    let mut head = Map::new();
    if let Some(metadata) = fields.shift_remove("metadata") {
        head.insert("metadata".to_owned(), metadata);
    }
    let mut body = decode::normal(Value::Object(head), "PlainObject", oddities)?;
    crate::rules::section(&mut body, "metadata");
    if let Value::Object(body) = &mut body {
        body.append(&mut fields);
    }
    Ok(body)
}

/// Brings an object that the server changed back into field order and without what is empty.
pub fn tidy(object: Value, kind: &Kind) -> Value {
    let Value::Object(mut fields) = object else { return object };
    let mut tidied = Map::new();
    for name in ["kind", "apiVersion"] {
        if let Some(value) = fields.shift_remove(name) {
            tidied.insert(name.to_owned(), value);
        }
    }
    let mut none = Oddities::default();
    let body = if kind.schema.is_empty() {
        plain(fields.clone(), &mut none).unwrap_or(Value::Object(fields))
    } else {
        let mut body = Value::Object(fields);
        // What the server wrote has the right types.
        let _ = decode::normalize(&mut body, kind.schema, &mut none);
        body
    };
    if let Value::Object(mut body) = body {
        tidied.append(&mut body);
    }
    Value::Object(tidied)
}

/// The same for a pod, whatever the request is about.
pub fn tidy_pod(call: &Call<'_>, object: Value) -> Value {
    match call.sandbox.kinds().find("", "v1", "pods") {
        Some(kind) => tidy(object, kind),
        None => object,
    }
}

/// An object of a kind that has nothing but what is given and what is always written.
pub fn bare(object: Value, kind: &Kind) -> Value {
    let mut named = Map::new();
    named.insert("kind".to_owned(), kind.kind.as_str().into());
    named.insert("apiVersion".to_owned(), kind.api_version().into());
    if let Value::Object(mut fields) = object {
        named.append(&mut fields);
    }
    tidy(Value::Object(named), kind)
}

/// The same for an object in the version it is stored in, which may not be the kind's own.
pub fn tidy_stored(object: Value, kind: &Kind) -> Value {
    if kind.rules.converts() { object } else { tidy(object, kind) }
}

/// 400 for an object that does not say its name.
pub fn nameless(call: &Call<'_>) -> Status {
    let name = &call.target.name;
    Status::bad_request(format!(
        "the name of the object ({name} based on URL) was undeterminable: name must be provided"
    ))
}

/// An empty list of managers means the same as one empty entry: nobody owns anything any more.
pub fn forget_managers(object: &mut Value) {
    if let Some(Value::Array(managers)) = object.pointer_mut("/metadata/managedFields")
        && managers.is_empty()
    {
        managers.push(Value::Object(Map::new()));
    }
}

/// Checks the revision that a write names, if it names one.
///
/// # Errors
/// 409 when the object has moved on, 500 for what is no revision.
pub fn check_revision(call: &Call<'_>, revision: &str, current: &Object) -> Result<(), Status> {
    if revision.is_empty() || revision == "0" || revision == current.revision().to_string() {
        return Ok(());
    }
    if revision.parse::<u64>().is_err() {
        let why = format!("strconv.ParseUint: parsing \"{revision}\": invalid syntax");
        return Err(Status::new(500, "", why));
    }
    Err(call.conflict(current.name(), MODIFIED))
}

/// Checks an object's name and namespace against the path, and fills in the namespace.
///
/// # Errors
/// 400 when they differ.
pub fn place(call: &Call<'_>, object: &mut Value) -> Result<(), Status> {
    let metadata = crate::rules::section(object, "metadata");
    let namespace = metadata.get("namespace").and_then(Value::as_str).unwrap_or_default();
    if call.kind.namespaced {
        if namespace.is_empty() {
            metadata.insert("namespace".to_owned(), call.target.namespace.as_str().into());
        } else if namespace != call.target.namespace {
            let message = "the namespace of the provided object does not match the namespace sent on the request";
            return Err(Status::bad_request(message));
        }
    } else if !namespace.is_empty() {
        metadata.shift_remove("namespace");
    }
    let name = metadata.get("name").and_then(Value::as_str).unwrap_or_default();
    if !call.target.name.is_empty() {
        if name.is_empty() {
            metadata.insert("name".to_owned(), call.target.name.as_str().into());
        } else if name != call.target.name {
            let message = format!(
                "the name of the object ({name}) does not match the name on the URL ({})",
                call.target.name
            );
            return Err(Status::bad_request(message));
        }
    }
    Ok(())
}
