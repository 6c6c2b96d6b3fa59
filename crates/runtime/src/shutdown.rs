//! Shutdown of a process: who asks for it, why, and how long the rest may take.
//!
//! What is to be stopped, and in which order, is the caller's; [`crate::Tasks`] joins what was spawned.

use std::fmt::Write as _;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

/// The shutdown of one process, or of one service in a world; cloning it gives the same shutdown.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    token: CancellationToken,
    failure: Arc<OnceLock<String>>,
}

/// Work did not end before its deadline and was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("did not end within {} of the shutdown", crate::GoDuration::new(*deadline))]
pub struct Overdue {
    /// How long it had.
    pub deadline: Duration,
}

// === impl Shutdown ===

impl Shutdown {
    /// A shutdown that was not asked for yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A shutdown of a part: it begins with this one, or by itself; a failure is the whole's.
    pub fn of_part(&self) -> Self {
        Self {
            token: self.token.child_token(),
            failure: Arc::clone(&self.failure),
        }
    }

    /// The token that is cancelled when the shutdown begins.
    pub fn token(&self) -> &CancellationToken {
        &self.token
    }

    /// Begins the shutdown. Further calls do nothing.
    pub fn trigger(&self) {
        self.token.cancel();
    }

    /// Begins the shutdown because something failed; the first failure is kept, with its causes.
    pub fn fail(&self, context: &str, error: &(dyn std::error::Error + 'static)) {
        self.fail_with(format!("{context}: {}", chain(error)));
    }

    pub(crate) fn fail_with(&self, failure: String) {
        // Only the first failure explains the end; those after it are its consequences.
        let _ = self.failure.set(failure);
        self.token.cancel();
    }

    /// Has the shutdown begun?
    pub fn is_triggered(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Resolves when the shutdown begins.
    pub fn triggered(&self) -> WaitForCancellationFuture<'_> {
        self.token.cancelled()
    }

    /// What made the process end, unless it was asked to: exit code 1 instead of 0.
    pub fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    /// Begins the shutdown on SIGTERM or SIGINT; a second signal ends the process at once, as Kubernetes' own components do.
    ///
    /// Must be called inside a runtime. The listening task belongs to the process and ends with it.
    ///
    /// # Errors
    /// The operating system refused to register the handlers.
    pub fn on_signals(&self) -> io::Result<()> {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let shutdown = self.clone();
        tokio::spawn(async move {
            let first = tokio::select! {
                biased;
                _ = terminate.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
            };
            tracing::info!(signal = first, "shutting down");
            shutdown.trigger();
            tokio::select! {
                biased;
                _ = terminate.recv() => {},
                _ = interrupt.recv() => {},
            }
            tracing::warn!("second signal: ending without draining");
            std::process::exit(1);
        });
        Ok(())
    }

    /// Drives `work` to its end. Once the shutdown has begun it has `deadline` left.
    ///
    /// # Errors
    /// [`Overdue`] if `work` was still running then; it is dropped.
    pub async fn drain<F: Future>(&self, deadline: Duration, work: F) -> Result<F::Output, Overdue> {
        let overdue = async {
            self.token.cancelled().await;
            tokio::time::sleep(deadline).await;
        };
        tokio::select! {
            biased;
            output = work => Ok(output),
            () = overdue => Err(Overdue { deadline }),
        }
    }
}

/// An error and its causes in one line.
pub fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let _ = write!(text, ": {cause}");
        source = cause.source();
    }
    text
}

/// Says to standard error why the process ends. Nobody may read it; the exit code tells all the same.
pub fn complain(error: &(dyn std::error::Error + 'static)) {
    let _ = io::Write::write_fmt(&mut io::stderr(), format_args!("error: {}\n", chain(error)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn work_has_no_deadline_before_the_shutdown() {
        let shutdown = Shutdown::new();
        let slow = tokio::time::sleep(Duration::from_secs(3600));
        assert_eq!(shutdown.drain(Duration::from_secs(1), slow).await, Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_outlives_the_deadline_is_dropped() {
        let shutdown = Shutdown::new();
        shutdown.trigger();
        let deadline = Duration::from_secs(1);
        let refused = shutdown.drain(deadline, std::future::pending::<()>()).await;
        assert_eq!(refused, Err(Overdue { deadline }));
        assert_eq!(Overdue { deadline }.to_string(), "did not end within 1s of the shutdown");
    }

    #[test]
    fn only_the_first_failure_is_kept() {
        let shutdown = Shutdown::new();
        assert_eq!((shutdown.is_triggered(), shutdown.failure()), (false, None));
        shutdown.fail("first", &io::Error::other("broke"));
        shutdown.clone().fail("second", &io::Error::other("broke too"));
        assert_eq!((shutdown.is_triggered(), shutdown.failure()), (true, Some("first: broke")));
    }
}
