//! What is shown: everything the bus told, and whether it is still there.

use bailiff_diff::said;
use bailiff_event_bus::{ShardStatus, Update};
use bailiff_explain::overview::Overview;
use bailiff_model::Mono;

/// Everything, as it is now.
#[derive(Debug, Default)]
pub struct View {
    /// What the records say.
    pub overview: Overview,
    /// Who says it, by topic and shard.
    pub shards: Vec<ShardStatus>,
    /// Last sign of life of the bus, while it is lost.
    pub lost_since: Option<Mono>,
    is_told: bool,
}

// === impl View ===

impl View {
    /// Takes news of the subscription; true if anything is different from what it was, ages apart.
    pub fn take(&mut self, update: Update) -> bool {
        self.lost_since = None;
        match update {
            Update::Snapshot { records, shards, .. } => {
                (self.overview, self.is_told) = (Overview::default(), true);
                for record in &records {
                    let body = record.body.as_ref().map(said);
                    self.overview.apply(record.topic, &record.key, body);
                }
                self.set_shards(shards);
            }
            Update::Changes {
                records,
                skipped,
                shards,
            } => {
                for record in &records {
                    let body = record.body.as_ref().map(said);
                    self.overview.apply(record.topic, &record.key, body);
                }
                for skipped in &skipped {
                    self.overview.apply(skipped.topic, &skipped.key, None);
                }
                for shard in shards {
                    self.shards.retain(|other| !is_same_place(other, &shard));
                    self.shards.push(shard);
                }
                self.sort_shards();
            }
            Update::Status { shards } => return self.set_shards(shards),
            Update::Lost { since } => self.lost_since = Some(since),
        }
        true
    }

    /// True once the bus has told everything.
    pub const fn is_told(&self) -> bool {
        self.is_told
    }

    fn set_shards(&mut self, shards: Vec<ShardStatus>) -> bool {
        let is_alike = |one: &ShardStatus, other: &ShardStatus| {
            (is_same_place(one, other), one.live, one.complete, &one.producer)
                == (true, other.live, other.complete, &other.producer)
        };
        let before = std::mem::replace(&mut self.shards, shards);
        self.sort_shards();
        before.len() != self.shards.len() || before.iter().zip(&self.shards).any(|(one, other)| !is_alike(one, other))
    }

    fn sort_shards(&mut self) {
        self.shards.sort_by_key(|shard| (shard.topic, shard.shard_count, shard.shard));
    }
}

fn is_same_place(one: &ShardStatus, other: &ShardStatus) -> bool {
    // Of another layout, what was told before is void.
    one.topic == other.topic && (one.shard_count != other.shard_count || one.shard == other.shard)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bailiff_model::Topic;

    use super::*;

    fn mk_shard(topic: Topic, shard: u32, shard_count: u32) -> ShardStatus {
        ShardStatus {
            topic,
            shard,
            shard_count,
            epoch: 1,
            complete: true,
            live: true,
            lag: Duration::ZERO,
            producer: format!("producer {shard}"),
            detail: String::new(),
        }
    }

    fn changes(shards: Vec<ShardStatus>) -> Update {
        Update::Changes {
            records: Vec::new(),
            skipped: Vec::new(),
            shards,
        }
    }

    fn places(view: &View) -> Vec<(Topic, u32, u32)> {
        let place = |shard: &ShardStatus| (shard.topic, shard.shard, shard.shard_count);
        view.shards.iter().map(place).collect()
    }

    #[test]
    fn a_loss_lasts_until_the_next_word() {
        let mut view = View::default();
        assert!(!view.is_told());
        view.take(Update::Snapshot {
            records: Vec::new(),
            skipped: Vec::new(),
            shards: Vec::new(),
        });
        assert!(view.is_told());
        assert!(view.take(Update::Lost { since: Mono::ORIGIN }));
        assert_eq!(view.lost_since, Some(Mono::ORIGIN));
        view.take(Update::Status { shards: Vec::new() });
        assert_eq!((view.lost_since, view.is_told()), (None, true));
    }

    #[test]
    fn a_shard_takes_the_place_of_what_was_told_of_it_and_a_layout_that_of_another() {
        let mut view = View::default();
        view.take(changes(vec![
            mk_shard(Topic::EvictionIntents, 1, 2),
            mk_shard(Topic::NodeHealth, 0, 1),
            mk_shard(Topic::EvictionIntents, 0, 2),
        ]));
        let two = [
            (Topic::NodeHealth, 0, 1),
            (Topic::EvictionIntents, 0, 2),
            (Topic::EvictionIntents, 1, 2),
        ];
        assert_eq!(places(&view), two);
        view.take(changes(vec![mk_shard(Topic::EvictionIntents, 1, 2)]));
        assert_eq!(places(&view), two);
        view.take(changes(vec![mk_shard(Topic::EvictionIntents, 0, 1)]));
        assert_eq!(places(&view), [(Topic::NodeHealth, 0, 1), (Topic::EvictionIntents, 0, 1)]);
    }

    #[test]
    fn lag_alone_is_no_news() {
        let mut view = View::default();
        let mut shard = mk_shard(Topic::NodeHealth, 0, 1);
        assert!(view.take(Update::Status {
            shards: vec![shard.clone()]
        }));
        shard.lag = Duration::from_secs(1);
        assert!(!view.take(Update::Status {
            shards: vec![shard.clone()]
        }));
        assert_eq!(view.shards[0].lag, Duration::from_secs(1));
        shard.live = false;
        assert!(view.take(Update::Status { shards: vec![shard] }));
    }
}
