//! The whole system as processes: a sandbox, a bus, two replicas of each stage, and a way to break between any two of them.
//! What is done to it is in [`faults`], what its cluster looks like in [`cluster`] and [`daemons`].

mod certificates;
mod cluster;
mod daemons;
mod faults;
mod members;
mod replica;
mod stage;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use bailiff_model::{Shard, Zone};
use bailiff_processes::free_address;

use super::clock;
use super::faketime::WallClock;
use super::judge::Premises;
use super::program::{How, Program, Word};
use super::proxy::Proxy;
use super::record::{Record, Stop};
use super::support::{ApiServer, Serving};
use super::witness::{WITNESS, Witness};
pub use cluster::{PER_ZONE, SILENT_ZONE, TOLERATION};
pub use daemons::{ALL as DAEMON_SETS, DaemonSet};
pub use faults::{Whose, python};
use members::Members;
use replica::Replica;
pub use stage::{GRACE, LEASE, RATE, Stage};

/// Far beyond what anything here takes; it only ends a run that hangs.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// A replica of the bus: found again under its old address when it is started again.
struct Bus {
    address: SocketAddr,
    how: How,
    /// The ways to the members of etcd.
    ways: Vec<Proxy>,
    program: Program,
    /// It says that etcd serves it.
    has_etcd: bool,
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
    pub record: Record,
    pub premises: Premises,
    api: Arc<ApiServer>,
    replicas: Vec<Replica>,
    buses: Vec<Bus>,
    /// What several replicas of the bus share.
    etcd: Option<Members>,
    shards: BTreeMap<Stage, u32>,
    starts: u64,
    /// Edits of the DaemonSets so far.
    edits: u32,
    news: Receiver<(u64, Word)>,
    tell: SyncSender<(u64, Word)>,
    /// What all processes find in their environment.
    environment: Vec<(&'static str, String)>,
    directory: tempfile::TempDir,
    _sandbox: Serving,
}

impl System {
    /// Starts everything.
    pub fn start(engine: Engine) -> Self {
        Self::start_with(engine, Vec::new())
    }

    /// The same, with this in the environment of all processes.
    pub fn start_with(engine: Engine, environment: Vec<(&'static str, String)>) -> Self {
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
        let mut system = Self {
            witness,
            record: Record::default(),
            premises: Premises::default(),
            api,
            replicas: Vec::new(),
            buses: Vec::new(),
            etcd: (engine == Engine::Etcd).then(Members::start),
            shards: Stage::ALL.map(|stage| (stage, 1)).into(),
            starts: 1,
            edits: 0,
            news,
            tell,
            environment,
            directory,
            _sandbox: sandbox,
        };
        let buses = if engine == Engine::Etcd { 2 } else { 1 };
        (0..buses).for_each(|_| system.add_bus());
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
        let start = self.next_start();
        let file = |what: &str| {
            self.directory
                .path()
                .join(format!("{what}-{}-{number}-{start}", stage.name()))
        };
        let (kubeconfig, clock) = (file("kubeconfig"), WallClock::new(&file("clock")));
        self.api.write_kubeconfig(&kubeconfig, api.address);
        let addresses: Vec<SocketAddr> = bus.iter().map(|bus| bus.address).collect();
        let shards = self.shards[&stage];
        let mut flags = stage.flags(shards, &kubeconfig, &addresses);
        flags.extend(certificates::flags(self.directory.path(), stage.name()));
        let times = clock.iter().flat_map(WallClock::environment).collect();
        let how = How::ours(stage.name(), flags, [self.environment.clone(), times].concat());
        self.replicas.push(Replica {
            id: start,
            stage,
            shards,
            api,
            bus,
            clock,
            program: Program::start(&how, start, self.tell.clone()),
            how,
            leads: BTreeSet::new(),
            has_led: false,
            stands_by: BTreeSet::new(),
            publishes: false,
            changes: 0,
            minds_signals: false,
            is_down: false,
        });
    }

    fn add_bus(&mut self) {
        let address = free_address().unwrap();
        let mut flags = certificates::flags(self.directory.path(), "event-bus").to_vec();
        flags.push(format!("--listen={address}"));
        let members = self.etcd.iter().flat_map(Members::addresses);
        let ways: Vec<Proxy> = members.map(Proxy::to).collect();
        if !ways.is_empty() {
            let urls: Vec<String> = ways.iter().map(|way| format!("http://{}", way.address)).collect();
            flags.extend(["--engine=etcd".to_owned(), format!("--etcd-endpoints={}", urls.join(","))]);
        }
        let how = How::ours("event-bus", flags, self.environment.clone());
        let program = Program::start(&how, self.next_start(), self.tell.clone());
        self.buses.push(Bus {
            address,
            how,
            ways,
            program,
            has_etcd: false,
        });
    }

    fn next_start(&mut self) -> u64 {
        self.starts += 1;
        self.starts
    }

    /// Starts a replica of the bus again.
    fn start_bus(&mut self, number: usize) {
        let start = self.next_start();
        let bus = &mut self.buses[number];
        bus.has_etcd = false;
        bus.program = Program::start(&bus.how, start, self.tell.clone());
    }

    /// Waits until `is_so`, taking in what happens.
    fn until(&mut self, what: &str, mut is_so: impl FnMut(&mut Self) -> bool) {
        let end = clock::now() + DEADLINE;
        while !is_so(self) {
            if !self.take_one(end) {
                panic!("{what} was not seen: {self}");
            }
        }
    }

    /// Waits until somebody who is asked over and over answers that it is so, taking in what happens.
    pub fn until_answered(&mut self, what: &str, mut is_so: impl FnMut(&mut Self) -> bool) {
        let end = clock::now() + DEADLINE;
        while !is_so(self) {
            assert!(clock::now() < end, "{what} was not seen: {self}");
            self.take_until(clock::now() + Duration::from_millis(100));
        }
    }

    /// Takes in what happens until then.
    fn take_until(&mut self, end: Instant) {
        while self.take_one(end) {}
    }

    fn take_one(&mut self, end: Instant) -> bool {
        match self.news.recv_timeout(end.saturating_duration_since(clock::now())) {
            Ok((start, word)) => {
                self.take(start, &word);
                clock::now() < end
            }
            Err(RecvTimeoutError::Timeout) => false,
            Err(RecvTimeoutError::Disconnected) => unreachable!("a sender is kept"),
        }
    }

    fn take(&mut self, start: u64, word: &Word) {
        if start == WITNESS {
            return;
        }
        if let (Some(bus), Word::Logged(line)) = (self.buses.iter_mut().find(|bus| bus.program.start == start), word) {
            return bus.hear(line);
        }
        let Some(number) = self.replicas.iter().position(|replica| replica.program.start == start) else {
            return;
        };
        match word {
            Word::Logged(line) => self.replicas[number].hear(line),
            Word::Ended => {
                if let Entry::Vacant(end) = self.record.ends.entry(start) {
                    end.insert(clock::wall());
                    // It had to stop by itself, and its last write may have been under way.
                    let replica = &self.replicas[number];
                    let evicted = replica.stage == Stage::ZoneEvictor && replica.has_led;
                    self.record.evictors_stopped += usize::from(evicted);
                }
                self.replicas[number].ended();
                if !self.replicas[number].is_down {
                    self.restart(number);
                }
            }
        }
    }

    fn restart(&mut self, number: usize) {
        let start = self.next_start();
        self.replicas[number].start(start, self.tell.clone());
    }

    /// Every shard of the stage, as it is divided now, is led by one of these.
    fn is_led(&self, stage: Stage, by: impl Fn(&Replica) -> bool) -> bool {
        let shards = self.shards[&stage];
        let is_one = |replica: &&Replica| replica.stage == stage && replica.shards == shards && by(replica);
        let of_stage = self.replicas.iter().filter(is_one);
        let led: BTreeSet<String> = of_stage.flat_map(|replica| replica.leads.iter().cloned()).collect();
        let leases: BTreeSet<String> = (0..shards).map(|shard| format!("{}-{shard}", stage.name())).collect();
        leases.is_subset(&led)
    }

    /// The replica that leads the shard that matters.
    fn leader(&mut self, stage: Stage) -> usize {
        self.until("a leader", |system| system.is_led(stage, |_| true));
        let lease = self.lease(stage);
        let leads = |replica: &Replica| replica.leads.contains(&lease);
        self.replicas.iter().position(leads).unwrap()
    }

    /// The Lease that matters: of the zone-evictor's that of the silent zone, which is the only one with something to do.
    fn lease(&self, stage: Stage) -> String {
        let count = self.shards[&stage];
        let zone = Zone::new("sandbox", SILENT_ZONE);
        let is_its = |index: &u32| Shard { index: *index, count }.owns_zone(&zone);
        let index = (0..count).find(|index| stage != Stage::ZoneEvictor || is_its(index));
        format!("{}-{}", stage.name(), index.expect("shards share all zones out"))
    }

    /// A replica is about to be stopped, in one way or another.
    fn note_stop(&mut self, number: usize) {
        let replica = &self.replicas[number];
        let (start, at) = (replica.program.start, clock::wall());
        for lease in &replica.leads {
            let stands_by = |other: &&Replica| other.program.start != start && other.stands_by.contains(lease);
            self.record.stops.push(Stop {
                lease: lease.clone(),
                at,
                standbys: self
                    .replicas
                    .iter()
                    .filter(stands_by)
                    .map(|other| other.program.start)
                    .collect(),
            });
        }
        self.note_end(number);
    }

    /// A replica is about to be no candidate any more.
    fn note_end(&mut self, number: usize) {
        let replica = &self.replicas[number];
        if replica.stage == Stage::ZoneEvictor && !replica.leads.is_empty() {
            self.record.evictors_stopped += 1;
        }
        self.record.ends.entry(replica.program.start).or_insert_with(clock::wall);
    }
}

impl Bus {
    /// Takes note of what its process says.
    fn hear(&mut self, line: &serde_json::Value) {
        if line["check"] == "etcd" {
            self.has_etcd = line["message"] == "ready";
        }
    }
}

impl std::fmt::Display for System {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f)?;
        for replica in &self.replicas {
            let Replica {
                stage,
                leads,
                publishes,
                shards,
                ..
            } = replica;
            writeln!(f, "{} of {shards} leads {leads:?}, publishes: {publishes}", stage.name())?;
        }
        self.witness.with(|seen| {
            let troubled = seen.nodes.values().filter(|node| node.is_troubled).count();
            let isolated = seen.nodes.values().filter(|node| !node.isolated.is_empty()).count();
            let left = seen.pods.values().filter(|pod| pod.ended.is_none()).count();
            writeln!(
                f,
                "{troubled} nodes are in trouble, {isolated} were isolated, {left} pods are there"
            )?;
            writeln!(f, "{:?}", seen.leases)
        })
    }
}
