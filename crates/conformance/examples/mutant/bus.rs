//! The way between a stage and the bus, on which records are changed.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use bailiff_proto::v1 as pb;
use bailiff_proto::v1::event_bus_client::EventBusClient;
use bailiff_proto::v1::event_bus_server::{EventBus, EventBusServer};
use bailiff_proto::v1::{publish_request, subscribe_response};
use prost::Message as _;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tokio_stream::{Stream, StreamExt as _};
use tonic::transport::{Channel, Server};
use tonic::{Request, Response, Status, Streaming};

use crate::Failure;
use crate::mutations::{Memory, Mutation};

/// Opens the way to a bus.
pub async fn serve(bus: &str, mutation: &'static Mutation) -> Result<SocketAddr, Failure> {
    let client = EventBusClient::connect(format!("http://{bus}")).await?;
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?;
    let service = EventBusServer::new(Way {
        client,
        mutation,
        memory: Arc::default(),
    });
    tokio::spawn(
        Server::builder()
            .add_service(service)
            .serve_with_incoming(TcpListenerStream::new(listener)),
    );
    Ok(address)
}

struct Way {
    client: EventBusClient<Channel>,
    mutation: &'static Mutation,
    memory: Arc<Mutex<Memory>>,
}

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl EventBus for Way {
    type SubscribeStream = Answers<pb::SubscribeResponse>;
    type PublishStream = Answers<pb::PublishResponse>;

    async fn subscribe(&self, request: Request<pb::SubscribeRequest>) -> Result<Response<Self::SubscribeStream>, Status> {
        let answers = self.client.clone().subscribe(request.into_inner()).await?.into_inner();
        let mutation = self.mutation;
        let stream = answers.map(move |answer| answer.map(|answer| hear(mutation, answer)));
        Ok(Response::new(Box::pin(stream)))
    }

    async fn publish(&self, request: Request<Streaming<pb::PublishRequest>>) -> Result<Response<Self::PublishStream>, Status> {
        let (change, memory) = (self.mutation.said, Arc::clone(&self.memory));
        let said = request.into_inner().filter_map(Result::ok);
        let changed = said.map(move |mut request| {
            if let Some(publish_request::Step::Batch(batch)) = &mut request.step {
                let mut memory = memory.lock().unwrap_or_else(PoisonError::into_inner);
                for record in &mut batch.records {
                    let Ok(mut envelope) = pb::Envelope::decode(&**record) else {
                        continue;
                    };
                    change(&mut memory, &mut envelope);
                    *record = envelope.encode_to_vec().into();
                }
            }
            request
        });
        let answers = self.client.clone().publish(changed).await?.into_inner();
        Ok(Response::new(Box::pin(answers)))
    }

    async fn get_history(&self, request: Request<pb::GetHistoryRequest>) -> Result<Response<pb::GetHistoryResponse>, Status> {
        self.client.clone().get_history(request.into_inner()).await
    }

    async fn get_status(&self, request: Request<pb::GetStatusRequest>) -> Result<Response<pb::GetStatusResponse>, Status> {
        self.client.clone().get_status(request.into_inner()).await
    }

    async fn reset_epoch(&self, request: Request<pb::ResetEpochRequest>) -> Result<Response<pb::ResetEpochResponse>, Status> {
        self.client.clone().reset_epoch(request.into_inner()).await
    }
}

fn hear(mutation: &Mutation, mut answer: pb::SubscribeResponse) -> pb::SubscribeResponse {
    let shards = match &mut answer.step {
        Some(subscribe_response::Step::Changes(changes)) => {
            changes.records.retain_mut(|record| {
                let Ok(mut envelope) = pb::Envelope::decode(&**record) else {
                    return true;
                };
                let is_heard = (mutation.heard)(&mut envelope);
                *record = envelope.encode_to_vec().into();
                is_heard
            });
            &mut changes.shards
        }
        Some(subscribe_response::Step::Bookmark(bookmark)) => &mut bookmark.shards,
        _ => return answer,
    };
    shards.iter_mut().for_each(mutation.shards);
    answer
}
