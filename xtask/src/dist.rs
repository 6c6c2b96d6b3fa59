//! `cargo xtask dist`: the binaries as images hold them, built by what they do.
//!
//! They are built twice. The first build counts what runs while `bailiff-bench` plays its situations with it over TLS, once with five
//! processes and once with one. The second inlines and lays out by these counts, and makes small what never ran. They are counted anew
//! each time: counts hold for one compiler and one state of the code, and nothing says that they are of another.

#![allow(
    clippy::disallowed_methods,
    reason = "processes live in real time, and a build takes some of it"
)]

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use bailiff_processes::{BINARIES, Directory, PACKAGES, Program, Server, build_with, cargo};

const USAGE: &str = "\
usage: cargo xtask dist [--flag=value …]

  --target=TRIPLE               what to build for; this machine has to run it (default: what this compiler was built for)
  --out=target/binaries         the directory for the six binaries

It needs llvm-profdata (rustup component add llvm-tools), and takes three times as long as the build of a profile.";

/// What `bailiff-bench` plays: everything once, as small as each still takes some seconds. How often something runs matters only beside
/// how often other things do.
const PLAYED: [&str; 7] = [
    "--direct",
    "--nodes=1000",
    "--pods=6000",
    "--tainted=200",
    "--rest=20s",
    "--situations=rest,node-failure,mass-failure,taint,rollout,update",
    "--output=json",
];

/// How long a sandbox without nodes may take until it answers.
const STARTED: Duration = Duration::from_secs(60);

/// Between two looks whether it does.
const LOOK: Duration = Duration::from_millis(100);

/// Where things are built, below the directory in which the repository is.
const BUILT: &str = "target/dist-by-use";

/// What is built, and where it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Flags {
    target: Option<String>,
    out: PathBuf,
}

/// The compiler: what it builds for, and where its tools are.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Compiler {
    host: String,
    tools: PathBuf,
}

/// Runs the chore.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let flags = match Flags::parse(arguments) {
        Ok(flags) => flags,
        Err(complaint) => {
            eprintln!("dist: {complaint}\n{USAGE}");
            return ExitCode::from(64);
        }
    };
    match make(&flags) {
        Ok(()) => {
            println!("{}", flags.out.display());
            ExitCode::SUCCESS
        }
        Err(complaint) => {
            eprintln!("dist: {complaint}");
            ExitCode::FAILURE
        }
    }
}

fn make(flags: &Flags) -> Result<(), String> {
    let compiler = Compiler::ask()?;
    let profdata = compiler.profdata()?;
    let target = flags.target.as_ref().unwrap_or(&compiler.host);
    let directory = std::path::absolute(BUILT).map_err(|error| format!("{BUILT}: {error}"))?;
    let (counts, profile) = (directory.join("counts"), directory.join("dist.profdata"));
    let (counting, by_use) = (directory.join("counting"), directory.join("built"));
    // Cargo takes what it built of other packages by an earlier profile as fresh.
    [&counts, &by_use].into_iter().try_for_each(|old| remove(old))?;

    eprintln!("dist: 1 of 4: building what counts what it does");
    let counting = build(target, &counting, &format!("-Cprofile-generate={}", counts.display()))?;
    eprintln!("dist: 2 of 4: playing with five processes");
    play(&counting, &[])?;
    eprintln!("dist: 3 of 4: playing with one process");
    play(&counting, &["--together"])?;
    merge(&profdata, &counts, &profile)?;
    eprintln!("dist: 4 of 4: building by what was counted");
    let by_use = build(target, &by_use, &format!("-Cprofile-use={}", profile.display()))?;

    std::fs::create_dir_all(&flags.out).map_err(|error| format!("--out={}: {error}", flags.out.display()))?;
    for name in BINARIES {
        let copy = flags.out.join(name);
        std::fs::copy(by_use.join(name), &copy).map_err(|error| format!("{}: {error}", copy.display()))?;
    }
    Ok(())
}

fn remove(directory: &Path) -> Result<(), String> {
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(format!("{}: {error}", directory.display())),
        _ => Ok(()),
    }
}

/// Builds all binaries in a directory of their own: those of both builds have the same names. The profile is the same for both, for names
/// of functions depend on it, and by these counts are found again.
fn build(target: &str, directory: &Path, rust_flags: &str) -> Result<PathBuf, String> {
    let mut command = cargo(&["build", "--profile", "dist-by-use", "--locked"]);
    // With a target named, what runs in the build itself is built without these flags.
    command.args(["--target", target]).arg("--target-dir").arg(directory);
    command.env("RUSTFLAGS", rust_flags);
    build_with(command, &PACKAGES)
}

/// Plays everything once, with a sandbox as the API server.
fn play(binaries: &Path, flags: &[&str]) -> Result<(), String> {
    let directory = Directory::make("bailiff-dist")?;
    let kubeconfig = directory.path().join("kubeconfig");
    let write = format!("--write-kubeconfig={}", kubeconfig.display());
    let sandbox = ["sandbox", "--bare", "--listen=127.0.0.1:0", &write].map(str::to_owned);
    // It is killed when it is dropped, and so leaves no counts: nobody runs one beside a cluster.
    let mut sandbox = Program::start(&binaries.join("bailiff"), "sandbox".to_owned(), &sandbox)?;
    let began = Instant::now();
    while !Server::of(&kubeconfig).is_ok_and(|api| api.get("/readyz").is_ok()) {
        sandbox.check()?;
        if began.elapsed() > STARTED {
            return Err(format!("the sandbox did not answer within {STARTED:?}"));
        }
        std::thread::sleep(LOOK);
    }
    let mut bench = cargo(&["run", "--release", "--locked", "--package", "bailiff-bench", "--"]);
    bench.args(PLAYED).args(flags).arg("--kubeconfig").arg(&kubeconfig);
    // What it measures says nothing: counting takes longer than what is counted.
    let played = bench.arg("--binaries").arg(binaries).stdout(Stdio::null()).status();
    match played {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("bailiff-bench: {status}")),
        Err(error) => Err(format!("cannot run cargo: {error}")),
    }
}

/// Makes one profile of all counts. What never ran stays in it: only so is it known to be cold.
fn merge(profdata: &Path, counts: &Path, profile: &Path) -> Result<(), String> {
    let mut command = Command::new(profdata);
    let merged = command.arg("merge").arg("--output").arg(profile).arg(counts).status();
    match merged {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{}: {status}", profdata.display())),
        Err(error) => Err(format!("{}: {error}", profdata.display())),
    }
}

// === impl Flags ===

impl Flags {
    fn parse(arguments: &[String]) -> Result<Self, String> {
        let mut flags = Self {
            target: None,
            out: "target/binaries".into(),
        };
        for argument in arguments {
            match argument.split_once('=') {
                Some((name, "")) => return Err(format!("{name}: wanted is a value")),
                Some(("--target", target)) => flags.target = Some(target.to_owned()),
                Some(("--out", out)) => flags.out = out.into(),
                Some((name, _)) => return Err(format!("'{name}' is no flag")),
                None => return Err(format!("'{argument}': wanted is --flag=value")),
            }
        }
        Ok(flags)
    }
}

// === impl Compiler ===

impl Compiler {
    /// Asks the compiler that cargo takes.
    fn ask() -> Result<Self, String> {
        let asked = Command::new("rustc").args(["--print=host-tuple", "--print=sysroot"]).output();
        let output = asked.map_err(|error| format!("cannot run rustc: {error}"))?;
        Self::of(&String::from_utf8_lossy(&output.stdout)).ok_or_else(|| "rustc does not say what it builds for".to_owned())
    }

    /// What it says: a line each.
    fn of(said: &str) -> Option<Self> {
        let (host, sysroot) = said.trim_end().split_once('\n')?;
        Some(Self {
            host: host.to_owned(),
            tools: Path::new(sysroot).join("lib/rustlib").join(host).join("bin"),
        })
    }

    /// The program that makes a profile of counts, of the same LLVM as the compiler.
    fn profdata(&self) -> Result<PathBuf, String> {
        let program = self.tools.join("llvm-profdata");
        let missing = || format!("{} is missing: rustup component add llvm-tools", program.display());
        program.exists().then(|| program.clone()).ok_or_else(missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Flags, String> {
        Flags::parse(&arguments.iter().map(|&argument| argument.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn what_is_said_holds_and_the_rest_is_as_the_usage_says() {
        let flags = parse(&["--target=x86_64-unknown-linux-musl"]).unwrap();
        assert_eq!(flags.target.as_deref(), Some("x86_64-unknown-linux-musl"));
        assert!(USAGE.contains(&format!("--out={} ", flags.out.display())));
        assert_eq!(parse(&["--out=/out"]).unwrap().out, Path::new("/out"));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let cases = [
            ("--out=", "--out: wanted is a value"),
            ("--profile=x", "'--profile' is no flag"),
            ("out", "'out': wanted is --flag=value"),
        ];
        for (argument, wanted) in cases {
            assert_eq!(parse(&[argument]).unwrap_err(), wanted);
        }
    }

    #[test]
    fn the_compiler_says_what_it_is_and_where_its_tools_are() {
        let compiler = Compiler::of("x86_64-unknown-linux-gnu\n/opt/rust\n").unwrap();
        assert_eq!(compiler.host, "x86_64-unknown-linux-gnu");
        assert_eq!(
            compiler.tools,
            Path::new("/opt/rust/lib/rustlib/x86_64-unknown-linux-gnu/bin")
        );
        let complaint = compiler.profdata().unwrap_err();
        assert!(
            complaint.ends_with("is missing: rustup component add llvm-tools"),
            "{complaint}"
        );
        assert_eq!(Compiler::of("no compiler"), None);
    }
}
