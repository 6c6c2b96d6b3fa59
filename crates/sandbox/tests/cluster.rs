//! The simulated cluster on its API server, in virtual time.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "nothing here runs outside of tests; what helpers fail at fails the test"
)]

use std::collections::BTreeMap;
use std::time::Duration;

use bailiff_runtime::{Clock, Seed, Shutdown};
use bailiff_sandbox::cluster::{self, ClusterSpec};
use bailiff_sandbox::driver::{Driver, Options};
use bailiff_sandbox::kubelet::{Change, Target};
use bailiff_sandbox::store::Change as What;
use bailiff_sandbox::{Config, Sandbox, User, Verb};
use serde_json::{Value, json};
use tokio::time::sleep;

#[path = "cluster/failures.rs"]
mod failures;

const LEASES: &str = "leases.coordination.k8s.io";

struct Bench {
    sandbox: Sandbox,
    driver: Driver,
    shutdown: Shutdown,
}

impl Bench {
    fn new(seed: u64, options: &Options) -> Self {
        Self::with(Config::default(), seed, options)
    }

    fn with(config: Config, seed: u64, options: &Options) -> Self {
        let clock = Clock::virtual_from("2026-01-01T00:00:00Z".parse().unwrap());
        let config = Config {
            history: 1_000_000,
            ..config
        };
        let sandbox = Sandbox::new(config, clock, &Seed::new(seed));
        let shutdown = Shutdown::new();
        let (driver, _) = Driver::start(&sandbox, options, &shutdown);
        Self {
            sandbox,
            driver,
            shutdown,
        }
    }

    /// A cluster whose nodes are ready and without taints: no controller runs here that would take them off.
    async fn ready(spec: &ClusterSpec) -> Self {
        Self::ready_with(Config::default(), spec).await
    }

    async fn ready_with(config: Config, spec: &ClusterSpec) -> Self {
        let bench = Self::with(config, 1, &Options::cluster());
        cluster::build(&bench.sandbox, spec).unwrap();
        for name in bench.names("nodes") {
            bench.patch(&format!("/api/v1/nodes/{name}"), json!({"spec": {"taints": null}}));
        }
        pass(15.0).await;
        bench
    }

    fn request(&self, verb: Verb, path: &str, body: Value) -> Value {
        let answer = self.sandbox.request(&User::admin(), verb, path, &body);
        answer.unwrap_or_else(|status| panic!("{verb:?} {path}: {status}"))
    }

    fn patch(&self, path: &str, body: Value) {
        self.request(Verb::MergePatch, path, body);
    }

    fn annotate(&self, node: &str, name: &str, text: Option<&str>) {
        let annotation = format!("sandbox.bailiff.dev/{name}");
        self.patch(
            &format!("/api/v1/nodes/{node}"),
            json!({"metadata": {"annotations": {annotation: text}}}),
        );
    }

    fn names(&self, resource: &str) -> Vec<String> {
        let (_, objects) = self.sandbox.list(resource);
        objects.iter().map(|object| object.name().to_owned()).collect()
    }

    fn object(&self, resource: &str, namespace: &str, name: &str) -> Value {
        let object = self.sandbox.get(resource, namespace, name);
        object.unwrap_or_else(|| panic!("no {resource} {namespace}/{name}")).value()
    }

    fn pods_on(&self, node: &str) -> Vec<Value> {
        let (_, pods) = self.sandbox.list("pods");
        let values = pods.iter().map(|pod| pod.value());
        values.filter(|pod| pod["spec"]["nodeName"] == node).collect()
    }

    /// How often objects of a resource were written from `from` on, by name.
    fn writes(&self, resource: &str, from: Duration) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for seen in self.sandbox.history() {
            if &*seen.resource == resource && seen.at.mono.since_origin() >= from && seen.event.change != What::Deleted {
                *counts.entry(seen.event.object.name().to_owned()).or_default() += 1;
            }
        }
        counts
    }

    fn elapsed(&self) -> Duration {
        self.sandbox.clock().now().mono.since_origin()
    }

    async fn set(&self, node: &str, name: &str, text: &str) {
        let change = Change::new().with(name, text).unwrap();
        self.driver.change(Target::Node(node.into()), change).await.unwrap();
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.shutdown.trigger();
    }
}

async fn pass(seconds: f64) {
    sleep(Duration::from_secs_f64(seconds)).await;
}

fn spec(nodes: usize, pods_per_node: usize) -> ClusterSpec {
    ClusterSpec {
        nodes,
        pods_per_node,
        ..ClusterSpec::default()
    }
}

fn status_of<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array().unwrap();
    &conditions.iter().find(|condition| condition["type"] == kind).unwrap()["status"]
}

#[tokio::test(start_paused = true)]
async fn a_cluster_comes_up_by_itself() {
    let bench = Bench::ready(&spec(6, 2)).await;
    assert_eq!(bench.names("nodes").len(), 6);
    for name in bench.names("nodes") {
        let node = bench.object("nodes", "", &name);
        assert_eq!(status_of(&node, "Ready"), "True", "{node}");
        assert_eq!(status_of(&node, "MemoryPressure"), "False");
        let lease = bench.object(LEASES, "kube-node-lease", &name);
        assert_eq!(lease["spec"]["holderIdentity"], name.as_str());
        assert_eq!(lease["metadata"]["ownerReferences"][0]["uid"], node["metadata"]["uid"]);
        let pods = bench.pods_on(&name);
        assert_eq!(pods.len(), 2);
        for pod in pods {
            assert_eq!(pod["status"]["phase"], "Running");
            for kind in ["Initialized", "Ready", "ContainersReady", "PodScheduled"] {
                assert_eq!(status_of(&pod, kind), "True", "{kind}");
            }
            assert_eq!(pod["status"]["containerStatuses"][0]["ready"], true);
            assert!(
                pod["status"]["podIP"].is_string() && pod["status"]["startTime"].is_string(),
                "{pod}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn pods_may_have_their_node_for_a_controller() {
    let spec = ClusterSpec {
        node_owned: true,
        ..spec(3, 2)
    };
    let bench = Bench::ready(&spec).await;
    pass(60.0).await;
    for name in bench.names("nodes") {
        let node = bench.object("nodes", "", &name);
        let uid = &node["metadata"]["uid"];
        let owner = json!([{"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid, "controller": true}]);
        let pods = bench.pods_on(&name);
        assert_eq!(pods.len(), 2, "nobody takes an owner that is there for gone");
        for pod in pods {
            assert_eq!(pod["metadata"]["ownerReferences"], owner);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn at_rest_only_leases_are_written() {
    let bench = Bench::ready(&spec(3, 3)).await;
    let from = bench.elapsed();
    pass(60.0).await;
    for resource in ["nodes", "pods", "events", "namespaces"] {
        // A status post every five minutes has a phase of its own; its conditions are as they were.
        let writes = bench.writes(resource, from).values().sum::<usize>();
        assert!(writes == 0 || resource == "nodes" && writes <= 3, "{resource}: {writes}");
    }
    assert_eq!(bench.writes(LEASES, from).values().copied().collect::<Vec<_>>(), [6, 6, 6]);
}

#[tokio::test(start_paused = true)]
async fn five_thousand_nodes_renew_every_ten_seconds() {
    let config = Config {
        managed_fields: false,
        ..Config::default()
    };
    let bench = Bench::with(config, 1, &Options::cluster());
    cluster::build(&bench.sandbox, &spec(5000, 0)).unwrap();
    // Just past the last renewal of a node whose phase is the whole interval.
    pass(60.02).await;
    let writes = bench.writes(LEASES, Duration::ZERO);
    assert_eq!(writes.len(), 5000);
    // Once when the node appears, once at the node's phase, then every ten seconds.
    let odd: Vec<_> = writes.iter().filter(|(_, count)| **count != 7).collect();
    assert!(odd.is_empty(), "{odd:?}");
}

/// What an operator does to a cluster, in the order of the design's failures.
async fn play(seed: u64) -> Vec<String> {
    let bench = Bench::new(seed, &Options::cluster());
    let spec = ClusterSpec {
        replace_evicted: true,
        ..spec(6, 3)
    };
    cluster::build(&bench.sandbox, &spec).unwrap();
    pass(1.0).await;
    for name in bench.names("nodes") {
        bench.patch(&format!("/api/v1/nodes/{name}"), json!({"spec": {"taints": null}}));
    }
    pass(20.0).await;
    bench.annotate("node-a-000", "alive", Some("false"));
    bench.set("node-b-000", "partitioned", "true").await;
    bench.annotate("node-c-000", "pods", Some("crash-loop"));
    pass(30.0).await;
    bench.annotate("node-c-001", "reboot", Some("1"));
    bench.request(Verb::Delete, "/api/v1/nodes/node-b-001", Value::Null);
    pass(90.0).await;
    bench.annotate("node-a-000", "alive", None);
    bench.set("node-b-000", "partitioned", "false").await;
    pass(30.0).await;
    let history = bench.sandbox.history();
    let lines = history.iter().map(|seen| {
        let json = String::from_utf8_lossy(seen.event.object.json());
        format!("{:?} {} {:?} {json}", seen.at, seen.resource, seen.event.change)
    });
    lines.collect()
}

#[test]
fn the_same_seed_gives_the_same_history() {
    let run = |seed| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(play(seed))
    };
    let (first, second, other) = (run(1), run(1), run(2));
    assert!(first.len() > 200, "{}", first.len());
    let differing = first.iter().zip(&second).find(|(a, b)| a != b);
    assert_eq!(differing, None);
    assert_eq!(first.len(), second.len());
    assert_ne!(first, other);
}

#[tokio::test(start_paused = true)]
async fn anybody_can_silence_a_node_by_annotation() {
    let bench = Bench::ready(&spec(3, 1)).await;
    bench.annotate("node-a-000", "alive", Some("false"));
    pass(0.1).await;
    let from = bench.elapsed();
    pass(60.0).await;
    let writes = bench.writes(LEASES, from);
    assert_eq!(writes.get("node-a-000"), None);
    assert_eq!(writes.get("node-b-000"), Some(&6));
    bench.annotate("node-a-000", "alive", None);
    pass(0.1).await;
    assert_eq!(bench.writes(LEASES, from).get("node-a-000"), Some(&1));
}

#[tokio::test(start_paused = true)]
async fn a_malformed_annotation_is_told_by_an_event_on_the_node() {
    let bench = Bench::ready(&spec(3, 0)).await;
    bench.annotate("node-a-000", "lease-interval", Some("often"));
    pass(1.0).await;
    let (_, events) = bench.sandbox.list("events");
    let texts: Vec<Value> = events.iter().map(|event| event.value()).collect();
    let [event] = texts.as_slice() else { panic!("{texts:?}") };
    assert_eq!(
        (&event["type"], &event["reason"]),
        (&json!("Warning"), &json!("InvalidSandboxSetting"))
    );
    assert_eq!(event["involvedObject"]["name"], "node-a-000");
    let message = event["message"].as_str().unwrap();
    assert!(
        message.contains("lease-interval") && message.contains("\"often\"") && message.contains("10s"),
        "{message}"
    );
    let settings = bench.driver.settings("node-a-000").await.unwrap();
    assert_eq!(settings.lease_interval, Some(Duration::from_secs(10)));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_node_takes_its_lease_and_later_its_pods() {
    let bench = Bench::ready(&spec(3, 2)).await;
    let old = bench.object("nodes", "", "node-a-000");
    bench.request(Verb::Delete, "/api/v1/nodes/node-a-000", Value::Null);
    pass(1.0).await;
    assert!(bench.sandbox.get(LEASES, "kube-node-lease", "node-a-000").is_none());
    assert_eq!(bench.pods_on("node-a-000").len(), 2);
    pass(45.0).await;
    assert_eq!(bench.pods_on("node-a-000").len(), 0);
    let again = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a-000"}});
    bench.request(Verb::Create, "/api/v1/nodes", again);
    pass(1.0).await;
    let node = bench.object("nodes", "", "node-a-000");
    assert_ne!(node["metadata"]["uid"], old["metadata"]["uid"]);
    assert_eq!(status_of(&node, "Ready"), "True");
    assert_eq!(node["status"]["allocatable"]["pods"], "110");
    let lease = bench.object(LEASES, "kube-node-lease", "node-a-000");
    assert_eq!(lease["metadata"]["ownerReferences"][0]["uid"], node["metadata"]["uid"]);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_pod_of_a_live_node_goes_and_of_a_silent_node_stays() {
    let bench = Bench::ready(&spec(3, 1)).await;
    bench.annotate("node-b-000", "alive", Some("false"));
    pass(1.0).await;
    for name in ["app-a-000-0", "app-b-000-0"] {
        bench.request(Verb::Delete, &format!("/api/v1/namespaces/default/pods/{name}"), Value::Null);
    }
    pass(0.3).await;
    assert_eq!(bench.names("pods").len(), 3);
    pass(60.0).await;
    assert_eq!(bench.names("pods"), ["app-b-000-0", "app-c-000-0"]);
    bench.annotate("node-b-000", "alive", None);
    pass(1.0).await;
    assert_eq!(bench.names("pods"), ["app-c-000-0"]);
}

#[tokio::test(start_paused = true)]
async fn evicted_pods_of_a_replica_set_come_back_on_healthy_nodes() {
    let spec = ClusterSpec {
        replace_evicted: true,
        ..spec(3, 2)
    };
    let bench = Bench::ready(&spec).await;
    assert_eq!(bench.names("pods").len(), 6);
    assert_eq!(bench.pods_on("node-a-000").len(), 2);
    let unready = json!({"spec": {"taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}]}});
    bench.patch("/api/v1/nodes/node-a-000", unready);
    for pod in bench.pods_on("node-a-000") {
        let path = format!(
            "/api/v1/namespaces/default/pods/{}",
            pod["metadata"]["name"].as_str().unwrap()
        );
        bench.request(Verb::Delete, &path, Value::Null);
    }
    pass(10.0).await;
    assert_eq!(bench.pods_on("node-a-000").len(), 0);
    assert_eq!(bench.pods_on("node-b-000").len() + bench.pods_on("node-c-000").len(), 6);
    let set = bench.object("replicasets.apps", "default", "app");
    assert_eq!(set["status"]["readyReplicas"], 6);
    assert_eq!(set["status"]["observedGeneration"], set["metadata"]["generation"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_owned_goes_with_its_owner() {
    for policy in ["Background", "Foreground", "Orphan"] {
        let spec = ClusterSpec {
            replace_evicted: true,
            ..spec(3, 1)
        };
        let bench = Bench::ready(&spec).await;
        let path = "/apis/apps/v1/namespaces/default/replicasets/app";
        bench.request(Verb::Delete, path, json!({"propagationPolicy": policy}));
        pass(60.0).await;
        assert_eq!(bench.names("replicasets.apps"), Vec::<String>::new(), "{policy}");
        let left = bench.names("pods").len();
        assert_eq!(left, if policy == "Orphan" { 3 } else { 0 }, "{policy}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_namespace_is_emptied_and_goes() {
    let bench = Bench::ready(&spec(3, 0)).await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}});
    bench.request(Verb::Create, "/api/v1/namespaces", namespace);
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
        "spec": {"containers": [{"name": "main", "image": "i:1"}]}});
    bench.request(Verb::Create, "/api/v1/namespaces/team/pods", pod);
    pass(5.0).await;
    assert_eq!(status_of(&bench.object("pods", "team", "a"), "Ready"), "True");
    bench.request(Verb::Delete, "/api/v1/namespaces/team", Value::Null);
    pass(0.1).await;
    assert_eq!(bench.object("namespaces", "", "team")["status"]["phase"], "Terminating");
    pass(30.0).await;
    assert!(bench.sandbox.get("namespaces", "", "team").is_none());
    assert!(bench.sandbox.get("pods", "team", "a").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_daemon_pod_is_bound_to_the_node_it_names_and_runs() {
    let bench = Bench::new(1, &Options::oracle());
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}});
    bench.request(Verb::Create, "/api/v1/nodes", node);
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}}});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "ds-x"},
        "spec": {"containers": [{"name": "main", "image": "i:1"}], "affinity": affinity}});
    bench.request(Verb::Create, "/api/v1/namespaces/default/pods", pod);
    pass(0.3).await;
    assert_eq!(bench.object("pods", "default", "ds-x")["spec"]["nodeName"], "n1");
    pass(0.4).await;
    let pod = bench.object("pods", "default", "ds-x");
    assert_eq!(status_of(&pod, "Ready"), "True");
    let managers: Vec<&Value> = pod["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| &entry["manager"])
        .collect();
    assert!(managers.contains(&&json!("kubelet")), "{managers:?}");
    // The recorded kubelets post no node status.
    assert_eq!(bench.object("nodes", "", "n1")["status"].get("conditions"), None);
}

#[tokio::test(start_paused = true)]
async fn what_was_missed_by_falling_behind_is_found_by_listing() {
    let config = Config {
        window: 2,
        ..Config::default()
    };
    let spec = ClusterSpec {
        replace_evicted: true,
        ..spec(6, 2)
    };
    let bench = Bench::ready_with(config, &spec).await;
    let old = bench.names("pods");
    assert_eq!(old.len(), 12);
    // All at once: the log holds the last two of these deletions.
    for name in &old {
        let path = format!("/api/v1/namespaces/default/pods/{name}");
        bench.request(Verb::Delete, &path, json!({"gracePeriodSeconds": 0}));
    }
    assert_eq!(bench.names("pods").len(), 0);
    pass(5.0).await;
    let new = bench.names("pods");
    assert_eq!(new.len(), 12);
    assert!(new.iter().all(|name| !old.contains(name)), "{new:?}");
    let set = bench.object("replicasets.apps", "default", "app");
    assert_eq!(set["status"]["readyReplicas"], 12);
}
