//! A reference model of the engine: maps and plain loops, no index, no revisions, no history.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bailiff_event_bus::Body;
use bailiff_event_bus::engine::{Limits, Open, Selection, SessionId, Speaker};
use bailiff_event_bus::record::Incoming;
use bailiff_model::{Mono, Topic};

/// What the model expects of a shard: epoch, complete, live, shard count.
pub type Shard = (u64, bool, bool, u32);

#[derive(Default)]
pub struct Model {
    pub limits: Limits,
    topics: BTreeMap<Topic, State>,
    sessions: BTreeMap<SessionId, Session>,
    changes: u64,
    pub counts: Counts,
}

/// What happened, to show that the premises of a property were met.
#[derive(Debug, Default)]
pub struct Counts {
    pub fenced: usize,
    pub layouts: usize,
    pub left_behind: usize,
    pub replaced: usize,
    pub exempted: usize,
    pub expired: usize,
    pub silent: usize,
}

#[derive(Default)]
struct State {
    live: BTreeMap<String, Entry>,
    shards: BTreeMap<u32, ShardState>,
    epochs: BTreeMap<u32, u64>,
    generation: u64,
    settling: bool,
}

struct Entry {
    incoming: Incoming,
    by: Speaker,
    shard: u32,
    generation: u64,
    changed_at: Mono,
    change: u64,
}

#[derive(Default)]
struct ShardState {
    epoch: u64,
    producer: String,
    complete: bool,
    session: Option<SessionId>,
    broke_at: Option<Mono>,
    /// When, tick age, watch age.
    report: Option<(Mono, Option<u64>, Option<u64>)>,
}

struct Session {
    topic: Topic,
    shard: u32,
    by: Speaker,
    staged: Option<BTreeMap<String, Incoming>>,
    heard: Mono,
}

fn is_terminal(incoming: &Incoming) -> bool {
    incoming.body.as_ref().is_some_and(Body::is_terminal)
}

fn is_left_out(selection: &Selection, entry: &Entry) -> bool {
    selection.except.as_ref() == Some(&entry.by)
}

impl Model {
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// The epoch an opening must get, or the kind of its refusal.
    pub fn admit(&self, open: &Open) -> Result<u64, &'static str> {
        let current = self.topics.get(&open.topic).and_then(|state| state.epochs.get(&open.shard));
        let current = current.copied().unwrap_or(0);
        let is_open = self.sessions.values().any(|session| session.topic == open.topic);
        let count = self.topics.get(&open.topic).map_or(0, |state| state.shards.len());
        if open.shard >= open.shard_count {
            return Err("shard");
        }
        if open.epoch != 0 && open.epoch < current {
            return Err("epoch");
        }
        if is_open && count != open.shard_count as usize {
            return Err("layout");
        }
        Ok(if open.epoch == 0 { current + 1 } else { open.epoch })
    }

    /// Opens an admitted session; answers completeness and who is fenced.
    pub fn open(&mut self, id: SessionId, open: &Open, epoch: u64, now: Mono) -> (bool, Option<SessionId>) {
        let state = self.topics.entry(open.topic).or_default();
        if state.shards.len() != open.shard_count as usize {
            self.counts.layouts += usize::from(state.generation > 0);
            state.settling = state.generation > 0;
            state.generation += 1;
            let epochs = &state.epochs;
            let mk_shard = |number: u32| ShardState {
                epoch: epochs.get(&number).copied().unwrap_or(0),
                ..ShardState::default()
            };
            state.shards = (0..open.shard_count).map(|number| (number, mk_shard(number))).collect();
        }
        state.epochs.insert(open.shard, epoch);
        let shard = state.shards.get_mut(&open.shard).unwrap();
        let fenced = shard.session.replace(id);
        if shard.epoch != epoch || shard.producer != open.producer {
            shard.report = None;
        }
        (shard.epoch, shard.broke_at) = (epoch, None);
        shard.producer.clone_from(&open.producer);
        if let Some(fenced) = fenced {
            self.counts.fenced += 1;
            self.sessions.remove(&fenced);
        }
        let session = Session {
            topic: open.topic,
            shard: open.shard,
            by: Speaker {
                producer: open.producer.clone(),
                epoch,
            },
            staged: open.replace.then(BTreeMap::new),
            heard: now,
        };
        self.sessions.insert(id, session);
        (shard.complete, fenced)
    }

    pub fn is_open(&self, id: SessionId) -> bool {
        self.sessions.contains_key(&id)
    }

    pub fn is_staging(&self, id: SessionId) -> bool {
        self.sessions.get(&id).is_some_and(|session| session.staged.is_some())
    }

    pub fn publish(&mut self, id: SessionId, records: Vec<Incoming>, now: Mono) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        session.heard = now;
        if let Some(staged) = &mut session.staged {
            for incoming in records {
                staged.remove(&incoming.key);
                if incoming.body.is_some() {
                    staged.insert(incoming.key.clone(), incoming);
                }
            }
            return;
        }
        let (topic, shard, by) = (session.topic, session.shard, session.by.clone());
        for incoming in records {
            self.changes += 1;
            self.write(topic, (shard, &by), incoming, now);
        }
    }

    fn write(&mut self, topic: Topic, (shard, by): (u32, &Speaker), incoming: Incoming, now: Mono) {
        let change = self.changes;
        let state = self.topics.get_mut(&topic).unwrap();
        let generation = state.generation;
        if incoming.body.is_none() {
            state.live.remove(&incoming.key);
            return;
        }
        if let Some(entry) = state.live.get_mut(&incoming.key)
            && entry.incoming == incoming
            && entry.shard == shard
        {
            entry.generation = generation;
            return;
        }
        let entry = Entry {
            shard,
            by: by.clone(),
            generation,
            changed_at: now,
            change,
            incoming,
        };
        state.live.insert(entry.incoming.key.clone(), entry);
    }

    pub fn end_replace(&mut self, id: SessionId, now: Mono) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let Some(staged) = session.staged.take() else { return };
        session.heard = now;
        let (topic, shard, by) = (session.topic, session.shard, session.by.clone());
        let state = self.topics.get_mut(&topic).unwrap();
        let generation = state.generation;
        let is_ours = |entry: &Entry| entry.shard == shard && entry.generation == generation;
        let before = state.live.len();
        let exempted = state
            .live
            .values()
            .filter(|entry| is_terminal(&entry.incoming) && is_ours(entry));
        self.counts.exempted += exempted.filter(|entry| !staged.contains_key(&entry.incoming.key)).count();
        state
            .live
            .retain(|key, entry| !is_ours(entry) || staged.contains_key(key) || is_terminal(&entry.incoming));
        self.counts.replaced += before - state.live.len();
        self.changes += 1;
        for incoming in staged.into_values() {
            self.write(topic, (shard, &by), incoming, now);
        }
        let state = self.topics.get_mut(&topic).unwrap();
        state.shards.get_mut(&shard).unwrap().complete = true;
        if state.settling && state.shards.values().all(|shard| shard.complete) {
            state.settling = false;
            let before = state.live.len();
            state
                .live
                .retain(|_, entry| entry.generation == generation || is_terminal(&entry.incoming));
            self.counts.left_behind += before - state.live.len();
        }
    }

    pub fn keepalive(&mut self, id: SessionId, tick: Option<u64>, watch: Option<u64>, now: Mono) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        session.heard = now;
        let state = self.topics.get_mut(&session.topic).unwrap();
        state.shards.get_mut(&session.shard).unwrap().report = Some((now, tick, watch));
    }

    pub fn close(&mut self, id: SessionId, now: Mono) {
        let Some(session) = self.sessions.remove(&id) else { return };
        let state = self.topics.get_mut(&session.topic).unwrap();
        let shard = state.shards.get_mut(&session.shard).unwrap();
        (shard.session, shard.broke_at) = (None, Some(now));
    }

    /// True if there was an epoch to reset.
    pub fn reset(&mut self, topic: Topic, number: u32, now: Mono) -> bool {
        let state = self.topics.entry(topic).or_default();
        if state.epochs.remove(&number).is_none() {
            return false;
        }
        let shard = state.shards.get_mut(&number);
        let session = shard.and_then(|shard| {
            shard.epoch = 0;
            shard.session
        });
        if let Some(session) = session {
            self.close(session, now);
        }
        true
    }

    pub fn tick(&mut self, now: Mono) {
        let silent_after = self.limits.silent_after;
        let is_silent = |session: &Session| now.saturating_since(session.heard) >= silent_after;
        let silent: Vec<SessionId> = self
            .sessions
            .iter()
            .filter(|(_, session)| is_silent(session))
            .map(|(id, _)| *id)
            .collect();
        self.counts.silent += silent.len();
        for session in silent {
            self.close(session, now);
        }
        for state in self.topics.values_mut() {
            let terminal = state.live.values().filter(|entry| is_terminal(&entry.incoming));
            let mut terminal: Vec<_> = terminal
                .map(|entry| (entry.change, entry.incoming.key.clone(), entry.changed_at))
                .collect();
            terminal.sort();
            let surplus = terminal.len().saturating_sub(self.limits.terminal);
            for (index, (_, key, changed_at)) in terminal.into_iter().enumerate() {
                if index < surplus || now.saturating_since(changed_at) >= self.limits.terminal_for {
                    state.live.remove(&key);
                    self.counts.expired += 1;
                }
            }
        }
    }

    /// What a reader with this selection must hold.
    pub fn held(&self, selection: &Selection) -> BTreeMap<(Topic, String), Body> {
        let entries = self.passing(selection).filter(|(_, entry)| !is_left_out(selection, entry));
        entries
            .filter_map(|(topic, entry)| Some(((topic, entry.incoming.key.clone()), entry.incoming.body.clone()?)))
            .collect()
    }

    /// Keys of which a reader with this selection is told nothing, by who spoke of them last.
    pub fn left_out(&self, selection: &Selection) -> BTreeSet<(Topic, String)> {
        let entries = self.passing(selection).filter(|(_, entry)| is_left_out(selection, entry));
        entries.map(|(topic, entry)| (topic, entry.incoming.key.clone())).collect()
    }

    /// What is there of the topics and routes wanted.
    fn passing(&self, selection: &Selection) -> impl Iterator<Item = (Topic, &Entry)> {
        let topics = self.topics.iter().filter(|(topic, _)| selection.topics.contains(topic));
        let entries = topics.flat_map(|(topic, state)| state.live.values().map(move |entry| (*topic, entry)));
        entries.filter(|(topic, entry)| selection.passes(*topic, &entry.incoming.route))
    }

    /// What a reader must know of the shards of these topics.
    pub fn shards(&self, topics: &BTreeSet<Topic>, now: Mono) -> BTreeMap<(Topic, u32), Shard> {
        let states = self.topics.iter().filter(|(topic, _)| topics.contains(topic));
        let shards = states.flat_map(|(topic, state)| {
            let count = u32::try_from(state.shards.len()).unwrap();
            let mk_shard = move |(number, shard): (&u32, &ShardState)| {
                (
                    (*topic, *number),
                    (shard.epoch, shard.complete, self.is_live(shard, now), count),
                )
            };
            state.shards.iter().map(mk_shard)
        });
        shards.collect()
    }

    fn is_live(&self, shard: &ShardState, now: Mono) -> bool {
        let since = |at: Mono| now.saturating_since(at);
        let in_grace = shard.broke_at.is_some_and(|at| since(at) < self.limits.reconnect_grace);
        let Some((at, Some(tick), Some(watch))) = shard.report else {
            return false;
        };
        let oldest = Duration::from_secs(tick.max(watch)) + since(at);
        (shard.session.is_some() || in_grace) && oldest < self.limits.stale_after
    }
}
