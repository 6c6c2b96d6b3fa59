//! Flags of the stage. Those that kube-controller-manager has keep its names, meanings and defaults (NL-003).

use bailiff_model::{Shard, under_way};
use bailiff_runtime::GoDuration;
use bailiff_runtime::args::{Error, Valid, Validate};
use bailiff_stage::SharedArgs;
use bailiff_zone_core::{AcceptIntents, Config, ConfigError, EvictionMethod, Rates};
use clap::Args;

/// Valid flags of the stage.
pub type Options = Valid<Flags>;

/// Flags of the stage's binary: those that other stages have too, and its own.
#[derive(Args, Clone, Debug, PartialEq)]
#[command(next_help_heading = "Eviction")]
pub struct Flags {
    /// How long a NoExecute health taint waits at most for its NoSchedule counterpart
    #[arg(long, env = "BAILIFF_NODE_MONITOR_PERIOD", default_value = "5s", value_name = "DURATION")]
    pub node_monitor_period: GoDuration,

    /// Flags of all stages.
    #[command(flatten)]
    pub shared: SharedArgs,

    /// Flags of its own.
    #[command(flatten)]
    pub eviction: EvictionFlags,
}

/// Flags that no other stage has.
#[derive(Args, Clone, Debug, PartialEq)]
#[command(next_help_heading = "Eviction")]
pub struct EvictionFlags {
    /// Nodes evicted per second and zone in a zone that is not partially disrupted
    #[arg(long, env = "BAILIFF_NODE_EVICTION_RATE", default_value_t = 0.1, value_name = "RATE")]
    pub node_eviction_rate: f64,

    /// The same in a large zone that is partially disrupted; in a small one it is 0
    #[arg(
        long,
        env = "BAILIFF_SECONDARY_NODE_EVICTION_RATE",
        default_value_t = 0.01,
        value_name = "RATE"
    )]
    pub secondary_node_eviction_rate: f64,

    /// A zone with more voting nodes than this is large
    #[arg(
        long,
        env = "BAILIFF_LARGE_CLUSTER_SIZE_THRESHOLD",
        default_value_t = 50,
        value_name = "NODES"
    )]
    pub large_cluster_size_threshold: u32,

    /// Share of nodes not ready, from 0 to 1, at which a zone is partially disrupted
    #[arg(
        long,
        env = "BAILIFF_UNHEALTHY_ZONE_THRESHOLD",
        default_value_t = 0.55,
        value_name = "SHARE"
    )]
    pub unhealthy_zone_threshold: f32,

    /// By which request pods are evicted: delete; evict, which respects PodDisruptionBudgets for as long as it takes; or
    /// evict-then-delete=<DURATION>, which deletes what a budget still forbids so long after it was due
    #[arg(long, env = "BAILIFF_EVICTION_METHOD", default_value = "delete", value_parser = method, value_name = "METHOD")]
    pub eviction_method: EvictionMethod,

    /// Which eviction intents are acted on: those that the node's own taints justify (justified), or all (any)
    #[arg(long, env = "BAILIFF_ACCEPT_INTENTS", default_value = "justified", value_name = "WHICH")]
    pub accept_intents: AcceptIntents,

    /// Pods evicted per second of those that were due before this process could act, or while it was held
    #[arg(long, env = "BAILIFF_OVERDUE_EVICTION_RATE", default_value_t = 5.0, value_name = "RATE")]
    pub overdue_eviction_rate: f64,

    /// Pod evictions with a request under way at the same time at most; 32 at first, and while the API server is in trouble [default: by --kube-api-qps, 32 up to 20, 256 from 160 on and without a limit]
    #[arg(long, env = "BAILIFF_CONCURRENT_EVICTIONS", value_name = "NUMBER")]
    pub concurrent_evictions: Option<usize>,
}

fn method(text: &str) -> Result<EvictionMethod, String> {
    let allowed = "allowed is delete, evict, or evict-then-delete=<duration> such as evict-then-delete=10m";
    match (text, text.strip_prefix("evict-then-delete=")) {
        ("delete", _) => Ok(EvictionMethod::Delete),
        ("evict", _) => Ok(EvictionMethod::Evict),
        (_, Some(after)) => {
            let after: GoDuration = after.parse().map_err(|error| format!("{error}; {allowed}"))?;
            Ok(EvictionMethod::EvictThenDelete { after: after.get() })
        }
        _ => Err(allowed.to_owned()),
    }
}

// === impl Flags ===

impl Flags {
    /// The core's configuration for a shard, with a client that makes so many requests a second, or any number.
    pub fn config(&self, shard: Shard, requests_per_second: Option<f64>) -> Config {
        let Self {
            node_monitor_period,
            shared,
            eviction,
        } = self;
        let EvictionFlags {
            node_eviction_rate,
            secondary_node_eviction_rate,
            large_cluster_size_threshold,
            unhealthy_zone_threshold,
            eviction_method,
            accept_intents,
            overdue_eviction_rate,
            concurrent_evictions,
        } = eviction;
        let defaults = Config::default();
        Config {
            profile: shared.profile,
            mode: shared.mode(),
            method: *eviction_method,
            accept: *accept_intents,
            duties: shared.controllers,
            shard,
            rates: Rates {
                primary: *node_eviction_rate,
                secondary: *secondary_node_eviction_rate,
                large_zone: *large_cluster_size_threshold,
                unhealthy: *unhealthy_zone_threshold,
            },
            monitor_period: node_monitor_period.get(),
            max_evictions_in_flight: concurrent_evictions
                .unwrap_or_else(|| under_way(defaults.max_evictions_in_flight, requests_per_second, shard)),
            overdue_per_second: *overdue_eviction_rate,
        }
    }
}

impl Validate for Flags {
    fn validate(&self) -> Result<(), Error> {
        self.config(Shard::default(), None).validate().map_err(|error| match error {
            ConfigError::OutOfRange { field, value, wanted } => Error::new(field, value, format!("allowed is {wanted}")),
            ConfigError::NoSuchShard { index, count } => Error::new("shards", count, format!("there is no shard {index}")),
            ConfigError::UnknownChoice { value, wanted } => Error::new("controllers", value, format!("allowed is {wanted}")),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bailiff_model::{Duties, EvictionMode, Profile};
    use bailiff_runtime::args::{EXIT_CONFIGURATION, parse_from};
    use clap::{CommandFactory, Parser};

    use super::*;

    #[derive(Clone, Debug, Parser)]
    #[command(name = "evictor")]
    struct Cli {
        #[command(flatten)]
        options: Options,
    }

    fn parse(flags: &[&str]) -> Result<Config, bailiff_runtime::args::Refusal> {
        let parsed = parse_from::<Cli>(std::iter::once("evictor").chain(flags.iter().copied()));
        parsed.map(|cli| cli.options.config(Shard::default(), Some(20.0)))
    }

    /// NL-003
    #[test]
    fn defaults_are_those_of_kube_controller_manager() {
        Cli::command().debug_assert();
        assert_eq!(parse(&[]).expect("defaults are allowed"), Config::default());
    }

    #[test]
    fn evictions_under_way_follow_the_clients_limit() {
        let of = |flags: &[&str], per_second| {
            let parsed = parse_from::<Cli>(std::iter::once("evictor").chain(flags.iter().copied()));
            let config = parsed.expect("allowed").options.config(Shard::default(), per_second);
            config.max_evictions_in_flight
        };
        for (per_second, wanted) in [
            (Some(1.0), 32),
            (Some(20.0), 32),
            (Some(50.0), 80),
            (Some(5e3), 256),
            (None, 256),
        ] {
            assert_eq!(of(&[], per_second), wanted, "{per_second:?}");
            assert_eq!(of(&["--concurrent-evictions=7"], per_second), 7);
        }
    }

    #[test]
    fn flags_reach_the_core() {
        let flags = [
            "--node-monitor-period=1s",
            "--node-eviction-rate=0.25",
            "--secondary-node-eviction-rate=0",
            "--large-cluster-size-threshold=20",
            "--unhealthy-zone-threshold=0.7",
            "--eviction-mode=node",
            "--accept-intents=any",
            "--eviction-method=evict-then-delete=1m30s",
            "--controllers=*,-taint-eviction-controller",
            "--overdue-eviction-rate=1",
            "--concurrent-evictions=3",
            "--profile=upstream",
        ];
        let wanted = Config {
            profile: Profile::Upstream,
            mode: EvictionMode::Node,
            accept: AcceptIntents::Any,
            method: EvictionMethod::EvictThenDelete {
                after: Duration::from_secs(90),
            },
            duties: Duties {
                taint_eviction: false,
                ..Duties::default()
            },
            rates: Rates {
                primary: 0.25,
                secondary: 0.0,
                large_zone: 20,
                unhealthy: 0.7,
            },
            monitor_period: Duration::from_secs(1),
            max_evictions_in_flight: 3,
            overdue_per_second: 1.0,
            ..Config::default()
        };
        assert_eq!(parse(&flags).expect("allowed"), wanted);
    }

    /// NL-004
    #[test]
    fn what_is_wrong_is_answered_with_flag_value_and_what_is_allowed() {
        let cases: [(&str, &[&str]); 8] = [
            ("--node-eviction-rate=-1", &["'-1'", "'--node-eviction-rate'", "at least 0"]),
            (
                "--secondary-node-eviction-rate=nan",
                &["--secondary-node-eviction-rate", "finite"],
            ),
            (
                "--unhealthy-zone-threshold=2",
                &["'2'", "--unhealthy-zone-threshold", "0 to 1"],
            ),
            (
                "--eviction-method=drain",
                &["drain", "--eviction-method", "evict-then-delete=10m"],
            ),
            ("--eviction-method=evict-then-delete=10", &["no unit", "--eviction-method"]),
            ("--eviction-mode=zone", &["zone", "taint or node"]),
            ("--controllers=nodes", &["nodes", "node-lifecycle-controller"]),
            ("--concurrent-evictions=0", &["'--concurrent-evictions'", "at least 1"]),
        ];
        for (flag, parts) in cases {
            let refusal = parse(&[flag]).expect_err(flag);
            assert_eq!(refusal.exit_code(), EXIT_CONFIGURATION, "{flag}");
            for part in parts {
                assert!(refusal.to_string().contains(part), "{flag}: {refusal} lacks {part}");
            }
        }
    }
}
