//! What the stage measures. Names with `node_collector` and `taint_eviction_controller` are upstream's (NL-140, TE-090); the rest is
//! this stage's own.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;

use bailiff_model::HoldReason;
use bailiff_model::outcome::RefusedReason;
use bailiff_runtime::Metrics as Registry;
use bailiff_runtime::metrics::at_zero;
use bailiff_zone_core::{Count, Evictor};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

/// Upstream's buckets (TE-090), in seconds, which is what upstream means (TE-091).
const DELETION_BUCKETS: [f64; 12] = [0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0, 120.0, 180.0, 240.0];

/// Requests whose failures are counted.
const REQUESTS: [&str; 3] = ["taints", "pod", "node_read"];

/// What a zone can be held for.
const ZONE_HOLDS: [HoldReason; 9] = [
    HoldReason::Incomplete,
    HoldReason::Stale,
    HoldReason::ApiStale,
    HoldReason::AllZonesDisrupted,
    HoldReason::RateZero,
    HoldReason::Paused,
    HoldReason::Rival,
    HoldReason::CorrelatedLoss,
    HoldReason::Observing,
];

type Float = Gauge<f64, AtomicU64>;

/// The stage's metrics.
#[derive(Debug)]
pub(crate) struct Metrics {
    zone_health: Family<ZoneLabels, Float>,
    zone_size: Family<ZoneLabels, Gauge>,
    unhealthy: Family<ZoneLabels, Gauge>,
    evictions: Family<ZoneLabels, Counter>,
    deletions: Counter,
    deletion_seconds: Histogram,
    late: Family<ZoneLabels, Gauge>,
    waiting: Family<ZoneLabels, Gauge>,
    rate: Family<ZoneLabels, Float>,
    held: Family<HeldLabels, Gauge>,
    due_pods: Family<StateLabels, Gauge>,
    refused: Family<ReasonLabels, Counter>,
    blocked: Counter,
    failed: Family<RequestLabels, Counter>,
    held_before: BTreeSet<(String, &'static str)>,
    zones: BTreeSet<String>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ZoneLabels {
    zone: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct HeldLabels {
    zone: String,
    reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct StateLabels {
    state: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReasonLabels {
    reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestLabels {
    request: &'static str,
}

impl Metrics {
    /// Registers everything.
    pub(crate) fn register(registry: &Registry) -> Self {
        let metrics = Self {
            zone_health: Family::default(),
            zone_size: Family::default(),
            unhealthy: Family::default(),
            evictions: Family::default(),
            deletions: Counter::default(),
            deletion_seconds: Histogram::new(DELETION_BUCKETS),
            late: Family::default(),
            waiting: Family::default(),
            rate: Family::default(),
            held: Family::default(),
            due_pods: Family::default(),
            refused: Family::default(),
            blocked: Counter::default(),
            failed: Family::default(),
            held_before: BTreeSet::new(),
            zones: BTreeSet::new(),
        };
        metrics.register_upstreams(registry);
        metrics.register_own(registry);
        metrics.begin();
        metrics
    }

    fn begin(&self) {
        at_zero(
            &self.due_pods,
            ["held", "waiting", "in_flight"].map(|state| StateLabels { state }),
        );
        let reasons = RefusedReason::ALL.map(RefusedReason::as_str);
        at_zero(&self.refused, reasons.map(|reason| ReasonLabels { reason }));
        at_zero(&self.failed, REQUESTS.map(|request| RequestLabels { request }));
    }

    /// A zone is seen for the first time. It has a counter, if only at 0 (NL-024).
    fn begin_zone(&mut self, labels: &ZoneLabels) {
        if !self.zones.insert(labels.zone.clone()) {
            return;
        }
        at_zero(&self.evictions, [labels.clone()]);
        let held = |reason: HoldReason| HeldLabels {
            zone: labels.zone.clone(),
            reason: reason.as_str(),
        };
        at_zero(&self.held, ZONE_HOLDS.map(held));
    }

    fn register_upstreams(&self, registry: &Registry) {
        registry.register("node_collector", |registry| {
            let health = "Percentage of voting nodes of the zone that are ready";
            registry.register("zone_health", health, self.zone_health.clone());
            registry.register("zone_size", "Voting nodes of the zone", self.zone_size.clone());
            let unhealthy = "Voting nodes of the zone that are not ready";
            registry.register("unhealthy_nodes_in_zone", unhealthy, self.unhealthy.clone());
            let evictions = "Nodes isolated, or evicted in node mode, at the zone's rate";
            registry.register("evictions", evictions, self.evictions.clone());
        });
        registry.register("taint_eviction_controller", |registry| {
            registry.register("pod_deletions", "Pods deleted", self.deletions.clone());
            let seconds = "From when a pod was due to the accepted deletion";
            registry.register("pod_deletion_duration_seconds", seconds, self.deletion_seconds.clone());
        });
    }

    fn register_own(&self, registry: &Registry) {
        registry.register("zone_evictor", |registry| {
            registry.register("late_nodes", "Voting nodes that are late", self.late.clone());
            registry.register("waiting_nodes", "Nodes waiting for the zone's rate", self.waiting.clone());
            registry.register("rate_nodes_per_second", "The zone's rate", self.rate.clone());
            registry.register(
                "held",
                "1 while nothing is granted in the zone for this reason",
                self.held.clone(),
            );
            registry.register("due_pods", "Pods that are due, by state", self.due_pods.clone());
            registry.register("refused_evictions", "Evictions refused, by reason", self.refused.clone());
            let blocked = "Evictions that a PodDisruptionBudget forbade";
            registry.register("blocked_evictions", blocked, self.blocked.clone());
            registry.register("failed_requests", "Requests that failed, by kind", self.failed.clone());
        });
    }

    /// Counts.
    pub(crate) fn count(&self, count: &Count) {
        match count {
            Count::NodeEvicted(zone) => {
                let zone = zone.metric_label();
                self.evictions.get_or_create(&ZoneLabels { zone }).inc();
            }
            Count::PodDeleted { after } => {
                self.deletions.inc();
                self.deletion_seconds.observe(after.as_secs_f64());
            }
            Count::PodRefused(reason) => {
                let reason = reason.as_str();
                self.refused.get_or_create(&ReasonLabels { reason }).inc();
            }
            Count::PodBlocked => drop(self.blocked.inc()),
            Count::RequestFailed { what } => {
                self.failed.get_or_create(&RequestLabels { request: what }).inc();
            }
        }
    }

    /// Sets what is a level.
    pub(crate) fn levels(&mut self, evictor: &Evictor) {
        let mut held = BTreeSet::new();
        for view in evictor.zones() {
            let labels = ZoneLabels {
                zone: view.zone.metric_label(),
            };
            self.zone_health.get_or_create(&labels).set(view.health());
            self.zone_size.get_or_create(&labels).set(i64::from(view.voting));
            self.unhealthy.get_or_create(&labels).set(i64::from(view.not_ready));
            self.late.get_or_create(&labels).set(i64::from(view.late));
            self.waiting.get_or_create(&labels).set(signed(view.waiting));
            self.rate.get_or_create(&labels).set(view.rate);
            self.begin_zone(&labels);
            held.extend(view.held.map(|hold| (labels.zone, hold.reason.as_str())));
        }
        for (zone, reason) in self.held_before.union(&held) {
            let now = i64::from(held.contains(&(zone.clone(), *reason)));
            let (zone, reason) = (zone.clone(), *reason);
            self.held.get_or_create(&HeldLabels { zone, reason }).set(now);
        }
        self.held_before = held;
        let (held, waiting, in_flight) = evictor.due_pods();
        for (state, pods) in [("held", held), ("waiting", waiting), ("in_flight", in_flight)] {
            self.due_pods.get_or_create(&StateLabels { state }).set(signed(pods));
        }
    }
}

fn signed(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
