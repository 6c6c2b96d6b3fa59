//! Connections that are read in gulps while they stream.
//!
//! A watch of Leases brings a packet of some hundred bytes every millisecond or two. To be woken for each of them costs a sleeping process
//! many times what the packet itself does, and whoever wants Leases decides about seconds. So a connection on which more and more comes
//! that nobody asked for anew rests for a while ([`LOOK`]) whenever all was read, and is not registered with the kernel until nothing
//! came for some rests. Nothing rests for a while after it was written to, so that answers to single requests come at once.
//!
//! A connection that brings nothing for too long, or takes nothing of what is written, is dead.

use std::future::Future;
use std::io::{self, Read as _};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, TryFutureExt};
use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::dns::GaiResolver;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::coop;
use tokio::time::{Instant, Sleep};
use tower::{BoxError, Service};

use crate::{Clock, Timer};

/// What is read at once from a connection that rests; TLS asks for no more.
const MOUTHFUL: usize = 4096;

/// How long nothing rests after a write. The answer to a single request is there sooner, and mostly also what a watch begins with, the
/// state of the cluster, for which somebody waits: kube-apiserver streams some 20,000 pods a second.
const AWAKE_FOR: Duration = Duration::from_secs(2);

/// Who finds so much at one look is in the middle of such a state, and does not rest for as long either: no server should have to wait
/// for room. It is more than twice what 13,000 renewals of Leases a second bring between two looks.
const MUCH: usize = 4 << 20;

/// From one look to the next at a stream on which two things came within that time; what is rare is seen at once. At 5,000
/// nodes five processes at rest need three quarters of what they need with 128 ms, and at 32 ms the monitor alone needed twice as much as
/// with 128. What it costs: each step that follows from a change on a busy stream, a taint or a pod of a rollout, begins up to so much
/// later. A power of two (see [`Clock::end_of_turn`]).
pub const LOOK: Duration = Duration::from_millis(256);

/// A stream on which nothing came for so long is not busy any more: two looks, and half of one as none comes at its very time. One on
/// which something comes between most looks stays busy: to begin and end a rest costs more than a look that finds nothing.
const QUIET: Duration = Duration::from_millis(640);

/// How long connecting may take without TLS, all addresses of a server together, each of which has its share: so one of three that does not
/// answer is passed over after a packet was sent twice (1 s later, in Linux), and there is time left for TLS of the 5 s that whoever waits
/// for a connection has.
const TCP_WITHIN: Duration = Duration::from_secs(4);

/// How long a connection is given.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// To bring something, since something was brought or written.
    pub(super) read: Duration,
    /// To take what is written.
    pub(super) write: Duration,
}

/// How soon somebody wants to see what comes on a busy stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attention {
    /// Within a [`LOOK`].
    Usual,
    /// Within a quarter of that. A process with such streams is woken by them 16 times a second, where it is 4 times by others.
    Close,
}

/// When connections that rest are looked at.
#[derive(Clone, Debug)]
struct Looks {
    clock: Clock,
    every: Duration,
}

/// Connects as [`HttpConnector`] does.
#[derive(Clone, Debug)]
pub(super) struct Connector {
    connector: HttpConnector,
    looks: Option<Looks>,
    patience: Patience,
}

impl Connector {
    /// Connections that rest are looked at when turns of `looks` end, all at the same instants; without it nothing ever rests.
    pub(super) fn new(looks: Option<Clock>, patience: Patience) -> Self {
        Self {
            connector: tcp(GaiResolver::new()),
            looks: looks.map(|clock| Looks { clock, every: LOOK }),
            patience,
        }
    }

    /// The same, but nothing rests.
    pub(super) fn without_looks(self) -> Self {
        Self { looks: None, ..self }
    }

    /// The same for streams that are wanted so soon.
    pub(super) fn attentive(self, attention: Attention) -> Self {
        let every = match attention {
            Attention::Usual => LOOK,
            Attention::Close => LOOK / 4,
        };
        Self {
            looks: self.looks.map(|looks| Looks { every, ..looks }),
            ..self
        }
    }
}

/// How connections come about to the addresses that a name has.
fn tcp<R>(names: R) -> HttpConnector<R> {
    let mut connector = HttpConnector::new_with_resolver(names);
    connector.enforce_http(false);
    // What is written is whole: nothing is gained by waiting for more.
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(TCP_WITHIN));
    connector
}

impl Service<Uri> for Connector {
    type Response = Paced;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Paced, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.connector.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let (looks, patience) = (self.looks.clone(), self.patience);
        let connected = self.connector.call(uri).map_ok(move |io| Paced::new(io, looks, patience));
        connected.map_err(Into::into).boxed()
    }
}

/// A connection.
#[derive(Debug)]
pub(super) struct Paced {
    socket: Socket,
    looks: Option<Looks>,
    patience: Patience,
    /// When something was written, or much was found, the last time.
    stirred: Instant,
    /// Something was read since all was read.
    has_news: bool,
    /// Bytes that looks found since all was read.
    found: usize,
    /// When all was read the last time.
    drained: Option<Instant>,
    rest: Pin<Box<Sleep>>,
    /// When something was read or written the last time, as far as that was looked at.
    heard: Instant,
    silence: Timer,
    /// Since when a write waits for the socket.
    full: Option<Instant>,
    fullness: Timer,
}

/// The socket.
#[derive(Debug)]
enum Socket {
    /// Somebody is told when there is something to read.
    Watched(TokioIo<TcpStream>),
    /// Nobody is; whoever reads looks for himself, into this.
    Resting(std::net::TcpStream, Box<[u8; MOUTHFUL]>),
    /// It could not be put to rest or woken: the error was said.
    Broken,
}

impl Paced {
    fn new(io: TokioIo<TcpStream>, looks: Option<Looks>, patience: Patience) -> Self {
        Self {
            socket: Socket::Watched(io),
            looks,
            patience,
            stirred: Instant::now(),
            has_news: false,
            found: 0,
            drained: None,
            rest: Box::pin(tokio::time::sleep(Duration::ZERO)),
            heard: Instant::now(),
            silence: Timer::default(),
            full: None,
            fullness: Timer::default(),
        }
    }

    /// The socket, awake.
    fn watched(&mut self) -> io::Result<Pin<&mut TokioIo<TcpStream>>> {
        self.socket = match std::mem::replace(&mut self.socket, Socket::Broken) {
            Socket::Resting(socket, _) => {
                // Whoever reads waits for the end of the rest, which this is.
                if !self.rest.is_elapsed() {
                    self.rest.as_mut().reset(Instant::now());
                }
                Socket::Watched(TokioIo::new(TcpStream::from_std(socket)?))
            }
            socket => socket,
        };
        match &mut self.socket {
            Socket::Watched(io) => Ok(Pin::new(io)),
            Socket::Resting(..) | Socket::Broken => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Looks whether there is something once the rest is over; true if so, or if it is the end.
    fn look(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBufCursor<'_>) -> Poll<io::Result<bool>> {
        let Socket::Resting(socket, mouthful) = &mut self.socket else {
            return Poll::Ready(Ok(false));
        };
        ready!(self.rest.as_mut().poll(cx));
        let budget = ready!(coop::poll_proceed(cx));
        let room = buffer.remaining().min(MOUTHFUL);
        loop {
            match socket.read(&mut mouthful[..room]) {
                Ok(read) => {
                    budget.made_progress();
                    self.found += read;
                    buffer.put_slice(&mouthful[..read]);
                    return Poll::Ready(Ok(true));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Poll::Ready(Ok(false)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// All was read: on a connection that is busy whoever reads rests, and is woken at the end of the rest.
    fn rest_if_busy(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        let has_news = std::mem::take(&mut self.has_news);
        let is_resting = matches!(self.socket, Socket::Resting(..));
        if !has_news && !is_resting {
            return Ok(false);
        }
        let now = Instant::now();
        let quiet_for = self.drained.map(|last| now.saturating_duration_since(last));
        if has_news {
            (self.heard, self.drained) = (now, Some(now));
            if std::mem::take(&mut self.found) >= MUCH {
                self.stirred = now;
            }
        }
        let Some(looks) = &self.looks else { return Ok(false) };
        let is_busy = match (has_news, is_resting) {
            (true, true) => true,
            (true, false) => quiet_for.is_some_and(|quiet_for| quiet_for < LOOK),
            (false, _) => quiet_for.is_some_and(|quiet_for| quiet_for < QUIET),
        };
        let is_stirred = now.saturating_duration_since(self.stirred) < AWAKE_FOR;
        if is_stirred || !is_busy || self.full.is_some() {
            return Ok(false);
        }
        self.rest.as_mut().reset(looks.clock.end_of_turn(looks.every));
        self.socket = match std::mem::replace(&mut self.socket, Socket::Broken) {
            Socket::Watched(io) => Socket::Resting(io.into_inner().into_std()?, Box::new([0; MOUTHFUL])),
            socket => socket,
        };
        if self.rest.as_mut().poll(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
        Ok(true)
    }

    /// Notes what became of a write, and ends one that has waited too long.
    fn wrote<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        let now = Instant::now();
        self.stirred = now;
        if written.is_ready() {
            (self.full, self.heard) = (None, now);
            return written;
        }
        let end = *self.full.get_or_insert(now) + self.patience.write;
        self.fullness
            .poll_until(end, cx)
            .map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl Read for Paced {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, mut buffer: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        if ready!(self.look(cx, &mut buffer))? {
            self.has_news = true;
            return Poll::Ready(Ok(()));
        }
        if matches!(self.socket, Socket::Resting(..)) && self.rest_if_busy(cx)? {
            return Poll::Pending;
        }
        if self.watched()?.poll_read(cx, buffer)?.is_ready() {
            self.has_news = true;
            return Poll::Ready(Ok(()));
        }
        // Without a budget nothing is read, whether there is something or not.
        if !coop::has_budget_remaining() || self.rest_if_busy(cx)? {
            return Poll::Pending;
        }
        let end = self.heard + self.patience.read;
        self.silence.poll_until(end, cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl Write for Paced {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = self.watched()?.poll_write(cx, bytes);
        self.wrote(cx, written)
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let written = self.watched()?.poll_write_vectored(cx, bytes);
        self.wrote(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// What is written to a TCP socket is flushed.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.watched()?.poll_shutdown(cx)
    }
}

impl Connection for Paced {
    fn connected(&self) -> Connected {
        match &self.socket {
            Socket::Watched(io) => io.connected(),
            Socket::Resting(..) | Socket::Broken => Connected::new(),
        }
    }
}

#[cfg(test)]
mod tests;
