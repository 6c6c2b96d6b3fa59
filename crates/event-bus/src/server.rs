//! The gRPC side of the bus: a tonic service over an engine.
//!
//! A [`Server`] is a handle; all its clones are the same bus. It can be killed and started again, which loses its memory, behind the
//! same handle: that is how tests and worlds kill a bus. Nothing here decides what a record means; rules live in
//! [`crate::engine`], checks of single values in [`crate::wire`].

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bailiff_model::Topic;
use bailiff_proto::v1 as pb;
use bailiff_proto::v1::event_bus_server::EventBusServer;
use bailiff_runtime::{Clock, Seed};
use prometheus_client::registry::Registry;
use tokio::sync::Notify;
use tonic::{Request, Response, Status, Streaming};

mod answers;
mod gate;
mod hub;
mod intake;
mod metrics;
mod places;
mod publish;
mod said;
mod sending;
mod serve;
mod shadow;
mod status;
mod subscribe;
mod unary;

use self::gate::{Caller, Gate};
use self::hub::Hub;
use self::metrics::Metrics;
use crate::access::{Action, Roles};
use crate::engine::{Engine, Limits, Memory};

pub use self::shadow::Shadow;
pub use self::status::REFUSAL_METADATA;

/// How often the engine learns at least that time passed. Liveness is announced at most this late; durations are 5 s and more.
const TICK: Duration = Duration::from_secs(1);

/// Largest message accepted: a batch of 1,000 records of a few hundred bytes, several times over.
pub const MESSAGE_MAX: usize = 4 * 1024 * 1024;

/// A stream of answers.
type Boxed<T> = Pin<Box<dyn futures::Stream<Item = Result<T, Status>> + Send>>;

/// Settings of a server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Bounds and durations of the engine.
    pub limits: Limits,
    /// Open subscriptions. A stage needs one or two for each shard. The last quarter of them is for whoever holds less than a quarter: a
    /// role, or over plain text a machine.
    pub subscribers: usize,
    /// Longest time between two messages of a subscription.
    pub bookmark_every: Duration,
    /// How much of a set goes into one message, in bytes: far below what receivers accept. Either side keeps room for the longest message
    /// of a stream for as long as that lasts.
    pub chunk_bytes: usize,
}

/// A bus that can be reached.
#[derive(Clone, Debug)]
pub struct Server {
    inner: Arc<Inner>,
    gate: Gate,
}

/// Makes the engine of a bus that starts, of this incarnation.
type MkEngine = Box<dyn Fn(String, &Limits) -> Box<dyn Engine> + Send + Sync>;

struct Inner {
    mk_engine: MkEngine,
    options: ServerOptions,
    clock: Clock,
    seed: Seed,
    metrics: Metrics,
    hub: Mutex<Option<Arc<Hub>>>,
}

// === impl ServerOptions ===

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            subscribers: places::MOST,
            bookmark_every: Duration::from_secs(2),
            chunk_bytes: 16 * 1024,
        }
    }
}

// === impl Server ===

impl Server {
    /// A bus with an empty memory. Must be called inside a tokio runtime.
    pub fn new(options: ServerOptions, clock: &Clock, seed: &Seed) -> Self {
        let mk_engine =
            |incarnation: String, limits: &Limits| -> Box<dyn Engine> { Box::new(Memory::new(incarnation, limits.clone())) };
        Self::with_engines(options, clock, seed, mk_engine)
    }

    /// A bus whose memory is made by `mk_engine`, anew whenever it is started. Must be called inside a tokio runtime.
    pub fn with_engines(
        options: ServerOptions,
        clock: &Clock,
        seed: &Seed,
        mk_engine: impl Fn(String, &Limits) -> Box<dyn Engine> + Send + Sync + 'static,
    ) -> Self {
        let server = Self::down(options, clock, seed, Box::new(mk_engine));
        server.restart();
        server
    }

    /// A bus that is down until an engine is [installed](Server::install).
    pub fn idle(options: ServerOptions, clock: &Clock, seed: &Seed) -> Self {
        let mk_engine =
            |incarnation: String, limits: &Limits| -> Box<dyn Engine> { Box::new(Memory::new(incarnation, limits.clone())) };
        Self::down(options, clock, seed, Box::new(mk_engine))
    }

    fn down(options: ServerOptions, clock: &Clock, seed: &Seed, mk_engine: MkEngine) -> Self {
        Self {
            inner: Arc::new(Inner {
                mk_engine,
                options,
                clock: clock.clone(),
                seed: seed.fork("event-bus"),
                metrics: Metrics::default(),
                hub: Mutex::new(None),
            }),
            gate: Gate::Open,
        }
    }

    /// The generated gRPC service.
    pub fn service(&self) -> EventBusServer<Self> {
        EventBusServer::new(self.clone()).max_decoding_message_size(MESSAGE_MAX)
    }

    /// Adds the bus's metrics, under whatever prefix `registry` has: `event_bus`. Sizes are read when they are asked for.
    pub fn register(&self, registry: &mut Registry) {
        self.inner.metrics.register(registry);
        registry.register_collector(Box::new(metrics::Sizes::new(&self.inner)));
    }

    /// Identity of the bus's memory; `None` while it is down.
    pub fn incarnation(&self) -> Option<String> {
        self.hub()?.read(|engine| engine.incarnation().to_owned()).ok()
    }

    /// Ends the bus as a crash would: all streams end with UNAVAILABLE, its memory is lost, and calls fail until
    /// [`Server::restart`].
    pub fn kill(&self) {
        if let Some(hub) = self.inner.take() {
            hub.shut_down();
        }
    }

    /// Ends all streams as a network failure would; the memory is kept.
    pub fn disconnect(&self) {
        if let Some(hub) = self.hub() {
            hub.disconnect();
        }
    }

    /// Starts the bus with an empty memory and a new incarnation, ending what was there.
    pub fn restart(&self) {
        let engine = (self.inner.mk_engine)(self.inner.seed.uuid(), &self.inner.options.limits);
        self.install(engine, None);
    }

    /// Starts the bus with this engine, ending what was there. `wake` is notified when there is something to [`Engine::poll`].
    /// Must be called inside a tokio runtime.
    pub fn install(&self, engine: Box<dyn Engine>, wake: Option<Arc<Notify>>) {
        self.kill();
        let Inner {
            options, clock, metrics, ..
        } = &*self.inner;
        let hub = Arc::new(Hub::new(engine, options.clone(), clock.clone(), metrics.clone()));
        // Owned by the hub: it ends when the hub is shut down. It cannot fail; were it to panic, liveness would not be announced
        // any more but is still judged whenever a bookmark is sent.
        tokio::spawn(tend(Arc::clone(&hub)));
        if let Some(wake) = wake {
            // Owned by the hub as well. Without it nothing would be answered, which is seen by all.
            tokio::spawn(attend(Arc::clone(&hub), wake));
        }
        *self.inner.hub.lock().unwrap_or_else(PoisonError::into_inner) = Some(hub);
    }

    /// The same bus, reached by callers with certificates.
    fn behind(self, roles: Roles) -> Self {
        Self {
            gate: Gate::Roles(Arc::new(roles)),
            ..self
        }
    }

    fn caller<T>(&self, request: &Request<T>) -> Caller {
        Caller::of(&self.gate, request)
    }

    fn hub(&self) -> Option<Arc<Hub>> {
        self.inner.hub()
    }

    fn reach(&self) -> Result<Arc<Hub>, Status> {
        self.hub().ok_or_else(status::down)
    }

    /// Says in the log what was refused before the hub heard of it; nothing while there is none.
    fn say(&self, caller: &Caller, refused: &Status) {
        if let Some(hub) = self.hub() {
            hub.say(caller, refused);
        }
    }
}

impl Inner {
    fn hub(&self) -> Option<Arc<Hub>> {
        self.hub.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn take(&self) -> Option<Arc<Hub>> {
        self.hub.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(hub) = self.take() {
            hub.shut_down();
        }
    }
}

/// Tells the engine that time passes, until the hub is shut down.
async fn tend(hub: Arc<Hub>) {
    let mut ticks = hub.ticks(TICK);
    loop {
        tokio::select! {
            biased;
            () = hub.is_down() => return,
            () = ticks.tick() => hub.tick(),
        }
    }
}

/// Does what the engine comes up with, until the hub is shut down.
async fn attend(hub: Arc<Hub>, wake: Arc<Notify>) {
    loop {
        hub.poll();
        tokio::select! {
            biased;
            () = hub.is_down() => return,
            () = wake.notified() => {}
        }
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

#[tonic::async_trait]
impl pb::event_bus_server::EventBus for Server {
    type SubscribeStream = subscribe::Stream;
    type PublishStream = publish::Stream;

    async fn subscribe(&self, request: Request<pb::SubscribeRequest>) -> Result<Response<Self::SubscribeStream>, Status> {
        let (ending, caller) = (serve::ending(&request), self.caller(&request));
        // What is no topic is refused for that below.
        for topic in request.get_ref().topics.iter().filter_map(|topic| Topic::parse(topic)) {
            caller.check(&self.inner.metrics, Action::Subscribe, topic)?;
        }
        let hub = self.reach()?;
        let opened = subscribe::open(Arc::clone(&hub), &caller, request.into_inner()).await;
        let stream = opened.inspect_err(|refused| hub.say(&caller, refused))?;
        Ok(Response::new(serve::until(ending, stream)))
    }

    async fn publish(&self, request: Request<Streaming<pb::PublishRequest>>) -> Result<Response<Self::PublishStream>, Status> {
        let (ending, caller) = (serve::ending(&request), self.caller(&request));
        let stream = publish::open(self.reach()?, request.into_inner(), caller);
        Ok(Response::new(serve::until(ending, stream)))
    }

    async fn get_history(&self, request: Request<pb::GetHistoryRequest>) -> Result<Response<pb::GetHistoryResponse>, Status> {
        let (hub, caller) = (self.reach()?, self.caller(&request));
        let answer = unary::history(&hub, &caller, request.get_ref());
        answer.map(Response::new).inspect_err(|refused| hub.say(&caller, refused))
    }

    async fn get_status(&self, request: Request<pb::GetStatusRequest>) -> Result<Response<pb::GetStatusResponse>, Status> {
        unary::status(&*self.reach()?, &self.caller(&request)).map(Response::new)
    }

    async fn reset_epoch(&self, request: Request<pb::ResetEpochRequest>) -> Result<Response<pb::ResetEpochResponse>, Status> {
        let (hub, caller) = (self.reach()?, self.caller(&request));
        let answer = unary::reset_epoch(&hub, &caller, request.into_inner()).await;
        answer.map(Response::new).inspect_err(|refused| hub.say(&caller, refused))
    }
}
