//! Kubernetes Events (events.k8s.io/v1): aggregated, rate limited, and never in the way of a decision.
//!
//! What is said about an object goes into a bounded queue; one task sends it, best effort. What repeats becomes a series of the
//! first Event; what is similar is merged; what says too much about one object is dropped and counted (NL-132). The decision what to
//! send is [`correlator::Correlator`]'s, which is pure; the sending is `sender`'s.
//!
//! What caused it is in annotations ([`ANNOTATION_TRACE_ID`], [`ANNOTATION_NODE`], [`ANNOTATION_TAINT`]), never in the text. One Event that
//! stands for several names the causes of the newest, all of them and no others: those belong together.

mod annotations;
pub mod correlator;
mod sender;
mod wire;

use bailiff_model::{About, Now};
use bailiff_runtime::{Clock, Seed};
use tokio::sync::mpsc;

use crate::api::Api;
use sender::Sender;

pub use annotations::{ANNOTATION_NODE, ANNOTATION_TAINT, ANNOTATION_TRACE_ID};

/// Events waiting to be sent; as client-go's broadcaster. What comes on top is dropped and counted.
const QUEUE: usize = 1000;

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
    /// The causing trace, node and taint: they become annotations.
    pub about: About,
}

/// What was said, and when: it may be long until it is sent.
#[derive(Debug)]
struct Told {
    /// In a box: behind it a queue keeps the room that it once took, and most of the time nothing is in it.
    draft: Box<Draft>,
    at: Now,
}

/// A handle to say things; cloning it gives the same recorder. The sending task ends when the last handle is gone.
#[derive(Clone, Debug)]
pub struct Recorder {
    queue: mpsc::Sender<Told>,
    clock: Clock,
    metrics: crate::Metrics,
}

impl Recorder {
    /// A recorder that reports as `controller` (`node-controller`, …), running as `instance`.
    pub fn start(api: &Api, controller: &'static str, instance: &str, seed: &Seed) -> Self {
        let (queue, drafts) = mpsc::channel(QUEUE);
        // A shard that comes back to this process has the same seed again, and must not give its Events the same names.
        let names = seed.fork(&format!("events since {}", api.clock().now().wall));
        let sender = Sender::new(api.clone(), controller, instance.to_owned(), names);
        // Owned by the handles: it ends when all of them are gone. Its death costs Events, nothing else.
        tokio::spawn(sender.run(drafts));
        Self {
            queue,
            clock: api.clock().clone(),
            metrics: api.metrics().clone(),
        }
    }

    /// Says something. Never waits: if the queue is full the Event is dropped and counted, and what it would say is not put together.
    pub fn emit(&self, draft: impl FnOnce() -> Draft) {
        match self.queue.try_reserve() {
            Ok(place) => place.send(Told {
                draft: Box::new(draft()),
                at: self.clock.now(),
            }),
            Err(_) => self.metrics.event("dropped_queue_full"),
        }
    }
}
