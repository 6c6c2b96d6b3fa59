//! What is kept per pod, compactly: what many pods share is held once.

use std::sync::Arc;

use bailiff_model::intent::{IntentState, Trigger};
use bailiff_model::{
    About, IndexMap, Mono, Namespace, NodeName, NodeRef, Origin, PodName, PodRef, PodUid, ReadyStatus, ResourceVersion, Shared,
    Taint, Toleration, TraceContext, Wall,
};

use crate::facts::PodFacts;
use crate::judge::Armed;
use crate::start::Start;

/// A pod that is assigned to a node. Its uid is its key.
#[derive(Debug)]
pub(crate) struct Pod {
    /// `metadata.name`.
    name: PodName,
    /// `metadata.resourceVersion`.
    version: ResourceVersion,
    /// `metadata.generation`.
    generation: i64,
    /// What it has in common with other pods.
    common: Arc<Common>,
    /// Its node, shared with the node's other pods.
    pub(crate) node: NodeName,
    /// Condition Ready.
    pub(crate) ready: ReadyStatus,
    /// It carries condition `DisruptionTarget=True`.
    disruption_target: bool,
    /// Its Ready condition is to be set to False.
    pub(crate) mark: bool,
    /// It was not ready when its node was known to be silent: there was nothing to mark.
    pub(crate) spared: bool,
    /// Its toleration time, running or over.
    pub(crate) armed: Option<Box<Armed>>,
    /// That this time ran out was told.
    pub(crate) told: bool,
    /// It is being deleted.
    pub(crate) terminating: bool,
    /// What was published last.
    pub(crate) intent: Option<Box<Published>>,
}

/// What the pods of a workload have in common.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Common {
    /// `metadata.namespace`.
    namespace: Namespace,
    /// `spec.tolerations`, in order.
    tolerations: Vec<Toleration>,
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

/// Where a pod is among all pods, until one of them goes.
pub(crate) type Place = u32;

/// All pods that are assigned to a node.
#[derive(Debug)]
pub(crate) struct Pods {
    by_uid: IndexMap<PodUid, Box<Pod>>,
    /// When each was bound, by its place, until that is taken.
    bound: Option<Vec<Start>>,
    common: Shared<Common>,
}

/// A pod that is forgotten.
#[derive(Debug)]
pub(crate) struct Removed {
    pub(crate) pod: Box<Pod>,
    /// Where it was.
    pub(crate) place: Place,
    /// Which pod is there instead, by its node and where it was before.
    pub(crate) moved: Option<(NodeName, Place)>,
}

// === impl Pod ===

impl Pod {
    /// The reference to it, as of the state known.
    pub(crate) fn reference(&self, uid: &PodUid) -> PodRef {
        PodRef {
            namespace: self.common.namespace.clone(),
            name: self.name.clone(),
            uid: uid.clone(),
            resource_version: self.version.clone(),
            disruption_target: self.disruption_target,
            generation: self.generation,
        }
    }

    /// Its tolerations, in order.
    pub(crate) fn tolerations(&self) -> &[Toleration] {
        &self.common.tolerations
    }
}

// === impl Pods ===

impl Default for Pods {
    fn default() -> Self {
        Self {
            by_uid: IndexMap::default(),
            bound: Some(Vec::new()),
            common: Shared::default(),
        }
    }
}

impl Pods {
    pub(crate) fn len(&self) -> usize {
        self.by_uid.len()
    }

    pub(crate) fn uids(&self) -> impl Iterator<Item = &PodUid> {
        self.by_uid.keys()
    }

    /// When each pod was bound, by its place, which is not kept any longer: it is of use when intents are decided for the first time.
    pub(crate) fn take_bound(&mut self) -> Vec<Start> {
        self.bound.take().unwrap_or_default()
    }

    /// The pod at this place.
    pub(crate) fn get_at(&self, place: Place) -> Option<(&PodUid, &Pod)> {
        let (uid, pod) = self.by_uid.get_index(place as usize)?;
        Some((uid, pod))
    }

    pub(crate) fn get(&self, uid: &PodUid) -> Option<&Pod> {
        self.by_uid.get(uid).map(|pod| &**pod)
    }

    pub(crate) fn get_mut(&mut self, uid: &PodUid) -> Option<&mut Pod> {
        self.by_uid.get_mut(uid).map(|pod| &mut **pod)
    }

    /// The pods at these places, in the order of their uids: that of places tells what came and went.
    pub(crate) fn at(&self, places: &[Place]) -> Vec<PodUid> {
        let pods = places.iter().filter_map(|place| self.by_uid.get_index(*place as usize));
        let mut uids: Vec<PodUid> = pods.map(|(uid, _)| uid.clone()).collect();
        uids.sort_unstable();
        uids
    }

    /// Adds a pod that is not known, and says where it is. `node` is the name of its node, shared with the node's other pods; when it was
    /// `bound` is kept until that is taken.
    pub(crate) fn insert(&mut self, facts: PodFacts, node: NodeName, bound: Start) -> Place {
        let pod = Pod {
            name: facts.pod.name,
            version: facts.pod.resource_version,
            generation: facts.pod.generation,
            common: self.common.share(Arc::new(Common {
                namespace: facts.pod.namespace,
                tolerations: facts.tolerations,
            })),
            node,
            ready: facts.ready,
            disruption_target: facts.pod.disruption_target,
            mark: false,
            spared: false,
            armed: None,
            told: false,
            terminating: facts.terminating,
            intent: None,
        };
        let (place, known) = self.by_uid.insert_full(facts.pod.uid, Box::new(pod));
        debug_assert!(known.is_none(), "a pod is added once");
        if let Some(all) = &mut self.bound {
            all.push(bound);
        }
        // More than four billion do not fit into memory.
        place as Place
    }

    /// Takes over what can change of a known pod. True if its tolerations did.
    pub(crate) fn update(&mut self, facts: PodFacts) -> bool {
        let Some(pod) = self.by_uid.get_mut(&facts.pod.uid) else {
            return false;
        };
        pod.version = facts.pod.resource_version;
        pod.generation = facts.pod.generation;
        pod.disruption_target = facts.pod.disruption_target;
        pod.ready = facts.ready;
        pod.terminating = facts.terminating;
        if pod.common.tolerations == facts.tolerations {
            return false;
        }
        pod.common = self.common.share(Arc::new(Common {
            namespace: pod.common.namespace.clone(),
            tolerations: facts.tolerations,
        }));
        true
    }

    /// Forgets a pod.
    pub(crate) fn remove(&mut self, uid: &PodUid) -> Option<Removed> {
        let (place, _, pod) = self.by_uid.swap_remove_full(uid)?;
        if let Some(bound) = &mut self.bound {
            bound.swap_remove(place);
        }
        let moved = self.by_uid.get_index(place).map(|(_, moved)| moved.node.clone());
        Some(Removed {
            pod,
            place: place as Place,
            moved: moved.map(|node| (node, self.by_uid.len() as Place)),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bailiff_model::{Effect, Now};

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

    fn bound(second: u64) -> Start {
        Start::at(Now {
            mono: Mono::ORIGIN + Duration::from_secs(second),
            wall: Wall::UNIX_EPOCH,
        })
    }

    #[test]
    fn what_pods_share_is_held_once() {
        let mut pods = Pods::default();
        for uid in ["a", "b"] {
            pods.insert(mk_facts(uid, &["k"]), "n".into(), bound(0));
        }
        let at = |pods: &Pods, uid: &str| pods.get(&uid.into()).expect("inserted").common.clone();
        assert!(Arc::ptr_eq(&at(&pods, "a"), &at(&pods, "b")));
        assert!(!pods.update(mk_facts("a", &["k"])));
        assert!(pods.update(mk_facts("a", &["l", "k"])));
        assert!(!Arc::ptr_eq(&at(&pods, "a"), &at(&pods, "b")));
    }

    /// TE-072, TE-073: an eviction begins with the pod as it was seen last, its generation and its condition included.
    #[test]
    fn the_reference_to_a_pod_is_of_the_state_seen_last() {
        let mut pods = Pods::default();
        let mut facts = mk_facts("a", &[]);
        pods.insert(facts.clone(), "n".into(), bound(0));
        facts.pod = PodRef {
            resource_version: "9".into(),
            disruption_target: true,
            generation: 4,
            ..facts.pod
        };
        pods.update(facts.clone());
        let uid = facts.pod.uid.clone();
        assert_eq!(pods.get(&uid).map(|pod| pod.reference(&uid)), Some(facts.pod));
    }

    #[test]
    fn who_takes_the_place_of_a_pod_is_told() {
        let mut pods = Pods::default();
        let places = ["c", "b", "a"].map(|uid| pods.insert(mk_facts(uid, &[]), uid.into(), bound(0)));
        assert_eq!(pods.at(&places), ["a", "b", "c"].map(PodUid::from));
        let removed = pods.remove(&"c".into()).expect("inserted");
        assert_eq!((removed.place, removed.moved), (places[0], Some(("a".into(), places[2]))));
        let removed = pods.remove(&"b".into()).expect("inserted");
        assert_eq!((removed.place, removed.moved), (places[1], None));
        assert_eq!(pods.at(&places[..1]), ["a"].map(PodUid::from));
    }

    #[test]
    fn when_a_pod_was_bound_is_known_until_it_is_taken() {
        let mut pods = Pods::default();
        for (uid, second) in [("a", 1), ("b", 2), ("c", 3)] {
            pods.insert(mk_facts(uid, &[]), "n".into(), bound(second));
        }
        pods.remove(&"a".into());
        assert_eq!(pods.take_bound(), [bound(3), bound(2)]);
        let uid_at = |pods: &Pods, place| pods.get_at(place).map(|(uid, _)| uid.clone());
        assert_eq!(
            [0, 1, 2].map(|place| uid_at(&pods, place)),
            [Some("c".into()), Some("b".into()), None]
        );
        pods.insert(mk_facts("d", &[]), "n".into(), bound(4));
        pods.remove(&"c".into());
        assert_eq!(pods.take_bound(), []);
    }
}
