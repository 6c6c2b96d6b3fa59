//! Connections that misbehave, over pipes in virtual time.

use bailiff_runtime::{Clock, Seed};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::*;
use crate::service::BODY;
use crate::{Config, User, Verb};

mod wire;

/// What a pipe holds that nobody reads: a socket's buffers.
const PIPE: usize = 4096;

struct Bench {
    sandbox: Sandbox,
    graceful: GracefulShutdown,
}

impl Bench {
    fn new(config: Config) -> Self {
        let wall = "2026-11-21T01:00:00Z".parse().unwrap();
        Self {
            sandbox: Sandbox::new(config, Clock::virtual_from(wall), &Seed::new(1)),
            graceful: GracefulShutdown::new(),
        }
    }

    fn connect(&self) -> (DuplexStream, JoinHandle<bool>) {
        let (client, server) = tokio::io::duplex(PIPE);
        let (sandbox, watcher) = (self.sandbox.clone(), self.graceful.watcher());
        let conversation = tokio::spawn(async move { answer(server, &builder(), watcher, sandbox).await.is_ok() });
        (client, conversation)
    }

    async fn send(&self, head: &str) -> (DuplexStream, JoinHandle<bool>) {
        let (mut client, conversation) = self.connect();
        client
            .write_all(format!("{head}\r\nHost: s\r\n\r\n").as_bytes())
            .await
            .unwrap();
        (client, conversation)
    }

    /// Opens a watch over HTTP/2 for so many seconds, and grants it the 64 KiB that a client does that says nothing.
    async fn watch(&self, seconds: u64) -> (DuplexStream, JoinHandle<bool>) {
        let (mut client, conversation) = self.connect();
        let path = format!("/api/v1/namespaces/default/configmaps?watch=1&timeoutSeconds={seconds}");
        // GET http: the indexed fields 2 and 6, and texts for :path and :authority.
        let mut head = vec![0x82, 0x86, 0x04, u8::try_from(path.len()).unwrap()];
        head.extend_from_slice(path.as_bytes());
        head.extend_from_slice(&[0x01, 1, b's']);
        let opening = [
            &b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..],
            &frame(4, 0, 0, &[]),
            &frame(1, 5, 1, &head),
        ];
        client.write_all(&opening.concat()).await.unwrap();
        assert!(!linger(&mut client, Instant::now() + Duration::from_secs(1)).await);
        assert_eq!(self.sandbox.store().streams(), 1);
        (client, conversation)
    }

    /// Creates an object that is more than a client takes that says nothing.
    fn write_large(&self) {
        let large = serde_json::json!({"metadata": {"name": "large"}, "data": {"filler": "x".repeat(500_000)}});
        let maps = "/api/v1/namespaces/default/configmaps";
        self.sandbox.request(&User::admin(), Verb::Create, maps, &large).unwrap();
    }

    fn write(&self, turn: usize) {
        let body = serde_json::json!({
            "metadata": {"name": "m", "namespace": "default"}, "data": {"turn": turn.to_string(), "filler": "x".repeat(200)},
        });
        let path = "/api/v1/namespaces/default/configmaps";
        let (verb, path) = if turn == 0 {
            (Verb::Create, path.to_owned())
        } else {
            (Verb::Update, format!("{path}/m"))
        };
        self.sandbox.request(&User::admin(), verb, &path, &body).unwrap();
    }
}

/// Reads lines of a watch until it ends, is silent for a second, or has shown this turn. Returns the last turn.
async fn read(client: &mut DuplexStream, until: usize) -> usize {
    let (mut text, mut last) = (String::new(), 0);
    let mut chunk = [0; 1024];
    while let Ok(Ok(length)) = tokio::time::timeout(Duration::from_secs(1), client.read(&mut chunk)).await {
        if length == 0 {
            break;
        }
        text.push_str(&String::from_utf8_lossy(&chunk[..length]));
        for line in text.lines() {
            if let Ok(event) = serde_json::from_str::<Value>(line) {
                last = event["object"]["data"]["turn"]
                    .as_str()
                    .map_or(last, |turn| turn.parse().unwrap());
            }
        }
        if last == until {
            break;
        }
        text = text.rsplit('\n').next().unwrap_or_default().to_owned();
    }
    last
}

const WATCH: &str = "GET /api/v1/namespaces/default/configmaps?watch=1&timeoutSeconds=86400 HTTP/1.1";

#[tokio::test(start_paused = true)]
async fn a_watcher_that_does_not_read_is_cut_off_and_costs_nobody_else() {
    let bench = Bench::new(Config::default());
    let (_stalled, cut) = bench.send(WATCH).await;
    let (mut quick, open) = bench.send(WATCH).await;
    let start = Instant::now();
    for turn in 0..100 {
        bench.write(turn);
        assert_eq!(read(&mut quick, turn).await, turn, "the other one has it at once");
    }
    assert_eq!(start.elapsed(), Duration::ZERO, "nobody waited");
    assert!(!cut.await.unwrap(), "cut off");
    assert_eq!(start.elapsed(), STALLED);
    assert!(!open.is_finished());
}

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The next frame: its kind, its flags, its stream and what it carries.
async fn next_frame(client: &mut DuplexStream) -> std::io::Result<(u8, u8, u32, Vec<u8>)> {
    let mut head = [0; 9];
    client.read_exact(&mut head).await?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
    let mut payload = vec![0; length];
    client.read_exact(&mut payload).await?;
    Ok((
        head[3],
        head[4],
        u32::from_be_bytes([head[5], head[6], head[7], head[8]]),
        payload,
    ))
}

/// Reads what comes, answers what must be answered, and takes no more data than the first 64 KiB; until `until`, or an end of stream.
async fn linger(client: &mut DuplexStream, until: Instant) -> bool {
    let (settings, ping) = (4, 6);
    while let Ok(Ok((kind, flags, _, payload))) = tokio::time::timeout_at(until, next_frame(client)).await {
        if matches!(kind, 0 | 1) && flags & 1 == 1 {
            return true;
        }
        if (kind == settings || kind == ping) && flags & 1 == 0 {
            let answer = if kind == ping { payload } else { Vec::new() };
            client.write_all(&frame(kind, 1, 0, &answer)).await.unwrap();
        }
    }
    false
}

/// Takes more bytes of the watch, and of the connection.
async fn grant(client: &mut DuplexStream, bytes: u32) {
    for stream in [0, 1] {
        client.write_all(&frame(8, 0, stream, &bytes.to_be_bytes())).await.unwrap();
    }
}

/// The client reads the connection and answers pings, but takes nothing more of the watch: whatever the watch would say, or that its time
/// is over, cannot be said.
#[tokio::test(start_paused = true)]
async fn a_watch_of_a_connection_that_nobody_reads_is_ended_alone() {
    let bench = Bench::new(Config::default());
    let (mut client, conversation) = bench.watch(86400).await;
    for turn in 0..200 {
        bench.write(turn);
    }
    let start = Instant::now();
    assert!(!linger(&mut client, start + STALLED - Duration::from_secs(1)).await);
    assert_eq!(bench.sandbox.store().streams(), 1, "the client may still read");
    assert!(!linger(&mut client, start + STALLED + Duration::from_secs(1)).await);
    assert_eq!(bench.sandbox.store().streams(), 0, "it is let go");
    assert!(!conversation.is_finished(), "nothing is wrong with the connection");
    // It reads at last, both of the stream and of the connection: what was on its way, and that the stream has ended.
    grant(&mut client, 1_000_000).await;
    assert!(
        linger(&mut client, Instant::now() + Duration::from_secs(1)).await,
        "the end is told"
    );
}

/// What it told may wait on, as long as the connection lives.
#[tokio::test(start_paused = true)]
async fn a_watch_whose_time_is_over_is_let_go_whatever_still_waits() {
    let bench = Bench::new(Config::default());
    let time = STALLED / 2;
    let (mut client, conversation) = bench.watch(time.as_secs()).await;
    bench.write_large();
    let start = Instant::now();
    assert!(!linger(&mut client, start + time + Duration::from_secs(1)).await);
    assert_eq!(bench.sandbox.store().streams(), 0, "its time is over");
    assert!(!conversation.is_finished(), "nothing is wrong with the connection");
    grant(&mut client, 1_000_000).await;
    let told = linger(&mut client, Instant::now() + Duration::from_secs(1)).await;
    assert!(told, "the end is told");
}

/// One that is read, however slowly, stays: a large event may take longer than a client may take nothing.
#[tokio::test(start_paused = true)]
async fn a_watch_that_is_read_slowly_is_not_given_up() {
    let bench = Bench::new(Config::default());
    let (mut client, _conversation) = bench.watch(86400).await;
    bench.write_large();
    for _ in 0..10 {
        grant(&mut client, 1000).await;
        assert!(!linger(&mut client, Instant::now() + STALLED * 2 / 3).await);
        assert_eq!(bench.sandbox.store().streams(), 1, "it is read");
    }
    assert!(!linger(&mut client, Instant::now() + STALLED).await);
    assert_eq!(bench.sandbox.store().streams(), 0, "it is not any more");
    // Nothing else happens that would bring the end about.
    grant(&mut client, 1_000_000).await;
    let told = linger(&mut client, Instant::now() + Duration::from_secs(1)).await;
    assert!(told, "the end is told");
}

/// One that is read, however seldom something happens, stays.
#[tokio::test(start_paused = true)]
async fn a_watch_that_has_nothing_to_say_is_not_given_up() {
    let bench = Bench::new(Config::default());
    let (mut client, conversation) = bench.send(WATCH).await;
    for turn in 0..3 {
        bench.write(turn);
        assert_eq!(read(&mut client, turn).await, turn);
        tokio::time::sleep(STALLED * 3).await;
    }
    assert_eq!(bench.sandbox.store().streams(), 1);
    assert!(!conversation.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_watcher_that_reads_too_slowly_finds_its_watch_ended() {
    let bench = Bench::new(Config {
        window: 20,
        ..Config::default()
    });
    let (mut slow, _conversation) = bench.send(WATCH).await;
    for turn in 0..200 {
        bench.write(turn);
        tokio::task::yield_now().await;
    }
    // What was on its way arrives, then the stream ends properly: the client lists again.
    let last = read(&mut slow, usize::MAX).await;
    assert!((1..150).contains(&last), "{last}");
    bench.write(200);
    assert_eq!(read(&mut slow, 200).await, 0, "nothing more comes");
}

#[tokio::test(start_paused = true)]
async fn connections_that_say_nothing_or_not_enough_end() {
    let bench = Bench::new(Config::default());
    let cases: [(&str, Duration); 3] = [
        ("", STALLED),
        ("GET /version HTTP/1.1\r\nHost:", IDLE),
        ("GET /version HTTP/1.1\r\nHost: s\r\n\r\n", IDLE),
    ];
    for (text, wanted) in cases {
        let start = Instant::now();
        let (mut client, conversation) = bench.connect();
        client.write_all(text.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.unwrap();
        let _ = conversation.await.unwrap();
        assert_eq!(start.elapsed().as_secs(), wanted.as_secs(), "{text:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn heads_and_bodies_have_a_size() {
    let bench = Bench::new(Config::default());
    let huge = format!("GET /version HTTP/1.1\r\nX: {}", "x".repeat(HEAD_BYTES as usize));
    let body = 3 * 1024 * 1024 + 1;
    let long = format!("POST /api/v1/namespaces HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: {body}");
    let cases = [
        (huge, 0, "HTTP/1.1 431", ""),
        (long, body, "HTTP/1.1 413", "\"reason\":\"RequestEntityTooLarge\""),
    ];
    for (head, body, status, reason) in cases {
        let (client, _conversation) = bench.connect();
        let (mut reader, mut writer) = tokio::io::split(client);
        let sending = tokio::spawn(async move {
            // The server need not read all of what it refuses.
            let _ = writer.write_all(format!("{head}\r\nHost: s\r\n\r\n").as_bytes()).await;
            let _ = writer.write_all(&vec![b' '; body]).await;
        });
        let mut answer = vec![0; 2048];
        let length = reader.read(&mut answer).await.unwrap();
        let answer = String::from_utf8_lossy(&answer[..length]);
        assert!(answer.starts_with(status) && answer.contains(reason), "{answer}");
        sending.abort();
    }
}
