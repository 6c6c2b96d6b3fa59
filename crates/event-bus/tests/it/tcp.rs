//! The same over a socket. Time is real here, so nothing is asserted about it.

use bailiff_event_bus::{Bus, Server, ServerOptions, publish, subscribe};
use bailiff_model::Topic;
use bailiff_proto::v1 as pb;
use bailiff_runtime::{Clock, Seed};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::refused::Warnings;
use crate::support::{Follower, contents, mk_draft, mk_following, mk_publishing};

/// A bus on a port of its own.
struct Port {
    url: String,
    stop: CancellationToken,
    serving: JoinHandle<()>,
}

impl Port {
    async fn of(server: &Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let stop = CancellationToken::new();
        let serving = tokio::spawn(server.clone().serve(listener, stop.clone()));
        Self { url, stop, serving }
    }
}

#[tokio::test]
async fn publish_subscribe_and_resume_work_over_tcp() {
    let (clock, seed) = (Clock::system(), Seed::new(1));
    let server = Server::new(ServerOptions::default(), &clock, &seed);
    let Port { url, stop, serving } = Port::of(&server).await;
    let bus = Bus::connect(&url);
    let options = mk_publishing("monitor", Topic::NodeHealth, (0, 1), 7);
    let publisher = publish(&bus, options, &clock, &seed);
    for number in 0..3_000 {
        publisher.set(mk_draft(&format!("node-{number}"), number));
    }
    publisher.complete();
    publisher.settled().await;
    let options = mk_following("follower", &[Topic::NodeHealth]);
    let mut follower = Follower::new(subscribe(&bus, options, &clock, &seed));
    follower.step().await;
    assert_eq!(follower.held.len(), 3_000);

    server.disconnect();
    for number in 1..3_000 {
        publisher.remove(&format!("node-{number}"));
    }
    follower.until(|follower| follower.held.len() == 1).await;
    assert_eq!((follower.snapshots, follower.lost), (1, 1), "resumed");

    server.restart();
    follower
        .until(|follower| follower.snapshots >= 2 && follower.held.len() == 1)
        .await;
    assert_eq!(follower.contents(), contents([("node-0", 0)]));
    assert_eq!(bus.history(Topic::NodeHealth, "node-0").await.unwrap().len(), 1);
    assert_eq!(bus.status().await.unwrap().topics[0].keys, 1);

    let channel = tonic::transport::Endpoint::from_shared(url).unwrap().connect().await.unwrap();
    let question = HealthCheckRequest {
        service: "bailiff.v1.EventBus".to_owned(),
    };
    let answer = HealthClient::new(channel).check(question).await.unwrap().into_inner();
    assert_eq!(answer.status, i32::from(ServingStatus::Serving));

    stop.cancel();
    follower.until(|follower| follower.lost == 3).await;
    serving.await.unwrap();
}

/// As many streams as one process has that leads 256 shards. The client waits with those for which a connection has no room, and takes
/// the bus for lost.
#[tokio::test]
async fn one_connection_has_room_for_a_session_and_two_subscriptions_of_each_of_256_shards() {
    let (clock, seed) = (Clock::system(), Seed::new(1));
    let server = Server::new(ServerOptions::default(), &clock, &seed);
    let Port { url, stop, serving } = Port::of(&server).await;
    let bus = Bus::connect(&url);
    let mut open = Vec::new();
    for number in 0..3 * 256 {
        let options = mk_following("follower", &[Topic::NodeHealth]);
        let mut follower = Follower::new(subscribe(&bus, options, &clock, &seed));
        follower.step().await;
        assert_eq!((follower.snapshots, follower.lost), (1, 0), "of {number}");
        open.push(follower);
    }
    drop(open);
    stop.cancel();
    serving.await.unwrap();
}

#[test]
fn plain_text_beyond_this_machine_is_refused_with_exit_code_64() {
    let ended = std::process::Command::new(env!("CARGO_BIN_EXE_event-bus"))
        .args(["--listen", "0.0.0.0:0"])
        .output()
        .unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(64), "{said}");
    assert!(said.contains("--listen") && said.contains("--insecure"), "{said}");
}

#[tokio::test]
async fn an_address_that_is_none_says_so() {
    let bus = Bus::connect("not a url");
    let error = bus.status().await.expect_err("there is no bus");
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("not a url"), "{source}");
}

#[test]
fn what_is_wrong_about_tls_is_refused_with_exit_code_64() {
    let dir = tempfile::tempdir().unwrap();
    let there = dir.path().join("there.pem");
    std::fs::write(&there, "nothing").unwrap();
    let there = there.to_str().unwrap();
    let cases: [(&[&str], &[&str]); 4] = [
        (
            &["--tls-cert-file", there],
            &["--tls-cert-file", "missing is --tls-private-key-file and --tls-ca-file"],
        ),
        (
            &[
                "--tls-cert-file",
                "/no/such.pem",
                "--tls-private-key-file",
                there,
                "--tls-ca-file",
                there,
            ],
            &["cannot read '/no/such.pem' for '--tls-cert-file'"],
        ),
        (
            &[
                "--tls-cert-file",
                there,
                "--tls-private-key-file",
                there,
                "--tls-ca-file",
                there,
            ],
            &["--tls-cert-file", "PEM"],
        ),
        (&["--roles", there], &["--roles", "only with --tls-cert-file"]),
    ];
    for (args, parts) in cases {
        let ended = std::process::Command::new(env!("CARGO_BIN_EXE_event-bus"))
            .args(args)
            .output()
            .unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(64), "{args:?}: {said}");
        for part in parts {
            assert!(said.contains(part), "{args:?}: {said} lacks {part}");
        }
    }
}

/// The log names whom this refusal concerns, and why.
fn assert_said(warnings: &Warnings, kind: &str, reason: &str) {
    let found = warnings.take();
    let parts = [&format!("kind=\"{kind}\""), "address=\"127.0.0.1:", reason];
    let is_it = |line: &String| parts.iter().all(|part| line.contains(*part));
    assert!(found.iter().any(is_it), "{kind}: {found:#?}");
}

/// What a port lets in is bounded before it is decoded.
#[tokio::test]
async fn a_message_over_tcp_is_refused_by_what_it_says_of_its_length() {
    let warnings = Warnings::default();
    let _guard = tracing::subscriber::set_default(warnings.clone());
    let (clock, seed) = (Clock::system(), Seed::new(1));
    let server = Server::new(ServerOptions::default(), &clock, &seed);
    let Port { url, stop, serving } = Port::of(&server).await;
    let open = pb::OpenSession {
        topic: Topic::NodeHealth.to_string(),
        shard_count: 1,
        producer: "x".repeat(20_000),
        ..pb::OpenSession::default()
    };
    let step = Some(pb::publish_request::Step::Open(open));
    let requests = futures::stream::iter([pb::PublishRequest { step }]);
    let mut client = pb::event_bus_client::EventBusClient::connect(url).await.unwrap();
    let question = pb::GetHistoryRequest {
        topic: "x".repeat(600_000),
        key: "a".to_owned(),
    };
    client.get_history(question).await.expect_err("it is too long");
    assert_said(&warnings, "invalid", "wanted at most 524288 bytes");
    let refused = match client.publish(requests).await {
        Ok(answers) => answers.into_inner().message().await.expect_err("it is too long"),
        Err(refused) => refused,
    };
    assert_eq!(refused.code(), tonic::Code::InvalidArgument, "{refused:?}");
    assert!(refused.message().ends_with("wanted at most 2048 bytes"), "{refused:?}");
    stop.cancel();
    serving.await.unwrap();
}

/// Each is there until it is read, or its connection ends.
#[tokio::test]
async fn answers_over_tcp_that_nobody_reads_are_bounded() {
    let warnings = Warnings::default();
    let _guard = tracing::subscriber::set_default(warnings.clone());
    let (clock, seed) = (Clock::system(), Seed::new(1));
    let server = Server::new(ServerOptions::default(), &clock, &seed);
    let Port { url, stop, serving } = Port::of(&server).await;
    // What is said of so many shards is longer than what a connection keeps.
    for topic in [Topic::NodeHealth, Topic::DaemonRollouts] {
        let options = mk_publishing("monitor", topic, (0, 256), 7);
        let publisher = publish(&Bus::connect(&url), options, &clock, &seed);
        publisher.complete();
        publisher.settled().await;
    }
    let endpoint = tonic::transport::Endpoint::from_shared(url.clone()).unwrap();
    let channel = endpoint.initial_stream_window_size(1024).connect().await.unwrap();
    let mut unread = Vec::new();
    let refused = loop {
        let mut client = tonic::client::Grpc::new(channel.clone());
        client.ready().await.unwrap();
        let codec = tonic_prost::ProstCodec::<pb::GetStatusRequest, pb::GetStatusResponse>::default();
        let path = http::uri::PathAndQuery::from_static("/bailiff.v1.EventBus/GetStatus");
        let request = tonic::Request::new(pb::GetStatusRequest {});
        match client.server_streaming(request, path, codec).await {
            Ok(answer) => unread.push(answer.into_inner()),
            Err(refused) => break refused,
        }
        assert!(unread.len() < 100, "no end of it");
    };
    assert_eq!(refused.code(), tonic::Code::ResourceExhausted, "{refused:?}");
    assert_eq!(unread.len(), 48);
    assert_said(&warnings, "messages", "places of unread answers: the last 16 of 64");
    for mut answer in unread.drain(..) {
        while answer.message().await.unwrap().is_some() {}
    }
    Bus::connect(&url).status().await.expect("what was read makes room");
    stop.cancel();
    serving.await.unwrap();
}
