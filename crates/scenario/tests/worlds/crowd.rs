//! A node with a thousand pods falls silent: all are marked and go, each once and none early, and nobody is flooded by it.

use std::collections::BTreeMap;

use bailiff_sandbox::cluster::{ClusterSpec, build};
use bailiff_sandbox::driver::Options as ClusterOptions;
use bailiff_sandbox::kubelet::KubeletSettings;
use bailiff_scenario::StageOptions;
use bailiff_scenario::chaos::{Faults, Storm};
use serde_json::Value;

use super::*;

const PODS: usize = 1000;
const GRACE: Duration = Duration::from_secs(8);
/// Evictions under way at first; there may be eight times as many without a limit of the client.
const FEWEST_EVICTIONS: usize = 32;

/// What crosses the bus because of the node.
struct Traffic {
    records: Subscription,
    of_topic: BTreeMap<Topic, usize>,
    /// What was said of pods, by what it was.
    of_pods: BTreeMap<&'static str, usize>,
    evicting: BTreeSet<String>,
    most_evicting: usize,
}

impl Traffic {
    fn new(fixture: &Fixture) -> Self {
        let options = SubscribeOptions {
            topics: Topic::ALL.to_vec(),
            filters: Vec::new(),
            subscriber: "test".to_owned(),
        };
        Self {
            records: subscribe(&fixture.bus, options, &fixture.clock, &fixture.seed.fork("test")),
            of_topic: BTreeMap::new(),
            of_pods: BTreeMap::new(),
            evicting: BTreeSet::new(),
            most_evicting: 0,
        }
    }

    fn update(&mut self, update: Update) {
        let Update::Changes { records, .. } = update else { return };
        let keys: BTreeSet<(Topic, &str)> = records.iter().map(|record| (record.topic, record.key.as_str())).collect();
        assert_eq!(keys.len(), records.len(), "a set has the newest of each key and nothing else");
        for record in records {
            *self.of_topic.entry(record.topic).or_default() += 1;
            if let Some(Body::Outcome(Outcome::Pod(outcome))) = record.body {
                *self.of_pods.entry(kind(&outcome.state)).or_default() += 1;
                if outcome.state == PodOutcomeState::Evicting {
                    self.evicting.insert(record.key);
                } else {
                    self.evicting.remove(&record.key);
                }
            }
        }
        self.most_evicting = self.most_evicting.max(self.evicting.len());
    }

    async fn follow(&mut self, span: Duration) {
        let end = tokio::time::sleep(span);
        tokio::pin!(end);
        loop {
            tokio::select! {
                biased;
                update = self.records.next() => self.update(update),
                () = &mut end => return,
            }
        }
    }
}

fn kind(state: &PodOutcomeState) -> &'static str {
    match state {
        PodOutcomeState::Held(_) => "HELD",
        PodOutcomeState::Evicting => "EVICTING",
        PodOutcomeState::Deleted => "DELETED",
        _ => "",
    }
}

fn mk_pod(node: &NodeName, index: usize) -> Value {
    let tolerations = ["not-ready", "unreachable"].map(|key| {
        let key = format!("node.kubernetes.io/{key}");
        json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1 + index % 5})
    });
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": format!("crowd-{index}")},
        "spec": {
            "nodeName": node.as_str(),
            "containers": [{"name": "main", "image": "registry.k8s.io/pause:3.10"}],
            "tolerations": tolerations,
        },
    })
}

/// Three nodes, on one of them a thousand pods; requests can be made slow.
async fn set_up(clock: bailiff_runtime::Clock) -> (Fixture, Faults, NodeName) {
    let kubelets = KubeletSettings {
        lease_interval: Some(Duration::from_secs(2)),
        status_interval: Some(Duration::from_secs(10)),
        // They take more pods than a node has room for.
        ..KubeletSettings::oracle()
    };
    let cluster = ClusterOptions {
        kubelets: Some(kubelets),
        ..ClusterOptions::cluster()
    };
    let flags = ["--node-monitor-period=1s", "--node-monitor-grace-period=8s"];
    let options = StageOptions::parse(flags.map(str::to_owned)).expect("allowed");
    let mut fixture = Fixture::start(Transport::InProcess, &cluster, options, clock, Seed::new(3))
        .await
        .expect("a world");
    let (faults, _) = Faults::new(&fixture.seed);
    fixture.inject(faults.clone());
    let spec = ClusterSpec {
        nodes: 3,
        zones: 1,
        ..ClusterSpec::default()
    };
    let built = build(&fixture.sandbox, &spec).expect("a cluster");
    let node = built.nodes().next().expect("three of them").clone();
    for index in 0..PODS {
        let pod = mk_pod(&node, index);
        fixture.create("/api/v1/namespaces/default/pods", &pod).expect("created");
    }
    // They run by the time that the stages look.
    tokio::time::sleep(Duration::from_secs(2)).await;
    fixture.start_stages().await.expect("stages can start");
    (fixture, faults, node)
}

/// How often each pod was written, by the stage that wrote it.
fn writes(history: &[Observation]) -> BTreeMap<(String, String), usize> {
    let mut writes = BTreeMap::new();
    for seen in history.iter().filter(|seen| &*seen.resource == "pods") {
        let key = (seen.actor.to_string(), seen.event.object.name().to_owned());
        *writes.entry(key).or_default() += 1;
    }
    writes
}

#[test]
fn a_node_with_a_thousand_pods_is_marked_and_emptied_once_and_floods_nobody() {
    world::run(async |clock| {
        let (fixture, faults, node) = set_up(clock).await;
        let mut traffic = Traffic::new(&fixture);
        traffic.follow(Duration::from_secs(6)).await;
        // From here on every request takes up to two seconds, so that there are some under way.
        faults.storm(Storm {
            slow: 1000,
            ..Storm::default()
        });
        set_alive(&fixture, std::slice::from_ref(&node), false).await;
        traffic.follow(Duration::from_secs(150)).await;

        let history = fixture.sandbox.history();
        let mut reader = Reader::new(GRACE);
        for seen in &history {
            reader.observe(seen);
        }
        let figures = reader.figures();
        assert_eq!((figures.nodes_isolated, figures.pods_evicted), (1, PODS));
        assert_eq!(figures.early_evictions, 0, "none before its time");
        let writes = writes(&history);
        for index in 0..PODS {
            let by = |stage: StageName| writes.get(&(stage.as_str().to_owned(), format!("crowd-{index}"))).copied();
            assert_eq!(by(StageName::TaintManager), Some(1), "crowd-{index} is marked once");
            assert_eq!(
                by(StageName::ZoneEvictor),
                Some(2),
                "crowd-{index} gets its condition and is deleted, once"
            );
        }
        // It is told of those that take more than two seconds, which are half of them and less.
        let most = traffic.most_evicting;
        assert!(most > FEWEST_EVICTIONS, "{most} evictions at a time");
        let records = |topic| traffic.of_topic.get(&topic).copied().unwrap_or(0);
        let (intents, outcomes) = (records(Topic::EvictionIntents), records(Topic::EvictionOutcomes));
        // SCHEDULED and DUE of each, and the wish.
        assert!((2 * PODS..2 * PODS + 10).contains(&intents), "{intents} intents");
        // Each is told to be deleted; that it waits for a slot nobody, as nobody does for half a minute; that it is being evicted those whose
        // two requests take more than two seconds together, which is every second one. The rest is of the zone and the node.
        let [held, evicting, deleted, other] =
            ["HELD", "EVICTING", "DELETED", ""].map(|kind| traffic.of_pods.get(kind).copied().unwrap_or(0));
        assert_eq!((deleted, other), (PODS, 0));
        assert_eq!(held, 0, "told to wait");
        assert!((PODS / 4..=3 * PODS / 4).contains(&evicting), "{evicting} told to be evicted");
        let told = held + evicting + deleted;
        assert!((told..told + 50).contains(&outcomes), "{outcomes} outcomes");
        assert_eq!(fixture.ended(), [], "no stage ends by itself");
    });
}
