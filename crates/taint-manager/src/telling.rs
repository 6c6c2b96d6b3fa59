//! Telling people: events on pods, spans, log lines.

mod told;

use bailiff_cluster::Recorder;
use bailiff_cluster::events::{Draft, Regarding, Severity};
use bailiff_model::Origin;
use bailiff_model::intent::Intent;
use bailiff_runtime::Spans;
use bailiff_stage::Env;
use bailiff_taint_core::{Component, Event, Severity as CoreSeverity, Told};

/// Where events and spans go.
#[derive(Debug)]
pub(crate) struct Teller {
    node_controller: Recorder,
    taint_eviction: Recorder,
    spans: Spans,
}

impl Teller {
    /// Events come from upstream's components (NL-002, TE-002).
    pub(crate) fn new(env: &Env, seed: &bailiff_runtime::Seed) -> Self {
        let recorder = |component: &'static str| Recorder::start(&env.api, component, &env.host.identity, &seed.fork(component));
        Self {
            node_controller: recorder("node-controller"),
            taint_eviction: recorder("taint-eviction-controller"),
            spans: env.host.spans.clone(),
        }
    }

    /// Emits an event on a pod (NL-131, TE-080).
    pub(crate) fn event(&self, event: Event) {
        let recorder = match event.component {
            Component::NodeController => &self.node_controller,
            Component::TaintEvictionController => &self.taint_eviction,
        };
        recorder.emit(|| Draft {
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
            about: event.about,
        });
    }

    /// Traces what is over.
    pub(crate) fn told(&self, told: &Told) {
        told::tell(&self.spans, told);
    }

    /// Logs what is being published.
    pub(crate) fn intent(&self, intent: &Intent, derived_from: &Origin) {
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
            }
        }
    }
}
