//! What one (DaemonSet, node) pair needs: the heart of manage (DS-100 to DS-109), rolling update (DS-134 to DS-138) and status
//! (DS-142), as one pure function of the pair.
//!
//! A judgement is what the pair adds to the DaemonSet's counters and candidate sets. Whatever is asked for and not yet seen counts
//! as if it had happened: a pod with a delete on its way is going, a pod being created is there and not available. So budgets hold
//! without waiting for caches to catch up (DS-050 to DS-056).

mod reason;
mod rolling;

use std::time::Duration;

use bailiff_model::rollout::WhyNot;
use bailiff_model::{Mono, NodeName, Now, PodUid, Stamp, Wall};

use crate::facts::{Availability, LABEL_GENERATION, Phase, Pod};
use crate::placement::Verdict;
use crate::policy::{Place, Rank};
use crate::retry::PodBackoff;

/// What all pairs of a DaemonSet are judged by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules<'a> {
    /// Hash label value of the current revision (DS-042).
    pub(crate) hash: &'a str,
    /// When the current revision was created.
    pub(crate) since: Wall,
    /// The template generation as its label value.
    pub(crate) generation: Option<&'a str>,
    pub(crate) min_ready: Duration,
    /// New pods are made beside old ones (DS-131).
    pub(crate) surging: bool,
    /// Old pods stay until someone deletes them (DS-140).
    pub(crate) on_delete: bool,
    /// A failed pod that waits holds up its replacement while surging too. Upstream's does not, so that a kubelet that rejects
    /// every pod gets them without a pause (DS-227).
    pub(crate) patient: bool,
    /// Nodes that were bad before the current revision use up no budget.
    pub(crate) exclude_unready: bool,
    /// Some nodes are to keep their old pods.
    pub(crate) partitioned: bool,
    /// No node without an available pod is left out of the budget.
    pub(crate) strict: bool,
    pub(crate) now: Now,
}

/// The pair.
#[derive(Clone, Debug)]
pub(crate) struct Facts<'a> {
    /// The node; `None` if there is none of that name.
    pub(crate) node: Option<Standing>,
    pub(crate) verdict: Verdict,
    /// All claimed pods with this target (DS-070).
    pub(crate) pods: &'a [Look<'a>],
    /// A pod is being created and not seen yet.
    pub(crate) creating: bool,
    /// A pod there is about to be adopted, so that nothing can be said yet.
    pub(crate) blocked: bool,
    pub(crate) backoff: Option<PodBackoff>,
    /// Its place in the order of the rollout.
    pub(crate) rank: Rank,
    /// The partition reaches to it: its old pod stays.
    pub(crate) kept: bool,
    /// What the rollout has deleted here, as long as nothing came of it.
    pub(crate) rolled: Rolled,
}

/// What a pair has to know of its node besides the verdict on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    /// Since when the node is not Ready; `None` if it is.
    pub(crate) bad_since: Option<Stamp>,
}

/// What a rollout has deleted on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Rolled {
    /// Nothing.
    #[default]
    Nothing,
    /// A pod that was not available.
    Unavailable,
    /// A pod that was.
    Available,
}

/// A pod and what is under way with it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) work: Work,
}

impl Look<'_> {
    /// The class that deletes the pod, if nothing is under way with it.
    fn if_free(&self, class: impl FnOnce(PodUid) -> Class) -> Class {
        if self.work == Work::None {
            class(self.pod.uid.clone())
        } else {
            Class::Idle
        }
    }
}

/// What is under way with a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Nothing.
    None,
    /// Its deletion was asked for and is not answered, or the answer was lost: it may come to nothing.
    Asked,
    /// Its deletion was accepted and is not seen yet.
    Going,
    /// Something that has to end before it can be deleted.
    Busy,
}

/// Why a pod is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// One too many, misplaced, or old.
    Plain,
    /// It failed (DS-105).
    Failed,
    /// It succeeded (DS-101).
    Succeeded,
}

/// What a rolling update may do with the pair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Class {
    /// Not part of it.
    #[default]
    Idle,
    /// Without surge: uses up one of maxUnavailable.
    Unavailable,
    /// Old pod to be deleted at once. Without surge it uses up one of maxUnavailable.
    Replace(PodUid),
    /// Old and available: may be deleted within maxUnavailable.
    Candidate(PodUid),
    /// With surge: uses up one of maxSurge.
    Surged,
    /// Old and not available: gets a new pod beside it, outside of maxSurge.
    CreateNow,
    /// Old and available: may get a new pod beside it within maxSurge.
    SurgeCandidate,
    /// Old, available and misplaced: goes once enough others are available.
    DeleteLate(PodUid),
    /// Old pod on a node that does not exist (DS-139).
    Lost,
}

/// What the pair adds to the counters of the status (DS-142).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) desired: bool,
    pub(crate) current: bool,
    pub(crate) ready: bool,
    pub(crate) available: bool,
    pub(crate) updated: bool,
    pub(crate) misscheduled: bool,
}

/// A pod that should be created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// None.
    #[default]
    Nothing,
    /// The node lacks one, and no rollout is to blame.
    Missing,
    /// In place of one that a rollout has deleted.
    Replacement,
}

/// The outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Judgement {
    pub(crate) share: Share,
    /// A pod should be created.
    pub(crate) create: Wanted,
    /// One is being created and not seen yet.
    pub(crate) creating: bool,
    /// Pods that manage deletes, whatever the strategy.
    pub(crate) deletes: Vec<(PodUid, Cause)>,
    pub(crate) class: Class,
    /// It uses up one of maxUnavailable, or one of maxSurge.
    pub(crate) uses: bool,
    /// The node went bad after it had got a current pod, and that counts.
    pub(crate) broken: bool,
    /// There should be a pod, and there is an old one and no new one.
    pub(crate) old: bool,
    /// Its place in the order of the rollout.
    pub(crate) rank: Rank,
    /// With surge: an available pod serves the node (DS-138).
    pub(crate) served: bool,
    /// Why the node has no available current pod.
    pub(crate) reason: Option<WhyNot>,
    /// When to look again.
    pub(crate) wake: Option<Mono>,
}

impl Judgement {
    /// True if the pod is to go: by manage, or by a rollout if there is one.
    pub(crate) fn wants_gone(&self, pod: &Pod, is_rolling: bool) -> bool {
        let is_old = match &self.class {
            Class::Replace(uid) | Class::Candidate(uid) | Class::DeleteLate(uid) => *uid == pod.uid,
            _ => false,
        };
        is_deleted(self, pod) || (is_rolling && is_old)
    }

    /// True if a pod is to be created: by manage, or beside an old one by a rollout if there is one.
    pub(crate) fn wants_pod(&self, is_rolling: bool) -> bool {
        let is_surging = matches!(self.class, Class::CreateNow | Class::SurgeCandidate);
        self.create != Wanted::Nothing || (is_rolling && is_surging)
    }
}

impl Place {
    /// Where a node was when it was judged.
    pub(crate) fn of(node: &NodeName, judgement: &Judgement) -> Self {
        let (rank, node) = (judgement.rank.clone(), node.clone());
        Self { rank, node }
    }
}

/// Judges a pair.
pub(crate) fn judge(rules: &Rules<'_>, facts: &Facts<'_>) -> Judgement {
    // DS-071
    let mut grouped: Vec<Look<'_>> = facts
        .pods
        .iter()
        .copied()
        .filter(|look| !(look.pod.is_terminal() && look.pod.deleting))
        .collect();
    grouped.sort_by(|a, b| order(a.pod).cmp(&order(b.pod)));
    let mut judgement = Judgement {
        share: share(rules, facts, &grouped),
        creating: facts.creating,
        rank: facts.rank.clone(),
        ..Judgement::default()
    };
    let is_live = |look: &Look<'_>| !look.pod.deleting && !matches!(look.work, Work::Asked | Work::Going);
    let live: Vec<Look<'_>> = grouped.iter().copied().filter(is_live).collect();
    if !facts.blocked {
        manage(rules, facts, &grouped, &live, &mut judgement);
    }
    let stays = |look: &Look<'_>| !is_deleted(&judgement, look.pod);
    let staying: Vec<Look<'_>> = live.iter().copied().filter(stays).collect();
    rolling::roll(rules, facts, &grouped, &staying, &mut judgement);
    rolling::use_up(rules, facts, &staying, &mut judgement);
    let staying: Vec<&Pod> = staying.iter().map(|look| look.pod).collect();
    judgement.reason = reason::of(rules, facts, &grouped, &staying, &judgement);
    judgement.wake = reason::wake(rules, facts, &grouped, judgement.wake);
    judgement
}

/// DS-103: bound before unbound, then older, then by name.
fn order(pod: &Pod) -> (bool, Wall, &str) {
    (!pod.bound, pod.created.wall(), pod.name.as_str())
}

fn is_deleted(judgement: &Judgement, pod: &Pod) -> bool {
    judgement.deletes.iter().any(|(uid, _)| *uid == pod.uid)
}

/// DS-130
fn is_updated(rules: &Rules<'_>, pod: &Pod) -> bool {
    let has_hash = !rules.hash.is_empty() && pod.hash() == rules.hash;
    let generation = pod.labels.get(LABEL_GENERATION);
    has_hash
        || rules
            .generation
            .is_some_and(|wanted| generation.is_some_and(|label| **label == *wanted))
}

fn is_available(rules: &Rules<'_>, pod: &Pod) -> bool {
    pod.availability(rules.min_ready, rules.now.wall) == Availability::Yes
}

/// DS-142, DS-143
fn share(rules: &Rules<'_>, facts: &Facts<'_>, grouped: &[Look<'_>]) -> Share {
    let first = grouped.first().map(|look| look.pod);
    if facts.node.is_none() {
        return Share::default();
    }
    if !facts.verdict.run {
        return Share {
            misscheduled: first.is_some(),
            ..Share::default()
        };
    }
    Share {
        desired: true,
        current: first.is_some(),
        ready: first.is_some_and(|pod| pod.ready),
        available: first.is_some_and(|pod| is_available(rules, pod)),
        updated: first.is_some_and(|pod| is_updated(rules, pod)),
        misscheduled: false,
    }
}

// === manage ===

fn manage(rules: &Rules<'_>, facts: &Facts<'_>, grouped: &[Look<'_>], live: &[Look<'_>], judgement: &mut Judgement) {
    if facts.node.is_none() {
        // DS-109
        let unbound = live.iter().filter(|look| !look.pod.bound);
        return delete_all(unbound, judgement);
    }
    if !facts.verdict.keep {
        // DS-107
        return delete_all(live.iter(), judgement);
    }
    if grouped.is_empty() {
        // DS-100, DS-108
        if facts.verdict.run && !facts.creating {
            judgement.create = match facts.rolled {
                Rolled::Nothing => Wanted::Missing,
                Rolled::Unavailable | Rolled::Available => Wanted::Replacement,
            };
        }
        return;
    }
    let running = sort_out(rules, facts, live, judgement);
    if rules.surging {
        // A pod whose deletion may still come to nothing would be one too many beside a new one.
        let is_sure = grouped.iter().all(|look| look.work != Work::Asked);
        let may_create = !facts.creating && is_sure && !(rules.patient && judgement.wake.is_some());
        if running.is_empty() && facts.verdict.run && may_create {
            judgement.create = Wanted::Missing;
        }
        manage_surge(rules, &running, judgement);
    } else {
        // DS-102
        delete_all(running.iter().skip(1), judgement);
    }
}

fn delete_all<'a>(looks: impl Iterator<Item = &'a Look<'a>>, judgement: &mut Judgement) {
    let free = looks.filter(|look| look.work == Work::None);
    judgement
        .deletes
        .extend(free.map(|look| (look.pod.uid.clone(), Cause::Plain)));
}

/// Deletes finished pods (DS-101, DS-105, DS-106) and returns those that run.
fn sort_out<'a>(rules: &Rules<'_>, facts: &Facts<'_>, live: &[Look<'a>], judgement: &mut Judgement) -> Vec<Look<'a>> {
    let mut wait = facts.backoff.and_then(|backoff| backoff.wait(rules.now.mono));
    let mut running = Vec::new();
    for look in live {
        match look.pod.phase {
            Phase::Active => running.push(*look),
            Phase::Succeeded if look.work == Work::None => judgement.deletes.push((look.pod.uid.clone(), Cause::Succeeded)),
            Phase::Failed if look.work == Work::None => match wait {
                Some(delay) => judgement.wake = Some(rules.now.mono + delay),
                None => {
                    judgement.deletes.push((look.pod.uid.clone(), Cause::Failed));
                    // The delete opens the next window: one per window and node.
                    let next = PodBackoff::advance(facts.backoff, rules.now.mono);
                    wait = next.wait(rules.now.mono);
                }
            },
            Phase::Succeeded | Phase::Failed => {}
        }
    }
    running
}

/// DS-104
fn manage_surge(rules: &Rules<'_>, running: &[Look<'_>], judgement: &mut Judgement) {
    if running.len() < 2 {
        return;
    }
    let is_new = |look: &Look<'_>| look.pod.hash() == rules.hash;
    let new = running.iter().position(is_new);
    // The oldest; of several that were created within the same second, which names would decide among by chance, one that serves.
    let old = running
        .iter()
        .enumerate()
        .filter(|(_, look)| !is_new(look))
        .min_by_key(|(index, look)| (!look.pod.bound, look.pod.created, !is_available(rules, look.pod), *index));
    let old = old.map(|(index, _)| index);
    let others = running
        .iter()
        .enumerate()
        .filter(|(index, _)| Some(*index) != new && Some(*index) != old);
    delete_all(others.map(|(_, look)| look), judgement);
    if let (Some(new), Some(old)) = (new, old) {
        let (new, old) = (&running[new], &running[old]);
        if !old.pod.ready || is_available(rules, new.pod) {
            delete_all(std::iter::once(old), judgement);
        }
    }
}

#[cfg(test)]
mod tests;
