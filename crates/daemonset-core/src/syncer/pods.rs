//! Pods: whose are watched, and whom they concern.

use std::collections::BTreeSet;

use bailiff_model::{Listed, Mono, Namespace, PodUid};

use super::{Key, Syncer};
use crate::effect::{Effect, Scope, Watched};
use crate::facts::{Controller, Pod};
use crate::world::Shown;

impl Syncer {
    /// Asks for the pods of the namespaces that have DaemonSets by now, and lets go of the others.
    pub(super) fn watch_pods(&mut self) {
        if self.touched.is_empty() {
            return;
        }
        let before = self.scopes.watched();
        let touched = std::mem::take(&mut self.touched).into_iter();
        let (came, gone) = touched.partition(|namespace| self.keys_in(namespace).next().is_some());
        self.scopes.change(&gone, came);
        let watched = self.scopes.watched();
        if watched == before {
            return;
        }
        for scope in before.difference(&watched) {
            self.stale.clear(&Watched::Pods(scope.clone()));
            if let Scope::Namespace(namespace) = scope {
                self.forget_pods(namespace);
            }
        }
        self.out.effects.push(Effect::WatchPods(watched));
    }

    /// Nothing is known of the pods of a namespace from now on. Deletes that wait for their turn cannot be judged any more.
    fn forget_pods(&mut self, namespace: &Namespace) {
        let of_there = self.out.asked.iter().filter(|(_, (owner, _))| owner.namespace == *namespace);
        let deletes = of_there.filter(|(_, (_, op))| op.deletes().is_some());
        let called_off: Vec<Effect> = deletes.map(|(id, _)| Effect::CallOff(*id)).collect();
        self.out.effects.extend(called_off);
        let uids: Vec<PodUid> = self.world.pods_in(namespace).collect();
        for uid in uids {
            self.world.remove_pod(&uid);
        }
    }

    pub(super) fn some_pods_listed(&mut self, scope: &Scope, begins: bool, pods: Vec<Pod>) {
        let before = if begins { self.pods_of(scope) } else { Vec::new() };
        let Some(known) = self.scopes.known_mut(scope) else {
            return;
        };
        if begins {
            known.begin(before.into_iter());
        }
        for pod in &pods {
            known.saw(&pod.uid);
        }
        self.pods_shown(scope, pods);
    }

    pub(super) fn pods_listed(&mut self, scope: &Scope, pods: Listed<Pod, PodUid>, now: Mono) {
        let in_parts = self.scopes.known_mut(scope).is_some_and(|known| known.is_being_listed());
        let before = if in_parts { Vec::new() } else { self.pods_of(scope) };
        let Some(known) = self.scopes.known_mut(scope) else {
            return;
        };
        let named = pods.all.iter().map(|pod| &pod.uid).chain(&pods.unreadable);
        for uid in known.end(|| before.into_iter(), named) {
            self.pod_deleted(&uid);
        }
        self.pods_shown(scope, pods.all);
        let scopes = &self.scopes;
        let served = self
            .sets
            .iter_mut()
            .filter(|((namespace, _), _)| scopes.serves(scope, namespace));
        for (key, set) in served {
            set.pods_listed(now);
            self.woken.insert(key.clone());
        }
        self.woken.append(&mut self.waiting);
    }

    /// Pods that are kept, as far as it is this scope that says which there are.
    fn pods_of(&self, scope: &Scope) -> Vec<PodUid> {
        match scope {
            Scope::Namespace(namespace) => self.world.pods_in(namespace).collect(),
            Scope::All => self
                .world
                .pods_where(|namespace| self.scopes.serves(scope, namespace))
                .collect(),
        }
    }

    fn pods_shown(&mut self, scope: &Scope, pods: Vec<Pod>) {
        for pod in pods {
            self.pod_told(scope, pod);
        }
    }

    /// A watch tells of a pod. Two watches are not in step: of a pod that one told of the other may have a list that is older. So a pod is
    /// heard of from the one that says which there are. (That one is gone is so whoever tells.)
    pub(super) fn pod_told(&mut self, scope: &Scope, pod: Pod) {
        if self.scopes.serves(scope, &pod.namespace) {
            self.pod_applied(pod);
        }
    }

    pub(super) fn pod_applied(&mut self, mut pod: Pod) {
        if !self.may_be_ours(&pod) {
            // As good as somebody else's.
            pod.controller = Controller::Other;
        }
        let shown = self.world.apply_pod(pod);
        self.pod_changed(&shown);
    }

    /// False of the pods of DaemonSets that are another shard's: nothing here needs them.
    fn may_be_ours(&self, pod: &Pod) -> bool {
        match &pod.controller {
            Controller::DaemonSet(of) => self.options.shard.owns_daemonset(&of.uid),
            Controller::None | Controller::Other => true,
        }
    }

    pub(super) fn pod_deleted(&mut self, uid: &PodUid) {
        self.world.bury(uid.as_uid());
        let Some((key, pod)) = self.world.remove_pod(uid) else {
            return;
        };
        let (old, key) = (Some((key, pod)), None);
        self.pod_changed(&Shown { old, key });
    }

    /// Shows the DaemonSets that a pod concerns or concerned how it is now.
    fn pod_changed(&mut self, shown: &Shown) {
        let old = shown.old.as_ref().map(|(_, pod)| pod);
        let new = shown.key.and_then(|key| self.world.pod_at(key));
        let keys: BTreeSet<Key> = old.into_iter().chain(new).flat_map(|pod| self.concerned(pod)).collect();
        for key in keys {
            let set = self.sets.get_mut(&key);
            if set.is_some_and(|set| set.pod_changed(shown, &self.world)) {
                self.woken.insert(key);
            }
        }
    }

    /// DaemonSets that a pod may concern: its owner (DS-022), or all of its namespace if it is an orphan (DS-024).
    fn concerned(&self, pod: &Pod) -> Vec<Key> {
        match &pod.controller {
            Controller::DaemonSet(of) => vec![(pod.namespace.clone(), of.name.clone())],
            Controller::None => self.of_namespace(&pod.namespace),
            Controller::Other => Vec::new(),
        }
    }
}
