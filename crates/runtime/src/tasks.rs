//! The owner of a service's tasks: each has a name, and a policy for the case that it dies.
//!
//! Restarting is not a policy here: a task that can go on after an error handles the error itself.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use tokio::task::AbortHandle;
use tokio_util::task::TaskTracker;

use crate::Shutdown;
use crate::shutdown::chain;

/// A task's name, for logs and for the list of what did not end.
pub type Name = Cow<'static, str>;

/// What happens when a task ends with an error or a panic. Ending with `Ok` is no death.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeathPolicy {
    /// The process cannot do its work without it: the shutdown begins, with this failure.
    EndProcess,
    /// It is reported; the rest goes on.
    Log,
}

/// Owner of tasks; cloning it gives the same owner.
#[derive(Clone, Debug)]
pub struct Tasks {
    shutdown: Shutdown,
    tracker: TaskTracker,
    running: Arc<Mutex<Running>>,
}

#[derive(Debug, Default)]
struct Running {
    next: u64,
    tasks: BTreeMap<u64, (Name, Option<AbortHandle>)>,
}

// === impl Tasks ===

impl Tasks {
    /// An owner whose tasks' deaths begin `shutdown`.
    pub fn new(shutdown: Shutdown) -> Self {
        Self {
            shutdown,
            tracker: TaskTracker::new(),
            running: Arc::default(),
        }
    }

    /// The shutdown these tasks belong to.
    pub fn shutdown(&self) -> &Shutdown {
        &self.shutdown
    }

    /// Spawns `future` on the current runtime.
    pub fn spawn<F, E>(&self, name: impl Into<Name>, policy: DeathPolicy, future: F)
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let name = name.into();
        let id = self.enter(name.clone());
        let tasks = self.clone();
        // It may be tens of kilobytes, and is not to be moved by every layer around it: what a stack once took it keeps.
        let future = Box::pin(future);
        let supervised = async move {
            let outcome = AssertUnwindSafe(future).catch_unwind().await;
            tasks.leave(id);
            match outcome {
                Ok(Ok(())) => tracing::debug!(task = %name, "task ended"),
                Ok(Err(error)) => tasks.died(&name, policy, &chain(&*error.into())),
                Err(_panic) => tasks.died(&name, policy, "panicked"),
            }
        };
        let handle = self.tracker.spawn(supervised).abort_handle();
        if let Some(task) = self.running.lock().unwrap_or_else(PoisonError::into_inner).tasks.get_mut(&id) {
            task.1 = Some(handle);
        }
    }

    /// Spawns a future that cannot fail.
    pub fn spawn_infallible<F>(&self, name: impl Into<Name>, policy: DeathPolicy, future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.spawn(name, policy, future.map(Ok::<(), std::convert::Infallible>));
    }

    /// Names of the tasks that are running, in the order they were spawned.
    pub fn running(&self) -> Vec<Name> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.tasks.values().map(|(name, _)| name.clone()).collect()
    }

    /// Waits until every task has ended, at most `deadline`; the rest is aborted and named.
    ///
    /// It does not tell the tasks to end: they watch the shutdown's token.
    pub async fn drain(&self, deadline: Duration) -> Vec<Name> {
        self.tracker.close();
        if tokio::time::timeout(deadline, self.tracker.wait()).await.is_ok() {
            return Vec::new();
        }
        let unfinished = self.abort();
        for name in &unfinished {
            tracing::warn!(task = %name, "task did not end in time and was aborted");
        }
        unfinished
    }

    /// Ends every task as a crash would, and names them.
    pub fn abort(&self) -> Vec<Name> {
        let left = std::mem::take(&mut self.running.lock().unwrap_or_else(PoisonError::into_inner).tasks);
        let aborted = left.into_values().map(|(name, handle)| {
            if let Some(handle) = handle {
                handle.abort();
            }
            name
        });
        aborted.collect()
    }

    fn enter(&self, name: Name) -> u64 {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let id = running.next;
        running.next += 1;
        running.tasks.insert(id, (name, None));
        id
    }

    fn leave(&self, id: u64) {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).tasks.remove(&id);
    }

    fn died(&self, name: &str, policy: DeathPolicy, cause: &str) {
        match policy {
            DeathPolicy::EndProcess => {
                tracing::error!(task = name, cause, "task died; the process ends");
                self.shutdown.fail_with(format!("{name}: {cause}"));
            }
            DeathPolicy::Log => tracing::error!(task = name, cause, "task died; the rest goes on"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    fn mk_tasks() -> Tasks {
        Tasks::new(Shutdown::new())
    }

    const DEADLINE: Duration = Duration::from_secs(5);

    #[tokio::test(start_paused = true)]
    async fn a_death_that_matters_begins_the_shutdown_with_its_cause() {
        let tasks = mk_tasks();
        tasks.spawn("writer", DeathPolicy::EndProcess, async {
            Err(io::Error::other("disk full"))
        });
        tasks.shutdown().triggered().await;
        assert_eq!(tasks.shutdown().failure(), Some("writer: disk full"));
        assert_eq!(tasks.drain(DEADLINE).await, Vec::<Name>::new());
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_is_a_death() {
        let tasks = mk_tasks();
        tasks.spawn_infallible("broken", DeathPolicy::EndProcess, async { panic!("a bug") });
        tasks.shutdown().triggered().await;
        assert_eq!(tasks.shutdown().failure(), Some("broken: panicked"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_death_that_does_not_matter_ends_nothing() {
        let tasks = mk_tasks();
        tasks.spawn("reporter", DeathPolicy::Log, async { Err("no network") });
        tasks.spawn("done", DeathPolicy::EndProcess, async { Ok::<(), io::Error>(()) });
        assert_eq!(tasks.drain(DEADLINE).await, Vec::<Name>::new());
        assert!(!tasks.shutdown().is_triggered());
    }

    #[tokio::test(start_paused = true)]
    async fn what_does_not_end_in_time_is_named_and_aborted() {
        let tasks = mk_tasks();
        let token = tasks.shutdown().token().clone();
        tasks.spawn_infallible("polite", DeathPolicy::Log, async move { token.cancelled().await });
        tasks.spawn_infallible("stubborn", DeathPolicy::Log, std::future::pending());
        assert_eq!(tasks.running(), ["polite", "stubborn"]);
        tasks.shutdown().trigger();
        assert_eq!(tasks.drain(DEADLINE).await, ["stubborn"]);
        assert!(tasks.running().is_empty());
    }
}
