//! What answers and watched objects are decoded into, from either encoding of the API.

use bytes::Bytes;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;

use crate::protobuf;
use crate::scan::{self, Message, ScanError};
use crate::views::{CompactString, Meta};

/// Media type of JSON.
pub const JSON: &str = "application/json";

/// Protobuf, or JSON from a server that has no protobuf form of the kind (API conventions, "Alternate representations").
pub const PROTOBUF: &str = "application/vnd.kubernetes.protobuf, application/json;q=0.9";

/// Of an object its metadata, the least that a server answers (API concepts, "Metadata-only fetches"); the object from one that has no such
/// form.
pub const METADATA: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1, \
     application/vnd.kubernetes.protobuf;q=0.9, application/json;q=0.8";

/// An object as it came.
#[derive(Clone, Debug)]
pub enum Encoded<'a> {
    /// Its JSON.
    Json(&'a str),
    /// Its protobuf message, out of its envelope.
    Protobuf(Bytes),
}

/// Why an object could not be decoded.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The JSON is not what it should be.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// The protobuf message is none.
    #[error(transparent)]
    Protobuf(#[from] prost::DecodeError),
    /// The protobuf message is not what it should be.
    #[error(transparent)]
    Scan(#[from] ScanError),
    /// An answer that is neither.
    #[error("neither JSON nor a protobuf document")]
    Unknown,
    /// Protobuf, of which this is never read.
    #[error("protobuf was answered where JSON was asked for")]
    JsonOnly,
}

/// Something that an answer of the API is decoded into.
///
/// Each is read from JSON. One whose message has a table is asked for in protobuf, and read from either, by the same
/// [`serde::Deserialize`].
pub trait Decode: DeserializeOwned {
    /// The table of its message; `None` for what is read from JSON only.
    const MESSAGE: Option<&'static Message> = None;

    /// The media types that are asked for.
    const ACCEPT: &'static str = match Self::MESSAGE {
        Some(_) => PROTOBUF,
        None => JSON,
    };

    /// Decodes an object.
    ///
    /// # Errors
    /// When it is not what it should be.
    fn decode(encoded: &Encoded<'_>) -> Result<Self, DecodeError> {
        encoded.read(Self::MESSAGE)
    }
}

/// Whatever it is.
impl Decode for Value {}

/// An answer that nobody reads, whatever it says.
impl Decode for IgnoredAny {
    const ACCEPT: &'static str = METADATA;

    fn decode(_: &Encoded<'_>) -> Result<Self, DecodeError> {
        Ok(Self)
    }
}

impl<'a> Encoded<'a> {
    /// The object of a whole answer, whichever encoding it is in.
    ///
    /// # Errors
    /// When it is in none.
    pub fn of_answer(bytes: &'a Bytes) -> Result<Self, DecodeError> {
        if let Some(message) = protobuf::document(bytes)? {
            return Ok(Self::Protobuf(message));
        }
        std::str::from_utf8(bytes).map(Self::Json).map_err(|_| DecodeError::Unknown)
    }

    /// Reads it as a `T`, which may borrow from it.
    ///
    /// # Errors
    /// When it is not what it should be, or is protobuf and there is no table of its message.
    pub fn read<'de, T: Deserialize<'de>>(&'de self, message: Option<&'static Message>) -> Result<T, DecodeError> {
        match (self, message) {
            (Self::Json(text), _) => Ok(serde_json::from_str(text)?),
            (Self::Protobuf(bytes), Some(message)) => Ok(scan::read(message, bytes)?),
            (Self::Protobuf(_), None) => Err(DecodeError::JsonOnly),
        }
    }

    /// All of it, as it came.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Json(text) => text.as_bytes(),
            Self::Protobuf(message) => message,
        }
    }

    /// What identifies an object that may be broken otherwise: name, namespace, uid and version.
    pub(crate) fn identity(&self) -> Option<Meta> {
        match self {
            Self::Json(text) => identity_in_json(text),
            Self::Protobuf(message) => protobuf::identity(message),
        }
    }

    /// Its resourceVersion; empty if there is none to be read.
    pub(crate) fn version(&self) -> CompactString {
        let version = match self {
            Self::Json(text) => identity_in_json(text).map(|meta| meta.resource_version),
            Self::Protobuf(message) => protobuf::version(message),
        };
        version.unwrap_or_default()
    }
}

fn identity_in_json(text: &str) -> Option<Meta> {
    use crate::views::or_default;

    #[derive(Deserialize)]
    struct Object {
        metadata: Identity,
    }
    #[derive(Deserialize, Default)]
    #[serde(rename_all = "camelCase", default)]
    struct Identity {
        #[serde(deserialize_with = "or_default")]
        name: CompactString,
        #[serde(deserialize_with = "or_default")]
        namespace: CompactString,
        #[serde(deserialize_with = "or_default")]
        uid: String,
        #[serde(deserialize_with = "or_default")]
        resource_version: CompactString,
    }
    let Object { metadata } = serde_json::from_str(text).ok()?;
    Some(Meta {
        name: metadata.name,
        namespace: metadata.namespace,
        uid: metadata.uid,
        resource_version: metadata.resource_version,
        ..Meta::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_object_is_still_identified() {
        let object = |text: &str| Encoded::Json(text).identity();
        let meta = object(r#"{"metadata":{"name":"a","namespace":null,"uid":"u","creationTimestamp":7},"spec":false}"#);
        assert_eq!(meta.map(|meta| (meta.name, meta.uid)), Some(("a".into(), "u".to_owned())));
        assert_eq!(object(r#"{"metadata":{"name":7}}"#), None);
        assert_eq!(object("[]"), None);
    }

    #[test]
    fn what_is_read_from_json_refuses_protobuf() {
        let refused = Value::decode(&Encoded::Protobuf(Bytes::new()));
        assert!(matches!(refused, Err(DecodeError::JsonOnly)));
        let binary = Bytes::from_static(b"\xff\xfe");
        assert!(matches!(Encoded::of_answer(&binary), Err(DecodeError::Unknown)));
    }
}
