//! Connections that are read in gulps while they stream.
//!
//! A watch of Leases brings a packet of some hundred bytes every millisecond or two. To be woken for each of them costs a sleeping process
//! many times what the packet itself does, and whoever wants Leases decides about seconds. So a connection on which more and more comes
//! that nobody asked for anew rests for [`GULP`] whenever all was read, and is not registered with the kernel meanwhile. One that is
//! written to (every connection that answers single requests) never rests.

use std::io;
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

/// How often a busy stream is read: 50 times a second.
const GULP: Duration = Duration::from_millis(20);

/// How often all is read, without a write in between, before a connection counts as a stream. The answer to a single request is there
/// sooner, a page of a list too.
const STREAMS_AFTER: u32 = 16;

/// Connects as [`HttpConnector`] does.
#[derive(Clone, Debug)]
pub(super) struct Connector(HttpConnector);

impl Connector {
    pub(super) fn new() -> Self {
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        Self(connector)
    }
}

impl Service<Uri> for Connector {
    type Response = Paced;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Paced, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        self.0.call(uri).map_ok(Paced::new).map_err(Into::into).boxed()
    }
}

/// A connection.
#[derive(Debug)]
pub(super) struct Paced {
    socket: Socket,
    /// How often all was read since something was written.
    drains: u32,
    /// A write waits for the socket.
    is_full: bool,
    /// Something was read since all was read.
    has_news: bool,
    /// When all was read the last time.
    drained: Option<Instant>,
    rest: Pin<Box<Sleep>>,
}

/// The socket.
#[derive(Debug)]
enum Socket {
    /// Somebody is told when there is something to read.
    Watched(TokioIo<TcpStream>),
    /// Nobody is.
    Resting(std::net::TcpStream),
    /// It could not be put to rest or woken: the error was said.
    Broken,
}

impl Paced {
    fn new(io: TokioIo<TcpStream>) -> Self {
        Self {
            socket: Socket::Watched(io),
            drains: 0,
            is_full: false,
            has_news: false,
            drained: None,
            rest: Box::pin(tokio::time::sleep(Duration::ZERO)),
        }
    }

    /// The socket, awake. Whoever reads waits for the end of the rest, which this is.
    fn watched(&mut self) -> io::Result<Pin<&mut TokioIo<TcpStream>>> {
        self.socket = match std::mem::replace(&mut self.socket, Socket::Broken) {
            Socket::Resting(socket) => {
                if !self.rest.is_elapsed() {
                    self.rest.as_mut().reset(Instant::now());
                }
                Socket::Watched(TokioIo::new(TcpStream::from_std(socket)?))
            }
            socket => socket,
        };
        match &mut self.socket {
            Socket::Watched(io) => Ok(Pin::new(io)),
            Socket::Resting(_) | Socket::Broken => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// All was read: true if the connection rests. After a rest it takes a turn of the runtime to see that there is something.
    fn may_rest(&mut self) -> bool {
        if !std::mem::take(&mut self.has_news) {
            return false;
        }
        let now = Instant::now();
        let last = self.drained.replace(now);
        let is_busy = last.is_some_and(|last| now.saturating_duration_since(last) < GULP * 2);
        self.drains = self.drains.saturating_add(1);
        self.drains >= STREAMS_AFTER && is_busy && !self.is_full
    }

    fn begin_rest(&mut self) -> io::Result<()> {
        if let Socket::Watched(io) = std::mem::replace(&mut self.socket, Socket::Broken) {
            self.socket = Socket::Resting(io.into_inner().into_std()?);
        }
        self.rest.as_mut().reset(Instant::now() + GULP);
        Ok(())
    }

    /// Notes whether a write waits.
    fn wrote<T>(&mut self, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        self.drains = 0;
        self.is_full = written.is_pending();
        written
    }
}

impl Read for Paced {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        if matches!(self.socket, Socket::Resting(_)) {
            ready!(self.rest.as_mut().poll(cx));
        }
        let read = self.watched()?.poll_read(cx, buffer)?;
        if read.is_ready() {
            self.has_news = true;
            return Poll::Ready(Ok(()));
        }
        // Without a budget nothing is read, whether there is something or not.
        if coop::has_budget_remaining() && self.may_rest() {
            self.begin_rest()?;
            // Whoever reads is woken when it ends.
            if self.rest.as_mut().poll(cx).is_ready() {
                cx.waker().wake_by_ref();
            }
        }
        Poll::Pending
    }
}

impl Write for Paced {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = self.watched()?.poll_write(cx, bytes);
        self.wrote(written)
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let written = self.watched()?.poll_write_vectored(cx, bytes);
        self.wrote(written)
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
            Socket::Resting(_) | Socket::Broken => Connected::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use hyper::rt::ReadBuf;
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;

    async fn connection() -> (Paced, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let uri = format!("http://{}", listener.local_addr().expect("an address"));
        let mut connector = Connector::new();
        let connecting = connector.call(uri.parse().expect("a URI"));
        let (paced, accepted) = tokio::join!(connecting, listener.accept());
        (paced.expect("connected"), accepted.expect("accepted").0)
    }

    /// Reads once; nothing if there is nothing.
    async fn read(paced: &mut Paced) -> Option<usize> {
        let mut room = [0_u8; 64];
        let mut buffer = ReadBuf::new(&mut room);
        let polled = poll_fn(|cx| Poll::Ready(Pin::new(&mut *paced).poll_read(cx, buffer.unfilled()))).await;
        polled.is_ready().then(|| buffer.filled().len())
    }

    /// Waits until there is something, or the end, and says how much.
    async fn read_some(paced: &mut Paced) -> usize {
        let mut room = [0_u8; 64];
        let mut buffer = ReadBuf::new(&mut room);
        poll_fn(|cx| Pin::new(&mut *paced).poll_read(cx, buffer.unfilled()))
            .await
            .expect("it is open, or closed in good order");
        buffer.filled().len()
    }

    /// Reads until nothing is left, and says how much it was.
    async fn read_all(paced: &mut Paced, wanted: usize) -> usize {
        let mut total = 0;
        while total < wanted {
            total += read_some(paced).await;
        }
        assert_eq!(read(paced).await, None);
        total
    }

    fn rests(paced: &Paced) -> bool {
        matches!(paced.socket, Socket::Resting(_))
    }

    /// Time is the test's, so rests take none.
    #[tokio::test(start_paused = true)]
    async fn a_busy_stream_rests_and_loses_nothing() {
        let (mut paced, mut server) = connection().await;
        let mut rested = 0;
        for turn in 1..=100_u8 {
            server.write_all(&vec![turn; usize::from(turn)]).await.expect("written");
            assert_eq!(read_all(&mut paced, usize::from(turn)).await, usize::from(turn));
            rested += u32::from(rests(&paced));
        }
        assert!(rested >= 80, "{rested} of 100");
        drop(server);
        assert_eq!(read_some(&mut paced).await, 0, "the end of the stream is read as ever");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_written_to_or_quiet_does_not_rest() {
        let (mut paced, mut server) = connection().await;
        for _ in 0..100 {
            poll_fn(|cx| Pin::new(&mut paced).poll_write(cx, b"request"))
                .await
                .expect("written");
            server.write_all(b"answer").await.expect("written");
            assert_eq!(read_all(&mut paced, 6).await, 6);
            assert!(!rests(&paced));
        }
        let (mut paced, mut server) = connection().await;
        for _ in 0..100 {
            tokio::time::advance(GULP * 3).await;
            server.write_all(b"event").await.expect("written");
            assert_eq!(read_all(&mut paced, 5).await, 5);
            assert!(!rests(&paced));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_ends_a_rest() {
        let (mut paced, mut server) = connection().await;
        while !rests(&paced) {
            server.write_all(b"event").await.expect("written");
            read_all(&mut paced, 5).await;
        }
        poll_fn(|cx| Pin::new(&mut paced).poll_write(cx, b"more"))
            .await
            .expect("written");
        assert!(!rests(&paced));
        let mut heard = [0; 4];
        tokio::io::AsyncReadExt::read_exact(&mut server, &mut heard)
            .await
            .expect("heard");
        assert_eq!(&heard, b"more");
    }
}
