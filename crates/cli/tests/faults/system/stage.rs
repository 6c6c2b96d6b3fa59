//! The stages, and how they are set up here.

use std::net::SocketAddr;
use std::path::Path;

use jiff::SignedDuration;

/// `--node-monitor-grace-period`.
pub const GRACE: SignedDuration = SignedDuration::from_secs(4);
/// `--node-eviction-rate`.
pub const RATE: f64 = 0.5;
/// `--leader-elect-lease-duration`.
pub const LEASE: SignedDuration = SignedDuration::from_secs(4);

/// Those that say when they publish.
pub const PUBLISHERS: [Stage; 3] = [Stage::NodeHealthMonitor, Stage::TaintManager, Stage::ZoneEvictor];

/// The stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    NodeHealthMonitor,
    TaintManager,
    ZoneEvictor,
    DaemonsetSyncer,
}

impl Stage {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::NodeHealthMonitor,
        Self::TaintManager,
        Self::ZoneEvictor,
        Self::DaemonsetSyncer,
    ];

    /// The command of [`BAILIFF`](crate::support::BAILIFF) that it is, and the beginning of its Leases' names.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NodeHealthMonitor => "node-health-monitor",
            Self::TaintManager => "taint-manager",
            Self::ZoneEvictor => "zone-evictor",
            Self::DaemonsetSyncer => "daemonset-syncer",
        }
    }

    /// Its flags, but for those of TLS.
    pub fn flags(self, shards: u32, kubeconfig: &Path, bus: &[SocketAddr]) -> Vec<String> {
        let bus: Vec<String> = bus.iter().map(SocketAddr::to_string).collect();
        let mut flags = vec![
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--bus={}", bus.join(",")),
            format!("--shards={shards}"),
            "--kube-api-qps=200".to_owned(),
            format!("--leader-elect-lease-duration={}s", LEASE.as_secs()),
            "--leader-elect-renew-deadline=3s".to_owned(),
            "--leader-elect-retry-period=500ms".to_owned(),
        ];
        match self {
            Self::NodeHealthMonitor => flags.extend([
                "--node-monitor-period=500ms".to_owned(),
                format!("--node-monitor-grace-period={}s", GRACE.as_secs()),
                format!("--node-startup-grace-period={}s", 2 * GRACE.as_secs()),
            ]),
            Self::ZoneEvictor => flags.push(format!("--node-eviction-rate={RATE}")),
            Self::TaintManager | Self::DaemonsetSyncer => {}
        }
        flags
    }
}
