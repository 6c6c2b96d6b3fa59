//! Following topics.

use bailiff_model::{Mono, Topic};
use bailiff_runtime::{Clock, Seed};

use crate::client::Bus;
use crate::record::{Record, ShardStatus};

/// What to follow.
#[derive(Clone, Debug)]
pub struct SubscribeOptions {
    /// Topics wanted; at least one, each once.
    pub topics: Vec<Topic>,
    /// Only records whose route passes; topics without a filter pass whole.
    pub filters: Vec<RouteFilter>,
    /// Who subscribes: 1 to 128 printable characters.
    pub subscriber: String,
}

/// Narrows one topic to some routes; records without a route always pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteFilter {
    /// Topic it applies to.
    pub topic: Topic,
    /// Routes that pass.
    pub routes: Vec<String>,
}

/// News of a subscription.
#[derive(Clone, Debug, PartialEq)]
pub enum Update {
    /// Forget everything held of these topics: this is all there is.
    Snapshot {
        /// The latest record of every key, in rising order of revision; no tombstones.
        records: Vec<Record>,
        /// Every shard of the topics.
        shards: Vec<ShardStatus>,
    },
    /// One atomic set of changes.
    Changes {
        /// In rising order of revision, each key once.
        records: Vec<Record>,
        /// Shards whose state changed.
        shards: Vec<ShardStatus>,
    },
    /// Nothing changed but liveness and lag; at least every 2 s while connected.
    Status {
        /// Every shard of the topics.
        shards: Vec<ShardStatus>,
    },
    /// The connection is lost; said once when lost and once more when that counts as stale, 10 s later.
    Lost {
        /// Last sign of life of the bus.
        since: Mono,
    },
}

/// A subscription; reconnects by itself and resumes where it was.
#[derive(Debug)]
pub struct Subscription {}

/// Follows the topics of `options` on `bus`.
pub fn subscribe(_bus: &Bus, _options: SubscribeOptions, _clock: &Clock, _seed: &Seed) -> Subscription {
    Subscription {}
}

impl Subscription {
    /// The next news. Never ends.
    ///
    /// # Cancellation
    /// Cancel-safe: nothing is lost if the future is dropped.
    pub async fn next(&mut self) -> Update {
        std::future::pending().await
    }
}
