//! The API's history as what invariants are about: nodes, pods and daemon sets, who changed them, and since when what has held.

mod decode;

use std::collections::{BTreeMap, BTreeSet};
use std::iter::once;
use std::sync::Arc;
use std::time::Duration;

use bailiff_model::taint::{Effect, Taint, Toleration};
use bailiff_model::{Mono, ReadyStatus, Wall, Zone, wellknown};
use bailiff_sandbox::{Change as Kind, Observation};
use bailiff_stage::brake::pauses::Pause;
use jiff::SignedDuration;

use super::story::BLIND;
use crate::StageName;

/// Former states are remembered for so long: what a stage acts on may be as old as its requests may take (10 s for a confirming read
/// and 5 s for each other one, of which an eviction is two) and its watch may lag.
pub const MEMORY: Duration = Duration::from_secs(16);

/// One change of an object.
#[derive(Clone, Debug)]
pub struct Change {
    /// When.
    pub at: Mono,
    /// Whose request it was; empty: the cluster's own.
    pub actor: Arc<str>,
    /// The object is gone.
    pub is_gone: bool,
    /// What it is now, or was last.
    pub object: Object,
}

/// An object, as far as invariants are concerned with it.
#[derive(Clone, Debug)]
pub enum Object {
    /// A Node.
    Node(Node),
    /// A Pod.
    Pod(Pod),
    /// A DaemonSet.
    DaemonSet(DaemonSet),
    /// What the ConfigMap of pauses says.
    Pauses(Pauses),
    /// A PodDisruptionBudget wants so many of its pods, at least.
    Budget(usize),
    /// An Event.
    Said {
        /// Whose, as it says.
        by: String,
        /// Reason.
        reason: String,
        /// Note.
        note: String,
        /// Name of the Event: what is said again is a series of one.
        name: String,
        /// How often it was said.
        count: u32,
        /// When it was said last, by the clock of who says it: it may be written long after.
        said: Option<Wall>,
    },
    /// A Lease: written without anybody's being disturbed.
    Aside,
    /// Anything else.
    Other(String),
}

/// A Node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    /// Name.
    pub name: String,
    /// Uid.
    pub uid: String,
    /// Zone.
    pub zone: Zone,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Condition Ready.
    pub ready: ReadyStatus,
    /// All taints.
    pub taints: Vec<Taint>,
}

/// A Pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Pod {
    /// Uid.
    pub uid: String,
    /// Name.
    pub name: String,
    /// `spec.nodeName`, or what its affinity names.
    pub node: String,
    /// `spec.nodeName` is set.
    pub is_bound: bool,
    /// Uid of the DaemonSet that controls it.
    pub daemon_of: Option<String>,
    /// Tolerations.
    pub tolerations: Vec<Toleration>,
    /// Status of condition Ready; empty if there is none.
    pub ready: String,
    /// Condition DisruptionTarget is True.
    pub is_target: bool,
    /// On its way out.
    pub is_terminating: bool,
    /// Failed or Succeeded.
    pub is_finished: bool,
    /// Running.
    pub is_running: bool,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Image of its first container.
    pub image: String,
}

/// A DaemonSet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaemonSet {
    /// Uid.
    pub uid: String,
    /// Image of its first container.
    pub image: String,
    /// `maxUnavailable`.
    pub max_unavailable: u32,
    /// `maxSurge`.
    pub max_surge: u32,
}

/// What the ConfigMap of pauses says: each entry, or `None` for one that cannot be read.
pub type Pauses = BTreeMap<String, Option<Pause>>;

/// What was the case at some moment.
#[derive(Clone, Debug, Default)]
pub struct World {
    /// Nodes that exist, by name.
    pub nodes: BTreeMap<String, NodeNow>,
    /// Pods that exist, by uid.
    pub pods: BTreeMap<String, PodNow>,
    /// Nodes that are gone, as they were last, and when they went.
    pub former: Vec<(NodeNow, Mono)>,
    /// The DaemonSet, and since when it is as it is.
    pub set: Option<(DaemonSet, Mono)>,
    /// What a budget wants, and since when.
    pub budget: Option<(usize, Mono)>,
}

/// A node, and since when what has held.
#[derive(Clone, Debug)]
pub struct NodeNow {
    /// Its state.
    pub node: Node,
    /// NoExecute taints, and since when they are there.
    pub taints: Vec<(Taint, Mono)>,
    /// NoExecute taints that were there lately: since when, until when.
    pub former: Vec<(Taint, Mono, Mono)>,
    /// When the present, or else the last, time with some NoExecute taint began.
    pub tainted_since: Mono,
    /// Since when condition Ready is as it is.
    pub ready_since: Mono,
    /// Since when it was last not Ready, and until when.
    pub was_unready: Option<(Mono, Mono)>,
}

/// A pod, and since when what has held.
#[derive(Clone, Debug)]
pub struct PodNow {
    /// Its state.
    pub pod: Pod,
    /// When it was bound.
    pub bound_at: Mono,
    /// Since when condition Ready is as it is.
    pub ready_since: Mono,
}

/// A history.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// All changes, oldest first.
    pub changes: Vec<Change>,
    /// When stages were started, after the first time.
    pub starts: Vec<(Mono, StageName)>,
    /// Wall time at the origin, by clocks that nobody steps.
    pub origin: Wall,
    /// By what the clocks of stages were stepped, in order.
    pub steps: Vec<(StageName, SignedDuration)>,
    /// When it ended.
    pub end: Mono,
    /// Uids of pods whose evictions the API refused so often that the zone-evictor gave them up, and says so (TE-076).
    pub given_up: BTreeSet<String>,
}

// === impl Timeline ===

impl Timeline {
    /// Of this history.
    pub fn new(history: &[Observation], starts: Vec<(Mono, StageName)>, end: Mono) -> Self {
        let changes = history.iter().map(|seen| Change {
            at: seen.at.mono,
            actor: seen.actor.clone(),
            is_gone: seen.event.change == Kind::Deleted,
            object: Object::of(seen),
        });
        Self {
            changes: changes.collect(),
            starts,
            origin: history
                .first()
                .map_or(Wall::UNIX_EPOCH, |seen| seen.at.wall - seen.at.mono.since_origin()),
            end,
            ..Self::default()
        }
    }

    /// When `change` was said, if it is an Event of `stage`: at latest when it was written. The stage's clock may have been stepped,
    /// before or since.
    pub fn said_at(&self, change: &Change, stage: StageName) -> Mono {
        let Object::Said { said: Some(said), .. } = change.object else {
            return change.at;
        };
        let steps = self.steps.iter().filter(|(of, _)| *of == stage);
        let offsets = steps.scan(SignedDuration::ZERO, |offset, (_, by)| {
            *offset += *by;
            Some(*offset)
        });
        let written = SignedDuration::try_from(change.at.since_origin()).unwrap_or(SignedDuration::MAX);
        let ages = once(SignedDuration::ZERO)
            .chain(offsets)
            .map(|offset| written - (said.duration_since(self.origin) - offset));
        let age = ages.filter(|age| !age.is_negative()).min();
        change
            .at
            .saturating_sub(age.map_or(Duration::ZERO, SignedDuration::unsigned_abs))
    }

    /// Goes through all changes with the world as it was before each, and returns the world at the end.
    pub fn walk(&self, mut visit: impl FnMut(&World, &Change)) -> World {
        let mut world = World::default();
        for change in &self.changes {
            visit(&world, change);
            world.apply(change);
        }
        world
    }
}

// === impl World ===

impl World {
    fn apply(&mut self, change: &Change) {
        match &change.object {
            Object::Node(node) => self.node(node, change),
            Object::Pod(pod) if change.is_gone => {
                self.pods.remove(&pod.uid);
            }
            Object::Pod(pod) => {
                let known = self.pods.entry(pod.uid.clone()).or_insert_with(|| PodNow {
                    pod: pod.clone(),
                    bound_at: change.at,
                    ready_since: change.at,
                });
                if pod.ready != known.pod.ready {
                    known.ready_since = change.at;
                }
                if pod.is_bound && !known.pod.is_bound {
                    known.bound_at = change.at;
                }
                known.pod = pod.clone();
            }
            Object::DaemonSet(_) if change.is_gone => self.set = None,
            Object::DaemonSet(set) => {
                if self.set.as_ref().is_none_or(|(known, _)| known != set) {
                    self.set = Some((set.clone(), change.at));
                }
            }
            Object::Budget(least) => {
                if self.budget.is_none_or(|(known, _)| known != *least) {
                    self.budget = Some((*least, change.at));
                }
            }
            Object::Pauses(_) | Object::Said { .. } | Object::Aside | Object::Other(_) => {}
        }
    }

    fn node(&mut self, node: &Node, change: &Change) {
        let at = change.at;
        if change.is_gone {
            if let Some(known) = self.nodes.remove(&node.name) {
                self.former.push((known, at));
            }
            return;
        }
        let known = self.nodes.entry(node.name.clone()).or_insert_with(|| NodeNow {
            node: node.clone(),
            taints: Vec::new(),
            former: Vec::new(),
            tainted_since: at,
            ready_since: at,
            was_unready: None,
        });
        if node.ready != known.node.ready {
            if known.node.ready != ReadyStatus::True {
                known.was_unready = Some((known.was_unready_since(at), at));
            }
            // From False to Unknown it is as long not ready as before.
            if (node.ready == ReadyStatus::True) != (known.node.ready == ReadyStatus::True) {
                known.ready_since = at;
            }
        }
        known.former.retain(|(_, _, until)| at.saturating_since(*until) <= BLIND);
        let no_execute: Vec<&Taint> = node.taints.iter().filter(|taint| taint.effect == Effect::NoExecute).collect();
        let same = |one: &Taint, other: &Taint| one.is_same_entry(other) && one.value == other.value;
        let (stay, go): (Vec<_>, Vec<_>) = std::mem::take(&mut known.taints)
            .into_iter()
            .partition(|(taint, _)| no_execute.iter().any(|one| same(one, taint)));
        if stay.is_empty() && go.is_empty() && !no_execute.is_empty() {
            known.tainted_since = at;
        }
        // One health taint in the place of the other is one patch that keeps `timeAdded` (design §1).
        let swapped_from = go.iter().find(|(taint, _)| is_health(&taint.key)).map(|(_, since)| *since);
        known.former.extend(go.into_iter().map(|(taint, since)| (taint, since, at)));
        known.taints = stay;
        for taint in no_execute {
            if !known.taints.iter().any(|(one, _)| same(one, taint)) {
                known
                    .taints
                    .push((taint.clone(), swapped_from.filter(|_| is_health(&taint.key)).unwrap_or(at)));
            }
        }
        known.node = node.clone();
    }

    /// The daemon pods of a node that are not on their way out and have not ended.
    pub fn daemon_pods<'a>(&'a self, node: &'a str) -> impl Iterator<Item = &'a PodNow> {
        let is_there = move |now: &&PodNow| now.pod.is_daemon() && now.pod.node == node && now.pod.is_live();
        self.pods.values().filter(is_there)
    }

    /// The nodes of a zone.
    pub fn zone<'a>(&'a self, zone: &'a Zone) -> impl Iterator<Item = &'a NodeNow> {
        self.nodes.values().filter(move |now| now.node.zone == *zone)
    }
}

// === impl NodeNow ===

impl NodeNow {
    /// A NoExecute taint for the node's own health is there.
    pub fn is_isolated(&self) -> bool {
        self.taints.iter().any(|(taint, _)| is_health(&taint.key))
    }

    /// Not Ready since.
    pub fn unready_since(&self) -> Option<Mono> {
        (self.node.ready != ReadyStatus::True).then_some(self.ready_since)
    }

    /// Nobody's taint keeps daemon pods away, now or lately.
    pub fn is_free_of_operators(&self) -> bool {
        let taints = self.taints.iter().map(|(taint, _)| taint);
        let former = self.former.iter().map(|(taint, ..)| taint);
        taints.chain(former).all(|taint| taint.key.starts_with("node.kubernetes.io/"))
    }

    /// Daemon pods are made for it, and have been for longer than `age` at `at`: they tolerate no NoSchedule taint about its health, and
    /// no operator's taint.
    pub fn takes_daemons(&self, at: Mono, age: Duration) -> bool {
        let is_ill = |taint: &Taint| taint.effect == Effect::NoSchedule && is_health(&taint.key);
        let is_old = at.saturating_since(self.ready_since) > age;
        is_old && self.is_free_of_operators() && !self.node.taints.iter().any(is_ill)
    }

    fn was_unready_since(&self, at: Mono) -> Mono {
        self.unready_since().unwrap_or(at)
    }
}

// === impl Pod ===

impl Pod {
    /// It is not on its way out and has not ended.
    pub fn is_live(&self) -> bool {
        !self.is_terminating && !self.is_finished
    }

    /// A DaemonSet controls it, and selects it: one that it does not select is about to be let go.
    pub fn is_daemon(&self) -> bool {
        self.daemon_of.is_some() && self.labels.get("app").is_some_and(|app| app == "agent")
    }

    /// Condition Ready is True.
    pub fn is_ready(&self) -> bool {
        self.ready == "True"
    }
}

/// A taint that says how a node is.
pub fn is_health(key: &str) -> bool {
    key == wellknown::TAINT_NOT_READY || key == wellknown::TAINT_UNREACHABLE
}
