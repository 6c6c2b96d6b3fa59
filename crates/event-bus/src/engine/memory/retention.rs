//! What grows old: tombstones and terminal outcomes. Costs what expires, not what is kept.

use std::sync::Arc;

use bailiff_model::{Now, Revision, Topic};

use super::Memory;
use super::topic::{Place, Stamp};
use crate::record::TombstoneReason;

impl Memory {
    /// Turns terminal outcomes that are too old or too many into tombstones, oldest first.
    pub(super) fn expire_terminal(&mut self, now: Now) {
        let limits = self.limits.clone();
        for topic in Topic::ALL {
            while let Some(place) = self.oldest_expired_terminal(topic, now) {
                let revision = self.next_revision();
                let state = self.topic_mut(topic);
                let latest = Arc::clone(state.entry(&place.1).expect("the index names entries only").latest());
                let stamp = Stamp {
                    revision,
                    epoch: latest.epoch,
                    shard: latest.shard,
                    producer: latest.producer.clone(),
                };
                state.bury(&place.1, TombstoneReason::Expired, &stamp, &limits, now);
            }
        }
    }

    pub(super) fn oldest_expired_terminal(&self, topic: Topic, now: Now) -> Option<Place> {
        let state = self.topic(topic);
        let place = state.terminal.first()?;
        let entry = state.entry(&place.1)?;
        let is_old = now.mono.saturating_since(entry.since) >= self.limits.terminal_for;
        let are_many = state.terminal.len() > self.limits.terminal;
        (is_old || are_many).then(|| place.clone())
    }

    /// Forgets tombstones that were kept long enough, and with them the promise to resume from before.
    pub(super) fn expire_tombstones(&mut self, now: Now) {
        for topic in Topic::ALL {
            while let Some(place) = self.oldest_expired_tombstone(topic, now) {
                self.forget(topic, &place);
            }
        }
    }

    pub(super) fn oldest_expired_tombstone(&self, topic: Topic, now: Now) -> Option<Place> {
        let state = self.topic(topic);
        let place = state.tombstones.first()?;
        let entry = state.entry(&place.1)?;
        let is_old = now.mono.saturating_since(entry.since) >= self.limits.tombstones_for;
        is_old.then(|| place.clone())
    }

    /// Forgets the oldest tombstones beyond the bound: a burst of removals must not cost memory without end.
    pub(super) fn shed_tombstones(&mut self) {
        let kept = |memory: &Self| memory.topics.values().map(|topic| topic.tombstones.len()).sum::<usize>();
        let surplus = kept(self).saturating_sub(self.limits.tombstones);
        for _ in 0..surplus {
            let oldest = Topic::ALL.into_iter().filter_map(|topic| {
                let place = self.topic(topic).tombstones.first()?;
                Some((place.clone(), topic))
            });
            if let Some((place, topic)) = oldest.min() {
                self.forget(topic, &place);
            }
        }
    }

    fn forget(&mut self, topic: Topic, place: &Place) {
        let revision: Revision = place.0;
        self.topic_mut(topic).forget(place);
        self.oldest_resumable = self.oldest_resumable.max(revision);
    }
}
