//! Telling people: events on pods, spans of toleration times, log lines.

use std::collections::VecDeque;

use bailiff_cluster::Recorder;
use bailiff_cluster::events::{Draft, Regarding, Severity};
use bailiff_model::intent::{EvictionCause, Intent, IntentState, PodEviction, Trigger};
use bailiff_model::{Origin, TraceContext, Wall};
use bailiff_runtime::Spans;
use bailiff_runtime::trace::Span;
use bailiff_stage::Env;
use bailiff_taint_core::{Component, Event, Severity as CoreSeverity};

use crate::ANNOTATION_TRACE_ID;

/// Traces of hand-made taints whose first span was emitted, so that it is emitted once: a taint concerns the pods of one node, which
/// are judged together, so a few are enough. Forgetting one costs a second span with the same id.
const ROOTS: usize = 256;

/// Where events and spans go.
#[derive(Debug)]
pub(crate) struct Teller {
    node_controller: Recorder,
    taint_eviction: Recorder,
    spans: Spans,
    roots: VecDeque<u128>,
}

impl Teller {
    /// Events come from upstream's components (NL-002, TE-002).
    pub(crate) fn new(env: &Env, seed: &bailiff_runtime::Seed) -> Self {
        let recorder = |component: &'static str| Recorder::start(&env.api, component, &env.host.identity, &seed.fork(component));
        Self {
            node_controller: recorder("node-controller"),
            taint_eviction: recorder("taint-eviction-controller"),
            spans: env.host.spans.clone(),
            roots: VecDeque::new(),
        }
    }

    /// Emits an event on a pod (NL-131, TE-080).
    pub(crate) fn event(&self, event: Event) {
        let recorder = match event.component {
            Component::NodeController => &self.node_controller,
            Component::TaintEvictionController => &self.taint_eviction,
        };
        let trace = event
            .trace
            .map(|trace| (ANNOTATION_TRACE_ID, format!("{:032x}", trace.trace_id)));
        recorder.emit(Draft {
            regarding: Regarding {
                api_version: "v1",
                kind: "Pod",
                namespace: event.pod.namespace.to_string(),
                name: event.pod.name.to_string(),
                uid: event.pod.uid.to_string(),
                ..Regarding::default()
            },
            severity: match event.severity {
                CoreSeverity::Normal => Severity::Normal,
                CoreSeverity::Warning => Severity::Warning,
            },
            reason: event.reason,
            action: event.reason,
            note: event.message,
            annotations: trace.into_iter().collect(),
        });
    }

    /// Logs and traces what is being published.
    pub(crate) fn intent(&mut self, intent: &Intent, derived_from: &Origin, trace: Option<TraceContext>) {
        match intent {
            Intent::Isolation(wish) => {
                tracing::info!(node = %wish.node.name, taint = wish.taint.key(), derived_from = %derived_from.revision, "Wished a node isolated");
            }
            Intent::NodeEviction(wish) => {
                tracing::info!(node = %wish.node.name, not_before = %wish.not_before, derived_from = %derived_from.revision, "Wished a node evicted");
            }
            Intent::Pod(eviction) => {
                let (pod, state) = (&eviction.pod, eviction.state);
                tracing::debug!(%pod, node = %eviction.node.name, ?state, due_at = %eviction.due_at, "Published pod intent");
                if let Some(trace) = trace {
                    self.trace(eviction, derived_from, trace);
                }
            }
        }
    }

    /// The toleration time of a pod, when it is over or called off; before it, once, the hand-made taint it comes from.
    fn trace(&mut self, eviction: &PodEviction, derived_from: &Origin, trace: TraceContext) {
        let start = counted_from(eviction);
        if derived_from.is_none() && matches!(eviction.cause, EvictionCause::Taints { .. }) {
            self.root(eviction, trace, start);
        }
        let span = |end| {
            Span::child_of(trace, "toleration time", start, end)
                .attribute("k8s.pod.name", eviction.pod.name.to_string())
                .attribute("k8s.namespace.name", eviction.pod.namespace.to_string())
                .attribute("k8s.pod.uid", eviction.pod.uid.to_string())
                .attribute("k8s.node.name", eviction.node.name.to_string())
        };
        match (eviction.state, eviction.trigger) {
            (IntentState::Due, Trigger::Expired | Trigger::Node) => {
                self.spans.emit(span(eviction.decided_at).attribute("bailiff.end", "expired"));
            }
            (IntentState::Withdrawn(reason), _) => {
                let end = span(eviction.decided_at).attribute("bailiff.end", format!("withdrawn: {reason:?}"));
                self.spans.emit(end);
            }
            // Nothing was tolerated, or the time still runs.
            (IntentState::Due, Trigger::Untolerated) | (IntentState::Scheduled, _) => {}
        }
    }

    fn root(&mut self, eviction: &PodEviction, trace: TraceContext, start: Wall) {
        if self.roots.contains(&trace.trace_id) {
            return;
        }
        if self.roots.len() == ROOTS {
            self.roots.pop_front();
        }
        self.roots.push_back(trace.trace_id);
        self.spans.emit(
            Span::root(trace, "NoExecute taint", start, eviction.decided_at)
                .attribute("k8s.node.name", eviction.node.name.to_string())
                .attribute("k8s.node.uid", eviction.node.uid.to_string()),
        );
    }
}

/// Since when the pod's time counted.
fn counted_from(eviction: &PodEviction) -> Wall {
    let since = match &eviction.cause {
        EvictionCause::Taints { taints, .. } => taints.iter().filter_map(|taint| taint.time_added).min(),
        EvictionCause::Node => None,
    };
    since.unwrap_or(eviction.decided_at).min(eviction.decided_at)
}
