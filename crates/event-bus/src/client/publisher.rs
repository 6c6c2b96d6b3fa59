//! A producer's session on one shard of one topic: the handle. The session itself is [`super::session`].

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bailiff_model::{Mono, Topic};
use bailiff_runtime::{Clock, Seed};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::backoff::Backoff;
use super::outbox::Outbox;
use super::{Bus, session};
use crate::record::Draft;

/// What to publish to, as whom.
#[derive(Clone, Debug)]
pub struct PublishOptions {
    /// Topic.
    pub topic: Topic,
    /// Shard, from 0.
    pub shard: u32,
    /// How many shards the topic has; at least 1.
    pub shard_count: u32,
    /// Who publishes: 1 to 128 printable characters.
    pub producer: String,
    /// resourceVersion of the Lease write that acquired the shard; 0 without leader election: the bus issues one.
    pub epoch: u64,
}

/// News of a publisher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Published {
    /// A draft breaks the contract and was not sent; nothing else is affected.
    Refused {
        /// Key.
        key: String,
        /// Names the field, the value and what is allowed.
        detail: String,
    },
    /// Another producer took the shard over. Said once; the publisher has stopped for good.
    Fenced {
        /// One sentence for people.
        detail: String,
    },
    /// A session is open.
    Connected {
        /// Incarnation of the bus.
        incarnation: String,
    },
    /// The session broke; it is being opened again.
    Lost,
}

/// A producer's session; keeps the latest state of every key and publishes it again to a bus that lost it.
///
/// Dropping it ends the session.
pub struct Publisher {
    shared: Arc<Shared>,
    session: AbortHandle,
}

/// What handle and session share.
pub(super) struct Shared {
    pub(super) options: PublishOptions,
    pub(super) clock: Clock,
    state: Mutex<State>,
    /// Wakes the session: there may be something to send.
    pub(super) work: Notify,
    /// Wakes the owner: there is news.
    news: Notify,
    /// Wakes whoever waits for everything to be on the bus.
    settled: Notify,
}

pub(super) struct State {
    pub(super) outbox: Outbox,
    pub(super) tick: Option<Mono>,
    pub(super) watch: Option<Mono>,
    /// Why the producer does not count itself live, or empty.
    pub(super) detail: String,
    /// The bus knows that the decision loop turns.
    pub(super) is_report_sent: bool,
    pub(super) is_fenced: bool,
}

/// Opens a session and keeps it open. Must be called inside a tokio runtime.
pub fn publish(bus: &Bus, options: PublishOptions, clock: &Clock, seed: &Seed) -> Publisher {
    let seed = seed.fork(&format!("publisher {} {} {}", options.topic, options.shard, options.producer));
    let shared = Arc::new(Shared {
        clock: clock.clone(),
        state: Mutex::new(State {
            outbox: Outbox::new(options.topic),
            tick: None,
            watch: None,
            detail: String::new(),
            is_report_sent: false,
            is_fenced: false,
        }),
        options,
        work: Notify::new(),
        news: Notify::new(),
        settled: Notify::new(),
    });
    // Owned by the publisher, which aborts it when it is dropped. It ends by itself only when it is fenced.
    let task = tokio::spawn(session::run(bus.seeded(&seed), Arc::clone(&shared), Backoff::new(seed)));
    Publisher {
        shared,
        session: task.abort_handle(),
    }
}

// === impl Publisher ===

impl Publisher {
    /// Sets the latest state of a key. Never blocks; drafts of one key that were not sent yet coalesce.
    pub fn set(&self, draft: Draft) {
        let now = self.shared.clock.now();
        self.shared.change(|state| state.outbox.set(draft, now));
    }

    /// Removes a key.
    pub fn remove(&self, key: &str) {
        let now = self.shared.clock.now();
        self.shared.change(|state| state.outbox.remove(key, now));
    }

    /// The initial state is set: what was set so far replaces what the shard held before, as one change.
    pub fn complete(&self) {
        self.shared.change(|state| state.outbox.complete());
    }

    /// Reports when the decision loop last turned, and when the least fresh of the API watches last gave a sign of life
    /// (`None`: one never did; `tick`, if there are no watches). Sent with the next keepalive, at least every 2 s.
    pub fn report(&self, tick: Mono, watch: Option<Mono>) {
        let mut state = self.shared.lock();
        let is_first = state.tick.is_none() || (state.watch.is_none() && watch.is_some());
        state.is_report_sent &= !is_first;
        (state.tick, state.watch) = (Some(tick), watch);
        drop(state);
        if is_first {
            // The shard is not live before: do not make it wait for the next keepalive.
            self.shared.work.notify_one();
        }
    }

    /// Says in one sentence why the producer does not count itself live: its shard is not, until this is called with an empty text.
    /// Sent with the next keepalive, at least every 2 s; readers and `bailiff bus status` show it.
    pub fn set_trouble(&self, detail: &str) {
        let mut state = self.shared.lock();
        if state.detail != detail {
            detail.clone_into(&mut state.detail);
        }
    }

    /// The next news. If nobody asks, news coalesce: memory is bounded.
    ///
    /// # Cancellation
    /// Cancel-safe: nothing is lost if the future is dropped.
    pub async fn next(&mut self) -> Published {
        loop {
            if let Some(news) = self.shared.lock().outbox.next_news() {
                return news;
            }
            self.shared.news.notified().await;
        }
    }

    /// Waits until everything that was set is on the bus, or the publisher is fenced. Before [`Publisher::complete`] was called
    /// what was set is staged only, and this waits for that too. Give it a deadline: the bus may be gone.
    pub async fn settled(&self) {
        loop {
            let settled = self.shared.settled.notified();
            tokio::pin!(settled);
            settled.as_mut().enable();
            if self.shared.lock().is_settled() {
                return;
            }
            settled.await;
        }
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        self.session.abort();
    }
}

impl fmt::Debug for Publisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publisher")
            .field("options", &self.shared.options)
            .finish_non_exhaustive()
    }
}

// === impl Shared ===

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // Whoever panicked while holding it was a bug; the state is still that of the last finished change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A change by the owner: the session is woken.
    fn change(&self, change: impl FnOnce(&mut State)) {
        self.progress(change);
        self.work.notify_one();
    }

    /// A change: the owner is woken if it made news, and whoever waits for everything to be on the bus if it is.
    pub(super) fn progress<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let result = change(&mut state);
        if state.outbox.has_news() {
            self.news.notify_one();
        }
        if state.is_settled() {
            self.settled.notify_waiters();
        }
        result
    }
}

// === impl State ===

impl State {
    fn is_settled(&self) -> bool {
        self.is_fenced || self.outbox.is_settled()
    }
}
