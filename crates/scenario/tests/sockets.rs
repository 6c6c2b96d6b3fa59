//! The same system over loopback sockets, as `bailiff demo` runs it: what differs from a world is how the parts reach each other.
//!
//! Time is real, and nothing here depends on how much of it passes: each step waits for what it is about, and the deadline only ends
//! a run that hangs.

use std::collections::BTreeMap;
use std::time::Duration;

use bailiff_event_bus::{Body, Record, SubscribeOptions, Subscription, Update, subscribe};
use bailiff_model::outcome::{NodeOutcomeState, Outcome, PodOutcomeState};
use bailiff_model::{NodeName, Topic, Verdict};
use bailiff_runtime::{Clock, Seed};
use bailiff_sandbox::kubelet::{Change, Target};
use bailiff_scenario::demo::{self, Plan};
use bailiff_scenario::{Fixture, StageName, Transport};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use tokio::net::TcpStream;

/// Far beyond the few seconds that a step takes.
const DEADLINE: Duration = Duration::from_secs(120);

/// What the bus says, by topic and key.
struct Follower {
    subscription: Subscription,
    held: BTreeMap<(Topic, String), Record>,
}

impl Follower {
    fn new(fixture: &Fixture) -> Self {
        let options = SubscribeOptions {
            topics: Topic::ALL.to_vec(),
            filters: Vec::new(),
            subscriber: "test".to_owned(),
        };
        Self {
            subscription: subscribe(&fixture.bus, options, &fixture.clock, &fixture.seed.fork("test")),
            held: BTreeMap::new(),
        }
    }

    async fn until(&mut self, what: &str, wanted: impl Fn(&Self) -> bool) {
        let followed = async {
            while !wanted(self) {
                match self.subscription.next().await {
                    Update::Snapshot { records, .. } => {
                        self.held.clear();
                        self.take(records);
                    }
                    Update::Changes { records, .. } => self.take(records),
                    Update::Status { .. } | Update::Lost { .. } => {}
                }
            }
        };
        let followed = tokio::time::timeout(DEADLINE, followed).await;
        assert!(followed.is_ok(), "{what} did not happen");
    }

    fn take(&mut self, records: Vec<Record>) {
        for record in records {
            let key = (record.topic, record.key.clone());
            match record.body {
                Some(_) => self.held.insert(key, record),
                None => self.held.remove(&key),
            };
        }
    }

    fn is_healthy(&self, node: &NodeName) -> bool {
        let key = (Topic::NodeHealth, node.to_string());
        let body = self.held.get(&key).and_then(|record| record.body.as_ref());
        matches!(body, Some(Body::NodeHealth(health)) if health.verdict == Verdict::Healthy)
    }

    fn is_node(&self, node: &NodeName, state: &NodeOutcomeState) -> bool {
        let key = (Topic::EvictionOutcomes, format!("node/{node}"));
        let body = self.held.get(&key).and_then(|record| record.body.as_ref());
        matches!(body, Some(Body::Outcome(Outcome::Node(outcome))) if outcome.state == *state)
    }

    fn is_deleted(&self, pod: &str) -> bool {
        self.held.values().any(|record| {
            matches!(&record.body, Some(Body::Outcome(Outcome::Pod(outcome)))
                if outcome.pod.name.as_str() == pod && outcome.state == PodOutcomeState::Deleted)
        })
    }
}

async fn set_alive(fixture: &Fixture, nodes: &[NodeName], alive: bool) {
    for node in nodes {
        let change = Change::default().with("alive", &alive.to_string()).expect("a setting");
        let changed = fixture.driver.change(Target::Node(node.clone()), change).await;
        changed.expect("the kubelets run");
    }
}

async fn health_taints(fixture: &Fixture, node: &NodeName) -> usize {
    let nodes: Api<Node> = Api::all(fixture.client());
    let read = tokio::time::timeout(DEADLINE, nodes.get(node.as_str())).await;
    let node = read.expect("an answer").expect("the node is there");
    let taints = node.spec.and_then(|spec| spec.taints).unwrap_or_default();
    taints
        .iter()
        .filter(|taint| taint.key == "node.kubernetes.io/unreachable")
        .count()
}

#[tokio::test]
async fn a_zone_dies_and_comes_back_over_sockets() {
    let plan = Plan {
        zones: 2,
        nodes_per_zone: 2,
        grace: Duration::from_secs(3),
        lease_interval: Duration::from_millis(500),
        eviction_rate: 10.0,
        ..Plan::default()
    };
    let mut fixture = demo::set_up(&plan, Transport::Sockets, Clock::system(), Seed::new(1))
        .await
        .expect("loopback ports can be had");
    assert_eq!(fixture.endpoints.len(), 2 + StageName::ALL.len(), "{:?}", fixture.endpoints);
    for (name, address) in &fixture.endpoints {
        assert!(TcpStream::connect(address).await.is_ok(), "{name} answers on {address}");
    }
    let mut follower = Follower::new(&fixture);
    let (_, silent) = plan.silent();
    let nodes: Vec<NodeName> = plan.cluster().layout().nodes().cloned().collect();
    follower
        .until("every node is healthy", |seen| nodes.iter().all(|node| seen.is_healthy(node)))
        .await;

    set_alive(&fixture, &silent, false).await;
    // Every stream breaks in the middle, and is taken up again.
    fixture.server.disconnect();
    follower
        .until("the zone is isolated and pods that tolerate nothing are gone", |seen| {
            silent
                .iter()
                .all(|node| seen.is_node(node, &NodeOutcomeState::Isolated) && seen.is_deleted(&format!("app-{node}-0")))
        })
        .await;
    for node in &silent {
        assert_eq!(health_taints(&fixture, node).await, 2, "NoSchedule and NoExecute on {node}");
    }

    set_alive(&fixture, &silent, true).await;
    follower
        .until("the zone is released", |seen| {
            silent
                .iter()
                .all(|node| seen.is_healthy(node) && seen.is_node(node, &NodeOutcomeState::Released))
        })
        .await;
    for node in &silent {
        assert_eq!(health_taints(&fixture, node).await, 0, "{node}");
    }
    assert_eq!(fixture.ended(), [], "no stage ends by itself");
    for name in StageName::ALL {
        let stopped = tokio::time::timeout(DEADLINE, fixture.stop_stage(name)).await;
        assert!(stopped.is_ok(), "{} drains", name.as_str());
    }
}
