//! A port and its bounds: how many may be connected, for how long, and how hands are shaken.
//!
//! Every port of every process is served here, plain or over TLS, so that each has the same bounds and none is forgotten. A peer can
//! waste what one address is allowed, and nobody else notices: places are counted per address and in total, and over TLS taken only
//! once hands are shaken, in a task of its own that has a deadline and must make room for others; an idle or a dead connection is
//! closed, and none outlives [`AGE`]. What is served is a router; who is asking is told to it as a [`Peer`] in the request's
//! extensions.

mod activity;
mod bounds;
mod handshakes;
mod metrics;
mod places;
mod speak;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use self::handshakes::{Handshake, Handshakes};
use self::metrics::Refusal;
use self::places::{Place, Places};
use crate::tls::{Clients, Peer, Standing, Stream, Tls};

pub use bounds::{AGE, Bounds, GRACE};
pub use metrics::Metrics;
pub use speak::http2;

/// How long to wait after accepting failed, for lack of file descriptors say.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// An address cannot be listened on: it is taken, or not this machine's.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on '{address}' for '--{flag}'")]
pub struct BindError {
    flag: &'static str,
    address: SocketAddr,
    source: io::Error,
}

/// Listens on the address that a flag names.
///
/// # Errors
/// It cannot be listened on.
pub async fn bind(flag: &'static str, address: SocketAddr) -> Result<TcpListener, BindError> {
    let refuse = |source| BindError { flag, address, source };
    TcpListener::bind(address).await.map_err(refuse)
}

/// What is spoken on a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    /// HTTP/1.1, for probes, scrapers and people.
    Http1,
    /// HTTP/2, for gRPC.
    Http2,
}

/// A port that is bound.
#[derive(Debug)]
pub struct Port {
    listener: TcpListener,
    inner: Arc<Inner>,
}

#[derive(Clone, Debug)]
struct Inner {
    name: &'static str,
    tls: Option<Tls>,
    protocol: Protocol,
    bounds: Bounds,
    metrics: Metrics,
}

/// A connection that has just come.
struct Arrived {
    stream: TcpStream,
    address: SocketAddr,
    /// Its place among the handshakes, over TLS.
    handshake: Option<Handshake>,
    /// Its place in plain text.
    place: Option<Place>,
}

// === impl Port ===

impl Port {
    /// A port for gRPC. With `tls` every client needs a certificate of a trusted CA. `name` is its label in metrics.
    pub fn grpc(name: &'static str, listener: TcpListener, tls: Option<Tls>, bounds: Bounds, metrics: &Metrics) -> Self {
        Self::new(name, listener, tls, Protocol::Http2, bounds, metrics)
    }

    /// A port for people and probes. With `tls` a client without a certificate gets as far as the router.
    pub fn http1(name: &'static str, listener: TcpListener, tls: Option<Tls>, bounds: Bounds, metrics: &Metrics) -> Self {
        Self::new(name, listener, tls, Protocol::Http1, bounds, metrics)
    }

    fn new(
        name: &'static str,
        listener: TcpListener,
        tls: Option<Tls>,
        protocol: Protocol,
        bounds: Bounds,
        metrics: &Metrics,
    ) -> Self {
        metrics.begin(name);
        Self {
            listener,
            inner: Arc::new(Inner {
                name,
                tls,
                protocol,
                bounds,
                metrics: metrics.clone(),
            }),
        }
    }

    /// Whether clients show who they are.
    pub fn is_secured(&self) -> bool {
        self.inner.tls.is_some()
    }

    /// Serves `router` until `stop`; then connections have their grace to end.
    pub async fn serve(self, router: Router, stop: CancellationToken) {
        let Self { listener, inner } = self;
        let (places, handshakes) = (Places::new(&inner.bounds), Handshakes::new(&inner.bounds));
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(_) = connections.join_next(), if !connections.is_empty() => continue,
                accepted = listener.accept() => accepted,
            };
            let (stream, address) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(port = inner.name, %error, "Connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            // In plain text there is nothing to wait for, and no task to begin for whoever finds no place.
            let (handshake, place) = if inner.tls.is_some() {
                (Some(handshakes.begin(address.ip())), None)
            } else {
                match places.take(address.ip(), false) {
                    Ok(place) => (None, Some(place)),
                    Err(reason) => {
                        inner.refuse(reason, address, None);
                        continue;
                    }
                }
            };
            let arrived = Arrived {
                stream,
                address,
                handshake,
                place,
            };
            let work = Arc::clone(&inner).converse(arrived, places.clone(), router.clone(), stop.clone());
            // Owned by this loop, which waits for it; it ends at the latest with its handshake, or with its age and grace.
            connections.spawn(work);
        }
        drop(listener);
        while connections.join_next().await.is_some() {}
    }
}

// === impl Inner ===

impl Inner {
    async fn converse(self: Arc<Self>, arrived: Arrived, places: Places, router: Router, stop: CancellationToken) {
        let Arrived {
            stream,
            address,
            handshake,
            place,
        } = arrived;
        let _open = self.metrics.opened(self.name);
        // Without it answers are late, and nothing else.
        let _ = stream.set_nodelay(true);
        // Before the handshake: CAs that change meanwhile end this connection, too.
        let trust = self.tls.as_ref().map_or_else(CancellationToken::new, Tls::trust);
        let Some((stream, standing)) = self.shake_hands(stream, address, handshake.as_ref(), &stop).await else {
            return;
        };
        let place = place.map_or_else(|| places.take(address.ip(), standing == Standing::Stranger), Ok);
        drop(handshake);
        let _place = match place {
            Ok(place) => place,
            // Being closed is all that it is told: an answer would cost more than it does.
            Err(reason) => return self.refuse(reason, address, None),
        };
        let peer = Peer {
            standing,
            address: Some(address),
            ending: CancellationToken::new(),
        };
        let end = async move {
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = trust.cancelled() => {}
            }
        };
        match self.protocol {
            Protocol::Http1 => speak::http1(stream, router, peer, &self.bounds, end).await,
            Protocol::Http2 => speak::http2(stream, router, peer, &self.bounds, end).await,
        }
    }

    async fn shake_hands(
        &self,
        stream: TcpStream,
        address: SocketAddr,
        handshake: Option<&Handshake>,
        stop: &CancellationToken,
    ) -> Option<(Stream, Standing)> {
        let (Some(tls), Some(handshake)) = (&self.tls, handshake) else {
            return Some((Stream::Plain(stream), Standing::Plain));
        };
        let clients = match self.protocol {
            Protocol::Http1 => Clients::Any,
            Protocol::Http2 => Clients::Known,
        };
        let acceptor = TlsAcceptor::from(tls.server(clients));
        let shaken = tokio::select! {
            biased;
            () = stop.cancelled() => return None,
            () = handshake.is_cut() => {
                self.refuse(Refusal::HandshakeCut, address, None);
                return None;
            }
            shaken = tokio::time::timeout(self.bounds.handshake, acceptor.accept(stream)) => shaken,
        };
        match shaken {
            Ok(Ok(stream)) => {
                let standing = Standing::of(stream.get_ref().1.peer_certificates(), tls.trust_domain().as_deref());
                Some((Stream::Tls(Box::new(stream.into())), standing))
            }
            Ok(Err(error)) => {
                self.refuse(Refusal::Handshake, address, Some(&error));
                None
            }
            Err(_late) => {
                self.refuse(Refusal::HandshakeTimeout, address, None);
                None
            }
        }
    }

    fn refuse(&self, reason: Refusal, address: SocketAddr, error: Option<&std::io::Error>) {
        // Whoever sends many bad connections must not fill the log with them.
        let Some(unsaid) = self.metrics.refused(self.name, reason) else {
            return;
        };
        let error = error.map(ToString::to_string);
        tracing::warn!(port = self.name, reason = reason.as_str(), %address, error, unsaid, "Connection was refused");
    }
}

#[cfg(test)]
mod tests;
