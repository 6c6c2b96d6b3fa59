//! All processes, through the loss of a zone, and what they answered before and after.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use tokio::time::MissedTickBehavior;

use super::openmetrics::{Family, Sample, parse};
use super::support::{ApiServer, DEADLINE, Serving, bailiff, field};

pub const BUS: &str = "event-bus";
/// A bus that is to keep its state in etcd, which nobody serves: it has the metrics of that all the same.
pub const BUS_OVER_ETCD: &str = "event-bus --engine=etcd";
pub const STAGES: [&str; 4] = ["node-health-monitor", "taint-manager", "zone-evictor", "daemonset-syncer"];
/// Everything in one process.
pub const RUN: &str = "bailiff run";

const NODES: &str = "/api/v1/nodes";
const PODS: &str = "/api/v1/namespaces/default/pods";
const DAEMON_SETS: &str = "/apis/apps/v1/namespaces/default/daemonsets";
const MERGE: &str = "application/merge-patch+json";
/// More than any metric could have series for by accident.
pub const PER_ZONE: usize = 8;
pub const ZONES: usize = 3;

/// What all processes answered at one time, by process.
pub type Scrape = BTreeMap<&'static str, Vec<Family>>;

/// What was seen of all processes.
pub struct Played {
    /// All is well.
    pub before: Scrape,
    /// A zone is silent and emptied, another one is paused node by node.
    pub after: Scrape,
    /// Names, uids and namespaces of all objects that the API server has, or had.
    pub objects: BTreeSet<String>,
}

/// Played once for all tests.
pub static PLAYED: LazyLock<Played> = LazyLock::new(|| {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(play())
});

/// A value of a process' metric with this label, or without any; 0 if there is none.
pub fn value(scrape: &Scrape, process: &str, sample: &str, label: Option<(&str, &str)>) -> f64 {
    let samples = scrape[process].iter().flat_map(|family| &family.samples);
    let is_it = |found: &&Sample| {
        let has = |(name, value): (&str, &str)| found.labels.get(name).is_some_and(|other| other == value);
        found.name == sample && label.is_none_or(has)
    };
    samples.filter(is_it).map(|found| found.value).sum()
}

async fn play() -> Played {
    let system = System::start().await;
    system.populate();
    let before = system.until("that all is well", is_well).await;
    system.pause();
    system.silence();
    let after = system
        .until("the end of the evictions", |scrape| is_emptied(scrape) && is_well(scrape))
        .await;
    Played {
        before,
        after,
        objects: system.objects(),
    }
}

/// All stages lead, and say that they know everything.
fn is_well(scrape: &Scrape) -> bool {
    let nodes = (PER_ZONE * ZONES) as f64;
    let judges = [
        ("node-health-monitor", "node_health_monitor_nodes"),
        (RUN, "node_health_monitor_nodes"),
    ];
    let leads = |process: &&str| value(scrape, process, "leader_election_master_status", None) > 0.0;
    STAGES.iter().chain([&RUN]).all(leads)
        && judges
            .iter()
            .all(|(process, name)| value(scrape, process, name, None) >= nodes)
        && [BUS, RUN]
            .iter()
            .all(|bus| value(scrape, bus, "event_bus_shard_complete", None) >= 4.0)
        && value(scrape, "zone-evictor", "node_collector_zone_size", None) >= nodes
        && value(
            scrape,
            "daemonset-syncer",
            "daemonset_syncer_requests_total",
            Some(("request", "create_pod")),
        ) >= nodes
}

/// The silent zone has lost its pods, and the pauses are known.
fn is_emptied(scrape: &Scrape) -> bool {
    let zone = PER_ZONE as f64;
    let paused = |process: &&str| {
        let name = format!("{}_braked", process.replace('-', "_"));
        value(scrape, process, &name, Some(("scope", "node"))) >= zone
    };
    value(scrape, "zone-evictor", "node_collector_evictions_total", None) >= zone
        && value(scrape, "zone-evictor", "taint_eviction_controller_pod_deletions_total", None) >= zone
        && STAGES.iter().all(paused)
}

/// What is not zero, for people.
fn told(scrape: &Scrape) -> Vec<String> {
    let families = scrape
        .iter()
        .flat_map(|(process, families)| families.iter().map(move |family| (process, family)));
    let samples = families.flat_map(|(process, family)| family.samples.iter().map(move |sample| (process, sample)));
    let samples = samples.filter(|(_, sample)| sample.value != 0.0 && !sample.labels.contains_key("le"));
    samples
        .map(|(process, sample)| format!("{process}: {} {:?} {}", sample.name, sample.labels, sample.value))
        .collect()
}

/// Flags with which a stage takes seconds for what takes minutes.
fn quick(stage: &str) -> &'static [&'static str] {
    match stage {
        "node-health-monitor" => &[
            "--node-monitor-period=500ms",
            "--node-monitor-grace-period=3s",
            "--node-startup-grace-period=6s",
        ],
        "zone-evictor" => &["--node-eviction-rate=10"],
        _ => &[],
    }
}

struct System {
    api: ApiServer,
    /// With a client of its admin port each.
    processes: Vec<(&'static str, Serving, kube::Client)>,
    directory: tempfile::TempDir,
    _sandbox: Serving,
}

impl System {
    async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("kubeconfig");
        let sandbox = Serving::start(&[
            "sandbox",
            "--listen=127.0.0.1:0",
            &format!("--nodes={}", PER_ZONE * ZONES),
            &format!("--zones={ZONES}"),
            &format!("--write-kubeconfig={}", file.display()),
        ]);
        sandbox.until("Served the sandbox");
        let certs = directory.path().join("certs").display().to_string();
        assert_eq!(bailiff(&["certs", &certs]).code, Some(0));
        let mut system = Self {
            api: ApiServer::of(&file),
            processes: Vec::new(),
            directory,
            _sandbox: sandbox,
        };
        let bus = system.add_bus(BUS, &[]).await;
        system
            .add_bus(BUS_OVER_ETCD, &["--engine=etcd", "--etcd-endpoints=http://127.0.0.1:1"])
            .await;
        let (kubeconfig, bus) = (format!("--kubeconfig={}", file.display()), format!("--bus={bus}"));
        for stage in STAGES {
            let flags = [&[kubeconfig.as_str(), &bus], quick(stage)].concat();
            let serving = Serving::start_service(stage, &system.flags(stage, &flags));
            system.add(stage, stage, serving).await;
        }
        let mut flags = vec!["run", "--observe", "--bus-listen=127.0.0.1:0", &kubeconfig];
        flags.extend(STAGES.iter().flat_map(|stage| quick(stage)));
        let serving = Serving::start(&system.flags(BUS, &flags));
        system.add(RUN, BUS, serving).await;
        system
    }

    /// Answers where it is reached.
    async fn add_bus(&mut self, name: &'static str, flags: &[&str]) -> String {
        let flags = self.flags(BUS, &[&["--listen=127.0.0.1:0"], flags].concat());
        let serving = Serving::start_service(BUS, &flags);
        let line = serving.until("Event bus is open");
        self.attend(name, BUS, serving, &field(&line, "admin")).await;
        field(&line, "address")
    }

    async fn add(&mut self, name: &'static str, role: &str, serving: Serving) {
        let admin = field(&serving.until("Admin port is open"), "address");
        self.attend(name, role, serving, &admin).await;
    }

    async fn attend(&mut self, name: &'static str, role: &str, serving: Serving, admin: &str) {
        let certs = self.directory.path().join("certs");
        let file = |name: &str| certs.join(name).display().to_string();
        let cluster =
            json!({"server": format!("https://{admin}"), "tls-server-name": role, "certificate-authority": file("ca.crt")});
        let user = json!({"client-certificate": file("viewer.crt"), "client-key": file("viewer.key")});
        let kubeconfig: Kubeconfig = serde_json::from_value(json!({
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        }))
        .unwrap();
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
        let client = kube::Client::try_from(config).unwrap();
        self.processes.push((name, serving, client));
    }

    /// These, and the certificate of `role`, and a collector of traces that is away: what could not be handed over is counted.
    fn flags(&self, role: &str, flags: &[&str]) -> Vec<String> {
        let certs = self.directory.path().join("certs");
        let tls = [
            ("cert-file", format!("{role}.crt")),
            ("private-key-file", format!("{role}.key")),
            ("ca-file", "ca.crt".to_owned()),
        ]
        .map(|(flag, file)| format!("--tls-{flag}={}", certs.join(file).display()));
        let own = flags.iter().map(|flag| (*flag).to_owned());
        own.chain(tls)
            .chain(["--otlp-endpoint=http://127.0.0.1:1".to_owned()])
            .collect()
    }

    /// Kubelets that renew often, pods that tolerate no silent node, and a DaemonSet.
    fn populate(&self) {
        for node in self.nodes() {
            self.annotate(&node, &json!({"sandbox.bailiff.dev/lease-interval": "500ms"}));
            let tolerations = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]
                .map(|key| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}));
            let pod = json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("app-{node}")},
                "spec": {"nodeName": node, "tolerations": tolerations, "containers": [{"name": "main", "image": "pause"}]},
            });
            self.api.request("POST", PODS, "application/json", &pod);
        }
        let labels = json!({"app": "agent"});
        let set = json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent"},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "pause"}]}},
            },
        });
        self.api.request("POST", DAEMON_SETS, "application/json", &set);
    }

    /// A whole zone falls silent.
    fn silence(&self) {
        for node in self.nodes().iter().filter(|node| node.starts_with("node-b-")) {
            self.annotate(node, &json!({"sandbox.bailiff.dev/alive": "false"}));
        }
    }

    /// All nodes of another zone are paused, each by its name.
    fn pause(&self) {
        let times = json!({"since": "2026-01-01T00:00:00Z", "until": "2126-01-01T00:00:00Z", "reason": "work", "by": "ada"});
        let entry = |node: &String| {
            let mut pause = times.clone();
            pause["node"] = json!(node);
            (node.clone(), json!(pause.to_string()))
        };
        let nodes = self.nodes();
        let data: serde_json::Map<String, Value> = nodes.iter().filter(|node| node.starts_with("node-c-")).map(entry).collect();
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bailiff-pauses"}, "data": data});
        self.api.request(
            "POST",
            "/api/v1/namespaces/kube-system/configmaps",
            "application/json",
            &object,
        );
    }

    fn annotate(&self, node: &str, annotations: &Value) {
        let patch = json!({"metadata": {"annotations": annotations}});
        self.api.request("PATCH", &format!("{NODES}/{node}"), MERGE, &patch);
    }

    fn nodes(&self) -> Vec<String> {
        let all = self.api.request("GET", NODES, "application/json", &Value::Null);
        let items = all["items"].as_array().unwrap().iter();
        items
            .map(|node| node["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    }

    fn objects(&self) -> BTreeSet<String> {
        let mut objects: BTreeSet<String> = self.nodes().iter().map(|node| format!("app-{node}")).collect();
        for path in [NODES, "/api/v1/pods", "/api/v1/namespaces", DAEMON_SETS] {
            let all = self.api.request("GET", path, "application/json", &Value::Null);
            for object in all["items"].as_array().unwrap() {
                let metadata = &object["metadata"];
                objects.extend(["name", "uid"].map(|field| metadata[field].as_str().unwrap().to_owned()));
            }
        }
        objects
    }

    /// Asks all processes over and over, until it is so.
    async fn until(&self, what: &str, is_so: impl Fn(&Scrape) -> bool) -> Scrape {
        let mut last = None;
        let polling = async {
            let mut ticks = tokio::time::interval(Duration::from_millis(250));
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                let scrape = self.scrape().await;
                if is_so(&scrape) {
                    return scrape;
                }
                last = Some(scrape);
            }
        };
        match tokio::time::timeout(DEADLINE, polling).await {
            Ok(scrape) => scrape,
            Err(_) => panic!("{what} was not seen: {:#?}", last.as_ref().map(told)),
        }
    }

    async fn scrape(&self) -> Scrape {
        let mut scrape = Scrape::new();
        for (name, _, client) in &self.processes {
            let request = http::Request::get("/metrics").body(Vec::new()).unwrap();
            scrape.insert(name, parse(&client.request_text(request).await.unwrap()));
        }
        scrape
    }
}
