//! `bailiff scenario soak`: made-up scenarios, as many as there is time for.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use bailiff_scenario::StageName;
use bailiff_scenario::chaos::{Campaign, Enumerated, Story, play, situations};
use indicatif::{ProgressBar, ProgressStyle};

use crate::Failure;
use crate::out::line;

/// Flags of `bailiff scenario soak`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  bailiff scenario soak --seeds 5000
  bailiff scenario soak --seeds 5000 --from 100000
  bailiff scenario soak --seed 4711      the story of one seed, and everything that was written
  bailiff scenario soak --places         takes some minutes

Exit code 0: every invariant held. 1: one did not, or none could have been broken.")]
pub struct Args {
    /// How many seeds are played
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=u64::MAX), value_name = "NUMBER")]
    seeds: u64,

    /// The first of them
    #[arg(long, default_value_t = 0, value_name = "SEED")]
    from: u64,

    /// Play this one alone and tell what happens
    #[arg(long, value_name = "SEED", conflicts_with_all = ["seeds", "from"])]
    seed: Option<u64>,

    /// Instead of made-up stories, one fault at every place of fixed situations: crashes, lost answers, late and hidden events
    #[arg(long, conflicts_with_all = ["seeds", "from", "seed"])]
    places: bool,
}

/// Runs the command.
pub fn main(args: &Args) -> Result<ExitCode, Failure> {
    match args.seed {
        _ if args.places => places(),
        Some(seed) => one(seed),
        None => many(args),
    }
}

fn one(seed: u64) -> Result<ExitCode, Failure> {
    let story = Story::from_seed(seed);
    line(format_args!("{story}\n"))?;
    let ended = play(&story)?;
    for told in &ended.log {
        line(told)?;
    }
    line("")?;
    for (name, verdict) in &ended.verdicts {
        line(format_args!("{:>6} × {name}", verdict.premises))?;
    }
    let failures = ended.failures();
    for failure in &failures {
        line(format_args!("BROKEN {failure}"))?;
    }
    Ok(ExitCode::from(u8::from(!failures.is_empty())))
}

fn places() -> Result<ExitCode, Failure> {
    let (mut failed, situations) = (0, situations());
    let bar = progress(situations.len() as u64, "{pos}/{len} situations, {elapsed}: {msg}");
    bar.enable_steady_tick(Duration::from_millis(200));
    for situation in situations {
        bar.set_message(situation.name);
        let found = Enumerated::play(&situation, &StageName::ALL)?;
        bar.inc(1);
        let mut told = vec![format!("{:>8} places: {}", found.places, situation.name)];
        for (place, failures) in &found.failures {
            told.push(format!("BROKEN the {place}"));
            told.extend(failures.iter().map(|failure| format!("  {failure}")));
        }
        bar.suspend(|| line(told.join("\n")))?;
        failed += found.failures.len();
    }
    bar.finish_and_clear();
    Ok(ExitCode::from(u8::from(failed > 0)))
}

/// How far it is, where somebody watches.
fn progress(length: u64, template: &'static str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template(template).expect("the template has only known fields");
    ProgressBar::new(length).with_style(style)
}

fn many(args: &Args) -> Result<ExitCode, Failure> {
    let bar = progress(args.seeds, "{pos}/{len} seeds, {eta} left");
    let campaign = Campaign::play(args.from..args.from.saturating_add(args.seeds), |_| bar.inc(1))?;
    bar.finish_and_clear();
    for (name, count) in &campaign.premises {
        line(format_args!("{count:>8} × {name}"))?;
    }
    for (name, count) in &campaign.excused {
        line(format_args!("{count:>8} broken as upstream would: {name}"))?;
    }
    for told in campaign.agreement.lines() {
        line(format_args!("  {told}"))?;
    }
    for (seed, failures) in &campaign.failures {
        line(format_args!("BROKEN seed {seed} (bailiff scenario soak --seed {seed})"))?;
        for failure in failures {
            line(format_args!("  {failure}"))?;
        }
    }
    let idle = campaign.idle();
    for name in &idle {
        line(format_args!("IDLE {name}: nothing that was played could have broken it"))?;
    }
    line(format_args!(
        "{} of {} seeds held",
        campaign.runs - campaign.failures.len() as u64,
        campaign.runs
    ))?;
    Ok(ExitCode::from(u8::from(!campaign.failures.is_empty() || !idle.is_empty())))
}
