//! Spans of incidents (docs/adr/0006): how a node came to be judged, why it was not, and how it ended.

use bailiff_model::{NodeRef, TraceContext, Verdict, Wall};
use bailiff_node_health_core::{Closing, Judgement, Opening, Outcome, Part, Passage, Reprieve, Request};
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
    spans.emit(|| {
        let root = Span::root(*trace, "node incident", *began, *opened);
        about(root, node).attribute("bailiff.verdict", word(*verdict))
    });
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
    spans.emit(|| child("grace", counted_from, grace_ended, "expired"));
    spans.emit(|| child("confirming read", asked, answered, "silent").kind(SpanKind::Client));
    spans.emit(|| child("status write", answered, judged, "stored").kind(SpanKind::Client));
    spans.emit(|| {
        let unreachable = child("node unreachable", counted_from, judged, "judged");
        unreachable.attribute("bailiff.verdict", word(Verdict::Unreachable))
    });
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
    spans.emit(|| child("grace", counted_from, grace_ended, "expired"));
    spans.emit(|| child("confirming read", asked, answered, Outcome::Recovered.as_str()).kind(SpanKind::Client));
}

/// What kept the incident from going on.
pub(super) fn passed(spans: &Spans, passage: &Passage) {
    let Passage {
        node,
        trace,
        start,
        end,
        what,
    } = passage;
    let child = |name, outcome| child(*trace, node, name, (*start, *end), outcome);
    spans.emit(|| match what {
        Part::Held { reason, detail, outcome } => child("held", outcome.as_str())
            .attribute("bailiff.reason", reason.as_str().to_uppercase())
            .attribute("bailiff.detail", detail.clone()),
        Part::Refused {
            request,
            refusal,
            detail,
            attempts,
        } => child(name(*request), refusal.as_str())
            .kind(SpanKind::Client)
            .attribute("bailiff.failed.attempts", i64::from(*attempts))
            .attribute("bailiff.detail", detail.to_string())
            .failed(detail.to_string()),
        Part::Recounted => child("grace", Outcome::Recounted.as_str()).attribute(
            "bailiff.detail",
            "a node is ready again where none was: silence before that does not count",
        ),
    });
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
    spans.emit(|| {
        let span = child(*trace, node, "recovery", (*began, *closed), outcome.as_str());
        match was {
            Some(was) => span.attribute("bailiff.verdict", word(*was)),
            None => span,
        }
    });
}

fn child(trace: TraceContext, node: &NodeRef, name: &'static str, (start, end): (Wall, Wall), outcome: &'static str) -> Span {
    about(Span::child_of(trace, name, start, end), node).attribute("bailiff.outcome", outcome)
}

fn about(span: Span, node: &NodeRef) -> Span {
    span.attribute("k8s.node.name", node.name.to_string())
        .attribute("k8s.node.uid", node.uid.to_string())
}

const fn name(request: Request) -> &'static str {
    match request {
        Request::Read => "confirming read",
        Request::Write => "status write",
    }
}

/// The word of the contract.
fn word(verdict: Verdict) -> String {
    verdict.as_str().to_uppercase()
}
