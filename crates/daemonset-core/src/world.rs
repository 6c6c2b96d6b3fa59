//! What is known of the cluster, with the indexes that routing needs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bailiff_model::{Holds, Namespace, NodeName, PodUid, Uid, Zone};
use indexmap::{IndexMap, IndexSet};
use slotmap::SlotMap;

use crate::facts::{Controller, Labels, Node, Pod, Revision};

/// How many uids of gone objects are remembered, so that a late answer does not bring one back. More than there can be requests
/// under way at once per DaemonSet (500) for the DaemonSets that roll out at the same time.
const GONE: usize = 4096;

slotmap::new_key_type! {
    /// Where a pod is kept, for as long as it is. It is found there at once; what came to its place after it is not taken for it.
    pub(crate) struct PodKey;
}

/// What a pod that was shown has changed.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    /// What was known of it before, and where it was kept.
    pub(crate) old: Option<(PodKey, Pod)>,
    /// Where it is kept now; `None` if it is not, or nothing was new.
    pub(crate) key: Option<PodKey>,
}

/// All objects but the DaemonSets.
///
/// Where there is one for each node, lookups cost the same at any number of nodes. The order is that of arrival and departure, not the
/// hasher's.
#[derive(Clone, Debug, Default)]
pub(crate) struct World {
    pub(crate) nodes: IndexMap<NodeName, Node>,
    pods: SlotMap<PodKey, Pod>,
    keys: IndexMap<PodUid, PodKey>,
    by_owner: BTreeMap<Arc<str>, IndexSet<PodKey>>,
    orphans: BTreeMap<Namespace, IndexSet<PodKey>>,
    revisions: BTreeMap<Namespace, BTreeMap<Arc<str>, Revision>>,
    labels: LabelPool,
    gone: Gone,
}

impl World {
    pub(crate) fn pod(&self, uid: &PodUid) -> Option<&Pod> {
        self.pods.get(*self.keys.get(uid)?)
    }

    /// The pod of this key.
    pub(crate) fn pod_at(&self, key: PodKey) -> Option<&Pod> {
        self.pods.get(key)
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
        self.keys.keys().cloned().collect()
    }

    /// True if the pod was there already, whether it still is or not.
    pub(crate) fn has_seen(&self, uid: &PodUid) -> bool {
        self.keys.contains_key(uid) || self.gone.contains(uid.as_uid())
    }

    /// Pods that the DaemonSet of this uid controls.
    pub(crate) fn owned(&self, owner: &str) -> impl Iterator<Item = PodKey> {
        self.by_owner.get(owner).into_iter().flatten().copied()
    }

    /// Pods of a namespace that nobody controls.
    pub(crate) fn orphans(&self, namespace: &Namespace) -> impl Iterator<Item = PodKey> {
        self.orphans.get(namespace).into_iter().flatten().copied()
    }

    /// Keeps a pod unless the same or a newer state of it is known or it is gone. Nearly all that is seen of pods are changes of known
    /// ones, which keep their place.
    pub(crate) fn apply_pod(&mut self, mut pod: Pod) -> Shown {
        let key = self.keys.get(&pod.uid).copied();
        let Some((key, known)) = key.and_then(|key| Some((key, self.pods.get_mut(key)?))) else {
            let is_gone = self.gone.contains(pod.uid.as_uid());
            let key = if is_gone { None } else { self.insert_pod(pod) };
            return Shown { old: None, key };
        };
        if known.version == pod.version || pod.version.is_older_than(&known.version) {
            return Shown::default();
        }
        if known.controller != pod.controller {
            let old = self.remove_pod(&pod.uid);
            let key = self.insert_pod(pod);
            return Shown { old, key };
        }
        pod.labels = self.labels.intern(pod.labels);
        let mut old = std::mem::replace(known, pod);
        // What never changes stays where it is; what came with the news, and lies in the processor's cache, goes.
        std::mem::swap(&mut known.uid, &mut old.uid);
        std::mem::swap(&mut known.name, &mut old.name);
        std::mem::swap(&mut known.namespace, &mut old.namespace);
        self.labels.release(&old.labels);
        Shown {
            old: Some((key, old)),
            key: Some(key),
        }
    }

    /// Keeps one that is not known, and says where. Somebody else's pod is of no interest.
    fn insert_pod(&mut self, mut pod: Pod) -> Option<PodKey> {
        if pod.controller == Controller::Other {
            return None;
        }
        pod.labels = self.labels.intern(pod.labels);
        let (namespace, controller, uid) = (pod.namespace.clone(), pod.controller.clone(), pod.uid.clone());
        let key = self.pods.insert(pod);
        self.keys.insert(uid, key);
        match controller {
            Controller::None => self.orphans.entry(namespace).or_default().insert(key),
            Controller::DaemonSet { uid, .. } => self.by_owner.entry(uid).or_default().insert(key),
            Controller::Other => false,
        };
        Some(key)
    }

    /// Forgets a pod for good.
    pub(crate) fn remove_pod(&mut self, uid: &PodUid) -> Option<(PodKey, Pod)> {
        let key = self.keys.swap_remove(uid)?;
        let pod = self.pods.remove(key)?;
        match &pod.controller {
            Controller::None => remove_from(&mut self.orphans, &pod.namespace, key),
            Controller::DaemonSet { uid: owner, .. } => remove_from(&mut self.by_owner, owner, key),
            Controller::Other => {}
        }
        self.labels.release(&pod.labels);
        Some((key, pod))
    }

    /// Notes that an object is gone for good.
    pub(crate) fn bury(&mut self, uid: &Uid) {
        self.gone.push(uid);
    }

    pub(crate) fn is_gone(&self, uid: &Uid) -> bool {
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
        if self.gone.contains(&Uid::from(&*revision.uid)) {
            return (None, false);
        }
        let by_name = self.revisions.entry(revision.namespace.clone()).or_default();
        let known = by_name.get(&revision.name);
        if known.is_some_and(|known| known.uid == revision.uid && revision.version.is_older_than(&known.version)) {
            return (None, false);
        }
        (by_name.insert(revision.name.clone(), revision), true)
    }

    /// Forgets a revision of this uid.
    pub(crate) fn remove_revision(&mut self, namespace: &Namespace, name: &str, uid: &str) -> Option<Revision> {
        self.gone.push(&Uid::from(uid));
        let by_name = self.revisions.get_mut(namespace)?;
        if by_name.get(name).is_some_and(|known| *known.uid != *uid) {
            return None;
        }
        by_name.remove(name)
    }
}

fn remove_from<K: Ord>(index: &mut BTreeMap<K, IndexSet<PodKey>>, of: &K, key: PodKey) {
    if let Some(set) = index.get_mut(of) {
        set.swap_remove(&key);
        if set.is_empty() {
            index.remove(of);
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

/// The last uids that are gone. Every pod that is seen is looked for here, nearly always in vain.
#[derive(Clone, Debug, Default)]
struct Gone {
    order: VecDeque<Uid>,
    set: IndexSet<Uid>,
}

impl Gone {
    fn push(&mut self, uid: &Uid) {
        if !self.set.insert(uid.clone()) {
            return;
        }
        self.order.push_back(uid.clone());
        if self.order.len() > GONE
            && let Some(oldest) = self.order.pop_front()
        {
            self.set.swap_remove(&oldest);
        }
    }

    fn contains(&self, uid: &Uid) -> bool {
        self.set.contains(uid)
    }
}

#[cfg(test)]
mod tests {
    use bailiff_model::{PodName, ResourceVersion, Wall};

    use super::*;
    use crate::facts::Phase;

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

    fn mk_pod(uid: &str, version: u64) -> Pod {
        Pod {
            namespace: Namespace::from("ns"),
            name: PodName::from(uid),
            uid: PodUid::from(uid),
            version: ResourceVersion::from(version),
            controller: Controller::None,
            labels: Arc::default(),
            target: None,
            bound: false,
            phase: Phase::Active,
            ready: false,
            ready_changed: None,
            deleting: false,
            created: Wall::UNIX_EPOCH,
            trouble: None,
        }
    }

    /// A key finds its pod, changed or not, and never the one that came to its place.
    #[test]
    fn a_key_finds_one_pod_only() {
        let mut world = World::default();
        let first = world.apply_pod(mk_pod("a", 1)).key.expect("it is kept");
        let again = world.apply_pod(mk_pod("a", 2));
        assert_eq!(
            again.old.map(|(key, pod)| (key, pod.version)),
            Some((first, ResourceVersion::from(1)))
        );
        assert_eq!(
            world.pod_at(first).map(|pod| pod.version.clone()),
            Some(ResourceVersion::from(2))
        );
        assert!(world.apply_pod(mk_pod("a", 1)).key.is_none(), "older");
        assert_eq!(world.remove_pod(&PodUid::from("a")).map(|(key, _)| key), Some(first));
        let second = world.apply_pod(mk_pod("b", 3)).key.expect("it is kept");
        assert!(world.pod_at(first).is_none() && world.pod_at(second).is_some());
    }

    /// A pod that another controller takes is forgotten, with what was known of it.
    #[test]
    fn somebody_elses_pod_is_not_kept() {
        let mut world = World::default();
        let key = world.apply_pod(mk_pod("a", 1)).key.expect("it is kept");
        let taken = Pod {
            controller: Controller::Other,
            ..mk_pod("a", 2)
        };
        let shown = world.apply_pod(taken);
        assert!(shown.old.is_some() && shown.key.is_none() && world.pod_at(key).is_none());
        assert_eq!(world.orphans(&Namespace::from("ns")).count(), 0);
    }

    #[test]
    fn only_the_last_gone_uids_are_remembered() {
        let uid = |index: usize| Uid::from(index.to_string().as_str());
        let mut gone = Gone::default();
        for index in 0..=GONE {
            gone.push(&uid(index));
        }
        assert!(!gone.contains(&uid(0)) && gone.contains(&uid(1)) && gone.contains(&uid(GONE)));
        assert_eq!((gone.order.len(), gone.set.len()), (GONE, GONE));
    }
}
