//! What grows old, or too much: tombstones, terminal outcomes and history. Costs what goes, not what is kept.

use std::sync::Arc;

use bailiff_model::{Now, Topic};

use super::Memory;
use super::index::Place;
use super::topic::{Stamp, TopicState};
use crate::record::TombstoneReason;

impl Memory {
    /// Turns terminal outcomes that are too old or too many into tombstones, oldest first.
    pub(super) fn expire_terminal(&mut self, now: Now) {
        let limits = self.limits.clone();
        for topic in Topic::ALL {
            while let Some(Place(latest)) = self.oldest_expired_terminal(topic, now) {
                let stamp = Stamp {
                    revision: self.next_revision(),
                    by: Arc::clone(&latest.by),
                };
                self.topic_mut(topic)
                    .bury(&latest, TombstoneReason::Expired, &stamp, &limits, now);
            }
        }
    }

    pub(super) fn oldest_expired_terminal(&self, topic: Topic, now: Now) -> Option<Place> {
        let state = self.topic(topic);
        let place = state.terminal.first()?;
        let is_old = now.mono.saturating_since(place.0.received_at) >= self.limits.terminal_for;
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
        let place = self.topic(topic).tombstones.first()?;
        let is_old = now.mono.saturating_since(place.0.received_at) >= self.limits.tombstones_for;
        is_old.then(|| place.clone())
    }

    /// Forgets the oldest tombstones and the oldest history beyond their bounds: no burst must cost memory without end.
    pub(super) fn shed(&mut self) {
        while self.sum(|topic| topic.tombstones.len()) > self.limits.tombstones {
            let Some((place, topic)) = self.oldest(|topic| topic.tombstones.first()) else {
                break;
            };
            self.forget(topic, &place);
        }
        while self.sum(|topic| topic.history_bytes) > self.limits.history_bytes {
            let Some((history, topic)) = self.oldest(|topic| topic.histories.first()) else {
                break;
            };
            self.topic_mut(topic).forget_earlier(&history);
        }
    }

    fn sum(&self, of: impl Fn(&TopicState) -> usize) -> usize {
        self.topics.values().map(of).sum()
    }

    fn oldest<'a, T: Ord + Clone + 'a>(&'a self, first: impl Fn(&'a TopicState) -> Option<&'a T>) -> Option<(T, Topic)> {
        let firsts = self.topics.iter().filter_map(|(topic, state)| Some((first(state)?, *topic)));
        firsts.min().map(|(oldest, topic)| (oldest.clone(), topic))
    }

    fn forget(&mut self, topic: Topic, place: &Place) {
        self.topic_mut(topic).forget(place);
        self.oldest_resumable = self.oldest_resumable.max(place.0.revision);
    }
}
