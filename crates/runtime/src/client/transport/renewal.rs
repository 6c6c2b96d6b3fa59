//! Credentials that an API server does not accept any more are read again, from where they were read at the start.
//!
//! A token in a file is read again by itself, before it ends. A certificate, a kubeconfig that was written anew, or what a plugin
//! answered without saying for how long, ends unannounced: all that tells is the server's 401. New connections and requests go the new
//! ways then; what is under way on the old ones ends there.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::{Transport, Ways};
use crate::client::Error;
use crate::shutdown::chain;

/// From one reading to the next: a plugin is a program that may ask others, and who has no credentials is refused again and again.
pub(super) const EVERY: Duration = Duration::from_secs(60);

/// Makes the ways anew.
type Read = dyn Fn() -> BoxFuture<'static, Result<Transport, Error>> + Send + Sync;

/// Cloning it gives the same one.
#[derive(Clone)]
pub(super) struct Renewal(Arc<Inner>);

struct Inner {
    read: Box<Read>,
    /// Where the ways are put.
    ways: Arc<Mutex<Ways>>,
    not_before: Mutex<Option<Instant>>,
}

// === impl Renewal ===

impl Renewal {
    pub(super) fn new(
        ways: Arc<Mutex<Ways>>,
        read: impl Fn() -> BoxFuture<'static, Result<Transport, Error>> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(Inner {
            read: Box::new(read),
            ways,
            not_before: Mutex::default(),
        }))
    }

    /// A request was refused for its credentials. What reads them blocks, and ends by itself: nobody waits for it.
    pub(super) fn refused(&self) {
        let now = Instant::now();
        let mut not_before = self.0.not_before.lock().unwrap_or_else(PoisonError::into_inner);
        if not_before.is_some_and(|not_before| now < not_before) {
            return;
        }
        *not_before = Some(now + EVERY);
        let (inner, runtime) = (Arc::clone(&self.0), Handle::current());
        tokio::task::spawn_blocking(move || match runtime.block_on((inner.read)()) {
            Ok(transport) => {
                *inner.ways.lock().unwrap_or_else(PoisonError::into_inner) = transport.ways();
                tracing::info!("Read the credentials again, as the API server refused them");
            }
            Err(error) => tracing::warn!(error = %chain(&error), "Credentials that the API server refused could not be read again"),
        });
    }
}

#[cfg(test)]
mod tests;
