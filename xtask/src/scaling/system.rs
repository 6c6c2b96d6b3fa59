//! The processes that are measured, and what they tell together.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bailiff_processes::{BINARY, Directory, Program, Server, free_address, metrics};
use serde_json::json;

use super::flags::Flags;

/// Far beyond what anything here takes; it only ends a run that hangs.
const DEADLINE: Duration = Duration::from_secs(900);

/// Between two looks: short against what is measured, long against what a look costs.
const LOOK: Duration = Duration::from_millis(100);

/// Kubelets renew every 10 s; one that has not for longer has too much to do.
const RENEWED: Duration = Duration::from_secs(12);

/// Nodes that are asked whether they do.
const ASKED: usize = 16;

/// How many tell the sandbox of nodes that fail: enough to keep it busy.
const HANDS: usize = 4;

/// The stages that are divided by nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Monitor,
    Taints,
}

/// One process of a stage.
#[derive(Debug)]
pub(crate) struct Replica {
    pub(crate) stage: Stage,
    pub(crate) program: Program,
}

/// Everything that runs. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct System {
    pub(crate) shards: u32,
    flags: Flags,
    binaries: PathBuf,
    directory: Directory,
    api: Server,
    bus: String,
    nodes: Vec<String>,
    started: u32,
    pub(crate) sandbox: Program,
    pub(crate) event_bus: Program,
    pub(crate) replicas: Vec<Replica>,
}

// === impl Stage ===

impl Stage {
    pub(crate) const ALL: [Self; 2] = [Self::Monitor, Self::Taints];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Monitor => "node-health-monitor",
            Self::Taints => "taint-manager",
        }
    }

    /// The check on its readiness that says that it does its work.
    const fn check(self) -> &'static str {
        match self {
            Self::Monitor => "node health",
            Self::Taints => "eviction intents",
        }
    }
}

// === impl System ===

impl System {
    /// Starts the sandbox and the bus.
    pub(crate) fn start(flags: &Flags, shards: u32, binaries: &Path) -> Result<Self, String> {
        let directory = Directory::make("bailiff-scaling")?;
        let kubeconfig = directory.path().join("kubeconfig");
        let sandbox = [
            "sandbox".to_owned(),
            "--listen=127.0.0.1:0".to_owned(),
            format!("--nodes={}", flags.nodes),
            format!("--pods-per-node={}", flags.pods_per_node),
            format!("--write-kubeconfig={}", kubeconfig.display()),
        ];
        let mut sandbox = Program::start(&binaries.join(BINARY), "sandbox".to_owned(), &sandbox)?;
        // It writes the file, whole, when everything is there and before it listens.
        wait("the sandbox", || {
            sandbox.check()?;
            Ok(Server::of(&kubeconfig).is_ok_and(|api| api.get("/readyz").is_ok()))
        })?;
        let api = Server::of(&kubeconfig)?;
        let bus = free_address()?.to_string();
        let listen = vec!["event-bus".to_owned(), format!("--listen={bus}")];
        let event_bus = Program::serve(&binaries.join(BINARY), "event-bus".to_owned(), listen)?;
        let nodes = names(&api)?;
        // While it was filled nobody renewed: to whoever looks now all nodes are late.
        wait("renewals of Leases", || {
            sandbox.check()?;
            let before = renewals(&api, &nodes)?;
            std::thread::sleep(RENEWED);
            let after = renewals(&api, &nodes)?;
            Ok(before.iter().zip(&after).all(|(before, after)| before != after))
        })?;
        Ok(Self {
            shards,
            flags: flags.clone(),
            binaries: binaries.to_path_buf(),
            directory,
            api,
            bus,
            nodes,
            started: 0,
            sandbox,
            event_bus,
            replicas: Vec::new(),
        })
    }

    /// Starts one replica more.
    pub(crate) fn add(&mut self, stage: Stage) -> Result<(), String> {
        self.started += 1;
        let (name, qps) = (stage.name(), self.flags.qps);
        let flags = vec![
            name.to_owned(),
            format!("--kubeconfig={}", self.directory.path().join("kubeconfig").display()),
            format!("--bus={}", self.bus),
            format!("--shards={}", self.shards),
            format!("--kube-api-qps={qps}"),
            format!("--kube-api-burst={qps}"),
        ];
        let program = Program::serve(&self.binaries.join(BINARY), format!("{name} {}", self.started), flags)?;
        self.replicas.push(Replica { stage, program });
        Ok(())
    }

    /// Waits until `is_so`; a process that ends ends this.
    pub(crate) fn until(&mut self, what: &str, mut is_so: impl FnMut(&Self) -> Result<bool, String>) -> Result<(), String> {
        wait(what, || {
            self.sandbox.check()?;
            self.event_bus.check()?;
            self.replicas.iter_mut().try_for_each(|replica| replica.program.check())?;
            is_so(self)
        })
    }

    /// Waits until every shard is led, as evenly as can be, and what leads is ready.
    pub(crate) fn settle(&mut self) -> Result<(), String> {
        self.until("leaders of all shards", |system| {
            Ok(Stage::ALL.iter().all(|&stage| system.is_settled(stage)))
        })
    }

    fn is_settled(&self, stage: Stage) -> bool {
        let of_stage = || self.replicas.iter().filter(|replica| replica.stage == stage);
        let leads: Vec<usize> = of_stage().map(|replica| replica.program.leads().len()).collect();
        let (least, most) = (leads.iter().min(), leads.iter().max());
        let is_even = least.zip(most).is_some_and(|(least, most)| most - least < 2);
        let led = leads.iter().sum::<usize>() == self.shards as usize;
        led && is_even && of_stage().all(|replica| replica.leads_none() || replica.is_ready())
    }

    /// Who leads the first shard of a stage.
    pub(crate) fn leader(&self, stage: Stage) -> Option<usize> {
        let lease = format!("{}-0", stage.name());
        let mut replicas = self.replicas.iter();
        replicas.position(|replica| replica.stage == stage && replica.program.leads().contains(&lease))
    }

    /// What a metric of a stage adds up to, over its replicas.
    pub(crate) fn total(&self, stage: Stage, metric: &str, labels: &[(&str, &str)]) -> Result<f64, String> {
        let of_stage = self.replicas.iter().filter(|replica| replica.stage == stage);
        of_stage.map(|replica| replica.total(metric, labels)).sum()
    }

    /// These nodes fail, or are back; they are spread over all zones.
    pub(crate) fn set_failing(&self, are_failing: bool) -> Result<(), String> {
        let alive = are_failing.then_some("false");
        let patch = json!({"metadata": {"annotations": {"sandbox.bailiff.dev/alive": alive}}});
        let nodes = &self.nodes[..self.flags.failing as usize];
        let tell = |names: &[String]| {
            let mut names = names.iter();
            names.try_for_each(|name| self.api.patch(&format!("/api/v1/nodes/{name}"), &patch))
        };
        std::thread::scope(|scope| {
            let hands: Vec<_> = nodes
                .chunks(nodes.len().div_ceil(HANDS))
                .map(|part| scope.spawn(|| tell(part)))
                .collect();
            hands.into_iter().try_for_each(|hand| {
                hand.join()
                    .unwrap_or_else(|_| Err("the sandbox could not be told".to_owned()))
            })
        })
    }
}

// === impl Replica ===

impl Replica {
    /// It stands by.
    pub(crate) fn leads_none(&self) -> bool {
        self.program.leads().is_empty()
    }

    /// It does its work.
    pub(crate) fn is_ready(&self) -> bool {
        self.program.is_ready(self.stage.check())
    }

    /// What a metric adds up to, over its shards.
    pub(crate) fn total(&self, metric: &str, labels: &[(&str, &str)]) -> Result<f64, String> {
        Ok(metrics::sum(&self.program.metrics()?, metric, labels))
    }
}

/// The names of all nodes, in turns of their zones: `node-<zone>-<number>`.
fn names(api: &Server) -> Result<Vec<String>, String> {
    let text = api.get("/api/v1/nodes")?;
    let list: serde_json::Value = serde_json::from_str(&text).map_err(|error| format!("the list of nodes: {error}"))?;
    let items = list["items"].as_array().ok_or("the list of nodes has no items")?;
    let name = |node: &serde_json::Value| node["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let mut names: Vec<String> = items.iter().map(name).collect();
    names.sort_by_key(|name| name.rsplit('-').next().map(|number| (number.len(), number.to_owned())));
    Ok(names)
}

/// When some of the nodes renewed their Leases last.
fn renewals(api: &Server, nodes: &[String]) -> Result<Vec<String>, String> {
    let asked = nodes.iter().step_by(nodes.len().div_ceil(ASKED));
    let renewed = asked.map(|name| {
        let text = api.get(&format!(
            "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{name}"
        ))?;
        let lease: serde_json::Value = serde_json::from_str(&text).map_err(|error| format!("the Lease of {name}: {error}"))?;
        Ok(lease["spec"]["renewTime"].to_string())
    });
    renewed.collect()
}

fn wait(what: &str, mut is_so: impl FnMut() -> Result<bool, String>) -> Result<(), String> {
    let began = Instant::now();
    while !is_so()? {
        if began.elapsed() > DEADLINE {
            return Err(format!("{what}: not seen in {} s", DEADLINE.as_secs()));
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}
