//! What a request to the API server can end in.

use std::time::Duration;

use bailiff_model::Load;
use bytes::Bytes;
use prost::Message;
use serde::Deserialize;

use crate::decode::{DecodeError, Encoded};
use crate::protobuf;

/// The kind of a failure: what a core decides on. Closed set; [`Kind::as_str`] is a metric label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// 404 `NotFound`: the object, or its namespace, is not there.
    NotFound,
    /// 409 `AlreadyExists`.
    AlreadyExists,
    /// 409 otherwise: a precondition on uid or resourceVersion failed.
    Conflict,
    /// 410: a resourceVersion or continue token is too old.
    Expired,
    /// 422, 400: the request will never be accepted as it is.
    Invalid,
    /// 401, 403: we may not.
    Forbidden,
    /// 429: too many requests, or a disruption budget forbids an eviction.
    TooManyRequests,
    /// The namespace is being deleted (cause `NamespaceTerminating`).
    NamespaceTerminating,
    /// No answer within the deadline: it may have been done.
    Timeout,
    /// 5xx, 404 without a word of the API server, a broken connection, an unreadable answer: worth another try.
    Unavailable,
    /// Not sent: this process does not lead.
    NotLeading,
    /// Not sent: it waited too long for its turn, under the client's own rate limit or with a connection.
    NotSent,
    /// Not sent: who asked for it took it back.
    CalledOff,
    /// Not sent: this process only observes.
    Observing,
}

bailiff_model::words! {
    /// Label value.
    Kind {
        NotFound => "not_found",
        AlreadyExists => "already_exists",
        Conflict => "conflict",
        Expired => "expired",
        Invalid => "invalid",
        Forbidden => "forbidden",
        TooManyRequests => "too_many_requests",
        NamespaceTerminating => "namespace_terminating",
        Timeout => "timeout",
        Unavailable => "unavailable",
        NotLeading => "not_leading",
        NotSent => "not_sent",
        CalledOff => "called_off",
        Observing => "observing",
    }
}

impl Kind {
    /// What it says of how busy the server is.
    pub const fn load(self) -> Load {
        match self {
            Self::TooManyRequests | Self::Timeout | Self::Unavailable | Self::NotSent => Load::Overloaded,
            Self::NotLeading | Self::CalledOff | Self::Observing => Load::None,
            Self::NotFound
            | Self::AlreadyExists
            | Self::Conflict
            | Self::Expired
            | Self::Invalid
            | Self::Forbidden
            | Self::NamespaceTerminating => Load::Answered,
        }
    }
}

/// A failed request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind_text}: {message}", kind_text = kind.as_str())]
pub struct Error {
    /// What a core decides on.
    pub kind: Kind,
    /// The API server's message, or the transport's. For people.
    pub message: String,
    /// `Retry-After`, where the server gave one.
    pub retry_after: Option<Duration>,
    /// Causes of the Status, as (reason, message).
    pub causes: Vec<(String, String)>,
    /// The HTTP status of the answer; `None` if there was none.
    pub answered: Option<u16>,
    /// There was no connection: nobody can have done what was asked.
    pub is_unconnected: bool,
}

impl Error {
    /// An error without a Status behind it.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            retry_after: None,
            causes: Vec::new(),
            answered: None,
            is_unconnected: false,
        }
    }

    /// The request was accepted, but the answer could not be read whole.
    pub(crate) fn unread(message: String) -> Self {
        Self {
            answered: Some(200),
            ..Self::new(Kind::Unavailable, message)
        }
    }

    /// The error of a Status that came in a stream.
    pub(crate) fn from_status(status: &Encoded<'_>) -> Self {
        let status = Status::decode(status).unwrap_or_default();
        Self::of(status.code, None, status)
    }

    /// The error that an HTTP answer stands for.
    pub(crate) fn from_answer(code: u16, retry_after: Option<Duration>, body: &Bytes) -> Self {
        let status = Encoded::of_answer(body).and_then(|status| Status::decode(&status));
        Self::of(code, retry_after, status.unwrap_or_default())
    }

    fn of(code: u16, retry_after: Option<Duration>, status: Status) -> Self {
        let retry_after = retry_after.or(status.details.retry_after_seconds.map(Duration::from_secs));
        let causes: Vec<(String, String)> = status
            .details
            .causes
            .into_iter()
            .map(|cause| (cause.reason, cause.message))
            .collect();
        let message = if status.message.is_empty() {
            format!("HTTP {code}")
        } else {
            status.message
        };
        Self {
            kind: kind_of(code, &status.reason, &causes),
            message,
            retry_after,
            causes,
            answered: Some(code),
            is_unconnected: false,
        }
    }

    /// True if the same request may succeed later.
    pub const fn is_transient(&self) -> bool {
        matches!(
            self.kind,
            Kind::Timeout | Kind::Unavailable | Kind::TooManyRequests | Kind::NotSent
        )
    }
}

fn kind_of(code: u16, reason: &str, causes: &[(String, String)]) -> Kind {
    if causes.iter().any(|(reason, _)| reason == "NamespaceTerminating") {
        return Kind::NamespaceTerminating;
    }
    match code {
        404 if reason == "NotFound" => Kind::NotFound,
        // A proxy, or a server that does not serve the path at all: nothing is said of the object.
        404 => Kind::Unavailable,
        409 if reason == "AlreadyExists" => Kind::AlreadyExists,
        409 => Kind::Conflict,
        410 => Kind::Expired,
        401 | 403 => Kind::Forbidden,
        429 => Kind::TooManyRequests,
        504 => Kind::Timeout,
        // A server or proxy that gave up waiting, or asks to be asked again: nothing is wrong with the request.
        408 | 425 => Kind::Unavailable,
        400..=499 => Kind::Invalid,
        _ => Kind::Unavailable,
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Status {
    code: u16,
    message: String,
    reason: String,
    #[serde(deserialize_with = "crate::views::or_default")]
    details: Details,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Details {
    #[serde(deserialize_with = "crate::views::or_default")]
    causes: Vec<Cause>,
    retry_after_seconds: Option<u64>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Cause {
    reason: String,
    message: String,
}

impl Status {
    fn decode(encoded: &Encoded<'_>) -> Result<Self, DecodeError> {
        let message = match encoded {
            Encoded::Json(text) => return Ok(serde_json::from_str(text)?),
            Encoded::Protobuf(message) => protobuf::Status::decode(message.clone())?,
        };
        let causes = message.details.causes.into_iter();
        Ok(Self {
            code: u16::try_from(message.code).unwrap_or_default(),
            message: message.message,
            reason: message.reason,
            details: Details {
                causes: causes
                    .map(|cause| Cause {
                        reason: cause.reason,
                        message: cause.message,
                    })
                    .collect(),
                retry_after_seconds: u64::try_from(message.details.retry_after_seconds)
                    .ok()
                    .filter(|after| *after > 0),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_comes_from_code_reason_and_causes() {
        let cases = [
            (404, r#"{"reason":"NotFound","message":"gone"}"#, Kind::NotFound),
            (404, "<html>no such host</html>", Kind::Unavailable),
            (404, "404 page not found\n", Kind::Unavailable),
            (404, "", Kind::Unavailable),
            (409, r#"{"reason":"AlreadyExists"}"#, Kind::AlreadyExists),
            (409, r#"{"reason":"Conflict"}"#, Kind::Conflict),
            (
                403,
                r#"{"reason":"Forbidden","details":{"causes":[{"reason":"NamespaceTerminating"}]}}"#,
                Kind::NamespaceTerminating,
            ),
            (403, "no json", Kind::Forbidden),
            (410, "{}", Kind::Expired),
            (422, "{}", Kind::Invalid),
            (429, "{}", Kind::TooManyRequests),
            (503, "", Kind::Unavailable),
            (408, "", Kind::Unavailable),
            (425, "", Kind::Unavailable),
            (504, "", Kind::Timeout),
        ];
        for (code, body, kind) in cases {
            assert_eq!(
                Error::from_answer(code, None, &Bytes::from_static(body.as_bytes())).kind,
                kind,
                "{code} {body}"
            );
        }
    }

    /// `meta.v1.Status`, as an answer that was asked for in protobuf has it where the server's limiter or a budget says no.
    #[test]
    fn a_status_in_protobuf_is_the_same_as_in_json() {
        let json = r#"{"reason":"TooManyRequests","message":"wait","details":{"retryAfterSeconds":10,
            "causes":[{"reason":"DisruptionBudget","message":"needs 2"}]}}"#;
        let cause = [text(1, "DisruptionBudget"), text(2, "needs 2")].concat();
        let details = [nested(4, &cause), vec![5 << 3, 10]].concat();
        let status = [
            text(3, "wait"),
            text(4, "TooManyRequests"),
            nested(5, &details),
            vec![6 << 3, 0xad, 3],
        ]
        .concat();
        let document = [b"k8s\0".to_vec(), nested(2, &status)].concat();
        for body in [json.as_bytes().to_vec(), document] {
            let error = Error::from_answer(429, None, &Bytes::from(body));
            assert_eq!((error.kind, error.message.as_str()), (Kind::TooManyRequests, "wait"));
            assert_eq!(error.retry_after, Some(Duration::from_secs(10)));
            assert_eq!(error.causes, [("DisruptionBudget".to_owned(), "needs 2".to_owned())]);
        }
    }

    /// A field of length `bytes`, below 128.
    fn nested(number: u8, bytes: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, u8::try_from(bytes.len()).expect("short")], bytes].concat()
    }

    fn text(number: u8, text: &str) -> Vec<u8> {
        nested(number, text.as_bytes())
    }
}
