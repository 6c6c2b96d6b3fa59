//! What a subscriber knows of the shards of its topics: whether a missing key means something, and whether anybody is there.

use std::collections::BTreeMap;

use bailiff_model::Topic;

use super::Update;
use crate::record::ShardStatus;

/// What is known of the shards of the topics that a [`Subscription`](super::Subscription) follows. Show it every [`Update`], before
/// anything is concluded from that.
#[derive(Clone, Debug, Default)]
pub struct Shards {
    known: BTreeMap<(Topic, u32), ShardStatus>,
    /// Times in a row that [`Update::Lost`] was said: the second says that it counts.
    losses: u32,
}

// === impl Shards ===

impl Shards {
    /// Takes in what an update says of shards, and of the bus itself.
    pub fn take(&mut self, update: &Update) {
        let (shards, is_all) = match update {
            Update::Snapshot { shards, .. } | Update::Status { shards } => (shards, true),
            Update::Changes { shards, .. } => (shards, false),
            Update::Lost { .. } => return self.losses = self.losses.saturating_add(1),
        };
        self.losses = 0;
        if is_all {
            self.known.clear();
        }
        for status in shards {
            // Another number of shards is another layout: what was known of the old one is void.
            let is_void = |known: &ShardStatus| known.topic == status.topic && known.shard_count != status.shard_count;
            self.known.retain(|_, known| !is_void(known));
            self.known.insert((status.topic, status.shard), status.clone());
        }
    }

    /// What is known of each shard, in the order of topics and shards: for whoever tells people which of them is not as it should be.
    pub fn statuses(&self) -> impl Iterator<Item = &ShardStatus> {
        self.known.values()
    }

    /// True if every shard of the topic is complete: then, and only then, a missing key means that there is nothing to say about it.
    pub fn is_complete(&self, topic: Topic) -> bool {
        ShardStatus::is_topic_complete(topic, self.known.values())
    }

    /// Why nothing may be done that depends on the topic, in a few words for people; `None` if it is complete, every producer of it is
    /// live, and the bus was heard of in the last 10 s.
    pub fn trouble(&self, topic: Topic) -> Option<String> {
        let mut of_topic = self.known.values().filter(|status| status.topic == topic).peekable();
        if self.losses > 1 {
            return Some("the bus is silent".to_owned());
        }
        if of_topic.peek().is_none() {
            return Some(format!("nobody has published {topic} yet"));
        }
        if !self.is_complete(topic) {
            return Some(format!("{topic} is not complete"));
        }
        of_topic
            .any(|status| !status.live)
            .then(|| format!("a producer of {topic} is not live"))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bailiff_model::Mono;

    use super::*;

    const HEALTH: Topic = Topic::NodeHealth;
    const LOST: Update = Update::Lost { since: Mono::ORIGIN };

    fn mk_status(topic: Topic, (shard, shard_count): (u32, u32), complete: bool, live: bool) -> ShardStatus {
        ShardStatus {
            topic,
            shard,
            shard_count,
            epoch: 1,
            complete,
            live,
            lag: Duration::ZERO,
            producer: "monitor".to_owned(),
            detail: String::new(),
        }
    }

    fn all(shards: &[ShardStatus]) -> Update {
        let shards = shards.to_vec();
        Update::Status { shards }
    }

    fn some(shard: ShardStatus) -> Update {
        Update::Changes {
            records: Vec::new(),
            skipped: Vec::new(),
            shards: vec![shard],
        }
    }

    #[test]
    fn a_topic_is_relied_on_when_every_shard_is_complete_and_live() {
        let (first, second) = (mk_status(HEALTH, (0, 2), true, true), mk_status(HEALTH, (1, 2), true, true));
        let other = mk_status(Topic::EvictionIntents, (0, 1), true, true);
        let dead = mk_status(HEALTH, (1, 2), true, false);
        let (nobody, not_whole) = ("nobody has published node-health yet", "node-health is not complete");
        // What comes, one after the other, and what is known then.
        let mut shards = Shards::default();
        for (update, complete, trouble) in [
            (all(&[]), false, Some(nobody)),
            (all(std::slice::from_ref(&other)), false, Some(nobody)),
            (some(first.clone()), false, Some(not_whole)),
            (some(second.clone()), true, None),
            (some(dead), true, Some("a producer of node-health is not live")),
            (all(&[first, second, other.clone()]), true, None),
            (LOST, true, None),
            (LOST, true, Some("the bus is silent")),
            (some(other), true, None),
            // Of another layout.
            (some(mk_status(HEALTH, (0, 3), true, true)), false, Some(not_whole)),
        ] {
            shards.take(&update);
            let found = (shards.is_complete(HEALTH), shards.trouble(HEALTH));
            assert_eq!(found, (complete, trouble.map(str::to_owned)), "{update:?}");
        }
        assert_eq!(shards.trouble(Topic::EvictionIntents), None, "another topic's layout");
        let known: Vec<_> = shards.statuses().map(|known| (known.topic, known.shard_count)).collect();
        assert_eq!(known, [(HEALTH, 3), (Topic::EvictionIntents, 1)], "what is void is not shown");
    }
}
