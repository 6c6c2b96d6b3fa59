//! At most one deadline per subject, and the earliest of all.

use std::collections::{BTreeMap, BTreeSet};

use bailiff_model::Mono;

/// Deadlines by subject.
#[derive(Clone, Debug)]
pub struct Timers<K> {
    by_key: BTreeMap<K, Mono>,
    by_time: BTreeSet<(Mono, K)>,
}

impl<K: Ord + Clone> Default for Timers<K> {
    fn default() -> Self {
        Self {
            by_key: BTreeMap::new(),
            by_time: BTreeSet::new(),
        }
    }
}

impl<K: Ord + Clone> Timers<K> {
    /// Sets the subject's deadline, in place of an earlier one.
    pub fn set(&mut self, key: K, at: Mono) {
        if at == Mono::FAR_FUTURE {
            return self.clear(&key);
        }
        if let Some(old) = self.by_key.insert(key.clone(), at) {
            if old == at {
                return;
            }
            self.by_time.remove(&(old, key.clone()));
        }
        self.by_time.insert((at, key));
    }

    /// Forgets the subject's deadline.
    pub fn clear(&mut self, key: &K) {
        if let Some(old) = self.by_key.remove(key) {
            self.by_time.remove(&(old, key.clone()));
        }
    }

    /// True if the subject has a deadline.
    pub fn is_set(&self, key: &K) -> bool {
        self.by_key.contains_key(key)
    }

    /// Takes a subject whose deadline has come.
    pub fn pop_due(&mut self, now: Mono) -> Option<K> {
        if self.by_time.first()?.0 > now {
            return None;
        }
        let (_, key) = self.by_time.pop_first()?;
        self.by_key.remove(&key);
        Some(key)
    }

    /// The earliest deadline.
    pub fn next(&self) -> Option<Mono> {
        self.by_time.first().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_subject_has_one_deadline_and_the_earliest_is_next() {
        let at = |s| Mono::from_origin(Duration::from_secs(s));
        let mut timers = Timers::default();
        timers.set("a", at(5));
        timers.set("b", at(3));
        timers.set("a", at(1));
        assert_eq!(timers.next(), Some(at(1)));
        timers.clear(&"b");
        timers.set("b", Mono::FAR_FUTURE);
        assert_eq!(timers.pop_due(at(0)), None);
        assert_eq!(timers.pop_due(at(9)), Some("a"));
        assert_eq!(timers.pop_due(at(9)), None);
        assert_eq!(timers.next(), None);
    }
}
