//! The zone-evictor: may it happen now? Then it does it.
//!
//! The only stage that disrupts: it adds and removes NoExecute health taints, marks pods with DisruptionTarget and deletes them,
//! and publishes topic `eviction-outcomes`. What is decided is decided in `bailiff_zone_core`; here is what carries it out: the
//! watch on nodes (in node mode on DaemonSets too: whom they select is spared), requests, the bus, events, spans, metrics and the
//! one timer.

mod metrics;
mod options;
mod own;
mod requests;
mod shell;
mod telling;
mod views;

use bailiff_stage::{Env, Error, Stage};

pub use options::{EvictionFlags, Flags, Options};

/// The stage.
#[derive(Clone, Copy, Debug)]
pub struct ZoneEvictor;

impl Stage for ZoneEvictor {
    const NAME: &'static str = "zone-evictor";
    const ABOUT: &'static str =
        "The zone-evictor: decides by zone and rate whether what should go may go now, isolates nodes and evicts pods";
    type Options = Options;

    fn run(options: Options, env: Env) -> impl Future<Output = Result<(), Error>> + Send {
        run(options, env)
    }
}

/// Evicts in the zones of `env.shard` until the shutdown begins. To be called once the shard is held.
///
/// # Errors
/// Another process took the shard over on the bus.
pub async fn run(options: Options, env: Env) -> Result<(), Error> {
    shell::Shell::start(&options, env).run().await
}
