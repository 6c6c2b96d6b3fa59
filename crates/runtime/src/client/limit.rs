//! Makes requests wait for a token: kube-controller-manager's client-side rate limit.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::time::Sleep;
use tower::{Layer, Service};

use super::TokenBucket;
use crate::Clock;

/// Adds the limit to a client's stack.
#[derive(Clone, Debug)]
pub struct RateLimit {
    bucket: Option<TokenBucket>,
    clock: Clock,
}

/// A client's stack with the limit.
///
/// The wait is in `poll_ready`, behind kube's buffer: requests pass in the order they were made, and one that was given up while it
/// waited costs no token.
#[derive(Debug)]
pub struct Limited<S> {
    inner: S,
    bucket: Option<TokenBucket>,
    clock: Clock,
    permit: Permit,
}

#[derive(Debug)]
enum Permit {
    Needed,
    Waiting(Pin<Box<Sleep>>),
    Held,
}

// === impl RateLimit ===

impl RateLimit {
    /// At most `burst` at once and `per_second` over time; negative: no limit.
    pub fn new(per_second: f64, burst: u32, clock: &Clock) -> Self {
        Self {
            bucket: TokenBucket::new(per_second, burst),
            clock: clock.clone(),
        }
    }
}

impl<S> Layer<S> for RateLimit {
    type Service = Limited<S>;

    fn layer(&self, inner: S) -> Limited<S> {
        Limited {
            inner,
            bucket: self.bucket.clone(),
            clock: self.clock.clone(),
            permit: Permit::Needed,
        }
    }
}

// === impl Limited ===

impl<S> Limited<S> {
    fn poll_permit(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(bucket) = &mut self.bucket else {
            return Poll::Ready(());
        };
        loop {
            match &mut self.permit {
                Permit::Held => return Poll::Ready(()),
                Permit::Waiting(sleep) => {
                    std::task::ready!(sleep.as_mut().poll(context));
                    self.permit = Permit::Needed;
                }
                Permit::Needed => {
                    self.permit = match bucket.try_take(self.clock.now().mono) {
                        Ok(()) => Permit::Held,
                        Err(at) => Permit::Waiting(Box::pin(tokio::time::sleep_until(self.clock.instant_of(at)))),
                    };
                }
            }
        }
    }
}

impl<S: Service<R>, R> Service<R> for Limited<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        std::task::ready!(self.poll_permit(context));
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: R) -> S::Future {
        self.permit = Permit::Needed;
        self.inner.call(request)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::Duration;

    use tower::{ServiceExt as _, service_fn};

    use super::*;

    async fn mk_requests(per_second: f64, burst: u32, count: u32) -> Duration {
        let clock = Clock::virtual_from(bailiff_model::Wall::UNIX_EPOCH);
        let echo = service_fn(|request: u32| std::future::ready(Ok::<_, Infallible>(request)));
        let mut limited = RateLimit::new(per_second, burst, &clock).layer(echo);
        let start = clock.now().mono;
        for request in 0..count {
            assert_eq!(limited.ready().await.expect("infallible").call(request).await, Ok(request));
        }
        clock.now().mono.saturating_since(start)
    }

    #[tokio::test(start_paused = true)]
    async fn requests_beyond_the_burst_wait_for_their_token() {
        assert_eq!(mk_requests(20.0, 30, 30).await, Duration::ZERO);
        assert_eq!(mk_requests(20.0, 30, 50).await, Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_negative_rate_is_no_limit() {
        assert_eq!(mk_requests(-1.0, 30, 10_000).await, Duration::ZERO);
    }
}
