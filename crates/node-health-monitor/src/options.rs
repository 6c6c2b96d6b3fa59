//! Flags of the stage. Names, meanings and defaults are kube-controller-manager's (NL-003).

use bailiff_model::{Shard, under_way};
use bailiff_node_health_core::{Config, ConfigError, LossLimit};
use bailiff_runtime::args::{Error, Valid, Validate};
use bailiff_runtime::{GoDuration, client};
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

    /// When this share of the leases of the cluster, or of a zone, stops within this time, hold what would follow:
    /// <FRACTION>/<WINDOW>, or <FRACTION>/<WINDOW>/<HOLD> where the hold ends by itself sooner or later than after 1h. Off by default
    #[arg(long, env = "BAILIFF_HOLD_ON_CORRELATED_LOSS", value_parser = loss, value_name = "LIMIT")]
    pub hold_on_correlated_loss: Option<LossLimit>,

    /// Flags of all stages.
    #[command(flatten)]
    pub shared: SharedArgs,
}

/// How long a correlated loss is held if the flag does not say: long enough for somebody to be called and to look.
const LOSS_HOLD: GoDuration = GoDuration::from_secs(3600);

/// The longest window and hold: a year, as all durations.
const LONGEST: GoDuration = GoDuration::from_secs(365 * 24 * 3600);

fn loss(text: &str) -> Result<LossLimit, String> {
    let allowed = "allowed is <fraction>/<window> such as 0.3/30s, or <fraction>/<window>/<hold> such as 0.3/30s/20m";
    let mut parts = text.split('/');
    let (Some(share), Some(window), hold, None) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
        return Err(allowed.to_owned());
    };
    let share: f64 = share.parse().map_err(|_| format!("{share:?} is no number; {allowed}"))?;
    if !(share > 0.0 && share <= 1.0) {
        return Err(format!("the fraction must be above 0 and at most 1; {allowed}"));
    }
    let duration = |text: &str| match text.parse::<GoDuration>() {
        Ok(duration) if duration.is_zero() || duration > LONGEST => Err(format!("{text:?} must be above 0 and at most 8760h")),
        Ok(duration) => Ok(duration.get()),
        Err(error) => Err(error.to_string()),
    };
    Ok(LossLimit {
        // From 0 to a million, and never rounded down to nothing.
        millionths: ((share * 1e6).round() as u32).max(1),
        window: duration(window)?,
        hold: hold.map_or(Ok(LOSS_HOLD.get()), duration)?,
    })
}

// === impl Flags ===

impl Flags {
    /// The core's configuration for a shard, with a client that makes so many requests a second, or any number.
    pub fn config(&self, shard: Shard, requests_per_second: Option<f64>) -> Config {
        let Self {
            node_monitor_period,
            node_monitor_grace_period,
            node_startup_grace_period,
            hold_on_correlated_loss,
            shared,
        } = self;
        let defaults = Config::default();
        let of = |by_default| under_way(by_default, requests_per_second, shard);
        Config {
            grace: node_monitor_grace_period.get(),
            startup_grace: node_startup_grace_period.get(),
            period: node_monitor_period.get(),
            look: client::LOOK,
            shard,
            profile: shared.profile,
            loss: *hold_on_correlated_loss,
            node_reads: of(defaults.node_reads),
            status_writes: of(defaults.status_writes),
        }
    }
}

impl Validate for Flags {
    fn validate(&self) -> Result<(), Error> {
        self.config(Shard::WHOLE, None).validate().map_err(|error| match error {
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

    #[derive(Clone, Debug, Parser)]
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
        let wanted = Config {
            look: client::LOOK,
            ..Config::default()
        };
        assert_eq!(options.config(Shard::WHOLE, Some(20.0)), wanted);
        let unlimited = options.config(Shard::WHOLE, None);
        assert_eq!((unlimited.node_reads, unlimited.status_writes), (64, 128));
    }

    #[test]
    fn flags_reach_the_core() {
        let flags = [
            "--node-monitor-period=1s",
            "--node-monitor-grace-period=3500ms",
            "--node-startup-grace-period=1m5s",
            "--profile=upstream",
            "--hold-on-correlated-loss=0.3/30s/20m",
        ];
        let config = parse(&flags).expect("allowed").config(Shard::WHOLE, Some(20.0));
        let wanted = Config {
            grace: Duration::from_millis(3500),
            startup_grace: Duration::from_secs(65),
            period: Duration::from_secs(1),
            profile: Profile::Upstream,
            loss: Some(LossLimit {
                millionths: 300_000,
                window: Duration::from_secs(30),
                hold: Duration::from_secs(1200),
            }),
            look: client::LOOK,
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
            ("--hold-on-correlated-loss=0.3", &["0.3/30s"]),
            ("--hold-on-correlated-loss=0/30s", &["above 0"]),
            ("--hold-on-correlated-loss=1.1/30s", &["at most 1"]),
            ("--hold-on-correlated-loss=NaN/30s", &["at most 1"]),
            ("--hold-on-correlated-loss=0.5/0s", &["\"0s\"", "8760h"]),
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
