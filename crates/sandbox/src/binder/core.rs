//! The state machine of the binder.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bailiff_model::{Mono, NodeName, Now, PodUid, ReadyStatus};
use serde_json::json;

use super::fit::{Candidate, summary};
use super::stuck::{Stuck, Wish};
use crate::Verb;
use crate::effect::{Answer, Effect, EventDraft, pod_path, seconds};
use crate::facts::{NodeFacts, Placement, PodFacts, PodKey};
use crate::resources::Resources;
use crate::timers::{TimerId, Timers};

/// A bind that was refused is tried again after a second: the watch usually says sooner why.
const RETRY: Duration = Duration::from_secs(1);

/// Which pods are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Those that name their node, as soon as it exists, whatever is said about it.
    TargetsOnly,
    /// All of the default scheduler, where they fit.
    Scheduler,
}

/// The binder.
///
/// # Guarantees
/// A pod is bound at most once per answer: between a bind and its outcome it counts on its node and is not judged again.
#[derive(Debug)]
pub struct Core {
    mode: Mode,
    /// For pods that name no node.
    delay: Duration,
    nodes: BTreeMap<NodeName, Node>,
    /// Nodes that exist, fewest pods first.
    by_load: BTreeSet<(u64, NodeName)>,
    placed: BTreeMap<PodKey, Placed>,
    pending: BTreeMap<PodKey, Pending>,
    /// Pending pods that fitted nowhere.
    stuck: Stuck,
    /// Pending pods by the node they name.
    by_target: BTreeMap<NodeName, BTreeSet<PodKey>>,
    timers: Timers<PodKey>,
    events_made: u64,
}

/// Something that happened.
#[derive(Clone, Debug)]
pub enum Input {
    /// A Node is as follows.
    Node(Box<NodeFacts>),
    /// A Node is gone.
    NodeGone(NodeName),
    /// A Pod is as follows.
    Pod(Box<PodFacts>),
    /// A Pod is gone.
    PodGone(PodKey),
    /// Pods that name this node may be bound after so long, or not at all.
    Binding(NodeName, Option<Duration>),
    /// A bind was carried out, or refused.
    Bound(PodKey, bool),
    /// Time passed.
    Wake,
}

#[derive(Debug, Default)]
struct Node {
    candidate: Option<Candidate>,
    used: Resources,
    /// `None` until it is said, which is never where no kubelets run.
    binding: Option<Option<Duration>>,
}

#[derive(Debug)]
struct Placed {
    node: NodeName,
    requests: Resources,
    /// The bind is not seen yet.
    assumed: Option<Box<Pending>>,
}

#[derive(Clone, Debug)]
struct Pending {
    uid: PodUid,
    requests: Resources,
    placement: Box<Placement>,
    scheduled: ReadyStatus,
    since: Mono,
    timer: Option<TimerId>,
}

struct Turn {
    now: Now,
    effects: Vec<Effect>,
}

// === impl Core ===

impl Core {
    /// A binder. `delay` is from created to bound for pods that name no node.
    pub fn new(mode: Mode, delay: Duration) -> Self {
        Self {
            mode,
            delay,
            nodes: BTreeMap::new(),
            by_load: BTreeSet::new(),
            placed: BTreeMap::new(),
            pending: BTreeMap::new(),
            stuck: Stuck::default(),
            by_target: BTreeMap::new(),
            timers: Timers::default(),
            events_made: 0,
        }
    }

    /// Takes one input.
    pub fn apply(&mut self, input: Input, now: Now) -> Vec<Effect> {
        let mut turn = Turn {
            now,
            effects: Vec::new(),
        };
        match input {
            Input::Node(facts) => self.node_seen(&facts, now.mono),
            Input::NodeGone(name) => self.node_gone(&name),
            Input::Pod(facts) => self.pod_seen(*facts, now.mono),
            Input::PodGone(key) => self.pod_gone(&key, now.mono),
            Input::Binding(node, delay) => self.binding_said(&node, delay, now.mono),
            Input::Bound(key, is_bound) => self.bound(&key, is_bound, now.mono),
            Input::Wake => {
                while let Some((_, key)) = self.timers.pop(now.mono) {
                    self.due(&key, &mut turn);
                }
            }
        }
        turn.effects
    }

    /// When [`Input::Wake`] is wanted next.
    pub fn next_deadline(&self) -> Option<Mono> {
        self.timers.next()
    }

    /// How many pods wait for a node.
    #[cfg(test)]
    pub fn pending(&self) -> usize {
        self.pending.len()
    }
}

// === impl Core: nodes ===

impl Core {
    fn node_seen(&mut self, facts: &NodeFacts, now: Mono) {
        let candidate = Candidate::of(facts);
        let node = self.nodes.entry(facts.name.clone()).or_default();
        if node.candidate.as_ref() == Some(&candidate) {
            return;
        }
        if node.candidate.replace(candidate).is_none() {
            self.by_load.insert((node.used.pods, facts.name.clone()));
        }
        self.offer(&facts.name, now);
        self.rearm_targets(&facts.name, now);
    }

    fn node_gone(&mut self, name: &NodeName) {
        if let Some(node) = self.nodes.get_mut(name) {
            node.candidate = None;
            node.binding = None;
            self.by_load.remove(&(node.used.pods, name.clone()));
        }
        for key in self.by_target.get(name).into_iter().flatten() {
            if let Some(pending) = self.pending.get_mut(key) {
                self.timers.cancel(&mut pending.timer);
            }
        }
    }

    fn binding_said(&mut self, name: &NodeName, delay: Option<Duration>, now: Mono) {
        self.nodes.entry(name.clone()).or_default().binding = Some(delay);
        self.rearm_targets(name, now);
    }

    fn rearm_targets(&mut self, name: &NodeName, now: Mono) {
        let keys: Vec<PodKey> = self.by_target.get(name).into_iter().flatten().cloned().collect();
        for key in keys {
            self.arm(&key, now);
        }
    }

    /// Wakes the pods that fitted nowhere and fit here now.
    fn offer(&mut self, name: &NodeName, now: Mono) {
        let Some(node) = self.nodes.get(name) else { return };
        let Some(candidate) = &node.candidate else { return };
        for key in self.stuck.tell(candidate, node.used) {
            self.arm(&key, now);
        }
    }

    fn occupy(&mut self, name: &NodeName, requests: Resources) {
        self.reload(name, |used| used.add(requests));
    }

    fn vacate(&mut self, name: &NodeName, requests: Resources, now: Mono) {
        self.reload(name, |used| used.remove(requests));
        self.offer(name, now);
    }

    fn reload(&mut self, name: &NodeName, change: impl FnOnce(&mut Resources)) {
        let node = self.nodes.entry(name.clone()).or_default();
        let was_listed = self.by_load.remove(&(node.used.pods, name.clone()));
        change(&mut node.used);
        if was_listed {
            self.by_load.insert((node.used.pods, name.clone()));
        }
    }
}

// === impl Core: pods ===

impl Core {
    fn pod_seen(&mut self, facts: PodFacts, now: Mono) {
        let PodFacts {
            key,
            uid,
            node,
            requests,
            placement,
            scheduled,
            ..
        } = facts;
        if facts.phase.is_terminal() {
            self.pod_gone(&key, now);
            return;
        }
        match (node, placement) {
            (Some(node), _) => self.pod_placed(key, node, requests, now),
            (None, Some(placement)) if facts.terminating.is_none() && !placement.is_gated && self.is_ours(&placement) => {
                let pending = Pending {
                    uid,
                    requests,
                    placement,
                    scheduled,
                    since: now,
                    timer: None,
                };
                self.pod_unbound(key, pending, now);
            }
            (None, _) => self.pod_gone(&key, now),
        }
    }

    fn is_ours(&self, placement: &Placement) -> bool {
        match self.mode {
            Mode::TargetsOnly => placement.target.is_some(),
            Mode::Scheduler => placement.is_ours,
        }
    }

    fn pod_placed(&mut self, key: PodKey, node: NodeName, requests: Resources, now: Mono) {
        self.forget_pending(&key, now);
        if let Some(placed) = self.placed.get_mut(&key)
            && placed.node == node
            && placed.requests == requests
        {
            placed.assumed = None;
            return;
        }
        self.unplace(&key, now);
        self.occupy(&node, requests);
        self.placed.insert(
            key,
            Placed {
                node,
                requests,
                assumed: None,
            },
        );
    }

    fn pod_unbound(&mut self, key: PodKey, mut pending: Pending, now: Mono) {
        if let Some(placed) = self.placed.get(&key) {
            // Seen from before the bind that is under way, unless it is another pod of the same name.
            if placed.assumed.as_ref().is_some_and(|assumed| assumed.uid == pending.uid) {
                return;
            }
            self.unplace(&key, now);
        }
        if let Some(known) = self.pending.get(&key).filter(|known| known.uid == pending.uid) {
            pending.since = known.since;
            pending.timer = known.timer;
            if known.placement == pending.placement && known.requests == pending.requests {
                self.pending.insert(key, pending);
                return;
            }
        }
        self.forget_pending(&key, now);
        if let Some(target) = &pending.placement.target {
            self.by_target.entry(target.clone()).or_default().insert(key.clone());
        }
        pending.timer = None;
        self.pending.insert(key.clone(), pending);
        self.arm(&key, now);
    }

    fn pod_gone(&mut self, key: &PodKey, now: Mono) {
        self.forget_pending(key, now);
        self.unplace(key, now);
    }

    fn unplace(&mut self, key: &PodKey, now: Mono) {
        if let Some(placed) = self.placed.remove(key) {
            self.vacate(&placed.node, placed.requests, now);
        }
    }

    fn forget_pending(&mut self, key: &PodKey, now: Mono) {
        let Some(mut pending) = self.pending.remove(key) else { return };
        self.timers.cancel(&mut pending.timer);
        if let Some(target) = &pending.placement.target
            && let Some(keys) = self.by_target.get_mut(target)
        {
            keys.remove(key);
            if keys.is_empty() {
                self.by_target.remove(target);
            }
        }
        if let Some(node) = self.stuck.settled(key) {
            self.offer(&node, now);
        }
    }

    fn bound(&mut self, key: &PodKey, is_bound: bool, now: Mono) {
        if is_bound {
            return;
        }
        let Some(mut pending) = self.placed.get_mut(key).and_then(|placed| placed.assumed.take()) else {
            return;
        };
        self.unplace(key, now);
        if let Some(target) = &pending.placement.target {
            self.by_target.entry(target.clone()).or_default().insert(key.clone());
        }
        pending.timer = Some(self.timers.arm(now + RETRY, key.clone()));
        self.pending.insert(key.clone(), *pending);
    }
}

// === impl Core: placing ===

impl Core {
    /// Arms the moment at which a pod is placed, if it can be known.
    fn arm(&mut self, key: &PodKey, now: Mono) {
        let Some(pending) = self.pending.get_mut(key) else { return };
        self.timers.cancel(&mut pending.timer);
        let delay = match &pending.placement.target {
            None => Some(self.delay),
            Some(target) => target_delay(self.mode, self.nodes.get(target), self.delay),
        };
        if let Some(delay) = delay {
            pending.timer = Some(self.timers.arm((pending.since + delay).max(now), key.clone()));
        }
    }

    fn due(&mut self, key: &PodKey, turn: &mut Turn) {
        let Some(pending) = self.pending.get_mut(key) else { return };
        pending.timer = None;
        let pending = pending.clone();
        let told = self.stuck.settled(key);
        let chosen = match (&pending.placement.target, self.mode) {
            (Some(target), Mode::TargetsOnly) => Ok(target.clone()),
            (Some(target), Mode::Scheduler) => self.judge_target(target, &pending),
            (None, _) => self.choose(&pending),
        };
        match chosen {
            Ok(node) => {
                let left = told.filter(|told| *told != node);
                self.bind(key, node, pending, turn);
                if let Some(left) = left {
                    self.offer(&left, turn.now.mono);
                }
            }
            Err(message) => self.unschedulable(key, &pending, &message, turn),
        }
    }

    fn choose(&self, pending: &Pending) -> Result<NodeName, String> {
        let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
        for (_, name) in &self.by_load {
            match self.judge(name, pending) {
                Ok(()) => return Ok(name.clone()),
                Err(reason) => *reasons.entry(reason).or_default() += 1,
            }
        }
        Err(summary(self.by_load.len(), &reasons))
    }

    fn judge_target(&self, target: &NodeName, pending: &Pending) -> Result<NodeName, String> {
        let reason = match self.judge(target, pending) {
            Ok(()) => return Ok(target.clone()),
            Err(reason) => reason,
        };
        let mut reasons = BTreeMap::from([(reason, 1)]);
        let nodes = self.by_load.len();
        if nodes > 1 {
            *reasons.entry(super::fit::Unfit::Selector.explain()).or_default() += nodes - 1;
        }
        Err(summary(nodes, &reasons))
    }

    fn judge(&self, name: &NodeName, pending: &Pending) -> Result<(), String> {
        let missing = || "node(s) did not exist".to_owned();
        let node = self.nodes.get(name).ok_or_else(missing)?;
        let candidate = node.candidate.as_ref().ok_or_else(missing)?;
        candidate
            .judge(&pending.placement, pending.requests, node.used)
            .map_err(|unfit| unfit.explain())
    }

    fn bind(&mut self, key: &PodKey, node: NodeName, pending: Pending, turn: &mut Turn) {
        self.forget_pending(key, turn.now.mono);
        self.occupy(&node, pending.requests);
        let body = json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": {"name": key.name.as_str(), "namespace": key.namespace.as_str(), "uid": pending.uid.to_string()},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node.as_str()},
        });
        let answer = Answer::Bound(key.clone());
        turn.effects
            .push(Effect::send(Verb::Create, pod_path(key, "/binding"), body, answer));
        let placed = Placed {
            node,
            requests: pending.requests,
            assumed: Some(Box::new(pending)),
        };
        self.placed.insert(key.clone(), placed);
    }

    /// Says once that a pod fits nowhere. Later reasons are not said: only that it still waits matters.
    fn unschedulable(&mut self, key: &PodKey, pending: &Pending, message: &str, turn: &mut Turn) {
        let wish = Wish {
            placement: (*pending.placement).clone(),
            requests: pending.requests,
        };
        self.stuck.insert(key, wish);
        if pending.scheduled == ReadyStatus::False {
            return;
        }
        if let Some(pending) = self.pending.get_mut(key) {
            pending.scheduled = ReadyStatus::False;
        }
        let status = json!({"conditions": [{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message,
            "lastTransitionTime": seconds(turn.now.wall),
        }]});
        turn.effects.push(Effect::pod_status(key, &pending.uid, status, Answer::None));
        self.events_made += 1;
        let draft = EventDraft {
            name: format!("{}.binder-{:x}", key.name, self.events_made),
            kind: "Pod",
            namespace: key.namespace.as_str(),
            object: key.name.as_str(),
            uid: &pending.uid.to_string(),
            is_warning: true,
            reason: "FailedScheduling",
            message,
            component: "default-scheduler",
            at: turn.now.wall,
        };
        turn.effects.push(draft.into());
    }
}

/// How long after its creation a pod that names `node` is bound; `None`: not now.
///
/// A named node that does not exist leaves the pod waiting where nothing is judged, and is judged where everything is.
fn target_delay(mode: Mode, node: Option<&Node>, default: Duration) -> Option<Duration> {
    let exists = node.is_some_and(|node| node.candidate.is_some());
    let said = node.and_then(|node| node.binding);
    match (mode, exists) {
        (Mode::TargetsOnly, false) => None,
        (Mode::Scheduler, false) => Some(default),
        (_, true) => said.unwrap_or(Some(default)),
    }
}
