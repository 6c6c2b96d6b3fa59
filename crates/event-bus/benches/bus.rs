//! What the bus costs in time, over a socket of this machine: the way of a record from `set` to its subscriber, a snapshot of a large
//! cluster, and a resumption after a lost connection. `cargo bench -p bailiff-event-bus`; a number after `--` is the keys of the snapshot.
//!
//! Publisher, bus and subscriber share this process, so the figures hold the work of all three. The floor is told beside them: the same
//! bytes there and back on a socket, without gRPC.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a benchmark measures real time, and fails by panicking"
)]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bailiff_event_bus::{
    Body, Bus, Draft, PublishOptions, Publisher, Server, ServerOptions, SubscribeOptions, Update, publish, subscribe,
};
use bailiff_model::{NodeRef, Topic};
use bailiff_runtime::{Clock, Seed};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_util::sync::CancellationToken;

#[path = "../tests/shared/node_health.rs"]
mod node_health;

use node_health::mk_node_health;

/// A hundred and thirty thousand nodes, and a pod to be evicted on every fifth.
const KEYS: usize = 155_000;
/// Records whose way is measured, and how far apart they are sent: a busy minute of a large cluster.
const RECORDS: usize = 20_000;
const APART: Duration = Duration::from_micros(500);
/// Changes that are missed in an outage of a minute.
const MISSED: usize = 30_000;

struct Stand {
    bus: Bus,
    server: Server,
    clock: Clock,
    seed: Seed,
}

impl Stand {
    async fn new() -> Self {
        let (clock, seed) = (Clock::system(), Seed::new(1));
        let server = Server::new(ServerOptions::default(), &clock, &seed);
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let bus = Bus::connect(&format!("http://{}", listener.local_addr().unwrap()));
        tokio::spawn(server.clone().serve(listener, CancellationToken::new()));
        Self {
            bus,
            server,
            clock,
            seed,
        }
    }

    fn publisher(&self) -> Publisher {
        let options = PublishOptions {
            topic: Topic::NodeHealth,
            shard: 0,
            shard_count: 1,
            producer: "bench".to_owned(),
            epoch: 1,
        };
        publish(&self.bus, options, &self.clock, &self.seed)
    }

    fn subscription(&self) -> bailiff_event_bus::Subscription {
        let options = SubscribeOptions {
            topics: vec![Topic::NodeHealth],
            filters: Vec::new(),
            subscriber: "bench".to_owned(),
        };
        subscribe(&self.bus, options, &self.clock, &self.seed)
    }
}

fn mk_draft(nth: usize, content: u64) -> Draft {
    let node = NodeRef {
        name: format!(
            "ip-10-{}-{}-{}.eu-west-1.compute.internal",
            nth / 65_536,
            nth / 256 % 256,
            nth % 256
        )
        .into(),
        uid: format!("7c9e6679-7425-40de-944b-{nth:012x}").into(),
        ..NodeRef::default()
    };
    Draft::new(Body::NodeHealth(Box::new(mk_node_health(
        node,
        "eu-west-1a",
        "KubeletReady",
        content,
    ))))
}

#[tokio::main]
async fn main() {
    let keys = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(KEYS);
    let floor = there_and_back().await;
    println!(
        "a message of 200 bytes there and back on a socket: {} in the median",
        micros(floor)
    );
    println!("{:<64} {:>10} {:>10} {:>10}", "", "median", "p99", "longest");
    let stand = Stand::new().await;
    let publisher = stand.publisher();
    publisher.complete();
    publisher.settled().await;
    let name = format!("set to update, {RECORDS} records, {:.0} a second", 1.0 / APART.as_secs_f64());
    row(&name, ways(&stand, &publisher).await, floor);
    drop(publisher);

    let stand = Stand::new().await;
    let publisher = stand.publisher();
    let begun = Instant::now();
    for nth in 0..keys {
        publisher.set(mk_draft(nth, 1));
    }
    publisher.complete();
    publisher.settled().await;
    println!("{keys} keys published as one whole: {:.2} s", begun.elapsed().as_secs_f64());
    let begun = Instant::now();
    let mut subscription = stand.subscription();
    let Update::Snapshot { records, .. } = subscription.next().await else {
        panic!("a snapshot comes first")
    };
    assert_eq!(records.len(), keys);
    drop(records);
    println!("{keys} keys as a snapshot: {:.2} s", begun.elapsed().as_secs_f64());

    stand.server.disconnect();
    for nth in 0..MISSED.min(keys) {
        publisher.set(mk_draft(nth, 2));
    }
    publisher.settled().await;
    let (begun, mut missed) = (Instant::now(), 0);
    while missed < MISSED.min(keys) {
        match subscription.next().await {
            Update::Changes { records, .. } => missed += records.len(),
            Update::Snapshot { .. } => panic!("it is resumed, and nothing is told again"),
            Update::Status { .. } | Update::Lost { .. } => {}
        }
    }
    println!(
        "{missed} changes after a lost connection, without a snapshot: {:.2} s",
        begun.elapsed().as_secs_f64()
    );
}

/// How long each record is on its way, from the call that sets it until the subscriber has it.
async fn ways(stand: &Stand, publisher: &Publisher) -> Vec<Duration> {
    let mut subscription = stand.subscription();
    while !matches!(subscription.next().await, Update::Snapshot { .. }) {}
    let (sender, mut sent) = tokio::sync::mpsc::unbounded_channel();
    let reading = tokio::spawn(async move {
        let mut begun: BTreeMap<String, Instant> = BTreeMap::new();
        let mut ways = Vec::new();
        while ways.len() < RECORDS {
            let Update::Changes { records, .. } = subscription.next().await else {
                continue;
            };
            let now = Instant::now();
            while let Ok((key, at)) = sent.try_recv() {
                begun.insert(key, at);
            }
            ways.extend(records.iter().filter_map(|record| Some(now - begun.remove(&record.key)?)));
        }
        ways
    });
    let mut next = Instant::now();
    for nth in 0..RECORDS {
        let draft = mk_draft(nth, 1);
        next += APART;
        // A timer of the runtime is no finer than a millisecond.
        while Instant::now() < next {
            tokio::task::yield_now().await;
        }
        sender.send((draft.key.clone(), Instant::now())).unwrap();
        publisher.set(draft);
    }
    reading.await.unwrap()
}

/// The median of a small message there and back.
async fn there_and_back() -> Duration {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let mut message = [0; 200];
        while stream.read_exact(&mut message).await.is_ok() {
            stream.write_all(&message).await.unwrap();
        }
    });
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let (mut message, mut ways) = ([0; 200], Vec::new());
    for _ in 0..5_000 {
        let begun = Instant::now();
        stream.write_all(&message).await.unwrap();
        stream.read_exact(&mut message).await.unwrap();
        ways.push(begun.elapsed());
    }
    ways.sort_unstable();
    ways[ways.len() / 2]
}

fn row(name: &str, mut ways: Vec<Duration>, floor: Duration) {
    ways.sort_unstable();
    let at = |share: f64| ways[((ways.len() - 1) as f64 * share) as usize];
    let [median, p99, longest] = [0.5, 0.99, 1.0].map(at);
    println!(
        "{name:<64} {:>10} {:>10} {:>10}",
        micros(median),
        micros(p99),
        micros(longest)
    );
    println!(
        "{:<64} {:>10.1} {:>10.1}",
        "  times the floor",
        median.as_secs_f64() / floor.as_secs_f64(),
        p99.as_secs_f64() / floor.as_secs_f64()
    );
}

fn micros(duration: Duration) -> String {
    format!("{} µs", duration.as_micros())
}
