//! The state machine: dispatches what happened to the parts that decide.

mod evict;
mod inherit;
mod marked;
mod marking;
mod node_events;
mod pod_events;
mod telling;
mod wishes;

use std::collections::{BTreeMap, BTreeSet};

use bailiff_model::{Holds, IndexMap, Mono, NodeName, Now, PodUid, Shared, Unlisted, Wall, Window};

use crate::config::Config;
use crate::deadlines::{Deadlines, Timer};
use crate::effect::Effect;
use crate::held::{HeldZones, WaitingMarks};
use crate::input::{HealthRecord, Input};
use crate::markings::Markings;
use crate::nodes::Node;
use crate::pods::Pods;
use crate::stats::Stats;
use crate::tasks::Tasks;
use crate::told::Told;
use inherit::Remembered;
use wishes::Wish;

/// The decisions of one taint-manager over the nodes it is responsible for.
///
/// # Guarantees
/// - The same facts twice give no effect the second time: a quiet world is neither written nor published to.
/// - [`Effect::Complete`] comes once, after all Nodes, all Pods and what the bus remembers are known; and all of `node-health`, if wishes
///   follow from it, but without that after a while.
/// - Verdicts that are missing while `node-health` is not complete withdraw nothing.
/// - Work is proportional to what changed: an event of a pod costs that pod, an event of a node costs its own pods.
#[derive(Debug)]
pub struct Manager {
    config: Config,
    now: Now,
    effects: Vec<Effect>,
    // IndexMap: a lookup costs the same in any cluster; its order is that of arrival, not the hasher's.
    nodes: IndexMap<NodeName, Box<Node>>,
    /// What nodes have in common.
    texts: Shared<str>,
    unlisted_nodes: Unlisted<NodeName>,
    pods: Pods,
    unlisted_pods: Unlisted<PodUid>,
    /// Pods that were called off when they were being deleted already, which nothing undoes: what is told of each if it does not go.
    leaving: BTreeMap<PodUid, Told>,
    wishes: IndexMap<NodeName, Wish>,
    health: Health,
    deadlines: Deadlines,
    node_writes: Tasks<NodeName>,
    marks: Tasks<PodUid>,
    /// Pods whose mark was asked for, is not answered and was not taken back.
    marking: BTreeSet<PodUid>,
    /// Pods whose mark waits until a hold ends.
    held_marks: WaitingMarks,
    /// What is told of marks, by node.
    markings: Markings,
    /// From outside.
    holds: Holds,
    /// By the monitor, because leases stopped together.
    held_zones: HeldZones,
    progress: Progress,
    stats: Stats,
}

/// What is known of topic `node-health`.
#[derive(Debug, Default)]
struct Health {
    /// Nodes of which there is a record.
    known: BTreeSet<NodeName>,
    /// Those of them whose newest record is not understood.
    unreadable: BTreeSet<NodeName>,
    /// Records that change nothing by themselves, of nodes of which it is not known yet what was wished before this process.
    undecided: BTreeMap<NodeName, HealthRecord>,
    /// A missing key means something.
    complete: bool,
    /// It was complete before in this process's life: what comes now is news, not history.
    was_complete: bool,
}

/// How far the start has come.
#[derive(Debug, Default)]
struct Progress {
    nodes_listed: bool,
    pods_listed: bool,
    inherited: Option<Vec<Remembered>>,
    /// Until both are listed: since when pods are not ready, by their condition.
    unready: BTreeMap<PodUid, Wall>,
    /// Since when Nodes and Pods are listed; marking that an earlier process began was taken up then.
    listed: Option<Mono>,
    /// Pods are marked; before, it is not known what the monitor holds.
    marks_begun: bool,
    /// Since when intents are decided; before, starts are only collected.
    begun: Option<Mono>,
    /// [`Effect::Complete`] was said.
    completed: bool,
}

impl Manager {
    /// A manager that knows nothing yet.
    pub fn new(config: Config) -> Self {
        let fewest = Config::default();
        Self {
            now: Now {
                mono: Mono::ORIGIN,
                wall: Wall::UNIX_EPOCH,
            },
            effects: Vec::new(),
            nodes: IndexMap::default(),
            texts: Shared::default(),
            unlisted_nodes: Unlisted::default(),
            pods: Pods::default(),
            unlisted_pods: Unlisted::default(),
            leaving: BTreeMap::new(),
            wishes: IndexMap::default(),
            health: Health::default(),
            deadlines: Deadlines::default(),
            node_writes: Tasks::new(Window::new(fewest.node_writes, config.node_writes)),
            marks: Tasks::new(Window::new(fewest.pod_marks, config.pod_marks)),
            marking: BTreeSet::new(),
            held_marks: WaitingMarks::default(),
            markings: Markings::default(),
            holds: Holds::NONE,
            held_zones: HeldZones::default(),
            progress: Progress::default(),
            stats: Stats::default(),
            config,
        }
    }

    /// Takes in what happened; returns what to do about it, in order.
    pub fn apply(&mut self, input: Input, now: Now) -> Vec<Effect> {
        self.now = now;
        match input {
            Input::SomeNodes { first, nodes } => self.some_nodes_listed(first, nodes),
            Input::Nodes(nodes) => self.nodes_listed(nodes),
            Input::Node(facts) => self.node_seen(facts, false),
            Input::NodeGone { name, uid } => self.node_gone(&name, &uid),
            Input::SomePods { first, pods } => self.some_pods_listed(first, pods),
            Input::Pods(pods) => self.pods_listed(pods),
            Input::Pod(facts) => self.pod_seen(facts, false),
            Input::PodGone(uid) => self.pod_gone(&uid),
            Input::Health {
                snapshot,
                complete,
                records,
                unreadable,
            } => {
                self.health_unreadable(snapshot, unreadable);
                self.health_changed(snapshot, complete, records);
            }
            Input::Inherit(records) => self.inherit(records),
            Input::NodePatched { name, answer } => self.node_patched(&name, answer),
            Input::NodeRead { name, reading } => self.node_read(&name, reading),
            Input::PodMarked { uid, answer } => self.pod_marked(&uid, answer),
            Input::PodRead { uid, reading } => self.pod_read(&uid, reading),
            Input::Braked(holds) => self.brake(holds),
            Input::Wake => self.wake(),
        }
        self.begin();
        self.begin_to_mark();
        self.start_node_writes();
        self.start_marks();
        if let Some(at) = self.deadlines.announce() {
            self.effects.push(Effect::WakeAt(at));
        }
        std::mem::take(&mut self.effects)
    }

    /// Sizes of what is held.
    pub fn stats(&self) -> Stats {
        Stats {
            pods: self.pods.len(),
            wishes: self.wishes.len(),
            node_writes: self.node_writes.len(),
            pod_marks: self.marks.len() + self.held_marks.len(),
            held_marks: self.held_marks.len(),
            ..self.stats
        }
    }

    /// What is still needed before pod intents are decided and [`Effect::Complete`] is said; `None` once it was.
    pub fn waits_for(&self) -> Option<&'static str> {
        let progress = &self.progress;
        match progress {
            _ if progress.completed => None,
            _ if progress.begun.is_some() => Some("a complete view of node-health"),
            _ if !progress.nodes_listed => Some("the list of Nodes"),
            _ if !progress.pods_listed => Some("the list of Pods"),
            _ => Some("what the bus remembers of eviction-intents"),
        }
    }

    fn wake(&mut self) {
        while let Some(timer) = self.deadlines.pop(self.now.mono) {
            match timer {
                Timer::Pod(uid) => self.time_is_over(&uid),
                Timer::Node(name) => self.node_is_due(&name),
                Timer::NodeWrite(name) => self.node_write_expired(&name),
                // What they were set for is looked at after every input.
                Timer::Complete | Timer::Marks => {}
                Timer::PodMark(uid) => {
                    self.marks.expired(&uid);
                }
            }
        }
    }
}
