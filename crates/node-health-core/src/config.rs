//! What the monitor is configured with, and what of it is refused.

use std::time::Duration;

use bailiff_model::{Profile, Shard};

use crate::loss::LossLimit;

/// Configuration of a monitor; [`Config::default`] is kube-controller-manager's (NL-003).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Silence tolerated for a node that has a Ready condition: `--node-monitor-grace-period`.
    pub grace: Duration,
    /// Silence tolerated for a node that has none: `--node-startup-grace-period`.
    pub startup_grace: Duration,
    /// How much later than its grace a node may be judged, and the longest pause between retries: `--node-monitor-period`.
    pub period: Duration,
    /// How long a renewal may have waited when it is seen, because streams are looked at in turns. Within that its own `renewTime` says
    /// when it came (NL-040); profile `upstream` counts from when it is seen.
    pub look: Duration,
    /// The nodes judged here.
    pub shard: Shard,
    /// Which differences apply.
    pub profile: Profile,
    /// When leases that stop together hold what follows: `--hold-on-correlated-loss`.
    pub loss: Option<LossLimit>,
    /// Single reads of silent nodes under way at a time.
    pub node_reads: usize,
    /// Writes of statuses under way at a time.
    pub status_writes: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            grace: Duration::from_secs(50),
            startup_grace: Duration::from_secs(60),
            period: Duration::from_secs(5),
            look: Duration::ZERO,
            shard: Shard::WHOLE,
            profile: Profile::Bailiff,
            loss: None,
            // Upstream works on this many nodes at a time (NL-005).
            node_reads: 8,
            // Twice as many, because a read is two requests and a write one.
            status_writes: 16,
        }
    }
}

/// A configuration that cannot be worked with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A duration that must not be zero is.
    #[error("--{flag} is 0: it must be greater than 0")]
    Zero {
        /// The flag, without dashes.
        flag: &'static str,
    },
    /// A duration longer than can be counted.
    #[error("--{flag} is {} s: it must be at most {} s", .value.as_secs(), LONGEST.as_secs())]
    TooLong {
        /// The flag, without dashes.
        flag: &'static str,
        /// What was given.
        value: Duration,
    },
    /// The shard does not exist.
    #[error("shard {index} does not exist: it must be below the number of shards, {count}")]
    Shard {
        /// The shard.
        index: u32,
        /// How many there are.
        count: u32,
    },
}

/// A year: nobody means more, and every sum of a few of these stays far inside what clocks can express.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

impl Config {
    /// Refuses what cannot be worked with.
    ///
    /// kube-controller-manager checks nothing (NL-004). A zero period would make it spin and a zero grace kill every node; here both
    /// are refused. A grace shorter than the period is accepted as it is there.
    ///
    /// # Errors
    /// The first flag that is zero or longer than a year, or a shard that does not exist.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let durations = [
            ("node-monitor-period", self.period),
            ("node-monitor-grace-period", self.grace),
            ("node-startup-grace-period", self.startup_grace),
        ];
        for (flag, value) in durations {
            if value.is_zero() {
                return Err(ConfigError::Zero { flag });
            }
            if value > LONGEST {
                return Err(ConfigError::TooLong { flag, value });
            }
        }
        let Shard { index, count } = self.shard;
        if index >= count {
            return Err(ConfigError::Shard { index, count });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NL-003, NL-005
    #[test]
    fn defaults_are_those_of_kube_controller_manager() {
        let config = Config::default();
        let seconds = [config.grace, config.startup_grace, config.period].map(|duration| duration.as_secs());
        assert_eq!(seconds, [50, 60, 5]);
        assert_eq!(config.node_reads, 8, "workers");
        assert_eq!(config.validate(), Ok(()));
    }

    /// NL-004
    #[test]
    fn what_cannot_be_worked_with_is_refused_by_name() {
        let base = Config::default();
        let cases = [
            (
                Config {
                    period: Duration::ZERO,
                    ..base
                },
                "--node-monitor-period is 0",
            ),
            (
                Config {
                    grace: Duration::ZERO,
                    ..base
                },
                "--node-monitor-grace-period is 0",
            ),
            (
                Config {
                    startup_grace: Duration::MAX,
                    ..base
                },
                "--node-startup-grace-period is 18446744073709551615 s",
            ),
            (
                Config {
                    shard: Shard { index: 2, count: 2 },
                    ..base
                },
                "shard 2 does not exist",
            ),
            (
                Config {
                    shard: Shard { index: 0, count: 0 },
                    ..base
                },
                "shard 0 does not exist",
            ),
        ];
        for (config, wanted) in cases {
            let said = config.validate().expect_err(wanted).to_string();
            assert!(said.starts_with(wanted), "{said}");
        }
        let short = Config {
            grace: Duration::from_millis(1),
            ..base
        };
        assert_eq!(short.validate(), Ok(()), "a grace shorter than the period is accepted");
    }

    /// NL-004
    #[test]
    fn a_year_is_the_longest() {
        let year = Duration::from_secs(365 * 86_400);
        let with = |grace| {
            Config {
                grace,
                ..Config::default()
            }
            .validate()
        };
        assert_eq!(with(year), Ok(()));
        let flag = "node-monitor-grace-period";
        let value = year + Duration::from_nanos(1);
        assert_eq!(with(value), Err(ConfigError::TooLong { flag, value }));
    }
}
