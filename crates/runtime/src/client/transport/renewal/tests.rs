use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt as _;
use http::{Request, StatusCode};
use kube::Config;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::client::connector;
use crate::client::transport::Content;
use crate::client::transport::tests::server::until;

/// Answers 200 to who brings the token, and 401 to all others.
async fn serve(mut connection: TcpStream, token: &str) {
    let mut head = Vec::new();
    while connection.read_buf(&mut head).await.is_ok_and(|read| read > 0) {
        if !head.ends_with(b"\r\n\r\n") {
            continue;
        }
        let is_known = String::from_utf8_lossy(&head).contains(token);
        let status = if is_known { "200 OK" } else { "401 Unauthorized" };
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
        connection.write_all(answer.as_bytes()).await.unwrap();
        head.clear();
    }
}

async fn ask(transport: &Transport) -> StatusCode {
    let request = Request::get("/api").body(Content::default()).unwrap();
    let room = transport.room(false).await.unwrap();
    transport.send(room, request).await.unwrap().status()
}

#[tokio::test]
async fn a_request_is_refused_until_the_credentials_were_read_again() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let mut config = Config::new(format!("http://{}", listener.local_addr().unwrap()).parse().unwrap());
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            tokio::spawn(serve(connection, "Bearer new"));
        }
    });
    let mut mk = move |token: &str| {
        config.auth_info.token = Some(token.to_owned().into());
        Transport::new(&config, connector(None)).map_err(Error::Build)
    };
    let old = mk("old").unwrap();
    let new = mk("new").unwrap();
    let transport = old.renewed_by(move || std::future::ready(Ok(new.clone())).boxed());
    assert_eq!(ask(&transport).await, StatusCode::UNAUTHORIZED);
    let renewed = async { while ask(&transport).await != StatusCode::OK {} };
    assert!(tokio::time::timeout(EVERY, renewed).await.is_ok());
}

/// If what is read is refused as well, or cannot be read, it is not read again at once.
#[tokio::test(start_paused = true)]
async fn credentials_are_read_again_seldom() {
    let config = Config::new("http://192.0.2.1".parse().unwrap());
    let transport = Transport::new(&config, connector(None)).unwrap();
    let reads = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&reads);
    let failed = || Error::Build(kube::Error::Service("no".into()));
    let renewal = Renewal::new(Arc::clone(&transport.ways), move || {
        counted.fetch_add(1, Ordering::Relaxed);
        std::future::ready(Err(failed())).boxed()
    });
    for times in 1..3 {
        for _ in 0..3 {
            renewal.refused();
        }
        until(|| reads.load(Ordering::Relaxed) >= times).await;
        tokio::time::advance(EVERY).await;
        assert_eq!(reads.load(Ordering::Relaxed), times);
    }
}
