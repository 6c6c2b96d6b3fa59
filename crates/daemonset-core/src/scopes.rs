//! Whose pods are watched, and of which of them all are known.

use std::collections::{BTreeMap, BTreeSet};

use bailiff_model::{Namespace, PodUid, Unlisted};

use crate::effect::Scope;

/// Namespaces whose pods are watched each by itself, at most: room for what a cluster's agents usually are in (network, storage, logs,
/// metrics, devices: one or two each). Each watch is a connection, and a place among those that the API server tells of a change. Those of
/// all others are watched at once.
pub(crate) const EACH: usize = 16;

/// What is watched of the pods: those of namespaces with DaemonSets of ours, for no others can be theirs (DS-022, DS-024).
#[derive(Debug, Default)]
pub(crate) struct Scopes {
    /// Namespaces that are watched by themselves. Fixed as soon as there is `all`.
    each: BTreeMap<Namespace, Known>,
    /// A watch of all pods, for the other namespaces; until the process ends.
    all: Option<Known>,
}

/// What is known of a scope.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// All of it was listed once.
    listed: bool,
    unlisted: Unlisted<PodUid>,
}

// === impl Scopes ===

impl Scopes {
    /// What is to be watched.
    pub(crate) fn watched(&self) -> BTreeSet<Scope> {
        let each = self.each.keys().cloned().map(Scope::Namespace);
        each.chain(self.all.iter().map(|_| Scope::All)).collect()
    }

    /// There are no DaemonSets of ours any more where they are `gone`, and some where they `came`.
    pub(crate) fn change(&mut self, gone: &BTreeSet<Namespace>, came: BTreeSet<Namespace>) {
        if self.all.is_some() {
            return;
        }
        self.each.retain(|namespace, _| !gone.contains(namespace));
        if self.each.is_empty() && came.len() > EACH {
            self.all = Some(Known::default());
            return;
        }
        for namespace in came {
            if self.each.len() < EACH || self.each.contains_key(&namespace) {
                self.each.entry(namespace).or_default();
            } else {
                self.all = Some(Known::default());
            }
        }
    }

    /// What is known of a scope; `None` if it is not watched (any more).
    pub(crate) fn known_mut(&mut self, scope: &Scope) -> Option<&mut Known> {
        match scope {
            Scope::Namespace(namespace) => self.each.get_mut(namespace),
            Scope::All => self.all.as_mut(),
        }
    }

    /// What is known of the pods of a namespace.
    pub(crate) fn of(&self, namespace: &Namespace) -> Option<&Known> {
        self.each.get(namespace).or(self.all.as_ref())
    }

    /// True if this scope is the one that says which pods of a namespace there are. They come out of step with those of another.
    pub(crate) fn serves(&self, scope: &Scope, namespace: &Namespace) -> bool {
        match scope {
            Scope::Namespace(of) => of == namespace && self.each.contains_key(namespace),
            Scope::All => self.all.is_some() && !self.each.contains_key(namespace),
        }
    }

    /// True if all of what is watched was listed once.
    pub(crate) fn are_listed(&self) -> bool {
        self.each.values().chain(&self.all).all(Known::is_listed)
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

    /// The list ends and names these last. Answers whom it did not name: of those that were known when it began, or of `known` if it did
    /// not come in parts.
    pub(crate) fn end<'a, I: Iterator<Item = PodUid>>(
        &mut self,
        known: impl FnOnce() -> I,
        named: impl Iterator<Item = &'a PodUid>,
    ) -> BTreeSet<PodUid> {
        self.listed = true;
        self.unlisted.end(known, named)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_namespaces(nths: impl Iterator<Item = usize>) -> BTreeSet<Namespace> {
        nths.map(|nth| Namespace::from(format!("ns-{nth:02}"))).collect()
    }

    fn mk_namespace(nth: usize) -> Namespace {
        mk_namespaces(nth..=nth).pop_first().expect("one")
    }

    /// Each namespace by itself, as long as they are few; those that come later are served by a watch of all.
    #[test]
    fn pods_of_few_namespaces_are_watched_each_by_itself() {
        let (mut scopes, none) = (Scopes::default(), BTreeSet::new());
        assert!(scopes.watched().is_empty() && scopes.are_listed());
        for nth in 0..EACH {
            scopes.change(&none, mk_namespaces(nth..=nth));
            scopes.change(&none, mk_namespaces(0..=nth));
            assert_eq!(scopes.watched().len(), nth + 1);
        }
        assert!(!scopes.are_listed() && scopes.of(&mk_namespace(EACH)).is_none());
        // One goes for another, whatever they are called.
        scopes.change(&mk_namespaces(EACH - 1..EACH), BTreeSet::from(["a".into()]));
        assert_eq!(scopes.watched().len(), EACH);
        assert!(scopes.of(&mk_namespace(EACH - 1)).is_none() && !scopes.watched().contains(&Scope::All));
        let (first, other) = (Scope::Namespace(mk_namespace(0)), mk_namespace(EACH));
        let known = scopes.known_mut(&first).expect("it is watched");
        known.end(|| [].into_iter(), [].iter());
        scopes.change(&none, mk_namespaces(EACH..=EACH));
        assert!(scopes.watched().len() == EACH + 1 && scopes.watched().contains(&Scope::All));
        assert!(scopes.of(&mk_namespace(0)).is_some_and(Known::is_listed), "it goes on");
        assert!(scopes.of(&other).is_some_and(|known| !known.is_listed()));
        assert!(scopes.serves(&first, &mk_namespace(0)) && !scopes.serves(&Scope::All, &mk_namespace(0)));
        assert!(scopes.serves(&Scope::All, &other) && !scopes.serves(&first, &other));
        scopes.change(&mk_namespaces(0..=EACH), none);
        assert_eq!(scopes.watched().len(), EACH + 1, "for good");
    }

    #[test]
    fn many_namespaces_at_once_are_one_watch() {
        let mut scopes = Scopes::default();
        scopes.change(&BTreeSet::new(), mk_namespaces(0..=EACH));
        assert_eq!(scopes.watched(), BTreeSet::from([Scope::All]));
        assert!(scopes.serves(&Scope::All, &mk_namespace(0)));
    }
}
