//! Node mode: pods that a DaemonSet selects stay, owned by it or not (NL-206).
//!
//! Upstream goes by the label selectors of the DaemonSets in the pod's namespace, at the moment of the deletion. A pod that is
//! spared stays due: it goes when no DaemonSet selects it any more, as upstream's next pass would find.

use std::collections::{BTreeMap, BTreeSet};

use bailiff_model::outcome::{PodOutcomeState, RefusedReason};
use bailiff_model::{EvictionMode, HoldReason, Listed, Namespace, Now, PodUid, Selector};

use super::super::Evictor;
use super::super::holds::Reason;
use crate::fact::{DaemonSetFacts, DaemonSetKey, PodFacts};

/// The DaemonSets.
#[derive(Clone, Debug, Default)]
pub(in crate::evictor) struct DaemonSets {
    synced: bool,
    fresh: bool,
    by_namespace: BTreeMap<Namespace, BTreeMap<String, Selector>>,
}

// === impl DaemonSets ===

impl DaemonSets {
    /// They were listed, and the watch is fresh.
    pub(in crate::evictor) const fn are_known(&self) -> bool {
        self.synced && self.fresh
    }

    pub(in crate::evictor) const fn are_synced(&self) -> bool {
        self.synced
    }

    fn selects(&self, pod: &PodFacts) -> bool {
        let sets = self.by_namespace.get(&pod.namespace);
        sets.is_some_and(|sets| sets.values().any(|selector| selector.matches(&pod.labels)))
    }

    /// True if the selector changed.
    fn put(&mut self, facts: DaemonSetFacts) -> bool {
        let (namespace, name) = facts.key;
        let sets = self.by_namespace.entry(namespace).or_default();
        sets.insert(name, facts.selector.clone()) != Some(facts.selector)
    }

    fn remove(&mut self, (namespace, name): &DaemonSetKey) -> bool {
        let Some(sets) = self.by_namespace.get_mut(namespace) else {
            return false;
        };
        let removed = sets.remove(name).is_some();
        if sets.is_empty() {
            self.by_namespace.remove(namespace);
        }
        removed
    }
}

// === impl Evictor ===

impl Evictor {
    pub(in crate::evictor) fn daemon_sets_listed(&mut self, list: Listed<DaemonSetFacts, DaemonSetKey>, now: Now) {
        let all = list.all.iter().map(|facts| &facts.key).chain(&list.unreadable);
        let listed: BTreeSet<&DaemonSetKey> = all.collect();
        self.daemon_sets.by_namespace.retain(|namespace, sets| {
            sets.retain(|name, _| listed.contains(&(namespace.clone(), name.clone())));
            !sets.is_empty()
        });
        for facts in list.all {
            self.daemon_sets.put(facts);
        }
        (self.daemon_sets.synced, self.daemon_sets.fresh) = (true, true);
        self.look_again_at_spared(|_| true, now);
    }

    pub(in crate::evictor) fn daemon_set_applied(&mut self, facts: DaemonSetFacts, now: Now) {
        let namespace = facts.key.0.clone();
        if self.daemon_sets.put(facts) {
            self.look_again_at_spared(|found| *found == namespace, now);
        }
    }

    pub(in crate::evictor) fn daemon_set_deleted(&mut self, key: &DaemonSetKey, now: Now) {
        if self.daemon_sets.remove(key) {
            self.look_again_at_spared(|found| *found == key.0, now);
        }
    }

    pub(in crate::evictor) const fn daemon_sets_fresh(&mut self, fresh: bool) {
        self.daemon_sets.fresh = fresh;
    }

    /// Why no pod of a node may go: it is not known whom the DaemonSets select.
    pub(in crate::evictor) fn daemon_sets_hold(&self) -> Option<Reason> {
        (!self.daemon_sets.are_known()).then(|| Reason::new(HoldReason::ApiStale, "the watch on DaemonSets is not fresh"))
    }

    pub(in crate::evictor) fn is_spared(&self, pod: &PodFacts) -> bool {
        self.config.mode == EvictionMode::Node && self.daemon_sets.selects(pod)
    }

    /// DaemonSets changed: who was spared because of them may not be any more. Rare, and as much as there are spared pods.
    fn look_again_at_spared(&mut self, namespace: impl Fn(&Namespace) -> bool, now: Now) {
        const SPARED: PodOutcomeState = PodOutcomeState::Refused(RefusedReason::DaemonSet);
        let spared = self.pods.all.iter().filter(|(_, pod)| pod.said() == Some(&SPARED));
        let theirs = spared.filter(|(_, pod)| namespace(&pod.intent.pod.namespace));
        let uids: Vec<PodUid> = theirs.map(|(uid, _)| uid.clone()).collect();
        for uid in uids {
            self.begin_pod_anew(uid, now);
        }
    }
}
