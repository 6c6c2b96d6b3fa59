//! Flags of the daemonset-syncer.

use bailiff_stage::{Shard, SharedArgs, SharedFlags};
use clap::Args;

/// Flags of the daemonset-syncer.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
#[command(next_help_heading = "DaemonSets")]
pub struct Options {
    /// How many DaemonSets are served at the same time; more costs more requests in flight (DS-002)
    #[arg(
        long,
        env = "BAILIFF_CONCURRENT_DAEMONSET_SYNCS",
        default_value_t = 2,
        value_parser = clap::value_parser!(u32).range(1..=1000),
        value_name = "NUMBER"
    )]
    pub concurrent_daemonset_syncs: u32,

    /// Flags of all stages.
    #[command(flatten)]
    pub shared: SharedArgs,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            concurrent_daemonset_syncs: 2,
            shared: SharedArgs::new(SharedFlags::default()).expect("defaults are allowed"),
        }
    }
}

impl Options {
    /// Settings of the core.
    pub(crate) fn core(&self, shard: Shard) -> bailiff_daemonset_core::Options {
        bailiff_daemonset_core::Options {
            profile: self.shared.profile,
            shard,
        }
    }

    /// Requests in flight at most: so many for what nodes lack, and as many others.
    pub(crate) fn requests(&self) -> usize {
        // A worker of upstream waits for a whole batch, which grows to 128 requests; its client lets 30 through at once.
        const PER_SYNC: usize = 30;
        usize::try_from(self.concurrent_daemonset_syncs)
            .unwrap_or(1)
            .saturating_mul(PER_SYNC)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Clone, Debug, Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    /// DS-002
    #[test]
    fn at_least_one_daemonset_is_served() {
        let parse = |args: &[&str]| Line::try_parse_from([&["x"], args].concat()).map(|line| line.options);
        assert_eq!(parse(&[]).expect("defaults"), Options::default());
        assert_eq!(parse(&["--concurrent-daemonset-syncs=5"]).expect("valid").requests(), 150);
        let refused = parse(&["--concurrent-daemonset-syncs=0"]).expect_err("refused").to_string();
        assert!(
            refused.contains("concurrent-daemonset-syncs") && refused.contains("1..=1000"),
            "{refused}"
        );
        assert!(parse(&["--profile=other"]).is_err());
    }
}
