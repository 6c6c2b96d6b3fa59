//! A cluster in a few maps: it answers the evictor's requests, shows their effects to its watch, and remembers what happened when.

mod driver;
mod late;
mod shown;
mod stages;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bailiff_model::health::{NodeHealth, Ready, SignOfLife, Signal};
use bailiff_model::intent::{EvictionCause, HealthTaint, Intent, IntentState, NodeEviction, NodeIsolation, PodEviction, Trigger};
use bailiff_model::outcome::{NodeOutcome, NodeOutcomeState, Outcome, PodOutcome, PodOutcomeState, ZoneStatus};
use bailiff_model::taint::used;
use bailiff_model::{
    Effect as TaintEffect, Hold, HoldReason, Labels, Load, Mono, Namespace, NodeName, NodeRef, NodeUid, Now, Origin, PodName,
    PodRef, PodUid, ReadyStatus, ResourceVersion, Revision, Taint, Toleration, Topic, TraceContext, Verdict, Wall, Zone,
};
use bailiff_zone_core::{
    Block, Body, Config, Count, DaemonSetFacts, Draft, Effect, Event, EvictionMode, Evictor, Failure, FailureKind, Input, Mark,
    NODE_LOST, NodeFacts, PodAnswer, PodFacts, Purpose, Record, ShardStatus, Span, Ticket,
};

pub use late::Late;
use shown::Shown;

pub const START: i64 = 1_000_000;

/// One thing that became true in the API.
#[derive(Clone, Debug, PartialEq)]
pub enum Happened {
    Isolated(String, Zone),
    Swapped(String),
    Cleared(String),
    Marked(String),
    Deleted(String),
    Evicted(String),
}

pub struct World {
    pub config: Config,
    pub evictor: Evictor,
    pub now: Now,
    pub nodes: BTreeMap<NodeName, NodeFacts>,
    pub pods: BTreeMap<PodUid, PodFacts>,
    /// Latest record per topic and key: what the bus holds.
    pub bus: BTreeMap<(Topic, String), Record>,
    pub daemon_sets: Vec<DaemonSetFacts>,
    pub shards: BTreeMap<Topic, (bool, bool)>,
    pub history: Vec<(Mono, Happened)>,
    pub events: Vec<Event>,
    pub counts: Vec<Count>,
    pub spans: Vec<Span>,
    pub outcomes: BTreeMap<String, Outcome>,
    /// What each of them was said to follow from, and its trace.
    pub sources: BTreeMap<String, (Origin, Option<TraceContext>)>,
    pub published: usize,
    pub requests: usize,
    pub reads: usize,
    pub completed: bool,
    /// Failures to answer the next requests with, writes and reads alike; a write that fails is not applied.
    pub failures: VecDeque<FailureKind>,
    /// What the server asks for with each of them.
    pub retry_after: Option<Duration>,
    /// Nodes of which the monitor has no sign of life.
    pub unheard: BTreeSet<NodeName>,
    /// Nodes whose reads fail.
    pub unreadable: BTreeSet<NodeName>,
    /// Requests that are kept unanswered are not sent yet: they can be called off.
    pub is_unsent: bool,
    called_off: BTreeSet<Ticket>,
    /// What forbids the eviction of a pod.
    pub budgets: BTreeMap<PodUid, Block>,
    pub evictions_tried: usize,
    /// Requests are kept unanswered.
    pub is_slow: bool,
    pub unanswered: Vec<Effect>,
    /// The evictor's Node watch shows nothing new.
    pub is_watch_stalled: bool,
    wake_at: Option<Mono>,
    /// Of what was written last.
    pub version: u64,
    revision: u64,
    /// When the record of each revision was made.
    made_at: BTreeMap<Revision, Mono>,
    pub late: Late,
    pub shown: Shown,
    /// What the evictor said since it began.
    mentioned: BTreeSet<String>,
    /// The bus tells how old its records are.
    pub tells_age: bool,
    /// Of the bus.
    incarnation: &'static str,
}

pub fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub fn zone(name: &str) -> Zone {
    Zone::new("", name)
}

pub fn mk_toleration(key: &str, seconds: Option<i64>) -> Toleration {
    Toleration {
        seconds,
        ..Toleration::exists(key, TaintEffect::NoExecute)
    }
}

pub fn mk_config(change: impl FnOnce(&mut Config)) -> Config {
    let mut config = Config::default();
    change(&mut config);
    config.validate().expect("a test's configuration is valid");
    config
}

// === impl World: the cluster ===

impl World {
    /// A world of healthy nodes, given as (name, zone), whose evictor sees everything.
    pub fn new(config: Config, nodes: &[(&str, &str)]) -> Self {
        let mut world = Self::unseen(config);
        for (name, zone) in nodes {
            world.add_node(name, zone);
            world.health(name, Verdict::Healthy);
        }
        world.show_everything();
        world
    }

    /// A world whose evictor was told nothing yet.
    pub fn unseen(config: Config) -> Self {
        let now = Now {
            mono: Mono::from_origin(secs(100_000)),
            wall: Wall::from_second(START).expect("in range"),
        };
        let topics = [Topic::NodeHealth, Topic::EvictionIntents, Topic::EvictionOutcomes];
        Self {
            evictor: Evictor::new(config.clone()),
            config,
            now,
            nodes: BTreeMap::new(),
            pods: BTreeMap::new(),
            bus: BTreeMap::new(),
            daemon_sets: Vec::new(),
            shards: topics.into_iter().map(|topic| (topic, (true, true))).collect(),
            history: Vec::new(),
            events: Vec::new(),
            counts: Vec::new(),
            spans: Vec::new(),
            outcomes: BTreeMap::new(),
            sources: BTreeMap::new(),
            published: 0,
            requests: 0,
            reads: 0,
            completed: false,
            failures: VecDeque::new(),
            retry_after: None,
            unheard: BTreeSet::new(),
            unreadable: BTreeSet::new(),
            is_unsent: false,
            called_off: BTreeSet::new(),
            budgets: BTreeMap::new(),
            evictions_tried: 0,
            is_slow: false,
            unanswered: Vec::new(),
            is_watch_stalled: false,
            wake_at: None,
            version: 100,
            revision: 0,
            made_at: BTreeMap::new(),
            late: Late::default(),
            shown: Shown::default(),
            mentioned: BTreeSet::new(),
            tells_age: true,
            incarnation: "bus-1",
        }
    }

    /// The bus loses its memory: nothing of it is there any more, and it counts from 1 again.
    pub fn lose_the_bus(&mut self) {
        self.bus.clear();
        self.made_at.clear();
        (self.revision, self.incarnation) = (0, "bus-2");
    }

    pub fn add_node(&mut self, name: &str, zone: &str) {
        let version = self.next_version();
        let facts = NodeFacts {
            name: NodeName::from(name),
            uid: NodeUid::from(format!("{name}-{version}")),
            resource_version: ResourceVersion::from(version.to_string()),
            zone: Zone::new("", zone),
            excluded_from_disruption: false,
            ready: ReadyStatus::True,
            recovered_at: None,
            taints: Vec::new(),
        };
        self.nodes.insert(facts.name.clone(), facts);
    }

    pub fn node(&self, name: &str) -> &NodeFacts {
        &self.nodes[&NodeName::from(name)]
    }

    /// Changes a node in the API; the watch shows it.
    pub fn change_node(&mut self, name: &str, change: impl FnOnce(&mut NodeFacts)) {
        let version = self.next_version();
        let facts = self.nodes.get_mut(&NodeName::from(name)).expect("the node exists");
        change(facts);
        facts.resource_version = ResourceVersion::from(version.to_string());
        let facts = facts.clone();
        self.watch(Input::NodeApplied(facts));
    }

    pub fn delete_node(&mut self, name: &str) {
        let facts = self.nodes.remove(&NodeName::from(name)).expect("the node exists");
        let uid = Some(facts.uid);
        self.watch(Input::NodeDeleted { name: facts.name, uid });
    }

    pub fn taint(&mut self, name: &str, key: &str, effect: TaintEffect) {
        let taint = Taint::new(key, effect);
        self.change_node(name, |facts| facts.taints.push(taint));
    }

    pub fn untaint(&mut self, name: &str, key: &str, effect: TaintEffect) {
        self.change_node(name, |facts| {
            facts.taints.retain(|taint| &*taint.key != key || taint.effect != effect)
        });
    }

    pub fn is_isolated(&self, name: &str) -> bool {
        self.node(name).health_taints().next().is_some()
    }

    pub fn is_isolated_as(&self, name: &str, health: HealthTaint) -> bool {
        self.node(name).health_taints().any(|(standing, _)| standing == health)
    }

    pub fn isolated(&self) -> BTreeSet<&str> {
        let isolated = self.nodes.values().filter(|facts| facts.health_taints().next().is_some());
        isolated.map(|facts| facts.name.as_str()).collect()
    }

    /// The node stops to answer: Unknown stands in the API, the monitor and the taint-manager have done their parts.
    pub fn fall_silent(&mut self, names: &[&str]) {
        for name in names {
            self.mark_unknown(name);
        }
        self.judge(names, Verdict::Unreachable);
        for name in names {
            self.wish(name, HealthTaint::Unreachable);
        }
    }

    /// The API's part of falling silent: Ready Unknown and the NoSchedule taint.
    pub fn mark_unknown(&mut self, name: &str) {
        self.change_node(name, |facts| {
            facts.ready = ReadyStatus::Unknown;
            facts.recovered_at = None;
            facts.taints.retain(|taint| taint.effect != TaintEffect::NoSchedule);
            facts
                .taints
                .push(Taint::new(HealthTaint::Unreachable.key(), TaintEffect::NoSchedule));
        });
    }

    /// The node answers again: Ready, untainted by the taint-manager, its wishes withdrawn.
    pub fn come_back(&mut self, names: &[&str]) {
        let now = Wall::from_second(self.now.wall.as_second()).expect("in range");
        for name in names {
            self.change_node(name, |facts| {
                facts.ready = ReadyStatus::True;
                facts.recovered_at = Some(now);
                facts.taints.retain(|taint| taint.effect != TaintEffect::NoSchedule);
            });
        }
        self.judge(names, Verdict::Healthy);
        for name in names {
            self.unwish(name);
        }
    }

    pub fn add_pod(&mut self, name: &str, node: &str, tolerations: Vec<Toleration>) -> PodUid {
        let version = self.next_version();
        let facts = PodFacts {
            namespace: Namespace::from("default"),
            name: PodName::from(name),
            uid: PodUid::from(format!("{name}-uid-{version}")),
            resource_version: ResourceVersion::from(version.to_string()),
            generation: 1,
            node: NodeName::from(node),
            tolerations,
            disruption_target: false,
            marked: false,
            reason: String::new(),
            terminating: false,
            labels: Labels::default(),
        };
        let uid = facts.uid.clone();
        self.pods.insert(uid.clone(), facts);
        uid
    }

    /// Something changes the pod, as a kubelet's status post does.
    pub fn change_pod(&mut self, uid: &PodUid, change: impl FnOnce(&mut PodFacts)) {
        let version = self.next_version();
        let facts = self.pods.get_mut(uid).expect("the pod exists");
        change(facts);
        facts.resource_version = ResourceVersion::from(version.to_string());
    }

    fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }
}

fn load_of(kind: FailureKind) -> Load {
    match kind {
        FailureKind::Throttled | FailureKind::Unknown => Load::Overloaded,
        FailureKind::NotSent | FailureKind::CalledOff => Load::None,
        _ => Load::Answered,
    }
}

pub fn mk_failure(kind: FailureKind) -> Failure {
    Failure {
        kind,
        retry_after: None,
        load: load_of(kind),
        detail: String::new(),
    }
}

// === impl World: what was seen ===

impl World {
    pub fn zone_status(&self, name: &str) -> &ZoneStatus {
        match &self.outcomes[&format!("zone/:{name}")] {
            Outcome::Zone(status) => status,
            other => unreachable!("{other:?} is no zone"),
        }
    }

    pub fn node_outcome(&self, name: &str) -> Option<&NodeOutcome> {
        match self.outcomes.get(&format!("node/{name}"))? {
            Outcome::Node(node) => Some(node),
            other => unreachable!("{other:?} is no node"),
        }
    }

    pub fn pod_outcome(&self, uid: &PodUid) -> Option<&PodOutcome> {
        match self.outcomes.get(&format!("pod/{uid}"))? {
            Outcome::Pod(pod) => Some(pod),
            other => unreachable!("{other:?} is no pod"),
        }
    }

    pub fn node_state(&self, name: &str) -> Option<&NodeOutcomeState> {
        self.node_outcome(name).map(|node| &node.state)
    }

    pub fn pod_state(&self, uid: &PodUid) -> Option<&PodOutcomeState> {
        self.pod_outcome(uid).map(|pod| &pod.state)
    }

    pub fn node_held(&self, name: &str) -> Option<HoldReason> {
        match self.node_state(name)? {
            NodeOutcomeState::Held(hold) => Some(hold.reason),
            _ => None,
        }
    }

    pub fn pod_held(&self, uid: &PodUid) -> Option<HoldReason> {
        match self.pod_state(uid)? {
            PodOutcomeState::Held(hold) => Some(hold.reason),
            _ => None,
        }
    }

    pub fn zone_held(&self, name: &str) -> Option<HoldReason> {
        self.zone_status(name).held.as_ref().map(|hold| hold.reason)
    }

    /// What the trace of a node, or of a pod by its uid, tells: span, its seconds, how it ended, and why.
    pub fn told(&self, who: &str) -> Vec<String> {
        let of = |span: &&Span| match &span.pod {
            Some(pod) => pod.uid.to_string() == who,
            None => span.node.name.as_str() == who,
        };
        let text = |span: &Span| {
            let took = span.end.duration_since(span.start).as_secs();
            let reason = span
                .why
                .reason
                .map_or_else(String::new, |reason| format!(" {}", reason.word()));
            format!("{} {took}s {}{reason}", span.kind.as_str(), span.outcome.as_str())
        };
        self.spans.iter().filter(of).map(text).collect()
    }

    /// When each node was isolated, in seconds since the world began, in order.
    pub fn isolations(&self) -> Vec<(&str, u64)> {
        let began = Mono::from_origin(secs(100_000));
        let mut found = Vec::new();
        for (at, happened) in &self.history {
            if let Happened::Isolated(name, _) = happened {
                found.push((name.as_str(), at.saturating_since(began).as_secs()));
            }
        }
        found
    }

    pub fn happened(&self) -> Vec<Happened> {
        self.history.iter().map(|(_, happened)| happened.clone()).collect()
    }

    pub fn deleted(&self) -> usize {
        self.history
            .iter()
            .filter(|(_, happened)| matches!(happened, Happened::Deleted(_)))
            .count()
    }

    pub fn wake_at(&self) -> Option<Mono> {
        self.wake_at
    }
}

/// A taint with a value.
pub fn mk_taint(key: &str, value: &str) -> Taint {
    Taint {
        value: Arc::from(value),
        ..Taint::new(key, TaintEffect::NoExecute)
    }
}
