//! Telling people: events on nodes, spans of incidents, log lines.

use bailiff_cluster::Recorder;
use bailiff_cluster::events::{Draft, Regarding, Severity};
use bailiff_node_health_core::{Judgement, Measurement, NodeEvent};
use bailiff_runtime::Spans;
use bailiff_runtime::trace::Span;

use crate::ANNOTATION_TRACE_ID;
use crate::metrics::Metrics;

/// Component that events come from: upstream's (NL-002).
pub(crate) const EVENT_SOURCE: &str = "node-controller";

/// Emits an event on a node (NL-130).
pub(crate) fn event(recorder: &Recorder, event: &NodeEvent) {
    let trace = event
        .trace
        .map(|trace| (ANNOTATION_TRACE_ID, format!("{:032x}", trace.trace_id)));
    recorder.emit(Draft {
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
        annotations: trace.into_iter().collect(),
    });
}

/// Counts, logs and traces a measurement.
pub(crate) fn measurement(metrics: &Metrics, spans: &Spans, measurement: &Measurement) {
    match measurement {
        Measurement::Judged(judgement) => {
            metrics.judged(judgement.past_grace, judgement.turn);
            judged(spans, judgement);
        }
        Measurement::Reprieved(node) => {
            metrics.reprieved();
            tracing::info!(%node, "Node spoke before it was judged");
        }
        Measurement::Stalled(gap) => {
            metrics.stalled();
            tracing::warn!(?gap, "Process stood still; nothing was judged until its inputs were taken in");
        }
        Measurement::EverythingDown => tracing::warn!("No voting node was ready any more"),
        Measurement::NoLongerEverythingDown { recounted } => {
            tracing::info!(recounted, "A voting node was ready again; silent nodes got a fresh grace");
        }
    }
}

/// The beginning of the incident's trace: silence, grace, the confirming read, the write.
fn judged(spans: &Spans, judgement: &Judgement) {
    let Judgement {
        node,
        trace,
        counted_from,
        grace_ended,
        asked,
        answered,
        judged,
        past_grace,
        turn: _,
    } = judgement;
    tracing::info!(node = %node.name, ?past_grace, "Node was judged unreachable");
    let child = |name: &'static str, start, end| Span::child_of(*trace, name, start, end);
    spans.emit(child("grace", *counted_from, *grace_ended));
    spans.emit(child("confirming read", *asked, *answered));
    spans.emit(child("status write", *answered, *judged));
    spans.emit(
        Span::root(*trace, "node unreachable", *counted_from, *judged)
            .attribute("k8s.node.name", node.name.to_string())
            .attribute("k8s.node.uid", node.uid.to_string()),
    );
}
