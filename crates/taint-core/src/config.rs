//! What the core can be told to do differently.

use std::time::Duration;

use bailiff_model::{Duties, EvictionMode, Profile, Shard};

/// Configuration of a [`crate::Manager`]. Every value is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// How pods leave a bad node.
    pub mode: EvictionMode,
    /// Which side of the documented differences applies.
    pub profile: Profile,
    /// What is stood in for.
    pub duties: Duties,
    /// The nodes, with their pods, that are looked after here.
    pub shard: Shard,
    /// `--pod-eviction-timeout`, node mode only (NL-202).
    pub pod_eviction_timeout: Duration,
    /// Node patches under way at a time (NL-110: upstream has 8 workers).
    pub node_writes: usize,
    /// Pod marks under way at a time.
    pub pod_marks: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            mode: EvictionMode::default(),
            profile: Profile::default(),
            duties: Duties::default(),
            shard: Shard::WHOLE,
            pod_eviction_timeout: Duration::from_secs(300),
            node_writes: 8,
            // Upstream marks the pods of 8 nodes side by side and single pods with 4 workers (NL-005).
            pod_marks: 12,
        }
    }
}
