//! What is kept of Nodes and Pods: the fields that decide, nothing else.

use bailiff_model::intent::HealthTaint;
use bailiff_model::{Effect, Namespace, NodeName, NodeRef, NodeUid, PodName, PodRef, PodUid, ReadyStatus, ResourceVersion};
use bailiff_model::{Labels, Selector, Taint, Toleration, Wall, Zone};

/// What a Node says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFacts {
    /// `metadata.name`.
    pub name: NodeName,
    /// `metadata.uid`.
    pub uid: NodeUid,
    /// `metadata.resourceVersion`: the precondition of taint writes.
    pub resource_version: ResourceVersion,
    /// Its zone, by its labels (NL-020).
    pub zone: Zone,
    /// The label that takes its vote is present (NL-091).
    pub excluded_from_disruption: bool,
    /// Condition Ready.
    pub ready: ReadyStatus,
    /// When it became Ready, if it is, and if that was after its creation: until then it may have been granted.
    pub recovered_at: Option<Wall>,
    /// `spec.taints`, all of them, in order: a write replaces the list.
    pub taints: Vec<Taint>,
}

impl NodeFacts {
    /// The reference that outcomes carry.
    pub fn reference(&self) -> NodeRef {
        NodeRef {
            name: self.name.clone(),
            uid: self.uid.clone(),
            resource_version: self.resource_version.clone(),
        }
    }

    /// The health NoExecute taints that stand, in list order.
    pub fn health_taints(&self) -> impl Iterator<Item = (HealthTaint, &Taint)> {
        self.taints
            .iter()
            .filter_map(|taint| HealthTaint::of(taint).map(|health| (health, taint)))
    }

    /// True if `health` stands as NoSchedule: the counterpart that the taint-manager writes.
    pub fn has_no_schedule(&self, health: HealthTaint) -> bool {
        self.taints
            .iter()
            .any(|taint| taint.effect == Effect::NoSchedule && &*taint.key == health.key())
    }

    /// The NoExecute taints that stand, whoever set them.
    pub fn no_execute(&self) -> Vec<Taint> {
        self.standing().cloned().collect()
    }

    /// True if both justify the same: what pods are judged by has not changed.
    pub(crate) fn is_judged_as(&self, other: &Self) -> bool {
        (&self.uid, self.ready) == (&other.uid, other.ready) && self.standing().eq(other.standing())
    }

    fn standing(&self) -> impl Iterator<Item = &Taint> {
        self.taints.iter().filter(|taint| taint.effect == Effect::NoExecute)
    }
}

/// What a Pod says, as a read or the answer to a write returned it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodFacts {
    /// `metadata.namespace`.
    pub namespace: Namespace,
    /// `metadata.name`.
    pub name: PodName,
    /// `metadata.uid`.
    pub uid: PodUid,
    /// `metadata.resourceVersion`.
    pub resource_version: ResourceVersion,
    /// `metadata.generation`, 0 if absent.
    pub generation: i64,
    /// `spec.nodeName`, or empty.
    pub node: NodeName,
    /// `spec.tolerations`, in order.
    pub tolerations: Vec<Toleration>,
    /// Condition DisruptionTarget is True, for whatever reason.
    pub disruption_target: bool,
    /// Condition DisruptionTarget is True with our reason and message: nothing is left to mark (TE-073).
    pub marked: bool,
    /// `status.reason`, or empty.
    pub reason: String,
    /// `metadata.deletionTimestamp` is set.
    pub terminating: bool,
    /// `metadata.labels`.
    pub labels: Labels,
}

/// What a DaemonSet says; read in node mode only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaemonSetFacts {
    /// Namespace and name.
    pub key: DaemonSetKey,
    /// `spec.selector`.
    pub selector: Selector,
}

/// Namespace and name of a DaemonSet.
pub type DaemonSetKey = (Namespace, String);

impl PodFacts {
    /// The reference for the next request.
    pub fn reference(&self) -> PodRef {
        PodRef {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            uid: self.uid.clone(),
            resource_version: self.resource_version.clone(),
            disruption_target: self.disruption_target,
            generation: self.generation,
        }
    }
}

/// `wall` in whole seconds, as the API stores it (NL-066).
pub fn whole_seconds(wall: Wall) -> Wall {
    Wall::from_second(wall.as_second()).unwrap_or(wall)
}
