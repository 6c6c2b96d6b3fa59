//! A replica of a stage.

use std::collections::BTreeSet;

use super::Stage;
use crate::program::Program;
use crate::proxy::Proxy;

/// One replica: a process that is started again when it ends, as the kubelet would.
pub struct Replica {
    pub stage: Stage,
    pub flags: Vec<String>,
    pub api: Proxy,
    /// The ways to all replicas of the bus.
    pub bus: Vec<Proxy>,
    pub program: Program,
    /// Leases it says it holds.
    pub leads: BTreeSet<String>,
    /// It says that it publishes.
    pub publishes: bool,
    /// How often it began to publish, or lost the bus.
    pub changes: usize,
}
