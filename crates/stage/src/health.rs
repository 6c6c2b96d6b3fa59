//! The gRPC endpoint of a stage: `grpc.health.v1.Health`, fed from the same checks as `/readyz`.

use std::time::Duration;

use bailiff_runtime::{Readiness, Shutdown};
use futures::Stream;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tonic::transport::server::{Connected, TcpIncoming};
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

/// How often the checks are looked at; a probe asks about as often.
const EVERY: Duration = Duration::from_secs(1);

/// How long connections may last after the shutdown began: long enough to tell every watcher that nothing is served any more. A
/// `Watch` never ends by itself, and must not hold up the end of the process.
const LINGER: Duration = Duration::from_secs(2);

/// The endpoint could not be served.
#[derive(Debug, thiserror::Error)]
#[error("cannot serve gRPC health")]
pub struct Error(#[from] tonic::transport::Error);

/// Serves the health of `service` (and of the server as a whole, service "") until the shutdown begins, and a little longer.
///
/// # Errors
/// The listener broke.
pub async fn serve(service: &'static str, listener: TcpListener, readiness: Readiness, shutdown: Shutdown) -> Result<(), Error> {
    serve_on(service, TcpIncoming::from(listener), readiness, shutdown).await
}

async fn serve_on<C>(
    service: &'static str,
    connections: impl Stream<Item = std::io::Result<C>>,
    readiness: Readiness,
    shutdown: Shutdown,
) -> Result<(), Error>
where
    C: AsyncRead + AsyncWrite + Connected + Unpin + Send + 'static,
{
    let (reporter, server) = tonic_health::server::health_reporter();
    // The library says Serving until told otherwise.
    tell(&reporter, service, &readiness).await;
    let serving = tonic::transport::Server::builder()
        .concurrency_limit_per_connection(8)
        .timeout(Duration::from_secs(60))
        .add_service(server)
        .serve_with_incoming_shutdown(connections, shutdown.triggered());
    tokio::select! {
        biased;
        served = serving => Ok(served?),
        () = report(&reporter, service, &readiness, &shutdown) => Ok(()),
    }
}

/// Keeps what is said true; ends when nobody needs to be told any more.
async fn report(reporter: &HealthReporter, service: &'static str, readiness: &Readiness, shutdown: &Shutdown) {
    loop {
        tokio::select! {
            biased;
            () = shutdown.triggered() => break,
            () = tokio::time::sleep(EVERY) => tell(reporter, service, readiness).await,
        }
    }
    say(reporter, service, ServingStatus::NotServing).await;
    tokio::time::sleep(LINGER).await;
}

async fn tell(reporter: &HealthReporter, service: &'static str, readiness: &Readiness) {
    let status = if readiness.is_ready() {
        ServingStatus::Serving
    } else {
        ServingStatus::NotServing
    };
    say(reporter, service, status).await;
}

async fn say(reporter: &HealthReporter, service: &'static str, status: ServingStatus) {
    reporter.set_service_status(service, status).await;
    reporter.set_service_status("", status).await;
}

#[cfg(test)]
mod tests {
    use bailiff_model::Wall;
    use bailiff_runtime::Clock;
    use hyper_util::rt::TokioIo;
    use tokio::io::DuplexStream;
    use tokio::sync::mpsc;
    use tonic::transport::{Channel, Endpoint};
    use tonic_health::pb::HealthCheckRequest;
    use tonic_health::pb::health_check_response::ServingStatus as Status;
    use tonic_health::pb::health_client::HealthClient;

    use super::*;

    async fn mk_client(server: mpsc::Sender<std::io::Result<DuplexStream>>) -> HealthClient<Channel> {
        let connector = tower::service_fn(move |_: http::Uri| {
            let server = server.clone();
            async move {
                let (near, far) = tokio::io::duplex(1 << 16);
                server.send(Ok(far)).await.map_err(std::io::Error::other)?;
                Ok::<_, std::io::Error>(TokioIo::new(near))
            }
        });
        let endpoint = Endpoint::from_static("http://stage");
        HealthClient::new(endpoint.connect_with_connector(connector).await.expect("connects"))
    }

    fn mk_request(service: &str) -> HealthCheckRequest {
        HealthCheckRequest {
            service: service.to_owned(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_watcher_is_told_the_truth_and_does_not_hold_up_the_end() {
        let clock = Clock::virtual_from(Wall::UNIX_EPOCH);
        let (readiness, shutdown) = (Readiness::new(&clock), Shutdown::new());
        let check = readiness.check("list");
        let (connect, connections) = mpsc::channel(4);
        let connections = futures::stream::unfold(connections, |mut connections| async move {
            let connection = connections.recv().await?;
            Some((connection, connections))
        });
        let served = tokio::spawn(serve_on("stage", connections, readiness, shutdown.clone()));
        let mut client = mk_client(connect).await;
        for service in ["stage", ""] {
            let answer = client.check(mk_request(service)).await.expect("answers").into_inner();
            assert_eq!(answer.status(), Status::NotServing, "{service:?}: not ready yet");
        }
        let mut watch = client.watch(mk_request("stage")).await.expect("answers").into_inner();
        let mut next = async || watch.message().await.expect("an answer").map(|answer| answer.status());
        assert_eq!(next().await, Some(Status::NotServing));
        check.ok();
        assert_eq!(next().await, Some(Status::Serving));
        shutdown.trigger();
        let began = clock.now().mono;
        assert_eq!(next().await, Some(Status::NotServing));
        assert!(served.await.expect("no panic").is_ok());
        assert!(clock.now().mono.saturating_since(began) <= LINGER + EVERY);
    }
}
