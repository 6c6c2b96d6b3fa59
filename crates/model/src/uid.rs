//! Uids of Kubernetes objects.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use crate::hex;

/// `metadata.uid` of an object: one incarnation of it. Ordered as its text.
///
/// API servers make RFC 4122 texts, 36 characters of which 16 bytes are left: they are kept in place. Any other text is kept as it is.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Uid(Form);

#[derive(Clone, PartialEq, Eq, Hash)]
enum Form {
    /// The bytes of a text as [`Written`] has it: no other text becomes one.
    Rfc4122([u8; 16]),
    Text(Arc<str>),
}

/// Eight, four, four, four and twelve lower case hex digits, with dashes between.
type Written = [u8; 36];

/// Where each of the bytes has its two digits.
const PLACES: [usize; 16] = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];

/// Where the dashes are.
const DASHES: [usize; 4] = [8, 13, 18, 23];

impl Uid {
    /// True if the text is empty.
    pub fn is_empty(&self) -> bool {
        matches!(&self.0, Form::Text(text) if text.is_empty())
    }

    /// Its text, in `room` if it is not kept as one.
    fn text<'a>(&'a self, room: &'a mut Written) -> &'a str {
        match &self.0 {
            Form::Rfc4122(bytes) => {
                *room = written(bytes);
                std::str::from_utf8(room).unwrap_or_default()
            }
            Form::Text(text) => text,
        }
    }
}

fn written(bytes: &[u8; 16]) -> Written {
    let mut text = [b'-'; 36];
    for (byte, place) in bytes.iter().zip(PLACES) {
        [text[place], text[place + 1]] = hex::digits(*byte);
    }
    text
}

/// The bytes, if the text is as [`written`] writes them.
fn read(text: &str) -> Option<[u8; 16]> {
    let text: &Written = text.as_bytes().try_into().ok()?;
    if DASHES.iter().any(|place| text[*place] != b'-') {
        return None;
    }
    let mut bytes = [0; 16];
    for (byte, place) in bytes.iter_mut().zip(PLACES) {
        *byte = hex::byte([text[place], text[place + 1]])?;
    }
    Some(bytes)
}

impl Default for Uid {
    fn default() -> Self {
        Self(Form::Text(Arc::default()))
    }
}

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        match read(text) {
            Some(bytes) => Self(Form::Rfc4122(bytes)),
            None if text.is_empty() => Self::default(),
            None => Self(Form::Text(Arc::from(text))),
        }
    }
}

impl PartialOrd for Uid {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Uid {
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.0, &other.0) {
            // Digits come in the order of what they stand for, and dashes stand where dashes stand.
            (Form::Rfc4122(one), Form::Rfc4122(other)) => one.cmp(other),
            _ => self.text(&mut [0; 36]).cmp(other.text(&mut [0; 36])),
        }
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text(&mut [0; 36]))
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.text(&mut [0; 36]), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXTS: [&str; 11] = [
        "",
        "0",
        "00000000-0000-0000-0000-000000000000",
        "0f8fad5b-d9cb-469f-a165-70867728950e",
        "0f8fad5b-d9cb-469f-a165-70867728950",
        "0f8fad5b-d9cb-469f-a165-70867728950ef",
        "0F8FAD5B-d9cb-469f-a165-70867728950e",
        "0f8fad5bd-9cb-469f-a165-70867728950e",
        "0f8fad5b-d9cb-469f-a165-7086772895-e",
        "ffffffff-ffff-ffff-ffff-ffffffffffff",
        "uid-1",
    ];

    #[test]
    fn the_text_and_its_order_stay_the_same() {
        for one in TEXTS {
            let uid = Uid::from(one);
            assert_eq!((uid.to_string().as_str(), uid.is_empty()), (one, one.is_empty()));
            assert_eq!(format!("{uid:?}"), format!("{one:?}"));
            for other in TEXTS {
                assert_eq!(uid.cmp(&Uid::from(other)), one.cmp(other), "{one} {other}");
            }
        }
    }

    #[test]
    fn what_an_api_server_makes_is_kept_in_place() {
        assert!(matches!(Uid::from(TEXTS[3]).0, Form::Rfc4122(_)));
        assert_eq!(size_of::<Uid>(), 24);
    }
}
