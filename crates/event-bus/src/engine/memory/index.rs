//! Records in order. A record holds its own key and revision: an index of it is one pointer.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::sync::Arc;

use bailiff_model::Revision;

use crate::engine::kept::{Kept, Said};

/// A record by its place: rising by revision, those of one replace by key.
#[derive(Clone, Debug)]
pub(super) struct Place(pub(super) Arc<Kept>);

/// Keys that have earlier records, by the place of the oldest of these: with the record that superseded them.
pub(super) type History = (Revision, ByKey<Arc<Kept>>);

/// Something by its key, which it can be looked up with.
#[derive(Clone, Debug)]
pub(super) struct ByKey<T>(pub(super) T);

/// What has a key.
pub(super) trait Keyed {
    fn key_bytes(&self) -> &[u8];
}

// === impl Place ===

impl Place {
    /// Before all records of this revision.
    pub(super) fn before(revision: Revision) -> Self {
        Self(Arc::new(Kept::before(revision)))
    }
}

impl Ord for Place {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_revision = self.0.revision.cmp(&other.0.revision);
        by_revision.then_with(|| self.0.key_bytes().cmp(other.0.key_bytes()))
    }
}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Place {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Place {}

// === impl ByKey ===

impl<T: Keyed> Ord for ByKey<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.key_bytes().cmp(other.0.key_bytes())
    }
}

impl<T: Keyed> PartialOrd for ByKey<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: Keyed> PartialEq for ByKey<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T: Keyed> Eq for ByKey<T> {}

impl<T: Keyed> Borrow<[u8]> for ByKey<T> {
    fn borrow(&self) -> &[u8] {
        self.0.key_bytes()
    }
}

impl Keyed for Said {
    fn key_bytes(&self) -> &[u8] {
        Self::key_bytes(self)
    }
}

impl Keyed for Arc<Kept> {
    fn key_bytes(&self) -> &[u8] {
        self.said.key_bytes()
    }
}
