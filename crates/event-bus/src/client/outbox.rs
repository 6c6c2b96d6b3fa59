//! What a publisher has to send, what it sent, and what it has to say to its owner. Pure.
//!
//! Wanted properties: (A) the latest draft of every key is on the bus when the outbox is settled, whatever broke in between;
//! (B) a key has at most one place in the queue; (C) a draft that breaks the contract stops nothing else;
//! (D) while the bus is away, what is kept is bounded by the keys that are set, or that the bus may have.
//!
//! Of a key it keeps what is sent, encoded, as what differs from others: the domain form takes several times as much, and is of no use
//! here.

use std::collections::{BTreeMap, VecDeque};
use std::mem::take;
use std::sync::Arc;
use std::time::Duration;

use bailiff_model::{IndexMap, Mono, Now, Origin, Topic};
use bailiff_proto::v1 as pb;
use prost::Message as _;

use super::Published;
use crate::alike::{Pattern, Patterns};
use crate::record::{Draft, Incoming};
use crate::wire::{envelope, scalar};

/// Records in a batch; half of what the bus takes.
const BATCH_RECORDS: usize = 500;
/// Bytes in a batch, but for its last record: some fifty records. Either side keeps room for a batch (`ServerOptions::chunk_bytes`),
/// and several times as much while it is encoded and decoded.
const BATCH_BYTES: usize = 16 * 1024;
/// Batches that may wait for an acknowledgement: the next are on their way while one is worked on, some 128 KiB in all.
pub(super) const WINDOW: usize = 8;
/// Terminal outcomes kept for re-publication once they are on the bus. It keeps them apart from replacement, so forgetting one loses
/// history only if the bus loses its memory too. At 700 bytes each, all indexes included, which is more than they take, this is 1.4 MB.
const TERMINAL_KEPT: usize = 2_000;
/// The same while the bus is away, and never had them: without a bound they would pile up for as long as that lasts. This is 7 MB.
const TERMINAL_WAITING: usize = 10_000;
/// News of refused drafts kept; each is logged besides.
const REFUSED_KEPT: usize = 1_000;
/// Below so many keys nobody asks how much room there is.
const FEW_SLOTS: usize = 256;

type Version = u64;
type Sent = Vec<(Arc<str>, Version)>;

/// What to send next.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    Batch(pb::Batch),
    EndReplace(pb::EndReplace),
}

/// A publisher's state, apart from its connection.
#[derive(Debug)]
pub(super) struct Outbox {
    topic: Topic,
    slots: IndexMap<Arc<str>, Slot>,
    /// What drafts are kept by.
    patterns: Patterns,
    /// Keys to send, by version: in the order in which they were set.
    queue: BTreeMap<Version, Arc<str>>,
    last_version: Version,
    last_batch: u64,
    inflight: BTreeMap<u64, Sent>,
    /// What is staged of each key in the replace part of the present session.
    staged: IndexMap<Arc<str>, Version>,
    terminal: VecDeque<(Arc<str>, Version)>,
    is_initial_state_set: bool,
    is_connected: bool,
    replace: Replace,
    news: News,
}

/// Where the present session stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Replace {
    /// Not in a replace part.
    #[default]
    No,
    /// Staging.
    Staging,
    /// The end was sent, with this number.
    Ending(u64),
}

/// The latest draft of a key, or its removal.
#[derive(Debug)]
struct Slot {
    /// As it was when it was made: an envelope without topic, key and age, which are known or depend on when it is sent. This is what
    /// differs from the pattern.
    differences: Box<[u8]>,
    pattern: Pattern,
    is_removal: bool,
    /// When it was made: however often it is sent, it is not made again.
    made: Mono,
    version: Version,
    /// The bus may have something of this key: it was sent, or was to be removed.
    is_known: bool,
}

/// What the owner was not told yet.
#[derive(Debug, Default)]
struct News {
    connection: Option<Published>,
    refused: BTreeMap<String, String>,
    fenced: Option<String>,
}

// === impl Outbox ===

impl Outbox {
    pub(super) fn new(topic: Topic) -> Self {
        Self {
            topic,
            slots: IndexMap::default(),
            patterns: Patterns::default(),
            queue: BTreeMap::new(),
            last_version: 0,
            last_batch: 0,
            inflight: BTreeMap::new(),
            staged: IndexMap::default(),
            terminal: VecDeque::new(),
            is_initial_state_set: false,
            is_connected: false,
            replace: Replace::No,
            news: News::default(),
        }
    }

    // === what the owner does ===

    pub(super) fn set(&mut self, draft: Draft, now: Now) {
        let Draft {
            key,
            route,
            derived_from,
            trace,
            body,
        } = draft;
        let is_terminal = body.is_terminal();
        let incoming = Incoming {
            key,
            route,
            derived_from,
            produced_at: now.wall,
            age: Duration::ZERO,
            trace,
            body: Some(body),
        };
        let mut envelope = envelope::to_incoming(self.topic, &incoming);
        let said = said(&mut envelope);
        // The very check that the bus makes: there a refusal would end the session and hold up every other key.
        if let Err(error) = envelope::incoming(self.topic, envelope) {
            tracing::error!(topic = %self.topic, key = incoming.key, %error, "Draft was refused");
            self.news.refuse(incoming.key, error.to_string());
            return;
        }
        let key = self.put(&incoming.key, &said, false, now.mono);
        if is_terminal {
            self.terminal.push_back((key, self.last_version));
            self.forget_old_outcomes();
            self.forget_waiting_outcomes(now);
        }
    }

    pub(super) fn remove(&mut self, key: &str, now: Now) {
        let route = match self.slots.get(key) {
            Some(slot) if slot.is_removal => return,
            // There is nothing to remove it from.
            Some(slot) if !slot.is_known => {
                let version = slot.version;
                self.queue.remove(&version);
                self.drop_slot(key);
                return;
            }
            Some(slot) => slot.envelope().route,
            None => String::new(),
        };
        if let Err(error) = envelope::check_key(self.topic, key) {
            self.news.refuse(key.to_owned(), error.to_string());
            return;
        }
        let incoming = Incoming {
            key: key.to_owned(),
            route,
            derived_from: Origin::default(),
            produced_at: now.wall,
            age: Duration::ZERO,
            trace: None,
            body: None,
        };
        let said = said(&mut envelope::to_incoming(self.topic, &incoming));
        self.put(key, &said, true, now.mono);
    }

    fn put(&mut self, key: &str, said: &[u8], is_removal: bool, made: Mono) -> Arc<str> {
        self.last_version += 1;
        let version = self.last_version;
        let (pattern, differences) = self.patterns.keep(said);
        let known = self.slots.get_key_value(key);
        let is_known = known.is_some_and(|(_, slot)| slot.is_known || slot.is_removal);
        let key = known.map_or_else(|| Arc::from(key), |(key, _)| Arc::clone(key));
        let slot = Slot {
            pattern,
            differences: differences.into_boxed_slice(),
            is_removal,
            made,
            version,
            is_known,
        };
        if let Some(superseded) = self.slots.insert(Arc::clone(&key), slot) {
            self.queue.remove(&superseded.version);
        }
        self.queue.insert(version, Arc::clone(&key));
        key
    }

    fn drop_slot(&mut self, key: &str) {
        self.slots.swap_remove(key);
        self.give_room_back();
    }

    /// The room that a burst took is given back when it is four times what is used.
    fn give_room_back(&mut self) {
        let used = self.slots.len().max(FEW_SLOTS);
        if self.slots.capacity() > 4 * used {
            self.slots.shrink_to(2 * used);
        }
    }

    /// Outcomes that are on the bus are forgotten beyond their bound, oldest first.
    fn forget_old_outcomes(&mut self) {
        while self.terminal.len() > TERMINAL_KEPT {
            let Some((key, version)) = self.terminal.front() else { return };
            let is_latest = self.is_latest(key, *version);
            if is_latest && self.is_on_its_way(key, *version) {
                return;
            }
            let Some((key, _)) = self.terminal.pop_front() else { return };
            if is_latest {
                self.drop_slot(&key);
            }
        }
    }

    /// The same of those that wait while there is no bus to send them to.
    fn forget_waiting_outcomes(&mut self, now: Now) {
        while !self.is_connected && self.terminal.len() > TERMINAL_WAITING {
            let Some((key, version)) = self.terminal.pop_front() else {
                return;
            };
            if self.is_latest(&key, version) && self.is_on_its_way(&key, version) {
                // What the bus may have of it is not true any more.
                self.remove(&key, now);
            } else if self.is_latest(&key, version) {
                self.drop_slot(&key);
            }
        }
    }

    fn is_latest(&self, key: &str, version: Version) -> bool {
        self.slots.get(key).is_some_and(|slot| slot.version == version)
    }

    fn is_on_its_way(&self, key: &str, version: Version) -> bool {
        self.queue.contains_key(&version) || self.is_sent(key, version)
    }

    fn is_sent(&self, key: &str, version: Version) -> bool {
        let mut sent = self.inflight.values().flatten();
        self.staged.get(key) == Some(&version)
            || sent.any(|(sent_key, sent_version)| *sent_version == version && **sent_key == *key)
    }

    pub(super) fn complete(&mut self) {
        self.is_initial_state_set = true;
    }

    /// There is news for the owner.
    pub(super) fn has_news(&self) -> bool {
        let News {
            connection,
            refused,
            fenced,
        } = &self.news;
        connection.is_some() || !refused.is_empty() || fenced.is_some()
    }

    /// The next news for the owner.
    pub(super) fn next_news(&mut self) -> Option<Published> {
        self.news.next()
    }

    /// Everything that was set is on the bus.
    pub(super) fn is_settled(&self) -> bool {
        let is_ended = self.replace == Replace::No || !self.is_initial_state_set;
        self.is_connected && is_ended && self.queue.is_empty() && self.inflight.is_empty() && self.staged.is_empty()
    }

    // === what the session does ===

    /// A session was opened. With `replace` everything is sent again, otherwise what was not acknowledged.
    pub(super) fn connected(&mut self, incarnation: &str, replace: bool) {
        self.is_connected = true;
        self.news.connection = Some(Published::Connected {
            incarnation: incarnation.to_owned(),
        });
        let unacknowledged = take(&mut self.inflight).into_values().flatten();
        let unacknowledged: Sent = unacknowledged.chain(take(&mut self.staged)).collect();
        self.replace = Replace::No;
        if replace {
            self.replace = Replace::Staging;
            let topic = self.topic;
            self.slots
                .retain(|key, slot| !slot.is_removal || outlives_replace(topic, key));
            self.give_room_back();
            for (key, slot) in &mut self.slots {
                slot.is_known &= outlives_replace(topic, key);
            }
            self.queue = self.slots.iter().map(|(key, slot)| (slot.version, Arc::clone(key))).collect();
            return;
        }
        for (key, version) in unacknowledged {
            if self.slots.get(&key).is_some_and(|slot| slot.version == version) {
                self.queue.insert(version, key);
            }
        }
    }

    /// The session broke.
    pub(super) fn disconnected(&mut self) {
        if take(&mut self.is_connected) {
            self.news.connection = Some(Published::Lost);
        }
    }

    /// Another producer took over.
    pub(super) fn fenced(&mut self, detail: String) {
        self.is_connected = false;
        self.news.fenced = Some(detail);
    }

    /// What to send next, if anything is to be sent now.
    pub(super) fn next_step(&mut self, now: Mono) -> Option<Step> {
        if self.inflight.len() >= WINDOW || matches!(self.replace, Replace::Ending(_)) {
            return None;
        }
        if !self.queue.is_empty() {
            return Some(Step::Batch(self.next_batch(now)));
        }
        let is_replaced = self.replace == Replace::Staging && self.is_initial_state_set && self.inflight.is_empty();
        is_replaced.then(|| {
            self.last_batch += 1;
            self.replace = Replace::Ending(self.last_batch);
            Step::EndReplace(pb::EndReplace { id: self.last_batch })
        })
    }

    fn next_batch(&mut self, now: Mono) -> pb::Batch {
        let (mut records, mut sent, mut bytes) = (Vec::new(), Vec::new(), 0);
        while records.len() < BATCH_RECORDS && bytes < BATCH_BYTES {
            let Some((version, key)) = self.queue.pop_first() else { break };
            let Some(slot) = self.slots.get_mut(&key) else { continue };
            slot.is_known = true;
            let rest = pb::Envelope {
                topic: self.topic.to_string(),
                key: key.to_string(),
                age: Some(scalar::to_duration(now.saturating_since(slot.made))),
                ..pb::Envelope::default()
            };
            let record = envelope::joined(slot.message(rest.encoded_len()), &rest);
            bytes += record.len();
            records.push(record);
            sent.push((key, version));
        }
        self.last_batch += 1;
        self.inflight.insert(self.last_batch, sent);
        pb::Batch {
            id: self.last_batch,
            records,
        }
    }

    /// The bus acknowledged. True if that ended the replace part.
    pub(super) fn acknowledged(&mut self, id: u64) -> bool {
        if self.replace == Replace::Ending(id) {
            self.replace = Replace::No;
            let staged = take(&mut self.staged);
            self.are_on_the_bus(staged);
            return true;
        }
        let Some(sent) = self.inflight.remove(&id) else { return false };
        if self.replace == Replace::Staging {
            self.staged.extend(sent);
        } else {
            self.are_on_the_bus(sent);
        }
        false
    }

    fn are_on_the_bus(&mut self, sent: impl IntoIterator<Item = (Arc<str>, Version)>) {
        for (key, version) in sent {
            // If it was not superseded meanwhile.
            let is_removed = |slot: &Slot| slot.version == version && slot.is_removal;
            if self.slots.get(&key).is_some_and(is_removed) {
                self.drop_slot(&key);
            }
        }
        self.forget_old_outcomes();
    }
}

/// What is kept of an envelope, which is left as it is.
fn said(envelope: &mut pb::Envelope) -> Vec<u8> {
    let (topic, key, age) = (take(&mut envelope.topic), take(&mut envelope.key), take(&mut envelope.age));
    let said = envelope.encode_to_vec();
    (envelope.topic, envelope.key, envelope.age) = (topic, key, age);
    said
}

/// True if a replace that does not mention the key may leave it: terminal pod outcomes are exempt.
fn outlives_replace(topic: Topic, key: &str) -> bool {
    topic == Topic::EvictionOutcomes && key.starts_with("pod/")
}

// === impl Slot ===

impl Slot {
    /// The envelope, without topic, key and age.
    fn envelope(&self) -> pb::Envelope {
        pb::Envelope::decode(&*self.message(0)).expect("it was encoded here")
    }

    /// The same, encoded, with room for so much more.
    fn message(&self, room: usize) -> Vec<u8> {
        self.pattern.message(&self.differences, room)
    }
}

// === impl News ===

impl News {
    fn refuse(&mut self, key: String, detail: String) {
        if self.refused.len() < REFUSED_KEPT || self.refused.contains_key(&key) {
            self.refused.insert(key, detail);
        }
    }

    fn next(&mut self) -> Option<Published> {
        if let Some(connection) = self.connection.take() {
            return Some(connection);
        }
        if let Some((key, detail)) = self.refused.pop_first() {
            return Some(Published::Refused { key, detail });
        }
        self.fenced.take().map(|detail| Published::Fenced { detail })
    }
}

#[cfg(test)]
mod tests;
