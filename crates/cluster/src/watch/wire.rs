//! The JSON of lists and watches, as far as a watch reads it itself.

use bytes::BytesMut;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::views::{Meta, or_default};

/// A page of a list.
#[derive(Deserialize)]
pub(super) struct Page {
    pub(super) metadata: PageMeta,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) items: Vec<Box<RawValue>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PageMeta {
    pub(super) resource_version: String,
    #[serde(rename = "continue")]
    pub(super) next: String,
}

/// A line of a watch.
#[derive(Deserialize)]
pub(super) struct Line<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    pub(super) object: &'a RawValue,
}

/// What identifies an object that may be broken otherwise.
pub(super) fn identity(object: &RawValue) -> Option<Meta> {
    #[derive(Deserialize)]
    struct Object {
        metadata: Identity,
    }
    #[derive(Deserialize, Default)]
    #[serde(rename_all = "camelCase", default)]
    struct Identity {
        #[serde(deserialize_with = "or_default")]
        name: String,
        #[serde(deserialize_with = "or_default")]
        namespace: String,
        #[serde(deserialize_with = "or_default")]
        uid: String,
        #[serde(deserialize_with = "or_default")]
        resource_version: String,
    }
    let Object { metadata } = serde_json::from_str(object.get()).ok()?;
    Some(Meta {
        name: metadata.name,
        namespace: metadata.namespace,
        uid: metadata.uid,
        resource_version: metadata.resource_version,
        ..Meta::default()
    })
}

/// Cuts a stream into lines.
#[derive(Debug, Default)]
pub(super) struct Lines {
    buffer: BytesMut,
    /// Bytes of an unfinished line that were searched for its end already.
    searched: usize,
}

impl Lines {
    pub(super) fn push(&mut self, data: &[u8]) {
        self.buffer.extend_from_slice(data);
    }

    /// The next whole line.
    pub(super) fn next(&mut self) -> Option<BytesMut> {
        match self.buffer[self.searched..].iter().position(|byte| *byte == b'\n') {
            Some(end) => {
                let line = self.buffer.split_to(self.searched + end + 1);
                self.searched = 0;
                Some(line)
            }
            None => {
                self.searched = self.buffer.len();
                None
            }
        }
    }

    /// Bytes of the line that is not whole yet.
    pub(super) fn unfinished(&self) -> usize {
        self.buffer.len()
    }
}

/// Percent-encodes everything but unreserved characters (RFC 3986, 2.3).
pub(super) fn encode_into(query: &mut String, value: &str) {
    use std::fmt::Write;
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            query.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(query, "%{byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_wherever_the_stream_is() {
        let text = b"first\n\nsecond line\nrest";
        for size in 1..text.len() {
            let mut lines = Lines::default();
            let mut seen = Vec::new();
            for part in text.chunks(size) {
                lines.push(part);
                while let Some(line) = lines.next() {
                    seen.push(String::from_utf8_lossy(&line).into_owned());
                }
            }
            assert_eq!(seen, ["first\n", "\n", "second line\n"], "parts of {size}");
            assert_eq!(lines.unfinished(), 4);
        }
    }

    #[test]
    fn a_broken_object_is_still_identified() {
        let object = |text: &str| identity(&RawValue::from_string(text.to_owned()).expect("JSON"));
        let meta = object(r#"{"metadata":{"name":"a","namespace":null,"uid":"u","creationTimestamp":7},"spec":false}"#);
        assert_eq!(meta.map(|meta| (meta.name, meta.uid)), Some(("a".to_owned(), "u".to_owned())));
        assert_eq!(object(r#"{"metadata":{"name":7}}"#), None);
        assert_eq!(object("[]"), None);
    }
}
