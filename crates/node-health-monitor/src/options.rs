//! Flags of the stage. Names, meanings and defaults are kube-controller-manager's (NL-003).

use bailiff_model::Shard;
use bailiff_node_health_core::{Config, ConfigError};
use bailiff_runtime::GoDuration;
use bailiff_runtime::args::{Error, Valid, Validate};
use bailiff_stage::SharedArgs;
use clap::Args;

/// Valid flags of the stage.
pub type Options = Valid<Flags>;

/// Flags of the stage.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
#[command(next_help_heading = "Node health")]
pub struct Flags {
    /// How much later than its grace period a silent node may be judged, and the longest pause between retries
    #[arg(long, env = "BAILIFF_NODE_MONITOR_PERIOD", default_value = "5s", value_name = "DURATION")]
    pub node_monitor_period: GoDuration,

    /// How long a node that has reported its status may be silent
    #[arg(
        long,
        env = "BAILIFF_NODE_MONITOR_GRACE_PERIOD",
        default_value = "50s",
        value_name = "DURATION"
    )]
    pub node_monitor_grace_period: GoDuration,

    /// How long a node that has never reported its status may be silent
    #[arg(
        long,
        env = "BAILIFF_NODE_STARTUP_GRACE_PERIOD",
        default_value = "1m0s",
        value_name = "DURATION"
    )]
    pub node_startup_grace_period: GoDuration,

    /// Flags of all stages.
    #[command(flatten)]
    pub shared: SharedArgs,
}

// === impl Flags ===

impl Flags {
    /// The core's configuration for a shard.
    pub fn config(&self, shard: Shard) -> Config {
        let Self {
            node_monitor_period,
            node_monitor_grace_period,
            node_startup_grace_period,
            shared,
        } = self;
        Config {
            grace: node_monitor_grace_period.get(),
            startup_grace: node_startup_grace_period.get(),
            period: node_monitor_period.get(),
            shard,
            profile: shared.profile,
        }
    }
}

impl Validate for Flags {
    fn validate(&self) -> Result<(), Error> {
        self.config(Shard::WHOLE).validate().map_err(|error| match error {
            ConfigError::Zero { flag } => Error::new(flag, "0s", "allowed is more than 0, such as 5s"),
            ConfigError::TooLong { flag, value } => Error::new(flag, GoDuration::new(value), "allowed is at most a year, 8760h"),
            ConfigError::Shard { index, count } => Error::new("shards", count, format!("there is no shard {index}")),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bailiff_model::Profile;
    use bailiff_runtime::args::{EXIT_CONFIGURATION, parse_from};
    use clap::{CommandFactory, Parser};

    use super::*;

    #[derive(Debug, Parser)]
    #[command(name = "monitor")]
    struct Cli {
        #[command(flatten)]
        options: Options,
    }

    fn parse(flags: &[&str]) -> Result<Options, bailiff_runtime::args::Refusal> {
        parse_from::<Cli>(std::iter::once("monitor").chain(flags.iter().copied())).map(|cli| cli.options)
    }

    /// NL-003
    #[test]
    fn defaults_are_those_of_kube_controller_manager() {
        Cli::command().debug_assert();
        let options = parse(&[]).expect("defaults are allowed");
        assert_eq!(options.config(Shard::WHOLE), Config::default());
    }

    #[test]
    fn flags_reach_the_core() {
        let flags = [
            "--node-monitor-period=1s",
            "--node-monitor-grace-period=3500ms",
            "--node-startup-grace-period=1m5s",
            "--profile=upstream",
        ];
        let config = parse(&flags).expect("allowed").config(Shard::WHOLE);
        let wanted = Config {
            grace: Duration::from_millis(3500),
            startup_grace: Duration::from_secs(65),
            period: Duration::from_secs(1),
            profile: Profile::Upstream,
            ..Config::default()
        };
        assert_eq!(config, wanted);
    }

    /// NL-004
    #[test]
    fn what_is_wrong_is_answered_with_flag_value_and_what_is_allowed() {
        for (flag, parts) in [
            (
                "--node-monitor-period=0s",
                &["'0s'", "'--node-monitor-period'", "more than 0"][..],
            ),
            (
                "--node-monitor-grace-period=0",
                &["'--node-monitor-grace-period'", "more than 0"],
            ),
            (
                "--node-startup-grace-period=9000h",
                &["'9000h", "'--node-startup-grace-period'", "8760h"],
            ),
            (
                "--node-monitor-grace-period=50",
                &["'50'", "--node-monitor-grace-period", "no unit"],
            ),
            (
                "--node-monitor-grace-period=-1s",
                &["--node-monitor-grace-period", "negative"],
            ),
            ("--profile=kcm", &["'kcm'", "bailiff", "upstream"]),
        ] {
            let refusal = parse(&[flag]).expect_err(flag);
            assert_eq!(refusal.exit_code(), EXIT_CONFIGURATION, "{flag}");
            for part in parts {
                assert!(refusal.to_string().contains(part), "{flag}: {refusal} lacks {part}");
            }
        }
    }
}
