//! The gRPC endpoint of a stage: `grpc.health.v1.Health`, fed from the same checks as `/readyz`.

use std::time::Duration;

use bailiff_runtime::{Readiness, Shutdown};
use tokio::net::TcpListener;
use tonic::transport::server::TcpIncoming;
use tonic_health::ServingStatus;

/// How often the checks are looked at; a probe asks about as often.
const EVERY: Duration = Duration::from_secs(1);

/// The endpoint could not be served.
#[derive(Debug, thiserror::Error)]
#[error("cannot serve gRPC health")]
pub struct Error(#[from] tonic::transport::Error);

/// Serves the health of `service` (and of the server as a whole, service "") until the shutdown begins.
///
/// # Errors
/// The listener broke.
pub async fn serve(service: &'static str, listener: TcpListener, readiness: Readiness, shutdown: Shutdown) -> Result<(), Error> {
    let (reporter, server) = tonic_health::server::health_reporter();
    let report = async {
        loop {
            let status = if readiness.is_ready() {
                ServingStatus::Serving
            } else {
                ServingStatus::NotServing
            };
            reporter.set_service_status(service, status).await;
            reporter.set_service_status("", status).await;
            tokio::time::sleep(EVERY).await;
        }
    };
    let serving = tonic::transport::Server::builder()
        .concurrency_limit_per_connection(8)
        .timeout(Duration::from_secs(60))
        .add_service(server)
        .serve_with_incoming_shutdown(TcpIncoming::from(listener), shutdown.triggered());
    tokio::select! {
        biased;
        served = serving => Ok(served?),
        () = report => Ok(()),
    }
}
