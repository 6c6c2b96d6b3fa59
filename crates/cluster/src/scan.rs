//! Reads messages of Kubernetes' protobuf into whatever serde can deserialize, guided by tables of fields.
//!
//! A view of an object is one type, which serde reads from JSON. Here the same type is read from protobuf: a table ([`schema`]) gives
//! each field of a message the name that JSON has for it, and the bytes of a message are handed over as the map that the JSON would be.
//!
//! # Guarantees
//! - What a view does not read is passed over by its length, and so are conditions that it does not name
//!   ([`bailiff_model::decode::named`]). What it reads is lent where its type borrows.
//! - A field is there where it would be in JSON: protobuf always has scalars that are empty or zero, JSON leaves most of them out
//!   ([`Field::when_empty`]). A time that is not set is not there, where JSON has null.
//! - Fields may come in any order, those of a list or map far from each other: a list is handed over whole where its first item is.
//!   Fields that are unknown do not matter. A field that is no list and comes twice is an error, as in JSON.
//! - No bytes make it panic, or nest deeper than its tables do, which do not nest in themselves. An error names the field.
//! - A text that is no UTF-8 is read as the API server would show it in JSON: with replacement characters.

mod object;
pub mod schema;
mod value;
pub(crate) mod wire;

use std::fmt;

use serde::Deserialize;

/// A message: which of its fields are read.
#[derive(Debug)]
pub struct Message {
    /// Its name in the API.
    pub name: &'static str,
    /// The fields, sorted by their numbers: one that stands before a smaller one may not be found.
    pub fields: &'static [Field],
}

/// A field that is read.
#[derive(Debug)]
pub struct Field {
    /// Its number.
    pub number: u32,
    /// Its name in JSON.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// JSON has it even if it is empty or zero.
    pub when_empty: bool,
}

/// What a field holds.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A text.
    Text,
    /// A list of texts.
    Texts,
    /// True or false.
    Flag,
    /// A whole number.
    Number,
    /// `meta.v1.Time`: whole seconds. Read as a pair of seconds and nanoseconds, or as the text that JSON has.
    Time,
    /// `meta.v1.MicroTime`: the same, to the microsecond.
    Micros,
    /// Bytes that are JSON: a text.
    Json,
    /// Texts by text.
    Map,
    /// A message.
    One(&'static Message),
    /// A list of messages.
    Many(&'static Message),
}

/// Why a message could not be read. In a box, so that an answer is no larger for it: each field is answered through several calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanError(Box<Reason>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Reason {
    /// The field, from the outermost, with dots; empty for the message itself.
    path: String,
    what: String,
}

/// Reads a message.
///
/// # Errors
/// When it is none, or is not what the type wants.
pub fn read<'de, T: Deserialize<'de>>(message: &'static Message, bytes: &'de [u8]) -> Result<T, ScanError> {
    T::deserialize(object::Object::new(message, bytes))
}

// === impl ScanError ===

impl ScanError {
    /// The same, of a field of a message.
    fn within(mut self, field: &str) -> Self {
        let Reason { path, .. } = &mut *self.0;
        *path = if path.is_empty() {
            field.to_owned()
        } else {
            format!("{field}.{path}")
        };
        self
    }
}

impl fmt::Display for ScanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Reason { path, what } = &*self.0;
        match path.as_str() {
            "" => f.write_str(what),
            path => write!(f, "{path}: {what}"),
        }
    }
}

impl std::error::Error for ScanError {}

impl serde::de::Error for ScanError {
    fn custom<T: fmt::Display>(what: T) -> Self {
        Self(Box::new(Reason {
            path: String::new(),
            what: what.to_string(),
        }))
    }
}

impl From<wire::Broken> for ScanError {
    fn from(broken: wire::Broken) -> Self {
        serde::de::Error::custom(broken)
    }
}

#[cfg(test)]
mod tests;
