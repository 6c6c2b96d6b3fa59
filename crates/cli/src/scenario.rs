//! `bailiff scenario`: recorded scenarios, played with the stages in the place of the real controllers.

use std::io::IsTerminal;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bailiff_runtime::args::{LogFilter, LogFormat, exit_invalid};
use bailiff_runtime::shutdown::chain;
use bailiff_scenario::oracle::file::Error as FileError;
use bailiff_scenario::oracle::play::Error as PlayError;
use bailiff_scenario::oracle::{Difference, Observed, Played, Profile, Scenario, jobs, play_all};
use clap::{Subcommand, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use crate::out::{Lines, no_file, one_line};
use crate::{Failure, soak};

/// Flags of `bailiff scenario`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  bailiff scenario run oracle/*.json
  bailiff scenario soak --seeds 5000")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, Debug, Subcommand)]
enum Command {
    /// Play recorded scenarios in virtual time and compare what is seen
    Run(RunArgs),
    /// Play scenarios made up from seeds, and check what must always hold
    Soak(soak::Args),
}

/// Flags of `bailiff scenario run`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  bailiff scenario run oracle/*.json
  bailiff scenario run --profile upstream --record seen oracle/te-restart.json
  bailiff scenario run --output json oracle/*.json | jq -r 'select(.passed == false).scenario'

Exit code 0: all passed. 1: some failed. 64: a file is no scenario.")]
struct RunArgs {
    /// The scenarios
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Whether the documented differences from kube-controller-manager apply (bailiff) or not (upstream)
    #[arg(
        long,
        env = "BAILIFF_PROFILE",
        default_value = "bailiff",
        value_enum,
        value_name = "PROFILE"
    )]
    profile: ProfileFlag,

    /// Write what was observed to a file per scenario in this directory, in the format of the scenarios
    #[arg(long, value_name = "DIR")]
    record: Option<PathBuf>,

    /// Seed of everything that is random
    #[arg(long, env = "BAILIFF_SEED", default_value_t = 1, value_name = "NUMBER")]
    seed: u64,

    /// How many are played at the same time; as many as there are processors without it
    #[arg(long, value_name = "NUMBER")]
    jobs: Option<NonZeroUsize>,

    /// How many differences are shown per scenario; JSON has them all
    #[arg(long, default_value_t = 10, value_name = "NUMBER")]
    show: usize,

    /// How results are written to stdout
    #[arg(long, short, value_enum, default_value = "text", value_name = "FORMAT")]
    output: Output,

    /// What the parts log to stderr meanwhile
    #[arg(long, env = "BAILIFF_LOG_LEVEL", default_value = "off", value_name = "FILTER")]
    log_level: LogFilter,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ProfileFlag {
    /// All of them
    Bailiff,
    /// None that can be switched off
    Upstream,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people
    Text,
    /// One JSON object per line
    Json,
}

/// A scenario without anything to compare with.
#[derive(Debug, thiserror::Error)]
#[error("{} has none of observed, events and final, so there is nothing to compare with: --record DIR writes what is seen", .0.display())]
struct Unjudged(PathBuf);

/// Runs the command.
pub fn main(args: Args) -> Result<ExitCode, Failure> {
    match args.command {
        Command::Run(args) => run(&args),
        Command::Soak(args) => soak::main(&args),
    }
}

fn run(args: &RunArgs) -> Result<ExitCode, Failure> {
    bailiff_runtime::telemetry::init_logs(&args.log_level, LogFormat::Text)?;
    let scenarios = match read(args) {
        Ok(scenarios) => scenarios,
        Err(error) => exit_invalid(&*error),
    };
    if let Some(directory) = &args.record {
        std::fs::create_dir_all(directory).map_err(no_file(directory))?;
    }
    let profile = match args.profile {
        ProfileFlag::Bailiff => Profile::Bailiff,
        ProfileFlag::Upstream => Profile::Upstream,
    };
    let mut report = Report::new(args, scenarios.len());
    let mut unwritten = None;
    play_all(
        &scenarios,
        profile,
        args.seed,
        args.jobs.unwrap_or_else(jobs),
        |nth, result| {
            if let (Some(directory), Ok(played)) = (&args.record, &result) {
                let written = record(
                    directory,
                    &args.files[nth],
                    &scenarios[nth],
                    &played.observed,
                    profile,
                    args.seed,
                );
                unwritten = unwritten.take().or(written.err());
            }
            report.scenario(&scenarios[nth], &result);
        },
    );
    report.end();
    report.lines.end()?;
    match unwritten {
        Some(error) => Err(error),
        None => Ok(ExitCode::from(u8::from(report.failed > 0))),
    }
}

fn read(args: &RunArgs) -> Result<Vec<Scenario>, Failure> {
    let one = |path: &PathBuf| {
        let scenario = Scenario::read(path)?;
        match scenario.is_judged() || args.record.is_some() {
            true => Ok(scenario),
            false => Err(Failure::from(Unjudged(path.clone()))),
        }
    };
    args.files.iter().map(one).collect()
}

/// Writes the scenario as it was read, with what was seen in the place of what was recorded.
fn record(directory: &Path, file: &Path, scenario: &Scenario, seen: &Observed, profile: Profile, seed: u64) -> Result<(), Failure> {
    let text = std::fs::read_to_string(file).map_err(|source| FileError::Read {
        path: file.to_owned(),
        source,
    })?;
    let mut whole: Value = serde_json::from_str(&text)?;
    if let (Value::Object(whole), Value::Object(seen)) = (&mut whole, seen.to_json()) {
        whole.extend(seen);
        whole.insert("unstable".to_owned(), json!([]));
        let version = env!("CARGO_PKG_VERSION");
        whole.insert(
            "recorded".to_owned(),
            json!({"bailiff": version, "profile": profile.as_str(), "seed": seed, "runs": 1}),
        );
    }
    let path = directory.join(format!("{}.json", scenario.id));
    let text = serde_json::to_string_pretty(&whole)?;
    std::fs::write(&path, text + "\n").map_err(no_file(&path))?;
    Ok(())
}

/// Tells what came of the scenarios.
struct Report {
    output: Output,
    show: usize,
    colour: bool,
    progress: ProgressBar,
    passed: usize,
    failed: usize,
    lines: Lines,
}

impl Report {
    fn new(args: &RunArgs, count: usize) -> Self {
        // https://no-color.org
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let progress = if std::io::stderr().is_terminal() {
            let style = ProgressStyle::with_template("{pos}/{len} {msg}").expect("the template has only known fields");
            ProgressBar::new(u64::try_from(count).unwrap_or(u64::MAX)).with_style(style)
        } else {
            ProgressBar::hidden()
        };
        Self {
            output: args.output,
            show: args.show,
            colour: args.output == Output::Text && std::io::stdout().is_terminal() && !refused,
            progress,
            passed: 0,
            failed: 0,
            lines: Lines::default(),
        }
    }

    fn scenario(&mut self, scenario: &Scenario, result: &Result<Played, PlayError>) {
        let is_passed = result.as_ref().is_ok_and(|played| played.differences.is_empty());
        *(if is_passed { &mut self.passed } else { &mut self.failed }) += 1;
        self.progress.inc(1);
        self.progress
            .set_message(format!("{} passed, {} failed", self.passed, self.failed));
        let lines = match self.output {
            Output::Text => self.text(scenario, result),
            Output::Json => vec![json(scenario, result, is_passed).to_string()],
        };
        self.print(&lines);
    }

    fn end(&mut self) {
        self.progress.finish_and_clear();
        let (passed, failed) = (self.passed, self.failed);
        match self.output {
            Output::Text => self.print(&[format!("{passed} passed, {failed} failed")]),
            Output::Json => self.print(&[json!({"passed": passed, "failed": failed}).to_string()]),
        }
    }

    fn text(&self, scenario: &Scenario, result: &Result<Played, PlayError>) -> Vec<String> {
        let head =
            |word: &str, colour: &str, rest: &str| format!("{} {:<36} {rest}", self.paint(colour, word), one_line(&scenario.id));
        let played = match result {
            Ok(played) => played,
            Err(error) => {
                return vec![head(
                    "FAIL",
                    RED,
                    &format!("not played to its end: {}", one_line(chain(error))),
                )];
            }
        };
        let mut lines = match played.differences.len() {
            0 => vec![head("PASS", GREEN, "").trim_end().to_owned()],
            1 => vec![head("FAIL", RED, "1 difference")],
            count => vec![head("FAIL", RED, &format!("{count} differences"))],
        };
        lines.extend(
            played
                .accepted
                .iter()
                .map(|accepted| format!("  accepted: {}", one_line(accepted))),
        );
        lines.extend(shown(&played.differences, self.show));
        lines
    }

    fn print(&mut self, lines: &[String]) {
        self.progress.suspend(|| {
            for line in lines {
                if self.colour {
                    self.lines.painted(line);
                } else {
                    self.lines.line(line);
                }
            }
        });
    }

    fn paint(&self, colour: &str, text: &str) -> String {
        if self.colour {
            format!("\x1b[{colour}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

const RED: &str = "31";
const GREEN: &str = "32";

/// The first differences, by object.
fn shown(differences: &[Difference], count: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut object = "";
    for difference in differences.iter().take(count) {
        if difference.object != object {
            object = &difference.object;
            lines.push(format!("  {}", one_line(object)));
        }
        lines.push(format!("    {}", one_line(difference)));
    }
    if differences.len() > count {
        lines.push(format!("  and {} more", differences.len() - count));
    }
    lines
}

fn json(scenario: &Scenario, result: &Result<Played, PlayError>, is_passed: bool) -> Value {
    match result {
        Ok(played) => {
            let accepted: Vec<String> = played.accepted.iter().map(ToString::to_string).collect();
            json!({"scenario": scenario.id, "passed": is_passed, "differences": played.differences, "accepted": accepted})
        }
        Err(error) => json!({"scenario": scenario.id, "passed": is_passed, "error": chain(error)}),
    }
}
