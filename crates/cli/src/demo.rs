//! `bailiff demo`.

use std::io::IsTerminal;
use std::process::ExitCode;

use bailiff_runtime::{Clock, Seed};
use bailiff_scenario::demo::{self, Ending, Kind, Line, Plan};
use bailiff_scenario::{Fixture, Transport};
use clap::ValueEnum;
use serde_json::json;

use crate::Failure;
use crate::out::{Lines, one_line};

/// Flags of `bailiff demo`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  bailiff demo                          in real time, over loopback sockets; takes about a minute
  bailiff demo --fast --seed 7          in virtual time; the same seed gives the same log
  bailiff demo --fast --output json     one JSON object per line, the figures last

Exit code 0: all as expected. 1: something did not converge; the last lines say what.")]
pub struct Args {
    /// Play in virtual time
    #[arg(long)]
    fast: bool,

    /// Seed of everything that is random
    #[arg(long, env = "BAILIFF_SEED", default_value_t = 1, value_name = "NUMBER")]
    seed: u64,

    /// How the log and the figures are written to stdout
    #[arg(long, short, value_enum, default_value = "text", value_name = "FORMAT")]
    output: Output,

    /// What the parts log to stderr meanwhile
    #[arg(long, env = "BAILIFF_LOG_LEVEL", default_value = "error", value_name = "FILTER")]
    log_level: bailiff_runtime::args::LogFilter,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people
    Text,
    /// One JSON object per line
    Json,
}

/// Runs the command.
pub fn main(args: Args) -> Result<ExitCode, Failure> {
    let Args {
        fast,
        seed,
        output,
        log_level,
    } = args;
    bailiff_runtime::telemetry::init_logs(&log_level, bailiff_runtime::args::LogFormat::Text)?;
    let plan = Plan::default();
    let mut printer = Printer::new(output);
    let ending = if fast {
        demo::world(&plan, seed, |line| printer.line(&line))?
    } else {
        crate::runtime()?.block_on(real(&plan, seed, &mut printer))?
    };
    printer.ending(&ending);
    printer.lines.end()?;
    Ok(ExitCode::from(u8::from(!ending.failures.is_empty())))
}

async fn real(plan: &Plan, seed: u64, printer: &mut Printer) -> Result<Ending, Failure> {
    let fixture: Fixture = demo::set_up(plan, Transport::Sockets, Clock::system(), Seed::new(seed)).await?;
    printer.endpoints(&fixture);
    Ok(demo::play(&fixture, plan, |line| printer.line(&line)).await?)
}

struct Printer {
    output: Output,
    colour: bool,
    lines: Lines,
}

impl Printer {
    fn new(output: Output) -> Self {
        // https://no-color.org
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self {
            output,
            colour: output == Output::Text && std::io::stdout().is_terminal() && !refused,
            lines: Lines::default(),
        }
    }

    fn endpoints(&mut self, fixture: &Fixture) {
        for (name, address) in &fixture.endpoints {
            match self.output {
                Output::Text => self.print(&format!("         {name:<24} http://{address}")),
                Output::Json => self.print(&json!({"endpoint": name, "address": address.to_string()}).to_string()),
            }
        }
    }

    fn line(&mut self, line: &Line) {
        if self.output == Output::Json {
            return self.print(&serde_json::to_string(line).expect("a line is plain data"));
        }
        let kind = format!("{:?}", line.kind).to_lowercase();
        let kind = self.paint(colour_of(line.kind), &format!("{kind:<9}"));
        self.print(&format!("{:>7.1}s {kind} {}", line.at.as_secs_f64(), one_line(&line.text)));
    }

    fn ending(&mut self, ending: &Ending) {
        if self.output == Output::Json {
            let ok = ending.failures.is_empty();
            return self.print(&json!({"figures": ending.figures, "failures": ending.failures, "ok": ok}).to_string());
        }
        let figures = &ending.figures;
        let seconds = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3} s"));
        let recovered = if figures.not_recovered.is_empty() { "yes" } else { "NO" };
        let rows = [
            ("nodes found silent", figures.nodes_detected.to_string()),
            ("detection delay past grace, p50", seconds(figures.detection_delay.p50)),
            ("detection delay past grace, p99", seconds(figures.detection_delay.p99)),
            ("nodes isolated", figures.nodes_isolated.to_string()),
            ("pods evicted", figures.pods_evicted.to_string()),
            ("pods kept on isolated nodes", figures.pods_kept.to_string()),
            ("early evictions", figures.early_evictions.to_string()),
            ("daemon pods lost", figures.daemon_pods_lost.to_string()),
            ("all recovered", recovered.to_owned()),
        ];
        self.print("");
        for (name, value) in rows {
            self.print(&format!("  {name:<34}{value:>10}"));
        }
        self.print("");
        for failure in &ending.failures {
            let failure = self.paint(RED, &format!("  not as expected: {}", one_line(failure)));
            self.print(&failure);
        }
    }

    fn paint(&self, colour: &str, text: &str) -> String {
        if self.colour {
            format!("\x1b[{colour}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    fn print(&mut self, text: &str) {
        if self.colour {
            self.lines.painted(text);
        } else {
            self.lines.line(text);
        }
    }
}

const RED: &str = "31";

const fn colour_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Plan | Kind::Script => "1",
        Kind::Daemons | Kind::Recovered | Kind::Kept => "32",
        Kind::Detected | Kind::Zone => "33",
        Kind::Waiting => "36",
        Kind::Isolated | Kind::Evicted => RED,
    }
}
