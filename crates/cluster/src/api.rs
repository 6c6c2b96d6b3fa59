//! Single requests to the API server.
//!
//! # Guarantees
//! Every request has a deadline. A write asks the gate (leadership) right before it is sent. Nothing is retried here: an answer
//! that failed goes back to the core, which decides from a fresh read.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bailiff_runtime::Clock;
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Limited};
use kube::client::Body;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::error::{Error, Kind};
use crate::metrics::Metrics;

/// How long one request may take. Well below the 10 s renew deadline of leader election, so that a write that was sent while
/// leading has ended, one way or the other, before another process can lead.
const DEADLINE: Duration = Duration::from_secs(5);

/// The longest answer that is read: a page of 500 pods at 100 kB each, which no cluster reaches.
const MAX_ANSWER: usize = 64 << 20;

type Gate = Arc<dyn Fn() -> bool + Send + Sync>;

/// A way to an API server; cloning it gives the same one.
#[derive(Clone)]
pub struct Api {
    client: kube::Client,
    clock: Clock,
    metrics: Metrics,
    gate: Gate,
    deadline: Duration,
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api")
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

/// A patch body with its media type.
#[derive(Clone, Debug, PartialEq)]
pub enum Patch {
    /// `application/strategic-merge-patch+json`.
    Strategic(Value),
    /// `application/merge-patch+json`.
    Merge(Value),
    /// `application/json-patch+json`.
    Json(Value),
}

/// Preconditions of a delete. Those of a patch are part of its body (`metadata.uid`, `metadata.resourceVersion`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Precondition {
    /// The object must have this uid.
    pub uid: Option<String>,
    /// The object must be at this resourceVersion.
    pub resource_version: Option<String>,
}

impl Api {
    /// An API reached through `client`.
    pub fn new(client: kube::Client, clock: Clock, metrics: Metrics) -> Self {
        Self {
            client,
            clock,
            metrics,
            gate: Arc::new(|| true),
            deadline: DEADLINE,
        }
    }

    /// The same API, whose writes are refused with [`Kind::NotLeading`] whenever `gate` answers false.
    #[must_use]
    pub fn with_gate(mut self, gate: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.gate = Arc::new(gate);
        self
    }

    /// The same API, with another deadline for each request.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// The clock that watches and recorders of this API use.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Reads one object, or a list, from the server's store (no `resourceVersion`: a quorum read).
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        let bytes = self.exchange("get", Method::GET, path, "", Vec::new()).await?;
        decode(&bytes)
    }

    /// Creates an object. `path` is the collection's.
    pub async fn create<T: DeserializeOwned>(&self, path: &str, object: &impl Serialize) -> Result<T, Error> {
        self.write("create", Method::POST, path, "application/json", object).await
    }

    /// Replaces an object; the body carries `metadata.resourceVersion`, and `metadata.uid`, as preconditions.
    pub async fn replace<T: DeserializeOwned>(&self, path: &str, object: &impl Serialize) -> Result<T, Error> {
        self.write("update", Method::PUT, path, "application/json", object).await
    }

    /// Patches an object; the body carries the preconditions.
    pub async fn patch<T: DeserializeOwned>(&self, path: &str, patch: &Patch) -> Result<T, Error> {
        let (content_type, body) = match patch {
            Patch::Strategic(body) => ("application/strategic-merge-patch+json", body),
            Patch::Merge(body) => ("application/merge-patch+json", body),
            Patch::Json(body) => ("application/json-patch+json", body),
        };
        self.write("patch", Method::PATCH, path, content_type, body).await
    }

    /// Deletes an object, if it still is the one meant.
    pub async fn delete(&self, path: &str, precondition: &Precondition) -> Result<(), Error> {
        let mut preconditions = serde_json::Map::new();
        if let Some(uid) = &precondition.uid {
            preconditions.insert("uid".to_owned(), json!(uid));
        }
        if let Some(version) = &precondition.resource_version {
            preconditions.insert("resourceVersion".to_owned(), json!(version));
        }
        let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
        if !preconditions.is_empty() {
            options["preconditions"] = Value::Object(preconditions);
        }
        self.write::<serde::de::IgnoredAny>("delete", Method::DELETE, path, "application/json", &options)
            .await
            .map(|_| ())
    }

    async fn write<T: DeserializeOwned>(
        &self,
        verb: &'static str,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: &impl Serialize,
    ) -> Result<T, Error> {
        let body = serde_json::to_vec(body).map_err(|error| Error::new(Kind::Invalid, error.to_string()))?;
        if !(self.gate)() {
            self.metrics.request(verb, Kind::NotLeading.as_str());
            return Err(Error::new(Kind::NotLeading, "this process does not lead"));
        }
        let bytes = self.exchange(verb, method, path, content_type, body).await?;
        decode(&bytes)
    }

    async fn exchange(
        &self,
        verb: &'static str,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: Vec<u8>,
    ) -> Result<Bytes, Error> {
        let request = async {
            let response = self.send(method, path, content_type, body).await?;
            read_whole(response).await
        };
        let result = match tokio::time::timeout(self.deadline, request).await {
            Ok(result) => result,
            Err(_) => {
                let message = format!("no answer to {verb} {path} within {:?}", self.deadline);
                Err(Error::new(Kind::Timeout, message))
            }
        };
        let outcome = result.as_ref().map_or_else(|error| error.kind.as_str(), |_| "ok");
        self.metrics.request(verb, outcome);
        result
    }

    /// Sends a request and waits for the head of the answer; an error answer is read and returned as an error.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: Vec<u8>,
    ) -> Result<Response<Body>, Error> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("accept", "application/json");
        if !content_type.is_empty() {
            request = request.header("content-type", content_type);
        }
        let request = request
            .body(Body::from(body))
            .map_err(|error| Error::new(Kind::Invalid, format!("{path}: {error}")))?;
        let response = self
            .client
            .send(request)
            .await
            .map_err(|error| Error::new(Kind::Unavailable, error.to_string()))?;
        if response.status().is_success() {
            return Ok(response);
        }
        Err(refused(response).await)
    }
}

async fn refused(response: Response<Body>) -> Error {
    let code = response.status().as_u16();
    let retry_after = response
        .headers()
        .get("retry-after")
        .and_then(|value| value.to_str().ok()?.parse().ok())
        .map(Duration::from_secs);
    match read_whole(response).await {
        Ok(body) => Error::from_answer(code, retry_after, &body),
        Err(_) => Error::from_answer(code, retry_after, &[]),
    }
}

async fn read_whole(response: Response<Body>) -> Result<Bytes, Error> {
    Limited::new(response.into_body(), MAX_ANSWER)
        .collect()
        .await
        .map(http_body_util::Collected::to_bytes)
        .map_err(|error| Error::new(Kind::Unavailable, format!("broken answer: {error}")))
}

fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(bytes).map_err(|error| Error::new(Kind::Unavailable, format!("unreadable answer: {error}")))
}
