//! Timers as data: when something has to be looked at again.

use std::hash::Hash;

use bailiff_model::Mono;
use bailiff_model::timers::Keyed;

/// At most one timer per key.
#[derive(Clone, Debug)]
pub(crate) struct Timers<K>(Keyed<K>);

impl<K> Default for Timers<K> {
    fn default() -> Self {
        Self(Keyed::default())
    }
}

impl<K: Hash + Eq + Clone> Timers<K> {
    /// Sets the timer of `key`, or takes it off.
    pub(crate) fn set(&mut self, key: &K, at: Option<Mono>) {
        match at {
            Some(at) => self.0.set(key.clone(), at),
            None => self.0.clear(key),
        }
    }

    /// When the timer of `key` goes off.
    pub(crate) fn get(&self, key: &K) -> Option<Mono> {
        self.0.get(key)
    }

    /// Takes a timer that is due.
    pub(crate) fn pop(&mut self, now: Mono) -> Option<K> {
        self.0.pop_due(now)
    }

    /// The earliest timer.
    pub(crate) fn next(&mut self) -> Option<Mono> {
        self.0.first()
    }
}
