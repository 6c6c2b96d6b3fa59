//! What a list has said so far: kept until it ends, or shown in parts on the way.

use std::collections::BTreeMap;

use tokio::sync::mpsc;

use super::{Event, Snapshot, View};
use crate::views::{CompactString, Meta};

/// Objects of a part, so that the parts that wait for the reader together are not a list again, and none leaves a large hole behind. To wake
/// the reader costs little beside that many objects.
const PART: usize = 32;

/// How lists are shown in parts: on this way, each made by this.
pub(super) struct Way<T, P> {
    pub(super) sender: mpsc::Sender<Vec<Event<T, P>>>,
    pub(super) part: fn(bool, Vec<T>) -> P,
}

impl<T, P> Clone for Way<T, P> {
    fn clone(&self) -> Self {
        Self {
            sender: self.sender.clone(),
            part: self.part,
        }
    }
}

/// What was told so far. What cannot be decoded is kept by what identifies it.
pub(super) enum Collected<T, P> {
    /// By pages, which say everything once.
    Listed(Snapshot<T>),
    /// By a stream, which says what changes meanwhile.
    Told(BTreeMap<Key, Result<T, Meta>>),
    /// By either, and shown already but for the rest.
    Shown(Parts<T, P>),
}

/// Namespace and name.
type Key = (CompactString, CompactString);

/// A list that is shown in parts.
pub(super) struct Parts<T, P> {
    way: Way<T, P>,
    /// A part was made.
    begun: bool,
    /// The next part.
    objects: Vec<T>,
    malformed: BTreeMap<Key, Meta>,
    /// What is to be shown.
    ready: Vec<Event<T, P>>,
}

// === impl Collected ===

impl<T: View, P> Collected<T, P> {
    /// Of pages.
    pub(super) fn listed(way: Option<&Way<T, P>>) -> Self {
        let empty = Snapshot {
            objects: Vec::new(),
            malformed: Vec::new(),
        };
        way.map_or(Self::Listed(empty), |way| Self::Shown(Parts::new(way)))
    }

    /// Of a stream.
    pub(super) fn told(way: Option<&Way<T, P>>) -> Self {
        way.map_or(Self::Told(BTreeMap::new()), |way| Self::Shown(Parts::new(way)))
    }

    /// Takes an object, or what identifies it.
    pub(super) fn put(&mut self, object: Result<T, Meta>) {
        match self {
            Self::Listed(snapshot) => match object {
                Ok(view) => snapshot.objects.push(view),
                Err(meta) => snapshot.malformed.push(meta),
            },
            Self::Told(by_name) => {
                let key = key(object.as_ref().map_or_else(|meta| meta, View::meta));
                by_name.insert(key, object);
            }
            Self::Shown(parts) => parts.put(object),
        }
    }

    /// The object is gone.
    pub(super) fn remove(&mut self, meta: Meta) {
        match self {
            Self::Listed(_) => {}
            Self::Told(by_name) => drop(by_name.remove(&(meta.namespace, meta.name))),
            Self::Shown(parts) => parts.remove(meta),
        }
    }

    /// Shows what is to be shown by now; waits until the reader has room for it.
    pub(super) async fn show(&mut self) {
        if let Self::Shown(parts) = self {
            parts.show().await;
        }
    }

    /// That was all: what remains to be shown.
    pub(super) async fn end(self) -> Snapshot<T> {
        match self {
            Self::Listed(snapshot) => snapshot,
            Self::Told(by_name) => {
                let mut snapshot = Snapshot {
                    objects: Vec::with_capacity(by_name.len()),
                    malformed: Vec::new(),
                };
                for object in by_name.into_values() {
                    match object {
                        Ok(view) => snapshot.objects.push(view),
                        Err(meta) => snapshot.malformed.push(meta),
                    }
                }
                snapshot
            }
            Self::Shown(parts) => parts.end().await,
        }
    }
}

fn key(meta: &Meta) -> Key {
    (meta.namespace.clone(), meta.name.clone())
}

// === impl Parts ===

impl<T: View, P> Parts<T, P> {
    fn new(way: &Way<T, P>) -> Self {
        Self {
            way: way.clone(),
            begun: false,
            objects: Vec::new(),
            malformed: BTreeMap::new(),
            ready: Vec::new(),
        }
    }

    fn put(&mut self, object: Result<T, Meta>) {
        match object {
            Ok(view) => {
                if !self.malformed.is_empty() {
                    self.malformed.remove(&key(view.meta()));
                }
                self.objects.push(view);
                if self.objects.len() >= PART {
                    self.cut();
                }
            }
            Err(meta) => drop(self.malformed.insert(key(&meta), meta)),
        }
    }

    /// The reader may have been shown it, so it is told in its order.
    fn remove(&mut self, meta: Meta) {
        self.malformed.remove(&key(&meta));
        self.cut();
        self.ready.push(Event::Deleted(meta));
    }

    fn cut(&mut self) {
        let first = !std::mem::replace(&mut self.begun, true);
        if first || !self.objects.is_empty() {
            let objects = std::mem::take(&mut self.objects);
            self.ready.push(Event::Part((self.way.part)(first, objects)));
        }
    }

    async fn show(&mut self) {
        if !self.ready.is_empty() {
            // Who reads owns this task, and ends it.
            drop(self.way.sender.send(std::mem::take(&mut self.ready)).await);
        }
    }

    async fn end(mut self) -> Snapshot<T> {
        if !self.begun {
            // The end must not pass for that of a list that broke off.
            self.ready.push(Event::Part((self.way.part)(true, Vec::new())));
        }
        self.show().await;
        Snapshot {
            objects: self.objects,
            malformed: self.malformed.into_values().collect(),
        }
    }
}
