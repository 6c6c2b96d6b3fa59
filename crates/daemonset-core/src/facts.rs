//! What is kept of each Kubernetes object: the fields that some rule reads, and no others.
//!
//! Reading them out of the API server's JSON is [`decode`]'s; deciding on them is everybody else's.

pub mod decode;
mod labels;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bailiff_model::rollout::Counts;
pub use bailiff_model::selector::Labels;
use bailiff_model::{Namespace, NodeName, NodeUid, PodName, PodUid, ResourceVersion, Stamp, Taint, Wall};
pub use labels::NodeLabels;

use crate::pair::Standing;
use crate::selector::Selector;
use crate::template::Template;

/// Label of daemon pods and revisions that names the revision.
pub const LABEL_HASH: &str = "controller-revision-hash";
/// Label of daemon pods that names the generation of the template.
pub const LABEL_GENERATION: &str = "pod-template-generation";
/// Annotation of a DaemonSet that names the generation of its template (DS-172).
pub const ANNOTATION_GENERATION: &str = "deprecated.daemonset.template.generation";

/// A node, as far as placement and reasons need it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// `metadata.name`.
    pub name: NodeName,
    /// `metadata.uid`.
    pub uid: NodeUid,
    /// `metadata.labels`.
    pub labels: NodeLabels,
    /// `spec.taints`; those with an unknown effect are left out.
    pub taints: Vec<Taint>,
    /// Since when condition Ready is not True; `None` if it is True.
    pub bad_since: Option<Wall>,
}

impl Node {
    /// What pairs keep of it.
    pub(crate) fn standing(&self) -> Standing {
        let bad_since = self.bad_since.map(Stamp::from);
        Standing { bad_since }
    }
}

/// Phase of a pod, as far as it matters here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Pending, Running or Unknown.
    #[default]
    Active,
    /// Succeeded.
    Succeeded,
    /// Failed.
    Failed,
}

/// Who controls an object: its owner reference with `controller: true`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Controller {
    /// Nobody: an orphan.
    #[default]
    None,
    /// A DaemonSet, of any API group (DS-022).
    DaemonSet(Arc<Controlling>),
    /// Somebody else.
    Other,
}

/// A DaemonSet, as an object that it controls names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Controlling {
    /// Its name.
    pub name: Arc<str>,
    /// Its uid.
    pub uid: Arc<str>,
}

/// What keeps a pod from running, for reports only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// An image cannot be pulled.
    Image,
    /// A container crashes again and again.
    CrashLoop,
    /// The node rejected the pod for lack of room, or the scheduler sees none.
    NoRoom,
}

/// A pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// `metadata.namespace`.
    pub namespace: Namespace,
    /// `metadata.name`.
    pub name: PodName,
    /// `metadata.uid`.
    pub uid: PodUid,
    /// `metadata.resourceVersion`.
    pub version: ResourceVersion,
    /// Who controls it.
    pub controller: Controller,
    /// `metadata.labels`.
    pub labels: Arc<Labels>,
    /// The node it is bound to or pinned to (DS-070).
    pub target: Option<NodeName>,
    /// `spec.nodeName` is set.
    pub bound: bool,
    /// `status.phase`.
    pub phase: Phase,
    /// Condition Ready is True.
    pub ready: bool,
    /// `lastTransitionTime` of condition Ready.
    pub ready_changed: Option<Stamp>,
    /// `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// `metadata.creationTimestamp`.
    pub created: Stamp,
    /// What keeps it from running.
    pub trouble: Option<Trouble>,
}

impl Pod {
    /// Phase Failed or Succeeded.
    pub fn is_terminal(&self) -> bool {
        self.phase != Phase::Active
    }

    /// Value of the hash label, or empty.
    pub fn hash(&self) -> &str {
        self.labels.get(LABEL_HASH).map_or("", |value| value)
    }

    /// Ready for `min_ready` at `now`? If it only takes time, when (DS-118).
    pub fn availability(&self, min_ready: Duration, now: Wall) -> Availability {
        if !self.ready {
            return Availability::No;
        }
        if min_ready.is_zero() {
            return Availability::Yes;
        }
        match self.ready_changed.and_then(|since| since.wall().checked_add(min_ready).ok()) {
            Some(at) if at <= now => Availability::Yes,
            Some(at) => Availability::At(at),
            None => Availability::No,
        }
    }
}

/// Whether a pod is available (DS-118).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Availability {
    /// It is.
    Yes,
    /// It is not.
    No,
    /// It is ready, and will be available then.
    At(Wall),
}

/// A number of nodes, or a share of them in percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// So many.
    Absolute(u32),
    /// So many percent.
    Percent(u32),
}

/// `spec.updateStrategy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// Old pods stay until someone deletes them.
    OnDelete,
    /// Old pods are replaced.
    RollingUpdate {
        /// How many nodes may be without an available pod.
        max_unavailable: Amount,
        /// How many nodes may run a new pod beside the old one.
        max_surge: Amount,
    },
}

/// Type of the one condition that is ours. Others are nobody's business here (DS-144).
pub const CONDITION_COMPLETE: &str = "bailiff.dev/RolloutComplete";

/// The condition that tells whether a rollout is complete, and if not, why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// `status` is True.
    pub complete: bool,
    /// `reason`.
    pub reason: String,
    /// `message`.
    pub message: String,
    /// `lastTransitionTime`.
    pub since: Option<Wall>,
}

/// `status` of a DaemonSet, without conditions (DS-144).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// The seven counters.
    pub counts: Counts,
    /// `observedGeneration`.
    pub observed_generation: i64,
    /// `collisionCount`.
    pub collision_count: Option<i32>,
}

/// A DaemonSet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaemonSet {
    /// `metadata.namespace`.
    pub namespace: Namespace,
    /// `metadata.name`.
    pub name: Arc<str>,
    /// `metadata.uid`.
    pub uid: Arc<str>,
    /// `metadata.resourceVersion`.
    pub version: ResourceVersion,
    /// `metadata.generation`.
    pub generation: i64,
    /// The generation annotation, if it parses.
    pub template_generation: Option<i64>,
    /// `metadata.annotations`.
    pub annotations: Arc<BTreeMap<String, String>>,
    /// `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// `spec.selector`.
    pub selector: Selector,
    /// `spec.template`.
    pub template: Arc<Template>,
    /// `spec.updateStrategy`.
    pub strategy: Strategy,
    /// `spec.minReadySeconds`.
    pub min_ready: Duration,
    /// `spec.revisionHistoryLimit`.
    pub history_limit: usize,
    /// `status`.
    pub status: Status,
    /// The condition of `status` that is ours.
    pub condition: Option<Arc<Condition>>,
}

impl DaemonSet {
    /// As it is known, with what an answer says that is not of its spec. That is the watch's to tell: while API servers of two versions
    /// serve it, they write the same template in different bytes, and each change is another revision (DS-153).
    pub(crate) fn with_status_of(&self, live: &Self) -> Self {
        Self {
            version: live.version.clone(),
            deleting: live.deleting,
            status: live.status,
            condition: live.condition.clone(),
            ..self.clone()
        }
    }
}

/// A ControllerRevision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision {
    /// `metadata.namespace`.
    pub namespace: Namespace,
    /// `metadata.name`.
    pub name: Arc<str>,
    /// `metadata.uid`.
    pub uid: Arc<str>,
    /// `metadata.resourceVersion`.
    pub version: ResourceVersion,
    /// `metadata.labels`.
    pub labels: Arc<Labels>,
    /// Who controls it.
    pub controller: Controller,
    /// `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// `metadata.creationTimestamp`.
    pub created: Wall,
    /// `revision`.
    pub number: i64,
    /// `data`, byte for byte.
    pub data: Arc<[u8]>,
}

impl Revision {
    /// Value of the hash label, if it has one that is not empty.
    pub fn hash(&self) -> Option<&Arc<str>> {
        self.labels.get(LABEL_HASH).filter(|value| !value.is_empty())
    }

    /// True if the DaemonSet of this uid controls it.
    pub fn is_controlled_by(&self, owner: &str) -> bool {
        matches!(&self.controller, Controller::DaemonSet(of) if &*of.uid == owner)
    }
}
