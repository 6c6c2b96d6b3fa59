//! What was asked: method, path, query, the few headers that matter, body.

use bytes::Bytes;
use serde_json::Value;

use crate::Status;

/// A request, free of HTTP.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Upper-case method.
    pub method: String,
    /// Decoded by segment where it is used; kept as sent here.
    pub path: String,
    /// Form-decoded query.
    pub query: Query,
    /// `Accept`, joined by commas.
    pub accept: String,
    /// `Content-Type`.
    pub content_type: Option<String>,
    /// `Accept-Encoding`.
    pub accept_encoding: String,
    /// `Authorization`.
    pub authorization: Option<String>,
    /// What comes after `Impersonate-` in headers, in lower case, with its value.
    pub impersonate: Vec<(String, String)>,
    /// `User-Agent`.
    pub user_agent: String,
    /// The body.
    pub body: Body,
}

/// A request's body: as it came over the wire, or as a value that needs no parsing.
#[derive(Clone, Debug)]
pub enum Body {
    /// Bytes of the request's content type.
    Bytes(Bytes),
    /// Already a value.
    Value(Value),
}

/// A query, in the order it was given.
#[derive(Clone, Debug, Default)]
pub struct Query(Vec<(String, String)>);

impl Default for Body {
    fn default() -> Self {
        Self::Bytes(Bytes::new())
    }
}

// === impl Body ===

impl Body {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Bytes(bytes) => bytes.iter().all(u8::is_ascii_whitespace),
            Self::Value(value) => value.is_null(),
        }
    }
}

// === impl Query ===

impl Query {
    /// Decodes `a=b&c=d`.
    pub fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        Self(
            pairs
                .map(|pair| {
                    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                    (decode(key, true), decode(value, true))
                })
                .collect(),
        )
    }

    /// Adds a pair.
    pub fn push(&mut self, key: &str, value: &str) {
        self.0.push((key.to_owned(), value.to_owned()));
    }

    /// The first value of a key, `""` if there is none.
    pub fn get(&self, key: &str) -> &str {
        self.find(key).unwrap_or_default()
    }

    /// The first value of a key.
    pub fn find(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(one, _)| one == key).map(|(_, value)| value.as_str())
    }

    /// All values of a key.
    pub fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0
            .iter()
            .filter(move |(one, _)| one == key)
            .map(|(_, value)| value.as_str())
    }

    /// A flag: absent is false, present without a value true, as the API's own conversion has it.
    pub fn flag(&self, key: &str) -> bool {
        self.find(key).is_some_and(|value| !matches!(value, "false" | "0"))
    }

    /// A number.
    ///
    /// # Errors
    /// 400 when it is none.
    pub fn number(&self, key: &str) -> Result<Option<i64>, Status> {
        match self.find(key) {
            None | Some("") => Ok(None),
            Some(text) => text
                .parse()
                .map(Some)
                .map_err(|_| Status::bad_request(format!("strconv.ParseInt: parsing \"{text}\": invalid syntax"))),
        }
    }
}

/// Undoes percent-encoding; malformed escapes stay as they are.
pub fn decode(text: &str, plus: bool) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match (byte, after) {
            (b'%', [high, low, tail @ ..]) => match (hex(*high), hex(*low)) {
                (Some(high), Some(low)) => {
                    bytes.push(high << 4 | low);
                    rest = tail;
                }
                _ => bytes.push(b'%'),
            },
            (b'+', _) if plus => bytes.push(b' '),
            _ => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn hex(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_decoded() {
        let query = Query::parse("fieldSelector=spec.nodeName%3Dn1&watch&x=a+b&y=%zz&limit=5");
        assert_eq!(query.get("fieldSelector"), "spec.nodeName=n1");
        assert!(query.flag("watch"));
        assert_eq!(query.get("x"), "a b");
        assert_eq!(query.get("y"), "%zz");
        assert_eq!(query.number("limit"), Ok(Some(5)));
        assert!(query.number("x").is_err());
    }
}
