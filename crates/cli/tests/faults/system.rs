//! The whole system as processes: a sandbox, a bus, two replicas of each stage, and a way to break between any two of them.
//! What is done to it is in [`faults`], what its cluster looks like in [`cluster`].

mod certificates;
mod cluster;
mod faults;
mod replica;
mod stage;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use super::etcd::Cluster;
use super::program::{Program, Word};
use super::proxy::Proxy;
use super::support::{ApiServer, Serving};
use super::witness::{WITNESS, Witness};
use cluster::PER_ZONE;
pub use cluster::{SILENT_ZONE, TOLERATION};
use replica::Replica;
pub use stage::{GRACE, RATE, Stage};

/// Far beyond what anything here takes; it only ends a run that hangs.
const DEADLINE: Duration = Duration::from_secs(120);

/// A replica of the bus: found again under its old address when it is started again.
struct Bus {
    address: SocketAddr,
    program: Program,
}

/// What keeps the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// One bus that forgets everything when it dies.
    Memory,
    /// Two replicas over three members of etcd.
    Etcd,
}

/// The system. Dropping it ends it.
pub struct System {
    pub witness: Witness,
    api: Arc<ApiServer>,
    replicas: Vec<Replica>,
    buses: Vec<Bus>,
    /// What several replicas of the bus share.
    etcd: Option<Cluster>,
    shards: BTreeMap<Stage, u32>,
    starts: u64,
    news: Receiver<(u64, Word)>,
    tell: SyncSender<(u64, Word)>,
    directory: tempfile::TempDir,
    _sandbox: Serving,
}

impl System {
    /// Starts everything.
    pub fn start(engine: Engine) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("kubeconfig");
        let write = format!("--write-kubeconfig={}", file.display());
        let nodes = format!("--nodes={}", 3 * PER_ZONE);
        let sandbox = Serving::start(&["sandbox", "--listen=127.0.0.1:0", &nodes, "--zones=3", &write]);
        sandbox.until("Served the sandbox");
        let api = Arc::new(ApiServer::of(&file));
        let (tell, news) = sync_channel(100_000);
        let witness = Witness::start(&api, &tell);
        certificates::make(directory.path());
        let (etcd, buses) = match engine {
            Engine::Memory => (None, 1),
            Engine::Etcd => (Some(Cluster::start(3)), 2),
        };
        let mut system = Self {
            witness,
            api,
            replicas: Vec::new(),
            buses: Vec::new(),
            etcd,
            shards: Stage::ALL.map(|stage| (stage, 1)).into(),
            starts: 1,
            news,
            tell,
            directory,
            _sandbox: sandbox,
        };
        for _ in 0..buses {
            let address = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
            let program = system.start_bus(address);
            system.buses.push(Bus { address, program });
        }
        system.prepare();
        for stage in Stage::ALL {
            for number in 0..2 {
                system.add(stage, number);
            }
        }
        system
    }

    fn add(&mut self, stage: Stage, number: usize) {
        let api = Proxy::to(self.api.address());
        let bus: Vec<Proxy> = self.buses.iter().map(|bus| Proxy::to(bus.address)).collect();
        let file = self
            .directory
            .path()
            .join(format!("{}-{number}-{}", stage.name(), self.starts));
        self.api.write_kubeconfig(&file, api.address);
        let mut flags = stage.flags(self.shards[&stage], &file, &bus);
        flags.extend(certificates::flags(self.directory.path(), stage.name()));
        self.starts += 1;
        let program = Program::start(stage.name(), &flags, self.starts, self.tell.clone());
        self.replicas.push(Replica {
            stage,
            flags,
            api,
            bus,
            program,
            leads: BTreeSet::new(),
            publishes: false,
            changes: 0,
        });
    }

    fn start_bus(&mut self, address: SocketAddr) -> Program {
        let mut flags = certificates::flags(self.directory.path(), "event-bus").to_vec();
        flags.push(format!("--listen={address}"));
        if let Some(etcd) = &self.etcd {
            let url = |address| format!("http://{address}");
            let endpoints: Vec<String> = etcd.addresses().iter().map(url).collect();
            flags.extend([
                "--engine=etcd".to_owned(),
                format!("--etcd-endpoints={}", endpoints.join(",")),
            ]);
        }
        self.starts += 1;
        Program::start("event-bus", &flags, self.starts, self.tell.clone())
    }

    /// Waits until `is_so`, taking in what happens.
    #[expect(
        clippy::disallowed_methods,
        reason = "processes live in real time; it only ends a run that hangs"
    )]
    fn until(&mut self, what: &str, mut is_so: impl FnMut(&mut Self) -> bool) {
        let end = Instant::now() + DEADLINE;
        while !is_so(self) {
            let left = end.saturating_duration_since(Instant::now());
            let news = self.news.recv_timeout(left);
            let (start, word) = news.unwrap_or_else(|error| panic!("{what} was not seen, {error}: {self}"));
            self.take(start, &word);
        }
    }

    fn take(&mut self, start: u64, word: &Word) {
        if start == WITNESS {
            return;
        }
        let Some(replica) = self.replicas.iter_mut().find(|replica| replica.program.start == start) else {
            return;
        };
        match word {
            Word::Logged(line) => {
                let lease = line["lease"].as_str().unwrap_or_default().to_owned();
                match line["message"].as_str() {
                    Some("leading") => drop(replica.leads.insert(lease)),
                    Some("leading no more") => drop(replica.leads.remove(&lease)),
                    Some("Session was lost") => {
                        replica.publishes = false;
                        replica.changes += 1;
                    }
                    Some(message) if message.starts_with("Publishing ") => {
                        replica.publishes = true;
                        replica.changes += 1;
                    }
                    _ => {}
                }
            }
            Word::Ended => {
                // As the kubelet does with a container that ended.
                self.starts += 1;
                replica.leads.clear();
                replica.publishes = false;
                replica.program = Program::start(replica.stage.name(), &replica.flags, self.starts, self.tell.clone());
            }
        }
    }

    fn leases(&self, stage: Stage) -> BTreeSet<String> {
        (0..self.shards[&stage])
            .map(|shard| format!("{}-{shard}", stage.name()))
            .collect()
    }

    /// Every shard of the stage is led by one of these.
    fn is_led(&self, stage: Stage, by: impl Fn(&Replica) -> bool) -> bool {
        let of_stage = self.replicas.iter().filter(|replica| replica.stage == stage && by(replica));
        let led: BTreeSet<String> = of_stage.flat_map(|replica| replica.leads.iter().cloned()).collect();
        self.leases(stage).is_subset(&led)
    }

    /// The replica that leads the first shard.
    fn leader(&mut self, stage: Stage) -> usize {
        self.until("a leader", |system| system.is_led(stage, |_| true));
        let lease = format!("{}-0", stage.name());
        let leads = |replica: &Replica| replica.leads.contains(&lease);
        self.replicas.iter().position(leads).unwrap()
    }

    /// Waits until others than this replica lead all of its stage.
    fn until_followed(&mut self, leader: usize) {
        let (stage, start) = (self.replicas[leader].stage, self.replicas[leader].program.start);
        self.until("another leader", |system| {
            system.is_led(stage, |replica| replica.program.start != start)
        });
    }
}

impl std::fmt::Display for System {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for replica in &self.replicas {
            let Replica {
                stage, leads, publishes, ..
            } = replica;
            writeln!(f, "{} leads {leads:?}, publishes: {publishes}", stage.name())?;
        }
        self.witness.with(|seen| {
            let troubled = seen.nodes.iter().filter(|(_, node)| node.is_troubled);
            writeln!(f, "{:?}", troubled.collect::<Vec<_>>())
        })
    }
}
