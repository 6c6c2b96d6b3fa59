//! Deadlines of what has no number of its own.

use std::hash::Hash;

use super::{Place, Timers};
use crate::table::IndexSet;
use crate::time::Mono;

/// At most one deadline for each key. At the same time the one that was set first comes first, unless another one was taken off since.
#[derive(Clone, Debug)]
pub struct Keyed<K> {
    /// The key of each place; those without a deadline are not here.
    keys: IndexSet<K>,
    timers: Timers,
}

impl<K> Default for Keyed<K> {
    fn default() -> Self {
        Self {
            keys: IndexSet::default(),
            timers: Timers::default(),
        }
    }
}

impl<K: Hash + Eq> Keyed<K> {
    /// Sets the deadline of a key, instead of one that is set. [`Mono::FAR_FUTURE`] takes it off.
    pub fn set(&mut self, key: K, at: Mono) {
        if at == Mono::FAR_FUTURE {
            return self.clear(&key);
        }
        let (index, _) = self.keys.insert_full(key);
        self.timers.set(place(index), Some(at));
    }

    /// Takes the deadline of a key off.
    pub fn clear(&mut self, key: &K) {
        if let Some((index, _)) = self.keys.swap_remove_full(key) {
            self.timers.swap_remove(place(index), place(self.keys.len()));
        }
    }

    /// When the deadline of a key is, if it has one.
    pub fn get(&self, key: &K) -> Option<Mono> {
        self.timers.get(place(self.keys.get_index_of(key)?))
    }

    /// Takes the earliest deadline off if it is not after `now`, and says whose it was.
    pub fn pop_due(&mut self, now: Mono) -> Option<K> {
        let due = self.timers.pop_due(now)?;
        let key = self.keys.swap_remove_index(due as usize)?;
        self.timers.swap_remove(due, place(self.keys.len()));
        Some(key)
    }

    /// The earliest deadline.
    pub fn first(&mut self) -> Option<Mono> {
        self.timers.first()
    }
}

/// More than four billion keys do not fit into memory.
fn place(index: usize) -> Place {
    index as Place
}
