//! Kubernetes' protobuf form of objects, by the same table of fields that everything else uses.
//!
//! Objects are JSON inside; this is how they come and go for clients that speak protobuf. Reading is lenient as protobuf is: unknown
//! numbers are skipped. Writing leaves out what is empty, which readers cannot tell from written zeros.

use serde_json::{Map, Value};

use crate::api::kinds::Kinds;
use crate::schema::{Type, lookup};

mod read;
mod write;

/// What every document starts with.
pub const MAGIC: &[u8] = b"k8s\0";
/// Its media type.
pub const MEDIA: &str = "application/vnd.kubernetes.protobuf";

/// Why bytes are no document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It does not start like one.
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    Magic,
    /// It ends too early, or has lengths or wire types that cannot be.
    #[error("proto: illegal wireType, tag or length")]
    Malformed,
    /// Messages are nested too deeply.
    #[error("proto: nested too deeply")]
    Deep,
}

/// Writes an object of any served kind, a list of them, or a Status. Nothing for what has no protobuf form.
pub fn document(value: &Value, kinds: &Kinds) -> Option<Vec<u8>> {
    let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let body = body(value, api_version, kind, kinds)?;
    let mut type_meta = Vec::new();
    write::text(&mut type_meta, 1, api_version);
    write::text(&mut type_meta, 2, kind);
    let mut unknown = MAGIC.to_vec();
    write::message(&mut unknown, 1, &type_meta);
    write::message(&mut unknown, 2, &body);
    Some(unknown)
}

/// Writes the message of a value of a named type, in no envelope.
pub fn message(value: &Value, schema: &str) -> Vec<u8> {
    write::structure(value, schema)
}

fn body(value: &Value, api_version: &str, kind: &str, kinds: &Kinds) -> Option<Vec<u8>> {
    match kind {
        "Status" => return Some(write::structure(value, "Status")),
        "PartialObjectMetadata" => return Some(partial(value)),
        "PartialObjectMetadataList" => return Some(list(value, partial)),
        _ => {}
    }
    if let Some(found) = kinds.of_kind(api_version, kind) {
        return lookup(found.schema).map(|_| write::structure(value, found.schema));
    }
    let item = kinds.of_kind(api_version, kind.strip_suffix("List")?)?;
    lookup(item.schema)?;
    Some(list(value, |one| write::structure(one, item.schema)))
}

fn partial(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    let metadata = value.get("metadata").unwrap_or(&Value::Null);
    write::message(&mut bytes, 1, &write::structure(metadata, "ObjectMeta"));
    bytes
}

fn list(value: &Value, item: impl Fn(&Value) -> Vec<u8>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let metadata = value.get("metadata").unwrap_or(&Value::Null);
    write::message(&mut bytes, 1, &write::structure(metadata, "ListMeta"));
    for one in value.get("items").and_then(Value::as_array).into_iter().flatten() {
        write::message(&mut bytes, 2, &item(one));
    }
    bytes
}

/// Writes an event of a watch as a frame: four bytes of length, then the event.
pub fn frame(change: &str, object: &[u8]) -> Vec<u8> {
    let mut raw = Vec::new();
    write::message(&mut raw, 1, object);
    let mut event = Vec::new();
    write::text(&mut event, 1, change);
    write::message(&mut event, 2, &raw);
    let length = u32::try_from(event.len()).unwrap_or(u32::MAX);
    let mut frame = length.to_be_bytes().to_vec();
    frame.append(&mut event);
    frame
}

/// The bytes of a raw field of a document's object, by its number.
pub fn raw_field(bytes: &[u8], number: u32) -> Option<&[u8]> {
    let inner = |bytes, number| {
        let found = read::fields(bytes).ok()?.into_iter().rfind(|field| field.number == number)?;
        match found.payload {
            read::Payload::Bytes(bytes) => Some(bytes),
            read::Payload::Number(_) => None,
        }
    };
    let object = inner(bytes.strip_prefix(MAGIC)?, 2)?;
    inner(inner(object, number)?, 1)
}

/// Reads a document; its type is what it says, or `schema` if it says nothing known.
///
/// # Errors
/// When it is none.
pub fn read(bytes: &[u8], schema: &str, kinds: &Kinds) -> Result<Value, Error> {
    let unknown = bytes.strip_prefix(MAGIC).ok_or(Error::Magic)?;
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    for field in read::fields(unknown)? {
        match (field.number, field.payload) {
            (1, read::Payload::Bytes(type_meta)) => {
                for part in read::fields(type_meta)? {
                    match (part.number, part.payload) {
                        (1, read::Payload::Bytes(text)) => api_version = String::from_utf8_lossy(text).into_owned(),
                        (2, read::Payload::Bytes(text)) => kind = String::from_utf8_lossy(text).into_owned(),
                        _ => {}
                    }
                }
            }
            (2, read::Payload::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    let schema = kinds.of_kind(&api_version, &kind).map_or(schema, |found| found.schema);
    let mut object = Map::new();
    object.insert("kind".to_owned(), kind.into());
    object.insert("apiVersion".to_owned(), api_version.into());
    if let Value::Object(mut fields) = read::structure(raw, schema, 0)? {
        object.append(&mut fields);
    }
    Ok(Value::Object(object))
}

/// The fields of a type with the part of their number path that is left to walk.
type Paths<'a> = Vec<(&'a [u32], &'a str, &'a Type)>;

fn paths(schema: &str) -> Paths<'static> {
    let Some(shape) = lookup(schema) else { return Vec::new() };
    let numbered = shape.fields.iter().filter(|field| !field.number.is_empty());
    numbered
        .map(|field| (field.number.as_slice(), field.name, &field.ty))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::decode::{Oddities, normal};

    fn check(schema: &str, value: Value) {
        let tidy = |value: Value| normal(value, schema, &mut Oddities::default()).expect("it is valid");
        let value = tidy(value);
        let bytes = write::structure(&value, schema);
        let read = read::structure(&bytes, schema, 0).expect("it reads back");
        assert_eq!(tidy(read), value);
    }

    #[test]
    fn objects_survive_the_round_trip() {
        check(
            "Pod",
            json!({
                "metadata": {"name": "a", "labels": {"x": "y", "z": ""}, "creationTimestamp": "2024-03-01T10:00:00Z",
                    "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u", "controller": true}],
                    "managedFields": [{"manager": "m", "operation": "Update", "fieldsV1": {"f:spec": {}}}]},
                "spec": {
                    "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}},
                        "readinessProbe": {"httpGet": {"port": "web", "path": "/"}, "periodSeconds": 5},
                        "ports": [{"containerPort": 80}], "env": [{"name": "E", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]}],
                    "volumes": [{"name": "v", "hostPath": {"path": "/p", "type": ""}}, {"name": "c", "configMap": {"name": "cm"}}],
                    "tolerations": [{"operator": "Exists", "tolerationSeconds": -5}],
                    "priority": 0,
                },
                "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
            }),
        );
        check(
            "ControllerRevision",
            json!({"metadata": {"name": "r"}, "data": {"spec": {"b": 1, "a": [null, "ü"]}}, "revision": 3}),
        );
        check(
            "Lease",
            json!({"spec": {"holderIdentity": "", "renewTime": "2024-03-01T10:00:10.123456Z"}}),
        );
        check("Secret", json!({"data": {"k": "AAEC/w=="}, "type": "Opaque"}));
        check(
            "DaemonSet",
            json!({"spec": {"updateStrategy": {"rollingUpdate": {"maxUnavailable": "25%", "maxSurge": 1}}}}),
        );
    }

    #[test]
    fn garbage_is_refused() {
        let kinds = Kinds::built_in();
        for bytes in [
            &b""[..],
            b"k8s",
            b"k8s\0\xff",
            b"k8s\0\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            b"k8s\0\x12\x05\x0a",
        ] {
            assert!(read(bytes, "Pod", &kinds).is_err(), "{bytes:?}");
        }
        let mut deep = Vec::new();
        for _ in 0..2000 {
            let mut outer = Vec::new();
            write::message(&mut outer, 1, &deep);
            deep = outer;
        }
        // Deep in what no type declares is only skipped.
        assert!(read::structure(&deep, "Pod", 0).is_ok());
    }
}
