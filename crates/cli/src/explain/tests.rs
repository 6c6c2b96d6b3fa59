use std::time::Duration;

use bailiff_event_bus::{Draft, PublishOptions, Publisher, Server, ServerOptions, publish};
use bailiff_model::outcome::{NodeOutcome, NodeOutcomeState, PodOutcome, PodOutcomeState, ZoneStatus};
use bailiff_model::{NodeRef, PodRef, Zone, ZoneState};
use bailiff_runtime::Seed;

use super::*;

/// A bus, and a zone-evictor that speaks on it.
struct Town {
    clock: Clock,
    bus: Bus,
    evictor: Publisher,
}

impl Town {
    fn new() -> Self {
        let (clock, seed) = (Clock::virtual_from(at(0)), Seed::new(1));
        let bus = Bus::in_process(&Server::new(ServerOptions::default(), &clock, &seed));
        let options = PublishOptions {
            topic: Topic::EvictionOutcomes,
            shard: 0,
            shard_count: 1,
            producer: "zone-evictor".to_owned(),
            epoch: 0,
        };
        let evictor = publish(&bus, options, &clock, &seed);
        evictor.complete();
        Self { clock, bus, evictor }
    }

    /// It says this at this second.
    async fn say(&self, second: i64, outcome: Outcome) {
        let due = at(second).duration_since(self.clock.wall());
        tokio::time::sleep(Duration::try_from(due).expect("seconds come in order")).await;
        self.evictor.set(Draft::new(Body::Outcome(outcome)));
        self.evictor.settled().await;
    }

    /// What is told of a pod: the sentences, as it was known at this second.
    async fn explain(&self, second: Option<i64>) -> Vec<String> {
        let what = What::Pod {
            name: "web-0".to_owned(),
            namespace: "shop".to_owned(),
        };
        let at = second.map(at);
        let (about, records) = find(&what, at, &self.bus, &self.clock).await.expect("the bus answers");
        let told: Vec<Told<'_>> = records.iter().map(told).collect();
        let story = Story::of(about, &told, at);
        story.present.into_iter().map(|line| line.text).collect()
    }
}

fn at(second: i64) -> Wall {
    Wall::from_second(1_700_000_000 + second).expect("in range")
}

fn mk_node(name: &str) -> NodeRef {
    NodeRef {
        name: name.into(),
        uid: format!("uid-of-{name}").into(),
        ..NodeRef::default()
    }
}

fn mk_pod(uid: &str, node: &str, state: PodOutcomeState) -> Outcome {
    Outcome::Pod(Box::new(PodOutcome {
        pod: PodRef {
            namespace: "shop".into(),
            name: "web-0".into(),
            uid: uid.into(),
            resource_version: "1".into(),
            ..PodRef::default()
        },
        node: mk_node(node),
        zone: Zone::new("eu-1", "a"),
        state,
        failed_attempts: 0,
        detail: String::new(),
        since: at(0),
        next_try_at: None,
    }))
}

fn mk_isolated(name: &str) -> Outcome {
    Outcome::Node(Box::new(NodeOutcome {
        node: mk_node(name),
        zone: Zone::new("eu-1", "a"),
        state: NodeOutcomeState::Isolated,
        since: at(0),
        unhealthy_since: None,
    }))
}

fn mk_zone(not_ready: u32) -> Outcome {
    Outcome::Zone(Box::new(ZoneStatus {
        zone: Zone::new("eu-1", "a"),
        state: ZoneState::Normal,
        voting: 9,
        not_ready,
        late: 0,
        rate_per_second: 0.1,
        last_grant: None,
        queue_length: 0,
        held: None,
    }))
}

#[tokio::test(start_paused = true)]
async fn of_a_pod_nothing_is_told_before_something_was_said_of_it() {
    let town = Town::new();
    town.say(10, mk_isolated("n1")).await;
    town.say(20, mk_pod("z", "n1", PodOutcomeState::Evicting)).await;
    assert_eq!(town.explain(Some(15)).await, Vec::<String>::new());
    assert_eq!(town.explain(Some(25)).await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn of_several_pods_of_one_name_the_one_is_told_that_was_there_then_with_its_zone() {
    let town = Town::new();
    town.say(10, mk_zone(1)).await;
    town.say(10, mk_isolated("n1")).await;
    town.say(20, mk_pod("z", "n1", PodOutcomeState::Evicting)).await;
    town.say(30, mk_pod("z", "n1", PodOutcomeState::Deleted)).await;
    town.say(40, mk_zone(2)).await;
    // The uids say nothing of the order.
    town.say(50, mk_pod("a", "n2", PodOutcomeState::Evicting)).await;

    let zone = |not_ready| {
        format!("zone eu-1:a is in state Normal: {not_ready} of 9 voting nodes not ready, 0 late; 0 waiting at 0.1 nodes/s")
    };
    let isolated = "node n1 in zone eu-1:a is isolated: its NoExecute taint stands".to_owned();
    let pod = |node: &str, what: &str| format!("pod shop/web-0 on node {node} {what}");
    let cases = [
        (Some(15), vec![]),
        (Some(25), vec![zone(1), isolated.clone(), pod("n1", "is being evicted")]),
        (Some(45), vec![isolated, pod("n1", "was deleted"), zone(2)]),
        (Some(55), vec![zone(2), pod("n2", "is being evicted")]),
        (None, vec![zone(2), pod("n2", "is being evicted")]),
    ];
    for (second, wanted) in cases {
        assert_eq!(town.explain(second).await, wanted, "{second:?}");
    }
}
