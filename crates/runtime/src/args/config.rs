//! Flags from a file, and all flags as such a file.
//!
//! The file is a YAML map: keys are flags without their dashes, values are what would stand after the `=`. A flag on the command line goes
//! before its environment variable, that before the file, and that before the default.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};
use serde_json::Value;

use super::Error;

/// Ids of the flags that are about the file, and never in it.
const OWN: [&str; 2] = ["config", "print_config"];

/// The longest file that is read: no configuration is as long.
const LONGEST: u64 = 1 << 20;

/// `arguments` with those of the file that they, or the environment, name; what is given otherwise wins.
///
/// # Errors
/// The file cannot be read, or names a flag that there is not.
pub(super) fn with_file(command: &Command, mut arguments: Vec<OsString>) -> Result<Vec<OsString>, clap::Error> {
    // What is wrong with the arguments is said when they are parsed in earnest; asking for help needs no file.
    let lenient = command.clone().ignore_errors(true).try_get_matches_from(&arguments);
    let Ok(matches) = lenient else { return Ok(arguments) };
    let (leaf, matches, first) = leaf(command, &matches, &arguments);
    let Ok(Some(path)) = matches.try_get_one::<PathBuf>(OWN[0]) else {
        return Ok(arguments);
    };
    let mut flags = Vec::new();
    for (name, value) in read(path)? {
        let arg =
            find(&leaf, &name).ok_or_else(|| refuse(path, format!("it sets '{name}', which is no flag of {}", leaf.get_name())))?;
        let text = text(&value).ok_or_else(|| {
            refuse(
                path,
                format!("'{name}' is neither a text, a number, true, false nor a list of these"),
            )
        })?;
        let source = matches.value_source(arg.get_id().as_str());
        if !matches!(source, Some(ValueSource::CommandLine | ValueSource::EnvVariable)) {
            flags.push(OsString::from(format!("--{name}={text}")));
        }
    }
    arguments.splice(first..first, flags);
    Ok(arguments)
}

/// Every flag and its value as a file, if that was asked for instead of the program's work.
pub(super) fn printed(command: &Command, matches: &ArgMatches, arguments: &[OsString]) -> Option<String> {
    let (leaf, matches, _) = leaf(command, matches, arguments);
    if !matches.try_get_one::<bool>(OWN[1]).ok().flatten().copied().unwrap_or(false) {
        return None;
    }
    let mut file = String::new();
    for arg in leaf.get_arguments().filter(|arg| is_flag(arg)) {
        let (name, id) = (arg.get_long().unwrap_or_default(), arg.get_id().as_str());
        let values = matches.try_get_raw(id).ok().flatten();
        let values: Vec<_> = values.into_iter().flatten().map(|value| value.to_string_lossy()).collect();
        // A JSON text is a YAML text.
        let line = match values.is_empty() {
            true => writeln!(file, "# {name}:"),
            false => writeln!(file, "{name}: {}", Value::from(values.join(","))),
        };
        line.expect("a String takes every write");
    }
    Some(file)
}

/// The command that was chosen, as it calls itself in its usage.
pub(super) fn given(command: &Command, matches: &ArgMatches, arguments: &[OsString]) -> Command {
    let mut command = command.clone();
    command.build();
    let (leaf, ..) = leaf(&command, matches, arguments);
    leaf
}

/// The command that was chosen, what was given to it, and where its own arguments begin.
fn leaf<'a>(command: &Command, matches: &'a ArgMatches, arguments: &[OsString]) -> (Command, &'a ArgMatches, usize) {
    let (mut leaf, mut matches) = (command.clone(), matches);
    let mut first = usize::from(!command.is_no_binary_name_set()).min(arguments.len());
    while let Some((name, inner)) = matches.subcommand() {
        let Some(found) = leaf.find_subcommand(name).cloned() else {
            break;
        };
        let place = arguments.iter().skip(first).position(|argument| *argument == *name);
        first += place.map_or(0, |place| place + 1);
        (leaf, matches) = (found, inner);
    }
    (leaf, matches, first)
}

fn is_flag(arg: &Arg) -> bool {
    let id = arg.get_id().as_str();
    arg.get_long().is_some() && !OWN.contains(&id) && !["help", "version"].contains(&id)
}

fn find<'a>(command: &'a Command, name: &str) -> Option<&'a Arg> {
    let named = |arg: &&Arg| arg.get_long() == Some(name) && is_flag(arg);
    command.get_arguments().find(named)
}

fn read(path: &Path) -> Result<BTreeMap<String, Value>, clap::Error> {
    let length = std::fs::metadata(path)
        .map_err(|error| refuse(path, error.to_string()))?
        .len();
    if length > LONGEST {
        return Err(refuse(path, format!("it has {length} bytes, at most {LONGEST} are read")));
    }
    let text = std::fs::read_to_string(path).map_err(|error| refuse(path, error.to_string()))?;
    let map: Option<BTreeMap<String, Value>> = serde_saphyr::from_str(&text).map_err(|error| refuse(path, error.to_string()))?;
    Ok(map.unwrap_or_default())
}

/// A value as it would stand on the command line.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(is) => Some(is.to_string()),
        Value::Array(values) => values
            .iter()
            .map(text)
            .collect::<Option<Vec<_>>>()
            .map(|texts| texts.join(",")),
        Value::Null | Value::Object(_) => None,
    }
}

fn refuse(path: &Path, why: String) -> clap::Error {
    let allowed = format!("{why}; allowed is a YAML file of flags, such as 'kube-api-qps: 50'");
    Error::new("config", path.display(), allowed).into()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::args::{CommonArgs, EXIT_CONFIGURATION, KubeArgs, Refusal, parse_from};

    /// A service.
    #[derive(Clone, Debug, Parser)]
    #[command(name = "service")]
    struct Cli {
        #[command(flatten)]
        common: CommonArgs,
        #[command(flatten)]
        kube: KubeArgs,
    }

    /// A program of several commands.
    #[derive(Clone, Debug, Parser)]
    #[command(name = "several")]
    enum Several {
        /// One of them.
        Run(Box<Cli>),
    }

    fn mk_file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), text).expect("written");
        file
    }

    fn parse(text: &str, flags: &[&str]) -> Result<Cli, Refusal> {
        let file = mk_file(text);
        let config = format!("--config={}", file.path().display());
        parse_from(["service", &config].into_iter().chain(flags.iter().copied()))
    }

    #[test]
    fn what_is_said_on_the_command_line_wins_over_the_file_and_that_over_the_default() {
        let file = "kube-api-qps: 50\nkube-api-burst: \"100\"\nlog-level: debug\n";
        for (flags, qps) in [(&[][..], 50.0), (&["--kube-api-qps=7"], 7.0), (&["--kube-api-qps", "8"], 8.0)] {
            let cli = parse(file, flags).expect("allowed");
            assert_eq!((cli.kube.kube_api_qps, cli.kube.kube_api_burst), (qps, 100), "{flags:?}");
        }
        assert_eq!(parse("", &[]).expect("an empty file").kube, KubeArgs::default());
    }

    #[test]
    fn a_flag_that_is_repeated_hides_no_file() {
        let cli = parse("kube-api-burst: 7\n", &["--kube-api-qps=1", "--kube-api-qps=2"]).expect("the last counts");
        assert_eq!((cli.kube.kube_api_qps, cli.kube.kube_api_burst), (2.0, 7));
        let first = mk_file("kube-api-burst: 9\n");
        let first = format!("--config={}", first.path().display());
        let last = mk_file("kube-api-burst: 8\n");
        let last = format!("--config={}", last.path().display());
        let cli: Cli = parse_from(["service", "--kube-api-qps=1", "--kube-api-qps=2", &first, &last]).expect("the last counts");
        assert_eq!(cli.kube.kube_api_burst, 8);
    }

    #[test]
    fn a_file_is_for_the_command_that_was_chosen() {
        let file = mk_file("kube-api-qps: 3.5\n");
        let config = format!("--config={}", file.path().display());
        let Several::Run(cli) = parse_from(["several", "run", &config]).expect("allowed");
        assert!((cli.kube.kube_api_qps - 3.5).abs() < f32::EPSILON);
    }

    #[test]
    fn what_is_wrong_is_said_with_the_file() {
        for (file, parts) in [
            ("kube-api-qqs: 1\n", &["'--config'", "kube-api-qqs", "no flag of service"][..]),
            ("config: other.yaml\n", &["'--config'", "config"]),
            ("kube-api-qps: {a: 1}\n", &["kube-api-qps", "neither a text"]),
            ("- kube-api-qps\n", &["'--config'", "YAML"]),
            ("kube-api-qps: fast\n", &["'fast'", "--kube-api-qps"]),
        ] {
            let refusal = parse(file, &[]).expect_err(file);
            assert_eq!(refusal.exit_code(), EXIT_CONFIGURATION, "{file}");
            for part in parts {
                assert!(refusal.to_string().contains(part), "{file}: {refusal} lacks {part}");
            }
        }
        let missing = parse_from::<Cli>(["service", "--config=/no/such/file"]).expect_err("missing");
        assert!(missing.to_string().contains("/no/such/file"), "{missing}");
    }

    /// What is printed is a file that says the same.
    #[test]
    fn what_is_printed_can_be_read_again() {
        let flags = [
            "--kube-api-qps=12",
            "--log-level=info,bailiff_cluster=debug",
            "--print-config",
        ];
        let printed = parse("kube-api-burst: 44\n", &flags).expect_err("printed instead");
        assert_eq!(printed.exit_code(), 0);
        let printed = printed.to_string();
        assert!(
            printed.contains("\nkube-api-burst: \"44\"\n") && printed.contains("\n# kubeconfig:\n"),
            "{printed}"
        );
        assert!(!printed.contains("print-config"), "{printed}");
        let again = parse(&printed, &[]).expect("allowed");
        let first = parse("kube-api-burst: 44\n", &flags[..2]).expect("allowed");
        assert_eq!((again.kube, again.common.log_level), (first.kube, first.common.log_level));
    }
}
