//! Against servers that speak what a test says, and count.

use std::net::Ipv4Addr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures::future::join_all;
use http::Version;
use http_body_util::Empty;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::{Notify, Semaphore, watch};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::shared::{AT_ONCE, CONNECT_WITHIN, URGENT_BESIDES};
use super::*;
use crate::client::connector;
use crate::tls::tests::pki::{Authority, Wish};

const BOTH: &[&[u8]] = &[b"h2", b"http/1.1"];
const NEWER: &[&[u8]] = &[b"h2"];
const OLDER: &[&[u8]] = &[b"http/1.1"];

/// A server that answers everything with nothing.
struct Server {
    config: Config,
    seen: Arc<Seen>,
}

struct Seen {
    /// What a new connection is offered.
    protocols: Mutex<&'static [&'static [u8]]>,
    /// New connections are accepted.
    is_there: AtomicBool,
    /// What the next connection does when two requests are there: it looks at the first, and at no other.
    goes: Mutex<Option<Going>>,
    /// Now it answers the first.
    finish: Notify,
    connections: AtomicUsize,
    open: watch::Sender<usize>,
    /// What connections are told: those that are open finish what they began.
    end: watch::Sender<()>,
    asked: AtomicUsize,
    at_once: watch::Sender<usize>,
    /// Each answer takes one.
    answers: Semaphore,
}

impl Server {
    fn transport(&self) -> Transport {
        Transport::new(&self.config, connector(None)).unwrap()
    }

    fn connections(&self) -> usize {
        self.seen.connections.load(Ordering::SeqCst)
    }

    fn asked(&self) -> usize {
        self.seen.asked.load(Ordering::SeqCst)
    }

    /// From here on nothing is answered until it is told.
    fn hold(&self) {
        self.seen.answers.forget_permits(Semaphore::MAX_PERMITS);
    }

    fn answer(&self, count: usize) {
        self.seen.answers.add_permits(count);
    }

    /// Waits until so many requests wait for their answers.
    async fn wait_for(&self, count: usize) {
        let mut at_once = self.seen.at_once.subscribe();
        at_once.wait_for(|at_once| *at_once == count).await.unwrap();
    }
}

/// A server that offers this over TLS; without TLS if it is nothing.
async fn mk_server(protocols: Option<&'static [&'static [u8]]>) -> Server {
    let seen = Arc::new(Seen {
        protocols: Mutex::new(protocols.unwrap_or_default()),
        is_there: AtomicBool::new(true),
        goes: Mutex::default(),
        finish: Notify::new(),
        connections: AtomicUsize::new(0),
        open: watch::Sender::new(0),
        end: watch::Sender::new(()),
        asked: AtomicUsize::new(0),
        at_once: watch::Sender::new(0),
        answers: Semaphore::new(1_000_000),
    });
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let Some(_) = protocols else {
        tokio::spawn(serve(listener, None, Arc::clone(&seen)));
        let config = Config::new(format!("http://{address}").parse().unwrap());
        return Server { config, seen };
    };
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
    tokio::spawn(serve(listener, Some(tls), Arc::clone(&seen)));
    let mut config = Config::new(format!("https://{address}").parse().unwrap());
    let authority = CertificateDer::from_pem_slice(authority.pem().as_bytes()).unwrap();
    config.root_cert = Some(vec![authority.to_vec()]);
    Server { config, seen }
}

async fn serve(listener: TcpListener, tls: Option<ServerConfig>, seen: Arc<Seen>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        if !seen.is_there.load(Ordering::SeqCst) {
            continue;
        }
        seen.connections.fetch_add(1, Ordering::SeqCst);
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
                None => converse(stream, &seen).await,
                Some(tls) => {
                    let Ok(stream) = TlsAcceptor::from(Arc::new(tls)).accept(stream).await else {
                        return;
                    };
                    let goes = seen.goes.lock().unwrap().take();
                    if let Some(going) = goes {
                        // Who is turned away ends the connection.
                        let _ = turn_away(stream, going, &seen.finish).await;
                    } else {
                        converse(stream, &seen).await;
                    }
                }
            }
        });
    }
}

async fn converse(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static, seen: &Arc<Seen>) {
    let service = service_fn(|request: Request<hyper::body::Incoming>| {
        let seen = Arc::clone(seen);
        async move {
            // As an API server, which does nothing before it has read what is to be done.
            request.into_body().collect().await?;
            seen.asked.fetch_add(1, Ordering::SeqCst);
            seen.at_once.send_modify(|at_once| *at_once += 1);
            let answer = seen.answers.acquire().await;
            answer.unwrap().forget();
            seen.at_once.send_modify(|at_once| *at_once -= 1);
            Ok::<_, hyper::Error>(Response::new(Empty::<Bytes>::new()))
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
enum Going {
    /// The connection is ended in order.
    Ends,
    /// One request is one too many.
    Refuses,
}

/// Frames as in RFC 9113, 4.1.
async fn turn_away(mut stream: impl AsyncRead + AsyncWrite + Unpin, going: Going, finish: &Notify) -> std::io::Result<()> {
    const HEADERS: u8 = 1;
    const RST_STREAM: u8 = 3;
    const GOAWAY: u8 = 7;
    const REFUSED_STREAM: u8 = 7;
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    let turned_away: &[u8] = match going {
        // The last request that is looked at is the first; nothing is wrong.
        Going::Ends => &[0, 0, 8, GOAWAY, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0],
        Going::Refuses => &[0, 0, 4, RST_STREAM, 0, 0, 0, 0, 3, 0, 0, 0, REFUSED_STREAM],
    };
    // Status 200, and that is all.
    let answer = |stream: u8| [0, 0, 1, HEADERS, 5, 0, 0, 0, stream, 0x88];
    stream.read_exact(&mut [0; b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".len()]).await?;
    stream.write_all(&settings).await?;
    let mut requests = 0;
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        stream.read_exact(&mut vec![0; length as usize]).await?;
        requests += usize::from(head[3] == HEADERS);
        match (going, requests) {
            _ if head[3] != HEADERS => {}
            (Going::Ends, 2) => {
                stream.write_all(turned_away).await?;
                finish.notified().await;
                stream.write_all(&answer(1)).await?;
            }
            (Going::Refuses, 2) => stream.write_all(turned_away).await?,
            (Going::Refuses, 3) => {
                stream.write_all(&answer(1)).await?;
                stream.write_all(&answer(5)).await?;
            }
            _ => {}
        }
    }
}

async fn ask(transport: &Transport) -> Result<Version, SendError> {
    let request = Request::get("/api").body(Content::default()).unwrap();
    let answer = transport.send(transport.room(false).await?, request).await?;
    let version = answer.version();
    answer.into_body().collect().await.map_err(SendError)?;
    Ok(version)
}

fn are_all(answers: &[Result<Version, SendError>], version: Version) -> bool {
    answers
        .iter()
        .all(|answer| matches!(answer, Ok(spoken) if *spoken == version))
}

#[tokio::test]
async fn single_requests_share_a_connection_and_streams_have_their_own() {
    let server = mk_server(Some(BOTH)).await;
    let transport = server.transport();
    server.hold();
    let singles = {
        let transport = transport.clone();
        tokio::spawn(async move { join_all((0..300).map(|_| ask(&transport))).await })
    };
    server.wait_for(AT_ONCE).await;
    server.answer(1);
    // One is answered, so there is room for another one.
    while server.asked() < AT_ONCE + 1 {
        tokio::task::yield_now().await;
    }
    assert_eq!(*server.seen.at_once.borrow(), AT_ONCE);
    server.answer(299);
    let answers = singles.await.unwrap();
    assert!(are_all(&answers, Version::HTTP_2), "{answers:?}");
    assert_eq!(server.connections(), 1);

    server.answer(3);
    let streams = join_all((0..3).map(|_| transport.open(Request::get("/api").body(Content::default()).unwrap()))).await;
    for stream in &streams {
        assert_eq!(stream.as_ref().unwrap().version(), Version::HTTP_11);
    }
    assert_eq!(server.connections(), 1 + 3);
}

/// What is read of an answer takes room, too: a list is long.
#[tokio::test]
async fn room_is_taken_until_the_answer_was_read() {
    let server = mk_server(Some(NEWER)).await;
    let transport = server.transport();
    let mut answers = Vec::new();
    for _ in 0..AT_ONCE {
        let request = Request::get("/api").body(Content::default()).unwrap();
        answers.push(transport.send(transport.room(false).await.unwrap(), request).await.unwrap());
    }
    let mut room = Box::pin(transport.room(false));
    assert!(futures::poll!(&mut room).is_pending());
    let urgent = join_all((0..URGENT_BESIDES).map(|_| transport.room(true))).await;
    let mut late = Box::pin(transport.room(true));
    assert!(futures::poll!(&mut late).is_pending());
    answers.pop();
    assert!(futures::poll!(&mut room).is_ready());
    drop(urgent);
    assert!(futures::poll!(&mut late).is_ready());
}

#[tokio::test]
async fn a_server_that_speaks_the_older_version_only_is_served_by_a_pool() {
    for protocols in [Some(OLDER), Some([].as_slice()), None] {
        let server = mk_server(protocols).await;
        let transport = server.transport();
        let answers = join_all((0..20).map(|_| ask(&transport))).await;
        assert!(are_all(&answers, Version::HTTP_11), "{answers:?}");
        // One of TLS that asked which it speaks.
        assert!(server.connections() <= 21, "{}", server.connections());
        let before = server.connections();
        ask(&transport).await.unwrap();
        assert_eq!(server.connections(), before, "{protocols:?}");
    }
}

/// A server that goes says which requests it did not look at; one that is behind the same address may speak something else.
#[tokio::test]
async fn a_connection_that_is_ended_in_order_costs_no_request() {
    let server = mk_server(Some(BOTH)).await;
    let transport = server.transport();
    ask(&transport).await.unwrap();
    for protocols in [BOTH, NEWER, OLDER] {
        *server.seen.protocols.lock().unwrap() = protocols;
        let before = server.connections();
        server.hold();
        let asking = {
            let transport = transport.clone();
            tokio::spawn(async move { join_all((0..200).map(|_| ask(&transport))).await })
        };
        server.wait_for(AT_ONCE).await;
        server.seen.end.send_replace(());
        server.answer(1_000);
        let answers = asking.await.unwrap();
        assert!(answers.iter().all(Result::is_ok), "{protocols:?}: {answers:?}");
        assert!(server.connections() > before);
    }
    assert_eq!(ask(&transport).await.unwrap(), Version::HTTP_11);
}

/// As kube-apiserver does now and then with `--goaway-chance`. What it looked at is answered, however long that takes, and not sent again.
#[tokio::test]
async fn what_a_server_that_goes_did_not_look_at_is_sent_over_the_next_connection() {
    for protocols in [NEWER, OLDER] {
        let server = mk_server(Some(NEWER)).await;
        *server.seen.goes.lock().unwrap() = Some(Going::Ends);
        let transport = server.transport();
        let asking = {
            let transport = transport.clone();
            tokio::spawn(async move { join_all((0..20).map(|_| ask(&transport))).await })
        };
        while server.connections() == 0 {
            tokio::task::yield_now().await;
        }
        *server.seen.protocols.lock().unwrap() = protocols;
        while server.asked() < 19 {
            tokio::task::yield_now().await;
        }
        server.seen.finish.notify_one();
        let answers = asking.await.unwrap();
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
        assert_eq!(server.asked(), 19);
    }
}

/// A server that takes fewer requests at once than we send says so when it is asked first.
#[tokio::test]
async fn a_request_that_was_one_too_many_is_sent_again() {
    let server = mk_server(Some(NEWER)).await;
    *server.seen.goes.lock().unwrap() = Some(Going::Refuses);
    let transport = server.transport();
    let answers = join_all((0..2).map(|_| ask(&transport))).await;
    assert!(are_all(&answers, Version::HTTP_2), "{answers:?}");
    assert_eq!((server.connections(), server.asked()), (1, 0));
}

/// A connection that nobody waits for any more comes to nothing, and that is nobody's error.
#[tokio::test]
async fn what_failed_for_others_is_not_told_to_the_next() {
    let server = mk_server(Some(NEWER)).await;
    let relay = mk_relay(&server).await;
    relay.is_dead.send(true).unwrap();
    let transport = Transport::new(&relay.config, connector(None)).unwrap();
    let mut room = Box::pin(transport.room(false));
    assert!(futures::poll!(&mut room).is_pending());
    drop(room);
    tokio::time::pause();
    tokio::time::sleep(2 * CONNECT_WITHIN).await;
    tokio::time::resume();
    relay.is_dead.send(false).unwrap();
    ask(&transport).await.unwrap();
}

/// All requests are on one connection: if it is dead, the next must not be sent into it.
#[tokio::test]
async fn a_dead_connection_is_noticed_within_the_time_of_a_request() {
    let server = mk_server(Some(NEWER)).await;
    let relay = mk_relay(&server).await;
    let transport = Transport::new(&relay.config, connector(None)).unwrap();
    ask(&transport).await.unwrap();
    relay.is_dead.send(true).unwrap();
    tokio::time::pause();
    let began = tokio::time::Instant::now();
    ask(&transport).await.unwrap_err();
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    tokio::time::resume();
    relay.is_dead.send(false).unwrap();
    ask(&transport).await.unwrap();
}

#[tokio::test]
async fn who_goes_while_it_connects_takes_nothing_from_the_others() {
    let server = mk_server(Some(NEWER)).await;
    let transport = server.transport();
    let mut first = Box::pin(transport.room(false));
    assert!(futures::poll!(&mut first).is_pending());
    let second = tokio::spawn({
        let transport = transport.clone();
        async move { ask(&transport).await }
    });
    tokio::task::yield_now().await;
    drop(first);
    second.await.unwrap().unwrap();
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn a_server_that_was_away_is_connected_to_when_it_is_back() {
    let server = mk_server(Some(NEWER)).await;
    let transport = server.transport();
    server.seen.is_there.store(false, Ordering::SeqCst);
    let answers = join_all((0..3).map(|_| ask(&transport))).await;
    assert!(answers.iter().all(Result::is_err), "{answers:?}");
    server.seen.is_there.store(true, Ordering::SeqCst);
    assert_eq!(ask(&transport).await.unwrap(), Version::HTTP_2);
}

#[tokio::test]
async fn a_connection_is_used_again_and_those_that_a_wave_left_behind_are_closed() {
    let server = mk_server(None).await;
    let transport = server.transport();
    let mut open = server.seen.open.subscribe();
    for _ in 0..5 {
        ask(&transport).await.unwrap();
    }
    assert_eq!(*open.borrow(), 1);
    join_all((0..20).map(|_| ask(&transport))).await;
    assert!(*open.borrow() > 1, "they were under way together");
    tokio::time::pause();
    let began = tokio::time::Instant::now();
    open.wait_for(|open| *open == 0).await.unwrap();
    assert!(began.elapsed() <= 3 * IDLE_FOR, "{:?}", began.elapsed());
    tokio::time::resume();
    ask(&transport).await.unwrap();
}

/// A process stands still between handing a write to a connection and the connection's turn. Somebody else may lead by then.
#[tokio::test]
async fn what_may_not_go_any_more_when_its_connection_takes_it_is_not_sent() {
    for (protocols, is_connected) in [(None, false), (None, true), (Some(NEWER), true)] {
        let server = mk_server(protocols).await;
        let transport = server.transport();
        if is_connected {
            ask(&transport).await.unwrap();
        }
        for may_go in [true, false] {
            let before = server.asked();
            let flag = Arc::new(AtomicBool::new(true));
            let seen = Arc::clone(&flag);
            let content = Content::from("{}").only_while(move || seen.load(Ordering::SeqCst));
            let request = Request::delete("/api").body(content).unwrap();
            let mut sending = transport.send(transport.room(false).await.unwrap(), request);
            assert!(futures::poll!(&mut sending).is_pending(), "it is handed over");
            flag.store(may_go, Ordering::SeqCst);
            match sending.await {
                Ok(_) => assert!(may_go),
                Err(error) => assert!(!may_go && error.was_kept(), "{protocols:?}: {error:?}"),
            }
            ask(&transport).await.unwrap();
            assert_eq!(
                server.asked(),
                before + usize::from(may_go) + 1,
                "{protocols:?}, {is_connected}"
            );
        }
    }
}

#[tokio::test]
async fn nobody_there_is_an_error_that_says_so() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    for scheme in ["http", "https"] {
        let config = Config::new(format!("{scheme}://{address}").parse().unwrap());
        let transport = Transport::new(&config, connector(None)).unwrap();
        let error = ask(&transport).await.unwrap_err();
        assert!(
            !error.was_kept() && crate::shutdown::chain(&error).contains("refused"),
            "{error:?}"
        );
    }
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
