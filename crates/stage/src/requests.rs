//! Requests in flight, with a bound.
//!
//! A decision loop hands in futures and reads their answers in its own turn. At most so many run at a time; the rest waits in order.
//! What waits is bounded by what a core asks for: one request per object at a time.

use std::collections::VecDeque;
use std::pin::Pin;

use futures::StreamExt;
use futures::stream::FuturesUnordered;

type Request<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A bounded set of running requests.
pub struct Requests<T> {
    running: FuturesUnordered<Request<T>>,
    /// Before those that wait.
    urgent: VecDeque<Request<T>>,
    waiting: VecDeque<Request<T>>,
    most: usize,
}

impl<T> std::fmt::Debug for Requests<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Requests")
            .field("running", &self.running.len())
            .field("waiting", &(self.urgent.len() + self.waiting.len()))
            .field("most", &self.most)
            .finish()
    }
}

impl<T> Requests<T> {
    /// A set of which at most `most` (at least one) run at a time.
    pub fn new(most: usize) -> Self {
        Self {
            running: FuturesUnordered::new(),
            urgent: VecDeque::new(),
            waiting: VecDeque::new(),
            most: most.max(1),
        }
    }

    /// Adds a request. It begins when there is room, and makes progress while [`Requests::next`] is waited for.
    pub fn push(&mut self, request: impl Future<Output = T> + Send + 'static) {
        if self.running.len() < self.most {
            self.running.push(Box::pin(request));
        } else {
            self.waiting.push_back(Box::pin(request));
        }
    }

    /// Adds a request that begins before those that were added by [`Requests::push`] and have not begun.
    pub fn push_urgent(&mut self, request: impl Future<Output = T> + Send + 'static) {
        if self.running.len() < self.most {
            self.running.push(Box::pin(request));
        } else {
            self.urgent.push_back(Box::pin(request));
        }
    }

    /// The next answer. Cancel-safe. Waits for ever while there is no request.
    pub async fn next(&mut self) -> T {
        match self.running.next().await {
            Some(answer) => {
                if let Some(request) = self.urgent.pop_front().or_else(|| self.waiting.pop_front()) {
                    self.running.push(request);
                }
                answer
            }
            None => std::future::pending().await,
        }
    }

    /// Drops what waits and lets what runs end, so that no write is cut off half-way; its answers are for the books. Each request has
    /// a deadline of its own.
    pub async fn drain(&mut self) -> Vec<T> {
        self.urgent.clear();
        self.waiting.clear();
        std::mem::take(&mut self.running).collect().await
    }

    /// How many run or wait.
    pub fn len(&self) -> usize {
        self.running.len() + self.urgent.len() + self.waiting.len()
    }

    /// True if none runs or waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn never_more_than_the_bound_run_and_all_are_answered() {
        let running = Arc::new(AtomicUsize::new(0));
        let highest = Arc::new(AtomicUsize::new(0));
        let mut requests = Requests::new(3);
        for n in 0..10_u64 {
            let (running, highest) = (running.clone(), highest.clone());
            requests.push(async move {
                let now = running.fetch_add(1, Ordering::Relaxed) + 1;
                highest.fetch_max(now, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_secs(1 + n % 3)).await;
                running.fetch_sub(1, Ordering::Relaxed);
                n
            });
        }
        let mut answers = Vec::new();
        while !requests.is_empty() {
            answers.push(requests.next().await);
        }
        answers.sort_unstable();
        assert_eq!(answers, (0..10).collect::<Vec<_>>());
        assert_eq!(highest.load(Ordering::Relaxed), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_urgent_begins_before_what_waits() {
        let mut requests = Requests::new(1);
        for n in [1, 2, 3] {
            requests.push(std::future::ready(n));
        }
        requests.push_urgent(std::future::ready(4));
        requests.push_urgent(std::future::ready(5));
        let mut order = Vec::new();
        while !requests.is_empty() {
            order.push(requests.next().await);
        }
        assert_eq!(order, [1, 4, 5, 2, 3]);
    }

    #[tokio::test(start_paused = true)]
    async fn draining_begins_nothing() {
        let mut requests = Requests::new(2);
        for n in 0..5_u64 {
            requests.push(async move {
                tokio::time::sleep(Duration::from_secs(n)).await;
                n
            });
        }
        assert_eq!(requests.drain().await, [0, 1]);
        assert!(requests.is_empty());
    }
}
