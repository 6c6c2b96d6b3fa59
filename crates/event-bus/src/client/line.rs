//! A line to a bus of this process that can be cut, as the network between two machines can: for tests and worlds.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::Status;
use tonic::body::Body;

/// A line. Its clones are the same one.
#[derive(Clone, Debug)]
pub struct Line {
    /// Cancelled when the line is cut; another one once it is mended.
    whole: Arc<Mutex<CancellationToken>>,
}

/// An answer that ends with the line.
struct Answer {
    body: Body,
    cut: Pin<Box<WaitForCancellationFutureOwned>>,
}

// === impl Line ===

impl Default for Line {
    fn default() -> Self {
        Self {
            whole: Arc::new(Mutex::new(CancellationToken::new())),
        }
    }
}

impl Line {
    /// Streams end, and calls fail from now on.
    pub fn cut(&self) {
        self.token().cancel();
    }

    /// Calls get through again.
    pub fn mend(&self) {
        let mut whole = self.whole.lock().unwrap_or_else(PoisonError::into_inner);
        if whole.is_cancelled() {
            *whole = CancellationToken::new();
        }
    }

    /// Whether calls get through.
    pub(super) fn is_cut(&self) -> bool {
        self.token().is_cancelled()
    }

    /// The answer as it comes over the line.
    pub(super) fn carry(&self, body: Body) -> Body {
        let cut = Box::pin(self.token().cancelled_owned());
        Body::new(Answer { body, cut })
    }

    fn token(&self) -> CancellationToken {
        self.whole.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

pub(super) fn lost() -> Status {
    Status::unavailable("the line to the bus is cut")
}

// === impl Answer ===

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.cut.as_mut().poll(context).is_ready() {
            return Poll::Ready(Some(Err(lost())));
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
