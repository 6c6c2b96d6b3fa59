//! The process's metrics registry and its text form.
//!
//! What is measured belongs to the crate that measures it; here is only where it is registered and how it is read.

use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::registry::Registry;

/// What `/metrics` answers is of this type.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A metrics registry; cloning it gives the same registry.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
}

// === impl Metrics ===

impl Metrics {
    /// An empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets `register` add metrics whose names start with `prefix` and an underscore; an empty prefix adds nothing.
    ///
    /// Names must be unique over all calls with one prefix: the registry does not check it.
    pub fn register<T>(&self, prefix: &str, register: impl FnOnce(&mut Registry) -> T) -> T {
        let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        if prefix.is_empty() {
            register(&mut registry)
        } else {
            register(registry.sub_registry_with_prefix(prefix))
        }
    }

    /// All metrics in OpenMetrics text form.
    pub fn encode(&self) -> String {
        let mut text = String::new();
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("a String takes every write");
        text
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
}
