//! A bus on a TCP port, with gRPC health beside it.

use std::time::Duration;

use bailiff_proto::v1::event_bus_server::{EventBus, EventBusServer};
use bailiff_runtime::port::{self, Bounds, Port};
use bailiff_runtime::tls::Peer;
use futures::StreamExt as _;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::Request;
use tonic::service::Routes;

use super::Server;
use super::answers::Answers;
use super::intake::Intake;
use crate::access::Roles;

/// How long connections may take to end after all streams were ended. Only a health watch or a dead peer takes any time.
const DRAIN: Duration = Duration::from_secs(2);
/// A question about health is a name.
const HEALTH_MESSAGE_MAX: usize = 1024;

impl Server {
    /// Serves the bus in plain text on `listener` until `stop` is cancelled.
    pub async fn serve(self, listener: TcpListener, stop: CancellationToken) {
        let port = Port::grpc("bus", listener, None, Bounds::BUS, &port::Metrics::default());
        self.serve_on(port, stop).await;
    }

    /// Serves the bus, and `grpc.health.v1.Health` for it, on `port` until `stop` is cancelled; then ends all streams.
    ///
    /// Over TLS callers may do what `roles` say. Over plain text nobody knows who they are, and everything is allowed.
    pub async fn serve_port(self, port: Port, roles: Roles, stop: CancellationToken) {
        if port.is_secured() {
            let names: Vec<&str> = roles.names().collect();
            tracing::info!(roles = names.join(", "), "Callers of the bus need a certificate with a role");
            self.behind(roles).serve_on(port, stop).await;
        } else {
            tracing::warn!("The bus is served in plain text: there are no roles, and whoever reaches it may do everything");
            self.serve_on(port, stop).await;
        }
    }

    async fn serve_on(self, port: Port, stop: CancellationToken) {
        let service = self.service();
        self.serve_as(service, port, stop).await;
    }

    /// Serves `service` as the bus, whose memory is this one's.
    pub(super) async fn serve_as<T: EventBus>(self, service: EventBusServer<T>, port: Port, stop: CancellationToken) {
        let (health, health_service) = tonic_health::server::health_reporter();
        health.set_serving::<EventBusServer<Self>>().await;
        let service = Answers::new(Intake::new(service, &self), &self);
        let health_service = Intake::new(health_service.max_decoding_message_size(HEALTH_MESSAGE_MAX), &self);
        let routes = Routes::new(health_service).add_service(service);
        let serving = port.serve(routes.prepare().into_axum_router(), stop.clone());
        let stopped = async {
            stop.cancelled().await;
            health.set_not_serving::<EventBusServer<Self>>().await;
            self.kill();
            tokio::time::sleep(DRAIN).await;
        };
        tokio::select! {
            biased;
            () = serving => {}
            () = stopped => {}
        }
    }
}

/// Cancelled when the connection that `request` came over has to end; none in process.
pub(super) fn ending<T>(request: &Request<T>) -> Option<CancellationToken> {
    request.extensions().get::<Peer>().map(|peer| peer.ending.clone())
}

/// The stream, until its connection has to end: it ends in good order, and is resumed over another one.
pub(super) fn until<T: Send + 'static>(ending: Option<CancellationToken>, stream: super::Boxed<T>) -> super::Boxed<T> {
    match ending {
        Some(ending) => Box::pin(stream.take_until(ending.cancelled_owned())),
        None => stream,
    }
}
