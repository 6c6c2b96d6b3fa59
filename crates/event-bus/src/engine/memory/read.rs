//! Reading: everything after a position, as one atomic set.

use std::sync::Arc;

use bailiff_model::{Now, Revision};

use super::Memory;
use super::topic::TopicState;
use crate::engine::kept::Kept;
use crate::engine::{Position, Selection, Set, SnapshotReason};

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
            let latest = state.latest_after(after);
            set.records
                .extend(latest.filter_map(|latest| deliver(state, latest, selection, is_snapshot)));
            let since = (!is_snapshot).then_some(after);
            set.shards.extend(state.statuses_after(since, &self.limits, now));
        }
        // Each topic is in order already; the sort is stable and merges runs.
        set.records.sort_by_key(|record| record.revision);
        set
    }
}

/// What a reader is told of a key: that it is gone, or what was said of it last, unless it asked not to hear who said it. A reader that
/// filters is told of a key outside its filter only if that key may once have been inside; the removal of a key that it never saw does no
/// harm.
fn deliver(state: &TopicState, latest: &Arc<Kept>, selection: &Selection, is_snapshot: bool) -> Option<Arc<Kept>> {
    let is_gone = latest.tombstone().is_some();
    if is_snapshot && is_gone {
        return None;
    }
    if selection.passes(latest.topic(), &latest.said.route) {
        let is_left_out = |speaker| !is_gone && latest.is_by(speaker);
        return (!selection.except.as_ref().is_some_and(is_left_out)).then(|| Arc::clone(latest));
    }
    if is_snapshot || !state.has_strayed(latest) {
        return None;
    }
    Some(Arc::new(Kept {
        said: latest.said.left(),
        revision: latest.revision,
        by: Arc::clone(&latest.by),
        received_at: latest.received_at,
    }))
}
