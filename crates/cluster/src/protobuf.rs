//! Kubernetes' protobuf encoding, as far as watches and answers need it whatever the kind.
//!
//! Field numbers are those of `k8s.io/apimachinery`'s `generated.proto` files; they never change. Messages declare the fields that are
//! read and skip the rest; what comes for each change is taken apart without one ([`event`], [`document`]). Objects are read by the
//! tables of [`crate::scan`]; what keeps the bytes of a part declares its own message from [`ObjectMeta`] and [`RawExtension`].

use std::collections::BTreeMap;

use bailiff_model::Wall;
use bytes::Bytes;
use prost::Message;
use serde_json::{Value, json};

use crate::decode::DecodeError;
use crate::scan::ScanError;
use crate::scan::wire::{Fields, Payload, first};
use crate::views::{CompactString, Meta};

/// What every document starts with (`k8s.io/apimachinery/pkg/runtime/serializer/protobuf`).
const MAGIC: &[u8] = b"k8s\0";

/// `runtime.RawExtension`: bytes of another encoding.
#[derive(Clone, PartialEq, Message)]
pub struct RawExtension {
    /// The bytes, as they are kept.
    #[prost(bytes = "bytes", tag = "1")]
    pub raw: Bytes,
}

/// `meta.v1.ListMeta`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ListMeta {
    #[prost(string, tag = "2")]
    pub(crate) resource_version: String,
    #[prost(string, tag = "3")]
    pub(crate) next: String,
}

/// A list of any kind: all have these numbers.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct List {
    #[prost(message, required, tag = "1")]
    pub(crate) metadata: ListMeta,
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub(crate) items: Vec<Bytes>,
}

/// `meta.v1.Time`, in seconds since 1970; protobuf carries no fractions of it.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Time {
    #[prost(int64, tag = "1")]
    seconds: i64,
}

/// `meta.v1.OwnerReference`
#[derive(Clone, PartialEq, Message)]
pub struct Owner {
    #[prost(string, tag = "1")]
    kind: String,
    #[prost(string, tag = "3")]
    name: String,
    #[prost(string, tag = "4")]
    uid: String,
    #[prost(string, tag = "5")]
    api_version: String,
    #[prost(bool, tag = "6")]
    controller: bool,
}

/// `meta.v1.ObjectMeta`: field 1 of every object.
#[derive(Clone, PartialEq, Message)]
pub struct ObjectMeta {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "3")]
    namespace: String,
    #[prost(string, tag = "5")]
    uid: String,
    #[prost(string, tag = "6")]
    resource_version: String,
    #[prost(message, optional, tag = "8")]
    creation_timestamp: Option<Time>,
    #[prost(message, optional, tag = "9")]
    deletion_timestamp: Option<Time>,
    #[prost(btree_map = "string, string", tag = "11")]
    labels: BTreeMap<String, String>,
    #[prost(btree_map = "string, string", tag = "12")]
    annotations: BTreeMap<String, String>,
    #[prost(message, repeated, tag = "13")]
    owner_references: Vec<Owner>,
}

/// `meta.v1.Status`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Status {
    #[prost(string, tag = "3")]
    pub(crate) message: String,
    #[prost(string, tag = "4")]
    pub(crate) reason: String,
    #[prost(message, required, tag = "5")]
    pub(crate) details: StatusDetails,
    #[prost(int32, tag = "6")]
    pub(crate) code: i32,
}

/// `meta.v1.StatusDetails`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct StatusDetails {
    #[prost(message, repeated, tag = "4")]
    pub(crate) causes: Vec<StatusCause>,
    #[prost(int32, tag = "5")]
    pub(crate) retry_after_seconds: i32,
}

/// `meta.v1.StatusCause`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct StatusCause {
    #[prost(string, tag = "1")]
    pub(crate) reason: String,
    #[prost(string, tag = "2")]
    pub(crate) message: String,
}

/// The message in a document, which is a `runtime.Unknown` after a few bytes; `None` if the bytes are no document.
pub(crate) fn document(bytes: &Bytes) -> Result<Option<Bytes>, ScanError> {
    let Some(unknown) = bytes.strip_prefix(MAGIC) else {
        return Ok(None);
    };
    let mut raw = &b""[..];
    let mut fields = Fields::of(unknown);
    while let Some(field) = fields.next()? {
        match field {
            (2, Payload::Bytes(message)) => raw = message,
            (2, _) => return Err(serde::de::Error::custom("the message of a document has another wire type")),
            _ => {}
        }
    }
    Ok(Some(bytes.slice_ref(raw)))
}

/// What a `meta.v1.WatchEvent` says, and the document that it says it of: its bytes, which are the event's.
pub(crate) fn event(frame: &Bytes) -> Result<(&str, Bytes), DecodeError> {
    let (mut kind, mut object) = (&b""[..], &b""[..]);
    let mut fields = Fields::of(frame);
    while let Some(field) = fields.next().map_err(ScanError::from)? {
        match field {
            (1, Payload::Bytes(text)) => kind = text,
            (2, Payload::Bytes(extension)) => object = extension,
            _ => {}
        }
    }
    let kind = std::str::from_utf8(kind).map_err(|_| DecodeError::Unknown)?;
    let raw = first(object, 1).ok_or(DecodeError::Unknown)?;
    Ok((kind, frame.slice_ref(raw)))
}

/// What identifies an object of any kind, as far as it can be read: what comes later may be broken.
pub(crate) fn identity(message: &[u8]) -> Option<Meta> {
    let mut meta = Meta::default();
    let mut fields = Fields::of(first(message, 1)?);
    while let Ok(Some((number, payload))) = fields.next() {
        let (Payload::Bytes(bytes), 1 | 3 | 5 | 6) = (payload, number) else {
            continue;
        };
        let text = text(bytes);
        match number {
            1 => meta.name = text,
            3 => meta.namespace = text,
            5 => meta.uid = text.into(),
            // The last that is wanted.
            _ => {
                meta.resource_version = text;
                break;
            }
        }
    }
    Some(meta)
}

/// Text; what is no UTF-8 in it is replaced.
fn text(bytes: &[u8]) -> CompactString {
    String::from_utf8_lossy(bytes).into()
}

/// The resourceVersion of an object of any kind.
pub(crate) fn version(message: &[u8]) -> Option<CompactString> {
    first(first(message, 1)?, 6).map(text)
}

impl ObjectMeta {
    /// The same in the form JSON has it, for readers that decode that.
    pub fn to_json(&self) -> Value {
        let owners: Vec<Value> = self
            .owner_references
            .iter()
            .map(|owner| {
                json!({
                    "apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": owner.uid,
                    "controller": owner.controller,
                })
            })
            .collect();
        json!({
            "name": self.name,
            "namespace": self.namespace,
            "uid": self.uid,
            "resourceVersion": self.resource_version,
            "creationTimestamp": self.creation_timestamp.and_then(Time::wall),
            "deletionTimestamp": self.deletion_timestamp.and_then(Time::wall),
            "labels": self.labels,
            "annotations": self.annotations,
            "ownerReferences": owners,
        })
    }
}

impl Time {
    /// The text of JSON; `None` for a time that no calendar has.
    fn wall(self) -> Option<String> {
        Wall::from_second(self.seconds).ok().map(|wall| wall.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_taken_apart_or_refused() {
        let read = |frame: &'static [u8]| {
            let frame = Bytes::from_static(frame);
            event(&frame).map(|(kind, document)| (kind.to_owned(), document)).ok()
        };
        let wanted = Some(("ADDED".to_owned(), Bytes::from_static(b"k8s\0")));
        assert_eq!(read(b"\x0a\x05ADDED\x12\x06\x0a\x04k8s\0"), wanted);
        assert_eq!(
            read(b"\x12\x06\x0a\x04k8s\0\x18\x07\x0a\x05ADDED"),
            wanted,
            "in another order, with a field of later"
        );
        for broken in [
            &b""[..],
            b"\x0a\x05ADDED",
            b"\x0a\x05ADDED\x12\0",
            b"\x0a\x01\xff\x12\x02\x0a\0",
            b"\x0a\x09ADDED",
            b"\x0a\x05ADDED\x12\x02\x0a\x04",
        ] {
            assert_eq!(read(broken), None, "{broken:?}");
        }
    }

    #[test]
    fn a_document_has_a_message_whatever_else_it_has() {
        let read = |bytes: &'static [u8]| document(&Bytes::from_static(bytes));
        let message = Ok(Some(Bytes::from_static(b"ab")));
        assert_eq!(read(b"k8s\0\x0a\x01t\x12\x02ab\x1a\0"), message);
        assert_eq!(read(b"k8s\0\x28\x07\x12\x02ab"), message, "a field of later");
        assert_eq!(read(b"k8s\0"), Ok(Some(Bytes::new())), "one whose fields are all empty");
        assert_eq!(read(b"{}"), Ok(None), "no document");
        for broken in [&b"k8s\0\x12\x02a"[..], b"k8s\0\x10\x02", b"k8s\0\x13"] {
            assert!(read(broken).is_err(), "{broken:?}");
        }
    }

    #[test]
    fn a_version_is_found_without_the_rest() {
        let object = b"\x0a\x06\x0a\x01a\x32\x017\x12\x09";
        assert_eq!(version(object).as_deref(), Some("7"));
        assert_eq!(identity(object).map(|meta| meta.resource_version).as_deref(), Some("7"));
        assert_eq!(version(b"\x0a\x03\x0a\x01a"), None);
    }
}
