//! `bailiff run`: bus and stages in one process, against a cluster.

use std::net::SocketAddr;
use std::process::ExitCode;

use bailiff_daemonset_syncer::DaemonsetSyncer;
use bailiff_event_bus::{Bus, Roles, Server, ServerOptions};
use bailiff_node_health_monitor::NodeHealthMonitor;
use bailiff_runtime::args::{TlsArgs, exit_invalid, go_bool, listen_address};
use bailiff_runtime::port::{self, Bounds, Port};
use bailiff_runtime::{CommonArgs, DeathPolicy, KubeArgs, LeaderElectionArgs, Leadership, Wakes, client, single_threaded};
use bailiff_stage::service;
use bailiff_stage::{Pace, Process, Stage};
use bailiff_taint_manager::TaintManager;
use bailiff_zone_evictor::ZoneEvictor;
use clap::ArgAction;
use tokio_util::sync::CancellationToken;

use crate::Failure;

/// Flags of `bailiff run`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  bailiff run --kubeconfig ~/.kube/config
  bailiff run --controllers='*,-daemonset-controller' --node-monitor-grace-period=40s
  bailiff run --leader-elect=false --profile upstream
  bailiff run --observe              beside kube-controller-manager: what would be done

The cluster's kube-controller-manager must not do the same work:
  --controllers=*,-node-lifecycle-controller,-taint-eviction-controller,-daemonset-controller
Nor must stages that run on their own, such as pods of the chart: this process stands for one Lease, bailiff-0, and they for one each, \
so that neither waits for the other. End one before the other begins.")]
pub struct Args {
    /// Where the event bus is served as well, for `bailiff bus` and stages of your own. Without it: not at all
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

    /// Read, decide, publish and trace, and write nothing to Kubernetes but the own Leases: beside the controllers that do the work
    #[arg(
        long, env = "BAILIFF_OBSERVE", default_value = "false", value_name = "BOOL", action = ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = go_bool
    )]
    observe: bool,

    /// Serve plain text also beyond this machine
    #[arg(
        long, env = "BAILIFF_INSECURE", default_value = "false", value_name = "BOOL", action = ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = go_bool
    )]
    insecure: bool,

    /// TLS.
    #[command(flatten)]
    tls: TlsArgs,

    /// The process.
    #[command(flatten)]
    common: CommonArgs,
}

/// Name of the service, of its Lease and of its trace resource.
const NAME: &str = "bailiff";

/// As often as that stage wakes that may wake most often: the others wake with it.
const WAKES: Pace = NodeHealthMonitor::WAKES;

/// Runs the command.
pub fn main(args: Args) -> Result<ExitCode, Failure> {
    // One thread, as in the binaries of the stages: what they do together is far from one processor's work.
    single_threaded(Wakes::new(WAKES))?.block_on(run(args))
}

async fn run(args: Args) -> Result<ExitCode, Failure> {
    let Args {
        bus_listen,
        stages,
        kube,
        leader_election,
        observe,
        insecure,
        tls,
        common,
    } = args;
    let mut ports = vec![("admin-listen", common.admin_listen)];
    ports.extend(bus_listen.map(|address| ("bus-listen", address)));
    if let Err(error) = tls.check(insecure, &ports) {
        exit_invalid(&error);
    }
    let mut process = Process::start(NAME, &common, &tls).await?;
    process.observes = observe;
    let server = Server::new(ServerOptions::default(), &process.clock, &process.seed);
    process.metrics.register("event_bus", |registry| server.register(registry));
    if let Some(address) = bus_listen {
        let listener = port::bind("bus-listen", address).await?;
        tracing::info!(address = %listener.local_addr()?, "Event bus is open");
        let port = Port::grpc("bus", listener, process.tls.clone(), Bounds::BUS, &process.ports);
        let serving = server
            .clone()
            .serve_port(port, Roles::default(), process.shutdown.token().clone());
        process.tasks.spawn_infallible("event bus", DeathPolicy::EndProcess, serving);
    }
    let bus = Bus::in_process(&server);
    let election = match client::connect(&kube, "leader-election").await {
        Ok(client) => client,
        Err(error) => exit_invalid(&error),
    };
    let release = CancellationToken::new();
    let leadership = process.elect(election, &leader_election, NAME, release.clone());
    let bailiff_scenario::StageOptions {
        monitor,
        taint,
        zone,
        daemonset,
    } = stages;
    let system = System {
        process: &process,
        kube: &kube,
        bus: &bus,
        leadership: &leadership,
    };
    system.lead::<NodeHealthMonitor>(monitor).await;
    system.lead::<TaintManager>(taint).await;
    system.lead::<ZoneEvictor>(zone).await;
    system.lead::<DaemonsetSyncer>(daemonset).await;
    Ok(process.finish(release).await)
}

/// What the stages of one process share.
struct System<'a> {
    process: &'a Process,
    kube: &'a KubeArgs,
    bus: &'a Bus,
    leadership: &'a Leadership,
}

impl System<'_> {
    /// Runs a stage once this process leads.
    async fn lead<S: Stage>(&self, options: S::Options) {
        let api = match self.process.connect::<S>(self.kube, self.leadership).await {
            Ok(api) => api,
            Err(error) => exit_invalid(&error),
        };
        service::lead::<S>(self.process, options, api, self.bus, self.leadership.clone());
    }
}
