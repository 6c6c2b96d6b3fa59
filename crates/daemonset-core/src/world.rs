//! What is known of the cluster, with the indexes that routing needs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::BuildHasher;
use std::sync::Arc;

use bailiff_model::{Hashes, Holds, IndexMap, IndexSet, Namespace, NodeName, PodUid, Shared, Uid, Zone};
use hashbrown::HashTable;
use slotmap::SlotMap;

use crate::facts::{Controller, Controlling, Labels, Node, Pod, Revision};

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

/// A revision as it is known.
#[derive(Clone, Debug)]
struct Kept {
    revision: Revision,
    /// A watch has told of it. A list that lacks one that only an answer has shown may be older than that.
    is_told: bool,
}

/// All objects but the DaemonSets.
///
/// Where there is one for each node, lookups cost the same at any number of nodes. The order is that of arrival and departure, not the
/// hasher's.
#[derive(Clone, Debug, Default)]
pub(crate) struct World {
    pub(crate) nodes: IndexMap<NodeName, Node>,
    pods: SlotMap<PodKey, Box<Pod>>,
    /// Keys by the uids of their pods, which are in the pods: nobody goes through it, so that its order does not matter.
    keys: HashTable<PodKey>,
    hasher: Hashes,
    /// By namespace and uid of their DaemonSet.
    by_owner: BTreeMap<(Namespace, Arc<str>), BTreeSet<PodKey>>,
    orphans: BTreeMap<Namespace, BTreeSet<PodKey>>,
    revisions: BTreeMap<Namespace, BTreeMap<Arc<str>, Kept>>,
    /// Label maps: the pods of one revision have the same.
    labels: Shared<Labels>,
    namespaces: Shared<str>,
    owners: Shared<Controlling>,
    gone: Gone,
}

impl World {
    pub(crate) fn pod(&self, uid: &PodUid) -> Option<&Pod> {
        self.pod_at(self.key_of(uid)?)
    }

    /// True of a pod that is there and has not ended.
    pub(crate) fn is_running(&self, uid: &PodUid) -> bool {
        self.pod(uid).is_some_and(|pod| !pod.is_terminal())
    }

    fn key_of(&self, uid: &PodUid) -> Option<PodKey> {
        let is_it = |key: &PodKey| self.pod_at(*key).is_some_and(|pod| pod.uid == *uid);
        self.keys.find(self.hasher.hash_one(uid), is_it).copied()
    }

    /// Keeps a node as it is now.
    pub(crate) fn apply_node(&mut self, mut node: Node) {
        if let Some((name, _)) = self.nodes.get_key_value(&node.name) {
            node.name = name.clone();
        }
        node.labels.share(&mut self.labels, &node.name);
        self.nodes.insert(node.name.clone(), node);
    }

    /// The pod of this key.
    pub(crate) fn pod_at(&self, key: PodKey) -> Option<&Pod> {
        self.pods.get(key).map(|pod| &**pod)
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

    /// Pods of these namespaces.
    pub(crate) fn pods_where(&self, is_wanted: impl Fn(&Namespace) -> bool) -> impl Iterator<Item = PodUid> {
        let pods = self.pods.values().filter(move |pod| is_wanted(&pod.namespace));
        pods.map(|pod| pod.uid.clone())
    }

    /// Pods of a namespace, without a look at others.
    pub(crate) fn pods_in(&self, namespace: &Namespace) -> impl Iterator<Item = PodUid> {
        let first = (namespace.clone(), Arc::from(""));
        let owned = self.by_owner.range(first..).take_while(move |((of, _), _)| of == namespace);
        let keys = owned.flat_map(|(_, keys)| keys).copied().chain(self.orphans(namespace));
        keys.filter_map(|key| self.pod_at(key).map(|pod| pod.uid.clone()))
    }

    /// True if the pod was there already, whether it still is or not.
    pub(crate) fn has_seen(&self, uid: &PodUid) -> bool {
        self.key_of(uid).is_some() || self.gone.contains(uid.as_uid())
    }

    /// Pods of a namespace that the DaemonSet of this uid controls.
    pub(crate) fn owned(&self, namespace: &Namespace, owner: &Arc<str>) -> impl Iterator<Item = PodKey> {
        let keys = self.by_owner.get(&(namespace.clone(), owner.clone()));
        keys.into_iter().flatten().copied()
    }

    /// Pods of a namespace that nobody controls.
    pub(crate) fn orphans(&self, namespace: &Namespace) -> impl Iterator<Item = PodKey> {
        self.orphans.get(namespace).into_iter().flatten().copied()
    }

    /// Keeps a pod unless the same or a newer state of it is known or it is gone. Nearly all that is seen of pods are changes of known
    /// ones, which keep their place.
    pub(crate) fn apply_pod(&mut self, mut pod: Pod) -> Shown {
        let key = self.key_of(&pod.uid);
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
        pod.labels = self.labels.share(pod.labels);
        let mut old = std::mem::replace(&mut **known, pod);
        // What never changes stays where it is; what came with the news, and lies in the processor's cache, goes.
        std::mem::swap(&mut known.uid, &mut old.uid);
        std::mem::swap(&mut known.name, &mut old.name);
        std::mem::swap(&mut known.namespace, &mut old.namespace);
        std::mem::swap(&mut known.controller, &mut old.controller);
        if known.target == old.target {
            std::mem::swap(&mut known.target, &mut old.target);
        } else {
            known.target = shared_name(&self.nodes, known.target.take());
        }
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
        self.share_texts(&mut pod);
        let (namespace, controller) = (pod.namespace.clone(), pod.controller.clone());
        let hash = self.hasher.hash_one(&pod.uid);
        let key = self.pods.insert(Box::new(pod));
        let hash_of = |key: &PodKey| self.hasher.hash_one(&self.pods[*key].uid);
        self.keys.insert_unique(hash, key, hash_of);
        match controller {
            Controller::None => self.orphans.entry(namespace).or_default().insert(key),
            Controller::DaemonSet(of) => self.by_owner.entry((namespace, of.uid.clone())).or_default().insert(key),
            Controller::Other => false,
        };
        Some(key)
    }

    /// Makes what a pod has in common with others the very same.
    fn share_texts(&mut self, pod: &mut Pod) {
        pod.labels = self.labels.share(pod.labels.clone());
        pod.namespace = self.namespaces.share(Arc::from(pod.namespace.clone())).into();
        if let Controller::DaemonSet(of) = &mut pod.controller {
            *of = self.owners.share(of.clone());
        }
        pod.target = shared_name(&self.nodes, pod.target.take());
    }

    /// Forgets a pod.
    pub(crate) fn remove_pod(&mut self, uid: &PodUid) -> Option<(PodKey, Pod)> {
        let pods = &self.pods;
        let is_it = |key: &PodKey| pods.get(*key).is_some_and(|pod| pod.uid == *uid);
        let (key, _) = self.keys.find_entry(self.hasher.hash_one(uid), is_it).ok()?.remove();
        let pod = self.pods.remove(key)?;
        match &pod.controller {
            Controller::None => remove_from(&mut self.orphans, &pod.namespace, key),
            Controller::DaemonSet(of) => remove_from(&mut self.by_owner, &(pod.namespace.clone(), of.uid.clone()), key),
            Controller::Other => {}
        }
        Some((key, *pod))
    }

    /// Notes that an object is gone for good.
    pub(crate) fn bury(&mut self, uid: &Uid) {
        self.gone.push(uid);
    }

    pub(crate) fn is_gone(&self, uid: &Uid) -> bool {
        self.gone.contains(uid)
    }

    /// Revisions of a namespace, by name.
    pub(crate) fn revisions(&self, namespace: &Namespace) -> impl Iterator<Item = &Revision> + Clone {
        let by_name = self.revisions.get(namespace).into_iter();
        by_name.flat_map(BTreeMap::values).map(|kept| &kept.revision)
    }

    /// True while a revision is known that is this one, as it is or was.
    pub(crate) fn has_revision(&self, revision: &Revision) -> bool {
        let of_namespace = self.revisions.get(&revision.namespace);
        let known = of_namespace.and_then(|by_name| by_name.get(&revision.name));
        known.is_some_and(|known| known.revision.uid == revision.uid)
    }

    pub(crate) fn all_revisions(&self) -> impl Iterator<Item = &Revision> {
        self.revisions.values().flat_map(BTreeMap::values).map(|kept| &kept.revision)
    }

    /// Keeps a revision, of which a watch or an answer tells, unless a newer state of it is known or it is gone. Returns what was known
    /// before and whether it was kept.
    pub(crate) fn apply_revision(&mut self, revision: Revision, by_watch: bool) -> (Option<Revision>, bool) {
        if self.gone.contains(&Uid::from(&*revision.uid)) {
            return (None, false);
        }
        let by_name = self.revisions.entry(revision.namespace.clone()).or_default();
        let known = by_name
            .get_mut(&revision.name)
            .filter(|known| known.revision.uid == revision.uid);
        let mut is_told = by_watch;
        if let Some(known) = known {
            known.is_told |= by_watch;
            is_told = known.is_told;
            if revision.version.is_older_than(&known.revision.version) {
                return (None, false);
            }
        }
        let name = revision.name.clone();
        let old = by_name.insert(name, Kept { revision, is_told });
        (old.map(|old| old.revision), true)
    }

    /// Forgets a revision of this uid, for good.
    pub(crate) fn remove_revision(&mut self, namespace: &Namespace, name: &str, uid: &str) -> Option<Revision> {
        self.gone.push(&Uid::from(uid));
        self.drop_revision(namespace, name, uid)
    }

    /// Forgets a revision that a list lacks: for good, if a watch told of it.
    pub(crate) fn unlist_revision(&mut self, namespace: &Namespace, name: &str, uid: &str) -> Option<Revision> {
        let known = self.revisions.get(namespace).and_then(|by_name| by_name.get(name));
        if known.is_some_and(|known| known.is_told && *known.revision.uid == *uid) {
            self.gone.push(&Uid::from(uid));
        }
        self.drop_revision(namespace, name, uid)
    }

    fn drop_revision(&mut self, namespace: &Namespace, name: &str, uid: &str) -> Option<Revision> {
        let by_name = self.revisions.get_mut(namespace)?;
        if by_name.get(name).is_some_and(|known| *known.revision.uid != *uid) {
            return None;
        }
        by_name.remove(name).map(|kept| kept.revision)
    }
}

fn remove_from<K: Ord>(index: &mut BTreeMap<K, BTreeSet<PodKey>>, of: &K, key: PodKey) {
    if let Some(set) = index.get_mut(of) {
        set.remove(&key);
        if set.is_empty() {
            index.remove(of);
        }
    }
}

/// The name as the node of that name has it, if there is one.
fn shared_name(nodes: &IndexMap<NodeName, Node>, name: Option<NodeName>) -> Option<NodeName> {
    let name = name?;
    Some(nodes.get_key_value(&name).map_or(name, |(name, _)| name.clone()))
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
            created: Wall::UNIX_EPOCH.into(),
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
