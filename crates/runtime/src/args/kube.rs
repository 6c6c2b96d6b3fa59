//! Flags about the API server.

use std::path::PathBuf;

use clap::Args;

use super::{Error, Valid, Validate, defaults};

/// Valid flags about the API server.
pub type KubeArgs = Valid<KubeFlags>;

/// Flags about the API server.
#[derive(Args, Clone, Debug, PartialEq)]
#[command(next_help_heading = "Kubernetes API")]
pub struct KubeFlags {
    /// Kubeconfig file; without it $KUBECONFIG or ~/.kube/config, and in a pod its service account
    #[arg(long, env = "BAILIFF_KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Requests per second to the API server, over time; negative: no limit
    #[arg(
        long,
        env = "BAILIFF_KUBE_API_QPS",
        default_value_t = 20.0,
        allow_negative_numbers = true,
        value_name = "NUMBER"
    )]
    pub kube_api_qps: f32,

    /// Requests to the API server that may be made at once after a pause
    #[arg(long, env = "BAILIFF_KUBE_API_BURST", default_value_t = 30, value_name = "NUMBER")]
    pub kube_api_burst: u32,
}

// === impl KubeFlags ===

impl Validate for KubeFlags {
    fn validate(&self) -> Result<(), Error> {
        // Below this a single request would wait longer than a day.
        const SLOWEST: f32 = 1e-5;
        let qps = self.kube_api_qps;
        if !qps.is_finite() || (0.0..SLOWEST).contains(&qps) {
            let allowed = "allowed is a number above 0, or a negative one for no limit";
            return Err(Error::new("kube-api-qps", qps, allowed));
        }
        if self.kube_api_burst == 0 {
            return Err(Error::new("kube-api-burst", 0, "allowed is a number from 1"));
        }
        Ok(())
    }
}

impl Default for KubeArgs {
    fn default() -> Self {
        defaults()
    }
}
