//! Replicas on a log that is a list: every interleaving can be had, and no etcd.

use std::time::Duration;

use self::node_health::mk_node_health;
use super::log::{Entry, What};
use super::machine::{Applied, Machine};
use super::replica::{Append, Replica};
use super::{SnapshotAfter, snapshot};
use crate::engine::{Answer, Command, Effect, Engine as _, Limits, Open, Refusal, Report, SessionId};
use crate::record::{Body, Incoming};
use bailiff_model::{Mono, NodeRef, Now, Origin, Topic, Wall};

mod format;
mod interleavings;
mod lost;
#[path = "../../../tests/shared/node_health.rs"]
mod node_health;
mod queue;
mod reports;
mod stale;
mod time;

const HEALTH: Topic = Topic::NodeHealth;

/// Replicas and their log.
struct Sim {
    log: Vec<Vec<u8>>,
    replicas: Vec<One>,
    now: Now,
    tickets: u64,
}

struct One {
    replica: Replica,
    /// Entries delivered.
    read: usize,
    effects: Vec<Effect>,
    sessions: Vec<SessionId>,
    /// What is on its way to the log.
    under_way: Option<Append>,
}

impl Sim {
    fn new(names: &[&str]) -> Self {
        let now = Now {
            mono: Mono::from_origin(Duration::from_secs(100)),
            wall: Wall::UNIX_EPOCH,
        };
        let mut sim = Self {
            log: Vec::new(),
            replicas: Vec::new(),
            now,
            tickets: 0,
        };
        for name in names {
            sim.start(name, sim.log.is_empty());
        }
        sim
    }

    /// A replica reads the log so far, and joins.
    fn start(&mut self, name: &str, alone: bool) -> usize {
        let index = self.enter(name, alone);
        self.settle();
        index
    }

    /// A replica reads the log so far, and is about to join.
    fn enter(&mut self, name: &str, alone: bool) -> usize {
        let machine = Machine::new("bus-1".to_owned(), Limits::default());
        let replica = Replica::new(name.to_owned(), machine, self.now);
        let present = self.replicas.iter().map(|one| one.replica.id().to_owned()).collect();
        self.replicas.push(One {
            replica,
            read: 0,
            effects: Vec::new(),
            sessions: Vec::new(),
            under_way: None,
        });
        let index = self.replicas.len() - 1;
        while self.deliver(index) {}
        self.replicas[index].replica.join(alone, present, self.now);
        index
    }

    fn submit(&mut self, index: usize, command: Command) {
        self.tickets += 1;
        let effects = self.replicas[index].replica.submit(self.tickets, command, self.now);
        self.replicas[index].take(effects);
    }

    /// The log takes the next entry of a replica, if there is one. True if it did.
    fn commit(&mut self, index: usize) -> bool {
        let one = &mut self.replicas[index];
        if one.under_way.is_none() {
            one.under_way = one.replica.next_append(self.now);
        }
        let Some(append) = one.under_way.take() else { return false };
        one.replica.committed(append.seq);
        self.log.push(append.bytes);
        true
    }

    /// A replica reads the next entry, if there is one. True if it did.
    fn deliver(&mut self, index: usize) -> bool {
        let one = &mut self.replicas[index];
        let Some(bytes) = self.log.get(one.read) else { return false };
        one.read += 1;
        let entry = Entry::from_bytes(bytes).expect("a replica wrote it");
        let effects = one.replica.take(one.read as u64, entry, self.now);
        one.take(effects);
        true
    }

    /// Everything is committed and read.
    fn settle(&mut self) {
        let all = 0..self.replicas.len();
        while all.clone().any(|index| self.commit(index) | self.deliver(index)) {}
    }

    fn pass(&mut self, time: Duration) {
        self.now.mono = self.now.mono + time;
    }

    /// A replica that lost a part of the log begins again from another's snapshot.
    fn reload(&mut self, index: usize, from: usize) {
        let pieces = snapshot::take(&self.replicas[from].replica.machine);
        let machine = snapshot::assemble("bus-1".to_owned(), Limits::default(), &pieces).expect("it was just taken");
        let read = self.replicas[from].read;
        let one = &mut self.replicas[index];
        if one.read < read && self.tickets > 0 {
            let effects = one.replica.reload(machine, self.now);
            one.read = read;
            one.take(effects);
        }
    }

    fn open(&mut self, index: usize, epoch: u64) -> SessionId {
        self.submit(index, mk_open(epoch, false));
        self.settle();
        *self.replicas[index].sessions.last().expect("it was opened")
    }

    fn is_live(&self, index: usize) -> bool {
        let replica = &self.replicas[index].replica;
        let shards = replica.machine.memory.shards(&[HEALTH].into(), replica.time(self.now));
        shards.first().is_some_and(|shard| shard.live)
    }
}

impl One {
    fn take(&mut self, effects: Vec<Effect>) {
        for effect in &effects {
            if let Effect::Answer {
                result: Ok(Answer::Opened { session, .. }),
                ..
            } = effect
            {
                self.sessions.push(*session);
            }
        }
        self.effects.extend(effects);
    }

    fn answers(&self) -> Vec<&Result<Answer, Refusal>> {
        fn answer(effect: &Effect) -> Option<&Result<Answer, Refusal>> {
            match effect {
                Effect::Answer { result, .. } => Some(result),
                _ => None,
            }
        }
        self.effects.iter().filter_map(answer).collect()
    }

    /// All that the state is, but for whom it belongs to.
    fn state(&self) -> snapshot::Pieces {
        snapshot::take(&self.replica.machine)
    }
}

fn mk_open(epoch: u64, replace: bool) -> Command {
    Command::Open(Open {
        topic: HEALTH,
        shard: 0,
        shard_count: 1,
        producer: "monitor".to_owned(),
        epoch,
        replace,
    })
}

fn mk_publish(session: SessionId, records: Vec<Incoming>) -> Command {
    Command::Publish { session, records }
}

fn mk_keepalive(session: SessionId) -> Command {
    let report = Report {
        tick_age: Some(Duration::ZERO),
        watch_age: Some(Duration::ZERO),
        detail: String::new(),
    };
    Command::Keepalive { session, report }
}

fn mk_record(name: &str, content: u64, padding: usize) -> Incoming {
    let node = NodeRef {
        name: name.into(),
        uid: "uid".into(),
        ..NodeRef::default()
    };
    let body = Body::NodeHealth(Box::new(mk_node_health(node, "a", &"x".repeat(padding), content)));
    Incoming {
        key: body.key(),
        route: body.route(),
        derived_from: Origin::default(),
        produced_at: Wall::UNIX_EPOCH,
        age: Duration::from_secs(content),
        trace: None,
        body: (content > 0).then_some(body),
    }
}

#[test]
fn an_answer_comes_out_of_the_log_to_whoever_asked() {
    let mut sim = Sim::new(&["a", "b"]);
    sim.submit(0, mk_open(7, false));
    assert!(sim.commit(0) && sim.deliver(1));
    assert!(sim.replicas[0].answers().is_empty(), "committed, and not read yet");
    assert!(sim.replicas[1].answers().is_empty(), "nobody asked there");
    sim.deliver(0);
    assert!(matches!(sim.replicas[0].answers()[..], [Ok(Answer::Opened { epoch: 7, .. })]));
    assert!(
        matches!(sim.replicas[1].effects.last(), Some(Effect::Advanced { .. })),
        "its readers are woken"
    );
    assert_eq!(sim.replicas[0].state(), sim.replicas[1].state());
}

#[test]
fn a_session_moves_to_another_replica_and_fences_where_it_was() {
    let mut sim = Sim::new(&["a", "b"]);
    let first = sim.open(0, 7);
    sim.submit(0, mk_keepalive(first));
    sim.settle();
    let second = sim.open(1, 7);
    let ended = |one: &One| {
        let is_ended = |effect: &&Effect| matches!(effect, Effect::Ended { session, .. } if *session == first);
        one.effects.iter().filter(is_ended).count()
    };
    assert_eq!((ended(&sim.replicas[0]), first == second), (1, false));
    assert!(sim.is_live(0) && sim.is_live(1), "what it reported still stands");
    sim.submit(0, mk_publish(first, vec![mk_record("n1", 1, 1)]));
    sim.settle();
    assert_eq!(sim.replicas[0].answers().last(), Some(&&Err(Refusal::Ended)));
}

#[test]
fn what_a_lease_held_ends_with_it_and_without_grace() {
    let mut sim = Sim::new(&["a", "b"]);
    let session = sim.open(0, 7);
    sim.submit(0, mk_keepalive(session));
    sim.settle();
    assert!(sim.is_live(1));
    let now = sim.now;
    sim.replicas[1].replica.departed("a", now);
    sim.replicas[1].replica.departed("a", now);
    sim.replicas[1].replica.departed("stranger", now);
    sim.settle();
    assert!(!sim.is_live(1), "nobody knows how long it has been gone");
    // It was only slow: it sees that it is gone, and what it says is not heard until it joins again.
    assert!(!sim.replicas[0].replica.is_member());
    sim.submit(0, mk_open(8, false));
    sim.settle();
    assert_eq!(sim.replicas[0].sessions.len(), 1, "not yet");
    sim.replicas[0].replica.join(false, vec!["b".to_owned()], now);
    sim.settle();
    assert_eq!(sim.replicas[0].sessions.len(), 2);
}

#[test]
fn strangers_and_repetitions_change_nothing() {
    let mut machine = Machine::new("bus-1".to_owned(), Limits::default());
    let mk_entry = |seq, what| Entry {
        replica: "a".to_owned(),
        seq,
        seen: 0,
        at: Mono::ORIGIN,
        wall: Wall::UNIX_EPOCH,
        what,
    };
    let commands = || What::Commands(vec![mk_open(7, false)]);
    let join = What::Join {
        alone: true,
        present: Vec::new(),
    };
    assert_eq!(machine.apply(1, mk_entry(1, commands())), Applied::Ignored);
    assert!(matches!(machine.apply(2, mk_entry(2, join)), Applied::Done(_)));
    assert!(matches!(machine.apply(3, mk_entry(3, commands())), Applied::Done(_)));
    assert_eq!(machine.apply(4, mk_entry(3, commands())), Applied::Ignored, "said twice");
    assert_eq!(machine.apply(3, mk_entry(4, commands())), Applied::Ignored, "told twice");
    assert_eq!(machine.memory.open_sessions().count(), 1);
}

#[test]
fn the_first_of_the_replicas_writes_the_snapshot() {
    let mut sim = Sim::new(&["a", "b"]);
    let after = SnapshotAfter {
        entries: 10,
        bytes: 1_000_000,
    };
    let wants = |sim: &Sim| -> Vec<bool> { sim.replicas.iter().map(|one| one.replica.wants_snapshot(after)).collect() };
    for (count, wanted) in [(9, [false, false]), (1, [true, false]), (10, [true, true])] {
        for _ in 0..count {
            sim.replicas.iter_mut().for_each(|one| one.replica.counted(10));
        }
        assert_eq!(wants(&sim), wanted);
    }
}
