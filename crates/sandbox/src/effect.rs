//! What the simulated parts of a cluster want done: data that a driver carries out against the API server.
//!
//! Shared by the kubelets, the binder, the garbage collector and the ReplicaSet stand-in. Nothing here performs anything; paths and
//! bodies are built here so that each part only says what it means.

use std::time::Duration;

use bailiff_model::{NodeName, NodeUid, PodUid, Wall};
use serde_json::{Value, json};

use crate::Verb;
use crate::facts::PodKey;

/// Something to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Renew a node's Lease: the hot path, one small change of one object.
    Renew {
        /// Whose.
        node: NodeName,
        /// Who owns the Lease, if it has to be created.
        uid: NodeUid,
        /// The new `renewTime`.
        at: Wall,
        /// The Lease may not exist or may belong to an earlier Node of this name.
        ensure: bool,
    },
    /// Make a request.
    Send(Box<Request>),
    /// The stand-in scheduler may bind pods that name this node after so long, or not at all.
    Binding {
        /// Which node.
        node: NodeName,
        /// `None`: it may not.
        delay: Option<Duration>,
    },
}

/// A request to the API server.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// What to do.
    pub verb: Verb,
    /// Path, without query.
    pub path: String,
    /// Body, null for none.
    pub body: Value,
    /// To whom its outcome matters.
    pub answer: Answer,
}

/// What the outcome of a request is told to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nobody: the watch shows what came of it.
    None,
    /// The kubelet of this node: its status was posted.
    NodePosted(NodeName),
    /// The kubelet that runs this pod: its status was posted.
    PodPosted(PodKey),
    /// The binder: a bind failed or not.
    Bound(PodKey),
    /// The garbage collector, about the object with this uid.
    Collected(Box<str>),
    /// The garbage collector, about the namespace of this name.
    Emptied(Box<str>),
    /// The ReplicaSet stand-in: a pod was created, or not, for the set with this uid.
    Created(Box<str>),
}

// === impl Effect ===

impl Effect {
    /// A request.
    pub fn send(verb: Verb, path: String, body: Value, answer: Answer) -> Self {
        Self::Send(Box::new(Request {
            verb,
            path,
            body,
            answer,
        }))
    }

    /// Merges `status` into a pod's status; the uid is the precondition.
    pub fn pod_status(key: &PodKey, uid: &PodUid, status: Value, answer: Answer) -> Self {
        let body = json!({"metadata": {"uid": uid.to_string()}, "status": status});
        Self::send(Verb::StrategicMergePatch, pod_path(key, "/status"), body, answer)
    }

    /// Deletes a pod for good.
    pub fn delete_pod_now(key: &PodKey, uid: &PodUid, answer: Answer) -> Self {
        let body = json!({
            "kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0, "preconditions": {"uid": uid.to_string()},
        });
        Self::send(Verb::Delete, pod_path(key, ""), body, answer)
    }
}

/// An Event about an object, as the core/v1 API takes it. `name` must be unique among the Events of the namespace.
pub struct EventDraft<'a> {
    /// Name of the Event object.
    pub name: String,
    /// Kind of the object it is about.
    pub kind: &'a str,
    /// Namespace of that object, or empty.
    pub namespace: &'a str,
    /// Name of that object.
    pub object: &'a str,
    /// Uid of that object.
    pub uid: &'a str,
    /// `true` for a Warning.
    pub is_warning: bool,
    /// Reason, in one word.
    pub reason: &'a str,
    /// Message.
    pub message: &'a str,
    /// Who reports it.
    pub component: &'a str,
    /// When.
    pub at: Wall,
}

impl From<EventDraft<'_>> for Effect {
    fn from(draft: EventDraft<'_>) -> Self {
        // Events about objects without a namespace live in `default`.
        let namespace = if draft.namespace.is_empty() {
            "default"
        } else {
            draft.namespace
        };
        let at = seconds(draft.at);
        let mut involved = json!({"kind": draft.kind, "apiVersion": "v1", "name": draft.object, "uid": draft.uid});
        if !draft.namespace.is_empty() {
            involved["namespace"] = draft.namespace.into();
        }
        let body = json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"name": draft.name, "namespace": namespace},
            "involvedObject": involved,
            "type": if draft.is_warning { "Warning" } else { "Normal" },
            "reason": draft.reason, "message": draft.message, "count": 1,
            "firstTimestamp": at, "lastTimestamp": at,
            "source": {"component": draft.component}, "reportingComponent": draft.component,
        });
        Self::send(
            Verb::Create,
            format!("/api/v1/namespaces/{namespace}/events"),
            body,
            Answer::None,
        )
    }
}

/// Path of a pod; `sub` is empty or a subresource such as `/status`.
pub fn pod_path(key: &PodKey, sub: &str) -> String {
    format!("/api/v1/namespaces/{}/pods/{}{sub}", key.namespace, key.name)
}

/// `metav1.Time`: whole seconds.
pub fn seconds(at: Wall) -> String {
    printed(at, 0)
}

/// `metav1.MicroTime`.
pub fn micros(at: Wall) -> String {
    printed(at, 6)
}

fn printed(at: Wall, digits: u8) -> String {
    jiff::fmt::temporal::DateTimePrinter::new()
        .precision(Some(digits))
        .timestamp_to_string(&at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_printed_with_the_digits_the_api_has() {
        let at: Wall = "2026-01-02T03:04:05.678901234Z".parse().unwrap();
        assert_eq!(seconds(at), "2026-01-02T03:04:05Z");
        assert_eq!(micros(at), "2026-01-02T03:04:05.678901Z");
        assert_eq!(micros(Wall::UNIX_EPOCH), "1970-01-01T00:00:00.000000Z");
    }
}
