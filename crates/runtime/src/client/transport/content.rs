//! What a request says, and whether it may still be said.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tower::BoxError;

/// The body of a request.
#[derive(Clone, Default)]
pub struct Content {
    pub(super) bytes: Bytes,
    condition: Option<Condition>,
}

/// On which a request is sent.
type Condition = Arc<dyn Fn() -> bool + Send + Sync>;

/// It was not sent, as it might not be any more when its turn came.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("it may not be sent any more")]
pub(super) struct Kept;

// === impl Content ===

impl Content {
    /// The same, sent only if `may_go` says so when the connection takes it.
    #[must_use]
    pub fn only_while(self, may_go: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        let condition: Condition = Arc::new(may_go);
        Self {
            condition: Some(condition),
            ..self
        }
    }

    pub(super) fn may_go(&self) -> bool {
        self.condition.as_ref().is_none_or(|may_go| may_go())
    }

    pub(super) fn into_bytes(self) -> Bytes {
        self.bytes
    }
}

impl<B: Into<Bytes>> From<B> for Content {
    fn from(bytes: B) -> Self {
        Self {
            bytes: bytes.into(),
            condition: None,
        }
    }
}

impl Body for Content {
    type Data = Bytes;
    type Error = BoxError;

    /// A connection of HTTP/1.1 asks for it before it writes anything of the request, its head included, and breaks off if there is none.
    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.bytes.is_empty() {
            return Poll::Ready(None);
        }
        if !self.may_go() {
            return Poll::Ready(Some(Err(Kept.into())));
        }
        Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.bytes)))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.len() as u64)
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Content").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}
