//! Where the programs come from.

use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The packages of the binaries that images hold.
pub const PACKAGES: [&str; 6] = [
    "bailiff-cli",
    "bailiff-event-bus",
    "bailiff-node-health-monitor",
    "bailiff-taint-manager",
    "bailiff-zone-evictor",
    "bailiff-daemonset-syncer",
];

/// What these binaries are called.
pub const BINARIES: [&str; 6] = [
    "bailiff",
    "event-bus",
    "node-health-monitor",
    "taint-manager",
    "zone-evictor",
    "daemonset-syncer",
];

/// Cargo, with these arguments.
pub fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments);
    command
}

/// Builds the binaries of `packages` as images hold them, and says where they are. Cargo shows its progress itself.
///
/// # Errors
/// When cargo cannot be run, or says why there is no binary.
pub fn build(packages: &[&str]) -> Result<PathBuf, String> {
    build_with(cargo(&["build", "--profile", "dist", "--locked"]), packages)
}

/// The same, by a `cargo build` that has its flags already.
///
/// # Errors
/// As [`build`].
pub fn build_with(mut command: Command, packages: &[&str]) -> Result<PathBuf, String> {
    command.arg("--message-format=json-render-diagnostics");
    command.args(packages.iter().flat_map(|package| ["--package", package]));
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cannot run cargo: {error}"))?;
    if !output.status.success() {
        return Err("the binaries could not be built".to_owned());
    }
    directory_of(&String::from_utf8_lossy(&output.stdout)).ok_or_else(|| "cargo named no binary".to_owned())
}

/// The directory of the first executable that cargo's messages name.
fn directory_of(messages: &str) -> Option<PathBuf> {
    let mut executables = messages.lines().filter_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        Some(PathBuf::from(message["executable"].as_str()?))
    });
    executables.find_map(|path| Some(path.parent()?.to_path_buf()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_says_where_the_binaries_are() {
        let messages = "{\"reason\":\"compiler-artifact\",\"executable\":null}\n{\"reason\":\"compiler-artifact\",\"executable\":\"/t/dist/bailiff\"}\n";
        assert_eq!(directory_of(messages), Some(PathBuf::from("/t/dist")));
        assert_eq!(directory_of("no JSON\n"), None);
    }
}
