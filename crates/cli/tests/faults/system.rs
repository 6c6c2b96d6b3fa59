//! The whole system as processes: a sandbox, a bus, two replicas of each stage, and a way to break between any two of them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::etcd::Cluster;
use super::program::{Program, Word};
use super::proxy::Proxy;
use super::support::{ApiServer, Serving, bailiff};
use super::witness::{WITNESS, Witness};

/// Far beyond what anything here takes; it only ends a run that hangs.
const DEADLINE: Duration = Duration::from_secs(120);

/// `--node-monitor-grace-period`.
pub const GRACE: SignedDuration = SignedDuration::from_secs(4);
/// `--node-eviction-rate`.
pub const RATE: f64 = 0.5;
/// How long the pods tolerate a silent node.
pub const TOLERATION: SignedDuration = SignedDuration::from_secs(3);
/// The zone that falls silent.
pub const SILENT_ZONE: &str = "sandbox-b";

const NODES: &str = "/api/v1/nodes";
const PODS: &str = "/api/v1/namespaces/default/pods";
const PER_ZONE: usize = 12;

/// Those that say when they publish.
const PUBLISHERS: [Stage; 3] = [Stage::NodeHealthMonitor, Stage::TaintManager, Stage::ZoneEvictor];

/// The stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    NodeHealthMonitor,
    TaintManager,
    ZoneEvictor,
    DaemonsetSyncer,
}

impl Stage {
    const ALL: [Self; 4] = [
        Self::NodeHealthMonitor,
        Self::TaintManager,
        Self::ZoneEvictor,
        Self::DaemonsetSyncer,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::NodeHealthMonitor => "node-health-monitor",
            Self::TaintManager => "taint-manager",
            Self::ZoneEvictor => "zone-evictor",
            Self::DaemonsetSyncer => "daemonset-syncer",
        }
    }
}

/// One replica: a process that is started again when it ends, as the kubelet would.
struct Replica {
    stage: Stage,
    flags: Vec<String>,
    api: Proxy,
    /// The ways to all replicas of the bus.
    bus: Vec<Proxy>,
    program: Program,
    /// Leases it says it holds.
    leads: BTreeSet<String>,
    /// It says that it publishes.
    publishes: bool,
    /// How often it began to publish, or lost the bus.
    changes: usize,
}

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
        make_certificates(directory.path());
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

    /// Kubelets that renew often, and pods that tolerate little.
    fn prepare(&self) {
        let all = self.api.request("GET", NODES, "application/json", &Value::Null);
        for node in all["items"].as_array().unwrap() {
            let name = node["metadata"]["name"].as_str().unwrap();
            self.annotate(name, &json!({"sandbox.bailiff.dev/lease-interval": "500ms"}));
            if node["metadata"]["labels"]["topology.kubernetes.io/zone"] == "sandbox-c" {
                continue;
            }
            let tolerations = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"].map(
                |key| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATION.as_secs()}),
            );
            let pod = json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("app-{name}")},
                "spec": {"nodeName": name, "tolerations": tolerations, "containers": [{"name": "main", "image": "pause"}]},
            });
            self.api.request("POST", PODS, "application/json", &pod);
        }
    }

    fn annotate(&self, node: &str, annotations: &Value) {
        let patch = json!({"metadata": {"annotations": annotations}});
        self.api
            .request("PATCH", &format!("{NODES}/{node}"), "application/merge-patch+json", &patch);
    }

    fn add(&mut self, stage: Stage, number: usize) {
        let api = Proxy::to(self.api.address());
        let bus: Vec<Proxy> = self.buses.iter().map(|bus| Proxy::to(bus.address)).collect();
        let file = self
            .directory
            .path()
            .join(format!("{}-{number}-{}", stage.name(), self.starts));
        self.api.write_kubeconfig(&file, api.address);
        let mut flags = flags(stage, self.shards[&stage], &file, &bus);
        flags.extend(tls(self.directory.path(), stage.name()));
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
        let mut flags = tls(self.directory.path(), "event-bus").to_vec();
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

    // === what happens ===

    /// Waits until everything works.
    pub fn settle(&mut self) {
        for stage in Stage::ALL {
            self.leader(stage);
        }
        self.until_published();
        self.until("all nodes", |system| {
            system
                .witness
                .with(|seen| seen.nodes.values().filter(|node| !node.is_troubled).count() == 3 * PER_ZONE)
        });
    }

    /// Waits until the leaders publish.
    fn until_published(&mut self) {
        for stage in PUBLISHERS {
            self.until("a producer", |system| system.is_led(stage, |replica| replica.publishes));
        }
    }

    /// A zone falls silent.
    pub fn silence(&self) {
        self.set_alive("false");
    }

    /// It is back.
    pub fn wake(&self) {
        self.set_alive("true");
    }

    fn set_alive(&self, alive: &str) {
        let nodes = self.witness.with(|seen| seen.nodes.clone());
        for (name, _) in nodes.iter().filter(|(_, node)| node.zone == SILENT_ZONE) {
            self.annotate(name, &json!({"sandbox.bailiff.dev/alive": alive}));
        }
    }

    pub fn until_isolated(&mut self, nodes: usize) {
        self.until("an isolation", |system| system.witness.isolated() >= nodes);
    }

    pub fn until_emptied(&mut self) {
        self.until("the last eviction", |system| {
            system.witness.with(|seen| {
                let silent = seen.pods.values().filter(|pod| seen.nodes[&pod.node].zone == SILENT_ZONE);
                silent.into_iter().all(|pod| pod.deleted.is_some())
            })
        });
    }

    pub fn until_recovered(&mut self) {
        self.until("the recovery", |system| {
            system.witness.with(|seen| seen.nodes.values().all(|node| !node.is_troubled))
        });
    }

    // === faults ===

    pub fn kill(&mut self, stage: Stage) {
        let leader = self.leader(stage);
        // The process that leads may be started again at once: another start of it may follow it, too.
        let start = self.replicas[leader].program.start;
        self.replicas[leader].program.kill();
        self.until("another leader", |system| {
            system.is_led(stage, |replica| replica.program.start != start)
        });
    }

    pub fn pause(&mut self, stage: Stage) {
        let leader = self.leader(stage);
        let start = self.replicas[leader].program.start;
        self.replicas[leader].program.signal("-STOP");
        self.until_followed(leader);
        self.replicas[leader].program.signal("-CONT");
        self.until("the end of who was stopped", |system| {
            system.replicas[leader].program.start != start
        });
    }

    pub fn cut_from_api(&mut self, stage: Stage) {
        let leader = self.leader(stage);
        self.replicas[leader].api.cut(true);
        let start = self.replicas[leader].program.start;
        self.until("another leader", |system| {
            system.is_led(stage, |replica| replica.program.start != start)
        });
        self.replicas[leader].api.cut(false);
    }

    pub fn cut_from_bus(&mut self, stage: Stage) {
        let leader = self.leader(stage);
        self.replicas[leader].bus.iter().for_each(|bus| bus.cut(true));
        self.until("the loss of the bus", |system| !system.replicas[leader].publishes);
        assert!(self.is_led(stage, |_| true), "the bus is no reason to lead no more");
        self.replicas[leader].bus.iter().for_each(|bus| bus.cut(false));
        self.until_published();
    }

    /// All replicas of the bus are killed, and started again.
    pub fn kill_bus(&mut self) {
        self.buses.iter_mut().for_each(|bus| bus.program.kill());
        for stage in PUBLISHERS {
            self.until("the loss of the bus", |system| {
                let mut of_stage = system.replicas.iter().filter(|replica| replica.stage == stage);
                of_stage.all(|replica| !replica.publishes)
            });
        }
        for number in 0..self.buses.len() {
            self.buses[number].program = self.start_bus(self.buses[number].address);
        }
        self.until_published();
    }

    /// One replica of the bus is killed: whoever was connected to it goes on with another.
    pub fn kill_a_bus(&mut self) {
        self.until_published();
        self.buses[0].program.kill();
        self.until_published();
        self.buses[0].program = self.start_bus(self.buses[0].address);
    }

    /// A member of etcd is killed, and started again on its data.
    pub fn kill_a_member(&mut self) {
        let isolated = self.witness.isolated();
        let etcd = self.etcd.as_mut().expect("etcd keeps the bus");
        etcd.kill(0);
        self.until_isolated(isolated + 1);
        self.etcd.as_mut().expect("etcd keeps the bus").run(0);
    }

    /// All members of etcd are stopped until the stages have lost the bus.
    pub fn stop_etcd(&mut self) {
        self.until_published();
        let before = self.connections();
        let etcd = self.etcd.as_ref().expect("etcd keeps the bus");
        (0..3).for_each(|member| etcd.stop(member));
        self.until_changed(&before);
        let etcd = self.etcd.as_ref().expect("etcd keeps the bus");
        (0..3).for_each(|member| etcd.go_on(member));
        self.until_published();
    }

    fn until_changed(&mut self, before: &BTreeMap<u64, usize>) {
        self.until("the end of the old connections", |system| {
            let now = system.connections();
            // Who was started again meanwhile has no old connection.
            let mut all = before.iter();
            all.all(|(start, changes)| now.get(start).is_none_or(|more| more > changes))
        });
    }

    /// All certificates are replaced at once, the CA's too: who reads them late does not understand who was early.
    pub fn replace_certificates(&mut self) {
        self.until_published();
        let before = self.connections();
        make_certificates(self.directory.path());
        self.until_changed(&before);
        self.until_published();
    }

    /// How often those that publish got or lost a connection to the bus, by their starts.
    fn connections(&self) -> BTreeMap<u64, usize> {
        let leads = |replica: &&Replica| PUBLISHERS.contains(&replica.stage) && !replica.leads.is_empty();
        let publishers = self.replicas.iter().filter(leads);
        publishers.map(|replica| (replica.program.start, replica.changes)).collect()
    }

    /// A rolling update: a new replica is started before an old one is ended.
    pub fn divide(&mut self, stage: Stage, shards: u32) {
        self.shards.insert(stage, shards);
        let (old, others): (Vec<_>, Vec<_>) = self.replicas.drain(..).partition(|replica| replica.stage == stage);
        self.replicas = others;
        for (number, replica) in old.into_iter().enumerate() {
            self.add(stage, number);
            assert_eq!(replica.program.stop(), Some(0), "SIGTERM is a reason to end, not a failure");
        }
        self.until("leaders of all shards", |system| system.is_led(stage, |_| true));
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

/// A CA and certificates of it for everybody, in the place of any that were there.
fn make_certificates(directory: &Path) {
    let path = directory.join("certs");
    let made = bailiff(&["certs", &path.display().to_string(), "--force"]);
    assert_eq!(made.code, Some(0), "{made:?}");
}

fn tls(directory: &Path, role: &str) -> [String; 3] {
    let path = directory.join("certs");
    [
        ("cert-file", format!("{role}.crt")),
        ("private-key-file", format!("{role}.key")),
        ("ca-file", "ca.crt".to_owned()),
    ]
    .map(|(flag, file)| format!("--tls-{flag}={}", path.join(file).display()))
}

fn flags(stage: Stage, shards: u32, kubeconfig: &Path, bus: &[Proxy]) -> Vec<String> {
    let bus: Vec<String> = bus.iter().map(|bus| bus.address.to_string()).collect();
    let mut flags = vec![
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--bus={}", bus.join(",")),
        format!("--shards={shards}"),
        "--kube-api-qps=200".to_owned(),
        "--leader-elect-lease-duration=4s".to_owned(),
        "--leader-elect-renew-deadline=3s".to_owned(),
        "--leader-elect-retry-period=500ms".to_owned(),
    ];
    match stage {
        Stage::NodeHealthMonitor => flags.extend([
            "--node-monitor-period=500ms".to_owned(),
            format!("--node-monitor-grace-period={}s", GRACE.as_secs()),
            format!("--node-startup-grace-period={}s", 2 * GRACE.as_secs()),
        ]),
        Stage::ZoneEvictor => flags.push(format!("--node-eviction-rate={RATE}")),
        Stage::TaintManager | Stage::DaemonsetSyncer => {}
    }
    flags
}
