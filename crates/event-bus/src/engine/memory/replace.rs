//! Replace parts: staged apart, visible as one change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bailiff_model::{Now, Revision, Topic};

use super::Memory;
use super::index::ByKey;
use super::topic::{Rest, Stamp, TopicState};
use crate::engine::kept::{Kept, Said};
use crate::engine::{Answer, Limits, Refusal, SessionId};
use crate::record::{Incoming, TombstoneReason};

/// What a replace part staged so far: the latest of each key; removals are what it does not mention.
pub(super) type Staged = BTreeSet<ByKey<Said>>;

impl Memory {
    /// Stages a batch. Staged keys of all sessions are bounded as the live ones are.
    pub(super) fn stage(&mut self, id: SessionId, records: Vec<Incoming>) -> Result<Answer, Refusal> {
        let topic = self.sessions.get(&id).ok_or(Refusal::Ended)?.topic;
        self.ensure_room_to_stage(topic, records.len())?;
        let session = self.sessions.get_mut(&id).ok_or(Refusal::Ended)?;
        let staged = session.staged.as_mut().ok_or(Refusal::NotReplacing)?;
        let topic = self.topics.get_mut(&topic);
        let topic = topic.expect("all topics were made at the start");
        for incoming in records {
            if incoming.body.is_some() {
                staged.replace(ByKey(topic.said(&incoming)));
            } else {
                staged.remove(incoming.key.as_bytes());
            }
        }
        Ok(Answer::Published { revisions: Vec::new() })
    }

    fn ensure_room_to_stage(&self, topic: Topic, more: usize) -> Result<(), Refusal> {
        // Summed once: each batch of each session asks, while a large cluster starts.
        let mut staged = BTreeMap::<Topic, usize>::new();
        for session in self.sessions.values() {
            *staged.entry(session.topic).or_default() += session.staged.as_ref().map_or(0, BTreeSet::len);
        }
        let staged_of = |topic| staged.get(&topic).copied().unwrap_or(0);
        let others = Topic::ALL.into_iter().filter(|other| *other != topic);
        let most = self.limits.most_keys(others.map(staged_of));
        self.limits.check_keys(topic, staged_of(topic) + more, most)
    }

    /// Makes the staged state visible as one change, with one revision, together with the shard's completeness.
    pub(super) fn end_replace(&mut self, id: SessionId, now: Now) -> Result<Answer, Refusal> {
        let revision = Revision(self.head.0 + 1);
        let session = self.sessions.get_mut(&id).ok_or(Refusal::Ended)?;
        session.heard_at = now.mono;
        let staged = session.staged.take().ok_or(Refusal::NotReplacing)?;
        let (topic, stamp) = (session.topic, session.stamp(revision));
        let (limits, most) = (self.limits.clone(), self.most_keys(topic));
        let state = self.topic_mut(topic);

        let unmentioned = unmentioned(state, stamp.by.shard, &staged);
        let new = staged.iter().filter(|said| !state.is_live(said.0.key())).count();
        let found = state.live_keys() + new - unmentioned.len();
        if let Err(refusal) = limits.check_keys(topic, found, most) {
            let session = self.sessions.get_mut(&id).ok_or(Refusal::Ended)?;
            session.staged = Some(staged);
            return Err(refusal);
        }
        let mut changed = !unmentioned.is_empty();
        for latest in unmentioned {
            state.bury(&latest, TombstoneReason::Replaced, &stamp, &limits, now);
        }
        for ByKey(said) in staged {
            changed |= state.write(said, &stamp, &limits, now) == Some(revision);
        }
        changed |= complete(state, &stamp, &limits, now);
        if changed {
            self.head = revision;
        }
        self.shed();
        Ok(Answer::Replaced { revision: self.head })
    }
}

/// Live keys that are the shard's in the present layout, may be replaced, and were not mentioned.
fn unmentioned(state: &TopicState, shard: u32, staged: &Staged) -> Vec<Arc<Kept>> {
    let generation = state.layout.generation;
    let gone = state.entries().filter(|(latest, rest)| {
        let is_ours = rest.generation == generation && latest.by.shard == shard;
        is_replaceable(latest) && is_ours && !staged.contains(latest.said.key_bytes())
    });
    gone.map(|(latest, _)| Arc::clone(latest)).collect()
}

/// It is live, and no terminal outcome.
fn is_replaceable(latest: &Kept) -> bool {
    latest.tombstone().is_none() && !latest.said.is_terminal
}

/// The shard is complete. The last shard of a new layout buries what no shard of it mentioned. True if anything changed.
fn complete(state: &mut TopicState, stamp: &Stamp, limits: &Limits, now: Now) -> bool {
    let Some(shard) = state.layout.shards.get_mut(&stamp.by.shard) else {
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
    let is_left = |(latest, rest): &(&Arc<Kept>, &Rest)| is_replaceable(latest) && rest.generation != generation;
    let left_behind = state.entries().filter(is_left);
    let left_behind: Vec<Arc<Kept>> = left_behind.map(|(latest, _)| Arc::clone(latest)).collect();
    for latest in left_behind {
        state.bury(&latest, TombstoneReason::LayoutChanged, stamp, limits, now);
        changed = true;
    }
    changed
}
