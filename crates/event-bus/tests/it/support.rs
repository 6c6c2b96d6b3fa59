//! Builders and a follower that checks what every subscriber is promised.

use std::collections::BTreeMap;
use std::time::Duration;

use bailiff_event_bus::engine::Limits;
use bailiff_event_bus::{
    Body, Bus, Draft, PublishOptions, Published, Publisher, Record, Server, ServerOptions, ShardStatus, SubscribeOptions,
    Subscription, Update, publish, subscribe,
};
use bailiff_model::outcome::{Outcome, PodOutcome, PodOutcomeState};
use bailiff_model::{NodeRef, PodRef, Revision, Topic, Wall, Zone};
use bailiff_proto::v1 as pb;
use bailiff_runtime::{Clock, Seed};
use futures::StreamExt as _;

use crate::engines::Kind;

#[path = "../shared/node_health.rs"]
mod node_health;

use self::node_health::mk_node_health;

/// A node's health; `content` tells one from another.
pub fn mk_health(node: &str, zone: &str, content: u64) -> Body {
    Body::NodeHealth(Box::new(mk_node_health(mk_node(node), zone, "KubeletReady", content)))
}

/// A publisher of one shard of so many.
pub fn mk_publishing(producer: &str, topic: Topic, shard: (u32, u32), epoch: u64) -> PublishOptions {
    PublishOptions {
        topic,
        shard: shard.0,
        shard_count: shard.1,
        producer: producer.to_owned(),
        epoch,
    }
}

/// A subscriber of these topics, unfiltered.
pub fn mk_following(subscriber: &str, topics: &[Topic]) -> SubscribeOptions {
    SubscribeOptions {
        topics: topics.to_vec(),
        filters: Vec::new(),
        subscriber: subscriber.to_owned(),
    }
}

/// The content of [`mk_health`].
pub fn content(record: &Record) -> Option<u64> {
    match &record.body {
        Some(Body::NodeHealth(health)) => Some(health.grace.as_secs()),
        Some(Body::Outcome(Outcome::Pod(outcome))) => Some(u64::from(outcome.failed_attempts)),
        _ => None,
    }
}

/// A pod's outcome. Each node is a zone of its own.
pub fn mk_outcome(pod: &str, node: &str, state: PodOutcomeState, content: u32) -> Body {
    Body::Outcome(Outcome::Pod(Box::new(PodOutcome {
        pod: PodRef {
            namespace: "default".into(),
            name: pod.into(),
            uid: format!("uid-{pod}").into(),
            ..PodRef::default()
        },
        node: mk_node(node),
        zone: Zone::new("eu", node),
        state,
        failed_attempts: content,
        detail: String::new(),
        since: Wall::UNIX_EPOCH,
        next_try_at: None,
    })))
}

pub fn mk_node(name: &str) -> NodeRef {
    NodeRef {
        name: name.into(),
        uid: format!("uid-{name}").into(),
        ..NodeRef::default()
    }
}

/// A bus in this process, in virtual time.
pub struct World {
    pub server: Server,
    pub bus: Bus,
    pub clock: Clock,
    pub seed: Seed,
}

impl World {
    pub fn new(kind: Kind) -> Self {
        Self::with(kind, ServerOptions::default())
    }

    /// A bus that promises to resume for 30 s only, and sends sets in pieces of a few records.
    pub fn small(kind: Kind) -> Self {
        Self::with(
            kind,
            ServerOptions {
                limits: Limits {
                    tombstones_for: Duration::from_secs(30),
                    ..Limits::default()
                },
                chunk_bytes: 256,
                ..ServerOptions::default()
            },
        )
    }

    pub fn with(kind: Kind, options: ServerOptions) -> Self {
        let clock = Clock::virtual_from(Wall::UNIX_EPOCH);
        let seed = Seed::new(1);
        let engines_clock = clock.clone();
        let mk_engine = move |incarnation, limits: &Limits| kind.engine(incarnation, limits, engines_clock.now());
        let server = Server::with_engines(options, &clock, &seed, mk_engine);
        Self {
            bus: Bus::in_process(&server),
            server,
            clock,
            seed,
        }
    }

    pub fn publish(&self, producer: &str, topic: Topic, shard: (u32, u32), epoch: u64) -> Publisher {
        publish(
            &self.bus,
            mk_publishing(producer, topic, shard, epoch),
            &self.clock,
            &self.seed,
        )
    }

    pub fn subscribe(&self, topics: &[Topic]) -> Subscription {
        subscribe(&self.bus, mk_following("follower", topics), &self.clock, &self.seed)
    }

    pub fn follow(&self, topics: &[Topic]) -> Follower {
        Follower::new(self.subscribe(topics))
    }

    /// What the bus answers to this opening, without our client library.
    pub async fn answer_to(&self, open: pb::OpenSession) -> Result<pb::PublishResponse, tonic::Status> {
        self.last_answer_to([pb::publish_request::Step::Open(open)]).await
    }

    /// What the bus answers to the last of these steps, or to the first that it refuses.
    pub async fn last_answer_to<const N: usize>(
        &self,
        steps: [pb::publish_request::Step; N],
    ) -> Result<pb::PublishResponse, tonic::Status> {
        self.answers_to(steps)
            .await
            .map(|answers| answers.into_iter().last().unwrap())
    }

    /// What the bus answers to each of these steps.
    pub async fn answers_to<const N: usize>(
        &self,
        steps: [pb::publish_request::Step; N],
    ) -> Result<Vec<pb::PublishResponse>, tonic::Status> {
        let steps = steps.map(|step| pb::PublishRequest { step: Some(step) });
        let requests = futures::stream::iter(steps).chain(futures::stream::pending());
        let mut client = pb::event_bus_client::EventBusClient::new(self.server.service());
        let mut answers = client.publish(requests).await?.into_inner();
        let mut taken = Vec::new();
        for _ in 0..N {
            taken.push(answers.message().await?.expect("an answer or a status"));
        }
        Ok(taken)
    }

    /// The stream that a subscriber without our client library gets.
    pub async fn raw_subscription(&self, topic: Topic) -> tonic::Streaming<pb::SubscribeResponse> {
        let request = pb::SubscribeRequest {
            subscriber: "foreign".to_owned(),
            topics: vec![topic.to_string()],
            ..pb::SubscribeRequest::default()
        };
        let mut client = pb::event_bus_client::EventBusClient::new(self.server.service());
        client.subscribe(request).await.expect("it is allowed").into_inner()
    }

    /// What the bus tells when it is scraped.
    pub fn metrics(&self) -> String {
        let mut registry = prometheus_client::registry::Registry::with_prefix("event_bus");
        self.server.register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("text takes anything");
        text
    }

    /// Reports that the producer decides and its watches are fresh.
    pub fn report(&self, publisher: &Publisher) {
        let now = self.clock.now().mono;
        publisher.report(now, Some(now));
    }
}

/// Lets `seconds` pass.
pub async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

/// A future that must be ready within a minute of virtual time.
pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    let ended = tokio::time::timeout(Duration::from_secs(60), future).await;
    ended.unwrap_or_else(|_| panic!("{what} did not happen within a minute"))
}

/// Waits for news that `pick` wants, dropping other news.
pub async fn news<T>(publisher: &mut Publisher, mut pick: impl FnMut(Published) -> Option<T>) -> T {
    soon("news", async {
        loop {
            if let Some(found) = pick(publisher.next().await) {
                return found;
            }
        }
    })
    .await
}

/// A subscriber that keeps the latest-record map and checks the order of what it is told.
pub struct Follower {
    pub subscription: Subscription,
    pub held: BTreeMap<(Topic, String), Record>,
    pub shards: BTreeMap<(Topic, u32), ShardStatus>,
    pub snapshots: usize,
    pub lost: usize,
    /// Revision last seen of each key, since the last snapshot.
    seen: BTreeMap<(Topic, String), Revision>,
}

impl Follower {
    pub fn new(subscription: Subscription) -> Self {
        Self {
            subscription,
            held: BTreeMap::new(),
            shards: BTreeMap::new(),
            snapshots: 0,
            lost: 0,
            seen: BTreeMap::new(),
        }
    }

    /// Takes one update.
    pub async fn step(&mut self) -> Update {
        let update = soon("an update", self.subscription.next()).await;
        self.take(update.clone());
        update
    }

    /// Takes updates until `wanted` holds.
    pub async fn until(&mut self, wanted: impl Fn(&Self) -> bool) {
        while !wanted(self) {
            self.step().await;
        }
    }

    /// Takes updates for `seconds`.
    pub async fn for_seconds(&mut self, seconds: u64) {
        let end = tokio::time::Instant::now() + Duration::from_secs(seconds);
        while let Ok(update) = tokio::time::timeout_at(end, self.subscription.next()).await {
            self.take(update);
        }
    }

    pub fn take(&mut self, update: Update) {
        match update {
            Update::Snapshot {
                records,
                skipped,
                shards,
            } => {
                assert_eq!(skipped, [], "everything is understood");
                self.snapshots += 1;
                self.held.clear();
                self.seen.clear();
                self.shards.clear();
                assert!(
                    records.iter().all(|record| record.body.is_some()),
                    "a snapshot holds no tombstones"
                );
                self.take_set(records, shards);
            }
            Update::Changes {
                records,
                skipped,
                shards,
            } => {
                assert_eq!(skipped, [], "everything is understood");
                self.take_set(records, shards);
            }
            Update::Status { shards } => {
                self.shards = shards.into_iter().map(|shard| ((shard.topic, shard.shard), shard)).collect();
            }
            Update::Lost { .. } => {
                self.lost += 1;
                // Nothing is known of them until the bus says it again.
                self.shards.values_mut().for_each(|shard| shard.live = false);
            }
        }
    }

    fn take_set(&mut self, records: Vec<Record>, shards: Vec<ShardStatus>) {
        assert!(records.is_sorted_by_key(|record| record.revision), "a set is in order");
        for record in records {
            let key = (record.topic, record.key.clone());
            let seen = self.seen.insert(key.clone(), record.revision);
            assert!(seen < Some(record.revision), "{key:?}: {seen:?} before {:?}", record.revision);
            if record.body.is_some() {
                self.held.insert(key, record);
            } else {
                self.held.remove(&key);
            }
        }
        for shard in shards {
            let (topic, count) = (shard.topic, shard.shard_count);
            self.shards
                .retain(|_, known| known.topic != topic || known.shard_count == count);
            self.shards.insert((topic, shard.shard), shard);
        }
    }

    /// Contents by key.
    pub fn contents(&self) -> BTreeMap<String, u64> {
        let contents = self
            .held
            .values()
            .filter_map(|record| Some((record.key.clone(), content(record)?)));
        contents.collect()
    }

    pub fn is_complete(&self, topic: Topic) -> bool {
        ShardStatus::is_topic_complete(topic, self.shards.values())
    }

    pub fn is_live(&self, topic: Topic, shard: u32) -> bool {
        self.shards.get(&(topic, shard)).is_some_and(|status| status.live)
    }
}

/// Keys and contents as [`Follower::contents`] has them.
pub fn contents<const N: usize>(wanted: [(&str, u64); N]) -> BTreeMap<String, u64> {
    wanted.map(|(key, content)| (key.to_owned(), content)).into()
}

/// A draft of a node's health.
pub fn mk_draft(node: &str, content: u64) -> Draft {
    Draft::new(mk_health(node, "a", content))
}
