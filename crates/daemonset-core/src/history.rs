//! Revisions of a DaemonSet as a step function (DS-150 to DS-162): `(what is known, last answer) -> next request`.
//!
//! One request at a time is under way; its answer changes what is known, and the next step is decided from that. So the order of
//! upstream's pass is kept (release, adopt, label, create or dedupe, renumber), and a crash between two steps costs nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bailiff_model::{ResourceVersion, Wall};
use serde_json::Value;

use crate::effect::{Request, RequestId, RevisionChange, RevisionDraft};
use crate::facts::{Controller, DaemonSet, LABEL_HASH, Revision};
use crate::hash;
use crate::retry::Retry;

/// Longest value of a label.
const LONGEST_LABEL: usize = 63;

/// Longest name of a revision: a DNS subdomain.
const LONGEST_NAME: usize = 253;

/// The revision that new pods belong to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Current {
    pub(crate) name: Arc<str>,
    /// Value of its hash label, whatever it says (DS-042).
    pub(crate) hash: Arc<str>,
    pub(crate) number: i64,
    pub(crate) created: Wall,
}

impl Current {
    fn of(revision: &Revision) -> Self {
        Self {
            name: revision.name.clone(),
            hash: revision.hash().cloned().unwrap_or_default(),
            number: revision.number,
            created: revision.created,
        }
    }
}

/// What a step is decided on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    pub(crate) ds: &'a DaemonSet,
    /// Pods that count, by value of their hash label.
    pub(crate) pods_by_hash: &'a BTreeMap<Arc<str>, u32>,
    /// Every pod with another hash is relabelled, as upstream does, not only those of the duplicates (DS-160, DS-234).
    pub(crate) relabel_all: bool,
}

/// What comes next.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Next {
    /// Everything is as it should be.
    Settled(Current),
    /// Send this; nothing else happens before the answer.
    Ask(Step, Request),
    /// Give pods with one of these hashes the hash `to`; come back when there are none.
    Relabel { from: BTreeSet<Arc<str>>, to: Arc<str> },
}

/// The request that is under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Reads the DaemonSet before anything is adopted (DS-063).
    ReadForAdoption,
    /// Changes the revision of this name and uid.
    Change { name: Arc<str>, uid: Arc<str> },
    /// Lets the revision of this name and uid go.
    Release { name: Arc<str>, uid: Arc<str> },
    /// Creates the current revision under this name.
    Create { name: Arc<str> },
    /// Reads the revision that has the name already (DS-158).
    ReadExisting,
    /// Reads the DaemonSet before its collision count is raised.
    ReadForCollision,
    /// Raises the collision count.
    RaiseCollisionCount,
    /// Deletes a duplicate of this name and uid (DS-160).
    Delete { name: Arc<str>, uid: Arc<str> },
    /// Deletes an old revision of this name and uid (DS-161).
    Clean { name: Arc<str>, uid: Arc<str> },
}

/// What is remembered between steps. Nothing of it survives a restart, and nothing of it has to.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    pub(crate) busy: bool,
    /// Over once the history is settled: a step that fails may come after others that do not.
    pub(crate) retry: Retry,
    /// The last step was not asked of any server: this process does not lead, or only observes.
    pub(crate) is_unsent: bool,
    /// The step that is under way deletes a superfluous revision, which may wait long for its turn; `None` once it is taken back.
    pub(crate) cleaning: Option<RequestId>,
    /// Of deleting superfluous revisions, which holds nothing up.
    pub(crate) clean_retry: Retry,
    follow: Follow,
    /// The live DaemonSet allowed adoption; used up by the claims that follow (DS-063).
    may_adopt: bool,
    /// The name of the present template that was asked for last (DS-158): an answer about another one is void.
    tried: Option<Tried>,
    /// The uid of a revision of the current data under our name that is not ours to claim (DS-158): current for as long as it is there.
    borrowed: Option<Arc<str>>,
    /// Uids of revisions that the server does not let go of: they are let be (DS-065, DS-208).
    kept: BTreeSet<Arc<str>>,
}

/// A name that was asked for.
#[derive(Clone, Copy, Debug)]
struct Tried {
    collision_count: Option<i32>,
}

/// What an answer made necessary.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Follow {
    #[default]
    Nothing,
    /// The name is taken: look by whom.
    ReadExisting(Arc<str>),
    /// It is taken by other data: look at the live DaemonSet.
    ReadDaemonSet,
    /// Raise the collision count of the DaemonSet at this version.
    Raise(ResourceVersion, i32),
}

/// How a step ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ended<'a> {
    /// As wanted.
    Done,
    /// With this revision.
    Revision(&'a Revision),
    /// With the live DaemonSet.
    DaemonSet(&'a DaemonSet),
    /// A revision of that name exists.
    AlreadyExists,
    /// The object is not there.
    NotFound,
    /// It will never be accepted.
    Invalid,
    /// Otherwise.
    Failed,
}

impl History {
    /// Forgets what belongs to a template that is no longer current.
    pub(crate) fn template_changed(&mut self) {
        self.follow = Follow::Nothing;
        self.borrowed = None;
        self.tried = None;
        self.retry.reset();
    }

    /// True if the revision of this uid is current, though it is not ours.
    pub(crate) fn borrows(&self, uid: &str) -> bool {
        self.borrowed.as_deref() == Some(uid)
    }

    /// Decides the next step over the revisions of the namespace.
    pub(crate) fn next<'a>(&mut self, view: &View<'a>, mut revisions: impl Iterator<Item = &'a Revision> + Clone) -> Next {
        match std::mem::take(&mut self.follow) {
            Follow::Nothing => {}
            Follow::ReadExisting(name) => return Next::Ask(Step::ReadExisting, Request::ReadRevision { name }),
            Follow::ReadDaemonSet => return Next::Ask(Step::ReadForCollision, Request::ReadDaemonSet),
            Follow::Raise(version, to) => {
                return Next::Ask(Step::RaiseCollisionCount, Request::RaiseCollisionCount { version, to });
            }
        }
        let claims = Claims::sort(view.ds, revisions.clone());
        let foreign = claims.foreign.iter().find(|revision| !self.kept.contains(&revision.uid));
        if let Some(revision) = foreign {
            return change(revision, RevisionChange::Release);
        }
        if let Some(revision) = claims.orphans.first() {
            if !self.may_adopt {
                return Next::Ask(Step::ReadForAdoption, Request::ReadDaemonSet);
            }
            return change(revision, RevisionChange::Adopt);
        }
        self.may_adopt = false;
        if let Some(revision) = claims.mine.iter().find(|revision| revision.hash().is_none()) {
            // DS-154
            return change(revision, RevisionChange::Label(label_of(&revision.name)));
        }
        let borrowed = revisions.find(|revision| self.borrows(&revision.uid));
        self.choose(view, &claims.mine, borrowed)
    }

    /// DS-150, DS-155
    fn choose(&mut self, view: &View<'_>, mine: &[&Revision], borrowed: Option<&Revision>) -> Next {
        let (current, old): (Vec<&Revision>, Vec<&Revision>) =
            mine.iter().partition(|revision| revision.data == *view.ds.template.data());
        // There may be no higher one.
        let number = old
            .iter()
            .map(|revision| revision.number)
            .max()
            .unwrap_or(0)
            .saturating_add(1);
        let Some(kept) = current.iter().max_by_key(|revision| (revision.number, &revision.name)) else {
            if let Some(borrowed) = borrowed {
                return Next::Settled(Current::of(borrowed));
            }
            self.tried = Some(Tried {
                collision_count: view.ds.status.collision_count,
            });
            let draft = draft(view.ds, number);
            let name = Arc::from(draft.name.as_str());
            return Next::Ask(Step::Create { name }, Request::CreateRevision(Arc::new(draft)));
        };
        self.borrowed = None;
        if let Some(duplicate) = current.iter().find(|revision| revision.uid != kept.uid) {
            return dedupe(view, kept, &current, duplicate);
        }
        if kept.number < number {
            return change(kept, RevisionChange::Renumber(number));
        }
        Next::Settled(Current::of(kept))
    }

    /// Takes the answer of a step and returns true, or returns false if it has to be waited out.
    pub(crate) fn ended(&mut self, ds: &DaemonSet, step: &Step, ended: Ended<'_>) -> bool {
        match (step, ended) {
            (Step::Create { .. }, Ended::AlreadyExists) | (Step::ReadExisting | Step::ReadForCollision, _)
                if self.tried.is_none() => {}
            (Step::ReadForAdoption, Ended::DaemonSet(live)) if live.uid == ds.uid && !live.deleting => self.may_adopt = true,
            (Step::Create { name }, Ended::AlreadyExists) => self.follow = Follow::ReadExisting(name.clone()),
            (Step::ReadExisting, Ended::Revision(found)) if found.data == *ds.template.data() => {
                self.borrowed = Some(found.uid.clone());
            }
            (Step::ReadExisting, Ended::Revision(_)) => self.follow = Follow::ReadDaemonSet,
            (Step::ReadForCollision, Ended::DaemonSet(live)) => {
                // Another count than the one tried was raised by somebody since: take that one first. Of a template that the watch does
                // not show yet nothing was tried.
                let is_as_tried = |tried: &Tried| tried.collision_count == live.status.collision_count;
                if live.uid != ds.uid || live.generation != ds.generation || !self.tried.as_ref().is_some_and(is_as_tried) {
                    return false;
                }
                let raised = live.status.collision_count.unwrap_or(0).saturating_add(1);
                self.follow = Follow::Raise(live.version.clone(), raised);
            }
            // What was to be changed is gone, or was let go already (DS-065, DS-066).
            (Step::Change { .. } | Step::Release { .. } | Step::Delete { .. } | Step::Clean { .. }, Ended::NotFound) => {}
            (Step::Release { uid, .. }, Ended::Invalid) => drop(self.kept.insert(uid.clone())),
            (_, Ended::Done) => {}
            (Step::Create { .. } | Step::Change { .. } | Step::Release { .. }, Ended::Revision(_)) => {}
            _ => {
                // Also after a raised collision count, as upstream's pass ends in an error there (DS-158). What is tried next
                // starts with a fresh read.
                self.may_adopt = false;
                return false;
            }
        }
        true
    }
}

fn change(revision: &Revision, change: RevisionChange) -> Next {
    let (name, uid) = (revision.name.clone(), revision.uid.clone());
    let step = match change {
        RevisionChange::Release => Step::Release {
            name: name.clone(),
            uid: uid.clone(),
        },
        _ => Step::Change {
            name: name.clone(),
            uid: uid.clone(),
        },
    };
    Next::Ask(step, Request::ChangeRevision { name, uid, change })
}

/// Revisions by what a DaemonSet has to do with them (DS-061, DS-062, DS-162).
#[derive(Default)]
struct Claims<'a> {
    mine: Vec<&'a Revision>,
    orphans: Vec<&'a Revision>,
    foreign: Vec<&'a Revision>,
}

impl<'a> Claims<'a> {
    fn sort(ds: &DaemonSet, revisions: impl Iterator<Item = &'a Revision>) -> Self {
        let mut claims = Self::default();
        for revision in revisions {
            let is_selected = ds.selector.matches(&revision.labels);
            if revision.is_controlled_by(&ds.uid) {
                if is_selected { &mut claims.mine } else { &mut claims.foreign }.push(revision);
            } else if revision.controller == Controller::None && is_selected && !revision.deleting {
                claims.orphans.push(revision);
            }
        }
        claims
    }
}

/// DS-160
fn dedupe(view: &View<'_>, kept: &Revision, current: &[&Revision], duplicate: &Revision) -> Next {
    let kept_hash = kept.hash().cloned().unwrap_or_default();
    let is_duplicate = |hash: &Arc<str>| current.iter().any(|revision| revision.hash() == Some(hash));
    let hashes = view
        .pods_by_hash
        .keys()
        .filter(|hash| **hash != kept_hash && (view.relabel_all || is_duplicate(hash)));
    let from: BTreeSet<Arc<str>> = hashes.cloned().collect();
    if !from.is_empty() {
        return Next::Relabel { from, to: kept_hash };
    }
    let (name, uid) = (duplicate.name.clone(), duplicate.uid.clone());
    Next::Ask(Step::Delete { name, uid }, delete(duplicate))
}

fn delete(revision: &Revision) -> Request {
    let (name, uid) = (revision.name.clone(), revision.uid.clone());
    Request::DeleteRevision { name, uid }
}

/// The hash label of a revision without one: its name, or a hash of it where no label may be that long (DS-154, DS-237).
fn label_of(name: &Arc<str>) -> Arc<str> {
    if name.len() <= LONGEST_LABEL {
        name.clone()
    } else {
        Arc::from(hash::of(name.as_bytes(), None))
    }
}

/// The name of a new revision (DS-157). A name that leaves no room for the hash is cut (DS-237).
fn name_of(ds: &str, hash: &str) -> String {
    let room = LONGEST_NAME.saturating_sub(hash.len() + 1);
    let is_cut = ds.len() > room;
    let prefix = ds.get(..room.min(ds.len())).unwrap_or(ds);
    let prefix = if is_cut { prefix.trim_end_matches(['-', '.']) } else { prefix };
    format!("{prefix}-{hash}")
}

/// DS-157
fn draft(ds: &DaemonSet, number: i64) -> RevisionDraft {
    let hash = hash::of(ds.template.data(), ds.status.collision_count);
    let mut labels = ds.template.labels();
    labels.insert(LABEL_HASH.to_owned(), Value::from(hash.as_str()));
    let annotations = ds
        .annotations
        .iter()
        .map(|(key, value)| (key.clone(), Value::from(value.as_str())));
    RevisionDraft {
        name: name_of(&ds.name, &hash),
        labels: Value::Object(labels),
        annotations: Value::Object(annotations.collect()),
        number,
        data: ds.template.data().clone(),
    }
}

/// The next old revision to delete, if there are more than the limit (DS-161).
pub(crate) fn surplus<'a>(view: &View<'a>, revisions: impl Iterator<Item = &'a Revision>) -> Option<(Step, Request)> {
    let claims = Claims::sort(view.ds, revisions);
    let mut old: Vec<&Revision> = claims
        .mine
        .into_iter()
        .filter(|revision| revision.data != *view.ds.template.data())
        .collect();
    if old.len() <= view.ds.history_limit {
        return None;
    }
    // Numbers may be equal, if somebody else made them; upstream's order of those is unspecified.
    old.sort_by_key(|revision| (revision.number, revision.created, revision.name.clone()));
    let is_live = |revision: &Revision| revision.hash().is_some_and(|hash| view.pods_by_hash.contains_key(hash));
    let superfluous = old.into_iter().find(|revision| !is_live(revision))?;
    let (name, uid) = (superfluous.name.clone(), superfluous.uid.clone());
    Some((Step::Clean { name, uid }, delete(superfluous)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// DS-154, DS-157, DS-237: names and labels stay within what the API server accepts, and are upstream's wherever those do.
    #[test]
    fn names_and_labels_of_revisions_are_never_too_long() {
        assert_eq!(name_of("ds", "65bb57b6b5"), "ds-65bb57b6b5");
        let longest = "d".repeat(242);
        assert_eq!(name_of(&longest, "65bb57b6b5"), format!("{longest}-65bb57b6b5"));
        let dotted = format!("{}.{}", "d".repeat(241), "e".repeat(11));
        let name = name_of(&dotted, "65bb57b6b5");
        assert_eq!(name, format!("{}-65bb57b6b5", "d".repeat(241)));
        assert!(name.len() <= LONGEST_NAME);
        let short: Arc<str> = Arc::from("e".repeat(63));
        assert_eq!(label_of(&short), short);
        let long = label_of(&Arc::from("e".repeat(64)));
        assert!(!long.is_empty() && long.len() <= LONGEST_LABEL, "{long}");
    }
}
