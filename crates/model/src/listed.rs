//! What a list of a whole collection says.

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
