//! What Kubernetes I/O counts.

use bailiff_runtime::metrics::at_zero;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use crate::error::Kind;

/// What requests are counted by.
const METHODS: [&str; 7] = ["get", "list", "watch", "create", "update", "patch", "delete"];
/// What becomes of Events.
const EVENTS: [&str; 5] = ["created", "repeated", "failed", "dropped_queue_full", "dropped_rate_limited"];

/// Counters of one process's Kubernetes I/O; cloning gives the same counters.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    requests: Family<RequestLabels, Counter>,
    malformed: Family<ResourceLabels, Counter>,
    watch_restarts: Family<ResourceLabels, Counter>,
    watch_events: Family<ResourceLabels, Counter>,
    events: Family<EventLabels, Counter>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestLabels {
    method: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ResourceLabels {
    resource: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct EventLabels {
    result: &'static str,
}

impl Metrics {
    /// Registers the counters under `kube_client_…`.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let registry = registry.sub_registry_with_prefix("kube_client");
        registry.register("requests", "Requests to the API server", metrics.requests.clone());
        registry.register(
            "malformed_objects",
            "Objects skipped because they could not be decoded",
            metrics.malformed.clone(),
        );
        registry.register("watch_restarts", "Watches begun anew", metrics.watch_restarts.clone());
        registry.register(
            "watch_events",
            "Changes of objects that watches told",
            metrics.watch_events.clone(),
        );
        registry.register("events", "Kubernetes Events by what became of them", metrics.events.clone());
        metrics.begin();
        metrics
    }

    fn begin(&self) {
        let results = || Kind::ALL.map(Kind::as_str).into_iter().chain(["ok"]);
        for method in METHODS {
            at_zero(&self.requests, results().map(|result| RequestLabels { method, result }));
        }
        at_zero(&self.events, EVENTS.map(|result| EventLabels { result }));
    }

    pub(crate) fn request(&self, method: &'static str, result: &'static str) {
        self.requests.get_or_create(&RequestLabels { method, result }).inc();
    }

    pub(crate) fn malformed(&self, resource: &str) {
        let resource = resource.to_owned();
        self.malformed.get_or_create(&ResourceLabels { resource }).inc();
    }

    pub(crate) fn watch_restart(&self, resource: &str) {
        let resource = resource.to_owned();
        self.watch_restarts.get_or_create(&ResourceLabels { resource }).inc();
    }

    /// There is a watch of this resource. Answers what counts the changes that it tells: they are many, so it is looked up once.
    pub(crate) fn watch(&self, resource: &str) -> Counter {
        let resource = resource.to_owned();
        let labels = ResourceLabels { resource };
        at_zero(&self.malformed, [labels.clone()]);
        at_zero(&self.watch_restarts, [labels.clone()]);
        self.watch_events.get_or_create_owned(&labels)
    }

    pub(crate) fn event(&self, result: &'static str) {
        self.events.get_or_create(&EventLabels { result }).inc();
    }
}
