//! What is answered: status, headers, and a body or a stream.

use bytes::Bytes;
use serde_json::Value;

use super::stream::Stream;
use crate::Status;

/// An answer, free of HTTP.
#[derive(Debug)]
pub struct Reply {
    /// HTTP status code.
    pub status: u16,
    /// Headers, in lower case.
    pub headers: Vec<(&'static str, String)>,
    /// What follows.
    pub body: Content,
}

/// The body of an answer.
#[derive(Debug)]
pub enum Content {
    /// All of it.
    Full(Bytes),
    /// An object that is not encoded yet.
    Object(Value),
    /// Events as they happen.
    Stream(Box<Stream>),
    /// A refusal that is not due yet: the answer after this many seconds is that the resourceVersion is too large.
    Late(std::time::Duration, Box<Status>),
}

impl Reply {
    /// An object.
    pub fn object(status: u16, value: Value) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: Content::Object(value),
        }
    }

    /// Compact JSON.
    pub fn json(status: u16, bytes: Bytes) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: Content::Full(bytes),
        }
    }

    /// Plain text.
    pub fn text(status: u16, text: impl Into<String>) -> Self {
        Self {
            status,
            headers: vec![("content-type", "text/plain; charset=utf-8".to_owned())],
            body: Content::Full(Bytes::from(text.into())),
        }
    }

    /// A refusal.
    pub fn refusal(status: &Status) -> Self {
        let mut reply = Self::object(status.code, status.to_value());
        let seconds = status.details.as_ref().and_then(|details| details.retry_after);
        if let Some(seconds) = seconds {
            reply.headers.push(("retry-after", seconds.to_string()));
        }
        reply
    }

    /// The same with a warning for people.
    #[must_use]
    pub fn warn(mut self, warnings: &[String]) -> Self {
        for warning in warnings {
            let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"");
            self.headers.push(("warning", format!("299 - \"{quoted}\"")));
        }
        self
    }
}
