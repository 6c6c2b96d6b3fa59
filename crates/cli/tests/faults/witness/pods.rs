//! Pods: those that may be evicted, and those of DaemonSets.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;

use super::{Change, Seen, condition, revision, text};

/// The annotation in a DaemonSet's template that says which edit a pod is of.
pub const EDIT: &str = "example.com/edit";

/// Deletion of a pod was asked for.
#[derive(Clone, Copy, Debug)]
pub struct Deletion {
    pub moment: u64,
    pub seen: Timestamp,
    pub revision: u64,
}

/// A pod as it was seen.
#[derive(Clone, Debug, Default)]
pub struct Pod {
    pub name: String,
    pub node: String,
    /// The DaemonSet that it is of.
    pub daemon_set: Option<String>,
    /// Which edit of its DaemonSet it is of.
    pub edit: String,
    /// Moment in which it appeared.
    pub appeared: u64,
    pub deleted: Option<Deletion>,
    /// Moment in which it was gone, or had ended.
    pub ended: Option<u64>,
    /// When its deletion was asked for, as the API says it: more than one says that it was asked again.
    pub deletions: BTreeSet<String>,
    /// Since when it had the condition DisruptionTarget, as the API says it.
    pub targets: BTreeSet<String>,
    /// Moments in which it became ready or not.
    pub ready: Vec<(u64, bool)>,
}

impl Pod {
    /// It is there, and nobody has asked for its end.
    pub fn is_live(&self) -> bool {
        self.deleted.is_none() && self.ended.is_none()
    }

    /// It was there, whether it ran or not, right before this moment.
    pub fn was_there(&self, moment: u64) -> bool {
        self.appeared < moment && self.ended.is_none_or(|at| at >= moment)
    }

    /// It was ready, and to stay, right before this moment.
    pub fn was_available(&self, moment: u64) -> bool {
        let was = |at: Option<u64>| at.is_some_and(|at| at < moment);
        let ready = self.ready.iter().rev().find(|(at, _)| *at < moment);
        ready.is_some_and(|(_, is_ready)| *is_ready) && !was(self.ended) && !was(self.deleted.map(|deletion| deletion.moment))
    }
}

impl Seen {
    pub(super) fn pod(&mut self, change: &Change<'_>) {
        let object = change.object;
        self.moment += 1;
        let moment = self.moment;
        let pod = self.pods.entry(text(&object["metadata"]["uid"])).or_insert_with(|| Pod {
            name: text(&object["metadata"]["name"]),
            daemon_set: daemon_set(object),
            edit: text(&object["metadata"]["annotations"][EDIT]),
            appeared: moment,
            ..Pod::default()
        });
        if pod.node.is_empty() {
            pod.node = node_of(object);
        }
        let target = condition(object, "DisruptionTarget");
        if target["status"] == "True" {
            // Its kubelet copies it to other generations of the pod.
            pod.targets.insert(text(&target["lastTransitionTime"]));
        }
        let deletion = &object["metadata"]["deletionTimestamp"];
        if change.is_gone || !deletion.is_null() {
            pod.deleted.get_or_insert(Deletion {
                moment,
                seen: change.at,
                revision: revision(object),
            });
        }
        // A kubelet that ends a pod for good sets it anew.
        if !change.is_gone && object["metadata"]["deletionGracePeriodSeconds"] != 0 && !deletion.is_null() {
            pod.deletions.insert(text(deletion));
        }
        let has_ended = ["Failed", "Succeeded"]
            .iter()
            .any(|phase| object["status"]["phase"] == *phase);
        if change.is_gone || has_ended {
            pod.ended.get_or_insert(moment);
        }
        let is_ready = condition(object, "Ready")["status"] == "True";
        if pod.ready.last().is_none_or(|(_, was)| *was != is_ready) {
            pod.ready.push((moment, is_ready));
        }
    }
}

fn daemon_set(object: &Value) -> Option<String> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    let owner = owners.iter().find(|owner| owner["kind"] == "DaemonSet")?;
    Some(text(&owner["name"]))
}

/// A pod of a DaemonSet names its node before it is bound.
fn node_of(object: &Value) -> String {
    let bound = text(&object["spec"]["nodeName"]);
    if !bound.is_empty() {
        return bound;
    }
    let required = &object["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    text(&required["nodeSelectorTerms"][0]["matchFields"][0]["values"][0])
}
