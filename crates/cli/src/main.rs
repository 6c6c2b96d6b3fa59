//! `bailiff`: the bus and each stage as a process of its own, all of them in one, a cluster to try them on, and what looks at them.

mod bus;
mod certs;
mod cluster;
mod conformance;
mod demo;
mod diff;
mod events;
mod explain;
mod out;
mod pause;
mod program;
mod run;
mod sandbox;
mod scenario;
mod soak;
mod status;
mod top;

use std::process::ExitCode;

use bailiff_daemonset_syncer::DaemonsetSyncer;
use bailiff_node_health_monitor::NodeHealthMonitor;
use bailiff_runtime::{Allocator, parse_or_exit, shutdown::chain};
use bailiff_stage::{Stage, service};
use bailiff_taint_manager::TaintManager;
use bailiff_zone_evictor::ZoneEvictor;
use clap::{Parser, Subcommand};
use tokio::signal::unix::{SignalKind, signal};

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

/// Due process for pod eviction: node health, taint eviction and DaemonSets as four services around an event bus.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "bailiff",
    version,
    propagate_version = true,
    after_help = "Examples:
  bailiff demo                               a zone of a sandbox cluster dies and comes back
  bailiff run --kubeconfig ~/.kube/config --bus-listen 127.0.0.1:7460
                                             where kube-controller-manager leaves this to it
  bailiff status                             how it stands
  bailiff explain pod web-1                  why a pod goes, or stays"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, Debug, Subcommand)]
enum Command {
    /// Watch a zone of a sandbox cluster die and come back
    Demo(demo::Args),
    /// Run the bus and the four stages in this process, against a cluster
    Run(Box<run::Args>),
    /// The event bus: carries decisions from stage to stage
    #[command(after_help = "Examples:
  bailiff event-bus
  bailiff event-bus --listen 0.0.0.0:7460 --tls-cert-file certs/event-bus.crt \\
    --tls-private-key-file certs/event-bus.key --tls-ca-file certs/ca.crt")]
    EventBus(Box<bailiff_event_bus::service::Args>),
    #[command(about = NodeHealthMonitor::ABOUT, after_help = "Examples:
  bailiff node-health-monitor --kubeconfig ~/.kube/config --bus 127.0.0.1:7460
  bailiff node-health-monitor --node-monitor-grace-period 40s --print-config")]
    NodeHealthMonitor(Box<StageArgs<NodeHealthMonitor>>),
    #[command(about = TaintManager::ABOUT, after_help = "Examples:
  bailiff taint-manager --kubeconfig ~/.kube/config --bus 127.0.0.1:7460
  bailiff taint-manager --observe --leader-elect=false")]
    TaintManager(Box<StageArgs<TaintManager>>),
    #[command(about = ZoneEvictor::ABOUT, after_help = "Examples:
  bailiff zone-evictor --kubeconfig ~/.kube/config --bus 127.0.0.1:7460
  bailiff zone-evictor --eviction-method evict --node-eviction-rate 0.2")]
    ZoneEvictor(Box<StageArgs<ZoneEvictor>>),
    #[command(about = DaemonsetSyncer::ABOUT, after_help = "Examples:
  bailiff daemonset-syncer --kubeconfig ~/.kube/config --bus 127.0.0.1:7460
  bailiff daemonset-syncer --concurrent-daemonset-syncs 4")]
    DaemonsetSyncer(Box<StageArgs<DaemonsetSyncer>>),
    /// Run a cluster in memory: an API server with simulated kubelets
    Sandbox(Box<sandbox::Args>),
    /// Play recorded scenarios
    Scenario(scenario::Args),
    /// Hold evictions and what leads to them: on a node, in a zone, or everywhere
    Pause(Box<pause::PauseArgs>),
    /// End a pause
    Resume(pause::ResumeArgs),
    /// List the pauses there are
    Pauses(pause::ListArgs),
    /// Tell why a pod, node, zone or DaemonSet is as it is, what it waits for, and what would stop it
    Explain(explain::Args),
    /// Show everything on one screen: stages, nodes, zones, pods that are to go, DaemonSets
    Status(status::Args),
    /// The same as a live view: zones, queues, timers, rollouts, stages
    Top(top::Args),
    /// Print what the stages say to each other: what was seen, decided and done
    Events(events::Args),
    /// Make a CA and a certificate for each role, to try mutual TLS with
    Certs(certs::Args),
    /// Judge a program as a stage: run it against a cluster and a bus made for it, and see what it does
    Conformance(Box<conformance::Args>),
    /// Hold two implementations of a stage, or Bailiff and the cluster's own controllers, against each other
    Diff(Box<diff::Args>),
    /// Look at an event bus, or reset an epoch of it
    Bus(bus::Args),
}

/// Command line of a stage as a process of its own.
type StageArgs<S> = service::Args<<S as Stage>::Options>;

fn main() -> ExitCode {
    let Cli { command } = parse_or_exit();
    let done = match command {
        Command::Demo(args) => demo::main(args),
        Command::Run(args) => run::main(*args),
        Command::EventBus(args) => Ok(bailiff_event_bus::service::serve(*args)),
        Command::NodeHealthMonitor(args) => Ok(service::serve::<NodeHealthMonitor>(*args)),
        Command::TaintManager(args) => Ok(service::serve::<TaintManager>(*args)),
        Command::ZoneEvictor(args) => Ok(service::serve::<ZoneEvictor>(*args)),
        Command::DaemonsetSyncer(args) => Ok(service::serve::<DaemonsetSyncer>(*args)),
        Command::Sandbox(args) => sandbox::main(*args),
        Command::Scenario(args) => scenario::main(args),
        Command::Pause(args) => pause::pause(*args),
        Command::Resume(args) => pause::resume(args),
        Command::Pauses(args) => pause::pauses(args),
        Command::Explain(args) => explain::main(args),
        Command::Status(args) => status::main(args),
        Command::Top(args) => top::main(args),
        Command::Events(args) => events::main(args),
        Command::Certs(args) => certs::main(args),
        Command::Conformance(args) => conformance::main(*args),
        Command::Diff(args) => diff::main(*args),
        Command::Bus(args) => bus::main(args),
    };
    done.unwrap_or_else(|error| {
        out::note(format_args!("error: {}", chain(&*error)));
        ExitCode::FAILURE
    })
}

/// What a command may fail with; `main` prints the chain of causes.
type Failure = Box<dyn std::error::Error>;

/// Waits until somebody ends the command: SIGINT or SIGTERM. From when this is first polled neither ends the process by itself any more.
async fn interrupted() -> std::io::Result<()> {
    let (mut interrupted, mut terminated) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    tokio::select! {
        biased;
        _ = interrupted.recv() => {}
        _ = terminated.recv() => {}
    }
    Ok(())
}

/// A runtime for a command that serves or waits in real time.
fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn check(command: &clap::Command) {
        let name = command.get_bin_name().unwrap_or_default();
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        assert!(
            help.starts_with("Example") && help.contains(&format!("\n  {name}")),
            "{name}: {help}"
        );
        // Longer ones are broken, and cannot be typed as they stand.
        let longest = help.lines().filter(|line| line.starts_with("  ")).map(str::len).max();
        assert!(longest <= Some(100), "{name}: {help}");
        let output = command.get_arguments().find(|arg| arg.get_id() == "output");
        assert!(output.is_none_or(|arg| arg.get_short() == Some('o')), "{name}");
        for command in command.get_subcommands().filter(|command| command.get_name() != "help") {
            check(command);
        }
    }

    #[test]
    fn every_command_shows_an_example_and_takes_the_output_as_kubectl_does() {
        let mut cli = Cli::command();
        cli.build();
        check(&cli);
    }
}
