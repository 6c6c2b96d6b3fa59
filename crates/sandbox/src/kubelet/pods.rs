//! How a pod runs on a machine.
//!
//! ```text
//!             run_delay                       mode crash-loop
//!  Waiting ──────────────▶ Running ──────────────────────────────▶ BackOff ──┐
//!     │  │                    ▲                                              │
//!     │  └──▶ Pulling ────────┴──────────────── back-off ends ◀──────────────┘
//!     └─────▶ Ended (failed, succeeded, rejected)
//! ```
//! A terminating pod leaves this for one more step: it is deleted for good after `finalize_delay`. At any time a pod has at most one
//! step ahead; [`Core::plan`] arms it anew when what it depends on changed.

use bailiff_model::{Mono, NodeName};

use super::core::{Core, Input, Timer, Turn};
use super::pod::{Pod, Run, Step};
use super::post::{self, Addresses};
use super::settings::PodMode;
use crate::effect::{Answer, Effect, EventDraft};
use crate::facts::{PodFacts, PodKey};
use crate::resources::Shortage;

// === impl Core: inputs ===

impl Core {
    pub(super) fn pod_seen(&mut self, facts: PodFacts, turn: &mut Turn) {
        if self.pods.get(&facts.key).is_some_and(|pod| pod.uid != facts.uid) {
            self.pod_gone(&facts.key);
        }
        let Some(node) = facts.node.clone() else { return };
        let key = facts.key.clone();
        match self.pods.get_mut(&key) {
            Some(pod) => pod.update(&facts, turn.now.mono),
            None => self.pod_bound(facts, node.clone(), turn.now.mono),
        }
        self.settle(&key);
        self.plan(&key, turn.now.mono);
        self.report_if_full(&key, turn);
    }

    pub(super) fn pod_gone(&mut self, key: &PodKey) {
        self.disarm(key);
        self.release(key);
        if let Some(pod) = self.pods.remove(key)
            && let Some(machine) = self.machines.get_mut(&pod.node)
        {
            machine.pods.remove(key);
        }
    }

    pub(super) fn pod_posted(&mut self, key: &PodKey, revision: Option<u64>) {
        match (self.pods.get_mut(key), revision) {
            (Some(pod), Some(revision)) => pod.posted = revision,
            // What is listed next tells what is left to say.
            (Some(pod), None) => pod.seen = 0,
            (None, _) => {}
        }
    }

    /// Everything that the pods of a machine wait for may have changed.
    pub(super) fn replan_pods(&mut self, node: &NodeName, turn: &mut Turn) {
        let keys: Vec<PodKey> = self.machine(node).pods.iter().cloned().collect();
        for key in keys {
            self.settle(&key);
            self.plan(&key, turn.now.mono);
            self.report_if_full(&key, turn);
        }
    }

    /// A reboot ended: what ran has died.
    pub(super) fn restart_pods(&mut self, node: &NodeName, turn: &Turn) {
        let keys: Vec<PodKey> = self.machine(node).pods.iter().cloned().collect();
        for key in keys {
            let Some(pod) = self.pods.get_mut(&key) else { continue };
            if !matches!(pod.run, Run::Running { .. } | Run::BackOff) {
                continue;
            }
            pod.since = turn.now.mono;
            if pod.restarts_always {
                pod.restarts += 1;
                pod.run = Run::Waiting;
            } else {
                pod.run = Run::Ended { is_success: false };
                self.release(&key);
            }
        }
    }

    fn pod_bound(&mut self, facts: PodFacts, node: NodeName, now: Mono) {
        let key = facts.key.clone();
        self.machine(&node).pods.insert(key.clone());
        let pod = Pod::new(facts, node, now);
        let is_running = matches!(pod.run, Run::Running { .. });
        self.pods.insert(key.clone(), pod);
        if is_running {
            self.admit(&key);
        }
    }
}

// === impl Core: what comes next ===

impl Core {
    /// Arms the pod's next step, if it is not armed already.
    fn plan(&mut self, key: &PodKey, now: Mono) {
        let Some(pod) = self.pods.get_mut(key) else { return };
        let Some(machine) = self.machines.get(&pod.node) else { return };
        let wanted = pod
            .next_step(machine)
            .map(|(step, delay)| ((pod.since + delay).max(now), step));
        let armed = pod.step.map(|(timer, step)| (timer.at(), step));
        if armed != wanted {
            let mut timer = pod.step.take().map(|(timer, _)| timer);
            self.timers.cancel(&mut timer);
            pod.step = wanted.map(|(at, step)| (self.timers.arm(at, Timer::Pod(key.clone())), step));
        }
    }

    fn disarm(&mut self, key: &PodKey) {
        if let Some(pod) = self.pods.get_mut(key) {
            let mut timer = pod.step.take().map(|(timer, _)| timer);
            self.timers.cancel(&mut timer);
        }
    }

    pub(super) fn step_due(&mut self, key: &PodKey, turn: &mut Turn) {
        let Some(pod) = self.pods.get_mut(key) else { return };
        let Some((_, step)) = pod.step.take() else { return };
        match step {
            Step::Finalize => {
                pod.was_finalized = true;
                let uid = pod.uid.clone();
                turn.effects.push(Effect::delete_pod_now(key, &uid, Answer::None));
                return;
            }
            Step::Crash => {
                pod.restarts += 1;
                pod.run = Run::BackOff;
                self.warn(key, "BackOff", "Back-off restarting failed container", turn);
            }
            Step::Start if !self.fits(key, turn) => {}
            Step::Start | Step::PullAgain | Step::Restart => self.start(key, turn),
        }
        if let Some(pod) = self.pods.get_mut(key) {
            pod.since = turn.now.mono;
        }
        self.report(key, turn);
        self.plan(key, turn.now.mono);
    }

    /// Starts the containers, as well as the mode lets them.
    fn start(&mut self, key: &PodKey, turn: &mut Turn) {
        self.admit(key);
        let Some(mode) = self.mode(key) else { return };
        let Some(pod) = self.pods.get_mut(key) else { return };
        pod.run = match mode {
            PodMode::Ready | PodMode::CrashLoop => Run::Running { is_ready: true },
            PodMode::NotReady => Run::Running { is_ready: false },
            PodMode::Fail => Run::Ended { is_success: false },
            PodMode::Succeed => Run::Ended { is_success: true },
            PodMode::ImagePullFailure => match pod.run {
                Run::Pulling(failures) => Run::Pulling(failures + 1),
                _ => Run::Pulling(1),
            },
            PodMode::None => pod.run,
        };
        match pod.run {
            Run::Ended { .. } => self.release(key),
            Run::Pulling(_) => self.warn(key, "Failed", "Failed to pull image", turn),
            _ => {}
        }
    }

    /// Readiness follows the mode, for as long as containers run.
    fn settle(&mut self, key: &PodKey) {
        let Some(mode) = self.mode(key) else { return };
        let Some(pod) = self.pods.get_mut(key) else { return };
        let is_full = self.machines.get(&pod.node).is_some_and(|machine| machine.settings.is_full());
        if let Run::Running { is_ready } = &mut pod.run
            && is_full
        {
            match mode {
                PodMode::Ready | PodMode::CrashLoop => *is_ready = true,
                PodMode::NotReady => *is_ready = false,
                PodMode::Fail | PodMode::Succeed | PodMode::None | PodMode::ImagePullFailure => {}
            }
        }
    }

    fn mode(&self, key: &PodKey) -> Option<PodMode> {
        let pod = self.pods.get(key)?;
        let machine = self.machines.get(&pod.node)?;
        Some(pod.mode_on(machine))
    }
}

// === impl Core: admission ===

impl Core {
    /// False if the machine has no room for the pod, which then is rejected.
    fn fits(&mut self, key: &PodKey, turn: &mut Turn) -> bool {
        let Some(pod) = self.pods.get_mut(key) else { return false };
        let Some(machine) = self.machines.get(&pod.node) else {
            return false;
        };
        if pod.is_admitted || !machine.settings.is_full() {
            return true;
        }
        let offered = machine.object.as_ref().map(|object| object.allocatable).unwrap_or_default();
        let Some(short) = offered.shortage(machine.used, pod.requests) else {
            return true;
        };
        let (reason, message) = rejection(short);
        pod.run = Run::Ended { is_success: false };
        pod.rejection = Some((reason, message.clone()));
        self.warn(key, reason, &message, turn);
        false
    }

    fn admit(&mut self, key: &PodKey) {
        let Some(pod) = self.pods.get_mut(key) else { return };
        let Some(machine) = self.machines.get_mut(&pod.node) else {
            return;
        };
        if !std::mem::replace(&mut pod.is_admitted, true) {
            machine.used.add(pod.requests);
        }
    }

    fn release(&mut self, key: &PodKey) {
        let Some(pod) = self.pods.get_mut(key) else { return };
        let Some(machine) = self.machines.get_mut(&pod.node) else {
            return;
        };
        if std::mem::take(&mut pod.is_admitted) {
            machine.used.remove(pod.requests);
        }
    }
}

// === impl Core: reports ===

impl Core {
    /// Says what the API does not know yet, if the kubelet is one that keeps its pods' status right.
    fn report_if_full(&mut self, key: &PodKey, turn: &mut Turn) {
        let node = self.pods.get(key).map(|pod| &pod.node);
        if node
            .and_then(|node| self.machines.get(node))
            .is_some_and(|machine| machine.settings.is_full())
        {
            self.report(key, turn);
        }
    }

    fn report(&mut self, key: &PodKey, turn: &mut Turn) {
        let Some(pod) = self.pods.get_mut(key) else { return };
        let Some(machine) = self.machines.get_mut(&pod.node) else {
            return;
        };
        let Some(report) = pod.report().filter(|report| pod.is_news(report)) else {
            return;
        };
        if !machine.is_connected() || pod.terminating.is_some() {
            return;
        }
        let has_ip = report.rejected.is_none() && !pod.has_started;
        let host = machine.host_ip();
        let addresses = Addresses {
            pod: has_ip.then(|| {
                if pod.host_network {
                    host.clone()
                } else {
                    pod.address.get_or_insert_with(|| machine.next_pod_ip().into()).to_string()
                }
            }),
            host,
        };
        let status = post::pod_status(pod, &report, &addresses, machine.settings.is_full(), turn.now.wall);
        pod.was_said(&report);
        turn.effects
            .push(Effect::pod_status(key, &pod.uid, status, Answer::PodPosted(key.clone())));
    }

    fn warn(&mut self, key: &PodKey, reason: &str, message: &str, turn: &mut Turn) {
        let Some(pod) = self.pods.get(key) else { return };
        let Some(machine) = self.machines.get(&pod.node) else { return };
        if !machine.settings.is_full() || !machine.is_connected() {
            return;
        }
        let uid = pod.uid.clone();
        let draft = EventDraft {
            name: String::new(),
            kind: "Pod",
            namespace: key.namespace.as_str(),
            object: key.name.as_str(),
            uid: &uid.to_string(),
            is_warning: true,
            reason,
            message,
            component: "kubelet",
            at: turn.now.wall,
        };
        self.event(draft, turn);
    }
}

/// A kubelet's words for a pod that does not fit.
fn rejection(short: Shortage) -> (&'static str, String) {
    let reason = match short.resource {
        "pods" => "OutOfpods",
        "cpu" => "OutOfcpu",
        _ => "OutOfmemory",
    };
    let message = format!(
        "Node didn't have enough resource: {}, requested: {}, used: {}, capacity: {}",
        short.resource, short.requested, short.used, short.capacity
    );
    (reason, message)
}

impl From<PodFacts> for Input {
    fn from(facts: PodFacts) -> Self {
        Self::Pod(Box::new(facts))
    }
}
