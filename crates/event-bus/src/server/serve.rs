//! A bus on a TCP port, with gRPC health beside it.

use std::time::Duration;

use bailiff_proto::v1::event_bus_server::EventBusServer;
use bailiff_runtime::port::{self, Bounds, Port};
use bailiff_runtime::tls::Peer;
use futures::StreamExt as _;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::Request;
use tonic::service::Routes;

use super::Server;

/// How long connections may take to end after all streams were ended. Only a health watch or a dead peer takes any time.
const DRAIN: Duration = Duration::from_secs(2);
/// A question about health is a name.
const HEALTH_MESSAGE_MAX: usize = 1024;

impl Server {
    /// Serves the bus in plain text on `listener` until `stop` is cancelled.
    pub async fn serve(self, listener: TcpListener, stop: CancellationToken) {
        let port = Port::grpc("bus", listener, None, Bounds::BUS, &port::Metrics::default());
        self.serve_port(port, stop).await;
    }

    /// Serves the bus, and `grpc.health.v1.Health` for it, on `port` until `stop` is cancelled; then ends all streams.
    pub async fn serve_port(self, port: Port, stop: CancellationToken) {
        let (health, health_service) = tonic_health::server::health_reporter();
        health.set_serving::<EventBusServer<Self>>().await;
        let routes = Routes::new(health_service.max_decoding_message_size(HEALTH_MESSAGE_MAX)).add_service(self.service());
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
