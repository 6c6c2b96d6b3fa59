//! Kubernetes Events (events.k8s.io/v1): aggregated, rate limited, and never in the way of a decision.
//!
//! What is said about an object goes into a bounded queue; one task sends it, best effort. What repeats becomes a series of the
//! first Event; what says too much about one object is dropped and counted (NL-132). The decision what to send is
//! [`correlator::Correlator`]'s, which is pure.

pub mod correlator;

use std::time::Duration;

use bailiff_runtime::Seed;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::api::{Api, Patch};
use crate::error::Kind;
use correlator::{Action, Correlator};

/// Events waiting to be sent; as client-go's broadcaster. What comes on top is dropped and counted.
const QUEUE: usize = 1000;

/// Attempts to send one Event, and the pause between them: an outage of some seconds loses nothing, a longer one does (NL-132).
const ATTEMPTS: u32 = 4;
const PAUSE: Duration = Duration::from_secs(2);

/// Longest `note` that the API server accepts, in bytes.
const MAX_NOTE: usize = 1024;

/// Severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Information.
    Normal,
    /// Something may be wrong.
    Warning,
}

impl Severity {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// The object that an Event is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Regarding {
    /// API version, such as `v1`.
    pub api_version: &'static str,
    /// Kind.
    pub kind: &'static str,
    /// Namespace; empty for nodes, whose Events go to namespace `default`.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Uid, or empty where upstream gives none.
    pub uid: String,
    /// resourceVersion, or empty.
    pub resource_version: String,
}

/// Something to say about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// The object.
    pub regarding: Regarding,
    /// Severity.
    pub severity: Severity,
    /// Reason: one word in camel case.
    pub reason: &'static str,
    /// What was done, in the sense of the events API; often equal to the reason.
    pub action: &'static str,
    /// The message.
    pub note: String,
    /// Annotations: the causing taint, node and trace.
    pub annotations: Vec<(&'static str, String)>,
}

/// A handle to say things; cloning it gives the same recorder. The sending task ends when the last handle is gone.
#[derive(Clone, Debug)]
pub struct Recorder {
    queue: mpsc::Sender<Draft>,
    metrics: crate::Metrics,
}

impl Recorder {
    /// A recorder that reports as `controller` (`node-controller`, …), running as `instance`.
    pub fn start(api: &Api, controller: &'static str, instance: &str, seed: &Seed) -> Self {
        let (queue, drafts) = mpsc::channel(QUEUE);
        let sender = Sender {
            api: api.clone(),
            controller,
            instance: instance.to_owned(),
            seed: seed.fork("events"),
            correlator: Correlator::default(),
        };
        // Owned by the handles: it ends when all of them are gone. Its death costs Events, nothing else.
        tokio::spawn(sender.run(drafts));
        let metrics = api.metrics().clone();
        Self { queue, metrics }
    }

    /// Says something. Never waits: if the queue is full the Event is dropped and counted.
    pub fn emit(&self, draft: Draft) {
        if self.queue.try_send(draft).is_err() {
            self.metrics.event("dropped_queue_full");
        }
    }
}

struct Sender {
    api: Api,
    controller: &'static str,
    instance: String,
    seed: Seed,
    correlator: Correlator,
}

impl Sender {
    async fn run(mut self, mut drafts: mpsc::Receiver<Draft>) {
        while let Some(draft) = drafts.recv().await {
            let name = format!("{}.{:016x}", draft.regarding.name, self.seed.next_u64());
            match self.correlator.apply(&draft, name, self.api.clock().now().mono) {
                Action::Create { name } => self.create(&draft, &name).await,
                Action::Repeat { name, count } => self.repeat(&draft, &name, count).await,
                Action::Count => {}
                Action::Drop => self.api.metrics().event("dropped_rate_limited"),
            }
        }
    }

    async fn create(&self, draft: &Draft, name: &str) {
        let path = collection(draft);
        let body = self.body(draft, name);
        for attempt in 1..=ATTEMPTS {
            match self.api.create::<serde::de::IgnoredAny>(&path, &body).await {
                Ok(_) => return self.api.metrics().event("created"),
                Err(error) if error.is_transient() && attempt < ATTEMPTS => tokio::time::sleep(PAUSE).await,
                Err(error) => {
                    self.api.metrics().event("failed");
                    return tracing::debug!(reason = draft.reason, %error, "Event was not accepted");
                }
            }
        }
    }

    async fn repeat(&mut self, draft: &Draft, name: &str, count: u32) {
        let path = format!("{}/{name}", collection(draft));
        let patch = Patch::Merge(json!({"series": {"count": count, "lastObservedTime": self.micro_time()}}));
        match self.api.patch::<serde::de::IgnoredAny>(&path, &patch).await {
            Ok(_) => self.api.metrics().event("repeated"),
            Err(error) if error.kind == Kind::NotFound => {
                // The first one expired on the server: begin again.
                self.correlator.forget(draft);
                self.create(draft, name).await;
            }
            Err(error) => {
                self.api.metrics().event("failed");
                tracing::debug!(reason = draft.reason, %error, "Event series was not accepted");
            }
        }
    }

    fn body(&self, draft: &Draft, name: &str) -> Value {
        let regarding = &draft.regarding;
        let mut reference = json!({"apiVersion": regarding.api_version, "kind": regarding.kind, "name": regarding.name});
        let optional = [
            ("namespace", &regarding.namespace),
            ("uid", &regarding.uid),
            ("resourceVersion", &regarding.resource_version),
        ];
        for (field, value) in optional {
            if !value.is_empty() {
                reference[field] = json!(value);
            }
        }
        let mut metadata = json!({"name": name, "namespace": namespace(draft)});
        if !draft.annotations.is_empty() {
            metadata["annotations"] = draft
                .annotations
                .iter()
                .map(|(key, value)| ((*key).to_owned(), json!(value)))
                .collect::<serde_json::Map<_, _>>()
                .into();
        }
        json!({
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": metadata,
            "eventTime": self.micro_time(),
            "reportingController": self.controller,
            "reportingInstance": self.instance,
            "action": draft.action,
            "reason": draft.reason,
            "regarding": reference,
            "note": shorten(&draft.note),
            "type": draft.severity.as_str(),
        })
    }

    /// The present as a MicroTime: exactly six digits of fraction.
    fn micro_time(&self) -> String {
        format!("{:.6}", self.api.clock().wall())
    }
}

/// Events of cluster-scoped objects live in namespace `default` (NL-130).
fn namespace(draft: &Draft) -> &str {
    match draft.regarding.namespace.as_str() {
        "" => "default",
        namespace => namespace,
    }
}

fn collection(draft: &Draft) -> String {
    format!("/apis/events.k8s.io/v1/namespaces/{}/events", namespace(draft))
}

fn shorten(note: &str) -> &str {
    let mut end = note.len().min(MAX_NOTE);
    while !note.is_char_boundary(end) {
        end -= 1;
    }
    &note[..end]
}
