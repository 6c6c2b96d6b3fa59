//! Replace parts: staged apart, visible as one change.

use std::collections::BTreeMap;
use std::sync::Arc;

use bailiff_model::{Now, Revision};

use super::Memory;
use super::session::Session;
use super::topic::{Entry, Stamp, TopicState};
use crate::engine::{Answer, Limits, Refusal, SessionId};
use crate::record::{Incoming, TombstoneReason};

/// What a replace part staged so far: the latest of each key; removals are what it does not mention.
pub(super) type Staged = BTreeMap<String, Incoming>;

impl Memory {
    /// Stages a batch. Staged keys of all sessions are bounded as the live ones are.
    pub(super) fn stage(&mut self, id: SessionId, records: Vec<Incoming>) -> Result<Answer, Refusal> {
        let most = self.limits.keys;
        let staged_by = |session: &Session| session.staged.as_ref().map_or(0, BTreeMap::len);
        let staged_by_all: usize = self.sessions.values().map(staged_by).sum();
        let session = self.sessions.get_mut(&id).ok_or(Refusal::Ended)?;
        let staged = session.staged.as_mut().ok_or(Refusal::NotReplacing)?;
        if staged_by_all + records.len() > most {
            return Err(Refusal::Keys { most });
        }
        for incoming in records {
            if incoming.body.is_some() {
                staged.insert(incoming.key.clone(), incoming);
            } else {
                staged.remove(&incoming.key);
            }
        }
        Ok(Answer::Published { revisions: Vec::new() })
    }

    /// Makes the staged state visible as one change, with one revision, together with the shard's completeness.
    pub(super) fn end_replace(&mut self, id: SessionId, now: Now) -> Result<Answer, Refusal> {
        let most = self.limits.keys;
        let keys = self.keys();
        let revision = Revision(self.head.0 + 1);
        let session = self.sessions.get_mut(&id).ok_or(Refusal::Ended)?;
        session.heard_at = now.mono;
        let staged = session.staged.take().ok_or(Refusal::NotReplacing)?;
        let (topic, stamp) = (session.topic, session.stamp(revision));
        let limits = self.limits.clone();
        let state = self.topic_mut(topic);

        let unmentioned = unmentioned(state, stamp.shard, &staged);
        let new = staged.keys().filter(|key| !state.is_live(key)).count();
        if keys + new > most + unmentioned.len() {
            let session = self.sessions.get_mut(&id).ok_or(Refusal::Ended)?;
            session.staged = Some(staged);
            return Err(Refusal::Keys { most });
        }
        let mut changed = !unmentioned.is_empty();
        for key in unmentioned {
            state.bury(&key, TombstoneReason::Replaced, &stamp, &limits, now);
        }
        for incoming in staged.into_values() {
            changed |= state.write(incoming, &stamp, &limits, now) == Some(revision);
        }
        changed |= complete(state, &stamp, &limits, now);
        if changed {
            self.head = revision;
        }
        self.shed_tombstones();
        Ok(Answer::Replaced { revision: self.head })
    }
}

/// Live keys that are the shard's in the present layout, may be replaced, and were not mentioned.
fn unmentioned(state: &TopicState, shard: u32, staged: &Staged) -> Vec<Arc<str>> {
    let generation = state.layout.generation;
    let is_ours = |entry: &Entry| entry.generation == generation && entry.latest().shard == shard;
    let gone = state.entries().filter(|(key, entry)| {
        let is_replaceable = entry.latest().body.as_ref().is_some_and(|body| !body.is_terminal());
        is_replaceable && is_ours(entry) && !staged.contains_key(&***key)
    });
    gone.map(|(key, _)| Arc::clone(key)).collect()
}

/// The shard is complete. The last shard of a new layout buries what no shard of it mentioned. True if anything changed.
fn complete(state: &mut TopicState, stamp: &Stamp, limits: &Limits, now: Now) -> bool {
    let Some(shard) = state.layout.shards.get_mut(&stamp.shard) else {
        return false;
    };
    let mut changed = false;
    if !shard.complete {
        (shard.complete, shard.revision) = (true, stamp.revision);
        changed = true;
    }
    if !state.layout.is_settling || !state.layout.is_complete() {
        return changed;
    }
    state.layout.is_settling = false;
    let generation = state.layout.generation;
    let left_behind = state.entries().filter(|(_, entry)| {
        let is_replaceable = entry.latest().body.as_ref().is_some_and(|body| !body.is_terminal());
        is_replaceable && entry.generation != generation
    });
    let left_behind: Vec<Arc<str>> = left_behind.map(|(key, _)| Arc::clone(key)).collect();
    for key in left_behind {
        state.bury(&key, TombstoneReason::LayoutChanged, stamp, limits, now);
        changed = true;
    }
    changed
}
