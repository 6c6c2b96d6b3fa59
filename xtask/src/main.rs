//! Chores of the repository. `cargo xtask` lists them.

use std::io::{BufRead, BufReader};
use std::process::{Command, ExitCode, Stdio};

const USAGE: &str = "\
usage: cargo xtask <chore>

  test    format check, lints, every test of the workspace; ends with how many tests ran
";

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("test") => test(),
        _ => {
            eprint!("{USAGE}");
            ExitCode::from(64)
        }
    }
}

/// The one test command: what the README names and CI runs.
fn test() -> ExitCode {
    let checks: [&[&str]; 2] = [
        &["fmt", "--all", "--check"],
        &["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"],
    ];
    for check in checks {
        println!("cargo {}", check.join(" "));
        if !cargo(check).status().is_ok_and(|status| status.success()) {
            eprintln!("cargo {} failed", check.join(" "));
            return ExitCode::FAILURE;
        }
    }
    run_tests()
}

fn run_tests() -> ExitCode {
    let arguments = ["test", "--workspace", "--locked", "--no-fail-fast"];
    println!("cargo {}", arguments.join(" "));
    let mut child = match cargo(&arguments).stdout(Stdio::piped()).spawn() {
        Ok(child) => child,
        Err(error) => {
            eprintln!("cannot run cargo: {error}");
            return ExitCode::FAILURE;
        }
    };
    let (mut passed, mut failed) = (0, 0);
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            println!("{line}");
            passed += count(&line, " passed");
            failed += count(&line, " failed");
        }
    }
    let succeeded = child.wait().is_ok_and(|status| status.success());
    println!("{passed} passed, {failed} failed");
    if succeeded && failed == 0 && passed > 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// The number before `word` in a closing line of a test binary; 0 in any other line.
fn count(line: &str, word: &str) -> u64 {
    if !line.starts_with("test result:") {
        return 0;
    }
    let before = line.split(word).next().unwrap_or_default();
    before.rsplit([' ', '.']).next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_lines_are_counted_and_others_are_not() {
        let line = "test result: ok. 12 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s";
        assert_eq!((count(line, " passed"), count(line, " failed")), (12, 3));
        assert_eq!(count("12 passed", " passed"), 0);
    }
}
