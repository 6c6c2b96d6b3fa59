//! Few connections of HTTP/2 for many requests.
//!
//! One is enough for most of the time. As many requests as a server takes on one may wait for their answers when it is busy; then the next
//! goes over another one, as with kube-controller-manager, up to [`CONNECTIONS`]. Each comes about when the first request wants a place on
//! it, and again when it ended; a server ends it after some 90 s of silence. A request waits for its place before it is decided that it may
//! go, so that on the connection it waits for little but the answer.

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

/// Connections at once. With their places they have room for what all stages ask for together of a server that takes a second to answer.
pub(super) const CONNECTIONS: usize = 4;

/// Requests on each at once, and so many more on the first that are urgent: together as many as kube-apiserver takes
/// (`--http2-max-streams-per-connection`, 100 by default).
pub(super) const AT_ONCE: usize = 96;
pub(super) const URGENT_BESIDES: usize = 4;

/// How long connecting may take: less than a request waits for its turn, so that it is told why there is none.
pub(super) const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// How long it is silent while an answer is waited for until it is asked whether anybody is there, and how long that may take: one that is
/// dead has to be noticed within the time of a single request (5 s), so that the next goes over another one.
const PING_AFTER: Duration = Duration::from_secs(1);
const PONG_WITHIN: Duration = Duration::from_secs(3);

/// How often a request is sent at most, if the server says that it did not look at it: a server that sends everybody away is met on one
/// connection after the other, and then it is whoever decided on the request who should wait.
const TRIES: usize = 3;

/// Connections for all; cloning it gives the same ones.
#[derive(Clone)]
pub(super) struct Shared(Arc<Inner>);

struct Inner {
    connector: Secured,
    server: Uri,
    /// Of all lines together, taken first: whoever has one finds one on a line.
    places: Arc<Semaphore>,
    urgent_places: Arc<Semaphore>,
    lines: [Line; CONNECTIONS],
}

/// One connection after another.
struct Line {
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

/// A place on one of them, for one request; clones share it.
#[derive(Clone)]
pub(super) struct Place {
    /// As it was when the place was given.
    connection: Opening,
    held: Held,
    shared: Shared,
}

/// What keeps a place taken until all clones are dropped.
pub(super) type Held = Arc<Taken>;

/// A place that is taken. That of the line is given back first.
#[derive(Debug)]
pub(super) struct Taken {
    line: usize,
    /// None of what is urgent, which is besides.
    _of_line: Option<OwnedSemaphorePermit>,
    _of_all: OwnedSemaphorePermit,
}

/// What became of a request.
pub(super) enum Sent {
    Answered(Response<Incoming>),
    /// The server speaks HTTP/1.1 by now, and did not look at the request.
    Older(Request<Content>),
}

/// Why a request can be sent again: the server did nothing about it.
enum Untouched {
    /// The connection ends.
    Ending,
    /// There were too many at once.
    Refused,
}

// === impl Shared ===

impl Shared {
    /// Connections to a server by `connector`, which offers both versions.
    pub(super) fn new(mut connector: Secured, server: Uri) -> Self {
        connector.set_connect_timeout(Some(CONNECT_WITHIN));
        Self(Arc::new(Inner {
            connector,
            server,
            places: Arc::new(Semaphore::new(CONNECTIONS * AT_ONCE)),
            urgent_places: Arc::new(Semaphore::new(URGENT_BESIDES)),
            lines: std::array::from_fn(|_| Line {
                places: Arc::new(Semaphore::new(AT_ONCE)),
                opened: Mutex::default(),
            }),
        }))
    }

    /// A place on a connection, once there is one and it is there; none if the server prefers HTTP/1.1: that is not asked again.
    pub(super) async fn place(&self, is_urgent: bool) -> Result<Option<Place>, Unconnected> {
        if let Some(opening) = &*self.opened(0)
            && let Some(Ok(None)) = opening.peek()
        {
            return Ok(None);
        }
        let taken = tokio::select! {
            biased;
            permit = Arc::clone(&self.0.places).acquire_owned() => self.on_a_line(permit.map_err(Unconnected::because)?),
            permit = Arc::clone(&self.0.urgent_places).acquire_owned(), if is_urgent => Taken {
                line: 0,
                _of_line: None,
                _of_all: permit.map_err(Unconnected::because)?,
            },
        };
        let connection = self.connection(taken.line);
        let held = Arc::new(taken);
        Ok(connection.clone().await?.map(|_| Place {
            connection,
            held,
            shared: self.clone(),
        }))
    }

    /// A place on the first line that has one, so that the others are opened, and stay, for waves only.
    fn on_a_line(&self, of_all: OwnedSemaphorePermit) -> Taken {
        let free = |(line, at): (usize, &Line)| Arc::clone(&at.places).try_acquire_owned().ok().map(|permit| (line, permit));
        let (line, of_line) = self.0.lines.iter().enumerate().find_map(free).unzip();
        Taken {
            line: line.unwrap_or_default(),
            _of_line: of_line,
            _of_all: of_all,
        }
    }

    /// The one of a line that is there or comes about.
    fn connection(&self, line: usize) -> Opening {
        let mut opened = self.opened(line);
        match &*opened {
            Some(opening) if is_of_use(opening) => opening.clone(),
            _ => opened.insert(self.open()).clone(),
        }
    }

    fn open(&self) -> Opening {
        let inner = Arc::clone(&self.0);
        // Whoever waits for it may go. It ends by the connector's deadline.
        let connecting = tokio::spawn(async move { inner.connect().await.map_err(|error| Unconnected(chain(&*error).into())) });
        let connected = connecting.map(|ended| ended.unwrap_or_else(|error| Err(Unconnected::because(error))));
        let opening = connected.boxed().shared();
        // What came of it is there for the next also if nobody waited.
        tokio::spawn(opening.clone().map(drop));
        opening
    }

    /// Nobody gets a place on this one any more.
    fn leave(&self, line: usize, connection: &Opening) {
        let mut opened = self.opened(line);
        if opened.as_ref().is_some_and(|opening| opening.ptr_eq(connection)) {
            *opened = None;
        }
    }

    fn opened(&self, line: usize) -> MutexGuard<'_, Option<Opening>> {
        self.0.lines[line].opened.lock().unwrap_or_else(PoisonError::into_inner)
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
    /// What keeps it taken, for as long as the answer is read.
    pub(super) fn held(&self) -> Held {
        Arc::clone(&self.held)
    }

    /// Sends a request.
    ///
    /// A server that ends connections now and then (`--goaway-chance`) says which requests it did not look at, and expects them again.
    pub(super) async fn send(mut self, request: Request<Content>) -> Result<Sent, BoxError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let Some(mut sender) = self.connection.clone().await? else {
                return Ok(Sent::Older(request));
            };
            let error = match sender.send_request(request.clone()).await {
                Ok(answer) => return Ok(Sent::Answered(answer)),
                Err(error) => error,
            };
            // To the connection that is an error like others.
            if request.body().was_kept() {
                return Err(Kept.into());
            }
            match untouched(&error) {
                Some(Untouched::Ending) if tries < TRIES => {
                    self.shared.leave(self.held.line, &self.connection);
                    self.connection = self.shared.connection(self.held.line);
                }
                Some(Untouched::Refused) if tries < TRIES => {}
                _ => return Err(error.into()),
            }
        }
    }
}

/// It was not sent, or is one of those after the last that the server will answer (RFC 9113, 6.8), or one too many (8.7).
fn untouched(error: &hyper::Error) -> Option<Untouched> {
    if error.is_canceled() {
        return Some(Untouched::Ending);
    }
    let cause: &h2::Error = std::error::Error::source(error)?.downcast_ref()?;
    match cause.reason()? {
        h2::Reason::NO_ERROR if cause.is_remote() && cause.is_go_away() => Some(Untouched::Ending),
        h2::Reason::REFUSED_STREAM if cause.is_remote() && cause.is_reset() => Some(Untouched::Refused),
        _ => None,
    }
}
