//! How to reach a bus: in process or over TCP, with the same messages; and what can be asked of it.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bailiff_model::{Incarnation, Revision, Topic};
use bailiff_proto::v1 as pb;
use bailiff_proto::v1::event_bus_client::EventBusClient;
use bailiff_runtime::Seed;
use bailiff_runtime::args::{self, Address, BusFlags};
use bailiff_runtime::tls::{Connector, Tls};
use futures::future;
use tonic::transport::Endpoint;
use tonic::{Code, Response, Status, Streaming};

use super::line::Line;
use super::route::Route;
use super::{ANSWER_WITHIN, SILENT_AFTER};
use crate::record::{Record, ShardStatus};
use crate::server::{MESSAGE_MAX, Server};
use crate::wire::{self, Wire};

/// A peer that was not heard of for so long is pinged (HTTP/2), and is gone if it does not answer that in time, even if nothing closed the
/// connection: together [`SILENT_AFTER`]. That it was heard of is noticed once in the former, by a timer of its own;
/// bookmarks come four times as often.
const PING_AFTER: Duration = Duration::from_secs(8);
const PONG_WITHIN: Duration = SILENT_AFTER.saturating_sub(PING_AFTER);

const GET_HISTORY: &str = "GetHistory";
const GET_STATUS: &str = "GetStatus";
const RESET_EPOCH: &str = "ResetEpoch";

/// Why a question to a bus was not answered.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No answer in time.
    #[error("the bus did not answer {rpc} within {} s", ANSWER_WITHIN.as_secs())]
    Deadline {
        /// The call.
        rpc: &'static str,
    },
    /// The bus refused, or could not be reached.
    #[error("the bus refused {rpc}")]
    Refused {
        /// The call.
        rpc: &'static str,
        /// What it said.
        source: Box<Status>,
    },
    /// The answer breaks the contract.
    #[error("the answer to {rpc} breaks the contract")]
    Malformed {
        /// The call.
        rpc: &'static str,
        /// In what.
        source: wire::Error,
    },
}

/// The state of a bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BusStatus {
    /// Incarnation.
    pub incarnation: String,
    /// Newest revision.
    pub revision: Revision,
    /// Oldest revision a cursor may have.
    pub oldest_resumable: Revision,
    /// Topics, in pipeline order.
    pub topics: Vec<TopicStatus>,
}

/// The state of one topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicStatus {
    /// Topic.
    pub topic: Topic,
    /// Live keys.
    pub keys: u64,
    /// Tombstones kept.
    pub tombstones: u64,
    /// Subscribers now.
    pub subscribers: u32,
    /// Shards.
    pub shards: Vec<ShardStatus>,
}

/// How to reach a bus; cheap to clone. A bus may have several addresses: each user of it tries one after the other.
#[derive(Clone, Debug)]
pub struct Bus {
    /// Never empty.
    clients: Arc<[EventBusClient<Route>]>,
    /// Which one is in use.
    current: usize,
}

// === impl Error ===

impl Error {
    /// Another replica may do better.
    fn is_passing(&self) -> bool {
        // Subscribers and answers have their places on each replica.
        let is_full = matches!(self, Self::Refused { source, .. } if source.code() == Code::ResourceExhausted);
        is_full || !self.is_of_bus()
    }

    /// The bus itself said so, and can be asked for something else.
    fn is_of_bus(&self) -> bool {
        match self {
            Self::Deadline { .. } => false,
            Self::Refused { source, .. } => !matches!(source.code(), Code::Unavailable | Code::Unknown | Code::DeadlineExceeded),
            Self::Malformed { .. } => true,
        }
    }
}

// === impl Bus ===

impl Bus {
    /// The bus of this process: the generated client calls the generated server, without sockets.
    pub fn in_process(server: &Server) -> Self {
        Self::over([Route::InProcess(server.service())])
    }

    /// The same over a line that may be cut.
    pub fn over_line(server: &Server, line: &Line) -> Self {
        Self::over([Route::Line(server.service(), line.clone())])
    }

    /// The bus at `url`, such as `http://127.0.0.1:7460`. Connects when it is first used, and again when the connection broke.
    /// If `url` is none, every use says so. Must be called inside a tokio runtime.
    pub fn connect(url: &str) -> Self {
        Self::connect_any([url])
    }

    /// The bus behind all of these URLs: replicas that share one memory. Whoever uses it begins with one of them, moves on when that
    /// one fails, and resumes there. Must be called inside a tokio runtime.
    pub fn connect_any<'a>(urls: impl IntoIterator<Item = &'a str>) -> Self {
        let route = |url: &str| match Endpoint::from_shared(url.to_owned()) {
            Ok(endpoint) => Route::Channel(patient(endpoint).connect_lazy()),
            Err(error) => Route::Nowhere(format!("bus address {url:?} is no URL: {error}")),
        };
        let routes: Vec<Route> = urls.into_iter().map(route).collect();
        if routes.is_empty() {
            return Self::over([Route::Nowhere("the bus has no address".to_owned())]);
        }
        Self::over(routes)
    }

    /// The bus that `flags` name, over mutual TLS if there is any. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// The bus's host is no name that a certificate can carry: a matter of configuration (exit code 64).
    pub fn reach(flags: &BusFlags, tls: Option<&Tls>) -> Result<Self, args::Error> {
        let Some(tls) = tls else {
            let urls: Vec<String> = flags.bus.iter().map(Address::http_url).collect();
            return Ok(Self::connect_any(urls.iter().map(String::as_str)));
        };
        let route = |address: &Address| {
            let connector = Connector::new(tls, flags, address)?;
            // tonic would encrypt what is called https by itself; here the connector does.
            Ok(match Endpoint::from_shared(address.http_url()) {
                Ok(endpoint) => Route::Channel(patient(endpoint).connect_with_connector_lazy(connector)),
                Err(error) => Route::Nowhere(format!("bus address {address} is no URL: {error}")),
            })
        };
        let routes: Result<Vec<Route>, args::Error> = flags.bus.iter().map(route).collect();
        Ok(Self::over(routes?))
    }

    /// The bus behind `endpoint`; how long connecting may take and how a dead peer is noticed are set here.
    pub fn connect_to(endpoint: Endpoint) -> Self {
        Self::over([Route::Channel(patient(endpoint).connect_lazy())])
    }

    fn over(routes: impl IntoIterator<Item = Route>) -> Self {
        let client = |route| EventBusClient::new(route).max_decoding_message_size(MESSAGE_MAX);
        Self {
            clients: routes.into_iter().map(client).collect(),
            current: 0,
        }
    }

    pub(super) fn client(&self) -> EventBusClient<Route> {
        self.clients.get(self.current).expect("it is kept below their number").clone()
    }

    /// The same bus, beginning with an address that `seed` draws: not everybody begins with the first.
    pub(super) fn seeded(&self, seed: &Seed) -> Self {
        let count = self.clients.len() as u64;
        let current = if count > 1 { seed.fork("address").below(count) } else { 0 };
        Self {
            clients: Arc::clone(&self.clients),
            current: usize::try_from(current).unwrap_or(0),
        }
    }

    /// The address in use has failed: use the next.
    pub(super) fn move_on(&mut self) {
        self.current = (self.current + 1) % self.clients.len();
    }

    /// Asks one address after the other until one answers.
    async fn ask<T, F>(&self, rpc: &'static str, call: impl Fn(EventBusClient<Route>) -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let mut bus = self.clone();
        for _ in 1..self.clients.len() {
            match within(rpc, call(bus.client())).await {
                Err(error) if error.is_passing() => bus.move_on(),
                answered => return answered,
            }
        }
        within(rpc, call(bus.client())).await
    }

    /// The same bus at the address that is the first to answer a question: for what is not to be asked twice.
    async fn answering(&self) -> Result<Self, Error> {
        if self.clients.len() == 1 {
            return Ok(self.clone());
        }
        let looking = (0..self.clients.len()).map(|current| {
            let clients = Arc::clone(&self.clients);
            Box::pin(Self { clients, current }.answers())
        });
        Ok(future::select_ok(looking).await?.0)
    }

    /// This bus, once the address in use has answered. What it says does not matter, nor whether this role may know it.
    async fn answers(self) -> Result<Self, Error> {
        let mut client = self.client();
        match within(GET_STATUS, client.get_status(pb::GetStatusRequest {})).await {
            Err(error) if !error.is_of_bus() => Err(error),
            _ => Ok(self),
        }
    }

    /// The records kept of a key, oldest first; without their ages.
    ///
    /// # Errors
    /// No answer, or a refusal.
    pub async fn history(&self, topic: Topic, key: &str) -> Result<Vec<Record>, Error> {
        let response = self.history_raw(pb::GetHistoryRequest {
            topic: topic.to_string(),
            key: key.to_owned(),
        });
        let response = response.await?;
        let records: Result<Vec<Record>, _> = wire::list("records", response.records, usize::MAX);
        let incarnation = Incarnation::from(response.incarnation);
        // People read it. Nobody counts by it, so no clock is asked when it came.
        let in_incarnation = |record| Record {
            incarnation: incarnation.clone(),
            age: None,
            ..record
        };
        let records = records.map_err(|source| Error::Malformed {
            rpc: GET_HISTORY,
            source,
        })?;
        Ok(records.into_iter().map(in_incarnation).collect())
    }

    /// The same as it comes.
    pub(crate) async fn history_raw(&self, request: pb::GetHistoryRequest) -> Result<pb::GetHistoryResponse, Error> {
        let call = |mut client: EventBusClient<Route>| {
            let request = request.clone();
            async move { client.get_history(request).await }
        };
        self.ask(GET_HISTORY, call).await
    }

    /// A subscription as it comes: it ends with its connection.
    pub(crate) async fn subscribe_raw(&self, request: pb::SubscribeRequest) -> Result<Streaming<pb::SubscribeResponse>, Error> {
        let call = |mut client: EventBusClient<Route>| {
            let request = request.clone();
            async move { client.subscribe(request).await }
        };
        self.ask("Subscribe", call).await
    }

    /// The state of the bus.
    ///
    /// # Errors
    /// No answer, or a refusal.
    pub async fn status(&self) -> Result<BusStatus, Error> {
        let call = |mut client: EventBusClient<Route>| async move { client.get_status(pb::GetStatusRequest {}).await };
        let response = self.ask(GET_STATUS, call).await?;
        let topics = wire::list("topics", response.topics, usize::MAX);
        Ok(BusStatus {
            incarnation: response.incarnation,
            revision: Revision(response.revision),
            oldest_resumable: Revision(response.oldest_resumable_revision),
            topics: topics.map_err(|source| Error::Malformed { rpc: GET_STATUS, source })?,
        })
    }

    /// Sets a shard's epoch back to zero, ends its session, and answers the epoch it had. Break-glass.
    ///
    /// It is asked of one address, the first that answers a question, and only once: one that did not answer in time may do it all the
    /// same, and another would do it again, to whoever has come since.
    ///
    /// # Errors
    /// No answer, after which it may have been done; or a refusal.
    pub async fn reset_epoch(&self, topic: Topic, shard: u32) -> Result<u64, Error> {
        let request = pb::ResetEpochRequest {
            topic: topic.to_string(),
            shard,
        };
        let mut client = self.answering().await?.client();
        let response = within(RESET_EPOCH, client.reset_epoch(request)).await?;
        Ok(response.previous_epoch)
    }
}

fn patient(endpoint: Endpoint) -> Endpoint {
    endpoint
        .connect_timeout(ANSWER_WITHIN)
        .http2_keep_alive_interval(PING_AFTER)
        .keep_alive_timeout(PONG_WITHIN)
        .tcp_nodelay(true)
}

async fn within<T>(rpc: &'static str, call: impl Future<Output = Result<Response<T>, Status>>) -> Result<T, Error> {
    match tokio::time::timeout(ANSWER_WITHIN, call).await {
        Ok(Ok(response)) => Ok(response.into_inner()),
        Ok(Err(status)) => Err(Error::Refused {
            rpc,
            source: Box::new(status),
        }),
        Err(_) => Err(Error::Deadline { rpc }),
    }
}

impl TryFrom<Wire<pb::TopicStatus>> for TopicStatus {
    type Error = wire::Error;

    fn try_from(Wire(status): Wire<pb::TopicStatus>) -> Result<Self, wire::Error> {
        Ok(Self {
            topic: wire::envelope::topic("topic", &status.topic)?,
            keys: status.keys,
            tombstones: status.tombstones,
            subscribers: status.subscribers,
            shards: wire::list("shards", status.shards, usize::MAX)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use bailiff_model::{Now, Wall};
    use bailiff_runtime::Clock;
    use futures::FutureExt as _;

    use super::*;
    use crate::ServerOptions;
    use crate::engine::{Command, Effect, Engine, Kept, Limits, Memory, Position, Selection, Set, Ticket, TopicFigures};

    /// Subscribers have their places on each replica, so another one may have some left.
    #[tokio::test(start_paused = true)]
    async fn where_one_replica_has_no_place_the_next_is_asked() {
        let (clock, seed) = (Clock::virtual_from(Wall::UNIX_EPOCH), Seed::new(1));
        let mk_route = |subscribers| {
            let options = ServerOptions {
                subscribers,
                ..ServerOptions::default()
            };
            let server = Server::new(options, &clock, &seed);
            Route::InProcess(server.service())
        };
        let request = pb::SubscribeRequest {
            topics: vec![Topic::NodeHealth.to_string()],
            subscriber: "foreign".to_owned(),
            ..pb::SubscribeRequest::default()
        };
        let full = Bus::over([mk_route(0), mk_route(0)]);
        let error = full.subscribe_raw(request.clone()).await.expect_err("both are full");
        assert!(
            matches!(&error, Error::Refused { source, .. } if source.code() == Code::ResourceExhausted),
            "{error:?}"
        );
        let other = Bus::over([mk_route(0), mk_route(1)]);
        other.subscribe_raw(request).await.expect("the second has a place");
    }

    /// A bus that has no place for an answer to a question may reset an epoch all the same: that needs none.
    #[test]
    fn who_refuses_is_there() {
        let refused = |code| Error::Refused {
            rpc: GET_STATUS,
            source: Box::new(Status::new(code, "no")),
        };
        for (error, is_of_bus, is_passing) in [
            (refused(Code::ResourceExhausted), true, true),
            (refused(Code::PermissionDenied), true, false),
            (refused(Code::InvalidArgument), true, false),
            (refused(Code::Unavailable), false, true),
            (refused(Code::Unknown), false, true),
            (refused(Code::DeadlineExceeded), false, true),
            (Error::Deadline { rpc: GET_STATUS }, false, true),
        ] {
            assert_eq!((error.is_of_bus(), error.is_passing()), (is_of_bus, is_passing), "{error:?}");
        }
    }

    /// A bus whose log takes nothing: questions are answered, and what would change something never is.
    #[derive(Debug)]
    struct Stuck(Memory);

    impl Engine for Stuck {
        fn apply(&mut self, _: Ticket, _: Command, _: Now) -> Vec<Effect> {
            Vec::new()
        }

        fn incarnation(&self) -> &str {
            self.0.incarnation()
        }

        fn head(&self) -> Revision {
            self.0.head()
        }

        fn oldest_resumable(&self) -> Revision {
            self.0.oldest_resumable()
        }

        fn read(&self, selection: &Selection, position: Position, now: Now) -> Set {
            self.0.read(selection, position, now)
        }

        fn shards(&self, topics: &BTreeSet<Topic>, now: Now) -> Vec<ShardStatus> {
            self.0.shards(topics, now)
        }

        fn history(&self, topic: Topic, key: &str) -> Vec<Arc<Kept>> {
            self.0.history(topic, key)
        }

        fn figures(&self) -> Vec<TopicFigures> {
            self.0.figures()
        }
    }

    /// Its log may take it yet, and who had come by then would lose its session for a second one.
    #[tokio::test(start_paused = true)]
    async fn an_epoch_is_reset_once_whatever_became_of_it() {
        let (clock, seed) = (Clock::virtual_from(Wall::UNIX_EPOCH), Seed::new(1));
        let mk_stuck =
            |incarnation, limits: &Limits| -> Box<dyn Engine> { Box::new(Stuck(Memory::new(incarnation, limits.clone()))) };
        let stuck = Server::with_engines(ServerOptions::default(), &clock, &seed, mk_stuck);
        let other = Server::new(ServerOptions::default(), &clock, &seed);
        let bus = Bus::over([&stuck, &other].map(|server| Route::InProcess(server.service())));
        let answer = bus.reset_epoch(Topic::NodeHealth, 0).await;
        assert!(
            matches!(answer, Err(Error::Deadline { rpc: RESET_EPOCH })),
            "the other was asked as well: {answer:?}"
        );
    }

    /// It is not asked of one that says nothing, which might do it all the same.
    #[tokio::test(start_paused = true)]
    async fn an_epoch_is_reset_where_somebody_answers() {
        let (clock, seed) = (Clock::virtual_from(Wall::UNIX_EPOCH), Seed::new(1));
        let server = Server::new(ServerOptions::default(), &clock, &seed);
        // Who connects to it is never heard.
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let unheard = Endpoint::from_shared(format!("http://{address}")).expect("a URL");
        let bus = Bus::over([Route::Channel(unheard.connect_lazy()), Route::InProcess(server.service())]);
        let answer = bus
            .reset_epoch(Topic::NodeHealth, 0)
            .now_or_never()
            .expect("it waits for nobody");
        assert!(
            matches!(&answer, Err(Error::Refused { source, .. }) if source.code() == Code::InvalidArgument),
            "there is no epoch yet: {answer:?}"
        );
    }
}
