//! Pods whose node does not exist any more.
//!
//! That the watch does not show a node proves nothing: it may be one that cannot be decoded. Once a read of the server's store says so, no
//! incarnation exists that pods were due on before it was asked for, nor ever will. Of another one of the name, which may be there by now,
//! nothing was said.

use std::collections::{BTreeMap, BTreeSet};

use bailiff_model::intent::PodEviction;
use bailiff_model::{Mono, NodeName, NodeRef, NodeUid, PodUid};

use super::Pods;

/// Of each name the incarnations.
pub(super) type Gone = BTreeMap<NodeName, BTreeSet<NodeUid>>;

impl Pods {
    /// The store says that there is no node of the name, or there was none at some time since then.
    pub(in crate::evictor) fn node_is_gone(&mut self, name: &NodeName, since: Mono) {
        let uids = self.by_node.get(name).into_iter().flatten();
        let pods = uids
            .filter_map(|uid| self.all.get(uid))
            .filter(|pod| pod.received_at <= since);
        let meant: BTreeSet<NodeUid> = pods.map(|pod| pod.intent.node.uid.clone()).collect();
        if !meant.is_empty() {
            self.gone.entry(name.clone()).or_default().extend(meant);
        }
    }

    /// There is one.
    pub(in crate::evictor) fn node_came(&mut self, name: &NodeName) {
        self.gone.remove(name);
    }

    pub(in crate::evictor) fn is_gone(&self, node: &NodeRef) -> bool {
        self.gone.get(&node.name).is_some_and(|uids| uids.contains(&node.uid))
    }

    /// The pod is due as this intent has it from now on; if that means another node, it is due on that one.
    pub(super) fn take_intent(&mut self, uid: &PodUid, intent: PodEviction, now: Mono) {
        let Some(pod) = self.all.get_mut(uid) else {
            return;
        };
        pod.received_at = now;
        let is_another = pod.intent.node.uid != intent.node.uid;
        let before = std::mem::replace(&mut pod.intent, intent).node;
        if is_another {
            self.forget_gone(&before);
        }
    }

    /// One pod less is due on the node.
    pub(super) fn forget_gone(&mut self, node: &NodeRef) {
        let Some(gone) = self.gone.get_mut(&node.name) else {
            return;
        };
        let mut left = self.by_node.get(&node.name).into_iter().flatten();
        if left.all(|uid| self.all.get(uid).is_none_or(|pod| pod.intent.node.uid != node.uid)) {
            gone.remove(&node.uid);
        }
        if gone.is_empty() || !self.by_node.contains_key(&node.name) {
            self.gone.remove(&node.name);
        }
    }
}
