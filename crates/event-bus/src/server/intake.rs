//! What callers are in the middle of saying: bounds on what is kept of messages.
//!
//! A message is decoded, and its caller asked for its rights, once all of it is there. Until then it is kept, for each stream of each
//! connection, and there are many of both. So [`Intake`] stands before the generated service and looks where messages begin, for there
//! it is said how long they are. Until a call has said what it is about, little is kept of it; and of all together no more than there is
//! room for, beyond what stages of ours say at a time. Whoever finds no room is refused and does not wait: what it sends meanwhile would
//! fill its connection, and hold up what others wait for that have room.
//!
//! Room is taken for the longest message of a call, until it has said all. A question has then been decoded. A session has its room until
//! it ends, for so long whoever decodes it keeps the memory of its longest message; in which its records are until they are answered,
//! while the next are on their way.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;
use tonic::Status;
use tonic::body::Body;
use tonic::server::NamedService;
use tower::Service;

use super::gate::Caller;
use super::metrics::{INVALID, MESSAGES, SILENT};
use super::{MESSAGE_MAX, Server, status};
use crate::wire;

/// What is kept of the first message of any call: one that opens a session has some 200 bytes, a subscription to a few routes less than
/// that. It has no other bound: a connection that has all of its streams in the middle of theirs costs 2 MiB, an address 256 MiB.
const OPENING: usize = 2 * 1024;
/// Longest message of a call that says all in one: a subscription to a thousand routes of 253 bytes, twice over.
const QUESTION_MAX: usize = 512 * 1024;
/// What is kept of a later message: a batch of ours, the last record of which may be as long as any, so ours need no room. Sessions are
/// bounded: all of them cost 96 MiB.
const BATCH: usize = 96 * 1024;
/// Bytes of all that are longer: sixteen questions, which anybody may ask, and apart from them the longest batches of eight who have a
/// session.
const QUESTIONS_ROOM: usize = 16 * QUESTION_MAX;
const SESSIONS_ROOM: usize = 8 * MESSAGE_MAX;
/// How long a question may take to be asked. A session is ended when nothing whole is heard of it.
const ASKED_WITHIN: Duration = Duration::from_secs(10);
/// Bytes before each message: whether it is compressed, and how long it is.
const HEAD: usize = 5;

/// What kind of call it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    /// All is said in one message.
    Question,
    /// The first message says what it is about.
    Session,
}

/// What may be kept of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bounds {
    /// So much of anybody's.
    free: usize,
    /// So much where there is room; longer ones are refused.
    most: usize,
}

/// Where messages begin and end, of the bytes that went by.
#[derive(Debug, Default)]
struct Messages {
    /// So many have begun.
    begun: u64,
    /// What came of the head of the next.
    head: [u8; HEAD],
    head_len: usize,
    /// How long the last one is, and how much of it is still to come.
    len: usize,
    missing: usize,
}

/// A bus whose callers are bounded in what they may have begun to say.
#[derive(Clone, Debug)]
pub(super) struct Intake<S> {
    inner: S,
    server: Server,
    questions: Arc<Semaphore>,
    sessions: Arc<Semaphore>,
}

/// What one caller says.
struct Saying {
    call: Call,
    body: Body,
    messages: Messages,
    /// The room of all calls of its kind, and what it has of it. It only grows.
    room: Arc<Semaphore>,
    taken: Option<OwnedSemaphorePermit>,
    late: Option<Pin<Box<Sleep>>>,
    caller: Caller,
    server: Server,
}

// === impl Call ===

impl Call {
    fn of(path: &str) -> Self {
        if path.ends_with("/Publish") {
            Self::Session
        } else {
            Self::Question
        }
    }

    /// Bytes of all calls of this kind.
    const fn room(self) -> usize {
        match self {
            Self::Question => QUESTIONS_ROOM,
            Self::Session => SESSIONS_ROOM,
        }
    }

    /// The bounds of its message of this number, from 1.
    const fn bounds(self, number: u64) -> Bounds {
        let (free, most) = match self {
            Self::Question => (OPENING, QUESTION_MAX),
            Self::Session if number <= 1 => (OPENING, OPENING),
            Self::Session => (BATCH, MESSAGE_MAX),
        };
        Bounds { free, most }
    }

    fn allow(self, number: u64, len: usize) -> Result<(), wire::Error> {
        let Bounds { most, .. } = self.bounds(number);
        if len <= most {
            return Ok(());
        }
        let found = format_args!("{len} bytes");
        Err(wire::Error::new("message", found, format!("at most {most} bytes")))
    }
}

// === impl Messages ===

impl Messages {
    /// Takes what came. Each message that begins in it, by its number and length, has to be allowed.
    fn take<E>(&mut self, mut bytes: &[u8], allow: impl Fn(u64, usize) -> Result<(), E>) -> Result<(), E> {
        while !bytes.is_empty() {
            let count = if self.missing > 0 {
                let count = self.missing.min(bytes.len());
                self.missing -= count;
                count
            } else {
                let count = (HEAD - self.head_len).min(bytes.len());
                self.head[self.head_len..][..count].copy_from_slice(&bytes[..count]);
                self.head_len += count;
                count
            };
            bytes = &bytes[count..];
            if self.head_len == HEAD {
                let [_, len @ ..] = self.head;
                self.len = usize::try_from(u32::from_be_bytes(len)).unwrap_or(usize::MAX);
                (self.head_len, self.missing) = (0, self.len);
                self.begun += 1;
                allow(self.begun, self.len)?;
            }
        }
        Ok(())
    }
}

// === impl Intake ===

impl<S> Intake<S> {
    pub(super) fn new(inner: S, server: &Server) -> Self {
        Self {
            inner,
            server: server.clone(),
            questions: Arc::new(Semaphore::new(QUESTIONS_ROOM)),
            sessions: Arc::new(Semaphore::new(SESSIONS_ROOM)),
        }
    }

    fn listen(&self, caller: Caller, call: Call, body: Body) -> Saying {
        // Whoever opens a session has a deadline there, which is seen also while it is answered.
        let late = (call == Call::Question).then(|| Box::pin(tokio::time::sleep(ASKED_WITHIN)));
        let room = match call {
            Call::Question => &self.questions,
            Call::Session => &self.sessions,
        };
        Saying {
            call,
            body,
            messages: Messages::default(),
            room: Arc::clone(room),
            taken: None,
            late,
            caller,
            server: self.server.clone(),
        }
    }
}

impl<S: NamedService> NamedService for Intake<S> {
    const NAME: &'static str = S::NAME;
}

impl<S: Service<http::Request<Body>>> Service<http::Request<Body>> for Intake<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> S::Future {
        let call = Call::of(request.uri().path());
        let caller = Caller::ungated(request.extensions());
        let request = request.map(|body| Body::new(self.listen(caller, call, body)));
        self.inner.call(request)
    }
}

// === impl Saying ===

impl Saying {
    /// Takes what came, unless that begins something that is too long, or for which there is no room.
    fn take(&mut self, bytes: &[u8]) -> Result<(), Status> {
        let (call, before) = (self.call, self.messages.begun);
        let taken = self.messages.take(bytes, |number, len| call.allow(number, len));
        taken.map_err(|error| self.refuse(INVALID, status::of_wire(&error)))?;
        let Messages { begun, len, missing, .. } = self.messages;
        // Whatever began before the last one came with this, which is short.
        if begun > before && missing > 0 && len > call.bounds(begun).free {
            self.make_room(len)?;
        }
        Ok(())
    }

    /// Has room for a message of this length, besides which there are none as long.
    fn make_room(&mut self, len: usize) -> Result<(), Status> {
        let held = self.taken.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let more = u32::try_from(len.saturating_sub(held)).unwrap_or(u32::MAX);
        let more = Arc::clone(&self.room).try_acquire_many_owned(more).map_err(|_| {
            let (free, most) = (self.call.bounds(self.messages.begun).free, self.call.room());
            let message = format!(
                "a message of {len} bytes finds no room: of all calls those above {free} may take {most}, a session's until it ends"
            );
            self.refuse(MESSAGES, Status::resource_exhausted(message))
        })?;
        match &mut self.taken {
            Some(taken) => taken.merge(more),
            None => self.taken = Some(more),
        }
        Ok(())
    }

    /// The refusal, counted and said. Of a session its own stream says it, which hears it next.
    fn refuse(&self, kind: &'static str, refused: Status) -> Status {
        self.server.inner.metrics.refused(kind);
        let refused = status::with_kind(refused, kind);
        if self.call == Call::Question {
            self.server.say(&self.caller, &refused);
        }
        refused
    }
}

impl http_body::Body for Saying {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if let Some(late) = &mut self.late
            && late.as_mut().poll(context).is_ready()
        {
            let message = format!("the request was not whole within {} s", ASKED_WITHIN.as_secs());
            return Poll::Ready(Some(Err(self.refuse(SILENT, Status::deadline_exceeded(message)))));
        }
        let frame = match ready!(Pin::new(&mut self.body).poll_frame(context)) {
            Some(Ok(frame)) => frame,
            ended => return Poll::Ready(ended),
        };
        let taken = frame.data_ref().map_or(Ok(()), |bytes| self.take(bytes));
        Poll::Ready(Some(taken.map(|()| frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests;
