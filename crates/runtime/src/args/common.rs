//! Flags about the process itself: logs, traces, admin port, end.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use tracing_subscriber::EnvFilter;

use super::{GoDuration, defaults, listen_address};

/// Flags about the process itself.
#[derive(Args, Clone, Debug, PartialEq)]
#[command(next_help_heading = "Process", about = None, long_about = None)]
pub struct CommonArgs {
    /// YAML file of flags, as 'kube-api-qps: 50'; those given on the command line, or as environment variables, count instead
    #[arg(long, env = "BAILIFF_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Print what every flag comes to, in the form of --config, and end
    #[arg(long)]
    pub print_config: bool,

    /// What is logged: a level (error, warn, info, debug, trace) or directives such as info,bailiff_cluster=debug
    #[arg(long, env = "BAILIFF_LOG_LEVEL", default_value = "info", value_name = "FILTER")]
    pub log_level: LogFilter,

    /// How logs are written to stderr
    #[arg(long, env = "BAILIFF_LOG_FORMAT", default_value = "text", value_enum, value_name = "FORMAT")]
    pub log_format: LogFormat,

    /// Where /livez, /readyz and /metrics are served; port 0 takes any free one and logs it
    #[arg(long, env = "BAILIFF_ADMIN_LISTEN", default_value = "127.0.0.1:0", value_parser = listen_address, value_name = "ADDRESS")]
    pub admin_listen: SocketAddr,

    /// How long work in flight may take after SIGTERM or SIGINT; keep it below the pod's termination grace period
    #[arg(long, env = "BAILIFF_DRAIN_TIMEOUT", default_value = "20s", value_name = "DURATION")]
    pub drain_timeout: GoDuration,

    /// Where traces go, over OTLP/gRPC; https:// takes the TLS files. Without it no trace leaves the process. Example: http://localhost:4317
    #[arg(long, env = "OTEL_EXPORTER_OTLP_ENDPOINT", value_parser = otlp_endpoint, value_name = "URL")]
    pub otlp_endpoint: Option<String>,

    /// Where traces go if that is not --otlp-endpoint
    #[arg(long, env = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", value_parser = otlp_endpoint, value_name = "URL", hide = true)]
    pub otlp_traces_endpoint: Option<String>,

    /// Seed of backoff, jitter, identities and span ids, to replay a run
    #[arg(long, env = "BAILIFF_SEED", value_name = "NUMBER", hide = true)]
    pub seed: Option<u64>,
}

/// How logs are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One line of text per event, in colour on a terminal
    #[default]
    Text,
    /// One JSON object per line
    Json,
}

/// Directives that say which log events are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFilter(String);

// === impl CommonArgs ===

impl Default for CommonArgs {
    fn default() -> Self {
        defaults()
    }
}

impl CommonArgs {
    /// Where traces go, if anywhere. The endpoint for traces wins over the general one, and an empty one is none, as OpenTelemetry
    /// says.
    pub fn traces_endpoint(&self) -> Option<&str> {
        let filled = |endpoint: &'_ Option<String>| endpoint.as_deref().is_some_and(|url| !url.is_empty());
        [&self.otlp_traces_endpoint, &self.otlp_endpoint]
            .into_iter()
            .find(|endpoint| filled(endpoint))
            .and_then(Option::as_deref)
    }

    /// The source of randomness these flags ask for.
    pub fn seed(&self) -> crate::Seed {
        self.seed.map_or_else(crate::Seed::from_system, crate::Seed::new)
    }
}

fn otlp_endpoint(text: &str) -> Result<String, String> {
    let is_url = |uri: &http::Uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some();
    let parsed = text.parse::<http::Uri>();
    if text.is_empty() || parsed.is_ok_and(|uri| is_url(&uri)) {
        Ok(text.to_owned())
    } else {
        Err("allowed is a URL such as http://localhost:4317".to_owned())
    }
}

// === impl LogFilter ===

impl LogFilter {
    /// The directives.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for LogFilter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match EnvFilter::try_new(text) {
            Ok(_) if !text.is_empty() => Ok(Self(text.to_owned())),
            _ => Err(
                "allowed is a level (error, warn, info, debug, trace, off) or directives such as info,bailiff_cluster=debug"
                    .to_owned(),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_endpoint_for_traces_wins_and_an_empty_one_is_none() {
        let text = |url: &str| Some(url.to_owned());
        for (general, traces, chosen) in [
            (None, None, None),
            (text(""), text(""), None),
            (text("http://a:1"), None, Some("http://a:1")),
            (text("http://a:1"), text(""), Some("http://a:1")),
            (text("http://a:1"), text("http://b:1"), Some("http://b:1")),
        ] {
            let args = CommonArgs {
                otlp_endpoint: general,
                otlp_traces_endpoint: traces,
                ..CommonArgs::default()
            };
            assert_eq!(args.traces_endpoint(), chosen);
        }
    }
}
