//! Flags about the API server.

use std::path::PathBuf;

use clap::Args;

use super::defaults;

/// Flags about the API server.
#[derive(Args, Clone, Debug, PartialEq)]
#[command(next_help_heading = "Kubernetes API", about = None, long_about = None)]
pub struct KubeArgs {
    /// Kubeconfig file; without it $KUBECONFIG or ~/.kube/config, and in a pod its service account
    #[arg(long, env = "BAILIFF_KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Requests per second to the API server, over time; negative: no limit
    #[arg(
        long,
        env = "BAILIFF_KUBE_API_QPS",
        default_value = "20", value_parser = qps,
        allow_negative_numbers = true,
        value_name = "NUMBER"
    )]
    pub kube_api_qps: f32,

    /// Requests to the API server that may be made at once after a pause
    #[arg(long, env = "BAILIFF_KUBE_API_BURST", default_value = "30", value_parser = burst, value_name = "NUMBER")]
    pub kube_api_burst: u32,
}

fn qps(text: &str) -> Result<f32, String> {
    // Below this a single request would wait longer than a day.
    const SLOWEST: f32 = 1e-5;
    match text.parse::<f32>() {
        Ok(qps) if qps.is_finite() && !(0.0..SLOWEST).contains(&qps) => Ok(qps),
        _ => Err("allowed is a number above 0 such as 20 or 0.5, or a negative one for no limit".to_owned()),
    }
}

fn burst(text: &str) -> Result<u32, String> {
    let parsed = text.parse().ok().filter(|burst| *burst > 0);
    parsed.ok_or_else(|| "allowed is a whole number from 1".to_owned())
}

// === impl KubeArgs ===

impl Default for KubeArgs {
    fn default() -> Self {
        defaults()
    }
}
