//! Credentials that an API server does not accept any more are read again, from where they were read at the start, and so is the CA that
//! does not vouch for the server any more.
//!
//! A token in a file is read again by itself, before it ends. A certificate, a kubeconfig that was written anew, or what a plugin
//! answered without saying for how long, ends unannounced: all that tells is the server's 401. A plugin that said for how long is asked
//! again before that; if it fails or does not answer, what it gave is of use for as long as the server says. What is sent afterwards goes the
//! new ways; what is under way on the old ones, or has room there, ends there.
//!
//! A CA is replaced as unannounced as a certificate: connections go on, and the next one meets a server whose certificate is of another.
//! kube reads the one of a pod again each minute, and none that a kubeconfig names.
//!
//! Who reads may have to wait for a plugin, for as long as that likes. So a thread of its own does, which owns nothing that others wait
//! for, and which the end of the process does not wait for either. It needs no runtime: connections come about where a request is sent,
//! and are driven there.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bailiff_model::Wall;
use tokio::time::Instant;

use super::{Present, Transport};
use crate::Clock;
use crate::client::Error;
use crate::shutdown::chain;

/// From one reading to the next, and from one line of the log about it to the next: a plugin is a program that may ask others, and whoever
/// has no credentials is refused with each request.
const EVERY: Duration = Duration::from_secs(60);
/// How long before it ends what a plugin gave is read again: if that fails, there is time for another attempt.
const BEFORE: Duration = Duration::from_secs(2 * 60);
/// How long it is used at least, whatever the plugin says.
const AT_LEAST: Duration = Duration::from_secs(5);

/// Makes the ways anew, at this time. It may block.
type Read = dyn Fn(Wall) -> Result<Transport, Error> + Send + Sync;

/// How ways come about anew.
pub(super) struct Renewal {
    /// Whose they are, for the log.
    user: String,
    clock: Clock,
    read: Box<Read>,
    /// Where they are put.
    ways: Present,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    not_before: Option<Instant>,
    is_reading: bool,
}

/// What it leads to that others are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Nothing,
    /// They are read.
    Read,
    /// They would be read, but whoever does has not come to an end since the last time.
    Overdue,
}

/// Why others are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// They failed.
    Refusal,
    /// They end.
    End,
}

/// They are being read, until this is dropped.
struct Reading {
    renewal: Arc<Renewal>,
    cause: Cause,
    begun: Wall,
}

/// From when on what was read at `now`, and ends then, is to be read again. Of what is over soon, or is over already, half is used, so that
/// a plugin that keeps its answers until they end is not asked more and more often.
pub(in crate::client) fn renew_from(now: Wall, ends: Wall) -> Wall {
    let lasts = Duration::try_from(ends.duration_since(now)).unwrap_or_default();
    let wait = lasts.saturating_sub(BEFORE).max(lasts / 2).max(AT_LEAST);
    now.checked_add(wait).unwrap_or(Wall::MAX)
}

// === impl Transport ===

impl Transport {
    /// The same, whose ways are those that `read` makes once the server refuses the credentials of these, or is not trusted by them,
    /// or before these end.
    #[must_use]
    pub(in crate::client) fn renewed_by(
        self,
        user: &str,
        clock: &Clock,
        read: impl Fn(Wall) -> Result<Self, Error> + Send + Sync + 'static,
    ) -> Self {
        let renewal = Renewal {
            user: user.to_owned(),
            clock: clock.clone(),
            read: Box::new(read),
            ways: self.ways.clone(),
            state: Mutex::default(),
        };
        Self {
            renewal: Some(Arc::new(renewal)),
            ..self
        }
    }
}

// === impl Renewal ===

impl Renewal {
    /// A request was refused for its credentials, or had none, or would have gone to whom nobody vouches for. Nobody waits for what comes of
    /// that.
    pub(super) fn refused(renewal: &Arc<Self>) {
        Self::want(renewal, Cause::Refusal);
    }

    /// What is sent from `from` on is sent with what ends soon.
    pub(super) fn ends_soon(renewal: &Arc<Self>, from: Wall) {
        if renewal.clock.wall() >= from {
            Self::want(renewal, Cause::End);
        }
    }

    fn want(renewal: &Arc<Self>, cause: Cause) {
        let next = renewal.state().want(Instant::now());
        match next {
            Next::Nothing => {}
            Next::Read => {
                let (begun, renewal) = (renewal.clock.wall(), Arc::clone(renewal));
                Reading { renewal, cause, begun }.begin();
            }
            Next::Overdue => tracing::warn!(
                client = renewal.user,
                "Credentials and CAs are still being read again; a plugin that does not answer?"
            ),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl State ===

impl State {
    fn want(&mut self, now: Instant) -> Next {
        if self.not_before.is_some_and(|not_before| now < not_before) {
            return Next::Nothing;
        }
        self.not_before = Some(now + EVERY);
        if std::mem::replace(&mut self.is_reading, true) {
            Next::Overdue
        } else {
            Next::Read
        }
    }
}

// === impl Reading ===

impl Reading {
    fn begin(self) {
        let renewal = Arc::clone(&self.renewal);
        let thread = std::thread::Builder::new().name("credentials".to_owned());
        if let Err(error) = thread.spawn(move || self.read()) {
            tracing::warn!(
                client = renewal.user,
                error = %chain(&error),
                "No thread to read credentials and CAs again"
            );
        }
    }

    fn read(self) {
        let Self { renewal, cause, begun } = &self;
        let client = &renewal.user;
        match ((renewal.read)(*begun), cause) {
            (Ok(transport), Cause::Refusal) => {
                renewal.ways.set(transport.ways.get());
                tracing::info!(client, "Read credentials and CAs again, as some failed");
            }
            (Ok(transport), Cause::End) => {
                renewal.ways.set(transport.ways.get());
                // What ends sooner than they may be read again is read again nevertheless.
                renewal.state().not_before = None;
                tracing::debug!(client, "Read credentials and CAs again, as some end");
            }
            (Err(error), _) => tracing::warn!(client, error = %chain(&error), "Credentials and CAs could not be read again"),
        }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.renewal.state().is_reading = false;
    }
}

#[cfg(test)]
mod tests;
