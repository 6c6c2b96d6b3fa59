//! An embedded cluster: a kube-apiserver stand-in in memory, with kubelets, a binder and a garbage collector beside it.
//!
//! [`Sandbox`] is the API server. It is reached in three ways that share every rule: as a tower service of HTTP requests
//! ([`Sandbox::service`]), over a socket ([`server::serve`]), and directly ([`Sandbox::request`] and the methods beside it), which
//! costs neither HTTP nor a second parse. It is held to recordings of a real server; it persists nothing.

use std::sync::{Arc, Mutex, PoisonError};

use bailiff_runtime::{Clock, Seed};

pub mod admission;
pub mod api;
pub mod apply;
pub mod args;
pub mod binder;
mod bootstrap;
mod budgets;
pub mod cluster;
mod direct;
pub mod driver;
mod effect;
mod facts;
mod gc;
mod go_json;
pub mod kubelet;
pub mod patch;
pub mod protobuf;
mod replicasets;
mod resources;
pub mod rules;
pub mod schema;
pub mod server;
pub mod service;
pub mod status;
pub mod store;
mod timers;
pub mod watch;

pub use direct::{User, Verb};
pub use status::Status;
pub use store::{Change, Event, Key, Object, Observation};
pub use watch::Watch;

use api::kinds::{Kind, Kinds};
use service::Service;
use store::{Limits, Store};

/// What `/version` says of the platform: by this a client knows that it speaks to a sandbox, and to no cluster that somebody needs.
pub const PLATFORM: &str = "embedded";

/// How a sandbox is set up.
#[derive(Clone, Debug)]
pub struct Config {
    /// Events remembered per resource; a watch that falls further behind is cut off.
    pub window: usize,
    /// Observations remembered for [`Sandbox::history`]; zero remembers none.
    pub history: usize,
    /// Whether it is recorded who owns which fields. Server-side apply needs it; without it writes cost less.
    pub managed_fields: bool,
    /// Whether requests without a token are served, as `system:anonymous`.
    pub anonymous: bool,
    /// Who may do what.
    pub authorization: Authorization,
    /// Static tokens.
    pub tokens: Vec<Token>,
}

/// Who may do what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Authorization {
    /// Everybody may do everything.
    #[default]
    AlwaysAllow,
    /// What roles and bindings say; the group `system:masters` may do everything.
    Rbac,
}

/// A static token.
#[derive(Clone, Debug)]
pub struct Token {
    /// The token.
    pub token: String,
    /// Whose it is.
    pub user: User,
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
    /// Replaced as a whole, under the lock of the store; held for no longer than a copy of the pointer takes.
    kinds: Mutex<Arc<Kinds>>,
    /// What tokens of this process carry, so that those of another are refused.
    mark: String,
    /// Of a kind that can be handed on to whoever waits for it.
    store: parking_lot::Mutex<Store>,
    /// May be taken while the store is held, never the other way round.
    compiled: Mutex<api::admit::Compiled>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            // At a thousand writes per second, a minute of the past.
            window: 65_536,
            history: 0,
            managed_fields: true,
            anonymous: true,
            authorization: Authorization::default(),
            tokens: Vec::new(),
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
        let kinds = Kinds::built_in();
        for kind in kinds.iter().filter(|kind| !kind.virtual_) {
            store.register(&kind.storage, kind.fields());
        }
        let seed = seed.fork("sandbox");
        bootstrap::fill(&mut store, &seed, clock.now(), config.authorization);
        Self {
            shared: Arc::new(Shared {
                config,
                clock,
                mark: seed.uuid(),
                seed,
                kinds: Mutex::new(Arc::new(kinds)),
                store: parking_lot::Mutex::new(store),
                compiled: Mutex::default(),
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

    /// The same without the first `read`, for whoever follows the history while it grows.
    pub fn history_after(&self, read: usize) -> Vec<Observation> {
        self.store().history().skip(read).cloned().collect()
    }

    /// The sandbox as a tower service for a client in the same process, such as `kube::Client`. The client is this user, whatever
    /// token it sends.
    pub fn service(&self, user: User) -> Service {
        Service::trusting(self.clone(), user)
    }

    /// Forgets all states of objects but the newest: a watch from before must list again.
    pub fn compact(&self) {
        self.store().compact();
    }

    /// The resources that are served at present.
    pub fn kinds(&self) -> Arc<Kinds> {
        self.shared.kinds.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Serves these in place of what a CustomResourceDefinition brought before. The caller holds the store.
    fn serve(&self, definition: &str, kinds: Vec<Kind>) {
        let mut served = self.shared.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        *served = Arc::new(served.with(definition, kinds));
    }

    fn compiled(&self) -> &Mutex<api::admit::Compiled> {
        &self.shared.compiled
    }

    fn mark(&self) -> &str {
        &self.shared.mark
    }

    fn store(&self) -> parking_lot::MutexGuard<'_, Store> {
        self.shared.store.lock()
    }
}
