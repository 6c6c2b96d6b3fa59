//! The metrics that kube-controller-manager has, too: what asks for them there asks for them here.

/// One of them.
pub struct Upstream {
    /// As queries name it.
    pub name: &'static str,
    pub kind: &'static str,
    pub labels: &'static [&'static str],
    pub buckets: &'static [f64],
    /// Where it is described.
    pub rule: &'static str,
}

const fn mk(name: &'static str, kind: &'static str, labels: &'static [&'static str], rule: &'static str) -> Upstream {
    Upstream {
        name,
        kind,
        labels,
        buckets: &[],
        rule,
    }
}

const fn histogram(name: &'static str, buckets: &'static [f64], rule: &'static str) -> Upstream {
    Upstream {
        buckets,
        ..mk(name, "histogram", &[], rule)
    }
}

pub const ALL: [Upstream; 12] = [
    mk("node_collector_zone_health", "gauge", &["zone"], "NL-140"),
    mk("node_collector_zone_size", "gauge", &["zone"], "NL-140"),
    mk("node_collector_unhealthy_nodes_in_zone", "gauge", &["zone"], "NL-140"),
    mk("node_collector_evictions_total", "counter", &["zone"], "NL-140"),
    histogram(
        "node_collector_update_node_health_duration_seconds",
        &[0.001, 0.004, 0.016, 0.064, 0.256, 1.024, 4.096, 16.384],
        "NL-140",
    ),
    histogram(
        "node_collector_update_all_nodes_health_duration_seconds",
        &[0.01, 0.04, 0.16, 0.64, 2.56, 10.24, 40.96, 163.84],
        "NL-140",
    ),
    mk("taint_eviction_controller_pod_deletions_total", "counter", &[], "TE-090"),
    histogram(
        "taint_eviction_controller_pod_deletion_duration_seconds",
        &[0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0, 120.0, 180.0, 240.0],
        "TE-090",
    ),
    mk(
        "daemonset_controller_stale_sync_skips_total",
        "counter",
        &["group", "resource"],
        "DS-188",
    ),
    mk("workqueue_depth", "gauge", &["name"], "DS-188"),
    mk("workqueue_adds_total", "counter", &["name"], "DS-188"),
    // Of every component of Kubernetes that elects a leader.
    mk("leader_election_master_status", "gauge", &["name"], "client-go"),
];

/// What our own names begin with.
pub const OWN: [&str; 9] = [
    "bailiff_port_",
    "bailiff_tls_",
    "bailiff_trace_spans_",
    "event_bus_",
    "event_bus_etcd_",
    "node_health_monitor_",
    "taint_manager_",
    "zone_evictor_",
    "daemonset_syncer_",
];

/// The one of this name, as queries have it.
pub fn of(name: &str) -> Option<&'static Upstream> {
    ALL.iter().find(|upstream| upstream.name == name)
}
