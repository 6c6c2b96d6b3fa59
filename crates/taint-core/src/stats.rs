//! Sizes of what a [`crate::Manager`] holds, for metrics.

/// Sizes, each kept up to date as things change: reading them costs nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Nodes that exist.
    pub nodes: usize,
    /// Pods that are assigned to a node.
    pub pods: usize,
    /// Pod intents in state SCHEDULED.
    pub scheduled: usize,
    /// Pod intents in state DUE.
    pub due: usize,
    /// Pod intents in state WITHDRAWN.
    pub withdrawn: usize,
    /// Standing wishes for nodes.
    pub wishes: usize,
    /// Node patches wanted, under way, or waiting for another try.
    pub node_writes: usize,
    /// Pod marks wanted, under way, or waiting for another try.
    pub pod_marks: usize,
    /// Of these, held from outside.
    pub held_marks: usize,
    /// Pods marked not ready since the start.
    pub marked: u64,
    /// Writes that failed since the start.
    pub failed_writes: u64,
}
