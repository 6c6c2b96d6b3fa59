//! What becomes of callers that wait for the answer of an engine, and of engines that callers do not let go.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use bailiff_event_bus::engine::{Command, Effect, Engine as _, Kept, Limits, Memory, Position, Selection, Set, Ticket};
use bailiff_event_bus::{Bus, Server, ServerOptions, publish};
use bailiff_model::{Now, Topic, Wall};
use bailiff_proto::v1 as pb;
use bailiff_proto::v1::publish_request::Step;
use bailiff_runtime::{Clock, Seed};
use futures::channel::mpsc::{UnboundedSender, unbounded};
use tokio::sync::Notify;
use tonic::{Code, Status, Streaming};

use crate::engines::handing_on::{Handing, HandsOn};
use crate::support::{mk_draft, mk_publishing, soon};

const HEALTH: Topic = Topic::NodeHealth;

/// Records that readers were given.
type Given = Arc<Mutex<Vec<Weak<Kept>>>>;

/// An engine in memory whose effects are held back.
struct Slow {
    memory: Memory,
    given: Given,
    is_held: Arc<AtomicBool>,
    held: Vec<Effect>,
}

impl HandsOn for Slow {
    type To = Memory;

    fn to(&self) -> &Memory {
        &self.memory
    }

    fn to_mut(&mut self) -> &mut Memory {
        &mut self.memory
    }

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

    fn read(&self, selection: &Selection, position: Position, now: Now) -> Set {
        let set = self.memory.read(selection, position, now);
        let given = set.records.iter().map(Arc::downgrade);
        self.given.lock().unwrap().extend(given);
        set
    }
}

type Client = pb::event_bus_client::EventBusClient<pb::event_bus_server::EventBusServer<Server>>;

/// A bus over such an engine.
struct Rig {
    server: Server,
    clock: Clock,
    given: Given,
    is_held: Arc<AtomicBool>,
    wake: Arc<Notify>,
}

impl Rig {
    fn new() -> Self {
        let (clock, seed) = (Clock::virtual_from(Wall::UNIX_EPOCH), Seed::new(1));
        let server = Server::idle(ServerOptions::default(), &clock, &seed);
        let (given, is_held, wake) = (Given::default(), Arc::new(AtomicBool::new(false)), Arc::new(Notify::new()));
        let engine = Slow {
            memory: Memory::new("bus-1".to_owned(), Limits::default()),
            given: Arc::clone(&given),
            is_held: Arc::clone(&is_held),
            held: Vec::new(),
        };
        server.install(Box::new(Handing(engine)), Some(Arc::clone(&wake)));
        Self {
            server,
            clock,
            given,
            is_held,
            wake,
        }
    }

    fn hold(&self) {
        self.is_held.store(true, Ordering::Relaxed);
    }

    fn let_go(&self) {
        self.is_held.store(false, Ordering::Relaxed);
        self.wake.notify_one();
    }

    fn client(&self) -> Client {
        Client::new(self.server.service())
    }

    /// A subscriber in the middle of a set.
    async fn begun(&self) -> Streaming<pb::SubscribeResponse> {
        let options = mk_publishing("monitor", HEALTH, (0, 1), 7);
        let publisher = publish(&Bus::in_process(&self.server), options, &self.clock, &Seed::new(1));
        for number in 0..2_000 {
            publisher.set(mk_draft(&format!("n{number}"), number));
        }
        publisher.complete();
        soon("all is published", publisher.settled()).await;
        let request = pb::SubscribeRequest {
            subscriber: "foreign".to_owned(),
            topics: vec![HEALTH.to_string()],
            ..pb::SubscribeRequest::default()
        };
        let mut begun = self.client().subscribe(request).await.unwrap().into_inner();
        for _ in 0..2 {
            begun.message().await.expect("the snapshot begins");
        }
        begun
    }

    /// A producer's stream, and the answers to it.
    async fn connect(&self) -> (UnboundedSender<pb::PublishRequest>, Streaming<pb::PublishResponse>) {
        let (requests, outbound) = unbounded();
        (requests, self.client().publish(outbound).await.unwrap().into_inner())
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

#[tokio::test(start_paused = true)]
async fn a_question_ends_with_all_streams_though_it_waits_for_an_answer() {
    let rig = Rig::new();
    rig.hold();
    let mut client = rig.client();
    let request = pb::ResetEpochRequest {
        topic: HEALTH.to_string(),
        shard: 0,
    };
    let mut asked = pin!(client.reset_epoch(request));
    assert!(tokio::time::timeout(Duration::from_secs(1), &mut asked).await.is_err());
    rig.server.disconnect();
    let status = soon("an answer", asked).await.expect_err("it ends");
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
}

/// What comes after the end is not for whoever reads slowly either.
#[tokio::test(start_paused = true)]
async fn a_stream_ends_in_the_middle_of_a_set() {
    let rig = Rig::new();
    let mut begun = rig.begun().await;
    rig.server.disconnect();
    for _ in 0..4 {
        if let Err(status) = begun.message().await {
            assert_eq!(status.code(), Code::Unavailable, "{status:?}");
            return;
        }
    }
    panic!("it goes on");
}

/// Its stream stays as long as its connection, which is an hour; what the bus held must not.
#[tokio::test(start_paused = true)]
async fn a_bus_that_ended_is_freed_though_somebody_does_not_read() {
    let rig = Rig::new();
    let mut begun = rig.begun().await;
    let kept = || {
        rig.given
            .lock()
            .unwrap()
            .iter()
            .filter(|record| record.strong_count() > 0)
            .count()
    };
    assert_eq!(kept(), 2_000);
    rig.server.kill();
    assert_eq!(kept(), 0);
    while let Ok(message) = begun.message().await {
        assert!(message.is_some(), "it ends with a status");
    }
}
