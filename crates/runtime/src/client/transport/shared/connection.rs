//! A connection of HTTP/2, and who drives it.
//!
//! Requests are handed to the driver, which takes all that are there in its own turn once what was written before has gone, asks of each
//! whether it may still go, lets the protocol lay out its frames, and writes all of them at once, in the same turn: a wave is a few records
//! of TLS and a few system calls. hyper's own client, which this stands in for, costs each request two tasks, and writes a body of some
//! hundred bytes by itself.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures::task::AtomicWaker;
use h2::{Ping, PingPong, client};
use http::header::CONTENT_LENGTH;
use http::{Request, Response};
use http_body::{Body, Frame};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tower::BoxError;

use super::super::Content;
use super::super::content::Kept;
use crate::Timer;

/// Answers that may come before they are read, of one request and of all: as hyper has it.
const STREAM_WINDOW: u32 = 2 << 20;
const CONNECTION_WINDOW: u32 = 5 << 20;
/// The longest head of an answer.
const MAX_HEAD: u32 = 16 << 10;

/// What is written at once: a record of TLS has no more.
const RECORD: usize = 16 << 10;

/// How long it is silent while an answer is waited for until it is asked whether anybody is there, and how long that may take: one that is
/// dead has to be noticed within the time of a single request (5 s), so that the next goes over another one.
const PING_AFTER: Duration = Duration::from_secs(1);
const PONG_WITHIN: Duration = Duration::from_secs(3);

/// By which requests are handed to a connection; cloning it gives the same one.
#[derive(Clone, Debug)]
pub(super) struct Sender(mpsc::Sender<Box<Ask>>);

/// A request on its way to the driver.
#[derive(Debug)]
struct Ask {
    request: Request<Content>,
    given: oneshot::Sender<Result<Given, Unanswered>>,
}

/// A request that was handed to the protocol.
#[derive(Debug)]
struct Given {
    answer: client::ResponseFuture,
    under_way: UnderWay,
}

/// The body of an answer.
#[derive(Debug)]
pub(crate) struct Receiving {
    stream: h2::RecvStream,
    _under_way: UnderWay,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unanswered {
    /// It might not be sent any more.
    #[error(transparent)]
    Kept(#[from] Kept),
    /// Nothing of it was sent.
    #[error("the connection ended before it took the request")]
    Ended,
    /// More wait for it than may be under way. Nothing of it was sent.
    #[error("too many requests wait for the connection")]
    Full,
    /// What the protocol says.
    #[error(transparent)]
    Protocol(#[from] h2::Error),
}

/// Makes a connection what it is: whoever drops it ends it.
pub(super) struct Driver<T> {
    connection: client::Connection<Wire<T>, Bytes>,
    /// None once it takes no more of them.
    requests: Option<client::SendRequest<Bytes>>,
    asks: mpsc::Receiver<Box<Ask>>,
    count: Arc<Count>,
    line: Arc<Mutex<Line<T>>>,
    /// The server takes no more at once than are under way.
    is_full: bool,
    pulse: Pulse,
}

/// Requests that have no end yet.
#[derive(Debug, Default)]
struct Count {
    under_way: AtomicUsize,
    /// Who has as many as the server takes.
    waits: AtomicWaker,
}

/// Counts a request until it is dropped.
#[derive(Debug)]
struct UnderWay(Arc<Count>);

/// What the protocol reads and writes; what it writes stays on the line until the driver sends it, or there is much.
#[derive(Debug)]
struct Wire<T>(Arc<Mutex<Line<T>>>);

#[derive(Debug)]
struct Line<T> {
    stream: T,
    unsent: Vec<u8>,
    sent: usize,
    /// When something came the last time.
    heard: Instant,
    /// Why nothing comes and goes any more, for who reads or writes next.
    broken: Option<io::Error>,
}

/// Whether the other side lives.
#[derive(Debug)]
struct Pulse {
    pings: PingPong,
    /// Since when something is waited for.
    since: Instant,
    asked: Option<Instant>,
    timer: Timer,
}

/// Begins to speak HTTP/2 on a stream; `at_once` requests may wait for the driver at most.
///
/// # Errors
/// When the stream breaks.
pub(super) async fn begin<T>(stream: T, at_once: usize) -> Result<(Sender, Driver<T>), h2::Error>
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    let line = Arc::new(Mutex::new(Line {
        stream,
        unsent: Vec::new(),
        sent: 0,
        heard: Instant::now(),
        broken: None,
    }));
    let (requests, mut connection) = client::Builder::new()
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_header_list_size(MAX_HEAD)
        .initial_max_send_streams(at_once)
        .enable_push(false)
        .handshake(Wire(Arc::clone(&line)))
        .await?;
    let Some(pings) = connection.ping_pong() else {
        return Err(h2::Reason::INTERNAL_ERROR.into());
    };
    let (sender, asks) = mpsc::channel(at_once);
    let driver = Driver {
        connection,
        requests: Some(requests),
        asks,
        count: Arc::default(),
        line,
        is_full: false,
        pulse: Pulse {
            pings,
            since: Instant::now(),
            asked: None,
            timer: Timer::default(),
        },
    };
    Ok((Sender(sender), driver))
}

// === impl Sender ===

impl Sender {
    /// It takes no requests any more.
    pub(super) fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    /// Sends a request; answers when the head of its answer is here.
    ///
    /// # Cancellation
    /// If it is dropped before the driver took the request, that is not sent.
    pub(super) async fn send(&self, request: Request<Content>) -> Result<Response<Receiving>, Unanswered> {
        let (given, taken) = oneshot::channel();
        let ask = Box::new(Ask { request, given });
        self.0.try_send(ask).map_err(|error| match error {
            TrySendError::Full(_) => Unanswered::Full,
            TrySendError::Closed(_) => Unanswered::Ended,
        })?;
        let Given { answer, under_way } = taken.await.map_err(|_| Unanswered::Ended)??;
        Ok(answer.await?.map(|stream| Receiving {
            stream,
            _under_way: under_way,
        }))
    }
}

// === impl Driver ===

impl<T: AsyncRead + AsyncWrite + Unpin> Driver<T> {
    /// Hands on what may go, as much of it as the server takes at once. As long as what was written before has not gone nothing would
    /// go with it, so nothing is asked.
    fn take(&mut self, cx: &mut Context<'_>) {
        if locked(&self.line).poll_send(cx).is_pending() {
            return;
        }
        while let Some(requests) = &mut self.requests {
            match requests.poll_ready(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => return self.close(),
                Poll::Pending => return,
            }
            self.is_full = !self.count.has_room(requests.current_max_send_streams(), cx);
            if self.is_full {
                return;
            }
            match self.asks.poll_recv(cx) {
                Poll::Ready(Some(ask)) if ask.given.is_closed() => {}
                Poll::Ready(Some(ask)) => {
                    let Ask { request, given } = *ask;
                    if !self.count.is_any() {
                        self.pulse.since = Instant::now();
                    }
                    // Who does not wait for it any more calls it off by that.
                    let _ = given.send(hand_over(requests, request, &self.count));
                }
                // Nobody can ask any more: it ends when the last answer is here.
                Poll::Ready(None) => self.requests = None,
                Poll::Pending => return,
            }
        }
    }

    /// Closes if the server said that it ends the connection, and looks again if it said that it takes more.
    fn notice(&mut self, cx: &mut Context<'_>) {
        let Some(requests) = &mut self.requests else {
            return;
        };
        if matches!(requests.poll_ready(cx), Poll::Ready(Err(_))) {
            self.close();
        } else if self.is_full && self.count.has_room(requests.current_max_send_streams(), cx) {
            cx.waker().wake_by_ref();
        }
    }

    /// Takes no more requests. Those that wait are told.
    fn close(&mut self) {
        self.requests = None;
        self.asks.close();
        while self.asks.try_recv().is_ok() {}
    }
}

fn hand_over(
    requests: &mut client::SendRequest<Bytes>,
    request: Request<Content>,
    count: &Arc<Count>,
) -> Result<Given, Unanswered> {
    let (mut head, content) = request.into_parts();
    if !content.may_go() {
        return Err(Kept.into());
    }
    let bytes = content.into_bytes();
    if !bytes.is_empty() {
        head.headers.entry(CONTENT_LENGTH).or_insert_with(|| bytes.len().into());
    }
    let (answer, mut stream) = requests.send_request(Request::from_parts(head, ()), bytes.is_empty())?;
    if !bytes.is_empty() {
        stream.send_data(bytes, true)?;
    }
    Ok(Given {
        answer,
        under_way: UnderWay::new(count),
    })
}

impl<T: AsyncRead + AsyncWrite + Unpin> Future for Driver<T> {
    type Output = Result<(), BoxError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        this.take(cx);
        let mut ended = Pin::new(&mut this.connection).poll(cx);
        this.notice(cx);
        let (flushed, heard) = {
            let mut line = locked(&this.line);
            (line.poll_send(cx), line.heard)
        };
        let broken = match flushed {
            Poll::Ready(Err(error)) => Some(error),
            _ => this.pulse.poll(this.count.is_any(), heard, cx).err(),
        };
        if let Some(error) = broken
            && ended.is_pending()
        {
            // Everybody who waits for an answer is told why.
            let reason = error.to_string();
            locked(&this.line).broken = Some(error);
            ended = Pin::new(&mut this.connection).poll(cx);
            if ended.is_pending() {
                return Poll::Ready(Err(reason.into()));
            }
        }
        ended.map_err(BoxError::from)
    }
}

// === impl Count ===

impl Count {
    /// True if there are less than so many; if not, whoever asks is woken when one ends.
    fn has_room(&self, most: usize, cx: &Context<'_>) -> bool {
        if self.under_way.load(Ordering::Acquire) < most {
            return true;
        }
        self.waits.register(cx.waker());
        self.under_way.load(Ordering::Acquire) < most
    }

    fn is_any(&self) -> bool {
        self.under_way.load(Ordering::Acquire) > 0
    }
}

impl UnderWay {
    fn new(count: &Arc<Count>) -> Self {
        count.under_way.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(count))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::AcqRel);
        self.0.waits.wake();
    }
}

// === impl Pulse ===

impl Pulse {
    /// Asks whether somebody is there after a silence in which something `is_awaited`.
    ///
    /// # Errors
    /// When nobody is.
    fn poll(&mut self, is_awaited: bool, heard: Instant, cx: &mut Context<'_>) -> io::Result<()> {
        if self.asked.is_some() && self.pings.poll_pong(cx).is_ready() {
            self.asked = None;
        }
        while is_awaited || self.asked.is_some() {
            let end = match self.asked {
                None => heard.max(self.since) + PING_AFTER,
                Some(asked) => asked.max(heard) + PONG_WITHIN,
            };
            if self.timer.poll_until(end, cx).is_pending() {
                break;
            }
            if self.asked.is_some() {
                let silence = format!("nothing came for {PONG_WITHIN:?} after it was asked whether anybody is there");
                return Err(io::Error::new(io::ErrorKind::TimedOut, silence));
            }
            self.pings.send_ping(Ping::opaque()).map_err(io::Error::other)?;
            self.asked = Some(Instant::now());
        }
        Ok(())
    }
}

// === impl Line ===

impl<T: AsyncWrite + Unpin> Line<T> {
    /// Writes what is unsent, all of it.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.unsent.is_empty() {
            return Poll::Ready(Ok(()));
        }
        while self.sent < self.unsent.len() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(cx, &self.unsent[self.sent..]))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.sent += written;
        }
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        // It takes room only while there is something.
        (self.unsent, self.sent) = (Vec::new(), 0);
        Poll::Ready(Ok(()))
    }

    /// Whether something may be added to what is unsent: if that is much, it is written first.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(error) = self.broken.take() {
            return Poll::Ready(Err(error));
        }
        if self.unsent.len() < RECORD {
            return Poll::Ready(Ok(()));
        }
        self.poll_send(cx)
    }
}

fn locked<T>(line: &Mutex<Line<T>>) -> MutexGuard<'_, Line<T>> {
    line.lock().unwrap_or_else(PoisonError::into_inner)
}

// === impl Wire ===

impl<T: AsyncRead + Unpin> AsyncRead for Wire<T> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut line = locked(&self.0);
        if let Some(error) = line.broken.take() {
            return Poll::Ready(Err(error));
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut line.stream).poll_read(cx, buffer))?;
        if buffer.filled().len() > before {
            line.heard = Instant::now();
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Wire<T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut line = locked(&self.0);
        ready!(line.poll_room(cx))?;
        line.unsent.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_write_vectored(self: Pin<&mut Self>, cx: &mut Context<'_>, parts: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let mut line = locked(&self.0);
        ready!(line.poll_room(cx))?;
        let before = line.unsent.len();
        for part in parts {
            line.unsent.extend_from_slice(part);
        }
        Poll::Ready(Ok(line.unsent.len() - before))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// The driver sends it.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut line = locked(&self.0);
        if let Some(error) = line.broken.take() {
            return Poll::Ready(Err(error));
        }
        ready!(line.poll_send(cx))?;
        Pin::new(&mut line.stream).poll_shutdown(cx)
    }
}

// === impl Receiving ===

impl Body for Receiving {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Poll::Ready(match ready!(self.stream.poll_data(cx)) {
            Some(Ok(bytes)) => {
                // There is room for as much again. If the connection broke meanwhile, that is said next.
                let _ = self.stream.flow_control().release_capacity(bytes.len());
                Some(Ok(Frame::data(bytes)))
            }
            // A server may end it so once it has said all (RFC 9113, 8.1).
            Some(Err(error)) if error.is_reset() && error.reason() == Some(h2::Reason::NO_ERROR) => None,
            Some(Err(error)) => Some(Err(error.into())),
            None => None,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.stream.is_end_stream()
    }
}

#[cfg(test)]
mod tests;
