//! An embedded cluster: a kube-apiserver stand-in in memory, with kubelets, a binder and a garbage collector beside it.
//!
//! [`Sandbox`] is the API server. It is reached in three ways that share every rule: as a tower service of HTTP requests
//! ([`Sandbox::service`]), over a socket ([`server::serve`]), and directly ([`Sandbox::request`] and the methods beside it), which
//! costs neither HTTP nor a second parse. It is held to recordings of a real server; it persists nothing.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bailiff_runtime::{Clock, Seed};

mod direct;
pub mod status;
pub mod store;
pub mod watch;

pub use direct::{User, Verb};
pub use status::Status;
pub use store::{Change, Event, Key, Object, Observation};
pub use watch::Watch;

use store::{Limits, Store};

/// How a sandbox is set up.
#[derive(Clone, Debug)]
pub struct Config {
    /// Events remembered per resource; a watch that falls further behind is cut off.
    pub window: usize,
    /// Observations remembered for [`Sandbox::history`]; zero remembers none.
    pub history: usize,
}

/// The API server; cloning it gives the same one.
#[derive(Clone, Debug)]
pub struct Sandbox {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    config: Config,
    clock: Clock,
    seed: Seed,
    store: Mutex<Store>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            // At a thousand writes per second, a minute of the past.
            window: 65_536,
            history: 0,
        }
    }
}

// === impl Sandbox ===

impl Sandbox {
    /// A new cluster with the objects that a server makes for itself.
    pub fn new(config: Config, clock: Clock, seed: &Seed) -> Self {
        let mut store = Store::new(Limits {
            window: config.window,
            history: config.history,
        });
        for resource in [
            "namespaces",
            "nodes",
            "pods",
            "events",
            "serviceaccounts",
            "configmaps",
            "leases.coordination.k8s.io",
            "daemonsets.apps",
            "controllerrevisions.apps",
            "deployments.apps",
            "replicasets.apps",
            "poddisruptionbudgets.policy",
        ] {
            store.register(resource, |_| Vec::new());
        }
        Self {
            shared: Arc::new(Shared {
                config,
                clock,
                seed: seed.fork("sandbox"),
                store: Mutex::new(store),
            }),
        }
    }

    /// How it was set up.
    pub fn config(&self) -> &Config {
        &self.shared.config
    }

    /// Its clock.
    pub fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    /// Its source of randomness.
    pub fn seed(&self) -> &Seed {
        &self.shared.seed
    }

    /// Everything that happened so far, oldest first, as far as the configuration remembers.
    pub fn history(&self) -> Vec<Observation> {
        self.store().history().cloned().collect()
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        self.shared.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
