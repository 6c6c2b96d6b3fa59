//! Terminating namespaces: their content is deleted, then they are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bailiff_model::{Mono, Now};
use serde_json::{Value, json};

use super::{Item, Resource};
use crate::Verb;
use crate::effect::{Answer, Effect};
use crate::timers::Timers;

/// After a refusal; content that somebody else's finalizer holds needs no retry, it is waited for.
const RETRY: Duration = Duration::from_secs(5);

/// Empties namespaces.
#[derive(Debug, Default)]
pub struct Namespaces {
    terminating: BTreeMap<Box<str>, Terminating>,
    /// Uids by namespace and resource.
    contents: BTreeMap<Box<str>, BTreeMap<Arc<str>, Content>>,
    timers: Timers<Box<str>>,
    is_synced: bool,
}

#[derive(Debug)]
struct Content {
    resource: Arc<Resource>,
    uids: BTreeSet<Box<str>>,
}

#[derive(Debug)]
struct Terminating {
    uid: Box<str>,
    revision: u64,
    /// The revision at which it was last asked to be finalised.
    asked: u64,
}

// === impl Namespaces ===

impl Namespaces {
    /// Everything that exists has been given.
    pub fn synced(&mut self) -> Vec<Effect> {
        self.is_synced = true;
        let names: Vec<Box<str>> = self.terminating.keys().cloned().collect();
        names.iter().flat_map(|name| self.empty(name)).collect()
    }

    /// An object is as follows, be it a namespace or something inside one.
    pub fn seen(&mut self, item: &Item) -> Vec<Effect> {
        if &*item.resource.storage == "namespaces" {
            return self.namespace_seen(item);
        }
        if item.namespace.is_empty() {
            return Vec::new();
        }
        let by_resource = self.contents.entry(item.namespace.clone()).or_default();
        let content = by_resource.entry(item.resource.storage.clone()).or_insert_with(|| Content {
            resource: Arc::clone(&item.resource),
            uids: BTreeSet::new(),
        });
        let is_new = content.uids.insert(item.uid.clone());
        if is_new && !item.is_terminating && self.is_synced && self.terminating.contains_key(&item.namespace) {
            return vec![delete_all(&item.resource, &item.namespace)];
        }
        Vec::new()
    }

    /// An object is gone.
    pub fn gone(&mut self, resource: &Resource, namespace: &str, name: &str, uid: &str) -> Vec<Effect> {
        if &*resource.storage == "namespaces" {
            self.terminating.remove(name);
            return Vec::new();
        }
        let Some(by_resource) = self.contents.get_mut(namespace) else {
            return Vec::new();
        };
        if let Some(content) = by_resource.get_mut(&resource.storage) {
            content.uids.remove(uid);
            if content.uids.is_empty() {
                by_resource.remove(&resource.storage);
            }
        }
        if by_resource.is_empty() {
            self.contents.remove(namespace);
        }
        if self.is_synced {
            self.finalize_if_empty(namespace)
        } else {
            Vec::new()
        }
    }

    /// What was asked about a namespace was refused, or not.
    pub fn answered(&mut self, name: &str, is_done: bool, now: Now) {
        if !is_done && self.terminating.contains_key(name) {
            self.timers.arm(now.mono + RETRY, name.into());
        }
    }

    /// Time passed.
    pub fn wake(&mut self, now: Now) -> Vec<Effect> {
        let mut effects = Vec::new();
        while let Some((_, name)) = self.timers.pop(now.mono) {
            if let Some(terminating) = self.terminating.get_mut(&name) {
                terminating.asked = 0;
            }
            effects.extend(self.empty(&name));
        }
        effects
    }

    /// When [`Namespaces::wake`] is wanted next.
    pub fn next_deadline(&self) -> Option<Mono> {
        self.timers.next()
    }

    fn namespace_seen(&mut self, item: &Item) -> Vec<Effect> {
        if !item.is_terminating {
            return Vec::new();
        }
        let known = self.terminating.get(&item.name).filter(|known| known.uid == item.uid);
        let is_news = known.is_none();
        let asked = known.map_or(0, |known| known.asked);
        let terminating = Terminating {
            uid: item.uid.clone(),
            revision: item.revision,
            asked,
        };
        self.terminating.insert(item.name.clone(), terminating);
        match (self.is_synced, is_news) {
            (true, true) => self.empty(&item.name),
            (true, false) => self.finalize_if_empty(&item.name),
            (false, _) => Vec::new(),
        }
    }

    fn empty(&mut self, name: &str) -> Vec<Effect> {
        let contents = self.contents.get(name).into_iter().flat_map(BTreeMap::values);
        let mut effects: Vec<Effect> = contents.map(|content| delete_all(&content.resource, name)).collect();
        effects.extend(self.finalize_if_empty(name));
        effects
    }

    fn finalize_if_empty(&mut self, name: &str) -> Vec<Effect> {
        if self.contents.contains_key(name) {
            return Vec::new();
        }
        let Some(terminating) = self.terminating.get_mut(name) else {
            return Vec::new();
        };
        if terminating.asked == terminating.revision {
            return Vec::new();
        }
        terminating.asked = terminating.revision;
        let body = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "uid": terminating.uid, "resourceVersion": terminating.revision.to_string()},
            "spec": {"finalizers": []},
        });
        let path = format!("/api/v1/namespaces/{name}/finalize");
        vec![Effect::send(Verb::Update, path, body, Answer::Emptied(name.into()))]
    }
}

/// Deletes all objects of a resource in a namespace, each as its kind is deleted: pods with their grace period.
fn delete_all(resource: &Resource, namespace: &str) -> Effect {
    let answer = Answer::Emptied(namespace.into());
    Effect::send(Verb::Delete, resource.collection(namespace), Value::Null, answer)
}
