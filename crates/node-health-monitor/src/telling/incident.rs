//! Spans of incidents (docs/adr/0006): how a node came to be judged, why it was not, and how it ended.

use bailiff_model::{NodeRef, TraceContext, Verdict, Wall};
use bailiff_node_health_core::{Closing, Judgement, Opening, Outcome, Reprieve};
use bailiff_runtime::Spans;
use bailiff_runtime::trace::{Span, SpanKind};

/// The root, told once: from the last sign of life to the verdict that opens the incident.
pub(super) fn opened(spans: &Spans, opening: &Opening) {
    let Opening {
        node,
        trace,
        began,
        opened,
        verdict,
    } = opening;
    let root = Span::root(*trace, "node incident", *began, *opened);
    spans.emit(about(root, node).attribute("bailiff.verdict", word(*verdict)));
}

/// Silence, grace, the confirming read, the write.
pub(super) fn judged(spans: &Spans, judgement: &Judgement) {
    let Judgement {
        node,
        trace,
        counted_from,
        grace_ended,
        asked,
        answered,
        judged,
        ..
    } = judgement;
    let child = |name, start: &Wall, end: &Wall, outcome| child(*trace, node, name, (*start, *end), outcome);
    spans.emit(child("grace", counted_from, grace_ended, "expired"));
    spans.emit(child("confirming read", asked, answered, "silent").kind(SpanKind::Client));
    spans.emit(child("status write", answered, judged, "stored").kind(SpanKind::Client));
    let unreachable = child("node unreachable", counted_from, judged, "judged");
    spans.emit(unreachable.attribute("bailiff.verdict", word(Verdict::Unreachable)));
}

/// The node spoke when it was read: it is not judged.
pub(super) fn reprieved(spans: &Spans, reprieve: &Reprieve) {
    let Reprieve {
        node,
        trace: Some(trace),
        counted_from,
        grace_ended,
        asked,
        answered,
    } = reprieve
    else {
        return;
    };
    let child = |name, start: &Wall, end: &Wall, outcome| child(*trace, node, name, (*start, *end), outcome);
    spans.emit(child("grace", counted_from, grace_ended, "expired"));
    spans.emit(child("confirming read", asked, answered, Outcome::Recovered.as_str()).kind(SpanKind::Client));
}

/// What the incident waited for, or what ended it instead.
pub(super) fn closed(spans: &Spans, closing: &Closing) {
    let Closing {
        node,
        trace,
        began,
        closed,
        was,
        outcome,
    } = closing;
    let mut span = child(*trace, node, "recovery", (*began, *closed), outcome.as_str());
    if let Some(was) = was {
        span = span.attribute("bailiff.verdict", word(*was));
    }
    spans.emit(span);
}

fn child(trace: TraceContext, node: &NodeRef, name: &'static str, (start, end): (Wall, Wall), outcome: &'static str) -> Span {
    about(Span::child_of(trace, name, start, end), node).attribute("bailiff.outcome", outcome)
}

fn about(span: Span, node: &NodeRef) -> Span {
    span.attribute("k8s.node.name", node.name.to_string())
        .attribute("k8s.node.uid", node.uid.to_string())
}

/// The word of the contract.
fn word(verdict: Verdict) -> String {
    verdict.as_str().to_uppercase()
}
