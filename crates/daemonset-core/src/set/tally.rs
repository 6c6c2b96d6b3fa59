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

    /// Takes away what a pair gave and adds what it gives. Sets in which it stays are left alone: they have a place for each node, and
    /// most judgements that change leave the node where it is.
    pub(crate) fn change(&mut self, node: &NodeName, old: &Judgement, new: &Judgement) {
        self.count(old, |counter| *counter -= 1);
        self.count(new, |counter| *counter += 1);
        let has_moved = old.rank != new.rank;
        if has_moved || old.create != new.create {
            if let Some(places) = self.wanting(old.create) {
                places.remove(&Place::of(node, old));
            }
            if let Some(places) = self.wanting(new.create) {
                places.insert(Place::of(node, new));
            }
        }
        if old.deletes != new.deletes {
            for (uid, _) in &old.deletes {
                self.delete.remove(uid);
            }
            for (uid, cause) in &new.deletes {
                self.delete.insert(uid.clone(), (node.clone(), *cause));
            }
        }
        if has_moved || old.class != new.class {
            self.leave_class(node, old);
            self.enter_class(node, new);
        }
        if old.reason != new.reason {
            self.change_reason(node, old.reason, new.reason);
        }
    }

    fn wanting(&mut self, wanted: Wanted) -> Option<&mut BTreeSet<Place>> {
        match wanted {
            Wanted::Nothing => None,
            Wanted::Missing => Some(&mut self.create),
            Wanted::Replacement => Some(&mut self.recreate),
        }
    }

    fn leave_class(&mut self, node: &NodeName, judgement: &Judgement) {
        let place = || Place::of(node, judgement);
        match &judgement.class {
            Class::Replace(_) => drop(self.replace.remove(&place())),
            Class::Candidate(_) => drop(self.candidates.remove(&place())),
            Class::DeleteLate(_) => drop(self.late.remove(&place())),
            Class::CreateNow => drop(self.create_now.remove(&place())),
            Class::SurgeCandidate => drop(self.surge_candidates.remove(&place())),
            Class::Idle | Class::Unavailable | Class::Surged | Class::Lost => {}
        }
    }

    fn enter_class(&mut self, node: &NodeName, judgement: &Judgement) {
        let place = || Place::of(node, judgement);
        match &judgement.class {
            Class::Replace(uid) => drop(self.replace.insert(place(), uid.clone())),
            Class::Candidate(uid) => drop(self.candidates.insert(place(), uid.clone())),
            Class::DeleteLate(uid) => drop(self.late.insert(place(), uid.clone())),
            Class::CreateNow => drop(self.create_now.insert(place())),
            Class::SurgeCandidate => drop(self.surge_candidates.insert(place())),
            Class::Idle | Class::Unavailable | Class::Surged | Class::Lost => {}
        }
    }

    fn change_reason(&mut self, node: &NodeName, old: Option<WhyNot>, new: Option<WhyNot>) {
        if let Some(old) = old
            && let Some(nodes) = self.reasons.get_mut(&old)
        {
            *nodes -= 1;
            if *nodes == 0 {
                self.reasons.remove(&old);
            }
        }
        if let Some(new) = new {
            *self.reasons.entry(new).or_default() += 1;
        }
        match (old, new) {
            (None, Some(_)) => drop(self.lacking.insert(node.clone())),
            (Some(_), None) => drop(self.lacking.remove(node)),
            (None, None) | (Some(_), Some(_)) => {}
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
