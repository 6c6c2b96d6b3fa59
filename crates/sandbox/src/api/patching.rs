//! PATCH of an object or its status, in all four formats.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::input::{self, Strictness};
use super::reply::Reply;
use super::request::Body;
use super::write::Change;
use super::{Call, options, raw};
use crate::patch::{self, Error};
use crate::rules::text;
use crate::schema::decode::{self, Oddities};
use crate::status::Cause;
use crate::store::Object;
use crate::{Status, go_json};

/// What is to be applied.
pub const APPLY: &str = "application/apply-patch+yaml";

/// A format of patches that are merged into what there is, whoever owns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Json,
    Merge,
    Strategic,
}

/// A patch as it was sent. What is wrong with it is told once it is known that there is something to patch.
#[derive(Debug)]
pub struct Patch {
    format: Format,
    value: Result<Value, Status>,
    oddities: Oddities,
}

/// Serves the request.
///
/// # Errors
/// The refusal.
pub fn patch(call: &Call<'_>) -> Result<Reply, Status> {
    if media(call) == APPLY {
        options::check_write(&call.request.query, "PatchOptions", true)?;
        return crate::apply::patch(call);
    }
    let Patch { format, value, oddities } = read(call)?;
    let mut store = call.judged_store();
    let current = call.current(&store)?;
    let patch = value?;
    let old = current.value();
    let served = call.kind.rules.converts().then(|| call.kind.rules.to_served(old.clone()));
    let apply = || -> Result<Value, Status> {
        let before = served.as_ref().unwrap_or(&old);
        let mut patched = apply(format, call.kind.schema, before, &patch).map_err(refusal)?;
        if format == Format::Strategic {
            // What it is was settled before the patch was merged.
            patched["kind"] = call.kind.kind.as_str().into();
            patched["apiVersion"] = call.kind.api_version().into();
        }
        Ok(patched)
    };
    let patched = apply()?;
    let shown = || shown(format, &patch, apply);
    let mut change = result(call, patched, shown, oddities, &current)?;
    if format == Format::Strategic {
        change.raw = raw::rewritten(call, &mut change.object);
    }
    call.commit(&mut store, &current, &old, change)
}

/// What the request says that its patch is.
pub fn media<'c>(call: &'c Call<'_>) -> &'c str {
    let given = call.request.content_type.as_deref().unwrap_or_default();
    given.split(';').next().unwrap_or_default().trim()
}

/// Reads the request's patch, if it is none to be applied. That takes as long as the body is large, and others wait for the store: whoever
/// reads does not hold it.
///
/// # Errors
/// 415 when the kind has no patches of such a format, 422 for its options.
pub fn read(call: &Call<'_>) -> Result<Patch, Status> {
    let format = match media(call) {
        "application/json-patch+json" => Format::Json,
        "application/merge-patch+json" => Format::Merge,
        "application/strategic-merge-patch+json" if !call.kind.schema.is_empty() => Format::Strategic,
        _ => return Err(Status::new(415, "UnsupportedMediaType", "415: Unsupported Media Type").about("", "", "")),
    };
    options::check_write(&call.request.query, "PatchOptions", false)?;
    let mut oddities = Oddities::default();
    let value = parse(&call.request.body, &mut oddities);
    Ok(Patch { format, value, oddities })
}

/// A value of a named type with a patch applied, for subresources that are no view of an object.
///
/// # Errors
/// The refusal.
pub fn patched(patch: Patch, before: &Value, schema: &str) -> Result<Value, Status> {
    let Patch {
        format,
        value,
        mut oddities,
    } = patch;
    let value = value?;
    let apply = || apply(format, schema, before, &value).map_err(refusal);
    let patched = decode::normal(apply()?, schema, &mut oddities);
    patched.map_err(|why| unfit(&shown(format, &value, apply), &why))
}

/// What a refusal shows of a patch that leaves no object of its kind: what it leaves, or a strategic merge patch itself.
fn shown(format: Format, patch: &Value, patched: impl FnOnce() -> Result<Value, Status>) -> String {
    if format == Format::Strategic {
        return go_json::printed(patch);
    }
    in_go_order(patched().unwrap_or_default()).to_string()
}

/// What a patch leaves, as the real server has it: that sorts the fields of what it merged, and leaves the others as Go writes them.
fn in_go_order(mut patched: Value) -> Value {
    const METADATA: [&str; 15] = [
        "name",
        "generateName",
        "namespace",
        "selfLink",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "labels",
        "annotations",
        "ownerReferences",
        "finalizers",
        "managedFields",
    ];
    if let Some(Value::Object(metadata)) = patched.get_mut("metadata") {
        let known = METADATA.into_iter();
        let mut ordered: Map<String, Value> = known.filter_map(|field| metadata.remove_entry(field)).collect();
        ordered.append(metadata);
        *metadata = ordered;
    }
    if let Value::Object(fields) = &mut patched {
        fields.sort_keys();
    }
    patched
}

/// 422 for a patch that leaves no object of its kind.
fn unfit(patched: &str, why: &str) -> Status {
    let cause = Cause::new("FieldValueInvalid", "patch", format!("Invalid value: {patched:?}: {why}"));
    Status::invalid("", "", "", vec![cause])
}

fn parse(body: &Body, oddities: &mut Oddities) -> Result<Value, Status> {
    match body {
        Body::Value(value) => Ok(value.clone()),
        Body::Bytes(_) if body.is_empty() => Err(Status::bad_request("error decoding patch: unexpected end of JSON input")),
        Body::Bytes(bytes) => {
            decode::parse(bytes, oddities).map_err(|why| Status::bad_request(format!("error decoding patch: {why}")))
        }
    }
}

fn apply(format: Format, schema: &str, before: &Value, patch: &Value) -> Result<Value, Error> {
    match format {
        // Without operations.
        Format::Json if patch.is_null() => Ok(before.clone()),
        Format::Json if !patch.is_array() => {
            let why = "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp";
            Err(Error::Malformed(why.to_owned()))
        }
        Format::Json => patch::json::apply(before, patch),
        Format::Merge => {
            let what = match patch {
                Value::Object(_) => {
                    let mut patched = before.clone();
                    patch::merge::apply(&mut patched, patch);
                    return Ok(patched);
                }
                // It can be read as an object without fields, but not be merged.
                Value::Null => return Err(Error::Malformed("Invalid JSON Patch".to_owned())),
                Value::Array(_) => "array",
                Value::String(_) => "string",
                Value::Bool(_) => "bool",
                Value::Number(_) => "number",
            };
            let why =
                format!("error decoding patch: json: cannot unmarshal {what} into Go value of type map[string]interface {{}}");
            Err(Error::Malformed(why))
        }
        Format::Strategic => patch::strategic::apply(before, patch, schema),
    }
}

fn refusal(error: Error) -> Status {
    match error {
        Error::Malformed(why) => Status::bad_request(why),
        Error::Unfit(_) => Status::new(
            422,
            "Invalid",
            "the server rejected our request due to an error in our request",
        )
        .about("", "", ""),
        Error::Directive(why) => Status::new(500, "", why),
        Error::TooMany(why) => {
            let message = format!("Request entity too large: {why}");
            Status::new(413, "RequestEntityTooLarge", message).about("", "", "")
        }
    }
}

/// What the patched object means as a change of the current one. `shown` is the object for people.
fn result(
    call: &Call<'_>,
    mut patched: Value,
    shown: impl Fn() -> String,
    mut oddities: Oddities,
    current: &Arc<Object>,
) -> Result<Change, Status> {
    if text(&patched, "/metadata/name").is_empty() || text(&patched, "/apiVersion").is_empty() {
        return Err(input::nameless(call));
    }
    input::forget_managers(&mut patched);
    let unfit = |why: String| unfit(&shown(), &why);
    // The patch's own duplicates are reported like unknown fields of the result.
    let mut object = input::typed(patched, call.kind, &mut oddities).map_err(&unfit)?;
    let strictness = Strictness::of(call);
    let problems = oddities.messages();
    if strictness == Strictness::Strict && !problems.is_empty() {
        return Err(unfit(format!("strict decoding error: {}", problems.join(", "))));
    }
    input::place(call, &mut object)?;
    let revision = text(&object, "/metadata/resourceVersion");
    input::check_revision(call, revision, current)?;
    Ok(Change {
        object,
        status: call.about_status(),
        warnings: if strictness == Strictness::Warn {
            problems
        } else {
            Vec::new()
        },
        raw: None,
        managers: None,
    })
}
