//! The ways of a stage to its API server: one for what is asked and answered, one for streams.
//!
//! Over TLS single requests share one connection (HTTP/2), as those of kube-controller-manager do: a wave of evictions opens no hundreds
//! of connections, each with a handshake and room of its own on both sides, and what is under way at once goes out and comes back
//! together. A stream has a connection of its own (HTTP/1.1), so that it can rest while nobody else does. Without TLS nothing tells which
//! version a server speaks, and there is a pool of connections for all.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt as _, TryFutureExt as _};
use http::uri::Scheme;
use http::{Request, Response, Version};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body as Content, ConfigExt as _};
use kube::{Client, Config};
use tokio_rustls::rustls::pki_types::ServerName;
use tower::limit::ConcurrencyLimit;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt as _};

use super::paced::Connector;

/// Bytes that a connection reads at once, and the longest head of an answer. It keeps room for them for as long as it lasts, and that of a
/// watch lasts; hyper's own bound is 400 KiB. A head has some hundred bytes.
const ROOM: usize = 64 * 1024;

/// How long a connection is kept that nobody uses, after a wave of requests. An API server ends it after 90 s.
const IDLE_FOR: Duration = Duration::from_secs(30);

/// How often a connection is asked whether somebody is there while an answer is waited for, and for how long: all requests are on it, and
/// one that is dead has to be noticed within the time that a single request is given (5 s), so that the next goes over another one.
const PING_EVERY: Duration = Duration::from_secs(2);
const PONG_WITHIN: Duration = Duration::from_secs(2);

/// Requests on one connection at once. kube-apiserver takes 100 (`--http2-max-streams-per-connection`); what waits for its turn waits
/// here, where it is dropped when its time is over, and not behind the connection, where it would be sent all the same.
const AT_ONCE: usize = 96;

/// The body of an answer.
#[derive(Debug)]
pub struct Answer(UnsyncBoxBody<Bytes, BoxError>);

/// A request under way: dropping it calls it off.
pub struct Answering(BoxFuture<'static, Result<Response<Answer>, SendError>>);

/// There is no connection, or it broke.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct SendError(BoxError);

type Way = Arc<dyn Fn(Request<Content>) -> Answering + Send + Sync>;

/// The ways to an API server; cloning it gives the same ones.
#[derive(Clone)]
pub struct Transport {
    single: Way,
    streams: Way,
}

/// How the connections of one way come about.
type Secured = TimeoutConnector<HttpsConnector<Connector>>;

// === impl Transport ===

impl Transport {
    /// As kube builds a client by itself, but for the connections, and without spans of its own: what a request means is told by who sends
    /// it.
    pub(super) fn new(config: &Config, connector: &Connector) -> Result<Self, kube::Error> {
        let streams = pooled(secured(config, connector, Versions::Http1)?, Versions::Http1);
        if config.cluster_url.scheme() != Some(&Scheme::HTTPS) {
            let way = way(config, streams)?;
            return Ok(Self {
                single: way.clone(),
                streams: way,
            });
        }
        let pool = |versions| Ok::<_, kube::Error>(pooled(secured(config, connector, versions)?, versions));
        let single = Single {
            spoken: Arc::default(),
            unknown: pool(Versions::Both)?,
            http1: streams.clone(),
            http2: ConcurrencyLimit::new(pool(Versions::Http2)?, AT_ONCE),
        };
        Ok(Self {
            single: way(config, single)?,
            streams: way(config, streams)?,
        })
    }

    /// A client of kube's, for which every request may be a stream.
    pub(super) fn pooled(self, default_namespace: &str) -> Client {
        Client::new(tower::service_fn(move |request| (self.streams)(request)), default_namespace)
    }

    /// Sends a request that is answered once; answers when the head of the answer is here.
    ///
    /// # Cancellation
    /// A request whose future is dropped while it waits for its turn or for a connection is not sent.
    pub fn send(&self, request: Request<Content>) -> Answering {
        (self.single)(request)
    }

    /// Opens a stream; answers when its head is here.
    pub fn open(&self, request: Request<Content>) -> Answering {
        (self.streams)(request)
    }
}

impl From<Client> for Transport {
    fn from(client: Client) -> Self {
        let way: Way = Arc::new(move |request| {
            let client = client.clone();
            Answering::of(async move {
                client.send(request).await.map_err(|error| match error {
                    kube::Error::Service(error) => error,
                    error => error.into(),
                })
            })
        });
        Self {
            single: way.clone(),
            streams: way,
        }
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport").finish_non_exhaustive()
    }
}

/// What connections over TLS offer to speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Versions {
    Http1,
    Http2,
    Both,
}

/// Single requests over TLS: by the version of HTTP that the server has chosen.
#[derive(Clone)]
struct Single {
    spoken: Arc<Spoken>,
    /// Lets the server choose.
    unknown: Pool,
    http1: Pool,
    http2: ConcurrencyLimit<Pool>,
}

/// Which version the server has chosen. As long as it has not, requests go one by one: each would open a connection to ask.
#[derive(Debug, Default)]
struct Spoken {
    version: AtomicU8,
    asking: tokio::sync::Mutex<()>,
}

const UNKNOWN: u8 = 0;
const HTTP1: u8 = 1;
const HTTP2: u8 = 2;

type Pool = legacy::Client<Secured, Content>;

fn secured(config: &Config, connector: &Connector, versions: Versions) -> Result<Secured, kube::Error> {
    let mut builder = HttpsConnectorBuilder::new()
        .with_tls_config(config.rustls_client_config()?)
        .https_or_http();
    if let Some(name) = &config.tls_server_name {
        let name = ServerName::try_from(name.clone()).map_err(|error| kube::Error::Service(error.into()))?;
        builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    let connector = connector.clone();
    let mut connector = TimeoutConnector::new(match versions {
        Versions::Http1 => builder.enable_http1().wrap_connector(connector),
        Versions::Http2 => builder.enable_http2().wrap_connector(connector),
        Versions::Both => builder.enable_all_versions().wrap_connector(connector),
    });
    connector.set_connect_timeout(config.connect_timeout);
    Ok(connector)
}

fn pooled(connector: Secured, versions: Versions) -> Pool {
    let mut builder = legacy::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_FOR)
        .http1_max_buf_size(ROOM)
        .http2_only(versions == Versions::Http2)
        .http2_keep_alive_interval(PING_EVERY)
        .http2_keep_alive_timeout(PONG_WITHIN);
    builder.build(connector)
}

fn way<S>(config: &Config, client: S) -> Result<Way, kube::Error>
where
    S: Service<Request<Content>, Response = Response<Incoming>, Error = legacy::Error> + Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
{
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(client);
    Ok(Arc::new(move |request| Answering::of(service.clone().oneshot(request))))
}

// === impl Single ===

impl Single {
    async fn send(self, request: Request<Content>) -> Result<Response<Incoming>, legacy::Error> {
        let asking = self.spoken.asking.lock();
        let answered = match self.spoken.version.load(Ordering::Relaxed) {
            HTTP1 => self.http1.request(request).await,
            HTTP2 => self.http2.oneshot(request).await,
            _ => {
                let _asking = asking.await;
                // Who asked meanwhile knows.
                match self.spoken.version.load(Ordering::Relaxed) {
                    HTTP1 => self.http1.request(request).await,
                    HTTP2 => self.http2.oneshot(request).await,
                    _ => self.unknown.request(request).await,
                }
            }
        };
        self.spoken.note(&answered);
        answered
    }
}

impl Service<Request<Content>> for Single {
    type Response = Response<Incoming>;
    type Error = legacy::Error;
    type Future = BoxFuture<'static, Result<Response<Incoming>, legacy::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), legacy::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Content>) -> Self::Future {
        self.clone().send(request).boxed()
    }
}

// === impl Spoken ===

impl Spoken {
    /// What an answer tells. Where no connection comes about the server may have become another one.
    fn note(&self, answered: &Result<Response<Incoming>, legacy::Error>) {
        let version = match answered {
            Ok(answer) if answer.version() == Version::HTTP_2 => HTTP2,
            Ok(_) => HTTP1,
            Err(error) if error.is_connect() => UNKNOWN,
            Err(_) => return,
        };
        self.version.store(version, Ordering::Relaxed);
    }
}

// === impl Answering ===

impl Answering {
    fn of<B>(sending: impl Future<Output = Result<Response<B>, BoxError>> + Send + 'static) -> Self
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        let answered = |response: Response<B>| response.map(|body| Answer(body.map_err(Into::into).boxed_unsync()));
        Self(sending.map_ok(answered).map_err(SendError).boxed())
    }
}

impl Future for Answering {
    type Output = Result<Response<Answer>, SendError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(context)
    }
}

impl fmt::Debug for Answering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answering").finish_non_exhaustive()
    }
}

// === impl Answer ===

impl Body for Answer {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Pin::new(&mut self.0).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

#[cfg(test)]
mod tests;
