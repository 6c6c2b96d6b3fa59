//! A whole system in which each stage has the rights of the chart, and no others: everything works, and every right is used.

use std::collections::BTreeSet;
use std::time::Duration;

use bailiff_model::NodeName;
use bailiff_runtime::{Clock, Seed};
use bailiff_sandbox::cluster::{Cluster, ClusterSpec, build};
use bailiff_sandbox::driver::Options as ClusterOptions;
use bailiff_sandbox::kubelet::{Change, Target};
use bailiff_sandbox::{User, Verb};
use bailiff_scenario::fixture::Division;
use bailiff_scenario::{Fixture, StageName, StageOptions, Transport, world};
use serde_json::{Value, json};

use super::door::{Book, Manifest, OBSERVE, REPLACE, Use, client, config, granted, lay};

const SETS: &str = "/apis/apps/v1/namespaces/default/daemonsets";
const REVISIONS: &str = "/apis/apps/v1/namespaces/default/controllerrevisions";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// A system under the chart's roles and policies, with a cluster of three zones of three nodes.
struct System {
    fixture: Fixture,
    cluster: Cluster,
}

impl System {
    async fn start(manifest: Manifest, flags: &[&str], division: Option<Division>, clock: Clock, book: &Book) -> Self {
        let options = StageOptions::parse(flags.iter().map(|flag| (*flag).to_owned())).unwrap();
        let (transport, seed) = (Transport::InProcess, Seed::new(11));
        let mut fixture = Fixture::start_on(config(), transport, &ClusterOptions::cluster(), options, clock, seed)
            .await
            .unwrap();
        lay(&fixture.sandbox, manifest);
        let spec = ClusterSpec {
            nodes: 9,
            zones: 3,
            pods_per_node: 2,
            toleration_seconds: Some(5),
            ..ClusterSpec::default()
        };
        let cluster = build(&fixture.sandbox, &spec).unwrap();
        if manifest.observes {
            fixture.observe();
        }
        for name in StageName::ALL {
            let client = client(&fixture.sandbox, manifest, name.as_str(), book);
            fixture.give_client(name, client);
            if let Some(division) = division {
                fixture.divide(name, division);
            }
        }
        fixture.start_stages().await.unwrap();
        pass(90).await;
        Self { fixture, cluster }
    }

    fn ask(&self, verb: Verb, path: &str, body: &Value) -> Value {
        let answer = self.fixture.sandbox.request(&User::admin(), verb, path, body);
        answer.unwrap_or_else(|status| panic!("{path}: {status}"))
    }

    fn items(&self, path: &str) -> Vec<Value> {
        let list = self.ask(Verb::Get, path, &Value::Null);
        list["items"].as_array().cloned().unwrap_or_default()
    }

    fn zone(&self, nth: usize) -> &[NodeName] {
        &self.cluster.zones[nth].1
    }

    async fn set_alive(&self, nodes: &[NodeName], alive: bool) {
        for node in nodes {
            let change = Change::default().with("alive", &alive.to_string()).unwrap();
            self.fixture.driver.change(Target::Node(node.clone()), change).await.unwrap();
        }
    }

    /// Nodes with a taint of this effect.
    fn tainted(&self, effect: &str) -> usize {
        let nodes = self.items("/api/v1/nodes");
        let taints = nodes.iter().filter_map(|node| node.pointer("/spec/taints")?.as_array());
        taints
            .filter(|taints| taints.iter().any(|taint| taint["effect"] == effect))
            .count()
    }

    /// Plain pods that are there, terminating ones not counted.
    fn plain_pods(&self) -> usize {
        let pods = self.items(PODS);
        let plain = pods
            .iter()
            .filter(|pod| pod["metadata"]["labels"]["app"] == "app" && pod["metadata"]["deletionTimestamp"].is_null());
        plain.count()
    }

    /// No stage may have ended by itself, and nothing may have been refused. Those that are asked to end give their Leases up.
    async fn end(mut self, book: &Book) {
        assert_eq!(self.fixture.ended(), [], "no stage ends by itself");
        for name in StageName::ALL {
            self.fixture.stop_stage(name).await;
        }
        assert_eq!(book.refused(), Vec::<String>::new());
    }
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

/// A zone dies but for one node, which keeps it from being fully disrupted; its pods are evicted, and when it is back all is well.
async fn play_failure(system: &System) {
    let silent = &system.zone(0)[..2];
    let before = system.plain_pods();
    system.set_alive(silent, false).await;
    pass(150).await;
    assert_eq!((system.tainted("NoExecute"), system.tainted("NoSchedule")), (2, 2));
    assert_eq!(system.plain_pods(), before - 4, "two pods of each node");
    system.set_alive(silent, true).await;
    pass(60).await;
    assert_eq!((system.tainted("NoExecute"), system.tainted("NoSchedule")), (0, 0));
}

/// Pauses that end: each stage says so, the same twice, and more that is similar than has Events of its own.
async fn play_pauses(system: &System) {
    let now = system.fixture.clock.wall();
    let until = now.checked_add(Duration::from_secs(20)).unwrap();
    let entry =
        |reason: &str| json!({"node": "none", "since": now.to_string(), "until": until.to_string(), "reason": reason}).to_string();
    let mut data = json!({"again": entry("reason 0")});
    for nth in 0..13 {
        data[format!("entry-{nth}")] = json!(entry(&format!("reason {nth}")));
    }
    let pauses = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bailiff-pauses"}, "data": data});
    system.ask(Verb::Create, "/api/v1/namespaces/kube-system/configmaps", &pauses);
    pass(60).await;
}

fn daemonset(image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent"},
        "spec": {
            "revisionHistoryLimit": 1,
            "selector": {"matchLabels": {"app": "agent"}},
            "updateStrategy": {"rollingUpdate": {"maxUnavailable": "50%"}},
            "template": {
                "metadata": {"labels": {"app": "agent"}},
                "spec": {"containers": [{"name": "main", "image": image}]},
            },
        },
    })
}

/// Rolls out an image, and waits until every node has it.
async fn roll_out(system: &System, image: &str) {
    let change = json!({"spec": daemonset(image)["spec"]});
    system.ask(Verb::MergePatch, &format!("{SETS}/agent"), &change);
    pass(90).await;
    let pods = system.items(PODS);
    let current = pods.iter().filter(|pod| {
        let is_ours = pod["metadata"]["labels"]["app"] == "agent" && !pod["metadata"]["ownerReferences"].is_null();
        is_ours && pod["spec"]["containers"][0]["image"] == image
    });
    assert_eq!(current.count(), 9, "{image}");
}

/// Rollouts and all that a DaemonSet's pods and revisions go through.
async fn play_rollouts(system: &System) {
    // One that nobody owns is adopted.
    let orphan = json!({
        "metadata": {"name": "orphan", "labels": {"app": "agent"}},
        "spec": {"nodeName": system.zone(0)[0].as_str(), "containers": [{"name": "main", "image": "one"}]},
    });
    system.ask(Verb::Create, PODS, &orphan);
    system.ask(Verb::Create, SETS, &daemonset("one"));
    pass(60).await;
    roll_out(system, "two").await;
    let revisions = system.items(REVISIONS);
    let second = revisions.iter().find(|revision| revision["revision"] == 2).unwrap();
    let second = second["metadata"]["name"].clone();
    // Back: the first revision is numbered anew. Forth: the second is deleted.
    roll_out(system, "one").await;
    roll_out(system, "three").await;
    let revisions = system.items(REVISIONS);
    assert!(
        revisions.iter().all(|revision| revision["metadata"]["name"] != second),
        "{revisions:?}"
    );
    // Somebody took the name that the revision will have: it is read, and another name is found.
    let foreign = json!({"metadata": {"name": second}, "data": {"other": true}, "revision": 1});
    system.ask(Verb::Create, REVISIONS, &foreign);
    roll_out(system, "two").await;
    let set = system.ask(Verb::Get, &format!("{SETS}/agent"), &Value::Null);
    assert_eq!(set["status"]["collisionCount"], 1);
    // One that the selector does not match any more is released.
    let pods = system.items(PODS);
    let daemon = pods.iter().find(|pod| pod["metadata"]["ownerReferences"].is_array()).unwrap();
    let name = format!("{PODS}/{}", daemon["metadata"]["name"].as_str().unwrap());
    system.ask(Verb::MergePatch, &name, &json!({"metadata": {"labels": {"app": "debug"}}}));
    pass(30).await;
    assert!(system.ask(Verb::Get, &name, &Value::Null)["metadata"]["ownerReferences"].is_null());
}

/// How many replicas share how many shards.
const fn division(replicas: u32, shards: u32) -> Option<Division> {
    Some(Division { replicas, shards })
}

/// Plays a situation in a world of its own, where the stages write.
fn play(flags: &[&str], division: Option<Division>, book: &Book, situation: impl AsyncFnOnce(&System)) {
    world::run(async |clock| {
        let system = System::start(REPLACE, flags, division, clock, book).await;
        situation(&system).await;
        system.end(book).await;
    });
}

/// A zone failure with evictions and recovery, and rollouts; in both eviction modes, by deletion and by eviction; with Leases.
///
/// Every right is used: none is there for nothing. Conflicts are made, since some reads only follow them.
#[test]
fn with_the_rights_of_the_chart_everything_works_and_every_right_is_used() {
    let book = Book::default();
    play(&[], division(1, 1), &book, async |system| {
        play_rollouts(system).await;
        play_pauses(system).await;
    });
    play(&[], division(2, 2), &book, async |system| play_failure(system).await);
    play(&["--eviction-method=evict"], None, &book, async |system| {
        play_failure(system).await
    });
    let node_mode = ["--eviction-mode=node", "--pod-eviction-timeout=30s"];
    play(&node_mode, None, &book, async |system| {
        let silent = &system.zone(0)[..2];
        let before = system.plain_pods();
        system.set_alive(silent, false).await;
        pass(240).await;
        assert_eq!(system.plain_pods(), before - 4);
    });
    let (granted, used) = (granted(REPLACE), book.used());
    let unused: BTreeSet<&Use> = granted.difference(&used).collect();
    assert!(unused.is_empty(), "granted and never used: {unused:#?}");
}

/// Observers try nothing that they may not: a zone dies, a DaemonSet is there, and nothing is written.
#[test]
fn observers_write_nothing() {
    let book = Book::default();
    world::run(async |clock| {
        let system = System::start(OBSERVE, &[], None, clock, &book).await;
        system.ask(Verb::Create, SETS, &daemonset("one"));
        system.set_alive(&system.zone(0)[..2], false).await;
        pass(150).await;
        assert_eq!(system.tainted("NoExecute"), 0);
        system.end(&book).await;
    });
    let writes = |used: &Use| !["get", "list", "watch"].contains(&used.3.as_str());
    let written: Vec<Use> = book.used().into_iter().filter(writes).collect();
    assert_eq!(written, []);
}
