//! What is known of the topics: which shards are complete and live, and which keys a snapshot did not confirm.
//!
//! A key that is missing means something only once every shard of its topic is complete. Until then a key that an earlier view held
//! is *unconfirmed*: kept, and harmless, because what depends on the topic is held.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bailiff_model::{Mono, Topic};

use crate::input::ShardStatus;

/// A bus that cannot be reached for this long counts as silent (design §2: stale after 10 s).
pub const STALE_AFTER: Duration = Duration::from_secs(10);

/// Completeness and liveness of the topics.
#[derive(Clone, Debug, Default)]
pub struct Topics {
    shards: BTreeMap<Topic, BTreeMap<u32, ShardStatus>>,
    unconfirmed: BTreeMap<Topic, BTreeSet<String>>,
    /// Keys whose latest record is not understood: not gone, and what is held of them is outdated.
    unreadable: BTreeSet<(Topic, String)>,
    lost_since: Option<Mono>,
    connected_once: bool,
}

impl Topics {
    /// Takes note of shard states. A new shard count makes the old layout meaningless.
    pub fn note(&mut self, shards: Vec<ShardStatus>) {
        self.lost_since = None;
        for status in shards {
            let known = self.shards.entry(status.topic).or_default();
            known.retain(|_, other| other.shard_count == status.shard_count);
            if status.shard_count > 0 {
                known.insert(status.shard, status);
            }
        }
    }

    /// A new view begins: nothing is known of the shards, and `held` keys of `topic` wait for confirmation.
    pub fn begin(&mut self) {
        self.connected_once = true;
        self.lost_since = None;
        self.shards.clear();
        self.unreadable.clear();
    }

    /// `held` keys of `topic` are not part of the new view.
    pub fn doubt(&mut self, topic: Topic, held: BTreeSet<String>) {
        self.unconfirmed.insert(topic, held);
    }

    /// The latest record of `key` was seen, and is not understood.
    pub fn cannot_read(&mut self, topic: Topic, key: String) {
        self.unreadable.insert((topic, key));
    }

    /// One sentence for people, if the latest record of `key` is not understood.
    pub fn why_not_readable(&self, topic: Topic, key: String) -> Option<String> {
        let found = self.unreadable.get(&(topic, key))?;
        Some(format!(
            "the newest record of {:?} in topic {topic} is not understood",
            found.1
        ))
    }

    /// `key` was seen.
    pub fn confirm(&mut self, topic: Topic, key: &str) {
        if !self.unreadable.is_empty() {
            self.unreadable.remove(&(topic, key.to_owned()));
        }
        if let Some(keys) = self.unconfirmed.get_mut(&topic) {
            keys.remove(key);
        }
    }

    /// The keys that are surely gone: unconfirmed ones of a topic that is complete.
    pub fn take_gone(&mut self, topic: Topic) -> BTreeSet<String> {
        if self.is_complete(topic) {
            self.unconfirmed.remove(&topic).unwrap_or_default()
        } else {
            BTreeSet::new()
        }
    }

    /// The bus cannot be reached.
    pub const fn lost(&mut self, since: Mono) {
        self.lost_since = Some(since);
    }

    /// When the loss of the bus makes everything stale.
    pub fn stale_at(&self) -> Option<Mono> {
        self.lost_since.map(|since| since + STALE_AFTER)
    }

    /// True once a view of the bus was received.
    pub const fn is_connected_once(&self) -> bool {
        self.connected_once
    }

    /// True if all shards of the topic are complete.
    pub fn is_complete(&self, topic: Topic) -> bool {
        self.all(topic, |shard| shard.complete)
    }

    /// True if all shards of the topic are live and the bus is not lost for too long.
    pub fn is_live(&self, topic: Topic, now: Mono) -> bool {
        self.stale_at().is_none_or(|at| now < at) && self.all(topic, |shard| shard.live)
    }

    /// One sentence for people: why a topic that is not live is not.
    pub fn why_not_live(&self, topic: Topic) -> String {
        let shards = self.shards.get(&topic);
        let dead = shards.and_then(|shards| shards.values().find(|shard| !shard.live));
        match dead {
            Some(dead) if dead.detail.is_empty() => format!("shard {} of topic {topic} is not live", dead.shard),
            Some(dead) => format!("shard {} of topic {topic} is not live: {}", dead.shard, dead.detail),
            None => format!("the bus that carries topic {topic} cannot be reached"),
        }
    }

    fn all(&self, topic: Topic, holds: impl Fn(&ShardStatus) -> bool) -> bool {
        let Some(shards) = self.shards.get(&topic) else {
            return false;
        };
        let Some(count) = shards.values().next().map(|shard| shard.shard_count) else {
            return false;
        };
        (0..count).all(|index| shards.get(&index).is_some_and(&holds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_shard(shard: u32, shard_count: u32, complete: bool, live: bool) -> ShardStatus {
        ShardStatus {
            topic: Topic::NodeHealth,
            shard,
            shard_count,
            complete,
            live,
            detail: String::new(),
        }
    }

    #[test]
    fn a_topic_is_complete_when_every_shard_of_its_layout_is() {
        let mut topics = Topics::default();
        assert!(!topics.is_complete(Topic::NodeHealth));
        topics.note(vec![mk_shard(0, 0, false, false)]);
        assert!(!topics.is_complete(Topic::NodeHealth), "nobody ever published");
        topics.note(vec![mk_shard(0, 2, true, true)]);
        assert!(!topics.is_complete(Topic::NodeHealth));
        topics.note(vec![mk_shard(1, 2, true, false)]);
        assert!(topics.is_complete(Topic::NodeHealth));
        assert!(!topics.is_live(Topic::NodeHealth, Mono::ORIGIN));
        topics.note(vec![mk_shard(0, 1, true, true)]);
        assert!(topics.is_live(Topic::NodeHealth, Mono::ORIGIN), "the old layout is forgotten");
    }

    #[test]
    fn a_lost_bus_is_stale_after_its_time_and_any_news_ends_that() {
        let mut topics = Topics::default();
        topics.note(vec![mk_shard(0, 1, true, true)]);
        topics.lost(Mono::ORIGIN);
        assert!(topics.is_live(Topic::NodeHealth, Mono::from_origin(Duration::from_secs(9))));
        assert!(!topics.is_live(Topic::NodeHealth, Mono::from_origin(Duration::from_secs(10))));
        topics.note(vec![]);
        assert!(topics.is_live(Topic::NodeHealth, Mono::from_origin(Duration::from_secs(10))));
    }

    #[test]
    fn who_is_not_live_and_why_is_said() {
        let mut topics = Topics::default();
        let dead = ShardStatus {
            detail: "its producer left".to_owned(),
            ..mk_shard(1, 2, true, false)
        };
        topics.note(vec![mk_shard(0, 2, true, true), dead]);
        let why = topics.why_not_live(Topic::NodeHealth);
        assert_eq!(why, "shard 1 of topic node-health is not live: its producer left");
        topics.note(vec![mk_shard(0, 2, true, false)]);
        let why = topics.why_not_live(Topic::NodeHealth);
        assert_eq!(why, "shard 0 of topic node-health is not live", "nobody said why");
        topics.note(vec![mk_shard(0, 1, true, true)]);
        topics.lost(Mono::ORIGIN);
        let why = topics.why_not_live(Topic::NodeHealth);
        assert_eq!(why, "the bus that carries topic node-health cannot be reached");
    }

    #[test]
    fn a_missing_key_is_gone_only_once_the_topic_is_complete() {
        let mut topics = Topics::default();
        topics.begin();
        topics.doubt(Topic::NodeHealth, ["a", "b"].map(str::to_owned).into());
        topics.note(vec![mk_shard(0, 2, true, true)]);
        assert!(topics.take_gone(Topic::NodeHealth).is_empty());
        topics.confirm(Topic::NodeHealth, "a");
        topics.note(vec![mk_shard(1, 2, true, true)]);
        assert_eq!(topics.take_gone(Topic::NodeHealth), ["b".to_owned()].into());
        assert!(topics.take_gone(Topic::NodeHealth).is_empty());
    }
}
