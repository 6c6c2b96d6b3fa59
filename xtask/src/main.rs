//! Chores of the repository. `cargo xtask` lists them.

mod dist;
mod rules;
mod scaling;

use std::io::{BufRead, BufReader, Read};
use std::process::{ExitCode, Stdio};

use bailiff_processes::cargo;

const USAGE: &str = "\
usage: cargo xtask <chore>

  test             format check, lints, the check of rules, every test of the workspace, none of them ignored; ends with how many
                   tests ran
  rules [--check]  write docs/rules.md: which test proves which rule; with --check only see that it is fresh and none is missing
  soak             scenarios made up from seeds, played with a release build: --seeds N, --from S,
                   --seed S for one's story, --places for a fault at every place of fixed situations
  dist             the program that images hold, faster: counted what runs while it plays, and built again by that;
                   --out=DIRECTORY, --target=TRIPLE
  scaling          what shards cost and bring in a sandbox of 50,000 nodes, measured with the program as images hold it (docs/scaling.md);
                   minutes and some GB of memory; --nodes=N for fewer, and more flags
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["test"] => test(),
        ["rules"] => rules::run(false),
        ["rules", "--check"] => rules::run(true),
        ["soak", ..] => soak(),
        ["dist", ..] => dist::run(&arguments[1..]),
        ["scaling", ..] => scaling::run(&arguments[1..]),
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
    println!("cargo xtask rules --check");
    let rules = rules::run(true);
    let tests = run_tests();
    if rules == ExitCode::SUCCESS { tests } else { rules }
}

/// More of what a test plays some of.
fn soak() -> ExitCode {
    let mut command = cargo(&[
        "run",
        "--release",
        "--locked",
        "--package",
        "bailiff-cli",
        "--",
        "scenario",
        "soak",
    ]);
    let succeeded = command
        .args(std::env::args_os().skip(2))
        .status()
        .is_ok_and(|status| status.success());
    if succeeded { ExitCode::SUCCESS } else { ExitCode::FAILURE }
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
    let totals = child.stdout.take().map(|output| follow(output, |line| println!("{line}")));
    let succeeded = child.wait().is_ok_and(|status| status.success());
    let totals = totals.unwrap_or_default();
    let Totals { passed, failed, ignored } = totals;
    println!("{passed} passed, {failed} failed, {ignored} ignored");
    if succeeded && totals.is_good() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// What the test binaries counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Totals {
    passed: u64,
    failed: u64,
    ignored: u64,
}

impl Totals {
    /// Some tests ran, none failed, and none was left out: what nobody runs proves nothing.
    fn is_good(self) -> bool {
        self.passed > 0 && self.failed == 0 && self.ignored == 0
    }
}

/// Reads the output of the tests to its end, line by line; a test may print what is no UTF-8.
fn follow(output: impl Read, mut show: impl FnMut(&str)) -> Totals {
    let mut totals = Totals::default();
    let (mut reader, mut bytes) = (BufReader::new(output), Vec::new());
    while reader.read_until(b'\n', &mut bytes).is_ok_and(|read| read > 0) {
        let text = String::from_utf8_lossy(&bytes);
        let line = text.trim_end_matches(['\n', '\r']);
        show(line);
        totals.passed += count(line, " passed");
        totals.failed += count(line, " failed");
        totals.ignored += count(line, " ignored");
        bytes.clear();
    }
    totals
}

/// The number before `word` in a closing line of a test binary; 0 in any other line.
fn count(line: &str, word: &str) -> u64 {
    if !line.starts_with("test result:") {
        return 0;
    }
    let before = line.split(word).next().unwrap_or_default();
    before
        .rsplit([' ', '.'])
        .next()
        .and_then(|number| number.parse().ok())
        .unwrap_or(0)
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

    #[test]
    fn output_is_read_to_its_end_whatever_is_printed() {
        let output =
            b"\xff\xfe no text\ntest result: ok. 2 passed; 0 failed; 0 ignored\r\ntest result: ok. 3 passed; 0 failed; 1 ignored";
        let mut lines = 0;
        let totals = follow(&output[..], |_| lines += 1);
        let wanted = Totals {
            passed: 5,
            failed: 0,
            ignored: 1,
        };
        assert_eq!((totals, lines), (wanted, 3));
        assert!(!totals.is_good(), "one was left out");
        assert!(Totals { ignored: 0, ..totals }.is_good());
        assert!(!Totals::default().is_good(), "nothing ran");
    }
}
