//! Ends watches that nobody reads on a connection that is read.
//!
//! On an HTTP/2 connection the client says for each stream how much more it takes. Where it takes nothing, the stream's body is not asked
//! for more, so a watch cannot even find that its time is over: it would keep its place among the watches for as long as the client
//! answers pings. So what was last taken from each body is remembered, and a body that was not asked again for too long is dropped; should
//! the client read on after all, it finds that the stream has ended, and lists again. The connection and its other streams go on.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use http_body::{Body, Frame, SizeHint};
use tokio::time::Instant;

/// A body that may be taken away while nobody asks for it.
type Held<B> = Arc<Mutex<Option<B>>>;

/// The bodies of a connection that gave something and were not asked for more yet, by number.
#[derive(Debug)]
pub struct Unread<B> {
    waiting: Mutex<Waiting<B>>,
    limit: Duration,
}

#[derive(Debug)]
struct Waiting<B> {
    bodies: BTreeMap<u64, (Instant, Held<B>)>,
    next: u64,
}

/// A body that is given up when it is not read.
#[derive(Debug)]
pub struct Watched<B> {
    number: u64,
    held: Held<B>,
    unread: Arc<Unread<B>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

// === impl Unread ===

impl<B> Unread<B> {
    /// Gives up bodies after `limit`.
    pub fn new(limit: Duration) -> Arc<Self> {
        let waiting = Waiting {
            bodies: BTreeMap::new(),
            next: 0,
        };
        Arc::new(Self {
            waiting: Mutex::new(waiting),
            limit,
        })
    }

    /// Minds a body.
    pub fn watch(self: &Arc<Self>, body: B) -> Watched<B> {
        let mut waiting = lock(&self.waiting);
        waiting.next += 1;
        Watched {
            number: waiting.next,
            held: Arc::new(Mutex::new(Some(body))),
            unread: Arc::clone(self),
        }
    }

    /// Gives up what is not read, for as long as the connection lasts.
    pub async fn attend(&self) -> Infallible {
        loop {
            tokio::time::sleep_until(self.give_up(Instant::now())).await;
        }
    }

    /// Gives up what is not read, and says when to look again: nothing that is asked for later is due before.
    fn give_up(&self, now: Instant) -> Instant {
        let mut due = now + self.limit;
        let mut ended = Vec::new();
        lock(&self.waiting).bodies.retain(|_, (since, held)| {
            let end = *since + self.limit;
            if end <= now {
                ended.push(Arc::clone(held));
                return false;
            }
            due = due.min(end);
            true
        });
        for held in ended {
            // A watch takes itself off the store when it is dropped.
            drop(lock(&held).take());
        }
        due
    }
}

// === impl Watched ===

impl<B: Body + Unpin> Body for Watched<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        lock(&self.unread.waiting).bodies.remove(&self.number);
        let mut held = lock(&self.held);
        let Some(body) = held.as_mut() else {
            return Poll::Ready(None);
        };
        let polled = Pin::new(&mut *body).poll_frame(context);
        let is_more = matches!(polled, Poll::Ready(Some(Ok(_)))) && !body.is_end_stream();
        drop(held);
        if is_more {
            let entry = (Instant::now(), Arc::clone(&self.held));
            lock(&self.unread.waiting).bodies.insert(self.number, entry);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        lock(&self.held).as_ref().is_some_and(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        lock(&self.held).as_ref().map_or_else(SizeHint::default, Body::size_hint)
    }
}

impl<B> Drop for Watched<B> {
    fn drop(&mut self) {
        lock(&self.unread.waiting).bodies.remove(&self.number);
    }
}
