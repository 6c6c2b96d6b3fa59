//! One topic: the latest record per key, the index by revision, the shard layout.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bailiff_model::{Incarnation, Mono, Now, Origin, Revision, Topic};

use super::session::Session;
use super::shard::Shard;
use crate::engine::{Limits, SessionId, TopicFigures};
use crate::record::{Incoming, Record, ShardStatus, TombstoneReason};

/// A place in an index: rising by revision, one replace after another by key.
pub(super) type Place = (Revision, Arc<str>);

/// A topic.
#[derive(Clone, Debug)]
pub(super) struct TopicState {
    topic: Topic,
    entries: BTreeMap<Arc<str>, Entry>,
    /// Every entry by its latest record, tombstones included.
    by_revision: BTreeSet<Place>,
    /// Entries that are tombstones.
    pub(super) tombstones: BTreeSet<Place>,
    /// Entries that are terminal outcomes.
    pub(super) terminal: BTreeSet<Place>,
    /// Records kept, history included.
    records: usize,
    pub(super) layout: Layout,
    /// Lowest epoch each shard accepts. Outlives layouts: epochs only grow.
    pub(super) epochs: BTreeMap<u32, u64>,
}

/// The shards of a topic.
#[derive(Clone, Debug, Default)]
pub(super) struct Layout {
    /// Number of the layout; 0 before the first.
    pub(super) generation: u64,
    /// All shards, from 0, without gaps.
    pub(super) shards: BTreeMap<u32, Shard>,
    /// Records of an older layout stand until every shard of this one is complete.
    pub(super) is_settling: bool,
}

/// All that is kept of a key.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// Oldest first, the latest record last; never empty.
    pub(super) records: VecDeque<Arc<Record>>,
    /// Layout in which it was last mentioned.
    pub(super) generation: u64,
    /// When the latest record was made, by the bus's clock.
    pub(super) since: Mono,
    /// The key had another route once: a filter may have to be told that it left.
    pub(super) has_strayed: bool,
}

/// Who writes, and where in the sequence.
#[derive(Clone, Debug)]
pub(super) struct Stamp {
    pub(super) revision: Revision,
    pub(super) epoch: u64,
    pub(super) shard: u32,
    pub(super) producer: String,
}

// === impl Entry ===

impl Entry {
    pub(super) fn latest(&self) -> &Arc<Record> {
        self.records.back().expect("an entry holds at least its latest record")
    }
}

// === impl Layout ===

impl Layout {
    pub(super) fn shard_count(&self) -> u32 {
        u32::try_from(self.shards.len()).expect("bounded by Limits::shards")
    }

    pub(super) fn is_complete(&self) -> bool {
        self.shards.values().all(|shard| shard.complete)
    }
}

// === impl TopicState ===

impl TopicState {
    pub(super) fn new(topic: Topic) -> Self {
        Self {
            topic,
            entries: BTreeMap::new(),
            by_revision: BTreeSet::new(),
            tombstones: BTreeSet::new(),
            terminal: BTreeSet::new(),
            records: 0,
            layout: Layout::default(),
            epochs: BTreeMap::new(),
        }
    }

    pub(super) fn live_keys(&self) -> usize {
        self.entries.len() - self.tombstones.len()
    }

    pub(super) fn is_live(&self, key: &str) -> bool {
        self.entries.get(key).is_some_and(|entry| entry.latest().body.is_some())
    }

    pub(super) fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries.get(key)
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = (&Arc<str>, &Entry)> {
        self.entries.iter()
    }

    /// Entries whose latest record is after `revision`, in rising order.
    pub(super) fn entries_after(&self, revision: Revision) -> impl Iterator<Item = &Entry> {
        let first = (Revision(revision.0.saturating_add(1)), Arc::from(""));
        let places = self.by_revision.range(first..);
        places.map(|(_, key)| self.entries.get(key).expect("the index names entries only"))
    }

    /// Writes what a producer published. The same content again changes nothing; nor does the removal of what is not there.
    /// Returns the revision at which the key stands, or `None` if it is unknown and stays so.
    pub(super) fn write(&mut self, incoming: Incoming, stamp: &Stamp, limits: &Limits, now: Now) -> Option<Revision> {
        let generation = self.layout.generation;
        let known = self.entries.get_mut(incoming.key.as_str());
        if incoming.body.is_none() && known.is_none() {
            return None;
        }
        let mut route = incoming.route;
        if let Some(entry) = known {
            let latest = entry.latest();
            if incoming.body.is_none() && route.is_empty() {
                route = latest.route.clone();
            }
            let is_same = match (&incoming.body, &latest.body) {
                (None, None) => true,
                (new, old) => {
                    let said = (&route, &incoming.derived_from, incoming.trace, stamp.shard);
                    new == old && said == (&latest.route, &latest.derived_from, latest.trace, latest.shard)
                }
            };
            if is_same {
                let revision = latest.revision;
                entry.generation = generation;
                return Some(revision);
            }
        }
        let tombstone = incoming.body.is_none().then_some(TombstoneReason::Withdrawn);
        let record = Record {
            topic: self.topic,
            key: incoming.key,
            route,
            incarnation: Incarnation::default(),
            revision: stamp.revision,
            derived_from: incoming.derived_from,
            epoch: stamp.epoch,
            shard: stamp.shard,
            producer: stamp.producer.clone(),
            produced_at: incoming.produced_at,
            age: Some(incoming.age),
            received_at: now.mono,
            trace: incoming.trace,
            body: incoming.body,
            tombstone,
        };
        self.put(record, generation, limits, now.mono);
        Some(stamp.revision)
    }

    /// Tombstones a live key on the bus's own account.
    pub(super) fn bury(&mut self, key: &str, reason: TombstoneReason, stamp: &Stamp, limits: &Limits, now: Now) {
        let Some(entry) = self.entries.get(key) else { return };
        let latest = entry.latest();
        let record = Record {
            revision: stamp.revision,
            derived_from: Origin::default(),
            epoch: stamp.epoch,
            shard: stamp.shard,
            producer: stamp.producer.clone(),
            produced_at: now.wall,
            age: Some(Duration::ZERO),
            received_at: now.mono,
            body: None,
            tombstone: Some(reason),
            ..Record::clone(latest)
        };
        self.put(record, self.layout.generation, limits, now.mono);
    }

    fn put(&mut self, record: Record, generation: u64, limits: &Limits, now: Mono) {
        let key: Arc<str> = Arc::from(record.key.as_str());
        let mut entry = self.entries.remove(&key).unwrap_or_else(|| Entry {
            records: VecDeque::with_capacity(1),
            generation,
            since: now,
            has_strayed: false,
        });
        if let Some(previous) = entry.records.back() {
            entry.has_strayed |= previous.route != record.route;
            let place = (previous.revision, Arc::clone(&key));
            self.by_revision.remove(&place);
            self.tombstones.remove(&place);
            self.terminal.remove(&place);
        }
        let place = (record.revision, Arc::clone(&key));
        match &record.body {
            None => drop(self.tombstones.insert(place.clone())),
            Some(body) if body.is_terminal() => drop(self.terminal.insert(place.clone())),
            Some(_) => {}
        }
        self.by_revision.insert(place);
        entry.records.push_back(Arc::new(record));
        self.records += 1;
        while entry.records.len() > limits.history {
            entry.records.pop_front();
            self.records -= 1;
        }
        (entry.generation, entry.since) = (generation, now);
        self.entries.insert(key, entry);
    }

    /// Takes an entry as it was kept elsewhere; one without a record is none.
    pub(super) fn restore(&mut self, entry: Entry) {
        let Some(latest) = entry.records.back() else { return };
        let key: Arc<str> = Arc::from(latest.key.as_str());
        let place = (latest.revision, Arc::clone(&key));
        match &latest.body {
            None => drop(self.tombstones.insert(place.clone())),
            Some(body) if body.is_terminal() => drop(self.terminal.insert(place.clone())),
            Some(_) => {}
        }
        self.by_revision.insert(place);
        self.records += entry.records.len();
        self.entries.insert(key, entry);
    }

    /// Forgets a tombstone and the key's history.
    pub(super) fn forget(&mut self, place: &Place) {
        let removed = self.entries.remove(&place.1);
        self.records -= removed.map_or(0, |entry| entry.records.len());
        self.by_revision.remove(place);
        self.tombstones.remove(place);
    }

    pub(super) fn history(&self, key: &str) -> Vec<Arc<Record>> {
        let kept = self.entries.get(key).map(|entry| entry.records.iter().cloned().collect());
        kept.unwrap_or_default()
    }

    pub(super) fn statuses(&self, limits: &Limits, now: Now) -> Vec<ShardStatus> {
        self.statuses_after(None, limits, now)
    }

    /// States of the shards that changed after `revision`; of all shards if it is `None`.
    pub(super) fn statuses_after(&self, revision: Option<Revision>, limits: &Limits, now: Now) -> Vec<ShardStatus> {
        let shard_count = self.layout.shard_count();
        let shards = self.layout.shards.iter();
        let changed = shards.filter(|(_, shard)| revision.is_none_or(|revision| shard.revision > revision));
        let to_status = |(number, shard): (&u32, &Shard)| ShardStatus {
            topic: self.topic,
            shard: *number,
            shard_count,
            epoch: shard.epoch,
            complete: shard.complete,
            live: shard.is_live(limits, now.mono),
            lag: shard.lag(now.mono),
            producer: shard.producer.clone(),
            detail: shard.why_not_live(limits, now.mono),
        };
        changed.map(to_status).collect()
    }

    pub(super) fn figures(&self, sessions: &BTreeMap<SessionId, Session>) -> TopicFigures {
        TopicFigures {
            topic: self.topic,
            keys: self.live_keys(),
            tombstones: self.tombstones.len(),
            records: self.records,
            sessions: sessions.values().filter(|session| session.topic == self.topic).count(),
        }
    }
}
