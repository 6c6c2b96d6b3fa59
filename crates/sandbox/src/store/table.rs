//! The objects of one resource, in order, and the log of what happened to them.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::task::Waker;

use bytes::Bytes;
use serde_json::Value;

use super::object::{Fields, Key, Object};
use super::past::{Index, Past};
use super::watchers::{Interest, Watchers};

/// What a table's log may keep of the past: a minute of a thousand writes per second at the size of a pod would be more, which only a
/// watch that is this far behind would miss.
const HEAVIEST: usize = 128 * 1024 * 1024;

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It did not exist before.
    Added,
    /// It existed before.
    Modified,
    /// It exists no more.
    Deleted,
}

/// One entry of the log.
#[derive(Debug)]
pub struct Event {
    /// The revision of the write; also what the object's resourceVersion says.
    pub revision: u64,
    /// What happened.
    pub change: Change,
    /// The new state, or the last one.
    pub object: Arc<Object>,
    /// The state before.
    pub previous: Option<Arc<Object>>,
}

/// What a watcher finds in the log.
#[derive(Debug)]
pub enum Lookup {
    /// The next event.
    Found(Arc<Event>),
    /// Nothing up to this revision; the waker will be called.
    Waiting(u64),
    /// What the watcher would need next is forgotten.
    Behind,
}

/// The objects of one resource.
#[derive(Debug)]
pub struct Table {
    name: Arc<str>,
    fields: fn(&Value) -> Fields,
    objects: BTreeMap<Key, Arc<Object>>,
    by_node: Option<Index>,
    log: VecDeque<Arc<Event>>,
    /// The deletions among them.
    deletions: VecDeque<Arc<Event>>,
    /// Bytes of objects that only the log keeps.
    weight: usize,
    /// Everything up to this revision is forgotten.
    compacted: u64,
    /// The last event that was dropped from the log.
    dropped: u64,
    /// Watches from before this revision end when they have read the log.
    retired: u64,
    watchers: Watchers,
}

// === impl Event ===

impl Event {
    /// The event as a line of a watch stream, encoded once, with the object.
    pub fn line(&self) -> &Bytes {
        self.object.line()
    }

    /// What it keeps in memory beyond the present: the state before. Its own is the next event's.
    fn weight(&self) -> usize {
        let last = if self.change == Change::Deleted {
            self.object.line().len()
        } else {
            0
        };
        self.previous.as_ref().map_or(0, |previous| previous.line().len()) + last
    }
}

// === impl Table ===

impl Table {
    pub(super) fn new(name: Arc<str>, fields: fn(&Value) -> Fields, revision: u64) -> Self {
        Self {
            name,
            fields,
            objects: BTreeMap::new(),
            by_node: Index::wanted(fields),
            log: VecDeque::new(),
            deletions: VecDeque::new(),
            weight: 0,
            compacted: revision,
            dropped: 0,
            retired: 0,
            watchers: Watchers::default(),
        }
    }

    /// Its storage name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The object of this name.
    pub fn get(&self, key: &Key) -> Option<&Arc<Object>> {
        self.objects.get(key)
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// All objects, by namespace and name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.objects.values()
    }

    /// The objects of a namespace, by name.
    pub fn in_namespace<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a Arc<Object>> + 'a {
        self.objects
            .range(Key::new(namespace, "")..)
            .map(|(_, object)| object)
            .take_while(move |object| object.namespace() == namespace)
    }

    /// The revision of the last event, or up to which everything is forgotten.
    pub fn last(&self) -> u64 {
        self.log
            .back()
            .map_or(self.compacted, |event| event.revision.max(self.compacted))
    }

    /// The revision up to which the past is forgotten.
    pub fn compacted(&self) -> u64 {
        self.compacted
    }

    /// The objects on a node, by namespace and name; `None` where objects are on no nodes.
    pub fn on_node<'a>(&'a self, node: &str) -> Option<impl Iterator<Item = &'a Arc<Object>> + 'a> {
        self.by_node.as_ref().map(|index| index.of(node))
    }

    /// The objects after a key, by namespace and name.
    pub fn beyond<'a>(&'a self, key: Option<&Key>) -> impl Iterator<Item = &'a Arc<Object>> + 'a {
        let start = key.map_or(Bound::Unbounded, |key| Bound::Excluded(key.clone()));
        self.objects.range((start, Bound::Unbounded)).map(|(_, object)| object)
    }

    /// How the objects were at `revision`; nothing if that is forgotten. Costs what was deleted since.
    pub fn at(&self, revision: u64) -> Option<Past<'_>> {
        let since = self.deletions.partition_point(|event| event.revision <= revision);
        (revision >= self.compacted).then(|| Past::new(self, revision, self.deletions.range(since..)))
    }

    /// What an object was at `revision`, which the log reaches back to; nothing if this one was not there then.
    pub(super) fn then<'a>(&'a self, object: &'a Arc<Object>, revision: u64) -> Option<&'a Arc<Object>> {
        let mut object = object;
        while object.revision() > revision {
            let wrote = self.log.partition_point(|event| event.revision < object.revision());
            object = self.log.get(wrote)?.previous.as_ref()?;
        }
        Some(object)
    }

    /// What an object was at `revision`, before this event.
    pub(super) fn before<'a>(&'a self, event: &'a Event, revision: u64) -> Option<&'a Arc<Object>> {
        self.then(event.previous.as_ref()?, revision)
    }

    /// The first event after `revision`.
    pub fn after(&self, revision: u64) -> Option<&Arc<Event>> {
        self.log.get(self.log.partition_point(|event| event.revision <= revision))
    }

    pub(super) fn put(&mut self, value: Value, given: Option<Box<[u8]>>, revision: u64) -> Event {
        let key = Key::of(&value);
        let (change, kept) = match self.objects.get(&key) {
            Some(before) => (Change::Modified, before.given()),
            None => (Change::Added, None),
        };
        let given = given.or_else(|| kept.map(Box::from));
        let object = Arc::new(Object::encode(value, revision, change, self.fields).with_given(given));
        let previous = self.objects.insert(key, object.clone());
        if let Some(index) = &mut self.by_node {
            index.change(previous.as_ref(), Some(&object));
        }
        Event {
            revision,
            change,
            object,
            previous,
        }
    }

    pub(super) fn remove(&mut self, key: &Key, last: Option<Value>, revision: u64) -> Option<Event> {
        let previous = self.objects.remove(key)?;
        if let Some(index) = &mut self.by_node {
            index.change(Some(&previous), None);
        }
        let last = last.unwrap_or_else(|| previous.value());
        let last = Object::encode(last, revision, Change::Deleted, self.fields).with_given(previous.given().map(Box::from));
        Some(Event {
            revision,
            change: Change::Deleted,
            object: Arc::new(last),
            previous: Some(previous),
        })
    }

    pub(super) fn publish(&mut self, event: Arc<Event>, window: usize) {
        self.weight += event.weight();
        self.log.push_back(Arc::clone(&event));
        if event.change == Change::Deleted {
            self.deletions.push_back(Arc::clone(&event));
        }
        while self.log.len() > window.max(1) || (self.weight > HEAVIEST && self.log.len() > 1) {
            let Some(dropped) = self.forget_first() else { break };
            self.compacted = self.compacted.max(dropped);
        }
        self.watchers.wake(&event);
    }

    pub(super) fn compact(&mut self, revision: u64) {
        while self.log.front().is_some_and(|event| event.revision <= revision) {
            self.forget_first();
        }
        self.compacted = self.compacted.max(revision);
    }

    pub(super) fn retire(&mut self, revision: u64) {
        self.retired = revision;
        self.watchers.wake_all();
    }

    fn forget_first(&mut self) -> Option<u64> {
        let event = self.log.pop_front()?;
        if event.change == Change::Deleted {
            self.deletions.pop_front();
        }
        self.weight -= event.weight();
        self.dropped = event.revision;
        Some(event.revision)
    }

    /// The first event after `after` that may concern a watcher.
    pub(super) fn poll(&mut self, watcher: u64, interest: &Interest, after: u64, waker: &Waker) -> Lookup {
        let after = after.max(self.watchers.resume(watcher));
        if !self.watchers.is_waiting(watcher) {
            if let Some(event) = self.after(after) {
                // The log may have moved past what the watcher has seen.
                return if after < self.dropped {
                    Lookup::Behind
                } else {
                    Lookup::Found(event.clone())
                };
            }
            if after < self.retired {
                return Lookup::Behind;
            }
        }
        self.watchers.wait(watcher, interest, waker);
        Lookup::Waiting(self.last())
    }

    pub(super) fn discharge(&mut self, watcher: u64) {
        self.watchers.forget(watcher);
    }
}
