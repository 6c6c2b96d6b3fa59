//! Mutual TLS from files that may change at any time.
//!
//! [`Tls`] is what a process is (certificate and key) and whom it trusts (CAs). [`Tls::reload`] reads the files again; new
//! handshakes use what it found, and a set of files that does not fit together changes nothing. Connections made under CAs that are
//! no longer trusted are told to end ([`Tls::trust`]). Ports that use it are in [`crate::port`]; who may do what once it is known
//! who they are is not decided here.

mod configs;
mod connector;
mod files;
mod metrics;
mod peer;
mod secured;
mod validity;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::MissedTickBehavior;
use tokio_rustls::rustls::{ClientConfig, ServerConfig};
use tokio_util::sync::CancellationToken;

use self::configs::Configs;
use self::files::{Bytes, Material};
use crate::admin::Check;
use crate::{Clock, DeathPolicy, Metrics, Readiness, Tasks};

pub use connector::Connector;
pub use files::{Error, Paths};
pub use peer::{Identity, Peer, Standing};
pub use secured::{Secured, Stream};
pub use validity::Validity;

/// How often the files are looked at. Kubernetes itself takes a minute or more to bring a changed Secret into a pod.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Which clients a port lets in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clients {
    /// Those with a certificate of a trusted CA.
    Known,
    /// Those without any certificate, too.
    Any,
}

/// What a look at the files changed.
#[derive(Debug)]
pub enum Reload {
    /// They are as they were.
    Unchanged,
    /// New handshakes use what they hold now.
    Swapped {
        /// The set of CAs is another one.
        is_trust_new: bool,
    },
    /// They cannot be used together; what was used before stays.
    Kept(Error),
}

/// Certificate, key and CAs of a process; cloning it gives the same ones.
#[derive(Clone)]
pub struct Tls {
    inner: Arc<Inner>,
}

struct Inner {
    paths: Paths,
    clock: Clock,
    metrics: metrics::Metrics,
    state: Mutex<State>,
}

struct State {
    /// Of the files when they were read last, usable or not.
    seen: u64,
    /// Why those cannot be used.
    failure: Option<String>,
    authorities: u64,
    configs: Configs,
    own: Validity,
    roots: Validity,
    trust_domain: Option<String>,
    /// Cancelled when the CAs of this state are no longer those that are trusted.
    trust: CancellationToken,
}

// === impl Tls ===

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// They cannot be read, or do not fit together.
    pub fn load(paths: Paths, clock: &Clock) -> Result<Self, Error> {
        let bytes = Bytes::read(&paths)?;
        let state = State::new(&paths, &bytes)?;
        let tls = Self {
            inner: Arc::new(Inner {
                metrics: metrics::Metrics::default(),
                paths,
                clock: clock.clone(),
                state: Mutex::new(state),
            }),
        };
        tls.measure(&tls.lock());
        Ok(tls)
    }

    /// Reads the files again.
    ///
    /// It blocks for as long as reading three small files takes.
    pub fn reload(&self) -> Reload {
        let bytes = match Bytes::read(&self.inner.paths) {
            Ok(bytes) => bytes,
            Err(error) => return self.keep(None, error),
        };
        let seen = bytes.fingerprint();
        if self.lock().seen == seen {
            return Reload::Unchanged;
        }
        let new = match State::new(&self.inner.paths, &bytes) {
            Ok(new) => new,
            Err(error) => return self.keep(Some(seen), error),
        };
        let mut state = self.lock();
        let is_trust_new = new.authorities != state.authorities;
        let old = std::mem::replace(&mut *state, new);
        if is_trust_new {
            old.trust.cancel();
        } else {
            state.trust = old.trust;
        }
        self.measure(&state);
        drop(state);
        self.inner.metrics.reloaded(true);
        tracing::info!(is_trust_new, "Certificates were read again");
        Reload::Swapped { is_trust_new }
    }

    /// Has the files read again and again by one of `tasks`, and says what is to be known of them in metrics and readiness.
    pub fn attend(&self, metrics: &Metrics, readiness: &Readiness, tasks: &Tasks) {
        self.register(metrics);
        let watch = self
            .clone()
            .watch(readiness.check("TLS files"), tasks.shutdown().token().clone());
        // Without it the certificate would expire unnoticed, which ends everything later and harder.
        tasks.spawn_infallible("TLS files", DeathPolicy::EndProcess, watch);
    }

    /// Reads the files every few seconds, until `stop`. What is worth knowing about them is said in `check`, which never fails: a
    /// process with an old certificate is better than none.
    pub async fn watch(self, check: Check, stop: CancellationToken) {
        let mut look = tokio::time::interval(LOOK_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            match self.concern() {
                Some(concern) => check.note(concern),
                None => check.ok(),
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                _ = look.tick() => {}
            }
            let tls = self.clone();
            if tokio::task::spawn_blocking(move || tls.reload()).await.is_err() {
                tracing::error!("Reading the certificates again panicked");
            }
        }
    }

    /// What is wrong with the files, or will be soon.
    pub fn concern(&self) -> Option<String> {
        let now = self.inner.clock.wall();
        let state = self.lock();
        let kept = state
            .failure
            .as_ref()
            .map(|failure| format!("changed files are not used: {failure}"));
        let own = state.own.concern(now).map(|concern| format!("--tls-cert-file {concern}"));
        let roots = state.roots.concern(now).map(|concern| format!("--tls-ca-file {concern}"));
        let concerns: Vec<String> = [kept, own, roots].into_iter().flatten().collect();
        (!concerns.is_empty()).then(|| concerns.join("; "))
    }

    /// Adds the metrics about the files.
    pub fn register(&self, metrics: &Metrics) {
        metrics.register("bailiff_tls", |registry| self.inner.metrics.register(registry));
    }

    /// How a port shakes hands now.
    pub(crate) fn server(&self, clients: Clients) -> Arc<ServerConfig> {
        let state = self.lock();
        match clients {
            Clients::Known => state.configs.known.clone(),
            Clients::Any => state.configs.any.clone(),
        }
    }

    /// How a client shakes hands now.
    pub(crate) fn client(&self) -> Arc<ClientConfig> {
        self.lock().configs.client.clone()
    }

    /// Cancelled when the CAs that are trusted now are not any more.
    pub fn trust(&self) -> CancellationToken {
        self.lock().trust.clone()
    }

    /// The trust domain of this process's own certificate: peers of another one have no role here.
    pub fn trust_domain(&self) -> Option<String> {
        self.lock().trust_domain.clone()
    }

    fn keep(&self, seen: Option<u64>, error: Error) -> Reload {
        let said = crate::shutdown::chain(&error);
        let mut state = self.lock();
        let is_known = state.failure.as_ref() == Some(&said);
        state.failure = Some(said.clone());
        // Files that cannot be read now may come back just as they were.
        state.seen = seen.unwrap_or(0);
        drop(state);
        if is_known {
            return Reload::Unchanged;
        }
        self.inner.metrics.reloaded(false);
        tracing::warn!(error = said, "Changed certificates cannot be used; those from before stay");
        Reload::Kept(error)
    }

    fn measure(&self, state: &State) {
        self.inner.metrics.expiry(state.own, state.roots);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Where the key is may be known, what it is may not.
        f.debug_struct("Tls")
            .field("paths", &self.inner.paths)
            .finish_non_exhaustive()
    }
}

// === impl State ===

impl State {
    fn new(paths: &Paths, bytes: &Bytes) -> Result<Self, Error> {
        let material = Material::parse(paths, bytes)?;
        let configs = Configs::new(paths, &material)?;
        Ok(Self {
            seen: bytes.fingerprint(),
            failure: None,
            authorities: bytes.fingerprint_of_ca(),
            own: Validity::shortest(&material.chain),
            roots: Validity::longest(&material.authorities),
            trust_domain: material
                .chain
                .first()
                .and_then(|leaf| Identity::of(leaf).ok())
                .map(|own| own.trust_domain),
            configs,
            trust: CancellationToken::new(),
        })
    }
}

#[cfg(test)]
pub(crate) mod tests;
