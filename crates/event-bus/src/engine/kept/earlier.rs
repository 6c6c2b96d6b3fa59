//! Earlier records of a key: little of it changes from one to the next, and seldom does anybody ask.

use std::sync::Arc;

use bailiff_model::{Mono, Revision};
use prost::Message as _;
use prost::encoding::{decode_varint, encode_varint};
use prost_types::Timestamp;

use super::{By, Kept, Said, join};
use crate::alike::differences;
use crate::record::TombstoneReason;
use crate::wire::{Twin as _, scalar};

/// What a record counts for where the number of bytes is bounded, apart from what is encoded.
const OVERHEAD: usize = 160;

/// Earlier records of a key, oldest first, each as it differs from the one that superseded it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::engine) struct Earlier {
    /// Of each its revision, how long it was, the length of what follows, and a [`Superseded`].
    encoded: Box<[u8]>,
}

/// A record, without its revision, as it differs from the one that superseded it.
#[derive(Clone, PartialEq, prost::Message)]
struct Superseded {
    /// In nanoseconds.
    #[prost(uint64, tag = "1")]
    received_at: u64,
    #[prost(message, optional, tag = "2")]
    produced_at: Option<Timestamp>,
    /// In nanoseconds.
    #[prost(uint64, tag = "3")]
    age: u64,
    /// 0: it was none.
    #[prost(int32, tag = "4")]
    tombstone: i32,
    #[prost(bool, tag = "5")]
    is_terminal: bool,
    #[prost(bytes = "vec", tag = "6")]
    said: Vec<u8>,
    /// If it was another one.
    #[prost(string, optional, tag = "7")]
    route: Option<String>,
    /// If it was another one.
    #[prost(message, optional, tag = "8")]
    by: Option<By>,
}

// === impl Earlier ===

impl Earlier {
    pub(in crate::engine) fn len(&self) -> usize {
        self.entries().count()
    }

    /// What they count for where the number of bytes is bounded: each as much as if it were whole, as it is where it is stored, and read.
    /// The same on every machine: replicas have to agree.
    pub(in crate::engine) fn bytes(&self) -> usize {
        self.entries().map(|entry| OVERHEAD + entry.whole).sum()
    }

    /// The revision of the oldest.
    pub(in crate::engine) fn oldest(&self) -> Option<Revision> {
        self.entries().next().map(|entry| entry.revision)
    }

    /// Adds a record that another one of the same key superseded: this one, the latest.
    pub(in crate::engine) fn push(&mut self, superseded: &Kept, latest: &Kept) {
        let differing = Superseded::of(superseded, latest);
        let mut encoded = Vec::with_capacity(self.encoded.len() + 30 + differing.encoded_len());
        encoded.extend_from_slice(&self.encoded);
        encode_varint(superseded.revision.0, &mut encoded);
        encode_varint(superseded.said.len() as u64, &mut encoded);
        differing
            .encode_length_delimited(&mut encoded)
            .expect("a vector has room for everything");
        self.encoded = encoded.into_boxed_slice();
    }

    pub(in crate::engine) fn forget_oldest(&mut self) {
        let mut entries = self.entries();
        if entries.next().is_some() {
            self.encoded = entries.rest.into();
        }
    }

    /// All of them again, before the latest record of their key.
    pub(in crate::engine) fn records(&self, latest: &Arc<Kept>) -> Vec<Arc<Kept>> {
        let entries: Vec<Entry<'_>> = self.entries().collect();
        let mut records = Vec::with_capacity(entries.len());
        let mut next = Arc::clone(latest);
        for entry in entries.into_iter().rev() {
            let superseded = Superseded::decode(entry.encoded)
                .ok()
                .and_then(|superseded| superseded.restored(entry.revision, &next));
            next = Arc::new(superseded.expect("it was encoded here"));
            records.push(Arc::clone(&next));
        }
        records.reverse();
        records
    }

    fn entries(&self) -> Entries<'_> {
        Entries { rest: &self.encoded }
    }
}

/// One of them.
struct Entry<'a> {
    revision: Revision,
    /// How many bytes it was, key included.
    whole: usize,
    encoded: &'a [u8],
}

struct Entries<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Entries<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut number = || decode_varint(&mut self.rest).ok();
        let (revision, whole, len) = (number()?, number()?, number()?);
        let (encoded, rest) = self.rest.split_at_checked(usize::try_from(len).ok()?)?;
        self.rest = rest;
        Some(Entry {
            revision: Revision(revision),
            whole: usize::try_from(whole).ok()?,
            encoded,
        })
    }
}

// === impl Superseded ===

impl Superseded {
    fn of(kept: &Kept, next: &Kept) -> Self {
        let (said, by) = (&kept.said, &kept.by);
        Self {
            received_at: kept.received_at.as_nanos(),
            produced_at: Some(scalar::to_time(said.produced_at)),
            age: said.age,
            tombstone: said.tombstone.map_or(0, TombstoneReason::to_wire),
            is_terminal: said.is_terminal,
            said: differences::of(&said.message(0), &next.said.message(0)),
            route: (said.route != next.said.route).then(|| said.route.to_string()),
            by: (*by != next.by).then(|| By::clone(by)),
        }
    }

    fn restored(self, revision: Revision, next: &Kept) -> Option<Kept> {
        let key = next.said.key_bytes();
        let tombstone = match self.tombstone {
            0 => None,
            reason => Some(TombstoneReason::from_wire("tombstone", reason).ok()?),
        };
        let message = differences::applied(&self.said, &next.said.message(0), 0)?;
        let pattern = next.said.pattern.clone();
        Some(Kept {
            said: Said {
                bytes: join(key, &pattern.differences(&message)),
                pattern,
                key_len: next.said.key_len,
                topic: next.said.topic,
                is_terminal: self.is_terminal,
                tombstone,
                route: self.route.map_or_else(|| Arc::clone(&next.said.route), Arc::from),
                produced_at: scalar::time("produced_at", self.produced_at).ok()?,
                age: self.age,
            },
            revision,
            by: self.by.map_or_else(|| Arc::clone(&next.by), Arc::new),
            received_at: Mono::from_nanos(self.received_at),
        })
    }
}
