//! Against servers of TLS that speak what a test says, and count.

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;

use http_body_util::Empty;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::*;
use crate::client::connector;
use crate::tls::tests::pki::{Authority, Wish};

/// An API server that answers nothing in particular.
struct Server {
    config: Config,
    stats: Arc<Stats>,
    /// What connections are told to end.
    end: watch::Sender<()>,
}

#[derive(Default)]
struct Stats {
    /// What a new connection is offered.
    protocols: Mutex<Vec<Vec<u8>>>,
    connections: AtomicUsize,
    at_once: AtomicUsize,
    most_at_once: AtomicUsize,
    /// Requests wait until somebody says so.
    is_slow: Mutex<Option<Arc<Notify>>>,
}

impl Stats {
    async fn answer(&self) {
        let at_once = self.at_once.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_at_once.fetch_max(at_once, Ordering::SeqCst);
        let slow = self.is_slow.lock().unwrap().clone();
        if let Some(slow) = slow {
            slow.notified().await;
        }
        self.at_once.fetch_sub(1, Ordering::SeqCst);
    }

    /// Answers nothing until so many requests are here at once.
    async fn held<T: Send + 'static>(&self, count: usize, asking: impl Future<Output = T> + Send + 'static) -> T {
        let slow = Arc::new(Notify::new());
        *self.is_slow.lock().unwrap() = Some(Arc::clone(&slow));
        let asking = tokio::spawn(asking);
        while self.at_once.load(Ordering::SeqCst) < count {
            tokio::task::yield_now().await;
        }
        while !asking.is_finished() {
            slow.notify_waiters();
            tokio::task::yield_now().await;
        }
        *self.is_slow.lock().unwrap() = None;
        asking.await.unwrap()
    }
}

async fn mk_server(protocols: &[&[u8]]) -> Server {
    let authority = Authority::new("cluster");
    let pair = authority.sign(Wish {
        names: &["127.0.0.1"],
        ..Wish::default()
    });
    let chain = vec![CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
    let tls = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let stats = Arc::new(Stats::default());
    *stats.protocols.lock().unwrap() = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let (end, ending) = watch::channel(());
    tokio::spawn(serve(listener, tls, Arc::clone(&stats), ending));
    let mut config = Config::new(url.parse().unwrap());
    let authority = CertificateDer::from_pem_slice(authority.pem().as_bytes()).unwrap();
    config.root_cert = Some(vec![authority.to_vec()]);
    Server { config, stats, end }
}

async fn serve(listener: TcpListener, tls: ServerConfig, stats: Arc<Stats>, ending: watch::Receiver<()>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stats.connections.fetch_add(1, Ordering::SeqCst);
        let mut tls = tls.clone();
        tls.alpn_protocols.clone_from(&stats.protocols.lock().unwrap());
        let (stats, mut ending) = (Arc::clone(&stats), ending.clone());
        ending.mark_unchanged();
        tokio::spawn(async move {
            let Ok(stream) = TlsAcceptor::from(Arc::new(tls)).accept(stream).await else {
                return;
            };
            let service = service_fn(move |_| {
                let stats = Arc::clone(&stats);
                async move {
                    stats.answer().await;
                    Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
                }
            });
            let builder = auto::Builder::new(TokioExecutor::new());
            tokio::select! {
                _ = builder.serve_connection(TokioIo::new(stream), service) => {}
                _ = ending.changed() => {}
            }
        });
    }
}

impl Server {
    fn transport(&self) -> Transport {
        Transport::new(&self.config, &connector(None)).unwrap()
    }

    fn connections(&self) -> usize {
        self.stats.connections.load(Ordering::SeqCst)
    }
}

fn request() -> Request<Content> {
    Request::get("/api").body(Content::empty()).unwrap()
}

async fn version(answering: Answering) -> Result<Version, SendError> {
    answering.await.map(|answer| answer.version())
}

#[tokio::test]
async fn single_requests_share_a_connection_and_streams_have_their_own() {
    let server = mk_server(&[b"h2", b"http/1.1"]).await;
    let transport = server.transport();
    version(transport.send(request())).await.unwrap();
    let singles = (0..300).map(|_| version(transport.send(request())));
    let answers = server.stats.held(AT_ONCE, futures::future::join_all(singles)).await;
    assert!(
        answers.iter().all(|answer| matches!(answer, Ok(Version::HTTP_2))),
        "{answers:?}"
    );
    assert_eq!(server.stats.most_at_once.load(Ordering::SeqCst), AT_ONCE);
    // The one that asked, and the one for all.
    assert_eq!(server.connections(), 2);
    let streams = (0..3).map(|_| version(transport.open(request())));
    let answers = server.stats.held(3, futures::future::join_all(streams)).await;
    assert!(
        answers.iter().all(|answer| matches!(answer, Ok(Version::HTTP_11))),
        "{answers:?}"
    );
    assert_eq!(server.connections(), 2 + 3);
}

#[tokio::test]
async fn a_server_that_speaks_the_older_version_only_is_served_by_a_pool() {
    for protocols in [&[b"http/1.1".as_slice()][..], &[]] {
        let server = mk_server(protocols).await;
        let transport = server.transport();
        let answers = futures::future::join_all((0..20).map(|_| version(transport.send(request())))).await;
        assert!(
            answers.iter().all(|answer| matches!(answer, Ok(Version::HTTP_11))),
            "{answers:?}"
        );
        assert!(server.connections() <= 21, "{}", server.connections());
    }
}

/// What is behind an address may become another server.
#[tokio::test]
async fn who_speaks_another_version_later_is_understood() {
    let server = mk_server(&[b"h2"]).await;
    let transport = server.transport();
    for _ in 0..2 {
        assert_eq!(version(transport.send(request())).await.unwrap(), Version::HTTP_2);
    }
    *server.stats.protocols.lock().unwrap() = vec![b"http/1.1".to_vec()];
    server.end.send(()).unwrap();
    // Some fail meanwhile: those that were sent over a connection that ended, and the first over a new one.
    let mut failed = 0;
    while version(transport.send(request())).await.is_err() {
        failed += 1;
        assert!(failed < 4, "nothing is learnt");
    }
    assert_eq!(version(transport.send(request())).await.unwrap(), Version::HTTP_11);
}

/// All requests are on one connection: if it is dead, the next must not be sent into it.
#[tokio::test]
async fn a_dead_connection_is_noticed_within_the_time_of_a_request() {
    let server = mk_server(&[b"h2"]).await;
    let transport = server.transport();
    for _ in 0..2 {
        version(transport.send(request())).await.unwrap();
    }
    let relay = mk_relay(&server).await;
    let transport = Transport::new(&relay.config, &connector(None)).unwrap();
    for _ in 0..2 {
        version(transport.send(request())).await.unwrap();
    }
    relay.is_dead.send(true).unwrap();
    tokio::time::pause();
    let began = tokio::time::Instant::now();
    version(transport.send(request())).await.unwrap_err();
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    tokio::time::resume();
    relay.is_dead.send(false).unwrap();
    version(transport.send(request())).await.unwrap();
}

/// A way to a server on which packets may get lost.
struct Relay {
    config: Config,
    is_dead: watch::Sender<bool>,
}

async fn mk_relay(server: &Server) -> Relay {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let mut config = server.config.clone();
    let to = config.cluster_url.authority().unwrap().to_string();
    config.cluster_url = format!("https://{}", listener.local_addr().unwrap()).parse().unwrap();
    let (is_dead, dying) = watch::channel(false);
    tokio::spawn(async move {
        loop {
            let (mut near, _) = listener.accept().await.unwrap();
            let mut far = tokio::net::TcpStream::connect(&to).await.unwrap();
            let mut dying = dying.clone();
            tokio::spawn(async move {
                tokio::select! {
                    biased;
                    _ = dying.wait_for(|is_dead| *is_dead) => {}
                    _ = tokio::io::copy_bidirectional(&mut near, &mut far) => return,
                }
                // It stays open, and nothing comes of it.
                std::future::pending::<()>().await;
            });
        }
    });
    Relay { config, is_dead }
}
