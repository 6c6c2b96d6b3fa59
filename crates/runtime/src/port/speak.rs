//! One connection from its first byte to its end, over HTTP/1.1 or HTTP/2.

use std::convert::Infallible;
use std::future::Future;
use std::pin::{Pin, pin};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tower::ServiceExt as _;

use super::Bounds;
use super::activity::Activity;
use crate::tls::Peer;

/// Between telling a client that its connection ends and ending what is open on it: so that it asks again elsewhere, not here. A
/// client that is further away than this asks here once more and is refused, which costs it one attempt.
const ANNOUNCE: Duration = Duration::from_millis(100);

/// Header fields of one HTTP/1 request.
const HEADERS: usize = 64;

/// HTTP/2 streams that were reset and not yet forgotten: more is an attack, and ends its connection.
const RESET_STREAMS: usize = 32;

/// Serves HTTP/2 on `io` until `end`, the end of its age, or idleness.
pub async fn http2<IO>(io: IO, router: Router, peer: Peer, bounds: &Bounds, end: impl Future<Output = ()>)
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (activity, ending) = (Activity::new(), peer.ending.clone());
    let answer = answering(router, peer, activity.clone());
    let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(Some(bounds.ping))
        .keep_alive_timeout(bounds.ping)
        .max_concurrent_streams(bounds.streams)
        .max_pending_accept_reset_streams(RESET_STREAMS)
        .max_local_error_reset_streams(RESET_STREAMS)
        .max_header_list_size(u32::try_from(bounds.head).unwrap_or(u32::MAX))
        .serve_connection(TokioIo::new(io), service_fn(answer));
    let mut connection = pin!(connection);
    tokio::select! {
        biased;
        () = end => {}
        // A client that breaks its connection, or the rules of HTTP, concerns only itself.
        _ = connection.as_mut() => return,
        () = tokio::time::sleep(bounds.age) => {}
        () = activity.idle(bounds.idle) => {}
    }
    connection.as_mut().graceful_shutdown();
    if tokio::time::timeout(ANNOUNCE, connection.as_mut()).await.is_ok() {
        return;
    }
    ending.cancel();
    let _ = tokio::time::timeout(bounds.grace, connection).await;
}

/// Serves HTTP/1.1 on `io` until `end`, or the end of its age.
pub(super) async fn http1<IO>(io: IO, router: Router, peer: Peer, bounds: &Bounds, end: impl Future<Output = ()>)
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let answer = answering(router, peer, Activity::new());
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        // It is the bound of idleness as well: what comes next is always a head.
        .header_read_timeout(bounds.idle)
        .max_buf_size(bounds.head)
        .max_headers(HEADERS)
        .serve_connection(TokioIo::new(io), service_fn(answer));
    let mut connection = pin!(connection);
    tokio::select! {
        biased;
        () = end => {}
        _ = connection.as_mut() => return,
        () = tokio::time::sleep(bounds.age) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = tokio::time::timeout(bounds.grace, connection).await;
}

type Answer = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

/// The router, told who asks.
fn answering(router: Router, peer: Peer, activity: Activity) -> impl Fn(Request<Incoming>) -> Answer {
    move |request| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(peer.clone());
        let (router, under_way) = (router.clone(), activity.begin());
        Box::pin(async move {
            let response = router.oneshot(request).await?;
            Ok(response.map(|body| under_way.carry(body)))
        })
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::tls::Standing;

    fn mk_peer() -> Peer {
        Peer {
            standing: Standing::Plain,
            address: None,
            ending: CancellationToken::new(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_says_nothing_is_not_kept() {
        let bounds = Bounds::BUS;
        let (_silent, io) = tokio::io::duplex(1024);
        let begun = Instant::now();
        http2(io, Router::new(), mk_peer(), &bounds, std::future::pending()).await;
        assert!(
            begun.elapsed() <= bounds.idle + ANNOUNCE + bounds.grace,
            "{:?}",
            begun.elapsed()
        );

        let bounds = Bounds::ADMIN;
        let (_silent, io) = tokio::io::duplex(1024);
        let begun = Instant::now();
        http1(io, Router::new(), mk_peer(), &bounds, std::future::pending()).await;
        assert!(begun.elapsed() <= bounds.idle + bounds.grace, "{:?}", begun.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_is_to_end_is_told_and_has_its_grace() {
        let peer = mk_peer();
        let ending = peer.ending.clone();
        let (_silent, io) = tokio::io::duplex(1024);
        let begun = Instant::now();
        http2(io, Router::new(), peer, &Bounds::BUS, std::future::ready(())).await;
        assert!(begun.elapsed() <= ANNOUNCE + Bounds::BUS.grace, "{:?}", begun.elapsed());
        assert!(ending.is_cancelled() || begun.elapsed() < ANNOUNCE);
    }
}
