//! What a [`crate::Manager`] is told.

use std::time::Duration;

use bailiff_model::intent::Intent;
use bailiff_model::{Holds, Listed, Load, NodeHealth, NodeName, NodeUid, Origin, PodUid, ResourceVersion, TraceContext};

use crate::facts::{NodeFacts, PodFacts};

/// One thing that happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// Some of a list of Nodes that [`Input::Nodes`] ends.
    SomeNodes {
        /// The list begins. What one that broke off has shown stands; who is gone it does not say.
        first: bool,
        /// These.
        nodes: Vec<NodeFacts>,
    },
    /// These, and those of [`Input::SomeNodes`] since the list began, if it came in parts, are all Nodes there are.
    Nodes(Listed<NodeFacts, NodeName>),
    /// A Node was created or changed.
    Node(NodeFacts),
    /// A Node is gone.
    NodeGone {
        /// Name.
        name: NodeName,
        /// Uid of the one that is gone.
        uid: NodeUid,
    },
    /// Some of a list of Pods that [`Input::Pods`] ends.
    SomePods {
        /// The list begins. What one that broke off has shown stands; who is gone it does not say.
        first: bool,
        /// These.
        pods: Vec<PodFacts>,
    },
    /// These, and those of [`Input::SomePods`] since the list began, if it came in parts, are all Pods there are.
    Pods(Listed<PodFacts, PodUid>),
    /// A Pod was created or changed.
    Pod(PodFacts),
    /// A Pod is gone.
    PodGone(PodUid),
    /// News of topic `node-health`.
    Health {
        /// Forget what was known of the topic; these records are all there is.
        snapshot: bool,
        /// Every shard of the topic is complete: a missing key means something.
        complete: bool,
        /// Records, in rising order.
        records: Vec<HealthRecord>,
        /// Nodes whose newest record is not understood: they are there, and nothing else is known of them.
        unreadable: Vec<NodeName>,
    },
    /// What the bus remembers of the own topic from before this process. Only the first one counts.
    Inherit(Vec<Inherited>),
    /// The answer to [`crate::Effect::PatchNode`]. Every effect gets exactly one.
    NodePatched {
        /// The node.
        name: NodeName,
        /// What became of it.
        answer: Answer,
    },
    /// The answer to [`crate::Effect::ReadNode`].
    NodeRead {
        /// The node.
        name: NodeName,
        /// What was read.
        reading: Reading<NodeFacts>,
    },
    /// The answer to [`crate::Effect::MarkPod`].
    PodMarked {
        /// The pod.
        uid: PodUid,
        /// What became of it.
        answer: Answer,
    },
    /// The answer to [`crate::Effect::ReadPod`].
    PodRead {
        /// The pod that was meant.
        uid: PodUid,
        /// What was read.
        reading: Reading<PodFacts>,
    },
    /// These holds from outside are in force, and no others: pods of the nodes they cover are not marked. (Zones that the monitor holds
    /// are in the records of `Health`.)
    Braked(Holds),
    /// Time has passed: the moment of the last [`crate::Effect::WakeAt`], or any other.
    Wake,
}

/// One record of topic `node-health`.
#[derive(Clone, Debug, PartialEq)]
pub struct HealthRecord {
    /// Key.
    pub name: NodeName,
    /// Its place in the bus.
    pub origin: Origin,
    /// Trace of the incident.
    pub trace: Option<TraceContext>,
    /// What was judged; `None` for a tombstone.
    pub health: Option<NodeHealth>,
}

/// One record of topic `eviction-intents` that was published before this process began.
#[derive(Clone, Debug, PartialEq)]
pub struct Inherited {
    /// What it says.
    pub intent: Intent,
    /// How long ago it was decided, by monotonic clocks; `None`: unknown, and then not long.
    pub age: Option<Duration>,
    /// The health record it was derived from, if any.
    pub derived_from: Origin,
    /// Its trace.
    pub trace: Option<TraceContext>,
}

/// What became of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Written; the object is at this version now.
    Done(ResourceVersion),
    /// The object, or this incarnation of it, is not there any more.
    Gone,
    /// Not sent, because of [`crate::Effect::CallOff`].
    CalledOff,
    /// Not written. It will be tried again from a fresh read, not before this long.
    Failed {
        /// What the server asked for.
        retry_after: Option<Duration>,
        /// What it says of the server.
        load: Load,
    },
}

/// What became of a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading<T> {
    /// The object as it is now.
    Found(T),
    /// It is not there.
    Gone,
    /// No answer.
    Failed {
        /// What the server asked for.
        retry_after: Option<Duration>,
        /// What it says of the server.
        load: Load,
    },
}
