//! Objects in memory: one revision counter for everything, ordered tables, and an event log per table that watches read.
//!
//! The store knows names, revisions and bytes. It does not know kinds: defaults, validation, finalizers and deletion rules are the
//! API's. It is synchronous; whoever holds it holds everything, so a read and the write that depends on it are one step.
//!
//! Watches pull: each keeps the revision it has seen and reads the shared log from there. An event is encoded once, whoever
//! watches, and a watcher that falls behind the log's window is cut off at no cost to others.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::Waker;

use bailiff_model::Now;
use serde_json::Value;

mod object;
mod past;
mod table;
#[cfg(test)]
mod tests;
mod watchers;

pub use object::{Fields, Key, Object};
pub use past::{NODE, Past};
pub use table::{Change, Event, Lookup, Table};
pub use watchers::Interest;

/// Watches of clients at a time: three for each of ten thousand nodes. Each is a cursor, and wakes up for what may concern it.
const MOST_STREAMS: usize = 32_768;

/// What was ever seen, for worlds that judge a run by its watch history.
#[derive(Clone, Debug)]
pub struct Observation {
    /// When it happened.
    pub at: Now,
    /// Storage name of the resource, such as `pods` or `daemonsets.apps`.
    pub resource: Arc<str>,
    /// Name of the user whose request it was; empty if it was a trusted part of the process ([`crate::Sandbox::modify`]).
    pub actor: Arc<str>,
    /// What happened.
    pub event: Arc<Event>,
}

/// How much the store remembers.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Events kept per table. A watcher that is further behind is cut off.
    pub window: usize,
    /// Observations kept; zero keeps none.
    pub history: usize,
}

/// All objects and their recent past.
#[derive(Debug)]
pub struct Store {
    revision: u64,
    tables: BTreeMap<Arc<str>, Table>,
    history: VecDeque<Observation>,
    limits: Limits,
    watchers: u64,
    /// Watches of clients that are open.
    streams: usize,
    /// Who the next writes are attributed to.
    actor: Arc<str>,
}

impl Store {
    /// An empty store. Revisions start above zero, because zero means "any" in requests.
    pub fn new(limits: Limits) -> Self {
        Self {
            revision: 1,
            tables: BTreeMap::new(),
            history: VecDeque::new(),
            limits,
            watchers: 0,
            streams: 0,
            actor: Arc::default(),
        }
    }

    /// Attributes the next writes to a user, until told otherwise.
    pub fn attribute(&mut self, actor: &Arc<str>) {
        if self.actor != *actor {
            self.actor = Arc::clone(actor);
        }
    }

    /// Adds a table. `fields` extracts what field selectors of its objects can ask for.
    pub fn register(&mut self, resource: &str, fields: fn(&Value) -> Fields) {
        if !self.tables.contains_key(resource) {
            let name: Arc<str> = resource.into();
            self.tables.insert(name.clone(), Table::new(name, fields, self.revision));
        }
    }

    /// Ends the watches of a resource that is served no more. What happened to it can still be read; it may be served again.
    pub fn retire(&mut self, resource: &str) {
        let revision = self.revision;
        if let Some(table) = self.tables.get_mut(resource) {
            table.retire(revision);
        }
    }

    /// The revision of the last write.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The table of a resource, by its storage name.
    pub fn table(&self, resource: &str) -> Option<&Table> {
        self.tables.get(resource)
    }

    /// The object of this name.
    pub fn get(&self, resource: &str, key: &Key) -> Option<&Arc<Object>> {
        self.tables.get(resource)?.get(key)
    }

    /// All observations so far, oldest first.
    pub fn history(&self) -> impl Iterator<Item = &Observation> {
        self.history.iter()
    }

    /// Stores `value` as the object's next state, new or not, and stamps its resourceVersion.
    ///
    /// Returns nothing when no such table is registered.
    pub fn put(&mut self, resource: &str, value: Value, now: Now) -> Option<Arc<Object>> {
        self.put_given(resource, value, None, now)
    }

    /// The same for an object whose raw field was given in these bytes. They stay as long as the object does: such fields never change.
    pub fn put_given(&mut self, resource: &str, value: Value, given: Option<Box<[u8]>>, now: Now) -> Option<Arc<Object>> {
        let revision = self.revision + 1;
        let table = self.tables.get_mut(resource)?;
        let event = table.put(value, given, revision);
        self.record(resource, event, now).map(|event| event.object.clone())
    }

    /// Removes an object. Its last state, or `last` instead, is stamped with the revision of the removal.
    pub fn remove(&mut self, resource: &str, key: &Key, last: Option<Value>, now: Now) -> Option<Arc<Object>> {
        let revision = self.revision + 1;
        let event = self.tables.get_mut(resource)?.remove(key, last, revision)?;
        self.record(resource, event, now).map(|event| event.object.clone())
    }

    /// Takes a revision without writing anything, as a write to something that is not watched would.
    pub fn skip_revision(&mut self) -> u64 {
        self.revision += 1;
        self.revision
    }

    /// Forgets everything that happened up to now.
    pub fn compact(&mut self) {
        let revision = self.revision;
        for table in self.tables.values_mut() {
            table.compact(revision);
        }
    }

    /// A number for a new watcher.
    pub fn enlist(&mut self) -> u64 {
        self.watchers += 1;
        self.watchers
    }

    /// A number for a new watch of a client, unless there are too many.
    pub fn enlist_stream(&mut self) -> Option<u64> {
        if self.streams >= MOST_STREAMS {
            return None;
        }
        self.streams += 1;
        Some(self.enlist())
    }

    /// How many watches of clients are open.
    #[cfg(test)]
    pub fn streams(&self) -> usize {
        self.streams
    }

    /// Forgets a watch of a client.
    pub fn discharge_stream(&mut self, resource: &str, watcher: u64) {
        self.streams -= 1;
        self.discharge(resource, watcher);
    }

    /// The next event after `after` that may concern the watcher, or the watcher's waker is kept until there is one.
    pub fn poll(&mut self, resource: &str, watcher: u64, interest: &Interest, after: u64, waker: &Waker) -> Lookup {
        match self.tables.get_mut(resource) {
            Some(table) => table.poll(watcher, interest, after, waker),
            None => Lookup::Behind,
        }
    }

    /// Forgets a watcher's waker.
    pub fn discharge(&mut self, resource: &str, watcher: u64) {
        if let Some(table) = self.tables.get_mut(resource) {
            table.discharge(watcher);
        }
    }

    fn record(&mut self, resource: &str, event: Event, now: Now) -> Option<Arc<Event>> {
        self.revision = event.revision;
        let table = self.tables.get_mut(resource)?;
        let event = Arc::new(event);
        table.publish(event.clone(), self.limits.window);
        if self.limits.history > 0 {
            if self.history.len() == self.limits.history {
                self.history.pop_front();
            }
            self.history.push_back(Observation {
                at: now,
                resource: table.name().clone(),
                actor: self.actor.clone(),
                event: event.clone(),
            });
        }
        Some(event)
    }
}
