//! Whether anything is asked on a connection.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::sync::watch;

/// How many requests are under way; cloning gives the same count.
#[derive(Clone, Debug)]
pub(super) struct Activity {
    requests: watch::Sender<usize>,
}

/// A request under way, until its answer has been sent.
#[derive(Debug)]
pub(super) struct Request {
    requests: watch::Sender<usize>,
}

/// An answer and the request it is to.
struct Answer {
    body: Body,
    _request: Request,
}

// === impl Activity ===

impl Activity {
    pub(super) fn new() -> Self {
        Self {
            requests: watch::Sender::new(0),
        }
    }

    pub(super) fn begin(&self) -> Request {
        self.requests.send_modify(|requests| *requests += 1);
        Request {
            requests: self.requests.clone(),
        }
    }

    /// Resolves when there was no request for so long.
    pub(super) async fn idle(&self, patience: Duration) {
        let mut requests = self.requests.subscribe();
        loop {
            if requests.wait_for(|requests| *requests == 0).await.is_err() {
                return;
            }
            tokio::select! {
                biased;
                changed = requests.changed() => if changed.is_err() {
                    return;
                },
                () = tokio::time::sleep(patience) => return,
            }
        }
    }
}

// === impl Request ===

impl Request {
    /// The answer, with which the request ends.
    pub(super) fn carry(self, body: Body) -> Body {
        Body::new(Answer { body, _request: self })
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        self.requests.send_modify(|requests| *requests = requests.saturating_sub(1));
    }
}

// === impl Answer ===

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_idle_only_while_nothing_is_under_way() {
        let activity = Activity::new();
        let begun = tokio::time::Instant::now();
        let request = activity.begin();
        let body = request.carry(Body::empty());
        let patience = Duration::from_secs(60);
        let ended = async {
            tokio::time::sleep(Duration::from_secs(600)).await;
            drop(body);
        };
        tokio::join!(activity.idle(patience), ended);
        assert_eq!(begun.elapsed().as_secs(), 660);
    }
}
