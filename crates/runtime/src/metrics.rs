//! The process's metrics registry and its text form.
//!
//! What is measured belongs to the crate that measures it; here is only where it is registered and how it is read.

mod merge;

use std::collections::BTreeMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// What `/metrics` answers is of this type.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A metrics registry; cloning it gives the same registry.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    /// By shard; what belongs to none comes first.
    registries: Arc<Mutex<BTreeMap<Option<u32>, Registry>>>,
    /// Which of them this one registers with.
    shard: Option<u32>,
}

/// Label of what belongs to one shard of several.
const SHARD: &str = "shard";

/// Begins a series of `family` at zero for each of these labels. A family has no series before it is asked for one: a scrape would not
/// show its name, and what happens for the first time would be no increase of anything.
pub fn at_zero<S, M>(family: &Family<S, M>, labels: impl IntoIterator<Item = S>)
where
    S: Clone + Hash + Eq,
    M: Default,
{
    for labels in labels {
        drop(family.get_or_create(&labels));
    }
}

// === impl Metrics ===

impl Metrics {
    /// An empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// The part of this registry that belongs to a shard: what is registered with it has a label `shard`. A part of the same shard that
    /// was there before is forgotten.
    pub fn of_shard(&self, shard: u32) -> Self {
        let label = (SHARD.into(), shard.to_string().into());
        self.lock().insert(Some(shard), Registry::with_labels([label].into_iter()));
        Self {
            registries: Arc::clone(&self.registries),
            shard: Some(shard),
        }
    }

    /// Lets `register` add metrics whose names start with `prefix` and an underscore; an empty prefix adds nothing.
    ///
    /// Names must be unique over all calls with one prefix: the registry does not check it.
    pub fn register<T>(&self, prefix: &str, register: impl FnOnce(&mut Registry) -> T) -> T {
        let mut registries = self.lock();
        let registry = registries.entry(self.shard).or_default();
        if prefix.is_empty() {
            register(registry)
        } else {
            register(registry.sub_registry_with_prefix(prefix))
        }
    }

    /// All metrics in OpenMetrics text form.
    pub fn encode(&self) -> String {
        let registries = self.lock();
        let encoded = registries.values().map(|registry| {
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, registry).expect("a String takes every write");
            text
        });
        merge::merge(encoded)
    }

    /// Forgets what was registered with this part of a shard.
    pub fn forget(&self) {
        if self.shard.is_some() {
            self.lock().remove(&self.shard);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Option<u32>, Registry>> {
        self.registries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::counter::Counter;

    use super::*;

    #[test]
    fn a_prefix_is_part_of_the_name() {
        let metrics = Metrics::new();
        let mk_counter = |registry: &mut Registry| {
            let counter: Counter = Counter::default();
            registry.register("nodes", "Nodes seen", counter.clone());
            counter
        };
        metrics.register("bailiff", mk_counter).inc();
        metrics.clone().register("", mk_counter).inc_by(2);
        let text = metrics.encode();
        assert!(text.contains("\nbailiff_nodes_total 1\n"), "{text}");
        assert!(text.contains("\nnodes_total 2\n"), "{text}");
        assert!(text.ends_with("# EOF\n"), "{text}");
    }

    /// OpenMetrics allows a family once.
    #[test]
    fn shards_have_a_label_and_share_their_families() {
        let metrics = Metrics::new();
        let mk_counter = |registry: &mut Registry| {
            let counter: Counter = Counter::default();
            registry.register("nodes", "Nodes seen", counter.clone());
            counter
        };
        metrics.register("bailiff", |registry| mk_counter(registry).inc());
        let parts = [0, 2].map(|shard| metrics.of_shard(shard));
        for (part, count) in parts.iter().zip([5, 7]) {
            part.register("", |registry| mk_counter(registry).inc_by(count));
        }
        let wanted = "# HELP bailiff_nodes Nodes seen.\n# TYPE bailiff_nodes counter\nbailiff_nodes_total 1\n\
            # HELP nodes Nodes seen.\n# TYPE nodes counter\nnodes_total{shard=\"0\"} 5\nnodes_total{shard=\"2\"} 7\n# EOF\n";
        assert_eq!(metrics.encode(), wanted);
        parts[0].forget();
        assert!(!metrics.encode().contains("shard=\"0\""), "{}", metrics.encode());
        metrics.of_shard(2);
        assert!(!metrics.encode().contains("shard"), "{}", metrics.encode());
    }
}
