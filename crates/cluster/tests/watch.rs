//! The watch against a scripted API server, in paused time.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bailiff_cluster::views::Meta;
use bailiff_cluster::watch::{Event, SILENT_AFTER, Source};
use bailiff_cluster::{Api, Metrics, View, Watch};
use bailiff_runtime::{Clock, Seed};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::client::Body;
use serde::Deserialize;

#[derive(Debug, Deserialize)]
struct Thing {
    metadata: Meta,
    #[serde(default)]
    size: u32,
}

impl View for Thing {
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

/// What the server does with one request.
enum Answer {
    /// Answers with this code and body.
    Whole(u16, String),
    /// Answers 200 with these lines, then ends the stream.
    Lines(Vec<String>),
    /// Answers 200 with these lines and then says nothing for ever.
    Silence(Vec<String>),
}

type Asked = Arc<Mutex<Vec<String>>>;

fn mk_watch(answers: Vec<Answer>) -> (Watch<Thing>, Asked) {
    let script = Arc::new(Mutex::new(VecDeque::from(answers)));
    let asked = Asked::default();
    let log = asked.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        log.lock().expect("not poisoned").push(request.uri().to_string());
        let answer = script.lock().expect("not poisoned").pop_front();
        async move {
            let response = match answer {
                Some(answer) => mk_response(answer),
                None => std::future::pending().await,
            };
            Ok::<_, Infallible>(response)
        }
    });
    let client = kube::Client::new(service, "default");
    let clock = Clock::virtual_from(jiff::Timestamp::UNIX_EPOCH);
    let api = Api::new(client, clock, Metrics::default());
    (Watch::start(&api, Source::all("/api/v1/things"), &Seed::new(1)), asked)
}

type TestBody = UnsyncBoxBody<Bytes, Infallible>;

fn mk_response(answer: Answer) -> Response<TestBody> {
    use futures::{StreamExt, stream};
    let frames =
        |lines: Vec<String>| stream::iter(lines).map(|line| Ok::<_, Infallible>(http_body::Frame::data(Bytes::from(line + "\n"))));
    let (code, body) = match answer {
        Answer::Whole(code, text) => (code, Full::new(Bytes::from(text)).boxed_unsync()),
        Answer::Lines(lines) => (200, StreamBody::new(frames(lines)).boxed_unsync()),
        Answer::Silence(lines) => (200, StreamBody::new(frames(lines).chain(stream::pending())).boxed_unsync()),
    };
    Response::builder().status(code).body(body).expect("a response")
}

fn mk_list(version: u32, items: &[&str]) -> Answer {
    let body = format!(
        r#"{{"metadata":{{"resourceVersion":"{version}"}},"items":[{}]}}"#,
        items.join(",")
    );
    Answer::Whole(200, body)
}

fn mk_thing(name: &str, version: u32, size: u32) -> String {
    format!(r#"{{"metadata":{{"name":"{name}","resourceVersion":"{version}"}},"size":{size}}}"#)
}

fn mk_line(kind: &str, object: &str) -> String {
    format!(r#"{{"type":"{kind}","object":{object}}}"#)
}

/// The events up to the first that is not there within an hour, as text.
async fn read(watch: &mut Watch<Thing>, count: usize) -> Vec<String> {
    let mut seen = Vec::new();
    for _ in 0..count {
        let event = tokio::time::timeout(Duration::from_secs(3600), watch.next()).await;
        seen.push(match event {
            Ok(Event::Snapshot(things)) => {
                let things: Vec<String> = things.iter().map(|t| format!("{}={}", t.metadata.name, t.size)).collect();
                format!("snapshot {}", things.join(" "))
            }
            Ok(Event::Applied(thing)) => format!("applied {}={}", thing.metadata.name, thing.size),
            Ok(Event::Deleted(thing)) => format!("deleted {}", thing.metadata.name),
            Ok(Event::Stale { since, .. }) => format!("stale {}", since.is_some()),
            Ok(Event::Fresh) => "fresh".to_owned(),
            Err(_) => "nothing".to_owned(),
        });
    }
    seen
}

#[tokio::test(start_paused = true)]
async fn changes_come_once_and_in_order_across_reconnects() {
    let (mut watch, asked) = mk_watch(vec![
        mk_list(5, &[&mk_thing("a", 3, 1)]),
        Answer::Lines(vec![
            mk_line("ADDED", &mk_thing("b", 6, 2)),
            mk_line("BOOKMARK", r#"{"metadata":{"resourceVersion":"9"}}"#),
        ]),
        Answer::Lines(vec![
            mk_line("MODIFIED", &mk_thing("b", 10, 3)),
            mk_line("DELETED", &mk_thing("a", 11, 1)),
        ]),
    ]);
    assert_eq!(
        read(&mut watch, 4).await,
        ["snapshot a=1", "applied b=2", "applied b=3", "deleted a"]
    );
    let asked = asked.lock().expect("not poisoned").clone();
    assert_eq!(asked[0], "/api/v1/things?limit=500");
    for (request, version) in asked[1..].iter().zip(["5", "9", "11"]) {
        assert!(request.contains(&format!("&resourceVersion={version}&")), "{request}");
    }
}

/// DS-201
#[tokio::test(start_paused = true)]
async fn lists_are_read_page_by_page_from_the_store() {
    let first = r#"{"metadata":{"resourceVersion":"5","continue":"x/y="},"items":[{"metadata":{"name":"a"}}]}"#;
    let (mut watch, asked) = mk_watch(vec![
        Answer::Whole(200, first.to_owned()),
        mk_list(5, &[&mk_thing("b", 4, 2)]),
    ]);
    assert_eq!(read(&mut watch, 1).await, ["snapshot a=0 b=2"]);
    let asked = asked.lock().expect("not poisoned").clone();
    assert_eq!(
        asked[..2],
        ["/api/v1/things?limit=500", "/api/v1/things?limit=500&continue=x%2Fy%3D"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_position_that_is_too_old_leads_to_a_new_snapshot() {
    let gone = r#"{"kind":"Status","code":410,"reason":"Expired"}"#;
    let (mut watch, _) = mk_watch(vec![
        mk_list(5, &[]),
        Answer::Whole(410, gone.to_owned()),
        mk_list(20, &[&mk_thing("c", 19, 0)]),
        Answer::Lines(vec![mk_line("ERROR", gone)]),
        mk_list(30, &[]),
    ]);
    assert_eq!(read(&mut watch, 3).await, ["snapshot ", "snapshot c=0", "snapshot "]);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_decoded_is_skipped() {
    let bad = r#"{"metadata":{"name":"bad","resourceVersion":"6"},"size":"large"}"#;
    let (mut watch, asked) = mk_watch(vec![
        mk_list(5, &[bad, &mk_thing("a", 3, 1)]),
        Answer::Lines(vec![mk_line("MODIFIED", bad), mk_line("MODIFIED", &mk_thing("a", 8, 2))]),
    ]);
    assert_eq!(read(&mut watch, 2).await, ["snapshot a=1", "applied a=2"]);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(asked.lock().expect("not poisoned")[2].contains("resourceVersion=8&"));
}

#[tokio::test(start_paused = true)]
async fn a_silent_stream_is_dropped_and_said_to_be_stale_once() {
    let (mut watch, _) = mk_watch(vec![
        mk_list(5, &[]),
        Answer::Silence(vec![mk_line("ADDED", &mk_thing("a", 6, 1))]),
        Answer::Whole(503, String::new()),
        Answer::Lines(vec![mk_line("ADDED", &mk_thing("b", 7, 1))]),
    ]);
    let started = tokio::time::Instant::now();
    assert_eq!(read(&mut watch, 3).await, ["snapshot ", "applied a=1", "stale true"]);
    assert!(
        started.elapsed().abs_diff(SILENT_AFTER) < Duration::from_millis(10),
        "{:?}",
        started.elapsed()
    );
    assert_eq!(read(&mut watch, 2).await, ["fresh", "applied b=1"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_answered_is_stale_too() {
    let (mut watch, _) = mk_watch(vec![Answer::Whole(500, String::new()), mk_list(1, &[])]);
    assert_eq!(read(&mut watch, 3).await, ["stale false", "fresh", "snapshot "]);
}
