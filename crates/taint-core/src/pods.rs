//! What is kept per pod, compactly: what many pods share is held once.

use std::collections::BTreeMap;
use std::sync::Arc;

use bailiff_model::intent::{IntentState, Trigger};
use bailiff_model::{
    About, Mono, Namespace, NodeName, NodeRef, Origin, PodRef, PodUid, ReadyStatus, Taint, Toleration, TraceContext, Wall,
};
use indexmap::IndexMap;

use crate::facts::PodFacts;
use crate::judge::Armed;
use crate::start::Start;

/// A pod that is assigned to a node.
#[derive(Debug)]
pub(crate) struct Pod {
    /// Identity and version.
    pub(crate) pod: PodRef,
    /// Its node.
    pub(crate) node: NodeName,
    /// Its tolerations, shared with pods that have the same.
    pub(crate) tolerations: Arc<[Toleration]>,
    /// Condition Ready.
    pub(crate) ready: ReadyStatus,
    /// Its Ready condition is to be set to False.
    pub(crate) mark: bool,
    /// When it was bound; kept until intents are decided for the first time.
    pub(crate) bound: Option<Box<Start>>,
    /// Its toleration time, running or over.
    pub(crate) armed: Option<Box<Armed>>,
    /// That this time ran out was told.
    pub(crate) told: bool,
    /// It is being deleted.
    pub(crate) terminating: bool,
    /// What was published last.
    pub(crate) intent: Option<Box<Published>>,
}

/// The last word that was published about a pod.
#[derive(Clone, Debug)]
pub(crate) struct Published {
    /// The node that it is about: another one may have its name by now.
    pub(crate) node: NodeRef,
    /// Where it stands.
    pub(crate) state: IntentState,
    /// What made or makes it due.
    pub(crate) trigger: Trigger,
    /// When it is or was due.
    pub(crate) due: Mono,
    /// Of everything that matters to a reader: what has the same digest is not published again.
    pub(crate) digest: u64,
    /// The next judgement is published even if it says the same.
    pub(crate) again: bool,
    /// The health record behind it.
    pub(crate) derived_from: Origin,
    /// Its trace.
    pub(crate) trace: Option<TraceContext>,
    /// The taint that decided it; none in node mode.
    pub(crate) why: Option<Why>,
}

// === impl Published ===

impl Published {
    /// What an Event about it names; the pod is on `node`.
    pub(crate) fn about(&self, node: &NodeName) -> About {
        let taint = self.why.as_ref().map(|why| &*why.taint);
        About::node(node).because_of(taint).traced(self.trace)
    }
}

/// The taint that decided about a pod, shared by all pods of its node.
#[derive(Clone, Debug)]
pub(crate) struct Why {
    pub(crate) taint: Arc<Taint>,
    /// Since when the pod's time counts, as the clock told it when that was decided: for people.
    pub(crate) since: Wall,
}

/// All pods that are assigned to a node.
#[derive(Debug, Default)]
pub(crate) struct Pods {
    by_uid: IndexMap<PodUid, Pod>,
    tolerations: BTreeMap<Arc<[Toleration]>, usize>,
    namespaces: BTreeMap<Namespace, usize>,
}

impl Pods {
    pub(crate) fn len(&self) -> usize {
        self.by_uid.len()
    }

    pub(crate) fn uids(&self) -> impl Iterator<Item = &PodUid> {
        self.by_uid.keys()
    }

    pub(crate) fn get(&self, uid: &PodUid) -> Option<&Pod> {
        self.by_uid.get(uid)
    }

    pub(crate) fn get_mut(&mut self, uid: &PodUid) -> Option<&mut Pod> {
        self.by_uid.get_mut(uid)
    }

    /// Adds a pod. `node` is the name of its node, shared with the node's other pods.
    pub(crate) fn insert(&mut self, facts: PodFacts, node: NodeName, bound: Option<Start>) {
        let uid = facts.pod.uid.clone();
        self.remove(&uid);
        let namespace = share(&mut self.namespaces, facts.pod.namespace.clone());
        let pod = Pod {
            pod: PodRef { namespace, ..facts.pod },
            node,
            tolerations: share(&mut self.tolerations, facts.tolerations.into()),
            ready: facts.ready,
            mark: false,
            bound: bound.map(Box::new),
            armed: None,
            told: false,
            terminating: facts.terminating,
            intent: None,
        };
        self.by_uid.insert(uid, pod);
    }

    /// Takes over what can change of a known pod. True if its tolerations did.
    pub(crate) fn update(&mut self, facts: PodFacts) -> bool {
        let Some(pod) = self.by_uid.get_mut(&facts.pod.uid) else {
            return false;
        };
        pod.pod = PodRef {
            namespace: pod.pod.namespace.clone(),
            uid: pod.pod.uid.clone(),
            ..facts.pod
        };
        pod.ready = facts.ready;
        pod.terminating = facts.terminating;
        if *pod.tolerations == *facts.tolerations {
            return false;
        }
        let shared = share(&mut self.tolerations, facts.tolerations.into());
        let before = std::mem::replace(&mut pod.tolerations, shared);
        release(&mut self.tolerations, &before);
        true
    }

    pub(crate) fn remove(&mut self, uid: &PodUid) -> Option<Pod> {
        let pod = self.by_uid.swap_remove(uid)?;
        release(&mut self.tolerations, &pod.tolerations);
        release(&mut self.namespaces, &pod.pod.namespace);
        Some(pod)
    }
}

/// The one copy of `value` that is held, counted once more.
fn share<T: Ord + Clone>(held: &mut BTreeMap<T, usize>, value: T) -> T {
    if let Some((known, _)) = held.get_key_value(&value) {
        let known = known.clone();
        *held.entry(known.clone()).or_default() += 1;
        return known;
    }
    held.insert(value.clone(), 1);
    value
}

/// One user of `value` less; the last one drops it.
fn release<T: Ord>(held: &mut BTreeMap<T, usize>, value: &T) {
    match held.get_mut(value) {
        Some(users) if *users > 1 => *users -= 1,
        _ => {
            held.remove(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use bailiff_model::Effect;

    use super::*;

    fn mk_facts(uid: &str, tolerations: &[&str]) -> PodFacts {
        PodFacts {
            pod: PodRef {
                namespace: "ns".into(),
                uid: uid.into(),
                ..PodRef::default()
            },
            tolerations: tolerations
                .iter()
                .map(|key| Toleration::exists(key, Effect::NoExecute))
                .collect(),
            ..PodFacts::default()
        }
    }

    #[test]
    fn what_pods_share_is_held_once_and_dropped_with_the_last() {
        let mut pods = Pods::default();
        for uid in ["a", "b"] {
            pods.insert(mk_facts(uid, &["k"]), "n".into(), None);
        }
        let at = |pods: &Pods, uid: &str| pods.get(&uid.into()).expect("inserted").tolerations.clone();
        assert!(Arc::ptr_eq(&at(&pods, "a"), &at(&pods, "b")));
        assert!(!pods.update(mk_facts("a", &["k"])));
        assert!(pods.update(mk_facts("a", &["l", "k"])));
        assert_eq!(pods.tolerations.len(), 2);
        for uid in ["a", "b", "b"] {
            pods.remove(&uid.into());
        }
        assert!(pods.tolerations.is_empty() && pods.namespaces.is_empty());
    }

    #[test]
    fn a_pod_is_small() {
        assert!(size_of::<Pod>() <= 176, "{}", size_of::<Pod>());
    }
}
