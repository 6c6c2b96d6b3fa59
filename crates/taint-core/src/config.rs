//! What the core can be told to do differently.

use std::time::Duration;

use bailiff_model::Shard;

/// How pods leave a bad node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EvictionMode {
    /// By NoExecute taints and the pods' tolerations.
    #[default]
    Taint,
    /// The whole node at once, after a timeout, whatever is tolerated (NL-200 to NL-209).
    Node,
}

/// Which side of the documented differences applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Profile {
    /// Restarts do not start toleration times again (TE-057, TE-102); armed timers can be postponed (TE-063).
    #[default]
    Bailiff,
    /// As kube-controller-manager: a restart starts every toleration time again, a pending timer keeps its deadline.
    Upstream,
}

/// Which of kube-controller-manager's controllers are stood in for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Duties {
    /// `node-lifecycle-controller`: NoSchedule taints, labels, marking pods, wishes for nodes; in node mode, pod intents too.
    pub node_lifecycle: bool,
    /// `taint-eviction-controller`: pod intents in taint mode.
    pub taint_eviction: bool,
}

impl Default for Duties {
    fn default() -> Self {
        Self {
            node_lifecycle: true,
            taint_eviction: true,
        }
    }
}

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
