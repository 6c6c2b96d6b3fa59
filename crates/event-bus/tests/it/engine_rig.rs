//! An engine, a clock that the test turns, and builders of commands.

use std::sync::Arc;
use std::time::Duration;

use bailiff_event_bus::engine::{
    Answer, Command, Effect, Engine, Kept, Limits, Open, Position, Refusal, Report, Selection, SessionId, Set, SnapshotReason,
};
use bailiff_event_bus::record::Incoming;
use bailiff_event_bus::{Body, ShardStatus, TombstoneReason};
use bailiff_model::outcome::PodOutcomeState;
use bailiff_model::{Mono, Now, Origin, Revision, Topic, Wall};

use crate::engines::Kind;
use crate::support::{mk_health, mk_outcome};

/// An engine with a clock that the test turns.
pub struct Rig {
    pub engine: Box<dyn Engine>,
    pub now: Now,
    pub ended: Vec<(SessionId, Refusal)>,
    ticket: u64,
}

impl Rig {
    pub fn new(kind: Kind, limits: Limits) -> Self {
        let now = Now {
            mono: Mono::ORIGIN,
            wall: Wall::UNIX_EPOCH,
        };
        Self {
            engine: kind.engine("bus-1".to_owned(), &limits, now),
            now,
            ended: Vec::new(),
            ticket: 0,
        }
    }

    pub fn apply(&mut self, command: Command) -> Result<Answer, Refusal> {
        self.ticket += 1;
        let before = self.engine.head();
        let effects = self.engine.apply(self.ticket, command, self.now);
        let mut answer = None;
        let mut advanced = false;
        for effect in effects {
            match effect {
                Effect::Answer { ticket, result } => {
                    assert_eq!(ticket, self.ticket);
                    assert!(answer.replace(result).is_none(), "one answer");
                }
                Effect::Ended { session, refusal } => self.ended.push((session, refusal)),
                Effect::Advanced { head } => {
                    assert_eq!(head, self.engine.head());
                    advanced = true;
                }
            }
        }
        assert_eq!(
            advanced,
            self.engine.head() > before,
            "readers are woken when there is news, and only then"
        );
        answer.expect("it answers at once")
    }

    pub fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.now.mono = self.now.mono + Duration::from_secs(1);
            self.now.wall += jiff::SignedDuration::from_secs(1);
            self.apply(Command::Tick).unwrap();
        }
    }

    pub fn open(&mut self, open: Open) -> Result<(SessionId, u64, bool), Refusal> {
        match self.apply(Command::Open(open))? {
            Answer::Opened {
                session,
                epoch,
                complete,
            } => Ok((session, epoch, complete)),
            answer => panic!("{answer:?}"),
        }
    }

    pub fn session(&mut self, topic: Topic, shard: (u32, u32), epoch: u64, replace: bool) -> SessionId {
        self.open(mk_open(topic, shard, epoch, replace)).unwrap().0
    }

    pub fn publish(&mut self, session: SessionId, records: Vec<Incoming>) -> Vec<Revision> {
        match self.apply(Command::Publish { session, records }).unwrap() {
            Answer::Published { revisions } => revisions,
            answer => panic!("{answer:?}"),
        }
    }

    pub fn end(&mut self, session: SessionId) -> Revision {
        match self.apply(Command::EndReplace { session }).unwrap() {
            Answer::Replaced { revision } => revision,
            answer => panic!("{answer:?}"),
        }
    }

    pub fn keep(&mut self, session: SessionId, tick: Option<u64>, watch: Option<u64>) -> bool {
        let report = Report {
            tick_age: tick.map(Duration::from_secs),
            watch_age: watch.map(Duration::from_secs),
            detail: String::new(),
        };
        match self.apply(Command::Keepalive { session, report }).unwrap() {
            Answer::Kept { live } => live,
            answer => panic!("{answer:?}"),
        }
    }

    pub fn after(&self, revision: Revision) -> Set {
        self.engine
            .read(&Selection::of(Topic::ALL), Position::After(revision), self.now)
    }

    pub fn snapshot(&self) -> Set {
        let start = Position::Start(SnapshotReason::NoCursor);
        self.engine.read(&Selection::of(Topic::ALL), start, self.now)
    }

    pub fn keys(&self) -> Vec<String> {
        let mut keys: Vec<String> = self.snapshot().records.iter().map(|record| record.key().to_owned()).collect();
        keys.sort();
        keys
    }

    pub fn shard(&self, topic: Topic, number: u32) -> ShardStatus {
        let shards = self.engine.shards(&[topic].into(), self.now);
        shards.into_iter().find(|shard| shard.shard == number).unwrap()
    }
}

pub fn mk_open(topic: Topic, (shard, shard_count): (u32, u32), epoch: u64, replace: bool) -> Open {
    Open {
        topic,
        shard,
        shard_count,
        producer: format!("producer-{epoch}"),
        epoch,
        replace,
    }
}

pub fn mk_incoming(body: Body) -> Incoming {
    Incoming {
        key: body.key(),
        route: body.route(),
        derived_from: Origin::default(),
        produced_at: Wall::UNIX_EPOCH,
        age: Duration::ZERO,
        trace: None,
        body: Some(body),
    }
}

pub fn mk_removal(key: &str) -> Incoming {
    Incoming {
        key: key.to_owned(),
        route: String::new(),
        derived_from: Origin::default(),
        produced_at: Wall::UNIX_EPOCH,
        age: Duration::ZERO,
        trace: None,
        body: None,
    }
}

pub fn node(name: &str, content: u64) -> Incoming {
    mk_incoming(mk_health(name, "a", content))
}

pub fn pod(name: &str, state: PodOutcomeState) -> Incoming {
    mk_incoming(mk_outcome(name, "n1", state, 0))
}

pub fn reasons(records: &[Arc<Kept>]) -> Vec<(&str, Option<TombstoneReason>)> {
    records.iter().map(|record| (record.key(), record.tombstone())).collect()
}
