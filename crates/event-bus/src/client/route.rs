//! The way to a bus as a tower service: the same requests go to the generated server directly, or through a channel.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bailiff_proto::v1::event_bus_server::EventBusServer;
use tonic::Status;
use tonic::body::Body;
use tonic::transport::Channel;
use tower::{BoxError, Service, ServiceExt as _};

use super::line::{self, Line};
use crate::server::Server;

/// The way to a bus.
#[derive(Clone, Debug)]
pub(super) enum Route {
    /// In this process.
    InProcess(EventBusServer<Server>),
    /// In this process, over a line that may be cut.
    Line(EventBusServer<Server>, Line),
    /// Over HTTP/2.
    Channel(Channel),
    /// Nowhere: the address is none.
    Nowhere(String),
}

impl Service<http::Request<Body>> for Route {
    type Response = http::Response<Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // The channel's own readiness is waited for in `call`, so that waiting can be given a deadline with the rest.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        match self {
            Self::InProcess(server) => {
                let answer = server.call(request);
                Box::pin(async move { answer.await.map_err(BoxError::from) })
            }
            Self::Line(_, line) if line.is_cut() => Box::pin(async { Err(BoxError::from(line::lost())) }),
            Self::Line(server, line) => {
                let (answer, line) = (server.call(request), line.clone());
                Box::pin(async move { Ok(answer.await?.map(|body| line.carry(body))) })
            }
            Self::Channel(channel) => {
                let answer = channel.clone().oneshot(request);
                Box::pin(async move { answer.await.map_err(BoxError::from) })
            }
            Self::Nowhere(reason) => {
                let status = Status::invalid_argument(reason.clone());
                Box::pin(async move { Err(BoxError::from(status)) })
            }
        }
    }
}
