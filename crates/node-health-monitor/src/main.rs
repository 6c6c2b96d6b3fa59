//! Binary of the node-health-monitor.

use std::process::ExitCode;

use bailiff_node_health_monitor::NodeHealthMonitor;
use bailiff_runtime::Allocator;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

fn main() -> ExitCode {
    bailiff_stage::service::main::<NodeHealthMonitor>()
}
