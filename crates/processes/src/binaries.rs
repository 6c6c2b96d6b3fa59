//! Where the program comes from.

use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The package of the program that images hold.
pub const PACKAGE: &str = "bailiff-cli";

/// What that program is called: it is the bus and each of the stages.
pub const BINARY: &str = "bailiff";

/// Cargo, with these arguments.
pub fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments);
    command
}

/// Builds the program that images hold, as they hold it, and says in which directory it is. Cargo shows its progress itself.
///
/// # Errors
/// When cargo cannot be run, or says why there is no binary.
pub fn build() -> Result<PathBuf, String> {
    build_with(cargo(&["build", "--profile", "dist", "--locked"]))
}

/// The same, by a `cargo build` that has its flags already.
///
/// # Errors
/// As [`build`].
pub fn build_with(mut command: Command) -> Result<PathBuf, String> {
    command.args(["--message-format=json-render-diagnostics", "--package", PACKAGE]);
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cannot run cargo: {error}"))?;
    if !output.status.success() {
        return Err("the binary could not be built".to_owned());
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
    fn cargo_says_where_the_binary_is() {
        let messages = "{\"reason\":\"compiler-artifact\",\"executable\":null}\n{\"reason\":\"compiler-artifact\",\"executable\":\"/t/dist/bailiff\"}\n";
        assert_eq!(directory_of(messages), Some(PathBuf::from("/t/dist")));
        assert_eq!(directory_of("no JSON\n"), None);
    }
}
