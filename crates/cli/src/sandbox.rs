//! `bailiff sandbox`: a cluster in memory, and what may be done to one that runs.

mod apply;
mod nodes;

use std::path::PathBuf;
use std::process::ExitCode;

use bailiff_cluster::{Api, Decode};

use bailiff_runtime::args::{LogFilter, LogFormat, exit_invalid};
use bailiff_runtime::{Clock, Seed, Shutdown, telemetry};
use bailiff_sandbox::PLATFORM;
use bailiff_sandbox::args::SandboxArgs;
use clap::Subcommand;
use serde::Deserialize;

use crate::Failure;
use crate::cluster::{Kube, Target};
use nodes::{Setting, TaintChange};

/// Flags of `bailiff sandbox`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  bailiff sandbox --nodes 30 --zones 3 --write-kubeconfig sandbox.kubeconfig
  bailiff run --kubeconfig sandbox.kubeconfig
  bailiff sandbox set --kubeconfig sandbox.kubeconfig --zone sandbox-a alive=false
  kubectl --kubeconfig sandbox.kubeconfig get nodes

It keeps everything in memory and ends with SIGINT or SIGTERM."
)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    sandbox: SandboxArgs,

    /// Seed of everything that is random
    #[arg(long, env = "BAILIFF_SEED", default_value_t = 1, value_name = "NUMBER")]
    seed: u64,

    /// What is logged to stderr
    #[arg(long, env = "BAILIFF_LOG_LEVEL", default_value = "info", value_name = "FILTER")]
    log_level: LogFilter,
}

/// What may be done to a sandbox that runs: enough to play failures without kubectl.
#[derive(Clone, Debug, Subcommand)]
enum Command {
    /// Play failures of a sandbox's nodes, by the settings of their kubelets
    Set(SetArgs),
    /// Taint nodes of a sandbox by hand, or take a taint off
    Taint(TaintArgs),
    /// Create in a sandbox what files say, or change it to that
    Apply(ApplyArgs),
}

/// Flags of `bailiff sandbox set`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  bailiff sandbox set --zone sandbox-a alive=false      its kubelets fall silent
  bailiff sandbox set --zone sandbox-a alive-           and are back
  bailiff sandbox set --all lease-interval=1s

Each is an annotation of the node, below sandbox.bailiff.dev/; docs/sandbox.md lists them.")]
struct SetArgs {
    #[command(flatten)]
    target: Target,

    /// Settings and their values; with a dash behind the name it is as it was before
    #[arg(required = true, value_name = "NAME=VALUE|NAME-")]
    settings: Vec<Setting>,

    #[command(flatten)]
    kube: Kube,
}

/// Flags of `bailiff sandbox taint`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  bailiff sandbox taint --node node-a-000 maintenance=disk:NoExecute
  bailiff sandbox taint --node node-a-000 maintenance-")]
struct TaintArgs {
    #[command(flatten)]
    target: Target,

    /// The taint; with a dash behind it is taken off
    #[arg(value_name = "KEY[=VALUE]:EFFECT|KEY[:EFFECT]-")]
    taint: TaintChange,

    #[command(flatten)]
    kube: Kube,
}

/// Flags of `bailiff sandbox apply`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Example:
  bailiff sandbox apply pods.yaml budget.yaml

By server-side apply: what a file no longer says goes.")]
struct ApplyArgs {
    /// Objects as YAML, any number in a file
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    #[command(flatten)]
    kube: Kube,
}

/// Runs the command.
pub fn main(args: Args) -> Result<ExitCode, Failure> {
    match args.command {
        Some(command) => crate::runtime()?.block_on(change(command)),
        None => serve(args),
    }
}

/// Does something to a sandbox that runs.
async fn change(command: Command) -> Result<ExitCode, Failure> {
    let open = async |kube: Kube| -> Result<(kube::Client, Api), Failure> {
        let client = kube.client("sandbox").await;
        let api = Api::new(client.clone(), Clock::system(), bailiff_cluster::Metrics::default());
        require_sandbox(&api).await?;
        Ok((client, api))
    };
    let connect = async |kube: Kube| kube.asked(open).await;
    match command {
        Command::Set(SetArgs { target, settings, kube }) => {
            let (_, api) = connect(kube).await?;
            nodes::set(&api, &target, &settings).await?;
        }
        Command::Taint(TaintArgs { target, taint, kube }) => {
            let (_, api) = connect(kube).await?;
            nodes::taint(&api, &target, &taint).await?;
        }
        Command::Apply(ApplyArgs { files, kube }) => {
            let objects = files.iter().map(|file| apply::read(file)).collect::<Result<Vec<_>, _>>();
            let objects = objects.unwrap_or_else(|error| exit_invalid(&error));
            let (client, _) = connect(kube).await?;
            apply::apply(&client, objects.into_iter().flatten()).await?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Refuses any other cluster: these commands are for clusters that nobody needs.
async fn require_sandbox(api: &Api) -> Result<(), Failure> {
    #[derive(Deserialize)]
    struct Version {
        platform: String,
    }
    impl Decode for Version {}
    let version: Version = api.get("/version").await?;
    if version.platform == PLATFORM {
        return Ok(());
    }
    Err("the cluster of this kubeconfig is no sandbox".into())
}

/// Runs a sandbox until it is ended.
fn serve(args: Args) -> Result<ExitCode, Failure> {
    let Args {
        command: _,
        sandbox,
        seed,
        log_level,
    } = args;
    telemetry::init_logs(&log_level, LogFormat::Text)?;
    crate::runtime()?.block_on(async {
        let shutdown = Shutdown::new();
        shutdown.on_signals()?;
        let ran = bailiff_sandbox::args::run(&sandbox, Clock::system(), &Seed::new(seed), &shutdown).await;
        match ran {
            Err(error) if error.is_configuration() => exit_invalid(&error),
            ran => Ok(ran.map(|()| ExitCode::SUCCESS)?),
        }
    })
}
