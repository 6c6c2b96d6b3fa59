//! Calling off what is decided, and what is asked for but not sent; and not doing again what is done.

use bailiff_model::outcome::{PodOutcome, PodOutcomeState, RefusedReason};
use bailiff_model::{NodeName, Now, PodUid, ResourceVersion};

use super::super::holds::Reason;
use super::super::{Evictor, Timer};
use super::{Pod, Pods, Stage, Told, unsure};
use crate::effect::Effect;
use crate::span::{SpanEnd, Why};

impl Pods {
    /// An earlier instance was done with the pod, and said so: it is not done twice for one incarnation.
    pub(in crate::evictor) fn was_finished(&mut self, uid: &PodUid, said: &PodOutcomeState) {
        let untouched = |pod: &mut Box<Pod>| {
            let told = Told::earlier(said.clone(), pod.since);
            (pod.stage == Stage::New).then(|| pod.said = Some(Box::new(told)))
        };
        if self.all.get_mut(uid).and_then(untouched).is_some() {
            self.set_stage(uid, Stage::Done);
        }
    }
}

impl Pods {
    /// An earlier instance was not done with the pod, and said how far it was; that is given back if the pod is not known yet.
    pub(in crate::evictor) fn went_on(&mut self, said: PodOutcome) -> Option<PodOutcome> {
        let Some(pod) = self.all.get_mut(&said.pod.uid) else {
            return Some(said);
        };
        if pod.stage == Stage::New {
            pod.goes_on(said);
        }
        None
    }
}

impl Pod {
    /// It was refused for what its node said.
    fn is_refused_for_its_node(&self) -> bool {
        use RefusedReason::{NoTaint, NodeReady, NodeReplaced, Tolerated};
        let said = self.said().filter(|_| self.stage == Stage::Done);
        matches!(
            said,
            Some(PodOutcomeState::Refused(NoTaint | Tolerated | NodeReplaced | NodeReady))
        )
    }
}

impl Evictor {
    pub(super) fn enter_pod(&mut self, uid: PodUid, pod: Pod) {
        self.pods.all.insert(uid.clone(), Box::new(pod));
        if let Some(said) = self.inherited.take_finished(&uid) {
            self.pods.was_finished(&uid, &said);
        }
        if let Some(said) = self.inherited.take_pod_waited(&uid) {
            self.pods.went_on(said);
        }
    }

    /// Calls an eviction off. Never held. A delete that was sent cannot be called back.
    pub(in crate::evictor) fn withdraw_pod(&mut self, uid: &PodUid, now: Now) {
        let Some(pod) = self.pods.all.get_mut(uid) else {
            return;
        };
        if pod.stage.is_in_flight() {
            pod.withdrawn = true;
            self.recall(uid);
        } else {
            self.cancel_pod(uid, now);
        }
    }

    pub(super) fn cancel_pod(&mut self, uid: &PodUid, now: Now) {
        if self.is_open(uid) {
            self.end_eviction(uid, SpanEnd::Cancelled, None, "", now);
            self.say_pod(uid, PodOutcomeState::Cancelled, String::new(), now);
        }
        self.timers.clear(&Timer::Pod(uid.clone()));
        self.pods.remove(uid);
    }

    /// True if something is left to be done about the pod, and by this instance: the others are silent about how it ends.
    pub(super) fn is_open(&self, uid: &PodUid) -> bool {
        let pod = self.pods.all.get(uid);
        pod.is_some_and(|pod| pod.stage != Stage::Done && self.owns_pod(&pod.intent))
    }

    /// Something about the node of a pod changed while a request is under way. If the pod must wait by now, nothing justifies that it goes,
    /// or another instance goes on with it, the request is not sent, if that is still possible.
    pub(super) fn recall_if_held(&mut self, uid: &PodUid) {
        let pod = self.pods.all.get(uid);
        if pod.is_some_and(|pod| !self.owns_pod(&pod.intent) || self.why_not(pod).is_some()) {
            self.recall(uid);
        }
    }

    /// The pod's node is in a zone of another instance by now, which goes on with it, and says what there is to say.
    pub(super) fn leave_pod(&mut self, uid: &PodUid, now: Now) {
        let stage = self.pods.all.get(uid).map(|pod| pod.stage);
        if stage.is_none_or(|stage| matches!(stage, Stage::New | Stage::Done)) {
            return;
        }
        self.end_eviction(uid, SpanEnd::Moved, None, "its node is in a zone of another shard", now);
        self.timers.clear(&Timer::Pod(uid.clone()));
        self.pods.set_stage(uid, Stage::New);
        if let Some(pod) = self.pods.all.get_mut(uid) {
            (pod.said, pod.earlier) = (None, None);
            pod.begin_anew(now);
        }
    }

    /// Why the pod would not go if it was its turn.
    fn why_not(&self, pod: &Pod) -> Option<Reason> {
        let hold = self.pod_hold(&pod.intent, pod.tolerations());
        hold.or_else(|| self.judge_pod(pod).is_err().then(|| unsure(&pod.intent.node.name)))
    }

    /// The node says something else by now. A pod that was refused for what it said is still due: if the node may justify it now, the pod
    /// is read, and judged as it is.
    pub(in crate::evictor) fn look_again_at_refused(&mut self, node: &NodeName, now: Now) {
        let may_go = |own: &Self, pod: &Pod| pod.is_refused_for_its_node() && own.judge_pod(pod).is_ok();
        self.look_again_where(node, may_go, now);
    }

    /// The node is gone, and says nothing any more: it leaves its intents standing (TE-034).
    pub(in crate::evictor) fn look_again_at_all_refused(&mut self, node: &NodeName, now: Now) {
        self.look_again_where(node, |_, pod| pod.is_refused_for_its_node(), now);
    }

    fn look_again_where(&mut self, node: &NodeName, is_meant: impl Fn(&Self, &Pod) -> bool, now: Now) {
        let uids = self.pods.by_node.get(node).into_iter().flatten();
        let is_meant = |uid: &&PodUid| self.pods.all.get(*uid).is_some_and(|pod| is_meant(self, pod));
        let uids: Vec<PodUid> = uids.filter(is_meant).cloned().collect();
        for uid in uids {
            if let Some(pod) = self.pods.all.get_mut(&uid) {
                pod.target.resource_version = ResourceVersion::default();
            }
            self.begin_pod_anew(uid, now);
        }
    }

    /// The pod is done with, and due all the same: it is looked at as if it were new.
    pub(super) fn begin_pod_anew(&mut self, uid: PodUid, now: Now) {
        if let Some(pod) = self.pods.all.get_mut(&uid) {
            pod.begin_anew(now);
        }
        self.pods.set_stage(&uid, Stage::New);
        self.pods.dirty.insert(uid);
    }

    fn recall(&mut self, uid: &PodUid) {
        let Some(pod) = self.pods.all.get_mut(uid) else {
            return;
        };
        if let Some(ticket) = pod.stage.ticket()
            && !std::mem::replace(&mut pod.recalled, true)
        {
            self.effects.push(Effect::CallOff { ticket });
        }
    }

    /// The request was not sent: the pod is looked at as if it were new.
    pub(super) fn pod_called_off(&mut self, uid: &PodUid, now: Now) {
        let why = self.pods.all.get(uid).and_then(|pod| self.why_not(pod)).map(Why::from);
        self.end_attempt(uid, SpanEnd::CalledOff, why.unwrap_or_default(), now);
        self.pods.set_stage(uid, Stage::New);
        self.pods.dirty.insert(uid.clone());
    }
}
