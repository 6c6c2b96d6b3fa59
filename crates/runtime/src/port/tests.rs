//! That whoever breaks a port's bounds, or does not get in, harms nobody else.

use std::net::{IpAddr, Ipv4Addr};

use axum::routing::get;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpSocket;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::*;
use crate::Clock;
use crate::tls::Paths;
use crate::tls::tests::pki::{Authority, Files, Wish};

const NEAR: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 1);
const ATTACKER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

struct Bench {
    address: SocketAddr,
    registry: crate::Metrics,
    stop: CancellationToken,
    serving: tokio::task::JoinHandle<()>,
}

async fn mk_bench(tls: Option<Tls>, bounds: Bounds) -> Bench {
    let listener = TcpListener::bind((NEAR, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let registry = crate::Metrics::new();
    let port = Port::http1("test", listener, tls, bounds, &Metrics::register(&registry));
    let stop = CancellationToken::new();
    let router = Router::new().route("/", get(async || "hello"));
    Bench {
        address,
        registry,
        serving: tokio::spawn(port.serve(router, stop.clone())),
        stop,
    }
}

async fn dial(from: Ipv4Addr, to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((IpAddr::from(from), 0).into()).unwrap();
    socket.connect(to).await.unwrap()
}

/// What it is answered; nothing, if it was closed.
async fn ask(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> String {
    let _ = stream
        .write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
        .await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn too_many_connections_of_one_address_take_no_place_of_another() {
    let bounds = Bounds {
        connections: 8,
        connections_per_address: 4,
        ..Bounds::ADMIN
    };
    let bench = mk_bench(None, bounds).await;
    let mut held = Vec::new();
    for _ in 0..4 {
        held.push(dial(ATTACKER, bench.address).await);
    }
    for _ in 0..20 {
        assert_eq!(ask(dial(ATTACKER, bench.address).await).await, "", "closed at once");
    }
    assert!(ask(dial(NEAR, bench.address).await).await.ends_with("hello"));
    let text = bench.registry.encode();
    assert!(text.contains("{port=\"test\",reason=\"full_for_address\"} 20"), "{text}");
    bench.stop.cancel();
    bench.serving.await.unwrap();
}

/// A server's files, and how to reach it with and without a certificate.
struct Hands {
    tls: Tls,
    known: TlsConnector,
    stranger: TlsConnector,
}

fn mk_hands() -> Hands {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new("ours");
    let wish = Wish {
        names: &["localhost"],
        ..Wish::default()
    };
    let files = Files::new(dir.path(), "own", &authority.sign(wish), &authority.pem());
    let [certificate, key, ca] = files.paths();
    let tls = Tls::load(Paths { certificate, key, ca }, &Clock::system()).unwrap();
    let mut known = ClientConfig::clone(&tls.client());
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).unwrap())
        .unwrap();
    let mut stranger = ClientConfig::builder_with_provider(Arc::clone(known.crypto_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    for config in [&mut known, &mut stranger] {
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
    }
    let connector = |config| TlsConnector::from(Arc::new(config));
    Hands {
        tls,
        known: connector(known),
        stranger: connector(stranger),
    }
}

async fn shake(connector: &TlsConnector, stream: TcpStream) -> std::io::Result<TlsStream<TcpStream>> {
    connector.connect(ServerName::try_from("localhost").unwrap(), stream).await
}

#[tokio::test]
async fn handshakes_that_never_end_take_no_place_and_leave_room() {
    let Hands { tls, known, .. } = mk_hands();
    let bounds = Bounds {
        connections: 2,
        connections_per_address: 2,
        handshakes: 4,
        // None of them ends by itself here.
        handshake: Duration::from_secs(3600),
        ..Bounds::ADMIN
    };
    let bench = mk_bench(Some(tls), bounds).await;
    let mut held = Vec::new();
    for last in 2..12 {
        held.push(dial(Ipv4Addr::new(127, 0, 0, last), bench.address).await);
        held.push(dial(Ipv4Addr::new(127, 0, 0, last), bench.address).await);
    }
    for _ in 0..3 {
        let stream = shake(&known, dial(NEAR, bench.address).await).await.unwrap();
        assert!(ask(stream).await.ends_with("hello"));
    }
    let text = bench.registry.encode();
    let counts = |reason: &str| !text.contains(&format!("reason=\"{reason}\"}} 0\n"));
    assert!(counts("handshake_cut"), "{text}");
    assert!(!counts("full") && !counts("full_for_address"), "{text}");
    bench.stop.cancel();
    bench.serving.await.unwrap();
}

#[tokio::test]
async fn strangers_that_shake_hands_leave_a_place_for_whoever_is_known() {
    let Hands { tls, known, stranger } = mk_hands();
    let bounds = Bounds {
        connections: 3,
        strangers: 2,
        connections_per_address: 3,
        ..Bounds::ADMIN
    };
    let bench = mk_bench(Some(tls), bounds).await;
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut stream = shake(&stranger, dial(ATTACKER, bench.address).await).await.unwrap();
        // It has its place once it is answered, and keeps it.
        stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        stream.read_u8().await.unwrap();
        held.push(stream);
    }
    let third = shake(&stranger, dial(NEAR, bench.address).await).await;
    if let Ok(third) = third {
        assert_eq!(ask(third).await, "", "closed at once");
    }
    let stream = shake(&known, dial(ATTACKER, bench.address).await).await.unwrap();
    assert!(ask(stream).await.ends_with("hello"));
    bench.stop.cancel();
    drop(held);
    bench.serving.await.unwrap();
}

#[tokio::test]
async fn a_handshake_that_never_ends_holds_up_nobody_and_is_cut_off() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new("ours");
    let files = Files::new(dir.path(), "own", &authority.sign(Wish::default()), &authority.pem());
    let [certificate, key, ca] = files.paths();
    let tls = Tls::load(Paths { certificate, key, ca }, &Clock::system()).unwrap();
    let bounds = Bounds {
        handshake: Duration::from_millis(50),
        ..Bounds::ADMIN
    };
    let bench = mk_bench(Some(tls.clone()), bounds).await;
    let mut silent = dial(ATTACKER, bench.address).await;
    let mut slow = dial(ATTACKER, bench.address).await;
    slow.write_all(&[0x16, 0x03]).await.unwrap();
    // A client that knows how gets in meanwhile. The certificate carries no name; only its own handshake is of interest here.
    let mut plain = dial(NEAR, bench.address).await;
    plain.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let mut said = Vec::new();
    for stream in [&mut silent, &mut slow, &mut plain] {
        let _ = stream.read_to_end(&mut said).await;
    }
    assert!(
        !String::from_utf8_lossy(&said).contains("HTTP/1.1"),
        "nothing is served in plain text"
    );
    let text = bench.registry.encode();
    assert!(text.contains("{port=\"test\",reason=\"handshake_timeout\"} 2"), "{text}");
    assert!(text.contains("{port=\"test\",reason=\"handshake\"} 1"), "{text}");
    bench.stop.cancel();
    bench.serving.await.unwrap();
    assert!(bench.registry.encode().contains("bailiff_port_connections{port=\"test\"} 0"));
}
