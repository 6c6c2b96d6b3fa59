//! The gRPC endpoint of a stage: `grpc.health.v1.Health`, fed from the same checks as `/readyz`.

use std::time::Duration;

use axum::Router;
use bailiff_runtime::port::{self, Bounds, Port};
use bailiff_runtime::{Readiness, Shutdown, Ticks};
use tokio::net::TcpListener;
use tonic::service::Routes;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

/// How often the checks are looked at, at least; a probe asks about as often.
const EVERY: Duration = Duration::from_secs(1);

/// How long connections may last after the shutdown began: long enough to tell every watcher that nothing is served any more. A
/// `Watch` never ends by itself, and must not hold up the end of the process.
const LINGER: Duration = Duration::from_secs(2);

/// A question about health is a name.
const MESSAGE_MAX: usize = 1024;

/// Serves the health of `service` (and of the server as a whole, service "") in plain text until the shutdown begins, and a little
/// longer.
pub async fn serve(service: &'static str, listener: TcpListener, readiness: Readiness, shutdown: Shutdown) {
    let port = Port::grpc("health", listener, None, Bounds::HEALTH, &port::Metrics::default());
    serve_port(service, port, readiness, shutdown).await;
}

/// The same on `port`.
pub async fn serve_port(service: &'static str, port: Port, readiness: Readiness, shutdown: Shutdown) {
    let (router, reporter) = router(service, &readiness).await;
    let serving = port.serve(router, shutdown.token().clone());
    tokio::select! {
        biased;
        () = serving => {}
        () = report(&reporter, service, &readiness, &shutdown) => {}
    }
}

async fn router(service: &'static str, readiness: &Readiness) -> (Router, HealthReporter) {
    let (reporter, server) = tonic_health::server::health_reporter();
    // The library says Serving until told otherwise.
    say(&reporter, service, status(readiness)).await;
    let routes = Routes::new(server.max_decoding_message_size(MESSAGE_MAX));
    (routes.prepare().into_axum_router(), reporter)
}

/// Keeps what is said true; ends when nobody needs to be told any more.
async fn report(reporter: &HealthReporter, service: &'static str, readiness: &Readiness, shutdown: &Shutdown) {
    let (mut every, mut said) = (Ticks::new(readiness.clock(), EVERY), None);
    loop {
        tokio::select! {
            biased;
            () = shutdown.triggered() => break,
            () = every.tick() => {}
        }
        let status = status(readiness);
        // Whoever watches is told each time.
        if said.replace(status) != Some(status) {
            say(reporter, service, status).await;
        }
    }
    say(reporter, service, ServingStatus::NotServing).await;
    tokio::time::sleep(LINGER).await;
}

fn status(readiness: &Readiness) -> ServingStatus {
    if readiness.is_ready() {
        ServingStatus::Serving
    } else {
        ServingStatus::NotServing
    }
}

async fn say(reporter: &HealthReporter, service: &'static str, status: ServingStatus) {
    reporter.set_service_status(service, status).await;
    reporter.set_service_status("", status).await;
}

#[cfg(test)]
mod tests {
    use bailiff_model::Wall;
    use bailiff_runtime::Clock;
    use bailiff_runtime::port::http2;
    use bailiff_runtime::tls::{Peer, Standing};
    use hyper_util::rt::TokioIo;
    use tokio::io::DuplexStream;
    use tokio::sync::mpsc;
    use tokio_util::sync::CancellationToken;
    use tonic::transport::{Channel, Endpoint};
    use tonic_health::pb::HealthCheckRequest;
    use tonic_health::pb::health_check_response::ServingStatus as Status;
    use tonic_health::pb::health_client::HealthClient;

    use super::*;

    async fn mk_client(connections: mpsc::Sender<DuplexStream>) -> HealthClient<Channel> {
        let connector = tower::service_fn(move |_: http::Uri| {
            let connections = connections.clone();
            async move {
                let (near, far) = tokio::io::duplex(1 << 16);
                connections.send(far).await.map_err(std::io::Error::other)?;
                Ok::<_, std::io::Error>(TokioIo::new(near))
            }
        });
        let endpoint = Endpoint::from_static("http://stage");
        HealthClient::new(endpoint.connect_with_connector(connector).await.expect("connects"))
    }

    /// What a port does, without one.
    async fn serve_one(mut connections: mpsc::Receiver<DuplexStream>, readiness: Readiness, shutdown: Shutdown) {
        let (router, reporter) = router("stage", &readiness).await;
        let connection = connections.recv().await.expect("a client");
        let peer = Peer {
            standing: Standing::Plain,
            address: None,
            ending: CancellationToken::new(),
        };
        let end = shutdown.triggered();
        tokio::select! {
            biased;
            () = http2(connection, router, peer, &Bounds::HEALTH, end) => {}
            () = report(&reporter, "stage", &readiness, &shutdown) => {}
        }
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
        let served = tokio::spawn(serve_one(connections, readiness, shutdown.clone()));
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
        served.await.expect("no panic");
        assert!(clock.now().mono.saturating_since(began) <= LINGER + EVERY);
    }
}
