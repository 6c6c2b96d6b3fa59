//! The Kubernetes `Status` object: what every refused request is answered with.
//!
//! Constructors are named after the API's reasons; messages follow kube-apiserver's wording because people search for it.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

/// Why a request was refused, in the terms of `metav1.Status`.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{reason} ({code}): {message}")]
pub struct Status {
    /// HTTP status code.
    pub code: u16,
    /// Machine-readable reason, `""` when there is none.
    pub reason: &'static str,
    /// For people.
    pub message: String,
    /// What it was about, and which fields are at fault.
    pub details: Option<Box<Details>>,
    /// The token by which a list may go on all the same.
    pub token: Option<Box<str>>,
}

/// What a refused request was about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    /// Name of the object, if one was asked for.
    pub name: String,
    /// API group of `kind`.
    pub group: String,
    /// Resource (or, for validation, kind) that was asked for.
    pub kind: String,
    /// Fields at fault.
    pub causes: Vec<Cause>,
    /// Seconds after which it may be tried again.
    pub retry_after: Option<u32>,
}

/// One field at fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// `FieldValueInvalid`, `FieldValueRequired`, …
    pub reason: &'static str,
    /// For people.
    pub message: String,
    /// Path of the field.
    pub field: String,
}

// === impl Status ===

impl Status {
    /// A bare refusal.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: None,
            token: None,
        }
    }

    /// The same, about an object of a resource.
    #[must_use]
    pub fn about(mut self, group: &str, resource: &str, name: &str) -> Self {
        let details = self.details.get_or_insert_default();
        details.group = group.to_owned();
        details.kind = resource.to_owned();
        details.name = name.to_owned();
        self
    }

    /// The same, with these fields at fault.
    #[must_use]
    pub fn because(mut self, causes: Vec<Cause>) -> Self {
        self.details.get_or_insert_default().causes = causes;
        self
    }

    /// The same, to be tried again after some seconds.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.details.get_or_insert_default().retry_after = Some(seconds);
        self
    }

    /// The same for a list that may go on all the same.
    #[must_use]
    pub fn going_on(mut self, token: String) -> Self {
        self.token = Some(token.into());
        self
    }

    /// 404: no such object.
    pub fn not_found(group: &str, resource: &str, name: &str) -> Self {
        let message = format!("{} \"{name}\" not found", qualified(group, resource));
        Self::new(404, "NotFound", message).about(group, resource, name)
    }

    /// 404: no such path.
    pub fn no_such_path() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource").about("", "", "")
    }

    /// 409: the name is taken.
    pub fn already_exists(group: &str, resource: &str, name: &str) -> Self {
        let message = format!("{} \"{name}\" already exists", qualified(group, resource));
        Self::new(409, "AlreadyExists", message).about(group, resource, name)
    }

    /// 409: a precondition does not hold.
    pub fn conflict(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} \"{name}\": {why}",
            qualified(group, resource)
        );
        Self::new(409, "Conflict", message).about(group, resource, name)
    }

    /// 400.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 403.
    pub fn forbidden(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let message = if name.is_empty() {
            format!("{} is forbidden: {why}", qualified(group, resource))
        } else {
            format!("{} \"{name}\" is forbidden: {why}", qualified(group, resource))
        };
        Self::new(403, "Forbidden", message).about(group, resource, name)
    }

    /// 405.
    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(405, "MethodNotAllowed", message).about("", "", "")
    }

    /// 410: the resourceVersion is older than what is remembered.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// 422: the object breaks rules of its kind.
    pub fn invalid(group: &str, kind: &str, name: &str, causes: Vec<Cause>) -> Self {
        // What is told of a field twice is said once.
        let mut said = BTreeSet::new();
        let list: Vec<String> = causes
            .iter()
            .map(|cause| format!("{}: {}", cause.field, cause.message))
            .filter(|told| said.insert(told.clone()))
            .collect();
        let what = if let [only] = list.as_slice() {
            only.clone()
        } else {
            format!("[{}]", list.join(", "))
        };
        let message = format!("{} \"{name}\" is invalid: {what}", qualified(group, kind));
        Self::new(422, "Invalid", message).about(group, kind, name).because(causes)
    }

    /// Reads one back; what it says about fields at fault stays in the message.
    pub fn of_value(code: u16, value: &Value) -> Self {
        const REASONS: [&str; 16] = [
            "NotFound",
            "AlreadyExists",
            "Conflict",
            "BadRequest",
            "Forbidden",
            "MethodNotAllowed",
            "Expired",
            "Invalid",
            "Unauthorized",
            "UnsupportedMediaType",
            "NotAcceptable",
            "Timeout",
            "TooManyRequests",
            "InternalError",
            "RequestEntityTooLarge",
            "Gone",
        ];
        let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let reason = REASONS
            .into_iter()
            .find(|reason| *reason == text("/reason"))
            .unwrap_or_default();
        let mut status = Self::new(code, reason, text("/message"));
        if value.get("details").is_some() {
            status = status.about(text("/details/group"), text("/details/kind"), text("/details/name"));
        }
        if let Some(seconds) = value.pointer("/details/retryAfterSeconds").and_then(Value::as_u64) {
            status = status.retry_after(u32::try_from(seconds).unwrap_or(u32::MAX));
        }
        status
    }

    /// The object as it is sent.
    pub fn to_value(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": self.message,
        });
        let fields = status.as_object_mut().expect("a literal object");
        if !self.reason.is_empty() {
            fields.insert("reason".into(), self.reason.into());
        }
        if let Some(details) = &self.details {
            fields.insert("details".into(), details.to_value());
        }
        if let Some(token) = &self.token {
            fields.insert("metadata".into(), json!({"continue": token}));
        }
        fields.insert("code".into(), self.code.into());
        status
    }
}

// === impl Details ===

impl Details {
    fn to_value(&self) -> Value {
        let mut details = Map::new();
        for (key, text) in [("name", &self.name), ("group", &self.group), ("kind", &self.kind)] {
            if !text.is_empty() {
                details.insert(key.into(), text.as_str().into());
            }
        }
        if !self.causes.is_empty() {
            let causes = self.causes.iter().map(Cause::to_value).collect();
            details.insert("causes".into(), Value::Array(causes));
        }
        if let Some(seconds) = self.retry_after {
            details.insert("retryAfterSeconds".into(), seconds.into());
        }
        Value::Object(details)
    }
}

// === impl Cause ===

impl Cause {
    /// The cause of this reason.
    pub fn new(reason: &'static str, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            field: field.into(),
        }
    }

    /// The value is malformed.
    pub fn invalid(field: impl Into<String>, value: &Value, why: &str) -> Self {
        Self::new("FieldValueInvalid", field, format!("Invalid value: {value}: {why}"))
    }

    /// The value is missing.
    pub fn required(field: impl Into<String>, why: &str) -> Self {
        let message = if why.is_empty() {
            "Required value".to_owned()
        } else {
            format!("Required value: {why}")
        };
        Self::new("FieldValueRequired", field, message)
    }

    /// The value is none of those allowed.
    pub fn unsupported(field: impl Into<String>, value: &Value, allowed: &[&str]) -> Self {
        let allowed: Vec<String> = allowed.iter().map(|one| format!("\"{one}\"")).collect();
        let message = format!("Unsupported value: {value}: supported values: {}", allowed.join(", "));
        Self::new("FieldValueNotSupported", field, message)
    }

    /// The field may not be set, or not be changed.
    pub fn forbidden(field: impl Into<String>, why: &str) -> Self {
        Self::new("FieldValueForbidden", field, format!("Forbidden: {why}"))
    }

    /// The value appears twice.
    pub fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self::new("FieldValueDuplicate", field, format!("Duplicate value: {value}"))
    }

    fn to_value(&self) -> Value {
        let mut cause = Map::new();
        if !self.reason.is_empty() {
            cause.insert("reason".into(), self.reason.into());
        }
        cause.insert("message".into(), self.message.as_str().into());
        if !self.field.is_empty() {
            cause.insert("field".into(), self.field.as_str().into());
        }
        Value::Object(cause)
    }
}

/// `daemonsets.apps`, `pods`: a resource or kind with its group.
pub fn qualified(group: &str, resource: &str) -> String {
    if group.is_empty() {
        resource.to_owned()
    } else {
        format!("{resource}.{group}")
    }
}
