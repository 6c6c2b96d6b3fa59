//! The sandbox over a socket: HTTP/1.1, and HTTP/2 for those who know.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::Sandbox;
use crate::service::Service;

/// Connections at a time. Each watch of a client without HTTP/2 takes one.
const MOST_CONNECTIONS: usize = 4096;
/// What a request's head may take.
const HEAD_BYTES: usize = 64 * 1024;
/// How long a request's head may take to arrive.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// How long open connections may take to finish when the server stops. Watches do not end by themselves.
const DRAIN: Duration = Duration::from_secs(2);
/// How long the server rests when the system has no more descriptors.
const REST: Duration = Duration::from_millis(50);

/// Serves until `shutdown` completes, then ends what is open.
///
/// # Errors
/// When the listener breaks.
pub async fn serve(listener: TcpListener, sandbox: Sandbox, shutdown: impl Future<Output = ()>) -> io::Result<()> {
    let mut shutdown = pin!(shutdown);
    let graceful = GracefulShutdown::new();
    let slots = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD_BYTES);
    builder.http2().timer(TokioTimer::new()).max_header_list_size(64 * 1024);
    loop {
        let accepted = tokio::select! {
            biased;
            () = &mut shutdown => break,
            accepted = accept(&listener, &slots) => accepted,
        };
        let Some((stream, permit)) = accepted else { continue };
        let service = TowerToHyperService::new(Service::new(sandbox.clone()));
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        let connection = graceful.watch(connection.into_owned());
        // Owned by the connection: it ends with the client, at the latest shortly after shutdown.
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "Connection ended early");
            }
            drop(permit);
        });
    }
    // Whoever has not finished by then is cut off with the process.
    let _ = tokio::time::timeout(DRAIN, graceful.shutdown()).await;
    Ok(())
}

async fn accept(
    listener: &TcpListener,
    slots: &Arc<Semaphore>,
) -> Option<(tokio::net::TcpStream, tokio::sync::OwnedSemaphorePermit)> {
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

/// A kubeconfig for a server at `address`, for a user with `token`. It is JSON, which is YAML.
pub fn kubeconfig(address: SocketAddr, token: &str) -> String {
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "sandbox", "cluster": {"server": format!("http://{address}")}}],
        "users": [{"name": "sandbox", "user": {"token": token}}],
        "contexts": [{"name": "sandbox", "context": {"cluster": "sandbox", "user": "sandbox"}}],
        "current-context": "sandbox",
    });
    let mut text = serde_json::to_string_pretty(&config).unwrap_or_default();
    text.push('\n');
    text
}
