//! How to reach a bus: in process or over TCP, with the same messages; and what can be asked of it.

use std::future::Future;
use std::time::Duration;

use bailiff_model::{Incarnation, Revision, Topic};
use bailiff_proto::v1 as pb;
use bailiff_proto::v1::event_bus_client::EventBusClient;
use bailiff_runtime::args::{self, BusFlags};
use bailiff_runtime::tls::{Connector, Tls};
use tonic::transport::Endpoint;
use tonic::{Response, Status};

use super::ANSWER_WITHIN;
use super::line::Line;
use super::route::Route;
use crate::record::{Record, ShardStatus};
use crate::server::{MESSAGE_MAX, Server};
use crate::wire::{self, Wire};

/// A peer that does not answer HTTP/2 pings for so long is gone, even if nothing closed the connection.
const PING_EVERY: Duration = Duration::from_secs(5);

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

/// How to reach a bus; cheap to clone.
#[derive(Clone, Debug)]
pub struct Bus {
    client: EventBusClient<Route>,
}

// === impl Bus ===

impl Bus {
    /// The bus of this process: the generated client calls the generated server, without sockets.
    pub fn in_process(server: &Server) -> Self {
        Self::over(Route::InProcess(server.service()))
    }

    /// The same over a line that may be cut.
    pub fn over_line(server: &Server, line: &Line) -> Self {
        Self::over(Route::Line(server.service(), line.clone()))
    }

    /// The bus at `url`, such as `http://127.0.0.1:7460`. Connects when it is first used, and again when the connection broke.
    /// If `url` is none, every use says so. Must be called inside a tokio runtime.
    pub fn connect(url: &str) -> Self {
        match Endpoint::from_shared(url.to_owned()) {
            Ok(endpoint) => Self::connect_to(endpoint),
            Err(error) => Self::over(Route::Nowhere(format!("bus address {url:?} is no URL: {error}"))),
        }
    }

    /// The bus that `flags` name, over mutual TLS if there is any. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// The bus's host is no name that a certificate can carry: a matter of configuration (exit code 64).
    pub fn reach(flags: &BusFlags, tls: Option<&Tls>) -> Result<Self, args::Error> {
        let Some(tls) = tls else {
            return Ok(Self::connect(&flags.bus.http_url()));
        };
        let connector = Connector::new(tls, flags)?;
        // tonic would encrypt what is called https by itself; here the connector does.
        Ok(match Endpoint::from_shared(flags.bus.http_url()) {
            Ok(endpoint) => Self::over(Route::Channel(patient(endpoint).connect_with_connector_lazy(connector))),
            Err(error) => Self::over(Route::Nowhere(format!("bus address {} is no URL: {error}", flags.bus))),
        })
    }

    /// The bus behind `endpoint`; how long connecting may take and how a dead peer is noticed are set here.
    pub fn connect_to(endpoint: Endpoint) -> Self {
        Self::over(Route::Channel(patient(endpoint).connect_lazy()))
    }

    fn over(route: Route) -> Self {
        Self {
            client: EventBusClient::new(route).max_decoding_message_size(MESSAGE_MAX),
        }
    }

    pub(super) fn client(&self) -> EventBusClient<Route> {
        self.client.clone()
    }

    /// The records kept of a key, oldest first; without their ages.
    ///
    /// # Errors
    /// No answer, or a refusal.
    pub async fn history(&self, topic: Topic, key: &str) -> Result<Vec<Record>, Error> {
        const RPC: &str = "GetHistory";
        let request = pb::GetHistoryRequest {
            topic: topic.to_string(),
            key: key.to_owned(),
        };
        let response = within(RPC, self.client().get_history(request)).await?;
        let records: Result<Vec<Record>, _> = wire::list("records", response.records, usize::MAX);
        let incarnation = Incarnation::from(response.incarnation);
        // People read it. Nobody counts by it, so no clock is asked when it came.
        let in_incarnation = |record| Record {
            incarnation: incarnation.clone(),
            age: None,
            ..record
        };
        let records = records.map_err(|source| Error::Malformed { rpc: RPC, source })?;
        Ok(records.into_iter().map(in_incarnation).collect())
    }

    /// The state of the bus.
    ///
    /// # Errors
    /// No answer, or a refusal.
    pub async fn status(&self) -> Result<BusStatus, Error> {
        const RPC: &str = "GetStatus";
        let response = within(RPC, self.client().get_status(pb::GetStatusRequest {})).await?;
        let topics = wire::list("topics", response.topics, usize::MAX);
        Ok(BusStatus {
            incarnation: response.incarnation,
            revision: Revision(response.revision),
            oldest_resumable: Revision(response.oldest_resumable_revision),
            topics: topics.map_err(|source| Error::Malformed { rpc: RPC, source })?,
        })
    }

    /// Sets a shard's epoch back to zero, ends its session, and answers the epoch it had. Break-glass.
    ///
    /// # Errors
    /// No answer, or a refusal.
    pub async fn reset_epoch(&self, topic: Topic, shard: u32) -> Result<u64, Error> {
        let request = pb::ResetEpochRequest {
            topic: topic.to_string(),
            shard,
        };
        let response = within("ResetEpoch", self.client().reset_epoch(request)).await?;
        Ok(response.previous_epoch)
    }
}

fn patient(endpoint: Endpoint) -> Endpoint {
    endpoint
        .connect_timeout(ANSWER_WITHIN)
        .http2_keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_EVERY)
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
