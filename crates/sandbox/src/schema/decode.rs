//! From a request's body to an object in the form the API stores it: typed, in one field order, without what is empty.
//!
//! What Go's decoder accepts is accepted here: unknown fields are dropped and reported, duplicates are reported and the last one
//! wins, null is the same as absent. What it refuses is refused with its words.

use std::fmt;

use base64::alphabet::STANDARD;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use base64::{DecodeError, Engine};
use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Number, Value};

use super::path::Path;
use super::{Field, Presence, Type, lookup, quantity, time};
use crate::go_json::syntax;

/// What is odd about an object without making it unreadable.
#[derive(Debug, Default)]
pub struct Oddities {
    /// Paths of fields that the type does not have.
    pub unknown: Vec<String>,
    /// Paths of fields that were given twice.
    pub duplicate: Vec<String>,
}

impl Oddities {
    /// The problems in the words of the strict decoder: duplicates come first, as they are found by the parser.
    pub fn messages(&self) -> Vec<String> {
        let duplicate = self.duplicate.iter().map(|path| format!("duplicate field \"{path}\""));
        let unknown = self.unknown.iter().map(|path| format!("unknown field \"{path}\""));
        duplicate.chain(unknown).collect()
    }
}

/// Parses JSON, keeping the last of duplicate fields and noting the others.
///
/// # Errors
/// When it is no JSON, or nested too deeply.
pub fn parse(bytes: &[u8], oddities: &mut Oddities) -> Result<Value, String> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let path = &Path::Root;
    let parsed = Node { path, oddities }.deserialize(&mut reader);
    let ended = parsed.and_then(|value| reader.end().map(|()| value));
    // What Go accepts is too deep, is no text, or has a number that is too large.
    ended.map_err(|error| syntax::fault(bytes).unwrap_or_else(|| error.to_string()))
}

/// Brings an object of a named type into its stored form.
///
/// # Errors
/// When a field has the wrong type.
pub fn normal(mut value: Value, type_name: &str, oddities: &mut Oddities) -> Result<Value, String> {
    normalize(&mut value, type_name, oddities)?;
    Ok(value)
}

/// The same in place; what is wrong stays as it is, and what comes after it.
///
/// # Errors
/// When a field has the wrong type.
pub fn normalize(value: &mut Value, type_name: &str, oddities: &mut Oddities) -> Result<(), String> {
    let ty = Type::Struct(lookup(type_name).map_or("", |found| found.name));
    convert(value, &ty, &Path::Root, oddities)
}

/// Go's standard encoding: padded, but the bits that are left over at the end may be anything.
const LENIENT: GeneralPurpose = GeneralPurpose::new(&STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));

/// Levels of an object that is stored. A real server stops at 10,000; here objects are parsed by what gives up at 128, as Rust clients
/// are, for whom a list or a watch adds some of its own.
pub const DEEPEST: usize = 110;

/// How deep a value is.
pub fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

// === parsing ===

struct Node<'a> {
    path: &'a Path<'a>,
    oddities: &'a mut Oddities,
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        loop {
            let path = Path::Index(self.path, list.len());
            let seed = Node {
                path: &path,
                oddities: self.oddities,
            };
            match items.next_element_seed(seed)? {
                Some(item) => list.push(item),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let path = Path::Field(self.path, &key);
            let seed = Node {
                path: &path,
                oddities: self.oddities,
            };
            let value = entries.next_value_seed(seed)?;
            match map.entry(key) {
                Entry::Vacant(entry) => {
                    entry.insert(value);
                }
                Entry::Occupied(mut entry) => {
                    let path = Path::Field(self.path, entry.key()).to_string();
                    self.oddities.duplicate.push(path);
                    entry.insert(value);
                }
            }
        }
        Ok(Value::Object(map))
    }
}

// === typing ===

/// Brings a value into its stored form. What is in that form already, as nearly all of an object is that was stored before, is only
/// looked at.
fn convert(value: &mut Value, ty: &Type, path: &Path<'_>, oddities: &mut Oddities) -> Result<(), String> {
    let converted = match (ty, &mut *value) {
        (Type::Any, value) if depth(value) > DEEPEST => return Err(format!("{path} is nested too deeply")),
        (Type::Any, _) => return Ok(()),
        (_, Value::Null) => zero(ty),
        (Type::Struct(name), Value::Object(map)) => return structure(map, name, path, oddities),
        (Type::List(element, _), Value::Array(items)) => {
            for (index, item) in items.iter_mut().enumerate() {
                convert(item, element, &Path::Index(path, index), oddities)?;
            }
            return Ok(());
        }
        (Type::Map(element, _), Value::Object(map)) => return table(map, element, path, oddities),
        (Type::String, Value::String(_)) | (Type::Bool, Value::Bool(_)) | (Type::Number, Value::Number(_)) => {
            return Ok(());
        }
        (Type::Bytes, Value::String(text)) => {
            let normal = bytes(text)?;
            if normal == *text {
                return Ok(());
            }
            Value::String(normal)
        }
        (Type::Int64, Value::Number(number)) => whole(number, ty, path, i64::MIN..=i64::MAX)?,
        (Type::Int32 | Type::IntOrString, Value::Number(number)) => {
            whole(number, &Type::Int32, path, i64::from(i32::MIN)..=i64::from(i32::MAX))?
        }
        (Type::IntOrString, Value::String(_)) => return Ok(()),
        (Type::Time, Value::String(text)) if time::is_normal(text) => return Ok(()),
        (Type::MicroTime, Value::String(text)) if time::is_normal_micro(text) => return Ok(()),
        (Type::Time, Value::String(text)) => time::normal(text).map(Value::String)?,
        (Type::MicroTime, Value::String(text)) => time::normal_micro(text).map(Value::String)?,
        (Type::Quantity, Value::String(text)) => amount(text)?,
        (Type::Quantity, Value::Number(number)) => amount(&number.to_string())?,
        (ty, value) => return Err(mismatch(value, ty, path)),
    };
    *value = converted;
    Ok(())
}

fn structure(map: &mut Map<String, Value>, name: &str, path: &Path<'_>, oddities: &mut Oddities) -> Result<(), String> {
    let Some(shape) = lookup(name) else { return Ok(()) };
    let unknown = if is_ordered(map, &shape.fields) {
        Map::new()
    } else {
        reorder(map, &shape.fields)
    };
    let mut fields = shape.fields.iter();
    let mut is_tidy = true;
    for (name, value) in map.iter_mut() {
        let Some(field) = fields.find(|field| field.name == name) else {
            continue;
        };
        is_tidy &= written(value, field, &Path::Member(path, shape.name, name), oddities)?;
    }
    if !is_tidy {
        let mut fields = shape.fields.iter();
        map.retain(|name, value| {
            fields
                .find(|field| field.name == name)
                .is_some_and(|field| is_kept(value, field))
        });
    }
    for name in unknown.keys() {
        oddities.unknown.push(Path::Field(path, name).to_string());
    }
    Ok(())
}

/// Whether an object has only known fields, in their order, and all that are always written.
fn is_ordered(map: &Map<String, Value>, fields: &[Field]) -> bool {
    let mut fields = fields.iter();
    map.keys().all(|name| {
        fields
            .by_ref()
            .take_while(|field| field.name == name || field.presence != Presence::Always)
            .any(|field| field.name == name)
    }) && fields.all(|field| field.presence != Presence::Always)
}

/// Puts known fields into their order, and adds those that are always written. Returns the others.
fn reorder(map: &mut Map<String, Value>, fields: &[Field]) -> Map<String, Value> {
    let mut given = std::mem::take(map);
    for field in fields {
        if let Some((name, value)) = given.swap_remove_entry(field.name) {
            map.insert(name, value);
        } else if field.presence == Presence::Always {
            map.insert(field.name.to_owned(), Value::Null);
        }
    }
    given
}

/// Converts a field's value. Returns whether it is to be written at all.
fn written(value: &mut Value, field: &Field, path: &Path<'_>, oddities: &mut Oddities) -> Result<bool, String> {
    if !value.is_null() {
        convert(value, &field.ty, path, oddities)?;
    } else if field.presence == Presence::Always {
        *value = zero(&field.ty);
    } else {
        return Ok(false);
    }
    // Stored in protobuf, an empty list is none.
    if field.presence == Presence::Always && matches!(field.ty, Type::List(..)) && is_empty(value) {
        *value = Value::Null;
    }
    Ok(is_kept(value, field))
}

/// Whether a value that was converted is written.
fn is_kept(value: &Value, field: &Field) -> bool {
    match field.presence {
        Presence::Always => true,
        _ if value.is_null() => false,
        Presence::Set => !matches!(&field.ty, Type::List(..) | Type::Map(..)) || !is_empty(value),
        Presence::Filled => matches!(&field.ty, Type::Struct(_) | Type::IntOrString | Type::Any) || !is_empty(value),
    }
}

fn table(map: &mut Map<String, Value>, element: &Type, path: &Path<'_>, oddities: &mut Oddities) -> Result<(), String> {
    // Maps are written in the order of their keys.
    if !map.keys().is_sorted() {
        map.sort_keys();
    }
    for (key, value) in map.iter_mut() {
        convert(value, element, &Path::Field(path, key), oddities)?;
    }
    Ok(())
}

fn whole(number: &Number, ty: &Type, path: &Path<'_>, range: std::ops::RangeInclusive<i64>) -> Result<Value, String> {
    match number.as_i64() {
        Some(value) if range.contains(&value) => Ok(value.into()),
        _ => Err(unfit(&format!("number {number}"), ty, path)),
    }
}

/// Base64 as it is written again: line breaks and stray bits at the end are forgiven, nothing else is.
fn bytes(text: &str) -> Result<String, String> {
    let broken = text.contains(['\r', '\n']);
    let joined = if broken {
        text.replace(['\r', '\n'], "")
    } else {
        String::new()
    };
    let text = if broken { &joined } else { text };
    match LENIENT.decode(text) {
        Ok(bytes) => Ok(LENIENT.encode(bytes)),
        Err(error) => {
            let at = match error {
                DecodeError::InvalidByte(at, _) | DecodeError::InvalidLastSymbol(at, _) => at,
                DecodeError::InvalidLength(_) | DecodeError::InvalidPadding => text.len() / 4 * 4,
            };
            Err(format!("illegal base64 data at input byte {at}"))
        }
    }
}

fn amount(text: &str) -> Result<Value, String> {
    let complaint = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
    quantity::normal(text).map(Value::String).ok_or_else(|| complaint.to_owned())
}

/// The value that an absent field of this type has.
pub fn zero(ty: &Type) -> Value {
    match ty {
        Type::String | Type::Bytes => Value::String(String::new()),
        Type::Bool => false.into(),
        Type::Int32 | Type::Int64 | Type::Number | Type::IntOrString => 0.into(),
        Type::Quantity => "0".into(),
        Type::Struct(name) => {
            let (mut map, mut none) = (Map::new(), Oddities::default());
            // Nothing is given, so nothing can be wrong with it.
            let _ = structure(&mut map, name, &Path::Root, &mut none);
            Value::Object(map)
        }
        Type::Time | Type::MicroTime | Type::Any | Type::List(..) | Type::Map(..) => Value::Null,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

fn mismatch(value: &Value, ty: &Type, path: &Path<'_>) -> String {
    let given = match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    unfit(given, ty, path)
}

fn unfit(given: &str, ty: &Type, path: &Path<'_>) -> String {
    let wanted = in_go(ty);
    match path {
        Path::Root => format!("json: cannot unmarshal {given} into Go value of type {wanted}"),
        path => format!(
            "json: cannot unmarshal {given} into Go struct field {} of type {wanted}",
            path.in_go()
        ),
    }
}

fn in_go(ty: &Type) -> String {
    match ty {
        Type::String => "string".to_owned(),
        Type::Bytes => "[]uint8".to_owned(),
        Type::Bool => "bool".to_owned(),
        Type::Int32 => "int32".to_owned(),
        Type::Int64 => "int64".to_owned(),
        Type::Struct(name) => format!("v1.{name}"),
        Type::List(item, _) => format!("[]{}", in_go(item)),
        Type::Map(item, _) => format!("map[string]{}", in_go(item)),
        other => format!("{other:?}").to_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(type_name: &str, given: Value, expected: &Value, unknown: &[&str]) {
        let mut oddities = Oddities::default();
        let found = normal(given, type_name, &mut oddities).expect("it decodes");
        assert_eq!(&found, expected);
        assert_eq!(oddities.unknown, unknown);
        let mut none = Oddities::default();
        assert_eq!(
            normal(found.clone(), type_name, &mut none),
            Ok(found),
            "once more changes nothing"
        );
    }

    #[test]
    fn objects_are_stored_without_what_is_empty_or_unknown() {
        check(
            "Taint",
            json!({"value": "", "key": "k", "effect": "NoExecute", "color": 1, "timeAdded": null}),
            &json!({"effect": "NoExecute", "key": "k"}),
            &["color"],
        );
        check(
            "LeaseSpec",
            json!({"holderIdentity": "", "leaseTransitions": 0, "acquireTime": null}),
            &json!({"holderIdentity": "", "leaseTransitions": 0}),
            &[],
        );
        check(
            "Toleration",
            json!({"tolerationSeconds": 0, "operator": "Exists"}),
            &json!({"operator": "Exists", "tolerationSeconds": 0}),
            &[],
        );
        check(
            "PodCondition",
            json!({"type": "Ready", "status": "True"}),
            &json!({"lastProbeTime": null, "lastTransitionTime": null, "status": "True", "type": "Ready"}),
            &[],
        );
    }

    #[test]
    fn the_last_of_duplicate_fields_wins_and_is_reported() {
        let mut oddities = Oddities::default();
        let text = br#"{"metadata":{"name":"a","name":"b"},"spec":{"list":[{"x":1,"x":2}]}}"#;
        let value = parse(text, &mut oddities).expect("it is JSON");
        assert_eq!(value, json!({"metadata": {"name": "b"}, "spec": {"list": [{"x": 2}]}}));
        assert_eq!(oddities.duplicate, ["metadata.name", "spec.list[0].x"]);
    }

    #[test]
    fn wrong_types_are_refused() {
        for (type_name, given) in [
            ("PodSpec", json!({"containers": "x"})),
            ("Pod", json!([])),
            ("Toleration", json!({"tolerationSeconds": 1.5})),
            ("ContainerPort", json!({"hostPort": 5_000_000_000_i64})),
            ("ObjectMeta", json!({"labels": {"a": 1}})),
            ("LeaseSpec", json!({"renewTime": "2024-03-01T10:00:20Z"})),
        ] {
            assert!(
                normal(given.clone(), type_name, &mut Oddities::default()).is_err(),
                "{type_name} {given}"
            );
        }
    }
}
