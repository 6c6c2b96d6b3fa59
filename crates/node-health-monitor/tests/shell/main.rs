//! The stage against a small API server and a bus in process, in paused time.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "all of this is a test; clippy only knows that of functions marked so"
)]

mod api;
mod brake;
mod opinion;
mod reads;

use std::time::Duration;

use bailiff_cluster::Api;
use bailiff_event_bus::{Body, Bus, Server, ServerOptions, SubscribeOptions, Subscription, Update, subscribe};
use bailiff_model::{Topic, Verdict};
use bailiff_node_health_monitor::{Options, run};
use bailiff_runtime::client::Limiter;
use bailiff_runtime::trace::{Finished, Recorder, SpanKind, Status};
use bailiff_runtime::{Clock, Seed, Spans};
use bailiff_stage::{Env, Error, Host, Shard};
use clap::Parser;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use api::{FakeApi, LEASES, NODES};

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
    /// A running monitor of these nodes; all of them have just reported Ready and renewed their leases.
    async fn start(nodes: &[&str]) -> Self {
        let world = Self::begin(nodes, None);
        world.pass(1).await;
        world.api.requests();
        world
    }

    /// The same, begun with an API server that refuses with this code.
    fn begin(nodes: &[&str], refuses: Option<u16>) -> Self {
        let api = FakeApi::default();
        api.refuse(refuses);
        let clock = Clock::virtual_from(jiff::Timestamp::from_second(START).unwrap());
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
        for node in nodes {
            api.put(NODES, mk_node(node, "True", &clock));
            api.put(LEASES, mk_lease(node, &clock));
        }
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

    /// The stage is killed and another process takes over.
    async fn restart(&mut self) {
        self.stage.abort();
        self.env.host.identity.push('\'');
        self.env.epoch += 1;
        self.stage = tokio::spawn(run(mk_options(), self.env.clone()));
        self.pass(1).await;
    }

    fn follow(&self) -> Subscription {
        let options = SubscribeOptions {
            topics: vec![Topic::NodeHealth],
            filters: Vec::new(),
            subscriber: "test".to_owned(),
        };
        subscribe(&self.env.bus, options, &self.clock, &self.env.host.seed)
    }

    /// Seconds pass; these nodes renew their leases in each.
    async fn pass_alive(&self, seconds: u64, alive: &[&str]) {
        for _ in 0..seconds {
            self.pass(1).await;
            for node in alive {
                self.api.put(LEASES, mk_lease(node, &self.clock));
            }
        }
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

    fn ready(&self, node: &str) -> Value {
        condition(&self.api.get(NODES, node), "Ready")
    }

    fn unready(&self) -> Vec<String> {
        let failures = self.env.host.readiness.readiness().into_iter();
        failures
            .filter_map(|outcome| Some(format!("{}: {}", outcome.name, outcome.failure?)))
            .collect()
    }
}

fn mk_options() -> Options {
    Cli::try_parse_from(["monitor"]).unwrap().options
}

/// What waits in a subscription: node and verdict of each record, `None` if it is gone; and whether the topic is complete.
async fn news(subscription: &mut Subscription) -> Vec<(String, Option<Verdict>)> {
    let mut news = Vec::new();
    while let Ok(update) = tokio::time::timeout(Duration::from_millis(100), subscription.next()).await {
        let (Update::Snapshot { records, .. } | Update::Changes { records, .. }) = update else {
            continue;
        };
        for record in records {
            let verdict = record.body.map(|body| match body {
                Body::NodeHealth(health) => health.verdict,
                other => panic!("{other:?} is not of this topic"),
            });
            news.push((record.key, verdict));
        }
    }
    news
}

fn verdicts(wanted: &[(&str, Option<Verdict>)]) -> Vec<(String, Option<Verdict>)> {
    wanted.iter().map(|(node, verdict)| ((*node).to_owned(), *verdict)).collect()
}

fn condition(node: &Value, kind: &str) -> Value {
    let conditions = node["status"]["conditions"].as_array().unwrap();
    conditions
        .iter()
        .find(|condition| condition["type"] == kind)
        .cloned()
        .unwrap_or_default()
}

/// Name, length and outcome of a span.
fn say(span: &Finished) -> String {
    let attributes = attributes(span);
    let outcome = attributes.iter().find_map(|text| text.strip_prefix("bailiff.outcome="));
    format!("{} {} {}", span.span.name, lasts(span), outcome.unwrap_or_default())
}

fn lasts(span: &Finished) -> String {
    let lasts = span.span.end.duration_since(span.span.start);
    format!("{} s", (lasts.as_secs_f64() * 10.0).round() / 10.0)
}

fn attributes(span: &Finished) -> Vec<String> {
    let pairs = span.span.attributes.iter();
    pairs.map(|pair| format!("{}={}", pair.key, pair.value)).collect()
}

fn mk_node(name: &str, ready: &str, clock: &Clock) -> Value {
    let now = format!("{:.0}", clock.wall());
    json!({
        "metadata": {"name": name, "uid": format!("uid-{name}"), "creationTimestamp": now},
        "spec": {},
        "status": {"conditions": [
            {"type": "MemoryPressure", "status": "False", "reason": "R", "lastHeartbeatTime": now, "lastTransitionTime": now},
            {"type": "NetworkUnavailable", "status": "False", "reason": "R", "lastTransitionTime": now},
            {"type": "Ready", "status": ready, "reason": "K", "message": "m", "lastHeartbeatTime": now, "lastTransitionTime": now},
        ]},
    })
}

fn mk_lease(name: &str, clock: &Clock) -> Value {
    json!({"metadata": {"name": name, "uid": format!("lease-{name}")}, "spec": {"renewTime": format!("{:.6}", clock.wall())}})
}

/// NL-053, NL-055, NL-066, NL-130, NL-154
#[tokio::test(start_paused = true)]
async fn a_silent_node_is_read_written_and_told() {
    let world = World::start(&["n1", "n2"]).await;
    world.pass_alive(60, &["n2"]).await;

    let one = |path: &str| format!("GET {path}/n1");
    let wanted = [one(NODES), one(LEASES), format!("PATCH {NODES}/n1/status")];
    assert_eq!(world.api.requests(), wanted);
    let preconditions = world.api.patches()[0]["metadata"].clone();
    assert_eq!(preconditions["uid"], "uid-n1");
    assert!(preconditions["resourceVersion"].is_string());

    let node = world.api.get(NODES, "n1");
    let ready = condition(&node, "Ready");
    assert_eq!(ready["status"], "Unknown");
    assert_eq!(ready["reason"], "NodeStatusUnknown");
    assert_eq!(ready["message"], "Kubelet stopped posting node status.");
    assert_eq!(ready["lastHeartbeatTime"], "2024-01-01T00:00:00Z", "kept");
    let since = ready["lastTransitionTime"].as_str().unwrap();
    assert!(since.starts_with("2024-01-01T00:0") && since.len() == 20, "{since}");
    let disk = condition(&node, "DiskPressure");
    assert_eq!(disk["reason"], "NodeStatusNeverUpdated");
    assert_eq!(disk["lastHeartbeatTime"], node["metadata"]["creationTimestamp"]);
    assert_eq!(condition(&node, "NetworkUnavailable")["status"], "False");
    assert_eq!(world.ready("n2")["status"], "True");

    let told = ("NodeNotReady".to_owned(), "Node n1 status is now: NodeNotReady".to_owned());
    assert_eq!(world.api.events().last(), Some(&told));
    let text = world.env.host.metrics.encode();
    assert!(
        text.contains("node_health_monitor_nodes{verdict=\"unreachable\"} 1"),
        "{text}"
    );
    assert!(
        text.contains("node_collector_update_node_health_duration_seconds_count 1"),
        "{text}"
    );
}

/// NL-151
#[tokio::test(start_paused = true)]
async fn a_quiet_cluster_costs_no_request() {
    let world = World::start(&["n1", "n2"]).await;
    world.pass_alive(600, &["n1", "n2"]).await;
    assert_eq!(world.api.requests(), Vec::<String>::new());
}

/// NL-057, NL-152: what failed, and how often, is told once.
#[tokio::test(start_paused = true)]
async fn while_the_api_refuses_nothing_is_written_and_after_that_everything_is() {
    let world = World::start(&["n1"]).await;
    world.api.refuse(Some(503));
    world.pass(120).await;
    assert_eq!(world.ready("n1")["status"], "True");
    world.api.refuse(None);
    world.pass(10).await;
    assert_eq!(world.ready("n1")["status"], "Unknown");
    let told = world.spans.take();
    let refused: Vec<&Finished> = told.iter().filter(|span| span.span.status != Status::Unset).collect();
    let [refused] = refused[..] else { panic!("{told:?}") };
    assert_eq!(
        (&*refused.span.name, &refused.span.kind),
        ("confirming read", &SpanKind::Client)
    );
    let attributes = attributes(refused).join(" ");
    assert!(
        attributes.contains("bailiff.outcome=failed") && attributes.contains("bailiff.detail=unavailable"),
        "{attributes}"
    );
}

/// To give a read up and ask again costs a busy server as much again, and tells nothing sooner.
#[tokio::test(start_paused = true)]
async fn a_slow_server_is_asked_once() {
    let world = World::start(&["n1", "n2"]).await;
    world.api.reads_take(Duration::from_secs(8));
    world.pass_alive(60, &["n2"]).await;
    let one = |path: &str| format!("GET {path}/n1");
    let wanted = [one(NODES), one(LEASES), format!("PATCH {NODES}/n1/status")];
    assert_eq!(world.api.requests(), wanted);
    assert_eq!(world.ready("n1")["status"], "Unknown");
}

/// NL-031, NL-032
#[tokio::test(start_paused = true)]
async fn nodes_are_announced() {
    let world = World::start(&["n1"]).await;
    world.api.remove(NODES, "n1");
    world.pass(1).await;
    let wanted = [
        ("RegisteredNode", "Node n1 event: Registered Node n1 in Controller"),
        ("RemovingNode", "Node n1 event: Removing Node n1 from Controller"),
    ];
    assert_eq!(
        world.api.events(),
        wanted.map(|(reason, note)| (reason.to_owned(), note.to_owned()))
    );
}

#[tokio::test(start_paused = true)]
async fn readiness_says_what_is_waited_for() {
    let world = World::begin(&["n1"], Some(500));
    world.pass(5).await;
    let unready = world.unready().join("; ");
    assert!(unready.contains("node health: waiting for the list of nodes"), "{unready}");
    world.api.refuse(None);
    world.pass(40).await;
    assert_eq!(world.unready(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn transitions_cross_the_bus_and_nothing_else() {
    use Verdict::{Healthy, Late, Unreachable};
    let world = World::start(&["n1", "n2"]).await;
    let mut topic = world.follow();
    assert_eq!(
        news(&mut topic).await,
        verdicts(&[("n1", Some(Healthy)), ("n2", Some(Healthy))])
    );
    world.pass_alive(15, &["n2"]).await;
    assert_eq!(news(&mut topic).await, verdicts(&[("n2", Some(Healthy))]), "it was heard of");
    world.pass_alive(15, &["n2"]).await;
    assert_eq!(news(&mut topic).await, verdicts(&[]));
    world.pass_alive(10, &["n2"]).await;
    assert_eq!(news(&mut topic).await, verdicts(&[("n1", Some(Late))]));
    world.pass_alive(15, &["n2"]).await;
    assert_eq!(news(&mut topic).await, verdicts(&[("n1", Some(Unreachable))]));
    world.api.put(NODES, mk_node("n1", "True", &world.clock));
    world.pass(1).await;
    assert_eq!(news(&mut topic).await, verdicts(&[("n1", Some(Healthy))]));
    world.api.remove(NODES, "n2");
    world.pass(1).await;
    assert_eq!(news(&mut topic).await, verdicts(&[("n2", None)]));
}

/// Design §8: after a failover judged and late nodes are inherited.
#[tokio::test(start_paused = true)]
async fn a_late_node_is_inherited_by_the_next_process() {
    let mut world = World::start(&["n1"]).await;
    world.pass(40).await;
    world.restart().await;
    let mut topic = world.follow();
    assert_eq!(news(&mut topic).await, verdicts(&[("n1", Some(Verdict::Late))]));
    world.pass(13).await;
    assert_eq!(
        world.ready("n1")["status"],
        "Unknown",
        "the quarter that was left, not a full grace"
    );
}

/// The bus is not needed to judge; what was decided without it is published when it is back.
#[tokio::test(start_paused = true)]
async fn without_a_bus_nodes_are_judged_all_the_same() {
    let world = World::start(&["n1", "n2"]).await;
    world.bus.kill();
    world.pass_alive(60, &["n2"]).await;
    assert_eq!(world.ready("n1")["status"], "Unknown");
    world.bus.restart();
    world.pass_alive(30, &["n2"]).await;
    let mut topic = world.follow();
    let wanted = [("n1", Some(Verdict::Unreachable)), ("n2", Some(Verdict::Healthy))];
    assert_eq!(news(&mut topic).await, verdicts(&wanted));
}

/// Design §9: the trace of an incident begins with the last sign of life, and its root is there when it begins; times are those of the
/// cluster, not of the report.
#[tokio::test(start_paused = true)]
async fn an_incident_has_a_trace_from_its_last_sign_of_life() {
    let world = World::start(&["n1"]).await;
    world.pass(40).await;
    let told = world.spans.take();
    let [root] = &told[..] else { panic!("{told:?}") };
    assert_eq!(
        (&*root.span.name, root.parent, lasts(root)),
        ("node incident", None, "37.5 s".to_owned())
    );
    assert_eq!(
        attributes(root),
        ["k8s.node.name=n1", "k8s.node.uid=uid-n1", "bailiff.verdict=LATE"]
    );

    world.pass(20).await;
    let spans = world.spans.take();
    let below = |span: &Finished| (span.context.trace_id(), span.parent) == (root.context.trace_id(), Some(root.context.span_id()));
    assert!(spans.iter().all(below), "{spans:?}");
    let wanted = [
        "grace 50 s expired",
        "confirming read 0 s silent",
        "status write 0 s stored",
        "node unreachable 50 s judged",
    ];
    assert_eq!(spans.iter().map(say).collect::<Vec<_>>(), wanted);
    let kinds: Vec<SpanKind> = spans.iter().map(|span| span.span.kind.clone()).collect();
    use SpanKind::{Client, Internal};
    assert_eq!(kinds, [Internal, Client, Client, Internal]);
    assert!(
        spans
            .iter()
            .all(|span| attributes(span).contains(&"k8s.node.uid=uid-n1".to_owned()))
    );

    let mut topic = world.follow();
    let Update::Snapshot { records, .. } = topic.next().await else {
        panic!("the first news is a snapshot")
    };
    assert_eq!(records[0].trace, Some(root.context));
    let annotation = world.api.annotation("NodeNotReady", "bailiff.dev/trace-id");
    assert_eq!(annotation, format!("{:032x}", root.context.trace_id()));
    assert_eq!(world.api.annotation("NodeNotReady", "bailiff.dev/node"), "n1");
}

/// Design §9: what ends an incident is told in it; a restart neither begins it anew nor tells its root again.
#[tokio::test(start_paused = true)]
async fn an_incident_ends_with_its_recovery() {
    let mut world = World::start(&["n1"]).await;
    world.pass(60).await;
    let root = world.spans.take()[0].context;
    world.restart().await;
    world.api.put(NODES, mk_node("n1", "True", &world.clock));
    world.pass(1).await;
    let told = world.spans.take();
    let [recovery] = &told[..] else { panic!("{told:?}") };
    assert_eq!(
        (recovery.parent, say(recovery).as_str()),
        (Some(root.span_id()), "recovery 62 s recovered")
    );
    assert_eq!(recovery.context.trace_id(), root.trace_id());
}

/// The shard was taken over: the stage ends and says so.
#[tokio::test(start_paused = true)]
async fn a_fenced_stage_ends() {
    let world = World::start(&["n1"]).await;
    let mut other = world.env.clone();
    other.host.identity = "other".to_owned();
    other.epoch = 1_000;
    let _other = tokio::spawn(run(mk_options(), other));
    let ended = tokio::time::timeout(Duration::from_secs(30), world.stage)
        .await
        .unwrap()
        .unwrap();
    assert!(
        matches!(
            ended,
            Err(Error::Fenced {
                topic: "node-health",
                ..
            })
        ),
        "{ended:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_shutdown_ends_it() {
    let world = World::start(&["n1"]).await;
    world.env.host.shutdown.trigger();
    let ended = tokio::time::timeout(Duration::from_secs(1), world.stage)
        .await
        .unwrap()
        .unwrap();
    assert!(ended.is_ok(), "{ended:?}");
}
