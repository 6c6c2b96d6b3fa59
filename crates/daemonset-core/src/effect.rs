//! What goes into the core and what comes out of it.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bailiff_model::rollout::{Counts, DaemonSetSync};
use bailiff_model::{About, Holds, Listed, Mono, Namespace, NodeName, PodName, PodUid, ResourceVersion};
use serde_json::{Value, json};

use crate::facts::{Condition, DaemonSet, Node, Pod, Revision};
use crate::template::Blueprint;

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// Some of a list of nodes that [`Input::Nodes`] ends.
    SomeNodes {
        /// The list begins. What one that broke off has shown stands; who is gone it does not say.
        first: bool,
        /// These.
        nodes: Vec<Node>,
    },
    /// These, and those of [`Input::SomeNodes`] since the list began, if it came in parts, are all nodes there are.
    Nodes(Listed<Node, NodeName>),
    /// A node was created or changed.
    NodeApplied(Node),
    /// A node is gone.
    NodeDeleted(NodeName),
    /// Some of a list of pods that [`Input::Pods`] ends.
    SomePods {
        /// What is listed.
        of: Scope,
        /// The list begins. What one that broke off has shown stands; who is gone it does not say.
        first: bool,
        /// These.
        pods: Vec<Pod>,
    },
    /// These, and those of [`Input::SomePods`] since the list began, if it came in parts, are all pods of a scope.
    Pods {
        /// What was listed.
        of: Scope,
        /// These.
        pods: Listed<Pod, PodUid>,
    },
    /// A pod was created or changed.
    PodApplied {
        /// Whose watch tells of it.
        of: Scope,
        /// The pod.
        pod: Pod,
    },
    /// A pod is gone.
    PodDeleted(PodUid),
    /// All DaemonSets there are; those that cannot be read by namespace and name.
    DaemonSets(Listed<DaemonSet, (Namespace, Arc<str>)>),
    /// A DaemonSet was created or changed.
    DaemonSetApplied(DaemonSet),
    /// A DaemonSet is gone.
    DaemonSetDeleted {
        /// Namespace.
        namespace: Namespace,
        /// Name.
        name: Arc<str>,
        /// Uid: one of another uid that took its name stays.
        uid: Arc<str>,
    },
    /// All revisions there are; those that cannot be read by uid.
    Revisions(Listed<Revision, Arc<str>>),
    /// A revision was created or changed.
    RevisionApplied(Revision),
    /// A revision is gone.
    RevisionDeleted {
        /// Namespace.
        namespace: Namespace,
        /// Name.
        name: Arc<str>,
        /// Uid.
        uid: Arc<str>,
    },
    /// A watch is not fresh any more; `reason` is for people.
    WatchStale {
        /// Which.
        watch: Watched,
        /// Why.
        reason: String,
    },
    /// A watch is fresh again.
    WatchFresh(Watched),
    /// These holds from outside are in force, and no others: running pods of the nodes they cover are not deleted.
    Braked(Holds),
    /// A request ended.
    Answered(RequestId, Answer),
    /// Time has passed.
    Tick,
}

/// Pods that are listed and watched together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// All.
    All,
    /// Those of a namespace.
    Namespace(Namespace),
}

/// What is watched.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Watched {
    /// DaemonSets.
    DaemonSets,
    /// ControllerRevisions.
    Revisions,
    /// Nodes.
    Nodes,
    /// Pods, as [`Effect::WatchPods`] asks for them.
    Pods(Scope),
}

impl Watched {
    /// The resource's name in the API.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::DaemonSets => "daemonsets",
            Self::Revisions => "controllerrevisions",
            Self::Nodes => "nodes",
            Self::Pods(_) => "pods",
        }
    }
}

/// For people.
impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())?;
        match self {
            Self::Pods(Scope::Namespace(namespace)) => write!(f, " in {namespace}"),
            _ => Ok(()),
        }
    }
}

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Send a request, and answer it by [`Input::Answered`]: every request is answered exactly once.
    Send {
        /// What the answer names.
        id: RequestId,
        /// On whose behalf.
        owner: Arc<Owner>,
        /// What goes first.
        urgency: Urgency,
        /// The request.
        request: Request,
    },
    /// Do not send this request, if it was not sent yet. It is answered all the same, with [`FailureKind::CalledOff`] if it was not.
    CallOff(RequestId),
    /// Emit a Kubernetes Event about a DaemonSet (DS-187).
    Event {
        /// The DaemonSet.
        owner: Arc<Owner>,
        /// Severity.
        severity: Severity,
        /// Reason.
        reason: &'static str,
        /// Message.
        message: String,
        /// The node that it is about, if it is about one pod, and the taint, if one drives the pod away. The trace is the shell's.
        about: About,
    },
    /// Publish the state of a DaemonSet.
    Publish(Box<DaemonSetSync>),
    /// Withdraw what was published of a DaemonSet.
    Withdraw(Arc<Owner>),
    /// Watch these pods, and no others; replaces what was asked for before. A watch that is there already goes on.
    WatchPods(BTreeSet<Scope>),
    /// Wake the core at this time; replaces what was asked for before.
    WakeAt(Option<Mono>),
}

/// Severity of a Kubernetes Event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Information.
    Normal,
    /// Something may be wrong.
    Warning,
}

/// Order among requests that wait; within one urgency DaemonSets take turns ([`crate::Lanes`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Urgency {
    /// A pod that a node lacks, of the priority class that nodes do not work without.
    NodeCritical,
    /// A pod that a node lacks, of the one that clusters do not work without.
    ClusterCritical,
    /// Any other pod that a node lacks, or whatever has to be known before it can be created.
    Missing,
    /// A pod in place of one that a rollout has deleted: what was begun is finished first.
    Replacing,
    /// Everything else: rollouts, status, clean-up.
    Routine,
}

/// Names a request. Unique within the life of a core; the default is older than all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// The DaemonSet that something is done for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// `metadata.namespace`.
    pub namespace: Namespace,
    /// `metadata.name`.
    pub name: Arc<str>,
    /// `metadata.uid`.
    pub uid: Arc<str>,
}

impl Owner {
    /// The owner reference of everything it controls (DS-064).
    pub(crate) fn reference(&self) -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet", "name": &*self.name, "uid": &*self.uid,
            "controller": true, "blockOwnerDeletion": true,
        })
    }
}

/// A request to the API server. Its HTTP form is [`crate::wire`]'s.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Create a daemon pod for a node. Answered with [`Answer::Created`].
    CreatePod {
        /// The pod.
        blueprint: Arc<Blueprint>,
        /// Its name: asked for again under the same one, it is created once.
        name: PodName,
        /// Its node.
        node: NodeName,
    },
    /// Delete a pod of this uid. Answered with [`Answer::Done`].
    DeletePod {
        /// Name.
        name: PodName,
        /// Uid.
        uid: PodUid,
    },
    /// Make an orphan ours (DS-064). Answered with [`Answer::Pod`].
    AdoptPod {
        /// Name.
        name: PodName,
        /// Uid.
        uid: PodUid,
    },
    /// Let a pod go (DS-065). Answered with [`Answer::Pod`].
    ReleasePod {
        /// Name.
        name: PodName,
        /// Uid.
        uid: PodUid,
    },
    /// Change a pod's hash label (DS-160). Answered with [`Answer::Pod`].
    RelabelPod {
        /// Name.
        name: PodName,
        /// Uid.
        uid: PodUid,
        /// The hash.
        hash: Arc<str>,
    },
    /// Read the DaemonSet from the API server's store (DS-063). Answered with [`Answer::DaemonSet`].
    ReadDaemonSet,
    /// Create a revision. Answered with [`Answer::Revision`].
    CreateRevision(Arc<RevisionDraft>),
    /// Read a revision from the API server's store. Answered with [`Answer::Revision`].
    ReadRevision {
        /// Name.
        name: Arc<str>,
    },
    /// Change a revision. Answered with [`Answer::Revision`].
    ChangeRevision {
        /// Name.
        name: Arc<str>,
        /// Uid.
        uid: Arc<str>,
        /// What to change.
        change: RevisionChange,
    },
    /// Delete a revision of this uid. Answered with [`Answer::Done`].
    DeleteRevision {
        /// Name.
        name: Arc<str>,
        /// Uid.
        uid: Arc<str>,
    },
    /// Write the counters and the observed generation. Answered with [`Answer::DaemonSet`].
    WriteStatus {
        /// Counters.
        counts: Counts,
        /// `observedGeneration`.
        observed_generation: i64,
        /// What to change of our condition; others stay (DS-144).
        condition: Option<ConditionChange>,
    },
    /// Raise the collision count (DS-158). Answered with [`Answer::DaemonSet`].
    RaiseCollisionCount {
        /// The DaemonSet must be at this version.
        version: ResourceVersion,
        /// The new count.
        to: i32,
    },
}

bailiff_model::kinds! {
    /// Label value.
    Request {
        Self::CreatePod { .. } => "create_pod",
        Self::DeletePod { .. } => "delete_pod",
        Self::AdoptPod { .. } => "adopt_pod",
        Self::ReleasePod { .. } => "release_pod",
        Self::RelabelPod { .. } => "relabel_pod",
        Self::ReadDaemonSet => "read_daemonset",
        Self::CreateRevision(_) => "create_revision",
        Self::ReadRevision { .. } => "read_revision",
        Self::ChangeRevision { .. } => "change_revision",
        Self::DeleteRevision { .. } => "delete_revision",
        Self::WriteStatus { .. } => "write_status",
        Self::RaiseCollisionCount { .. } => "raise_collision_count",
    }
}

/// A revision to be created (DS-157).
#[derive(Clone, Debug, PartialEq)]
pub struct RevisionDraft {
    /// Name.
    pub name: String,
    /// Labels, with the hash.
    pub labels: Value,
    /// Annotations.
    pub annotations: Value,
    /// Number.
    pub number: i64,
    /// Data, byte for byte.
    pub data: Arc<[u8]>,
}

/// What to change of a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RevisionChange {
    /// Make an orphan ours (DS-064).
    Adopt,
    /// Let it go (DS-065).
    Release,
    /// Give it this hash label (DS-154).
    Label(Arc<str>),
    /// Give it this number (DS-155).
    Renumber(i64),
}

/// What to change of our condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConditionChange {
    /// Write it.
    Set(Condition),
    /// Take it away.
    Remove,
}

/// How a request ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// Done.
    Done,
    /// A pod was created.
    Created {
        /// Its name.
        name: PodName,
        /// Its uid.
        uid: PodUid,
    },
    /// Done, and this is the pod now.
    Pod(Box<Pod>),
    /// Done, and this is the revision now.
    Revision(Box<Revision>),
    /// Done, and this is the DaemonSet now.
    DaemonSet(Box<DaemonSet>),
    /// Not done.
    Failed(Failure),
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What to decide on.
    pub kind: FailureKind,
    /// The API server's message.
    pub message: String,
    /// The pause it asked for.
    pub retry_after: Option<Duration>,
}

/// Kinds of failure that are treated differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The object is not there.
    NotFound,
    /// An object of that name is there.
    AlreadyExists,
    /// A precondition on uid or resourceVersion failed.
    Conflict,
    /// The request will never be accepted as it is.
    Invalid,
    /// The namespace is being deleted.
    NamespaceTerminating,
    /// It may have been done or not: no answer, or a broken connection.
    Unknown,
    /// It was never sent: this process does not lead, or found no server.
    NotSent,
    /// It was never sent, because of [`Effect::CallOff`].
    CalledOff,
    /// Anything else: not done.
    Other,
}
