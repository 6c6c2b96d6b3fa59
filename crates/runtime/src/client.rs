//! The client of the API server: which server, as whom, how fast, and how long to wait for it.
//!
//! What is asked, and what an answer means, is `cluster`'s.

mod bucket;
mod flaw;
mod limit;
mod paced;
mod plugin;
mod transport;

use std::time::Duration;

use bailiff_model::Wall;
use http::uri::Scheme;
use kube::client::Body;
use kube::config::{Kubeconfig, KubeconfigError};
use kube::{Client, Config};

use crate::Clock;
use crate::args::KubeArgs;
use flaw::Provider;
use plugin::Patience;

pub use bucket::TokenBucket;
pub use flaw::Flaw;
pub use limit::Limiter;
pub use paced::{Attention, LOOK};
pub use transport::{Answer, Answering, Content, Room, SendError, Transport};

/// A TCP and TLS handshake within a cluster takes milliseconds; the next attempt may reach another API server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A connection on which nothing arrives for so long is dead: watches end, or get a bookmark, sooner. Requests carry shorter deadlines of
/// their own.
const READ_TIMEOUT: Duration = Duration::from_secs(330);
/// Our requests are small.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// `--kubeconfig` cannot be read: a matter of configuration (exit code 64).
    #[error("invalid value '{file}' for '--kubeconfig'")]
    Kubeconfig {
        /// The file.
        file: String,
        /// What is wrong with it.
        source: Flaw,
    },
    /// Neither a kubeconfig nor a service account was found: a matter of configuration (exit code 64).
    #[error("no --kubeconfig, and neither a default kubeconfig nor what a pod has can be used")]
    Infer(#[source] Neither),
    /// The API server is to be reached through a proxy: a matter of configuration (exit code 64).
    #[error("invalid value '{url}' for 'proxy-url' of the cluster '{cluster}' in the kubeconfig: API servers are reached directly")]
    Proxy {
        /// The cluster's name in the kubeconfig.
        cluster: String,
        /// The proxy, without what it is told of who asks.
        url: String,
    },
    /// The configuration asks for what this client cannot do, such as TLS files that are none.
    #[error("what the kubeconfig or the service account says cannot be used; see '--kubeconfig'")]
    Build(#[source] Flaw),
    /// A running process cannot go to another API server, as it may hold a Lease of the first.
    #[error("the API server was '{was}' at the start, and is '{is}' by now; a restart is needed to go there")]
    Moved {
        /// The one of the start.
        was: String,
        /// What the configuration says now.
        is: String,
    },
}

/// Why neither of two is of use.
#[derive(Debug, thiserror::Error)]
#[error("kubeconfig: {kubeconfig}; pod: {pod}")]
pub struct Neither {
    kubeconfig: Flaw,
    pod: Flaw,
}

/// An API server, as it is shown: two that are shown alike are the same.
#[derive(PartialEq)]
struct Server(String);

/// A client as these flags say, which sends what it is given at once; `user` tells the API server's logs who it is. Who uses it takes the
/// tokens of a [`Limiter`], or has a pace of its own as leader election does: one request at a time for each Lease, whose renewals must
/// wait neither behind a burst of writes nor for each other.
///
/// # Errors
/// The configuration cannot be read or used. Nothing is sent: an API server that is down is no error here.
pub async fn connect(args: &KubeArgs, user: &str) -> Result<Client, Error> {
    let config = config(args, user)?;
    let transport = renewed(&config, args, user, &Clock::system(), None)?;
    Ok(Client::new(transport.into_service(), config.default_namespace))
}

/// The way to the API server that these flags say, which sends what it is given at once. Busy streams are looked at in turns of `clock`,
/// each [`LOOK`] long, or a quarter of it ([`Attention`]).
///
/// # Errors
/// As [`connect`].
pub async fn connect_paced(args: &KubeArgs, user: &str, clock: &Clock) -> Result<Transport, Error> {
    renewed(&config(args, user)?, args, user, clock, Some(clock.clone()))
}

/// The way that this configuration says, which is read again if what it says is refused, or ends.
fn renewed(first: &Config, args: &KubeArgs, user: &str, clock: &Clock, looks: Option<Clock>) -> Result<Transport, Error> {
    let (server, transport) = (
        Server::of(first),
        transport(first, looks.clone(), clock.wall(), Patience::START)?,
    );
    let (args, by) = (args.clone(), user.to_owned());
    let again = move |now| {
        let config = config(&args, &by)?;
        server.require(&config)?;
        self::transport(&config, looks.clone(), now, Patience::AGAIN)
    };
    Ok(transport.renewed_by(user, clock, again))
}

fn transport(config: &Config, looks: Option<Clock>, now: Wall, patience: Patience) -> Result<Transport, Error> {
    let (config, ends) = plugin::ask(config, patience).map_err(Error::Build)?;
    let term = ends.map(|ends| transport::Term::new(now, ends));
    Transport::new(&config, connector(looks), term).map_err(|error| Error::Build(Provider::of(&config).flaw(error)))
}

fn connector(looks: Option<Clock>) -> paced::Connector {
    let patience = paced::Patience {
        read: READ_TIMEOUT,
        write: WRITE_TIMEOUT,
    };
    paced::Connector::new(looks, patience)
}

fn config(args: &KubeArgs, user: &str) -> Result<Config, Error> {
    let mut config = load(args)?;
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

fn load(args: &KubeArgs) -> Result<Config, Error> {
    let Some(file) = &args.kubeconfig else {
        return infer();
    };
    let refuse = |error: KubeconfigError| Error::Kubeconfig {
        file: file.display().to_string(),
        source: error.into(),
    };
    let kubeconfig = Kubeconfig::read_from(file).map_err(refuse)?;
    require_direct(&kubeconfig)?;
    direct(kubeconfig).map_err(refuse)
}

/// As [`Config::infer`], which goes on in a pod if a kubeconfig is of no use.
fn infer() -> Result<Config, Error> {
    let kubeconfig = Kubeconfig::read();
    if let Ok(kubeconfig) = &kubeconfig {
        require_direct(kubeconfig)?;
    }
    let in_cluster = |error: KubeconfigError| {
        Config::incluster().map_err(|pod| {
            let (kubeconfig, pod) = (error.into(), pod.into());
            Error::Infer(Neither { kubeconfig, pod })
        })
    };
    let mut config = kubeconfig.and_then(direct).or_else(in_cluster)?;
    config.apply_debug_overrides();
    Ok(config)
}

/// What a kubeconfig says that names no proxy. kube takes $HTTPS_PROXY for want of one, which is for others, and fails if that is no URL:
/// so it is given one meanwhile, and nobody hears of it.
fn direct(mut kubeconfig: Kubeconfig) -> Result<Config, KubeconfigError> {
    for cluster in kubeconfig.clusters.iter_mut().filter_map(|named| named.cluster.as_mut()) {
        cluster.proxy_url = Some("http://nobody.invalid".to_owned());
    }
    let mut config = Config::try_from(kubeconfig)?;
    config.proxy_url = None;
    if let Some(cluster) = config.auth_info.exec.as_mut().and_then(|plugin| plugin.cluster.as_mut()) {
        cluster.proxy_url = None;
    }
    Ok(config)
}

/// Refuses a proxy before the cluster that would be used.
fn require_direct(kubeconfig: &Kubeconfig) -> Result<(), Error> {
    let current = kubeconfig.current_context.as_ref();
    let contexts = kubeconfig.contexts.iter().filter(|context| Some(&context.name) == current);
    let Some(context) = contexts.filter_map(|named| named.context.as_ref()).next() else {
        return Ok(());
    };
    let clusters = kubeconfig.clusters.iter().filter(|named| named.name == context.cluster);
    let mut urls = clusters.filter_map(|named| named.cluster.as_ref()?.proxy_url.as_ref());
    match urls.find(|url| !url.is_empty()) {
        Some(url) => Err(Error::Proxy {
            cluster: context.cluster.clone(),
            url: url.rsplit('@').next().unwrap_or_default().to_owned(),
        }),
        None => Ok(()),
    }
}

// === impl Server ===

impl Server {
    /// Without what it is told of who asks, and with what a URL may leave out left out.
    fn of(config: &Config) -> Self {
        let url = &config.cluster_url;
        let usual = if url.scheme() == Some(&Scheme::HTTPS) { 443 } else { 80 };
        let scheme = url.scheme_str().unwrap_or_default();
        let host = url.host().unwrap_or_default().to_ascii_lowercase();
        let port = url.port_u16().filter(|port| *port != usual);
        let port = port.map_or_else(String::new, |port| format!(":{port}"));
        let path = url.path().trim_end_matches('/');
        // Its certificate has another name.
        let name = config.tls_server_name.as_ref();
        let name = name.map_or_else(String::new, |name| format!(" as {name}"));
        Self(format!("{scheme}://{host}{port}{path}{name}"))
    }

    /// Refuses a configuration that says another one.
    fn require(&self, config: &Config) -> Result<(), Error> {
        let now = Self::of(config);
        if now == *self {
            return Ok(());
        }
        Err(Error::Moved {
            was: self.0.clone(),
            is: now.0,
        })
    }
}

#[cfg(test)]
mod tests;
