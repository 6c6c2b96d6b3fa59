//! Reading: everything after a position, as one atomic set.

use std::sync::Arc;

use bailiff_model::{Now, Revision};

use super::Memory;
use super::topic::Entry;
use crate::engine::{Position, Selection, Set, SnapshotReason};
use crate::record::{Record, TombstoneReason};

impl Memory {
    pub(super) fn read_from(&self, selection: &Selection, position: Position, now: Now) -> Set {
        let (snapshot, after) = match position {
            Position::Start(reason) => (Some(reason), Revision(0)),
            Position::After(revision) if revision < self.oldest_resumable => (Some(SnapshotReason::CursorTooOld), Revision(0)),
            Position::After(revision) => (None, revision),
        };
        let is_snapshot = snapshot.is_some();
        let mut set = Set {
            snapshot,
            records: Vec::new(),
            shards: Vec::new(),
            upto: self.head,
        };
        for topic in &selection.topics {
            let state = self.topic(*topic);
            let entries = state.entries_after(after);
            set.records
                .extend(entries.filter_map(|entry| deliver(entry, selection, is_snapshot)));
            let since = (!is_snapshot).then_some(after);
            set.shards.extend(state.statuses_after(since, &self.limits, now));
        }
        // Each topic is in order already; the sort is stable and merges runs.
        set.records.sort_by_key(|record| record.revision);
        set
    }
}

/// What a reader is told of an entry. A reader that filters is told of a key outside its filter only if that key may once have
/// been inside; the removal of a key that it never saw does no harm.
fn deliver(entry: &Entry, selection: &Selection, is_snapshot: bool) -> Option<Arc<Record>> {
    let latest = entry.latest();
    if is_snapshot && latest.body.is_none() {
        return None;
    }
    if selection.passes(latest.topic, &latest.route) {
        return Some(Arc::clone(latest));
    }
    if is_snapshot || !entry.has_strayed {
        return None;
    }
    let removal = Record {
        body: None,
        tombstone: Some(latest.tombstone.unwrap_or(TombstoneReason::LeftFilter)),
        ..Record::clone(latest)
    };
    Some(Arc::new(removal))
}
