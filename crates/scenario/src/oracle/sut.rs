//! The controllers of a scenario: an event bus and the stages on it, as one process of `bailiff run` has them.
//!
//! The bus lives and dies with them, so a restart inherits nothing but what the API holds. Two instances share only the API.

use bailiff_cluster::{Api, Metrics as ClusterMetrics};
use bailiff_event_bus::{Bus, Server, ServerOptions};
use bailiff_runtime::{Clock, Seed, Shutdown, client};
use bailiff_sandbox::{Sandbox, User};
use bailiff_stage::{Env, Host, Shard};
use futures::FutureExt;
use tokio::task::JoinHandle;

use crate::{StageName, StageOptions};

/// Name of the user that the controllers are to the API: what it wrote is what they did.
pub const USER: &str = "bailiff";

/// What controllers are started from.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The API server.
    pub sandbox: Sandbox,
    /// The clock.
    pub clock: Clock,
    /// Where everything in them draws from.
    pub seed: Seed,
    /// Which stages run.
    pub stages: Vec<StageName>,
    /// Their flags.
    pub options: StageOptions,
}

/// A running instance.
#[derive(Debug)]
pub struct Controllers {
    /// The bus lives as long as this.
    _server: Server,
    stages: Vec<Running>,
}

#[derive(Debug)]
struct Running {
    name: StageName,
    shutdown: Shutdown,
    task: JoinHandle<Result<(), bailiff_stage::Error>>,
}

// === impl Controllers ===

impl Controllers {
    /// Starts an instance; `nth` tells it from others.
    pub fn start(setup: &Setup, nth: u32) -> Self {
        let seed = setup.seed.fork(&format!("instance-{nth}"));
        let server = Server::new(ServerOptions::default(), &setup.clock, &seed);
        let bus = Bus::in_process(&server);
        let start = |name: &StageName| {
            let shutdown = Shutdown::new();
            let env = env(setup, *name, &seed, &bus, &shutdown);
            let task = setup.options.start(*name, env);
            let name = *name;
            Running { name, shutdown, task }
        };
        let stages = setup.stages.iter().map(start).collect();
        Self { _server: server, stages }
    }

    /// Ends it without notice.
    pub fn kill(&self) {
        for stage in &self.stages {
            stage.task.abort();
        }
    }

    /// Asks it to end, and waits until it has.
    pub async fn stop(self) {
        for stage in &self.stages {
            stage.shutdown.trigger();
        }
        for stage in self.stages {
            // However it ended, it has.
            let _ = stage.task.await;
        }
    }

    /// A stage that ended by itself, which none should, and why.
    pub fn ended(&mut self) -> Option<(StageName, String)> {
        let ended = self.stages.iter_mut().find(|stage| stage.task.is_finished())?;
        let why = match (&mut ended.task).now_or_never() {
            Some(Ok(Err(error))) => bailiff_runtime::shutdown::chain(&error),
            Some(Err(error)) => error.to_string(),
            _ => "without an error".to_owned(),
        };
        Some((ended.name, why))
    }
}

fn env(setup: &Setup, name: StageName, seed: &Seed, bus: &Bus, shutdown: &Shutdown) -> Env {
    let user = User::new(USER, &["system:masters", "system:authenticated"]);
    let client = client::from_service(setup.sandbox.service(user));
    let api = Api::new(client, setup.clock.clone(), ClusterMetrics::default());
    let host = Host {
        shutdown: shutdown.clone(),
        ..Host::new(&setup.clock, &seed.fork(name.as_str()), name.as_str())
    };
    host.env(api, bus, Shard::WHOLE, 0)
}
