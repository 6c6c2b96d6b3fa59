//! What a [`crate::Manager`] wants done. Effects are data; nothing is left to decide in them.

use std::sync::Arc;

use bailiff_model::intent::Intent;
use bailiff_model::{About, Mono, NodeName, NodeRef, Origin, PodRef, PodUid, Taint, TraceContext, Wall};

use crate::told::Told;

/// One thing to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Patch a node, once. Answer with [`crate::Input::NodePatched`].
    PatchNode(NodePatch),
    /// Read a node from the API server. Answer with [`crate::Input::NodeRead`].
    ReadNode(NodeName),
    /// Set a pod's Ready to False. Answer with [`crate::Input::PodMarked`].
    MarkPod(PodMark),
    /// Do not mark this pod, if the mark was not sent yet. It is answered all the same, with [`crate::Answer::CalledOff`] if it was not.
    CallOff(PodUid),
    /// Read a pod from the API server. Answer with [`crate::Input::PodRead`].
    ReadPod(PodRef),
    /// Say something about a pod.
    Event(Event),
    /// Tell a part of a trace that is over.
    Tell(Box<Told>),
    /// Publish an intent.
    Publish {
        /// What it says; it names its key and route.
        intent: Intent,
        /// The health record it was derived from, if any.
        derived_from: Origin,
        /// Trace it belongs to.
        trace: Option<TraceContext>,
    },
    /// Publish a tombstone.
    Remove {
        /// Key.
        key: String,
    },
    /// Everything there is to say has been said: end the replace part of the session. Once in a manager's life.
    Complete,
    /// Send [`crate::Input::Wake`] at this moment; it replaces every earlier one.
    WakeAt(Mono),
}

/// A change to a node's taints and labels, as one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePatch {
    /// The node. Its uid is a precondition; its resourceVersion too if taints are replaced.
    pub node: NodeRef,
    /// The whole list wanted, if it differs.
    pub taints: Option<Vec<Taint>>,
    /// Labels to set.
    pub labels: Vec<(&'static str, Arc<str>)>,
}

/// Set Ready of this pod to False; uid and resourceVersion are preconditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodMark {
    /// The pod.
    pub pod: PodRef,
    /// Its node.
    pub node: NodeName,
    /// The condition's new `lastTransitionTime`.
    pub since: Wall,
}

/// In whose name an Event is emitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Component {
    /// `node-controller` (NL-002).
    NodeController,
    /// `taint-eviction-controller` (TE-002).
    TaintEvictionController,
}

/// Type of an Event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Normal.
    Normal,
    /// Warning.
    Warning,
}

/// An Event about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// In whose name.
    pub component: Component,
    /// The pod. TE-080 wants the reference without uid: then the uid is empty.
    pub pod: PodRef,
    /// Type.
    pub severity: Severity,
    /// Reason.
    pub reason: &'static str,
    /// Message.
    pub message: String,
    /// The pod's node, the taint that is behind it, and the trace.
    pub about: About,
}

impl Event {
    /// A pending eviction was called off (TE-080).
    pub(crate) fn cancelling(pod: &PodRef, about: About) -> Self {
        let message = format!("Cancelling deletion of Pod {pod}");
        let anonymous = PodRef {
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            ..PodRef::default()
        };
        Self {
            component: Component::TaintEvictionController,
            pod: anonymous,
            severity: Severity::Normal,
            reason: "TaintManagerEviction",
            message,
            about,
        }
    }

    /// A pod was marked not ready (NL-131).
    pub(crate) fn not_ready(pod: &PodRef, about: About) -> Self {
        Self {
            component: Component::NodeController,
            pod: pod.clone(),
            severity: Severity::Warning,
            reason: "NodeNotReady",
            message: "Node is not ready".to_owned(),
            about,
        }
    }
}
