//! The engine that keeps everything in memory: one incarnation lives as long as the value.
//!
//! Per topic there is the latest record of every key and an index of keys by revision, so that a reader is no more than a position
//! in the index: what it missed is found when it asks, coalesced per key, and costs nothing while it does not ask. A record is one
//! encoded piece that indexes and readers point to (ARCHITECTURE.md says how much a key may take), in which what others say too is left
//! out (docs/adr/0014).
//!
//! Wanted properties, proven in `tests/`:
//! (A) every reader ends with the same latest-record map; (B) each key's revisions rise; (C) a replace is seen whole or not at all;
//! (D) memory is bounded by keys, whatever readers do; (E) completeness is ordered with the records it speaks of.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bailiff_model::{Now, Revision, Shared, Topic};

pub(super) mod image;
mod index;
mod read;
mod replace;
mod retention;
mod session;
mod shard;
mod topic;

use self::session::Session;
use self::topic::TopicState;
use super::kept::{By, Kept};
use super::{Answer, Command, Effect, Engine, Limits, Position, Refusal, Selection, SessionId, Set, Ticket, TopicFigures};
use crate::record::ShardStatus;

/// The engine that keeps everything in memory.
#[derive(Clone, Debug)]
pub struct Memory {
    incarnation: String,
    limits: Limits,
    head: Revision,
    oldest_resumable: Revision,
    topics: BTreeMap<Topic, TopicState>,
    sessions: BTreeMap<SessionId, Session>,
    last_session: u64,
    /// Whoever said something that is kept.
    writers: Shared<By>,
}

impl Memory {
    /// An empty bus. `incarnation` must never be used again by another one.
    pub fn new(incarnation: String, limits: Limits) -> Self {
        Self {
            incarnation,
            limits,
            head: Revision(0),
            oldest_resumable: Revision(0),
            topics: Topic::ALL.into_iter().map(|topic| (topic, TopicState::new(topic))).collect(),
            sessions: BTreeMap::new(),
            last_session: 0,
            writers: Shared::default(),
        }
    }

    fn topic_mut(&mut self, topic: Topic) -> &mut TopicState {
        self.topics.get_mut(&topic).expect("all topics were made at the start")
    }

    fn topic(&self, topic: Topic) -> &TopicState {
        self.topics.get(&topic).expect("all topics were made at the start")
    }

    /// Most live keys of a topic, by what the others have.
    fn most_keys(&self, topic: Topic) -> usize {
        let others = self.topics.iter().filter(|(other, _)| **other != topic);
        self.limits.most_keys(others.map(|(_, state)| state.live_keys()))
    }

    fn dispatch(&mut self, command: Command, now: Now, effects: &mut Vec<Effect>) -> Result<Answer, Refusal> {
        match command {
            Command::Open(open) => self.open(open, now, effects),
            Command::Publish { session, records } => self.publish(session, records, now),
            Command::EndReplace { session } => self.end_replace(session, now),
            Command::Keepalive { session, report } => self.keepalive(session, &report, now),
            Command::Close { session } => {
                self.close(session, now);
                Ok(Answer::Done)
            }
            Command::ResetEpoch { topic, shard } => self.reset_epoch(topic, shard, now, effects),
            Command::Witness { revision } if revision > self.head => Err(Refusal::Forgotten {
                seen: revision,
                head: self.head,
            }),
            Command::Witness { .. } => Ok(Answer::Done),
            Command::Tick => {
                self.tick(now, effects);
                Ok(Answer::Done)
            }
        }
    }

    /// True if a [`Command::Tick`] at `now` would change anything.
    pub(super) fn is_due(&self, now: Now) -> bool {
        self.has_silent_session(now)
            || self.has_new_liveness(now)
            || Topic::ALL.into_iter().any(|topic| {
                self.oldest_expired_terminal(topic, now).is_some() || self.oldest_expired_tombstone(topic, now).is_some()
            })
    }

    fn tick(&mut self, now: Now, effects: &mut Vec<Effect>) {
        self.end_silent_sessions(now, effects);
        self.refresh_liveness(now);
        self.expire_terminal(now);
        self.expire_tombstones(now);
    }
}

impl Engine for Memory {
    fn apply(&mut self, ticket: Ticket, command: Command, now: Now) -> Vec<Effect> {
        let before = self.head;
        let mut effects = Vec::new();
        let result = self.dispatch(command, now, &mut effects);
        effects.push(Effect::Answer { ticket, result });
        if self.head > before {
            effects.push(Effect::Advanced { head: self.head });
        }
        effects
    }

    fn incarnation(&self) -> &str {
        &self.incarnation
    }

    fn head(&self) -> Revision {
        self.head
    }

    fn oldest_resumable(&self) -> Revision {
        self.oldest_resumable
    }

    fn read(&self, selection: &Selection, position: Position, now: Now) -> Set {
        self.read_from(selection, position, now)
    }

    fn shards(&self, topics: &BTreeSet<Topic>, now: Now) -> Vec<ShardStatus> {
        topics
            .iter()
            .flat_map(|topic| self.topic(*topic).statuses(&self.limits, now))
            .collect()
    }

    fn history(&self, topic: Topic, key: &str) -> Vec<Arc<Kept>> {
        self.topic(topic).history(key)
    }

    fn figures(&self) -> Vec<TopicFigures> {
        let topics = self.topics.iter();
        topics
            .map(|(topic, state)| state.figures(&self.sessions, self.most_keys(*topic)))
            .collect()
    }
}
