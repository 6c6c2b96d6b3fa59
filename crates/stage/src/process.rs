//! A process that runs one or more stages: telemetry, admin port, shutdown, and the tasks it owns.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use bailiff_cluster::Api;
use bailiff_runtime::admin::{self, bind, router};
use bailiff_runtime::args::{TlsFlags, exit_invalid};
use bailiff_runtime::client::{self, Limiter, Transport};
use bailiff_runtime::port;
use bailiff_runtime::tasks::Name;
use bailiff_runtime::{
    Clock, CommonArgs, DeathPolicy, KubeArgs, LeaderElectionArgs, Leadership, Metrics, Readiness, Seed, Shutdown, Spans, Tasks,
    Tls, lease, lease::Candidates, telemetry,
};
use tokio_util::sync::CancellationToken;

use crate::env::{Host, Stage};
use crate::shards::Replica;
use bailiff_model::Shard;

/// How long the last spans may take on their way out.
const TELEMETRY_LINGER: Duration = Duration::from_secs(2);

/// How long answers of the admin port under way may take.
const ADMIN_LINGER: Duration = Duration::from_millis(500);

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
    /// What acts and serves in it.
    pub tasks: Tasks,
    /// Who it is: host name and a part that differs at every start.
    pub identity: String,
    /// Nothing but Leases is written (`--observe`).
    pub observes: bool,
    /// Where the admin port listens.
    pub admin: SocketAddr,
    /// What its ports and its connections to other services are secured with, if they are.
    pub tls: Option<Tls>,
    /// What is measured about its ports.
    pub ports: port::Metrics,
    /// Leases are given up only when nothing acts for their holder any more, so these outlive `tasks`.
    elections: Tasks,
    lease_metrics: lease::Metrics,
    /// The admin port outlives both: a draining process still answers.
    background: Tasks,
    admin_stop: CancellationToken,
    telemetry: telemetry::Guard,
    drain: Duration,
}

impl Process {
    /// Starts a process of `service`: TLS files, logs, admin port, signals. Ends it if the TLS files, or what is
    /// configured about traces, cannot be used.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn start(service: &'static str, args: &CommonArgs, tls: &TlsFlags) -> Result<Self, Error> {
        let clock = Clock::system();
        let tls = tls.load(&clock).unwrap_or_else(|error| exit_invalid(&error));
        let seed = args.seed();
        let identity = bailiff_runtime::identity(&seed);
        let telemetry = telemetry::init(service, &identity, args, tls.as_ref()).map_err(Error::Telemetry)?;
        let bound = bind(args.admin_listen).await.map_err(Error::Admin)?;
        let shutdown = Shutdown::new();
        shutdown.on_signals().map_err(Error::Signals)?;
        let (tasks, elections) = (Tasks::new(shutdown.clone()), Tasks::new(shutdown.clone()));
        let background = Tasks::new(shutdown.clone());
        let metrics = Metrics::new();
        telemetry.spans().register(&metrics);
        let readiness = Readiness::new(&clock);
        let (admin, admin_stop) = (bound.address(), CancellationToken::new());
        let ports = port::Metrics::register(&metrics);
        if let Some(tls) = &tls {
            tls.attend(&metrics, &readiness, &tasks);
        }
        let serving = {
            let (router, stop) = (router(readiness.clone(), metrics.clone()), admin_stop.clone());
            let (tls, ports) = (tls.clone(), ports.clone());
            async move { bound.serve(router, tls, &ports, stop).await }
        };
        // Without it the process works on: its probes fail, and the kubelet decides.
        background.spawn_infallible("admin port", DeathPolicy::Log, serving);
        tracing::info!(address = %admin, "Admin port is open");
        Ok(Self {
            lease_metrics: lease::Metrics::register(&metrics),
            clock,
            seed,
            metrics,
            readiness,
            shutdown,
            tasks,
            identity,
            observes: false,
            admin,
            tls,
            ports,
            elections,
            background,
            admin_stop,
            telemetry,
            drain: args.drain_timeout.get(),
        })
    }

    /// Where finished spans go.
    pub fn spans(&self) -> &Spans {
        self.telemetry.spans()
    }

    /// This process as a replica of the stage called `name`, which stands for the Leases of so many shards with a client of its own. They
    /// are given up in [`Process::finish`], once `release` is handed to it.
    pub(crate) fn replica(&self, name: &'static str, client: kube::Client, shards: u32, release: CancellationToken) -> Replica {
        Replica {
            host: self.host(name),
            candidates: self.candidates(client, shards),
            acting: self.tasks.clone(),
            elections: self.elections.clone(),
            release,
        }
    }

    fn candidates(&self, client: kube::Client, shards: u32) -> Candidates {
        Candidates::new(client, shards, &self.lease_metrics, &self.clock, &self.seed)
    }

    /// Stands for the Lease of all of the work of the service called `name`, or leads without one. The Lease is given up in
    /// [`Process::finish`], once `release` is handed to it.
    pub fn elect(&self, client: kube::Client, args: &LeaderElectionArgs, name: &str, release: CancellationToken) -> Leadership {
        if !args.leader_elect {
            return Leadership::always(0);
        }
        let name = lease_name(name, self.observes);
        let options = lease::Options::new(args, &name, Shard::WHOLE, self.identity.clone());
        let (leadership, election) = self.candidates(client, 1).elect(options, release);
        self.elections.spawn("leader election", DeathPolicy::EndProcess, election);
        leadership
    }

    /// The API server as the stage `S` reaches it: with a rate limit of its own, and writes only while `leadership` holds.
    ///
    /// # Errors
    /// The configuration cannot be read or used.
    pub async fn connect<S: Stage>(&self, args: &KubeArgs, leadership: &Leadership) -> Result<Api, client::Error> {
        let transport = client::connect_paced(args, S::NAME, &self.clock).await?;
        let limiter = Limiter::of(args, &self.clock);
        Ok(api(S::NAME, transport, &self.clock, limiter, &self.metrics, leadership))
    }

    /// What the stage called `name` shares with everything else in this process.
    pub fn host(&self, name: &'static str) -> Host {
        Host {
            clock: self.clock.clone(),
            seed: self.seed.fork(name),
            metrics: self.metrics.clone(),
            readiness: self.readiness.clone(),
            spans: self.spans().clone().of(name),
            shutdown: self.shutdown.clone(),
            identity: self.identity.clone(),
            observes: self.observes,
        }
    }

    /// Waits for the shutdown, lets the tasks end, and answers the exit code: 1 if something failed or did not end in time.
    pub async fn finish(self, release: CancellationToken) -> ExitCode {
        self.shutdown.triggered().await;
        self.readiness.check("shutdown").fail("shutting down");
        let unfinished = drain(&self.tasks, &self.elections, &release, self.drain).await;
        let failure = self.shutdown.failure().map(str::to_owned);
        if let Some(failure) = &failure {
            tracing::error!(%failure, "Ended because of a failure");
        }
        self.telemetry.shutdown(TELEMETRY_LINGER).await;
        self.admin_stop.cancel();
        self.background.drain(ADMIN_LINGER).await;
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

/// The API server as the stage called `name` reaches it by `transport`, writing only while `leadership` holds.
pub(crate) fn api(
    name: &str,
    transport: Transport,
    clock: &Clock,
    limiter: Limiter,
    metrics: &Metrics,
    leadership: &Leadership,
) -> Api {
    let metrics = metrics.register(&name.replace('-', "_"), bailiff_cluster::Metrics::register);
    let gate = leadership.clone();
    Api::new(transport, clock.clone(), metrics)
        .with_limiter(limiter)
        .with_gate(move |now| gate.write_until(now))
}

/// Lets what acts end, then gives up the Leases; answers what did not end within `time`.
///
/// While something may still act for their holder the Leases are not given up: they run out, which costs the next holder time and
/// nothing else.
async fn drain(acting: &Tasks, elections: &Tasks, release: &CancellationToken, time: Duration) -> Vec<Name> {
    let mut unfinished = acting.drain(time * 3 / 4).await;
    if unfinished.is_empty() {
        release.cancel();
        unfinished.extend(elections.drain(time / 4).await);
    } else {
        elections.drain(Duration::ZERO).await;
    }
    unfinished
}

/// The Lease of a service unless its flags name one. An observer has one of its own: with that of the process that does the work it would
/// stand by, or keep it from working.
pub(crate) fn lease_name(service: &str, observes: bool) -> String {
    if observes {
        format!("observe-{service}")
    } else {
        service.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    const TIME: Duration = Duration::from_secs(20);

    fn mk_election(shutdown: &Shutdown, release: &CancellationToken) -> Tasks {
        let (elections, release) = (Tasks::new(shutdown.clone()), release.clone());
        elections.spawn_infallible("election", DeathPolicy::Log, async move { release.cancelled().await });
        elections
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_is_given_up_as_soon_as_nothing_acts_for_its_holder() {
        let (shutdown, release) = (Shutdown::new(), CancellationToken::new());
        let (acting, elections) = (Tasks::new(shutdown.clone()), mk_election(&shutdown, &release));
        acting.spawn_infallible("stage", DeathPolicy::Log, tokio::time::sleep(Duration::from_secs(3)));
        let began = Instant::now();
        assert_eq!(drain(&acting, &elections, &release, TIME).await, Vec::<Name>::new());
        assert_eq!((release.is_cancelled(), began.elapsed().as_secs()), (true, 3));
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_runs_out_if_something_may_still_act() {
        let (shutdown, release) = (Shutdown::new(), CancellationToken::new());
        let (acting, elections) = (Tasks::new(shutdown.clone()), mk_election(&shutdown, &release));
        acting.spawn_infallible("stage", DeathPolicy::Log, std::future::pending());
        let began = Instant::now();
        assert_eq!(drain(&acting, &elections, &release, TIME).await, ["stage"]);
        assert_eq!((release.is_cancelled(), began.elapsed().as_secs()), (false, 15));
        assert!(elections.running().is_empty(), "nothing renews it");
    }
}
