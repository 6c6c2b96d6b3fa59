//! A stand-in for the ReplicaSet controller: keeps `spec.replicas` pods, so that what is evicted comes back elsewhere.
//!
//! Only pods it owns by controller reference count; nothing is adopted. Everything else of the real controller (Deployments, adoption,
//! minReadySeconds) is left out.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bailiff_model::{Mono, Now, ReadyStatus};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::effect::{Answer, Effect, pod_path};
use crate::facts::view::Meta;
use crate::facts::{Malformed, PodFacts, PodKey};
use crate::timers::{TimerId, Timers};
use crate::{Object, Verb};

/// First wait after a pod failed or could not be created; it doubles each time. A pod that is rejected wherever it goes would
/// otherwise be replaced as fast as the sandbox can.
const BACK_OFF: Duration = Duration::from_secs(1);
/// Longest wait.
const BACK_OFF_MAX: Duration = Duration::from_secs(300);
/// Pods created in one go; the rest follows as soon as these are answered.
const BURST: usize = 500;

/// Keeps ReplicaSets at their size.
#[derive(Debug, Default)]
pub struct ReplicaSets {
    sets: BTreeMap<Box<str>, Set>,
    pods: BTreeMap<PodKey, Owned>,
    /// Pods by the uid of their set, whether it is known or not.
    ranks: BTreeMap<Box<str>, Ranks>,
    timers: Timers<Box<str>>,
}

/// The pods of a set that count, so that a change of one does not need a look at all.
#[derive(Debug, Default)]
struct Ranks {
    active: BTreeSet<(State, PodKey)>,
    ready: usize,
}

#[derive(Debug)]
struct Set {
    facts: SetFacts,
    /// Creations that are not answered yet.
    creating: usize,
    failures: u32,
    timer: Option<TimerId>,
    said: Option<Value>,
}

#[derive(Debug)]
struct Owned {
    set: Box<str>,
    uid: Box<str>,
    state: State,
}

/// What a pod counts as, the first to be deleted first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Unbound,
    Unready,
    Ready,
    Terminating,
    Failed,
    Ended,
}

/// A ReplicaSet, as far as it is followed.
#[derive(Clone, Debug, PartialEq)]
pub struct SetFacts {
    uid: Box<str>,
    namespace: Box<str>,
    name: Box<str>,
    generation: i64,
    replicas: usize,
    template: Value,
    is_terminating: bool,
}

// === impl SetFacts ===

impl SetFacts {
    /// Reads a stored ReplicaSet.
    ///
    /// # Errors
    /// When it does not have the shape of one.
    pub fn read(object: &Object) -> Result<Self, Malformed> {
        #[derive(Deserialize)]
        struct View {
            metadata: Meta,
            spec: Spec,
        }
        #[derive(Deserialize)]
        struct Spec {
            replicas: Option<u32>,
            template: Value,
        }
        #[derive(Deserialize)]
        struct Generation {
            metadata: Inner,
        }
        #[derive(Deserialize)]
        struct Inner {
            #[serde(default)]
            generation: i64,
        }
        let malformed = |source| Malformed {
            kind: "ReplicaSet",
            name: format!("{}/{}", object.namespace(), object.name()),
            source,
        };
        let view: View = object.decode().map_err(malformed)?;
        let generation: Generation = object.decode().map_err(malformed)?;
        Ok(Self {
            uid: object.uid().into(),
            namespace: object.namespace().into(),
            name: object.name().into(),
            generation: generation.metadata.generation,
            replicas: view.spec.replicas.unwrap_or(1) as usize,
            template: view.spec.template,
            is_terminating: view.metadata.deletion_timestamp.is_some(),
        })
    }

    /// Its uid.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// Its namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// How many pods it wants.
    pub fn replicas(&self) -> i64 {
        i64::try_from(self.replicas).unwrap_or(i64::MAX)
    }
}

// === impl ReplicaSets ===

impl ReplicaSets {
    /// A ReplicaSet is as follows.
    pub fn set_seen(&mut self, facts: SetFacts) -> Vec<Effect> {
        let uid = facts.uid.clone();
        match self.sets.get_mut(&uid) {
            Some(set) => set.facts = facts,
            None => {
                let set = Set {
                    facts,
                    creating: 0,
                    failures: 0,
                    timer: None,
                    said: None,
                };
                self.sets.insert(uid.clone(), set);
            }
        }
        self.sync(&uid)
    }

    /// A ReplicaSet is gone. Its pods are the garbage collector's.
    pub fn set_gone(&mut self, uid: &str) {
        if let Some(mut set) = self.sets.remove(uid) {
            self.timers.cancel(&mut set.timer);
        }
    }

    /// A pod is as follows.
    pub fn pod_seen(&mut self, facts: &PodFacts, now: Now) -> Vec<Effect> {
        let Some(controller) = &facts.controller else {
            return Vec::new();
        };
        let owned = Owned {
            set: controller.clone(),
            uid: facts.uid.to_string().into(),
            state: State::of(facts),
        };
        let state = owned.state;
        let earlier = self.place(facts.key.clone(), owned);
        if !self.sets.contains_key(controller) || earlier.is_some_and(|earlier| earlier.state == state) {
            return Vec::new();
        }
        match state {
            State::Failed => self.back_off(controller, now),
            State::Ready => {
                if let Some(set) = self.sets.get_mut(controller) {
                    set.failures = 0;
                }
            }
            _ => {}
        }
        self.sync(controller)
    }

    /// A pod is gone.
    pub fn pod_gone(&mut self, key: &PodKey) -> Vec<Effect> {
        match self.displace(key) {
            Some(owned) => self.sync(&owned.set),
            None => Vec::new(),
        }
    }

    fn place(&mut self, key: PodKey, owned: Owned) -> Option<Owned> {
        let earlier = self.displace(&key);
        if owned.state.is_active() {
            let ranks = self.ranks.entry(owned.set.clone()).or_default();
            ranks.ready += usize::from(owned.state == State::Ready);
            ranks.active.insert((owned.state, key.clone()));
        }
        self.pods.insert(key, owned);
        earlier
    }

    fn displace(&mut self, key: &PodKey) -> Option<Owned> {
        let owned = self.pods.remove(key)?;
        if let Some(ranks) = self.ranks.get_mut(&owned.set)
            && ranks.active.remove(&(owned.state, key.clone()))
        {
            ranks.ready -= usize::from(owned.state == State::Ready);
            if ranks.active.is_empty() {
                self.ranks.remove(&owned.set);
            }
        }
        Some(owned)
    }

    /// A creation for a set was answered; the pod has this name, or there is none.
    pub fn created(&mut self, uid: &str, pod: Option<(PodKey, &str)>, now: Now) -> Vec<Effect> {
        let Some(set) = self.sets.get_mut(uid) else {
            return Vec::new();
        };
        set.creating = set.creating.saturating_sub(1);
        let is_last = set.creating == 0;
        match pod {
            // The watch may have told first.
            Some((key, _)) if self.pods.contains_key(&key) => {}
            Some((key, pod_uid)) => {
                let owned = Owned {
                    set: uid.into(),
                    uid: pod_uid.into(),
                    state: State::Unbound,
                };
                self.place(key, owned);
            }
            None => self.back_off(uid, now),
        }
        if is_last { self.sync(uid) } else { Vec::new() }
    }

    /// Time passed.
    pub fn wake(&mut self, now: Now) -> Vec<Effect> {
        let mut effects = Vec::new();
        while let Some((_, uid)) = self.timers.pop(now.mono) {
            if let Some(set) = self.sets.get_mut(&uid) {
                set.timer = None;
            }
            effects.extend(self.sync(&uid));
        }
        effects
    }

    /// When [`ReplicaSets::wake`] is wanted next.
    pub fn next_deadline(&self) -> Option<Mono> {
        self.timers.next()
    }

    fn back_off(&mut self, uid: &str, now: Now) {
        let Some(set) = self.sets.get_mut(uid) else { return };
        let wait = BACK_OFF.saturating_mul(1 << set.failures.min(10)).min(BACK_OFF_MAX);
        set.failures += 1;
        self.timers.cancel(&mut set.timer);
        set.timer = Some(self.timers.arm(now.mono + wait, uid.into()));
    }

    fn sync(&mut self, uid: &str) -> Vec<Effect> {
        let Some(set) = self.sets.get_mut(uid) else {
            return Vec::new();
        };
        let none = Ranks::default();
        let Ranks { active, ready } = self.ranks.get(uid).unwrap_or(&none);
        let mut effects = Vec::new();
        let count = active.len() + set.creating;
        if set.facts.is_terminating {
            // Its pods are the garbage collector's.
        } else if count > set.facts.replicas {
            let surplus = active.iter().take(count - set.facts.replicas);
            let known = surplus.filter_map(|(_, key)| self.pods.get(key).map(|pod| delete(key, &pod.uid)));
            effects.extend(known);
        } else if set.timer.is_none() && set.creating == 0 {
            let missing = (set.facts.replicas - count).min(BURST);
            effects.extend((0..missing).map(|_| create(&set.facts)));
            set.creating = missing;
        }
        let status = json!({
            "replicas": active.len(), "fullyLabeledReplicas": active.len(), "readyReplicas": ready, "availableReplicas": ready,
            "observedGeneration": set.facts.generation,
        });
        if set.said.as_ref() != Some(&status) {
            effects.push(say(&set.facts, &status));
            set.said = Some(status);
        }
        effects
    }
}

// === impl State ===

impl State {
    fn of(facts: &PodFacts) -> Self {
        use crate::facts::Phase;
        match facts.phase {
            Phase::Failed => Self::Failed,
            Phase::Succeeded => Self::Ended,
            _ if facts.terminating.is_some() => Self::Terminating,
            _ if facts.node.is_none() => Self::Unbound,
            _ if facts.ready == ReadyStatus::True => Self::Ready,
            _ => Self::Unready,
        }
    }

    fn is_active(self) -> bool {
        self <= Self::Ready
    }
}

fn create(set: &SetFacts) -> Effect {
    let mut metadata = set.template.get("metadata").cloned().unwrap_or_else(|| json!({}));
    metadata["generateName"] = format!("{}-", set.name).into();
    metadata["namespace"] = (*set.namespace).into();
    metadata["ownerReferences"] = json!([{
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": set.name, "uid": set.uid, "controller": true, "blockOwnerDeletion": true,
    }]);
    let body = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": set.template.get("spec")});
    let path = format!("/api/v1/namespaces/{}/pods", set.namespace);
    Effect::send(Verb::Create, path, body, Answer::Created(set.uid.clone()))
}

fn delete(key: &PodKey, uid: &str) -> Effect {
    let body = json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}});
    Effect::send(Verb::Delete, pod_path(key, ""), body, Answer::None)
}

fn say(set: &SetFacts, status: &Value) -> Effect {
    let path = format!("/apis/apps/v1/namespaces/{}/replicasets/{}/status", set.namespace, set.name);
    let body = json!({"metadata": {"uid": set.uid}, "status": status});
    Effect::send(Verb::MergePatch, path, body, Answer::None)
}

#[cfg(test)]
mod tests {
    use bailiff_model::{NodeName, Wall};

    use super::*;
    use crate::facts::Phase;
    use crate::facts::tests::mk_pod;

    const NOW: Now = Now {
        mono: Mono::from_origin(Duration::ZERO),
        wall: Wall::UNIX_EPOCH,
    };

    fn mk_set(replicas: usize) -> SetFacts {
        SetFacts {
            uid: "set".into(),
            namespace: "default".into(),
            name: "web".into(),
            generation: 1,
            replicas,
            template: json!({}),
            is_terminating: false,
        }
    }

    fn mk_owned(name: &str, ready: bool) -> PodFacts {
        let mut pod = mk_pod(name);
        pod.controller = Some("set".into());
        pod.node = Some(NodeName::from("n1"));
        pod.phase = Phase::Running;
        pod.ready = if ready { ReadyStatus::True } else { ReadyStatus::False };
        pod
    }

    fn brief(effects: &[Effect]) -> String {
        let texts = effects.iter().map(|effect| match effect {
            Effect::Send(request) if request.verb == Verb::MergePatch => {
                let status = &request.body["status"];
                format!("says {}/{}", status["readyReplicas"], status["replicas"])
            }
            Effect::Send(request) => format!("{:?} {}", request.verb, request.path.rsplit('/').next().unwrap()),
            other => format!("{other:?}"),
        });
        texts.collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn pods_known_before_their_set_count_and_the_least_useful_go_first() {
        let mut sets = ReplicaSets::default();
        for (name, ready) in [("a", true), ("b", false), ("c", true)] {
            assert_eq!(brief(&sets.pod_seen(&mk_owned(name, ready), NOW)), "");
        }
        assert_eq!(brief(&sets.set_seen(mk_set(3))), "says 2/3");
        assert_eq!(brief(&sets.pod_seen(&mk_owned("b", false), NOW)), "", "nothing changed");
        assert_eq!(brief(&sets.set_seen(mk_set(2))), "Delete b");
        let mut leaving = mk_owned("b", false);
        leaving.terminating = Some(30);
        assert_eq!(brief(&sets.pod_seen(&leaving, NOW)), "says 2/2");
        assert_eq!(brief(&sets.pod_gone(&PodKey::new("default", "b"))), "");
        assert_eq!(brief(&sets.pod_gone(&PodKey::new("default", "a"))), "Create pods, says 1/1");
        let created = PodKey::new("default", "d");
        assert_eq!(brief(&sets.created("set", Some((created.clone(), "u")), NOW)), "says 1/2");
        assert_eq!(brief(&sets.pod_seen(&mk_owned("d", true), NOW)), "says 2/2");
        assert_eq!(
            brief(&sets.created("set", Some((created, "u")), NOW)),
            "",
            "told twice, counted once"
        );
    }
}
