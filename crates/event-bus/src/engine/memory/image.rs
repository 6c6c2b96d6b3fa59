//! The whole state as values that can be stored, and back: what an engine that shares its state with others starts from.

use std::sync::Arc;

use bailiff_model::{Mono, Revision, Topic};
use bailiff_proto::v1 as wire_pb;

use super::Memory;
use super::index::ByKey;
use super::session::Session;
use super::shard::{Reported, Shard};
use super::topic::{Rest, TopicState};
use crate::engine::etcd::store as pb;
use crate::engine::kept::{By, Earlier, Kept};
use crate::engine::{Limits, SessionId};
use crate::wire::{self, envelope, scalar};

/// A key with its records, where it is kept.
pub(in crate::engine) struct KeptKey<'a> {
    latest: &'a Arc<Kept>,
    rest: &'a Rest,
}

impl KeptKey<'_> {
    pub(in crate::engine) fn name(&self) -> &str {
        self.latest.key()
    }

    pub(in crate::engine) fn save(&self) -> pb::Key {
        let Self { latest, rest } = self;
        pb::Key {
            generation: rest.generation,
            since: latest.received_at.as_nanos(),
            has_strayed: rest.has_strayed,
            records: rest.records(latest).iter().map(|kept| save_record(kept)).collect(),
        }
    }
}

impl Memory {
    /// Everything but keys and what is staged. Who holds a session is not known here.
    pub(in crate::engine) fn save(&self) -> pb::State {
        pb::State {
            head: self.head.0,
            oldest_resumable: self.oldest_resumable.0,
            last_session: self.last_session,
            topics: self.topics.iter().map(|(topic, state)| save_topic(*topic, state)).collect(),
            sessions: self.sessions.iter().map(|(id, session)| save_session(*id, session)).collect(),
            ..pb::State::default()
        }
    }

    /// Every key, topic by topic.
    pub(in crate::engine) fn kept_keys(&self) -> impl Iterator<Item = KeptKey<'_>> {
        let entries = self.topics.values().flat_map(TopicState::entries);
        entries.map(|(latest, rest)| KeptKey { latest, rest })
    }

    /// Everything that is staged.
    pub(in crate::engine) fn save_staged(&self) -> impl Iterator<Item = pb::Staged> {
        self.sessions.iter().flat_map(|(id, session)| {
            session.staged.iter().flatten().map(|ByKey(said)| pb::Staged {
                session: id.0,
                record: Some(said.to_envelope()),
            })
        })
    }

    /// The state that [`Memory::save`] saved; keys and what is staged are to follow.
    pub(in crate::engine) fn restore(incarnation: String, limits: Limits, state: &pb::State) -> Result<Self, wire::Error> {
        let mut memory = Self::new(incarnation, limits);
        memory.head = Revision(state.head);
        memory.oldest_resumable = Revision(state.oldest_resumable);
        memory.last_session = state.last_session;
        for topic in &state.topics {
            let state = memory.topic_mut(envelope::topic("topic", &topic.topic)?);
            restore_topic(state, topic)?;
        }
        for session in &state.sessions {
            let by = By {
                producer: session.producer.clone(),
                epoch: session.epoch,
                shard: session.shard,
            };
            let restored = Session {
                topic: envelope::topic("topic", &session.topic)?,
                by: memory.writers.share(by),
                staged: session.is_staging.then(Default::default),
                heard_at: Mono::from_nanos(session.heard_at),
            };
            memory.sessions.insert(SessionId(session.id), restored);
        }
        Ok(memory)
    }

    /// Adds what a chunk holds.
    pub(in crate::engine) fn restore_chunk(&mut self, chunk: pb::Chunk) -> Result<(), wire::Error> {
        for key in chunk.keys {
            self.restore_key(key)?;
        }
        for staged in chunk.staged {
            let record = staged.record.ok_or_else(|| wire::Error::absent("staged.record"))?;
            let Some(session) = self.sessions.get_mut(&SessionId(staged.session)) else {
                continue;
            };
            let incoming = envelope::accepted(record)?;
            let topic = self.topics.get_mut(&session.topic);
            if let (Some(all), Some(topic)) = (&mut session.staged, topic) {
                all.replace(ByKey(topic.said(&incoming)));
            }
        }
        Ok(())
    }

    /// Adds a key as it was kept; one without a record is none.
    fn restore_key(&mut self, key: pb::Key) -> Result<(), wire::Error> {
        let mut records = Vec::with_capacity(key.records.len());
        for kept in key.records {
            let stored = kept.record.ok_or_else(|| wire::Error::absent("record"))?;
            let topic = self.topics.get_mut(&envelope::topic("topic", &stored.topic)?);
            let topic = topic.expect("all topics were made at the start");
            let restored = Kept::restored(
                stored,
                Mono::from_nanos(kept.received_at),
                &mut topic.routes,
                &mut topic.patterns,
                &mut self.writers,
            )?;
            records.push(restored);
        }
        let mut earlier = Earlier::default();
        for (superseded, next) in records.iter().zip(records.iter().skip(1)) {
            earlier.push(superseded, next);
        }
        let Some(latest) = records.pop() else { return Ok(()) };
        let rest = Rest {
            earlier,
            generation: key.generation,
            has_strayed: key.has_strayed,
        };
        self.topic_mut(latest.topic()).restore(Arc::new(latest), rest);
        Ok(())
    }
}

fn save_record(kept: &Kept) -> pb::Kept {
    pb::Kept {
        // By then no time had passed since it came: its age is as it was told.
        record: Some(kept.to_envelope(kept.received_at)),
        received_at: kept.received_at.as_nanos(),
    }
}

fn save_topic(topic: Topic, state: &TopicState) -> pb::TopicState {
    let epochs = state.epochs.iter();
    pb::TopicState {
        topic: topic.to_string(),
        generation: state.layout.generation,
        is_settling: state.layout.is_settling,
        shards: state.layout.shards.values().map(save_shard).collect(),
        epochs: epochs
            .map(|(shard, epoch)| pb::Epoch {
                shard: *shard,
                epoch: *epoch,
            })
            .collect(),
    }
}

fn restore_topic(state: &mut TopicState, topic: &pb::TopicState) -> Result<(), wire::Error> {
    state.layout.generation = topic.generation;
    state.layout.is_settling = topic.is_settling;
    for (number, shard) in (0..).zip(&topic.shards) {
        state.layout.shards.insert(number, restore_shard(shard)?);
    }
    state.epochs = topic.epochs.iter().map(|epoch| (epoch.shard, epoch.epoch)).collect();
    Ok(())
}

fn save_shard(shard: &Shard) -> pb::Shard {
    pb::Shard {
        revision: shard.revision.0,
        epoch: shard.epoch,
        complete: shard.complete,
        producer: shard.producer.clone(),
        session: shard.session.map(|session| session.0),
        announced_live: shard.announced_live,
        opened_at: shard.opened_at.as_nanos(),
        broke_at: shard.broke_at.map(Mono::as_nanos),
        reported_at: shard.reported.as_ref().map(|reported| reported.at.as_nanos()),
        report: shard.reported.as_ref().map(|reported| wire_pb::Keepalive {
            tick_age: reported.tick_age.map(scalar::to_duration),
            watch_age: reported.watch_age.map(scalar::to_duration),
            detail: reported.detail.clone(),
        }),
    }
}

fn restore_shard(stored: &pb::Shard) -> Result<Shard, wire::Error> {
    let mut shard = Shard::new(Revision(stored.revision), stored.epoch, Mono::from_nanos(stored.opened_at));
    shard.complete = stored.complete;
    shard.producer.clone_from(&stored.producer);
    shard.session = stored.session.map(SessionId);
    shard.announced_live = stored.announced_live;
    shard.broke_at = stored.broke_at.map(Mono::from_nanos);
    if let (Some(at), Some(report)) = (stored.reported_at, &stored.report) {
        shard.reported = Some(Reported {
            at: Mono::from_nanos(at),
            tick_age: scalar::duration_if_any("tick_age", report.tick_age)?,
            watch_age: scalar::duration_if_any("watch_age", report.watch_age)?,
            detail: report.detail.clone(),
        });
    }
    Ok(shard)
}

fn save_session(id: SessionId, session: &Session) -> pb::Session {
    pb::Session {
        id: id.0,
        topic: session.topic.to_string(),
        shard: session.by.shard,
        epoch: session.by.epoch,
        producer: session.by.producer.clone(),
        is_staging: session.staged.is_some(),
        heard_at: session.heard_at.as_nanos(),
        replica: String::new(),
    }
}
