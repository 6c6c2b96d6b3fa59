//! Whose pods are watched, and of which of them all are known.

use std::collections::{BTreeMap, BTreeSet};

use bailiff_model::{Namespace, PodUid, Unlisted};

use crate::effect::Scope;

/// Namespaces whose pods are watched each by itself, at most: a watch is a stream, and a place among those that the API server tells of
/// a change. With DaemonSets in more of them all pods are watched at once, until the process ends.
pub(crate) const EACH: usize = 16;

/// What is watched of the pods: those of namespaces with DaemonSets of ours, for no others can be theirs (DS-022, DS-024).
#[derive(Debug)]
pub(crate) enum Scopes {
    /// Those of a few namespaces.
    Each(BTreeMap<Namespace, Known>),
    /// Those of all.
    All(Known),
}

/// What is known of a scope.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// All of it was listed once.
    listed: bool,
    unlisted: Unlisted<PodUid>,
}

// === impl Scopes ===

impl Default for Scopes {
    fn default() -> Self {
        Self::Each(BTreeMap::new())
    }
}

impl Scopes {
    /// What is to be watched.
    pub(crate) fn watched(&self) -> BTreeSet<Scope> {
        match self {
            Self::Each(known) => known.keys().cloned().map(Scope::Namespace).collect(),
            Self::All(_) => BTreeSet::from([Scope::All]),
        }
    }

    /// There is a DaemonSet of ours in the namespace, or there is none any more.
    pub(crate) fn want(&mut self, namespace: &Namespace, is_wanted: bool) {
        let Self::Each(known) = self else { return };
        if !is_wanted {
            known.remove(namespace);
        } else if known.len() < EACH || known.contains_key(namespace) {
            known.entry(namespace.clone()).or_default();
        } else {
            *self = Self::All(Known::default());
        }
    }

    /// What is known of a scope; `None` if it is not watched (any more).
    pub(crate) fn known_mut(&mut self, scope: &Scope) -> Option<&mut Known> {
        match (self, scope) {
            (Self::Each(known), Scope::Namespace(namespace)) => known.get_mut(namespace),
            (Self::All(known), Scope::All) => Some(known),
            _ => None,
        }
    }

    /// What is known of the pods of a namespace.
    pub(crate) fn of(&self, namespace: &Namespace) -> Option<&Known> {
        match self {
            Self::Each(known) => known.get(namespace),
            Self::All(known) => Some(known),
        }
    }

    /// True if all of what is watched was listed once.
    pub(crate) fn are_listed(&self) -> bool {
        match self {
            Self::Each(known) => known.values().all(Known::is_listed),
            Self::All(known) => known.is_listed(),
        }
    }
}

// === impl Known ===

impl Known {
    pub(crate) fn is_listed(&self) -> bool {
        self.listed
    }

    /// A list has begun and not ended: what is known is of two times.
    pub(crate) fn is_being_listed(&self) -> bool {
        self.unlisted.is_under_way()
    }

    /// A list begins, and these are known.
    pub(crate) fn begin(&mut self, known: impl Iterator<Item = PodUid>) {
        self.unlisted.begin(known);
    }

    /// The list names this one.
    pub(crate) fn saw(&mut self, uid: &PodUid) {
        self.unlisted.saw(uid);
    }

    /// The list ends and names these last. Answers those of `known` that it did not name, in their order.
    pub(crate) fn end<'a>(&mut self, known: Vec<PodUid>, named: impl Iterator<Item = &'a PodUid>) -> Vec<PodUid> {
        self.listed = true;
        let unlisted = self.unlisted.end(|| known.iter().cloned(), named);
        known.into_iter().filter(|uid| unlisted.contains(uid)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_namespace(nth: usize) -> Namespace {
        Namespace::from(format!("ns-{nth}"))
    }

    /// Each namespace by itself, as long as they are few.
    #[test]
    fn pods_of_few_namespaces_are_watched_and_of_many_all() {
        let mut scopes = Scopes::default();
        assert!(scopes.watched().is_empty() && scopes.are_listed());
        for nth in 0..EACH {
            scopes.want(&mk_namespace(nth), true);
            scopes.want(&mk_namespace(nth), true);
            assert_eq!(scopes.watched().len(), nth + 1);
        }
        assert!(!scopes.are_listed() && scopes.of(&mk_namespace(EACH)).is_none());
        scopes.want(&mk_namespace(0), false);
        assert!(scopes.of(&mk_namespace(0)).is_none());
        scopes.want(&mk_namespace(EACH), true);
        assert_eq!(scopes.watched().len(), EACH);
        let first = Scope::Namespace(mk_namespace(1));
        scopes.known_mut(&first).expect("it is watched").end(Vec::new(), [].iter());
        assert!(scopes.of(&mk_namespace(1)).is_some_and(Known::is_listed));
        scopes.want(&mk_namespace(0), true);
        assert_eq!(scopes.watched(), BTreeSet::from([Scope::All]));
        assert!(scopes.known_mut(&first).is_none(), "it is not watched any more");
        assert!(scopes.of(&mk_namespace(1)).is_some_and(|known| !known.is_listed()));
        scopes.want(&mk_namespace(0), false);
        assert_eq!(scopes.watched(), BTreeSet::from([Scope::All]), "for good");
    }
}
