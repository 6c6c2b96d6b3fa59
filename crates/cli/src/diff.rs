//! `bailiff diff`: two implementations beside each other, live.

mod told;

use std::ffi::{OsStr, OsString};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use bailiff_cluster::{Api, Metrics};
use bailiff_conformance::candidate::Candidate;
use bailiff_diff::duties::Duties;
use bailiff_diff::source::{OnBus, Source};
use bailiff_diff::stage::StageRecords;
use bailiff_diff::{Comparison, Tolerance, dry_run, run};
use bailiff_event_bus::{Bus, Roles, Server, ServerOptions, Shadow};
use bailiff_model::Topic;
use bailiff_runtime::args::{Error as Invalid, exit_invalid, listen_address, require_private_listener};
use bailiff_runtime::port::{self, Bounds, Port};
use bailiff_runtime::{BusArgs, Clock, GoDuration, Seed, Shutdown};
use clap::builder::PossibleValuesParser;
use serde_json::json;
use tokio::net::TcpListener;

use self::told::Told;
use crate::bus::{Shared, asked, reach, require_readable};
use crate::cluster::Kube;
use crate::{Failure, out, program};

/// How often it is looked whether the second program still runs.
const LOOK: Duration = Duration::from_millis(500);

/// The stages, and what they publish.
const STAGES: [(&str, Topic); 4] = [
    ("node-health-monitor", Topic::NodeHealth),
    ("taint-manager", Topic::EvictionIntents),
    ("zone-evictor", Topic::EvictionOutcomes),
    ("daemonset-syncer", Topic::DaemonRollouts),
];

/// Flags of `bailiff diff`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  bailiff diff --stage zone-evictor -- ./mine    a program of yours beside the one that works
  bailiff diff --stage zone-evictor -- bailiff zone-evictor --profile upstream
  bailiff diff --stage zone-evictor --listen 127.0.0.1:7461   and, elsewhere:
                       bailiff zone-evictor --observe --leader-elect=false --bus 127.0.0.1:7461
  bailiff diff --against-cluster                              with, elsewhere:
                       bailiff run --observe --leader-elect=false --bus-listen 127.0.0.1:7460
  bailiff diff --stage taint-manager --for 1h --min-agreement 0.99 --output json -- ./mine

The second one hears the real bus, and what it publishes goes to a bus of its own. What is started here reaches the API server on a \
way on which every write is a dry run, and is told where with KUBECONFIG and BAILIFF_BUS; docs/swap.md goes through it.

Exit code 0 if the agreement is at least --min-agreement, 1 if it is below, or if nothing could be compared.")]
pub struct Args {
    /// The stage of which two implementations are compared
    #[arg(long, value_parser = stages(), required_unless_present = "against_cluster", value_name = "STAGE")]
    stage: Option<String>,

    /// Compare what an observing Bailiff would do with what the cluster's own controllers do
    #[arg(long, conflicts_with_all = ["stage", "listen", "command"])]
    against_cluster: bool,

    /// Where the second one finds its bus
    #[arg(long, env = "BAILIFF_DIFF_LISTEN", default_value = "127.0.0.1:0", value_parser = listen_address, value_name = "ADDRESS")]
    listen: SocketAddr,

    /// By how much one side may be later than the other
    #[arg(long, default_value = "10s", value_name = "DURATION")]
    within: GoDuration,

    /// By how much, with what is done when its turn comes
    #[arg(long, default_value = "5m", value_name = "DURATION")]
    turn: GoDuration,

    /// End after this time; without it, when it is interrupted
    #[arg(long = "for", value_name = "DURATION")]
    duration: Option<GoDuration>,

    /// The share of decisions, from 0 to 1, that both have to make
    #[arg(long, default_value = "1", value_parser = share, value_name = "SHARE")]
    min_agreement: f64,

    /// Keep what the program says in this file
    #[arg(long, requires = "command", value_name = "FILE")]
    log: Option<PathBuf>,

    /// The cluster.
    #[command(flatten)]
    kube: Kube,

    #[command(flatten)]
    shared: Shared,

    /// The second program and its arguments, after `--`
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

fn stages() -> PossibleValuesParser {
    PossibleValuesParser::new(STAGES.map(|(stage, _)| stage))
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "allowed is a number from 0 to 1".to_owned())
}

/// What the comparison needs of this process.
struct Surroundings {
    clock: Clock,
    seed: Seed,
    shutdown: Shutdown,
    bus: Bus,
}

/// Runs the command.
pub fn main(args: Args) -> Result<ExitCode, Failure> {
    if let Some(word) = args.command.iter().find(|word| leads_elsewhere(word)) {
        let allowed = "the program is told by BAILIFF_BUS and KUBECONFIG where bus and API server are; \
            allowed are flags about something else";
        exit_invalid(&Invalid::new("COMMAND", word.to_string_lossy(), allowed));
    }
    if args.within.get().is_zero() {
        exit_invalid(&Invalid::new("within", "0s", "wanted is more than zero"));
    }
    program::require(&args.command);
    crate::runtime()?.block_on(async {
        let clock = Clock::system();
        let bus = reach(&args.shared.bus, &clock);
        let topic = args.stage.as_deref().and_then(topic_of);
        let topics = topic.map_or(Topic::ALL.to_vec(), |topic| vec![topic]);
        asked(&args.shared.bus, require_readable(&bus, &topics).await)?;
        let around = Surroundings {
            clock,
            seed: Seed::from_system(),
            shutdown: Shutdown::new(),
            bus,
        };
        let terms = Terms::of(&args);
        let done = match topic {
            Some(topic) => beside_stage(args, topic, &terms, &around).await,
            None => beside_cluster(args, &terms, &around).await,
        };
        around.shutdown.trigger();
        done
    })
}

/// Would lead a program of ours past the shadow and the dry runs: a flag counts for more than the environment.
fn leads_elsewhere(word: &OsStr) -> bool {
    let word = word.to_string_lossy();
    let flag = word.split('=').next().unwrap_or_default();
    ["--kubeconfig", "--bus", "--config"].contains(&flag)
}

fn topic_of(stage: &str) -> Option<Topic> {
    STAGES.iter().find(|(name, _)| *name == stage).map(|(_, topic)| *topic)
}

async fn beside_cluster(args: Args, terms: &Terms, around: &Surroundings) -> Result<ExitCode, Failure> {
    let client = args.kube.client("diff").await;
    let api = Api::new(client, around.clock.clone(), Metrics::default()).observing();
    let mut incumbent = bailiff_diff::cluster::Cluster::follow(&api, &around.seed);
    let mut candidate = OnBus::follow(&around.bus, Duties::default(), &around.clock, &around.seed);
    let told = Told::new(args.shared.output, ("the cluster", "Bailiff"), &around.clock);
    compare(&mut incumbent, &mut candidate, terms, None, told, around).await
}

async fn beside_stage(args: Args, topic: Topic, terms: &Terms, around: &Surroundings) -> Result<ExitCode, Failure> {
    let beside = Server::new(ServerOptions::default(), &around.clock, &around.seed);
    let address = open_shadow(&args.shared.bus, (args.listen, !args.command.is_empty()), &beside, around).await?;
    let scratch = tempfile::tempdir()?;
    let program = if args.command.is_empty() {
        out::note(format_args!(
            "waiting for a second one, to be started with BAILIFF_BUS={address}, with --observe --leader-elect=false if it is one of ours"
        ));
        None
    } else {
        let kubeconfig = scratch.path().join("kubeconfig");
        open_dry_run(args.kube, &kubeconfig, around).await?;
        let log = args.log.unwrap_or_else(|| scratch.path().join("log"));
        let told = [
            ("KUBECONFIG", kubeconfig.clone().into()),
            ("BAILIFF_KUBECONFIG", kubeconfig.into()),
            ("BAILIFF_BUS", address.to_string().into()),
            ("BAILIFF_LEADER_ELECT", "false".into()),
            ("BAILIFF_ADMIN_LISTEN", "127.0.0.1:0".into()),
        ];
        let told = told.map(|(name, value): (&str, OsString)| (name.to_owned(), value));
        let mut program = Candidate::new(&args.command, told.into(), &log);
        program.start()?;
        Some(program)
    };
    let mut incumbent = OnBus::follow(&around.bus, StageRecords::of(topic), &around.clock, &around.seed);
    let beside = Bus::in_process(&beside);
    let mut candidate = OnBus::follow(&beside, StageRecords::of(topic), &around.clock, &around.seed);
    let told = Told::new(args.shared.output, ("the incumbent", "the candidate"), &around.clock);
    compare(&mut incumbent, &mut candidate, terms, program, told, around).await
}

/// Serves the shadow of the bus; returns where.
async fn open_shadow(
    bus: &BusArgs,
    (listen, is_ours): (SocketAddr, bool),
    beside: &Server,
    around: &Surroundings,
) -> Result<SocketAddr, Failure> {
    let allowed = if is_ours {
        require_private_listener("listen", listen, false)
    } else {
        bus.tls.check(bus.insecure, &[("listen", listen)])
    };
    if let Err(error) = allowed {
        exit_invalid(&error);
    }
    let listener = port::bind("listen", listen).await?;
    let address = listener.local_addr()?;
    // What is started here is on this machine, and told no certificate.
    let tls = if is_ours {
        None
    } else {
        bus.tls.load(&around.clock).unwrap_or_else(|error| exit_invalid(&error))
    };
    let port = Port::grpc("shadow", listener, tls, Bounds::BUS, &port::Metrics::default());
    let serving = Shadow::of(&around.bus, beside).serve_port(port, Roles::default(), around.shutdown.token().clone());
    // Ends with the command, whose end triggers the shutdown.
    tokio::spawn(serving);
    Ok(address)
}

/// Serves the way on which writes are dry runs, and writes a kubeconfig that leads over it.
async fn open_dry_run(kube: Kube, kubeconfig: &std::path::Path, around: &Surroundings) -> Result<(), Failure> {
    let client = kube.client("diff").await;
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let (address, secret) = (listener.local_addr()?, around.seed.fork("dry-run").uuid());
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "dry-run",
        "clusters": [{"name": "dry-run", "cluster": {"server": format!("http://{address}/{secret}")}}],
        "users": [{"name": "dry-run", "user": {}}],
        "contexts": [{"name": "dry-run", "context": {"cluster": "dry-run", "user": "dry-run"}}],
    });
    std::fs::write(kubeconfig, config.to_string())?;
    let stop = around.shutdown.token().clone();
    // Ends with the command, as above.
    tokio::spawn(async move { dry_run::serve(listener, client, &secret, stop).await });
    Ok(())
}

/// What the sides are held to, and for how long.
struct Terms {
    tolerance: Tolerance,
    min_agreement: f64,
    /// Until somebody ends it, if it is not said.
    duration: Option<Duration>,
}

impl Terms {
    fn of(args: &Args) -> Self {
        let within = args.within.get();
        Self {
            tolerance: Tolerance {
                within,
                turn: args.turn.get().max(within),
            },
            min_agreement: args.min_agreement,
            duration: args.duration.map(GoDuration::get),
        }
    }
}

/// When it ends.
struct End {
    after: Option<Duration>,
    program: Option<Candidate>,
}

impl End {
    /// Waits for it. An error is that of the program, which ends only if something is wrong.
    async fn comes(&mut self) -> Result<(), Failure> {
        let time_is_over = async {
            match self.after {
                Some(after) => tokio::time::sleep(after).await,
                None => std::future::pending().await,
            }
        };
        let program_ends = async {
            loop {
                tokio::time::sleep(LOOK).await;
                if let Some(program) = &mut self.program
                    && let Some(status) = program.ended()
                {
                    return match program.tail() {
                        tail if tail.is_empty() => format!("the program ended ({status}) and said nothing"),
                        tail => format!("the program ended ({status}); the end of what it said:\n{tail}"),
                    };
                }
            }
        };
        tokio::select! {
            biased;
            interrupted = crate::interrupted() => Ok(interrupted?),
            () = time_is_over => Ok(()),
            said = program_ends => Err(said.into()),
        }
    }
}

async fn compare(
    incumbent: &mut impl Source,
    candidate: &mut impl Source,
    terms: &Terms,
    program: Option<Candidate>,
    mut told: Told,
    around: &Surroundings,
) -> Result<ExitCode, Failure> {
    let mut comparison = Comparison::new(terms.tolerance);
    let mut end = End {
        after: terms.duration,
        program,
    };
    let ended = tokio::select! {
        biased;
        ended = end.comes() => ended,
        () = run(incumbent, candidate, &mut comparison, &around.clock, &mut told) => Ok(()),
    };
    if let Some(program) = &mut end.program {
        program.kill().await;
    }
    let score = comparison.score();
    let told = told.ends(&score);
    ended?;
    told?;
    Ok(if score.suffices(terms.min_agreement) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
