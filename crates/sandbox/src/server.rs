//! The sandbox over a socket: HTTP/1.1 and HTTP/2, plain or over TLS.

mod patience;
pub mod tls;
mod unread;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tower::util::MapResponse;

use self::patience::Patience;
use self::tls::Identity;
use self::unread::Unread;
use crate::Sandbox;
use crate::service::{Answer, Service};

/// Connections at a time. Each watch of a client without HTTP/2 takes one.
const MOST_CONNECTIONS: usize = 4096;
/// What a request's head may take.
const HEAD_BYTES: u32 = 64 * 1024;
/// How long a TLS handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long a connection may be idle between requests, as in the real server, and how long a request's head may take to arrive: HTTP/1
/// has one timer for both.
const IDLE: Duration = Duration::from_secs(90);
/// How long what was to be sent may wait for a client that does not read, be it a connection or one stream of it, and a new connection for
/// its first byte. Longer than a client that works is ever stuck.
const STALLED: Duration = Duration::from_secs(30);
/// Time between pings on an HTTP/2 connection, and for their answer, as in the real server: a client that vanished frees its slot.
const PING: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(15));
/// Requests at a time on an HTTP/2 connection, watches among them, as in the real server.
const MOST_STREAMS: u32 = 250;
/// How long open connections may take to finish when the server stops. Watches do not end by themselves.
const DRAIN: Duration = Duration::from_secs(2);
/// How long the server rests when the system has no more descriptors.
const REST: Duration = Duration::from_millis(50);

/// What every TLS connection begins with, and no HTTP request.
const TLS_HANDSHAKE: u8 = 0x16;

/// What the server speaks.
#[derive(Clone, Debug)]
pub enum Transport {
    /// HTTP without encryption.
    Plain,
    /// Either on the same port, as the client begins.
    Either(Identity),
    /// TLS only.
    Tls(Identity),
}

/// Serves plain HTTP until `shutdown` completes, then ends what is open.
///
/// # Errors
/// When the listener breaks.
pub async fn serve(listener: TcpListener, sandbox: Sandbox, shutdown: impl Future<Output = ()>) -> io::Result<()> {
    serve_over(listener, sandbox, Transport::Plain, shutdown).await
}

/// Serves until `shutdown` completes, then ends what is open.
///
/// # Errors
/// When the listener breaks.
pub async fn serve_over(
    listener: TcpListener,
    sandbox: Sandbox,
    transport: Transport,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let mut shutdown = pin!(shutdown);
    let graceful = GracefulShutdown::new();
    let slots = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let builder = builder();
    loop {
        let accepted = tokio::select! {
            biased;
            () = &mut shutdown => break,
            accepted = accept(&listener, &slots) => accepted,
        };
        let Some((stream, permit)) = accepted else { continue };
        let (builder, watcher, sandbox, transport) = (builder.clone(), graceful.watcher(), sandbox.clone(), transport.clone());
        // Owned by the connection: it ends with the client, at the latest shortly after shutdown.
        tokio::spawn(async move {
            if let Err(error) = converse(stream, &transport, builder, watcher, sandbox).await {
                tracing::debug!(error, "Connection ended early");
            }
            drop(permit);
        });
    }
    // Whoever has not finished by then is cut off with the process.
    let _ = tokio::time::timeout(DRAIN, graceful.shutdown()).await;
    Ok(())
}

fn builder() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE)
        .max_buf_size(HEAD_BYTES as usize);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(HEAD_BYTES)
        .max_concurrent_streams(MOST_STREAMS)
        .keep_alive_interval(PING.0)
        .keep_alive_timeout(PING.1);
    builder
}

type Broken = Box<dyn std::error::Error + Send + Sync>;

async fn converse(
    stream: TcpStream,
    transport: &Transport,
    builder: Builder<TokioExecutor>,
    watcher: Watcher,
    sandbox: Sandbox,
) -> Result<(), Broken> {
    let identity = match transport {
        Transport::Plain => None,
        Transport::Tls(identity) => Some(identity),
        Transport::Either(identity) => {
            let mut first = [0];
            tokio::time::timeout(HANDSHAKE, stream.peek(&mut first)).await??;
            (first[0] == TLS_HANDSHAKE).then_some(identity)
        }
    };
    match identity {
        Some(identity) => {
            let stream = tokio::time::timeout(HANDSHAKE, identity.acceptor().accept(stream)).await??;
            answer(stream, &builder, watcher, sandbox).await
        }
        None => answer(stream, &builder, watcher, sandbox).await,
    }
}

async fn answer(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    builder: &Builder<TokioExecutor>,
    watcher: Watcher,
    sandbox: Sandbox,
) -> Result<(), Broken> {
    let unread = Unread::new(STALLED);
    let minded = Arc::clone(&unread);
    let mind = move |response: http::Response<Answer>| response.map(|body| minded.watch(body));
    let service = TowerToHyperService::new(MapResponse::new(Service::new(sandbox), mind));
    let stream = TokioIo::new(Patience::new(stream, STALLED));
    let connection = builder.serve_connection(stream, service).into_owned();
    tokio::select! {
        biased;
        ended = watcher.watch(connection) => ended,
        never = unread.attend() => match never {},
    }
}

async fn accept(listener: &TcpListener, slots: &Arc<Semaphore>) -> Option<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let permit = slots.clone().acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => {
            // Small answers must not wait for each other.
            let _ = stream.set_nodelay(true);
            Some((stream, permit))
        }
        Err(error) => {
            tracing::warn!(%error, "Connection not accepted");
            tokio::time::sleep(REST).await;
            None
        }
    }
}

/// A kubeconfig for a server at `address`, for a user with `token`; with an authority's certificate over TLS. It is JSON, which is
/// YAML.
pub fn kubeconfig(address: SocketAddr, authority: Option<&str>, token: &str) -> String {
    let cluster = match authority {
        Some(authority) => {
            let data = base64::engine::general_purpose::STANDARD.encode(authority);
            json!({"server": format!("https://{address}"), "certificate-authority-data": data})
        }
        None => json!({"server": format!("http://{address}")}),
    };
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "sandbox", "cluster": cluster}],
        "users": [{"name": "sandbox", "user": {"token": token}}],
        "contexts": [{"name": "sandbox", "context": {"cluster": "sandbox", "user": "sandbox"}}],
        "current-context": "sandbox",
    });
    let mut text = serde_json::to_string_pretty(&config).unwrap_or_default();
    text.push('\n');
    text
}

#[cfg(test)]
mod tests;
