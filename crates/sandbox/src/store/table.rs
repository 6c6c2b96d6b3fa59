//! The objects of one resource, in order, and the log of what happened to them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, OnceLock};
use std::task::Waker;

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::Value;

use super::object::{Fields, Key, Object};

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
    line: OnceLock<Bytes>,
}

/// What a watcher finds in the log.
#[derive(Debug)]
pub enum Lookup {
    /// The next event.
    Found(Arc<Event>),
    /// Nothing yet; the waker will be called.
    Waiting,
    /// What the watcher would need next is forgotten.
    Behind,
}

/// The objects of one resource.
#[derive(Debug)]
pub struct Table {
    name: Arc<str>,
    fields: fn(&Value) -> Fields,
    objects: BTreeMap<Key, Arc<Object>>,
    log: VecDeque<Arc<Event>>,
    /// Everything up to this revision is forgotten.
    compacted: u64,
    /// The last event that was dropped from the log.
    dropped: u64,
    wakers: BTreeMap<u64, Waker>,
}

// === impl Event ===

impl Event {
    /// The event as a line of a watch stream, encoded once.
    pub fn line(&self) -> &Bytes {
        self.line.get_or_init(|| {
            let head: &[u8] = match self.change {
                Change::Added => b"{\"type\":\"ADDED\",\"object\":",
                Change::Modified => b"{\"type\":\"MODIFIED\",\"object\":",
                Change::Deleted => b"{\"type\":\"DELETED\",\"object\":",
            };
            let json = self.object.json();
            let mut line = BytesMut::with_capacity(head.len() + json.len() + 2);
            line.put_slice(head);
            line.put_slice(json);
            line.put_slice(b"}\n");
            line.freeze()
        })
    }
}

// === impl Table ===

impl Table {
    pub(super) fn new(name: Arc<str>, fields: fn(&Value) -> Fields, revision: u64) -> Self {
        Self {
            name,
            fields,
            objects: BTreeMap::new(),
            log: VecDeque::new(),
            compacted: revision,
            dropped: 0,
            wakers: BTreeMap::new(),
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

    /// The objects as they were at `revision`; nothing if that is forgotten.
    pub fn at(&self, revision: u64) -> Option<BTreeMap<Key, Arc<Object>>> {
        if revision < self.compacted {
            return None;
        }
        let mut objects = self.objects.clone();
        for event in self.log.iter().rev().take_while(|event| event.revision > revision) {
            match &event.previous {
                Some(previous) => objects.insert(previous.key().clone(), previous.clone()),
                None => objects.remove(event.object.key()),
            };
        }
        Some(objects)
    }

    /// The first event after `revision`.
    pub fn after(&self, revision: u64) -> Option<&Arc<Event>> {
        self.log.get(self.log.partition_point(|event| event.revision <= revision))
    }

    pub(super) fn put(&mut self, value: Value, revision: u64) -> Event {
        let object = Arc::new(Object::encode(value, revision, self.fields));
        let previous = self.objects.insert(object.key().clone(), object.clone());
        Event {
            revision,
            change: if previous.is_some() { Change::Modified } else { Change::Added },
            object,
            previous,
            line: OnceLock::new(),
        }
    }

    pub(super) fn remove(&mut self, key: &Key, last: Option<Value>, revision: u64) -> Option<Event> {
        let previous = self.objects.remove(key)?;
        let last = last.unwrap_or_else(|| previous.value());
        Some(Event {
            revision,
            change: Change::Deleted,
            object: Arc::new(Object::encode(last, revision, self.fields)),
            previous: Some(previous),
            line: OnceLock::new(),
        })
    }

    pub(super) fn publish(&mut self, event: Arc<Event>, window: usize) {
        self.log.push_back(event);
        while self.log.len() > window.max(1) {
            if let Some(dropped) = self.log.pop_front() {
                self.dropped = dropped.revision;
                self.compacted = self.compacted.max(dropped.revision);
            }
        }
        for waker in std::mem::take(&mut self.wakers).into_values() {
            waker.wake();
        }
    }

    pub(super) fn compact(&mut self, revision: u64) {
        while self.log.front().is_some_and(|event| event.revision <= revision) {
            if let Some(event) = self.log.pop_front() {
                self.dropped = event.revision;
            }
        }
        self.compacted = self.compacted.max(revision);
    }

    pub(super) fn poll(&mut self, watcher: u64, after: u64, waker: &Waker) -> Lookup {
        if let Some(event) = self.after(after) {
            // The log may have moved past what the watcher has seen.
            return if after < self.dropped {
                Lookup::Behind
            } else {
                Lookup::Found(event.clone())
            };
        }
        self.wakers.insert(watcher, waker.clone());
        Lookup::Waiting
    }

    pub(super) fn discharge(&mut self, watcher: u64) {
        self.wakers.remove(&watcher);
    }
}
