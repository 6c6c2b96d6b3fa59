//! The taint-manager: what does the state of a node mean for its pods, and when?
//!
//! It watches Nodes and Pods and follows topic `node-health`; it writes NoSchedule condition taints and beta labels, marks the pods
//! of silent nodes not ready, and publishes topic `eviction-intents`. What is decided is decided in `bailiff_taint_core`; here is what
//! carries it out: watches, requests, the bus, events, spans, metrics and the one timer.

mod metrics;
mod options;
mod records;
mod requests;
mod shell;
mod telling;
mod views;

use bailiff_stage::{Env, Error, Stage};

pub use options::{Flags, Options};

/// The stage.
#[derive(Clone, Copy, Debug)]
pub struct TaintManager;

impl Stage for TaintManager {
    const NAME: &'static str = "taint-manager";
    const ABOUT: &'static str = "The taint-manager: decides what the health of a node means for its pods, and when";
    type Options = Options;

    fn run(options: Options, env: Env) -> impl Future<Output = Result<(), Error>> + Send {
        run(options, env)
    }
}

/// Looks after the nodes of `env.shard` until the shutdown begins. To be called once the shard is held.
///
/// # Errors
/// Another process took the shard over on the bus.
pub async fn run(options: Options, env: Env) -> Result<(), Error> {
    shell::Shell::start(&options, env).run().await
}
