//! `bailiff sandbox`.

use std::process::ExitCode;

use bailiff_runtime::args::{LogFilter, LogFormat};
use bailiff_runtime::{Clock, Seed, Shutdown, telemetry};
use bailiff_sandbox::args::SandboxArgs;

use crate::Failure;

/// Flags of `bailiff sandbox`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  bailiff sandbox --nodes 30 --zones 3 --write-kubeconfig sandbox.kubeconfig
  kubectl --kubeconfig sandbox.kubeconfig get nodes
  kubectl --kubeconfig sandbox.kubeconfig annotate node node-a-000 sandbox.bailiff.dev/alive=false
  bailiff run --kubeconfig sandbox.kubeconfig

It keeps everything in memory and ends with SIGINT or SIGTERM.")]
pub struct Args {
    #[command(flatten)]
    sandbox: SandboxArgs,

    /// Seed of everything that is random
    #[arg(long, env = "BAILIFF_SEED", default_value_t = 1, value_name = "NUMBER")]
    seed: u64,

    /// What is logged to stderr
    #[arg(long, env = "BAILIFF_LOG_LEVEL", default_value = "info", value_name = "FILTER")]
    log_level: LogFilter,
}

/// Runs the command.
pub fn main(args: Args) -> Result<ExitCode, Failure> {
    let Args {
        sandbox,
        seed,
        log_level,
    } = args;
    telemetry::init_logs(&log_level, LogFormat::Text)?;
    crate::runtime()?.block_on(async {
        let shutdown = Shutdown::new();
        shutdown.on_signals()?;
        bailiff_sandbox::args::run(&sandbox, Clock::system(), &Seed::new(seed), &shutdown).await?;
        Ok(ExitCode::SUCCESS)
    })
}
