//! Lists and watches as they are on the wire, in either encoding, as far as a watch reads them itself.

use std::borrow::Cow;

use bailiff_runtime::client::Answer;
use bytes::{Buf, Bytes, BytesMut};
use http_body_util::BodyExt;
use prost::Message;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::decode::{DecodeError, Encoded};
use crate::error::{Error, Kind};
use crate::protobuf;
use crate::views::or_default;

/// A page of a list.
pub(crate) struct Page {
    pub(super) resource_version: String,
    pub(super) next: String,
    items: Items,
}

enum Items {
    Json(Vec<Box<RawValue>>),
    Protobuf(Vec<Bytes>),
}

impl Page {
    pub(crate) fn read(encoded: &Encoded<'_>) -> Result<Self, DecodeError> {
        #[derive(Deserialize)]
        struct Listed {
            metadata: Metadata,
            #[serde(default, deserialize_with = "or_default")]
            items: Vec<Box<RawValue>>,
        }
        #[derive(Deserialize, Default)]
        #[serde(rename_all = "camelCase", default)]
        struct Metadata {
            resource_version: String,
            #[serde(rename = "continue")]
            next: String,
        }
        let (resource_version, next, items) = match encoded {
            Encoded::Json(text) => {
                let Listed { metadata, items } = serde_json::from_str(text)?;
                (metadata.resource_version, metadata.next, Items::Json(items))
            }
            Encoded::Protobuf(message) => {
                let protobuf::List { metadata, items } = protobuf::List::decode(message.clone())?;
                (metadata.resource_version, metadata.next, Items::Protobuf(items))
            }
        };
        Ok(Self {
            resource_version,
            next,
            items,
        })
    }

    /// Its objects.
    pub(super) fn items(&self) -> impl Iterator<Item = Encoded<'_>> {
        let (json, protobuf) = match &self.items {
            Items::Json(items) => (items.as_slice(), &[][..]),
            Items::Protobuf(items) => (&[][..], items.as_slice()),
        };
        let json = json.iter().map(|item| Encoded::Json(item.get()));
        json.chain(protobuf.iter().map(|item| Encoded::Protobuf(item.clone())))
    }
}

/// An event of a watch.
pub(super) struct Told<'a> {
    pub(super) kind: Cow<'a, str>,
    pub(super) object: Encoded<'a>,
}

impl<'a> Told<'a> {
    /// Reads what [`Cutter::next`] cut.
    pub(super) fn read(part: &'a Part) -> Result<Self, DecodeError> {
        #[derive(Deserialize)]
        struct Line<'a> {
            #[serde(rename = "type", borrow)]
            kind: Cow<'a, str>,
            #[serde(borrow)]
            object: &'a RawValue,
        }
        match part {
            Part::Line(line) => {
                let Line { kind, object } = serde_json::from_slice(line)?;
                let object = Encoded::Json(object.get());
                Ok(Self { kind, object })
            }
            Part::Frame(frame) => {
                let (kind, document) = protobuf::event(frame)?;
                let message = protobuf::document(&document)?.ok_or(DecodeError::Unknown)?;
                Ok(Self {
                    kind: Cow::Borrowed(kind),
                    object: Encoded::Protobuf(message),
                })
            }
        }
    }
}

/// What a stream is cut into.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// A line of JSON.
    Line(BytesMut),
    /// A protobuf message.
    Frame(Bytes),
}

/// Cuts a stream into events: lines of JSON, or messages after four bytes of length.
#[derive(Debug, Default)]
pub(super) struct Cutter {
    buffer: BytesMut,
    /// Bytes of an unfinished line that were searched for its end already.
    searched: usize,
}

/// Longest event of a watch stream: the server refuses objects above 1.5 MiB (etcd), JSON may double it.
const MAX_EVENT: usize = 8 << 20;

/// Length of a length.
const HEAD: usize = 4;

impl Cutter {
    pub(super) fn push(&mut self, data: &[u8]) {
        self.buffer.extend_from_slice(data);
    }

    /// The next whole event.
    pub(super) fn next(&mut self) -> Option<Part> {
        // JSON events begin with a brace. As the first byte of a length it would mean two gigabytes.
        match self.buffer.first() {
            Some(b'{' | b'\n') => self.line(),
            Some(_) => self.frame(),
            None => None,
        }
    }

    fn line(&mut self) -> Option<Part> {
        match self.buffer[self.searched..].iter().position(|byte| *byte == b'\n') {
            Some(end) => {
                let line = self.buffer.split_to(self.searched + end + 1);
                self.searched = 0;
                Some(Part::Line(line))
            }
            None => {
                self.searched = self.buffer.len();
                None
            }
        }
    }

    fn frame(&mut self) -> Option<Part> {
        let head = self.buffer.first_chunk::<HEAD>()?;
        let length = usize::try_from(u32::from_be_bytes(*head)).unwrap_or(usize::MAX);
        if self.buffer.len() - HEAD < length {
            return None;
        }
        self.buffer.advance(HEAD);
        Some(Part::Frame(self.buffer.split_to(length).freeze()))
    }

    /// Bytes of the event that is not whole yet.
    pub(super) fn unfinished(&self) -> usize {
        self.buffer.len()
    }
}

/// The stream of a watch, in events.
pub(super) struct Stream {
    body: Answer,
    cutter: Cutter,
}

impl Stream {
    pub(super) fn new(body: Answer) -> Self {
        Self {
            body,
            cutter: Cutter::default(),
        }
    }

    /// The next event of what is here.
    pub(super) fn cut(&mut self) -> Option<Part> {
        self.cutter.next()
    }

    /// The event that is not whole is longer than any.
    pub(super) fn is_too_long(&self) -> bool {
        self.cutter.unfinished() > MAX_EVENT
    }

    /// Waits for more; false at the end. Cancel-safe.
    pub(super) async fn fill(&mut self) -> Result<bool, Error> {
        match self.body.frame().await {
            Some(Ok(frame)) => {
                self.cutter.push(&frame.into_data().unwrap_or_default());
                Ok(true)
            }
            Some(Err(error)) => Err(Error::new(Kind::Unavailable, error.to_string())),
            None => Ok(false),
        }
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

    /// Cuts a stream that comes in parts of every size.
    fn cut(stream: &[u8]) -> Vec<Part> {
        let mut all: Vec<Vec<Part>> = Vec::new();
        for size in 1..=stream.len() {
            let mut cutter = Cutter::default();
            let mut seen = Vec::new();
            for part in stream.chunks(size) {
                cutter.push(part);
                while let Some(part) = cutter.next() {
                    seen.push(part);
                }
            }
            assert_eq!(cutter.unfinished(), 4, "parts of {size}");
            all.push(seen);
        }
        all.dedup();
        assert_eq!(all.len(), 1, "the same wherever the stream is cut");
        all.remove(0)
    }

    #[test]
    fn lines_are_cut_wherever_the_stream_is() {
        let line = |text: &str| Part::Line(BytesMut::from(text));
        assert_eq!(
            cut(b"{first}\n\n{second line}\n{res"),
            [line("{first}\n"), line("\n"), line("{second line}\n")]
        );
    }

    #[test]
    fn frames_are_cut_wherever_the_stream_is() {
        let frame = |bytes: &'static [u8]| Part::Frame(Bytes::from_static(bytes));
        let stream = b"\0\0\0\x02\n\x01\0\0\0\0\0\0\0\x03{\n}\0\0\0\x09";
        assert_eq!(cut(stream), [frame(b"\n\x01"), frame(b""), frame(b"{\n}")]);
    }

    #[test]
    fn a_page_in_protobuf_gives_its_items_as_they_are() {
        let list = protobuf::List {
            metadata: protobuf::ListMeta {
                resource_version: "7".to_owned(),
                next: "more".to_owned(),
            },
            items: vec![Bytes::from_static(b"\x0a\x03\x0a\x01a"), Bytes::from_static(b"\xff")],
        };
        let page = Page::read(&Encoded::Protobuf(list.encode_to_vec().into())).expect("it is a list");
        assert_eq!((page.resource_version.as_str(), page.next.as_str()), ("7", "more"));
        let names: Vec<Option<_>> = page.items().map(|item| item.identity().map(|meta| meta.name)).collect();
        assert_eq!(names, [Some("a".into()), None]);
    }
}
