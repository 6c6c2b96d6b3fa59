//! A process that runs one or more stages: telemetry, admin port, shutdown, and the tasks it owns.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use bailiff_cluster::Api;
use bailiff_event_bus::Bus;
use bailiff_runtime::admin::{self, bind, router};
use bailiff_runtime::{Clock, CommonArgs, DeathPolicy, Leadership, Metrics, Readiness, Seed, Shutdown, Spans, Tasks, telemetry};
use tokio_util::sync::CancellationToken;

use crate::env::{Env, Shard};

/// Why a process could not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Logs or traces could not be set up.
    #[error("cannot set up telemetry")]
    Telemetry(#[source] telemetry::Error),
    /// The admin port cannot be had.
    #[error("cannot serve the admin port")]
    Admin(#[source] admin::Error),
    /// Signal handlers were refused.
    #[error("cannot listen for signals")]
    Signals(#[source] std::io::Error),
}

/// A process; its parts are shared by everything that runs in it.
#[derive(Debug)]
pub struct Process {
    /// The clock.
    pub clock: Clock,
    /// The source of randomness.
    pub seed: Seed,
    /// Metrics.
    pub metrics: Metrics,
    /// Readiness and liveness.
    pub readiness: Readiness,
    /// The process's shutdown: SIGTERM, SIGINT, or the death of a task that it cannot do without.
    pub shutdown: Shutdown,
    /// Its tasks.
    pub tasks: Tasks,
    /// Who it is: host name and a part that differs at every start.
    pub identity: String,
    /// Where the admin port listens.
    pub admin: SocketAddr,
    telemetry: telemetry::Guard,
    drain: Duration,
    admin_stop: CancellationToken,
}

impl Process {
    /// Starts a process of `service`: logs, admin port, signals.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn start(service: &'static str, args: &CommonArgs) -> Result<Self, Error> {
        let seed = args.seed();
        let telemetry = telemetry::init(service, args, &seed).map_err(Error::Telemetry)?;
        let bound = bind(args.admin_listen).await.map_err(Error::Admin)?;
        let clock = Clock::system();
        let shutdown = Shutdown::new();
        shutdown.on_signals().map_err(Error::Signals)?;
        let tasks = Tasks::new(shutdown.clone());
        let metrics = Metrics::new();
        let readiness = Readiness::new(&clock);
        let (admin, admin_stop) = (bound.address(), CancellationToken::new());
        let serving = bound.serve(router(readiness.clone(), metrics.clone()), admin_stop.clone());
        // Not one of `tasks`: it is stopped last, so that a draining process still answers.
        tokio::spawn(serving);
        tracing::info!(address = %admin, "Admin port is open");
        let identity = format!("{}_{}", host_name(), seed.fork("identity").uuid());
        Ok(Self {
            clock,
            seed,
            metrics,
            readiness,
            shutdown,
            tasks,
            identity,
            admin,
            telemetry,
            drain: args.drain_timeout.get(),
            admin_stop,
        })
    }

    /// Where finished spans go.
    pub fn spans(&self) -> &Spans {
        self.telemetry.spans()
    }

    /// The surroundings of the stage called `name`, which may write while `leadership` holds.
    pub fn env(&self, name: &str, client: kube::Client, bus: &Bus, leadership: &Leadership, shard: Shard) -> Env {
        let cluster = self
            .metrics
            .register(&name.replace('-', "_"), bailiff_cluster::Metrics::register);
        let gate = leadership.clone();
        let api = Api::new(client, self.clock.clone(), cluster).with_gate(move |now| gate.write_until(now));
        Env {
            api,
            bus: bus.clone(),
            clock: self.clock.clone(),
            seed: self.seed.fork(name),
            metrics: self.metrics.clone(),
            readiness: self.readiness.clone(),
            spans: self.spans().clone(),
            shutdown: self.shutdown.clone(),
            shard,
            identity: self.identity.clone(),
        }
    }

    /// Waits for the shutdown, lets the tasks end, and answers the exit code: 1 if something failed or did not end in time.
    pub async fn finish(self, release: CancellationToken) -> ExitCode {
        self.shutdown.triggered().await;
        self.readiness.check("shutdown").fail("shutting down");
        // Leases are given up only when nothing acts for their holder any more; the elections are tasks too, so they get the
        // last part of the time.
        let acting = self.tasks.clone();
        let elections = async {
            tokio::time::sleep(self.drain / 2).await;
            release.cancel();
        };
        let unfinished = tokio::select! {
            biased;
            unfinished = acting.drain(self.drain) => unfinished,
            () = async { elections.await; std::future::pending().await } => Vec::new(),
        };
        for task in &unfinished {
            tracing::warn!(%task, "Task did not end in time and was dropped");
        }
        let failure = self.shutdown.failure().map(str::to_owned);
        if let Some(failure) = &failure {
            tracing::error!(%failure, "Ended because of a failure");
        }
        self.telemetry.shutdown(Duration::from_secs(2)).await;
        self.admin_stop.cancel();
        ExitCode::from(u8::from(failure.is_some() || !unfinished.is_empty()))
    }

    /// Spawns a task that the process cannot do without.
    pub fn spawn<E>(&self, name: &'static str, future: impl Future<Output = Result<(), E>> + Send + 'static)
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.tasks.spawn(name, DeathPolicy::EndProcess, future);
    }
}

fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .ok()
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "localhost".to_owned())
}
