//! From a command line to a running stage: what the binary of each stage does.

use std::net::SocketAddr;
use std::process::ExitCode;

use bailiff_event_bus::Bus;
use bailiff_runtime::args::{listen_address, require_private_listener};
use bailiff_runtime::{
    BusArgs, CommonArgs, KubeArgs, LeaderElectionArgs, Leadership, client, lease, parse_or_exit, shutdown::chain,
};
use clap::Parser;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::env::{Error, Shard, Stage};
use crate::health;
use crate::process::Process;

/// Command line of a stage's binary.
#[derive(Debug, Parser)]
#[command(version)]
pub struct Args<O: clap::Args> {
    /// Where gRPC health is served; port 0 takes any free one and logs it
    #[arg(long, env = "BAILIFF_LISTEN", default_value = "127.0.0.1:0", value_parser = listen_address, value_name = "ADDRESS")]
    pub listen: SocketAddr,

    /// Flags of the stage.
    #[command(flatten)]
    pub stage: O,

    /// The bus.
    #[command(flatten)]
    pub bus: BusArgs,

    /// The API server.
    #[command(flatten)]
    pub kube: KubeArgs,

    /// Leader election.
    #[command(flatten)]
    pub leader_election: LeaderElectionArgs,

    /// The process.
    #[command(flatten)]
    pub common: CommonArgs,
}

/// Why a stage could not start.
#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error(transparent)]
    Process(#[from] crate::process::Error),
    #[error("cannot listen on '{address}' for '--listen'")]
    Bind { address: SocketAddr, source: std::io::Error },
}

/// Runs the stage's binary: parses the command line, runs until told to stop, answers the exit code.
pub fn main<S: Stage>() -> ExitCode {
    let args: Args<S::Options> = parse_or_exit();
    if let Err(error) = require_private_listener("listen", args.listen, args.bus.insecure) {
        bailiff_runtime::args::exit_invalid(&error);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        // One thread decides, one decodes what the watches bring.
        .worker_threads(2)
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error),
    };
    match runtime.block_on(run::<S>(args)) {
        Ok(code) => code,
        Err(error) => failed(&error),
    }
}

fn failed(error: &(dyn std::error::Error + 'static)) -> ExitCode {
    eprintln!("error: {}", chain(error));
    ExitCode::FAILURE
}

async fn run<S: Stage>(args: Args<S::Options>) -> Result<ExitCode, StartError> {
    let Args {
        listen,
        stage,
        bus,
        kube,
        leader_election,
        common,
    } = args;
    let process = Process::start(S::NAME, &common).await?;
    let listener = TcpListener::bind(listen)
        .await
        .map_err(|source| StartError::Bind { address: listen, source })?;
    let health = health::serve(S::NAME, listener, process.readiness.clone(), process.shutdown.clone());
    process.spawn("grpc health", health);
    let connect = |user: &'static str| {
        let (kube, clock) = (kube.clone(), process.clock.clone());
        async move { client::connect(&kube, user, &clock).await }
    };
    let (client, election) = match (connect(S::NAME).await, connect("leader-election").await) {
        (Ok(client), Ok(election)) => (client, election),
        (Err(error), _) | (_, Err(error)) => bailiff_runtime::args::exit_invalid(&error),
    };
    let release = CancellationToken::new();
    let leadership = elect(&process, election, &leader_election, S::NAME, release.clone());
    let bus = Bus::connect(&bus.bus.http_url());
    let running = lead::<S>(&process, stage, client, bus, leadership);
    process.spawn("stage", running);
    Ok(process.finish(release).await)
}

/// Stands for election, or leads without one.
pub fn elect(
    process: &Process,
    client: kube::Client,
    args: &LeaderElectionArgs,
    name: &str,
    release: CancellationToken,
) -> Leadership {
    if !args.leader_elect {
        return Leadership::always(0);
    }
    let options = lease::Options::new(args, name, 0, process.identity.clone());
    let metrics = lease::Metrics::register(&process.metrics);
    let (leadership, election) = lease::elect(client, options, &metrics, &process.clock, &process.seed, release);
    process.spawn("leader election", election);
    leadership
}

/// Waits until this process leads, then runs the stage until the shutdown begins or leadership is lost.
fn lead<S: Stage>(
    process: &Process,
    options: S::Options,
    client: kube::Client,
    bus: Bus,
    mut leadership: Leadership,
) -> impl Future<Output = Result<(), Error>> + Send + use<S> {
    let shutdown = process.shutdown.clone();
    let standby = process.readiness.check("leadership");
    let prepared = process.env(S::NAME, client, &bus, &leadership, Shard::WHOLE);
    async move {
        standby.note("standby: waiting for the leader Lease");
        let epoch = tokio::select! {
            biased;
            () = shutdown.triggered() => return Ok(()),
            epoch = leadership.acquired() => epoch.map_err(|lost| Error::LeadershipLost(lost.to_string()))?,
        };
        standby.ok();
        let env = crate::env::Env {
            shard: Shard { epoch, ..Shard::WHOLE },
            ..prepared
        };
        tokio::select! {
            biased;
            () = leadership.lost() => Err(Error::LeadershipLost("the Lease was not renewed in time".to_owned())),
            ended = S::run(options, env) => ended,
        }
    }
}
