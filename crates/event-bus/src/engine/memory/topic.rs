//! One topic: the latest record per key, the index by revision, the shard layout.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;
use std::sync::Arc;

use bailiff_model::{Now, Revision, Shared, Topic};

use super::index::{ByKey, History, Place};
use super::session::Session;
use super::shard::Shard;
use crate::alike::Patterns;
use crate::engine::kept::{By, Earlier, Kept, Said};
use crate::engine::{Limits, SessionId, TopicFigures};
use crate::record::{Incoming, ShardStatus, TombstoneReason};

/// A topic.
#[derive(Clone, Debug)]
pub(super) struct TopicState {
    topic: Topic,
    /// The latest record of each key.
    entries: BTreeMap<ByKey<Arc<Kept>>, Rest>,
    /// The same by their places, tombstones included.
    by_revision: BTreeSet<Place>,
    /// Those that are tombstones.
    pub(super) tombstones: BTreeSet<Place>,
    /// Those that are terminal outcomes.
    pub(super) terminal: BTreeSet<Place>,
    /// Of keys that have earlier records.
    pub(super) histories: BTreeSet<History>,
    /// How many those are.
    superseded: usize,
    /// What they count, in bytes.
    pub(super) history_bytes: usize,
    /// Routes: there are few.
    pub(super) routes: Shared<str>,
    /// What records are kept by.
    pub(super) patterns: Patterns,
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

/// What is kept of a key besides its latest record.
#[derive(Clone, Debug, Default)]
pub(super) struct Rest {
    /// Earlier records. Many keys have none.
    pub(super) earlier: Earlier,
    /// Layout in which it was last mentioned.
    pub(super) generation: u64,
    /// The key had another route once: a filter may have to be told that it left.
    pub(super) has_strayed: bool,
}

/// Who writes, and where in the sequence.
#[derive(Clone, Debug)]
pub(super) struct Stamp {
    pub(super) revision: Revision,
    pub(super) by: Arc<By>,
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

// === impl Rest ===

impl Rest {
    /// Every record of the key whose latest this is, oldest first.
    pub(super) fn records(&self, latest: &Arc<Kept>) -> Vec<Arc<Kept>> {
        let mut records = self.earlier.records(latest);
        records.push(Arc::clone(latest));
        records
    }
}

fn history_of(latest: &Arc<Kept>, earlier: &Earlier) -> Option<History> {
    earlier.oldest().map(|oldest| (oldest, ByKey(Arc::clone(latest))))
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
            histories: BTreeSet::new(),
            superseded: 0,
            history_bytes: 0,
            routes: Shared::default(),
            patterns: Patterns::default(),
            layout: Layout::default(),
            epochs: BTreeMap::new(),
        }
    }

    pub(super) fn live_keys(&self) -> usize {
        self.entries.len() - self.tombstones.len()
    }

    pub(super) fn is_live(&self, key: &str) -> bool {
        let known = self.entries.get_key_value(key.as_bytes());
        known.is_some_and(|(latest, _)| latest.0.tombstone().is_none())
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = (&Arc<Kept>, &Rest)> {
        self.entries.iter().map(|(latest, rest)| (&latest.0, rest))
    }

    /// Latest records after `revision`, in rising order.
    pub(super) fn latest_after(&self, revision: Revision) -> impl Iterator<Item = &Arc<Kept>> {
        let first = Place::before(Revision(revision.0.saturating_add(1)));
        self.by_revision.range(first..).map(|place| &place.0)
    }

    /// The key of this record had another route once.
    pub(super) fn has_strayed(&self, latest: &Kept) -> bool {
        let rest = self.entries.get(latest.said.key_bytes());
        rest.is_some_and(|rest| rest.has_strayed)
    }

    /// What a producer says, as it is kept.
    pub(super) fn said(&mut self, incoming: &Incoming) -> Said {
        Said::of(self.topic, incoming, &mut self.routes, &mut self.patterns)
    }

    /// Writes what a producer published. The same content again changes nothing; nor does the removal of what is not there.
    /// Returns the revision at which the key stands, or `None` if it is unknown and stays so.
    pub(super) fn write(&mut self, mut said: Said, stamp: &Stamp, limits: &Limits, now: Now) -> Option<Revision> {
        let generation = self.layout.generation;
        let is_removal = said.tombstone.is_some();
        let latest = self.entries.get_key_value(said.key_bytes()).map(|(latest, _)| &latest.0);
        match latest {
            None if is_removal => return None,
            None => {}
            Some(latest) => {
                if is_removal && said.route.is_empty() {
                    said.route = Arc::clone(&latest.said.route);
                }
                let are_gone = is_removal && latest.tombstone().is_some();
                if are_gone || (said.is_same(&latest.said) && stamp.by.shard == latest.by.shard) {
                    let revision = latest.revision;
                    if let Some(rest) = self.entries.get_mut(said.key_bytes()) {
                        rest.generation = generation;
                    }
                    return Some(revision);
                }
            }
        }
        self.put(said, stamp, limits, now);
        Some(stamp.revision)
    }

    /// Tombstones a live key, whose latest record this is, on the bus's own account.
    pub(super) fn bury(&mut self, latest: &Kept, reason: TombstoneReason, stamp: &Stamp, limits: &Limits, now: Now) {
        self.put(latest.said.buried(reason, now.wall), stamp, limits, now);
    }

    fn put(&mut self, said: Said, stamp: &Stamp, limits: &Limits, now: Now) {
        let known = self.entries.remove_entry(said.key_bytes());
        let latest = Arc::new(Kept {
            said,
            revision: stamp.revision,
            by: Arc::clone(&stamp.by),
            received_at: now.mono,
        });
        let mut rest = Rest::default();
        if let Some((ByKey(previous), known)) = known {
            rest = known;
            rest.has_strayed |= previous.said.route != latest.said.route;
            let place = Place(Arc::clone(&previous));
            self.by_revision.remove(&place);
            self.tombstones.remove(&place);
            self.terminal.remove(&place);
            self.unlist(&previous, &rest.earlier);
            rest.earlier.push(&previous, &latest);
            for _ in limits.history.max(1)..=rest.earlier.len() {
                rest.earlier.forget_oldest();
            }
            self.list(&latest, &rest.earlier);
        }
        rest.generation = self.layout.generation;
        self.index(&latest);
        self.entries.insert(ByKey(latest), rest);
    }

    /// Takes a key as it was kept elsewhere.
    pub(super) fn restore(&mut self, latest: Arc<Kept>, rest: Rest) {
        self.list(&latest, &rest.earlier);
        self.index(&latest);
        self.entries.insert(ByKey(latest), rest);
    }

    fn index(&mut self, latest: &Arc<Kept>) {
        let place = Place(Arc::clone(latest));
        if latest.tombstone().is_some() {
            self.tombstones.insert(place.clone());
        } else if latest.said.is_terminal {
            self.terminal.insert(place.clone());
        }
        self.by_revision.insert(place);
    }

    /// Adds earlier records of a key, whose latest this is, to what is kept of all keys.
    fn list(&mut self, latest: &Arc<Kept>, earlier: &Earlier) {
        if let Some(history) = history_of(latest, earlier) {
            self.histories.insert(history);
            self.superseded += earlier.len();
            self.history_bytes += earlier.bytes();
        }
    }

    fn unlist(&mut self, latest: &Arc<Kept>, earlier: &Earlier) {
        if history_of(latest, earlier).is_some_and(|history| self.histories.remove(&history)) {
            self.superseded -= earlier.len();
            self.history_bytes -= earlier.bytes();
        }
    }

    /// Forgets a tombstone and the key's history.
    pub(super) fn forget(&mut self, place: &Place) {
        if let Some(rest) = self.entries.remove(place.0.said.key_bytes()) {
            self.unlist(&place.0, &rest.earlier);
        }
        self.by_revision.remove(place);
        self.tombstones.remove(place);
    }

    /// Forgets the oldest of a key's earlier records.
    pub(super) fn forget_earlier(&mut self, (_, ByKey(latest)): &History) {
        let Some(rest) = self.entries.get_mut(latest.said.key_bytes()) else {
            return;
        };
        let mut earlier = take(&mut rest.earlier);
        self.unlist(latest, &earlier);
        earlier.forget_oldest();
        self.list(latest, &earlier);
        if let Some(rest) = self.entries.get_mut(latest.said.key_bytes()) {
            rest.earlier = earlier;
        }
    }

    pub(super) fn history(&self, key: &str) -> Vec<Arc<Kept>> {
        let known = self.entries.get_key_value(key.as_bytes());
        let kept = known.map(|(latest, rest)| rest.records(&latest.0));
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

    /// Figures of the topic, which may have so many keys.
    pub(super) fn figures(&self, sessions: &BTreeMap<SessionId, Session>, most_keys: usize) -> TopicFigures {
        TopicFigures {
            topic: self.topic,
            keys: self.live_keys(),
            most_keys,
            tombstones: self.tombstones.len(),
            records: self.entries.len() + self.superseded,
            sessions: sessions.values().filter(|session| session.topic == self.topic).count(),
        }
    }
}
