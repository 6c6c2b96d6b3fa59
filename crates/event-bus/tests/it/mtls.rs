//! The same over mutual TLS: who gets in, who does not, and what a change of certificates costs. Time is real here, so nothing is
//! asserted about it.

#[path = "../../../runtime/src/tls/tests/pki.rs"]
mod pki;

use std::net::SocketAddr;
use std::time::Duration;

use bailiff_event_bus::{Bus, Publisher, Roles, Server, ServerOptions, publish, subscribe};
use bailiff_model::Topic;
use bailiff_proto::v1 as pb;
use bailiff_runtime::args::{BusArgs, BusFlags};
use bailiff_runtime::port::{self, Bounds, Port};
use bailiff_runtime::shutdown::chain;
use bailiff_runtime::tls::{Paths, Reload};
use bailiff_runtime::{Clock, Seed, Tls};
use pki::{Authority, Files, Wish};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::support::{Follower, mk_draft, mk_following, mk_publishing};

/// A bus over mutual TLS, and a CA that it trusts.
struct Bench {
    dir: TempDir,
    authority: Authority,
    files: Files,
    tls: Tls,
    address: SocketAddr,
    clock: Clock,
    seed: Seed,
    stop: CancellationToken,
    serving: tokio::task::JoinHandle<()>,
}

/// One client: its files, and the bus as it sees it.
struct Client {
    files: Files,
    tls: Tls,
    bus: Bus,
}

const MONITOR: Wish<'_> = Wish {
    uris: &["spiffe://bailiff/node-health-monitor"],
    names: &[],
    is_expired: false,
};

const BUS: Wish<'_> = Wish {
    uris: &["spiffe://bailiff/event-bus"],
    names: &["event-bus"],
    is_expired: false,
};

fn mk_tls(files: &Files) -> Tls {
    let [certificate, key, ca] = files.paths();
    Tls::load(Paths { certificate, key, ca }, &Clock::system()).unwrap()
}

fn swapped(tls: &Tls) {
    assert!(matches!(tls.reload(), Reload::Swapped { .. }));
}

async fn mk_bench(wish: Wish<'_>, bounds: Bounds) -> Bench {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new("ours");
    let files = Files::new(dir.path(), "bus", &authority.sign(wish), &authority.pem());
    let tls = mk_tls(&files);
    let (clock, seed) = (Clock::system(), Seed::new(1));
    let server = Server::new(ServerOptions::default(), &clock, &seed);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let port = Port::grpc("bus", listener, Some(tls.clone()), bounds, &port::Metrics::default());
    let stop = CancellationToken::new();
    Bench {
        serving: tokio::spawn(server.serve_port(port, Roles::default(), stop.clone())),
        dir,
        authority,
        files,
        tls,
        address,
        clock,
        seed,
        stop,
    }
}

impl Bench {
    fn flags(&self, server_name: &str) -> BusFlags {
        BusFlags {
            bus: bailiff_runtime::args::Address::from(self.address).into(),
            tls_server_name: Some(server_name.to_owned()),
            ..BusArgs::default().into_inner()
        }
    }

    /// A client whose certificate `signer` signed, and who trusts `ca`.
    fn client_of(&self, name: &str, signer: &Authority, wish: Wish<'_>, ca: &str) -> Client {
        let files = Files::new(self.dir.path(), name, &signer.sign(wish), ca);
        let tls = mk_tls(&files);
        let bus = Bus::reach(&self.flags("event-bus"), Some(&tls)).unwrap();
        Client { files, tls, bus }
    }

    fn client(&self, name: &str, wish: Wish<'_>) -> Client {
        self.client_of(name, &self.authority, wish, &self.authority.pem())
    }

    fn publish(&self, client: &Client) -> Publisher {
        let options = mk_publishing("monitor", Topic::NodeHealth, (0, 1), 7);
        publish(&client.bus, options, &self.clock, &self.seed)
    }

    fn follow(&self, client: &Client) -> Follower {
        let options = mk_following("follower", &[Topic::NodeHealth]);
        Follower::new(subscribe(&client.bus, options, &self.clock, &self.seed))
    }

    async fn end(self) {
        self.stop.cancel();
        self.serving.await.unwrap();
    }
}

async fn refused(bus: &Bus) -> String {
    let error = bus.status().await.expect_err("nobody should have got in");
    chain(&error)
}

#[tokio::test]
async fn whoever_a_trusted_ca_vouches_for_gets_in() {
    let bench = mk_bench(BUS, Bounds::BUS).await;
    let client = bench.client("monitor", MONITOR);
    let (publisher, mut follower) = (bench.publish(&client), bench.follow(&client));
    for number in 0..3_000 {
        publisher.set(mk_draft(&format!("node-{number}"), number));
    }
    publisher.complete();
    publisher.settled().await;
    follower.until(|follower| follower.held.len() == 3_000).await;
    assert_eq!(client.bus.status().await.unwrap().topics[0].keys, 3_000);
    bench.end().await;
}

#[tokio::test]
async fn nobody_else_gets_in_and_is_told_why() {
    let bench = mk_bench(BUS, Bounds::BUS).await;
    let (ours, foreign) = (bench.authority.pem(), Authority::new("foreign"));
    let expired = Wish {
        is_expired: true,
        ..MONITOR
    };
    let cases: [(&str, &Authority, Wish<'_>, String, &str); 3] = [
        ("foreign client", &foreign, MONITOR, ours.clone(), "UnknownCA"),
        (
            "expired client",
            &bench.authority,
            expired,
            ours.clone(),
            "CertificateExpired",
        ),
        ("foreign server", &bench.authority, MONITOR, foreign.pem(), "UnknownIssuer"),
    ];
    for (name, signer, wish, ca, wanted) in cases {
        let said = refused(&bench.client_of(name, signer, wish, &ca).bus).await;
        assert!(said.contains(wanted), "{name}: {said}");
    }
    let client = bench.client("monitor", MONITOR);
    let elsewhere = Bus::reach(&bench.flags("elsewhere.example"), Some(&client.tls)).unwrap();
    let said = refused(&elsewhere).await;
    assert!(
        said.contains("elsewhere.example") && said.contains("event-bus"),
        "wrong name: {said}"
    );
    let plain = Bus::connect(&format!("http://{}", bench.address));
    refused(&plain).await;
    assert!(client.bus.status().await.is_ok(), "who should get in still does");
    bench.end().await;

    let bench = mk_bench(Wish { is_expired: true, ..BUS }, Bounds::BUS).await;
    let said = refused(&bench.client("monitor", MONITOR).bus).await;
    assert!(said.contains("Expired"), "expired server: {said}");
    bench.end().await;
}

/// Everything is replaced while a subscription and a session are open: each certificate, and in two steps the CA.
#[tokio::test]
async fn a_rotation_of_everything_loses_nothing() {
    let bench = mk_bench(BUS, Bounds::BUS).await;
    let client = bench.client("monitor", MONITOR);
    let (publisher, mut follower) = (bench.publish(&client), bench.follow(&client));
    publisher.complete();
    publisher.set(mk_draft("before", 1));
    follower.until(|follower| follower.held.len() == 1).await;

    let next = Authority::new("next");
    let both = bench.authority.pem() + &next.pem();
    let steps: [(&str, &dyn Fn()); 3] = [
        ("both CAs are trusted", &|| {
            bench.files.write_ca(&both);
            client.files.write_ca(&both);
        }),
        ("new certificates", &|| {
            bench.files.write_pair(&next.sign(BUS));
            client.files.write_pair(&next.sign(MONITOR));
        }),
        ("the old CA is gone", &|| {
            bench.files.write_ca(&next.pem());
            client.files.write_ca(&next.pem());
        }),
    ];
    for (number, (step, change)) in steps.into_iter().enumerate() {
        change();
        swapped(&bench.tls);
        swapped(&client.tls);
        for record in 0..50 {
            publisher.set(mk_draft(&format!("{step} {record}").replace(' ', "-"), record));
            tokio::task::yield_now().await;
        }
        publisher.settled().await;
        follower.until(|follower| follower.held.len() == 1 + 50 * (number + 1)).await;
    }
    assert_eq!(follower.snapshots, 1, "resumed, every time");
    bench.end().await;
}

#[tokio::test]
async fn a_ca_that_is_no_longer_trusted_ends_what_it_vouched_for() {
    let bounds = Bounds {
        grace: Duration::from_millis(50),
        ..Bounds::BUS
    };
    let bench = mk_bench(BUS, bounds).await;
    let client = bench.client("monitor", MONITOR);
    let mut follower = bench.follow(&client);
    follower.until(|follower| follower.snapshots == 1).await;
    bench.files.write_ca(&Authority::new("next").pem());
    swapped(&bench.tls);
    follower.until(|follower| follower.lost == 1).await;
    let said = refused(&client.bus).await;
    assert!(said.contains("UnknownCA"), "{said}");
    bench.end().await;
}

/// The greatest age, made so small that it is reached again and again.
#[tokio::test]
async fn a_connection_that_reaches_its_age_is_replaced_and_nothing_is_lost() {
    let bounds = Bounds {
        age: Duration::from_millis(30),
        ..Bounds::BUS
    };
    let bench = mk_bench(BUS, bounds).await;
    let client = bench.client("monitor", MONITOR);
    let (publisher, mut follower) = (bench.publish(&client), bench.follow(&client));
    publisher.complete();
    for number in 0..20 {
        publisher.set(mk_draft(&format!("node-{number}"), number));
        publisher.settled().await;
        follower.until(|follower| follower.held.len() as u64 == number + 1).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(follower.snapshots, 1, "resumed, every time");
    bench.end().await;
}

async fn denied(call: impl Future<Output = Result<(), bailiff_event_bus::client::Error>>) -> String {
    chain(&call.await.expect_err("the role does not allow it"))
}

#[tokio::test]
async fn a_role_does_what_the_table_allows_and_is_told_what_that_is() {
    use pb::event_bus_client::EventBusClient;
    use tonic::Code;
    let bench = mk_bench(BUS, Bounds::BUS).await;
    let role = |uri: &'static [&'static str]| Wish {
        uris: uri,
        ..Wish::default()
    };
    let monitor = bench.client("monitor", MONITOR);
    let publisher = bench.publish(&monitor);
    publisher.complete();
    publisher.settled().await;

    let viewer = bench.client("viewer", role(&["spiffe://bailiff/viewer"]));
    let operator = bench.client("operator", role(&["spiffe://bailiff/operator"]));
    assert_eq!(viewer.bus.status().await.unwrap().topics.len(), 4);
    assert_eq!(monitor.bus.status().await.unwrap().topics.len(), 1, "of what it may read");
    assert!(viewer.bus.history(Topic::NodeHealth, "a").await.is_ok());
    let reset = |client: &Client| {
        let bus = client.bus.clone();
        async move { bus.reset_epoch(Topic::NodeHealth, 0).await.map(drop) }
    };
    let said = denied(reset(&viewer)).await;
    for part in ["role 'viewer' may not reset node-health", "allowed is subscribe", "read"] {
        assert!(said.contains(part), "{said} lacks {part}");
    }
    assert!(reset(&operator).await.is_ok());
    let said = denied(async { monitor.bus.history(Topic::EvictionIntents, "pod/a").await.map(drop) }).await;
    assert!(said.contains("may not read eviction-intents"), "{said}");

    let nobody: [(&str, Wish<'_>, &str); 3] = [
        ("nameless", Wish::default(), "no URI name"),
        ("unknown", role(&["spiffe://bailiff/mine"]), "no such role"),
        ("elsewhere", role(&["spiffe://other/operator"]), "another trust domain"),
    ];
    for (name, wish, wanted) in nobody {
        let said = refused(&bench.client(name, wish).bus).await;
        assert!(said.contains(wanted), "{name}: {said}");
    }

    // The streams, without our client library, which would ask again and again.
    let connector = mk_connector(&viewer.tls, &bench.flags("event-bus"));
    let channel = tonic::transport::Endpoint::from_static("http://bus").connect_with_connector_lazy(connector);
    let mut client = EventBusClient::new(channel);
    let open = pb::publish_request::Step::Open(pb::OpenSession {
        topic: "node-health".to_owned(),
        shard_count: 1,
        producer: "viewer".to_owned(),
        ..pb::OpenSession::default()
    });
    let requests = tokio_stream::iter([pb::PublishRequest { step: Some(open) }]);
    let status = client
        .publish(requests)
        .await
        .unwrap()
        .into_inner()
        .message()
        .await
        .expect_err("may not publish");
    assert_eq!(status.code(), Code::PermissionDenied);
    assert!(
        status.message().contains("role 'viewer' may not publish node-health"),
        "{status}"
    );

    let connector = mk_connector(&monitor.tls, &bench.flags("event-bus"));
    let channel = tonic::transport::Endpoint::from_static("http://bus").connect_with_connector_lazy(connector);
    let request = pb::SubscribeRequest {
        topics: vec!["node-health".to_owned(), "daemon-rollouts".to_owned()],
        subscriber: "monitor".to_owned(),
        ..pb::SubscribeRequest::default()
    };
    let status = EventBusClient::new(channel)
        .subscribe(request)
        .await
        .expect_err("may not read what comes later");
    assert_eq!(status.code(), Code::PermissionDenied);
    assert!(status.message().contains("may not subscribe daemon-rollouts"), "{status}");
    bench.end().await;
}

/// It is refused before it is read, and costs the one who sent it its call.
#[tokio::test]
async fn a_message_that_is_too_large_harms_nobody_else() {
    use pb::event_bus_client::EventBusClient;
    let bench = mk_bench(BUS, Bounds::BUS).await;
    let client = bench.client("monitor", MONITOR);
    let (publisher, mut follower) = (bench.publish(&client), bench.follow(&client));
    publisher.complete();
    follower.until(|follower| follower.snapshots == 1).await;
    let connector = mk_connector(&client.tls, &bench.flags("event-bus"));
    let channel = tonic::transport::Endpoint::from_static("http://bus").connect_with_connector_lazy(connector);
    let request = pb::GetHistoryRequest {
        topic: "node-health".to_owned(),
        key: "x".repeat(5 * 1024 * 1024),
    };
    let status = EventBusClient::new(channel)
        .get_history(request)
        .await
        .expect_err("too large");
    assert_eq!(status.code(), tonic::Code::InvalidArgument, "{status}");
    assert!(status.message().contains("bytes is not allowed, wanted at most"), "{status}");
    publisher.set(mk_draft("after", 1));
    follower.until(|follower| follower.held.len() == 1).await;
    assert_eq!(follower.lost, 0, "nobody else noticed");
    bench.end().await;
}

fn mk_connector(tls: &Tls, flags: &BusFlags) -> bailiff_runtime::tls::Connector {
    bailiff_runtime::tls::Connector::new(tls, flags, flags.bus.iter().next().unwrap()).unwrap()
}

/// etcd that wants to know its clients: a replica shows its certificate, takes a new one without a restart, and a stranger's is nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcd_is_reached_over_mutual_tls() {
    use bailiff_event_bus::engine::etcd::{Config, Member, connect};

    if !crate::etcd_process::is_installed() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (authority, stranger) = (Authority::new("ours"), Authority::new("theirs"));
    let ip = bailiff_processes::own_ip().to_string();
    let wish = Wish {
        names: &[&ip],
        ..Wish::default()
    };
    let files = Files::new(dir.path(), "etcd", &authority.sign(wish), &authority.pem());
    let cluster = crate::etcd_process::Cluster::start_with(1, Some(files.paths()));
    let address = &cluster.addresses()[0];
    let clock = Clock::system();
    let reach = async |tls: &Tls| {
        let config = Config::new(vec![Member::secured(address, tls).unwrap()]);
        connect(&config, &Seed::new(1), || clock.now()).await
    };
    let ours = Files::new(dir.path(), "bus", &authority.sign(Wish::default()), &authority.pem());
    let tls = mk_tls(&ours);
    // As often as it takes: etcd may need longer to answer than it is given.
    let connected = async || {
        while reach(&tls).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    crate::support::soon("etcd answers", connected()).await;
    let theirs = Files::new(dir.path(), "stranger", &stranger.sign(Wish::default()), &authority.pem());
    let theirs = mk_tls(&theirs);
    // Until etcd says so: when it is slow nobody gets in, and a connection that it ends may be gone before why is read.
    let turned_away = async {
        loop {
            let error = reach(&theirs).await.map(drop).expect_err("a certificate of another CA");
            if chain(&error).contains("received fatal alert") {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    crate::support::soon("etcd turns a stranger away", turned_away).await;
    ours.write_pair(&authority.sign(Wish::default()));
    swapped(&tls);
    crate::support::soon("etcd answers to the new certificate", connected()).await;
}
