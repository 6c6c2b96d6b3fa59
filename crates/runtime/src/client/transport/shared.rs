//! One connection of HTTP/2 for many requests, and further ones for waves.
//!
//! The first comes about when a request wants a place on it, and again when it ended; a server ends it after some 90 s of silence. While as
//! many requests wait for their answers as a server takes on one, the next go over [further] ones, as with kube-controller-manager. A
//! request waits for its place before it is decided that it may go, so that on the connection it waits for little but the answer.

mod connection;
mod further;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Request, Response, Uri};
use hyper_util::client::legacy::connect::Connection as _;
use hyper_util::rt::TokioIo;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower::{BoxError, ServiceExt as _};

pub(super) use self::connection::Receiving;
use self::connection::{Sender, Unanswered};
use self::further::{Further, Line};
use super::causes::is_distrust;
use super::{Content, Secured};
use crate::shutdown::chain;

/// Connections beside the first. All have 384 places: for 256 evictions, or 64 reads of two requests each and 128 writes.
pub(super) const FURTHER: usize = 3;

/// Requests on each at once, and so many more on the first that are urgent: together as many as kube-apiserver takes
/// (`--http2-max-streams-per-connection`, 100 by default).
pub(super) const AT_ONCE: usize = 96;
pub(super) const URGENT_BESIDES: usize = 4;

/// How long connecting may take: less than a request waits for its turn, so that it is told why there is none.
pub(super) const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// How often a request is sent at most, if the server says that it did not look at it: a server that sends everybody away is met on one
/// connection after the other, and then it is whoever decided on the request who should wait.
const TRIES: usize = 3;

/// Connections for all; cloning it gives the same ones.
#[derive(Clone)]
pub(super) struct Shared(Arc<Inner>);

struct Inner {
    connector: Secured,
    server: Uri,
    /// Of all connections that there are, the first included. Taken before one of a single connection, and given back after it, so that
    /// whoever has one finds one there.
    places: Arc<Semaphore>,
    first_places: Arc<Semaphore>,
    urgent_places: Arc<Semaphore>,
    /// The last first one that was opened, or is.
    opened: Mutex<Option<Opening>>,
    further: Further,
}

/// Comes about whether somebody waits for it or not. None if the server chose another version.
type Opening = futures::future::Shared<BoxFuture<'static, Result<Option<Sender>, Unconnected>>>;

/// There is no connection.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{why}")]
pub(super) struct Unconnected {
    why: Arc<str>,
    /// Whoever answered is not trusted.
    pub(super) is_distrust: bool,
}

/// A place on one of them, for one request; clones share it.
#[derive(Clone)]
pub(super) struct Place {
    way: Way,
    held: Held,
    shared: Shared,
}

/// The connection that a place is on, as it was when the place was given.
#[derive(Clone)]
enum Way {
    First(Opening),
    /// It is there, and nobody has to be woken for it: who wakes himself gives way to others, with a request that could go now.
    Further(Sender),
}

/// What keeps a place taken until all clones are dropped.
pub(super) type Held = Arc<Taken>;

/// A place that is taken. What it holds is given back in this order.
#[derive(Debug)]
pub(super) struct Taken {
    of_one: Option<OwnedSemaphorePermit>,
    /// None of what is urgent and besides.
    of_all: Option<OwnedSemaphorePermit>,
    /// None on the first.
    line: Option<Arc<Line>>,
}

/// What became of a request.
pub(super) enum Sent {
    /// What keeps its place is kept for as long as it is read.
    Answered(Response<Receiving>, Held),
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
            places: Arc::new(Semaphore::new(AT_ONCE)),
            first_places: Arc::new(Semaphore::new(AT_ONCE)),
            urgent_places: Arc::new(Semaphore::new(URGENT_BESIDES)),
            opened: Mutex::default(),
            further: Further::default(),
        }))
    }

    /// A place on a connection, once there is one and it is there; none if the server prefers HTTP/1.1: that is not asked again.
    pub(super) async fn place(&self, is_urgent: bool) -> Result<Option<Place>, Unconnected> {
        if let Some(opening) = &*self.opened()
            && let Some(Ok(None)) = opening.peek()
        {
            return Ok(None);
        }
        let taken = self.take(is_urgent).await?;
        let way = match &taken.line {
            Some(line) => Way::Further(line.sender()),
            None => Way::First(self.connection()),
        };
        let held = Arc::new(taken);
        Ok(way.sender().await?.map(|_| Place {
            way,
            held,
            shared: self.clone(),
        }))
    }

    /// A place, once there is one. What is urgent goes over the first connection as long as that has room, which it is there for.
    async fn take(&self, is_urgent: bool) -> Result<Taken, Unconnected> {
        let Inner {
            places, urgent_places, ..
        } = &*self.0;
        if is_urgent
            && let Ok(of_all) = Arc::clone(places).try_acquire_owned()
            && let Some(taken) = self.on_the_first(of_all)
        {
            return Ok(taken);
        }
        loop {
            // Who finds none knows that one is wanted. Who waits may not know yet: it may also wait because its task has had its turn.
            let urgent = is_urgent.then(|| Arc::clone(urgent_places).try_acquire_owned());
            let taken = if let Some(Ok(permit)) = urgent {
                Some(Taken::new(permit, None, None))
            } else if let Ok(permit) = Arc::clone(places).try_acquire_owned() {
                self.on_any(permit)
            } else {
                self.open_another();
                tokio::select! {
                    biased;
                    permit = Arc::clone(urgent_places).acquire_owned(), if is_urgent => {
                        Some(Taken::new(permit.map_err(|error| Unconnected::because(&error))?, None, None))
                    }
                    permit = Arc::clone(places).acquire_owned() => self.on_any(permit.map_err(|error| Unconnected::because(&error))?),
                }
            };
            if let Some(taken) = taken {
                return Ok(taken);
            }
        }
    }

    fn on_the_first(&self, of_all: OwnedSemaphorePermit) -> Option<Taken> {
        let of_one = Arc::clone(&self.0.first_places).try_acquire_owned().ok()?;
        Some(Taken::new(of_one, Some(of_all), None))
    }

    /// A place on the first connection that has one, so that the further ones are used in waves only. None if the one has ended on which
    /// there was one.
    fn on_any(&self, of_all: OwnedSemaphorePermit) -> Option<Taken> {
        let Some((line, of_one)) = self.0.further.place(&self.0.first_places, &self.0.places) else {
            of_all.forget();
            return None;
        };
        Some(Taken::new(of_one, Some(of_all), line))
    }

    /// The first one that is there or comes about.
    fn connection(&self) -> Opening {
        let mut opened = self.opened();
        match &*opened {
            Some(opening) if is_of_use(opening) => opening.clone(),
            _ => opened.insert(self.open()).clone(),
        }
    }

    fn open(&self) -> Opening {
        let inner = Arc::clone(&self.0);
        // Whoever waits for it may go. It ends by the connector's deadline.
        let connecting = tokio::spawn(async move { inner.connect().await.map_err(|error| Unconnected::because(&*error)) });
        let connected = connecting.map(|ended| ended.unwrap_or_else(|error| Err(Unconnected::because(&error))));
        let opening = connected.boxed().shared();
        // What came of it is there for the next also if nobody waited; those who waited may be more than it has places for.
        let (came, shared) = (opening.clone(), self.clone());
        tokio::spawn(came.map(move |_| shared.open_another()));
        opening
    }

    /// Lets another one come about beside the first, if that is there and all places are taken. It ends when it is not used any more, or
    /// broke.
    fn open_another(&self) {
        let is_full = self.0.places.available_permits() == 0;
        let is_first_there = || matches!(self.opened().as_ref().and_then(Opening::peek), Some(Ok(Some(_))));
        if !is_full || !is_first_there() || !self.0.further.may_another_come() {
            return;
        }
        let shared = self.clone();
        tokio::spawn(async move {
            let inner = &shared.0;
            let sender = match inner.connect().await {
                Ok(Some(sender)) => sender,
                Ok(None) => return tracing::debug!("No further connection to the API server: this one speaks HTTP/1.1"),
                Err(error) => return tracing::debug!(error = %chain(&*error), "No further connection to the API server"),
            };
            let line = inner.further.came(sender, &inner.places);
            // Who waited has its places.
            shared.open_another();
            while !line.is_gone() && !line.is_idle() {
                tokio::time::sleep(super::IDLE_FOR).await;
            }
            inner.further.end(&line, &inner.places);
        });
    }

    /// Nobody gets a place on this one any more.
    fn leave(&self, place: &Place) {
        if let Some(line) = &place.held.line {
            self.0.further.end(line, &self.0.places);
        }
        let mut opened = self.opened();
        if let (Some(opening), Way::First(way)) = (&*opened, &place.way)
            && opening.ptr_eq(way)
        {
            *opened = None;
        }
    }

    /// The first one is there, and takes requests.
    #[cfg(test)]
    pub(super) fn takes_requests(&self) -> bool {
        matches!(self.opened().as_ref().and_then(Opening::peek), Some(Ok(Some(sender))) if !sender.is_closed())
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
        let (sender, driver) = connection::begin(TokioIo::new(stream), AT_ONCE + URGENT_BESIDES).await?;
        // It ends when it breaks, when the server says so, or when nobody can send anything any more. Who waits for an answer is told.
        tokio::spawn(driver.map(|ended| {
            if let Err(error) = ended {
                tracing::debug!(error = %chain(&*error), "Connection to the API server ended");
            }
        }));
        Ok(Some(sender))
    }
}

// === impl Taken ===

impl Taken {
    fn new(of_one: OwnedSemaphorePermit, of_all: Option<OwnedSemaphorePermit>, line: Option<Arc<Line>>) -> Self {
        Self {
            of_one: Some(of_one),
            of_all,
            line,
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if self.line.as_ref().is_some_and(|line| line.is_gone()) {
            for permit in [self.of_one.take(), self.of_all.take()].into_iter().flatten() {
                permit.forget();
            }
        }
    }
}

// === impl Unconnected ===

impl Unconnected {
    fn because(error: &(dyn std::error::Error + 'static)) -> Self {
        Self {
            why: chain(error).into(),
            is_distrust: is_distrust(error),
        }
    }
}

// === impl Way ===

impl Way {
    /// None if the server chose another version.
    async fn sender(&self) -> Result<Option<Sender>, Unconnected> {
        match self {
            Self::First(opening) => opening.clone().await,
            Self::Further(sender) => Ok(Some(sender.clone())),
        }
    }
}

// === impl Place ===

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place").finish_non_exhaustive()
    }
}

impl Place {
    /// Sends a request.
    ///
    /// A server that ends connections now and then (`--goaway-chance`) says which requests it did not look at, and expects them again.
    pub(super) async fn send(mut self, request: Request<Content>) -> Result<Sent, BoxError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let Some(sender) = self.way.sender().await? else {
                return Ok(Sent::Older(request));
            };
            let error = match sender.send(request.clone()).await {
                Ok(answer) => return Ok(Sent::Answered(answer, self.held)),
                Err(error) => error,
            };
            match untouched(&error) {
                Some(Untouched::Ending) if tries < TRIES => {
                    self.shared.leave(&self);
                    if self.held.line.is_none() {
                        self.way = Way::First(self.shared.connection());
                        continue;
                    }
                    // What is over a connection has a place on it.
                    let shared = self.shared.clone();
                    drop(self);
                    match shared.place(false).await? {
                        Some(place) => self = place,
                        None => return Ok(Sent::Older(request)),
                    }
                }
                Some(Untouched::Refused) if tries < TRIES => {}
                _ => {
                    return Err(match error {
                        Unanswered::Kept(kept) => kept.into(),
                        error => error.into(),
                    });
                }
            }
        }
    }
}

/// It was not sent, or is one of those after the last that the server will answer (RFC 9113, 6.8), or one too many (8.7).
fn untouched(error: &Unanswered) -> Option<Untouched> {
    let cause = match error {
        Unanswered::Kept(_) | Unanswered::Full => return None,
        Unanswered::Ended => return Some(Untouched::Ending),
        Unanswered::Protocol(cause) => cause,
    };
    match cause.reason()? {
        h2::Reason::NO_ERROR if cause.is_remote() && cause.is_go_away() => Some(Untouched::Ending),
        h2::Reason::REFUSED_STREAM if cause.is_remote() && cause.is_reset() => Some(Untouched::Refused),
        _ => None,
    }
}
