//! Connections that are read in gulps while they stream.
//!
//! A watch of Leases brings a packet of some hundred bytes every millisecond or two. To be woken for each of them costs a sleeping process
//! many times what the packet itself does, and whoever wants Leases decides about seconds. So a connection on which more and more comes
//! that nobody asked for anew rests for [`GULP`] whenever all was read, and is not registered with the kernel until a rest brought
//! nothing. One that is written to (every connection that answers single requests) never rests.
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
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::coop;
use tokio::time::{Instant, Sleep};
use tower::{BoxError, Service};

use crate::Timer;

/// How often a busy stream is read: 50 times a second.
const GULP: Duration = Duration::from_millis(20);

/// What is read at once from a connection that rests; TLS asks for no more.
const MOUTHFUL: usize = 4096;

/// How often all is read, without a write in between, before a connection counts as a stream. The answer to a single request is there
/// sooner, a page of a list too.
const STREAMS_AFTER: u32 = 16;

/// How long a connection is given.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// To bring something, since something was brought or written.
    pub(super) read: Duration,
    /// To take what is written.
    pub(super) write: Duration,
}

/// Connects as [`HttpConnector`] does.
#[derive(Clone, Debug)]
pub(super) struct Connector {
    connector: HttpConnector,
    patience: Patience,
}

impl Connector {
    pub(super) fn new(patience: Patience) -> Self {
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        Self { connector, patience }
    }
}

impl Service<Uri> for Connector {
    type Response = Paced;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Paced, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.connector.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let patience = self.patience;
        let connected = self.connector.call(uri).map_ok(move |io| Paced::new(io, patience));
        connected.map_err(Into::into).boxed()
    }
}

/// A connection.
#[derive(Debug)]
pub(super) struct Paced {
    socket: Socket,
    patience: Patience,
    /// How often all was read since something was written.
    drains: u32,
    /// Something was read since all was read.
    has_news: bool,
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
    fn new(io: TokioIo<TcpStream>, patience: Patience) -> Self {
        Self {
            socket: Socket::Watched(io),
            patience,
            drains: 0,
            has_news: false,
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
                    buffer.put_slice(&mouthful[..read]);
                    return Poll::Ready(Ok(true));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Poll::Ready(Ok(false)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// All was read: if that was something, on a connection that streams, it rests. Whoever reads is woken at the end of the rest.
    fn rest_if_busy(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        if !std::mem::take(&mut self.has_news) {
            return Ok(false);
        }
        let now = Instant::now();
        self.heard = now;
        self.drains = self.drains.saturating_add(1);
        let last = self.drained.replace(now);
        let is_busy = last.is_some_and(|last| now.saturating_duration_since(last) < GULP * 2);
        if self.drains < STREAMS_AFTER || !is_busy || self.full.is_some() {
            return Ok(false);
        }
        self.socket = match std::mem::replace(&mut self.socket, Socket::Broken) {
            Socket::Watched(io) => Socket::Resting(io.into_inner().into_std()?, Box::new([0; MOUTHFUL])),
            socket => socket,
        };
        self.rest.as_mut().reset(now + GULP);
        if self.rest.as_mut().poll(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
        Ok(true)
    }

    /// Notes what became of a write, and ends one that has waited too long.
    fn wrote<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        let now = Instant::now();
        self.drains = 0;
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
mod tests {
    use std::future::poll_fn;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::{Wake, Waker};

    use hyper::rt::ReadBuf;
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;

    const PATIENCE: Patience = Patience {
        read: Duration::from_secs(330),
        write: Duration::from_secs(30),
    };

    async fn connection() -> (Paced, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let uri = format!("http://{}", listener.local_addr().expect("an address"));
        let mut connector = Connector::new(PATIENCE);
        let connecting = connector.call(uri.parse().expect("a URI"));
        let (paced, accepted) = tokio::join!(connecting, listener.accept());
        (paced.expect("connected"), accepted.expect("accepted").0)
    }

    /// Reads once; nothing if there is nothing.
    async fn read(paced: &mut Paced) -> Option<io::Result<Vec<u8>>> {
        let mut room = [0_u8; 2 * MOUTHFUL];
        let mut buffer = ReadBuf::new(&mut room);
        let polled = poll_fn(|cx| Poll::Ready(Pin::new(&mut *paced).poll_read(cx, buffer.unfilled()))).await;
        match polled {
            Poll::Ready(read) => Some(read.map(|()| buffer.filled().to_vec())),
            Poll::Pending => None,
        }
    }

    /// Waits until there is something, or the end.
    async fn read_some(paced: &mut Paced) -> io::Result<Vec<u8>> {
        let mut room = [0_u8; 2 * MOUTHFUL];
        let mut buffer = ReadBuf::new(&mut room);
        poll_fn(|cx| Pin::new(&mut *paced).poll_read(cx, buffer.unfilled())).await?;
        Ok(buffer.filled().to_vec())
    }

    /// Sends this, and reads until nothing is left, which is all of it.
    async fn bring(server: &mut TcpStream, paced: &mut Paced, bytes: &[u8]) {
        server.write_all(bytes).await.expect("written");
        let mut read_so_far = Vec::new();
        while read_so_far.len() < bytes.len() {
            read_so_far.extend(read_some(paced).await.expect("it is open"));
        }
        assert_eq!(read_so_far, bytes);
        assert!(read(paced).await.is_none());
    }

    async fn write(paced: &mut Paced, bytes: &[u8]) {
        poll_fn(|cx| Pin::new(&mut *paced).poll_write(cx, bytes))
            .await
            .expect("written");
    }

    fn rests(paced: &Paced) -> bool {
        matches!(paced.socket, Socket::Resting(..))
    }

    /// A connection that rests.
    async fn resting() -> (Paced, TcpStream) {
        let (mut paced, mut server) = connection().await;
        for _ in 0..STREAMS_AFTER * 2 {
            bring(&mut server, &mut paced, b"event").await;
        }
        assert!(rests(&paced));
        (paced, server)
    }

    /// Time is the test's, so rests take none.
    #[tokio::test(start_paused = true)]
    async fn a_busy_stream_rests_and_loses_nothing() {
        let (mut paced, mut server) = connection().await;
        let mut rested = 0;
        for turn in 1..=100_usize {
            let size = if turn % 10 == 0 { 3 * MOUTHFUL + turn } else { turn };
            let bytes: Vec<u8> = (0..size).map(|n| (n + turn) as u8).collect();
            bring(&mut server, &mut paced, &bytes).await;
            rested += u32::from(rests(&paced));
        }
        assert!(rested >= 80, "{rested} of 100");
        drop(server);
        let end = read_some(&mut paced).await.expect("it was closed in good order");
        assert!(end.is_empty(), "the end of the stream is read as ever");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_written_to_or_quiet_does_not_rest() {
        let (mut paced, mut server) = connection().await;
        for _ in 0..100 {
            write(&mut paced, b"request").await;
            bring(&mut server, &mut paced, b"answer").await;
            assert!(!rests(&paced));
        }
        let (mut paced, mut server) = connection().await;
        for _ in 0..100 {
            tokio::time::advance(GULP * 3).await;
            bring(&mut server, &mut paced, b"event").await;
            assert!(!rests(&paced));
        }
    }

    /// What comes and what is sent begins the patience anew, whether the connection rests or not.
    #[tokio::test(start_paused = true)]
    async fn a_connection_that_brings_nothing_ends() {
        for (is_resting, is_written_to) in [(false, false), (false, true), (true, false), (true, true)] {
            let (mut paced, mut server) = if is_resting { resting().await } else { connection().await };
            tokio::time::advance(PATIENCE.read * 2 / 3).await;
            if is_written_to {
                write(&mut paced, b"request").await;
            } else {
                bring(&mut server, &mut paced, b"event").await;
            }
            let began = Instant::now();
            let ended = read_some(&mut paced).await.expect_err("nothing comes");
            assert_eq!(ended.kind(), io::ErrorKind::TimedOut);
            assert_eq!(began.elapsed(), PATIENCE.read, "{is_resting} {is_written_to}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_takes_nothing_ends() {
        let (mut paced, _nobody_reads) = connection().await;
        let mut full = None;
        let ended = loop {
            let written = poll_fn(|cx| Poll::Ready(Pin::new(&mut paced).poll_write(cx, &[0; 1 << 16]))).await;
            match written {
                Poll::Ready(Ok(_)) => full = None,
                Poll::Ready(Err(error)) => break error,
                Poll::Pending => {
                    let since = *full.get_or_insert_with(Instant::now);
                    assert!(since.elapsed() < PATIENCE.write);
                    tokio::time::advance(PATIENCE.write / 4).await;
                }
            }
        };
        assert_eq!(ended.kind(), io::ErrorKind::TimedOut);
        assert_eq!(full.map(|since| since.elapsed()), Some(PATIENCE.write));
    }

    /// Whether somebody was woken.
    #[derive(Default)]
    struct Woken(AtomicBool);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    /// Whoever reads sleeps until the end of the rest; a write is that end.
    #[tokio::test(start_paused = true)]
    async fn a_write_ends_a_rest() {
        let (mut paced, mut server) = resting().await;
        let reader = Arc::new(Woken::default());
        let mut room = [0_u8; 64];
        let mut buffer = ReadBuf::new(&mut room);
        let waker = Waker::from(Arc::clone(&reader));
        let polled = Pin::new(&mut paced).poll_read(&mut Context::from_waker(&waker), buffer.unfilled());
        assert!(polled.is_pending());
        write(&mut paced, b"more").await;
        tokio::time::sleep(GULP / 10).await;
        assert!(reader.0.load(Ordering::Relaxed), "the reader looks at what is awake");
        assert!(!rests(&paced));
        let mut heard = [0; 4];
        tokio::io::AsyncReadExt::read_exact(&mut server, &mut heard)
            .await
            .expect("heard");
        assert_eq!(&heard, b"more");
    }
}
