//! `bailiff-bench`: what the stages cost and how fast they are, played on this machine, alone or beside another program.
//!
//! Pure are the table of what is played ([`situations`]), what is made of what was seen ([`ledger`], [`count`], [`figures`]) and how it is
//! shown ([`report`], [`text`], [`plot`]). Shells are the processes ([`cluster`], [`programs`]), what looks on ([`observe`]) and what
//! counts requests ([`proxy`]), the kubelets of a real API server ([`load`]), evictions to hold others against ([`plain`]), and what puts
//! it all together ([`play`]).

mod args;
mod cluster;
pub mod count;
pub mod figures;
pub mod ledger;
mod load;
mod observe;
mod plain;
mod play;
pub mod plot;
mod programs;
mod progress;
mod proxy;
pub mod report;
mod signals;
pub mod situations;
pub mod text;
mod views;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bailiff_processes::{BINARY, Directory, PACKAGE};
use bailiff_runtime::parse_or_exit;

use args::Command;
pub use args::{BenchArgs, BenchFlags, Cli, Output};

/// The whole program.
pub fn main() -> ExitCode {
    let cli: Cli = parse_or_exit();
    let ended = match cli.command {
        Some(Command::Load(args)) => runtime().and_then(|runtime| runtime.block_on(load::run(args))),
        None => bench(&cli.bench),
    };
    ended.unwrap_or_else(|complaint| {
        eprintln!("error: {complaint}");
        ExitCode::FAILURE
    })
}

fn runtime() -> Result<tokio::runtime::Runtime, String> {
    let built = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    built.map_err(|error| format!("cannot start: {error}"))
}

fn bench(flags: &BenchFlags) -> Result<ExitCode, String> {
    let binaries = binaries(flags.binaries.as_deref())?;
    let directory = Directory::make("bailiff-bench")?;
    let runtime = runtime()?;
    let told_to_end = {
        let _inside = runtime.enter();
        signals::told_to_end()?
    };
    let (report, ended) = runtime.block_on(async {
        let mut report = report::Report::default();
        let ended = tokio::select! {
            biased;
            // What was started is ended, and what was made is removed, as it is dropped.
            () = told_to_end => Err("interrupted".to_owned()),
            ended = play::all(flags, &binaries, directory.path(), &mut report) => ended,
        };
        report.compare();
        (report, ended)
    });
    if !report.runs.is_empty() {
        match flags.output {
            Output::Text => print!("{}", text::text(&report)),
            Output::Json => println!("{}", report.json()),
        }
    }
    if let Some(path) = &flags.plot {
        std::fs::write(path, plot::svg(&report)).map_err(|error| format!("--plot {}: {error}", path.display()))?;
    }
    ended?;
    match report.early().count() {
        0 => Ok(ExitCode::SUCCESS),
        early => Err(format!("{early} times something came before its time")),
    }
}

/// Where the measured binary is: where the flag says, else built by the cargo that runs this, else beside this program.
fn binaries(flag: Option<&Path>) -> Result<PathBuf, String> {
    let directory = match flag {
        Some(directory) => directory.to_owned(),
        None if std::env::var_os("CARGO").is_some() => bailiff_processes::build()?,
        None => {
            let own = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
            own.parent().map(Path::to_owned).unwrap_or_default()
        }
    };
    if directory.join(BINARY).exists() {
        return Ok(directory);
    }
    let directory = directory.display();
    Err(format!(
        "{directory} has no {BINARY}: cargo build --profile dist -p {PACKAGE}, or --binaries DIRECTORY"
    ))
}
