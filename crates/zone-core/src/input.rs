//! What the evictor is told.

use std::time::Duration;

use bailiff_model::intent::Intent;
use bailiff_model::outcome::Outcome;
use bailiff_model::{Holds, Listed, Load, Mono, NodeHealth, NodeName, NodeUid, Origin, Topic, TraceContext, Wall};

use crate::effect::Ticket;
use crate::fact::{DaemonSetFacts, DaemonSetKey, NodeFacts, PodFacts};

/// One thing the evictor is told.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// Some of a list of nodes that [`Input::Nodes`] ends.
    SomeNodes {
        /// The list begins. What one that broke off has shown stands; who is gone it does not say.
        first: bool,
        /// These.
        nodes: Vec<NodeFacts>,
    },
    /// The Node watch begins, or began again: these, and those of [`Input::SomeNodes`] since the list began, if it came in parts, are all
    /// nodes.
    Nodes(Listed<NodeFacts, NodeName>),
    /// A Node was added or changed.
    NodeApplied(NodeFacts),
    /// A Node is gone.
    NodeDeleted {
        /// Its name.
        name: NodeName,
        /// Its uid, if the watch told.
        uid: Option<NodeUid>,
    },
    /// The Node watch is fresh, or no longer.
    ApiFresh(bool),
    /// The DaemonSet watch begins, or began again: these are all. Node mode only, as all news of DaemonSets.
    DaemonSets(Listed<DaemonSetFacts, DaemonSetKey>),
    /// A DaemonSet was added or changed.
    DaemonSetApplied(DaemonSetFacts),
    /// A DaemonSet is gone.
    DaemonSetDeleted(DaemonSetKey),
    /// The DaemonSet watch is fresh, or no longer.
    DaemonSetsFresh(bool),
    /// The bus begins, or begins again: these are all records of the topics.
    Snapshot {
        /// Records.
        records: Vec<Record>,
        /// Shards.
        shards: Vec<ShardStatus>,
    },
    /// One atomic set of changes.
    Changes {
        /// Records.
        records: Vec<Record>,
        /// Shards.
        shards: Vec<ShardStatus>,
    },
    /// Liveness of shards.
    Status(Vec<ShardStatus>),
    /// The bus cannot be reached.
    BusLost {
        /// Since when.
        since: Mono,
    },
    /// Answer to [`crate::Effect::WriteTaints`] or [`crate::Effect::ReadNode`].
    NodeAnswer {
        /// Of the effect.
        ticket: Ticket,
        /// The node as it is now.
        result: Result<NodeFacts, Failure>,
    },
    /// Answer to [`crate::Effect::ReadPod`], [`crate::Effect::MarkPod`], [`crate::Effect::DeletePod`] or
    /// [`crate::Effect::EvictPod`].
    PodAnswer {
        /// Of the effect.
        ticket: Ticket,
        /// The answer.
        result: Result<PodAnswer, Failure>,
    },
    /// These holds from outside are in force, and no others.
    Braked(Holds),
    /// The time asked for has come.
    Wake,
}

/// A record of the bus, as far as it matters here.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Topic.
    pub topic: Topic,
    /// Key.
    pub key: String,
    /// Its place in the bus.
    pub origin: Origin,
    /// The record it was derived from, if any.
    pub derived_from: Origin,
    /// When it was made, by its producer's clock.
    pub produced_at: Wall,
    /// How long ago that was, by monotonic clocks; `None`: unknown.
    pub age: Option<Duration>,
    /// This instance said it: our own word comes back.
    pub is_echo: bool,
    /// Trace.
    pub trace: Option<TraceContext>,
    /// Payload; `None` is a tombstone.
    pub body: Option<Body>,
}

/// A payload that the evictor reads.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// Topic `node-health`.
    Health(Box<NodeHealth>),
    /// Topic `eviction-intents`.
    Intent(Intent),
    /// Topic `eviction-outcomes`: what an earlier instance said.
    Outcome(Outcome),
    /// Something that is not understood: the key is not gone, and what was known of it is outdated.
    Unreadable,
}

/// State of one shard of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardStatus {
    /// Topic.
    pub topic: Topic,
    /// Shard, from 0.
    pub shard: u32,
    /// Shards of the topic; 0 while nobody ever published to it.
    pub shard_count: u32,
    /// Its initial state is known whole.
    pub complete: bool,
    /// Its producer decides, on fresh watches.
    pub live: bool,
    /// Why it is not live, for people.
    pub detail: String,
}

/// A good answer about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodAnswer {
    /// The pod as it is now.
    Facts(PodFacts),
    /// The deletion, or the eviction, was accepted.
    Deleted,
    /// A PodDisruptionBudget forbids the eviction at the moment.
    Blocked(Block),
}

/// What forbids an eviction at the moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The budget, `<namespace>/<name>`.
    pub by: String,
    /// Not to be tried again before this has passed.
    pub retry_after: Option<Duration>,
    /// The server's words.
    pub detail: String,
}

/// A request that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Kind.
    pub kind: FailureKind,
    /// The server wants to be left alone for this long.
    pub retry_after: Option<Duration>,
    /// What it says of how busy the server is.
    pub load: Load,
    /// The server's words.
    pub detail: String,
}

/// What a failure means for what comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The object is not there.
    Gone,
    /// A precondition did not hold.
    Conflict,
    /// Not now.
    Throttled,
    /// Not as it is, by what the server goes by at the moment.
    Invalid,
    /// Not applied, may be allowed later: permission is missing.
    Denied,
    /// Never left this process: leadership is missing, or its own rate limit did not let it go in time.
    NotSent,
    /// Not sent, because of [`crate::Effect::CallOff`].
    CalledOff,
    /// It is not known whether it was applied.
    Unknown,
}

impl FailureKind {
    /// Its word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Gone => "gone",
            Self::Conflict => "conflict",
            Self::Throttled => "throttled",
            Self::Invalid => "invalid",
            Self::Denied => "denied",
            Self::NotSent => "not_sent",
            Self::CalledOff => "called_off",
            Self::Unknown => "unknown",
        }
    }
}
