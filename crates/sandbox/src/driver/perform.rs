//! Carries out effects, and tells what came of them.

use bailiff_model::{NodeName, NodeUid, Now, Wall};
use bailiff_runtime::Clock;
use serde_json::json;

use super::parts::{Part, Parts, by};
use crate::direct::Identity;
use crate::effect::{Answer, Effect, Request, micros};
use crate::facts::PodKey;
use crate::{Status, Verb, binder, kubelet};

const LEASES: &str = "leases.coordination.k8s.io";
const LEASE_NAMESPACE: &str = bailiff_model::wellknown::NAMESPACE_NODE_LEASE;
/// `nodeLeaseDurationSeconds` of a kubelet.
const LEASE_SECONDS: u32 = 40;

impl Parts {
    /// Carries out effects, at most `limit`. True if none are left.
    pub fn perform(&mut self, limit: usize, clock: &Clock) -> bool {
        for _ in 0..limit {
            let Some((part, effect)) = self.effects.pop_front() else {
                return true;
            };
            let now = clock.now();
            match effect {
                Effect::Renew { node, uid, at, ensure } => self.renew(&node, &uid, at, ensure, now),
                Effect::Send(request) => self.send(part, *request, now),
                Effect::Binding { node, delay } => self.tell_binder(binder::Input::Binding(node, delay), now),
            }
        }
        self.effects.is_empty()
    }

    fn renew(&mut self, node: &NodeName, uid: &NodeUid, at: Wall, ensure: bool, now: Now) {
        let owner = json!([{"apiVersion": "v1", "kind": "Node", "name": node.as_str(), "uid": uid.to_string()}]);
        let key = (LEASE_NAMESPACE, node.as_str(), "");
        let renewed = self.sandbox.modify(LEASES, key, |lease| {
            lease["spec"]["renewTime"] = micros(at).into();
            if ensure {
                lease["metadata"]["ownerReferences"] = owner.clone();
                lease["spec"]["holderIdentity"] = node.as_str().into();
            }
            true
        });
        if renewed.is_some() {
            return;
        }
        if !ensure {
            self.tell_kubelets(kubelet::Input::LeaseMissing(node.clone()), now);
            return;
        }
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": node.as_str(), "namespace": LEASE_NAMESPACE, "ownerReferences": owner},
            "spec": {"holderIdentity": node.as_str(), "leaseDurationSeconds": LEASE_SECONDS, "renewTime": micros(at)},
        });
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/{LEASE_NAMESPACE}/leases");
        // A refused creation is tried again by the next renewal, which finds no Lease.
        if let Err(status) = self.sandbox.tell(&Part::Kubelet.user(), Verb::Create, &path, lease) {
            tracing::warn!(%node, error = %status, "the sandbox refused a Lease");
        }
    }

    fn send(&mut self, part: Part, request: Request, now: Now) {
        let Request {
            verb,
            path,
            body,
            answer,
        } = request;
        let outcome = self.sandbox.tell(&part.user(), verb, &path, body);
        if let Err(status) = &outcome {
            // Races with clients are part of life: the watch brings what made the request pointless.
            tracing::debug!(?verb, path, error = %status, "a simulated part of the cluster was refused");
        }
        self.answer(answer, &outcome, now);
    }

    fn answer(&mut self, answer: Answer, outcome: &Result<Identity, Status>, now: Now) {
        let is_done = outcome.is_ok();
        // What is gone already needs no second attempt.
        let is_settled = is_done || matches!(outcome, Err(status) if matches!(status.code, 404 | 409));
        match answer {
            Answer::None => {}
            Answer::NodePosted(node) => self.tell_kubelets(kubelet::Input::NodePosted(node, revision(outcome)), now),
            Answer::PodPosted(key) => self.tell_kubelets(kubelet::Input::PodPosted(key, revision(outcome)), now),
            Answer::Bound(key) => self.tell_binder(binder::Input::Bound(key, is_done), now),
            Answer::Collected(uid) => {
                if let Some(collector) = &mut self.collector {
                    collector.owners.answered(&uid, is_settled, now);
                }
            }
            Answer::Emptied(name) => {
                if let Some(collector) = &mut self.collector {
                    collector.namespaces.answered(&name, is_settled, now);
                }
            }
            Answer::Created(set) => {
                if let Some(sets) = &mut self.replica_sets {
                    let pod = outcome.as_ref().ok().map(created);
                    self.effects.extend(by(Part::ReplicaSets, sets.created(&set, pod, now)));
                }
            }
        }
    }

    fn tell_kubelets(&mut self, input: kubelet::Input, now: Now) {
        if let Some(kubelets) = &mut self.kubelets {
            self.effects.extend(by(Part::Kubelet, kubelets.apply(input, now)));
        }
    }

    fn tell_binder(&mut self, input: binder::Input, now: Now) {
        if let Some(binder) = &mut self.binder {
            self.effects.extend(by(Part::Scheduler, binder.apply(input, now)));
        }
    }
}

fn revision(outcome: &Result<Identity, Status>) -> Option<u64> {
    outcome.as_ref().ok()?.resource_version.parse().ok()
}

fn created(pod: &Identity) -> (PodKey, &str) {
    (PodKey::new(&pod.namespace, &pod.name), &pod.uid)
}
