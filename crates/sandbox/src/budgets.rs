//! A stand-in for the disruption controller: says in a PodDisruptionBudget's status how many of its pods may be evicted.
//!
//! Counts are kept, not computed: a pod that changes is compared with the budgets of its namespace, and a budget's status follows from
//! its counts. Only a budget that is new, or selects other pods than before, looks at the pods of its namespace.
//!
//! Left out: sizes of controllers other than ReplicaSets (they count as large as they have pods), and Events.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bailiff_model::{Mono, Now, ReadyStatus};
use serde_json::{Value, json};

use crate::api::selector::Selector;
use crate::effect::{Answer, Effect, seconds};
use crate::facts::PodFacts;
use crate::rules::{items, text};
use crate::timers::{TimerId, Timers};
use crate::{Object, Verb};

#[cfg(test)]
mod tests;

/// How long an eviction that was allowed counts although its pod is still there, as for the real controller.
const EVICTION: Duration = Duration::from_secs(120);

/// Namespace and name.
type Name = (Box<str>, Box<str>);

/// Keeps the status of budgets.
#[derive(Debug, Default)]
pub struct Budgets {
    budgets: BTreeMap<Box<str>, BTreeMap<Box<str>, Budget>>,
    pods: BTreeMap<Box<str>, BTreeMap<Box<str>, Pod>>,
    /// `spec.replicas` of ReplicaSets, by uid.
    sizes: BTreeMap<Box<str>, i64>,
    /// Budgets whose status may be another.
    dirty: BTreeSet<Name>,
    timers: Timers<Name>,
}

#[derive(Debug)]
struct Pod {
    /// The stored object itself: labels cost nothing more.
    object: Arc<Object>,
    is_healthy: bool,
    is_terminating: bool,
    controller: Option<Box<str>>,
}

#[derive(Debug)]
struct Budget {
    object: Arc<Object>,
    spec: Value,
    generation: i64,
    selector: Option<Selector>,
    said: Value,
    /// Its pods that may count.
    members: BTreeSet<Box<str>>,
    healthy: usize,
    /// Members by controller.
    controllers: BTreeMap<Box<str>, i64>,
    /// Evictions that were allowed, and until when they count.
    disrupted: BTreeMap<Box<str>, Mono>,
    timer: Option<TimerId>,
    /// The revision that a status was sent for.
    sent: u64,
}

// === impl Budgets: inputs ===

impl Budgets {
    /// A pod is as follows.
    pub fn pod_seen(&mut self, object: &Arc<Object>, facts: &PodFacts) {
        let pod = Pod {
            object: Arc::clone(object),
            is_healthy: facts.ready == ReadyStatus::True && facts.terminating.is_none(),
            is_terminating: facts.terminating.is_some(),
            controller: facts.controller.clone(),
        };
        self.pod_changed(object.namespace(), object.name(), Some(pod));
    }

    /// A pod is gone.
    pub fn pod_gone(&mut self, namespace: &str, name: &str) {
        self.pod_changed(namespace, name, None);
    }

    fn pod_changed(&mut self, namespace: &str, name: &str, after: Option<Pod>) {
        let pods = self.pods.entry(namespace.into()).or_default();
        let before = pods.remove(name);
        for (budget_name, budget) in self.budgets.get_mut(namespace).into_iter().flatten() {
            if budget.pod_changed(name, before.as_ref(), after.as_ref()) {
                self.dirty.insert((namespace.into(), budget_name.clone()));
            }
        }
        if let Some(after) = after {
            pods.insert(name.into(), after);
        } else if pods.is_empty() {
            self.pods.remove(namespace);
        }
    }

    /// A ReplicaSet has this size, or is gone.
    pub fn size_seen(&mut self, namespace: &str, uid: &str, replicas: Option<i64>) {
        let known = match replicas {
            Some(replicas) => self.sizes.insert(uid.into(), replicas),
            None => self.sizes.remove(uid),
        };
        if known != replicas {
            let concerned = self.budgets.get(namespace).into_iter().flatten();
            let concerned = concerned.filter(|(_, budget)| budget.controllers.contains_key(uid));
            self.dirty.extend(concerned.map(|(name, _)| (namespace.into(), name.clone())));
        }
    }

    /// A budget is as follows.
    pub fn budget_seen(&mut self, object: &Arc<Object>, now: Now) {
        let name: Name = (object.namespace().into(), object.name().into());
        let budgets = self.budgets.entry(name.0.clone()).or_default();
        let known = budgets.remove(&name.1);
        let mut budget = Budget::read(object);
        match known {
            Some(known) if known.selector == budget.selector && known.object.uid() == object.uid() => budget.keep(known),
            known => {
                if let Some(mut known) = known {
                    self.timers.cancel(&mut known.timer);
                }
                for (name, pod) in self.pods.get(&name.0).into_iter().flatten() {
                    budget.pod_changed(name, None, Some(pod));
                }
            }
        }
        budget.see_disrupted(now.mono + EVICTION);
        self.timers.cancel(&mut budget.timer);
        budget.timer = budget.disrupted.values().min().map(|at| self.timers.arm(*at, name.clone()));
        budgets.insert(name.1.clone(), budget);
        self.dirty.insert(name);
    }

    /// A budget is gone.
    pub fn budget_gone(&mut self, namespace: &str, name: &str) {
        let Some(budgets) = self.budgets.get_mut(namespace) else {
            return;
        };
        if let Some(mut budget) = budgets.remove(name) {
            self.timers.cancel(&mut budget.timer);
        }
        if budgets.is_empty() {
            self.budgets.remove(namespace);
        }
    }

    /// When [`Budgets::wake`] is wanted next.
    pub fn next_deadline(&self) -> Option<Mono> {
        self.timers.next()
    }

    /// Everything that happened was given: says what is to be said.
    pub fn wake(&mut self, now: Now) -> Vec<Effect> {
        while let Some((_, name)) = self.timers.pop(now.mono) {
            if let Some(budget) = self.budgets.get_mut(&name.0).and_then(|budgets| budgets.get_mut(&name.1)) {
                budget.timer = None;
            }
            self.dirty.insert(name);
        }
        let dirty = std::mem::take(&mut self.dirty);
        let mut effects = Vec::new();
        for (namespace, name) in dirty {
            let pods = self.pods.get(&namespace);
            let Some(budget) = self.budgets.get_mut(&namespace).and_then(|budgets| budgets.get_mut(&name)) else {
                continue;
            };
            effects.extend(budget.say(pods, &self.sizes, now));
        }
        effects
    }
}

// === impl Budget ===

impl Budget {
    fn read(object: &Arc<Object>) -> Self {
        let value = object.value();
        Self {
            generation: value.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or(0),
            // An empty selector selects all pods of the namespace, none selects none.
            selector: value.pointer("/spec/selector").map(Selector::of_object),
            spec: value.get("spec").cloned().unwrap_or_default(),
            said: value.get("status").cloned().unwrap_or_default(),
            object: Arc::clone(object),
            members: BTreeSet::new(),
            healthy: 0,
            controllers: BTreeMap::new(),
            disrupted: BTreeMap::new(),
            timer: None,
            sent: 0,
        }
    }

    /// Takes over what an earlier state of the same budget counted.
    fn keep(&mut self, known: Self) {
        self.members = known.members;
        self.healthy = known.healthy;
        self.controllers = known.controllers;
        self.disrupted = known.disrupted;
        self.timer = known.timer;
        self.sent = known.sent;
    }

    fn see_disrupted(&mut self, until: Mono) {
        let listed = self.said.get("disruptedPods").and_then(Value::as_object);
        let mut disrupted = BTreeMap::new();
        for name in listed.into_iter().flat_map(|listed| listed.keys()) {
            let name: Box<str> = name.as_str().into();
            let at = self.disrupted.get(&name).copied().unwrap_or(until);
            disrupted.insert(name, at);
        }
        self.disrupted = disrupted;
    }

    fn selects(&self, pod: &Pod) -> bool {
        let selector = self.selector.as_ref();
        selector.is_some_and(|selector| selector.matches_labels(&|key| pod.object.label(key)))
    }

    /// Counts a pod anew. True if that may change the status.
    fn pod_changed(&mut self, name: &str, before: Option<&Pod>, after: Option<&Pod>) -> bool {
        let before = before.filter(|_| self.members.contains(name));
        let after = after.filter(|pod| self.selects(pod));
        if let Some(pod) = before {
            self.members.remove(name);
            self.healthy -= usize::from(pod.is_healthy);
            if let Some(controller) = &pod.controller
                && let Some(count) = self.controllers.get_mut(controller)
            {
                *count -= 1;
                if *count == 0 {
                    self.controllers.remove(controller);
                }
            }
        }
        if let Some(pod) = after {
            self.members.insert(name.into());
            self.healthy += usize::from(pod.is_healthy);
            if let Some(controller) = &pod.controller {
                *self.controllers.entry(controller.clone()).or_default() += 1;
            }
        }
        let counts = |pod: &Pod| (pod.is_healthy, pod.is_terminating, pod.controller.clone());
        before.map(counts) != after.map(counts) || self.disrupted.contains_key(name)
    }

    /// The status, if it is another than what was said.
    fn say(&mut self, pods: Option<&BTreeMap<Box<str>, Pod>>, sizes: &BTreeMap<Box<str>, i64>, now: Now) -> Option<Effect> {
        let pod = |name: &str| pods.and_then(|pods| pods.get(name));
        // An eviction is confirmed by the pod's end, or was not carried out.
        let counts = |name: &str, until: Mono| until > now.mono && pod(name).is_some_and(|pod| !pod.is_terminating);
        let (open, done): (Vec<_>, Vec<_>) = self.disrupted.iter().partition(|(name, until)| counts(name, **until));
        let is_counted = |name: &str| self.members.contains(name) && pod(name).is_some_and(|pod| pod.is_healthy);
        let leaving = open.iter().filter(|(name, _)| is_counted(name)).count();
        let healthy = number(self.healthy.saturating_sub(leaving));
        let (expected, desired) = self.wanted(sizes);
        let allowed = if expected > 0 { (healthy - desired).max(0) } else { 0 };
        let is_said = [
            "disruptionsAllowed",
            "currentHealthy",
            "desiredHealthy",
            "expectedPods",
            "observedGeneration",
        ]
        .iter()
        .zip([allowed, healthy, desired, expected, self.generation])
        .all(|(field, value)| self.said.get(field).and_then(Value::as_i64) == Some(value));
        let has_condition = items(&self.said, "/conditions")
            .iter()
            .any(|one| text(one, "/type") == "DisruptionAllowed" && (text(one, "/status") == "True") == (allowed > 0));
        if (is_said && has_condition && done.is_empty()) || self.sent == self.object.revision() {
            return None;
        }
        self.sent = self.object.revision();
        let (status, reason) = if allowed > 0 {
            ("True", "SufficientPods")
        } else {
            ("False", "InsufficientPods")
        };
        let mut said = json!({
            "observedGeneration": self.generation, "disruptionsAllowed": allowed, "currentHealthy": healthy,
            "desiredHealthy": desired, "expectedPods": expected,
            "conditions": [{
                "type": "DisruptionAllowed", "status": status, "reason": reason, "message": "",
                "observedGeneration": self.generation, "lastTransitionTime": self.since(status, now),
            }],
        });
        for (name, _) in done {
            said["disruptedPods"][&**name] = Value::Null;
        }
        let path = format!(
            "/apis/policy/v1/namespaces/{}/poddisruptionbudgets/{}/status",
            self.object.namespace(),
            self.object.name()
        );
        // An eviction may spend the budget meanwhile: then this is refused, and said anew for that state.
        let metadata = json!({"uid": self.object.uid(), "resourceVersion": self.object.revision().to_string()});
        Some(Effect::send(
            Verb::MergePatch,
            path,
            json!({"metadata": metadata, "status": said}),
            Answer::None,
        ))
    }

    fn since(&self, status: &str, now: Now) -> Value {
        let conditions = items(&self.said, "/conditions").iter();
        let same = conditions.filter(|one| text(one, "/type") == "DisruptionAllowed" && text(one, "/status") == status);
        same.filter_map(|one| one.get("lastTransitionTime").cloned())
            .next()
            .unwrap_or_else(|| seconds(now.wall).into())
    }

    /// How many pods there should be, and how many of them healthy.
    fn wanted(&self, sizes: &BTreeMap<Box<str>, i64>) -> (i64, i64) {
        let owned = || {
            let controllers = self.controllers.iter();
            controllers
                .map(|(uid, count)| sizes.get(uid).copied().unwrap_or(*count))
                .sum::<i64>()
        };
        match (self.spec.get("minAvailable"), self.spec.get("maxUnavailable")) {
            (Some(Value::Number(least)), _) => (number(self.members.len()), least.as_i64().unwrap_or(0)),
            (Some(least), _) => (owned(), share(least, owned())),
            (None, Some(most)) => (owned(), (owned() - share(most, owned())).max(0)),
            (None, None) => (0, 0),
        }
    }
}

/// A number, or a percentage of `whole`, rounded up.
fn share(amount: &Value, whole: i64) -> i64 {
    match amount {
        Value::String(text) => {
            let percent: i64 = text.trim_end_matches('%').parse().unwrap_or(0);
            whole.saturating_mul(percent).saturating_add(99) / 100
        }
        other => other.as_i64().unwrap_or(0),
    }
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
