//! Against a server that counts connections.

use std::convert::Infallible;
use std::net::Ipv4Addr;

use http_body_util::Empty;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::*;
use crate::client::connector;

/// A way to a server that answers everything with nothing, and how many connections are open.
async fn mk_transport() -> (Transport, watch::Receiver<usize>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (open, seen) = watch::channel(0);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            open.send_modify(|open| *open += 1);
            let open = open.clone();
            tokio::spawn(async move {
                let service = service_fn(|_| async { Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new())) });
                let builder = auto::Builder::new(TokioExecutor::new());
                let _ = builder.serve_connection(TokioIo::new(stream), service).await;
                open.send_modify(|open| *open -= 1);
            });
        }
    });
    let config = Config::new(url.parse().unwrap());
    (Transport::new(&config, connector(None)).unwrap(), seen)
}

async fn ask(transport: &Transport) {
    let request = Request::get("/api").body(Content::empty()).unwrap();
    let answer = transport.send(request).await.unwrap();
    answer.into_body().collect().await.unwrap();
}

#[tokio::test]
async fn a_connection_is_used_again_and_those_that_a_wave_left_behind_are_closed() {
    let (transport, mut open) = mk_transport().await;
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

#[tokio::test]
async fn nobody_there_is_an_error_that_says_so() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let transport = Transport::new(&Config::new(url.parse().unwrap()), connector(None)).unwrap();
    let request = Request::get("/api").body(Content::empty()).unwrap();
    let error = transport.send(request).await.unwrap_err();
    assert!(crate::shutdown::chain(&error).contains("refused"), "{error:?}");
}
