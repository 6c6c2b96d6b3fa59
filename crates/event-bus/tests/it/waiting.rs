//! What becomes of producers that wait for the answer of an engine.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bailiff_event_bus::engine::{Command, Effect, Engine, Kept, Limits, Memory, Position, Selection, Set, Ticket, TopicFigures};
use bailiff_event_bus::{Server, ServerOptions, ShardStatus};
use bailiff_model::{Now, Revision, Topic, Wall};
use bailiff_proto::v1 as pb;
use bailiff_proto::v1::publish_request::Step;
use bailiff_runtime::{Clock, Seed};
use futures::channel::mpsc::{UnboundedSender, unbounded};
use tokio::sync::Notify;
use tonic::{Code, Status, Streaming};

use crate::support::soon;

const HEALTH: Topic = Topic::NodeHealth;

/// An engine in memory whose effects are held back.
struct Slow {
    memory: Memory,
    is_held: Arc<AtomicBool>,
    held: Vec<Effect>,
}

impl Engine for Slow {
    fn apply(&mut self, ticket: Ticket, command: Command, now: Now) -> Vec<Effect> {
        let effects = self.memory.apply(ticket, command, now);
        self.held.extend(effects);
        self.poll(now)
    }

    fn poll(&mut self, _now: Now) -> Vec<Effect> {
        if self.is_held.load(Ordering::Relaxed) {
            return Vec::new();
        }
        std::mem::take(&mut self.held)
    }

    fn time(&self, now: Now) -> Now {
        self.memory.time(now)
    }

    fn incarnation(&self) -> &str {
        self.memory.incarnation()
    }

    fn head(&self) -> Revision {
        self.memory.head()
    }

    fn oldest_resumable(&self) -> Revision {
        self.memory.oldest_resumable()
    }

    fn read(&self, selection: &Selection, position: Position, now: Now) -> Set {
        self.memory.read(selection, position, now)
    }

    fn shards(&self, topics: &BTreeSet<Topic>, now: Now) -> Vec<ShardStatus> {
        self.memory.shards(topics, now)
    }

    fn history(&self, topic: Topic, key: &str) -> Vec<Arc<Kept>> {
        self.memory.history(topic, key)
    }

    fn figures(&self) -> Vec<TopicFigures> {
        self.memory.figures()
    }
}

/// A bus over such an engine.
struct Rig {
    server: Server,
    is_held: Arc<AtomicBool>,
    wake: Arc<Notify>,
}

impl Rig {
    fn new() -> Self {
        let (clock, seed) = (Clock::virtual_from(Wall::UNIX_EPOCH), Seed::new(1));
        let server = Server::idle(ServerOptions::default(), &clock, &seed);
        let (is_held, wake) = (Arc::new(AtomicBool::new(false)), Arc::new(Notify::new()));
        let engine = Slow {
            memory: Memory::new("bus-1".to_owned(), Limits::default()),
            is_held: Arc::clone(&is_held),
            held: Vec::new(),
        };
        server.install(Box::new(engine), Some(Arc::clone(&wake)));
        Self { server, is_held, wake }
    }

    fn hold(&self) {
        self.is_held.store(true, Ordering::Relaxed);
    }

    fn let_go(&self) {
        self.is_held.store(false, Ordering::Relaxed);
        self.wake.notify_one();
    }

    /// A producer's stream, and the answers to it.
    async fn connect(&self) -> (UnboundedSender<pb::PublishRequest>, Streaming<pb::PublishResponse>) {
        let (requests, outbound) = unbounded();
        let mut client = pb::event_bus_client::EventBusClient::new(self.server.service());
        (requests, client.publish(outbound).await.unwrap().into_inner())
    }
}

fn mk_open(shard_count: u32) -> pb::PublishRequest {
    mk_request(Step::Open(pb::OpenSession {
        topic: HEALTH.to_string(),
        shard_count,
        producer: "foreign".to_owned(),
        epoch: 1,
        ..pb::OpenSession::default()
    }))
}

fn mk_request(step: Step) -> pb::PublishRequest {
    pb::PublishRequest { step: Some(step) }
}

async fn next(answers: &mut Streaming<pb::PublishResponse>) -> Result<Option<pb::PublishResponse>, Status> {
    soon("an answer", answers.message()).await
}

/// No answer is there in a while.
async fn is_waiting(answers: &mut Streaming<pb::PublishResponse>) -> bool {
    tokio::time::timeout(Duration::from_secs(1), answers.message()).await.is_err()
}

#[tokio::test(start_paused = true)]
async fn a_session_ends_with_all_streams_though_it_waits_for_an_answer() {
    let rig = Rig::new();
    let (open, mut answers) = rig.connect().await;
    open.unbounded_send(mk_open(1)).unwrap();
    next(&mut answers).await.unwrap();
    rig.hold();
    let keepalive = Step::Keepalive(pb::Keepalive::default());
    open.unbounded_send(mk_request(keepalive)).unwrap();
    let (opening, mut others) = rig.connect().await;
    opening.unbounded_send(mk_open(1)).unwrap();
    for answers in [&mut answers, &mut others] {
        assert!(is_waiting(answers).await);
    }
    rig.server.disconnect();
    for answers in [&mut answers, &mut others] {
        let status = next(answers).await.expect_err("it ends");
        assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_whose_producer_left_before_it_was_told_is_closed() {
    let rig = Rig::new();
    rig.hold();
    let (left, mut answers) = rig.connect().await;
    left.unbounded_send(mk_open(1)).unwrap();
    assert!(is_waiting(&mut answers).await);
    rig.let_go();
    // The answer is on its way by now.
    tokio::time::sleep(Duration::from_millis(1)).await;
    drop(answers);
    let (other, mut answers) = rig.connect().await;
    other.unbounded_send(mk_open(2)).unwrap();
    let answer = next(&mut answers).await;
    assert!(answer.is_ok(), "another layout is welcome: {answer:?}");
}
