//! The daemonset-syncer: keeps a daemon pod where each DaemonSet wants one.
//!
//! This is the shell: it watches DaemonSets, ControllerRevisions, Pods and Nodes, feeds them to [`bailiff_daemonset_core`], sends
//! the requests that come out of it, emits Events, and publishes `daemon-rollouts`. It decides nothing. It never waits for the bus:
//! what upstream's controller does happens with or without one.

mod dispatch;
mod metrics;
mod options;
mod perform;
mod pods;
mod stage;
mod telling;
mod views;

pub use options::Options;
pub use stage::{DaemonsetSyncer, run};
