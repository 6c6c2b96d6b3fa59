//! A bus on a TCP port, with gRPC health beside it.

use std::time::Duration;

use bailiff_proto::v1::event_bus_server::EventBusServer;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::transport::server::TcpIncoming;

use super::Server;

/// A peer that does not answer HTTP/2 pings for so long is gone: its session must not hold the shard layout.
const PING_EVERY: Duration = Duration::from_secs(5);
/// Streams of one connection: every stage of one process, several times over.
const STREAMS_PER_CONNECTION: u32 = 256;
/// How long connections may take to end after all streams were ended. Only a health watch or a dead peer takes any time.
const DRAIN: Duration = Duration::from_secs(2);

/// The port could not be served.
#[derive(Debug, thiserror::Error)]
#[error("cannot serve the event bus")]
pub struct ServeError(#[from] tonic::transport::Error);

impl Server {
    /// Serves the bus, and `grpc.health.v1.Health` for it, on `listener` until `stop` is cancelled; then ends all streams.
    ///
    /// # Errors
    /// The listener broke.
    pub async fn serve(self, listener: TcpListener, stop: CancellationToken) -> Result<(), ServeError> {
        let (health, health_service) = tonic_health::server::health_reporter();
        health.set_serving::<EventBusServer<Self>>().await;
        let serving = tonic::transport::Server::builder()
            .http2_keepalive_interval(Some(PING_EVERY))
            .http2_keepalive_timeout(Some(PING_EVERY))
            .max_concurrent_streams(STREAMS_PER_CONNECTION)
            .add_service(health_service)
            .add_service(self.service())
            .serve_with_incoming_shutdown(TcpIncoming::from(listener).with_nodelay(Some(true)), stop.cancelled());
        let stopped = async {
            stop.cancelled().await;
            health.set_not_serving::<EventBusServer<Self>>().await;
            self.kill();
            tokio::time::sleep(DRAIN).await;
        };
        tokio::select! {
            biased;
            served = serving => Ok(served?),
            () = stopped => Ok(()),
        }
    }
}
