//! From objects to bytes: shapes, lists without a parse, YAML, compression.

use std::io::Write;
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::{Map, Value, json};

use super::kinds::{Kind, Kinds};
use super::negotiate::{Accepted, Encoding, Shape};
use super::read::not_acceptable;
use super::reply::{Content, Reply};
use super::request::Request;
use super::write::Stored;
use super::{Call, table};
use crate::store::Object;
use crate::{Status, go_json, protobuf};

/// Answers below this many bytes are not worth compressing, as the real server sees it.
const COMPRESS_FROM: usize = 128 * 1024;

/// An answer that is one object.
///
/// # Errors
/// 406 when the client wants it in a form it cannot have.
pub fn object(call: &Call<'_>, status: u16, stored: Stored) -> Result<Reply, Status> {
    let value = match (&stored, call.accepted.shape) {
        (Stored::Kept(object), Shape::Whole) if is_faithful(call) && object.given().is_some() => object.faithful(),
        (Stored::Kept(object), Shape::Whole) if !call.kind.rules.converts() => {
            return Ok(Reply::json(status, object.json().clone()));
        }
        (Stored::Kept(object), _) => call.kind.rules.to_served(object.value()),
        (Stored::Dry(value), _) => call.kind.rules.to_served(value.clone()),
    };
    let shaped = match call.accepted.shape {
        Shape::Whole => value,
        Shape::Partial(version) => table::partial(&value, version),
        Shape::PartialList(_) => return Err(not_acceptable()),
        Shape::Table(version) => {
            let mut metadata = Map::new();
            let revision = value.pointer("/metadata/resourceVersion").cloned().unwrap_or_default();
            metadata.insert("resourceVersion".to_owned(), revision);
            table::of_call(call, version, &[value], metadata)
        }
    };
    Ok(Reply::object(status, shaped))
}

/// An answer that is a list.
///
/// # Errors
/// 406 when the client wants it in a form it cannot have.
pub fn list(
    call: &Call<'_>,
    objects: &[Arc<Object>],
    revision: u64,
    token: Option<String>,
    remaining: Option<usize>,
) -> Result<Reply, Status> {
    let mut metadata = Map::new();
    metadata.insert("resourceVersion".to_owned(), revision.to_string().into());
    match token {
        Some(token) => {
            metadata.insert("continue".to_owned(), token.into());
        }
        // Their lists have no type that would leave it out.
        None if call.kind.custom.is_some() && call.accepted.shape == Shape::Whole => {
            metadata.insert("continue".to_owned(), "".into());
        }
        None => {}
    }
    if let Some(remaining) = remaining {
        metadata.insert("remainingItemCount".to_owned(), remaining.into());
    }
    let values = || -> Vec<Value> {
        let converted = objects.iter().map(|object| call.kind.rules.to_served(object.value()));
        converted.collect()
    };
    match call.accepted.shape {
        Shape::Whole if is_faithful(call) && objects.iter().any(|object| object.given().is_some()) => {
            let items: Vec<Value> = objects.iter().map(|object| object.faithful()).collect();
            let (kind, version) = (format!("{}List", call.kind.kind), call.kind.api_version());
            let list = json!({"kind": kind, "apiVersion": version, "metadata": metadata, "items": items});
            Ok(Reply::object(200, list))
        }
        Shape::Whole => Ok(Reply::json(200, whole_list(call, objects, &metadata))),
        Shape::Table(version) => {
            let table = table::of_call(call, version, &values(), metadata);
            Ok(Reply::object(200, table))
        }
        Shape::PartialList(version) => {
            let items: Vec<Value> = values().iter().map(|value| table::partial(value, version)).collect();
            let items = if items.is_empty() { Value::Null } else { Value::Array(items) };
            let list = json!({"kind": "PartialObjectMetadataList", "apiVersion": version, "metadata": metadata, "items": items});
            Ok(Reply::object(200, list))
        }
        Shape::Partial(_) => Err(not_acceptable()),
    }
}

/// Whether the answer shows the bytes of raw fields.
fn is_faithful(call: &Call<'_>) -> bool {
    call.accepted.encoding == Encoding::Protobuf
}

fn whole_list(call: &Call<'_>, objects: &[Arc<Object>], metadata: &Map<String, Value>) -> Bytes {
    let kind = call.kind;
    let mut bytes = BytesMut::with_capacity(objects.iter().map(|object| object.json().len()).sum::<usize>() + 256);
    let head = json!({"kind": format!("{}List", kind.kind), "apiVersion": kind.api_version(), "metadata": metadata});
    let head = head.to_string();
    bytes.put_slice(head.strip_suffix('}').unwrap_or(&head).as_bytes());
    bytes.put_slice(b",\"items\":[");
    let prefix = prefix(kind);
    for (index, object) in objects.iter().enumerate() {
        if index > 0 {
            bytes.put_u8(b',');
        }
        if kind.rules.converts() {
            let mut value = kind.rules.to_served(object.value());
            if let (None, Value::Object(fields)) = (&kind.custom, &mut value) {
                fields.shift_remove("kind");
                fields.shift_remove("apiVersion");
            }
            bytes.put_slice(&go_json::bytes(&value));
        } else if kind.custom.is_some() {
            // Their items have no type that is known from the list's.
            bytes.put_slice(object.json());
        } else {
            put_item(&mut bytes, object.json(), &prefix);
        }
    }
    bytes.put_slice(b"]}");
    bytes.freeze()
}

/// What every stored object of a typed kind begins with; list items go without.
fn prefix(kind: &Kind) -> String {
    format!("{{\"kind\":\"{}\",\"apiVersion\":\"{}\",", kind.kind, kind.api_version())
}

fn put_item(bytes: &mut BytesMut, json: &Bytes, prefix: &str) {
    match json.strip_prefix(prefix.as_bytes()) {
        Some(rest) => {
            bytes.put_u8(b'{');
            bytes.put_slice(rest);
        }
        None => bytes.put_slice(json),
    }
}

/// Encodes the body as the client wants it, and compresses it where that pays.
pub fn finish(mut reply: Reply, request: &Request, accepted: Accepted, kinds: &Kinds) -> Reply {
    if accepted.encoding == Encoding::Protobuf {
        reply = binary(reply, kinds);
    }
    // What has no body has no type either.
    let has_type = reply.status == 204 || reply.headers.iter().any(|(name, _)| *name == "content-type");
    let body = match reply.body {
        Content::Object(value) => match accepted.encoding {
            Encoding::Yaml if !has_type => yaml(&value),
            _ => Some(go_json::bytes(&value).into()),
        },
        Content::Full(bytes) if accepted.encoding == Encoding::Yaml && !has_type => {
            let value: Value = serde_json::from_slice(&bytes).unwrap_or_default();
            yaml(&value)
        }
        Content::Full(bytes) => Some(bytes),
        other => {
            reply.body = other;
            return reply;
        }
    };
    let bytes: Bytes = body.unwrap_or_default();
    if !has_type {
        let media = if accepted.encoding == Encoding::Yaml {
            "application/yaml"
        } else {
            "application/json"
        };
        reply.headers.push(("content-type", media.to_owned()));
    }
    let gzip = request.accept_encoding.split(',').any(|one| one.trim() == "gzip");
    reply.body = Content::Full(bytes.clone());
    if gzip
        && bytes.len() > COMPRESS_FROM
        && let Ok(compressed) = compress(&bytes)
    {
        reply.headers.push(("content-encoding", "gzip".to_owned()));
        reply.body = Content::Full(compressed);
    }
    reply
}

/// The same answer in protobuf, if it has such a form.
fn binary(mut reply: Reply, kinds: &Kinds) -> Reply {
    if reply.headers.iter().any(|(name, _)| *name == "content-type") {
        return reply;
    }
    let bytes = match &reply.body {
        Content::Object(value) => protobuf::document(value, kinds),
        Content::Full(bytes) => serde_json::from_slice(bytes)
            .ok()
            .and_then(|value| protobuf::document(&value, kinds)),
        _ => None,
    };
    if let Some(bytes) = bytes {
        reply.headers.push(("content-type", protobuf::MEDIA.to_owned()));
        reply.body = Content::Full(bytes.into());
    }
    reply
}

fn yaml(value: &Value) -> Option<Bytes> {
    serde_saphyr::to_string(value).ok().map(Bytes::from)
}

fn compress(bytes: &[u8]) -> std::io::Result<Bytes> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes)?;
    encoder.finish().map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use bailiff_runtime::{Clock, Seed};

    use super::super::kinds::Particular;
    use super::super::path::Target;
    use super::super::read;
    use super::*;
    use crate::rules::Rules;
    use crate::{Config, Sandbox, User, Verb};

    /// Fails where an object is encoded while others wait for the store.
    #[derive(Debug)]
    struct Considerate(Sandbox);

    impl Rules for Considerate {
        fn converts(&self) -> bool {
            true
        }

        fn to_served(&self, object: Value) -> Value {
            assert!(self.0.shared.store.try_lock().is_some(), "the store is held");
            object
        }
    }

    #[test]
    fn lists_are_encoded_while_others_are_served() {
        let wall = "2026-11-21T01:00:00Z".parse().expect("a time");
        let sandbox = Sandbox::new(Config::default(), Clock::virtual_from(wall), &Seed::new(1));
        let user = User::admin();
        for name in ["a", "b"] {
            let map = json!({"metadata": {"name": name}});
            let maps = "/api/v1/namespaces/default/configmaps";
            sandbox.request(&user, Verb::Create, maps, &map).expect("it is created");
        }
        let kind = Arc::new(Kind {
            group: String::new(),
            version: "v1".to_owned(),
            resource: "configmaps".to_owned(),
            singular: "configmap".to_owned(),
            kind: "ConfigMap".to_owned(),
            schema: "ConfigMap",
            storage: "configmaps".to_owned(),
            namespaced: true,
            short: Vec::new(),
            categories: Vec::new(),
            subresources: &[],
            status: false,
            virtual_: false,
            delete_collection: true,
            rules: Particular::Own(Box::new(Considerate(sandbox.clone()))),
            custom: None,
        });
        for (shape, items) in [
            (Shape::Whole, "items"),
            (Shape::Table("v1"), "rows"),
            (Shape::PartialList("v1"), "items"),
        ] {
            let call = Call {
                sandbox: &sandbox,
                request: &Request::default(),
                user: &user,
                target: &Target::default(),
                kind: &kind,
                accepted: Accepted {
                    shape,
                    ..Accepted::default()
                },
                now: sandbox.clock().now(),
                warnings: std::cell::RefCell::default(),
            };
            let list: Value = match read::list(&call).expect("a list").body {
                Content::Full(bytes) => serde_json::from_slice(&bytes).expect("JSON"),
                Content::Object(value) => value,
                other => panic!("no list: {other:?}"),
            };
            assert_eq!(list[items].as_array().map(Vec::len), Some(2), "{list}");
        }
    }
}
