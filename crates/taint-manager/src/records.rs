//! Records of the bus, and what they are to the core.

use std::collections::BTreeMap;

use bailiff_event_bus::{Body, Record, ShardStatus};
use bailiff_model::{Mono, NodeName, Topic};
use bailiff_taint_core::{HealthRecord, Inherited};

/// A record of topic `node-health`.
pub(crate) fn health(record: Record) -> HealthRecord {
    HealthRecord {
        origin: record.origin(),
        name: NodeName::from(record.key),
        trace: record.trace,
        health: match record.body {
            Some(Body::NodeHealth(health)) => Some(health),
            _ => None,
        },
    }
}

/// A record of the own topic, as it is now; `None` if it says nothing any more.
pub(crate) fn inherited(record: Record, now: Mono) -> Option<Inherited> {
    let age = record.age_at(now);
    match record.body {
        Some(Body::Intent(intent)) => Some(Inherited {
            intent,
            age,
            derived_from: record.derived_from,
            trace: record.trace,
        }),
        _ => None,
    }
}

/// The shards of topic `node-health`.
#[derive(Debug, Default)]
pub(crate) struct Shards {
    by_index: BTreeMap<u32, ShardStatus>,
}

impl Shards {
    /// Takes in what is said about shards; `all` if it is about every one.
    pub(crate) fn take(&mut self, shards: Vec<ShardStatus>, all: bool) {
        if all {
            self.by_index.clear();
        }
        for status in shards.into_iter().filter(|status| status.topic == Topic::NodeHealth) {
            // Another number of shards is another layout: what was known of the old one is void.
            self.by_index.retain(|_, known| known.shard_count == status.shard_count);
            self.by_index.insert(status.shard, status);
        }
    }

    /// A missing key means something.
    pub(crate) fn are_complete(&self) -> bool {
        ShardStatus::is_topic_complete(Topic::NodeHealth, self.by_index.values())
    }

    /// Nobody publishes, or not all of it is known, or the producer is not live: for people.
    pub(crate) fn trouble(&self) -> Option<&'static str> {
        match () {
            () if self.by_index.is_empty() => Some("nobody has published node-health yet"),
            () if !self.are_complete() => Some("node-health is not complete"),
            () if self.by_index.values().any(|status| !status.live) => Some("a producer of node-health is not live"),
            () => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn mk_status(shard: u32, shard_count: u32, complete: bool) -> ShardStatus {
        ShardStatus {
            topic: Topic::NodeHealth,
            shard,
            shard_count,
            epoch: 1,
            complete,
            live: true,
            lag: Duration::ZERO,
            producer: "monitor".to_owned(),
            detail: String::new(),
        }
    }

    #[test]
    fn a_topic_is_complete_when_every_shard_is() {
        let mut shards = Shards::default();
        assert!(!shards.are_complete());
        shards.take(vec![mk_status(0, 2, true)], true);
        assert_eq!(
            (shards.are_complete(), shards.trouble()),
            (false, Some("node-health is not complete"))
        );
        shards.take(vec![mk_status(1, 2, true)], false);
        assert_eq!((shards.are_complete(), shards.trouble()), (true, None));
        shards.take(vec![mk_status(0, 3, true)], false);
        assert!(!shards.are_complete(), "another layout");
        let other = ShardStatus {
            topic: Topic::EvictionIntents,
            ..mk_status(0, 1, true)
        };
        shards.take(vec![other], true);
        assert!(!shards.are_complete());
    }
}
