//! Numbers on the command line, as far as clap is who reads them.
//!
//! Of one that is none it says what Rust does, which tells a programmer what happened, and nobody what is allowed.

use std::error::Error;
use std::num::{IntErrorKind, ParseFloatError, ParseIntError};

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// The command, whose flags take what stands after them for a number, where clap would look for a flag `-1`.
pub(super) fn may_be_negative(command: Command) -> Command {
    let flags = command.mut_args(|arg| {
        let takes_value = arg.get_long().is_some() && arg.get_action().takes_values();
        if takes_value { arg.allow_negative_numbers(true) } else { arg }
    });
    flags.mut_subcommands(may_be_negative)
}

/// The error, which says what is allowed if it is about a number.
pub(super) fn in_words(error: clap::Error) -> clap::Error {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text),
        _ => None,
    };
    let (Some(arg), Some(value), Some(source)) = (text(ContextKind::InvalidArg), text(ContextKind::InvalidValue), error.source())
    else {
        return error;
    };
    match allowed(value, source) {
        Some(allowed) => {
            let message = format!("invalid value '{value}' for '{arg}': {allowed}\n\nFor more information, try '--help'.\n");
            clap::Error::raw(ErrorKind::ValueValidation, message)
        }
        None => error,
    }
}

fn allowed(value: &str, source: &(dyn Error + 'static)) -> Option<String> {
    if source.is::<ParseFloatError>() {
        return Some("allowed is a number such as 20 or 0.5".to_owned());
    }
    if let Some(error) = source.downcast_ref::<ParseIntError>() {
        let allowed = match error.kind() {
            IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "allowed is a whole number that is not as large",
            IntErrorKind::Zero => "allowed is a whole number from 1",
            _ if value.starts_with('-') => "allowed is a whole number, and none below 0",
            _ => "allowed is a whole number",
        };
        return Some(allowed.to_owned());
    }
    // As clap shows a range, which it has no type for.
    let text = source.to_string();
    let (first, last) = text.strip_prefix(value)?.strip_prefix(" is not in ")?.split_once("..=")?;
    Some(format!("allowed is a whole number from {first} to {last}"))
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use clap::Parser;

    use crate::args::{EXIT_CONFIGURATION, parse_from};

    /// A program.
    #[derive(Clone, Debug, Parser)]
    #[command(name = "program")]
    enum Cli {
        /// What it does.
        Work(Flags),
    }

    /// Flags of all kinds.
    #[derive(Clone, Debug, clap::Args)]
    struct Flags {
        #[arg(value_name = "PLACE", default_value_t = 0)]
        place: u32,
        #[arg(long, default_value_t = 0, value_name = "SEED")]
        seed: u64,
        #[arg(long, default_value_t = NonZeroUsize::MIN, value_name = "NUMBER")]
        jobs: NonZeroUsize,
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=3650), value_name = "DAYS")]
        days: u16,
        #[arg(long, default_value_t = 0.0, value_name = "RATE")]
        rate: f64,
        #[arg(short, long)]
        quiet: bool,
    }

    #[test]
    fn a_number_that_is_none_is_answered_with_what_is_allowed() {
        for (given, message) in [
            (&["--seed", "x"][..], "'x' for '--seed <SEED>': allowed is a whole number"),
            (&["--seed", "1.5"], "'1.5' for '--seed <SEED>': allowed is a whole number"),
            (
                &["--seed", "-1"],
                "'-1' for '--seed <SEED>': allowed is a whole number, and none below 0",
            ),
            (
                &["--seed=99999999999999999999"],
                "'99999999999999999999' for '--seed <SEED>': allowed is a whole number that is not as large",
            ),
            (&["--jobs=0"], "'0' for '--jobs <NUMBER>': allowed is a whole number from 1"),
            (
                &["--days", "0"],
                "'0' for '--days <DAYS>': allowed is a whole number from 1 to 3650",
            ),
            (
                &["--days", "-7"],
                "'-7' for '--days <DAYS>': allowed is a whole number from 1 to 3650",
            ),
            (
                &["--rate", "fast"],
                "'fast' for '--rate <RATE>': allowed is a number such as 20 or 0.5",
            ),
            (
                &["4294967296"],
                "'4294967296' for '[PLACE]': allowed is a whole number from 0 to 4294967295",
            ),
        ] {
            let arguments = ["program", "work"].iter().chain(given);
            let refusal = parse_from::<Cli>(arguments).expect_err(message);
            let wanted = format!("error: invalid value {message}\n\nFor more information, try '--help'.\n");
            assert_eq!((refusal.exit_code(), refusal.to_string()), (EXIT_CONFIGURATION, wanted));
        }
    }

    #[test]
    fn a_number_may_be_negative_where_that_is_allowed() {
        let Cli::Work(flags) = parse_from::<Cli>(["program", "work", "--quiet", "--rate", "-1"]).expect("allowed");
        assert_eq!((flags.rate, flags.quiet), (-1.0, true));
        assert_eq!((flags.place, flags.seed, flags.jobs.get(), flags.days), (0, 0, 1, 1));
        let refusal = parse_from::<Cli>(["program", "work", "-1"]).expect_err("no flag");
        assert!(refusal.to_string().contains("unexpected argument '-1'"), "{refusal}");
    }
}
