//! Whether a pod can be placed on a node, and in which words not.

use std::collections::BTreeMap;

use bailiff_model::{Effect, NodeName, ReadyStatus, Taint, wellknown};

use crate::facts::{NodeFacts, Placement};
use crate::resources::{Allocatable, Resources};

/// A node, as far as placing pods looks at it.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    pub name: NodeName,
    pub labels: BTreeMap<String, String>,
    pub unschedulable: bool,
    /// Those that keep pods away.
    pub taints: Vec<Taint>,
    pub is_ready: bool,
    pub allocatable: Allocatable,
}

/// Why a pod does not fit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unfit {
    NotReady,
    Unschedulable,
    Tainted(Taint),
    Selector,
    Full(&'static str),
}

// === impl Candidate ===

impl Candidate {
    /// The candidate that a Node is.
    pub fn of(facts: &NodeFacts) -> Self {
        let keeps_away = |taint: &&Taint| matches!(taint.effect, Effect::NoSchedule | Effect::NoExecute);
        Self {
            name: facts.name.clone(),
            labels: facts.labels.clone(),
            unschedulable: facts.unschedulable,
            taints: facts.taints.iter().filter(keeps_away).cloned().collect(),
            is_ready: facts.condition(wellknown::CONDITION_READY) == ReadyStatus::True,
            allocatable: facts.allocatable,
        }
    }

    /// Judges a pod that wants `placement` and asks for `requests` where `used` is taken.
    pub fn judge(&self, placement: &Placement, requests: Resources, used: Resources) -> Result<(), Unfit> {
        // Daemon pods go to nodes that are not ready; taints alone keep them away, as in Kubernetes.
        if !self.is_ready && placement.target.is_none() {
            return Err(Unfit::NotReady);
        }
        let tolerates = |taint: &Taint| placement.tolerations.iter().any(|toleration| toleration.matches(taint));
        if self.unschedulable && !tolerates(&Taint::new(wellknown::TAINT_UNSCHEDULABLE, Effect::NoSchedule)) {
            return Err(Unfit::Unschedulable);
        }
        if let Some(taint) = self.taints.iter().find(|taint| !tolerates(taint)) {
            return Err(Unfit::Tainted(taint.clone()));
        }
        let is_selected = placement
            .selector
            .iter()
            .all(|(key, value)| self.labels.get(key) == Some(value));
        let has_affinity = placement
            .affinity
            .as_ref()
            .is_none_or(|affinity| affinity.matches(&self.name, &self.labels));
        if !is_selected || !has_affinity {
            return Err(Unfit::Selector);
        }
        match self.allocatable.shortage(used, requests) {
            Some(short) => Err(Unfit::Full(short.resource)),
            None => Ok(()),
        }
    }
}

// === impl Unfit ===

impl Unfit {
    /// In the scheduler's words.
    pub fn explain(&self) -> String {
        match self {
            Self::NotReady => "node(s) were not ready".to_owned(),
            Self::Unschedulable => "node(s) were unschedulable".to_owned(),
            Self::Tainted(taint) => format!("node(s) had untolerated taint {{{}: {}}}", taint.key, taint.value),
            Self::Selector => "node(s) didn't match Pod's node affinity/selector".to_owned(),
            Self::Full("pods") => "Too many pods".to_owned(),
            Self::Full(resource) => format!("Insufficient {resource}"),
        }
    }
}

/// The scheduler's sentence about a pod that fits none of `nodes` nodes.
pub fn summary(nodes: usize, reasons: &BTreeMap<String, usize>) -> String {
    if nodes == 0 {
        return "no nodes available to schedule pods".to_owned();
    }
    let parts: Vec<String> = reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    format!("0/{nodes} nodes are available: {}.", parts.join(", "))
}
