//! Records as an engine keeps them: encoded. A body takes several times as much in its domain form, and nobody here looks into it.

use std::sync::Arc;
use std::time::Duration;

use bailiff_model::{Mono, Revision, Shared, Topic, Wall};
use bailiff_proto::v1 as pb;
use bytes::Bytes;
use prost::Message as _;

mod earlier;

pub(super) use self::earlier::Earlier;
use super::Speaker;
use crate::alike::{Pattern, Patterns, differences};
use crate::record::{Incoming, Record, TombstoneReason};
use crate::wire::{self, Wire, envelope, scalar};

/// A record with its place in the sequence.
#[derive(Debug, PartialEq, Eq)]
pub struct Kept {
    pub(super) said: Said,
    pub(super) revision: Revision,
    pub(super) by: Arc<By>,
    /// When it came, by the bus's clock.
    pub(super) received_at: Mono,
}

/// What was said of a key.
#[derive(Clone, Debug)]
pub(super) struct Said {
    /// The key, and behind it what differs from the pattern of an envelope that holds origin, trace and body, but no tombstone.
    bytes: Box<[u8]>,
    pattern: Pattern,
    /// How much of it is the key.
    key_len: u32,
    pub(super) topic: Topic,
    pub(super) is_terminal: bool,
    /// Why the key is gone, if it is.
    pub(super) tombstone: Option<TombstoneReason>,
    pub(super) route: Arc<str>,
    produced_at: Wall,
    /// How long ago that was when it came, in nanoseconds.
    age: u64,
}

/// Who said it. All records of a session share one.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, prost::Message)]
pub(super) struct By {
    #[prost(string, tag = "1")]
    pub(super) producer: String,
    #[prost(uint64, tag = "2")]
    pub(super) epoch: u64,
    #[prost(uint32, tag = "3")]
    pub(super) shard: u32,
}

// === impl Kept ===

impl Kept {
    /// What stands before all records of this revision.
    pub(super) fn before(revision: Revision) -> Self {
        Self {
            said: Said {
                bytes: Box::default(),
                pattern: Pattern::default(),
                key_len: 0,
                topic: Topic::NodeHealth,
                is_terminal: false,
                tombstone: None,
                route: Arc::default(),
                produced_at: Wall::UNIX_EPOCH,
                age: 0,
            },
            revision,
            by: Arc::default(),
            received_at: Mono::ORIGIN,
        }
    }

    /// A record that was stored as an envelope.
    pub(super) fn restored(
        stored: pb::Envelope,
        received_at: Mono,
        routes: &mut Shared<str>,
        patterns: &mut Patterns,
        writers: &mut Shared<By>,
    ) -> Result<Self, wire::Error> {
        let record = Record::try_from(Wire(stored))?;
        let by = By {
            producer: record.producer,
            epoch: record.epoch,
            shard: record.shard,
        };
        let incoming = Incoming {
            key: record.key,
            route: record.route,
            derived_from: record.derived_from,
            produced_at: record.produced_at,
            age: record.age.ok_or_else(|| wire::Error::absent("age"))?,
            trace: record.trace,
            body: record.body,
        };
        let said = Said {
            tombstone: record.tombstone,
            ..Said::of(record.topic, &incoming, routes, patterns)
        };
        Ok(Self {
            said,
            revision: record.revision,
            by: writers.share(by),
            received_at,
        })
    }

    /// Topic.
    pub const fn topic(&self) -> Topic {
        self.said.topic
    }

    /// Key within the topic.
    pub fn key(&self) -> &str {
        self.said.key()
    }

    /// Who said it is this one.
    pub(super) fn is_by(&self, speaker: &Speaker) -> bool {
        (self.by.epoch, &self.by.producer) == (speaker.epoch, &speaker.producer)
    }

    /// Position in the bus's one revision sequence.
    pub const fn revision(&self) -> Revision {
        self.revision
    }

    /// Why the key is gone; `None`: it is not.
    pub const fn tombstone(&self) -> Option<TombstoneReason> {
        self.said.tombstone
    }

    /// How old it is at `now`, by the bus's clock.
    pub const fn age_at(&self, now: Mono) -> Duration {
        let here = now.saturating_since(self.received_at);
        Duration::from_nanos(self.said.age).saturating_add(here)
    }

    /// The wire form, encoded, for delivery at `now`, by the bus's clock. What was said is passed on as it was encoded when it came.
    pub fn encoded(&self, now: Mono) -> Bytes {
        let rest = pb::Envelope {
            topic: self.said.topic.to_string(),
            key: self.key().to_owned(),
            route: self.said.route.to_string(),
            produced_at: Some(scalar::to_time(self.said.produced_at)),
            revision: self.revision.0,
            epoch: self.by.epoch,
            producer: self.by.producer.clone(),
            shard: self.by.shard,
            age: Some(scalar::to_duration(self.age_at(now))),
            body: self.said.tombstone.map(envelope::to_tombstone),
            ..pb::Envelope::default()
        };
        envelope::joined(self.said.message(rest.encoded_len()), &rest)
    }

    /// The wire form, for delivery at `now`.
    pub fn to_envelope(&self, now: Mono) -> pb::Envelope {
        pb::Envelope::decode(self.encoded(now)).expect("it was encoded here")
    }

    /// The domain form.
    ///
    /// # Errors
    /// What the engine was given breaks the contract.
    pub fn to_record(&self) -> Result<Record, wire::Error> {
        let record = Record::try_from(Wire(self.to_envelope(self.received_at)))?;
        Ok(Record {
            received_at: self.received_at,
            ..record
        })
    }
}

// === impl Said ===

impl Said {
    /// What a producer says on `topic`.
    pub(super) fn of(topic: Topic, incoming: &Incoming, routes: &mut Shared<str>, patterns: &mut Patterns) -> Self {
        let (pattern, differences) = patterns.keep(&envelope::to_said(incoming).encode_to_vec());
        Self {
            bytes: join(incoming.key.as_bytes(), &differences),
            pattern,
            key_len: u32::try_from(incoming.key.len()).expect("a message is smaller than 4 GiB"),
            topic,
            is_terminal: incoming.body.as_ref().is_some_and(crate::record::Body::is_terminal),
            tombstone: incoming.body.is_none().then_some(TombstoneReason::Withdrawn),
            route: routes.share(incoming.route.as_str()),
            produced_at: incoming.produced_at,
            age: u64::try_from(incoming.age.as_nanos()).unwrap_or(u64::MAX),
        }
    }

    /// The removal of the same key by the bus itself.
    pub(super) fn buried(&self, reason: TombstoneReason, at: Wall) -> Self {
        let kept = pb::Envelope {
            derived_from: 0,
            derived_from_incarnation: String::new(),
            body: None,
            ..self.envelope()
        };
        Self {
            produced_at: at,
            age: 0,
            ..self.gone(reason, &kept)
        }
    }

    /// What is said to a reader whom the key has left.
    pub(super) fn left(&self) -> Self {
        let kept = pb::Envelope {
            body: None,
            ..self.envelope()
        };
        self.gone(self.tombstone.unwrap_or(TombstoneReason::LeftFilter), &kept)
    }

    fn gone(&self, reason: TombstoneReason, kept: &pb::Envelope) -> Self {
        let kept = kept.encode_to_vec();
        let pattern = self.pattern.fitting(&kept);
        Self {
            bytes: join(self.key_bytes(), &pattern.differences(&kept)),
            pattern,
            is_terminal: false,
            tombstone: Some(reason),
            ..self.clone()
        }
    }

    pub(super) fn key(&self) -> &str {
        std::str::from_utf8(self.key_bytes()).expect("it was made of text")
    }

    /// Keys in this order are in the order of their texts.
    pub(super) fn key_bytes(&self) -> &[u8] {
        &self.bytes[..self.key_len as usize]
    }

    fn differences(&self) -> &[u8] {
        &self.bytes[self.key_len as usize..]
    }

    /// How many bytes its key and its envelope are.
    fn len(&self) -> usize {
        self.key_len as usize + differences::len(self.differences())
    }

    /// The envelope, encoded, with room for so much more.
    fn message(&self, room: usize) -> Vec<u8> {
        self.pattern.message(self.differences(), room)
    }

    /// True if it is the same key, with the same content, origin and trace. Times do not matter.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let is_alike = self.pattern.is(&other.pattern) && self.differences() == other.differences();
        self.key_bytes() == other.key_bytes() && self.route == other.route && (is_alike || self.message(0) == other.message(0))
    }

    /// As a producer sent it; a removal without a body.
    pub(super) fn to_envelope(&self) -> pb::Envelope {
        pb::Envelope {
            topic: self.topic.to_string(),
            key: self.key().to_owned(),
            route: self.route.to_string(),
            produced_at: Some(scalar::to_time(self.produced_at)),
            age: Some(scalar::to_duration(Duration::from_nanos(self.age))),
            ..self.envelope()
        }
    }

    fn envelope(&self) -> pb::Envelope {
        pb::Envelope::decode(&*self.message(0)).expect("it was encoded here")
    }
}

impl PartialEq for Said {
    /// By what it says, however that is kept.
    fn eq(&self, other: &Self) -> bool {
        let facts = |said: &Self| (said.topic, said.is_terminal, said.tombstone, said.produced_at, said.age);
        facts(self) == facts(other) && self.is_same(other)
    }
}

impl Eq for Said {}

fn join(key: &[u8], differences: &[u8]) -> Box<[u8]> {
    [key, differences].concat().into_boxed_slice()
}

// === impl By ===

impl AsRef<Self> for By {
    fn as_ref(&self) -> &Self {
        self
    }
}
