//! Counts requests on their way to the API server: a port on loopback for each process, so that every request is somebody's, whoever
//! wrote the program and whatever it counts itself.
//!
//! Answers pass as they come, piece by piece; requests pass when they are whole. The way to the API server is the kubeconfig's, with its
//! TLS and its user; between a process and its port there is neither.

use std::convert::Infallible;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{HeaderName, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use kube::client::Body;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::count::classify;
use crate::figures::{Counts, Kind};

/// Headers that are between two neighbours, and whom this one is called.
const OF_ONE_HOP: [HeaderName; 5] = [
    header::HOST,
    header::CONNECTION,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::TE,
];

/// The longest request: beyond it API servers refuse it themselves (3 MiB).
const LONGEST: usize = 4 << 20;

/// Connections of one process: far more than requests that it has under way.
const CONNECTIONS: usize = 4096;

/// Ports, and what came through them. Dropping it closes them.
pub(crate) struct Proxies {
    client: Option<kube::Client>,
    kubeconfig: PathBuf,
    directory: PathBuf,
    counts: Arc<Mutex<Counts>>,
    ports: JoinSet<()>,
}

impl fmt::Debug for Proxies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxies")
            .field("kubeconfig", &self.kubeconfig)
            .finish_non_exhaustive()
    }
}

// === impl Proxies ===

impl Proxies {
    /// Ports to the API server of a kubeconfig; without a client there are none, and nothing is counted.
    pub(crate) fn new(client: Option<kube::Client>, kubeconfig: &Path, directory: &Path) -> Self {
        Self {
            client,
            kubeconfig: kubeconfig.to_owned(),
            directory: directory.to_owned(),
            counts: Arc::default(),
            ports: JoinSet::new(),
        }
    }

    /// The kubeconfig for a process.
    pub(crate) async fn open(&mut self, process: &str) -> Result<PathBuf, String> {
        let Some(client) = self.client.clone() else {
            return Ok(self.kubeconfig.clone());
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let listener = listener.map_err(|error| format!("no port is free: {error}"))?;
        let address = listener.local_addr().map_err(|error| format!("no port is free: {error}"))?;
        let path = self.directory.join(format!("{process}.kubeconfig"));
        let text = kubeconfig(address).to_string();
        std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        let (process, counts) = (process.to_owned(), Arc::clone(&self.counts));
        self.ports.spawn(serve(listener, client, process, counts));
        Ok(path)
    }

    /// What came through by now; none if nothing is counted.
    pub(crate) fn counts(&self) -> Option<Counts> {
        self.client.is_some().then(|| lock(&self.counts).clone())
    }
}

/// In JSON, which is YAML too.
fn kubeconfig(address: SocketAddr) -> serde_json::Value {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "bench",
        "clusters": [{"name": "bench", "cluster": {"server": format!("http://{address}")}}],
        "users": [{"name": "bench", "user": {}}],
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
    })
}

/// Ends with the ports, and its connections with it.
async fn serve(listener: TcpListener, client: kube::Client, process: String, counts: Arc<Mutex<Counts>>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.len() < CONNECTIONS => {
                // A connection that broke before it was taken is its client's matter.
                let Ok((stream, _)) = accepted else { continue };
                // Watches are many small pieces.
                let _ = stream.set_nodelay(true);
                let (client, process, counts) = (client.clone(), process.clone(), Arc::clone(&counts));
                connections.spawn(async move {
                    let service = service_fn(|request: Request<Incoming>| {
                        count(&counts, &process, &request);
                        pass(client.clone(), request)
                    });
                    let builder = Builder::new(TokioExecutor::new());
                    // It ends as either side wants.
                    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
                });
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

fn count(counts: &Mutex<Counts>, process: &str, request: &Request<Incoming>) {
    let uri = request.uri();
    let (verb, resource) = classify(request.method().as_str(), uri.path(), uri.query().unwrap_or_default());
    let kind = Kind {
        process: process.to_owned(),
        verb: verb.to_owned(),
        resource,
    };
    *lock(counts).entry(kind).or_default() += 1;
}

async fn pass(client: kube::Client, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    let (mut parts, body) = request.into_parts();
    for name in OF_ONE_HOP {
        parts.headers.remove(name);
    }
    parts.version = http::Version::HTTP_11;
    let body = match Limited::new(body, LONGEST).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => return Ok(refusal(StatusCode::PAYLOAD_TOO_LARGE, &error)),
    };
    let passed = client.send(Request::from_parts(parts, Body::from(body.to_vec()))).await;
    Ok(match passed {
        Ok(mut answer) => {
            for name in OF_ONE_HOP {
                answer.headers_mut().remove(name);
            }
            // Between the process and its port there may be another version of HTTP.
            *answer.version_mut() = http::Version::HTTP_11;
            answer
        }
        Err(error) => refusal(StatusCode::BAD_GATEWAY, &error),
    })
}

fn refusal(status: StatusCode, why: &dyn std::fmt::Display) -> Response<Body> {
    let mut answer = Response::new(Body::from(why.to_string().into_bytes()));
    *answer.status_mut() = status;
    answer
}

fn lock(counts: &Mutex<Counts>) -> MutexGuard<'_, Counts> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}
