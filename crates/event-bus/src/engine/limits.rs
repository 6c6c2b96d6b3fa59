//! Bounds and durations of an engine.

use std::time::Duration;

use super::Refusal;

/// Bounds and durations. The defaults are the contract's; tests use smaller ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Live keys of all topics, and the same number again of staged ones. 5,000 nodes with 110 pods each, all being evicted, are
    /// 550,000 intents; with as many outcomes that expire at 100,000 the default is never met by a healthy cluster.
    pub keys: usize,
    /// Tombstones of all topics. Beyond it the oldest go early, and a cursor older than them gets a snapshot.
    pub tombstones: usize,
    /// Open sessions of all topics.
    pub sessions: usize,
    /// Shards of a topic. One replica per shard is useful, and nobody runs more.
    pub shards: u32,
    /// Records in a batch.
    pub batch: usize,
    /// Records kept per key for `explain`.
    pub history: usize,
    /// Bytes of records that are not the latest of their keys, of all topics: beyond it the oldest of them go. The default holds
    /// more than a hundred thousand records of half a kilobyte. They count as if they were whole, and take less.
    pub history_bytes: usize,
    /// Age from which a decision tick, an API watch or a silent producer counts as stale.
    pub stale_after: Duration,
    /// How long a shard stays live after its session broke off.
    pub reconnect_grace: Duration,
    /// A session that said nothing for so long is ended: staleness plus the grace it would have had.
    pub silent_after: Duration,
    /// How long tombstones are kept, and with them the promise to resume.
    pub tombstones_for: Duration,
    /// How long terminal outcomes are kept.
    pub terminal_for: Duration,
    /// How many terminal outcomes are kept.
    pub terminal: usize,
}

impl Limits {
    /// Refuses a batch of so many records if that is none, or too many.
    pub(crate) const fn check_batch(&self, records: usize) -> Result<(), Refusal> {
        let most = self.batch;
        if records == 0 || records > most {
            return Err(Refusal::Batch { found: records, most });
        }
        Ok(())
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            keys: 1_000_000,
            tombstones: 1_000_000,
            sessions: 1_024,
            shards: 256,
            batch: 1_000,
            history: 16,
            history_bytes: 64 * 1024 * 1024,
            stale_after: Duration::from_secs(10),
            reconnect_grace: Duration::from_secs(5),
            silent_after: Duration::from_secs(15),
            tombstones_for: Duration::from_secs(10 * 60),
            terminal_for: Duration::from_secs(24 * 3600),
            terminal: 100_000,
        }
    }
}
