//! Bounds and durations of an engine.

use std::time::Duration;

use bailiff_model::Topic;

use super::Refusal;

/// Each topic is sure of one of so many parts of all keys, whatever the others have. Of the default those are 62,500: a dozen times the
/// 5,000 nodes that Kubernetes supports. One topic alone may have 812,500, so intents and outcomes of those fit in beside each other.
const SHARES: usize = 16;

/// Bounds and durations. The defaults are the contract's; tests use smaller ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Live keys of all topics, and the same number again of staged ones. 5,000 nodes with 110 pods each, all being evicted, are
    /// 550,000 intents; with as many outcomes that expire at 100,000 the default is never met by a healthy cluster. A topic may have as
    /// many as leave each other one its sixteenth.
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

    /// Keys that each topic is sure of.
    pub(crate) const fn share(&self) -> usize {
        self.keys / SHARES
    }

    /// Most keys of a topic while the others have so many: what they lack of their shares is kept for them.
    pub(crate) fn most_keys(&self, others: impl Iterator<Item = usize>) -> usize {
        let kept: usize = others.map(|held| held.max(self.share())).sum();
        self.keys.saturating_sub(kept)
    }

    /// Refuses that `topic` comes to have `found` keys where it may have `most`.
    pub(crate) const fn check_keys(&self, topic: Topic, found: usize, most: usize) -> Result<(), Refusal> {
        if found <= most {
            return Ok(());
        }
        Err(Refusal::Keys {
            topic,
            found,
            most,
            of: self.keys,
            share: self.share(),
        })
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_topic_leaves_each_other_its_share() {
        let limits = Limits::default();
        for (others, wanted) in [
            ([0, 0, 0], 812_500),
            ([62_500, 5_000, 0], 812_500),
            // Intents of 5,000 nodes, with 110 pods each: there is room for as many outcomes as there may be.
            ([555_000, 5_000, 1_000], 320_000),
            ([812_500, 0, 0], 62_500),
            ([812_500, 62_500, 62_500], 62_500),
            ([1_000_000, 0, 0], 0),
        ] {
            assert_eq!(limits.most_keys(others.into_iter()), wanted, "{others:?}");
        }
        let few = Limits { keys: 3, ..limits };
        assert_eq!(few.most_keys([1, 1, 0].into_iter()), 1, "of few none are kept back");
    }

    #[test]
    fn a_refusal_names_the_topic_and_what_it_may_have() {
        let limits = Limits::default();
        assert_eq!(limits.check_keys(Topic::EvictionIntents, 812_500, 812_500), Ok(()));
        let refused = limits
            .check_keys(Topic::EvictionIntents, 812_501, 812_500)
            .expect_err("one too many");
        assert_eq!(
            refused.to_string(),
            "eviction-intents: 812501 keys are not allowed, wanted at most 812500 while others have what they have: all topics may have \
             1000000, of which 62500 are kept for each"
        );
    }

    proptest! {
        /// Whoever grows and shrinks in whatever order: the bound holds, and nobody is refused its share.
        #[test]
        fn every_topic_gets_its_share(
            keys in 0_usize..100,
            steps in prop::collection::vec((0_usize..4, 0_usize..120), 0..200),
        ) {
            let limits = Limits { keys, ..Limits::default() };
            let mut held = [0; 4];
            for (topic, wanted) in steps {
                let others = (0..4).filter(|other| *other != topic).map(|other| held[other]);
                if wanted <= limits.most_keys(others) {
                    held[topic] = wanted;
                } else {
                    prop_assert!(wanted > limits.share(), "{wanted} of {held:?}");
                }
                prop_assert!(held.iter().sum::<usize>() <= keys, "{held:?}");
            }
        }
    }
}
