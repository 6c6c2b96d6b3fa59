//! Flags of `bailiff-bench`.

use std::path::PathBuf;

use bailiff_runtime::GoDuration;
use bailiff_runtime::args::{Error, Valid, Validate};
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::load::LoadArgs;
use crate::report;
use crate::situations::{Parts, Situation, TABLE};

/// What Bailiff costs and how fast it is, measured on this machine, alone or beside another program that does the same.
#[derive(Clone, Debug, Parser)]
#[command(name = "bailiff-bench", version, args_conflicts_with_subcommands = true, after_help = EXAMPLES)]
pub struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    #[command(flatten)]
    pub(crate) bench: BenchArgs,
}

const EXAMPLES: &str = "Examples:
  cargo run --release -p bailiff-bench                                       5,000 nodes and 30,000 pods in a sandbox
  cargo run --release -p bailiff-bench -- --nodes 500 --pods 3000 --situations rest,node-failure
  cargo run --release -p bailiff-bench -- --together                         `bailiff run`, one process instead of five
  cargo run --release -p bailiff-bench -- --output json --plot bench.svg > bench.json
  cargo run --release -p bailiff-bench -- --kubeconfig test.kubeconfig       a kube-apiserver without these three controllers
  cargo run --release -p bailiff-bench -- --against 'kube-controller-manager --kubeconfig={kubeconfig}
      --controllers=node-lifecycle-controller,taint-eviction-controller,daemonset-controller
      --node-monitor-grace-period={node-monitor-grace-period} --node-eviction-rate={node-eviction-rate}
      --kube-api-qps={kube-api-qps} --kube-api-burst={kube-api-qps}'

Programs are processes of their own; what makes the load is another one. docs/performance.md says how each figure is measured.
Exit code 0: everything was played. 1: a situation did not come about within its bound, or something was evicted before its time.
64: a wrong flag.";

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Command {
    /// Be the kubelets of an API server: started by a benchmark with --kubeconfig
    #[command(hide = true)]
    Load(LoadArgs),
}

/// Valid flags.
pub type BenchArgs = Valid<BenchFlags>;

/// What is measured.
#[derive(Args, Clone, Debug, PartialEq)]
#[command(about = None, long_about = None)]
pub struct BenchFlags {
    /// How many nodes
    #[arg(long, default_value_t = 5_000, value_name = "COUNT")]
    pub nodes: usize,

    /// How many plain pods; rounded up to the same number on each node
    #[arg(long, default_value_t = 30_000, value_name = "COUNT")]
    pub pods: usize,

    /// In how many zones
    #[arg(long, default_value_t = 3, value_name = "COUNT")]
    pub zones: usize,

    /// An API server to measure against, without nodes, and without anybody who does what is measured: nodes and pods are made there,
    /// and removed at the end. Without it a sandbox is started
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Another program to play the same with in a fresh run. {kubeconfig}, {node-monitor-grace-period}, {node-eviction-rate} and
    /// {kube-api-qps} are replaced; no shell is involved, and what it starts itself is not counted
    #[arg(long, value_name = "COMMAND")]
    pub against: Option<String>,

    /// Measure the bus and the stages in one process, as `bailiff run` has them, instead of in one each
    #[arg(long)]
    pub together: bool,

    /// What is played, with commas in between
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Situation::value_variants().to_vec(), value_name = "SITUATION")]
    pub situations: Vec<Situation>,

    /// How long nothing happens at rest
    #[arg(long, default_value_t = GoDuration::from_secs(60), value_name = "DURATION")]
    pub rest: GoDuration,

    /// Share of the nodes that fail together
    #[arg(long, default_value_t = 0.1, value_name = "SHARE")]
    pub mass: f64,

    /// How many nodes are tainted by hand; a fifth of them at most
    #[arg(long, default_value_t = 1_000, value_name = "COUNT")]
    pub tainted: usize,

    /// How long a node may be silent, for every program
    #[arg(long, default_value_t = GoDuration::from_secs(50), value_name = "DURATION")]
    pub node_monitor_grace_period: GoDuration,

    /// How long the pods tolerate a node that is not ready or unreachable
    #[arg(long, default_value_t = 30, value_name = "SECONDS")]
    pub toleration_seconds: u32,

    /// Nodes a second and zone that may be isolated, for every program: upstream's default of 0.1 would be all that is measured
    #[arg(long, default_value_t = 100.0, value_name = "RATE")]
    pub node_eviction_rate: f64,

    /// Requests a second that each process may send, and as many at once
    #[arg(long, default_value_t = 5_000, value_name = "NUMBER")]
    pub kube_api_qps: u32,

    /// How much longer a situation may take than its periods and rates say
    #[arg(long, default_value_t = GoDuration::from_secs(600), value_name = "DURATION")]
    pub patience: GoDuration,

    /// Let programs talk to the API server themselves: with TLS as the kubeconfig says, and requests are not counted
    #[arg(long)]
    pub direct: bool,

    /// Measure the `bailiff` in this directory, instead of building it as images hold it
    #[arg(long, value_name = "DIRECTORY")]
    pub binaries: Option<PathBuf>,

    /// How the report is written
    #[arg(long, short, value_enum, default_value = "text", value_name = "FORMAT")]
    pub output: Output,

    /// Draw the report into this file
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,
}

/// How the report is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Tables
    Text,
    /// One JSON document: seconds, MiB, shares of one processor
    Json,
}

// === impl BenchFlags ===

impl BenchFlags {
    /// Pods on each node.
    pub fn pods_per_node(&self) -> usize {
        self.pods.div_ceil(self.nodes.max(1))
    }

    /// How many nodes each situation concerns.
    pub fn parts(&self) -> Parts {
        Parts::of(self.nodes, self.mass, self.tainted)
    }

    /// What is said of it in the report.
    pub fn settings(&self) -> report::Settings {
        report::Settings {
            nodes: self.nodes,
            pods: self.pods_per_node() * self.nodes,
            server: if self.kubeconfig.is_some() { "kubeconfig" } else { "sandbox" }.to_owned(),
            grace_seconds: self.node_monitor_grace_period.get().as_secs_f64(),
            toleration_seconds: self.toleration_seconds,
            node_eviction_rate: self.node_eviction_rate,
            kube_api_qps: self.kube_api_qps,
        }
    }

    /// The other program and its arguments.
    ///
    /// # Errors
    /// A quote that is not closed, or no word at all.
    pub fn other(&self) -> Result<Option<Vec<String>>, Error> {
        let Some(command) = &self.against else { return Ok(None) };
        let words = shlex::split(command).filter(|words| !words.is_empty());
        let allowed = "wanted are a program and its arguments, quoted as for a shell";
        words.map(Some).ok_or_else(|| Error::new("against", command, allowed))
    }

    /// The situations that are played, in the order of the table.
    pub fn played(&self) -> impl Iterator<Item = crate::situations::Line> + '_ {
        TABLE.into_iter().filter(|line| self.situations.contains(&line.situation))
    }
}

impl Validate for BenchFlags {
    fn validate(&self) -> Result<(), Error> {
        let refuse = |flag, value: &dyn std::fmt::Display, allowed: &str| Err(Error::new(flag, value, allowed));
        self.other()?;
        match self {
            Self { nodes, .. } if !(10..=1_000_000).contains(nodes) => refuse("nodes", nodes, "wanted 10 to 1000000"),
            Self { zones, nodes, .. } if *zones == 0 || zones > nodes => refuse("zones", zones, "wanted 1 to the number of nodes"),
            Self { pods, .. } if self.pods_per_node() > 100 => refuse("pods", pods, "wanted at most 100 for each node"),
            // From 55 % on a zone counts as disrupted, and its nodes stay.
            Self { mass, .. } if !(0.0..=0.5).contains(mass) => refuse("mass", mass, "wanted 0 to 0.5"),
            Self {
                node_eviction_rate: rate,
                ..
            } if !(rate.is_finite() && *rate > 0.0) => refuse("node-eviction-rate", rate, "wanted more than 0"),
            Self { kube_api_qps: 0, .. } => refuse("kube-api-qps", &0, "wanted 1 or more"),
            Self { rest, .. } if rest.is_zero() => refuse("rest", rest, "wanted more than 0s"),
            Self {
                node_monitor_grace_period: grace,
                ..
            } if grace.get().as_secs() < 20 => {
                let allowed = "wanted 20s or more: Leases are renewed every 10 s";
                refuse("node-monitor-grace-period", grace, allowed)
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use bailiff_runtime::args::parse_from;

    use super::*;

    fn parse(flags: &[&str]) -> Result<BenchFlags, i32> {
        let arguments = ["bailiff-bench"].iter().chain(flags);
        let parsed = parse_from::<Cli>(arguments);
        parsed
            .map(|cli| cli.bench.into_inner())
            .map_err(|refusal| refusal.exit_code())
    }

    #[test]
    fn everything_is_played_unless_told_otherwise() {
        let flags = parse(&[]).unwrap();
        assert_eq!((flags.nodes, flags.pods_per_node()), (5_000, 6));
        assert_eq!(flags.played().count(), TABLE.len());
        let some = parse(&["--situations=taint,rest", "--nodes=14", "--pods=16"]).unwrap();
        assert_eq!(some.played().map(|line| line.name).collect::<Vec<_>>(), ["rest", "taint"]);
        assert_eq!((some.pods_per_node(), some.settings().pods), (2, 28));
    }

    #[test]
    fn the_other_command_is_split_as_a_shell_would() {
        let flags = parse(&["--against", "kcm '--a=b c' --kubeconfig={kubeconfig}"]).unwrap();
        let words = flags.other().unwrap().unwrap();
        assert_eq!(words, ["kcm", "--a=b c", "--kubeconfig={kubeconfig}"]);
        assert_eq!(parse(&[]).unwrap().other(), Ok(None));
    }

    #[test]
    fn wrong_flags_end_with_64() {
        let cases: [&[&str]; 10] = [
            &["--nodes=9"],
            &["--zones=0"],
            &["--nodes=10", "--pods=1001"],
            &["--mass=0.6"],
            &["--node-eviction-rate=0"],
            &["--kube-api-qps=0"],
            &["--rest=0s"],
            &["--node-monitor-grace-period=10s"],
            &["--against=kcm 'open"],
            &["--situations=sleep"],
        ];
        for flags in cases {
            assert_eq!(parse(flags), Err(64), "{flags:?}");
        }
    }
}
