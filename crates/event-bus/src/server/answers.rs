//! Answers that are not read: there are so many at a time, and no more.
//!
//! The answer to a question is made at once, and kept until its caller has taken it; one that takes nothing has it for as long as its
//! connection lasts. A history, or the state of a thousand shards, is some 1 MiB. Subscriptions and sessions are not meant: of those no
//! more is made than is taken.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Frame;
use tonic::Status;
use tonic::body::Body;
use tonic::server::NamedService;
use tower::Service;

use super::gate::Caller;
use super::metrics::{MESSAGES, Metrics};
use super::places::Places;
use super::status;

/// What of an answer is given to the connection at a time, which keeps it until it is read, and does not say when that is: as much as of
/// a subscription. The rest stays here, and with it the place.
const PIECE: usize = 16 * 1024;
/// Answers at a time: one is read within milliseconds, and people ask for them. The last quarter is for whoever has less than a quarter.
const MOST: usize = 64;

/// A bus whose callers are bounded in the answers that they leave unread.
#[derive(Clone, Debug)]
pub(super) struct Answers<S> {
    inner: S,
    metrics: Metrics,
    places: Arc<Mutex<Places>>,
}

/// A place of an answer; leaving it is dropping it.
struct Taken {
    places: Arc<Mutex<Places>>,
    party: String,
}

/// An answer in its place, which is left with its last piece.
struct Answer {
    body: Body,
    rest: Bytes,
    _taken: Taken,
}

fn lock(places: &Mutex<Places>) -> MutexGuard<'_, Places> {
    // Nothing that holds it leaves it half done.
    places.lock().unwrap_or_else(PoisonError::into_inner)
}

// === impl Answers ===

impl<S> Answers<S> {
    pub(super) fn new(inner: S, metrics: &Metrics) -> Self {
        Self {
            inner,
            metrics: metrics.clone(),
            places: Arc::new(Mutex::new(Places::new(MOST))),
        }
    }

    /// A place for the answer to this request; `None` if it needs none.
    fn place<T>(&self, request: &Request<T>) -> Result<Option<Taken>, Status> {
        let path = request.uri().path();
        if ["/Subscribe", "/Publish"].iter().any(|stream| path.ends_with(stream)) {
            return Ok(None);
        }
        let party = Caller::ungated(request.extensions()).party();
        lock(&self.places).take(&party).map_err(|full| {
            self.metrics.refused(MESSAGES);
            status::of_full("unread answers", &full, MESSAGES)
        })?;
        let places = Arc::clone(&self.places);
        Ok(Some(Taken { places, party }))
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
        let taken = match self.place(&request) {
            Ok(taken) => taken,
            Err(refused) => return Box::pin(async move { Ok(refused.into_http()) }),
        };
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await?;
            Ok(match taken {
                Some(taken) => answer.map(|body| Body::new(Answer::new(body, taken))),
                None => answer,
            })
        })
    }
}

// === impl Taken ===

impl Drop for Taken {
    fn drop(&mut self) {
        lock(&self.places).leave(&self.party);
    }
}

// === impl Answer ===

impl Answer {
    const fn new(body: Body, taken: Taken) -> Self {
        Self {
            body,
            rest: Bytes::new(),
            _taken: taken,
        }
    }
}

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.rest.is_empty() {
            let frame = match ready!(Pin::new(&mut self.body).poll_frame(context)) {
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

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }
}

#[cfg(test)]
mod tests {
    use bailiff_runtime::tls::{Peer, Standing};
    use futures::FutureExt as _;
    use tokio_util::sync::CancellationToken;
    use tonic::Code;
    use tower::service_fn;

    use super::*;

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

    #[test]
    fn whoever_reads_no_answers_gets_no_more_and_leaves_some_to_others() {
        let metrics = Metrics::default();
        let answer = |_: Request<Body>| async { Ok(Response::new(Body::new(Unread))) };
        let mut answers = Answers::new(service_fn(answer), &metrics);
        let mut ask = |rpc: &str, address: &str| {
            let answered = answers.call(mk_request(rpc, address)).now_or_never();
            let answer = answered.expect("at once").expect("it cannot fail");
            let refused = Status::from_header_map(answer.headers());
            refused.map_or(Ok(answer), Err)
        };
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
        unread.pop();
        ask("GetStatus", "10.0.0.1:1").expect("the place that came back");
    }
}
