//! Counters and candidate sets of a DaemonSet, kept up to date pair by pair.

use std::collections::{BTreeMap, BTreeSet};

use bailiff_model::rollout::{Counts, WhyNot};
use bailiff_model::{NodeName, PodUid};

use crate::pair::{Cause, Class, Judgement, Wanted};
use crate::policy::Place;

/// Sums over all pairs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    counts: Counts,
    /// Without surge: nodes that use up maxUnavailable. With surge: nodes that use up maxSurge.
    pub(crate) used: u32,
    /// Those of them that do so without an old pod that could be deleted at once.
    pub(crate) taken: u32,
    /// Nodes that went bad with a current pod, if they count.
    pub(crate) broken: u32,
    /// With surge: nodes that an available pod serves.
    pub(crate) served: u32,
    /// With surge: old pods on nodes that do not exist.
    pub(crate) lost: u32,
    /// Nodes that manage creates a pod for.
    pub(crate) create: BTreeSet<Place>,
    /// Nodes whose old pod a rollout has deleted, which get a new one.
    pub(crate) recreate: BTreeSet<Place>,
    /// Pods that manage deletes.
    pub(crate) delete: BTreeMap<PodUid, (NodeName, Cause)>,
    /// Old pods to delete at once.
    pub(crate) replace: BTreeMap<Place, PodUid>,
    /// Old pods that may go within maxUnavailable.
    pub(crate) candidates: BTreeMap<Place, PodUid>,
    /// Nodes that get a new pod beside the old one at once.
    pub(crate) create_now: BTreeSet<Place>,
    /// Nodes that may get one within maxSurge.
    pub(crate) surge_candidates: BTreeSet<Place>,
    /// Misplaced old pods that go late.
    pub(crate) late: BTreeMap<Place, PodUid>,
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
        let place = Place::of(node, judgement);
        match judgement.create {
            Wanted::Nothing => {}
            Wanted::Missing => drop(self.create.insert(place.clone())),
            Wanted::Replacement => drop(self.recreate.insert(place.clone())),
        }
        for (uid, cause) in &judgement.deletes {
            self.delete.insert(uid.clone(), (node.clone(), *cause));
        }
        match &judgement.class {
            Class::Replace(uid) => drop(self.replace.insert(place, uid.clone())),
            Class::Candidate(uid) => drop(self.candidates.insert(place, uid.clone())),
            Class::DeleteLate(uid) => drop(self.late.insert(place, uid.clone())),
            Class::CreateNow => drop(self.create_now.insert(place)),
            Class::SurgeCandidate => drop(self.surge_candidates.insert(place)),
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
        let place = Place::of(node, judgement);
        match judgement.create {
            Wanted::Nothing => {}
            Wanted::Missing => drop(self.create.remove(&place)),
            Wanted::Replacement => drop(self.recreate.remove(&place)),
        }
        for (uid, _) in &judgement.deletes {
            self.delete.remove(uid);
        }
        match &judgement.class {
            Class::Replace(_) => drop(self.replace.remove(&place)),
            Class::Candidate(_) => drop(self.candidates.remove(&place)),
            Class::DeleteLate(_) => drop(self.late.remove(&place)),
            Class::CreateNow => drop(self.create_now.remove(&place)),
            Class::SurgeCandidate => drop(self.surge_candidates.remove(&place)),
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
        let is_replaced = matches!(judgement.class, Class::Replace(_));
        for (counter, counted) in [
            (&mut counts.desired, share.desired),
            (&mut counts.current, share.current),
            (&mut counts.ready, share.ready),
            (&mut counts.available, share.available),
            (&mut counts.updated, share.updated),
            (&mut counts.misscheduled, share.misscheduled),
            (&mut self.used, judgement.uses),
            (&mut self.taken, judgement.uses && !is_replaced),
            (&mut self.broken, judgement.broken),
            (&mut self.served, judgement.served),
            (&mut self.lost, is_lost),
        ] {
            if counted {
                step(counter);
            }
        }
    }
}
