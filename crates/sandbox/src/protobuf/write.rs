//! JSON to protobuf.

use bailiff_model::Wall;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::{Paths, paths};
use crate::go_json;
use crate::schema::Type;

const VARINT: u64 = 0;
const LENGTH: u64 = 2;

/// The message of a value of a named type.
pub(super) fn structure(value: &Value, schema: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Value::Object(fields) = value {
        emit(&mut bytes, paths(schema), &|name| fields.get(name));
    }
    bytes
}

fn emit<'v>(bytes: &mut Vec<u8>, mut paths: Paths<'_>, find: &dyn Fn(&str) -> Option<&'v Value>) {
    paths.sort_by_key(|(path, _, _)| path.first().copied());
    let mut rest = paths.as_slice();
    while let Some((first, _, _)) = rest.first() {
        let number = first.first().copied().unwrap_or_default();
        let end = rest.iter().take_while(|(path, _, _)| path.first() == Some(&number)).count();
        let (group, after) = rest.split_at(end);
        rest = after;
        let embedded: Paths<'_> = group
            .iter()
            .filter(|(path, name, _)| path.len() > 1 && find(name).is_some())
            .map(|(path, name, ty)| (path.get(1..).unwrap_or_default(), *name, *ty))
            .collect();
        if !embedded.is_empty() {
            let mut inner = Vec::new();
            emit(&mut inner, embedded, find);
            message(bytes, number, &inner);
        }
        for (path, name, ty) in group {
            if path.len() == 1
                && let Some(value) = find(name)
            {
                field(bytes, number, ty, value);
            }
        }
    }
}

fn field(bytes: &mut Vec<u8>, number: u32, ty: &Type, value: &Value) {
    match (ty, value) {
        (_, Value::Null) => {}
        (Type::List(element, _), Value::Array(items)) => {
            for item in items {
                field(bytes, number, element, item);
            }
        }
        (Type::Map(element, _), Value::Object(entries)) => {
            for (key, value) in entries {
                let mut entry = Vec::new();
                text(&mut entry, 1, key);
                if matches!(**element, Type::List(..)) {
                    let mut list = Vec::new();
                    field(&mut list, 1, element, value);
                    message(&mut entry, 2, &list);
                } else {
                    field(&mut entry, 2, element, value);
                }
                message(bytes, number, &entry);
            }
        }
        (Type::Struct(name), value) => message(bytes, number, &structure(value, name)),
        (Type::Bool, Value::Bool(flag)) => varint_field(bytes, number, u64::from(*flag)),
        (Type::Int32 | Type::Int64, Value::Number(value)) => {
            varint_field(bytes, number, value.as_i64().unwrap_or(0).cast_unsigned());
        }
        (Type::String, Value::String(value)) => text(bytes, number, value),
        (Type::Bytes, Value::String(value)) => message(bytes, number, &STANDARD.decode(value).unwrap_or_default()),
        (Type::Quantity, Value::String(value)) => {
            let mut inner = Vec::new();
            text(&mut inner, 1, value);
            message(bytes, number, &inner);
        }
        (Type::Time | Type::MicroTime, Value::String(value)) => message(bytes, number, &time(value)),
        (Type::IntOrString, value) => message(bytes, number, &int_or_string(value)),
        (Type::Any, value) => {
            let mut inner = Vec::new();
            // A text stands for JSON in the bytes it was given in.
            let given = value.as_str().map(|given| given.as_bytes().to_vec());
            message(&mut inner, 1, &given.unwrap_or_else(|| go_json::bytes(value)));
            message(bytes, number, &inner);
        }
        _ => {}
    }
}

fn time(value: &str) -> Vec<u8> {
    let mut inner = Vec::new();
    if let Ok(at) = value.parse::<Wall>() {
        varint_field(&mut inner, 1, at.as_second().cast_unsigned());
        varint_field(&mut inner, 2, i64::from(at.subsec_nanosecond()).cast_unsigned());
    }
    inner
}

fn int_or_string(value: &Value) -> Vec<u8> {
    let mut inner = Vec::new();
    match value {
        Value::String(value) => {
            varint_field(&mut inner, 1, 1);
            text(&mut inner, 3, value);
        }
        value => varint_field(&mut inner, 2, value.as_i64().unwrap_or(0).cast_unsigned()),
    }
    inner
}

fn varint_field(bytes: &mut Vec<u8>, number: u32, value: u64) {
    varint(bytes, u64::from(number) << 3 | VARINT);
    varint(bytes, value);
}

/// A field that is a text.
pub(super) fn text(bytes: &mut Vec<u8>, number: u32, value: &str) {
    message(bytes, number, value.as_bytes());
}

/// A field that is a message, or other bytes.
pub(super) fn message(bytes: &mut Vec<u8>, number: u32, inner: &[u8]) {
    varint(bytes, u64::from(number) << 3 | LENGTH);
    varint(bytes, inner.len() as u64);
    bytes.extend_from_slice(inner);
}

fn varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}
