//! A shadow of a bus: whoever uses it hears the bus, and speaks beside it.
//!
//! For a second implementation of a stage that is looked at before it is trusted: it follows the same topics as the first, with the
//! same revisions, and what it publishes goes to a bus of its own, which nobody acts on. The real bus carries one subscription more,
//! and no record, session or epoch of the second one.

use bailiff_model::Topic;
use bailiff_proto::v1 as pb;
use bailiff_proto::v1::event_bus_server::{EventBus, EventBusServer};
use bailiff_runtime::port::Port;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

use super::{Boxed, MESSAGE_MAX, Server, serve};
use crate::access::{Action, Roles};
use crate::client::{Bus, Error};

/// A shadow of a bus.
#[derive(Clone, Debug)]
pub struct Shadow {
    bus: Bus,
    beside: Server,
}

// === impl Shadow ===

impl Shadow {
    /// Who uses it hears `bus`, and speaks on `beside`.
    pub fn of(bus: &Bus, beside: &Server) -> Self {
        Self {
            bus: bus.clone(),
            beside: beside.clone(),
        }
    }

    /// Serves it on `port` until `stop` is cancelled; then ends all streams.
    ///
    /// Over TLS callers may do what `roles` say, as on the bus itself; what they hear is heard with the rights of this process.
    pub async fn serve_port(self, port: Port, roles: Roles, stop: CancellationToken) {
        let beside = if port.is_secured() {
            self.beside.behind(roles)
        } else {
            self.beside
        };
        let shadow = Self {
            beside: beside.clone(),
            ..self
        };
        let service = EventBusServer::new(shadow).max_decoding_message_size(MESSAGE_MAX);
        beside.serve_as(service, port, stop).await;
    }
}

#[tonic::async_trait]
impl EventBus for Shadow {
    type SubscribeStream = Boxed<pb::SubscribeResponse>;
    type PublishStream = Boxed<pb::PublishResponse>;

    async fn subscribe(&self, request: Request<pb::SubscribeRequest>) -> Result<Response<Self::SubscribeStream>, Status> {
        let (ending, caller) = (serve::ending(&request), self.beside.caller(&request));
        for topic in request.get_ref().topics.iter().filter_map(|topic| Topic::parse(topic)) {
            caller.check(&self.beside.inner.metrics, Action::Subscribe, topic)?;
        }
        let stream = self.bus.subscribe_raw(request.into_inner()).await.map_err(refused)?;
        Ok(Response::new(serve::until(ending, Box::pin(stream))))
    }

    async fn publish(&self, request: Request<Streaming<pb::PublishRequest>>) -> Result<Response<Self::PublishStream>, Status> {
        self.beside.publish(request).await
    }

    async fn get_history(&self, request: Request<pb::GetHistoryRequest>) -> Result<Response<pb::GetHistoryResponse>, Status> {
        if let Some(topic) = Topic::parse(&request.get_ref().topic) {
            let caller = self.beside.caller(&request);
            caller.check(&self.beside.inner.metrics, Action::Read, topic)?;
        }
        let answer = self.bus.history_raw(request.into_inner()).await;
        answer.map(Response::new).map_err(refused)
    }

    /// What was published beside the bus.
    async fn get_status(&self, request: Request<pb::GetStatusRequest>) -> Result<Response<pb::GetStatusResponse>, Status> {
        self.beside.get_status(request).await
    }

    async fn reset_epoch(&self, request: Request<pb::ResetEpochRequest>) -> Result<Response<pb::ResetEpochResponse>, Status> {
        self.beside.reset_epoch(request).await
    }
}

/// What a caller of the shadow is told where the bus behind it refused.
fn refused(error: Error) -> Status {
    match error {
        Error::Refused { source, .. } => *source,
        error => Status::unavailable(error.to_string()),
    }
}
