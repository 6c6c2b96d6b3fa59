//! One simulated machine: its settings by layers, the Node it last saw of itself, and what is armed for it.

use std::collections::BTreeSet;
use std::sync::Arc;

use bailiff_model::{NodeName, NodeUid, ReadyStatus};

use super::annotations::Annotations;
use super::hash;
use super::settings::{Change, KubeletSettings};
use crate::facts::{NodeFacts, PodKey};
use crate::resources::{Allocatable, Resources};
use crate::timers::TimerId;

/// The condition types that a kubelet posts, in the order of [`Machine::wanted`].
pub const CONDITIONS: [&str; 4] = ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"];

/// A machine. It outlives the Node object: pods keep running on a machine whose Node was deleted.
#[derive(Debug)]
pub struct Machine {
    /// A number that addresses are made from.
    pub index: u32,
    /// In force: defaults, then `program`, then `annotations`.
    pub settings: KubeletSettings,
    pub program: Change,
    pub annotations: Annotations,
    /// Its Node, while there is one.
    pub object: Option<Seen>,
    /// There was a Node of this name at some time.
    pub has_existed: bool,
    pub boot_id: String,
    pub boots: u32,
    /// Between the start and the end of a reboot.
    pub is_booting: bool,
    pub boot_timer: Option<TimerId>,
    pub lease_timer: Option<TimerId>,
    pub status_timer: Option<TimerId>,
    pub repair_timer: Option<TimerId>,
    /// The Lease may be missing or belong to an earlier Node.
    pub must_ensure_lease: bool,
    pub has_renewed: bool,
    pub has_posted: bool,
    /// What was last offered: a Node that is created without capacity gets it.
    pub offer: Option<Allocatable>,
    pub pods: BTreeSet<PodKey>,
    /// What admitted pods ask for.
    pub used: Resources,
    /// Addresses given to pods.
    pub addresses: u32,
}

/// A Node, as far as its kubelet compares it with what it wants to say.
#[derive(Debug)]
pub struct Seen {
    pub uid: NodeUid,
    /// Of the last post; what is older says nothing about the conditions.
    pub posted: u64,
    pub conditions: [ReadyStatus; 4],
    pub allocatable: Allocatable,
    pub ip: Option<Arc<str>>,
    pub boot_id: String,
}

// === impl Machine ===

impl Machine {
    /// A machine that nothing is known of but its name.
    pub fn new(index: u32, defaults: &KubeletSettings, salt: u64, name: &NodeName) -> Self {
        Self {
            index,
            settings: defaults.clone(),
            program: Change::new(),
            annotations: Annotations::default(),
            object: None,
            has_existed: false,
            boot_id: hash::uuid(salt, "boot-0", name.as_str()),
            boots: 0,
            is_booting: false,
            boot_timer: None,
            lease_timer: None,
            status_timer: None,
            repair_timer: None,
            must_ensure_lease: true,
            has_renewed: false,
            has_posted: false,
            offer: None,
            pods: BTreeSet::new(),
            used: Resources::default(),
            addresses: 0,
        }
    }

    /// Recomputes the settings in force; returns the earlier ones.
    pub fn layer(&mut self, defaults: &KubeletSettings) -> KubeletSettings {
        let mut settings = defaults.clone();
        self.program.apply_to(&mut settings);
        self.annotations.change().apply_to(&mut settings);
        std::mem::replace(&mut self.settings, settings)
    }

    /// The kubelet does its work. A recorded scenario has a kubelet for every name; a real one needs a machine.
    pub fn is_running(&self) -> bool {
        self.settings.alive && !self.is_booting && (self.has_existed || !self.settings.is_full())
    }

    /// The kubelet does its work and reaches the API.
    pub fn is_connected(&self) -> bool {
        self.is_running() && !self.settings.partitioned
    }

    /// The statuses it posts, in the order of [`CONDITIONS`].
    pub fn wanted(&self) -> [ReadyStatus; 4] {
        wanted(&self.settings)
    }

    /// Address of the machine.
    pub fn host_ip(&self) -> String {
        match self.object.as_ref().and_then(|object| object.ip.as_ref()) {
            Some(ip) => ip.to_string(),
            None => host_ip(self.index),
        }
    }

    /// The next address for a pod: a /24 per machine. It comes again after 253 pods, by when the first is long gone.
    pub fn next_pod_ip(&mut self) -> String {
        let slot = self.addresses % 253 + 2;
        self.addresses += 1;
        pod_ip(self.index, slot)
    }
}

/// Address of a pod on the machine with this number: in 10.0.0.0/8, and where that is used up, in 240.0.0.0/4, which is nobody's.
fn pod_ip(index: u32, slot: u32) -> String {
    let net = match index >> 16 {
        0 => 10,
        further => 239 + (further & 0xf),
    };
    format!("{net}.{}.{}.{slot}", (index >> 8) & 0xff, index & 0xff)
}

/// The statuses that these settings post.
pub fn wanted(settings: &KubeletSettings) -> [ReadyStatus; 4] {
    let pressure = |on| if on { ReadyStatus::True } else { ReadyStatus::False };
    [
        pressure(settings.memory_pressure),
        pressure(settings.disk_pressure),
        pressure(settings.pid_pressure),
        settings.ready,
    ]
}

/// Address of the machine with this number, in 172.16.0.0/12.
fn host_ip(index: u32) -> String {
    format!("172.{}.{}.{}", 16 + ((index >> 16) & 0xf), (index >> 8) & 0xff, index & 0xff)
}

// === impl Seen ===

impl Seen {
    /// The Node of these facts, seen for the first time.
    pub fn first(facts: &NodeFacts) -> Self {
        let mut seen = Self {
            uid: facts.uid.clone(),
            posted: 0,
            conditions: [ReadyStatus::Absent; 4],
            allocatable: Allocatable::default(),
            ip: None,
            boot_id: String::new(),
        };
        seen.update(facts);
        seen
    }

    /// The same Node, later. Returns false for a state older than the last post.
    pub fn update(&mut self, facts: &NodeFacts) -> bool {
        if facts.revision < self.posted {
            return false;
        }
        self.conditions = CONDITIONS.map(|kind| facts.condition(kind));
        self.allocatable = facts.allocatable;
        self.ip.clone_from(&facts.internal_ip);
        self.boot_id.clone_from(&facts.boot_id);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_machines_share_a_net_of_pods() {
        let nets: Vec<String> = [0, 256, 65_535, 65_536, 999_999].map(|index| pod_ip(index, 2)).into();
        assert_eq!(nets, ["10.0.0.2", "10.1.0.2", "10.255.255.2", "240.0.0.2", "254.66.63.2"]);
    }
}
