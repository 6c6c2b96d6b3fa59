//! The watch against a scripted API server, in paused time.

mod initial;
mod parts;
mod protobuf;
mod requests;
mod stale;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bailiff_cluster::views::Meta;
use bailiff_cluster::watch::{Event, SILENT_AFTER, Source};
use bailiff_cluster::{Api, Decode, Metrics, Snapshot, View, Watch};
use bailiff_runtime::{Clock, Seed};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::client::Body;
use serde::Deserialize;

const THINGS: Source = Source::all("/api/v1/things");

#[derive(Debug, Deserialize)]
struct Thing {
    metadata: Meta,
    #[serde(default)]
    size: u32,
}

impl Decode for Thing {}

impl View for Thing {
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

/// What the server does with one request.
enum Answer {
    /// Answers with this code and body.
    Whole(u16, String),
    /// The same for a body that is no text.
    Bytes(u16, Vec<u8>),
    /// Answers 200 with these lines, then ends the stream.
    Lines(Vec<String>),
    /// Answers 200 with these lines and then says nothing for ever.
    Silence(Vec<String>),
    /// Answers 200 with these lines, says nothing for so many seconds, then ends the stream.
    Quiet(Vec<String>, u64),
    /// Answers so only after so many seconds.
    Later(u64, Box<Answer>),
    /// Does not answer.
    Never,
}

type Asked = Arc<Mutex<Vec<String>>>;

fn mk_watch(answers: Vec<Answer>) -> (Watch<Thing>, Asked) {
    mk_watch_of(answers)
}

fn mk_watch_of<T: View>(answers: Vec<Answer>) -> (Watch<T>, Asked) {
    mk_measured_watch(answers, Metrics::default())
}

/// A watch of a server that has lists as streams.
fn mk_streaming_watch(answers: Vec<Answer>) -> (Watch<Thing>, Asked) {
    mk_watch_with(answers, Metrics::default(), true)
}

fn mk_measured_watch<T: View>(answers: Vec<Answer>, metrics: Metrics) -> (Watch<T>, Asked) {
    mk_watch_with(answers, metrics, false)
}

fn mk_watch_with<T: View>(answers: Vec<Answer>, metrics: Metrics, streams: bool) -> (Watch<T>, Asked) {
    let (api, asked) = mk_api(answers, metrics, streams);
    (Watch::start(&api, THINGS, &Seed::new(1)), asked)
}

/// A server that has no lists as streams refuses them beside the script.
fn mk_api(answers: Vec<Answer>, metrics: Metrics, streams: bool) -> (Api, Asked) {
    let script = Arc::new(Mutex::new(VecDeque::from(answers)));
    let asked = Asked::default();
    let log = asked.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let is_refused = !streams && request.uri().query().unwrap_or_default().contains("sendInitialEvents");
        let answer = if is_refused {
            Some(Answer::Whole(400, String::new()))
        } else {
            log.lock().expect("not poisoned").push(request.uri().to_string());
            script.lock().expect("not poisoned").pop_front()
        };
        async move {
            let response = match answer {
                Some(Answer::Never) | None => std::future::pending().await,
                Some(Answer::Later(seconds, answer)) => {
                    tokio::time::sleep(Duration::from_secs(seconds)).await;
                    mk_response(*answer)
                }
                Some(answer) => mk_response(answer),
            };
            Ok::<_, Infallible>(response)
        }
    });
    let client = kube::Client::new(service, "default");
    let clock = Clock::virtual_from(jiff::Timestamp::UNIX_EPOCH);
    (Api::new(client, clock, metrics), asked)
}

type TestBody = UnsyncBoxBody<Bytes, Infallible>;

fn mk_response(answer: Answer) -> Response<TestBody> {
    use futures::{StreamExt, stream};
    let frames =
        |lines: Vec<String>| stream::iter(lines).map(|line| Ok::<_, Infallible>(http_body::Frame::data(Bytes::from(line + "\n"))));
    let (code, body) = match answer {
        Answer::Whole(code, text) => (code, Full::new(Bytes::from(text)).boxed_unsync()),
        Answer::Bytes(code, bytes) => (code, Full::new(Bytes::from(bytes)).boxed_unsync()),
        Answer::Lines(lines) => (200, StreamBody::new(frames(lines)).boxed_unsync()),
        Answer::Silence(lines) => (200, StreamBody::new(frames(lines).chain(stream::pending())).boxed_unsync()),
        Answer::Quiet(lines, seconds) => {
            let end = stream::once(tokio::time::sleep(Duration::from_secs(seconds))).filter_map(|()| std::future::ready(None));
            (200, StreamBody::new(frames(lines).chain(end)).boxed_unsync())
        }
        Answer::Later(..) | Answer::Never => unreachable!("answered by nobody"),
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

/// So many events as text; one that is not there within an hour is nothing.
async fn read(watch: &mut Watch<Thing>, count: usize) -> Vec<String> {
    read_with(watch, count, |never| match never {}).await
}

/// The same, where lists come in `P`.
async fn read_with<P: Send + 'static>(watch: &mut Watch<Thing, P>, count: usize, part: impl Fn(P) -> String) -> Vec<String> {
    let mut seen = Vec::new();
    for _ in 0..count {
        let event = tokio::time::timeout(Duration::from_secs(3600), watch.next()).await;
        seen.push(match event {
            Ok(Event::Part(some)) => part(some),
            Ok(Event::Snapshot(Snapshot { objects, malformed })) => {
                let broken = malformed.iter().map(|meta| format!("{}:{}=?", meta.name, meta.uid));
                let all: Vec<String> = objects.iter().map(show).chain(broken).collect();
                format!("snapshot {}", all.join(" "))
            }
            Ok(Event::Applied(thing)) => format!("applied {}", show(&thing)),
            Ok(Event::Deleted(meta)) => format!("deleted {}", meta.name),
            Ok(Event::Stale { since, .. }) => format!("stale {}", since.is_some()),
            Ok(Event::Fresh) => "fresh".to_owned(),
            Err(_) => "nothing".to_owned(),
        });
    }
    seen
}

fn show(thing: &Thing) -> String {
    format!("{}={}", thing.metadata.name, thing.size)
}

/// Each of these pairs of answers to a list and a watch makes the next list necessary.
async fn assert_few_lists(answers: Vec<Answer>) {
    let (mut watch, asked) = mk_watch(answers);
    tokio::time::timeout(Duration::from_secs(300), read(&mut watch, 100))
        .await
        .expect_err("never ends");
    let lists = asked.lock().expect("not poisoned").len() / 2;
    assert!((5..20).contains(&lists), "{lists} lists in five minutes");
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

/// Objects of a list are no changes, nor are bookmarks.
#[tokio::test(start_paused = true)]
async fn changes_are_counted_whether_they_can_be_read_or_not() {
    let bad = r#"{"metadata":{"name":"bad","resourceVersion":"8"},"size":"large"}"#;
    let registry = bailiff_runtime::Metrics::new();
    let (mut watch, _) = mk_measured_watch::<Thing>(
        vec![
            mk_list(5, &[&mk_thing("a", 3, 1)]),
            Answer::Silence(vec![
                mk_line("ADDED", &mk_thing("b", 6, 2)),
                mk_line("BOOKMARK", r#"{"metadata":{"resourceVersion":"7"}}"#),
                mk_line("MODIFIED", bad),
                mk_line("DELETED", &mk_thing("a", 9, 1)),
            ]),
        ],
        registry.register("", Metrics::register),
    );
    assert_eq!(read(&mut watch, 3).await, ["snapshot a=1", "applied b=2", "deleted a"]);
    let text = registry.encode();
    assert!(
        text.contains("kube_client_watch_events_total{resource=\"things\"} 3\n"),
        "{text}"
    );
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

/// One broken object is told apart from one that is gone: a list names it, and its end is told.
#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_decoded_stays_what_it_was() {
    let bad = r#"{"metadata":{"name":"bad","uid":"u","resourceVersion":"6"},"size":"large"}"#;
    let (mut watch, asked) = mk_watch(vec![
        mk_list(5, &[bad, &mk_thing("a", 3, 1)]),
        Answer::Quiet(vec![mk_line("MODIFIED", bad), mk_line("MODIFIED", &mk_thing("a", 8, 2))], 9),
        Answer::Lines(vec![mk_line("DELETED", bad)]),
    ]);
    assert_eq!(
        read(&mut watch, 3).await,
        ["snapshot a=1 bad:u=?", "applied a=2", "deleted bad"]
    );
    assert!(asked.lock().expect("not poisoned")[2].contains("resourceVersion=8&"));
}

/// A server ends a watch without a word if nothing is newer than its start.
#[tokio::test(start_paused = true)]
async fn a_quiet_cluster_is_not_a_stale_one() {
    let quiet = || Answer::Quiet(Vec::new(), 40);
    let (mut watch, asked) = mk_watch(vec![mk_list(5, &[]), quiet(), quiet(), quiet(), Answer::Silence(Vec::new())]);
    assert_eq!(read(&mut watch, 1).await, ["snapshot "]);
    let clock = tokio::time::Instant::now();
    assert_eq!(read(&mut watch, 1).await, ["stale true"]);
    let elapsed = clock.elapsed();
    assert!(
        elapsed.abs_diff(3 * Duration::from_secs(40) + SILENT_AFTER) < Duration::from_secs(1),
        "{elapsed:?}"
    );
    assert_eq!(asked.lock().expect("not poisoned").len(), 5);
}

#[tokio::test(start_paused = true)]
async fn freshness_follows_the_contract_of_the_watch() {
    let (mut watch, _) = mk_watch(vec![mk_list(5, &[]), Answer::Silence(Vec::new())]);
    let age = |watch: &Watch<Thing>, seconds: u64| {
        let fresh = watch.fresh_at().expect("listed");
        Duration::from_secs(seconds).saturating_sub(fresh.since_origin()).as_secs()
    };
    assert_eq!(watch.fresh_at(), None);
    assert_eq!(read(&mut watch, 1).await, ["snapshot "]);
    tokio::time::sleep(Duration::from_secs(59)).await;
    assert_eq!(age(&watch, 59), 0);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(age(&watch, 61) >= 60);
}

/// What was missed comes before the word that nothing is missed.
#[tokio::test(start_paused = true)]
async fn a_silent_stream_is_dropped_and_what_was_missed_is_listed() {
    let (mut watch, _) = mk_watch(vec![
        mk_list(5, &[]),
        Answer::Silence(vec![mk_line("ADDED", &mk_thing("a", 6, 1))]),
        Answer::Whole(503, String::new()),
        mk_list(9, &[&mk_thing("b", 7, 1)]),
    ]);
    let started = tokio::time::Instant::now();
    assert_eq!(read(&mut watch, 3).await, ["snapshot ", "applied a=1", "stale true"]);
    assert!(
        started.elapsed().abs_diff(SILENT_AFTER) < Duration::from_millis(10),
        "{:?}",
        started.elapsed()
    );
    assert_eq!(read(&mut watch, 2).await, ["snapshot b=1", "fresh"]);
}

/// What cannot be read, or says that it broke, is listed anew, ever more slowly; it is no sign of life for long.
#[tokio::test(start_paused = true)]
async fn poison_is_met_with_lists_and_growing_pauses() {
    let internal = mk_line("ERROR", r#"{"kind":"Status","code":500,"reason":"InternalError"}"#);
    let nameless = mk_line("DELETED", r#"{"metadata":{}}"#);
    for poison in ["{not json".to_owned(), internal, nameless, "x".repeat(9 << 20)] {
        let answers = (0..50).flat_map(|n| [mk_list(n, &[]), Answer::Silence(vec![poison.clone()])]);
        assert_few_lists(answers.collect()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_position_that_expires_at_once_does_not_make_a_hot_loop() {
    let gone = r#"{"kind":"Status","code":410,"reason":"Expired"}"#;
    let answers = (1..50).flat_map(|n| [mk_list(n, &[]), Answer::Whole(410, gone.to_owned())]);
    assert_few_lists(answers.collect()).await;
}

#[tokio::test(start_paused = true)]
async fn watches_that_fail_three_times_are_begun_anew_with_a_list() {
    let broken = || Answer::Whole(500, String::new());
    let (mut watch, asked) = mk_watch(vec![mk_list(5, &[]), broken(), broken(), broken(), mk_list(6, &[])]);
    assert_eq!(read(&mut watch, 2).await, ["snapshot ", "snapshot "]);
    assert_eq!(asked.lock().expect("not poisoned")[4], "/api/v1/things?limit=500");
}

/// A position is only replaced by one.
#[tokio::test(start_paused = true)]
async fn a_missing_version_is_ignored_in_a_line_and_refused_in_a_list() {
    let (mut watch, asked) = mk_watch(vec![
        Answer::Whole(200, r#"{"metadata":{},"items":[]}"#.to_owned()),
        mk_list(5, &[]),
        Answer::Quiet(vec![mk_line("ADDED", r#"{"metadata":{"name":"a"}}"#)], 5),
        Answer::Never,
    ]);
    assert_eq!(
        read(&mut watch, 4).await,
        ["stale false", "snapshot ", "fresh", "applied a=0"]
    );
    tokio::time::sleep(Duration::from_secs(6)).await;
    let asked = asked.lock().expect("not poisoned").clone();
    assert!(asked[3].contains("resourceVersion=5&"), "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn a_page_is_tried_again_and_made_smaller_where_it_is_too_much() {
    let first = r#"{"metadata":{"resourceVersion":"5","continue":"x"},"items":[{"metadata":{"name":"a"}}]}"#;
    let (mut watch, asked) = mk_watch(vec![
        Answer::Whole(200, first.to_owned()),
        Answer::Whole(503, String::new()),
        Answer::Never,
        mk_list(5, &[&mk_thing("b", 4, 2)]),
    ]);
    assert_eq!(read(&mut watch, 3).await, ["stale false", "snapshot a=0 b=2", "fresh"]);
    let asked = asked.lock().expect("not poisoned").clone();
    let page = |limit: u32| format!("/api/v1/things?limit={limit}&continue=x");
    assert_eq!(asked[1..4], [page(500), page(500), page(250)]);
}

/// A page of a list and a watch are asked for again when the server says, not by pauses of our own. (Jitter adds up to a half.)
#[tokio::test(start_paused = true)]
async fn retry_after_is_heeded() {
    let later = || {
        let status = r#"{"kind":"Status","reason":"TooManyRequests","details":{"retryAfterSeconds":35}}"#;
        Answer::Whole(429, status.to_owned())
    };
    let added = mk_line("ADDED", &mk_thing("a", 6, 1));
    let answers = vec![later(), mk_list(5, &[]), later(), Answer::Silence(vec![added])];
    let (mut watch, asked) = mk_watch(answers);
    for wanted in ["snapshot ", "applied a=1"] {
        let begun = tokio::time::Instant::now();
        assert_eq!(read(&mut watch, 1).await, [wanted]);
        let waited = begun.elapsed().as_secs_f64();
        assert!((35.0..=53.0).contains(&waited), "{wanted} after {waited} s");
    }
    assert_eq!(asked.lock().unwrap().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_expires_half_way_is_read_in_one_piece() {
    let first = r#"{"metadata":{"resourceVersion":"5","continue":"x"},"items":[]}"#;
    let gone = r#"{"kind":"Status","code":410,"reason":"Expired"}"#;
    let (mut watch, asked) = mk_watch(vec![
        Answer::Whole(200, first.to_owned()),
        Answer::Whole(410, gone.to_owned()),
        mk_list(9, &[&mk_thing("a", 4, 2)]),
    ]);
    assert_eq!(read(&mut watch, 1).await, ["snapshot a=2"]);
    assert_eq!(asked.lock().expect("not poisoned")[2], "/api/v1/things");
}

/// A view that panics, as a bug might.
#[derive(Debug)]
struct Brittle(Meta);

impl<'de> Deserialize<'de> for Brittle {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let thing = Thing::deserialize(deserializer)?;
        assert_ne!(thing.size, 13, "a bug");
        Ok(Self(thing.metadata))
    }
}

impl Decode for Brittle {}

impl View for Brittle {
    fn meta(&self) -> &Meta {
        &self.0
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_said_and_answered_by_a_list() {
    let (mut watch, _) = mk_watch_of::<Brittle>(vec![
        mk_list(5, &[]),
        Answer::Silence(vec![mk_line("ADDED", &mk_thing("a", 6, 13))]),
        mk_list(7, &[&mk_thing("b", 7, 1)]),
    ]);
    assert!(matches!(watch.next().await, Event::Snapshot(_)));
    let Event::Stale { reason, .. } = watch.next().await else {
        panic!("stale is said");
    };
    assert!(reason.contains("panicked"), "{reason}");
    assert!(matches!(watch.next().await, Event::Snapshot(all) if all.objects[0].meta().name == "b"));
    assert!(matches!(watch.next().await, Event::Fresh));
}
