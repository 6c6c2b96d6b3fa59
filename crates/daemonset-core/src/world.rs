//! What is known of the cluster, with the indexes that routing needs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bailiff_model::{Holds, Namespace, NodeName, PodUid, Zone};
use indexmap::{IndexMap, IndexSet};

use crate::facts::{Controller, Labels, Node, Pod, Revision, is_older};

/// How many uids of gone objects are remembered, so that a late answer does not bring one back. More than there can be requests
/// under way at once per DaemonSet (500) for the DaemonSets that roll out at the same time.
const GONE: usize = 4096;

/// All objects but the DaemonSets.
///
/// Where there is one for each node, lookups cost the same at any number of nodes. The order is that of arrival and departure, not the
/// hasher's.
#[derive(Clone, Debug, Default)]
pub(crate) struct World {
    pub(crate) nodes: IndexMap<NodeName, Node>,
    pods: IndexMap<PodUid, Pod>,
    by_owner: BTreeMap<Arc<str>, IndexSet<PodUid>>,
    orphans: BTreeMap<Namespace, IndexSet<PodUid>>,
    revisions: BTreeMap<Namespace, BTreeMap<Arc<str>, Revision>>,
    labels: LabelPool,
    gone: Gone,
}

impl World {
    pub(crate) fn pod(&self, uid: &PodUid) -> Option<&Pod> {
        self.pods.get(uid)
    }

    /// True if these hold what runs on the node.
    pub(crate) fn is_held(&self, node: &NodeName, holds: &Holds) -> bool {
        if holds.is_empty() {
            return false;
        }
        let labels = self.nodes.get(node).map(|node| &node.labels);
        let zone = Zone::from_labels(|key| labels?.get(key).map(|value| &**value));
        holds.on_node(&zone, node).is_some()
    }

    pub(crate) fn pod_uids(&self) -> Vec<PodUid> {
        self.pods.keys().cloned().collect()
    }

    /// True if the pod was there already, whether it still is or not.
    pub(crate) fn has_seen(&self, uid: &PodUid) -> bool {
        self.pods.contains_key(uid) || self.gone.contains(uid.as_str())
    }

    /// Pods that the DaemonSet of this uid controls.
    pub(crate) fn owned(&self, owner: &str) -> Vec<PodUid> {
        self.by_owner.get(owner).into_iter().flatten().cloned().collect()
    }

    /// Pods of a namespace that nobody controls.
    pub(crate) fn orphans(&self, namespace: &Namespace) -> Vec<PodUid> {
        self.orphans.get(namespace).into_iter().flatten().cloned().collect()
    }

    /// Keeps a pod, and returns what was known of it before. It keeps its place: that is what nearly all that is seen of pods does.
    pub(crate) fn insert_pod(&mut self, mut pod: Pod) -> Option<Pod> {
        if pod.controller == Controller::Other {
            // Somebody else's pod is of no interest.
            return self.remove_pod(&pod.uid);
        }
        pod.labels = self.labels.intern(pod.labels);
        let known = self.pods.get_mut(&pod.uid);
        if let Some(known) = known.filter(|known| known.controller == pod.controller) {
            let old = std::mem::replace(known, pod);
            self.labels.release(&old.labels);
            return Some(old);
        }
        let old = self.remove_pod(&pod.uid);
        match &pod.controller {
            Controller::None => self.orphans.entry(pod.namespace.clone()).or_default().insert(pod.uid.clone()),
            Controller::DaemonSet { uid, .. } => self.by_owner.entry(uid.clone()).or_default().insert(pod.uid.clone()),
            Controller::Other => false,
        };
        self.pods.insert(pod.uid.clone(), pod);
        old
    }

    /// Forgets a pod for good.
    pub(crate) fn remove_pod(&mut self, uid: &PodUid) -> Option<Pod> {
        let pod = self.pods.swap_remove(uid)?;
        match &pod.controller {
            Controller::None => remove_from(&mut self.orphans, &pod.namespace, uid),
            Controller::DaemonSet { uid: owner, .. } => remove_from(&mut self.by_owner, owner, uid),
            Controller::Other => {}
        }
        self.labels.release(&pod.labels);
        Some(pod)
    }

    /// Notes that an object is gone for good.
    pub(crate) fn bury(&mut self, uid: &str) {
        self.gone.push(uid);
    }

    pub(crate) fn is_gone(&self, uid: &str) -> bool {
        self.gone.contains(uid)
    }

    /// Revisions of a namespace, by name.
    pub(crate) fn revisions(&self, namespace: &Namespace) -> impl Iterator<Item = &Revision> {
        self.revisions.get(namespace).into_iter().flat_map(BTreeMap::values)
    }

    pub(crate) fn all_revisions(&self) -> impl Iterator<Item = &Revision> {
        self.revisions.values().flat_map(BTreeMap::values)
    }

    /// Keeps a revision unless a newer state of it is known or it is gone. Returns what was known before and whether it was kept.
    pub(crate) fn apply_revision(&mut self, revision: Revision) -> (Option<Revision>, bool) {
        if self.gone.contains(&revision.uid) {
            return (None, false);
        }
        let by_name = self.revisions.entry(revision.namespace.clone()).or_default();
        let known = by_name.get(&revision.name);
        if known.is_some_and(|known| known.uid == revision.uid && is_older(&revision.version, &known.version)) {
            return (None, false);
        }
        (by_name.insert(revision.name.clone(), revision), true)
    }

    /// Forgets a revision of this uid.
    pub(crate) fn remove_revision(&mut self, namespace: &Namespace, name: &str, uid: &str) -> Option<Revision> {
        self.gone.push(uid);
        let by_name = self.revisions.get_mut(namespace)?;
        if by_name.get(name).is_some_and(|known| *known.uid != *uid) {
            return None;
        }
        by_name.remove(name)
    }
}

fn remove_from<K: Ord>(index: &mut BTreeMap<K, IndexSet<PodUid>>, key: &K, uid: &PodUid) {
    if let Some(set) = index.get_mut(key) {
        set.swap_remove(uid);
        if set.is_empty() {
            index.remove(key);
        }
    }
}

/// Label maps, each kept once: the pods of one revision share theirs.
#[derive(Clone, Debug, Default)]
struct LabelPool(BTreeSet<Arc<Labels>>);

impl LabelPool {
    fn intern(&mut self, labels: Arc<Labels>) -> Arc<Labels> {
        if let Some(known) = self.0.get(&labels) {
            return known.clone();
        }
        self.0.insert(labels.clone());
        labels
    }

    /// Drops a map that only the caller and the pool still hold.
    fn release(&mut self, labels: &Arc<Labels>) {
        if Arc::strong_count(labels) <= 2 {
            self.0.remove(labels);
        }
    }
}

/// The last uids that are gone.
#[derive(Clone, Debug, Default)]
struct Gone {
    order: VecDeque<Arc<str>>,
    set: BTreeSet<Arc<str>>,
}

impl Gone {
    fn push(&mut self, uid: &str) {
        let uid: Arc<str> = Arc::from(uid);
        if !self.set.insert(uid.clone()) {
            return;
        }
        self.order.push_back(uid);
        if self.order.len() > GONE
            && let Some(oldest) = self.order.pop_front()
        {
            self.set.remove(&oldest);
        }
    }

    fn contains(&self, uid: &str) -> bool {
        self.set.contains(uid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_labels_are_kept_once_and_let_go_with_the_last_pod() {
        let labels = || Arc::new(Labels::from([(Arc::from("app"), Arc::from("ds"))]));
        let mut pool = LabelPool::default();
        let first = pool.intern(labels());
        let second = pool.intern(labels());
        assert!(Arc::ptr_eq(&first, &second));
        drop(second);
        pool.release(&first);
        assert!(pool.0.is_empty());
    }

    #[test]
    fn only_the_last_gone_uids_are_remembered() {
        let mut gone = Gone::default();
        for index in 0..=GONE {
            gone.push(&index.to_string());
        }
        assert!(!gone.contains("0") && gone.contains("1") && gone.contains(&GONE.to_string()));
        assert_eq!((gone.order.len(), gone.set.len()), (GONE, GONE));
    }
}
