//! The engine that several buses share: commands go through a log in etcd, and every replica applies the same log.
//!
//! etcd orders and keeps; what a command does is decided when it comes out of the log, by [`Memory`](super::Memory), the same on every
//! replica. So there is one set of rules, fencing needs no more than the order, and a batch or a replace is one change because it is
//! applied as one, however many transactions brought it. Now and then a replica writes a snapshot, and what the log said before is
//! removed. Why this and not a key in etcd for every record: docs/adr/0004.
//!
//! [`Etcd`] and below it [`replica`], [`machine`], [`log`] and [`snapshot`] are pure; [`driver`] owns the connection to etcd. They
//! exchange [`Input`] and [`Output`].
//!
//! Wanted properties, proven in `tests/`: all that [`Memory`](super::Memory) has; and
//! (F) what was answered is committed in etcd; (G) replicas that have read the same log are in the same state, and that is the state of
//! the memory engine after the same commands; (H) what one replica's lease held ends with the lease; (I) no record ever looks older than
//! it is.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bailiff_model::{Now, Revision, Topic};
use tokio::sync::{Notify, mpsc};

mod append;
mod client;
mod driver;
mod keys;
mod load;
mod log;
mod machine;
mod presence;
mod replica;
mod save;
mod service;
mod snapshot;
#[cfg(test)]
mod tests;
mod watch;

pub use self::client::{Error, Member};
pub use self::driver::{Config, Driver, connect};
pub use self::service::{Status, serve};

use self::log::Entry;
use self::machine::Machine;
use self::replica::{Append, Logged, Replica};
use super::{Command, Effect, Engine, Kept, Position, Refusal, Selection, Set, Ticket, TopicFigures};
use crate::record::ShardStatus;

/// Messages of what is kept in etcd.
#[allow(clippy::all, missing_docs)]
pub(super) mod store {
    tonic::include_proto!("bailiff.store.v1");
}

/// Messages of etcd.
#[allow(clippy::all, clippy::large_enum_variant, missing_docs)]
mod rpc {
    tonic::include_proto!("etcdserverpb");
}

/// How much the log may hold before a replica writes a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotAfter {
    /// Entries: with ten sessions' keepalives, some 20 minutes. Reading so many takes a moment only.
    pub entries: u64,
    /// Bytes: or as many as the last snapshot had, if those are more. So writing snapshots costs no more than writing the log did.
    pub bytes: u64,
}

impl Default for SnapshotAfter {
    fn default() -> Self {
        Self {
            entries: 10_000,
            bytes: 16 * 1024 * 1024,
        }
    }
}

/// What the driver tells the engine.
#[derive(Debug)]
enum Input {
    /// An entry came out of the log.
    Entry {
        revision: u64,
        bytes: usize,
        /// `None`: this format does not know it.
        entry: Option<Entry>,
    },
    /// etcd has taken the entry.
    Committed(u64),
    /// It is time to take part.
    Join { alone: bool, present: Vec<String> },
    /// The lease of this replica ended.
    Departed(String),
    /// There is a snapshot of so many bytes, of all but this of the log; `None`: it was asked for and is not there.
    Snapshot(Option<(u64, Logged)>),
    /// The log was lost in part; this is what it came to.
    Reload(Box<Machine>),
}

/// What the engine wants of the driver.
#[derive(Debug)]
enum Output {
    /// Append this, until it is known that it was.
    Append(Append),
    /// Write a snapshot of this.
    Snapshot(Box<Machine>),
    /// The others count this replica as gone: join again.
    Left,
    /// The data went back in time: begin the bus anew.
    Forgotten,
}

/// How a replica is doing, for readiness and metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// The replica takes part.
    pub is_member: bool,
    /// etcd's revision of the last entry applied.
    pub position: u64,
    /// How long the oldest of its entries has waited to come back out of the log.
    pub waiting: std::time::Duration,
    /// Entries in the log since the last snapshot.
    pub entries: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Entries that this format does not know.
    pub malformed: u64,
    /// Bytes of the last snapshot.
    pub snapshot_bytes: u64,
    /// How often etcd did not take an entry when it was asked to.
    pub append_failures: u64,
}

/// The engine over etcd.
#[derive(Debug)]
pub struct Etcd {
    incarnation: String,
    replica: Replica,
    inputs: mpsc::Receiver<Input>,
    outputs: mpsc::Sender<Output>,
    wake: Arc<Notify>,
    standing: Arc<Mutex<Standing>>,
    snapshot_after: SnapshotAfter,
    cut_off_after: Duration,
    is_snapshot_asked: bool,
    has_left: bool,
    was_member: bool,
}

/// How many steps one call of [`Engine::poll`] takes: whoever waits for the lock must not wait for a whole log.
const INPUTS_PER_POLL: usize = 256;

impl Etcd {
    fn new(
        incarnation: String,
        replica: Replica,
        (inputs, outputs): (mpsc::Receiver<Input>, mpsc::Sender<Output>),
        wake: Arc<Notify>,
        standing: Arc<Mutex<Standing>>,
        config: &Config,
    ) -> Self {
        Self {
            incarnation,
            replica,
            inputs,
            outputs,
            wake,
            standing,
            snapshot_after: config.snapshot_after,
            cut_off_after: config.cut_off_after,
            is_snapshot_asked: false,
            has_left: false,
            was_member: false,
        }
    }

    /// Notified when there is something to [`Engine::poll`].
    pub fn wake(&self) -> Arc<Notify> {
        Arc::clone(&self.wake)
    }

    /// The replica takes part: it takes commands, and what it holds is up to date.
    pub fn is_member(&self) -> bool {
        self.replica.is_member()
    }

    /// etcd's revision of the last entry applied.
    fn position(&self) -> u64 {
        self.replica.machine.position
    }

    /// How it is doing, to be read from elsewhere.
    pub fn standing(&self) -> Arc<Mutex<Standing>> {
        Arc::clone(&self.standing)
    }

    fn take(&mut self, input: Input, now: Now) -> Vec<Effect> {
        match input {
            Input::Entry { revision, bytes, entry } => {
                self.replica.counted(bytes);
                let Some(entry) = entry else {
                    self.tell(|standing| standing.malformed += 1);
                    return Vec::new();
                };
                let effects = self.replica.take(revision, entry, now);
                if effects.iter().any(is_forgotten) {
                    self.say(Output::Forgotten);
                }
                return effects;
            }
            Input::Committed(seq) => self.replica.committed(seq),
            Input::Join { alone, present } => self.replica.join(alone, present, now),
            Input::Departed(replica) => self.replica.departed(&replica, now),
            Input::Snapshot(snapshot) => {
                self.is_snapshot_asked = false;
                if let Some((bytes, since)) = snapshot {
                    self.replica.snapshot_taken(bytes, since);
                    self.tell(|standing| standing.snapshot_bytes = bytes);
                }
            }
            Input::Reload(machine) => return self.replica.reload(*machine, now),
        }
        Vec::new()
    }

    /// Says what the driver has to do now.
    fn ask(&mut self, now: Now) {
        if let Some(append) = self.replica.next_append(now) {
            self.say(Output::Append(append));
        }
        let is_member = self.replica.is_member();
        if self.was_member && !is_member && !self.has_left {
            self.has_left = true;
            self.say(Output::Left);
        }
        self.has_left &= !is_member;
        self.was_member |= is_member;
        if !self.is_snapshot_asked && self.replica.wants_snapshot(self.snapshot_after) {
            self.is_snapshot_asked = true;
            let machine = Box::new(self.replica.machine.clone());
            self.say(Output::Snapshot(machine));
        }
        let standing = self.replica.standing(now.mono);
        self.tell(|told| {
            (told.is_member, told.position, told.waiting) = (standing.is_member, standing.position, standing.waiting);
            (told.entries, told.bytes) = (standing.entries, standing.bytes);
        });
    }

    fn say(&self, output: Output) {
        // There is at most one of each kind under way, so there is room; a driver that is gone wants nothing.
        if self.outputs.try_send(output).is_err() {
            tracing::debug!("Driver of the etcd engine is gone");
        }
    }

    fn tell(&self, change: impl FnOnce(&mut Standing)) {
        change(&mut self.standing.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn memory(&self) -> &super::Memory {
        &self.replica.machine.memory
    }
}

/// A reader has seen what the log does not know.
const fn is_forgotten(effect: &Effect) -> bool {
    matches!(
        effect,
        Effect::Answer {
            result: Err(Refusal::Forgotten { .. }),
            ..
        }
    )
}

impl Engine for Etcd {
    fn apply(&mut self, ticket: Ticket, command: Command, now: Now) -> Vec<Effect> {
        let effects = self.replica.submit(ticket, command, now);
        self.ask(now);
        effects
    }

    fn poll(&mut self, now: Now) -> Vec<Effect> {
        let mut effects = Vec::new();
        for _ in 0..INPUTS_PER_POLL {
            let Ok(input) = self.inputs.try_recv() else { break };
            effects.extend(self.take(input, now));
            self.ask(now);
        }
        if !self.inputs.is_empty() {
            self.wake.notify_one();
        }
        effects
    }

    fn time(&self, now: Now) -> Now {
        self.replica.time(now)
    }

    fn incarnation(&self) -> &str {
        &self.incarnation
    }

    fn may_lag(&self) -> bool {
        true
    }

    fn is_cut_off(&self, now: Now) -> bool {
        self.replica.is_cut_off(self.cut_off_after, now)
    }

    fn head(&self) -> Revision {
        self.memory().head()
    }

    fn oldest_resumable(&self) -> Revision {
        self.memory().oldest_resumable()
    }

    fn read(&self, selection: &Selection, position: Position, now: Now) -> Set {
        self.memory().read(selection, position, self.time(now))
    }

    fn shards(&self, topics: &BTreeSet<Topic>, now: Now) -> Vec<ShardStatus> {
        self.memory().shards(topics, self.time(now))
    }

    fn history(&self, topic: Topic, key: &str) -> Vec<Arc<Kept>> {
        self.memory().history(topic, key)
    }

    fn figures(&self) -> Vec<TopicFigures> {
        self.memory().figures()
    }
}
