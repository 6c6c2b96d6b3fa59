//! Which waiting request goes next: by urgency, and within one urgency the DaemonSets take turns, so that a busy or broken one
//! never delays another.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use bailiff_daemonset_core::Urgency;
use futures::StreamExt;
use futures::stream::FuturesUnordered;

type Running<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Requests, running and waiting.
///
/// # Guarantees
/// At most `most` run. What waits is bounded by the core: 500 pod
/// requests per DaemonSet and a few more.
pub(crate) struct Dispatch<T> {
    running: FuturesUnordered<Running<T>>,
    waiting: BTreeMap<Urgency, Turns<T>>,
    most: usize,
}

/// Waiting requests of one urgency, by the DaemonSet they are for.
struct Turns<T> {
    order: VecDeque<Arc<str>>,
    queues: BTreeMap<Arc<str>, VecDeque<Running<T>>>,
}

impl<T> fmt::Debug for Dispatch<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dispatch")
            .field("running", &self.running.len())
            .field("most", &self.most)
            .finish_non_exhaustive()
    }
}

impl<T> Default for Turns<T> {
    fn default() -> Self {
        Self {
            order: VecDeque::new(),
            queues: BTreeMap::new(),
        }
    }
}

impl<T> Turns<T> {
    fn push(&mut self, owner: &Arc<str>, request: Running<T>) {
        let queue = self.queues.entry(owner.clone()).or_default();
        if queue.is_empty() {
            self.order.push_back(owner.clone());
        }
        queue.push_back(request);
    }

    fn pop(&mut self) -> Option<Running<T>> {
        let owner = self.order.pop_front()?;
        let queue = self.queues.get_mut(&owner)?;
        let request = queue.pop_front();
        if queue.is_empty() {
            self.queues.remove(&owner);
        } else {
            self.order.push_back(owner);
        }
        request
    }

    fn len(&self) -> usize {
        self.queues.values().map(VecDeque::len).sum()
    }
}

impl<T> Dispatch<T> {
    /// An empty dispatch of which at most `most` (at least one) run at a time.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            running: FuturesUnordered::new(),
            waiting: BTreeMap::new(),
            most: most.max(1),
        }
    }

    /// Adds a request for the DaemonSet of this uid. It makes progress while [`Dispatch::next`] is waited for.
    pub(crate) fn push(&mut self, urgency: Urgency, owner: &Arc<str>, request: impl Future<Output = T> + Send + 'static) {
        self.waiting.entry(urgency).or_default().push(owner, Box::pin(request));
    }

    /// The next answer. Cancel-safe. Waits for ever while there is no request.
    pub(crate) async fn next(&mut self) -> T {
        self.fill();
        match self.running.next().await {
            Some(answer) => answer,
            None => std::future::pending().await,
        }
    }

    fn fill(&mut self) {
        while self.running.len() < self.most {
            let Some(request) = self.waiting.values_mut().find_map(Turns::pop) else {
                return;
            };
            self.running.push(request);
        }
    }

    /// How many wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.values().map(Turns::len).sum()
    }

    /// How many run.
    pub(crate) fn running(&self) -> usize {
        self.running.len()
    }

    /// Drops what waits and finishes what runs: nothing is left half known to whoever takes over (DS-214).
    pub(crate) async fn drain(&mut self) {
        self.waiting.clear();
        while self.running.next().await.is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn order(most: usize, requests: &[(Urgency, &str, u32)]) -> Vec<u32> {
        let mut dispatch = Dispatch::new(most);
        for (urgency, owner, number) in requests {
            let number = *number;
            dispatch.push(*urgency, &Arc::from(*owner), async move { number });
        }
        let mut answers = Vec::new();
        while dispatch.waiting() + dispatch.running() > 0 {
            answers.push(dispatch.next().await);
        }
        answers
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_critical_goes_first_and_owners_take_turns() {
        use Urgency::{Critical, Missing, Routine};
        let requests = [
            (Routine, "a", 1),
            (Routine, "a", 2),
            (Routine, "a", 3),
            (Missing, "a", 4),
            (Missing, "a", 5),
            (Missing, "b", 6),
            (Critical, "c", 7),
            (Routine, "b", 8),
        ];
        assert_eq!(order(1, &requests).await, [7, 4, 6, 5, 1, 8, 2, 3]);
    }

    #[tokio::test(start_paused = true)]
    async fn draining_drops_what_waits() {
        let mut dispatch = Dispatch::new(1);
        for _ in 0..3 {
            dispatch.push(Urgency::Routine, &Arc::from("a"), async {});
        }
        dispatch.next().await;
        dispatch.drain().await;
        assert_eq!((dispatch.waiting(), dispatch.running()), (0, 0));
    }
}
