//! Logs to stderr, and traces to an OpenTelemetry collector if one is configured.
//!
//! Logs are for whoever runs the process; traces of incidents ([`crate::trace`]) are for whoever asks why a pod is gone.

use std::io::IsTerminal as _;
use std::time::Duration;

use opentelemetry_otlp::{WithExportConfig as _, WithTonicConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SpanExporter as _;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::transport::Endpoint;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer, Registry};

use crate::Tls;
use crate::args::{CommonArgs, LogFilter, LogFormat};
use crate::tls::Connector;
use crate::trace::{Spans, export_to};

/// Why telemetry could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another subscriber is installed in this process.
    #[error("logs are already set up")]
    Subscriber(#[source] tracing_subscriber::util::TryInitError),
    /// The endpoint for traces cannot be used: a matter of configuration (exit code 64).
    #[error("invalid value '{endpoint}' for '--otlp-endpoint'")]
    Exporter {
        /// The endpoint.
        endpoint: String,
        /// What is wrong with it.
        source: opentelemetry_otlp::ExporterBuildError,
    },
}

/// Keeps telemetry going.
#[derive(Debug)]
#[must_use = "traces end when the guard is dropped"]
pub struct Guard {
    spans: Spans,
    closing: CancellationToken,
    pump: Option<JoinHandle<()>>,
}

/// Sets up logs and traces of the service. Must be called inside the runtime, once per process.
///
/// # Errors
/// Logs are set up already, or the configured endpoint cannot be used. A collector that cannot be reached is no error.
pub fn init(service: &'static str, args: &CommonArgs, tls: Option<&Tls>) -> Result<Guard, Error> {
    init_logs(&args.log_level, args.log_format)?;
    init_traces(service, args, tls)
}

/// Sets up logs alone: for commands that are no service.
///
/// # Errors
/// Logs are set up already.
pub fn init_logs(filter: &LogFilter, format: LogFormat) -> Result<(), Error> {
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let lines: Box<dyn Layer<Registry> + Send + Sync> = match format {
        LogFormat::Text => lines.with_ansi(is_colour_wanted()).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    let subscriber = tracing_subscriber::registry().with(lines.with_filter(env_filter(filter)));
    subscriber.try_init().map_err(Error::Subscriber)
}

fn init_traces(service: &'static str, args: &CommonArgs, tls: Option<&Tls>) -> Result<Guard, Error> {
    let closing = CancellationToken::new();
    let Some(endpoint) = args.traces_endpoint() else {
        return Ok(Guard {
            spans: Spans::off(),
            closing,
            pump: None,
        });
    };
    let mut exporter = opentelemetry_otlp::SpanExporter::builder()
        .with_tonic()
        .with_endpoint(endpoint);
    if let Some(connector) = tls.and_then(|tls| Connector::of_url(tls, endpoint)) {
        // Whoever makes the channel has to give it the deadline that the exporter has, OpenTelemetry's default.
        let channel = Endpoint::from_static("http://collector").timeout(Duration::from_secs(10));
        exporter = exporter.with_channel(channel.connect_with_connector_lazy(connector));
    }
    let mut exporter = exporter.build().map_err(|source| Error::Exporter {
        endpoint: endpoint.to_owned(),
        source,
    })?;
    exporter.set_resource(&resource(service));
    let (spans, pump) = export_to(exporter, closing.clone());
    Ok(Guard {
        spans,
        closing,
        pump: Some(tokio::spawn(pump.run())),
    })
}

/// Who emits the spans. `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` win.
fn resource(service: &'static str) -> Resource {
    use opentelemetry::{Key, KeyValue};
    let told = Resource::builder().build();
    // Without OTEL_SERVICE_NAME the SDK answers `unknown_service`, which must not win.
    let is_told = told
        .get(&Key::new("service.name"))
        .is_some_and(|name| !name.as_str().starts_with("unknown_service"));
    let builder = Resource::builder().with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
    if is_told {
        builder.build()
    } else {
        builder.with_service_name(service).build()
    }
}

fn is_colour_wanted() -> bool {
    // https://no-color.org
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

fn env_filter(filter: &LogFilter) -> EnvFilter {
    // kube's client reports each failed request as an ERROR of its own; who made the request says what it means (and once).
    let quiet = if filter.as_str().contains("kube_client") {
        ""
    } else {
        ",kube_client::client::builder=off"
    };
    EnvFilter::new(format!("{}{quiet}", filter.as_str()))
}

// === impl Guard ===

impl Guard {
    /// Where finished spans go.
    pub fn spans(&self) -> &Spans {
        &self.spans
    }

    /// Exports what is queued, at most `deadline`.
    pub async fn shutdown(mut self, deadline: Duration) {
        self.closing.cancel();
        if let Some(mut pump) = self.pump.take()
            && tokio::time::timeout(deadline, &mut pump).await.is_err()
        {
            pump.abort();
            tracing::warn!("traces were not exported in time; spans are lost");
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.closing.cancel();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn without_an_endpoint_nothing_is_exported() {
        let guard = init_traces("service", &CommonArgs::default(), None).expect("no endpoint");
        assert!(guard.pump.is_none());
        guard.shutdown(Duration::from_secs(1)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn an_endpoint_that_cannot_be_used_is_named() {
        let args = CommonArgs {
            otlp_endpoint: Some("https://collector:4317".into()),
            ..CommonArgs::default()
        };
        let error = init_traces("service", &args, None).expect_err("nothing says whom to trust");
        assert_eq!(
            error.to_string(),
            "invalid value 'https://collector:4317' for '--otlp-endpoint'"
        );
        let chain = crate::shutdown::chain(&error);
        assert!(chain.contains("TLS"), "{chain}");
    }

    #[test]
    fn the_clients_own_errors_are_off_unless_asked_for() {
        let shown = |text: &str| env_filter(&text.parse().expect(text)).to_string();
        assert!(shown("info").contains("kube_client::client::builder=off"));
        assert!(!shown("info,kube_client=debug").contains("=off"));
    }
}
