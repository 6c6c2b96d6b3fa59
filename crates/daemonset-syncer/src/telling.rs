//! Spans of rollouts, as the core tells them.

use bailiff_daemonset_core::rollouts::{Part, Told};
use bailiff_model::rollout::WhyNot;
use bailiff_runtime::Spans;
use bailiff_runtime::trace::Span;

/// Emits a span for each.
pub(crate) fn tell(spans: &Spans, told: Vec<Told>) {
    for told in told {
        spans.emit(|| rendered(told));
    }
}

fn rendered(told: Told) -> Span {
    let Told {
        namespace,
        name,
        uid,
        revision,
        trace,
        start,
        end,
        what,
    } = told;
    let concerns = |span: Span| {
        span.attribute("k8s.namespace.name", namespace.to_string())
            .attribute("k8s.daemonset.name", name)
            .attribute("k8s.daemonset.uid", uid)
            .attribute("bailiff.revision", revision)
    };
    let child = |name: &'static str| Span::child_of(trace, name, start, end);
    match what {
        Part::Rollout => concerns(Span::root(trace, "rollout", start, end)),
        Part::Held { reason, detail } => concerns(child("held"))
            .attribute("bailiff.reason", reason.as_str().to_ascii_uppercase())
            .attribute("bailiff.detail", detail),
        Part::Wait { node, reason } => concerns(child("rollout wait"))
            .attribute("k8s.node.name", node.to_string())
            .attribute("bailiff.reason", word(reason)),
        Part::SharedWait { reason, nodes } => concerns(child("rollout wait"))
            .attribute("bailiff.reason", word(reason))
            .attribute("bailiff.nodes", i64::from(nodes)),
        Part::End { outcome, nodes, untold } => {
            let span = concerns(child("rollout end"))
                .attribute("bailiff.outcome", outcome.as_str())
                .attribute("bailiff.nodes", i64::from(nodes));
            match untold {
                0 => span,
                untold => span.attribute("bailiff.untold", i64::from(untold)),
            }
        }
    }
}

/// As the contract spells it.
fn word(reason: WhyNot) -> String {
    reason.as_str().to_ascii_uppercase()
}
