//! Binary of the node-health-monitor.

use std::process::ExitCode;

use bailiff_node_health_monitor::NodeHealthMonitor;

fn main() -> ExitCode {
    bailiff_stage::service::main::<NodeHealthMonitor>()
}
