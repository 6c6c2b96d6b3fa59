//! Telling people: Events and spans.

use std::collections::BTreeMap;

use bailiff_cluster::Recorder;
use bailiff_cluster::events::{Draft, Regarding, Severity};
use bailiff_model::TraceContext;
use bailiff_runtime::Spans;
use bailiff_runtime::trace::{self, KeyValue};
use bailiff_stage::Env;
use bailiff_zone_core::{Component, Event, Regarding as Object, Span, SpanReason};

/// One recorder for each of upstream's controllers that Events are said to come from (NL-002, TE-002).
pub(crate) struct Recorders(BTreeMap<Component, Recorder>);

impl Recorders {
    /// Starts them.
    pub(crate) fn start(env: &Env) -> Self {
        let start = |component: Component| {
            let seed = env.host.seed.fork(component.as_str());
            (
                component,
                Recorder::start(&env.api, component.as_str(), &env.host.identity, &seed),
            )
        };
        Self([Component::Node, Component::TaintEviction].map(start).into())
    }

    /// Emits an Event (NL-130, NL-131, TE-080).
    pub(crate) fn emit(&self, event: Event) {
        let Some(recorder) = self.0.get(&event.component) else {
            return;
        };
        recorder.emit(|| Draft {
            regarding: regarding(&event.regarding),
            severity: Severity::Normal,
            reason: event.reason,
            action: event.reason,
            note: event.note,
            about: event.about,
        });
    }
}

fn regarding(object: &Object) -> Regarding {
    match object {
        Object::Node(node) => Regarding {
            api_version: "v1",
            kind: "Node",
            name: node.name.to_string(),
            uid: node.uid.to_string(),
            ..Regarding::default()
        },
        Object::Pod { pod, with_uid } => Regarding {
            api_version: "v1",
            kind: "Pod",
            namespace: pod.namespace.to_string(),
            name: pod.name.to_string(),
            uid: if *with_uid { pod.uid.to_string() } else { String::new() },
            ..Regarding::default()
        },
    }
}

/// Emits a span of an incident.
pub(crate) fn span(spans: &Spans, span: Span) {
    if let Some(parent) = span.trace {
        spans.emit(|| rendered(parent, span));
    }
}

fn rendered(parent: TraceContext, span: Span) -> trace::Span {
    let kind = if span.kind.is_request() {
        trace::SpanKind::Client
    } else {
        trace::SpanKind::Internal
    };
    let has_failed = span.has_failed();
    let mut told = trace::Span::child_of(parent, span.kind.as_str(), span.start, span.end)
        .kind(kind)
        .attribute("k8s.node.name", span.node.name.to_string());
    if !span.node.uid.is_empty() {
        told = told.attribute("k8s.node.uid", span.node.uid.to_string());
    }
    if let Some(pod) = span.pod {
        told = told
            .attribute("k8s.namespace.name", pod.namespace.to_string())
            .attribute("k8s.pod.name", pod.name.to_string())
            .attribute("k8s.pod.uid", pod.uid.to_string());
    }
    told = told.attribute(OUTCOME, span.outcome.as_str());
    if let Some(reason) = span.why.reason {
        told = told.attribute(REASON, reason.word());
    }
    for (hold, until) in span.why.meanwhile {
        let since = hold.since.max(span.start);
        let seconds = until.duration_since(since).as_secs_f64();
        let attributes = vec![
            KeyValue::new(REASON, SpanReason::from(hold.reason).word()),
            KeyValue::new(DETAIL, hold.detail),
            KeyValue::new("bailiff.held.seconds", seconds),
        ];
        told = told.event("zone held", since, attributes);
    }
    if has_failed {
        told = told.failed(span.why.detail.clone());
    }
    if !span.why.detail.is_empty() {
        told = told.attribute(DETAIL, span.why.detail);
    }
    told
}

/// How it ended.
const OUTCOME: &str = "bailiff.outcome";
/// Why, as one of few words.
const REASON: &str = "bailiff.reason";
/// Why, in a sentence.
const DETAIL: &str = "bailiff.detail";
