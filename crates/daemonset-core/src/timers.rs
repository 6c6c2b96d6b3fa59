//! Timers as data: when something has to be looked at again.

use std::collections::BTreeSet;
use std::hash::Hash;

use bailiff_model::Mono;
use indexmap::IndexMap;

/// At most one timer per key. Setting one costs the logarithm of the number of timers; finding that there is none, which is most of what
/// is asked, costs the same at any number.
#[derive(Clone, Debug)]
pub(crate) struct Timers<K> {
    by_key: IndexMap<K, Mono>,
    by_time: BTreeSet<(Mono, K)>,
}

impl<K> Default for Timers<K> {
    fn default() -> Self {
        Self {
            by_key: IndexMap::new(),
            by_time: BTreeSet::new(),
        }
    }
}

impl<K: Ord + Hash + Clone> Timers<K> {
    /// Sets the timer of `key`, or takes it off.
    pub(crate) fn set(&mut self, key: &K, at: Option<Mono>) {
        if self.by_key.get(key).copied() == at {
            return;
        }
        if let Some(old) = self.by_key.swap_remove(key) {
            self.by_time.remove(&(old, key.clone()));
        }
        if let Some(at) = at {
            self.by_key.insert(key.clone(), at);
            self.by_time.insert((at, key.clone()));
        }
    }

    /// When the timer of `key` goes off.
    pub(crate) fn get(&self, key: &K) -> Option<Mono> {
        self.by_key.get(key).copied()
    }

    /// Takes a timer that is due.
    pub(crate) fn pop(&mut self, now: Mono) -> Option<K> {
        let (at, key) = self.by_time.first()?.clone();
        if at > now {
            return None;
        }
        self.by_time.remove(&(at, key.clone()));
        self.by_key.swap_remove(&key);
        Some(key)
    }

    /// The earliest timer.
    pub(crate) fn next(&self) -> Option<Mono> {
        self.by_time.first().map(|(at, _)| *at)
    }
}
