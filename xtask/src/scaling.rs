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
mod http;
mod measure;
mod metrics;
mod program;
mod system;
mod usage;

use std::path::PathBuf;
use std::process::{ExitCode, Stdio};
use std::time::Instant;

use flags::Flags;

/// Packages whose binaries are measured.
const PACKAGES: [&str; 4] = [
    "bailiff-cli",
    "bailiff-event-bus",
    "bailiff-node-health-monitor",
    "bailiff-taint-manager",
];

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
        None => build()?,
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

/// Builds the binaries as they are released, and says where they are.
fn build() -> Result<PathBuf, String> {
    let mut command = crate::cargo(&["build", "--release", "--locked", "--message-format=json-render-diagnostics"]);
    command.args(PACKAGES.iter().flat_map(|package| ["--package", package]));
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cannot run cargo: {error}"))?;
    if !output.status.success() {
        return Err("the binaries could not be built".to_owned());
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let mut executables = messages.lines().filter_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        Some(PathBuf::from(message["executable"].as_str()?))
    });
    let directory = executables.find_map(|path| Some(path.parent()?.to_path_buf()));
    directory.ok_or_else(|| "cargo named no binary".to_owned())
}
