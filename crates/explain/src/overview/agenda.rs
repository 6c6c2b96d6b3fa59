//! Things by key, in the order of a time that each of them has.

use std::collections::{BTreeMap, BTreeSet};

use bailiff_model::Wall;

/// Things by key, each with its time.
#[derive(Clone, Debug)]
pub(super) struct Agenda<T> {
    by_key: BTreeMap<String, (Wall, T)>,
    order: BTreeSet<(Wall, String)>,
}

// === impl Agenda ===

impl<T> Default for Agenda<T> {
    fn default() -> Self {
        Self {
            by_key: BTreeMap::new(),
            order: BTreeSet::new(),
        }
    }
}

impl<T> Agenda<T> {
    /// Puts a thing in the place of what the key had, or takes that away.
    pub(super) fn set(&mut self, key: &str, entry: Option<(Wall, T)>) {
        if let Some((at, _)) = self.by_key.remove(key) {
            self.order.remove(&(at, key.to_owned()));
        }
        if let Some((at, thing)) = entry {
            self.order.insert((at, key.to_owned()));
            self.by_key.insert(key.to_owned(), (at, thing));
        }
    }

    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// All of them, the earliest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &(Wall, T)> {
        self.order.iter().filter_map(|(_, key)| self.by_key.get(key))
    }
}
