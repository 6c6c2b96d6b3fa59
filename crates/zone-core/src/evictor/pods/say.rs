//! What is said about a pod: outcomes on the bus, Events in Kubernetes.

use std::time::Duration;

use bailiff_model::intent::EvictionCause;
use bailiff_model::outcome::{Outcome, PodOutcome, PodOutcomeState};
use bailiff_model::{Hold, Now, PodUid, Profile, Wall};

use super::super::Evictor;
use super::super::holds::Reason;
use super::Pod;
use crate::effect::{Component, Effect, Event, Regarding};

/// What was said last about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) state: PodOutcomeState,
    /// When that was entered.
    since: Wall,
    /// How long the next try was to wait then.
    pause: Option<Duration>,
}

impl Told {
    /// As an earlier instance said it.
    pub(super) const fn earlier(state: PodOutcomeState, since: Wall) -> Self {
        Self {
            state,
            since,
            pause: None,
        }
    }

    /// What holds the pod, if something did.
    pub(super) const fn as_hold(&self) -> Option<&Hold> {
        match &self.state {
            PodOutcomeState::Held(hold) => Some(hold),
            _ => None,
        }
    }
}

impl Pod {
    /// What was said last, also by an earlier instance.
    pub(super) fn told(&self) -> Option<&Told> {
        self.said.as_deref().or(self.earlier.as_deref())
    }
}

impl Evictor {
    /// Publishes the pod's outcome if it is another one than before.
    pub(super) fn say_pod(&mut self, uid: &PodUid, state: PodOutcomeState, detail: String, now: Now) {
        if self.pods.all.get(uid).is_some_and(|pod| pod.said() != Some(&state)) {
            self.say_pod_anew(uid, state, detail, None, now);
        }
    }

    /// Publishes that something holds the pod, if it is something else than before or ends at another time.
    pub(super) fn say_pod_held(&mut self, uid: &PodUid, reason: Reason, now: Now) {
        let told = self.pods.all.get(uid).and_then(|pod| pod.told()).and_then(Told::as_hold);
        let before = told.filter(|hold| hold.reason == reason.reason);
        let hold = reason.since(before.map_or(now.wall, |hold| hold.since));
        self.say_pod(uid, PodOutcomeState::Held(hold), String::new(), now);
    }

    /// Publishes that a request failed, and when the next is made.
    pub(super) fn say_pod_failed(&mut self, uid: &PodUid, detail: String, pause: Duration, now: Now) {
        self.say_pod_anew(uid, PodOutcomeState::Evicting, detail, Some(pause), now);
    }

    /// Publishes that a budget forbids the eviction, and when it is tried again. That it does so once more is no news, unless the tries
    /// are another time apart: they would drive out of the bus what was said before them.
    pub(super) fn say_pod_blocked(&mut self, uid: &PodUid, by: String, detail: String, pause: Duration, now: Now) {
        let state = PodOutcomeState::Blocked { by };
        let told = self.pods.all.get(uid).and_then(|pod| pod.said.as_ref());
        if told.is_none_or(|told| (&told.state, told.pause) != (&state, Some(pause))) {
            self.say_pod_anew(uid, state, detail, Some(pause), now);
        }
    }

    fn say_pod_anew(&mut self, uid: &PodUid, state: PodOutcomeState, detail: String, pause: Option<Duration>, now: Now) {
        let Some(pod) = self.pods.all.get(uid) else {
            return;
        };
        let zone = self.zone_of(&pod.intent.node.name, &pod.intent.zone).clone();
        let same = pod.told().filter(|told| told.state == state);
        let since = match &state {
            PodOutcomeState::Held(hold) => hold.since,
            PodOutcomeState::Evicting => same
                .map(|told| told.since)
                .or(pod.asked_at.map(|asked| asked.wall))
                .unwrap_or(now.wall),
            _ => same.map_or(now.wall, |told| told.since),
        };
        let route = zone.to_string();
        let outcome = PodOutcome {
            pod: pod.reference(),
            node: pod.intent.node.clone(),
            zone,
            state: state.clone(),
            failed_attempts: pod.failures,
            detail,
            since,
            next_try_at: pause.map(|pause| now.wall_of(now.mono + pause)),
        };
        let (origin, trace) = (pod.origin.clone(), pod.trace);
        if let Some(pod) = self.pods.all.get_mut(uid) {
            pod.said = Some(Box::new(Told { state, since, pause }));
            pod.earlier = None;
        }
        self.publish(format!("pod/{uid}"), route, origin, trace, Outcome::Pod(Box::new(outcome)));
    }

    /// The Events of a pod's eviction, once: in taint mode when its first write begins (TE-080), in node mode when it is deleted, with
    /// one about the node when the first of its pods goes (NL-206).
    pub(super) fn announce(&mut self, uid: &PodUid, deleting: bool) {
        let with_uid = self.config.profile == Profile::Bailiff;
        let Some(pod) = self.pods.all.get_mut(uid) else {
            return;
        };
        let node_mode = *pod.intent.cause == EvictionCause::Node;
        if node_mode {
            let (node, about) = (pod.intent.node.clone(), pod.about());
            let known = self.nodes.get_mut(&node.name);
            if known.is_some_and(|known| !std::mem::replace(&mut known.announced, true)) {
                self.effects.push(Effect::Emit(Event {
                    component: Component::Node,
                    note: format!("Node {0} event: Deleting all Pods from Node {0}.", node.name),
                    regarding: Regarding::Node(node),
                    reason: "DeletingAllPods",
                    about,
                }));
            }
        }
        if pod.announced || (node_mode && !deleting) {
            return;
        }
        pod.announced = true;
        let (component, reason, note) = if node_mode {
            let note = format!(
                "Marking for deletion Pod {} from Node {}",
                pod.intent.pod.name, pod.intent.node.name
            );
            (Component::Node, "NodeControllerEviction", note)
        } else {
            let note = format!("Marking for deletion Pod {}", pod.intent.pod);
            (Component::TaintEviction, "TaintManagerEviction", note)
        };
        self.effects.push(Effect::Emit(Event {
            component,
            regarding: Regarding::Pod {
                pod: pod.intent.pod.clone(),
                with_uid: with_uid || node_mode,
            },
            reason,
            note,
            about: pod.about(),
        }));
    }
}
