//! Answers that are not read: there are so many at a time, and no more.
//!
//! The answer to a question is made at once, and kept until its caller has taken it, or has taken nothing of it for too long. A history, or
//! the state of a thousand shards, is some 1 MiB. Subscriptions and sessions are not meant: of those no more is made than is taken. Nor is
//! the reset of an epoch, which is a few bytes, and is for when something is wrong already.

use std::convert::Infallible;
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Frame;
use tokio::task::AbortHandle;
use tonic::Status;
use tonic::body::Body;
use tonic::server::NamedService;
use tower::Service;

use super::gate::Caller;
use super::metrics::{MESSAGES, UNREAD};
use super::places::{Full, Places};
use super::{Server, status};

/// What of an answer is given to the connection at a time, which keeps it until it is read, and does not say when that is: as much as of
/// a subscription. The rest stays here, and with it the place.
const PIECE: usize = 16 * 1024;
/// Answers at a time: one is read within milliseconds, and people ask for them. The last quarter is for whoever has less than a quarter.
const MOST: usize = 64;
/// How often it is looked whether a piece of an answer was taken since: as long as a subscriber has for a part of its set.
const TAKE_WITHIN: Duration = Duration::from_secs(60);

/// A bus whose callers are bounded in the answers that they leave unread.
#[derive(Clone, Debug)]
pub(super) struct Answers<S> {
    inner: S,
    server: Server,
    places: Arc<Mutex<Places>>,
}

/// What an answer in question needs: who asked, and where the places are.
struct Asked {
    server: Server,
    places: Arc<Mutex<Places>>,
    caller: Caller,
}

/// A place of an answer; leaving it is dropping it.
struct Taken {
    places: Arc<Mutex<Places>>,
    party: String,
}

/// An answer in its place, which is left with its last piece, or when nothing is taken of it.
struct Answer {
    left: Arc<Mutex<Left>>,
    giving_up: AbortHandle,
}

/// What is left of an answer. Shared by the connection, which takes, and a task, which gives up: whoever reads nothing asks for nothing.
struct Left {
    /// `None` once it was given up.
    kept: Option<Kept>,
    /// Since it was looked last.
    was_taken: bool,
}

struct Kept {
    body: Body,
    rest: Bytes,
    _taken: Taken,
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that holds it leaves it half done.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

// === impl Answers ===

impl<S> Answers<S> {
    pub(super) fn new(inner: S, server: &Server) -> Self {
        Self {
            inner,
            server: server.clone(),
            places: Arc::new(Mutex::new(Places::new(MOST))),
        }
    }

    /// Who asked this, if its answer needs a place.
    fn asked<T>(&self, request: &Request<T>) -> Option<Asked> {
        let path = request.uri().path();
        let needs_none = ["/Subscribe", "/Publish", "/ResetEpoch"]
            .iter()
            .any(|rpc| path.ends_with(rpc));
        (!needs_none).then(|| Asked {
            server: self.server.clone(),
            places: Arc::clone(&self.places),
            caller: Caller::ungated(request.extensions()),
        })
    }
}

impl<S: NamedService> NamedService for Answers<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<Request<Body>> for Answers<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Some(asked) = self.asked(&request) else {
            return Box::pin(self.inner.call(request));
        };
        // It is not made for nothing.
        if let Err(refused) = asked.check() {
            return Box::pin(ready(Ok(refused.into_http())));
        }
        let answer = self.inner.call(request);
        Box::pin(async move {
            // Until then there is nothing to read: it may not even be said what is asked.
            let answer = answer.await?;
            Ok(match asked.place() {
                Ok(taken) => answer.map(|body| Body::new(Answer::new(body, taken, asked))),
                Err(refused) => refused.into_http(),
            })
        })
    }
}

// === impl Asked ===

impl Asked {
    /// Refuses it if there is no place for an answer as it is.
    fn check(&self) -> Result<(), Status> {
        let has_place = lock(&self.places).check(&self.caller.party());
        has_place.map_err(|full| self.refuse_for_want_of_a_place(&full))
    }

    /// A place for the answer.
    fn place(&self) -> Result<Taken, Status> {
        let party = self.caller.party();
        let taken = lock(&self.places).take(&party);
        taken.map_err(|full| self.refuse_for_want_of_a_place(&full))?;
        let places = Arc::clone(&self.places);
        Ok(Taken { places, party })
    }

    fn refuse_for_want_of_a_place(&self, full: &Full) -> Status {
        self.refuse(MESSAGES, status::of_full("unread answers", full, MESSAGES))
    }

    /// The refusal, counted and said.
    fn refuse(&self, kind: &'static str, refused: Status) -> Status {
        self.server.inner.metrics.refused(kind);
        self.server.say(&self.caller, &refused);
        refused
    }

    /// Lets go of what is left once nothing is taken of it.
    async fn give_up(self, left: Weak<Mutex<Left>>) {
        loop {
            tokio::time::sleep(TAKE_WITHIN).await;
            let Some(left) = left.upgrade() else { return };
            let mut left = lock(&left);
            if std::mem::take(&mut left.was_taken) {
                continue;
            }
            let kept = left.kept.take();
            drop(left);
            drop(kept);
            self.refuse(UNREAD, unread());
            return;
        }
    }
}

/// The end of an answer that nobody reads.
fn unread() -> Status {
    let message = format!("nothing of the answer was taken for {TAKE_WITHIN:?}");
    status::with_kind(Status::unavailable(message), UNREAD)
}

// === impl Taken ===

impl Drop for Taken {
    fn drop(&mut self) {
        lock(&self.places).leave(&self.party);
    }
}

// === impl Answer ===

impl Answer {
    /// Must be called inside a tokio runtime.
    fn new(body: Body, taken: Taken, asked: Asked) -> Self {
        let kept = Kept {
            body,
            rest: Bytes::new(),
            _taken: taken,
        };
        let left = Arc::new(Mutex::new(Left {
            kept: Some(kept),
            was_taken: false,
        }));
        // Owned by the answer, with which it ends. Were it to panic, the place would be taken for as long as the connection lasts.
        let giving_up = tokio::spawn(asked.give_up(Arc::downgrade(&left))).abort_handle();
        Self { left, giving_up }
    }
}

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let mut left = lock(&self.left);
        left.was_taken = true;
        match &mut left.kept {
            Some(kept) => kept.poll_frame(context),
            None => Poll::Ready(Some(Err(unread()))),
        }
    }

    fn is_end_stream(&self) -> bool {
        let left = lock(&self.left);
        left.kept
            .as_ref()
            .is_some_and(|kept| kept.rest.is_empty() && kept.body.is_end_stream())
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.giving_up.abort();
    }
}

// === impl Kept ===

impl Kept {
    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.rest.is_empty() {
            let frame = match ready!(http_body::Body::poll_frame(Pin::new(&mut self.body), context)) {
                Some(Ok(frame)) => frame,
                ended => return Poll::Ready(ended),
            };
            match frame.into_data() {
                Ok(data) => self.rest = data,
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            }
        }
        let len = self.rest.len().min(PIECE);
        // What is only a part of the answer would keep all of it.
        let piece = Bytes::copy_from_slice(&self.rest.split_to(len));
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use bailiff_model::Wall;
    use bailiff_runtime::tls::{Peer, Standing};
    use bailiff_runtime::{Clock, Seed};
    use futures::FutureExt as _;
    use http_body::Body as _;
    use tokio_util::sync::CancellationToken;
    use tonic::Code;
    use tower::service_fn;

    use super::*;
    use crate::ServerOptions;

    /// An answer that is not all there yet.
    struct Unread;

    impl http_body::Body for Unread {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            Poll::Pending
        }
    }

    fn mk_request(rpc: &str, address: &str) -> Request<Body> {
        let mut request = Request::new(Body::empty());
        *request.uri_mut() = format!("/bailiff.v1.EventBus/{rpc}").parse().expect("a path");
        request.extensions_mut().insert(Peer {
            standing: Standing::Plain,
            address: Some(address.parse().expect("an address")),
            ending: CancellationToken::new(),
        });
        request
    }

    type Answering = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    /// A bus that answers so.
    fn mk_answers<F>(
        answer: impl Fn() -> F,
    ) -> Answers<impl Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future = F>>
    where
        F: Future<Output = Result<Response<Body>, Infallible>> + Send + 'static,
    {
        let (clock, seed) = (Clock::virtual_from(Wall::UNIX_EPOCH), Seed::new(1));
        let server = Server::idle(ServerOptions::default(), &clock, &seed);
        Answers::new(service_fn(move |_: Request<Body>| answer()), &server)
    }

    fn answer(answering: Answering) -> Result<Response<Body>, Status> {
        let answer = answering.now_or_never().expect("at once").expect("it cannot fail");
        let refused = Status::from_header_map(answer.headers());
        refused.map_or(Ok(answer), Err)
    }

    async fn unread_answer() -> Result<Response<Body>, Infallible> {
        Ok(Response::new(Body::new(Unread)))
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_reads_no_answers_gets_no_more_and_leaves_some_to_others() {
        let mut answers = mk_answers(unread_answer);
        let mut ask = |rpc: &str, address: &str| answer(answers.call(mk_request(rpc, address)));
        let mut unread: Vec<_> = (0..48).map(|_| ask("GetHistory", "10.0.0.1:1").expect("a place")).collect();
        let refused = ask("GetStatus", "10.0.0.1:2").expect_err("the rest is for others");
        assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
        assert_eq!(status::kind(&refused), Some(MESSAGES));
        assert!(
            refused
                .message()
                .starts_with("places of unread answers: the last 16 of 64 are for"),
            "{refused:?}"
        );
        ask("GetStatus", "10.0.0.2:1").expect("a place that was kept for it");
        for stream in ["Subscribe", "Publish"] {
            ask(stream, "10.0.0.1:1").expect("it has its place elsewhere");
        }
        ask("ResetEpoch", "10.0.0.1:1").expect("somebody may need it");
        unread.pop();
        ask("GetStatus", "10.0.0.1:1").expect("the place that came back");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_has_no_place_is_not_made() {
        let made = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&made);
        let mut answers = mk_answers(move || {
            count.fetch_add(1, Ordering::Relaxed);
            unread_answer()
        });
        let asked: Vec<_> = (0..MOST)
            .map(|_| answer(answers.call(mk_request("GetStatus", "10.0.0.1:1"))))
            .collect();
        assert_eq!(asked.iter().filter(|answered| answered.is_err()).count(), 16);
        assert_eq!(made.load(Ordering::Relaxed), 48);
    }

    /// Nothing else would end it before its connection, which lasts an hour.
    #[tokio::test(start_paused = true)]
    async fn an_answer_that_nobody_reads_is_given_up() {
        let mut answers = mk_answers(unread_answer);
        let mut ask = || answer(answers.call(mk_request("GetStatus", "10.0.0.1:1")));
        let mut unread: Vec<_> = (0..48).map(|_| ask().expect("a place").into_body()).collect();
        ask().expect_err("it has enough");
        tokio::time::sleep(TAKE_WITHIN / 2).await;
        let mut next =
            |index: usize| poll_fn(|context| Poll::Ready(Pin::new(&mut unread[index]).poll_frame(context))).now_or_never();
        assert!(matches!(next(0), Some(Poll::Pending)), "it reads, and nothing is there yet");
        tokio::time::sleep(TAKE_WITHIN).await;
        assert!(matches!(next(0), Some(Poll::Pending)), "it was taken of");
        let Some(Poll::Ready(Some(Err(ended)))) = next(1) else {
            panic!("it is still there");
        };
        assert_eq!(ended.code(), Code::Unavailable, "{ended:?}");
        assert_eq!(status::kind(&ended), Some(UNREAD));
        let places: Vec<_> = (0..47).map(|_| ask().expect("a place that came back")).collect();
        ask().expect_err("one is still read");
        drop(places);
    }

    /// Whoever does not say what it asks has nothing to read.
    #[tokio::test(start_paused = true)]
    async fn a_place_is_taken_when_there_is_an_answer() {
        let mut answers = mk_answers(std::future::pending);
        let asking: Vec<_> = (0..MOST)
            .map(|_| answers.call(mk_request("GetStatus", "10.0.0.1:1")))
            .collect();
        lock(&answers.places).take("10.0.0.1").expect("none is taken");
        drop(asking);
    }
}
