//! Telling people: events on nodes, spans of incidents, log lines.

mod incident;

use bailiff_cluster::Recorder;
use bailiff_cluster::events::{Draft, Regarding, Severity};
use bailiff_model::{About, NodeName};
use bailiff_node_health_core::{LossNews, LossState, Measurement, NodeEvent};
use bailiff_runtime::Spans;

use crate::metrics::Metrics;

/// Component that events come from: upstream's (NL-002).
pub(crate) const EVENT_SOURCE: &str = "node-controller";

/// Emits an event on a node (NL-130).
pub(crate) fn event(recorder: &Recorder, event: &NodeEvent) {
    recorder.emit(|| Draft {
        regarding: Regarding {
            api_version: "v1",
            kind: "Node",
            name: event.node.name.to_string(),
            uid: event.node.uid.to_string(),
            ..Regarding::default()
        },
        severity: Severity::Normal,
        reason: event.kind.reason(),
        action: event.kind.reason(),
        note: event.message(),
        about: About::node(&event.node.name).traced(event.trace),
    });
}

/// Says that a silent node is not given up, because somebody speaks for it.
pub(crate) fn doubted(recorder: &Recorder, node: &NodeName, why: &str) {
    tracing::warn!(%node, why, "Node is silent, and not given up");
    recorder.emit(|| Draft {
        regarding: Regarding {
            api_version: "v1",
            kind: "Node",
            name: node.to_string(),
            // As kubelets do, which do not know another one, and as `kubectl describe node` looks for them.
            uid: node.to_string(),
            ..Regarding::default()
        },
        severity: Severity::Warning,
        reason: "SilenceDoubted",
        action: "Holding",
        note: format!("Node {node} is silent, and not given up: {why}"),
        about: About::node(node),
    });
}

/// Counts, logs and traces a measurement.
pub(crate) fn measurement(metrics: &Metrics, spans: &Spans, recorder: &Recorder, measurement: &Measurement) {
    match measurement {
        Measurement::Opened(opening) => incident::opened(spans, opening),
        Measurement::Judged(judgement) => {
            let past_grace = judgement.past_grace;
            metrics.judged(past_grace, judgement.turn);
            tracing::info!(node = %judgement.node.name, ?past_grace, "Node was judged unreachable");
            incident::judged(spans, judgement);
        }
        Measurement::Reprieved(reprieve) => {
            metrics.reprieved();
            tracing::info!(node = %reprieve.node.name, "Node spoke before it was judged");
            incident::reprieved(spans, reprieve);
        }
        Measurement::Passed(passage) => incident::passed(spans, passage),
        Measurement::Closed(closing) => incident::closed(spans, closing),
        Measurement::Stalled(gap) => {
            metrics.stalled();
            tracing::warn!(?gap, "Process stood still; nothing was judged until its inputs were taken in");
        }
        Measurement::Loss(news) => loss(recorder, news),
        Measurement::EverythingDown => tracing::warn!("No voting node was ready any more"),
        Measurement::NoLongerEverythingDown { recounted } => {
            tracing::info!(recounted, "A voting node was ready again; silent nodes got a fresh grace");
        }
    }
}

/// Says loudly that leases stopped together, or that this is over: an Event about the namespace of the leases.
fn loss(recorder: &Recorder, news: &LossNews) {
    let LossNews { scope, lost, of, state } = news;
    let scope = scope
        .as_ref()
        .map_or_else(|| "the cluster".to_owned(), |zone| format!("zone {zone}"));
    let (severity, reason, note) = match state {
        LossState::Held { until } => {
            let note =
                format!("{lost} of {of} leases of {scope} stopped together; what would follow is held, at most until {until:.0}");
            (Severity::Warning, "CorrelatedLoss", note)
        }
        LossState::Returned => {
            let note = format!("Leases of {scope} returned: {lost} of {of} are still silent; nothing is held any more");
            (Severity::Normal, "CorrelatedLossEnded", note)
        }
        LossState::Expired => {
            let note = format!("{lost} nodes of {scope} are still silent; the hold has run out");
            (Severity::Warning, "CorrelatedLossEnded", note)
        }
    };
    match severity {
        Severity::Warning => tracing::error!(reason, "{note}"),
        Severity::Normal => tracing::warn!(reason, "{note}"),
    }
    recorder.emit(|| Draft {
        regarding: Regarding {
            api_version: "v1",
            kind: "Namespace",
            name: "kube-node-lease".to_owned(),
            ..Regarding::default()
        },
        severity,
        reason,
        action: reason,
        note,
        about: About::default(),
    });
}
