//! `bailiff scenario soak`: made-up scenarios, as many as there is time for.

use std::io::IsTerminal;
use std::process::ExitCode;

use bailiff_scenario::StageName;
use bailiff_scenario::chaos::{Campaign, Enumerated, Story, play, situations};
use indicatif::{ProgressBar, ProgressStyle};

use crate::Failure;

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
    #[arg(long, default_value_t = 300, value_name = "NUMBER")]
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
    println!("{story}\n");
    let ended = play(&story)?;
    for line in &ended.log {
        println!("{line}");
    }
    println!();
    for (name, verdict) in &ended.verdicts {
        println!("{:>6} × {name}", verdict.premises);
    }
    let failures = ended.failures();
    for failure in &failures {
        println!("BROKEN {failure}");
    }
    Ok(ExitCode::from(u8::from(!failures.is_empty())))
}

fn places() -> Result<ExitCode, Failure> {
    let mut failed = 0;
    for situation in situations() {
        let found = Enumerated::play(&situation, &StageName::ALL)?;
        println!("{:>8} places: {}", found.places, situation.name);
        for (place, failures) in &found.failures {
            println!("BROKEN the {place}");
            for failure in failures {
                println!("  {failure}");
            }
        }
        failed += found.failures.len();
    }
    Ok(ExitCode::from(u8::from(failed > 0)))
}

fn many(args: &Args) -> Result<ExitCode, Failure> {
    let progress = if std::io::stderr().is_terminal() {
        let style = ProgressStyle::with_template("{pos}/{len} seeds, {eta} left").expect("the template has only known fields");
        ProgressBar::new(args.seeds).with_style(style)
    } else {
        ProgressBar::hidden()
    };
    let campaign = Campaign::play(args.from..args.from.saturating_add(args.seeds), |_| progress.inc(1))?;
    progress.finish_and_clear();
    for (name, count) in &campaign.premises {
        println!("{count:>8} × {name}");
    }
    for (name, count) in &campaign.excused {
        println!("{count:>8} broken as upstream would: {name}");
    }
    campaign.agreement.lines().iter().for_each(|line| println!("  {line}"));
    for (seed, failures) in &campaign.failures {
        println!("BROKEN seed {seed} (bailiff scenario soak --seed {seed})");
        for failure in failures {
            println!("  {failure}");
        }
    }
    let idle = campaign.idle();
    for name in &idle {
        println!("IDLE {name}: nothing that was played could have broken it");
    }
    println!(
        "{} of {} seeds held",
        campaign.runs - campaign.failures.len() as u64,
        campaign.runs
    );
    Ok(ExitCode::from(u8::from(!campaign.failures.is_empty() || !idle.is_empty())))
}
