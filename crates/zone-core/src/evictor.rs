//! The state machine: what came in, what follows from it, in a fixed order.
//!
//! ```text
//! input ─▶ facts, records, answers ─▶ votes ─▶ zone states ─▶ gates ─▶ plans of touched nodes ─▶ grants ─▶ pods ─▶ what is said
//! ```
//!
//! Everything one input brings is taken in before anything is granted: a set of records in which a zone falls silent is judged whole.
//! The parts are in the submodules: [`bus`] takes records in, [`nodes`] plans taints, [`node_mode`] plans whole-node evictions,
//! [`zones`] keeps states, holds and grants, [`pods`] evicts.

mod bus;
mod common;
mod holds;
mod inherit;
mod node_mode;
mod nodes;
mod pods;
#[cfg(test)]
mod tests;
mod zones;

use std::collections::{BTreeMap, BTreeSet};

use bailiff_model::outcome::Outcome;
use bailiff_model::timers::Keyed;
use bailiff_model::{
    EvictionMode, Hold, Holds, IndexMap, Mono, NodeName, Now, Origin, PodUid, Topic, TraceContext, Unlisted, Zone,
};

use crate::config::Config;
use crate::effect::{Draft, Effect, Ticket};
use crate::input::Input;
use crate::topics::Topics;
use crate::votes::Votes;

use common::Common;
pub use zones::ZoneView;

/// Who waits for a moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Timer {
    /// The lost bus becomes stale.
    Bus,
    /// A read of a node may be made.
    Confirm,
    /// An overdue pod may be evicted.
    Pace,
    /// It is told which pods wait.
    Line,
    /// It is told which pods are being evicted.
    Going,
    Zone(Zone),
    Node(NodeName),
    Pod(PodUid),
}

/// Whom an answer is for.
#[derive(Clone, Debug)]
enum Asker {
    Node(NodeName),
    Confirm(NodeName),
    Pod(PodUid),
}

/// The zone-evictor's decisions. See the crate's documentation for what it guarantees.
#[derive(Debug)]
pub struct Evictor {
    config: Config,
    topics: Topics,
    api_fresh: bool,
    nodes_synced: bool,
    // IndexMap: a lookup costs the same at any number of nodes; its order is that of arrival, not the hasher's.
    nodes: IndexMap<NodeName, Box<nodes::Node>>,
    /// Of a list that has not ended.
    unlisted: Unlisted<NodeName>,
    common: Common,
    votes: Votes,
    zones: BTreeMap<Zone, zones::Entry>,
    /// All voting zones are fully disrupted: as things are, and for the brake. Kept as they were while node-health is incomplete.
    all_down: bool,
    all_down_for_brake: bool,
    /// The last grants were inherited; from here on rates are handed out.
    begun: bool,
    completed: bool,
    inherited: inherit::Inherited,
    /// Holds from outside, and how often they changed.
    external: Holds,
    /// This process only observes; not among the holds from outside.
    observing: Option<Hold>,
    /// Zones that the monitor holds, by the nodes whose records say so.
    held_by_monitor: BTreeMap<Zone, holds::Monitored>,
    external_changes: u64,
    gates: holds::Gates,
    pods: pods::Pods,
    daemon_sets: pods::DaemonSets,
    confirm: nodes::Confirm,
    /// Nodes whose swap waits for a gate.
    blocked: BTreeSet<NodeName>,
    touched: BTreeSet<NodeName>,
    changed_zones: BTreeSet<Zone>,
    timers: Keyed<Timer>,
    askers: BTreeMap<Ticket, Asker>,
    next_ticket: u64,
    woken_at: Option<Mono>,
    effects: Vec<Effect>,
}

// === impl Evictor ===

impl Evictor {
    /// An evictor that knows nothing yet, and therefore does nothing.
    pub fn new(config: Config) -> Self {
        let pods = pods::Pods::new(&config);
        Self {
            config,
            topics: Topics::default(),
            api_fresh: false,
            nodes_synced: false,
            nodes: IndexMap::default(),
            unlisted: Unlisted::default(),
            common: Common::default(),
            votes: Votes::default(),
            zones: BTreeMap::new(),
            all_down: false,
            all_down_for_brake: false,
            begun: false,
            completed: false,
            inherited: inherit::Inherited::default(),
            external: Holds::NONE,
            observing: None,
            held_by_monitor: BTreeMap::new(),
            external_changes: 0,
            gates: holds::Gates::default(),
            pods,
            daemon_sets: pods::DaemonSets::default(),
            confirm: nodes::Confirm::default(),
            blocked: BTreeSet::new(),
            touched: BTreeSet::new(),
            changed_zones: BTreeSet::new(),
            timers: Keyed::default(),
            askers: BTreeMap::new(),
            next_ticket: 0,
            woken_at: None,
            effects: Vec::new(),
        }
    }

    /// Takes one thing in and says what follows.
    pub fn apply(&mut self, input: Input, now: Now) -> Vec<Effect> {
        self.take_in(input, now);
        self.settle(now);
        std::mem::take(&mut self.effects)
    }

    /// What has to be there before anything can be done; for readiness.
    pub fn waits_for(&self) -> Option<&'static str> {
        if !self.nodes_synced {
            Some("the list of nodes")
        } else if self.config.mode == EvictionMode::Node && !self.daemon_sets.are_synced() {
            Some("the list of DaemonSets")
        } else if !self.topics.is_connected_once() {
            Some("the bus")
        } else {
            None
        }
    }

    fn take_in(&mut self, input: Input, now: Now) {
        match input {
            Input::SomeNodes { first, nodes } => self.some_nodes_listed(first, nodes, now),
            Input::Nodes(all) => self.nodes_listed(all, now),
            Input::NodeApplied(facts) => self.node_applied(facts, now),
            Input::NodeDeleted { name, uid } => self.node_deleted(&name, uid.as_ref(), now),
            Input::ApiFresh(fresh) => self.api_fresh = fresh,
            Input::DaemonSets(all) => self.daemon_sets_listed(all, now),
            Input::DaemonSetApplied(facts) => self.daemon_set_applied(facts, now),
            Input::DaemonSetDeleted(key) => self.daemon_set_deleted(&key, now),
            Input::DaemonSetsFresh(fresh) => self.daemon_sets_fresh(fresh),
            Input::Snapshot { records, shards } => self.snapshot(records, shards, now),
            Input::Changes { records, shards } => self.changes(records, shards, now),
            Input::Status(shards) => self.topics.note(shards),
            Input::BusLost { since } => self.topics.lost(since),
            Input::NodeAnswer { ticket, result } => match self.askers.remove(&ticket) {
                Some(Asker::Node(name)) => self.node_answered(&name, ticket, result, now),
                Some(Asker::Confirm(name)) => self.node_confirmed(&name, result, now),
                Some(Asker::Pod(_)) | None => {}
            },
            Input::PodAnswer { ticket, result } => {
                if let Some(Asker::Pod(uid)) = self.askers.remove(&ticket) {
                    self.pod_answered(&uid, ticket, result, now);
                }
            }
            Input::Braked(holds) => self.brake(holds),
            Input::Wake => self.woken_at = None,
        }
    }

    fn settle(&mut self, now: Now) {
        self.run_timers(now);
        if !self.nodes_synced {
            return self.wake();
        }
        self.forget_what_is_gone(now);
        if self.is_complete(Topic::EvictionIntents) {
            self.inherited.forget_finished();
        }
        self.count_votes();
        self.begin(now);
        self.judge_zones(now);
        self.check_gates(now);
        while let Some(name) = self.touched.pop_first() {
            self.plan(&name, now);
        }
        if self.is_complete(Topic::EvictionIntents) {
            if self.is_complete(Topic::NodeHealth) {
                self.inherited.forget_all_evicted();
            }
            self.close_waits(now);
        }
        self.grant(now);
        self.evict(now);
        self.say_zones(now);
        self.complete();
        self.wake();
    }

    fn run_timers(&mut self, now: Now) {
        while let Some(timer) = self.timers.pop_due(now.mono) {
            match timer {
                Timer::Bus | Timer::Confirm | Timer::Pace | Timer::Line | Timer::Going => {}
                Timer::Zone(zone) => {
                    self.changed_zones.insert(zone);
                }
                Timer::Node(name) => {
                    self.touched.insert(name);
                }
                Timer::Pod(uid) => self.pods.wake(uid),
            }
        }
        if let Some(at) = self.topics.stale_at().filter(|at| *at > now.mono) {
            self.timers.set(Timer::Bus, at);
        }
    }

    /// The initial state is said once nodes and a view of the bus are there: from then on a missing outcome means something.
    fn complete(&mut self) {
        if !self.completed && self.topics.is_connected_once() {
            self.completed = true;
            self.effects.push(Effect::Complete);
        }
    }

    fn wake(&mut self) {
        let next = self.timers.first();
        if next != self.woken_at {
            self.woken_at = next;
            if let Some(at) = next {
                self.effects.push(Effect::WakeAt(at));
            }
        }
    }

    fn ticket(&mut self, asker: Asker) -> Ticket {
        self.next_ticket += 1;
        let ticket = Ticket(self.next_ticket);
        self.askers.insert(ticket, asker);
        ticket
    }

    fn publish(&mut self, key: String, route: String, derived_from: Origin, trace: Option<TraceContext>, outcome: Outcome) {
        self.effects.push(Effect::Publish(Draft {
            key,
            route,
            derived_from,
            trace,
            outcome,
        }));
    }

    fn is_complete(&self, topic: Topic) -> bool {
        self.topics.is_complete(topic)
    }

    /// True if this instance works on the node. A node that is gone has no zone any more and counts as unlabelled.
    fn owns(&self, name: &NodeName) -> bool {
        self.config.shard.owns_zone(self.zone_of(name, &Zone::default()))
    }

    /// The zone of the node; if it is gone that of its wish, else `told`.
    fn zone_of<'a>(&'a self, name: &NodeName, told: &'a Zone) -> &'a Zone {
        self.nodes.get(name).and_then(|node| node.zone()).unwrap_or(told)
    }
}
