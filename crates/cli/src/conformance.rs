//! `bailiff conformance`.

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use bailiff_conformance::{Options, Progress, Suite};
use bailiff_runtime::args::exit_invalid;
use bailiff_runtime::{GoDuration, Seed};
use clap::builder::PossibleValuesParser;
use indicatif::{ProgressBar, ProgressStyle};

use crate::bus::Output;
use crate::out::no_file;
use crate::{Failure, program};

/// How long a program may take to do what is required.
const PATIENCE: Duration = Duration::from_secs(30);

/// Flags of `bailiff conformance`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  bailiff conformance zone-evictor -- bailiff zone-evictor
  bailiff conformance zone-evictor -- python3 examples/maintenance-window/evictor.py
  bailiff conformance taint-manager --only node-is-tainted --logs logs -- ./mine --verbose
  bailiff conformance zone-evictor -o json -- ./mine | jq '.items[] | select(.verdict != \"kept\")'

The program is started once for each situation, with an API server (KUBECONFIG) and a bus (BAILIFF_BUS) of its own on loopback, and is \
judged by what it writes and publishes there; docs/contract.md says what is expected. Exit code 0 if it conforms, 1 if it does not, \
64 if there is no such program.")]
pub struct Args {
    /// The stage that the program is to be
    #[arg(value_parser = stages(), value_name = "STAGE")]
    stage: String,

    /// Only this situation, and others that are named the same way
    #[arg(long, value_name = "SITUATION")]
    only: Vec<String>,

    /// How long the program may take to do what is required, beside what it has to wait for by contract
    #[arg(long, env = "BAILIFF_CONFORMANCE_PATIENCE", default_value_t = GoDuration::from(PATIENCE), value_name = "DURATION")]
    patience: GoDuration,

    /// How many situations are played at a time
    #[arg(long, default_value = "4", value_name = "NUMBER")]
    jobs: NonZeroUsize,

    /// Keep what the program says in this directory, a file for each situation
    #[arg(long, value_name = "DIRECTORY")]
    logs: Option<PathBuf>,

    /// How the report is written
    #[arg(long, short, value_enum, default_value = "text", value_name = "FORMAT")]
    output: Output,

    /// The program and its arguments, after `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

fn stages() -> PossibleValuesParser {
    PossibleValuesParser::new(Suite::all().map(|suite| suite.stage))
}

/// There is no such situation.
#[derive(Debug, thiserror::Error)]
#[error("invalid value '{situation}' for '--only': situations of a {stage} are {allowed}")]
struct Unknown {
    situation: String,
    stage: &'static str,
    allowed: String,
}

/// Nothing can be done in no time.
#[derive(Debug, thiserror::Error)]
#[error("invalid value '0s' for '--patience': wanted more than zero")]
struct NoPatience;

/// Runs the command.
pub fn main(args: Args) -> Result<ExitCode, Failure> {
    let suite = Suite::of(&args.stage).ok_or("clap allows the stages that there are only")?;
    if let Some(unknown) = args
        .only
        .iter()
        .find(|name| !suite.situations().any(|situation| situation == *name))
    {
        exit_invalid(&Unknown {
            situation: unknown.clone(),
            stage: suite.stage,
            allowed: suite.situations().collect::<Vec<_>>().join(", "),
        });
    }
    if args.patience.get().is_zero() {
        exit_invalid(&NoPatience);
    }
    program::require(&args.command);
    let scratch = tempfile::tempdir()?;
    let logs = args.logs.unwrap_or_else(|| scratch.path().to_owned());
    std::fs::create_dir_all(&logs).map_err(no_file(&logs))?;
    let options = Options {
        command: args.command,
        only: args.only,
        patience: args.patience.get(),
        jobs: args.jobs.get(),
        logs,
    };
    crate::runtime()?.block_on(async {
        let (seed, mut bar) = (Seed::from_system(), Bar::new());
        let judging = suite.judge(&options, &seed, &mut bar);
        let report = tokio::select! {
            biased;
            // What was started is killed as it is dropped.
            interrupted = crate::interrupted() => return interrupted.map(|()| ExitCode::FAILURE).map_err(Into::into),
            report = judging => report?,
        };
        bar.0.finish_and_clear();
        match args.output {
            Output::Text => crate::out::print(report.text())?,
            Output::Json => crate::out::line(report.json())?,
        };
        Ok(if report.conforms() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    })
}

/// Which situations are over; lines where nobody watches.
struct Bar(ProgressBar);

impl Bar {
    fn new() -> Self {
        if !std::io::stderr().is_terminal() {
            return Self(ProgressBar::hidden());
        }
        let style = ProgressStyle::with_template("{spinner} {pos}/{len} situations, {elapsed}: {msg}");
        let bar = ProgressBar::new_spinner();
        bar.enable_steady_tick(Duration::from_millis(200));
        Self(bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner())))
    }
}

impl Progress for Bar {
    fn over(&mut self, situation: &str, done: usize, total: usize) {
        self.0.set_length(total as u64);
        self.0.set_position(done as u64);
        self.0.set_message(format!("{situation} is over"));
        if self.0.is_hidden() {
            crate::out::note(format_args!("{done}/{total} situations: {situation} is over"));
        }
    }
}
