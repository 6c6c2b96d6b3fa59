//! What is measured about ports, and how often a refusal is worth a line in the log.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use tokio::time::Instant;

use crate::metrics::at_zero;

/// At most one line about refused connections in this time: enough to see why, not enough to fill a disk.
const SAY_EVERY: Duration = Duration::from_secs(10);

/// Why a connection was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Every place of the port is taken.
    Full,
    /// Every place of the address is taken.
    FullForAddress,
    /// The handshake failed: no certificate, one that is not trusted, or no TLS at all.
    Handshake,
    /// The handshake took too long.
    HandshakeTimeout,
    /// The handshake had to make room for a newer one.
    HandshakeCut,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PortLabels {
    port: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RefusalLabels {
    port: &'static str,
    reason: &'static str,
}

/// Metrics of all ports of a process; cloning gives the same ones.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    connections: Family<PortLabels, Gauge>,
    refused: Family<RefusalLabels, Counter>,
    said: Arc<Mutex<Said>>,
}

#[derive(Debug, Default)]
struct Said {
    last: Option<Instant>,
    unsaid: u64,
}

/// An open connection.
#[derive(Debug)]
pub(super) struct Open(Gauge);

// === impl Metrics ===

impl Metrics {
    /// Registers them.
    pub fn register(metrics: &crate::Metrics) -> Self {
        let this = Self::default();
        metrics.register("bailiff_port", |registry| {
            registry.register(
                "connections",
                "Open connections, handshakes included",
                this.connections.clone(),
            );
            registry.register("refused_connections", "Connections refused, by reason", this.refused.clone());
        });
        this
    }

    /// There is such a port.
    pub(super) fn begin(&self, port: &'static str) {
        at_zero(&self.connections, [PortLabels { port }]);
        let reasons = Refusal::ALL.map(Refusal::as_str);
        at_zero(&self.refused, reasons.map(|reason| RefusalLabels { port, reason }));
    }

    pub(super) fn opened(&self, port: &'static str) -> Open {
        let gauge = self.connections.get_or_create(&PortLabels { port }).clone();
        gauge.inc();
        Open(gauge)
    }

    /// Counts a refusal. If it is to be logged, answers how many were not since the last that was.
    pub(super) fn refused(&self, port: &'static str, reason: Refusal) -> Option<u64> {
        let reason = reason.as_str();
        self.refused.get_or_create(&RefusalLabels { port, reason }).inc();
        let now = Instant::now();
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.last.is_some_and(|last| now.duration_since(last) < SAY_EVERY) {
            said.unsaid += 1;
            return None;
        }
        said.last = Some(now);
        Some(std::mem::take(&mut said.unsaid))
    }
}

bailiff_model::words! {
    /// Label value.
    Refusal {
        Full => "full",
        FullForAddress => "full_for_address",
        Handshake => "handshake",
        HandshakeTimeout => "handshake_timeout",
        HandshakeCut => "handshake_cut",
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn refusals_are_counted_all_and_said_now_and_then() {
        let registry = crate::Metrics::new();
        let metrics = Metrics::register(&registry);
        metrics.begin("bus");
        let none = "bailiff_port_refused_connections_total{port=\"bus\",reason=\"full\"} 0";
        assert!(registry.encode().contains(none), "before the first is refused");
        assert_eq!(metrics.refused("bus", Refusal::Handshake), Some(0));
        assert_eq!(metrics.refused("bus", Refusal::Full), None);
        assert_eq!(metrics.refused("bus", Refusal::Handshake), None);
        tokio::time::sleep(SAY_EVERY).await;
        assert_eq!(metrics.refused("bus", Refusal::Handshake), Some(2));
        let open = metrics.opened("bus");
        let text = registry.encode();
        assert!(
            text.contains("bailiff_port_refused_connections_total{port=\"bus\",reason=\"handshake\"} 3"),
            "{text}"
        );
        assert!(text.contains("bailiff_port_connections{port=\"bus\"} 1"), "{text}");
        drop(open);
        assert!(registry.encode().contains("bailiff_port_connections{port=\"bus\"} 0"));
    }
}
