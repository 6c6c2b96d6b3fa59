//! The stage against a small API server and a bus in process, in paused time.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "all of this is a test; clippy only knows that of functions marked so"
)]

mod api;
mod brake;
mod traces;

use std::time::Duration;

use bailiff_cluster::Api;
use bailiff_event_bus::{
    Body, Bus, Draft, PublishOptions, Publisher, Server, ServerOptions, SubscribeOptions, Update, publish, subscribe,
};
use bailiff_model::health::{Ready, SignOfLife, Signal};
use bailiff_model::intent::{EvictionCause, HealthTaint, Intent, IntentState, NodeIsolation, PodEviction, Trigger};
use bailiff_model::outcome::{NodeOutcomeState, Outcome, PodOutcomeState};
use bailiff_model::{Effect, NodeHealth, NodeRef, PodRef, ReadyStatus, Taint, Topic, TraceContext, Verdict, Zone};
use bailiff_runtime::client::Limiter;
use bailiff_runtime::trace::Recorder;
use bailiff_runtime::{Clock, Seed, Spans};
use bailiff_stage::{Env, Error, Host, Shard};
use bailiff_zone_evictor::{Options, run};
use clap::Parser;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use api::{FakeApi, NODES, PODS};

#[derive(Clone, Debug, Parser)]
struct Cli {
    #[command(flatten)]
    options: Options,
}

/// Of the one incident there is.
fn trace() -> TraceContext {
    TraceContext::derived(&["incident"])
}

struct World {
    api: FakeApi,
    /// Of the stage's client: so many turns that no test waits for one that does not use them up.
    turns: Limiter,
    clock: Clock,
    env: Env,
    health: Publisher,
    intents: Publisher,
    stage: JoinHandle<Result<(), Error>>,
    spans: Recorder,
    /// The bus lives as long as its server.
    _bus: Server,
}

impl World {
    /// A running evictor of healthy nodes in zone a.
    async fn start(nodes: &[&str], flags: &[&str]) -> Self {
        let api = FakeApi::default();
        // 2024-01-01T00:00:00Z
        let clock = Clock::virtual_from(jiff::Timestamp::from_second(1_704_067_200).unwrap());
        let turns = Limiter::new(0.5, 1000, &clock);
        let seed = Seed::new(1);
        let server = Server::new(ServerOptions::default(), &clock, &seed);
        let bus = Bus::in_process(&server);
        let (spans, recorder) = Spans::recorded();
        let stage_api = Api::new(api.client(), clock.clone(), bailiff_cluster::Metrics::default()).with_limiter(turns.clone());
        let host = Host {
            spans,
            ..Host::new(&clock, &seed, "test")
        };
        let env = host.env(stage_api, &bus, Shard::WHOLE, 0);
        let producer = |topic| {
            let options = PublishOptions {
                topic,
                shard: 0,
                shard_count: 1,
                producer: "test".to_owned(),
                epoch: 0,
            };
            publish(&bus, options, &clock, &seed)
        };
        let flags = std::iter::once("evictor").chain(flags.iter().copied());
        let options = Cli::try_parse_from(flags).unwrap().options;
        let world = Self {
            health: producer(Topic::NodeHealth),
            intents: producer(Topic::EvictionIntents),
            stage: tokio::spawn(run(options, env.clone())),
            spans: recorder,
            _bus: server,
            api,
            turns,
            clock,
            env,
        };
        for name in nodes {
            world.put_node(name, "True", json!([]));
            world.judge(name, Verdict::Healthy);
        }
        world.health.complete();
        world.intents.complete();
        world.pass(1).await;
        world
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

    /// Seconds pass, in each of which the stages before report that they are alive.
    async fn pass(&self, seconds: u64) {
        for _ in 0..seconds {
            for publisher in [&self.health, &self.intents] {
                let now = self.clock.now().mono;
                publisher.report(now, Some(now));
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    fn put_node(&self, name: &str, ready: &str, taints: Value) {
        self.api.put(
            NODES,
            json!({
                "metadata": {"name": name, "uid": format!("uid-{name}"), "labels": {"topology.kubernetes.io/zone": "a"}},
                "spec": {"taints": taints},
                "status": {"conditions": [{"type": "Ready", "status": ready}]},
            }),
        );
    }

    fn reference(name: &str) -> NodeRef {
        NodeRef {
            name: name.into(),
            uid: format!("uid-{name}").into(),
            ..NodeRef::default()
        }
    }

    fn judge(&self, name: &str, verdict: Verdict) {
        let now = self.clock.wall();
        let health = NodeHealth {
            node: Self::reference(name),
            zone: Zone::new("", "a"),
            excluded_from_disruption: false,
            ready: Ready {
                status: if verdict == Verdict::Healthy {
                    ReadyStatus::True
                } else {
                    ReadyStatus::Unknown
                },
                reason: String::new(),
                since: Some(now),
            },
            verdict,
            last_sign_of_life: Some(SignOfLife {
                time: now,
                signal: Signal::Lease,
                renew_time: None,
            }),
            late_since: None,
            counted_from: now,
            grace: Duration::from_secs(50),
            decided_at: now,
            held: None,
        };
        self.health
            .set(Draft::new(Body::NodeHealth(Box::new(health))).traced(Some(trace())));
    }

    /// The node is Unknown, and what the stages before do about that is done.
    async fn fall_silent(&self, name: &str) {
        self.put_node(
            name,
            "Unknown",
            json!([{"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}]),
        );
        self.judge(name, Verdict::Unreachable);
        self.health.settled().await;
        let judged = self.env.bus.history(Topic::NodeHealth, name).await.unwrap();
        let wish = NodeIsolation {
            node: Self::reference(name),
            zone: Zone::new("", "a"),
            taint: HealthTaint::Unreachable,
            cause: String::new(),
            decided_at: self.clock.wall(),
        };
        let draft = Draft::new(Body::Intent(Intent::Isolation(Box::new(wish))));
        self.intents
            .set(draft.derived_from(judged.last().unwrap()).traced(Some(trace())));
    }

    fn come_back(&self, name: &str) {
        let taints = self.api.get(NODES, name).unwrap()["spec"]["taints"].clone();
        let kept: Vec<Value> = taints
            .as_array()
            .into_iter()
            .flatten()
            .filter(|taint| taint["effect"] == "NoExecute")
            .cloned()
            .collect();
        self.put_node(name, "True", Value::Array(kept));
        self.judge(name, Verdict::Healthy);
        self.intents.remove(&format!("node/{name}"));
    }

    fn put_pod(&self, name: &str, node: &str) -> PodRef {
        let stored = self.api.put(
            PODS,
            json!({
                "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}"), "generation": 1},
                "spec": {"nodeName": node},
                "status": {},
            }),
        );
        PodRef {
            namespace: "default".into(),
            name: name.into(),
            uid: format!("uid-{name}").into(),
            resource_version: stored["metadata"]["resourceVersion"].as_str().unwrap().into(),
            disruption_target: false,
            generation: 1,
        }
    }

    fn due(&self, pod: PodRef, node: &str) {
        let eviction = PodEviction {
            pod,
            node: Self::reference(node),
            zone: Zone::new("", "a"),
            cause: EvictionCause::Taints {
                taints: vec![Taint::new("node.kubernetes.io/unreachable", Effect::NoExecute)],
                tolerations: vec![],
            }
            .into(),
            state: IntentState::Due,
            trigger: Trigger::Untolerated,
            due_at: self.clock.wall(),
            decided_at: self.clock.wall(),
        };
        self.intents
            .set(Draft::new(Body::Intent(Intent::Pod(Box::new(eviction)))).traced(Some(trace())));
    }

    fn no_execute(&self, name: &str) -> Vec<String> {
        let node = self.api.get(NODES, name).unwrap();
        let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
        let only = taints.into_iter().filter(|taint| taint["effect"] == "NoExecute");
        only.map(|taint| taint["key"].as_str().unwrap().to_owned()).collect()
    }

    /// What the stage has published, by key.
    async fn outcomes(&self) -> std::collections::BTreeMap<String, Outcome> {
        let options = SubscribeOptions {
            topics: vec![Topic::EvictionOutcomes],
            filters: Vec::new(),
            subscriber: "test".to_owned(),
        };
        let mut subscription = subscribe(&self.env.bus, options, &self.clock, &self.env.host.seed);
        let Update::Snapshot { records, .. } = subscription.next().await else {
            panic!("a snapshot comes first")
        };
        let outcome = |body| match body {
            Some(Body::Outcome(outcome)) => Some(outcome),
            _ => None,
        };
        records
            .into_iter()
            .filter_map(|record| Some((record.key, outcome(record.body)?)))
            .collect()
    }

    fn is_ready(&self) -> bool {
        self.env.host.readiness.is_ready()
    }
}

/// NL-070, NL-077, NL-081, NL-140: at the zone's rate, with preconditions, published and counted.
#[tokio::test(start_paused = true)]
async fn silent_nodes_are_isolated_at_the_zones_rate() {
    let world = World::start(&["n1", "n2", "n3", "n4", "n5"], &[]).await;
    assert!(world.is_ready());
    world.fall_silent("n1").await;
    world.pass(1).await;
    world.fall_silent("n2").await;
    world.pass(5).await;
    assert_eq!(world.no_execute("n1"), ["node.kubernetes.io/unreachable"]);
    assert_eq!(world.no_execute("n2"), Vec::<String>::new());
    let (request, body) = world.api.writes()[0].clone();
    assert_eq!(request, format!("PATCH {NODES}/n1"));
    assert_eq!(body["metadata"]["uid"], "uid-n1");
    assert!(body["metadata"]["resourceVersion"].is_string());
    assert_eq!(
        body["spec"]["taints"][0]["effect"], "NoSchedule",
        "the rest of the list stays"
    );
    let stamped = body["spec"]["taints"][1]["timeAdded"].as_str().unwrap().to_owned();
    assert!(stamped.starts_with("2024-01-01T00:00:0") && stamped.len() == 20, "{stamped}");
    let outcomes = world.outcomes().await;
    assert!(matches!(&outcomes["node/n1"], Outcome::Node(node) if node.state == NodeOutcomeState::Isolated));
    assert!(
        matches!(&outcomes["node/n2"], Outcome::Node(node) if matches!(node.state, NodeOutcomeState::Queued { position: 1, .. }))
    );
    assert!(matches!(&outcomes["zone/:a"], Outcome::Zone(zone) if (zone.voting, zone.not_ready, zone.queue_length) == (5, 2, 1)));
    world.pass(6).await;
    assert_eq!(world.no_execute("n2"), ["node.kubernetes.io/unreachable"]);
    let metrics = world.env.host.metrics.encode();
    for line in [
        "node_collector_evictions_total{zone=\":\0:a\"} 2",
        "node_collector_zone_size{zone=\":\0:a\"} 5",
        "node_collector_unhealthy_nodes_in_zone{zone=\":\0:a\"} 2",
        "node_collector_zone_health{zone=\":\0:a\"} 60.0",
    ] {
        assert!(metrics.contains(line), "{line} is missing in {metrics}");
    }
}

/// TE-002, TE-071, TE-072, TE-074, TE-080, TE-090
#[tokio::test(start_paused = true)]
async fn a_due_pod_is_marked_and_deleted_with_preconditions() {
    for (flags, with_uid) in [(&[][..], true), (&["--profile=upstream"][..], false)] {
        let world = World::start(&["n1", "n2", "n3"], flags).await;
        world.fall_silent("n1").await;
        world.pass(1).await;
        let pod = world.put_pod("p", "n1");
        world.due(pod.clone(), "n1");
        world.pass(1).await;
        assert_eq!(world.api.get(PODS, "p"), None);
        let writes = world.api.writes();
        let [_, (mark, condition), (delete, options)] = &writes[..] else {
            panic!("taint, mark and delete, not {writes:?}")
        };
        assert_eq!(*mark, format!("PATCH {PODS}/p/status"));
        assert_eq!(condition["metadata"]["resourceVersion"], pod.resource_version.to_string());
        assert_eq!(condition["status"]["conditions"][0]["observedGeneration"], 1);
        assert_eq!(*delete, format!("DELETE {PODS}/p"));
        assert_eq!(options["preconditions"]["uid"], "uid-p");
        assert_ne!(options["preconditions"]["resourceVersion"], pod.resource_version.to_string());
        let wanted = (
            "taint-eviction-controller".to_owned(),
            "TaintManagerEviction".to_owned(),
            "Marking for deletion Pod default/p".to_owned(),
            with_uid,
        );
        assert_eq!(world.api.events(), [wanted]);
        let trace = format!("{:032x}", trace().trace_id());
        let taint = "node.kubernetes.io/unreachable:NoExecute";
        let causes = json!({"bailiff.dev/trace-id": trace, "bailiff.dev/node": "n1", "bailiff.dev/taint": taint});
        assert_eq!(world.api.causes(), [causes]);
        let outcomes = world.outcomes().await;
        assert!(matches!(&outcomes["pod/uid-p"], Outcome::Pod(pod) if pod.state == PodOutcomeState::Deleted));
        assert!(
            world
                .env
                .host
                .metrics
                .encode()
                .contains("taint_eviction_controller_pod_deletions_total 1")
        );
    }
}

/// NL-074: recovery removes the taint.
#[tokio::test(start_paused = true)]
async fn a_node_that_is_back_is_untainted() {
    let world = World::start(&["n1", "n2", "n3"], &[]).await;
    world.fall_silent("n1").await;
    world.pass(2).await;
    assert_eq!(world.no_execute("n1").len(), 1);
    world.come_back("n1");
    world.pass(1).await;
    assert_eq!(world.no_execute("n1"), Vec::<String>::new());
    assert_eq!(world.api.writes().last().unwrap().1["spec"]["taints"], Value::Null);
}

/// NL-095, NL-142: the series of a zone whose nodes are all gone stay: no voters, full health, and what was counted.
#[tokio::test(start_paused = true)]
async fn the_series_of_a_zone_that_is_gone_stay() {
    let names = ["n1", "n2", "n3"];
    let world = World::start(&names, &[]).await;
    world.fall_silent("n1").await;
    world.pass(2).await;
    for name in names {
        world.api.remove(NODES, name);
        world.intents.remove(&format!("node/{name}"));
        world.health.remove(name);
    }
    world.pass(6).await;
    let metrics = world.env.host.metrics.encode();
    for line in [
        "node_collector_evictions_total{zone=\":\0:a\"} 1",
        "node_collector_zone_size{zone=\":\0:a\"} 0",
        "node_collector_unhealthy_nodes_in_zone{zone=\":\0:a\"} 0",
        "node_collector_zone_health{zone=\":\0:a\"} 100.0",
    ] {
        assert!(metrics.contains(line), "{line} is missing in {metrics}");
    }
}

/// TE-069: the shutdown waits for what is under way, and begins nothing more.
#[tokio::test(start_paused = true)]
async fn the_shutdown_waits_for_what_is_under_way() {
    let mut world = World::start(&["n1", "n2", "n3"], &[]).await;
    world.fall_silent("n1").await;
    world.pass(1).await;
    let pod = world.put_pod("p", "n1");
    world.api.slow(Duration::from_secs(2));
    world.due(pod, "n1");
    world.pass(1).await;
    world.env.host.shutdown.trigger();
    let ended = tokio::time::timeout(Duration::from_secs(10), &mut world.stage).await;
    assert!(ended.unwrap().unwrap().is_ok());
    let last = world.api.writes().last().unwrap().0.clone();
    assert_eq!(
        last,
        format!("PATCH {PODS}/p/status"),
        "the mark was sent, the deletion was not"
    );
    let pod = world.api.get(PODS, "p").unwrap();
    assert_eq!(pod["status"]["conditions"][0]["type"], "DisruptionTarget");
}

/// Design §1, fail static: a monitor that is gone holds isolations, says so, and the hold ends with it.
#[tokio::test(start_paused = true)]
async fn a_producer_that_is_not_live_holds_isolations() {
    let world = World::start(&["n1", "n2", "n3"], &[]).await;
    // No report of the monitor's loop for longer than its shard counts as live.
    for _ in 0..30 {
        let now = world.clock.now().mono;
        world.intents.report(now, Some(now));
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    world.fall_silent("n1").await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(world.no_execute("n1"), Vec::<String>::new());
    let held = world
        .env
        .host
        .readiness
        .readiness()
        .into_iter()
        .find(|check| check.name == "zone holds")
        .unwrap();
    assert!(held.note.unwrap().contains("stale"));
    world.pass(5).await;
    assert_eq!(world.no_execute("n1").len(), 1);
}

/// Design §1: what was under way when the stage was told to end is told, so that the next one does not do it again.
#[tokio::test(start_paused = true)]
async fn the_outcome_of_what_was_under_way_at_the_end_is_published() {
    let mut world = World::start(&["n1", "n2", "n3"], &[]).await;
    world.fall_silent("n1").await;
    world.pass(1).await;
    world.api.slow(Duration::from_secs(2));
    let pod = world.put_pod("p", "n1");
    world.due(pod, "n1");
    // Marked by now, and being deleted.
    world.pass(3).await;
    world.env.host.shutdown.trigger();
    (&mut world.stage).await.unwrap().unwrap();
    assert_eq!(world.api.get(PODS, "p"), None);
    let outcomes = world.outcomes().await;
    assert!(matches!(&outcomes["pod/uid-p"], Outcome::Pod(pod) if pod.state == PodOutcomeState::Deleted));
}

/// Design §2: who is fenced stops.
#[tokio::test(start_paused = true)]
async fn a_newer_session_ends_the_stage() {
    let world = World::start(&["n1"], &[]).await;
    let options = PublishOptions {
        topic: Topic::EvictionOutcomes,
        shard: 0,
        shard_count: 1,
        producer: "other".to_owned(),
        epoch: 1_000,
    };
    let _other = publish(&world.env.bus, options, &world.clock, &world.env.host.seed);
    world.pass(5).await;
    assert!(matches!(world.stage.await.unwrap(), Err(Error::Fenced { .. })));
}
