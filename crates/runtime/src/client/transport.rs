//! The way of a stage to its API server.
//!
//! As kube's own client, but for three things. A request goes straight to the connections, where kube's buffer costs each of them two channels
//! and a task's turn. And connections that a wave of requests left behind are closed when nobody uses them. And whether a write may still be sent is asked at the last moment, when its
//! connection takes it: that may be long after it was handed over, in a process that stood still meanwhile.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt as _, TryFutureExt as _};
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::ConfigExt as _;
use kube::{Client, Config};
use tower::{BoxError, ServiceBuilder, ServiceExt as _};

use super::paced::Connector;

/// Bytes that a connection reads at once, and the longest head of an answer. It keeps room for them for as long as it lasts, and that of a
/// watch lasts; hyper's own bound is 400 KiB. A head has some hundred bytes.
const ROOM: usize = 64 * 1024;

/// A connection that nobody uses is closed after so long, or twice that, as hyper looks each time this has passed. An API server ends it
/// after 90 s. Single requests come in waves of seconds.
const IDLE_FOR: Duration = Duration::from_secs(30);

/// The body of a request.
#[derive(Default)]
pub struct Content {
    bytes: Bytes,
    may_go: Option<Box<dyn Fn() -> bool + Send + Sync>>,
}

/// It was not sent, as it might not be any more when its turn came.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("it may not be sent any more")]
struct Kept;

/// The body of an answer.
#[derive(Debug)]
pub struct Answer(UnsyncBoxBody<Bytes, BoxError>);

/// A request under way: dropping it calls it off.
pub struct Answering(BoxFuture<'static, Result<Response<Answer>, SendError>>);

/// There is no connection, or it broke, or the request might not be sent any more.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct SendError(BoxError);

/// The way to an API server; cloning it gives the same one.
#[derive(Clone)]
pub struct Transport(Arc<dyn Fn(Request<Content>) -> Answering + Send + Sync>);

// === impl Transport ===

impl Transport {
    /// As kube builds a client by itself, but for the connections, and without spans of its own: what a request means is told by who sends
    /// it.
    pub(super) fn new(config: &Config, connector: Connector) -> Result<Self, kube::Error> {
        let connector = config.rustls_https_connector_with_connector(connector)?;
        let mut connector = TimeoutConnector::new(connector);
        connector.set_connect_timeout(config.connect_timeout);
        let mut builder = legacy::Builder::new(TokioExecutor::new());
        builder
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_FOR)
            .http1_max_buf_size(ROOM);
        let client: legacy::Client<_, Content> = builder.build(connector);
        let service = ServiceBuilder::new()
            .layer(config.base_uri_layer())
            .option_layer(config.auth_layer()?)
            .layer(config.extra_headers_layer()?)
            .map_err(BoxError::from)
            .service(client);
        Ok(Self(Arc::new(move |request| Answering::of(service.clone().oneshot(request)))))
    }

    /// Sends a request; answers when the head of the answer is here.
    ///
    /// # Cancellation
    /// A request whose future is dropped while it waits for a connection is not sent.
    pub fn send(&self, request: Request<Content>) -> Answering {
        (self.0)(request)
    }

    /// A client of kube's on the same connections.
    pub(super) fn into_client(self, default_namespace: &str) -> Client {
        let service = move |request: Request<kube::client::Body>| {
            let transport = self.clone();
            async move {
                let (parts, body) = request.into_parts();
                let content = Content::from(body.collect().await?.to_bytes());
                transport
                    .send(Request::from_parts(parts, content))
                    .await
                    .map_err(BoxError::from)
            }
        };
        Client::new(tower::service_fn(service), default_namespace)
    }
}

impl From<Client> for Transport {
    fn from(client: Client) -> Self {
        Self(Arc::new(move |request| {
            let client = client.clone();
            Answering::of(async move {
                let request = request.map(|content| content.bytes.into());
                client.send(request).await.map_err(|error| match error {
                    kube::Error::Service(error) => error,
                    error => error.into(),
                })
            })
        }))
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport").finish_non_exhaustive()
    }
}

// === impl SendError ===

impl SendError {
    /// True if the request was not sent because it might not be any more ([`Content::only_while`]).
    pub fn was_kept(&self) -> bool {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&*self.0);
        while let Some(error) = cause {
            if error.is::<Kept>() {
                return true;
            }
            cause = error.source();
        }
        false
    }
}

// === impl Content ===

impl Content {
    /// The same, sent only if `may_go` says so when the connection takes it.
    #[must_use]
    pub fn only_while(self, may_go: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self {
            may_go: Some(Box::new(may_go)),
            ..self
        }
    }
}

impl<B: Into<Bytes>> From<B> for Content {
    fn from(bytes: B) -> Self {
        Self {
            bytes: bytes.into(),
            may_go: None,
        }
    }
}

impl Body for Content {
    type Data = Bytes;
    type Error = BoxError;

    /// A connection asks for it before it writes anything of the request, its head included, and breaks off if there is none.
    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.bytes.is_empty() {
            return Poll::Ready(None);
        }
        if self.may_go.as_ref().is_some_and(|may_go| !may_go()) {
            return Poll::Ready(Some(Err(Kept.into())));
        }
        Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.bytes)))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.len() as u64)
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Content").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

// === impl Answering ===

impl Answering {
    fn of<B>(sending: impl Future<Output = Result<Response<B>, BoxError>> + Send + 'static) -> Self
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        let answered = |response: Response<B>| response.map(|body| Answer(body.map_err(Into::into).boxed_unsync()));
        Self(sending.map_ok(answered).map_err(SendError).boxed())
    }
}

impl Future for Answering {
    type Output = Result<Response<Answer>, SendError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(context)
    }
}

impl fmt::Debug for Answering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answering").finish_non_exhaustive()
    }
}

// === impl Answer ===

impl Body for Answer {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Pin::new(&mut self.0).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

#[cfg(test)]
mod tests;
