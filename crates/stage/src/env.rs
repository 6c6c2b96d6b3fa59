//! The surroundings of a running stage.
//!
//! Everything a stage needs from outside is handed to it here, so that the same shell runs in a pod of its own, beside the other
//! stages in one process, or in a world in virtual time.

use bailiff_cluster::Api;
use bailiff_event_bus::Bus;
use bailiff_runtime::{Clock, Metrics, Readiness, Seed, Shutdown, Spans};

/// The part of a stage's work that this process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Index, from 0.
    pub index: u32,
    /// How many there are.
    pub count: u32,
    /// Epoch of the Lease that gave it to us; 0 without leader election (the bus then issues one).
    pub epoch: u64,
}

impl Shard {
    /// All of the work, without leader election.
    pub const WHOLE: Self = Self {
        index: 0,
        count: 1,
        epoch: 0,
    };
}

/// The surroundings of a stage; cloning it gives the same ones.
#[derive(Clone, Debug)]
pub struct Env {
    /// The API server. Its writes are refused once leadership is gone.
    pub api: Api,
    /// The bus.
    pub bus: Bus,
    /// The clock.
    pub clock: Clock,
    /// The source of randomness.
    pub seed: Seed,
    /// Where metrics are registered.
    pub metrics: Metrics,
    /// What is said on `/readyz` and `/livez`.
    pub readiness: Readiness,
    /// Where spans go.
    pub spans: Spans,
    /// Ends the stage.
    pub shutdown: Shutdown,
    /// Which part of the work is ours.
    pub shard: Shard,
    /// Who we are, on the bus, in Leases and in Events: unique per process.
    pub identity: String,
}

/// Why a stage ended before it was told to.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another process took over our shard on the bus.
    #[error("fenced on topic {topic}: {detail}")]
    Fenced {
        /// The topic.
        topic: &'static str,
        /// What the bus said.
        detail: String,
    },
    /// The leader Lease is gone.
    #[error("leadership was lost: {0}")]
    LeadershipLost(String),
}

/// A stage: a name, its flags, and a loop.
pub trait Stage: 'static {
    /// Name of the binary and of the Lease.
    const NAME: &'static str;

    /// Flags of its own.
    type Options: clap::Args + Clone + Send + 'static;

    /// Runs until the shutdown begins, or until the stage may not go on.
    fn run(options: Self::Options, env: Env) -> impl Future<Output = Result<(), Error>> + Send;
}
