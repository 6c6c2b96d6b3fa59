//! Creating pods: slow start, the burst, and what was created and not seen yet (DS-050, DS-110 to DS-112).

use bailiff_model::{About, Mono, NodeName, PodName, PodUid, Profile};

use super::{AMBIGUOUS, BURST, Cx, Op, Out, Set, Timer, UNSEEN};
use crate::effect::{Answer, Effect, Failure, FailureKind, Request, RequestId, Severity, Urgency};
use crate::facts::Pod;
use crate::hash;
use crate::pair::Wanted;
use crate::policy::Place;
use crate::retry::Retry;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Duration;

/// How many creates of one batch are urgent: a new node needs one of each DaemonSet, and these are as many as upstream's client lets
/// through at once. A DaemonSet that lacks more pods than that is new itself, or has lost many nodes at once: it takes turns with the
/// rollouts of others, so that it does not hold them up for minutes.
const URGENT: usize = 30;

/// Requests to create, in three lanes: no rollout holds up a node that lacks its pod, and no node whose pod is refused another one that
/// comes to lack its own.
#[derive(Debug, Default)]
pub(crate) struct Creates {
    /// For nodes that lack a pod.
    pub(super) missing: Batches,
    /// For the rollout: in place of what it has deleted, and beside old pods.
    pub(super) routine: Batches,
    /// For newcomers.
    pub(super) fresh: Batches,
    /// Nodes that came to lack a pod since creates of their lane fail. Each is tried once by itself, and waits with the others if it is
    /// refused too.
    newcomers: BTreeSet<NodeName>,
    /// What was asked for and is neither answered nor seen, by node, until it is taken back: it may wait for its turn.
    waiting: BTreeMap<NodeName, RequestId>,
}

/// Creates of one lane.
#[derive(Debug, Default)]
pub(super) struct Batches {
    /// Size of the last batch; the next one is twice as large (DS-111). Zero before the first.
    window: usize,
    /// Creates of the present batch that are not answered.
    in_flight: usize,
    /// One of the present batch failed, with this pause asked for.
    failed: Option<Option<Duration>>,
    /// Where the next batch begins: behind the node whose create failed last, so that one that always fails holds up no other.
    from: Place,
    /// Pairs with a pod that is being created or not seen yet.
    outstanding: usize,
    pub(super) retry: Retry,
}

/// Which lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    Missing,
    Routine,
    Fresh,
}

/// A pod that is being created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Creating {
    lane: Lane,
    stage: Stage,
}

/// How far it is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    /// Not answered.
    Asked,
    /// Created, or perhaps created, and not seen yet.
    Unseen(Expected),
}

/// By what a pod that was created will be known.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Expected {
    /// Its uid.
    Uid(PodUid),
    /// Its name: no answer told its uid.
    Name(PodName),
    /// None is expected; whichever comes ends the pause.
    Any,
}

impl Creates {
    fn lane(&mut self, lane: Lane) -> &mut Batches {
        match lane {
            Lane::Missing => &mut self.missing,
            Lane::Routine => &mut self.routine,
            Lane::Fresh => &mut self.fresh,
        }
    }

    /// How many may be created now in a lane. Newcomers share the burst with the nodes that lack a pod.
    fn room(&self, lane: Lane, now: Mono) -> usize {
        let lacking = self.missing.outstanding + self.fresh.outstanding;
        match lane {
            Lane::Missing => self.missing.room(now, lacking),
            Lane::Routine => self.routine.room(now, self.routine.outstanding),
            Lane::Fresh => self.fresh.room(now, lacking),
        }
    }

    /// A node comes to lack a pod, otherwise than by a create that failed.
    pub(super) fn came(&mut self, node: &NodeName, wanted: Wanted) {
        let lane = match wanted {
            Wanted::Nothing => return,
            Wanted::Missing => &self.missing,
            Wanted::Replacement => &self.routine,
        };
        if lane.retry.has_failed() {
            if self.newcomers.is_empty() {
                // It does not wait for newcomers of long ago either.
                self.fresh.retry.reset();
            }
            self.newcomers.insert(node.clone());
        }
    }

    /// Not all creates are answered.
    pub(super) fn are_under_way(&self) -> bool {
        self.missing.in_flight + self.routine.in_flight + self.fresh.in_flight > 0
    }

    /// True if the pod that is being created for a node may be taken back.
    pub(super) fn may_wait_for(&self, node: &NodeName) -> bool {
        self.waiting.contains_key(node)
    }

    /// Nodes of pods that may be taken back.
    pub(super) fn waiting_nodes(&self) -> impl Iterator<Item = &NodeName> {
        self.waiting.keys()
    }

    /// Takes the pod for a node back, as far as it was not sent.
    pub(super) fn call_off(&mut self, node: &NodeName, out: &mut Out) {
        let waiting = self.waiting.remove(node);
        out.effects.extend(waiting.map(Effect::CallOff));
    }

    /// The same, for all nodes.
    pub(super) fn call_off_all(&mut self, out: &mut Out) {
        let waiting = std::mem::take(&mut self.waiting).into_values();
        out.effects.extend(waiting.map(Effect::CallOff));
    }

    /// What failed may be tried again at once.
    pub(super) fn forgive(&mut self) {
        self.missing.retry.reset();
        self.routine.retry.reset();
        self.fresh.retry.reset();
    }

    /// There is another revision, and its rollout begins at the beginning.
    pub(super) fn start_anew(&mut self) {
        self.routine.from = Place::default();
    }
}

impl Batches {
    /// How many may be created now beside so many that are outstanding; zero before the last batch is answered as a whole.
    fn room(&self, now: Mono, outstanding: usize) -> usize {
        if self.in_flight > 0 || !self.retry.is_open(now) {
            return 0;
        }
        (self.window * 2).max(1).min(BURST.saturating_sub(outstanding))
    }

    fn begin(&mut self, room: usize, batch: usize) {
        if room > 0 {
            self.window = batch;
        }
    }

    fn answered(&mut self, now: Mono) {
        match self.failed.take() {
            Some(pause) => {
                self.window = 0;
                self.retry.fail(now, pause);
            }
            // All of it was taken back, which is no success.
            None if self.window == 0 => {}
            None => self.retry.reset(),
        }
    }

    /// One of the batch was taken back, which proves nothing: the next is twice as large as what was answered.
    fn took_back(&mut self) {
        self.window = self.window.saturating_sub(1);
    }
}

/// The urgency of a create, by its place in its batch.
fn of_batch(urgency: Urgency, index: usize) -> Urgency {
    if index >= URGENT && urgency == Urgency::Missing {
        Urgency::Routine
    } else {
        urgency
    }
}

/// The places behind one, then the others.
fn from<'a>(places: &'a BTreeSet<Place>, first: &Place) -> impl Iterator<Item = &'a Place> {
    let behind = places.range((Bound::Excluded(first.clone()), Bound::Unbounded));
    behind.chain(places.range(..=first.clone()))
}

impl Set {
    /// Sends the next batch of each lane, once the last one is answered as a whole.
    pub(super) fn create_wanted(&mut self, cx: &mut Cx<'_>) {
        self.create_for_newcomers(cx);
        let room = |lane| self.creates.room(lane, cx.now.mono);
        let rooms = (room(Lane::Missing), room(Lane::Routine));
        let lacking = self.lacking(rooms.0);
        let rolling = self.rolling(rooms.1, cx.profile);
        self.creates.missing.begin(rooms.0, lacking.len());
        self.creates.routine.begin(rooms.1, rolling.len());
        let urgency = self.ds.template.urgency();
        for (index, place) in lacking.iter().enumerate() {
            self.create(&place.node, Lane::Missing, of_batch(urgency, index), cx);
        }
        for (place, urgency) in rolling {
            self.create(&place.node, Lane::Routine, urgency, cx);
        }
    }

    /// Nodes that do not wait for a pause of their lane to end go first: what is created for them here is not wanted there any more.
    fn create_for_newcomers(&mut self, cx: &mut Cx<'_>) {
        let room = self.creates.room(Lane::Fresh, cx.now.mono);
        let mut batch = Vec::new();
        while batch.len() < room
            && let Some(node) = self.creates.newcomers.pop_first()
        {
            match self.pairs.get(&node).map(|pair| pair.judgement.create) {
                Some(Wanted::Missing) => batch.push((node, self.ds.template.urgency())),
                Some(Wanted::Replacement) => batch.push((node, Urgency::Replacing)),
                Some(Wanted::Nothing) | None => {}
            }
        }
        self.creates.fresh.begin(room, batch.len());
        for (index, (node, urgency)) in batch.into_iter().enumerate() {
            self.create(&node, Lane::Fresh, of_batch(urgency, index), cx);
        }
    }

    /// The next nodes that lack a pod.
    fn lacking(&self, room: usize) -> Vec<Place> {
        if room == 0 {
            return Vec::new();
        }
        let first = &self.creates.missing.from;
        from(&self.tally.create, first).take(room).cloned().collect()
    }

    /// The next nodes whose rollout goes on with a new pod. Most often a batch is under way, and then nothing is looked for.
    fn rolling(&self, room: usize, profile: Profile) -> Vec<(Place, Urgency)> {
        if room == 0 {
            return Vec::new();
        }
        let first = &self.creates.routine.from;
        let replaced = from(&self.tally.recreate, first).map(|place| (place, Urgency::Replacing));
        let beside = self.surge_places(profile).map(|place| (place, Urgency::Routine));
        let places = replaced.chain(beside).take(room);
        places.map(|(place, urgency)| (place.clone(), urgency)).collect()
    }

    /// Nodes that get a new pod beside the old one (DS-138).
    fn surge_places(&self, profile: Profile) -> impl Iterator<Item = &Place> {
        let limit = self.ds.strategy.limits(self.tally.counts().desired).surge;
        let free = usize::try_from(limit.saturating_sub(self.tally.used)).unwrap_or(usize::MAX);
        let at_once = if self.policy.strict { free } else { usize::MAX };
        let within = if self.policy.strict {
            free.saturating_sub(self.tally.create_now.len())
        } else {
            free
        };
        let most = if self.is_resting(profile) { 0 } else { usize::MAX };
        let first = &self.creates.routine.from;
        let now = from(&self.tally.create_now, first).take(at_once);
        now.chain(from(&self.tally.surge_candidates, first).take(within)).take(most)
    }

    fn create(&mut self, node: &NodeName, lane: Lane, urgency: Urgency, cx: &mut Cx<'_>) {
        let (Some(blueprint), Some(pair)) = (&self.blueprint, self.pairs.get_mut(node)) else {
            return;
        };
        let stage = Stage::Asked;
        pair.creating = Some(Box::new(Creating { lane, stage }));
        let batches = self.creates.lane(lane);
        batches.in_flight += 1;
        batches.outstanding += 1;
        let fresh = || {
            let seed = format!("{} {node} {} {}", self.owner.uid, cx.out.requests, cx.now.wall);
            blueprint.name(&hash::suffix(seed.as_bytes()))
        };
        let name = pair.doubtful.as_deref().cloned().unwrap_or_else(fresh);
        let (blueprint, node) = (blueprint.clone(), node.clone());
        let op = Op::CreatePod {
            node: node.clone(),
            name: name.clone(),
            lane,
        };
        let request = Request::CreatePod {
            blueprint,
            name,
            node: node.clone(),
        };
        let id = cx.out.send(&self.owner, urgency, request, op);
        self.judge(&node, cx);
        self.creates.waiting.insert(node, id);
    }

    /// A create was answered: on this node, of a pod of this name.
    pub(super) fn create_answered(&mut self, what: (&NodeName, &PodName, Lane), answer: &Answer, cx: &mut Cx<'_>) {
        let (node, name, lane) = what;
        self.creates.waiting.remove(node);
        self.creates.lane(lane).in_flight -= 1;
        match answer {
            Answer::Created { name, uid } => {
                self.doubt(node, None);
                cx.out.event(
                    &self.owner,
                    Severity::Normal,
                    "SuccessfulCreate",
                    format!("Created pod: {name}"),
                    About::node(node),
                );
                if cx.world.has_seen(uid) {
                    self.stop_waiting_for_create(node);
                } else {
                    self.wait_for_created(node, Expected::Uid(uid.clone()), UNSEEN, cx);
                }
            }
            Answer::Failed(failure) if failure.kind == FailureKind::CalledOff => self.create_called_off(node, lane),
            Answer::Failed(failure) => self.create_failed(what, failure, cx),
            // An answer without the pod: it will be seen.
            _ => self.wait_for_created(node, Expected::Name(name.clone()), UNSEEN, cx),
        }
        let batches = self.creates.lane(lane);
        if batches.in_flight == 0 {
            batches.answered(cx.now.mono);
        }
        self.touched.insert(node.clone());
    }

    /// It was not sent because it was taken back: no failure, and what is to be done now is decided anew.
    fn create_called_off(&mut self, node: &NodeName, lane: Lane) {
        self.creates.lane(lane).took_back();
        if lane == Lane::Fresh {
            // It was not refused: if the node still lacks a pod it does not wait with the others.
            self.creates.newcomers.insert(node.clone());
        }
        self.stop_waiting_for_create(node);
    }

    /// DS-112
    fn create_failed(&mut self, what: (&NodeName, &PodName, Lane), failure: &Failure, cx: &mut Cx<'_>) {
        let (node, name, lane) = what;
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
        let place = self.pairs.get(node).map(|pair| Place::of(node, &pair.judgement));
        let batches = self.creates.lane(lane);
        batches.failed = Some(failure.retry_after.max(batches.failed.flatten()));
        batches.from = place.unwrap_or_default();
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
                About::node(node),
            );
        }
    }

    fn doubt(&mut self, node: &NodeName, name: Option<PodName>) {
        if let Some(pair) = self.pairs.get_mut(node) {
            pair.doubtful = name.map(Box::new);
        }
    }

    fn is_doubtful(&self, node: &NodeName, name: &PodName) -> bool {
        self.pairs
            .get(node)
            .is_some_and(|pair| pair.doubtful.as_deref() == Some(name))
    }

    /// True if a pod of ours of that name is there.
    fn is_there(&self, node: &NodeName, name: &PodName, cx: &Cx<'_>) -> bool {
        let mut pods = self.pairs.get(node).into_iter().flat_map(|pair| &pair.pods);
        pods.any(|key| cx.world.pod_at(*key).is_some_and(|pod| pod.name == *name))
    }

    fn wait_for_created(&mut self, node: &NodeName, expected: Expected, time: Duration, cx: &Cx<'_>) {
        let Some(pair) = self.pairs.get_mut(node) else { return };
        if let Some(creating) = &mut pair.creating {
            creating.stage = Stage::Unseen(expected);
            self.timers.set(&Timer::Creating(node.clone()), Some(cx.now.mono + time));
        }
    }

    /// A pod of ours is there: is it the one that was created?
    pub(super) fn created_pod_seen(&mut self, node: &NodeName, pod: &Pod) {
        let Some(pair) = self.pairs.get_mut(node) else { return };
        if pair.doubtful.as_deref() == Some(&pod.name) {
            pair.doubtful = None;
        }
        let Some(Stage::Unseen(expected)) = pair.creating.as_ref().map(|creating| &creating.stage) else {
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
        if let Some(creating) = creating {
            self.creates.lane(creating.lane).outstanding -= 1;
        }
        self.touched.insert(node.clone());
    }

    /// All pods that may be its were listed anew: what a list and the watch behind it do not show soon was deleted meanwhile. It has that
    /// time also if it had been waited for long enough before.
    pub(crate) fn pods_listed(&mut self, now: Mono) {
        let is_unseen = |creating: &Creating| matches!(creating.stage, Stage::Unseen(Expected::Uid(_) | Expected::Name(_)));
        let unseen = self
            .pairs
            .iter()
            .filter(|(_, pair)| pair.creating.as_deref().is_some_and(is_unseen));
        let nodes: Vec<NodeName> = unseen.map(|(node, _)| node.clone()).collect();
        for node in nodes {
            let timer = Timer::Creating(node);
            let soon = now + AMBIGUOUS;
            let set = self.timers.get(&timer).filter(|set| *set > now);
            let at = set.map_or(soon, |set| set.min(soon));
            self.timers.set(&timer, Some(at));
        }
    }
}
