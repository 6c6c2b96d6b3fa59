//! Spans of what is over (docs/adr/0006): toleration times, pods that were due, marks, and the taints that nobody but a hand accounts
//! for.

use bailiff_model::intent::WithdrawnReason;
use bailiff_model::{NodeRef, PodRef, Taint};
use bailiff_runtime::Spans;
use bailiff_runtime::trace::{Span, SpanKind};
use bailiff_taint_core::Told;
use bailiff_taint_core::told::{Counts, Ending, Part};

/// Emits the span of it.
pub(super) fn tell(spans: &Spans, told: &Told) {
    spans.emit(|| rendered(told));
}

fn rendered(told: &Told) -> Span {
    let Told {
        node,
        trace,
        start,
        end,
        what,
    } = told;
    let child = |name: &'static str| on_node(Span::child_of(*trace, name, *start, *end), node);
    match what {
        Part::Taint(taint) => of_taint(
            on_node(Span::root(*trace, "NoExecute taint", *start, *end), node),
            Some(taint),
        ),
        Part::Toleration {
            pod,
            taint,
            allowed,
            ending,
        } => {
            let span = of_taint(on_pod(child("toleration time"), pod), taint.as_deref());
            ended(span.attribute("bailiff.toleration.seconds", allowed.as_secs_f64()), *ending)
        }
        Part::Termination { pod, taint, ending } => {
            ended(of_taint(on_pod(child("pod termination"), pod), taint.as_deref()), *ending)
        }
        Part::Tolerated { taint, pods } => tolerated(of_taint(child("tolerated"), Some(taint)), pods),
        Part::Marks { marked, spared, failed } => child("mark pods not ready")
            .kind(SpanKind::Client)
            .attribute("bailiff.outcome", if *marked > 0 { "marked" } else { "cancelled" })
            .attribute("bailiff.pods.marked", count(*marked))
            .attribute("bailiff.pods.spared", count(*spared))
            .attribute("bailiff.failed.attempts", count(*failed)),
        Part::MarksHeld {
            reason,
            detail,
            released,
        } => child("held")
            .attribute("bailiff.outcome", if *released { "released" } else { "cancelled" })
            .attribute("bailiff.reason", reason.as_str().to_uppercase())
            .attribute("bailiff.detail", format!("marking pods not ready: {detail}")),
    }
}

fn on_node(span: Span, node: &NodeRef) -> Span {
    span.attribute("k8s.node.name", node.name.to_string())
        .attribute("k8s.node.uid", node.uid.to_string())
}

fn on_pod(span: Span, pod: &PodRef) -> Span {
    span.attribute("k8s.pod.name", pod.name.to_string())
        .attribute("k8s.namespace.name", pod.namespace.to_string())
        .attribute("k8s.pod.uid", pod.uid.to_string())
}

fn of_taint(span: Span, taint: Option<&Taint>) -> Span {
    match taint {
        Some(taint) => span.attribute("bailiff.taint", taint.to_string()),
        None => span,
    }
}

fn tolerated(span: Span, pods: &Counts) -> Span {
    let Counts { due, timed, tolerating } = *pods;
    span.attribute("bailiff.outcome", "tolerated")
        .attribute("bailiff.pods.tolerating", count(tolerating))
        .attribute("bailiff.pods.timed", count(timed))
        .attribute("bailiff.pods.due", count(due))
}

/// How it ended: a word, and why in the words of the contract.
fn ended(span: Span, ending: Ending) -> Span {
    let (outcome, reason) = match ending {
        Ending::Expired => ("expired", None),
        Ending::Moved(to) => {
            let detail = format!("The pod may stay until {to:.0}");
            return span.attribute("bailiff.outcome", "moved").attribute("bailiff.detail", detail);
        }
        Ending::Untolerated => ("cancelled", Some("UNTOLERATED")),
        Ending::Withdrawn(reason) => ("withdrawn", Some(withdrawn(reason))),
        Ending::NodeGone => ("cancelled", Some("NODE_GONE")),
        Ending::PodGone => ("gone", None),
    };
    let span = span.attribute("bailiff.outcome", outcome);
    match reason {
        Some(reason) => span.attribute("bailiff.reason", reason),
        None => span,
    }
}

const fn withdrawn(reason: WithdrawnReason) -> &'static str {
    match reason {
        WithdrawnReason::TaintsGone => "TAINTS_GONE",
        WithdrawnReason::Tolerated => "TOLERATED",
        WithdrawnReason::NodeRecovered => "NODE_RECOVERED",
    }
}

fn count(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
