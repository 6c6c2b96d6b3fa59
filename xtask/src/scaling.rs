//! `cargo xtask scaling`: what shards of node-health-monitor and taint-manager cost and bring, in a sandbox of many nodes.
//!
//! Everything runs as processes of their own, as in a cluster: a sandbox, a bus, and one replica more of each stage than it has shards,
//! so that one stands by. Figures come from outside: from `/metrics`, from `/proc`, from the logs. Times on the wall depend on what else
//! the machine does; seconds of a processor do so far less, and are what can be compared.

#![allow(
    clippy::disallowed_methods,
    reason = "processes live in real time, which is what is measured here"
)]

mod figures;
mod flags;
mod measure;
mod system;

use std::process::ExitCode;
use std::time::Instant;

use flags::Flags;

/// Runs the chore.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let flags = match Flags::parse(arguments) {
        Ok(flags) => flags,
        Err(complaint) => {
            eprintln!("scaling: {complaint}\n{}", flags::USAGE);
            return ExitCode::from(64);
        }
    };
    match try_run(&flags) {
        Ok(()) => ExitCode::SUCCESS,
        Err(complaint) => {
            eprintln!("scaling: {complaint}");
            ExitCode::FAILURE
        }
    }
}

fn try_run(flags: &Flags) -> Result<(), String> {
    let binaries = match &flags.binaries {
        Some(directory) => directory.clone(),
        None => bailiff_processes::build()?,
    };
    let mut runs = Vec::new();
    // What was measured before is told all the same.
    let mut failed = Ok(());
    let began = Instant::now();
    for &shards in &flags.shards {
        let mut tell = |what: &str| eprintln!("{:>5} s  {shards} shards: {what}", began.elapsed().as_secs());
        match measure::play(flags, shards, &binaries, &mut tell) {
            Ok(run) => runs.push(run),
            Err(complaint) => {
                failed = Err(format!("{shards} shards: {complaint}"));
                break;
            }
        }
    }
    if flags.is_json {
        println!("{}", figures::json(flags, &runs));
    } else {
        print!("{}", figures::table(flags, &runs));
    }
    failed
}
