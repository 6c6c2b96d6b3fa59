//! Flags of the stage. Names, meanings and defaults are kube-controller-manager's where it has them (NL-003).

use std::time::Duration;

use bailiff_model::{Shard, under_way};
use bailiff_runtime::GoDuration;
use bailiff_runtime::args::{Error, Valid, Validate};
use bailiff_stage::SharedArgs;
use bailiff_taint_core::Config;
use clap::Args;

/// Valid flags of the stage.
pub type Options = Valid<Flags>;

/// A year: nobody means more, and what is added to it stays far inside what clocks can express.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// Flags of the stage.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
#[command(next_help_heading = "Taint manager")]
pub struct Flags {
    /// How long the pods of a node that is not ready are left, with --eviction-mode=node
    #[arg(long, env = "BAILIFF_POD_EVICTION_TIMEOUT", default_value = "5m0s", value_name = "DURATION")]
    pub pod_eviction_timeout: GoDuration,

    /// Flags of all stages.
    #[command(flatten)]
    pub shared: SharedArgs,
}

// === impl Flags ===

impl Flags {
    /// The core's configuration for a shard, with a client that makes so many requests a second, or any number.
    pub fn config(&self, shard: Shard, requests_per_second: Option<f64>) -> Config {
        let Self {
            pod_eviction_timeout,
            shared,
        } = self;
        let defaults = Config::default();
        let of = |by_default| under_way(by_default, requests_per_second, shard);
        Config {
            mode: shared.mode(),
            profile: shared.profile,
            duties: shared.controllers,
            shard,
            pod_eviction_timeout: pod_eviction_timeout.get(),
            node_writes: of(defaults.node_writes),
            pod_marks: of(defaults.pod_marks),
        }
    }
}

impl Validate for Flags {
    fn validate(&self) -> Result<(), Error> {
        if self.pod_eviction_timeout.get() > LONGEST {
            let allowed = "allowed is at most a year, 8760h";
            return Err(Error::new("pod-eviction-timeout", self.pod_eviction_timeout, allowed));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use bailiff_model::{Duties, EvictionMode, Profile};
    use bailiff_runtime::args::{EXIT_CONFIGURATION, Refusal, parse_from};
    use clap::{CommandFactory, Parser};

    use super::*;

    #[derive(Clone, Debug, Parser)]
    #[command(name = "manager")]
    struct Cli {
        #[command(flatten)]
        options: Options,
    }

    fn parse(flags: &[&str]) -> Result<Options, Refusal> {
        parse_from::<Cli>(std::iter::once("manager").chain(flags.iter().copied())).map(|cli| cli.options)
    }

    fn config(flags: &[&str]) -> Config {
        parse(flags).expect("allowed").config(Shard::WHOLE, Some(20.0))
    }

    /// NL-003
    #[test]
    fn defaults_are_those_of_kube_controller_manager() {
        Cli::command().debug_assert();
        assert_eq!(config(&[]), Config::default());
        assert_eq!(config(&[]).pod_eviction_timeout, Duration::from_secs(300));
        let unlimited = parse(&[]).expect("allowed").config(Shard::WHOLE, None);
        assert_eq!((unlimited.node_writes, unlimited.pod_marks), (64, 96));
    }

    /// NL-001, NL-200, TE-001, TE-116
    #[test]
    fn flags_reach_the_core() {
        let flags = [
            "--profile=upstream",
            "--enable-taint-manager=false",
            "--controllers=*,-taint-eviction-controller",
            "--pod-eviction-timeout=9s",
        ];
        let wanted = Config {
            profile: Profile::Upstream,
            mode: EvictionMode::Node,
            duties: Duties {
                taint_eviction: false,
                ..Duties::ALL
            },
            pod_eviction_timeout: Duration::from_secs(9),
            ..Config::default()
        };
        assert_eq!(config(&flags), wanted);
    }

    #[test]
    fn what_is_wrong_is_answered_with_flag_value_and_what_is_allowed() {
        let cases: [(&[&str], &[&str]); 3] = [
            (
                &["--pod-eviction-timeout=9000h"],
                &["'9000h", "'--pod-eviction-timeout'", "8760h"],
            ),
            (&["--pod-eviction-timeout=300"], &["'300'", "no unit"]),
            (
                &["--eviction-mode=node", "--enable-taint-manager"],
                &["'true'", "'--enable-taint-manager'", "false"],
            ),
        ];
        for (flags, parts) in cases {
            let refusal = parse(flags).expect_err("not allowed");
            assert_eq!(refusal.exit_code(), EXIT_CONFIGURATION, "{flags:?}");
            for part in parts {
                assert!(refusal.to_string().contains(part), "{flags:?}: {refusal} lacks {part}");
            }
        }
    }
}
