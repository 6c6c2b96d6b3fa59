//! One connection of HTTP/2 for many requests, as kube-controller-manager has one.
//!
//! It comes about when the first request wants a place on it, and again when it ended. A request waits for its place before it is decided
//! that it may go: on the connection nobody waits for anything but the answer.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::client::legacy::connect::Connection as _;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower::{BoxError, ServiceExt as _};

use super::{Content, Kept, Secured};
use crate::shutdown::chain;

/// Requests on it at once. kube-apiserver takes 100 (`--http2-max-streams-per-connection`).
pub(super) const AT_ONCE: usize = 96;

/// How long it is silent while somebody waits for an answer until it is asked whether anybody is there, and how long that may take: one that
/// is dead has to be noticed within the time of a single request (5 s), so that the next goes over another one.
const PING_AFTER: Duration = Duration::from_secs(1);
const PONG_WITHIN: Duration = Duration::from_secs(3);

/// A connection for all; cloning it gives the same one.
#[derive(Clone)]
pub(super) struct Shared(Arc<Inner>);

struct Inner {
    connector: Secured,
    server: Uri,
    places: Arc<Semaphore>,
    /// The last one that was opened, or is.
    opened: Mutex<Option<Opening>>,
}

/// Comes about whether somebody waits for it or not. None if the server chose another version.
type Opening = futures::future::Shared<BoxFuture<'static, Result<Option<Sender>, Unconnected>>>;

type Sender = SendRequest<Content>;

/// There is no connection.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Unconnected(Arc<str>);

/// A place on it, for one request: there are no more if it is cloned.
#[derive(Clone)]
pub(super) struct Place {
    sender: Sender,
    _held: Held,
    shared: Shared,
}

/// What keeps a place taken until it is dropped.
type Held = Arc<OwnedSemaphorePermit>;

// === impl Shared ===

impl Shared {
    /// A connection to a server by `connector`, which offers both versions.
    pub(super) fn new(connector: Secured, server: Uri) -> Self {
        Self(Arc::new(Inner {
            connector,
            server,
            places: Arc::new(Semaphore::new(AT_ONCE)),
            opened: Mutex::default(),
        }))
    }

    /// A place on it, once there is one and it is there; none if the server prefers HTTP/1.1, which it is not asked again.
    pub(super) async fn place(&self) -> Result<Option<Place>, Unconnected> {
        if let Some(opening) = &*self.opened()
            && let Some(Ok(None)) = opening.peek()
        {
            return Ok(None);
        }
        let places = Arc::clone(&self.0.places);
        let held = places.acquire_owned().await.map_err(Unconnected::because)?;
        Ok(self.sender().await?.map(|sender| Place {
            sender,
            _held: Arc::new(held),
            shared: self.clone(),
        }))
    }

    async fn sender(&self) -> Result<Option<Sender>, Unconnected> {
        let opening = {
            let mut opened = self.opened();
            match &*opened {
                Some(opening) if is_of_use(opening) => opening.clone(),
                _ => opened.insert(self.open()).clone(),
            }
        };
        opening.await
    }

    fn open(&self) -> Opening {
        let inner = Arc::clone(&self.0);
        // Whoever waits for it may go. It ends by the connector's deadline.
        let opening = tokio::spawn(async move { inner.connect().await.map_err(|error| Unconnected(chain(&*error).into())) });
        let opened = async { opening.await.unwrap_or_else(|error| Err(Unconnected::because(error))) };
        opened.boxed().shared()
    }

    fn opened(&self) -> MutexGuard<'_, Option<Opening>> {
        self.0.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// It is under way, or there, or will never be.
fn is_of_use(opening: &Opening) -> bool {
    match opening.peek() {
        None | Some(Ok(None)) => true,
        Some(Ok(Some(sender))) => !sender.is_closed(),
        Some(Err(_)) => false,
    }
}

impl Inner {
    async fn connect(&self) -> Result<Option<Sender>, BoxError> {
        let stream = self.connector.clone().oneshot(self.server.clone()).await?;
        if !stream.connected().is_negotiated_h2() {
            return Ok(None);
        }
        let (sender, connection) = Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(PING_AFTER)
            .keep_alive_timeout(PONG_WITHIN)
            .handshake(stream)
            .await?;
        // It ends when it breaks, when the server says so, or when nobody can send anything any more. Who waits for an answer is told.
        tokio::spawn(connection.map(|ended| {
            if let Err(error) = ended {
                tracing::debug!(error = %chain(&error), "Connection to the API server ended");
            }
        }));
        Ok(Some(sender))
    }
}

// === impl Unconnected ===

impl Unconnected {
    fn because(error: impl std::error::Error + 'static) -> Self {
        Self(chain(&error).into())
    }
}

// === impl Place ===

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place").finish_non_exhaustive()
    }
}

impl Place {
    /// Sends a request. Whoever reads the answer keeps the place meanwhile.
    ///
    /// A server that ends connections now and then (`--goaway-chance`) says which requests it did not look at, and expects them again.
    pub(super) async fn send(self, request: Request<Content>) -> Result<Response<Incoming>, BoxError> {
        let Self { mut sender, shared, .. } = self;
        let (again, content) = (request.clone(), request.body().clone());
        let answered = match sender.send_request(request).await {
            Err(error) if was_not_looked_at(&error) => match shared.sender().await? {
                Some(mut sender) => sender.send_request(again).await,
                None => Err(error),
            },
            answered => answered,
        };
        // To the connection it is an error like others.
        answered.map_err(|error| if content.was_kept() { Kept.into() } else { error.into() })
    }
}

/// It was not sent, or is one of those after the last that the server will answer (RFC 9113, 6.8).
fn was_not_looked_at(error: &hyper::Error) -> bool {
    let cause = || std::error::Error::source(error)?.downcast_ref::<h2::Error>();
    let is_of_order = |cause: &h2::Error| cause.is_remote() && cause.is_go_away() && cause.reason() == Some(h2::Reason::NO_ERROR);
    error.is_canceled() || cause().is_some_and(is_of_order)
}
