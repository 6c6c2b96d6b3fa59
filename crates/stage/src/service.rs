//! From a command line to a running stage: what a process of each stage does.

use std::marker::PhantomData;
use std::net::SocketAddr;
use std::process::ExitCode;

use bailiff_cluster::Api;
use bailiff_event_bus::Bus;
use bailiff_model::Shard;
use bailiff_runtime::admin::Check;
use bailiff_runtime::args::{Error as FlagError, exit_invalid, go_bool, listen_address};
use bailiff_runtime::client::Limiter;
use bailiff_runtime::port::{self, Bounds, Port};
use bailiff_runtime::{
    BusArgs, CommonArgs, DeathPolicy, KubeArgs, LeaderElectionArgs, Leadership, Wakes, client, parse_or_exit, shutdown::complain,
    single_threaded,
};
use clap::{ArgAction, ArgMatches, Command, CommandFactory, FromArgMatches, Parser};
use tokio_util::sync::CancellationToken;

use crate::env::{Env, Error, Stage};
use crate::health;
use crate::process::Process;
use crate::shards::{self, Reach};

/// More shards than anybody has processors for; the bus takes no more.
const MOST_SHARDS: i64 = 256;

/// Command line of a stage as a process of its own.
#[derive(Clone, Debug, Parser)]
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

    /// Into how many shards the work is divided, with a Lease each: replicas share them out. All replicas must be told the same number
    #[arg(long, env = "BAILIFF_SHARDS", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=MOST_SHARDS), value_name = "NUMBER")]
    pub shards: u32,

    /// Read, decide, publish and trace, and write nothing to Kubernetes but the own Leases: beside the controllers that do the work
    #[arg(
        long, env = "BAILIFF_OBSERVE", default_value = "false", value_name = "BOOL", action = ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = go_bool
    )]
    pub observe: bool,

    /// The process.
    #[command(flatten)]
    pub common: CommonArgs,
}

/// Why a stage could not start.
#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error(transparent)]
    Process(#[from] crate::process::Error),
    #[error(transparent)]
    Bind(#[from] port::BindError),
}

/// The command line under the stage's own name.
#[derive(Debug)]
struct CommandLine<S: Stage> {
    args: Args<S::Options>,
    stage: PhantomData<fn() -> S>,
}

// === impl CommandLine ===

impl<S: Stage> Clone for CommandLine<S> {
    fn clone(&self) -> Self {
        Self {
            args: self.args.clone(),
            stage: PhantomData,
        }
    }
}

impl<S: Stage> CommandFactory for CommandLine<S> {
    fn command() -> Command {
        Args::<S::Options>::command().name(S::NAME).bin_name(S::NAME).about(S::ABOUT)
    }

    fn command_for_update() -> Command {
        Self::command()
    }
}

impl<S: Stage> FromArgMatches for CommandLine<S> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self {
            args: Args::from_arg_matches(matches)?,
            stage: PhantomData,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.args.update_from_arg_matches(matches)
    }
}

impl<S: Stage> Parser for CommandLine<S> {}

/// Runs the stage's binary: parses the command line, and [serves](serve).
pub fn main<S: Stage>() -> ExitCode {
    let CommandLine { args, stage: _ } = parse_or_exit::<CommandLine<S>>();
    serve::<S>(args)
}

/// Runs the stage as this process, until told to stop; answers the exit code.
pub fn serve<S: Stage>(args: Args<S::Options>) -> ExitCode {
    let ports = [("listen", args.listen), ("admin-listen", args.common.admin_listen)];
    if let Err(error) = args.bus.tls.check(args.bus.insecure, &ports) {
        exit_invalid(&error);
    }
    if args.shards > 1 && !args.leader_election.leader_elect {
        let allowed = "without leader election (--leader-elect=false) allowed is 1: Leases decide who works on which shard";
        exit_invalid(&FlagError::new("shards", args.shards, allowed));
    }
    // One thread: what comes is handed from task to task some hundred times a second, and to wake another thread for it costs many
    // times what is done with it.
    let runtime = match single_threaded(Wakes::new(S::WAKES)) {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error),
    };
    match runtime.block_on(run::<S>(args)) {
        Ok(code) => code,
        Err(error) => failed(&error),
    }
}

fn failed(error: &(dyn std::error::Error + 'static)) -> ExitCode {
    complain(error);
    ExitCode::FAILURE
}

async fn run<S: Stage>(args: Args<S::Options>) -> Result<ExitCode, StartError> {
    let Args {
        listen,
        stage,
        bus,
        kube,
        leader_election,
        shards,
        observe,
        common,
    } = args;
    let mut process = Process::start(S::NAME, &common, &bus.tls).await?;
    process.observes = observe;
    let bus = Bus::reach(&bus, process.tls.as_ref()).unwrap_or_else(|error| exit_invalid(&error));
    let listener = port::bind("listen", listen).await?;
    tracing::info!(address = %listener.local_addr().unwrap_or(listen), "gRPC health is open");
    let port = Port::grpc("health", listener, process.tls.clone(), Bounds::HEALTH, &process.ports);
    let health = health::serve_port(S::NAME, port, process.readiness.clone(), process.shutdown.clone());
    process.tasks.spawn_infallible("grpc health", DeathPolicy::EndProcess, health);
    let clients = async {
        let election = client::connect(&kube, "leader-election").await?;
        Ok::<_, client::Error>((election, client::connect_paced(&kube, S::NAME, &process.clock).await?))
    };
    let (election, transport) = match clients.await {
        Ok(clients) => clients,
        Err(error) => exit_invalid(&error),
    };
    let release = CancellationToken::new();
    let replica = process.replica(S::NAME, election, shards, release.clone());
    let reach = Reach {
        transport,
        limiter: Limiter::of(&kube, &process.clock),
        bus,
        leader_election,
    };
    shards::stand::<S>(&replica, &reach.with(stage), shards);
    Ok(process.finish(release).await)
}

/// Runs the stage `S` in `process` once this process leads, until the shutdown begins or leadership is lost. The bus is this process's
/// own, and issues the epochs.
///
/// The end of the stage, whatever it is, is the end of the process: nobody may hold a Lease and do nothing with it.
pub fn lead<S: Stage>(process: &Process, options: S::Options, api: Api, bus: &Bus, leadership: Leadership) {
    let standby = process.readiness.check(format!("{}: leadership", S::NAME));
    let env = process.host(S::NAME).env(api, bus, Shard::WHOLE, 0);
    process.spawn(S::NAME, run_while_leading::<S>(options, env, leadership, standby));
}

async fn run_while_leading<S: Stage>(
    options: S::Options,
    env: Env,
    mut leadership: Leadership,
    standby: Check,
) -> Result<(), Error> {
    match shards::acquired(&mut leadership, &env.host.shutdown, &standby).await? {
        Some(_) => shards::work::<S>(options, env, leadership).await.map(|_| ()),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use bailiff_event_bus::{Server, ServerOptions};
    use bailiff_model::{Shard, Wall};
    use bailiff_runtime::{Clock, Seed};

    use super::*;
    use crate::env::Host;
    use crate::flags::SharedArgs;

    /// A stage that ends by itself if it is given a profile, and says in which epoch it ran.
    #[derive(Debug)]
    struct Brief;

    impl Stage for Brief {
        const NAME: &'static str = "brief-stage";
        const ABOUT: &'static str = "Does little, and says so";
        type Options = SharedArgs;

        async fn run(options: SharedArgs, env: Env) -> Result<(), Error> {
            env.host.readiness.check("epoch").note(env.epoch.to_string());
            if options.profile == bailiff_model::Profile::Bailiff {
                env.host.shutdown.triggered().await;
            }
            Ok(())
        }
    }

    fn mk_env() -> Env {
        let (clock, seed) = (Clock::virtual_from(Wall::UNIX_EPOCH), Seed::new(1));
        let nobody = tower::service_fn(|_: http::Request<kube::client::Body>| {
            std::future::pending::<Result<http::Response<kube::client::Body>, Infallible>>()
        });
        let client = kube::Client::new(nobody, "default");
        let api = Api::new(client, clock.clone(), bailiff_cluster::Metrics::default());
        let bus = Bus::in_process(&Server::new(ServerOptions::default(), &clock, &seed));
        Host::new(&clock, &seed, "me").env(api, &bus, Shard::WHOLE, 0)
    }

    fn parse(flags: &[&str]) -> CommandLine<Brief> {
        CommandLine::try_parse_from([&["/some/where/bailiff-stage"], flags].concat()).expect("allowed")
    }

    async fn run_brief(env: &Env, flags: &[&str], leadership: Leadership) -> Result<(), Error> {
        let (options, standby) = (parse(flags).args.stage, env.host.readiness.check("leadership"));
        run_while_leading::<Brief>(options, env.clone(), leadership, standby).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_stage_that_ends_by_itself_has_failed() {
        let env = mk_env();
        let ended = run_brief(&env, &["--profile=upstream"], Leadership::always(7)).await;
        assert!(matches!(ended, Err(Error::Ended)), "{ended:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_stage_that_was_asked_to_end_has_not() {
        let env = mk_env();
        let ended = tokio::join!(run_brief(&env, &[], Leadership::always(7)), async {
            tokio::time::sleep(std::time::Duration::from_secs(9)).await;
            env.host.shutdown.trigger();
        });
        assert!(ended.0.is_ok());
        let notes: Vec<_> = env
            .host
            .readiness
            .readiness()
            .into_iter()
            .filter_map(|check| check.note)
            .collect();
        assert_eq!(notes, ["0"], "the bus issues the epoch");
    }

    #[test]
    fn the_command_line_carries_the_name_of_the_stage() {
        CommandLine::<Brief>::command().debug_assert();
        let refused = CommandLine::<Brief>::try_parse_from(["/some/where/else", "--no-such-flag"]).expect_err("unknown");
        assert!(refused.to_string().contains("Usage: brief-stage"), "{refused}");
        let help = CommandLine::<Brief>::command().render_help().to_string();
        assert!(help.starts_with("Does little, and says so"), "{help}");
        let version = CommandLine::<Brief>::try_parse_from(["x", "--version"])
            .expect_err("text")
            .to_string();
        assert!(version.starts_with("brief-stage "), "{version}");
    }
}
