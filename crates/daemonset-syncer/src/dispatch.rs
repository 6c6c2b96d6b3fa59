//! Runs requests, as many at a time and in the order that [`Lanes`] says.
//!
//! Which one goes next is decided when there is a token of the client's rate limit for it, not before: so one that is urgent never
//! waits behind others that wait for nothing but their token.

use std::collections::BTreeSet;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use bailiff_daemonset_core::{Lanes, RequestId, Ticket, Urgency};
use bailiff_runtime::client::Limiter;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};

type Running<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Requests, running and waiting. They must not wait for the rate limit themselves.
pub(crate) struct Dispatch<T> {
    running: FuturesUnordered<Running<(Option<Ticket>, T)>>,
    waiting: Lanes<(RequestId, Running<T>)>,
    limiter: Limiter,
    /// Waits for a token. It is kept between calls, and with it the place in the line.
    token: Option<Running<()>>,
}

impl<T> fmt::Debug for Dispatch<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dispatch")
            .field("running", &self.running.len())
            .field("waiting", &self.waiting.waiting())
            .finish_non_exhaustive()
    }
}

impl<T: Send + 'static> Dispatch<T> {
    /// An empty dispatch with so many slots.
    pub(crate) fn new(most: usize, limiter: Limiter) -> Self {
        Self {
            running: FuturesUnordered::new(),
            waiting: Lanes::new(most),
            limiter,
            token: None,
        }
    }

    /// Adds a request for the DaemonSet of this uid. It makes progress while [`Dispatch::next`] is waited for.
    pub(crate) fn push(
        &mut self,
        urgency: Urgency,
        owner: &Arc<str>,
        id: RequestId,
        request: impl Future<Output = T> + Send + 'static,
    ) {
        self.waiting.push(urgency, owner, (id, Box::pin(request)));
    }

    /// Runs what waits of these at once: it was called off, and takes neither slot nor token.
    pub(crate) fn release(&mut self, ids: &BTreeSet<RequestId>) {
        for (_, request) in self.waiting.take_out(|(id, _)| ids.contains(id)) {
            self.running.push(request.map(|answer| (None, answer)).boxed());
        }
    }

    /// The next answer. Cancel-safe. Waits for ever while there is no request.
    pub(crate) async fn next(&mut self) -> T {
        loop {
            let is_waiting = self.waiting.has_next();
            if !is_waiting {
                // Who does not need a token keeps nobody else in the line from it.
                self.token = None;
            }
            tokio::select! {
                biased;
                Some((ticket, answer)) = self.running.next() => {
                    if let Some(ticket) = ticket {
                        self.waiting.done(&ticket);
                    }
                    return answer;
                }
                () = take(&mut self.token, &self.limiter), if is_waiting => {
                    if let Some(turn) = self.waiting.pop() {
                        let (ticket, (_, request)) = (turn.ticket, turn.request);
                        self.running.push(request.map(|answer| (Some(ticket), answer)).boxed());
                    }
                }
                else => std::future::pending().await,
            }
        }
    }

    /// How many wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.waiting()
    }

    /// How many run.
    pub(crate) fn running(&self) -> usize {
        self.running.len()
    }

    /// Drops what waits and finishes what runs: nothing is left half known to whoever takes over (DS-214).
    pub(crate) async fn drain(&mut self) {
        self.waiting.clear();
        self.token = None;
        while self.running.next().await.is_some() {}
    }
}

/// Takes a token. Cancel-safe: the place in the line is kept.
async fn take(token: &mut Option<Running<()>>, limiter: &Limiter) {
    let waits = token.get_or_insert_with(|| {
        let limiter = limiter.clone();
        Box::pin(async move { limiter.take().await })
    });
    waits.await;
    *token = None;
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bailiff_model::Wall;
    use bailiff_runtime::Clock;

    use super::*;

    fn mk(per_second: f64) -> Dispatch<u64> {
        let clock = Clock::virtual_from(Wall::UNIX_EPOCH);
        Dispatch::new(1, Limiter::new(per_second, 1, &clock))
    }

    fn push(dispatch: &mut Dispatch<u64>, urgency: Urgency, owner: &str, number: u64) {
        dispatch.push(urgency, &Arc::from(owner), RequestId(number), async move {
            tokio::time::sleep(Duration::from_secs(number)).await;
            number
        });
    }

    async fn drive(dispatch: &mut Dispatch<u64>) -> Vec<u64> {
        let mut answers = Vec::new();
        while dispatch.waiting() + dispatch.running() > 0 {
            answers.push(dispatch.next().await);
        }
        answers
    }

    /// Lanes: there is a slot for what a node lacks, and another for the rest.
    #[tokio::test(start_paused = true)]
    async fn what_waits_runs_in_the_order_of_the_lanes() {
        let mut dispatch = mk(-1.0);
        push(&mut dispatch, Urgency::Routine, "a", 1);
        push(&mut dispatch, Urgency::Missing, "a", 2);
        push(&mut dispatch, Urgency::Missing, "b", 3);
        assert_eq!(drive(&mut dispatch).await, [1, 2, 3]);
    }

    /// Lanes: what is urgent does not wait behind the tokens of others.
    #[tokio::test(start_paused = true)]
    async fn the_next_token_is_for_the_most_urgent() {
        let mut dispatch = mk(0.01);
        for number in [1, 2] {
            push(&mut dispatch, Urgency::Routine, "a", number);
        }
        assert_eq!(dispatch.next().await, 1);
        // The next token is waited for, and given up again and again.
        for _ in 0..3 {
            let waited = tokio::time::timeout(Duration::from_secs(20), dispatch.next()).await;
            assert!(waited.is_err());
        }
        push(&mut dispatch, Urgency::Missing, "b", 3);
        assert_eq!(drive(&mut dispatch).await, [3, 2]);
    }

    /// Pause: what was called off ends at once.
    #[tokio::test(start_paused = true)]
    async fn what_is_called_off_waits_for_no_token() {
        let mut dispatch = mk(0.01);
        for number in [1, 2, 3] {
            push(&mut dispatch, Urgency::Routine, "a", number);
        }
        assert_eq!(dispatch.next().await, 1);
        dispatch.release(&BTreeSet::from([RequestId(3), RequestId(7)]));
        let soon = tokio::time::timeout(Duration::from_secs(4), dispatch.next()).await;
        assert_eq!((soon, dispatch.waiting()), (Ok(3), 1));
    }

    #[tokio::test(start_paused = true)]
    async fn draining_drops_what_waits() {
        let mut dispatch = mk(-1.0);
        for number in [1, 2, 3] {
            push(&mut dispatch, Urgency::Routine, "a", number);
        }
        dispatch.next().await;
        dispatch.drain().await;
        assert_eq!((dispatch.waiting(), dispatch.running()), (0, 0));
    }
}
