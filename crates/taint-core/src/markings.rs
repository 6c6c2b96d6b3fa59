//! Which nodes' pods are being marked not ready, for what is told of it: once per node, not per pod.

use std::collections::{BTreeMap, BTreeSet};

use bailiff_model::{HoldReason, NodeName, NodeRef, PodUid, TraceContext, Wall};

/// The marking of the pods of one node, while any of them waits for it.
#[derive(Debug)]
pub(crate) struct Marking {
    pub(crate) node: NodeRef,
    /// The incident, once it is known: the verdict may come later than the condition.
    pub(crate) trace: Option<TraceContext>,
    pub(crate) since: Wall,
    pub(crate) marked: usize,
    pub(crate) spared: usize,
    pub(crate) failed: usize,
    pub(crate) wait: Option<Wait>,
    pods: BTreeSet<PodUid>,
}

/// Nothing is marked because of a hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    pub(crate) reason: HoldReason,
    pub(crate) detail: String,
    pub(crate) since: Wall,
}

/// Markings by node.
#[derive(Debug, Default)]
pub(crate) struct Markings(BTreeMap<NodeName, Marking>);

impl Markings {
    /// A pod of the node is to be marked.
    pub(crate) fn want(&mut self, node: &NodeRef, pod: &PodUid, now: Wall) {
        let marking = self.0.entry(node.name.clone()).or_insert_with(|| Marking {
            node: node.clone(),
            trace: None,
            since: now,
            marked: 0,
            spared: 0,
            failed: 0,
            wait: None,
            pods: BTreeSet::new(),
        });
        marking.pods.insert(pod.clone());
    }

    /// The marking of a node, if one is under way.
    pub(crate) fn get_mut(&mut self, node: &NodeName) -> Option<&mut Marking> {
        self.0.get_mut(node)
    }

    /// A pod was marked, or will not be. Answers the marking of its node if it was the last one.
    pub(crate) fn end(&mut self, node: &NodeName, pod: &PodUid, marked: bool) -> Option<Marking> {
        let marking = self.0.get_mut(node)?;
        if !marking.pods.remove(pod) {
            return None;
        }
        if marked {
            marking.marked += 1;
        } else {
            marking.spared += 1;
        }
        if !marking.pods.is_empty() {
            return None;
        }
        self.0.remove(node)
    }
}
