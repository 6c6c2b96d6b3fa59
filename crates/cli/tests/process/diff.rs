//! `bailiff diff`: programs beside those that do the work, on a cluster in which nodes fail.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::{ApiServer, BAILIFF, Serving, bailiff, field, mk_pod};

const PODS: &str = "/api/v1/namespaces/default/pods";

/// What all of them are told, so that a failure takes seconds.
const QUICK: [&str; 4] = [
    "--node-monitor-period=500ms",
    "--node-monitor-grace-period=3s",
    "--node-startup-grace-period=6s",
    "--node-eviction-rate=10",
];

/// A cluster, and who does the work in it.
struct Cluster {
    api: ApiServer,
    kubeconfig: String,
    bus: String,
    _sandbox: Serving,
    _incumbent: Serving,
    _directory: tempfile::TempDir,
}

impl Cluster {
    /// Who does the work is told `more`.
    fn start(more: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file: PathBuf = directory.path().join("kubeconfig");
        let write = format!("--write-kubeconfig={}", file.display());
        let sandbox = Serving::start(&["sandbox", "--listen=127.0.0.1:0", "--nodes=6", "--zones=2", &write]);
        sandbox.until("Served the sandbox");
        let api = ApiServer::of(&file);
        for node in [
            "node-a-000",
            "node-a-001",
            "node-a-002",
            "node-b-000",
            "node-b-001",
            "node-b-002",
        ] {
            api.annotate(node, &json!({"sandbox.bailiff.dev/lease-interval": "500ms"}));
        }
        for node in ["node-a-000", "node-b-000"] {
            api.request("POST", PODS, "application/json", &mk_pod(&format!("on-{node}"), node));
        }
        let kubeconfig = format!("--kubeconfig={}", file.display());
        let incumbent = Serving::start(&[&["run", &kubeconfig, "--bus-listen=127.0.0.1:0"], &QUICK[..], more].concat());
        let bus = format!("--bus={}", field(&incumbent.until("Event bus is open"), "address"));
        incumbent.until("Publishing eviction outcomes");
        Self {
            api,
            kubeconfig,
            bus,
            _sandbox: sandbox,
            _incumbent: incumbent,
            _directory: directory,
        }
    }

    fn silence(&self, node: &str) {
        self.api.annotate(node, &json!({"sandbox.bailiff.dev/alive": "false"}));
    }

    /// Waits until the pod of a node is being deleted.
    fn until_evicted(&self, node: &str) {
        self.api.until(PODS, "the deletion of the pod", |pod| {
            pod["spec"]["nodeName"] == node && pod["metadata"]["deletionTimestamp"].is_string()
        });
    }

    /// The epoch of whoever publishes what becomes of evictions.
    fn epoch(&self) -> Value {
        let status = bailiff(&["bus", &self.bus, "status", "--output=json"]).json().remove(0);
        let topics = status["topics"].as_array().unwrap();
        let outcomes = topics.iter().find(|topic| topic["topic"] == "eviction-outcomes");
        outcomes.unwrap()["shards"][0]["epoch"].clone()
    }

    /// A second program beside the zone-evictor.
    fn beside(&self, within: &str, more: &[&str]) -> Serving {
        let within = format!("--within={within}");
        let ours = [
            "diff",
            "--stage=zone-evictor",
            "--output=json",
            &within,
            &self.kubeconfig,
            &self.bus,
            "--",
        ];
        let program = [BAILIFF, "zone-evictor", "--node-eviction-rate=10"];
        Serving::start_telling(&[&ours[..], &program[..], more].concat())
    }
}

fn parse(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

/// Waits until both say that it goes.
fn until_agreed(diff: &Serving, object: &str) {
    loop {
        let line = parse(&diff.until(r#""found":"agrees""#));
        if line["object"] == object && line["answer"]["says"] == "goes" {
            return;
        }
    }
}

/// The score, which is said last.
fn score_of(said: &[String]) -> Value {
    let last = parse(said.last().expect("the score"));
    assert_eq!(last["found"], "score", "{last}");
    last["score"].clone()
}

#[test]
fn a_second_program_is_compared_and_changes_nothing() {
    let cluster = Cluster::start(&[]);
    let epoch = cluster.epoch();
    assert!(epoch.is_number(), "somebody does the work");
    let diff = cluster.beside("1m", &[]);
    diff.until(r#""found":"begins""#);
    cluster.silence("node-a-000");
    cluster.until_evicted("node-a-000");
    // The second one decides the same; what it writes is a dry run, so that nobody sees it.
    until_agreed(&diff, "pod default/on-node-a-000");
    assert_eq!(cluster.epoch(), epoch, "nobody was fenced");
    let (code, said) = diff.end();
    assert_eq!((code, &score_of(&said)["differing"]), (Some(0), &json!(0)), "{said:?}");

    // One that does not evict is found out, and what it thinks of it is told.
    let diff = cluster.beside("5s", &["--controllers=*,-taint-eviction-controller"]);
    diff.until(r#""found":"begins""#);
    cluster.silence("node-b-000");
    let line = parse(&diff.until(r#""found":"differs""#));
    assert_eq!(
        (&line["question"], &line["object"]),
        (&json!("eviction"), &json!("pod default/on-node-b-000"))
    );
    assert_eq!(
        (&line["incumbent"]["says"], &line["candidate"]),
        (&json!("goes"), &Value::Null)
    );
    let (code, said) = diff.end();
    assert_eq!(code, Some(1), "the agreement is below what is asked for");
    let score = score_of(&said);
    assert!(score["differing"].as_u64() >= Some(1), "{score}");
}

/// Whoever evicts in earnest, to what it knows, evicts nobody here: all that it writes is a dry run.
#[test]
fn what_a_second_program_writes_is_a_dry_run() {
    let cluster = Cluster::start(&["--observe"]);
    let diff = cluster.beside("1m", &[]);
    diff.until(r#""found":"begins""#);
    let taint = json!({"spec": {"taints": [{"key": "example.com/maintenance", "effect": "NoExecute"}]}});
    cluster
        .api
        .request("PATCH", "/api/v1/nodes/node-a-000", "application/merge-patch+json", &taint);
    until_agreed(&diff, "pod default/on-node-a-000");
    let (code, said) = diff.end();
    assert_eq!(code, Some(0), "{said:?}");
    let pod = cluster.api.request("GET", &format!("{PODS}/on-node-a-000"), "", &Value::Null);
    assert_eq!(
        (&pod["metadata"]["deletionTimestamp"], &pod["metadata"]["name"]),
        (&Value::Null, &json!("on-node-a-000")),
        "{pod}"
    );
    assert!(!pod["status"]["conditions"].to_string().contains("DisruptionTarget"), "{pod}");
}

/// Whoever does the work stands for kube-controller-manager: what is compared is what stands in the API.
#[test]
fn an_observer_is_compared_with_what_stands_in_the_api() {
    let cluster = Cluster::start(&[]);
    let observer = [
        &[
            "run",
            "--observe",
            "--leader-elect=false",
            &cluster.kubeconfig,
            "--bus-listen=127.0.0.1:0",
        ],
        &QUICK[..],
    ];
    let observer = Serving::start(&observer.concat());
    let bus = format!("--bus={}", field(&observer.until("Event bus is open"), "address"));
    let args = [
        "diff",
        "--against-cluster",
        "--output=json",
        "--within=10s",
        &cluster.kubeconfig,
        &bus,
    ];
    let diff = Serving::start_telling(&args);
    diff.until(r#""found":"begins""#);
    cluster.silence("node-a-000");
    cluster.until_evicted("node-a-000");
    let told = bailiff(&[
        "events",
        &bus,
        "--until",
        "pod default/on-node-a-000 on node node-a-000 is due",
    ]);
    assert_eq!(told.code, Some(0), "{told:?}");
    let (code, said) = diff.end();
    let score = score_of(&said);
    assert_eq!((code, &score["differing"]), (Some(0), &json!(0)), "{said:?}");
    assert!(score["agreed"].as_u64() >= Some(2), "{score}");
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let cases: [(&[&str], i32, &str); 6] = [
        (&["diff"], 64, "--stage"),
        (&["diff", "--stage=scheduler"], 64, "zone-evictor"),
        (
            &["diff", "--stage=zone-evictor", "--min-agreement=2"],
            64,
            "allowed is a number from 0 to 1",
        ),
        (&["diff", "--stage=zone-evictor", "--within=0s"], 64, "--within"),
        (
            &["diff", "--stage=zone-evictor", "--", "mine", "--kubeconfig=x"],
            64,
            "'--kubeconfig=x' for '<COMMAND>'",
        ),
        (
            &["diff", "--stage=zone-evictor", "--listen=0.0.0.0:0", "--bus=127.0.0.1:1"],
            1,
            "cannot reach the event bus",
        ),
    ];
    for (args, code, wanted) in cases {
        let ended = bailiff(args);
        assert_eq!(ended.code, Some(code), "{args:?}: {ended:?}");
        assert!(ended.stderr.contains(wanted), "{args:?}: {ended:?}");
    }
}
