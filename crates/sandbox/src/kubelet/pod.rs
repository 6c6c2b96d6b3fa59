//! One pod on its machine: what is known of it, what comes next for it, and what there is to say.

use std::sync::Arc;
use std::time::Duration;

use bailiff_model::{Mono, NodeName, PodUid, ReadyStatus};

use super::annotations::pod_mode;
use super::machine::Machine;
use super::settings::PodMode;
use crate::facts::{Container, Phase, PodFacts, PodKey};
use crate::resources::Resources;
use crate::timers::TimerId;

/// A container of a crash-looping pod lives this long: long enough to be seen running.
const CRASH_AFTER: Duration = Duration::from_secs(2);
/// First back-off of a kubelet, for restarts and for image pulls; it doubles each time.
const BACK_OFF: Duration = Duration::from_secs(10);
/// Longest back-off of a kubelet.
const BACK_OFF_MAX: Duration = Duration::from_secs(300);

/// A pod that is bound to a machine.
#[derive(Debug)]
pub struct Pod {
    pub key: PodKey,
    pub uid: PodUid,
    pub node: NodeName,
    pub containers: Arc<[Container]>,
    pub restarts_always: bool,
    pub host_network: bool,
    pub requests: Resources,
    /// What its own annotation says.
    pub mode: Option<PodMode>,
    /// Revision of the last post; what is older says nothing about the fields below.
    pub posted: u64,
    /// Revision that was seen last; listed again, it says nothing new. Nothing is known of it after a refused post.
    pub seen: u64,
    /// The address that it got, which it keeps.
    pub address: Option<Box<str>>,
    /// As the API has it.
    pub phase: Phase,
    pub ready: ReadyStatus,
    pub scheduled: ReadyStatus,
    pub containers_ready: ReadyStatus,
    pub has_started: bool,
    /// Grace period in seconds, once it is terminating.
    pub terminating: Option<u64>,
    pub run: Run,
    pub restarts: u32,
    /// As said last.
    pub said: (u32, Waiting),
    /// Since when it waits for its next step.
    pub since: Mono,
    pub step: Option<(TimerId, Step)>,
    /// It counts among what its machine has admitted.
    pub is_admitted: bool,
    pub was_finalized: bool,
    pub rejection: Option<(&'static str, String)>,
}

/// What the containers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    /// Not started yet, or to be started again after a reboot.
    Waiting,
    /// Their images cannot be pulled; so many attempts failed.
    Pulling(u32),
    /// They run.
    Running {
        /// And are ready.
        is_ready: bool,
    },
    /// They crashed and wait to be restarted.
    BackOff,
    /// They will never run again.
    Ended {
        /// They ended well.
        is_success: bool,
    },
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Start,
    PullAgain,
    Crash,
    Restart,
    Finalize,
}

/// What there is to say about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub phase: Phase,
    pub is_ready: bool,
    pub restarts: u32,
    pub waiting: Waiting,
    pub rejected: Option<(&'static str, String)>,
}

/// Why containers do not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    No,
    Creating,
    PullError,
    PullBackOff,
    CrashLoop,
}

// === impl Pod ===

impl Pod {
    pub fn new(facts: PodFacts, node: NodeName, now: Mono) -> Self {
        let run = match facts.phase {
            Phase::Pending => Run::Waiting,
            Phase::Running => Run::Running {
                is_ready: facts.ready == ReadyStatus::True,
            },
            Phase::Succeeded => Run::Ended { is_success: true },
            Phase::Failed => Run::Ended { is_success: false },
        };
        Self {
            mode: pod_mode(&facts.annotations),
            key: facts.key,
            uid: facts.uid,
            node,
            containers: facts.containers,
            restarts_always: facts.restarts_always,
            host_network: facts.host_network,
            requests: facts.requests,
            posted: 0,
            seen: facts.revision,
            address: None,
            phase: facts.phase,
            ready: facts.ready,
            scheduled: facts.scheduled,
            containers_ready: ReadyStatus::Absent,
            has_started: facts.has_started,
            terminating: facts.terminating,
            run,
            restarts: 0,
            said: (0, Waiting::No),
            since: now,
            step: None,
            is_admitted: false,
            was_finalized: false,
            rejection: None,
        }
    }

    pub fn update(&mut self, facts: &PodFacts, now: Mono) {
        self.mode = pod_mode(&facts.annotations);
        if self.terminating.is_none() && facts.terminating.is_some() {
            self.since = now;
        }
        self.terminating = facts.terminating;
        if facts.revision < self.posted || facts.revision == self.seen {
            return;
        }
        self.seen = facts.revision;
        self.phase = facts.phase;
        self.ready = facts.ready;
        self.scheduled = facts.scheduled;
        self.has_started = facts.has_started;
        if facts.phase.is_terminal() && !matches!(self.run, Run::Ended { .. }) {
            // Somebody ended it in the API; a kubelet stops its containers then.
            self.run = Run::Ended {
                is_success: facts.phase == Phase::Succeeded,
            };
        }
    }

    pub fn mode_on(&self, machine: &Machine) -> PodMode {
        self.mode
            .filter(|_| machine.settings.is_full())
            .unwrap_or(machine.settings.pods)
    }

    /// The next step, and how long after `since`.
    pub fn next_step(&self, machine: &Machine) -> Option<(Step, Duration)> {
        let settings = &machine.settings;
        if !machine.is_running() {
            return None;
        }
        if let Some(grace) = self.terminating {
            // A kubelet that is cut off does not know that it should stop the pod.
            let may = settings.finalize && machine.is_connected() && !self.was_finalized;
            let grace = if settings.is_full() {
                Duration::from_secs(grace)
            } else {
                Duration::MAX
            };
            return may.then_some((Step::Finalize, settings.finalize_delay.min(grace)));
        }
        let mode = self.mode_on(machine);
        // A kubelet that is cut off does not learn of new pods either, but restarts those it knows.
        let may_start = mode != PodMode::None && (machine.is_connected() || self.has_started);
        match self.run {
            Run::Waiting if self.phase == Phase::Pending || self.has_started => {
                may_start.then_some((Step::Start, settings.run_delay))
            }
            Run::Pulling(failures) => may_start.then(|| (Step::PullAgain, back_off(failures))),
            Run::Running { .. } if mode == PodMode::CrashLoop && settings.is_full() => Some((Step::Crash, CRASH_AFTER)),
            Run::BackOff => Some((Step::Restart, back_off(self.restarts))),
            Run::Waiting | Run::Running { .. } | Run::Ended { .. } => None,
        }
    }

    /// What there is to say; nothing about a pod that has not begun.
    pub fn report(&self) -> Option<Report> {
        let (phase, is_ready, waiting) = match self.run {
            Run::Waiting if self.restarts == 0 => return None,
            Run::Waiting => (Phase::Running, false, Waiting::Creating),
            Run::Pulling(1) => (Phase::Pending, false, Waiting::PullError),
            Run::Pulling(_) => (Phase::Pending, false, Waiting::PullBackOff),
            Run::Running { is_ready } => (Phase::Running, is_ready, Waiting::No),
            Run::BackOff => (Phase::Running, false, Waiting::CrashLoop),
            Run::Ended { is_success: true } => (Phase::Succeeded, false, Waiting::No),
            Run::Ended { is_success: false } => (Phase::Failed, false, Waiting::No),
        };
        Some(Report {
            phase,
            is_ready,
            restarts: self.restarts,
            waiting,
            rejected: self.rejection.clone(),
        })
    }

    /// True if the API has something else. A pod that has ended is described once: nobody would correct it again.
    pub fn is_news(&self, report: &Report) -> bool {
        let is_ready = self.ready == ReadyStatus::True;
        self.phase != report.phase || is_ready != report.is_ready || self.said != (report.restarts, report.waiting)
    }

    pub fn was_said(&mut self, report: &Report) {
        let ready = if report.is_ready {
            ReadyStatus::True
        } else {
            ReadyStatus::False
        };
        self.phase = report.phase;
        self.ready = ready;
        self.containers_ready = ready;
        self.has_started = true;
        self.said = (report.restarts, report.waiting);
    }
}

/// The wait after so many failures.
fn back_off(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(5);
    BACK_OFF.saturating_mul(1 << doublings).min(BACK_OFF_MAX)
}
