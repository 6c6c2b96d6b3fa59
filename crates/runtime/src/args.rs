//! Command-line flags that every service has, and how a wrong one is answered.
//!
//! Each flag is an environment variable too (`BAILIFF_` and its name). Flags that exist in kube-controller-manager keep their names,
//! meanings and defaults (NL-003), so durations and booleans are written as Go writes them. Values are parsed types; what needs two
//! flags to judge is judged by [`Validate`] while parsing. A stage's own flags belong to the stage.

mod bus;
mod common;
mod config;
mod duration;
mod kube;
mod leader_election;
mod numbers;
mod tls;

use std::ffi::OsString;
use std::io::Write as _;
use std::net::SocketAddr;
use std::ops::Deref;

use clap::error::ErrorKind;
use clap::{ArgMatches, Args, Command, FromArgMatches, Parser};

pub use bus::{Address, Addresses, BusArgs, BusFlags, DEFAULT_BUS_PORT};
pub use common::{CommonArgs, LogFilter, LogFormat};
pub use duration::{Error as DurationError, GoDuration};
pub use kube::KubeArgs;
pub use leader_election::{LeaderElectionArgs, LeaderElectionFlags};
pub use tls::{TlsArgs, TlsFlags, require_private_listener};

/// Exit code for bad configuration: `EX_USAGE` of sysexits.h.
pub const EXIT_CONFIGURATION: i32 = 64;

/// A flag's value is well-formed, but not allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid value '{value}' for '{}': {allowed}", in_help(flag))]
pub struct Error {
    /// The flag's name, without dashes. In capitals: what stands without a flag, by its name in the help.
    pub flag: &'static str,
    /// Its value.
    pub value: String,
    /// What is allowed.
    pub allowed: String,
}

/// A name as the help writes it.
fn in_help(flag: &str) -> String {
    if flag.starts_with(|first: char| first.is_ascii_uppercase()) {
        format!("<{flag}>")
    } else {
        format!("--{flag}")
    }
}

/// Flags that are judged together.
pub trait Validate {
    /// Checks what no single flag can tell.
    ///
    /// # Errors
    /// The first flag whose value is not allowed.
    fn validate(&self) -> Result<(), Error>;
}

/// Flags that passed [`Validate`]: flattening this validates while parsing, so it cannot be forgotten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Valid<T>(T);

/// Why a command line was not accepted, and how the process ends.
#[derive(Debug)]
pub struct Refusal(Instead);

/// What comes instead of the program's work.
#[derive(Debug)]
enum Instead {
    /// What is wrong, or help.
    Said(clap::Error),
    /// The configuration, which was asked for.
    Configuration(String),
}

/// The command line, or the end of the process: with 0 for `--help` and `--version`, with 64 for what is not accepted.
///
/// It is read on a thread of its own, whose memory ends with it, and copied from there: what clap knows of some hundred flags is a megabyte
/// for a moment, and whatever a process keeps would come to lie among what is left of that, and hold its pages.
pub fn parse_or_exit<T: Parser + Clone + Send + 'static>() -> T {
    let read = || parse_from::<T>(std::env::args_os());
    let parsed = match std::thread::Builder::new().name("arguments".to_owned()).spawn(read) {
        Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
        // There may be no more threads; it can be read here all the same.
        Err(_) => read(),
    };
    match parsed {
        Ok(parsed) => parsed.clone(),
        Err(refusal) => refusal.exit(),
    }
}

/// The command line `arguments`, the first of which is the program's name.
///
/// # Errors
/// What is wrong with it, or the text that was asked for.
pub fn parse_from<T: Parser>(arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> Result<T, Refusal> {
    let arguments = arguments.into_iter().map(Into::into).collect();
    parse(T::command(), arguments).map_err(Refusal)
}

fn parse<T: Parser>(command: Command, arguments: Vec<OsString>) -> Result<T, Instead> {
    // As pflag's: what is said last counts.
    let command = numbers::may_be_negative(command.args_override_self(true));
    let arguments = config::with_file(&command, arguments)?;
    let matches = command.clone().try_get_matches_from(&arguments).map_err(numbers::in_words)?;
    let parsed = T::from_arg_matches(&matches).map_err(|error| error.format(&mut config::given(&command, &matches, &arguments)))?;
    let printed = config::printed(&command, &matches, &arguments);
    printed.map_or(Ok(parsed), |file| Err(Instead::Configuration(file)))
}

/// Ends the process because of a configuration that was found wrong after parsing.
pub fn exit_invalid(error: &(dyn std::error::Error + 'static)) -> ! {
    crate::telemetry::lines::send();
    crate::shutdown::complain(error);
    std::process::exit(EXIT_CONFIGURATION)
}

/// Parses a boolean as Go's `strconv.ParseBool` does.
///
/// A flag that takes `--x` as well as `--x=false`, as pflag's do, is declared with
/// `num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = go_bool, action = ArgAction::Set`.
///
/// # Errors
/// What is allowed.
pub fn go_bool(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("allowed is true or false".to_owned()),
    }
}

/// Parses an address to listen on.
///
/// # Errors
/// What is allowed.
pub fn listen_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "allowed is <IP>:<port> such as 127.0.0.1:9990, 0.0.0.0:9990 or [::]:9990; port 0 takes any free one".to_owned()
    })
}

// === impl Error ===

impl Error {
    /// `value` of `--flag` is not what is `allowed`.
    pub fn new(flag: &'static str, value: impl ToString, allowed: impl Into<String>) -> Self {
        Self {
            flag,
            value: value.to_string(),
            allowed: allowed.into(),
        }
    }
}

impl From<Error> for clap::Error {
    fn from(error: Error) -> Self {
        Self::raw(ErrorKind::ValueValidation, error)
    }
}

// === impl Valid ===

impl<T: Validate> Valid<T> {
    /// These flags, if they pass.
    ///
    /// # Errors
    /// The first flag whose value is not allowed.
    pub fn new(flags: T) -> Result<Self, Error> {
        flags.validate()?;
        Ok(Self(flags))
    }

    /// The flags.
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> Deref for Valid<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: FromArgMatches + Validate> FromArgMatches for Valid<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self::new(T::from_arg_matches(matches)?)?)
    }

    fn from_arg_matches_mut(matches: &mut ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self::new(T::from_arg_matches_mut(matches)?)?)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.update_from_arg_matches(matches)?;
        Ok(self.0.validate()?)
    }
}

impl<T: Args + Validate> Args for Valid<T> {
    fn group_id() -> Option<clap::Id> {
        T::group_id()
    }

    fn augment_args(command: Command) -> Command {
        T::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        T::augment_args_for_update(command)
    }
}

/// What the flags are without a command line. Environment variables are not read.
fn defaults<T: Args>() -> T {
    let command = T::augment_args(Command::new("defaults")).mut_args(|arg| arg.env(None::<&str>));
    let matches = command.try_get_matches_from(["defaults"]);
    let parsed = matches.and_then(|matches| T::from_arg_matches(&matches));
    parsed.expect("every shared flag has a default that is allowed")
}

// === impl Refusal ===

impl Refusal {
    /// The code the process ends with.
    pub fn exit_code(&self) -> i32 {
        match &self.0 {
            Instead::Said(error) if error.use_stderr() => EXIT_CONFIGURATION,
            Instead::Said(_) | Instead::Configuration(_) => 0,
        }
    }

    /// Prints what was asked for to stdout, or what is wrong to stderr, and ends the process.
    pub fn exit(&self) -> ! {
        // If not even this can be written nobody is listening; the exit code still tells.
        let _ = match &self.0 {
            Instead::Said(error) => error.print(),
            Instead::Configuration(file) => std::io::stdout().write_all(file.as_bytes()),
        };
        std::process::exit(self.exit_code())
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Instead::Said(error) => error.fmt(f),
            Instead::Configuration(file) => f.write_str(file),
        }
    }
}

impl From<clap::Error> for Instead {
    fn from(error: clap::Error) -> Self {
        Self::Said(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A service.
    #[derive(Clone, Debug, Parser)]
    #[command(name = "service", version)]
    struct Cli {
        #[command(flatten)]
        common: CommonArgs,
        #[command(flatten)]
        kube: KubeArgs,
        #[command(flatten)]
        leader_election: LeaderElectionArgs,
        #[command(flatten)]
        bus: BusArgs,
    }

    fn parse(flags: &[&str]) -> Result<Cli, Refusal> {
        parse_from(std::iter::once("service").chain(flags.iter().copied()))
    }

    #[test]
    fn the_flags_fit_together() {
        use clap::CommandFactory as _;
        Cli::command().debug_assert();
        let cli = parse(&[]).expect("defaults are allowed");
        assert_eq!(cli.leader_election, LeaderElectionArgs::default());
        assert_eq!(cli.kube, KubeArgs::default());
        assert_eq!(cli.bus, BusArgs::default());
        assert_eq!(cli.common, CommonArgs::default());
    }

    #[test]
    fn every_flag_is_an_environment_variable() {
        use clap::CommandFactory as _;
        for arg in Cli::command().get_arguments().filter(|arg| arg.get_long().is_some()) {
            let (flag, env) = (arg.get_long().unwrap_or_default(), arg.get_env().unwrap_or_default());
            let ours = format!("BAILIFF_{}", flag.replace('-', "_").to_uppercase());
            let standard = flag.starts_with("otlp-") || flag == "print-config";
            assert!(env.to_str() == Some(&ours) || standard, "--{flag}: {env:?}");
        }
    }

    /// NL-003
    #[test]
    fn defaults_are_those_of_kube_controller_manager() {
        let cli = parse(&[]).expect("defaults are allowed");
        let LeaderElectionFlags {
            leader_elect,
            leader_elect_lease_duration,
            leader_elect_renew_deadline,
            leader_elect_retry_period,
            leader_elect_resource_name,
            leader_elect_resource_namespace,
        } = cli.leader_election.into_inner();
        assert!(leader_elect);
        assert_eq!(leader_elect_lease_duration, GoDuration::from_secs(15));
        assert_eq!(leader_elect_renew_deadline, GoDuration::from_secs(10));
        assert_eq!(leader_elect_retry_period, GoDuration::from_secs(2));
        assert_eq!(leader_elect_resource_name, None);
        assert_eq!(leader_elect_resource_namespace, "kube-system");
        assert_eq!((cli.kube.kube_api_qps, cli.kube.kube_api_burst), (20.0, 30));
    }

    #[test]
    fn booleans_are_written_as_in_go() {
        for (flags, leads) in [
            (&["--leader-elect"][..], true),
            (&["--leader-elect=true"], true),
            (&["--leader-elect=T"], true),
            (&["--leader-elect=false"], false),
            (&["--leader-elect=0", "--insecure"], false),
        ] {
            let cli = parse(flags).expect("allowed");
            assert_eq!(cli.leader_election.leader_elect, leads, "{flags:?}");
        }
    }

    #[test]
    fn what_is_wrong_is_answered_with_flag_value_and_what_is_allowed() {
        for (flag, parts) in [
            ("--leader-elect=yes", &["'yes'", "'--leader-elect", "true or false"][..]),
            (
                "--leader-elect-lease-duration=15",
                &["'15'", "'--leader-elect-lease-duration", "no unit", "1m30s"],
            ),
            (
                "--leader-elect-lease-duration=10s",
                &["'10s'", "--leader-elect-renew-deadline (10s)"],
            ),
            ("--leader-elect-lease-duration=500ms", &["'500ms'", "1s"]),
            (
                "--leader-elect-renew-deadline=2400ms",
                &["'2.4s'", "1.2 times --leader-elect-retry-period (2s)"],
            ),
            ("--leader-elect-retry-period=0s", &["'0s'", "more than 0"]),
            ("--leader-elect-resource-name=Bad_Name", &["'Bad_Name'", "lower case"]),
            ("--leader-elect-resource-namespace=a.b", &["'a.b'", "lower case"]),
            ("--kube-api-qps=0", &["'0'", "negative"]),
            ("--kube-api-qps=fast", &["'fast'", "--kube-api-qps", "above 0"]),
            ("--kube-api-qps=NaN", &["'NaN'", "--kube-api-qps"]),
            ("--kube-api-burst=0", &["'0'", "whole number from 1"]),
            ("--kube-api-burst=many", &["'many'", "--kube-api-burst"]),
            ("--bus=bus:7460", &["'bus:7460'", "--insecure", "loopback"]),
            ("--bus=7460", &["'7460'", "<host>:<port>"]),
            ("--bus=https://bus:1", &["<host>:<port>"]),
            ("--admin-listen=:9990", &["':9990'", "127.0.0.1:9990"]),
            ("--log-level=loud=very", &["'loud=very'", "info,bailiff"]),
            ("--log-format=xml", &["'xml'", "json"]),
            ("--drain-timeout=-1s", &["'-1s'", "negative"]),
            ("--otlp-endpoint=collector:4317", &["'collector:4317'", "http://"]),
            ("--no-such-flag", &["'--no-such-flag'"]),
        ] {
            let refusal = parse(&[flag]).expect_err(flag);
            assert_eq!(refusal.exit_code(), EXIT_CONFIGURATION, "{flag}");
            for part in parts {
                assert!(refusal.to_string().contains(part), "{flag}: {refusal} lacks {part}");
            }
        }
    }

    #[test]
    fn help_and_version_are_no_failures() {
        for flag in ["--help", "--version"] {
            assert_eq!(parse(&[flag]).expect_err(flag).exit_code(), 0, "{flag}");
        }
        let help = parse(&["--help"]).expect_err("help").to_string();
        assert!(help.starts_with("A service"), "{help}");
        assert!(help.contains("BAILIFF_KUBE_API_QPS"), "{help}");
        assert!(help.contains("[default: 15s]"), "{help}");
        assert!(!help.contains("--seed"), "{help}");
    }
}
