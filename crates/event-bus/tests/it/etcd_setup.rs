//! Replicas of the bus over an etcd of their own, and who uses them.

use std::time::Duration;

use bailiff_event_bus::engine::etcd::{self, Config, Driver, Error, SnapshotAfter};
use bailiff_event_bus::engine::{Etcd, Limits};
use bailiff_event_bus::{Bus, Publisher, Server, ServerOptions, publish, subscribe};
use bailiff_model::Topic;
use bailiff_processes::free_address;
use bailiff_runtime::{Clock, Seed};
use tokio::net::TcpListener;
use tokio::task::{AbortHandle, JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::etcd_process::Cluster;
use crate::support::{Follower, mk_following, mk_publishing, soon};

pub const HEALTH: Topic = Topic::NodeHealth;

/// A replica of the bus on a port.
pub struct Replica {
    pub server: Server,
    pub address: String,
    pub url: String,
    pub status: etcd::Status,
    engines: AbortHandle,
    stop: CancellationToken,
    serving: JoinHandle<()>,
}

/// Replicas on one etcd, and who uses them.
pub struct Setup {
    pub cluster: Cluster,
    pub config: Config,
    pub replicas: Vec<Replica>,
    /// Those that were killed, whose ports may not be free yet.
    killed: Vec<Replica>,
    pub clock: Clock,
    pub seed: Seed,
}

/// What the contract says in tens of seconds is said here in one.
fn mk_limits() -> Limits {
    Limits {
        stale_after: Duration::from_secs(3),
        reconnect_grace: Duration::from_secs(2),
        silent_after: Duration::from_secs(5),
        ..Limits::default()
    }
}

impl Setup {
    /// Replicas that soon give up whoever is silent.
    pub async fn new(members: usize, replicas: usize) -> Self {
        let mut setup = Self::prepare(members);
        setup.config.limits = mk_limits();
        setup.config.presence_for = Duration::from_secs(3);
        setup.start_all(replicas).await;
        setup
    }

    /// Replicas that give nobody up while a test lasts, for tests in which nothing may end.
    pub async fn patient(members: usize, replicas: usize) -> Self {
        let mut setup = Self::prepare(members);
        let patience = Duration::from_secs(60);
        setup.config.limits.silent_after = patience;
        setup.config.presence_for = patience;
        setup.config.cut_off_after = patience;
        setup.start_all(replicas).await;
        setup
    }

    fn prepare(members: usize) -> Self {
        let mut cluster = Cluster::prepare(members, None);
        for member in 0..members {
            // Who leads is known again soon: a replica gives its readers up when it has waited for 5 s.
            let elections = ["--heartbeat-interval=50", "--election-timeout=500"];
            cluster.set_arguments(member, &elections.map(str::to_owned));
            cluster.run(member);
        }
        let config = Config {
            snapshot_after: SnapshotAfter {
                entries: 20,
                bytes: 100_000,
            },
            ..Config::new(cluster.endpoints())
        };
        Self {
            cluster,
            config,
            replicas: Vec::new(),
            killed: Vec::new(),
            clock: Clock::system(),
            seed: Seed::new(1),
        }
    }

    async fn start_all(&mut self, replicas: usize) {
        for _ in 0..replicas {
            self.start().await;
        }
    }

    /// Starts one more replica, and waits until it takes part.
    pub async fn start(&mut self) {
        // Nobody else takes its port between its end and another start there.
        self.start_at(&free_address().unwrap().to_string()).await;
    }

    /// The same, where one was before.
    pub async fn start_at(&mut self, address: &str) {
        for mut killed in self.killed.drain(..) {
            soon("its port is free", &mut killed.serving).await.unwrap();
        }
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let url = format!("http://{address}");
        let options = ServerOptions {
            bookmark_every: Duration::from_millis(200),
            ..ServerOptions::default()
        };
        let server = Server::idle(options, &self.clock, &self.seed);
        let (status, stop) = (etcd::Status::default(), CancellationToken::new());
        let (config, of, clock, seed) = (self.config.clone(), server.clone(), self.clock.clone(), self.seed.clone());
        let told = status.clone();
        let engines = tokio::spawn(async move {
            Box::pin(etcd::serve(&config, &of, &clock, &seed, &told)).await;
        });
        let serving = tokio::spawn(server.clone().serve(listener, stop.clone()));
        let engines = engines.abort_handle();
        let replica = Replica {
            server,
            address,
            url,
            status,
            engines,
            stop,
            serving,
        };
        soon("the replica takes part", replica.until_ready()).await;
        self.replicas.push(replica);
    }

    /// Ends a replica as a crash would: it says nothing more to etcd.
    pub fn kill(&mut self, index: usize) {
        let replica = self.replicas.remove(index);
        replica.engines.abort();
        replica.stop.cancel();
        replica.server.kill();
        self.killed.push(replica);
    }

    /// An engine of the same bus beside the replicas'. Like them it begins again while etcd takes longer to answer than it is given, and if
    /// what it reads is compacted meanwhile.
    pub async fn connect(&self) -> (Etcd, Driver) {
        let connected = async {
            loop {
                match etcd::connect(&self.config, &self.seed, || self.clock.now()).await {
                    Ok(connected) => break connected,
                    Err(Error::Unavailable(_) | Error::Compacted) => tokio::time::sleep(Duration::from_millis(10)).await,
                    Err(error) => panic!("{error}"),
                }
            }
        };
        soon("etcd was read", connected).await
    }

    pub fn bus(&self) -> Bus {
        Bus::connect_any(self.replicas.iter().map(|replica| replica.url.as_str()))
    }

    pub fn bus_of(&self, index: usize) -> Bus {
        Bus::connect(&self.replicas[index].url)
    }

    pub fn publish(&self, bus: &Bus, producer: &str, epoch: u64) -> Publisher {
        let options = mk_publishing(producer, HEALTH, (0, 1), epoch);
        let publisher = publish(bus, options, &self.clock, &self.seed);
        self.report(&publisher);
        publisher
    }

    pub fn report(&self, publisher: &Publisher) {
        let now = self.clock.now().mono;
        publisher.report(now, Some(now));
    }

    /// Reports for as long as it takes to be seen.
    pub async fn until_live(&self, publisher: &Publisher, follower: &mut Follower) {
        let seen = async {
            while !follower.is_live(HEALTH, 0) {
                self.report(publisher);
                follower.step().await;
            }
        };
        soon("liveness is seen", seen).await;
    }

    pub fn follow(&self, bus: &Bus, subscriber: &str) -> Follower {
        Follower::new(subscribe(bus, mk_following(subscriber, &[HEALTH]), &self.clock, &self.seed))
    }
}

impl Replica {
    pub async fn until_ready(&self) {
        while self.status.trouble().is_some() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until it says this; others may have counted it as gone before.
    pub async fn until_trouble(&self, wanted: &str) {
        while !self.status.trouble().is_some_and(|trouble| trouble.contains(wanted)) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.engines.abort();
        self.stop.cancel();
    }
}

pub async fn until(what: &str, follower: &mut Follower, wanted: impl Fn(&Follower) -> bool) {
    soon(what, follower.until(wanted)).await;
}
