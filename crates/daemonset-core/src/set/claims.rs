//! Which pods are ours (DS-060 to DS-071), and what is under way with single pods.

mod adoptions;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bailiff_model::{About, IndexMap, NodeName, PodUid, Taint};

use super::{AMBIGUOUS, BURST, Cx, Op, Out, Set, Timer, UNSEEN};
use crate::effect::{Effect, Failure, FailureKind, Request, RequestId, Urgency};
use crate::facts::{Controller, Pod};
use crate::pair;
use crate::retry::Retry;
use crate::world::{PodKey, Shown, World};

/// What a pod is to a DaemonSet (DS-062).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Ours, and selected.
    Member,
    /// Ours, and not selected: to be released.
    Misfit,
    /// Nobody's, and selected: to be adopted.
    Orphan,
    /// Of no concern.
    Stranger,
}

/// Claims, and requests about pods.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    works: IndexMap<PodUid, PodWork>,
    /// Pods that may have to be released or adopted: looked at once each time something changes about them.
    due: BTreeSet<PodUid>,
    /// Pods that wait to be released.
    misfits: BTreeSet<PodUid>,
    /// Orphans for whose sake the live DaemonSet is still to be read.
    orphans: BTreeSet<PodUid>,
    /// Those that were known when it was read: its word is about them, and no others (DS-063).
    candidates: BTreeSet<PodUid>,
    /// Releases and adoptions that are not answered.
    claiming: usize,
    /// Pods being given another hash label.
    pub(super) relabelling: usize,
    /// The label that they were given last.
    relabelled: Option<Arc<str>>,
    /// The DaemonSet is being read (DS-063).
    reading: bool,
    /// The live DaemonSet allowed the adoption of the candidates.
    allowed: bool,
    pub(super) retry: Retry,
}

/// One request about a pod, and what follows it. There is at most one per pod.
#[derive(Clone, Copy, Debug)]
struct PodWork {
    kind: Kind,
    stage: Stage,
    retry: Retry,
    /// What was asked, until it is called off.
    request: Option<RequestId>,
}

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Its deletion.
    Delete,
    /// An owner reference.
    Adopt,
    /// No owner reference.
    Release,
    /// Another hash label.
    Relabel,
}

/// How far a request about a pod is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Not answered.
    Asked,
    /// Done, and not seen yet (DS-050).
    Unseen,
    /// Failed; a pause runs.
    Paused,
    /// Failed as what nobody waits for (DS-065), so it ends no pass (DS-066); a pause runs.
    Refused,
    /// The answer was lost: it may have been done. A pause runs, in which the watch shows it.
    Lost,
    /// The pause is over; only the number of failures is remembered.
    Ready,
}

impl PodWork {
    fn is_going(&self) -> bool {
        self.kind == Kind::Delete && matches!(self.stage, Stage::Asked | Stage::Unseen)
    }

    fn call_off(&mut self, out: &mut Out) {
        if matches!(self.kind, Kind::Delete | Kind::Adopt) && self.stage == Stage::Asked {
            out.effects.extend(self.request.take().map(Effect::CallOff));
        }
    }
}

impl Claims {
    /// What is under way with a pod, as its pair is judged.
    pub(super) fn work(&self, pod: &Pod) -> pair::Work {
        match self.works.get(&pod.uid).map(|work| (work.stage, work.kind)) {
            None | Some((Stage::Ready, _)) => pair::Work::None,
            Some((Stage::Asked | Stage::Lost, Kind::Delete)) => pair::Work::Asked,
            Some((Stage::Unseen, Kind::Delete)) => pair::Work::Going,
            Some(_) => pair::Work::Busy,
        }
    }

    /// A request of this kind was answered.
    pub(super) const fn answered(&mut self, kind: Kind) {
        match kind {
            Kind::Delete => {}
            Kind::Relabel => self.relabelling -= 1,
            Kind::Adopt | Kind::Release => self.claiming -= 1,
        }
    }

    fn is_free(&self, uid: &PodUid) -> bool {
        self.works.get(uid).is_none_or(|work| work.stage == Stage::Ready)
    }
}

impl Set {
    fn role(&self, pod: &Pod) -> Role {
        let is_selected = self.ds.selector.matches(&pod.labels);
        match &pod.controller {
            // DS-022, DS-060
            Controller::DaemonSet(of) if of.uid == self.ds.uid && of.name == self.ds.name => {
                if is_selected {
                    Role::Member
                } else {
                    Role::Misfit
                }
            }
            Controller::None if is_selected && !pod.deleting => Role::Orphan,
            _ => Role::Stranger,
        }
    }

    /// A pod came, changed or went. Returns true if it concerns this DaemonSet, or did.
    pub(crate) fn pod_changed(&mut self, shown: &Shown, world: &World) -> bool {
        let new = shown.key.and_then(|key| Some((key, world.pod_at(key)?)));
        if let Some(((_, old), (_, pod))) = shown.old.as_ref().zip(new)
            && self.stays(old, pod)
        {
            if let Some(node) = &pod.target {
                self.created_pod_seen(node, pod);
            }
            self.work_seen(pod);
            self.touched.extend(pod.target.clone());
            return true;
        }
        let did = shown.old.as_ref().is_some_and(|(key, old)| self.detach(*key, old));
        let does = new.is_some_and(|(key, pod)| self.attach(key, pod, world));
        if let Some((_, old)) = shown.old.as_ref().filter(|_| !does) {
            // It is gone, or somebody else's: nothing that was done to it is waited for.
            self.end_work(&old.uid, |work| work.stage != Stage::Asked);
        }
        did || does
    }

    /// True of a pod that is there and is ours, or is to be.
    fn concerns(&self, uid: &PodUid, world: &World) -> bool {
        world.pod(uid).is_some_and(|pod| self.role(pod) != Role::Stranger)
    }

    /// True of a change that leaves a pod where it is, as nearly every one does.
    fn stays(&self, old: &Pod, pod: &Pod) -> bool {
        let is_alike = old.target == pod.target && old.labels == pod.labels && old.controller == pod.controller;
        is_alike && self.role(pod) == Role::Member
    }

    /// A pod came. Returns true if it concerns this DaemonSet.
    fn attach(&mut self, key: PodKey, pod: &Pod, world: &World) -> bool {
        let role = self.role(pod);
        match role {
            Role::Member => {
                if let Some(node) = &pod.target {
                    self.created_pod_seen(node, pod);
                }
                if let Some(node) = &pod.target {
                    *self.pods_by_hash.entry(Arc::from(pod.hash())).or_default() += 1;
                    self.pair(node, world).pods.push(key);
                }
            }
            Role::Misfit => drop(self.claims.due.insert(pod.uid.clone())),
            Role::Orphan => {
                self.claims.due.insert(pod.uid.clone());
                if let Some(node) = &pod.target {
                    self.pair(node, world).adopting += 1;
                }
            }
            Role::Stranger => return false,
        }
        self.work_seen(pod);
        self.touched.extend(pod.target.clone());
        true
    }

    /// What was asked for a pod has been seen (DS-052), if this is it.
    fn work_seen(&mut self, pod: &Pod) {
        self.end_work(&pod.uid, |work| {
            let is_delete = work.kind == Kind::Delete;
            match work.stage {
                Stage::Unseen => pod.deleting || !is_delete,
                Stage::Lost => pod.deleting && is_delete,
                Stage::Asked | Stage::Paused | Stage::Refused | Stage::Ready => false,
            }
        });
    }

    /// Takes a pod out, as it was known. Returns true if it concerned this DaemonSet.
    fn detach(&mut self, key: PodKey, pod: &Pod) -> bool {
        let role = self.role(pod);
        let pair = pod.target.as_ref().and_then(|node| self.pairs.get_mut(node));
        match role {
            Role::Member => {
                if let Some(pair) = pair {
                    pair.pods.retain(|other| *other != key);
                    self.uncount_hash(pod.hash());
                }
            }
            Role::Misfit => {
                self.claims.due.remove(&pod.uid);
                self.claims.misfits.remove(&pod.uid);
            }
            Role::Orphan => {
                self.claims.due.remove(&pod.uid);
                self.claims.orphans.remove(&pod.uid);
                self.claims.candidates.remove(&pod.uid);
                if let Some(pair) = pair {
                    pair.adopting -= 1;
                }
            }
            Role::Stranger => return false,
        }
        self.touched.extend(pod.target.clone());
        true
    }

    fn uncount_hash(&mut self, hash: &str) {
        if let Some(pods) = self.pods_by_hash.get_mut(hash) {
            *pods -= 1;
            if *pods == 0 {
                self.pods_by_hash.remove(hash);
                // Its revision may be superfluous now (DS-161), and a dedupe may go on.
                self.surplus_dirty = true;
                self.history_dirty |= !self.settled;
            }
        }
    }

    fn end_work(&mut self, uid: &PodUid, is_over: impl Fn(&PodWork) -> bool) {
        let Some(work) = self.claims.works.get(uid).filter(|work| is_over(work)) else {
            return;
        };
        if work.is_going() {
            self.deletes.outstanding -= 1;
        }
        self.claims.works.swap_remove(uid);
        self.timers.set(&Timer::Pod(uid.clone()), None);
        self.let_go(uid);
    }

    /// Nothing is under way with a pod any more: it may be claimed, and a dedupe that waits for it may go on. What it does next is decided
    /// once per batch of its own.
    fn let_go(&mut self, uid: &PodUid) {
        self.claims.due.insert(uid.clone());
        self.history_dirty |= !self.settled && self.claims.relabelling == 0;
    }

    /// The time to see it, or the pause, is over.
    pub(super) fn stop_waiting_for_pod(&mut self, uid: &PodUid, world: &World) {
        let is_ours = self.concerns(uid, world);
        self.end_work(uid, |work| work.stage == Stage::Unseen || !is_ours);
        let is_paused = |work: &&mut PodWork| matches!(work.stage, Stage::Paused | Stage::Refused | Stage::Lost);
        if let Some(work) = self.claims.works.get_mut(uid).filter(is_paused) {
            work.stage = Stage::Ready;
            self.let_go(uid);
        }
        self.touched.extend(world.pod(uid).and_then(|pod| pod.target.clone()));
    }

    /// Sends a request about a pod.
    pub(super) fn work_on(&mut self, pod: &Pod, kind: Kind, request: Request, cx: &mut Cx<'_>) {
        let retry = self.claims.works.get(&pod.uid).map(|work| work.retry).unwrap_or_default();
        match kind {
            Kind::Delete => {
                self.deletes.outstanding += 1;
                self.deletes.in_flight += 1;
            }
            Kind::Relabel => self.claims.relabelling += 1,
            Kind::Adopt | Kind::Release => self.claims.claiming += 1,
        }
        let about = About {
            node: pod.target.clone(),
            taint: self.taint_against(pod, cx.world).cloned(),
            trace: None,
        };
        let op = Op::Pod {
            uid: pod.uid.clone(),
            name: pod.name.clone(),
            about,
            kind,
        };
        let request = Some(cx.out.send(&self.owner, Urgency::Routine, request, op));
        let stage = Stage::Asked;
        let work = PodWork {
            kind,
            stage,
            retry,
            request,
        };
        self.claims.works.insert(pod.uid.clone(), work);
    }

    /// Takes the deletion of a pod back, as far as it was not sent.
    pub(super) fn call_off_delete(&mut self, uid: &PodUid, out: &mut Out) {
        let is_delete = |work: &&mut PodWork| work.kind == Kind::Delete;
        if let Some(work) = self.claims.works.get_mut(uid).filter(is_delete) {
            work.call_off(out);
        }
    }

    /// Takes back what was not sent of creates, deletions, adoptions, and clean-ups of the history: the DaemonSet goes (DS-190, DS-191), or
    /// what is known of it may be past.
    pub(crate) fn call_off_all(&mut self, out: &mut Out) {
        self.creates.call_off_all(out);
        out.effects.extend(self.history.cleaning.take().map(Effect::CallOff));
        for work in self.claims.works.values_mut() {
            work.call_off(out);
        }
    }

    /// The taint of its node that a pod may not stay with.
    fn taint_against<'w>(&self, pod: &Pod, world: &'w World) -> Option<&'w Taint> {
        let node = world.nodes.get(pod.target.as_ref()?)?;
        self.ds.template.placement().driven_away_by(node)
    }

    /// A request about a pod was done, or turned out to be needless: what follows from it will be seen.
    pub(super) fn pod_done(&mut self, uid: &PodUid, kind: Kind, is_moot: bool, cx: &Cx<'_>) {
        let is_awaited = kind == Kind::Delete || is_moot;
        let is_deleting = || cx.world.pod(uid).is_some_and(|pod| pod.deleting && kind == Kind::Delete);
        let is_seen = !self.concerns(uid, cx.world) || is_deleting();
        let Some(work) = self.claims.works.get_mut(uid) else { return };
        if is_awaited && !is_seen {
            work.stage = Stage::Unseen;
            self.timers.set(&Timer::Pod(uid.clone()), Some(cx.now.mono + UNSEEN));
        } else {
            self.end_work(uid, |_| true);
        }
    }

    /// False of a pod that, after a request of this kind was done, needs another one of it.
    pub(super) fn has_effect(&self, pod: &Pod, kind: Kind) -> bool {
        match kind {
            Kind::Delete => true,
            Kind::Adopt => self.role(pod) != Role::Orphan,
            Kind::Release => self.role(pod) != Role::Misfit,
            Kind::Relabel => self.claims.relabelled.as_deref() == Some(pod.hash()),
        }
    }

    /// A request about a pod failed: it may be tried again after a pause.
    pub(super) fn pod_failed(&mut self, uid: &PodUid, failure: FailureKind, pause: Option<Duration>, cx: &Cx<'_>) {
        if !self.concerns(uid, cx.world) {
            return self.end_work(uid, |_| true);
        }
        let Some(work) = self.claims.works.get_mut(uid) else { return };
        if work.is_going() {
            self.deletes.outstanding -= 1;
        }
        work.stage = match (failure, work.kind) {
            // A conflict says that another pod has the name, if it is the API server that says so: the watch will tell.
            (FailureKind::Unknown, _) | (FailureKind::Conflict, Kind::Delete) => Stage::Lost,
            (FailureKind::Invalid, Kind::Release) => Stage::Refused,
            _ => Stage::Paused,
        };
        let pause = pause.max((work.stage == Stage::Lost).then_some(AMBIGUOUS));
        let until = work.retry.fail(cx.now.mono, pause);
        self.timers.set(&Timer::Pod(uid.clone()), Some(until));
    }

    /// A request about a pod was not sent because it was taken back: no failure, and what is to be done now is decided anew.
    pub(super) fn pod_called_off(&mut self, uid: &PodUid, world: &World) {
        let is_news = |work: &PodWork| work.retry == Retry::default();
        if !self.concerns(uid, world) || self.claims.works.get(uid).is_some_and(is_news) {
            return self.end_work(uid, |_| true);
        }
        let Some(work) = self.claims.works.get_mut(uid) else { return };
        if work.is_going() {
            self.deletes.outstanding -= 1;
        }
        // Failures before it are remembered.
        work.stage = Stage::Ready;
        self.let_go(uid);
    }

    /// Releases and adopts (DS-062 to DS-068), so many at a time.
    pub(super) fn claim(&mut self, cx: &mut Cx<'_>) {
        for uid in std::mem::take(&mut self.claims.due) {
            let Some(pod) = cx.world.pod(&uid).filter(|_| self.claims.is_free(&uid)) else {
                continue;
            };
            match self.role(pod) {
                Role::Misfit => drop(self.claims.misfits.insert(uid)),
                Role::Orphan => drop(self.claims.orphans.insert(uid)),
                Role::Member | Role::Stranger => {}
            }
        }
        while self.claims.claiming < BURST
            && let Some(uid) = self.claims.misfits.pop_first()
        {
            if let Some(pod) = cx.world.pod(&uid) {
                let (name, uid) = (pod.name.clone(), uid);
                self.work_on(pod, Kind::Release, Request::ReleasePod { name, uid }, cx);
            }
        }
        self.adopt(cx);
    }

    /// Nodes of pods whose deletion was asked for and is not answered. Costs what is under way, which is bounded.
    pub(super) fn nodes_of_deletes(&self, world: &World) -> BTreeSet<NodeName> {
        let asked = self
            .claims
            .works
            .iter()
            .filter(|(_, work)| work.kind == Kind::Delete && work.stage == Stage::Asked);
        asked.filter_map(|(uid, _)| world.pod(uid)?.target.clone()).collect()
    }

    /// True if some pod is to be claimed and that is not done. Costs what is under way, which is bounded.
    pub(super) fn is_claiming(&self, world: &World) -> bool {
        let is_open = |(uid, work): (&PodUid, &PodWork)| {
            let is_due = !matches!(work.stage, Stage::Unseen | Stage::Refused);
            let is_claim = is_due && matches!(work.kind, Kind::Adopt | Kind::Release);
            let role = world.pod(uid).map(|pod| self.role(pod));
            is_claim && matches!(role, Some(Role::Orphan | Role::Misfit))
        };
        let claims = &self.claims;
        let waiting = [&claims.misfits, &claims.orphans, &claims.candidates];
        waiting.iter().any(|pods| !pods.is_empty()) || claims.works.iter().any(is_open)
    }

    /// Gives pods another hash label (DS-160).
    pub(super) fn relabel(&mut self, from: &BTreeSet<Arc<str>>, to: &Arc<str>, cx: &mut Cx<'_>) {
        let members = self.pairs.values().flat_map(|pair| &pair.pods);
        let stray = members
            .filter_map(|key| cx.world.pod_at(*key))
            .filter(|pod| from.contains(pod.hash()) && self.claims.is_free(&pod.uid));
        let stray: Vec<&Pod> = stray.take(BURST).collect();
        self.claims.relabelled = Some(to.clone());
        for pod in stray {
            // Whatever else was to be done to it waits for that.
            self.touched.extend(pod.target.clone());
            let (name, uid, hash) = (pod.name.clone(), pod.uid.clone(), to.clone());
            self.work_on(pod, Kind::Relabel, Request::RelabelPod { name, uid, hash }, cx);
        }
    }
}

/// True if a failed request about a pod needs no other try: the pod is gone.
pub(super) fn is_moot(failure: &Failure) -> bool {
    failure.kind == FailureKind::NotFound
}

#[cfg(test)]
mod tests;
