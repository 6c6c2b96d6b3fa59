//! The stage against a small API server and a bus in process, in paused time.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "all of this is a test; clippy only knows that of functions marked so"
)]

mod api;
mod brake;

use std::collections::BTreeMap;
use std::time::Duration;

use bailiff_cluster::Api;
use bailiff_event_bus::{
    Body, Bus, Draft, PublishOptions, Publisher, Record, Server, ServerOptions, SubscribeOptions, Update, publish, subscribe,
};
use bailiff_model::intent::{HealthTaint, Intent, IntentState, PodEviction};
use bailiff_model::{NodeHealth, NodeRef, Ready, ReadyStatus, Topic, TraceContext, Verdict, Wall, Zone};
use bailiff_runtime::client::Limiter;
use bailiff_runtime::trace::{Finished, Recorder};
use bailiff_runtime::{Clock, Seed, Spans};
use bailiff_stage::{Env, Error, Host, Shard};
use bailiff_taint_manager::{Options, run};
use clap::Parser;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use api::{FakeApi, NODES, PODS};

#[derive(Clone, Debug, Parser)]
struct Cli {
    #[command(flatten)]
    options: Options,
}

/// 2024-01-01T00:00:00Z
const START: i64 = 1_704_067_200;

struct World {
    api: FakeApi,
    /// Of the stage's client: so many turns that no test waits for one that does not use them up.
    turns: Limiter,
    bus: Server,
    clock: Clock,
    env: Env,
    spans: Recorder,
    stage: JoinHandle<Result<(), Error>>,
}

impl World {
    /// A running stage over these objects.
    async fn start(objects: Vec<(&'static str, Value)>) -> Self {
        let world = Self::begin(objects, None);
        world.pass(1).await;
        world
    }

    /// The same, begun with an API server that refuses with this code.
    fn begin(objects: Vec<(&'static str, Value)>, refuses: Option<u16>) -> Self {
        let api = FakeApi::default();
        api.refuse(refuses);
        for (collection, object) in objects {
            api.put(collection, object);
        }
        let clock = Clock::virtual_from(Wall::from_second(START).unwrap());
        let turns = Limiter::new(0.5, 1000, &clock);
        let seed = Seed::new(1);
        let bus = Server::new(ServerOptions::default(), &clock, &seed);
        let (spans, recorder) = Spans::recorded();
        let stage_api = Api::new(api.client(), clock.clone(), bailiff_cluster::Metrics::default()).with_limiter(turns.clone());
        let host = Host {
            spans,
            ..Host::new(&clock, &seed, "test")
        };
        let env = host.env(stage_api, &Bus::in_process(&bus), Shard::WHOLE, 0);
        let stage = tokio::spawn(run(mk_options(), env.clone()));
        Self {
            api,
            turns,
            bus,
            clock,
            env,
            spans: recorder,
            stage,
        }
    }

    /// The stage is killed; after a second another process takes over.
    async fn restart(&mut self) {
        self.stage.abort();
        self.pass(1).await;
        self.env.host.identity.push('\'');
        self.env.epoch += 1;
        self.stage = tokio::spawn(run(mk_options(), self.env.clone()));
        self.pass(1).await;
    }

    /// From now on requests wait for their turns: the first for more than two seconds, each for two seconds more.
    async fn use_up_turns(&self) {
        let soon = Duration::from_millis(1);
        while tokio::time::timeout(soon, self.turns.take()).await.is_ok() {}
        // Somebody is before them.
        let turns = self.turns.clone();
        tokio::spawn(async move { turns.take().await });
        tokio::task::yield_now().await;
    }

    async fn pass(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    /// The latest intents, by key; and whether the topic is complete.
    async fn intents(&self) -> BTreeMap<String, Record> {
        let options = SubscribeOptions {
            topics: vec![Topic::EvictionIntents],
            filters: Vec::new(),
            subscriber: "test".to_owned(),
        };
        let mut subscription = subscribe(&self.env.bus, options, &self.clock, &self.env.host.seed);
        loop {
            if let Update::Snapshot { records, .. } = subscription.next().await {
                return records.into_iter().map(|record| (record.key.clone(), record)).collect();
            }
        }
    }

    /// State and due time, in seconds since the start, of a pod's intent.
    async fn intent(&self, pod: &str) -> Option<(IntentState, i64)> {
        let record = self.intents().await.remove(&format!("pod/uid-{pod}"))?;
        let eviction = eviction(&record);
        Some((eviction.state, eviction.due_at.as_second() - START))
    }

    /// A producer of `node-health`.
    fn monitor(&self) -> Publisher {
        let options = PublishOptions {
            topic: Topic::NodeHealth,
            shard: 0,
            shard_count: 1,
            producer: "monitor".to_owned(),
            epoch: 1,
        };
        publish(&self.env.bus, options, &self.clock, &self.env.host.seed)
    }

    /// A monitor of no nodes: all verdicts are known.
    fn monitor_of_nobody(&self) -> Publisher {
        let monitor = self.monitor();
        monitor.complete();
        monitor
    }

    fn unready(&self) -> Vec<String> {
        let failures = self.env.host.readiness.readiness().into_iter();
        failures
            .filter_map(|outcome| Some(format!("{}: {}", outcome.name, outcome.failure?)))
            .collect()
    }
}

fn eviction(record: &Record) -> &PodEviction {
    match &record.body {
        Some(Body::Intent(Intent::Pod(eviction))) => eviction,
        other => panic!("{other:?} under a pod's key"),
    }
}

fn mk_options() -> Options {
    Cli::try_parse_from(["taint-manager"]).unwrap().options
}

/// Name, length and attributes of a span.
fn say(span: &Finished) -> String {
    let lasts = span.span.end.duration_since(span.span.start).as_secs_f64();
    let pairs = span.span.attributes.iter();
    let attributes: Vec<String> = pairs.map(|pair| format!("{}={}", pair.key, pair.value)).collect();
    format!("{} {} s: {}", span.span.name, lasts.round(), attributes.join(" "))
}

fn mk_node(name: &str, ready: &str) -> Value {
    json!({
        "metadata": {"name": name, "uid": format!("uid-{name}"), "creationTimestamp": "2023-12-31T00:00:00Z", "labels": {}},
        "spec": {"taints": []},
        "status": {"conditions": [{"type": "Ready", "status": ready, "reason": "NodeStatusUnknown"}]},
    })
}

fn mk_pod(name: &str, node: &str, seconds: Option<i64>) -> Value {
    let toleration = json!({"key": "example.com/m", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds});
    let tolerations = if seconds.is_some() { vec![toleration] } else { Vec::new() };
    json!({
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}"), "generation": 2},
        "spec": {"nodeName": node, "tolerations": tolerations},
        "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "R", "message": "M"}]},
    })
}

fn taint(node: &mut Value) {
    node["spec"]["taints"] = json!([{"key": "example.com/m", "effect": "NoExecute"}]);
}

fn mk_health(verdict: Verdict) -> Draft {
    Draft::new(Body::NodeHealth(Box::new(NodeHealth {
        node: NodeRef {
            name: "n1".into(),
            uid: "uid-n1".into(),
            resource_version: "1".into(),
        },
        zone: Zone::new("r", "z"),
        excluded_from_disruption: false,
        ready: Ready {
            status: ReadyStatus::Unknown,
            reason: "NodeStatusUnknown".to_owned(),
            since: None,
        },
        verdict,
        last_sign_of_life: None,
        late_since: None,
        counted_from: Wall::from_second(START).unwrap(),
        grace: Duration::from_secs(50),
        decided_at: Wall::from_second(START).unwrap(),
        held: None,
    })))
    .traced(Some(TraceContext::derived(&["incident"])))
}

/// NL-002, NL-085, NL-087, NL-111, NL-112, NL-120, NL-131
#[tokio::test(start_paused = true)]
async fn a_silent_node_is_tainted_and_its_pods_are_marked() {
    let mut node = mk_node("n1", "True");
    node["metadata"]["labels"] = json!({"kubernetes.io/os": "linux"});
    let world = World::start(vec![(NODES, node), (PODS, mk_pod("p", "n1", None))]).await;
    let _monitor = world.monitor_of_nobody();
    world.api.change(NODES, "n1", |node| {
        node["status"]["conditions"][0]["status"] = json!("Unknown")
    });
    world.pass(1).await;

    let node = world.api.get(NODES, "n1");
    let taints = json!([{"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule", "timeAdded": "2024-01-01T00:00:01Z"}]);
    assert_eq!(node["spec"]["taints"], taints);
    assert_eq!(node["metadata"]["labels"]["beta.kubernetes.io/os"], "linux");
    let ready = world.api.get(PODS, "p")["status"]["conditions"][0].clone();
    let wanted = json!({
        "type": "Ready", "status": "False", "reason": "R", "message": "M", "lastTransitionTime": "2024-01-01T00:00:01Z",
    });
    assert_eq!(ready, wanted);
    let said = ["node-controller", "NodeNotReady", "uid-p", "Node is not ready"];
    assert_eq!(world.api.events(), [said.map(str::to_owned)]);
    assert_eq!(world.api.causes(), [json!({"bailiff.dev/node": "n1"})], "no verdict is known");
    let text = world.env.host.metrics.encode();
    assert!(
        text.contains(r#"taint_manager_requests_total{request="mark_pod",result="done"} 1"#),
        "{text}"
    );
}

/// NL-151
#[tokio::test(start_paused = true)]
async fn a_quiet_cluster_costs_no_request() {
    let world = World::start(vec![(NODES, mk_node("n1", "True")), (PODS, mk_pod("p", "n1", None))]).await;
    world.pass(600).await;
    let lists = [NODES, PODS].map(|path| format!("GET {path}"));
    let requests = world.api.requests();
    assert!(requests.iter().all(|request| lists.contains(request)), "{requests:?}");
    assert!(world.intents().await.is_empty());
}

/// NL-115, NL-088: what failed is tried again from a fresh read though nothing happens
#[tokio::test(start_paused = true)]
async fn failed_writes_are_tried_again() {
    let world = World::start(vec![(NODES, mk_node("n1", "True")), (PODS, mk_pod("p", "n1", None))]).await;
    world.api.refuse(Some(500));
    world.api.change(NODES, "n1", |node| {
        node["status"]["conditions"][0]["status"] = json!("Unknown")
    });
    world.pass(20).await;
    world.api.refuse(None);
    world.api.requests();
    world.pass(40).await;
    assert_eq!(world.api.get(NODES, "n1")["spec"]["taints"].as_array().unwrap().len(), 1);
    assert_eq!(world.api.get(PODS, "p")["status"]["conditions"][0]["status"], "False");
    let requests: Vec<String> = world
        .api
        .requests()
        .into_iter()
        .filter(|request| !request.ends_with('s'))
        .collect();
    assert!(requests[0].starts_with("GET"), "{requests:?}");
}

/// TE-002, TE-055, TE-066, TE-080, TE-082
#[tokio::test(start_paused = true)]
async fn a_toleration_time_runs_out_or_is_called_off() {
    let pods = [("none", None), ("short", Some(10)), ("long", Some(100))];
    let mut objects: Vec<_> = pods
        .iter()
        .map(|(name, seconds)| (PODS, mk_pod(name, "n1", *seconds)))
        .collect();
    objects.push((NODES, mk_node("n1", "True")));
    let world = World::start(objects).await;
    let _monitor = world.monitor_of_nobody();
    world.api.change(NODES, "n1", taint);
    world.pass(5).await;
    assert_eq!(world.intent("none").await, Some((IntentState::Due, 1)));
    assert_eq!(world.intent("short").await, Some((IntentState::Scheduled, 11)));
    world.pass(10).await;
    assert_eq!(world.intent("short").await, Some((IntentState::Due, 11)));
    world.api.change(NODES, "n1", |node| node["spec"]["taints"] = json!([]));
    world.pass(1).await;
    let (state, _) = world.intent("long").await.unwrap();
    assert!(matches!(state, IntentState::Withdrawn(_)), "{state:?}");
    let said = [
        "taint-eviction-controller",
        "TaintManagerEviction",
        "",
        "Cancelling deletion of Pod default/long",
    ];
    assert_eq!(world.api.events(), [said.map(str::to_owned)]);
    let spans = world.spans.take();
    let root = spans[0].context;
    let (trace, taint) = (format!("{:032x}", root.trace_id()), "example.com/m:NoExecute");
    let causes = json!({"bailiff.dev/trace-id": trace, "bailiff.dev/node": "n1", "bailiff.dev/taint": taint});
    assert_eq!(world.api.causes(), [causes]);
    assert!(
        spans[1..]
            .iter()
            .all(|span| (span.context.trace_id(), span.parent) == (root.trace_id(), Some(root.span_id()))),
        "{spans:?}"
    );
    let told: Vec<String> = spans.iter().map(say).collect();
    let wanted = [
        "NoExecute taint 0 s: k8s.node.name=n1 k8s.node.uid=uid-n1 bailiff.taint=example.com/m:NoExecute",
        "toleration time 10 s: k8s.node.name=n1 k8s.node.uid=uid-n1 k8s.pod.name=short k8s.namespace.name=default \
         k8s.pod.uid=uid-short bailiff.taint=example.com/m:NoExecute bailiff.toleration.seconds=10 bailiff.outcome=expired",
        "toleration time 15 s: k8s.node.name=n1 k8s.node.uid=uid-n1 k8s.pod.name=long k8s.namespace.name=default \
         k8s.pod.uid=uid-long bailiff.taint=example.com/m:NoExecute bailiff.toleration.seconds=100 bailiff.outcome=withdrawn \
         bailiff.reason=TAINTS_GONE",
        "pod termination 15 s: k8s.node.name=n1 k8s.node.uid=uid-n1 k8s.pod.name=none k8s.namespace.name=default \
         k8s.pod.uid=uid-none bailiff.taint=example.com/m:NoExecute bailiff.outcome=withdrawn bailiff.reason=TAINTS_GONE",
        "pod termination 5 s: k8s.node.name=n1 k8s.node.uid=uid-n1 k8s.pod.name=short k8s.namespace.name=default \
         k8s.pod.uid=uid-short bailiff.taint=example.com/m:NoExecute bailiff.outcome=withdrawn bailiff.reason=TAINTS_GONE",
    ];
    assert_eq!(told, wanted);
}

/// TE-102 and the difference: the bus remembers; PodRef carries what the evictor needs
#[tokio::test(start_paused = true)]
async fn a_restart_does_not_start_the_clock_again() {
    let mut world = World::start(vec![(NODES, mk_node("n1", "True")), (PODS, mk_pod("p", "n1", Some(60)))]).await;
    let _monitor = world.monitor_of_nobody();
    world.api.change(NODES, "n1", taint);
    world.pass(20).await;
    let before = world.intents().await.remove("pod/uid-p").unwrap();
    world.restart().await;
    assert_eq!(world.intent("p").await, Some((IntentState::Scheduled, 61)));
    let after = world.intents().await.remove("pod/uid-p").unwrap();
    assert_eq!(after.trace, before.trace, "the same story");
    assert_eq!(eviction(&after).pod.generation, 2);
    world.pass(45).await;
    assert_eq!(world.intent("p").await, Some((IntentState::Due, 61)));
}

#[tokio::test(start_paused = true)]
async fn verdicts_become_wishes() {
    let world = World::start(vec![(NODES, mk_node("n1", "True"))]).await;
    let monitor = world.monitor();
    monitor.set(mk_health(Verdict::Unreachable));
    monitor.complete();
    let now = world.clock.now().mono;
    monitor.report(now, Some(now));
    world.pass(1).await;
    let record = world.intents().await.remove("node/n1").unwrap();
    let Some(Body::Intent(Intent::Isolation(isolation))) = &record.body else {
        panic!("{record:?}")
    };
    assert_eq!((isolation.taint, &*record.route), (HealthTaint::Unreachable, "r:z"));
    assert_eq!(record.trace, Some(TraceContext::derived(&["incident"])));
    assert!(record.derived_from.is_comparable(&record.origin()) && record.derived_from.revision < record.revision);
    monitor.set(mk_health(Verdict::Healthy));
    world.pass(1).await;
    assert!(world.intents().await.is_empty());
}

/// The bus is not needed to write; what was decided without it is published when it is back, and nothing is lost with its memory
#[tokio::test(start_paused = true)]
async fn without_a_bus_nodes_are_written_all_the_same() {
    let world = World::start(vec![(NODES, mk_node("n1", "True")), (PODS, mk_pod("p", "n1", Some(5)))]).await;
    world.bus.kill();
    world.api.change(NODES, "n1", |node| {
        node["status"]["conditions"][0]["status"] = json!("Unknown")
    });
    world.pass(1).await;
    assert_eq!(world.api.get(NODES, "n1")["spec"]["taints"].as_array().unwrap().len(), 1);
    world.api.change(NODES, "n1", taint);
    world.pass(60).await;
    world.bus.restart();
    world.pass(30).await;
    assert_eq!(world.intent("p").await, Some((IntentState::Due, 7)));
}

#[tokio::test(start_paused = true)]
async fn readiness_says_what_is_waited_for() {
    let world = World::begin(vec![(NODES, mk_node("n1", "True"))], Some(500));
    world.pass(5).await;
    let unready = world.unready().join("; ");
    assert!(
        unready.contains("eviction intents: waiting for the list of Nodes"),
        "{unready}"
    );
    world.api.refuse(None);
    world.pass(60).await;
    assert_eq!(world.unready(), Vec::<String>::new());
}

/// The shard was taken over: the stage ends and says so
#[tokio::test(start_paused = true)]
async fn a_fenced_stage_ends() {
    let world = World::start(vec![(NODES, mk_node("n1", "True"))]).await;
    let mut other = world.env.clone();
    other.host.identity = "other".to_owned();
    other.epoch = 1_000;
    let _other = tokio::spawn(run(mk_options(), other));
    let ended = tokio::time::timeout(Duration::from_secs(30), world.stage)
        .await
        .unwrap()
        .unwrap();
    let fenced = matches!(
        ended,
        Err(Error::Fenced {
            topic: "eviction-intents",
            ..
        })
    );
    assert!(fenced, "{ended:?}");
}

/// TE-069: times that run are called off without an Event
#[tokio::test(start_paused = true)]
async fn the_shutdown_ends_it() {
    let mut node = mk_node("n1", "True");
    taint(&mut node);
    let world = World::start(vec![(NODES, node), (PODS, mk_pod("p", "n1", Some(100)))]).await;
    let _monitor = world.monitor_of_nobody();
    world.pass(1).await;
    let (state, _) = world.intent("p").await.unwrap();
    assert_eq!(state, IntentState::Scheduled);
    world.env.host.shutdown.trigger();
    let ended = tokio::time::timeout(Duration::from_secs(1), world.stage)
        .await
        .unwrap()
        .unwrap();
    assert!(ended.is_ok(), "{ended:?}");
    assert_eq!(world.api.events().len(), 0);
}
