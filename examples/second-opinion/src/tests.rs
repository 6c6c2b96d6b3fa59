//! The stage with a file of probe results, against an API server and a bus in memory, in paused time.

use std::path::Path;

use bailiff_cluster::{Api, Metrics};
use bailiff_event_bus::{Body, Bus, Server, ServerOptions, SubscribeOptions, Update, subscribe};
use bailiff_model::{Mono, Shard, Topic, Verdict, Wall};
use bailiff_runtime::args::{EXIT_CONFIGURATION, parse_from};
use bailiff_runtime::{Clock, Seed};
use bailiff_sandbox::{Config, Sandbox, User, Verb};
use bailiff_stage::Host;
use clap::Parser;
use serde_json::{Value, json};

use super::*;

const NODES: &str = "/api/v1/nodes";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
/// From the last sign of life to a verdict: grace, period and what a request takes.
const JUDGED_AFTER: u64 = 60;

#[derive(Clone, Debug, Parser)]
struct Cli {
    #[command(flatten)]
    options: Valid<ProbeFlags>,
}

struct World {
    sandbox: Sandbox,
    env: Env,
    file: PathBuf,
    /// Rounds of the prober so far.
    rounds: usize,
    _bus: Server,
    _directory: tempfile::TempDir,
}

impl World {
    /// A running stage of the nodes n1 and n2, whose kubelets have just reported Ready.
    async fn start() -> Self {
        let (clock, seed) = (Clock::virtual_from(Wall::UNIX_EPOCH), Seed::new(1));
        let sandbox = Sandbox::new(Config::default(), clock.clone(), &seed);
        let bus = Server::new(ServerOptions::default(), &clock, &seed);
        let client = kube::Client::new(sandbox.service(User::admin()), "default");
        let api = Api::new(client, clock.clone(), Metrics::default());
        let env = Host::new(&clock, &seed, "test").env(api, &Bus::in_process(&bus), Shard::WHOLE, 0);
        let directory = tempfile::tempdir().expect("a directory");
        let world = Self {
            sandbox,
            env,
            file: directory.path().join("probes"),
            rounds: 0,
            _bus: bus,
            _directory: directory,
        };
        for name in ["n1", "n2"] {
            let now = world.now();
            let ready = json!({"type": "Ready", "status": "True", "lastHeartbeatTime": now, "lastTransitionTime": now});
            world.request(
                Verb::Create,
                NODES,
                &json!({"metadata": {"name": name}, "status": {"conditions": [ready]}}),
            );
            let lease = json!({"metadata": {"name": name}, "spec": {"renewTime": format!("{now}")}});
            world.request(Verb::Create, LEASES, &lease);
        }
        let flag = format!("--probe-results={}", world.file.display());
        let options = parse_from::<Cli>(["second-opinion", &flag]).expect("allowed").options;
        tokio::spawn(Asking::run(options, world.env.clone()));
        world
    }

    fn now(&self) -> String {
        format!("{:.6}", self.env.host.clock.wall())
    }

    fn request(&self, verb: Verb, path: &str, body: &Value) -> Value {
        self.sandbox
            .request(&User::admin(), verb, path, body)
            .expect("it is accepted")
    }

    /// Seconds pass; n2 renews its Lease in each, n1 is silent. The prober goes round in each, if it says anything.
    async fn pass(&mut self, seconds: u64, says: Option<&str>) {
        for _ in 0..seconds {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let renewed = json!({"spec": {"renewTime": self.now()}});
            self.request(Verb::MergePatch, &format!("{LEASES}/n2"), &renewed);
            if let Some(says) = says {
                self.rounds += 1;
                // Each is longer than the one before, so that no clock of the file system has to tell them apart.
                let text = says.replace("ROUND", &"i".repeat(self.rounds));
                std::fs::write(&self.file, text).expect("a file");
            }
        }
    }

    fn ready(&self, name: &str) -> String {
        let node = self.request(Verb::Get, &format!("{NODES}/{name}"), &Value::Null);
        let conditions = node["status"]["conditions"].as_array().expect("conditions").clone();
        let ready = conditions
            .iter()
            .find(|condition| condition["type"] == "Ready")
            .expect("it has one");
        ready["status"].as_str().unwrap_or_default().to_owned()
    }

    /// What the bus says of n1.
    async fn verdict(&self) -> Verdict {
        let options = SubscribeOptions {
            topics: vec![Topic::NodeHealth],
            filters: Vec::new(),
            subscriber: "test".to_owned(),
        };
        let mut all = subscribe(&self.env.bus, options, &self.env.host.clock, &self.env.host.seed);
        let Update::Snapshot { records, .. } = all.next().await else {
            panic!("a snapshot comes first");
        };
        let of_n1 = records.into_iter().find(|record| record.key == "n1").expect("a record");
        let Some(Body::NodeHealth(health)) = of_n1.body else {
            panic!("a verdict")
        };
        assert_eq!(health.held, None, "its zone is not held");
        health.verdict
    }

    fn events(&self, reason: &str) -> Vec<String> {
        let all = self.request(Verb::Get, "/apis/events.k8s.io/v1/namespaces/default/events", &Value::Null);
        let all = all["items"].as_array().expect("items").clone();
        let of_reason = all.iter().filter(|event| event["reason"] == reason);
        of_reason
            .map(|event| event["note"].as_str().unwrap_or_default().to_owned())
            .collect()
    }

    fn note(&self) -> Option<String> {
        let checks = self.env.host.readiness.readiness().into_iter();
        checks
            .filter(|check| check.name.contains("probe results"))
            .find_map(|check| check.note)
    }
}

const UP: &str = r#"{"node": "n1", "up": true, "time": "ROUND"}"#;
const DOWN: &str = r#"{"node": "n1", "up": false, "time": "ROUND"}"#;

#[tokio::test(start_paused = true)]
async fn a_silent_node_that_is_reached_is_late_until_the_prober_says_otherwise() {
    let mut world = World::start().await;
    world.pass(2 * JUDGED_AFTER, Some(UP)).await;
    assert_eq!((world.ready("n1").as_str(), world.verdict().await), ("True", Verdict::Late));
    let told = world.events("SilenceDoubted");
    let wanted = "Node n1 is silent, and not given up: the prober reached it in the last 30s";
    assert!(told.iter().any(|note| note == wanted), "{told:?}");
    world.pass(10, Some(DOWN)).await;
    assert_eq!(
        (world.ready("n1").as_str(), world.verdict().await),
        ("Unknown", Verdict::Unreachable)
    );
    assert_eq!(world.ready("n2"), "True", "it renews its Lease");
}

#[tokio::test(start_paused = true)]
async fn a_prober_that_falls_silent_holds_nothing_for_long() {
    let mut world = World::start().await;
    world.pass(JUDGED_AFTER, Some(UP)).await;
    world.pass(20, None).await;
    assert_eq!(world.ready("n1"), "True", "its last result counts still");
    world.pass(20, None).await;
    assert_eq!(world.ready("n1"), "Unknown");
}

#[tokio::test(start_paused = true)]
async fn what_stood_in_the_file_before_holds_nothing() {
    let mut world = World::start().await;
    std::fs::write(&world.file, UP).expect("a file");
    world.pass(JUDGED_AFTER, None).await;
    assert_eq!(world.ready("n1"), "Unknown");
}

#[tokio::test(start_paused = true)]
async fn what_is_malformed_is_skipped_and_told_and_judges_nobody() {
    let mut world = World::start().await;
    world.pass(JUDGED_AFTER, Some(UP)).await;
    world
        .pass(20, Some("{\"node\": \"n1\", \"up\": \"ROUND\"}\nno JSON\n\n"))
        .await;
    assert_eq!(world.ready("n1"), "True", "what was known before counts still");
    let note = world.note().expect("it is told");
    assert!(note.contains("2 skipped: line 1: invalid type: string"), "{note}");
    // A line that is well is taken whatever stands around it.
    world.pass(JUDGED_AFTER, Some(&format!("no JSON\n{UP}\n{{"))).await;
    assert_eq!(world.ready("n1"), "True");
    world.pass(JUDGED_AFTER, Some("no JSON ROUND")).await;
    assert_eq!(world.ready("n1"), "Unknown", "nothing is held for ever");
}

#[tokio::test(start_paused = true)]
async fn without_the_file_nodes_are_judged_as_ever() {
    let mut world = World::start().await;
    world.pass(JUDGED_AFTER, None).await;
    assert_eq!(world.ready("n1"), "Unknown");
    assert!(
        world.note().is_some_and(|note| note.contains("No such file")),
        "{:?}",
        world.note()
    );
    assert_eq!(world.events("SilenceDoubted"), [""; 0]);
}

#[test]
fn a_result_counts_from_when_it_was_seen_to_change() {
    let at = |seconds| Mono::from_origin(Duration::from_secs(seconds));
    let (node, validity) = (NodeName::from("n1"), Duration::from_secs(30));
    let line = |up: bool, time: &str| format!("{{\"node\": \"n1\", \"up\": {up}, \"time\": \"{time}\", \"by\": \"x\"}}\n");
    let mut probes = Probes::default();
    // What the file says, when, and how long ago the node was reached then.
    for (text, seconds, wanted) in [
        (line(true, "1"), 0, None),
        (line(true, "1"), 5, None),
        (line(true, "2"), 10, Some(0)),
        (line(true, "2"), 39, Some(29)),
        (line(true, "2"), 40, None),
        // Backwards is a change too.
        (line(true, "1"), 50, Some(0)),
        // The same probe, understood better; and not back.
        (line(false, "1"), 51, None),
        (line(true, "1"), 52, None),
        (line(true, "3"), 60, Some(0)),
        // Who is not in the file any more is not forgotten at once.
        (String::new(), 65, Some(5)),
        (line(true, "3"), 70, Some(10)),
        // Two lines take turns, and neither is news.
        (line(true, "4") + &line(true, "3"), 100, None),
    ] {
        let (said, wrong) = probes::parse(&text);
        assert_eq!(wrong, None);
        probes.take(said, at(seconds), validity);
        let reached = probes.reached(&node, at(seconds), validity);
        assert_eq!(reached, wanted.map(Duration::from_secs), "{seconds}: {text}");
    }
}

#[test]
fn a_file_is_read_when_it_changed_and_not_if_it_is_none() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("probes");
    assert!(probes::load(&path, None).is_err(), "it is not there");
    assert!(probes::load(directory.path(), None).is_err(), "a directory");
    std::fs::write(&path, b"one \xff").expect("a file");
    let (stamp, (said, wrong)) = probes::load(&path, None).expect("readable").expect("new");
    assert!(said.is_empty() && wrong.is_some_and(|wrong| wrong.starts_with("1 skipped: line 1")));
    assert_eq!(probes::load(&path, Some(stamp)).expect("readable"), None);
    let file = std::fs::File::create(&path).expect("a file");
    file.set_len(9 << 20).expect("room");
    assert!(probes::load(Path::new(&path), Some(stamp)).is_err(), "too large");
}

#[test]
fn a_validity_that_is_none_is_refused() {
    <Cli as clap::CommandFactory>::command().debug_assert();
    for wrong in ["0s", "2h"] {
        let refusal = parse_from::<Cli>(["x", &format!("--probe-validity={wrong}")]).expect_err(wrong);
        assert_eq!(refusal.exit_code(), EXIT_CONFIGURATION);
        assert!(refusal.to_string().contains("at most 1h"), "{refusal}");
    }
}
