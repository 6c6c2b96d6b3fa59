//! Who waits for a table's events, by what the events are about: a change wakes nobody whom it cannot concern.

use std::collections::{BTreeMap, BTreeSet};
use std::task::Waker;

use super::object::Key;
use super::past::NODE;
use super::table::Event;

/// What events a watcher may want, as far as that can be told without its selector.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Interest {
    /// All of them.
    #[default]
    All,
    /// Those of objects in a namespace.
    Namespace(Box<str>),
    /// Those of objects that are, or were until then, on a node.
    Node(Box<str>),
    /// Those of objects of this name, in all namespaces if it says none.
    Name(Key),
}

/// The watchers of a table that have seen all that concerns them.
#[derive(Debug, Default)]
pub struct Watchers {
    waiting: BTreeMap<u64, (Interest, Waker)>,
    by_interest: BTreeMap<Interest, BTreeSet<u64>>,
    /// Watchers that were woken and did not come yet, and up to where nothing concerned them.
    woken: BTreeMap<u64, u64>,
}

// === impl Interest ===

impl Interest {
    /// What an event is about.
    fn of(event: &Event) -> Vec<Self> {
        let key = event.object.key();
        let mut about = vec![Self::All, Self::Name(key.clone()), Self::Name(Key::new("", &key.name))];
        if !key.namespace.is_empty() {
            about.push(Self::Namespace(key.namespace.clone()));
        }
        let states = [Some(&event.object), event.previous.as_ref()];
        about.extend(
            states
                .into_iter()
                .flatten()
                .filter_map(|object| Some(Self::Node(object.field(NODE)?.into()))),
        );
        about
    }
}

// === impl Watchers ===

impl Watchers {
    /// Keeps a watcher that has seen everything.
    pub fn wait(&mut self, watcher: u64, interest: &Interest, waker: &Waker) {
        if let Some((_, known)) = self.waiting.get_mut(&watcher) {
            known.clone_from(waker);
            return;
        }
        self.waiting.insert(watcher, (interest.clone(), waker.clone()));
        match self.by_interest.get_mut(interest) {
            Some(watchers) => {
                watchers.insert(watcher);
            }
            None => {
                self.by_interest.insert(interest.clone(), BTreeSet::from([watcher]));
            }
        }
    }

    /// Whether nothing that concerns a watcher happened since it began to wait.
    pub fn is_waiting(&self, watcher: u64) -> bool {
        self.waiting.contains_key(&watcher)
    }

    /// Up to where nothing concerned a watcher that was woken.
    pub fn resume(&mut self, watcher: u64) -> u64 {
        self.woken.remove(&watcher).unwrap_or(0)
    }

    /// Wakes all whom an event may concern, in the order they enlisted.
    pub fn wake(&mut self, event: &Event) {
        if self.waiting.is_empty() {
            return;
        }
        let mut concerned = BTreeSet::new();
        for interest in Interest::of(event) {
            if let Some(mut watchers) = self.by_interest.remove(&interest) {
                concerned.append(&mut watchers);
            }
        }
        for watcher in concerned {
            if let Some((_, waker)) = self.waiting.remove(&watcher) {
                self.woken.insert(watcher, event.revision - 1);
                waker.wake();
            }
        }
    }

    /// Wakes everybody.
    pub fn wake_all(&mut self) {
        self.by_interest.clear();
        for (_, waker) in std::mem::take(&mut self.waiting).into_values() {
            waker.wake();
        }
    }

    /// Forgets a watcher.
    pub fn forget(&mut self, watcher: u64) {
        self.woken.remove(&watcher);
        let Some((interest, _)) = self.waiting.remove(&watcher) else {
            return;
        };
        if let Some(watchers) = self.by_interest.get_mut(&interest) {
            watchers.remove(&watcher);
            if watchers.is_empty() {
                self.by_interest.remove(&interest);
            }
        }
    }
}
