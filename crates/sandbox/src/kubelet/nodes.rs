//! How machines follow their Node and their settings: leases, status posts, silence, partition, reboot.

use std::time::Duration;

use bailiff_model::{Mono, NodeName, ReadyStatus};

use super::core::{Core, Input, Target, Timer, Turn};
use super::machine::{Seen, wanted};
use super::settings::{Change, KubeletSettings};
use super::{hash, post};
use crate::effect::{Answer, Effect, EventDraft};
use crate::facts::NodeFacts;

/// A kubelet compares its status with the API every 10 s (`nodeStatusUpdateFrequency`), and so finds within that time what others
/// changed in it.
const REPAIR_WITHIN: Duration = Duration::from_secs(10);

/// Finer than anybody looks at a lease that is renewed every ten seconds.
const PHASE_STEP: Duration = Duration::from_millis(50);

/// Settings before a change, and whether the kubelet reached the API under them.
struct Before {
    settings: KubeletSettings,
    was_connected: bool,
}

// === impl Core: inputs ===

impl Core {
    pub(super) fn node_seen(&mut self, facts: NodeFacts, turn: &mut Turn) {
        let name = facts.name.clone();
        let defaults = self.defaults.clone();
        let machine = self.machine(&name);
        let is_new = machine.object.as_ref().is_none_or(|object| object.uid != facts.uid);
        let errors = machine.annotations.update(&facts.annotations);
        let before = Before {
            was_connected: machine.is_connected(),
            settings: machine.layer(&defaults),
        };
        for error in errors {
            self.setting_refused(&facts, &error.to_string(), turn);
        }
        if is_new {
            self.node_appeared(&facts, turn);
        } else {
            self.node_changed(&facts, turn);
            self.settings_changed(&name, &before, turn);
        }
    }

    /// The Node is gone; the machine and its pods are not.
    pub(super) fn node_gone(&mut self, name: &NodeName) {
        self.hush(name);
        if let Some(machine) = self.machines.get_mut(name) {
            machine.object = None;
            // Annotations went with it; what the program changed stays.
            machine.annotations = super::annotations::Annotations::default();
            machine.layer(&self.defaults);
        }
    }

    pub(super) fn change(&mut self, target: Target, change: &Change, turn: &mut Turn) {
        let names = match target {
            Target::All => self.existing(),
            Target::Node(name) => vec![name],
        };
        for name in names {
            let defaults = self.defaults.clone();
            let machine = self.machine(&name);
            machine.program.merge(change.clone());
            let before = Before {
                was_connected: machine.is_connected(),
                settings: machine.layer(&defaults),
            };
            self.settings_changed(&name, &before, turn);
        }
    }

    pub(super) fn lease_missing(&mut self, name: &NodeName, turn: &mut Turn) {
        if let Some(machine) = self.machines.get_mut(name) {
            machine.must_ensure_lease = true;
        }
        self.renew(name, turn);
    }

    pub(super) fn node_posted(&mut self, name: &NodeName, revision: Option<u64>, turn: &Turn) {
        let Some(object) = self.machines.get_mut(name).and_then(|machine| machine.object.as_mut()) else {
            return;
        };
        match revision {
            Some(revision) => object.posted = revision,
            None => {
                object.conditions = [ReadyStatus::Absent; 4];
                self.arm_repair(name, turn);
            }
        }
    }
}

// === impl Core: the Node ===

impl Core {
    fn node_appeared(&mut self, facts: &NodeFacts, turn: &mut Turn) {
        self.hush(&facts.name);
        let machine = self.machine(&facts.name);
        if !machine.has_existed && !facts.boot_id.is_empty() {
            machine.boot_id.clone_from(&facts.boot_id);
        }
        machine.has_existed = true;
        machine.has_posted = false;
        machine.has_renewed = false;
        machine.must_ensure_lease = true;
        machine.object = Some(Seen::first(facts));
        machine.offer = Some(facts.allocatable).filter(|offer| !offer.is_empty()).or(machine.offer);
        let is_connected = machine.is_connected();
        self.tell_binder(&facts.name, turn);
        if is_connected {
            self.arm_lease(&facts.name, turn.now.mono);
            self.arm_status(&facts.name, turn.now.mono);
        }
        self.replan_pods(&facts.name, turn);
    }

    /// Others changed the Node. What they changed in the status is put right, as a kubelet does, unless a recording says otherwise.
    fn node_changed(&mut self, facts: &NodeFacts, turn: &Turn) {
        let machine = self.machine(&facts.name);
        let Some(object) = machine.object.as_mut() else { return };
        if !object.update(facts) || !machine.settings.is_full() || !machine.has_posted {
            return;
        }
        let object = machine.object.as_ref().expect("it was there a moment ago");
        if machine.is_connected() && object.conditions != machine.wanted() {
            self.arm_repair(&facts.name, turn);
        }
    }

    fn setting_refused(&mut self, facts: &NodeFacts, message: &str, turn: &mut Turn) {
        let draft = EventDraft {
            name: String::new(),
            kind: "Node",
            namespace: "",
            object: facts.name.as_str(),
            uid: &facts.uid.to_string(),
            is_warning: true,
            reason: "InvalidSandboxSetting",
            message,
            component: "sandbox",
            at: turn.now.wall,
        };
        self.event(draft, turn);
    }

    fn tell_binder(&mut self, name: &NodeName, turn: &mut Turn) {
        let settings = &self.machine(name).settings;
        let delay = settings.bind.then_some(settings.bind_delay);
        turn.effects.push(Effect::Binding {
            node: name.clone(),
            delay,
        });
    }
}

// === impl Core: settings ===

impl Core {
    fn settings_changed(&mut self, name: &NodeName, before: &Before, turn: &mut Turn) {
        let machine = self.machine(name);
        let (old, new) = (before.settings.clone(), machine.settings.clone());
        if old == new {
            return;
        }
        let is_connected = machine.is_connected();
        match (before.was_connected, is_connected) {
            (true, false) => self.hush(name),
            (false, true) => self.resume(name, turn),
            (true, true) => self.adjust(name, &old, &new, turn),
            (false, false) => {}
        }
        if (old.bind, old.bind_delay) != (new.bind, new.bind_delay) {
            self.tell_binder(name, turn);
        }
        if new.reboot.is_some() && new.reboot != old.reboot {
            self.reboot(name, turn);
        }
        self.replan_pods(name, turn);
    }

    /// Speaks again after silence, partition or reboot.
    fn resume(&mut self, name: &NodeName, turn: &mut Turn) {
        self.arm_lease(name, turn.now.mono);
        let settings = &self.machine(name).settings;
        match (settings.status_on_resume, settings.status_interval) {
            (true, _) => self.post(name, turn),
            (false, Some(interval)) => self.arm_status(name, turn.now.mono + interval),
            (false, None) => {}
        }
    }

    /// Follows a change while speaking.
    fn adjust(&mut self, name: &NodeName, old: &KubeletSettings, new: &KubeletSettings, turn: &mut Turn) {
        let now = turn.now.mono;
        // What was off starts at once, what was on keeps no longer distance than the new interval.
        let next = |old: Option<Duration>, new: Option<Duration>| if old.is_none() { now } else { now + new.unwrap_or_default() };
        if old.lease_interval != new.lease_interval {
            self.arm_lease(name, next(old.lease_interval, new.lease_interval));
        }
        if old.status_interval != new.status_interval {
            self.arm_status(name, next(old.status_interval, new.status_interval));
        }
        if wanted(old) != wanted(new) {
            self.post(name, turn);
        }
    }

    /// Stops speaking.
    fn hush(&mut self, name: &NodeName) {
        let Some(machine) = self.machines.get_mut(name) else { return };
        self.timers.cancel(&mut machine.lease_timer);
        self.timers.cancel(&mut machine.status_timer);
        self.timers.cancel(&mut machine.repair_timer);
    }
}

// === impl Core: leases ===

impl Core {
    fn arm_lease(&mut self, name: &NodeName, at: Mono) {
        let Some(machine) = self.machines.get_mut(name) else { return };
        self.timers.cancel(&mut machine.lease_timer);
        if machine.object.is_some() && machine.settings.lease_interval.is_some() {
            machine.lease_timer = Some(self.timers.arm(at, Timer::Lease(name.clone())));
        }
    }

    pub(super) fn renew_due(&mut self, name: &NodeName, turn: &mut Turn) {
        let salt = self.salt;
        let machine = self.machine(name);
        let due = machine.lease_timer.take().map_or(turn.now.mono, |timer| timer.at());
        let Some(interval) = machine.settings.lease_interval else {
            return;
        };
        let spread = machine.settings.is_full() && !std::mem::replace(&mut machine.has_renewed, true);
        self.renew(name, turn);
        let step = if spread {
            phase(salt, "lease", name, interval)
        } else {
            interval
        };
        self.arm_lease(name, after(due, step, turn.now.mono));
    }

    fn renew(&mut self, name: &NodeName, turn: &mut Turn) {
        let machine = self.machine(name);
        let is_connected = machine.is_connected();
        let Some(object) = machine.object.as_ref().filter(|_| is_connected) else {
            return;
        };
        turn.effects.push(Effect::Renew {
            node: name.clone(),
            uid: object.uid.clone(),
            at: turn.now.wall,
            ensure: std::mem::take(&mut machine.must_ensure_lease),
        });
    }
}

// === impl Core: node status ===

impl Core {
    fn arm_status(&mut self, name: &NodeName, at: Mono) {
        let Some(machine) = self.machines.get_mut(name) else { return };
        self.timers.cancel(&mut machine.status_timer);
        if machine.object.is_some() && machine.settings.status_interval.is_some() {
            machine.status_timer = Some(self.timers.arm(at, Timer::Status(name.clone())));
        }
    }

    fn arm_repair(&mut self, name: &NodeName, turn: &Turn) {
        let within = phase(self.salt, "repair", name, REPAIR_WITHIN);
        let Some(machine) = self.machines.get_mut(name) else { return };
        if machine.repair_timer.is_none() {
            machine.repair_timer = Some(self.timers.arm(turn.now.mono + within, Timer::Repair(name.clone())));
        }
    }

    pub(super) fn status_due(&mut self, name: &NodeName, turn: &mut Turn) {
        self.machine(name).status_timer = None;
        self.post(name, turn);
    }

    pub(super) fn repair_due(&mut self, name: &NodeName, turn: &mut Turn) {
        let machine = self.machine(name);
        machine.repair_timer = None;
        let wanted = machine.wanted();
        if machine.object.as_ref().is_some_and(|object| object.conditions != wanted) {
            self.post(name, turn);
        }
    }

    /// Posts the node's status, if there is a Node and the API can be reached, and starts the interval again.
    fn post(&mut self, name: &NodeName, turn: &mut Turn) {
        let salt = self.salt;
        let machine = self.machine(name);
        if !machine.is_connected() || machine.object.is_none() {
            return;
        }
        let body = post::node_status(machine, turn.now.wall);
        let wanted = machine.wanted();
        let is_first = !std::mem::replace(&mut machine.has_posted, true);
        if let Some(object) = machine.object.as_mut() {
            object.conditions = wanted;
            object.boot_id.clone_from(&machine.boot_id);
        }
        let interval = machine.settings.status_interval;
        let spread = is_first && machine.settings.is_full();
        turn.effects.push(Effect::send(
            crate::Verb::StrategicMergePatch,
            format!("/api/v1/nodes/{name}/status"),
            body,
            Answer::NodePosted(name.clone()),
        ));
        if let Some(interval) = interval {
            let step = if spread {
                phase(salt, "status", name, interval)
            } else {
                interval
            };
            self.arm_status(name, turn.now.mono + step);
        }
    }
}

// === impl Core: reboot ===

impl Core {
    /// The machine goes down. Containers die with it; that is told when it is back.
    fn reboot(&mut self, name: &NodeName, turn: &mut Turn) {
        self.hush(name);
        let Some(machine) = self.machines.get_mut(name) else { return };
        machine.is_booting = true;
        let at = turn.now.mono + machine.settings.reboot_delay;
        self.timers.cancel(&mut machine.boot_timer);
        machine.boot_timer = Some(self.timers.arm(at, Timer::Booted(name.clone())));
    }

    pub(super) fn booted(&mut self, name: &NodeName, turn: &mut Turn) {
        let salt = self.salt;
        let machine = self.machine(name);
        machine.boot_timer = None;
        machine.is_booting = false;
        machine.boots += 1;
        machine.boot_id = hash::uuid(salt, &format!("boot-{}", machine.boots), name.as_str());
        let is_connected = machine.is_connected();
        let boot_id = machine.boot_id.clone();
        let uid = machine.object.as_ref().map(|object| object.uid.clone());
        self.restart_pods(name, turn);
        if !is_connected {
            return;
        }
        self.resume(name, turn);
        if let Some(uid) = uid {
            let draft = EventDraft {
                name: String::new(),
                kind: "Node",
                namespace: "",
                object: name.as_str(),
                uid: &uid.to_string(),
                is_warning: true,
                reason: "Rebooted",
                message: &format!("Node {name} has been rebooted, boot id: {boot_id}"),
                component: "kubelet",
                at: turn.now.wall,
            };
            self.event(draft, turn);
        }
        self.replan_pods(name, turn);
    }
}

/// Where in an interval a node's turn is: spread, so that ten thousand kubelets do not speak at once, in steps, so that they are not
/// as many turns of the task that runs them.
fn phase(salt: u64, purpose: &str, name: &NodeName, interval: Duration) -> Duration {
    let phase = interval.mul_f64(hash::fraction(salt, purpose, name.as_str()));
    let steps = phase.as_nanos().div_ceil(PHASE_STEP.as_nanos());
    PHASE_STEP
        .saturating_mul(u32::try_from(steps).unwrap_or(u32::MAX))
        .min(interval)
}

/// The deadline one interval after the last, or after now if that was missed: a stall is not made up for by a burst.
fn after(due: Mono, interval: Duration, now: Mono) -> Mono {
    let next = due + interval;
    if next > now { next } else { now + interval }
}

impl From<NodeFacts> for Input {
    fn from(facts: NodeFacts) -> Self {
        Self::Node(Box::new(facts))
    }
}
