//! Serves the admin port within bounds.

use std::io;
use std::net::SocketAddr;

use axum::Router;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::port::{self, Bounds, Port};
use crate::tls::Tls;

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
    pub async fn serve(self, router: Router, tls: Option<Tls>, metrics: &port::Metrics, stop: CancellationToken) {
        let port = Port::http1("admin", self.listener, tls, Bounds::ADMIN, metrics);
        port.serve(router, stop).await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;

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
        let server = tokio::spawn({
            let stop = stop.clone();
            async move { bound.serve(router, None, &port::Metrics::default(), stop).await }
        });

        let answer = talk(address, "GET /readyz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("ok"), "{answer}");
        let huge = "x".repeat(2 * Bounds::ADMIN.head);
        let answer = talk(address, &format!("GET / HTTP/1.1\r\nhost: a\r\nx: {huge}\r\n\r\n")).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");

        let silent = TcpStream::connect(address).await.expect("still served");
        stop.cancel();
        server.await.expect("the server does not panic");
        drop(silent);
        assert!(TcpStream::connect(address).await.is_err(), "nobody listens any more");
    }
}
