//! What a bus is, apart from how it is reached: commands in, effects out.
//!
//! An [`Engine`] is pure: no tokio, no clock, no sockets; time is an argument and effects are data. The server owns one and does
//! what the effects say. [`Memory`] keeps everything in this process; [`Etcd`] shares one memory between several.
//!
//! Writes are asynchronous by shape: [`Engine::apply`] takes a ticket, and the answer is an [`Effect`] that carries that ticket, of
//! this call or of a later [`Engine::poll`]. Reads are local by shape: they are served from what the engine holds, without waiting.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bailiff_model::{Now, Revision, Topic};

pub mod cursor;
pub mod etcd;
mod kept;
mod limits;
mod memory;
mod refusal;

pub use self::etcd::Etcd;
pub use cursor::{Position, SnapshotReason};
pub use kept::Kept;
pub use limits::Limits;
pub use memory::Memory;
pub use refusal::Refusal;

use crate::record::{Incoming, ShardStatus};

/// Number that ties an answer to its command; chosen by the caller.
pub type Ticket = u64;

/// A producer's session; never used again within one incarnation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// What a producer says when it opens a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    /// Topic.
    pub topic: Topic,
    /// Shard, from 0.
    pub shard: u32,
    /// How many shards the topic has.
    pub shard_count: u32,
    /// Who publishes.
    pub producer: String,
    /// Epoch, or 0: issue one.
    pub epoch: u64,
    /// The session begins with a replace part.
    pub replace: bool,
}

/// What a producer reports of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Time since its decision loop last turned; `None`: it never did.
    pub tick_age: Option<Duration>,
    /// By how much the least fresh of its API watches is overdue; zero where there are none; `None`: one never gave a sign of life.
    pub watch_age: Option<Duration>,
    /// Why it does not count itself live, or empty.
    pub detail: String,
}

/// A write.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Opens a session.
    Open(Open),
    /// Publishes records, all or none; stages them in a replace part.
    Publish {
        /// Session.
        session: SessionId,
        /// 1 to [`Limits::batch`] records of the session's topic.
        records: Vec<Incoming>,
    },
    /// Ends the replace part.
    EndReplace {
        /// Session.
        session: SessionId,
    },
    /// A sign of life.
    Keepalive {
        /// Session.
        session: SessionId,
        /// What the producer reports.
        report: Report,
    },
    /// The session's stream ended.
    Close {
        /// Session.
        session: SessionId,
    },
    /// Break-glass: forget the shard's epoch and end its session.
    ResetEpoch {
        /// Topic.
        topic: Topic,
        /// Shard.
        shard: u32,
    },
    /// A reader has seen this bus at this revision: refused if the bus does not know it, for then it has lost data.
    Witness {
        /// The revision.
        revision: Revision,
    },
    /// Time passed; to be sent at least every second.
    Tick,
}

/// The answer to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// To [`Command::Open`].
    Opened {
        /// The session.
        session: SessionId,
        /// Its epoch, given or issued.
        epoch: u64,
        /// The shard is complete already.
        complete: bool,
    },
    /// To [`Command::Publish`].
    Published {
        /// Revision of each record, in order; empty if they were staged.
        revisions: Vec<Revision>,
    },
    /// To [`Command::EndReplace`].
    Replaced {
        /// Revision at which the replaced state stands.
        revision: Revision,
    },
    /// To [`Command::Keepalive`].
    Kept {
        /// The shard counts as live.
        live: bool,
    },
    /// To [`Command::ResetEpoch`].
    EpochReset {
        /// Epoch the shard had before.
        previous: u64,
    },
    /// To [`Command::Close`], [`Command::Witness`] and [`Command::Tick`].
    Done,
}

/// What the owner of an engine has to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Answer the command of this ticket.
    Answer {
        /// Ticket of the command.
        ticket: Ticket,
        /// The answer.
        result: Result<Answer, Refusal>,
    },
    /// End the stream of this session; the engine has forgotten it.
    Ended {
        /// Session.
        session: SessionId,
        /// Why.
        refusal: Refusal,
    },
    /// There is something new up to this revision: wake the readers.
    Advanced {
        /// Newest revision.
        head: Revision,
    },
}

/// Topics, routes and producers that a reader wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Topics.
    pub topics: BTreeSet<Topic>,
    /// Routes that pass, for topics that are filtered.
    pub filters: BTreeMap<Topic, BTreeSet<String>>,
    /// Whose records are left out.
    pub except: Option<Speaker>,
}

/// A producer in one epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Speaker {
    /// Who publishes.
    pub producer: String,
    /// Epoch; never 0.
    pub epoch: u64,
}

/// One atomic set: everything between two positions, coalesced per key.
#[derive(Clone, Debug, PartialEq)]
pub struct Set {
    /// Set if this is a snapshot and not a continuation.
    pub snapshot: Option<SnapshotReason>,
    /// Records in rising order of revision, each key once.
    pub records: Vec<Arc<Kept>>,
    /// Shards whose state changed; in a snapshot all.
    pub shards: Vec<ShardStatus>,
    /// Position after this set.
    pub upto: Revision,
}

/// Figures of one topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicFigures {
    /// Topic.
    pub topic: Topic,
    /// Live keys.
    pub keys: usize,
    /// Most live keys that it may have, by what the others have now.
    pub most_keys: usize,
    /// Tombstones kept.
    pub tombstones: usize,
    /// Records kept, history included.
    pub records: usize,
    /// Open sessions.
    pub sessions: usize,
}

/// A bus, apart from how it is reached.
pub trait Engine: Send + 'static {
    /// Takes a command. The answer is among the effects of this call or of a later one.
    fn apply(&mut self, ticket: Ticket, command: Command, now: Now) -> Vec<Effect>;

    /// What came of earlier commands, and of what others did to the same bus, since this was last asked.
    fn poll(&mut self, now: Now) -> Vec<Effect> {
        let _ = now;
        Vec::new()
    }

    /// The time that the engine counts by, at `now` of its owner: what a record's `received_at` is of.
    fn time(&self, now: Now) -> Now {
        now
    }

    /// Identity of this memory; a bus that lost its memory has another.
    fn incarnation(&self) -> &str;

    /// True if others write to the same bus, so that a reader may have seen more of it elsewhere.
    fn may_lag(&self) -> bool {
        false
    }

    /// True if nothing that others write has come here for so long that a reader should look for it elsewhere.
    fn is_cut_off(&self, now: Now) -> bool {
        let _ = now;
        false
    }

    /// Newest revision.
    fn head(&self) -> Revision;

    /// Oldest revision a cursor may have.
    fn oldest_resumable(&self) -> Revision;

    /// Everything after `position` that `selection` wants. Costs what there is to deliver, and nothing while nobody reads.
    fn read(&self, selection: &Selection, position: Position, now: Now) -> Set;

    /// The states of all shards of these topics.
    fn shards(&self, topics: &BTreeSet<Topic>, now: Now) -> Vec<ShardStatus>;

    /// The records kept of a key, oldest first.
    fn history(&self, topic: Topic, key: &str) -> Vec<Arc<Kept>>;

    /// Figures of every topic, in pipeline order.
    fn figures(&self) -> Vec<TopicFigures>;
}

// === impl Report ===

impl Report {
    /// The same report, `by` later.
    pub(crate) fn older_by(self, by: Duration) -> Self {
        let older = |age: Option<Duration>| age.map(|age| age.saturating_add(by));
        Self {
            tick_age: older(self.tick_age),
            watch_age: older(self.watch_age),
            detail: self.detail,
        }
    }
}

// === impl Selection ===

impl Selection {
    /// All of these topics.
    pub fn of(topics: impl IntoIterator<Item = Topic>) -> Self {
        Self {
            topics: topics.into_iter().collect(),
            filters: BTreeMap::new(),
            except: None,
        }
    }

    /// True if a record with this route is wanted. Records without a route always are.
    pub fn passes(&self, topic: Topic, route: &str) -> bool {
        route.is_empty() || self.filters.get(&topic).is_none_or(|routes| routes.contains(route))
    }

    /// A number that changes with what is selected: a cursor is good for one selection only.
    pub fn fingerprint(&self) -> u64 {
        let topics = self.topics.iter().map(|topic| topic.as_str());
        let filters = self.filters.iter().flat_map(|(topic, routes)| {
            let routes = routes.iter().map(String::as_str);
            ["\u{1}", topic.as_str()].into_iter().chain(routes)
        });
        let except = self
            .except
            .as_ref()
            .map(|speaker| format!("\u{2}{} {}", speaker.epoch, speaker.producer));
        // FNV-1a, each text closed by a byte that is in none: it only has to tell accidents apart.
        let texts = topics.chain(filters).chain(except.as_deref());
        let bytes = texts.flat_map(|text| text.bytes().chain([0]));
        bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_of_one_selection() {
        let except = |producer: &str, epoch| {
            Some(Speaker {
                producer: producer.to_owned(),
                epoch,
            })
        };
        let filters = |routes: &[&str]| [(Topic::NodeHealth, routes.iter().map(|route| (*route).to_owned()).collect())].into();
        let all = Selection::of([Topic::NodeHealth]);
        let selections = [
            Selection::of([Topic::NodeHealth, Topic::EvictionIntents]),
            Selection {
                filters: filters(&["eu:a"]),
                ..all.clone()
            },
            Selection {
                filters: filters(&["eu:a", "eu:b"]),
                ..all.clone()
            },
            Selection {
                except: except("a", 1),
                ..all.clone()
            },
            Selection {
                except: except("a", 2),
                ..all.clone()
            },
            Selection {
                except: except("b", 1),
                ..all.clone()
            },
            all,
        ];
        let fingerprints: BTreeSet<u64> = selections.iter().map(Selection::fingerprint).collect();
        assert_eq!(fingerprints.len(), selections.len());
    }
}
