//! Creating pods: slow start, the burst, and what was created and not seen yet (DS-050, DS-110 to DS-112).

use bailiff_model::{NodeName, PodName, PodUid, Profile};

use super::{AMBIGUOUS, BURST, Cx, Op, Set, Timer, UNSEEN};
use crate::effect::{Answer, Failure, FailureKind, Request, Severity, Urgency};
use crate::facts::Pod;
use crate::hash;
use crate::retry::Retry;

use std::collections::BTreeSet;
use std::ops::Bound;
use std::time::Duration;

/// Requests to create.
#[derive(Debug, Default)]
pub(crate) struct Creates {
    /// Size of the last batch; the next one is twice as large (DS-111). Zero before the first.
    window: usize,
    /// Creates of the present batch that are not answered.
    pub(super) in_flight: usize,
    /// One of the present batch failed, with this pause asked for.
    failed: Option<Option<Duration>>,
    /// Where the next batch begins: behind the node whose create failed last, so that one that always fails holds up no other.
    from: NodeName,
    /// Pairs with a pod that is being created or not seen yet.
    outstanding: usize,
    pub(super) retry: Retry,
}

/// A pod that is being created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Creating {
    /// Not answered.
    Asked,
    /// Created, or perhaps created, and not seen yet.
    Unseen(Expected),
}

/// By what a pod that was created will be known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// Its uid.
    Uid(PodUid),
    /// Its name: no answer told its uid.
    Name(PodName),
    /// None is expected; whichever comes ends the pause.
    Any,
}

/// The nodes behind one, then the others.
fn from<'a>(nodes: &'a BTreeSet<NodeName>, first: &NodeName) -> impl Iterator<Item = &'a NodeName> {
    let behind = nodes.range((Bound::Excluded(first.clone()), Bound::Unbounded));
    behind.chain(nodes.range(..=first.clone()))
}

impl Set {
    /// Sends the next batch, once the last one is answered as a whole.
    pub(super) fn create_wanted(&mut self, cx: &mut Cx<'_>) {
        if self.creates.in_flight > 0 || !self.creates.retry.is_open(cx.now.mono) {
            return;
        }
        let room = (self.creates.window * 2)
            .max(1)
            .min(BURST.saturating_sub(self.creates.outstanding));
        let mut nodes: Vec<(NodeName, Urgency)> = Vec::new();
        let missing = if self.ds.template.is_critical() {
            Urgency::Critical
        } else {
            Urgency::Missing
        };
        let wanted = from(&self.tally.create, &self.creates.from).take(room);
        nodes.extend(wanted.map(|node| (node.clone(), missing)));
        let rest = room - nodes.len();
        nodes.extend(
            self.surge_nodes(rest, cx.profile)
                .map(|node| (node.clone(), Urgency::Routine)),
        );
        if nodes.is_empty() {
            if room > 0 {
                self.creates.window = 0;
            }
            return;
        }
        self.creates.window = nodes.len();
        for (node, urgency) in nodes {
            self.create(&node, urgency, cx);
        }
    }

    /// Nodes that get a new pod beside the old one (DS-138).
    fn surge_nodes(&self, room: usize, profile: Profile) -> impl Iterator<Item = &NodeName> {
        let is_stuck = self.tally.lost > 0 && profile == Profile::Upstream;
        let limit = self.ds.strategy.limits(self.tally.counts().desired).surge;
        let free = usize::try_from(limit.saturating_sub(self.tally.used)).unwrap_or(usize::MAX);
        let room = if is_stuck { 0 } else { room };
        let first = &self.creates.from;
        from(&self.tally.create_now, first)
            .chain(from(&self.tally.surge_candidates, first).take(free))
            .take(room)
    }

    fn create(&mut self, node: &NodeName, urgency: Urgency, cx: &mut Cx<'_>) {
        let (Some(blueprint), Some(pair)) = (&self.blueprint, self.pairs.get_mut(node)) else {
            return;
        };
        pair.creating = Some(Creating::Asked);
        self.creates.in_flight += 1;
        self.creates.outstanding += 1;
        let fresh = || {
            let seed = format!("{} {node} {} {}", self.owner.uid, cx.out.requests, cx.now.wall);
            blueprint.name(&hash::suffix(seed.as_bytes()))
        };
        let name = pair.doubtful.clone().unwrap_or_else(fresh);
        let (blueprint, node) = (blueprint.clone(), node.clone());
        let op = Op::CreatePod {
            node: node.clone(),
            name: name.clone(),
        };
        let request = Request::CreatePod {
            blueprint,
            name,
            node: node.clone(),
        };
        cx.out.send(&self.owner, urgency, request, op);
        self.judge(&node, cx);
    }

    /// A create was answered.
    pub(super) fn create_answered(&mut self, node: &NodeName, name: &PodName, answer: &Answer, cx: &mut Cx<'_>) {
        self.creates.in_flight -= 1;
        match answer {
            Answer::Pod(pod) => {
                self.doubt(node, None);
                cx.out.event(
                    &self.owner,
                    Severity::Normal,
                    "SuccessfulCreate",
                    format!("Created pod: {}", pod.name),
                );
                if cx.world.has_seen(&pod.uid) {
                    self.stop_waiting_for_create(node);
                } else {
                    self.wait_for_created(node, Expected::Uid(pod.uid.clone()), UNSEEN, cx);
                }
            }
            Answer::Failed(failure) => self.create_failed(node, name, failure, cx),
            // An answer without the pod: it will be seen.
            _ => self.wait_for_created(node, Expected::Name(name.clone()), UNSEEN, cx),
        }
        if self.creates.in_flight == 0 {
            self.batch_answered(cx);
        }
        self.touched.insert(node.clone());
    }

    /// DS-112
    fn create_failed(&mut self, node: &NodeName, name: &PodName, failure: &Failure, cx: &mut Cx<'_>) {
        match failure.kind {
            // Nothing is said, and nothing is tried again for as long as upstream's expectations stay unmet (DS-193, DS-230).
            FailureKind::NamespaceTerminating => return self.wait_for_created(node, Expected::Any, UNSEEN, cx),
            FailureKind::AlreadyExists if self.is_doubtful(node, name) => {
                // It was created when nobody answered.
                self.doubt(node, None);
                return self.wait_for_created(node, Expected::Name(name.clone()), UNSEEN, cx);
            }
            FailureKind::AlreadyExists | FailureKind::Unknown if self.is_there(node, name, cx) => {
                return self.stop_waiting_for_create(node);
            }
            _ => {}
        }
        self.creates.failed = Some(failure.retry_after.max(self.creates.failed.flatten()));
        self.creates.from = node.clone();
        match failure.kind {
            FailureKind::Unknown => {
                self.doubt(node, Some(name.clone()));
                self.wait_for_created(node, Expected::Name(name.clone()), AMBIGUOUS, cx);
            }
            _ => self.stop_waiting_for_create(node),
        }
        // A name that is taken is no failure of anybody: the next one will be free.
        if !matches!(failure.kind, FailureKind::NotSent | FailureKind::AlreadyExists) {
            cx.out.event(
                &self.owner,
                Severity::Warning,
                "FailedCreate",
                format!("Error creating: {}", hash::as_if_generated(&failure.message, name.as_str())),
            );
        }
    }

    fn batch_answered(&mut self, cx: &Cx<'_>) {
        match self.creates.failed.take() {
            Some(pause) => {
                self.creates.window = 0;
                self.creates.retry.fail(cx.now.mono, pause);
            }
            None => self.creates.retry.reset(),
        }
    }

    fn doubt(&mut self, node: &NodeName, name: Option<PodName>) {
        if let Some(pair) = self.pairs.get_mut(node) {
            pair.doubtful = name;
        }
    }

    fn is_doubtful(&self, node: &NodeName, name: &PodName) -> bool {
        self.pairs.get(node).is_some_and(|pair| pair.doubtful.as_ref() == Some(name))
    }

    /// True if a pod of ours of that name is there.
    fn is_there(&self, node: &NodeName, name: &PodName, cx: &Cx<'_>) -> bool {
        let mut pods = self.pairs.get(node).into_iter().flat_map(|pair| &pair.pods);
        pods.any(|uid| cx.world.pod(uid).is_some_and(|pod| pod.name == *name))
    }

    fn wait_for_created(&mut self, node: &NodeName, expected: Expected, time: Duration, cx: &Cx<'_>) {
        let Some(pair) = self.pairs.get_mut(node) else { return };
        if pair.creating.is_some() {
            pair.creating = Some(Creating::Unseen(expected));
            self.timers.set(&Timer::Creating(node.clone()), Some(cx.now.mono + time));
        }
    }

    /// A pod of ours is there: is it the one that was created?
    pub(super) fn created_pod_seen(&mut self, node: &NodeName, pod: &Pod) {
        let Some(pair) = self.pairs.get_mut(node) else { return };
        if pair.doubtful.as_ref() == Some(&pod.name) {
            pair.doubtful = None;
        }
        let Some(Creating::Unseen(expected)) = &pair.creating else {
            return;
        };
        let is_it = match expected {
            Expected::Uid(uid) => *uid == pod.uid,
            Expected::Name(name) => *name == pod.name,
            Expected::Any => true,
        };
        if is_it {
            self.stop_waiting_for_create(node);
        }
    }

    pub(super) fn stop_waiting_for_create(&mut self, node: &NodeName) {
        self.timers.set(&Timer::Creating(node.clone()), None);
        let creating = self.pairs.get_mut(node).and_then(|pair| pair.creating.take());
        if creating.is_some() {
            self.creates.outstanding -= 1;
        }
        self.touched.insert(node.clone());
    }

    /// All pods were listed anew: what a list and the watch behind it do not show soon was deleted meanwhile.
    pub(crate) fn pods_listed(&mut self, now: bailiff_model::Mono) {
        let unseen = self
            .pairs
            .iter()
            .filter(|(_, pair)| matches!(pair.creating, Some(Creating::Unseen(Expected::Uid(_) | Expected::Name(_)))));
        let nodes: Vec<NodeName> = unseen.map(|(node, _)| node.clone()).collect();
        for node in nodes {
            let timer = Timer::Creating(node);
            let soon = now + AMBIGUOUS;
            let at = self.timers.get(&timer).map_or(soon, |set| set.min(soon));
            self.timers.set(&timer, Some(at));
        }
    }
}
