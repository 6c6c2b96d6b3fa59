//! Servers that speak what a test says, and count.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Empty};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use kube::Config;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::{Notify, Semaphore, mpsc, watch};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use super::super::Transport;
use crate::client::connector;
use crate::tls::tests::pki::{Authority, Pair, Wish};

pub(in crate::client::transport) const BOTH: &[&[u8]] = &[b"h2", b"http/1.1"];
pub(super) const NEWER: &[&[u8]] = &[b"h2"];
pub(super) const OLDER: &[&[u8]] = &[b"http/1.1"];

/// A server that answers everything with nothing.
pub(in crate::client::transport) struct Server {
    pub(in crate::client::transport) config: Config,
    pub(in crate::client::transport) seen: Arc<Seen>,
    authority: Authority,
}

pub(in crate::client::transport) struct Seen {
    /// What a new connection is offered.
    pub(super) protocols: Mutex<&'static [&'static [u8]]>,
    /// New connections are accepted.
    pub(super) is_there: AtomicBool,
    /// What the next connection does when two requests are there: it looks at the first, and at no other.
    pub(super) goes: Mutex<Option<Going>>,
    /// Now it answers the first.
    pub(super) finish: Notify,
    /// What whoever asks has to show, as a header or as a certificate; nothing has to be if it is nothing.
    pub(in crate::client::transport) wanted: Mutex<Vec<u8>>,
    connections: watch::Sender<usize>,
    pub(super) open: watch::Sender<usize>,
    /// What connections are told: those that are open finish what they began.
    pub(super) end: watch::Sender<()>,
    asked: watch::Sender<usize>,
    pub(super) at_once: watch::Sender<usize>,
    /// Each answer takes one.
    answers: Semaphore,
}

impl Server {
    pub(in crate::client::transport) fn transport(&self) -> Transport {
        Transport::new(&self.config, connector(None), None).unwrap()
    }

    /// The certificate of a client.
    pub(in crate::client::transport) fn sign(&self) -> Pair {
        self.authority.sign(Wish::default())
    }

    pub(in crate::client::transport) fn root(&self) -> String {
        self.authority.pem()
    }

    pub(in crate::client::transport) fn connections(&self) -> usize {
        *self.seen.connections.borrow()
    }

    pub(super) fn asked(&self) -> usize {
        *self.seen.asked.borrow()
    }

    /// From here on nothing is answered until it is told.
    pub(super) fn hold(&self) {
        self.seen.answers.forget_permits(Semaphore::MAX_PERMITS);
    }

    pub(super) fn answer(&self, count: usize) {
        self.seen.answers.add_permits(count);
    }

    /// Waits until so many requests wait for their answers.
    pub(super) async fn wait_for(&self, count: usize) {
        reach(&self.seen.at_once, count).await;
    }

    /// Waits until so many requests were asked.
    pub(super) async fn wait_for_asked(&self, count: usize) {
        reach(&self.seen.asked, count).await;
    }

    /// Waits until so many connections came.
    pub(super) async fn wait_for_connections(&self, count: usize) {
        reach(&self.seen.connections, count).await;
    }
}

impl Seen {
    fn judge(&self, shown: &[&[u8]]) -> StatusCode {
        let wanted = self.wanted.lock().unwrap();
        if wanted.is_empty() || shown.contains(&wanted.as_slice()) {
            StatusCode::OK
        } else {
            StatusCode::UNAUTHORIZED
        }
    }
}

/// Waits for as long as a test may hang.
async fn reach(counter: &watch::Sender<usize>, count: usize) {
    let mut seen = counter.subscribe();
    let reached = tokio::time::timeout(Duration::from_secs(60), seen.wait_for(|seen| *seen >= count)).await;
    assert!(reached.is_ok(), "{count} were not reached");
}

/// Waits until this is so, for as long as a test may hang.
pub(in crate::client::transport) async fn until(is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::task::yield_now().await;
        }
    };
    let reached = tokio::time::timeout(Duration::from_secs(60), waiting).await;
    assert!(reached.is_ok(), "it never was so");
}

/// A server that offers this over TLS; without TLS if it is nothing.
pub(in crate::client::transport) async fn mk_server(protocols: Option<&'static [&'static [u8]]>) -> Server {
    let seen = Arc::new(Seen {
        protocols: Mutex::new(protocols.unwrap_or_default()),
        is_there: AtomicBool::new(true),
        goes: Mutex::default(),
        finish: Notify::new(),
        wanted: Mutex::default(),
        connections: watch::Sender::new(0),
        open: watch::Sender::new(0),
        end: watch::Sender::new(()),
        asked: watch::Sender::new(0),
        at_once: watch::Sender::new(0),
        answers: Semaphore::new(1_000_000),
    });
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let authority = Authority::new("cluster");
    let Some(_) = protocols else {
        tokio::spawn(serve(listener, None, Arc::clone(&seen)));
        let config = Config::new(format!("http://{address}").parse().unwrap());
        return Server { config, seen, authority };
    };
    let pair = authority.sign(Wish {
        names: &["127.0.0.1"],
        ..Wish::default()
    });
    let chain = vec![CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
    let root = CertificateDer::from_pem_slice(authority.pem().as_bytes()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(root.clone()).unwrap();
    let provider = Arc::new(ring::default_provider());
    let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
    let tls = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(clients.allow_unauthenticated().build().unwrap())
        .with_single_cert(chain, key)
        .unwrap();
    tokio::spawn(serve(listener, Some(tls), Arc::clone(&seen)));
    let mut config = Config::new(format!("https://{address}").parse().unwrap());
    config.root_cert = Some(vec![root.to_vec()]);
    Server { config, seen, authority }
}

async fn serve(listener: TcpListener, tls: Option<ServerConfig>, seen: Arc<Seen>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        if !seen.is_there.load(Ordering::SeqCst) {
            continue;
        }
        seen.connections.send_modify(|connections| *connections += 1);
        let mut tls = tls.clone();
        if let Some(tls) = &mut tls {
            tls.alpn_protocols = seen
                .protocols
                .lock()
                .unwrap()
                .iter()
                .map(|protocol| protocol.to_vec())
                .collect();
        }
        let seen = Arc::clone(&seen);
        tokio::spawn(async move {
            match tls {
                None => converse(stream, Vec::new(), &seen).await,
                Some(tls) => {
                    let Ok(stream) = TlsAcceptor::from(Arc::new(tls)).accept(stream).await else {
                        return;
                    };
                    let goes = seen.goes.lock().unwrap().take();
                    if let Some(going) = goes {
                        // Who is turned away ends the connection.
                        let _ = turn_away(stream, going, &seen.finish).await;
                    } else {
                        let shown = stream.get_ref().1.peer_certificates().unwrap_or_default();
                        let certificate = shown.first().map(|certificate| certificate.to_vec()).unwrap_or_default();
                        converse(stream, certificate, &seen).await;
                    }
                }
            }
        });
    }
}

async fn converse(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static, certificate: Vec<u8>, seen: &Arc<Seen>) {
    let service = service_fn(|request: Request<hyper::body::Incoming>| {
        let seen = Arc::clone(seen);
        let header = request.headers().get(AUTHORIZATION).map(|header| header.as_bytes().to_vec());
        let status = seen.judge(&[&certificate, &header.unwrap_or_default()]);
        async move {
            // As an API server, which does nothing before it has read what is to be done.
            request.into_body().collect().await?;
            seen.asked.send_modify(|asked| *asked += 1);
            seen.at_once.send_modify(|at_once| *at_once += 1);
            let answer = seen.answers.acquire().await;
            answer.unwrap().forget();
            seen.at_once.send_modify(|at_once| *at_once -= 1);
            let mut answer = Response::new(Empty::<Bytes>::new());
            *answer.status_mut() = status;
            Ok::<_, hyper::Error>(answer)
        }
    });
    let mut end = seen.end.subscribe();
    seen.open.send_modify(|open| *open += 1);
    let builder = auto::Builder::new(TokioExecutor::new());
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        _ = connection.as_mut() => {}
        _ = end.changed() => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
    seen.open.send_modify(|open| *open -= 1);
}

/// How requests are turned away.
#[derive(Clone, Copy, Debug)]
pub(super) enum Going {
    /// The connection is ended in order.
    Ends,
    /// One request is one too many.
    Refuses,
}

/// A frame: its kind and what is in it (RFC 9113, 4.1).
type Frame = (u8, Vec<u8>);

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const PING: u8 = 6;
const GOAWAY: u8 = 7;

async fn turn_away(stream: impl AsyncRead + AsyncWrite + Send + 'static, going: Going, finish: &Notify) -> std::io::Result<()> {
    const REFUSED_STREAM: u8 = 7;
    let turned_away: &[u8] = match going {
        // The last request that is looked at is the first; nothing is wrong.
        Going::Ends => &[0, 0, 8, GOAWAY, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0],
        Going::Refuses => &[0, 0, 4, RST_STREAM, 0, 0, 0, 0, 3, 0, 0, 0, REFUSED_STREAM],
    };
    // Status 200, and that is all.
    let answer = |stream: u8| [0, 0, 1, HEADERS, 5, 0, 0, 0, stream, 0x88];
    let (reader, mut writer) = tokio::io::split(stream);
    let (frames, mut came) = mpsc::channel(1_000);
    tokio::spawn(read(reader, frames));
    // No settings.
    writer.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await?;
    let mut requests = 0;
    loop {
        let frame = tokio::select! {
            frame = came.recv() => frame,
            () = finish.notified(), if requests >= 2 => {
                writer.write_all(&answer(1)).await?;
                continue;
            }
        };
        match frame {
            Some((HEADERS, _)) => requests += 1,
            // Whoever asks whether anybody is there is answered.
            Some((PING, payload)) => {
                writer.write_all(&[0, 0, 8, PING, 1, 0, 0, 0, 0]).await?;
                writer.write_all(&payload).await?;
                continue;
            }
            Some(_) => continue,
            None => return Ok(()),
        }
        match (going, requests) {
            (_, 2) => writer.write_all(turned_away).await?,
            (Going::Refuses, 3) => {
                writer.write_all(&answer(1)).await?;
                writer.write_all(&answer(5)).await?;
            }
            _ => {}
        }
    }
}

/// Until the connection ends.
async fn read(mut reader: impl AsyncRead + Unpin, frames: mpsc::Sender<Frame>) -> std::io::Result<()> {
    reader.read_exact(&mut [0; b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".len()]).await?;
    loop {
        let mut head = [0; 9];
        reader.read_exact(&mut head).await?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        reader.read_exact(&mut payload).await?;
        if frames.send((head[3], payload)).await.is_err() {
            return Ok(());
        }
    }
}

/// A way to a server on which packets may get lost.
pub(super) struct Relay {
    pub(super) config: Config,
    pub(super) is_dead: watch::Sender<bool>,
}

pub(super) async fn mk_relay(server: &Server) -> Relay {
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
