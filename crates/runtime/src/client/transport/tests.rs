//! Against a server that counts connections.

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use http_body_util::Empty;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::*;
use crate::client::connector;

/// A way to a server that answers everything with nothing, how many connections are open, and how many requests there were.
async fn mk_transport() -> (Transport, watch::Receiver<usize>, Arc<AtomicUsize>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (open, seen) = watch::channel(0);
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            open.send_modify(|open| *open += 1);
            let (open, asked) = (open.clone(), Arc::clone(&counted));
            tokio::spawn(async move {
                let service = service_fn(|_| {
                    asked.fetch_add(1, Ordering::SeqCst);
                    async { Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new())) }
                });
                let builder = auto::Builder::new(TokioExecutor::new());
                let _ = builder.serve_connection(TokioIo::new(stream), service).await;
                open.send_modify(|open| *open -= 1);
            });
        }
    });
    let config = Config::new(url.parse().unwrap());
    (Transport::new(&config, connector(None)).unwrap(), seen, asked)
}

async fn ask(transport: &Transport) {
    let request = Request::get("/api").body(Content::default()).unwrap();
    let answer = transport.send(request).await.unwrap();
    answer.into_body().collect().await.unwrap();
}

#[tokio::test]
async fn a_connection_is_used_again_and_those_that_a_wave_left_behind_are_closed() {
    let (transport, mut open, _) = mk_transport().await;
    for _ in 0..5 {
        ask(&transport).await;
    }
    assert_eq!(*open.borrow(), 1);
    futures::future::join_all((0..20).map(|_| ask(&transport))).await;
    assert!(*open.borrow() > 1, "they were under way together");
    tokio::time::pause();
    let began = tokio::time::Instant::now();
    open.wait_for(|open| *open == 0).await.unwrap();
    assert!(began.elapsed() <= 3 * IDLE_FOR, "{:?}", began.elapsed());
    tokio::time::resume();
    ask(&transport).await;
}

/// A process stands still between handing a write to a connection and the connection's turn. Somebody else may lead by then.
#[tokio::test]
async fn what_may_not_go_any_more_when_its_connection_takes_it_is_not_sent() {
    let (transport, _, asked) = mk_transport().await;
    for is_connected in [false, true] {
        if is_connected {
            ask(&transport).await;
        }
        let before = asked.load(Ordering::SeqCst);
        for may_go in [true, false] {
            let flag = Arc::new(AtomicBool::new(true));
            let seen = Arc::clone(&flag);
            let content = Content::from("{}").only_while(move || seen.load(Ordering::SeqCst));
            let mut sending = transport.send(Request::delete("/api").body(content).unwrap());
            assert!(futures::poll!(&mut sending).is_pending(), "it is handed over");
            flag.store(may_go, Ordering::SeqCst);
            match sending.await {
                Ok(_) => assert!(may_go),
                Err(error) => assert!(!may_go && error.was_kept(), "{error:?}"),
            }
            assert_eq!(asked.load(Ordering::SeqCst), before + 1, "connected: {is_connected}");
        }
    }
    ask(&transport).await;
}

#[tokio::test]
async fn nobody_there_is_an_error_that_says_so() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let transport = Transport::new(&Config::new(url.parse().unwrap()), connector(None)).unwrap();
    let request = Request::get("/api").body(Content::default()).unwrap();
    let error = transport.send(request).await.unwrap_err();
    assert!(
        !error.was_kept() && crate::shutdown::chain(&error).contains("refused"),
        "{error:?}"
    );
}
