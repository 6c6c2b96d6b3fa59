//! Ends watches that nobody reads on a connection that is read.
//!
//! On an HTTP/2 connection the client says for each stream how much more it takes. Where it takes nothing, what the stream's body gave
//! waits, and neither more of it nor its end can be told: a watch would keep its place among the watches for as long as the client answers
//! pings. So what each body gave is counted until the client takes it, and a body of which nothing was taken for too long, although there
//! was something, is dropped; should the client read on after all, it finds that the stream has ended, and lists again. The connection and
//! its other streams go on.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Buf;
use http_body::{Body, Frame, SizeHint};
use tokio::time::Instant;

/// A body that may be taken away.
type Held<B> = Arc<Mutex<Given<B>>>;

/// The bodies of a connection.
#[derive(Debug)]
pub struct Unread<B> {
    bodies: Mutex<Bodies<B>>,
    limit: Duration,
}

#[derive(Debug)]
struct Bodies<B> {
    /// By number.
    open: BTreeMap<u64, Held<B>>,
    next: u64,
}

/// A body, and what it gave that the client has not taken.
#[derive(Debug)]
struct Given<B> {
    /// Nothing once it was given up.
    body: Option<B>,
    /// Bytes that wait.
    bytes: usize,
    /// When the client last took some, or nothing waited.
    since: Instant,
    /// Who waits for more.
    waker: Option<Waker>,
}

/// A body that is given up when it is not read.
#[derive(Debug)]
pub struct Watched<B> {
    number: u64,
    held: Held<B>,
    unread: Arc<Unread<B>>,
}

/// What a body gave, until the client has taken it.
#[derive(Debug)]
pub struct Piece<B: Body> {
    data: B::Data,
    held: Held<B>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

// === impl Unread ===

impl<B> Unread<B> {
    /// Gives up bodies after `limit`.
    pub fn new(limit: Duration) -> Arc<Self> {
        let bodies = Bodies {
            open: BTreeMap::new(),
            next: 0,
        };
        Arc::new(Self {
            bodies: Mutex::new(bodies),
            limit,
        })
    }

    /// Minds a body.
    pub fn watch(self: &Arc<Self>, body: B) -> Watched<B> {
        let held = Arc::new(Mutex::new(Given {
            body: Some(body),
            bytes: 0,
            since: Instant::now(),
            waker: None,
        }));
        let mut bodies = lock(&self.bodies);
        bodies.next += 1;
        let number = bodies.next;
        bodies.open.insert(number, Arc::clone(&held));
        Watched {
            number,
            held,
            unread: Arc::clone(self),
        }
    }

    /// Gives up what is not read, for as long as the connection lasts.
    pub async fn attend(&self) -> Infallible {
        loop {
            tokio::time::sleep_until(self.give_up(Instant::now())).await;
        }
    }

    /// Gives up what is not read, and says when to look again: nothing that is given later is due before.
    fn give_up(&self, now: Instant) -> Instant {
        let mut due = now + self.limit;
        let mut ended = Vec::new();
        for held in lock(&self.bodies).open.values() {
            let mut given = lock(held);
            if given.body.is_none() || given.bytes == 0 {
                continue;
            }
            let end = given.since + self.limit;
            if end <= now {
                ended.push((given.body.take(), given.waker.take()));
            } else {
                due = due.min(end);
            }
        }
        // A watch takes itself off the store when it is dropped.
        for (body, waker) in ended {
            drop(body);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
        due
    }
}

// === impl Given ===

impl<B> Given<B> {
    fn give(&mut self, bytes: usize) {
        if self.bytes == 0 {
            self.since = Instant::now();
        }
        self.bytes += bytes;
    }

    fn take(&mut self, bytes: usize) {
        self.since = Instant::now();
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

// === impl Watched ===

impl<B: Body + Unpin> Body for Watched<B> {
    type Data = Piece<B>;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Piece<B>>, B::Error>>> {
        let mut given = lock(&self.held);
        let Some(body) = given.body.as_mut() else {
            return Poll::Ready(None);
        };
        let polled = Pin::new(body).poll_frame(context);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => given.give(frame.data_ref().map_or(0, Buf::remaining)),
            Poll::Ready(_) => {}
            Poll::Pending => given.waker = Some(context.waker().clone()),
        }
        drop(given);
        let piece = |data| Piece {
            data,
            held: Arc::clone(&self.held),
        };
        polled.map_ok(|frame| frame.map_data(piece))
    }

    fn is_end_stream(&self) -> bool {
        lock(&self.held).body.as_ref().is_some_and(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        lock(&self.held).body.as_ref().map_or_else(SizeHint::default, Body::size_hint)
    }
}

impl<B> Drop for Watched<B> {
    fn drop(&mut self) {
        lock(&self.unread.bodies).open.remove(&self.number);
        // What was given may wait on, and nobody minds it any more: the body must not wait with it.
        let body = lock(&self.held).body.take();
        drop(body);
    }
}

// === impl Piece ===

impl<B: Body> Buf for Piece<B> {
    fn remaining(&self) -> usize {
        self.data.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.data.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.data.advance(count);
        lock(&self.held).take(count);
    }
}
