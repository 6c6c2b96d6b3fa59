//! Sessions: opening, fencing, keeping alive, ending.

use std::sync::Arc;

use bailiff_model::{Mono, Now, Revision, Topic};

use super::Memory;
use super::replace::Staged;
use super::shard::Shard;
use super::topic::Stamp;
use crate::engine::kept::By;
use crate::engine::{Answer, Effect, Open, Refusal, Report, SessionId};
use crate::record::Incoming;

/// An open session.
#[derive(Clone, Debug)]
pub(super) struct Session {
    pub(super) topic: Topic,
    pub(super) by: Arc<By>,
    /// What the replace part staged so far.
    pub(super) staged: Option<Staged>,
    pub(super) heard_at: Mono,
}

impl Session {
    pub(super) fn stamp(&self, revision: Revision) -> Stamp {
        Stamp {
            revision,
            by: Arc::clone(&self.by),
        }
    }
}

impl Memory {
    pub(super) fn open(&mut self, open: Open, now: Now, effects: &mut Vec<Effect>) -> Result<Answer, Refusal> {
        let epoch = self.admit(&open)?;
        self.lay_out(open.topic, open.shard_count, now);
        let session = SessionId(self.last_session + 1);
        self.last_session = session.0;
        let revision = self.next_revision();
        let topic = self.topic_mut(open.topic);
        topic.epochs.insert(open.shard, epoch);
        let shard = topic.layout.shards.get_mut(&open.shard).expect("the layout was just made");
        let fenced = shard.session.take();
        shard.taken(session, epoch, &open.producer, now.mono);
        shard.revision = revision;
        let complete = shard.complete;
        if let Some(fenced) = fenced {
            let refusal = Refusal::Fenced {
                topic: open.topic,
                shard: open.shard,
                by: open.producer.clone(),
                epoch,
            };
            self.sessions.remove(&fenced);
            effects.push(Effect::Ended {
                session: fenced,
                refusal,
            });
        }
        let by = By {
            producer: open.producer,
            epoch,
            shard: open.shard,
        };
        let opened = Session {
            topic: open.topic,
            by: self.writers.share(by),
            staged: open.replace.then(Staged::default),
            heard_at: now.mono,
        };
        self.sessions.insert(session, opened);
        self.announce_liveness(open.topic, open.shard, now);
        Ok(Answer::Opened {
            session,
            epoch,
            complete,
        })
    }

    /// Checks an opening and gives it its epoch. Changes nothing.
    fn admit(&self, open: &Open) -> Result<u64, Refusal> {
        if open.shard >= open.shard_count || open.shard_count > self.limits.shards {
            return Err(Refusal::Shard {
                shard: open.shard,
                shard_count: open.shard_count,
                most: self.limits.shards,
            });
        }
        let topic = self.topic(open.topic);
        let current = self.epoch(open.topic, open.shard);
        if open.epoch != 0 && open.epoch < current {
            return Err(Refusal::Epoch {
                topic: open.topic,
                shard: open.shard,
                found: open.epoch,
                current,
            });
        }
        let shard_count = topic.layout.shard_count();
        let is_fixed = self.sessions.values().any(|session| session.topic == open.topic);
        if is_fixed && shard_count != open.shard_count {
            return Err(Refusal::Layout {
                topic: open.topic,
                found: open.shard_count,
                current: shard_count,
            });
        }
        let takes_over = topic
            .layout
            .shards
            .get(&open.shard)
            .is_some_and(|shard| shard.session.is_some());
        if !takes_over && self.sessions.len() >= self.limits.sessions {
            return Err(Refusal::Sessions {
                most: self.limits.sessions,
            });
        }
        Ok(if open.epoch == 0 {
            current.saturating_add(1)
        } else {
            open.epoch
        })
    }

    /// Makes the layout of `shard_count` shards, unless it is there. No session of the topic is open if it is not.
    fn lay_out(&mut self, topic: Topic, shard_count: u32, now: Now) {
        if self.topic(topic).layout.shard_count() == shard_count {
            return;
        }
        let revision = self.next_revision();
        let state = self.topic_mut(topic);
        let epochs = &state.epochs;
        let shards = (0..shard_count).map(|number| {
            let epoch = epochs.get(&number).copied().unwrap_or(0);
            (number, Shard::new(revision, epoch, now.mono))
        });
        state.layout.shards = shards.collect();
        state.layout.is_settling = state.layout.generation > 0;
        state.layout.generation += 1;
    }

    pub(super) fn publish(&mut self, id: SessionId, records: Vec<Incoming>, now: Now) -> Result<Answer, Refusal> {
        self.limits.check_batch(records.len())?;
        let session = self.sessions.get_mut(&id).ok_or(Refusal::Ended)?;
        session.heard_at = now.mono;
        if session.staged.is_some() {
            return self.stage(id, records);
        }
        let (topic, mut stamp) = (session.topic, session.stamp(Revision(0)));
        self.ensure_room(topic, &records)?;
        let mut head = self.head;
        let mut revisions = Vec::with_capacity(records.len());
        let limits = self.limits.clone();
        let state = self.topic_mut(topic);
        for incoming in records {
            stamp.revision = Revision(head.0 + 1);
            let said = state.said(&incoming);
            let revision = state.write(said, &stamp, &limits, now).unwrap_or(head);
            head = head.max(revision);
            revisions.push(revision);
        }
        self.head = head;
        self.shed();
        Ok(Answer::Published { revisions })
    }

    /// All or none: a batch that does not fit leaves nothing behind.
    fn ensure_room(&self, topic: Topic, records: &[Incoming]) -> Result<(), Refusal> {
        let state = self.topic(topic);
        let is_new = |incoming: &&Incoming| incoming.body.is_some() && !state.is_live(&incoming.key);
        let found = state.live_keys() + records.iter().filter(is_new).count();
        self.limits.check_keys(topic, found, self.most_keys(topic))
    }

    pub(super) fn keepalive(&mut self, id: SessionId, report: &Report, now: Now) -> Result<Answer, Refusal> {
        let session = self.sessions.get_mut(&id).ok_or(Refusal::Ended)?;
        session.heard_at = now.mono;
        let (topic, number) = (session.topic, session.by.shard);
        if let Some(shard) = self.topic_mut(topic).layout.shards.get_mut(&number) {
            shard.reported(report, now.mono);
        }
        let live = self.announce_liveness(topic, number, now);
        Ok(Answer::Kept { live })
    }

    /// Ends a session; one that is not open is none of ours any more.
    pub(super) fn close(&mut self, id: SessionId, now: Now) {
        let Some(session) = self.sessions.remove(&id) else { return };
        let shards = &mut self.topic_mut(session.topic).layout.shards;
        if let Some(shard) = shards.get_mut(&session.by.shard).filter(|shard| shard.session == Some(id)) {
            shard.broke_off(now.mono);
            self.announce_liveness(session.topic, session.by.shard, now);
        }
    }

    /// Ends a session whose way to the bus is gone for longer than anybody knows: what it reported means nothing any more, and there
    /// is no grace.
    pub(in crate::engine) fn abandon(&mut self, id: SessionId, now: Now) {
        let Some(session) = self.sessions.remove(&id) else { return };
        self.forget_report(session.topic, session.by.shard, Some(id), now);
    }

    /// Forgets what every producer reported: nobody is live until it reports again.
    pub(in crate::engine) fn forget_reports(&mut self, now: Now) {
        for topic in Topic::ALL {
            for number in 0..self.topic(topic).layout.shard_count() {
                let session = self.topic(topic).layout.shards.get(&number).and_then(|shard| shard.session);
                self.forget_report(topic, number, session, now);
            }
        }
    }

    fn forget_report(&mut self, topic: Topic, number: u32, session: Option<SessionId>, now: Now) {
        let sessions = &self.sessions;
        let is_open = session.is_some_and(|session| sessions.contains_key(&session));
        let shards = &mut self
            .topics
            .get_mut(&topic)
            .expect("all topics were made at the start")
            .layout
            .shards;
        if let Some(shard) = shards.get_mut(&number).filter(|shard| shard.session == session) {
            shard.forget_report(is_open);
            self.announce_liveness(topic, number, now);
        }
    }

    /// The epoch of a shard; 0 if it has none.
    pub(in crate::engine) fn epoch(&self, topic: Topic, shard: u32) -> u64 {
        self.topic(topic).epochs.get(&shard).copied().unwrap_or(0)
    }

    /// Open sessions.
    pub(in crate::engine) fn open_sessions(&self) -> impl Iterator<Item = SessionId> {
        self.sessions.keys().copied()
    }

    pub(super) fn reset_epoch(
        &mut self,
        topic: Topic,
        number: u32,
        now: Now,
        effects: &mut Vec<Effect>,
    ) -> Result<Answer, Refusal> {
        let shard_count = self.topic(topic).layout.shard_count();
        let Some(previous) = self.topic_mut(topic).epochs.remove(&number) else {
            return Err(Refusal::Shard {
                shard: number,
                shard_count,
                most: self.limits.shards,
            });
        };
        let revision = self.next_revision();
        let shards = &mut self.topic_mut(topic).layout.shards;
        if let Some(shard) = shards.get_mut(&number) {
            (shard.epoch, shard.revision) = (0, revision);
            if let Some(session) = shard.session {
                self.close(session, now);
                let refusal = Refusal::Reset { topic, shard: number };
                effects.push(Effect::Ended { session, refusal });
            }
        }
        Ok(Answer::EpochReset { previous })
    }

    pub(super) fn end_silent_sessions(&mut self, now: Now, effects: &mut Vec<Effect>) {
        let bound = self.limits.silent_after;
        let silent = self.sessions.iter().filter(|(_, session)| self.is_silent(session, now));
        let silent: Vec<SessionId> = silent.map(|(id, _)| *id).collect();
        for session in silent {
            self.close(session, now);
            let refusal = Refusal::Silent {
                seconds: bound.as_secs(),
            };
            effects.push(Effect::Ended { session, refusal });
        }
    }

    fn is_silent(&self, session: &Session, now: Now) -> bool {
        now.mono.saturating_since(session.heard_at) >= self.limits.silent_after
    }

    pub(super) fn has_silent_session(&self, now: Now) -> bool {
        self.sessions.values().any(|session| self.is_silent(session, now))
    }

    pub(super) fn has_new_liveness(&self, now: Now) -> bool {
        let mut shards = self.topics.values().flat_map(|state| state.layout.shards.values());
        shards.any(|shard| shard.is_live(&self.limits, now.mono) != shard.announced_live)
    }

    /// Announces every shard whose liveness is not what was announced last. There are a few shards, not many keys.
    pub(super) fn refresh_liveness(&mut self, now: Now) {
        for topic in Topic::ALL {
            for number in 0..self.topic(topic).layout.shard_count() {
                self.announce_liveness(topic, number, now);
            }
        }
    }

    /// Gives a shard whose liveness changed a revision, so that readers learn it at once. Returns the liveness.
    fn announce_liveness(&mut self, topic: Topic, number: u32, now: Now) -> bool {
        let next = Revision(self.head.0 + 1);
        let limits = self.limits.clone();
        let Some(shard) = self.topic_mut(topic).layout.shards.get_mut(&number) else {
            return false;
        };
        let live = shard.is_live(&limits, now.mono);
        if live != shard.announced_live {
            (shard.announced_live, shard.revision) = (live, next);
            self.head = next;
        }
        live
    }

    pub(super) fn next_revision(&mut self) -> Revision {
        self.head = Revision(self.head.0 + 1);
        self.head
    }
}
