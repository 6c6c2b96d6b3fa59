//! Serves the admin port within bounds.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Connections at a time: kubelet's probes, a few scrapers and a few people. More wait to be accepted.
const CONNECTIONS: usize = 64;
/// Headers of a probe or a scraper are below 1 KiB; this is hyper's smallest buffer.
const MAX_HEADER_BYTES: usize = 8 * 1024;
const MAX_HEADERS: usize = 64;
/// How long a request's headers may take, and how long a connection may be idle.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a connection lives, whatever happens on it: a reader that does not read must not hold its place.
const CONNECTION_LIFETIME: Duration = Duration::from_secs(60);
/// How long to wait after accepting failed, for lack of file descriptors say.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Why the admin port cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address cannot be bound.
    #[error("cannot listen on '{address}' for '--admin-listen'")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
}

/// A port that is bound and not served yet: connections wait in its backlog.
#[derive(Debug)]
pub struct Bound {
    listener: TcpListener,
    address: SocketAddr,
}

/// Binds `address`: early, so that a port that is taken fails before work starts.
///
/// # Errors
/// The address cannot be bound.
pub async fn bind(address: SocketAddr) -> Result<Bound, Error> {
    let refuse = |source| Error::Bind { address, source };
    let listener = TcpListener::bind(address).await.map_err(refuse)?;
    let address = listener.local_addr().map_err(refuse)?;
    Ok(Bound { listener, address })
}

// === impl Bound ===

impl Bound {
    /// The address, with the port that was chosen if any would do.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves `router` until `stop` is cancelled. Stop it last: a draining service should still say that it is not ready.
    pub async fn serve(self, router: Router, stop: CancellationToken) {
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        let mut connections = JoinSet::new();
        while let Some((stream, place)) = self.accept(&places, &mut connections, &stop).await {
            let (router, stop) = (router.clone(), stop.clone());
            connections.spawn(async move {
                converse(stream, router, stop).await;
                drop(place);
            });
        }
        // Each ends by itself once stopped, and no later than its lifetime.
        while connections.join_next().await.is_some() {}
    }

    /// The next connection, once there is a place for it; `None` when stopped.
    async fn accept(
        &self,
        places: &Arc<Semaphore>,
        connections: &mut JoinSet<()>,
        stop: &CancellationToken,
    ) -> Option<(TcpStream, OwnedSemaphorePermit)> {
        loop {
            let next = async {
                let place = places.clone().acquire_owned().await.expect("nobody closes the semaphore");
                (self.listener.accept().await, place)
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => return None,
                Some(_) = connections.join_next(), if !connections.is_empty() => {}
                (accepted, place) = next => match accepted {
                    Ok((stream, _peer)) => return Some((stream, place)),
                    Err(error) => {
                        tracing::warn!(%error, "admin port cannot accept a connection");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
        }
    }
}

async fn converse(stream: TcpStream, router: Router, stop: CancellationToken) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(MAX_HEADER_BYTES)
        .max_headers(MAX_HEADERS)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut connection = std::pin::pin!(connection);
    let talk = async {
        tokio::select! {
            biased;
            () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
            _ = connection.as_mut() => return,
        }
        // A client that breaks its connection, or the rules of HTTP, concerns only itself.
        let _ = connection.await;
    };
    let _ = tokio::time::timeout(CONNECTION_LIFETIME, talk).await;
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::{Clock, Metrics, Readiness};

    async fn talk(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).await.expect("the port is bound");
        // The server may refuse, and close, before all of it is written.
        let _ = stream.write_all(request.as_bytes()).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// The one test with a socket: that the port is bound early, answers, refuses what is too large, and stops although somebody is connected.
    #[tokio::test]
    async fn the_port_answers_within_its_bounds_and_stops() {
        let bound = bind(([127, 0, 0, 1], 0).into()).await.expect("loopback");
        let address = bound.address();
        assert!(bind(address).await.is_err(), "the port is taken before it is served");
        let stop = CancellationToken::new();
        let router = super::super::router(Readiness::new(&Clock::system()), Metrics::new());
        let server = tokio::spawn(bound.serve(router, stop.clone()));

        let answer = talk(address, "GET /readyz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("ok"), "{answer}");
        let huge = "x".repeat(2 * MAX_HEADER_BYTES);
        let answer = talk(address, &format!("GET / HTTP/1.1\r\nhost: a\r\nx: {huge}\r\n\r\n")).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");

        let silent = TcpStream::connect(address).await.expect("still served");
        stop.cancel();
        server.await.expect("the server does not panic");
        drop(silent);
        assert!(TcpStream::connect(address).await.is_err(), "nobody listens any more");
    }
}
