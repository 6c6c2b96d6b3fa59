//! What the evictor can be told, and what of it is refused.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use bailiff_model::{Duties, EvictionMode, Profile, Shard};

/// By which request a pod is evicted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EvictionMethod {
    /// A plain delete, as upstream (TE-071).
    #[default]
    Delete,
    /// The Eviction API (policy/v1), which respects PodDisruptionBudgets, as often as it takes.
    Evict,
    /// The same; and a delete if a budget still forbids it when the pod has been due for so long, as far as this process knows.
    EvictThenDelete {
        /// How long.
        after: Duration,
    },
}

/// Which pod intents are acted on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AcceptIntents {
    /// Those that the API's own facts justify.
    #[default]
    Justified,
    /// All that name the right incarnations.
    Any,
}

/// Rates and thresholds (NL-003, NL-092, NL-093).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// `--node-eviction-rate`, nodes per second.
    pub primary: f64,
    /// `--secondary-node-eviction-rate`, nodes per second.
    pub secondary: f64,
    /// `--large-cluster-size-threshold`: a zone is large only if it has more voting nodes.
    pub large_zone: u32,
    /// `--unhealthy-zone-threshold`, a share. Single precision, as upstream compares it.
    pub unhealthy: f32,
}

impl Default for Rates {
    fn default() -> Self {
        Self {
            primary: 0.1,
            secondary: 0.01,
            large_zone: 50,
            unhealthy: 0.55,
        }
    }
}

/// Everything the evictor can be told.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Profile.
    pub profile: Profile,
    /// Mode.
    pub mode: EvictionMode,
    /// Method.
    pub method: EvictionMethod,
    /// Which intents are acted on.
    pub accept: AcceptIntents,
    /// Duties taken.
    pub duties: Duties,
    /// Zones worked on.
    pub shard: Shard,
    /// Rates.
    pub rates: Rates,
    /// `--node-monitor-period`: how long a health NoExecute taint waits for its NoSchedule counterpart.
    pub monitor_period: Duration,
    /// Pod evictions with a request under way at the same time; of these 32 at first, and while the server is in trouble.
    pub max_evictions_in_flight: usize,
    /// Evictions per second of pods that were due before this process could act, or while it was held.
    pub overdue_per_second: f64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            profile: Profile::default(),
            mode: EvictionMode::default(),
            method: EvictionMethod::default(),
            accept: AcceptIntents::default(),
            duties: Duties::default(),
            shard: Shard::default(),
            rates: Rates::default(),
            monitor_period: Duration::from_secs(5),
            // With two requests each that is some three seconds of a client that makes 20 a second.
            max_evictions_in_flight: 32,
            // A quarter of the client's 20 requests/s: two requests each, so that half of the budget stays for what is new.
            overdue_per_second: 5.0,
        }
    }
}

/// A configuration that is refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// A number outside its range.
    #[error("--{field}: {value} is not allowed, wanted {wanted}")]
    OutOfRange {
        /// Flag, without dashes.
        field: &'static str,
        /// What it was set to.
        value: f64,
        /// What is allowed.
        wanted: &'static str,
    },
    /// A shard that does not exist.
    #[error("shard {index} does not exist, wanted less than {count}, and at least one shard")]
    NoSuchShard {
        /// Shard.
        index: u32,
        /// Count.
        count: u32,
    },
    /// A word that is none of the choices.
    #[error("{value:?} is not allowed, wanted {wanted}")]
    UnknownChoice {
        /// The word.
        value: String,
        /// The choices.
        wanted: &'static str,
    },
}

impl Config {
    /// Refuses what cannot be meant. Upstream validates nothing (NL-004); zero rates are allowed and mean "never".
    ///
    /// # Errors
    /// The first field that is out of range.
    pub fn validate(&self) -> Result<(), Error> {
        const RATE: &str = "a finite number of at least 0";
        let in_range = |field, value: f64, ok: bool, wanted| {
            if ok {
                Ok(())
            } else {
                Err(Error::OutOfRange { field, value, wanted })
            }
        };
        let is_rate = |value: f64| value.is_finite() && value >= 0.0;
        let (rates, unhealthy) = (self.rates, f64::from(self.rates.unhealthy));
        in_range("node-eviction-rate", rates.primary, is_rate(rates.primary), RATE)?;
        in_range(
            "secondary-node-eviction-rate",
            rates.secondary,
            is_rate(rates.secondary),
            RATE,
        )?;
        in_range(
            "unhealthy-zone-threshold",
            unhealthy,
            (0.0..=1.0).contains(&unhealthy),
            "a number from 0 to 1",
        )?;
        let pace = self.overdue_per_second;
        in_range(
            "overdue-eviction-rate",
            pace,
            pace.is_finite() && pace > 0.0,
            "a finite number above 0",
        )?;
        let in_flight = self.max_evictions_in_flight;
        in_range("concurrent-evictions", in_flight as f64, in_flight > 0, "at least 1")?;
        if self.shard.index >= self.shard.count {
            let Shard { index, count } = self.shard;
            return Err(Error::NoSuchShard { index, count });
        }
        Ok(())
    }
}

macro_rules! choices {
    ($name:ident { $($text:literal => $variant:ident),+ }, $wanted:literal) => {
        impl FromStr for $name {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self, Error> {
                match text {
                    $($text => Ok(Self::$variant),)+
                    _ => Err(Error::UnknownChoice { value: text.to_owned(), wanted: $wanted }),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$variant => $text,)+ })
            }
        }
    };
}

choices!(AcceptIntents { "justified" => Justified, "any" => Any }, "justified or any");

#[cfg(test)]
mod tests {
    use super::*;

    /// NL-003
    #[test]
    fn defaults_are_upstreams() {
        let config = Config::default();
        assert_eq!(
            config.rates,
            Rates {
                primary: 0.1,
                secondary: 0.01,
                large_zone: 50,
                unhealthy: 0.55
            }
        );
        assert_eq!(config.monitor_period, Duration::from_secs(5));
        assert_eq!(config.validate(), Ok(()));
    }

    /// NL-004
    #[test]
    fn numbers_out_of_range_are_refused_by_name() {
        let mk = |change: fn(&mut Config)| {
            let mut config = Config::default();
            change(&mut config);
            config.validate().map_err(|error| error.to_string()).err().unwrap_or_default()
        };
        type Change = fn(&mut Config);
        let cases: [(Change, &str); 7] = [
            (|c| c.rates.primary = -0.1, "--node-eviction-rate"),
            (|c| c.rates.primary = f64::INFINITY, "--node-eviction-rate"),
            (|c| c.rates.secondary = f64::NAN, "--secondary-node-eviction-rate"),
            (|c| c.rates.unhealthy = 1.5, "--unhealthy-zone-threshold"),
            (|c| c.overdue_per_second = 0.0, "overdue"),
            (|c| c.max_evictions_in_flight = 0, "concurrent-evictions"),
            (|c| c.shard = Shard { index: 1, count: 1 }, "shard 1"),
        ];
        for (change, named) in cases {
            assert!(mk(change).contains(named), "{named}");
        }
        assert_eq!(mk(|c| c.rates.primary = 0.0), "");
    }

    #[test]
    fn choices_are_read_and_printed_alike() {
        assert_eq!("any".parse(), Ok(AcceptIntents::Any));
        assert_eq!(AcceptIntents::Any.to_string(), "any");
        let error = "all".parse::<AcceptIntents>().expect_err("unknown");
        assert_eq!(error.to_string(), r#""all" is not allowed, wanted justified or any"#);
    }
}
