//! `cargo xtask dist`: the program of the profile `dist`, faster, built by what is run.
//!
//! It is built twice. The first build counts what runs while `bailiff-bench` plays its situations with it, over TLS to the API server,
//! once with five processes and once with one. The second inlines and lays out by these counts, and spends little on what never ran.
//! Counts are taken anew each time: they hold for one compiler and one state of the code, and nothing says that they are of another.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use bailiff_processes::{BINARY, build_with, cargo};

const USAGE: &str = "\
usage: cargo xtask dist [--flag=value …]

  --target=TRIPLE        what to build for, such as x86_64-unknown-linux-musl; this machine has to run it (default: what this
                         compiler was built for)
  --out=DIRECTORY        where the binary goes (default: target/binaries)

It needs llvm-profdata (rustup component add llvm-tools), and takes two builds and some ten minutes. RUSTFLAGS are added to its own, such as
-Crelocation-model=pie for a program that can lie anywhere in memory; flags in a configuration file of cargo are not.";

/// What `bailiff-bench` plays, which has a bound for each: everything once, as small as each still takes some seconds. How often something
/// runs matters only beside how often other things do.
const PLAYED: [&str; 6] = [
    "--direct",
    "--nodes=1000",
    "--pods=6000",
    "--tainted=200",
    "--rest=20s",
    "--situations=rest,node-failure,mass-failure,taint,rollout,update",
];

/// The program lies where it is linked for, as kube-controller-manager does: what holds addresses is as it is in the file, and so in memory
/// once, instead of once in each process that was moved (docs/adr/0010). Stack, heap and libraries lie anywhere.
const IN_PLACE: &str = "-Crelocation-model=static";

/// Between two flags of `CARGO_ENCODED_RUSTFLAGS`.
const SEPARATOR: &str = "\x1f";

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
    let directory = root().join("target/dist-by-use");
    let (counts, profile) = (directory.join("counts"), directory.join("dist.profdata"));
    let (first, second) = (directory.join("counting"), directory.join("built"));
    // Of packages from a registry cargo does not see that they were built by an earlier profile.
    [&counts, &second].into_iter().try_for_each(|old| remove(old))?;

    eprintln!("dist: 1 of 4: building what counts what it does");
    let counting = build(target, &first, &format!("-Cprofile-generate={}", counts.display()))?;
    eprintln!("dist: 2 of 4: playing with five processes");
    play(&counting, &[])?;
    eprintln!("dist: 3 of 4: playing with one process");
    play(&counting, &["--together"])?;
    merge(&profdata, &counts, &profile)?;
    eprintln!("dist: 4 of 4: building by what was counted");
    let built = build(target, &second, &format!("-Cprofile-use={}", profile.display()))?;

    std::fs::create_dir_all(&flags.out).map_err(|error| format!("--out={}: {error}", flags.out.display()))?;
    let (from, to) = (built.join(BINARY), flags.out.join(BINARY));
    std::fs::copy(&from, &to).map_err(|error| format!("{} to {}: {error}", from.display(), to.display()))?;
    Ok(())
}

/// The directory in which the repository is.
fn root() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package)
}

fn remove(directory: &Path) -> Result<(), String> {
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(format!("{}: {error}", directory.display())),
        _ => Ok(()),
    }
}

/// Builds the program in a directory of its own: that of both builds has the same name. The profile is the same for both, for names
/// of functions depend on it, and by these counts are found again.
fn build(target: &str, directory: &Path, flag: &str) -> Result<PathBuf, String> {
    let mut command = cargo(&["build", "--profile", "dist-by-use", "--locked"]);
    // With a target named, what runs in the build itself is built without the flag.
    command.args(["--target", target]).arg("--target-dir").arg(directory);
    let [encoded, plain] = ["CARGO_ENCODED_RUSTFLAGS", "RUSTFLAGS"].map(|name| std::env::var(name).ok());
    command
        .current_dir(root())
        .env("CARGO_ENCODED_RUSTFLAGS", rust_flags(encoded, plain, flag));
    build_with(command)
}

/// This flag behind those that cargo would take from the environment, and those behind [`IN_PLACE`], which they may take back; as cargo wants
/// them: a flag may have spaces in it.
fn rust_flags(encoded: Option<String>, plain: Option<String>, flag: &str) -> String {
    let plain = || plain.map(|flags| flags.split_whitespace().collect::<Vec<_>>().join(SEPARATOR));
    let given = encoded.or_else(plain).filter(|given| !given.is_empty());
    let flags: Vec<&str> = [Some(IN_PLACE), given.as_deref(), Some(flag)].into_iter().flatten().collect();
    flags.join(SEPARATOR)
}

/// Plays everything once. A sandbox is the API server, of the same program; it is killed, and so leaves no counts: what it does says
/// nothing of what runs beside a cluster.
fn play(binaries: &Path, flags: &[&str]) -> Result<(), String> {
    let mut bench = cargo(&["run", "--release", "--locked", "--package", "bailiff-bench", "--"]);
    bench
        .current_dir(root())
        .args(PLAYED)
        .args(flags)
        .arg("--binaries")
        .arg(binaries);
    // What it measures means nothing: to count takes longer than what is counted.
    let played = succeed(bench.stdout(Stdio::null()));
    played.map_err(|error| format!("playing came to nothing, as is said above; on a busy machine try again: {error}"))
}

/// Makes one profile of all counts. What never ran stays in it: only so is it known to be cold.
fn merge(profdata: &Path, counts: &Path, profile: &Path) -> Result<(), String> {
    succeed(Command::new(profdata).arg("merge").arg("--output").arg(profile).arg(counts))
}

/// Runs a program, which has to end well.
fn succeed(command: &mut Command) -> Result<(), String> {
    let status = command.status();
    let program = command.get_program().display();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{program}: {status}")),
        Err(error) => Err(format!("cannot run {program}: {error}")),
    }
}

// === impl Flags ===

impl Flags {
    fn parse(arguments: &[String]) -> Result<Self, String> {
        let mut flags = Self {
            target: None,
            out: root().join("target/binaries"),
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
    /// Asks the compiler that cargo takes, unless a configuration file of cargo names another.
    fn ask() -> Result<Self, String> {
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| OsString::from("rustc"));
        let mut command = Command::new(&rustc);
        let asked = command
            .args(["--print=host-tuple", "--print=sysroot"])
            .stderr(Stdio::inherit())
            .output();
        let output = asked.map_err(|error| format!("cannot run {}: {error}", rustc.display()))?;
        let said = String::from_utf8_lossy(&output.stdout);
        Self::of(&said).ok_or_else(|| format!("{} does not say what it builds for: {}", rustc.display(), output.status))
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
        if program.exists() {
            return Ok(program);
        }
        let program = program.display();
        Err(format!("{program} is missing: rustup component add llvm-tools"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Flags, String> {
        Flags::parse(&arguments.iter().map(|&argument| argument.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn what_is_said_holds() {
        let flags = parse(&["--target=x86_64-unknown-linux-musl"]).unwrap();
        assert_eq!(flags.target.as_deref(), Some("x86_64-unknown-linux-musl"));
        assert_eq!(flags.out, root().join("target/binaries"));
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
    fn flags_of_the_environment_stand_between_its_own() {
        let text = |flags: &str| Some(flags.to_owned());
        let cases = [
            (None, None, vec!["-Cx=a b"]),
            (None, text(" -A  -B "), vec!["-A", "-B", "-Cx=a b"]),
            (text("-A b"), text("-B"), vec!["-A b", "-Cx=a b"]),
            (text(""), text("-B"), vec!["-Cx=a b"]),
        ];
        for (encoded, plain, wanted) in cases {
            let flags = rust_flags(encoded, plain, "-Cx=a b");
            assert_eq!(flags.split(SEPARATOR).collect::<Vec<_>>(), [vec![IN_PLACE], wanted].concat());
        }
    }

    #[test]
    fn the_compiler_says_what_it_is_and_where_its_tools_are() {
        let compiler = Compiler::of("x86_64-unknown-linux-gnu\n/nowhere\n").unwrap();
        assert_eq!(compiler.host, "x86_64-unknown-linux-gnu");
        assert_eq!(compiler.tools, Path::new("/nowhere/lib/rustlib/x86_64-unknown-linux-gnu/bin"));
        let complaint = compiler.profdata().unwrap_err();
        assert!(
            complaint.ends_with("is missing: rustup component add llvm-tools"),
            "{complaint}"
        );
        assert_eq!(Compiler::of("no compiler"), None);
    }
}
