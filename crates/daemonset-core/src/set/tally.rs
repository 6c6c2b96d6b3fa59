//! Counters and candidate sets of a DaemonSet, kept up to date pair by pair.

use std::collections::{BTreeMap, BTreeSet};

use bailiff_model::rollout::{Counts, WhyNot};
use bailiff_model::{NodeName, PodUid};

use crate::pair::{Cause, Class, Judgement};

/// Sums over all pairs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    counts: Counts,
    /// Without surge: nodes that use up maxUnavailable. With surge: nodes that use up maxSurge.
    pub(crate) used: u32,
    /// With surge: nodes that an available pod serves.
    pub(crate) served: u32,
    /// With surge: old pods on nodes that do not exist.
    pub(crate) lost: u32,
    /// Nodes that manage creates a pod for.
    pub(crate) create: BTreeSet<NodeName>,
    /// Pods that manage deletes.
    pub(crate) delete: BTreeMap<PodUid, (NodeName, Cause)>,
    /// Old pods to delete at once.
    pub(crate) replace: BTreeMap<NodeName, PodUid>,
    /// Old pods that may go within maxUnavailable.
    pub(crate) candidates: BTreeMap<NodeName, PodUid>,
    /// Nodes that get a new pod beside the old one at once.
    pub(crate) create_now: BTreeSet<NodeName>,
    /// Nodes that may get one within maxSurge.
    pub(crate) surge_candidates: BTreeSet<NodeName>,
    /// Misplaced old pods that go late.
    pub(crate) late: BTreeMap<NodeName, PodUid>,
    /// Nodes by reason.
    pub(crate) reasons: BTreeMap<WhyNot, u32>,
    /// Nodes with a reason.
    pub(crate) lacking: BTreeSet<NodeName>,
}

impl Tally {
    /// The seven counters (DS-142).
    pub(crate) fn counts(&self) -> Counts {
        Counts {
            unavailable: self.counts.desired.saturating_sub(self.counts.available),
            ..self.counts
        }
    }

    /// Adds what a pair gives.
    pub(crate) fn add(&mut self, node: &NodeName, judgement: &Judgement) {
        self.count(judgement, |counter| *counter += 1);
        if judgement.create {
            self.create.insert(node.clone());
        }
        for (uid, cause) in &judgement.deletes {
            self.delete.insert(uid.clone(), (node.clone(), *cause));
        }
        match &judgement.class {
            Class::Replace(uid) => drop(self.replace.insert(node.clone(), uid.clone())),
            Class::Candidate(uid) => drop(self.candidates.insert(node.clone(), uid.clone())),
            Class::DeleteLate(uid) => drop(self.late.insert(node.clone(), uid.clone())),
            Class::CreateNow => drop(self.create_now.insert(node.clone())),
            Class::SurgeCandidate => drop(self.surge_candidates.insert(node.clone())),
            Class::Idle | Class::Unavailable | Class::Surged | Class::Lost => {}
        }
        if let Some(reason) = judgement.reason {
            *self.reasons.entry(reason).or_default() += 1;
            self.lacking.insert(node.clone());
        }
    }

    /// Takes away what a pair gave.
    pub(crate) fn remove(&mut self, node: &NodeName, judgement: &Judgement) {
        self.count(judgement, |counter| *counter -= 1);
        if judgement.create {
            self.create.remove(node);
        }
        for (uid, _) in &judgement.deletes {
            self.delete.remove(uid);
        }
        match &judgement.class {
            Class::Replace(_) => drop(self.replace.remove(node)),
            Class::Candidate(_) => drop(self.candidates.remove(node)),
            Class::DeleteLate(_) => drop(self.late.remove(node)),
            Class::CreateNow => drop(self.create_now.remove(node)),
            Class::SurgeCandidate => drop(self.surge_candidates.remove(node)),
            Class::Idle | Class::Unavailable | Class::Surged | Class::Lost => {}
        }
        if let Some(reason) = judgement.reason {
            if let Some(nodes) = self.reasons.get_mut(&reason) {
                *nodes -= 1;
                if *nodes == 0 {
                    self.reasons.remove(&reason);
                }
            }
            self.lacking.remove(node);
        }
    }

    fn count(&mut self, judgement: &Judgement, step: impl Fn(&mut u32)) {
        let share = judgement.share;
        let counts = &mut self.counts;
        let is_lost = judgement.class == Class::Lost;
        let uses = matches!(judgement.class, Class::Unavailable | Class::Surged | Class::Replace(_));
        for (counter, counted) in [
            (&mut counts.desired, share.desired),
            (&mut counts.current, share.current),
            (&mut counts.ready, share.ready),
            (&mut counts.available, share.available),
            (&mut counts.updated, share.updated),
            (&mut counts.misscheduled, share.misscheduled),
            (&mut self.used, uses),
            (&mut self.served, judgement.served),
            (&mut self.lost, is_lost),
        ] {
            if counted {
                step(counter);
            }
        }
    }
}
