//! Values that many records have in common, kept once.

use std::collections::BTreeSet;
use std::sync::Arc;

/// With fewer distinct values than this it is not asked who holds them.
const FEW: usize = 64;

/// Values that many records have in common, each kept once. What nobody else holds any more is forgotten when that may be half of all.
#[derive(Debug)]
pub struct Shared<T: ?Sized> {
    values: BTreeSet<Arc<T>>,
    /// So many are looked through.
    many: usize,
}

impl<T: ?Sized> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self {
            values: self.values.clone(),
            many: self.many,
        }
    }
}

impl<T: ?Sized> Default for Shared<T> {
    fn default() -> Self {
        Self {
            values: BTreeSet::new(),
            many: FEW,
        }
    }
}

impl<T: Ord + ?Sized> Shared<T> {
    /// The one copy of `value` that is kept.
    pub fn share(&mut self, value: impl Into<Arc<T>> + AsRef<T>) -> Arc<T> {
        if let Some(known) = self.values.get(value.as_ref()) {
            return known.clone();
        }
        if self.values.len() >= self.many {
            self.values.retain(|value| Arc::strong_count(value) > 1);
            self.many = FEW.max(2 * self.values.len());
        }
        let value = value.into();
        self.values.insert(value.clone());
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_kept_once_and_not_for_ever() {
        let mut shared = Shared::<str>::default();
        let (first, second) = (shared.share(Arc::from("a")), shared.share("a"));
        assert!(Arc::ptr_eq(&first, &second));
        for nth in 0..10 * FEW {
            assert_eq!(*shared.share(nth.to_string()), nth.to_string());
        }
        assert!(shared.values.len() <= FEW, "{}", shared.values.len());
        assert!(Arc::ptr_eq(&first, &shared.share("a")), "it is held");
    }
}
