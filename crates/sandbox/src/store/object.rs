//! A stored object: its JSON, encoded once, and the few facts that selectors and preconditions need without parsing it.

use bytes::Bytes;

use serde_json::{Map, Value};

use super::table::Change;
use crate::go_json;

/// What field selectors can ask for, in the order of the resource's own table.
pub type Fields = Vec<(&'static str, Box<str>)>;

/// Where an object is, within its resource. Cluster-scoped objects have no namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Namespace, `""` for cluster-scoped objects.
    pub namespace: Box<str>,
    /// Name.
    pub name: Box<str>,
}

/// One state of an object. It never changes.
#[derive(Debug)]
pub struct Object {
    key: Key,
    uid: Box<str>,
    revision: u64,
    labels: Box<[(Box<str>, Box<str>)]>,
    fields: Fields,
    /// The line of a watch that brings this state; its middle is the object's JSON.
    line: Bytes,
    json: Bytes,
    given: Option<Box<[u8]>>,
}

// === impl Key ===

impl Key {
    /// The key of a name in a namespace.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// The key that an object's own metadata names.
    pub fn of(value: &Value) -> Self {
        Self::new(text(value, "namespace"), text(value, "name"))
    }
}

// === impl Object ===

impl Object {
    /// Encodes `value` as of `revision`, which the change brought about.
    pub(crate) fn encode(mut value: Value, revision: u64, change: Change, fields: fn(&Value) -> Fields) -> Self {
        stamp(&mut value, revision);
        let (line, json) = encoded(&value, change);
        let labels = match value.pointer("/metadata/labels") {
            Some(Value::Object(labels)) => sorted(labels),
            _ => Box::default(),
        };
        Self {
            key: Key::of(&value),
            uid: text(&value, "uid").into(),
            revision,
            labels,
            fields: fields(&value),
            line,
            json,
            given: None,
        }
    }

    /// The same with the bytes of its raw field, which its JSON does not say.
    pub(crate) fn with_given(mut self, given: Option<Box<[u8]>>) -> Self {
        self.given = given;
        self
    }

    /// Where it is.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.key.name
    }

    /// Its namespace, `""` if it has none.
    pub fn namespace(&self) -> &str {
        &self.key.namespace
    }

    /// Its uid.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// The revision that wrote it.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Its compact JSON, in the API version it is stored in.
    pub fn json(&self) -> &Bytes {
        &self.json
    }

    /// The event that brought this state, as a line of a watch stream. It shares its memory with the JSON.
    pub fn line(&self) -> &Bytes {
        &self.line
    }

    /// Its labels, sorted by key.
    pub fn labels(&self) -> &[(Box<str>, Box<str>)] {
        &self.labels
    }

    /// One label.
    pub fn label(&self, key: &str) -> Option<&str> {
        let found = self.labels.binary_search_by(|(one, _)| (**one).cmp(key)).ok()?;
        self.labels.get(found).map(|(_, value)| &**value)
    }

    /// What its resource's field selectors can ask for.
    pub fn fields(&self) -> &Fields {
        &self.fields
    }

    /// One selectable field.
    pub fn field(&self, key: &str) -> Option<&str> {
        self.fields.iter().find(|(one, _)| *one == key).map(|(_, value)| &**value)
    }

    /// Parses it. Costs a parse: take the facts above where they suffice.
    pub fn value(&self) -> Value {
        serde_json::from_slice(&self.json).expect("it was encoded from a value")
    }

    /// The bytes of its raw field as they were given, if its JSON does not say them.
    pub fn given(&self) -> Option<&[u8]> {
        self.given.as_deref()
    }

    /// Parses it, with a text in place of a raw field whose bytes were given otherwise: [`crate::protobuf`] writes that as it is.
    pub fn faithful(&self) -> Value {
        let mut value = self.value();
        if let (Some(given), Value::Object(fields)) = (&self.given, &mut value) {
            fields.insert("data".to_owned(), String::from_utf8_lossy(given).into());
        }
        value
    }

    /// Decodes it into a view of the caller's.
    ///
    /// # Errors
    /// When the object does not have the shape of `T`.
    pub fn decode<T: serde::de::DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.json)
    }
}

/// A watch's line about a value, and the part of it that is the value.
fn encoded(value: &Value, change: Change) -> (Bytes, Bytes) {
    let head: &[u8] = match change {
        Change::Added => b"{\"type\":\"ADDED\",\"object\":",
        Change::Modified => b"{\"type\":\"MODIFIED\",\"object\":",
        Change::Deleted => b"{\"type\":\"DELETED\",\"object\":",
    };
    let mut line = head.to_vec();
    go_json::append(&mut line, value);
    let end = line.len();
    line.extend_from_slice(b"}\n");
    // A vector that grew has room for nearly as much again, which would be kept for as long as the object.
    let line = Bytes::from(line.into_boxed_slice());
    let json = line.slice(head.len()..end);
    (line, json)
}

fn stamp(value: &mut Value, revision: u64) {
    let Value::Object(fields) = value else { return };
    let metadata = fields.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(metadata) = metadata {
        metadata.insert("resourceVersion".into(), revision.to_string().into());
    }
}

fn sorted(labels: &Map<String, Value>) -> Box<[(Box<str>, Box<str>)]> {
    let mut sorted: Vec<(Box<str>, Box<str>)> = labels
        .iter()
        .map(|(key, value)| (key.as_str().into(), value.as_str().unwrap_or_default().into()))
        .collect();
    sorted.sort_unstable();
    sorted.into()
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value
        .get("metadata")
        .and_then(|metadata| metadata.get(field))
        .and_then(Value::as_str)
        .unwrap_or_default()
}
