//! Gate, turns, deadlines, preconditions.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bailiff_cluster::watch::{Source, read_collection};
use bailiff_cluster::{Api, Encoded, Error, Kind, Metrics, Patch, Precondition};
use bailiff_model::Mono;
use bailiff_runtime::client::Limiter;
use bailiff_runtime::{Clock, Seed};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::server::{Answer, Server};

const POD: &str = "/api/v1/namespaces/d/pods/p";

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

async fn patch(api: &Api) -> Result<Value, Error> {
    api.patch(POD, &Patch::Merge(json!({"a": 1}))).await
}

/// A list is read as long as its pages come, slow ones too, and what was read of one that ends early is not lost.
#[tokio::test(start_paused = true)]
async fn a_collection_is_read_as_far_as_it_goes() {
    const FIRST: &str = r#"{"metadata":{"continue":"t"},"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}]}"#;
    const SECOND: &str = r#"{"metadata":{"continue":"u"},"items":[{"metadata":{"name":"c"}},{"spec":{}}]}"#;
    const LAST: &str = r#"{"metadata":{},"items":[{"metadata":{"name":"d"}}]}"#;
    let source = Source::all("/api/v1/nodes");
    for (end, wanted, ends) in [
        (&[Answer::Later(8, 200, LAST)][..], "a b c d", Ok(())),
        (&[Answer::Says(503, "{}"), Answer::Says(200, LAST)], "a b c d", Ok(())),
        (&[Answer::Never], "a b c", Err(Kind::Timeout)),
        (&[Answer::Says(410, "{}")], "a b c", Err(Kind::Expired)),
    ] {
        let begin = [Answer::Says(200, FIRST), Answer::Later(9, 200, SECOND)];
        let server = Server::new(begin.into_iter().chain(end.iter().copied()));
        let mut names = Vec::new();
        let take = |name: &str, _: &Encoded<'_>| names.push(name.to_owned());
        let ended = read_collection::<Value>(&server.api(), &source, &Seed::new(1), secs(60), take).await;
        assert_eq!(
            (names.join(" ").as_str(), ended.map_err(|error| error.kind)),
            (wanted, ends),
            "{end:?}"
        );
        assert!(server.clock.now().mono <= Mono::from_origin(secs(60)));
    }
}

fn kind<T: std::fmt::Debug>(result: Result<T, Error>) -> Kind {
    result.expect_err("refused").kind
}

/// Whoever has to tell what became of a write has to know.
#[tokio::test]
async fn a_write_that_found_nobody_was_not_done_and_one_that_broke_off_may_have_been() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let config = kube::Config::new(format!("http://{}", listener.local_addr().unwrap()).parse().unwrap());
    let metrics = bailiff_runtime::metrics::Metrics::new().register("", Metrics::register);
    let api = Api::new(kube::Client::try_from(config).unwrap(), Clock::system(), metrics);
    let (broken, ()) = tokio::join!(patch(&api), async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let read = stream.read(&mut [0; 1_024]).await.unwrap();
        assert_ne!(read, 0, "it was asked");
    });
    drop(listener);
    let told = [broken, patch(&api).await].map(|ended| ended.map_err(|error| (error.kind, error.answered, error.is_unconnected)));
    let [broken, refused] = [false, true].map(|is_unconnected| Err((Kind::Unavailable, None, is_unconnected)));
    assert_eq!(told, [broken, refused]);
}

#[tokio::test(start_paused = true)]
async fn a_write_is_not_sent_without_leadership_and_a_read_is() {
    let server = Server::new([Answer::Says(200, r#"{"x":1}"#)]);
    let api = server.api().with_gate(|_| None);
    assert_eq!(kind(patch(&api).await), Kind::NotLeading);
    assert_eq!(kind(api.delete(POD, &Precondition::default()).await), Kind::NotLeading);
    assert_eq!(kind(api.create::<Value>(POD, &json!({})).await), Kind::NotLeading);
    assert_eq!(kind(api.create_text::<Value>(POD, "{}".to_owned()).await), Kind::NotLeading);
    assert_eq!(kind(api.replace::<Value>(POD, &json!({})).await), Kind::NotLeading);
    assert_eq!(server.asked().len(), 0);
    assert_eq!(api.get::<Value>(POD).await, Ok(json!({"x": 1})));
}

/// The gate is asked when it is the request's turn, not when it began to wait for it.
#[tokio::test(start_paused = true)]
async fn leadership_that_ends_while_a_write_waits_for_its_turn_stops_it() {
    let server = Server::new([]);
    let leads = Arc::new(AtomicBool::new(true));
    let gate = leads.clone();
    let api = server
        .api()
        .with_limiter(Limiter::new(0.5, 1, &server.clock))
        .with_gate(move |_| gate.load(Ordering::Relaxed).then_some(Mono::FAR_FUTURE));
    assert!(patch(&api).await.is_ok());
    let (second, ()) = tokio::join!(patch(&api), async {
        tokio::time::sleep(secs(1)).await;
        leads.store(false, Ordering::Relaxed);
    });
    assert_eq!(kind(second), Kind::NotLeading);
    assert_eq!(server.asked().len(), 1);
}

/// What is called off while it waits is answered at once, and takes no turn from those behind it; what was sent is answered.
#[tokio::test(start_paused = true)]
async fn what_is_called_off_before_it_is_sent_is_not_sent() {
    let server = Server::new([Answer::Says(200, "{}"), Answer::Later(3, 200, "{}")]);
    let api = server.api().with_limiter(Limiter::new(0.5, 1, &server.clock));
    let token = CancellationToken::new();
    let recallable = api.clone().unless_called_off(token.clone());
    let before = server.clock.now().mono;
    let elapsed = || server.clock.now().mono.saturating_since(before).as_secs();
    assert!(patch(&recallable).await.is_ok());
    let waits = async { (patch(&recallable).await, elapsed()) };
    let behind = async { (patch(&api).await, elapsed()) };
    let ((called_off, at), (behind, done), ()) = tokio::join!(waits, behind, async {
        tokio::time::sleep(secs(1)).await;
        token.cancel();
    });
    let error = called_off.expect_err("called off");
    assert_eq!((error.kind, error.answered, at), (Kind::CalledOff, None, 1));
    assert!(behind.is_ok());
    assert_eq!(done, 2 + 3, "its turn came as if nobody had waited before it");
    assert_eq!(kind(patch(&recallable).await), Kind::CalledOff);
    assert_eq!(server.asked().len(), 2);

    let server = Server::new([Answer::Later(3, 200, "{}")]);
    let token = CancellationToken::new();
    let api = server.api().unless_called_off(token.clone());
    let (sent, ()) = tokio::join!(patch(&api), async {
        tokio::time::sleep(secs(1)).await;
        token.cancel();
    });
    assert!(sent.is_ok(), "what was sent is answered");
}

/// A write ends before another may lead; a read has its own time.
#[tokio::test(start_paused = true)]
async fn a_write_has_ended_when_the_gate_says_so() {
    let server = Server::new([Answer::Never, Answer::Never, Answer::Later(4, 200, "{}")]);
    let api = server.api().with_gate(|now| Some(now.mono + secs(2)));
    let before = server.clock.now().mono;
    let elapsed = || server.clock.now().mono.saturating_since(before).as_secs();
    assert_eq!((kind(patch(&api).await), elapsed()), (Kind::Timeout, 2));
    let plain = server.api();
    assert_eq!((kind(patch(&plain).await), elapsed()), (Kind::Timeout, 7));
    assert!(api.get::<Value>(POD).await.is_ok());
}

/// A process stands still while a request waits for its connection. Somebody else may lead by then: it is not sent.
#[tokio::test(start_paused = true)]
async fn what_waited_for_a_connection_beyond_its_end_is_not_sent() {
    let server = Server::new([]);
    let api = server
        .api_that_connects_for(secs(1))
        .with_gate(|now| Some(now.mono + secs(2)));
    let (ended, ()) = tokio::join!(patch(&api), async {
        tokio::time::sleep(Duration::from_millis(10)).await;
        tokio::time::advance(secs(60)).await;
    });
    assert_eq!(kind(ended), Kind::Timeout);
    assert_eq!(server.asked().len(), 0);
    assert!(patch(&api).await.is_ok());
}

/// Time spent waiting for a turn is no time the server had: nothing was sent, and that is said.
#[tokio::test(start_paused = true)]
async fn what_waits_too_long_for_its_turn_was_not_sent() {
    let server = Server::new([]);
    let api = server.api().with_limiter(Limiter::new(0.125, 1, &server.clock));
    let (first, second, third) = tokio::join!(patch(&api), patch(&api), patch(&api));
    assert!(first.is_ok() && second.is_ok(), "8 s is no reason to give up");
    let error = third.expect_err("16 s is");
    assert_eq!((error.kind, error.answered), (Kind::NotSent, None));
    assert!(error.is_transient());
    assert_eq!(server.asked().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_delete_names_the_object_it_means() {
    let server = Server::new([]);
    let precondition = Precondition {
        uid: Some("u".to_owned()),
        resource_version: Some("7".to_owned()),
    };
    server.api().delete(POD, &precondition).await.expect("deleted");
    server.api().delete(POD, &Precondition::default()).await.expect("deleted");
    let asked = server.asked();
    assert_eq!(asked[0].what, format!("DELETE {POD}"));
    let options = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
    let mut precise = options.clone();
    precise["preconditions"] = json!({"uid": "u", "resourceVersion": "7"});
    assert_eq!((&asked[0].body, &asked[1].body), (&precise, &options));
}

#[tokio::test(start_paused = true)]
async fn errors_say_whether_anybody_answered() {
    let server = Server::new([
        Answer::Says(409, r#"{"reason":"Conflict","message":"changed"}"#),
        Answer::Breaks,
        Answer::Says(200, "no json"),
        Answer::Says(429, r#"{"details":{"retryAfterSeconds":3}}"#),
    ]);
    let api = server.api();
    let wanted = [
        (Kind::Conflict, Some(409), None),
        (Kind::Unavailable, None, None),
        (Kind::Unavailable, Some(200), None),
        (Kind::TooManyRequests, Some(429), Some(secs(3))),
    ];
    for wanted in wanted {
        let error = patch(&api).await.expect_err("fails");
        assert_eq!((error.kind, error.answered, error.retry_after), wanted, "{error}");
    }
}
