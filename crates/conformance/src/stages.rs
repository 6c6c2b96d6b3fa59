//! The suites, one for each stage.

mod daemonset_syncer;
mod node_health_monitor;
mod taint_manager;
#[cfg(test)]
mod town;
mod zone_evictor;

use crate::Suite;

/// All of them, in the order of the pipeline.
pub const SUITES: [&Suite; 4] = [
    &node_health_monitor::SUITE,
    &taint_manager::SUITE,
    &zone_evictor::SUITE,
    &daemonset_syncer::SUITE,
];
