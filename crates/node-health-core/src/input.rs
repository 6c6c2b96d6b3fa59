//! What the monitor is told.

use std::sync::Arc;
use std::time::Duration;

use bailiff_model::{Holds, Listed, Load, Mono, NodeHealth, NodeName, NodeRef, NodeUid, ResourceVersion, TraceContext};

use crate::effect::ReadBy;
use crate::facts::{LeaseFacts, NodeFacts};

/// A record of the monitor's own topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inherited {
    /// What it says.
    pub health: Box<NodeHealth>,
    /// The trace it carried.
    pub trace: Option<TraceContext>,
}

/// News of the monitor's own topic, all shards of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopicNews {
    /// All there is. The first one after leadership began is what is inherited.
    Snapshot {
        /// Every live record.
        records: Vec<Inherited>,
        /// Every shard is complete: a node without a record has none.
        complete: bool,
    },
    /// What changed; `None` for a record that is gone.
    Changes {
        /// The records, by key.
        records: Vec<(NodeName, Option<Inherited>)>,
        /// Every shard is complete.
        complete: bool,
    },
}

/// What a confirming read found of one node. The read is quorum-consistent: it is never served from a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// Both requests were answered.
    Found {
        /// The node.
        node: Box<NodeFacts>,
        /// Its lease, if it has one (NL-051).
        lease: Option<LeaseFacts>,
    },
    /// There is no such node.
    Gone,
    /// The node or its lease could not be read.
    Failed {
        /// The server asked to wait this long.
        retry_after: Option<Duration>,
        /// What it says of the server.
        load: Load,
        /// Why, for people.
        detail: Arc<str>,
    },
}

/// What became of a status write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    /// It is in the API, at this version.
    Stored(ResourceVersion),
    /// The node changed since it was read: nothing was written.
    Conflict,
    /// There is no such node.
    Gone,
    /// Not sent, because of [`crate::Effect::CallOff`].
    CalledOff,
    /// Refused or not answered: whether it is in the API is not known.
    Failed {
        /// The server asked to wait this long.
        retry_after: Option<Duration>,
        /// What it says of the server.
        load: Load,
        /// Why, for people.
        detail: Arc<str>,
    },
}

/// What the monitor is told. Nothing else reaches it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Some of a list of nodes that [`Input::Nodes`] ends.
    SomeNodes {
        /// The list begins. What one that broke off has shown stands; who is gone it does not say.
        first: bool,
        /// These.
        nodes: Vec<NodeFacts>,
    },
    /// These, and those of [`Input::SomeNodes`] since the list began, if it came in parts, are all nodes there are: start of a watch, or
    /// its repetition.
    Nodes(Listed<NodeFacts, NodeName>),
    /// A node was created or changed.
    NodeApplied(NodeFacts),
    /// A node is gone.
    NodeDeleted {
        /// Its name.
        name: NodeName,
        /// Its uid; if empty, whichever is known by the name.
        uid: NodeUid,
    },
    /// Some of a list of leases that [`Input::Leases`] ends.
    SomeLeases {
        /// The list begins. What one that broke off has shown stands; who is gone it does not say.
        first: bool,
        /// These.
        leases: Vec<LeaseFacts>,
    },
    /// These, and those of [`Input::SomeLeases`] since the list began, if it came in parts, are all leases there are.
    Leases(Listed<LeaseFacts, NodeName>),
    /// A lease was created or changed.
    LeaseApplied(LeaseFacts),
    /// A lease is gone. Not a sign of anything (NL-051).
    LeaseDeleted(NodeName),
    /// News of the own topic.
    Topic(TopicNews),
    /// The shard was acquired, or lost. Nothing is done before the first `true`; a subscription of the own topic starts anew with it.
    Leading(bool),
    /// These holds from outside are in force, and no others. Nothing is written about the nodes they cover; what ended of their grace
    /// meanwhile is read again afterwards.
    Braked(Holds),
    /// Answer to one [`crate::Effect::Confirm`]; every one gets exactly one, within the shell's deadline.
    Confirmed {
        /// As in the effect.
        asked: Mono,
        /// As in the effect.
        by: ReadBy,
        /// One per node asked for.
        answers: Vec<(NodeName, Read)>,
    },
    /// Answer to one [`crate::Effect::WriteUnknown`]; every one gets exactly one, within the shell's deadline.
    Written {
        /// As in the effect.
        node: NodeRef,
        /// What became of it.
        outcome: WriteOutcome,
    },
    /// The moment asked for by [`crate::Effect::WakeAt`] has come. To be sent when no other input waits: what waits may be a sign of
    /// life.
    Wake,
}
