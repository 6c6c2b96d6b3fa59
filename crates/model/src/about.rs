//! What a Kubernetes Event names beside its object: what caused it.

use crate::ids::NodeName;
use crate::taint::Taint;
use crate::trace::TraceContext;

/// The causes of an Event; each is absent where there is none, or where it is not known.
///
/// A core says node and taint, since which of several taints decided is a decision; a shell turns all of it into annotations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// The trace that tells the rest: of an incident, of a taint that somebody put on a node, or of a rollout.
    pub trace: Option<TraceContext>,
    /// The node because of which, or for which, it was done.
    pub node: Option<NodeName>,
    /// The taint because of which it was done.
    pub taint: Option<Taint>,
}

// === impl About ===

impl About {
    /// About a node.
    pub fn node(node: &NodeName) -> Self {
        Self {
            node: Some(node.clone()),
            ..Self::default()
        }
    }

    /// Of this trace, if there is one.
    #[must_use]
    pub fn traced(self, trace: Option<TraceContext>) -> Self {
        Self { trace, ..self }
    }

    /// Because of this taint, if it was one.
    #[must_use]
    pub fn because_of(self, taint: Option<&Taint>) -> Self {
        Self {
            taint: taint.cloned(),
            ..self
        }
    }
}
