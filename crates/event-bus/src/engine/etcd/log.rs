//! Entries of the log: their form in etcd, and back.

use bailiff_model::{Mono, Revision, Topic, Wall};
use bailiff_proto::v1 as wire_pb;
use prost::Message as _;

use super::store as pb;
use crate::engine::{Command, Open, Report, SessionId};
use crate::record::{Body, Incoming};
use crate::wire::{self, envelope, scalar};

/// One step of the log.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::engine) struct Entry {
    /// Replica that appended it.
    pub(super) replica: String,
    /// Which of its entries this is, from 1.
    pub(super) seq: u64,
    /// etcd's revision of the last entry that the replica had applied when it made this one.
    pub(super) seen: u64,
    /// The bus's time then, as the replica counted it.
    pub(super) at: Mono,
    /// Its wall clock then.
    pub(super) wall: Wall,
    pub(super) what: What,
}

/// What an entry does.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::engine) enum What {
    /// Commands, one after another.
    Commands(Vec<Command>),
    /// A piece of the stored form of commands.
    Part { data: Vec<u8>, last: bool },
    /// The replica takes part from here on.
    Join { alone: bool, present: Vec<String> },
    /// The lease of this replica has ended.
    Gone(String),
}

// === impl Entry ===

impl Entry {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let what = match &self.what {
            What::Commands(commands) => pb::entry::What::Commands(to_commands(commands)),
            What::Part { data, last } => pb::entry::What::Part(pb::Part {
                data: data.clone(),
                last: *last,
            }),
            What::Join { alone, present } => pb::entry::What::Join(pb::Join {
                alone: *alone,
                present: present.clone(),
            }),
            What::Gone(replica) => pb::entry::What::Gone(pb::Gone {
                replica: replica.clone(),
            }),
        };
        let entry = pb::Entry {
            replica: self.replica.clone(),
            seq: self.seq,
            seen: self.seen,
            at: self.at.as_nanos(),
            wall: Some(scalar::to_time(self.wall)),
            what: Some(what),
        };
        entry.encode_to_vec()
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self, wire::Error> {
        let entry = pb::Entry::decode(bytes).map_err(|error| malformed(&error))?;
        let what = match entry.what.ok_or_else(|| wire::Error::absent("what"))? {
            pb::entry::What::Commands(commands) => What::Commands(from_commands(commands)?),
            pb::entry::What::Part(pb::Part { data, last }) => What::Part { data, last },
            pb::entry::What::Join(pb::Join { alone, present }) => What::Join { alone, present },
            pb::entry::What::Gone(pb::Gone { replica }) => What::Gone(replica),
        };
        Ok(Self {
            replica: entry.replica,
            seq: entry.seq,
            seen: entry.seen,
            at: Mono::from_nanos(entry.at),
            wall: scalar::time("wall", entry.wall)?,
            what,
        })
    }
}

/// The stored form of commands alone.
pub(super) fn encode(commands: &[Command]) -> Vec<u8> {
    to_commands(commands).encode_to_vec()
}

/// Commands from their stored form.
pub(super) fn decode(bytes: &[u8]) -> Result<Vec<Command>, wire::Error> {
    from_commands(pb::Commands::decode(bytes).map_err(|error| malformed(&error))?)
}

fn malformed(error: &prost::DecodeError) -> wire::Error {
    wire::Error::new("entry", error.to_string(), "what a replica of this format writes")
}

fn to_commands(commands: &[Command]) -> pb::Commands {
    let commands = commands.iter().map(|command| pb::Command {
        what: Some(to_command(command)),
    });
    pb::Commands {
        commands: commands.collect(),
    }
}

fn from_commands(commands: pb::Commands) -> Result<Vec<Command>, wire::Error> {
    let commands = commands.commands.into_iter();
    commands
        .map(|command| from_command(command.what.ok_or_else(|| wire::Error::absent("command"))?))
        .collect()
}

fn to_command(command: &Command) -> pb::command::What {
    use pb::command::What as W;
    match command {
        Command::Open(open) => W::Open(wire_pb::OpenSession {
            topic: open.topic.to_string(),
            shard: open.shard,
            shard_count: open.shard_count,
            producer: open.producer.clone(),
            epoch: open.epoch,
            replace: open.replace,
        }),
        Command::Publish { session, records } => W::Publish(pb::Publish {
            session: session.0,
            records: records.iter().map(to_incoming).collect(),
        }),
        Command::EndReplace { session } => W::EndReplace(session.0),
        Command::Keepalive { session, report } => W::Keepalive(pb::Keepalive {
            session: session.0,
            report: Some(wire_pb::Keepalive {
                tick_age: report.tick_age.map(scalar::to_duration),
                watch_age: report.watch_age.map(scalar::to_duration),
                detail: report.detail.clone(),
            }),
        }),
        Command::Close { session } => W::Close(session.0),
        Command::ResetEpoch { topic, shard } => W::ResetEpoch(wire_pb::ResetEpochRequest {
            topic: topic.to_string(),
            shard: *shard,
        }),
        Command::Witness { revision } => W::Witness(revision.0),
        Command::Tick => W::Tick(pb::Tick {}),
    }
}

fn to_incoming(incoming: &Incoming) -> wire_pb::Envelope {
    // Of a removal only the session knows the topic, and nobody asks.
    let topic = incoming.body.as_ref().map_or(Topic::NodeHealth, Body::topic);
    envelope::to_incoming(topic, incoming)
}

fn from_command(command: pb::command::What) -> Result<Command, wire::Error> {
    use pb::command::What as W;
    Ok(match command {
        W::Open(open) => Command::Open(Open {
            topic: envelope::topic("topic", &open.topic)?,
            shard: open.shard,
            shard_count: open.shard_count,
            producer: open.producer,
            epoch: open.epoch,
            replace: open.replace,
        }),
        W::Publish(publish) => Command::Publish {
            session: SessionId(publish.session),
            records: publish
                .records
                .into_iter()
                .map(envelope::accepted)
                .collect::<Result<_, _>>()?,
        },
        W::EndReplace(session) => Command::EndReplace {
            session: SessionId(session),
        },
        W::Keepalive(keepalive) => {
            let report = keepalive.report.unwrap_or_default();
            Command::Keepalive {
                session: SessionId(keepalive.session),
                report: Report {
                    tick_age: scalar::duration_if_any("tick_age", report.tick_age)?,
                    watch_age: scalar::duration_if_any("watch_age", report.watch_age)?,
                    detail: report.detail,
                },
            }
        }
        W::Close(session) => Command::Close {
            session: SessionId(session),
        },
        W::ResetEpoch(reset) => Command::ResetEpoch {
            topic: envelope::topic("topic", &reset.topic)?,
            shard: reset.shard,
        },
        W::Witness(revision) => Command::Witness {
            revision: Revision(revision),
        },
        W::Tick(pb::Tick {}) => Command::Tick,
    })
}
