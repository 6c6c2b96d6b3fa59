//! The daemonset-syncer as a program of its own.

use std::process::ExitCode;

use bailiff_runtime::Allocator;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

fn main() -> ExitCode {
    bailiff_stage::service::main::<bailiff_daemonset_syncer::DaemonsetSyncer>()
}
