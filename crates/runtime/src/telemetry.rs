//! Logs to stderr, and traces to an OpenTelemetry collector if one is configured.
//!
//! Logs are for whoever runs the process; traces of incidents ([`crate::trace`]) are for whoever asks why a pod is gone.

pub(crate) mod lines;
mod variables;

use std::io::IsTerminal as _;
use std::time::Duration;

use opentelemetry::{Key, KeyValue};
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
use crate::args::{CommonArgs, LogFilter, LogFormat, exit_invalid};
use crate::tls::Connector;
use crate::trace::{Spans, export_to};
use lines::Lines;
use variables::Variables;

/// Why telemetry could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another subscriber is installed in this process.
    #[error("logs are already set up")]
    Subscriber(#[source] tracing_subscriber::util::TryInitError),
}

/// What is configured about traces cannot be used.
#[derive(Debug, thiserror::Error)]
enum Invalid {
    /// An environment variable means nothing.
    #[error(transparent)]
    Variable(#[from] variables::Error),
    /// The endpoint for traces cannot be used.
    #[error("invalid value '{endpoint}' for '--otlp-endpoint'")]
    Exporter {
        endpoint: String,
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

/// Sets up logs and traces of the service, in the process of this identity. Must be called inside the runtime, once per process.
///
/// Ends the process with exit code 64 if what is configured about traces cannot be used. A collector that cannot be reached is no error.
///
/// # Errors
/// Logs are set up already.
pub fn init(service: &'static str, identity: &str, args: &CommonArgs, tls: Option<&Tls>) -> Result<Guard, Error> {
    init_logs(&args.log_level, args.log_format)?;
    let guard = Variables::of_process().map_err(Invalid::from);
    let guard = guard.and_then(|asked| init_traces(&resource(service, identity), &asked, args, tls));
    Ok(guard.unwrap_or_else(|invalid| exit_invalid(&invalid)))
}

/// Sets up logs alone: for commands that are no service.
///
/// # Errors
/// Logs are set up already.
pub fn init_logs(filter: &LogFilter, format: LogFormat) -> Result<(), Error> {
    let lines = tracing_subscriber::fmt::layer().with_writer(Lines);
    let lines: Box<dyn Layer<Registry> + Send + Sync> = match format {
        LogFormat::Text => lines.with_ansi(is_colour_wanted()).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    let subscriber = tracing_subscriber::registry().with(lines.with_filter(env_filter(filter)));
    subscriber.try_init().map_err(Error::Subscriber)?;
    // What was said before a panic is read before it.
    let told = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        lines::send();
        told(panic);
    }));
    Ok(())
}

fn init_traces(resource: &Resource, asked: &Variables, args: &CommonArgs, tls: Option<&Tls>) -> Result<Guard, Invalid> {
    let closing = CancellationToken::new();
    let Some(endpoint) = args.traces_endpoint().filter(|_| asked.exports) else {
        if asked.exports && asked.insists {
            tracing::warn!("OTEL_TRACES_EXPORTER asks for traces, but no --otlp-endpoint says where they go");
        }
        return Ok(Guard {
            spans: Spans::off(),
            closing,
            pump: None,
        });
    };
    for sentence in &asked.unheeded {
        tracing::warn!("{sentence}");
    }
    let mut exporter = opentelemetry_otlp::SpanExporter::builder()
        .with_tonic()
        .with_timeout(asked.answer_within)
        .with_endpoint(endpoint);
    if let Some(connector) = tls.and_then(|tls| Connector::of_url(tls, endpoint)) {
        // Whoever makes the channel has to give it the deadline that the exporter has.
        let channel = Endpoint::from_static("http://collector").timeout(asked.answer_within);
        exporter = exporter.with_channel(channel.connect_with_connector_lazy(connector));
    }
    let mut exporter = exporter.build().map_err(|source| Invalid::Exporter {
        endpoint: endpoint.to_owned(),
        source,
    })?;
    exporter.set_resource(resource);
    let (spans, pump) = export_to(exporter, asked.batching, closing.clone());
    Ok(Guard {
        spans,
        closing,
        pump: Some(tokio::spawn(pump.run())),
    })
}

/// Who emits the spans. `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` win.
fn resource(service: &'static str, identity: &str) -> Resource {
    let told = Resource::builder().build();
    let ours = [
        ("service.name", service),
        ("service.version", env!("CARGO_PKG_VERSION")),
        ("service.instance.id", identity),
    ];
    let untold = ours.into_iter().filter(|(key, _)| {
        let value = told.get(&Key::new(*key));
        // Without OTEL_SERVICE_NAME the SDK answers `unknown_service`, which must not win.
        value.is_none_or(|value| value.as_str().starts_with("unknown_service"))
    });
    Resource::builder()
        .with_attributes(untold.map(|(key, value)| KeyValue::new(key, value.to_owned())))
        .build()
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

    fn init(endpoint: Option<&str>, pairs: &[(&str, &str)]) -> Result<Guard, Invalid> {
        let args = CommonArgs {
            otlp_endpoint: endpoint.map(str::to_owned),
            ..CommonArgs::default()
        };
        let asked = Variables::read(|name| {
            let found = pairs.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| (*value).to_owned())
        })?;
        init_traces(&Resource::builder_empty().build(), &asked, &args, None)
    }

    #[tokio::test(start_paused = true)]
    async fn traces_leave_where_an_endpoint_is_given_and_nothing_forbids_it() {
        let endpoint = Some("http://127.0.0.1:4317");
        for (endpoint, variable, leave) in [
            (endpoint, ("OTEL_TRACES_EXPORTER", "otlp"), true),
            (None, ("OTEL_TRACES_EXPORTER", "otlp"), false),
            (endpoint, ("OTEL_TRACES_EXPORTER", "none"), false),
            (endpoint, ("OTEL_SDK_DISABLED", "true"), false),
            (endpoint, ("OTEL_TRACES_SAMPLER", "always_off"), true),
        ] {
            let guard = init(endpoint, &[variable]).expect("allowed");
            assert_eq!(guard.pump.is_some(), leave, "{endpoint:?} {variable:?}");
            guard.shutdown(Duration::from_secs(1)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_cannot_be_used_is_named() {
        let error = init(Some("https://collector:4317"), &[]).expect_err("nothing says whom to trust");
        assert_eq!(
            error.to_string(),
            "invalid value 'https://collector:4317' for '--otlp-endpoint'"
        );
        let chain = crate::shutdown::chain(&error);
        assert!(chain.contains("TLS"), "{chain}");
        let error = init(None, &[("OTEL_BSP_SCHEDULE_DELAY", "5s")]).expect_err("it has a unit");
        assert!(error.to_string().contains("OTEL_BSP_SCHEDULE_DELAY"), "{error}");
    }

    #[test]
    fn the_resource_says_which_start_of_which_service_tells() {
        let resource = resource("service", "host_1");
        let value = |key: &'static str| resource.get(&Key::new(key)).map(|value| value.to_string());
        assert_eq!(value("service.name").as_deref(), Some("service"));
        assert_eq!(value("service.instance.id").as_deref(), Some("host_1"));
        assert_eq!(value("service.version").as_deref(), Some(env!("CARGO_PKG_VERSION")));
    }

    #[test]
    fn the_clients_own_errors_are_off_unless_asked_for() {
        let shown = |text: &str| env_filter(&text.parse().expect(text)).to_string();
        assert!(shown("info").contains("kube_client::client::builder=off"));
        assert!(!shown("info,kube_client=debug").contains("=off"));
    }
}
