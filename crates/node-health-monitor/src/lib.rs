//! The node-health-monitor: is this node alive?
//!
//! It watches Nodes and their Leases, writes `Unknown` into the conditions of nodes that fell silent, and publishes topic
//! `node-health`. What is decided is decided in `bailiff_node_health_core`; here is what carries it out: watches, confirming reads,
//! status writes, the bus, events, spans, metrics and the one timer.
//!
//! [`views`] and [`requests`] are public for whoever puts another shell around that core (`examples/smallest-stage`).

mod metrics;
mod opinion;
mod options;
pub mod requests;
mod shell;
mod telling;
pub mod views;

use bailiff_stage::{Env, Error, Pace, Stage};

use opinion::Doubts;
pub use opinion::SecondOpinion;
pub use options::{Flags, Options};

/// The stage.
#[derive(Clone, Copy, Debug)]
pub struct NodeHealthMonitor;

impl Stage for NodeHealthMonitor {
    const NAME: &'static str = "node-health-monitor";
    const ABOUT: &'static str = "The node-health-monitor: judges by Leases and statuses whether nodes are alive";
    /// How soon it is told that a node is silent is what it is measured by: 16 ms at most. With 8 the 99th percentile was 3 ms lower, and
    /// a mass failure cost a quarter more.
    const WAKES: Pace = Pace::steady(64.0);
    type Options = Options;

    fn run(options: Options, env: Env) -> impl Future<Output = Result<(), Error>> + Send {
        run(options, env)
    }
}

/// Judges the nodes of `env.shard` until the shutdown begins. To be called once the shard is held.
///
/// # Errors
/// Another process took the shard over on the bus.
pub async fn run(options: Options, env: Env) -> Result<(), Error> {
    run_asking(options, env, ()).await
}

/// The same, and nobody is judged whom `opinion` speaks for.
///
/// # Errors
/// As [`run`].
pub async fn run_asking(options: Options, env: Env, opinion: impl SecondOpinion + 'static) -> Result<(), Error> {
    if !options.shared.controllers.node_lifecycle {
        return bailiff_stage::idle(&env, NodeHealthMonitor::NAME, "node-lifecycle-controller").await;
    }
    shell::Shell::start(&options, env, Doubts::new(opinion)).run().await
}
