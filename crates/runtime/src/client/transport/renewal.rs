//! Credentials that an API server does not accept any more are read again, from where they were read at the start, and so is the CA that
//! does not vouch for the server any more.
//!
//! A token in a file is read again by itself, before it ends. A certificate, a kubeconfig that was written anew, or what a plugin
//! answered without saying for how long, ends unannounced: all that tells is the server's 401. A plugin that said for how long is asked
//! again before that, when something is to be sent; if it fails or does not answer, what it gave is of use for as long as the server
//! says. What is sent afterwards goes the new ways; what is under way on the old ones, or has room there, ends there.
//!
//! A CA is replaced as unannounced as a certificate: connections go on, and the next one meets a server whose certificate is of another.
//! kube reads the one of a pod again each minute, and none that a kubeconfig names.
//!
//! Who reads may have to wait for a plugin, for as long as that may take. So a thread of its own does, which owns nothing that others
//! wait for, and which the end of the process does not wait for either. It needs no runtime: connections come about where a request is
//! sent, and are driven there.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bailiff_model::Wall;
use tokio::time::Instant;

use super::{Present, Transport};
use crate::Clock;
use crate::client::Error;
use crate::shutdown::chain;

/// From one reading to the next, unless what was read ends before that, and from one line of the log about one that does not end to the
/// next: a plugin is a program that may ask others, and whoever has no credentials is refused with each request.
const EVERY: Duration = Duration::from_secs(60);
/// How long before it ends what a plugin gave is read again, if it lasts for twice as long at least: if that fails, there is time for
/// another attempt after [`EVERY`]. Of what lasts for less half is left, in which attempts follow each other sooner.
const BEFORE: Duration = Duration::from_secs(2 * 60);
/// How long it is used at least, whatever the plugin says, and how long an attempt that failed is the last one at least: more often a
/// plugin that asks others would be a burden on them.
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
    begun: (Instant, Wall),
    /// What comes of it: they are not read again before this, instead of what holds by then.
    not_before: Option<Instant>,
}

/// For how long something is of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::client) struct Term {
    /// From here on it is to be read again.
    renew_from: Wall,
    ends: Wall,
}

fn between(from: Wall, to: Wall) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}

// === impl Term ===

impl Term {
    /// Of what was read at `now`, and ends then. Of what is over soon, or is over already, half is used, so that a plugin that keeps its
    /// answers until they end is not asked more and more often.
    pub(in crate::client) fn new(now: Wall, ends: Wall) -> Self {
        let lasts = between(now, ends);
        let wait = lasts.saturating_sub(BEFORE).max(lasts / 2).max(AT_LEAST);
        let renew_from = now.checked_add(wait).unwrap_or(Wall::MAX);
        Self { renew_from, ends }
    }

    /// How long nothing is read again after this was, at `now`.
    fn rest(self, now: Wall) -> Duration {
        between(now, self.renew_from).min(EVERY)
    }

    /// The same after an attempt of `now` that failed: there are others before it ends, and afterwards there is nothing to lose.
    fn rest_after_failure(self, now: Wall) -> Duration {
        let left = between(now, self.ends);
        if left.is_zero() {
            EVERY
        } else {
            (left / 2).clamp(AT_LEAST, EVERY)
        }
    }
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
    /// A request was refused for its credentials, or had none, or would have gone to whom nobody vouches for. Nobody waits for what comes
    /// of that.
    pub(super) fn refused(renewal: &Arc<Self>) {
        Self::want(renewal, Cause::Refusal);
    }

    /// What is sent is sent with what has this term.
    pub(super) fn sends(renewal: &Arc<Self>, term: Term) {
        if renewal.clock.wall() >= term.renew_from {
            Self::want(renewal, Cause::End);
        }
    }

    fn want(renewal: &Arc<Self>, cause: Cause) {
        let now = Instant::now();
        let next = renewal.state().want(now);
        match next {
            Next::Nothing => {}
            Next::Read => {
                let reading = Reading {
                    renewal: Arc::clone(renewal),
                    cause,
                    begun: (now, renewal.clock.wall()),
                    not_before: None,
                };
                reading.begin();
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

    /// Whoever read does so no more. In one step with what is to be waited for from here on: nobody is overdue who has ended.
    fn end(&mut self, not_before: Option<Instant>) {
        self.is_reading = false;
        self.not_before = not_before.or(self.not_before);
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

    fn read(mut self) {
        let (renewal, (at, begun)) = (&self.renewal, self.begun);
        let client = &renewal.user;
        match (renewal.read)(begun) {
            Ok(transport) => {
                let ways = transport.ways.get();
                self.not_before = ways.term.map(|term| at + term.rest(begun));
                renewal.ways.set(ways);
                match self.cause {
                    Cause::Refusal => tracing::info!(client, "Read credentials and CAs again, as some failed"),
                    Cause::End => tracing::debug!(client, "Read credentials and CAs again, as some end"),
                }
            }
            Err(error) => {
                let term = renewal.ways.get().term;
                self.not_before = term.map(|term| at + term.rest_after_failure(begun));
                tracing::warn!(client, error = %chain(&error), "Credentials and CAs could not be read again");
            }
        }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.renewal.state().end(self.not_before);
    }
}

#[cfg(test)]
mod tests;
