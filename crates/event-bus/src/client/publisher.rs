//! A producer's session on one shard of one topic.

use bailiff_model::{Mono, Revision, Topic};
use bailiff_runtime::{Clock, Seed};

use crate::client::Bus;
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
    /// The latest draft of this key, or its removal, is on the bus. Superseded drafts are not acknowledged.
    Acknowledged {
        /// Key.
        key: String,
        /// Revision given.
        revision: Revision,
    },
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
#[derive(Debug)]
pub struct Publisher {}

/// Opens a session and keeps it open. Must be called inside a tokio runtime.
pub fn publish(_bus: &Bus, _options: PublishOptions, _clock: &Clock, _seed: &Seed) -> Publisher {
    Publisher {}
}

impl Publisher {
    /// Sets the latest state of a key. Never blocks; drafts of one key that were not sent yet coalesce.
    pub fn set(&self, _draft: Draft) {}

    /// Removes a key.
    pub fn remove(&self, _key: &str) {}

    /// The initial state is set: what was set so far replaces what the shard held before, as one change.
    pub fn complete(&self) {}

    /// Reports when the decision loop last turned, and when the least fresh of the API watches last gave a sign of life
    /// (`None`: there are no watches).
    pub fn report(&self, _tick: Mono, _watch: Option<Mono>) {}

    /// The next news. If nobody asks, news coalesce: memory is bounded by the number of keys.
    ///
    /// # Cancellation
    /// Cancel-safe: nothing is lost if the future is dropped.
    pub async fn next(&mut self) -> Published {
        std::future::pending().await
    }
}
