//! The state machine of all kubelets of a sandbox.

use std::collections::BTreeMap;

use bailiff_model::{Mono, NodeName, Now};

use super::machine::Machine;
use super::pod::Pod;
use super::settings::{Change, KubeletSettings};
use crate::effect::{Effect, EventDraft};
use crate::facts::{NodeFacts, PodFacts, PodKey};
use crate::timers::Timers;

/// All kubelets. `apply` is the only way in, effects the only way out.
///
/// # Guarantees
/// The same inputs at the same times give the same effects. Work is proportional to what an input concerns: one node and its pods, or
/// one pod.
#[derive(Debug)]
pub struct Core {
    pub(super) salt: u64,
    pub(super) defaults: KubeletSettings,
    pub(super) machines: BTreeMap<NodeName, Machine>,
    pub(super) pods: BTreeMap<PodKey, Pod>,
    pub(super) timers: Timers<Timer>,
    machines_made: u32,
    events_made: u64,
}

/// Something that happened.
#[derive(Clone, Debug)]
pub enum Input {
    /// A Node is as follows.
    Node(Box<NodeFacts>),
    /// A Node is gone.
    NodeGone(NodeName),
    /// A Pod is as follows.
    Pod(Box<PodFacts>),
    /// A Pod is gone.
    PodGone(PodKey),
    /// The program changes settings.
    Change {
        /// Of which nodes.
        target: Target,
        /// Which.
        change: Change,
    },
    /// A renewal found no Lease.
    LeaseMissing(NodeName),
    /// A node's status was posted at this revision; `None`: it was refused.
    NodePosted(NodeName, Option<u64>),
    /// A pod's status was posted at this revision; `None`: it was refused.
    PodPosted(PodKey, Option<u64>),
    /// Time passed.
    Wake,
}

/// Which kubelets a change is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// All nodes that exist.
    All,
    /// This one, whether it exists or not.
    Node(NodeName),
}

/// What a deadline is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    Lease(NodeName),
    Status(NodeName),
    Repair(NodeName),
    Booted(NodeName),
    Pod(PodKey),
}

/// One call of [`Core::apply`]: the time, and the effects so far.
#[derive(Debug)]
pub(super) struct Turn {
    pub now: Now,
    pub effects: Vec<Effect>,
}

// === impl Core ===

impl Core {
    /// Kubelets with these settings. `salt` spreads their phases.
    pub fn new(defaults: KubeletSettings, salt: u64) -> Self {
        Self {
            salt,
            defaults,
            machines: BTreeMap::new(),
            pods: BTreeMap::new(),
            timers: Timers::default(),
            machines_made: 0,
            events_made: 0,
        }
    }

    /// Takes one input.
    pub fn apply(&mut self, input: Input, now: Now) -> Vec<Effect> {
        let mut turn = Turn {
            now,
            effects: Vec::new(),
        };
        match input {
            Input::Node(facts) => self.node_seen(*facts, &mut turn),
            Input::NodeGone(name) => self.node_gone(&name),
            Input::Pod(facts) => self.pod_seen(*facts, &mut turn),
            Input::PodGone(key) => self.pod_gone(&key),
            Input::Change { target, change } => self.change(target, &change, &mut turn),
            Input::LeaseMissing(name) => self.lease_missing(&name, &mut turn),
            Input::NodePosted(name, revision) => self.node_posted(&name, revision, &turn),
            Input::PodPosted(key, revision) => self.pod_posted(&key, revision),
            Input::Wake => self.wake(&mut turn),
        }
        turn.effects
    }

    /// When [`Input::Wake`] is wanted next.
    pub fn next_deadline(&self) -> Option<Mono> {
        self.timers.next()
    }

    /// The settings in force for a node.
    pub fn settings(&self, name: &NodeName) -> &KubeletSettings {
        self.machines.get(name).map_or(&self.defaults, |machine| &machine.settings)
    }

    /// The nodes that exist.
    pub(super) fn existing(&self) -> Vec<NodeName> {
        let existing = self.machines.iter().filter(|(_, machine)| machine.object.is_some());
        existing.map(|(name, _)| name.clone()).collect()
    }

    fn wake(&mut self, turn: &mut Turn) {
        while let Some((_, timer)) = self.timers.pop(turn.now.mono) {
            match timer {
                Timer::Lease(name) => self.renew_due(&name, turn),
                Timer::Status(name) => self.status_due(&name, turn),
                Timer::Repair(name) => self.repair_due(&name, turn),
                Timer::Booted(name) => self.booted(&name, turn),
                Timer::Pod(key) => self.step_due(&key, turn),
            }
        }
    }

    /// The machine of this name, which comes into being when it is first heard of.
    pub(super) fn machine(&mut self, name: &NodeName) -> &mut Machine {
        if !self.machines.contains_key(name) {
            self.machines_made += 1;
            let machine = Machine::new(self.machines_made, &self.defaults, self.salt, name);
            self.machines.insert(name.clone(), machine);
        }
        self.machines.get_mut(name).expect("it was inserted if it was missing")
    }

    /// Adds an Event. Names are unique for as long as the sandbox lives.
    pub(super) fn event(&mut self, mut draft: EventDraft<'_>, turn: &mut Turn) {
        self.events_made += 1;
        draft.name = format!("{}.kubelet-{:x}", draft.object, self.events_made);
        turn.effects.push(draft.into());
    }
}
