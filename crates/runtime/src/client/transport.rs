//! The ways of a stage to its API server: one for what is asked and answered, one for streams.
//!
//! Over TLS single requests share one connection of HTTP/2, or few ([`shared`]): a wave of evictions opens no hundreds, each with a
//! handshake and room of its own on both sides, and what is under way together goes out and comes back together. A stream has a
//! connection of its own (HTTP/1.1), so that it can rest while nobody else does. Without TLS nothing tells which version a server speaks,
//! and a pool of connections serves all.
//!
//! A request goes straight to its connection, where kube's buffer costs each of them two channels and a task's turn. And whether a write
//! may still be sent is asked at the last moment, when its connection takes it: that may be long after it was handed over, in a process
//! that stood still meanwhile. It is written a moment later; a process that stands still just then sends it when it goes on.

mod causes;
mod content;
mod renewal;
mod shared;

use std::borrow::Cow;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt as _, TryFutureExt as _};
use http::uri::Scheme;
use http::{Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::ConfigExt as _;
use kube::{Client, Config};
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt as _};

use super::flaw::Provider;
use super::paced::{Attention, Connector};
use crate::wakes::Waiting;
pub use content::Content;
use renewal::Renewal;
pub(super) use renewal::Term;
use shared::{Held, Place, Receiving, Sent, Shared};

/// Bytes that a connection reads at once, and the longest head of an answer. It keeps room for them for as long as it lasts, and that of a
/// watch lasts; hyper's own bound is 400 KiB. A head has some hundred bytes.
const ROOM: usize = 32 * 1024;

/// A connection that nobody uses is closed after so long, or twice that, as hyper looks each time this has passed. An API server ends it
/// after 90 s. Single requests come in waves of seconds.
const IDLE_FOR: Duration = Duration::from_secs(30);

/// The body of an answer.
#[derive(Debug)]
pub struct Answer {
    body: Reading,
    /// While it is read it has its room on a connection that others wait for.
    _held: Option<Held>,
}

/// Where it comes from.
#[derive(Debug)]
enum Reading {
    Shared(Receiving),
    Pool(UnsyncBoxBody<Bytes, BoxError>),
}

/// A request under way: dropping it calls it off.
pub struct Answering {
    answer: Answered,
    /// What is to be told if it is refused for its credentials, or has none, or if the server is not trusted.
    renewal: Option<Arc<Renewal>>,
    _waiting: Waiting,
}

/// What becomes of a request.
type Answered = BoxFuture<'static, Result<Response<Answer>, SendError>>;

/// There is no connection, or it broke, or the request might not be sent any more.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct SendError(BoxError);

/// A place for one request. It goes the ways of which the place was taken, whatever there is by then.
#[derive(Debug)]
pub struct Room {
    ways: Arc<Ways>,
    lane: Lane,
}

/// Where a request goes.
#[derive(Clone, Debug)]
enum Lane {
    /// On a connection that requests share, which is there.
    Shared(Place),
    /// On one of a pool, which is looked at so often.
    Pool(Attention),
}

/// The ways to an API server; cloning it gives the same ones.
#[derive(Clone)]
pub struct Transport {
    ways: Present,
    /// How others come about, if they can.
    renewal: Option<Arc<Renewal>>,
}

/// The ways that requests go from now on.
#[derive(Clone)]
struct Present(Arc<Mutex<Arc<Ways>>>);

/// As whom, and over what, requests are sent.
struct Ways {
    send: Box<dyn Fn(Lane, Request<Content>) -> Answered + Send + Sync>,
    shared: Option<Shared>,
    /// For how long they are of use, if they end.
    term: Option<Term>,
}

/// How a connection comes about.
type Secured = TimeoutConnector<HttpsConnector<Connector>>;

/// Connections with one request each at a time.
type Pool = legacy::Client<Secured, Content>;

/// Those of a transport.
struct Pools {
    usual: Pool,
    attentive: Pool,
}

/// What sends a request that is complete.
#[derive(Clone)]
struct Sending {
    /// To clone a client is to clone how its connections come about.
    pools: Arc<Pools>,
    /// `None` once it was sent.
    lane: Option<Lane>,
}

// === impl Transport ===

impl Transport {
    /// As kube builds a client by itself, but for the connections, and without spans of its own: what a request means is told by who sends
    /// it. Connections of streams come about by `connector`. Others are to come about before the end of `term`.
    pub(super) fn new(config: &Config, connector: Connector, term: Option<Term>) -> Result<Self, kube::Error> {
        let tls = trusting(config).rustls_client_config()?;
        let single = connector.clone().without_looks();
        let shared = match config.cluster_url.scheme() {
            Some(scheme) if *scheme == Scheme::HTTPS => {
                let connector = secured(config, &tls, single, Versions::Both)?;
                Some(Shared::new(connector, config.cluster_url.clone()))
            }
            _ => None,
        };
        let mut builder = legacy::Builder::new(TokioExecutor::new());
        builder
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_FOR)
            .http1_max_buf_size(ROOM);
        let pool = |attention| {
            let connector = connector.clone().attentive(attention);
            Ok::<_, kube::Error>(builder.build(secured(config, &tls, connector, Versions::Older)?))
        };
        let pools = Arc::new(Pools {
            usual: pool(Attention::Usual)?,
            attentive: pool(Attention::Close)?,
        });
        let layers = ServiceBuilder::new()
            .layer(config.base_uri_layer())
            .option_layer(config.auth_layer()?)
            .layer(config.extra_headers_layer()?)
            .map_err(BoxError::from);
        let provider = Provider::of(config);
        let send = move |lane, request| {
            let sending = Sending {
                pools: Arc::clone(&pools),
                lane: Some(lane),
            };
            let (sent, provider) = (layers.service(sending).oneshot(request), provider.clone());
            sent.map_err(move |error| SendError(provider.told(error))).boxed()
        };
        Ok(Self::from(Ways {
            send: Box::new(send),
            shared,
            term,
        }))
    }

    /// Room for a single request, when there is some and a connection is there. Some is kept for what is urgent.
    ///
    /// # Errors
    /// When there is no connection.
    pub async fn room(&self, is_urgent: bool) -> Result<Room, SendError> {
        let ways = self.present();
        let place = match &ways.shared {
            Some(shared) => {
                let place = shared.place(is_urgent).await;
                place.map_err(|error| {
                    let error = SendError(error.into());
                    self.renew_if(error.is_of_ways());
                    error
                })?
            }
            None => None,
        };
        let lane = place.map_or(Lane::Pool(Attention::Usual), Lane::Shared);
        Ok(Room { ways, lane })
    }

    /// Sends a request; answers when the head of the answer is here. The room is taken until the answer is dropped.
    ///
    /// # Cancellation
    /// A request whose future is dropped before it was written is not sent.
    pub fn send(&self, Room { ways, lane }: Room, request: Request<Content>) -> Answering {
        self.answering(&ways, lane, request)
    }

    /// Opens a stream, on a connection of its own that is looked at so often; answers when its head is here.
    pub fn open(&self, request: Request<Content>, attention: Attention) -> Answering {
        self.answering(&self.present(), Lane::Pool(attention), request)
    }

    /// The ways of now, which others come after if they end soon.
    fn present(&self) -> Arc<Ways> {
        let ways = self.ways.get();
        if let (Some(term), Some(renewal)) = (ways.term, &self.renewal) {
            Renewal::sends(renewal, term);
        }
        ways
    }

    fn answering(&self, ways: &Ways, lane: Lane, request: Request<Content>) -> Answering {
        Answering {
            answer: (ways.send)(lane, request),
            renewal: self.renewal.clone(),
            _waiting: Waiting::begin(),
        }
    }

    fn renew_if(&self, is_of_ways: bool) {
        if is_of_ways && let Some(renewal) = &self.renewal {
            Renewal::refused(renewal);
        }
    }

    /// What a client of kube's sends its requests by: each takes a connection of the pool.
    pub(super) fn into_service(
        self,
    ) -> impl Service<Request<kube::client::Body>, Response = Response<Answer>, Error = BoxError, Future: Send> + Send + 'static
    {
        tower::service_fn(move |request: Request<kube::client::Body>| {
            let transport = self.clone();
            async move {
                let (parts, body) = request.into_parts();
                let content = Content::from(body.collect().await?.to_bytes());
                transport
                    .open(Request::from_parts(parts, content), Attention::Usual)
                    .await
                    .map_err(BoxError::from)
            }
        })
    }
}

impl From<Client> for Transport {
    fn from(client: Client) -> Self {
        let send = move |_, request: Request<Content>| {
            let client = client.clone();
            let answered = async move {
                let request = request.map(|content| content.bytes.into());
                client.send(request).await.map_err(|error| match error {
                    kube::Error::Service(error) => error,
                    error => error.into(),
                })
            };
            answered.map_ok(Answer::of).map_err(SendError).boxed()
        };
        Self::from(Ways {
            send: Box::new(send),
            shared: None,
            term: None,
        })
    }
}

impl From<Ways> for Transport {
    fn from(ways: Ways) -> Self {
        Self {
            ways: Present(Arc::new(Mutex::new(Arc::new(ways)))),
            renewal: None,
        }
    }
}

/// What a connection over TLS offers to speak.
#[derive(Clone, Copy, Debug)]
enum Versions {
    /// HTTP/1.1.
    Older,
    /// That, and HTTP/2.
    Both,
}

/// As kube has it, whose own offers HTTP/1.1 only.
fn secured(config: &Config, tls: &ClientConfig, connector: Connector, versions: Versions) -> Result<Secured, kube::Error> {
    let mut builder = HttpsConnectorBuilder::new().with_tls_config(tls.clone()).https_or_http();
    if let Some(name) = &config.tls_server_name {
        let name = ServerName::try_from(name.clone()).map_err(|error| kube::Error::Service(error.into()))?;
        builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    let mut connector = TimeoutConnector::new(match versions {
        Versions::Older => builder.enable_http1().wrap_connector(connector),
        Versions::Both => builder.enable_all_versions().wrap_connector(connector),
    });
    connector.set_connect_timeout(config.connect_timeout);
    Ok(connector)
}

/// The configuration, of which nothing is read that is for TLS alone if there is none: kube would read whom to trust, the system's roots
/// for want of others, and fail where they are missing.
fn trusting(config: &Config) -> Cow<'_, Config> {
    if config.cluster_url.scheme() == Some(&Scheme::HTTPS) {
        return Cow::Borrowed(config);
    }
    let mut config = config.clone();
    (config.root_cert, config.root_cert_file) = (Some(Vec::new()), None);
    Cow::Owned(config)
}

// === impl Sending ===

impl Service<Request<Content>> for Sending {
    type Response = Response<Answer>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Answer>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Content>) -> Self::Future {
        match self.lane.take() {
            Some(Lane::Shared(place)) => {
                let pools = Arc::clone(&self.pools);
                let sending = async move {
                    match place.send(request).await? {
                        Sent::Answered(answer, held) => Ok(Answer::shared(answer, held)),
                        Sent::Older(request) => Ok(Answer::of(pools.usual.request(request).await?)),
                    }
                };
                sending.boxed()
            }
            lane => {
                let pool = match lane {
                    Some(Lane::Pool(Attention::Close)) => &self.pools.attentive,
                    _ => &self.pools.usual,
                };
                let sending = pool.request(request);
                sending.map_ok(Answer::of).map_err(BoxError::from).boxed()
            }
        }
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport").finish_non_exhaustive()
    }
}

// === impl Present ===

impl Present {
    fn get(&self) -> Arc<Ways> {
        Arc::clone(&self.lock())
    }

    fn set(&self, ways: Arc<Ways>) {
        let old = std::mem::replace(&mut *self.lock(), ways);
        // Connections may end with it, while others already go on.
        drop(old);
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Ways>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Ways {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ways").finish_non_exhaustive()
    }
}

// === impl Answering ===

impl Future for Answering {
    type Output = Result<Response<Answer>, SendError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answered = self.answer.as_mut().poll(context);
        let is_refused = match &answered {
            Poll::Ready(Ok(answer)) => answer.status() == StatusCode::UNAUTHORIZED,
            Poll::Ready(Err(error)) => error.is_of_ways(),
            Poll::Pending => false,
        };
        if is_refused && let Some(renewal) = &self.renewal {
            Renewal::refused(renewal);
        }
        answered
    }
}

impl fmt::Debug for Answering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answering").finish_non_exhaustive()
    }
}

// === impl Answer ===

impl Answer {
    fn of<B>(answer: Response<B>) -> Response<Self>
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        answer.map(|body| Self {
            body: Reading::Pool(body.map_err(Into::into).boxed_unsync()),
            _held: None,
        })
    }

    fn shared(answer: Response<Receiving>, held: Held) -> Response<Self> {
        answer.map(|body| Self {
            body: Reading::Shared(body),
            _held: Some(held),
        })
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut self.body {
            Reading::Shared(body) => Pin::new(body).poll_frame(context),
            Reading::Pool(body) => Pin::new(body).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.body {
            Reading::Shared(body) => body.is_end_stream(),
            Reading::Pool(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.body {
            Reading::Shared(body) => body.size_hint(),
            Reading::Pool(body) => body.size_hint(),
        }
    }
}

#[cfg(test)]
mod tests;
