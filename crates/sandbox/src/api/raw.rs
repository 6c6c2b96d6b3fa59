//! The bytes of `data` of a ControllerRevision (DS-206 to DS-208).
//!
//! The real server keeps a raw field as it was given, and shows it through JSON compacted and escaped; only clients that read protobuf
//! see what is kept. Objects here are JSON values. So bytes that differ from what the value itself would be written as are kept beside it.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::Call;
use super::request::Body;
use crate::status::Cause;
use crate::store::Object;
use crate::{go_json, protobuf};

/// Whether objects of this schema have such a field.
fn is_kept(schema: &str) -> bool {
    schema == "ControllerRevision"
}

/// The bytes that the body of a create or an update gives, unless the value says them all.
pub fn given(call: &Call<'_>, object: &Value) -> Option<Box<[u8]>> {
    let Body::Bytes(body) = &call.request.body else { return None };
    if !is_kept(call.kind.schema) {
        return None;
    }
    let media = call.request.content_type.as_deref().unwrap_or_default();
    let bytes: Box<[u8]> = match media.split(';').next().unwrap_or_default().trim() {
        "application/json" | "" => {
            #[derive(Deserialize)]
            struct Given<'a> {
                #[serde(borrow)]
                data: &'a RawValue,
            }
            let given: Given<'_> = serde_json::from_slice(body).ok()?;
            given.data.get().as_bytes().into()
        }
        protobuf::MEDIA => protobuf::raw_field(body, 2)?.into(),
        // YAML is made into JSON with sorted keys before it is read.
        _ => canonical(object),
    };
    (*bytes != *plain(object)).then_some(bytes)
}

/// The bytes that a strategic merge patch, or an apply, leaves: they write the field anew.
pub fn rewritten(call: &Call<'_>, object: &mut Value) -> Option<Box<[u8]>> {
    if !is_kept(call.kind.schema) {
        return None;
    }
    if let Some(data) = object.get_mut("data") {
        data.sort_all_objects();
    }
    Some(canonical(object))
}

fn canonical(object: &Value) -> Box<[u8]> {
    let mut data = object.get("data").cloned().unwrap_or_default();
    data.sort_all_objects();
    whole_numbers(&mut data);
    go_json::bytes(&data).into()
}

/// Go writes a float without a fraction as an integer.
fn whole_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            // Beyond this, it uses an exponent, as is done here.
            const WHOLE: f64 = 1e15;
            if let Some(float) = number
                .as_f64()
                .filter(|float| number.is_f64() && float.fract() == 0.0 && float.abs() < WHOLE)
            {
                *value = Value::from(float as i64);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Object(fields) => fields.values_mut().for_each(whole_numbers),
        _ => {}
    }
}

/// What is wrong with changing the bytes, where the values are equal (DS-175).
pub fn changed(call: &Call<'_>, object: &Value, bytes: Option<&[u8]>, current: &Object) -> Option<Cause> {
    if !is_kept(call.kind.schema) {
        return None;
    }
    let old = current.value();
    let is_same = match (bytes, current.given()) {
        (Some(bytes), Some(before)) => bytes == before,
        (Some(bytes), None) => *bytes == *plain(&old),
        (None, Some(before)) => *plain(object) == *before,
        (None, None) => plain(object) == plain(&old),
    };
    let data = object.get("data").cloned().unwrap_or_default();
    (!is_same && Some(&data) == old.get("data")).then(|| Cause::invalid("data", &data, "field is immutable"))
}

/// The field as the value itself is written: in JSON, and, where no other bytes are kept, in protobuf.
fn plain(object: &Value) -> Box<[u8]> {
    go_json::bytes(object.get("data").unwrap_or(&Value::Null)).into()
}
