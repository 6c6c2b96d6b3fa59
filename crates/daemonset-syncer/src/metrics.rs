//! What the daemonset-syncer measures: upstream's names where upstream has the metric (DS-188), and its own.

use std::collections::BTreeMap;

use bailiff_daemonset_core::{Answer, FailureKind, Request, Scope, Watched};
use bailiff_model::rollout::{DaemonSetSync, WhyNot};
use bailiff_runtime::metrics::at_zero;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestLabels {
    request: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReasonLabels {
    reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct QueueLabels {
    name: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ResourceLabels {
    group: &'static str,
    resource: &'static str,
}

/// Counters and gauges of one daemonset-syncer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics {
    requests: Family<RequestLabels, Counter>,
    running: Gauge,
    queue_depth: Family<QueueLabels, Gauge>,
    queue_adds: Family<QueueLabels, Counter>,
    stale: Family<ResourceLabels, Counter>,
    unavailable: Family<ReasonLabels, Gauge>,
    decisions: Counter,
    /// Reasons last published of each DaemonSet, to keep the sum over all of them.
    published: BTreeMap<(String, String), Vec<(WhyNot, u32)>>,
}

const QUEUE: QueueLabels = QueueLabels { name: "daemonset" };

impl Metrics {
    /// Registers everything. The registry must have no prefix: some names are upstream's.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "daemonset_controller_stale_sync_skips",
            "Times that syncs were held because a watch was stale",
            metrics.stale.clone(),
        );
        registry.register("workqueue_depth", "Requests that wait", metrics.queue_depth.clone());
        registry.register("workqueue_adds", "Requests that were queued", metrics.queue_adds.clone());
        let own = registry.sub_registry_with_prefix("daemonset_syncer");
        own.register("requests", "Requests by kind and result", metrics.requests.clone());
        own.register("requests_running", "Requests in flight", metrics.running.clone());
        own.register("decisions", "Inputs that were decided on", metrics.decisions.clone());
        own.register(
            "unavailable_nodes",
            "Nodes without an available current daemon pod, by reason, summed over DaemonSets",
            metrics.unavailable.clone(),
        );
        metrics.begin();
        metrics
    }

    fn begin(&self) {
        let watches = [
            Watched::DaemonSets,
            Watched::Revisions,
            Watched::Nodes,
            Watched::Pods(Scope::All),
        ];
        at_zero(&self.stale, watches.iter().map(resource));
        at_zero(&self.queue_depth, [QUEUE]);
        at_zero(&self.queue_adds, [QUEUE]);
        for request in Request::KINDS {
            let results = ["ok", "called_off", "failed"];
            at_zero(&self.requests, results.map(|result| RequestLabels { request, result }));
        }
        let reasons = WhyNot::ALL.map(WhyNot::as_str);
        at_zero(&self.unavailable, reasons.map(|reason| ReasonLabels { reason }));
    }

    pub(crate) fn decided(&self) {
        self.decisions.inc();
    }

    pub(crate) fn queued(&self) {
        self.queue_adds.get_or_create(&QUEUE).inc();
    }

    pub(crate) fn answered(&self, request: &'static str, answer: &Answer) {
        let result = match answer {
            Answer::Failed(failure) if failure.kind == FailureKind::CalledOff => "called_off",
            Answer::Failed(_) => "failed",
            _ => "ok",
        };
        self.requests.get_or_create(&RequestLabels { request, result }).inc();
    }

    pub(crate) fn depth(&self, waiting: usize, running: usize) {
        self.queue_depth
            .get_or_create(&QUEUE)
            .set(i64::try_from(waiting).unwrap_or(i64::MAX));
        self.running.set(i64::try_from(running).unwrap_or(i64::MAX));
    }

    pub(crate) fn stale(&self, watch: &Watched) {
        self.stale.get_or_create(&resource(watch)).inc();
    }

    pub(crate) fn published(&mut self, sync: &DaemonSetSync) {
        let key = (sync.namespace.to_string(), sync.name.clone());
        self.withdrawn(&key);
        self.add(&sync.reasons, 1);
        self.published.insert(key, sync.reasons.clone());
    }

    pub(crate) fn withdrawn(&mut self, key: &(String, String)) {
        if let Some(reasons) = self.published.remove(key) {
            self.add(&reasons, -1);
        }
    }

    fn add(&self, reasons: &[(WhyNot, u32)], sign: i64) {
        for (reason, nodes) in reasons {
            let labels = ReasonLabels { reason: reason.as_str() };
            self.unavailable.get_or_create(&labels).inc_by(sign * i64::from(*nodes));
        }
    }
}

const fn resource(watch: &Watched) -> ResourceLabels {
    let group = match watch {
        Watched::DaemonSets | Watched::Revisions => "apps",
        Watched::Nodes | Watched::Pods(_) => "",
    };
    ResourceLabels {
        group,
        resource: watch.as_str(),
    }
}

#[cfg(test)]
mod tests {
    use bailiff_model::rollout::Counts;
    use bailiff_model::{Namespace, Wall};

    use super::*;

    /// DS-188, DS-243: upstream's names where upstream has the metric, and why nodes lack a pod.
    #[test]
    fn metrics_have_upstreams_names() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        metrics.stale(&Watched::Pods(Scope::All));
        metrics.queued();
        metrics.depth(3, 1);
        let reason = WhyNot::NoRoom.as_str();
        metrics.unavailable.get_or_create(&ReasonLabels { reason }).set(2);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("text");
        for line in [
            "daemonset_controller_stale_sync_skips_total{group=\"apps\",resource=\"daemonsets\"} 0",
            "daemonset_controller_stale_sync_skips_total{group=\"\",resource=\"pods\"} 1",
            "daemonset_syncer_requests_total{request=\"delete_pod\",result=\"failed\"} 0",
            "workqueue_depth{name=\"daemonset\"} 3",
            "workqueue_adds_total{name=\"daemonset\"} 1",
            "daemonset_syncer_unavailable_nodes{reason=\"no_room\"} 2",
        ] {
            assert!(text.lines().any(|one| one == line), "{line} is missing in:\n{text}");
        }
    }

    #[test]
    fn reasons_are_summed_over_what_is_published_now() {
        let mut metrics = Metrics::default();
        let mk = |name: &str, reasons: Vec<(WhyNot, u32)>| DaemonSetSync {
            namespace: Namespace::from("ns"),
            name: name.to_owned(),
            uid: String::new(),
            observed_generation: 1,
            current_revision: String::new(),
            revision: 1,
            counts: Counts::default(),
            reasons,
            nodes: Vec::new(),
            held: None,
            synced_at: Wall::UNIX_EPOCH,
            revision_since: None,
            rolled_out_at: None,
        };
        let read = |metrics: &Metrics| metrics.unavailable.get_or_create(&ReasonLabels { reason: "deleting" }).get();
        metrics.published(&mk("a", vec![(WhyNot::Deleting, 3)]));
        metrics.published(&mk("b", vec![(WhyNot::Deleting, 2)]));
        metrics.published(&mk("a", vec![(WhyNot::Deleting, 1)]));
        assert_eq!(read(&metrics), 3);
        metrics.withdrawn(&("ns".to_owned(), "b".to_owned()));
        assert_eq!(read(&metrics), 1);
    }
}
