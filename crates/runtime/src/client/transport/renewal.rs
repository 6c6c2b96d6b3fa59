//! Credentials that an API server does not accept any more are read again, from where they were read at the start, and so is the CA that
//! does not vouch for the server any more.
//!
//! A token in a file is read again by itself, before it ends. A certificate, a kubeconfig that was written anew, or what a plugin
//! answered without saying for how long, ends unannounced: all that tells is the server's 401. A plugin that said for how long is asked
//! again where a request is sent, which fails with it: that is taken for a refusal, too, as the kubeconfig may say another way by now. What
//! is sent afterwards goes the new ways; what is under way on the old ones, or has room there, ends there.
//!
//! A CA is replaced as unannounced as a certificate: connections go on, and the next one meets a server whose certificate is of another.
//! kube reads the one of a pod again each minute, and none that a kubeconfig names.
//!
//! Who reads may have to wait for a plugin, for as long as that likes. So a thread of its own does, which owns nothing that others wait
//! for, and which the end of the process does not wait for either. It needs no runtime: connections come about where a request is sent,
//! and are driven there.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tokio_rustls::rustls::{self, CertificateError};

use super::{Present, Transport};
use crate::client::Error;
use crate::shutdown::chain;

/// From one reading to the next, and from one line of the log about it to the next: a plugin is a program that may ask others, runs
/// twice for each reading, as kube asks it for a certificate and then for a token, and whoever has no credentials is refused with each
/// request. A plugin that fails only the first time gives no certificate, and nobody hears of it but from the next refusal.
const EVERY: Duration = Duration::from_secs(60);

/// Makes the ways anew. It may block.
type Read = dyn Fn() -> Result<Transport, Error> + Send + Sync;

/// How ways come about anew.
pub(super) struct Renewal {
    /// Whose they are, for the log.
    user: String,
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

/// What a refusal leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Nothing,
    /// They are read.
    Read,
    /// They would be read, but whoever does has not come to an end since the last time.
    Overdue,
}

/// They are being read, until this is dropped.
struct Reading(Arc<Renewal>);

/// True if a server was turned away because nobody who is trusted vouches for it.
pub(super) fn is_distrust(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(rustls::Error::InvalidCertificate(flaw)) = error.downcast_ref() {
            // A new CA of the old name has another key.
            return matches!(flaw, CertificateError::UnknownIssuer | CertificateError::BadSignature);
        }
        // An error of I/O passes over the one in it when it is asked for its source.
        let inner = error.downcast_ref().and_then(io::Error::get_ref);
        cause = match inner {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    false
}

// === impl Transport ===

impl Transport {
    /// The same, whose ways are those that `read` makes once the server refuses the credentials of these, or is not trusted by them.
    #[must_use]
    pub(in crate::client) fn renewed_by(self, user: &str, read: impl Fn() -> Result<Self, Error> + Send + Sync + 'static) -> Self {
        let renewal = Renewal {
            user: user.to_owned(),
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
        let next = renewal.state().refused(Instant::now());
        match next {
            Next::Nothing => {}
            Next::Read => Reading(Arc::clone(renewal)).begin(),
            Next::Overdue => tracing::warn!(
                client = renewal.user,
                "Credentials and CAs of which some failed are still being read again; a plugin that does not answer?"
            ),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl State ===

impl State {
    fn refused(&mut self, now: Instant) -> Next {
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
        let renewal = Arc::clone(&self.0);
        let thread = std::thread::Builder::new().name("credentials".to_owned());
        if let Err(error) = thread.spawn(move || self.read()) {
            tracing::warn!(
                client = renewal.user,
                error = %chain(&error),
                "No thread to read credentials and CAs again of which some failed"
            );
        }
    }

    fn read(self) {
        let Self(renewal) = &self;
        match (renewal.read)() {
            Ok(transport) => {
                renewal.ways.set(transport.ways.get());
                tracing::info!(client = renewal.user, "Read credentials and CAs again, as some failed");
            }
            Err(error) => tracing::warn!(
                client = renewal.user,
                error = %chain(&error),
                "Credentials and CAs of which some failed could not be read again"
            ),
        }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.0.state().is_reading = false;
    }
}

#[cfg(test)]
mod tests;
