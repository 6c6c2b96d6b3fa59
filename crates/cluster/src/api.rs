//! Single requests to the API server.
//!
//! # Guarantees
//! Every request but a watch, and a list that comes as one, first waits for its turn under the client's own rate limit, and for room on a
//! connection, a bounded time. Then a write asks the gate whether, and until when, this process may write; then it is sent, with a deadline
//! that ends before somebody else may lead. One that is called off before it was sent is not sent; while it waits for the limit, it takes
//! nobody's turn. Nothing is retried here: an answer that failed goes back to the core, which decides from a fresh read.

mod words;

use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bailiff_model::{Mono, Now};
use bailiff_runtime::Clock;
use bailiff_runtime::client::{Answer, Answering, Attention, Content, Limiter, Room, SendError, Transport};
use bailiff_runtime::shutdown::chain;
use bytes::Bytes;
use http::{Method, Response};
use http_body_util::{BodyExt, Limited};
use serde::Serialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::decode::{Decode, DecodeError, Encoded, JSON};
use crate::error::{Error, Kind};
use crate::metrics::Metrics;
use crate::watch::wire::Page;
use words::{Use, Words};

/// How long one request may take once it is sent: an API server that is well answers in milliseconds. A write's time ends earlier if
/// the gate says so.
const DEADLINE: Duration = Duration::from_secs(5);

/// How long the head of a watch may take; it comes at once from a server that is well.
const OPEN_WITHIN: Duration = Duration::from_secs(30);

/// How long a request may wait for its turn under the client's rate limit and for room on a connection. What waited longer was decided on
/// facts of another time, and is to be decided again. At the default 20 per second it lets 200 requests wait.
const QUEUE_FOR: Duration = Duration::from_secs(10);

/// When an observer may ask for a write again, which is answered the same: seldom, and not never, as it reads before it asks.
const OBSERVE_AGAIN: Duration = Duration::from_secs(30);

/// The longest answer that is read: a page of 500 pods at 100 kB each, which no cluster reaches.
const MAX_ANSWER: usize = 64 << 20;

/// The longest list that is read in one piece, which is done only if its pages expire: 100,000 pods at 5 kB.
const MAX_LIST: usize = 512 << 20;

type Gate = Arc<dyn Fn(Now) -> Option<Mono> + Send + Sync>;

/// A way to an API server; cloning it gives the same one.
///
/// Each request has one of its own while it is under way, and there are hundreds: what all of them have in common is there once.
#[derive(Clone)]
pub struct Api {
    common: Arc<Common>,
    is_urgent: bool,
    called_off: Option<CancellationToken>,
}

#[derive(Clone)]
struct Common {
    transport: Transport,
    clock: Clock,
    metrics: Metrics,
    limiter: Limiter,
    observes: bool,
    gate: Gate,
    deadline: Duration,
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api")
            .field("deadline", &self.common.deadline)
            .finish_non_exhaustive()
    }
}

/// A patch body with its media type.
#[derive(Clone, Debug, PartialEq)]
pub enum Patch<B = Value> {
    /// `application/strategic-merge-patch+json`.
    Strategic(B),
    /// `application/merge-patch+json`.
    Merge(B),
    /// `application/json-patch+json`.
    Json(B),
}

/// Preconditions of a delete. Those of a patch are the same fields of its `metadata`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Precondition {
    /// The object must have this uid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The object must be at this resourceVersion.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
}

/// `meta.v1.DeleteOptions`
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DeleteOptions<'a> {
    api_version: &'static str,
    kind: &'static str,
    #[serde(skip_serializing_if = "is_none")]
    preconditions: &'a Precondition,
}

fn is_none(precondition: &Precondition) -> bool {
    *precondition == Precondition::default()
}

// === impl Api ===

impl Api {
    /// An API reached by `transport`, without a rate limit, whose writes are always allowed.
    pub fn new(transport: impl Into<Transport>, clock: Clock, metrics: Metrics) -> Self {
        let common = Common {
            transport: transport.into(),
            limiter: Limiter::none(&clock),
            observes: false,
            clock,
            metrics,
            gate: Arc::new(|_| Some(Mono::FAR_FUTURE)),
            deadline: DEADLINE,
        };
        Self {
            common: Arc::new(common),
            is_urgent: false,
            called_off: None,
        }
    }

    /// The same API, whose writes are refused with [`Kind::NotLeading`] when `gate` answers `None`; else it answers when a write
    /// that is sent now must have ended, one way or the other.
    #[must_use]
    pub fn with_gate(mut self, gate: impl Fn(Now) -> Option<Mono> + Send + Sync + 'static) -> Self {
        self.common_mut().gate = Arc::new(gate);
        self
    }

    /// The same API, whose requests end with [`Kind::CalledOff`] if `called_off` is cancelled before they are sent.
    #[must_use]
    pub fn unless_called_off(mut self, called_off: CancellationToken) -> Self {
        self.called_off = Some(called_off);
        self
    }

    /// The same API, which is read and never written: writes end with [`Kind::Observing`], and are not worth another try for a while.
    #[must_use]
    pub fn observing(mut self) -> Self {
        self.common_mut().observes = true;
        self
    }

    /// True if nothing is ever written.
    pub fn observes(&self) -> bool {
        self.common.observes
    }

    /// The same API, whose requests go before others that wait under the client's rate limit.
    #[must_use]
    pub fn urgently(mut self) -> Self {
        self.is_urgent = true;
        self
    }

    /// The same API, whose requests take turns under `limiter`.
    #[must_use]
    pub fn with_limiter(mut self, limiter: Limiter) -> Self {
        self.common_mut().limiter = limiter;
        self
    }

    /// The limit under which requests take turns.
    pub fn limiter(&self) -> &Limiter {
        &self.common.limiter
    }

    /// The same API, with another deadline for each request.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.common_mut().deadline = deadline;
        self
    }

    /// The clock that watches and recorders of this API use.
    pub fn clock(&self) -> &Clock {
        &self.common.clock
    }

    fn common_mut(&mut self) -> &mut Common {
        Arc::make_mut(&mut self.common)
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.common.metrics
    }

    /// Reads one object, or a list, from the server's store (no `resourceVersion`: a quorum read).
    pub async fn get<T: Decode>(&self, path: &str) -> Result<T, Error> {
        let purpose = Use::read(self.common.deadline, MAX_ANSWER);
        self.exchange("get", Words::read(path, T::ACCEPT), purpose, T::decode).await
    }

    /// Reads a page of a list, or the whole of one, with a deadline of its own.
    pub(crate) async fn list(&self, path: &str, accept: &'static str, is_whole: bool, deadline: Duration) -> Result<Page, Error> {
        let most = if is_whole { MAX_LIST } else { MAX_ANSWER };
        let purpose = Use::read(deadline, most);
        self.exchange("list", Words::read(path, accept), purpose, Page::read).await
    }

    /// Opens a watch: answers when its head is here. It waits for no turn, as watches are few and go on for long: behind a wave of writes
    /// nobody would see what becomes of them.
    pub(crate) async fn stream(&self, path: &str, accept: &'static str, attention: Attention) -> Result<Answer, Error> {
        let request = Words::read(path, accept).into_request()?;
        let opening = accepted(self.common.transport.open(request, attention));
        let opened = tokio::time::timeout(OPEN_WITHIN, opening).await.unwrap_or_else(|_| {
            let message = format!("no answer to a watch of {path} within {OPEN_WITHIN:?}");
            Err(Error::new(Kind::Timeout, message))
        });
        self.count("watch", opened.as_ref().err());
        opened.map(Response::into_body)
    }

    /// Creates an object. `path` is the collection's.
    pub async fn create<T: Decode>(&self, path: &str, object: &impl Serialize) -> Result<T, Error> {
        self.write("create", Method::POST, path, JSON, object).await
    }

    /// Creates an object from JSON, which is sent as it is and not checked here. `path` is the collection's.
    pub async fn create_text<T: Decode>(&self, path: &str, object: String) -> Result<T, Error> {
        self.write_bytes("create", Method::POST, path, JSON, object.into_bytes())
            .await
    }

    /// Replaces an object; the body carries `metadata.resourceVersion`, and `metadata.uid`, as preconditions.
    pub async fn replace<T: Decode>(&self, path: &str, object: &impl Serialize) -> Result<T, Error> {
        self.write("update", Method::PUT, path, JSON, object).await
    }

    /// Patches an object; the body carries the preconditions.
    pub async fn patch<T: Decode>(&self, path: &str, patch: &Patch<impl Serialize>) -> Result<T, Error> {
        let (content_type, body) = match patch {
            Patch::Strategic(body) => ("application/strategic-merge-patch+json", body),
            Patch::Merge(body) => ("application/merge-patch+json", body),
            Patch::Json(body) => ("application/json-patch+json", body),
        };
        self.write("patch", Method::PATCH, path, content_type, body).await
    }

    /// Deletes an object, if it still is the one meant.
    pub async fn delete(&self, path: &str, precondition: &Precondition) -> Result<(), Error> {
        let options = DeleteOptions {
            api_version: "v1",
            kind: "DeleteOptions",
            preconditions: precondition,
        };
        self.write::<serde::de::IgnoredAny>("delete", Method::DELETE, path, JSON, &options)
            .await
            .map(|_| ())
    }

    async fn write<T: Decode>(
        &self,
        verb: &'static str,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: &impl Serialize,
    ) -> Result<T, Error> {
        let body = serde_json::to_vec(body).map_err(|error| Error::new(Kind::Invalid, error.to_string()))?;
        self.write_bytes(verb, method, path, content_type, body).await
    }

    async fn write_bytes<T: Decode>(
        &self,
        verb: &'static str,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: Vec<u8>,
    ) -> Result<T, Error> {
        let words = Words {
            method,
            path,
            accept: T::ACCEPT,
            content_type,
            body,
        };
        self.exchange(verb, words, Use::write(self.common.deadline), T::decode).await
    }

    async fn exchange<T>(
        &self,
        verb: &'static str,
        words: Words<'_>,
        purpose: Use,
        decode: impl FnOnce(&Encoded<'_>) -> Result<T, DecodeError>,
    ) -> Result<T, Error> {
        let result = self.take_turn(verb, words, purpose).await;
        self.count(verb, result.as_ref().err());
        let bytes = result?;
        Encoded::of_answer(&bytes)
            .and_then(|answer| decode(&answer))
            .map_err(|error| Error::unread(format!("unreadable answer: {error}")))
    }

    async fn take_turn(&self, verb: &str, words: Words<'_>, purpose: Use) -> Result<Bytes, Error> {
        if purpose.is_write && self.common.observes {
            let mut error = Error::new(Kind::Observing, "this process only observes");
            error.retry_after = Some(OBSERVE_AGAIN);
            return Err(error);
        }
        let path = words.path;
        let room = match tokio::time::timeout(QUEUE_FOR, self.turn()).await {
            Ok(turn) => turn?,
            Err(_) => {
                let message =
                    format!("{verb} {path} waited {QUEUE_FOR:?} for its turn under the client's rate limit, or for a connection");
                return Err(Error::new(Kind::NotSent, message));
            }
        };
        let now = self.common.clock.now();
        let mut end = now.mono + purpose.deadline;
        if purpose.is_write {
            let until = (self.common.gate)(now).ok_or_else(|| Error::new(Kind::NotLeading, "this process does not lead"))?;
            end = end.min(until);
        }
        let mut request = words.into_request()?;
        if purpose.is_write {
            let body = std::mem::take(request.body_mut());
            *request.body_mut() = self.until_then(body, end);
        }
        let sending = self.common.transport.send(room, request);
        let answer = pin!(async { read_whole(accepted(sending).await?, purpose.most).await });
        match self.until(end, purpose.is_write, answer).await {
            Some(Err(error)) if error.kind == Kind::NotSent && is_cancelled(self.called_off.as_ref()) => Err(called_off()),
            Some(answered) => answered,
            None => {
                let waited = end.saturating_since(now.mono);
                let message = format!("no answer to {verb} {path} within {waited:?}");
                Err(Error::new(Kind::Timeout, message))
            }
        }
    }

    /// The body of a write, which is not sent after `end` nor when it was called off: what was handed to a connection may wait there while
    /// this process stands still.
    fn until_then(&self, body: Content, end: Mono) -> Content {
        let (clock, called_off) = (self.common.clock.clone(), self.called_off.clone());
        body.only_while(move || clock.now().mono < end && !is_cancelled(called_off.as_ref()))
    }

    /// What `work` comes to, if it does before `end`. After that a write is not touched again, also by a process that stood still
    /// meanwhile: one that waits for a connection would still be sent, when somebody else may lead.
    async fn until<T>(&self, end: Mono, is_write: bool, mut work: Pin<&mut impl Future<Output = T>>) -> Option<T> {
        let mut over = pin!(tokio::time::sleep_until(self.common.clock.instant_of(end)));
        poll_fn(|context| {
            if is_write && self.common.clock.now().mono >= end {
                return Poll::Ready(None);
            }
            match work.as_mut().poll(context) {
                Poll::Ready(result) => Poll::Ready(Some(result)),
                Poll::Pending => over.as_mut().poll(context).map(|()| None),
            }
        })
        .await
    }

    /// Waits for a token of the rate limit, and for room on a connection, or until the request is called off.
    async fn turn(&self) -> Result<Room, Error> {
        let is_off = async {
            match &self.called_off {
                Some(token) => token.cancelled().await,
                None => std::future::pending().await,
            }
        };
        let room = async {
            if self.is_urgent {
                self.common.limiter.take_urgently().await;
            } else {
                self.common.limiter.take().await;
            }
            self.common
                .transport
                .room(self.is_urgent)
                .await
                .map_err(|error| unanswered(&error))
        };
        tokio::select! {
            biased;
            () = is_off => Err(called_off()),
            room = room => room,
        }
    }

    fn count(&self, verb: &'static str, error: Option<&Error>) {
        self.common
            .metrics
            .request(verb, error.map_or("ok", |error| error.kind.as_str()));
    }
}

fn is_cancelled(token: Option<&CancellationToken>) -> bool {
    token.is_some_and(CancellationToken::is_cancelled)
}

fn called_off() -> Error {
    Error::new(Kind::CalledOff, "it is not wanted any more")
}

fn unanswered(error: &SendError) -> Error {
    let kind = if error.was_kept() { Kind::NotSent } else { Kind::Unavailable };
    Error {
        is_unconnected: error.is_unconnected(),
        ..Error::new(kind, chain(error))
    }
}

/// The head of an answer; an error answer is read and returned as an error.
async fn accepted(answering: Answering) -> Result<Response<Answer>, Error> {
    let response = answering.await.map_err(|error| unanswered(&error))?;
    if response.status().is_success() {
        return Ok(response);
    }
    // Few are, and nobody has to have room for it before.
    Err(Box::pin(refused(response)).await)
}

async fn refused(response: Response<Answer>) -> Error {
    let code = response.status().as_u16();
    let retry_after = response
        .headers()
        .get("retry-after")
        .and_then(|value| value.to_str().ok()?.parse().ok())
        .map(Duration::from_secs);
    let body = read_whole(response, MAX_ANSWER).await.unwrap_or_default();
    Error::from_answer(code, retry_after, &body)
}

async fn read_whole(response: Response<Answer>, most: usize) -> Result<Bytes, Error> {
    Limited::new(response.into_body(), most)
        .collect()
        .await
        .map(http_body_util::Collected::to_bytes)
        .map_err(|error| Error::unread(format!("broken answer: {error}")))
}
