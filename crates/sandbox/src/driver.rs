//! Runs the simulated parts of a cluster against the API server: one task that feeds changes to the state machines and carries out
//! what they want done.
//!
//! One task, because order is what determinism is made of: changes of all resources come as one sequence, in the order of the writes,
//! and each part takes them in the same order in every run. Nothing is decided here.
//!
//! The task is owned by the [`Driver`] handle's creator through its [`Shutdown`]; when it ends, the simulated machines stand still, which is
//! what the shutdown of a sandbox means.

mod feed;
mod parts;
mod perform;

use std::time::Duration;

use bailiff_runtime::{Clock, Shutdown};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::Sandbox;
use crate::binder::Mode;
use crate::kubelet::{Change, KubeletSettings, Target};

use feed::Feed;
use parts::Parts;

/// Events and effects handled before other tasks get a turn: some milliseconds of work.
const SLICE: usize = 256;
/// Changes of settings waiting to be taken; whoever sends more waits.
const COMMANDS: usize = 64;

/// Which parts of a cluster are simulated.
#[derive(Clone, Debug)]
pub struct Options {
    /// Kubelets, with these settings unless changed.
    pub kubelets: Option<KubeletSettings>,
    /// The stand-in scheduler.
    pub binder: Option<Mode>,
    /// ownerReferences, terminating namespaces, pods of deleted nodes.
    pub collect_garbage: bool,
    /// The stand-in ReplicaSet controller.
    pub replica_sets: bool,
    /// The stand-in for the disruption controller: status of PodDisruptionBudgets.
    pub budgets: bool,
}

/// The running parts. Dropping it leaves them running.
#[derive(Clone, Debug)]
pub struct Driver {
    commands: mpsc::Sender<Command>,
}

/// The parts do not run any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the simulated cluster does not run any more")]
pub struct Stopped;

#[derive(Debug)]
pub(crate) enum Command {
    Change(Target, Change, oneshot::Sender<()>),
    Settings(bailiff_model::NodeName, oneshot::Sender<KubeletSettings>),
}

// === impl Options ===

impl Options {
    /// As recorded scenarios have it: kubelets and the binding of pods that name their node, nothing else.
    pub fn oracle() -> Self {
        Self {
            kubelets: Some(KubeletSettings::oracle()),
            binder: Some(Mode::TargetsOnly),
            collect_garbage: false,
            replica_sets: false,
            budgets: false,
        }
    }

    /// A whole cluster but for the controllers that are tested on it.
    pub fn cluster() -> Self {
        Self {
            kubelets: Some(KubeletSettings::cluster()),
            binder: Some(Mode::Scheduler),
            collect_garbage: true,
            replica_sets: true,
            budgets: true,
        }
    }
}

// === impl Driver ===

impl Driver {
    /// Starts the parts. They have taken in what exists by the time that other tasks run after their first turn.
    ///
    /// The join handle ends after the shutdown began; nothing else ends the task.
    pub fn start(sandbox: &Sandbox, options: &Options, shutdown: &Shutdown) -> (Self, JoinHandle<()>) {
        let (commands, receiver) = mpsc::channel(COMMANDS);
        let task = Task {
            clock: sandbox.clock().clone(),
            feed: Feed::new(sandbox, options),
            parts: Parts::new(sandbox, options),
            commands: receiver,
        };
        let shutdown = shutdown.clone();
        let handle = tokio::spawn(async move { Box::pin(task.run(&shutdown)).await });
        (Self { commands }, handle)
    }

    /// Changes settings of kubelets; returns once the change holds.
    ///
    /// # Errors
    /// When the parts were shut down.
    pub async fn change(&self, target: Target, change: Change) -> Result<(), Stopped> {
        let (done, is_done) = oneshot::channel();
        self.commands
            .send(Command::Change(target, change, done))
            .await
            .map_err(|_| Stopped)?;
        is_done.await.map_err(|_| Stopped)
    }

    /// The settings in force for a node.
    ///
    /// # Errors
    /// When the parts were shut down.
    pub async fn settings(&self, node: &str) -> Result<KubeletSettings, Stopped> {
        let (answer, is_answered) = oneshot::channel();
        self.commands
            .send(Command::Settings(node.into(), answer))
            .await
            .map_err(|_| Stopped)?;
        is_answered.await.map_err(|_| Stopped)
    }
}

struct Task {
    clock: Clock,
    feed: Feed,
    parts: Parts,
    commands: mpsc::Receiver<Command>,
}

// === impl Task ===

impl Task {
    async fn run(mut self, shutdown: &Shutdown) {
        // A deadline that nobody has is an hour away: the loop turns and finds nothing to do.
        const IDLE: Duration = Duration::from_secs(3600);
        let mut is_open = true;
        loop {
            let now = self.clock.now().mono;
            let deadline = self.parts.next_deadline().unwrap_or(now + IDLE);
            let command = tokio::select! {
                biased;
                () = shutdown.triggered() => return,
                command = self.commands.recv(), if is_open => {
                    is_open = command.is_some();
                    command
                }
                () = self.feed.ready() => None,
                () = tokio::time::sleep_until(self.clock.instant_of(deadline)) => None,
            };
            self.turn(command).await;
        }
    }

    /// Takes in all that happened, then what is due, until nothing is left; others get turns in between.
    async fn turn(&mut self, command: Option<Command>) {
        if let Some(command) = command {
            self.parts.command(command, self.clock.now());
        }
        loop {
            let batch = self.feed.take(SLICE);
            let is_drained = batch.is_empty();
            for change in batch {
                self.parts.take(change, self.clock.now());
            }
            if is_drained {
                self.parts.wake(self.clock.now());
            }
            let is_done = self.parts.perform(SLICE, &self.clock);
            if is_drained && is_done {
                return;
            }
            tokio::task::yield_now().await;
        }
    }
}
