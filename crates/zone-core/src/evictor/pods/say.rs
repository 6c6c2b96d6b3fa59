//! What is said about a pod: outcomes on the bus, Events in Kubernetes.

use bailiff_model::intent::EvictionCause;
use bailiff_model::outcome::{Outcome, PodOutcome, PodOutcomeState};
use bailiff_model::{Hold, HoldReason, Now, PodUid, Profile};

use super::super::Evictor;
use crate::effect::{Component, Effect, Event, Regarding};

impl Evictor {
    /// Publishes the pod's outcome if it is another one than before.
    pub(super) fn say_pod(&mut self, uid: &PodUid, state: PodOutcomeState, detail: String, now: Now) {
        let already = self.pods.all.get(uid).is_none_or(|pod| pod.said.as_ref() == Some(&state));
        if !already {
            self.say_pod_anew(uid, state, detail, now);
        }
    }

    pub(super) fn say_pod_held(&mut self, uid: &PodUid, reason: HoldReason, detail: String, now: Now) {
        let said = self.pods.all.get(uid).and_then(|pod| pod.said.as_ref());
        let already = matches!(said, Some(PodOutcomeState::Held(hold)) if hold.reason == reason);
        if !already {
            let hold = Hold {
                reason,
                detail,
                since: now.wall,
                until: None,
            };
            self.say_pod_anew(uid, PodOutcomeState::Held(hold), String::new(), now);
        }
    }

    pub(super) fn say_pod_failed(&mut self, uid: &PodUid, detail: String, now: Now) {
        self.say_pod_anew(uid, PodOutcomeState::Evicting, detail, now);
    }

    fn say_pod_anew(&mut self, uid: &PodUid, state: PodOutcomeState, detail: String, now: Now) {
        let Some(pod) = self.pods.all.get(uid) else {
            return;
        };
        let zone = self.zone_of(&pod.intent.node.name, &pod.intent.zone).clone();
        let Some(pod) = self.pods.all.get_mut(uid) else {
            return;
        };
        pod.said = Some(state.clone());
        let route = zone.to_string();
        let outcome = PodOutcome {
            pod: pod.target.clone(),
            node: pod.intent.node.clone(),
            zone,
            state,
            failed_attempts: pod.failures,
            detail,
            since: now.wall,
            next_try_at: None,
        };
        let (origin, trace) = (pod.origin.clone(), pod.trace);
        self.publish(format!("pod/{uid}"), route, origin, trace, Outcome::Pod(outcome));
    }

    /// The Events of a pod's eviction, once: in taint mode when its first write begins (TE-080), in node mode when it is deleted, with
    /// one about the node when the first of its pods goes (NL-206).
    pub(super) fn announce(&mut self, uid: &PodUid, deleting: bool) {
        let with_uid = self.config.profile == Profile::Bailiff;
        let Some(pod) = self.pods.all.get_mut(uid) else {
            return;
        };
        let node_mode = pod.intent.cause == EvictionCause::Node;
        if node_mode {
            let (node, trace) = (pod.intent.node.clone(), pod.trace);
            let known = self.nodes.get_mut(&node.name);
            if known.is_some_and(|known| !std::mem::replace(&mut known.announced, true)) {
                self.effects.push(Effect::Emit(Event {
                    component: Component::Node,
                    note: format!("Node {0} event: Deleting all Pods from Node {0}.", node.name),
                    regarding: Regarding::Node(node),
                    reason: "DeletingAllPods",
                    trace,
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
            trace: pod.trace,
        }));
    }
}
