//! The daemonset-syncer as a program of its own.

use std::process::ExitCode;

fn main() -> ExitCode {
    bailiff_stage::service::main::<bailiff_daemonset_syncer::DaemonsetSyncer>()
}
