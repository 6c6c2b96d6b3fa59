//! ownerReferences: what has owners goes when the last of them is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bailiff_model::{Mono, Now};
use serde_json::{Value, json};

use super::{FINALIZER_FOREGROUND, FINALIZER_ORPHAN, Item, Resource};
use crate::Verb;
use crate::effect::{Answer, Effect};
use crate::facts::view::OwnerReference;
use crate::timers::Timers;

/// After a refusal that no change of the object explains, such as a webhook's.
const RETRY: Duration = Duration::from_secs(5);

/// Follows ownerReferences.
///
/// # Assumptions
/// Inputs come in the order of the writes, over all resources; [`Owners::synced`] is called once everything that exists was given.
#[derive(Debug, Default)]
pub struct Owners {
    resources: Vec<Arc<Resource>>,
    items: BTreeMap<Box<str>, Item>,
    /// Dependents by the uid of an owner, which need not exist.
    dependents: BTreeMap<Box<str>, BTreeSet<Box<str>>>,
    /// The revision at which something was last done about an object: its next state says whether that worked.
    acted: BTreeMap<Box<str>, u64>,
    timers: Timers<Box<str>>,
    is_synced: bool,
}

/// What an object's owners are, to it.
#[derive(Default)]
struct Standing {
    /// They keep it.
    solid: usize,
    /// They wait for it to go.
    waiting: usize,
    /// References to keep.
    keep: Vec<OwnerReference>,
}

// === impl Owners ===

impl Owners {
    /// Serves these resources. Owners of other kinds are never taken for gone.
    pub fn new(resources: &[Arc<Resource>]) -> Self {
        Self {
            resources: resources.to_vec(),
            ..Self::default()
        }
    }

    /// Serves another resource, all of whose objects were given: owners of its kind may be gone from now on.
    pub fn serve(&mut self, resource: &Arc<Resource>) -> Vec<Effect> {
        if self.resources.contains(resource) {
            return Vec::new();
        }
        self.resources.retain(|known| known.storage != resource.storage);
        self.resources.push(Arc::clone(resource));
        let mut effects = Vec::new();
        if self.is_synced {
            // Once per definition of a resource, which is rare enough to look at everything.
            let owned = self.items.values();
            let owned = owned.filter(|item| item.owners.iter().any(|owner| resource.is_kind_of(owner)));
            let owned: Vec<Box<str>> = owned.map(|item| item.uid.clone()).collect();
            owned.iter().for_each(|uid| self.judge(uid, &mut effects));
        }
        effects
    }

    /// Everything that exists has been given.
    pub fn synced(&mut self) -> Vec<Effect> {
        self.is_synced = true;
        let owned: Vec<Box<str>> = self
            .items
            .values()
            .filter(|item| !item.owners.is_empty())
            .map(|item| item.uid.clone())
            .collect();
        let going: Vec<Box<str>> = self
            .items
            .values()
            .filter(|item| item.is_terminating)
            .map(|item| item.uid.clone())
            .collect();
        let mut effects = Vec::new();
        owned.iter().for_each(|uid| self.judge(uid, &mut effects));
        going.iter().for_each(|uid| self.judge_owner(uid, &mut effects));
        effects
    }

    /// An object is as follows.
    pub fn seen(&mut self, item: Item) -> Vec<Effect> {
        let uid = item.uid.clone();
        let is_going = item.is_terminating;
        if let Some(known) = self.items.get_mut(&uid)
            && known.is_same(&item)
            && !self.acted.contains_key(&uid)
        {
            known.revision = item.revision;
            return Vec::new();
        }
        let earlier = self.items.insert(uid.clone(), item);
        let was_owned = earlier.map(|earlier| earlier.owners).unwrap_or_default();
        self.reindex(&uid, &was_owned);
        let mut effects = Vec::new();
        if self.is_synced {
            self.judge(&uid, &mut effects);
            if is_going {
                self.judge_owner(&uid, &mut effects);
            }
            // An owner that waits for this object may not have to any more.
            for owner in &was_owned {
                self.judge_owner(&owner.uid, &mut effects);
            }
        }
        effects
    }

    /// An object is gone.
    pub fn gone(&mut self, uid: &str) -> Vec<Effect> {
        self.acted.remove(uid);
        let Some(item) = self.items.remove(uid) else {
            return Vec::new();
        };
        for owner in &item.owners {
            self.unlink(&owner.uid, uid);
        }
        let mut effects = Vec::new();
        if self.is_synced {
            self.dependents_of(uid)
                .iter()
                .for_each(|dependent| self.judge(dependent, &mut effects));
            for owner in &item.owners {
                self.judge_owner(&owner.uid, &mut effects);
            }
        }
        effects
    }

    /// What was asked about an object was refused, or not.
    pub fn answered(&mut self, uid: &str, is_done: bool, now: Now) {
        if !is_done && self.items.contains_key(uid) {
            self.timers.arm(now.mono + RETRY, uid.into());
        }
    }

    /// Time passed.
    pub fn wake(&mut self, now: Now) -> Vec<Effect> {
        let mut effects = Vec::new();
        while let Some((_, uid)) = self.timers.pop(now.mono) {
            self.acted.remove(&uid);
            self.judge(&uid, &mut effects);
            self.judge_owner(&uid, &mut effects);
        }
        effects
    }

    /// When [`Owners::wake`] is wanted next.
    pub fn next_deadline(&self) -> Option<Mono> {
        self.timers.next()
    }
}

// === impl Owners: judging ===

impl Owners {
    /// Judges an object by its owners.
    fn judge(&mut self, uid: &str, effects: &mut Vec<Effect>) {
        let Some(item) = self.items.get(uid) else { return };
        if item.owners.is_empty() || item.is_terminating || self.acted.get(uid) == Some(&item.revision) {
            return;
        }
        let standing = self.standing(item);
        let effect = if standing.keep.len() == item.owners.len() {
            return;
        } else if standing.solid > 0 {
            keep_owners(item, &standing.keep)
        } else {
            let has_dependents = self.dependents.contains_key(uid);
            delete(item, standing.waiting > 0 && has_dependents)
        };
        self.acted.insert(uid.into(), item.revision);
        effects.push(effect);
    }

    fn standing(&self, item: &Item) -> Standing {
        let mut standing = Standing::default();
        for owner in &item.owners {
            let is_served = self.resources.iter().any(|resource| resource.is_kind_of(owner));
            match self.items.get(owner.uid.as_str()) {
                Some(found) if found.waits_for_dependents() => standing.waiting += 1,
                None if is_served => {}
                Some(_) | None => {
                    standing.solid += 1;
                    standing.keep.push(owner.clone());
                }
            }
        }
        standing
    }

    /// Judges an object that is going by its dependents.
    fn judge_owner(&mut self, uid: &str, effects: &mut Vec<Effect>) {
        let Some(item) = self.items.get(uid) else { return };
        if item.orphans_dependents() {
            self.orphan(uid, effects);
        } else if item.waits_for_dependents() {
            let dependents = self.dependents_of(uid);
            let is_blocked = dependents.iter().any(|dependent| self.blocks(dependent, uid));
            dependents.iter().for_each(|dependent| self.judge(dependent, effects));
            if !is_blocked {
                self.finish(uid, FINALIZER_FOREGROUND, effects);
            }
        }
    }

    fn orphan(&mut self, uid: &str, effects: &mut Vec<Effect>) {
        let dependents = self.dependents_of(uid);
        for dependent in &dependents {
            let Some(item) = self.items.get(dependent) else { continue };
            if self.acted.get(dependent) == Some(&item.revision) {
                continue;
            }
            let keep: Vec<OwnerReference> = item.owners.iter().filter(|owner| *owner.uid != *uid).cloned().collect();
            effects.push(keep_owners(item, &keep));
            let revision = item.revision;
            self.acted.insert(dependent.clone(), revision);
        }
        if dependents.is_empty() {
            self.finish(uid, FINALIZER_ORPHAN, effects);
        }
    }

    fn blocks(&self, dependent: &str, owner: &str) -> bool {
        let owners = self
            .items
            .get(dependent)
            .map(|item| item.owners.as_slice())
            .unwrap_or_default();
        owners.iter().any(|one| one.uid == owner && one.block_owner_deletion)
    }

    /// Takes away a finalizer whose work is done.
    fn finish(&mut self, uid: &str, finalizer: &str, effects: &mut Vec<Effect>) {
        let Some(item) = self.items.get(uid) else { return };
        if self.acted.get(uid) == Some(&item.revision) {
            return;
        }
        let rest: Vec<&String> = item.finalizers.iter().filter(|one| *one != finalizer).collect();
        effects.push(patch(item, json!({ "finalizers": rest })));
        self.acted.insert(uid.into(), item.revision);
    }
}

// === impl Owners: index ===

impl Owners {
    fn reindex(&mut self, uid: &str, earlier: &[OwnerReference]) {
        let Some(item) = self.items.get(uid) else { return };
        let owners = item.owners.clone();
        for owner in earlier.iter().filter(|owner| !owners.contains(owner)) {
            self.unlink(&owner.uid, uid);
        }
        for owner in owners {
            self.dependents.entry(owner.uid.into()).or_default().insert(uid.into());
        }
    }

    fn unlink(&mut self, owner: &str, dependent: &str) {
        if let Some(dependents) = self.dependents.get_mut(owner) {
            dependents.remove(dependent);
            if dependents.is_empty() {
                self.dependents.remove(owner);
            }
        }
    }

    fn dependents_of(&self, uid: &str) -> Vec<Box<str>> {
        self.dependents.get(uid).into_iter().flatten().cloned().collect()
    }
}

fn keep_owners(item: &Item, keep: &[OwnerReference]) -> Effect {
    let keep: Vec<Value> = keep.iter().map(owner_json).collect();
    patch(item, json!({ "ownerReferences": keep }))
}

fn owner_json(owner: &OwnerReference) -> Value {
    let mut json = json!({"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": owner.uid});
    for (key, is_set) in [
        ("controller", owner.controller),
        ("blockOwnerDeletion", owner.block_owner_deletion),
    ] {
        if is_set {
            json[key] = true.into();
        }
    }
    json
}

/// Replaces lists of the metadata; they must be as they were seen.
fn patch(item: &Item, mut metadata: Value) -> Effect {
    metadata["uid"] = (*item.uid).into();
    metadata["resourceVersion"] = item.revision.to_string().into();
    Effect::send(
        Verb::MergePatch,
        item.path(),
        json!({ "metadata": metadata }),
        Answer::Collected(item.uid.clone()),
    )
}

fn delete(item: &Item, is_foreground: bool) -> Effect {
    let policy = if item.has_finalizer(FINALIZER_ORPHAN) {
        "Orphan"
    } else if is_foreground || item.has_finalizer(FINALIZER_FOREGROUND) {
        "Foreground"
    } else {
        "Background"
    };
    // The owners are what was judged: another writer may have given it a new one since.
    let preconditions = json!({"uid": item.uid, "resourceVersion": item.revision.to_string()});
    let body = json!({
        "kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": policy, "preconditions": preconditions,
    });
    Effect::send(Verb::Delete, item.path(), body, Answer::Collected(item.uid.clone()))
}
