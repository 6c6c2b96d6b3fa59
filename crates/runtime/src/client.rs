//! The client of the API server: which server, as whom, how fast, and how long to wait for it.
//!
//! What is asked, and what an answer means, is `cluster`'s.

mod bucket;
mod limit;
mod paced;

use std::time::Duration;

use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ClientBuilder, ConfigExt};
use kube::config::{InferConfigError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use tower::{BoxError, ServiceBuilder};

use crate::Clock;
use crate::args::KubeArgs;

pub use bucket::TokenBucket;
pub use limit::{Limiter, RateLimit};
pub use paced::LOOK;

/// A TCP and TLS handshake within a cluster takes milliseconds; the next attempt may reach another API server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A connection on which nothing arrives for so long is dead: watches end, or get a bookmark, sooner. Requests carry shorter deadlines of
/// their own.
const READ_TIMEOUT: Duration = Duration::from_secs(330);
/// Our requests are small.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes that a connection reads at once, and the longest head of an answer. It keeps room for them for as long as it lasts, and that of a
/// watch lasts; hyper's own bound is 400 KiB. A head has some hundred bytes.
const ROOM: usize = 64 * 1024;

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// `--kubeconfig` cannot be read: a matter of configuration (exit code 64).
    #[error("invalid value '{file}' for '--kubeconfig'")]
    Kubeconfig {
        /// The file.
        file: String,
        /// What is wrong with it.
        source: KubeconfigError,
    },
    /// Neither a kubeconfig nor a service account was found: a matter of configuration (exit code 64).
    #[error("no --kubeconfig, no default kubeconfig, and not in a pod")]
    Infer(#[source] InferConfigError),
    /// The configuration asks for what this client cannot do, such as TLS files that are none.
    #[error("the kubeconfig cannot be used")]
    Build(#[source] kube::Error),
}

/// A client as these flags say; `user` tells the API server's logs who it is.
///
/// Every call answers a client with a limit of its own. Leader election should have its own, as in kube-controller-manager: renewals
/// must not wait behind a burst of writes.
///
/// # Errors
/// The configuration cannot be read or used. Nothing is sent: an API server that is down is no error here.
pub async fn connect(args: &KubeArgs, user: &str, clock: &Clock) -> Result<Client, Error> {
    let limit = RateLimit::new(f64::from(args.kube_api_qps), args.kube_api_burst, clock);
    let builder = ClientBuilder::try_from(config(args, user).await?).map_err(Error::Build)?;
    Ok(builder.with_layer(&limit).build())
}

/// A client as these flags say that sends what it is given at once: who uses it takes the tokens of a [`Limiter`].
///
/// # Errors
/// As [`connect`].
pub async fn connect_unlimited(args: &KubeArgs, user: &str) -> Result<Client, Error> {
    build(config(args, user).await?, None)
}

/// As [`connect_unlimited`], whose busy streams are looked at in turns of `clock`, each [`LOOK`] long.
///
/// # Errors
/// As [`connect`].
pub async fn connect_paced(args: &KubeArgs, user: &str, clock: &Clock) -> Result<Client, Error> {
    build(config(args, user).await?, Some(clock.clone()))
}

fn build(config: Config, looks: Option<Clock>) -> Result<Client, Error> {
    if config.proxy_url.is_some() {
        return Ok(ClientBuilder::try_from(config).map_err(Error::Build)?.build());
    }
    paced(&config, looks).map_err(Error::Build)
}

/// As kube builds it by itself, but for the connections, and without spans of its own: what a request means is told by who sends it.
fn paced(config: &Config, looks: Option<Clock>) -> Result<Client, kube::Error> {
    let patience = paced::Patience {
        read: READ_TIMEOUT,
        write: WRITE_TIMEOUT,
    };
    let connector = config.rustls_https_connector_with_connector(paced::Connector::new(looks, patience))?;
    let mut connector = TimeoutConnector::new(connector);
    connector.set_connect_timeout(config.connect_timeout);
    let mut builder = legacy::Builder::new(TokioExecutor::new());
    builder.http1_max_buf_size(ROOM);
    let client: legacy::Client<_, Body> = builder.build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(client);
    Ok(ClientBuilder::new(service, &config.default_namespace).build())
}

async fn config(args: &KubeArgs, user: &str) -> Result<Config, Error> {
    let mut config = load(args).await?;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = Some(READ_TIMEOUT);
    config.write_timeout = Some(WRITE_TIMEOUT);
    // Else the time a pooled connection was idle counts as time spent waiting for an answer.
    config.reset_reader_on_write = true;
    // Retrying is decided by who knows what the request means; a hidden retry would delay and repeat it.
    config.default_retry = false;
    let agent = format!("bailiff/{} ({user})", env!("CARGO_PKG_VERSION"));
    let agent = http::HeaderValue::try_from(agent).unwrap_or(http::HeaderValue::from_static("bailiff"));
    config.headers.push((http::header::USER_AGENT, agent));
    Ok(config)
}

/// A client of an API server in this process.
pub fn from_service<S, B>(service: S) -> Client
where
    S: tower::Service<http::Request<Body>, Response = http::Response<B>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<tower::BoxError>,
    B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<tower::BoxError>,
{
    Client::new(service, "default")
}

async fn load(args: &KubeArgs) -> Result<Config, Error> {
    let Some(file) = &args.kubeconfig else {
        return Config::infer().await.map_err(Error::Infer);
    };
    let refuse = |source| Error::Kubeconfig {
        file: file.display().to_string(),
        source,
    };
    let kubeconfig = Kubeconfig::read_from(file).map_err(refuse)?;
    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .map_err(refuse)
}
