//! A whole system in one process: sandbox, simulated kubelets, event bus and the four stages.
//!
//! With [`Transport::InProcess`] nothing leaves the process and nothing depends on real time: this is a world. With
//! [`Transport::Sockets`] the sandbox, the bus and each stage have an endpoint of their own on the loopback interface, as separate
//! pods would. Everything else is the same, and so is what the stages run.

mod running;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use bailiff_cluster::{Api, Metrics as ClusterMetrics};
use bailiff_daemonset_syncer::DaemonsetSyncer;
use bailiff_event_bus::{Bus, Line, Server, ServerOptions};
use bailiff_node_health_monitor::NodeHealthMonitor;
use bailiff_runtime::client::Limiter;
use bailiff_runtime::lease::{self, Candidates};
use bailiff_runtime::{Clock, LeaderElectionArgs, Metrics, Readiness, Seed, Shutdown, Spans, Tasks, client};
use bailiff_sandbox::driver::{Driver, Options as ClusterOptions, Stopped};
use bailiff_sandbox::{Config, Sandbox, User, Verb};
use bailiff_stage::env::Host;
use bailiff_stage::shards::{Reach, Replica};
use bailiff_stage::{Shard, Stage, health};
use bailiff_taint_manager::TaintManager;
use bailiff_zone_evictor::ZoneEvictor;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::chaos::Faults;
use crate::stages::StageOptions;
use running::{Running, What};

/// How the parts reach each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// By calls; deterministic in virtual time.
    InProcess,
    /// By loopback sockets.
    Sockets,
}

/// The stages, in pipeline order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StageName {
    /// node-health-monitor.
    NodeHealthMonitor,
    /// taint-manager.
    TaintManager,
    /// zone-evictor.
    ZoneEvictor,
    /// daemonset-syncer.
    DaemonsetSyncer,
}

/// Why a system could not be set up, or a part of it not be reached.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A loopback port could not be had.
    #[error("cannot listen on a loopback port")]
    Listen(#[source] std::io::Error),
    /// The API server's address makes no client.
    #[error("cannot make a client of the sandbox")]
    Client(#[source] kube::Error),
    /// The simulated kubelets do not run any more.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// The cluster could not be built.
    #[error(transparent)]
    Build(#[from] bailiff_sandbox::cluster::Error),
    /// The sandbox refused an object.
    #[error("the sandbox refused to create an object of {path}: {message}")]
    Refused {
        /// Path of the collection.
        path: String,
        /// What it said.
        message: String,
    },
    /// A stage refused its flags.
    #[error("flags of the stages: {0}")]
    Flags(String),
}

/// How many replicas of a stage share out how many shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Division {
    /// How many shards.
    pub shards: u32,
    /// How many replicas.
    pub replicas: u32,
}

/// A running system. Dropping it ends it.
pub struct Fixture {
    /// The clock of everything in it.
    pub clock: Clock,
    /// Where everything in it draws from.
    pub seed: Seed,
    /// The API server.
    pub sandbox: Sandbox,
    /// The simulated kubelets, binder and collectors.
    pub driver: Driver,
    /// The server of the bus.
    pub server: Server,
    /// The bus, as the stages reach it.
    pub bus: Bus,
    /// Where the parts listen, by name; empty in process.
    pub endpoints: Vec<(&'static str, SocketAddr)>,
    transport: Transport,
    client: kube::Client,
    /// What single stages have instead.
    clients: BTreeMap<StageName, kube::Client>,
    /// What happens between the stages and the API server, in process.
    faults: Option<Faults>,
    /// Clocks of the machines that the stages run on.
    clocks: BTreeMap<StageName, Clock>,
    /// What stages reach the bus over, in process.
    lines: BTreeMap<StageName, Line>,
    options: StageOptions,
    /// How stages are divided; those that are not run alone, without Leases.
    divided: BTreeMap<StageName, Division>,
    /// Every replica of every stage that runs.
    stages: BTreeMap<(StageName, u32), Running>,
    starts: u32,
    /// Where the spans of stages go.
    spans: Spans,
    observes: bool,
    shutdown: Shutdown,
}

impl std::fmt::Debug for Fixture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fixture")
            .field("transport", &self.transport)
            .field("stages", &self.stages.keys())
            .finish_non_exhaustive()
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.shutdown.trigger();
        for stage in self.stages.values() {
            stage.abort();
        }
    }
}

// === impl StageName ===

impl StageName {
    /// All of them, in pipeline order.
    pub const ALL: [Self; 4] = [
        Self::NodeHealthMonitor,
        Self::TaintManager,
        Self::ZoneEvictor,
        Self::DaemonsetSyncer,
    ];

    /// What it is called.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NodeHealthMonitor => NodeHealthMonitor::NAME,
            Self::TaintManager => TaintManager::NAME,
            Self::ZoneEvictor => ZoneEvictor::NAME,
            Self::DaemonsetSyncer => DaemonsetSyncer::NAME,
        }
    }
}

// === impl Fixture ===

impl Fixture {
    /// Sets up the sandbox with its kubelets and the bus; no stage runs yet.
    ///
    /// # Errors
    /// No loopback port could be had.
    pub async fn start(
        transport: Transport,
        cluster: &ClusterOptions,
        options: StageOptions,
        clock: Clock,
        seed: Seed,
    ) -> Result<Self, Error> {
        Self::start_on(Config::default(), transport, cluster, options, clock, seed).await
    }

    /// The same, with a sandbox that is set up otherwise.
    ///
    /// # Errors
    /// No loopback port could be had.
    pub async fn start_on(
        config: Config,
        transport: Transport,
        cluster: &ClusterOptions,
        options: StageOptions,
        clock: Clock,
        seed: Seed,
    ) -> Result<Self, Error> {
        let config = Config {
            // Enough for a demonstration or a test; a run that lasts longer keeps the newest part.
            history: 1 << 20,
            ..config
        };
        let sandbox = Sandbox::new(config, clock.clone(), &seed);
        let shutdown = Shutdown::new();
        let (driver, _ended) = Driver::start(&sandbox, cluster, &shutdown);
        let server = Server::new(ServerOptions::default(), &clock, &seed);
        let mut endpoints = Vec::new();
        let (client, bus) = match transport {
            Transport::InProcess => (client::from_service(sandbox.service(User::admin())), Bus::in_process(&server)),
            Transport::Sockets => {
                let api = loopback().await?;
                let bus = loopback().await?;
                endpoints.push(("kube-apiserver (sandbox)", address(&api)?));
                endpoints.push(("event-bus", address(&bus)?));
                let found = (
                    over_http(address(&api)?)?,
                    Bus::connect(&format!("http://{}", address(&bus)?)),
                );
                let end = shutdown.token().clone();
                let serving = bailiff_sandbox::server::serve(api, sandbox.clone(), async move { end.cancelled().await });
                tokio::spawn(serving);
                tokio::spawn(server.clone().serve(bus, shutdown.token().clone()));
                found
            }
        };
        Ok(Self {
            seed,
            sandbox,
            driver,
            server,
            bus,
            endpoints,
            clocks: StageName::ALL.map(|name| (name, clock.fork())).into(),
            lines: StageName::ALL.map(|name| (name, Line::default())).into(),
            transport,
            client,
            clients: BTreeMap::new(),
            faults: None,
            options,
            divided: BTreeMap::new(),
            stages: BTreeMap::new(),
            starts: 0,
            spans: Spans::off(),
            observes: false,
            shutdown,
            clock,
        })
    }

    /// Divides the work of a stage among replicas that start from now on.
    pub fn divide(&mut self, name: StageName, division: Division) {
        self.divided.insert(name, division);
    }

    /// Starts a stage, all of its replicas; what runs is left alone.
    ///
    /// # Errors
    /// No loopback port could be had.
    pub async fn start_stage(&mut self, name: StageName) -> Result<(), Error> {
        match self.divided.get(&name).copied() {
            Some(division) => (0..division.replicas).for_each(|number| self.start_replica(name, number, division.shards)),
            None => self.start_alone(name).await?,
        }
        Ok(())
    }

    async fn start_alone(&mut self, name: StageName) -> Result<(), Error> {
        if self.stages.contains_key(&(name, 0)) {
            return Ok(());
        }
        let host = self.host(name);
        let (shutdown, readiness) = (host.shutdown.clone(), host.readiness.clone());
        let health = match self.transport {
            Transport::InProcess => None,
            Transport::Sockets => {
                let listener = loopback().await?;
                self.endpoints.push((name.as_str(), address(&listener)?));
                let served = health::serve(name.as_str(), listener, readiness.clone(), shutdown.clone());
                Some(tokio::spawn(served))
            }
        };
        let api = Api::new(self.client_of(name), host.clock.clone(), ClusterMetrics::default());
        let env = host.env(api, &self.bus_of(name), Shard::WHOLE, 0);
        let task = self.options.start(name, env);
        let running = Running {
            shutdown,
            readiness,
            what: What::Alone { task, health },
        };
        self.stages.insert((name, 0), running);
        Ok(())
    }

    fn start_replica(&mut self, name: StageName, number: u32, shards: u32) {
        if self.stages.contains_key(&(name, number)) {
            return;
        }
        let host = self.host(name);
        let (shutdown, readiness) = (host.shutdown.clone(), host.readiness.clone());
        let metrics = lease::Metrics::register(&host.metrics);
        let replica = Replica {
            candidates: Candidates::new(self.election_client_of(name), shards, &metrics, &host.clock, &host.seed),
            acting: Tasks::new(shutdown.clone()),
            elections: Tasks::new(shutdown.clone()),
            release: CancellationToken::new(),
            host,
        };
        let reach = Reach {
            transport: self.client_of(name).into(),
            limiter: Limiter::none(&self.clock),
            bus: self.bus_of(name),
            leader_election: LeaderElectionArgs::default(),
        };
        self.options.stand(name, &replica, reach, shards);
        let running = Running {
            shutdown,
            readiness,
            what: What::Replica(Box::new(replica)),
        };
        self.stages.insert((name, number), running);
    }

    /// Starts every stage that does not run.
    ///
    /// # Errors
    /// No loopback port could be had.
    pub async fn start_stages(&mut self) -> Result<(), Error> {
        for name in StageName::ALL {
            self.start_stage(name).await?;
        }
        Ok(())
    }

    /// Ends a stage as a crash would, all of its replicas.
    pub fn kill_stage(&mut self, name: StageName) {
        for stage in self.take(name) {
            stage.abort();
        }
    }

    /// Ends one of a stage's replicas as a crash would; those that are missing are counted round.
    pub fn kill_replica(&mut self, name: StageName, number: u32) {
        let replicas = self.divided.get(&name).map_or(1, |division| division.replicas);
        if let Some(stage) = self.stages.remove(&(name, number % replicas)) {
            stage.abort();
        }
    }

    /// Ends a stage as SIGTERM would, all of its replicas, and waits for it.
    pub async fn stop_stage(&mut self, name: StageName) {
        for stage in self.take(name) {
            stage.stop().await;
        }
    }

    /// Replaces the replicas of a stage by ones that divide its work otherwise, one after the other.
    ///
    /// # Errors
    /// No loopback port could be had.
    pub async fn roll(&mut self, name: StageName, division: Division) -> Result<(), Error> {
        let old = self.take(name);
        self.divide(name, division);
        for (number, stage) in (0..).zip(old) {
            stage.stop().await;
            self.start_replica(name, number, division.shards);
        }
        self.start_stage(name).await
    }

    /// The replicas of a stage, which are none of this system any more.
    fn take(&mut self, name: StageName) -> Vec<Running> {
        let replicas: Vec<_> = self.stages.keys().filter(|(of, _)| *of == name).copied().collect();
        replicas.iter().filter_map(|replica| self.stages.remove(replica)).collect()
    }

    /// The stages that ended by themselves, which none should.
    pub fn ended(&self) -> Vec<StageName> {
        let ended = self.stages.iter().filter(|(_, stage)| stage.has_ended());
        ended.map(|((name, _), _)| *name).collect()
    }

    /// What a running stage says on `/readyz` that is not well, or is held: one sentence per check.
    pub fn failing_checks(&self, name: StageName) -> Vec<String> {
        let replicas = self.stages.iter().filter(|((of, _), _)| *of == name);
        let telling = replicas.flat_map(|(_, stage)| stage.readiness.readiness());
        telling
            .filter_map(|check| Some(format!("{}: {}", check.name, check.failure.or(check.note)?)))
            .collect()
    }

    /// Creates an object, as an administrator.
    ///
    /// # Errors
    /// The API server refused it.
    pub fn create(&self, path: &str, object: &serde_json::Value) -> Result<(), Error> {
        let created = self.sandbox.request(&User::admin(), Verb::Create, path, object);
        created.map(drop).map_err(|status| Error::Refused {
            path: path.to_owned(),
            message: status.to_string(),
        })
    }

    /// Lets faults happen between the API server and the stages that start from now on.
    pub fn inject(&mut self, faults: Faults) {
        self.faults = Some(faults);
    }

    /// Has a stage reach the API server by `client` when it starts next.
    pub fn give_client(&mut self, name: StageName, client: kube::Client) {
        self.clients.insert(name, client);
    }

    /// Has the stages that start from now on tell their spans there.
    pub fn trace(&mut self, spans: Spans) {
        self.spans = spans;
    }

    /// Lets the stages that start from now on write nothing.
    pub fn observe(&mut self) {
        self.observes = true;
    }

    /// The clock of the machine that a stage runs on. Its wall time can be stepped; it survives the stage.
    pub fn clock_of(&self, name: StageName) -> &Clock {
        self.clocks.get(&name).unwrap_or(&self.clock)
    }

    /// What a stage reaches the bus over, if it does so in process. It survives the stage.
    pub fn line_of(&self, name: StageName) -> Option<&Line> {
        self.lines.get(&name).filter(|_| self.transport == Transport::InProcess)
    }

    /// A client of the API server, as the stages have.
    pub fn client(&self) -> kube::Client {
        self.client.clone()
    }

    /// What the next process of a stage has.
    fn host(&mut self, name: StageName) -> Host {
        self.starts += 1;
        let start = format!("{}-{}", name.as_str(), self.starts);
        let clock = self.clock_of(name).clone();
        Host {
            readiness: Readiness::new(&clock),
            clock,
            seed: self.seed.fork(&start),
            metrics: Metrics::new(),
            spans: self.spans.clone().of(name.as_str()),
            shutdown: Shutdown::new(),
            identity: start,
            observes: self.observes,
        }
    }

    /// How a stage reaches the API server.
    fn client_of(&self, name: StageName) -> kube::Client {
        match (self.clients.get(&name), &self.faults) {
            (Some(client), _) => client.clone(),
            (None, Some(faults)) => client::from_service(faults.between(name, &self.sandbox)),
            (None, None) => self.client.clone(),
        }
    }

    /// How it keeps its Leases, which no fault concerns.
    fn election_client_of(&self, name: StageName) -> kube::Client {
        self.clients.get(&name).unwrap_or(&self.client).clone()
    }

    /// How a stage reaches the bus.
    fn bus_of(&self, name: StageName) -> Bus {
        let over = self.line_of(name).map(|line| Bus::over_line(&self.server, line));
        over.unwrap_or_else(|| self.bus.clone())
    }
}

async fn loopback() -> Result<TcpListener, Error> {
    TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0))
        .await
        .map_err(Error::Listen)
}

fn address(listener: &TcpListener) -> Result<SocketAddr, Error> {
    listener.local_addr().map_err(Error::Listen)
}

fn over_http(address: SocketAddr) -> Result<kube::Client, Error> {
    let url = format!("http://{address}").parse().expect("an address makes a URL");
    kube::Client::try_from(kube::Config::new(url)).map_err(Error::Client)
}
