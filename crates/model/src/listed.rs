//! What a list of a whole collection says, at once or in parts.

use std::collections::BTreeSet;

/// All objects of a collection, and whose objects could not be read.
///
/// What is in neither is gone. What could not be read exists, and what was known of it stays: one broken object must not look like
/// a deleted one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed<T, K> {
    /// Every object that could be read.
    pub all: Vec<T>,
    /// What identifies the others.
    pub unreadable: Vec<K>,
}

// === impl Listed ===

impl<T, K> From<Vec<T>> for Listed<T, K> {
    fn from(all: Vec<T>) -> Self {
        Self {
            all,
            unreadable: Vec::new(),
        }
    }
}

impl<T, K> FromIterator<T> for Listed<T, K> {
    fn from_iter<I: IntoIterator<Item = T>>(all: I) -> Self {
        Self::from(all.into_iter().collect::<Vec<T>>())
    }
}

/// The objects that were known when a list that comes in parts began, and that it has not named yet.
///
/// A first list costs nothing: nothing was known before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unlisted<K>(Option<BTreeSet<K>>);

// === impl Unlisted ===

impl<K> Default for Unlisted<K> {
    /// No list has begun.
    fn default() -> Self {
        Self(None)
    }
}

impl<K: Ord> Unlisted<K> {
    /// A list begins, and these are known. One that broke off counts for nothing.
    pub fn begin(&mut self, known: impl Iterator<Item = K>) {
        self.0 = Some(known.collect());
    }

    /// A list has begun and not ended.
    pub fn is_under_way(&self) -> bool {
        self.0.is_some()
    }

    /// The list names this one.
    pub fn saw(&mut self, key: &K) {
        if let Some(unlisted) = &mut self.0 {
            unlisted.remove(key);
        }
    }

    /// The list ends and names these last: what it did not name is gone. One that did not come in parts begins here, and `known` is what
    /// is known then.
    pub fn end<'a, I: Iterator<Item = K>>(&mut self, known: impl FnOnce() -> I, named: impl Iterator<Item = &'a K>) -> BTreeSet<K>
    where
        K: 'a,
    {
        let mut unlisted = self.0.take().unwrap_or_else(|| known().collect());
        for key in named {
            unlisted.remove(key);
        }
        unlisted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_list_does_not_name_is_gone() {
        let known = || [1, 2, 3].into_iter();
        let mut unlisted = Unlisted::default();
        unlisted.saw(&1);
        assert!(!unlisted.is_under_way());
        assert_eq!(unlisted.end(known, [2].iter()), BTreeSet::from([1, 3]), "a whole list");
        unlisted.begin(known());
        unlisted.saw(&1);
        assert!(unlisted.is_under_way());
        // It broke off.
        unlisted.begin(known());
        unlisted.saw(&2);
        unlisted.saw(&4);
        assert_eq!(unlisted.end(known, [3].iter()), BTreeSet::from([1]));
        assert!(!unlisted.is_under_way());
    }
}
