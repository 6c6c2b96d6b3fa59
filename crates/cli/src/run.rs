//! `bailiff run`: bus and stages in one process, against a cluster.

use std::net::SocketAddr;
use std::process::ExitCode;

use bailiff_daemonset_syncer::DaemonsetSyncer;
use bailiff_event_bus::{Bus, Server, ServerOptions};
use bailiff_node_health_monitor::NodeHealthMonitor;
use bailiff_runtime::args::{exit_invalid, listen_address};
use bailiff_runtime::{CommonArgs, KubeArgs, LeaderElectionArgs, Leadership, client};
use bailiff_stage::{Env, Error, Process, Shard, Stage, service};
use bailiff_taint_manager::TaintManager;
use bailiff_zone_evictor::ZoneEvictor;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::Failure;

/// Flags of `bailiff run`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  bailiff run --kubeconfig ~/.kube/config
  bailiff run --controllers='*,-daemonset-controller' --node-monitor-grace-period=40s
  bailiff run --leader-elect=false --profile upstream

The cluster's kube-controller-manager must not do the same work:
  --controllers=*,-node-lifecycle-controller,-taint-eviction-controller,-daemonset-controller")]
pub struct Args {
    /// Where the event bus is served as well, for `bailiff bus` and stages of your own; loopback only. Without it: not at all
    #[arg(long, env = "BAILIFF_BUS_LISTEN", value_parser = listen_address, value_name = "ADDRESS")]
    bus_listen: Option<SocketAddr>,

    /// Flags of the stages.
    #[command(flatten)]
    stages: bailiff_scenario::StageOptions,

    /// The API server.
    #[command(flatten)]
    kube: KubeArgs,

    /// Leader election.
    #[command(flatten)]
    leader_election: LeaderElectionArgs,

    /// The process.
    #[command(flatten)]
    common: CommonArgs,
}

/// Name of the service, of its Lease and of its trace resource.
const NAME: &str = "bailiff";

/// Runs the command.
pub fn main(args: Args) -> Result<ExitCode, Failure> {
    crate::runtime()?.block_on(run(args))
}

async fn run(args: Args) -> Result<ExitCode, Failure> {
    let Args {
        bus_listen,
        stages,
        kube,
        leader_election,
        common,
    } = args;
    let process = Process::start(NAME, &common).await?;
    let server = Server::new(ServerOptions::default(), &process.clock, &process.seed);
    process.metrics.register("", |registry| server.register(registry));
    if let Some(address) = bus_listen {
        if let Err(error) = bailiff_runtime::args::require_private_listener("bus-listen", address, false) {
            exit_invalid(&error);
        }
        let listener = TcpListener::bind(address).await?;
        tracing::info!(address = %listener.local_addr()?, "Event bus is open");
        process.spawn("event bus", server.clone().serve(listener, process.shutdown.token().clone()));
    }
    let bus = Bus::in_process(&server);
    let connect = async |user: &str| match client::connect(&kube, user, &process.clock).await {
        Ok(client) => client,
        Err(error) => exit_invalid(&error),
    };
    let release = CancellationToken::new();
    let leadership = service::elect(
        &process,
        connect("leader-election").await,
        &leader_election,
        NAME,
        release.clone(),
    );
    let bailiff_scenario::StageOptions {
        monitor,
        taint,
        zone,
        daemonset,
    } = stages;
    spawn::<NodeHealthMonitor>(&process, monitor, connect(NodeHealthMonitor::NAME).await, &bus, &leadership);
    spawn::<TaintManager>(&process, taint, connect(TaintManager::NAME).await, &bus, &leadership);
    spawn::<ZoneEvictor>(&process, zone, connect(ZoneEvictor::NAME).await, &bus, &leadership);
    spawn::<DaemonsetSyncer>(&process, daemonset, connect(DaemonsetSyncer::NAME).await, &bus, &leadership);
    Ok(process.finish(release).await)
}

/// Runs a stage once this process leads. The bus is this process's own, so it issues the epochs.
fn spawn<S: Stage>(process: &Process, options: S::Options, client: kube::Client, bus: &Bus, leadership: &Leadership) {
    let env = process.env(S::NAME, client, bus, leadership, Shard::WHOLE);
    process.spawn(S::NAME, lead::<S>(options, env, leadership.clone()));
}

async fn lead<S: Stage>(options: S::Options, env: Env, mut leadership: Leadership) -> Result<(), Error> {
    let shutdown = env.shutdown.clone();
    tokio::select! {
        biased;
        () = shutdown.triggered() => return Ok(()),
        won = leadership.acquired() => { won.map_err(|lost| Error::LeadershipLost(lost.to_string()))?; }
    }
    tokio::select! {
        biased;
        () = leadership.lost() => Err(Error::LeadershipLost("the Lease was not renewed in time".to_owned())),
        ended = S::run(options, env) => ended,
    }
}
