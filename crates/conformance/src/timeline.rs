//! What happened, in the order in which it could be seen: writes to the API and records of the bus in one sequence.
//!
//! Before a record is put down everything that the API server did until then is: what a record says was done stands before it, or was
//! not done when it was said.

use std::collections::BTreeMap;
use std::sync::Arc;

use bailiff_event_bus::{Record, ShardStatus, Update};
use bailiff_model::{Now, Topic};
use bailiff_runtime::Clock;
use bailiff_sandbox::{Change, Observation, Sandbox};
use serde_json::Value;

/// The user that the program's token makes it.
pub const CANDIDATE: &str = "system:serviceaccount:conformance:candidate";

/// One thing that happened.
#[derive(Clone, Debug)]
pub struct Entry {
    /// When it was seen; a write: when it happened.
    pub at: Now,
    /// What it was.
    pub what: What,
}

/// What happened.
#[derive(Clone, Debug)]
pub enum What {
    /// The API server stored something.
    Write(Observation),
    /// The bus told a record.
    Record(Box<Record>),
}

/// What happened so far, and what is.
#[derive(Debug)]
pub struct Timeline {
    sandbox: Sandbox,
    clock: Clock,
    entries: Vec<Entry>,
    /// Observations of the sandbox that are in `entries`.
    read: usize,
    latest: BTreeMap<(Topic, String), Record>,
    shards: BTreeMap<(Topic, u32), ShardStatus>,
}

impl Timeline {
    /// An empty one.
    pub const fn new(sandbox: Sandbox, clock: Clock) -> Self {
        Self {
            sandbox,
            clock,
            entries: Vec::new(),
            read: 0,
            latest: BTreeMap::new(),
            shards: BTreeMap::new(),
        }
    }

    /// Puts down what the API server did meanwhile.
    pub fn catch_up(&mut self) {
        let news = self.sandbox.history_after(self.read);
        self.read += news.len();
        self.entries.extend(news.into_iter().map(|observation| Entry {
            at: observation.at,
            what: What::Write(observation),
        }));
    }

    /// Puts down what the bus told.
    pub fn take(&mut self, update: Update) {
        self.catch_up();
        let (records, shards) = match update {
            Update::Snapshot { records, shards, .. } => {
                self.latest.clear();
                self.shards.clear();
                (records, shards)
            }
            Update::Changes { records, shards, .. } => (records, shards),
            Update::Status { shards } => (Vec::new(), shards),
            Update::Lost { .. } => return,
        };
        for shard in shards {
            self.shards.insert((shard.topic, shard.shard), shard);
        }
        let at = self.clock.now();
        for record in records {
            let key = (record.topic, record.key.clone());
            if record.body.is_some() {
                self.latest.insert(key, record.clone());
            } else {
                self.latest.remove(&key);
            }
            self.entries.push(Entry {
                at,
                what: What::Record(Box::new(record)),
            });
        }
    }

    /// Where what happens next will stand.
    pub const fn place(&self) -> usize {
        self.entries.len()
    }

    /// What the program wrote to the API, with its place, from `place` on.
    pub fn writes(&self, place: usize) -> impl Iterator<Item = (usize, &Observation)> {
        let entries = self.entries.iter().enumerate().skip(place);
        entries.filter_map(|(place, entry)| match &entry.what {
            What::Write(observation) if *observation.actor == *CANDIDATE => Some((place, observation)),
            _ => None,
        })
    }

    /// Records of a topic, with their place and when they were seen, from `place` on.
    pub fn records(&self, topic: Topic, place: usize) -> impl Iterator<Item = (usize, Now, &Record)> {
        let entries = self.entries.iter().enumerate().skip(place);
        entries.filter_map(move |(place, entry)| match &entry.what {
            What::Record(record) if record.topic == topic => Some((place, entry.at, &**record)),
            _ => None,
        })
    }

    /// What is true of a key.
    pub fn latest(&self, topic: Topic, key: &str) -> Option<&Record> {
        self.latest.get(&(topic, key.to_owned()))
    }

    /// All shards of the topic are there and complete.
    pub fn is_complete(&self, topic: Topic) -> bool {
        let mut shards = self.shards.values().filter(|shard| shard.topic == topic).peekable();
        shards.peek().is_some() && shards.all(|shard| shard.complete)
    }

    /// All shards of the topic are there and live.
    pub fn is_live(&self, topic: Topic) -> bool {
        let mut shards = self.shards.values().filter(|shard| shard.topic == topic).peekable();
        shards.peek().is_some() && shards.all(|shard| shard.live)
    }

    /// An object as it is in the API.
    pub fn object(&self, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        self.sandbox.get(resource, namespace, name).map(|object| object.value())
    }

    /// A Node as it is in the API.
    pub fn node(&self, name: &str) -> Value {
        self.object("nodes", "", name).unwrap_or_default()
    }

    /// A Pod as it is in the API; null if there is none of this name.
    pub fn pod(&self, name: &str) -> Value {
        self.object("pods", "default", name).unwrap_or_default()
    }

    /// All objects of a resource.
    pub fn objects(&self, resource: &str) -> Vec<Value> {
        let (_, objects) = self.sandbox.list(resource);
        objects.iter().map(|object| object.value()).collect()
    }
}

// === what an object says ===

/// The condition of this type, or null.
pub fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array();
    let found = conditions.and_then(|all| all.iter().find(|condition| condition["type"] == kind));
    found.unwrap_or(&Value::Null)
}

/// The taint of this key and effect that the Node carries.
pub fn taint_of<'a>(node: &'a Value, key: &str, effect: &str) -> Option<&'a Value> {
    let taints = node["spec"]["taints"].as_array();
    taints.and_then(|all| all.iter().find(|taint| taint["key"] == key && taint["effect"] == effect))
}

/// The Node carries a taint of this key and effect.
pub fn has_taint(node: &Value, key: &str, effect: &str) -> bool {
    taint_of(node, key, effect).is_some()
}

/// The object is on its way out, or there is none.
pub fn is_leaving(object: &Value) -> bool {
    object.is_null() || !object["metadata"]["deletionTimestamp"].is_null()
}

/// The observation is the first of a pod's deletion.
pub fn is_deletion(write: &Observation) -> bool {
    let was_leaving = write
        .event
        .previous
        .as_ref()
        .is_some_and(|before| is_leaving(&before.value()));
    let leaves = write.event.change == Change::Deleted || is_leaving(&write.event.object.value());
    leaves && !was_leaving
}

/// What of an object a write is about, for people: `pods default/web-1`.
pub fn subject(write: &Observation) -> String {
    let object: &Arc<_> = &write.event.object;
    let place = if object.namespace().is_empty() {
        object.name().to_owned()
    } else {
        format!("{}/{}", object.namespace(), object.name())
    };
    format!("{} {place}", write.resource)
}
