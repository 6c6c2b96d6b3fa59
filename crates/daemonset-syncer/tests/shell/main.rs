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
use bailiff_daemonset_syncer::{Options, run};
use bailiff_event_bus::{Body, Bus, Server, ServerOptions, SubscribeOptions, Subscription, Update, subscribe};
use bailiff_model::rollout::{DaemonSetSync, WhyNot};
use bailiff_model::{HoldReason, Topic, Wall};
use bailiff_runtime::client::Limiter;
use bailiff_runtime::trace::Recorder;
use bailiff_runtime::{Clock, Seed, Spans};
use bailiff_stage::{Env, Error, Host, Shard};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use api::FakeApi;

struct World {
    api: FakeApi,
    env: Env,
    recorder: Recorder,
    rollouts: Subscription,
    stage: JoinHandle<Result<(), Error>>,
    /// The bus lives as long as its server.
    server: Server,
}

impl World {
    /// A running syncer on a cluster of so many nodes.
    fn start(nodes: usize) -> Self {
        let api = FakeApi::default();
        for index in 0..nodes {
            api.put(&format!("nodes/n{index}"), mk_node(&format!("n{index}")));
        }
        Self::start_on(api)
    }

    fn start_on(api: FakeApi) -> Self {
        Self::start_limited(api, -1.0)
    }

    /// A running syncer that sends so many requests per second; negative: no limit.
    fn start_limited(api: FakeApi, per_second: f64) -> Self {
        // 2024-01-01T00:00:00Z
        let clock = Clock::virtual_from(Wall::from_second(1_704_067_200).unwrap());
        let seed = Seed::new(1);
        let server = Server::new(ServerOptions::default(), &clock, &seed);
        let bus = Bus::in_process(&server);
        let (spans, recorder) = Spans::recorded();
        let stage_api = Api::new(api.client(), clock.clone(), bailiff_cluster::Metrics::default())
            .with_limiter(Limiter::new(per_second, 10, &clock));
        let host = Host {
            spans,
            ..Host::new(&clock, &seed, "test")
        };
        let env = host.env(stage_api, &bus, Shard::WHOLE, 0);
        let options = SubscribeOptions {
            topics: vec![Topic::DaemonRollouts],
            filters: Vec::new(),
            subscriber: "test".to_owned(),
        };
        Self {
            rollouts: subscribe(&bus, options, &clock, &seed),
            stage: tokio::spawn(run(Options::default(), env.clone())),
            env,
            recorder,
            api,
            server,
        }
    }

    /// Another process takes the stage's place, on the same bus.
    async fn restart(self) -> Self {
        self.env.host.shutdown.trigger();
        assert!(self.stage.await.unwrap().is_ok());
        let Env { host, bus, .. } = self.env;
        let (spans, recorder) = Spans::recorded();
        let api = Api::new(self.api.client(), host.clock.clone(), bailiff_cluster::Metrics::default());
        let host = Host {
            spans,
            ..Host::new(&host.clock, &host.seed, "another")
        };
        let api = api.with_limiter(Limiter::none(&host.clock));
        let env = host.env(api, &bus, Shard::WHOLE, 0);
        Self {
            stage: tokio::spawn(run(Options::default(), env.clone())),
            env,
            recorder,
            ..self
        }
    }

    /// Seconds pass, while kubelets bind and run pods.
    async fn pass(&self, seconds: u64) {
        for _ in 0..seconds {
            tokio::time::sleep(Duration::from_secs(1)).await;
            for (path, pod) in self.api.all("pods") {
                if pod["spec"]["nodeName"].is_null() {
                    let node = target(&pod);
                    self.api.change(
                        &path,
                        &json!({"spec": {"nodeName": node}, "status": {
                            "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
                        }}),
                    );
                }
            }
        }
    }

    fn status(&self) -> Value {
        self.api.get("daemonsets/ds").unwrap()["status"].clone()
    }

    fn images(&self) -> Vec<String> {
        let image = |pod: &Value| pod["spec"]["containers"][0]["image"].as_str().unwrap_or_default().to_owned();
        self.api.all("pods").iter().map(|(_, pod)| image(pod)).collect()
    }

    /// The latest record of the DaemonSet on the bus.
    async fn published(&mut self) -> Option<DaemonSetSync> {
        let mut latest = None;
        // What is on its way arrives within a second; status news come every two.
        let end = tokio::time::sleep(Duration::from_secs(5));
        tokio::pin!(end);
        loop {
            let update = tokio::select! {
                biased;
                () = &mut end => return latest,
                update = self.rollouts.next() => update,
            };
            let (Update::Snapshot { records, .. } | Update::Changes { records, .. }) = update else {
                continue;
            };
            for record in records {
                latest = match record.body {
                    Some(Body::DaemonSetSync(sync)) => Some(*sync),
                    _ => None,
                };
            }
        }
    }
}

fn target(pod: &Value) -> String {
    let required = &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    required["nodeSelectorTerms"][0]["matchFields"][0]["values"][0]
        .as_str()
        .unwrap()
        .to_owned()
}

fn mk_node(name: &str) -> Value {
    json!({"metadata": {"name": name}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}})
}

fn mk_daemonset(image: &str, generation: u64) -> Value {
    json!({
        "metadata": {"name": "ds", "namespace": "ns", "uid": "ds-uid", "generation": generation,
            "annotations": {"deprecated.daemonset.template.generation": generation.to_string()}},
        "spec": {
            "selector": {"matchLabels": {"app": "ds"}},
            "template": {"metadata": {"labels": {"app": "ds"}}, "spec": {"containers": [{"name": "c", "image": image}]}},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}},
        },
        "status": {},
    })
}

/// DS-100, DS-142, DS-183, DS-187, DS-201
#[tokio::test(start_paused = true)]
async fn daemon_pods_are_created_and_a_new_node_gets_its_own() {
    let mut world = World::start(3);
    world.api.put("daemonsets/ds", mk_daemonset("v1", 1));
    world.pass(4).await;
    assert_eq!(world.images(), ["v1", "v1", "v1"]);
    let status = world.status();
    assert_eq!(
        (&status["numberReady"], &status["observedGeneration"]),
        (&json!(3), &json!(1))
    );
    world.api.put("nodes/n3", mk_node("n3"));
    world.pass(4).await;
    assert_eq!(world.status()["numberAvailable"], 4);
    let events: Vec<String> = world.api.events();
    assert!(
        events
            .iter()
            .all(|event| event.starts_with("daemonset-controller ds-uid SuccessfulCreate Created pod: ds-")),
        "{events:?}"
    );
    assert_eq!(events.len(), 4);
    let lists = world.api.lists();
    assert!(
        lists.len() == 4 && lists.iter().all(|list| !list.contains("resourceVersion")),
        "{lists:?}"
    );
    let sync = world.published().await.expect("published");
    assert_eq!((sync.counts.available, sync.reasons.len(), sync.revision), (4, 0, 1));
}

/// DS-134, DS-135, DS-155
#[tokio::test(start_paused = true)]
async fn a_new_template_is_rolled_out() {
    let world = World::start(3);
    world.api.put("daemonsets/ds", mk_daemonset("v1", 1));
    world.pass(4).await;
    let mut next = mk_daemonset("v2", 2);
    next["status"] = world.status();
    world.api.put("daemonsets/ds", next);
    world.pass(10).await;
    assert_eq!(world.images(), ["v2", "v2", "v2"]);
    assert_eq!(world.status()["updatedNumberScheduled"], 3);
    assert_eq!(world.api.all("controllerrevisions").len(), 2);
}

/// DS-145: at rest nothing is written, also after a restart on the same cluster.
#[tokio::test(start_paused = true)]
async fn at_rest_nothing_is_written() {
    let world = World::start(2);
    world.api.put("daemonsets/ds", mk_daemonset("v1", 1));
    world.pass(5).await;
    let writes = world.api.writes();
    world.pass(120).await;
    world.env.host.shutdown.trigger();
    assert!(world.stage.await.unwrap().is_ok());
    let again = World::start_on(world.api.clone());
    again.pass(60).await;
    assert_eq!(again.api.writes(), writes);
    assert!(
        again.env.host.readiness.is_ready(),
        "{:?}",
        again.env.host.readiness.readiness()
    );
}

/// Upstream's behaviour never waits for the bus; and what was published is published again to a bus that lost it.
#[tokio::test(start_paused = true)]
async fn the_bus_may_be_away() {
    let mut world = World::start(2);
    world.server.kill();
    world.api.put("daemonsets/ds", mk_daemonset("v1", 1));
    world.pass(5).await;
    assert_eq!(world.status()["numberReady"], 2);
    world.server.restart();
    world.pass(30).await;
    assert_eq!(world.published().await.map(|sync| sync.counts.ready), Some(2));
}

/// What was decided before the end is on the bus after it, also if the connection has just broken.
#[tokio::test(start_paused = true)]
async fn last_words_reach_the_bus() {
    let mut world = World::start(1);
    world.api.put("daemonsets/ds", mk_daemonset("v1", 1));
    world.pass(4).await;
    assert!(world.published().await.is_some());
    world.server.disconnect();
    world.api.remove("daemonsets/ds");
    tokio::time::sleep(Duration::from_millis(10)).await;
    world.env.host.shutdown.trigger();
    tokio::time::timeout(Duration::from_secs(10), &mut world.stage)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    let Env { host, bus, .. } = &world.env;
    let options = SubscribeOptions {
        topics: vec![Topic::DaemonRollouts],
        filters: Vec::new(),
        subscriber: "late".to_owned(),
    };
    world.rollouts = subscribe(bus, options, &host.clock, &host.seed);
    assert_eq!(world.published().await, None);
}

/// DS-055, DS-056 in effect: while the API server is away nothing is decided on old news, and it is said.
#[tokio::test(start_paused = true)]
async fn stale_watches_hold_writes() {
    let mut world = World::start(2);
    world.api.put("daemonsets/ds", mk_daemonset("v1", 1));
    world.pass(5).await;
    world.api.set_silent(true);
    world.pass(120).await;
    let held = world.published().await.and_then(|sync| sync.held);
    assert_eq!(held.map(|hold| hold.reason), Some(HoldReason::ApiStale));
    world.api.set_silent(false);
    world.api.put("nodes/n2", mk_node("n2"));
    world.pass(60).await;
    assert_eq!(world.status()["numberReady"], 3);
    assert_eq!(world.published().await.map(|sync| sync.held), Some(None));
}

/// Why not, on the bus and in metrics.
#[tokio::test(start_paused = true)]
async fn what_a_node_lacks_is_published() {
    let mut world = World::start(2);
    world.api.put("daemonsets/ds", mk_daemonset("v1", 1));
    world.pass(4).await;
    let (path, _) = world.api.all("pods").remove(0);
    world.api.change(
        &path,
        &json!({"status": {"conditions": [{"type": "Ready", "status": "False"}],
        "containerStatuses": [{"state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}}),
    );
    world.pass(3).await;
    let sync = world.published().await.expect("published");
    assert_eq!(sync.reasons, [(WhyNot::CrashLoop, 1)]);
    assert_eq!(sync.nodes.len(), 1);
    let text = world.env.host.metrics.encode();
    assert!(
        text.contains(r#"daemonset_syncer_unavailable_nodes{reason="crash_loop"} 1"#),
        "{text}"
    );
    world.api.remove("daemonsets/ds");
    world.pass(3).await;
    assert_eq!(world.published().await, None);
}
