//! Pods that fitted nowhere, by what they want: those that want the same fit in the same places.
//!
//! A change of a node costs one judgement for each different wish, and one for each pod that it makes room for, however many wait.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bailiff_model::NodeName;

use super::fit::Candidate;
use crate::facts::{Placement, PodKey};
use crate::resources::Resources;

/// What decides where a pod fits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wish {
    /// How it wants to be placed.
    pub placement: Placement,
    /// What it asks for.
    pub requests: Resources,
}

/// Pods by their wish.
type Waiting = BTreeMap<Arc<Wish>, BTreeSet<PodKey>>;

/// The pods that fitted nowhere.
#[derive(Debug, Default)]
pub struct Stuck {
    /// By the node that they name, if they name one: no other concerns them.
    waiting: BTreeMap<Option<NodeName>, Waiting>,
    wishes: BTreeMap<PodKey, Arc<Wish>>,
    /// Pods that were told of room and are not settled yet, and where it is.
    told: BTreeMap<PodKey, NodeName>,
}

impl Stuck {
    /// Keeps a pod that fits nowhere.
    pub fn insert(&mut self, key: &PodKey, wish: Wish) {
        self.remove(key);
        let waiting = self.waiting.entry(wish.placement.target.clone()).or_default();
        let wish = waiting
            .get_key_value(&wish)
            .map_or_else(|| Arc::new(wish), |(known, _)| Arc::clone(known));
        waiting.entry(Arc::clone(&wish)).or_default().insert(key.clone());
        self.wishes.insert(key.clone(), wish);
    }

    /// Forgets a pod.
    fn remove(&mut self, key: &PodKey) {
        let Some(wish) = self.wishes.remove(key) else { return };
        let target = &wish.placement.target;
        let Some(waiting) = self.waiting.get_mut(target) else { return };
        if let Some(keys) = waiting.get_mut(&wish) {
            keys.remove(key);
            if keys.is_empty() {
                waiting.remove(&wish);
            }
        }
        if waiting.is_empty() {
            self.waiting.remove(target);
        }
    }

    /// Takes out pods that fit on a node now, of each wish as many as there is room for.
    pub fn tell(&mut self, candidate: &Candidate, used: Resources) -> Vec<PodKey> {
        let target = Some(candidate.name.clone());
        let mut told = Vec::new();
        for waiting in [self.waiting.get(&None), self.waiting.get(&target)].into_iter().flatten() {
            for (wish, keys) in waiting {
                let mut used = used;
                let fitting = keys.iter().take_while(|_| {
                    let fits = candidate.judge(&wish.placement, wish.requests, used).is_ok();
                    used.add(wish.requests);
                    fits
                });
                told.extend(fitting.cloned());
            }
        }
        told.sort_unstable();
        for key in &told {
            self.remove(key);
            self.told.insert(key.clone(), candidate.name.clone());
        }
        told
    }

    /// A pod is settled, one way or another. Returns the node it was told of, whose room others may want.
    pub fn settled(&mut self, key: &PodKey) -> Option<NodeName> {
        self.remove(key);
        self.told.remove(key)
    }
}
