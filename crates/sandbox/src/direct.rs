//! The API without HTTP, for what lives beside it in the process: kubelets, the binder, the garbage collector, worlds.
//!
//! [`Sandbox::request`] goes through everything a client's request goes through. The methods under "trusted" do not: they neither
//! authorise, default nor validate, and are for parts of the cluster whose writes are right by construction.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use crate::api;
use crate::api::reply::Content;
use crate::api::request::{Body, Query, Request};
use crate::store::{Key, Object};
use crate::{Sandbox, Status, Watch};

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Name, such as `system:node:n1`.
    pub name: Arc<str>,
    /// Uid, `""` if it has none.
    pub uid: Arc<str>,
    /// Groups.
    pub groups: Vec<Arc<str>>,
    /// What else is known about it.
    pub extra: Vec<(Arc<str>, Arc<str>)>,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// GET of an object or a list.
    Get,
    /// POST: of an object, or to a subresource such as `binding` or `eviction`.
    Create,
    /// PUT.
    Update,
    /// PATCH, `application/merge-patch+json`.
    MergePatch,
    /// PATCH, `application/strategic-merge-patch+json`.
    StrategicMergePatch,
    /// PATCH, `application/json-patch+json`.
    JsonPatch,
    /// PATCH, `application/apply-patch+yaml`.
    Apply,
    /// DELETE of an object or a collection; the body is DeleteOptions or null.
    Delete,
}

// === impl User ===

impl User {
    /// The cluster's administrator (group `system:masters`).
    pub fn admin() -> Self {
        Self::new("admin", &["system:masters", "system:authenticated"])
    }

    /// Nobody in particular.
    pub fn anonymous() -> Self {
        Self::new("system:anonymous", &["system:unauthenticated"])
    }

    /// Whether it belongs to a group.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|one| **one == *group)
    }

    /// Makes it belong to a group.
    pub fn join(&mut self, group: &str) {
        if !self.is_in(group) {
            self.groups.push(group.into());
        }
    }

    /// A user of this name and these groups.
    pub fn new(name: &str, groups: &[&str]) -> Self {
        Self {
            name: name.into(),
            uid: "".into(),
            groups: groups.iter().map(|&group| group.into()).collect(),
            extra: Vec::new(),
        }
    }
}

// === impl Sandbox: requests ===

impl Sandbox {
    /// Makes a request. `path` may carry a query (`/api/v1/pods?fieldSelector=spec.nodeName%3Dn1`).
    ///
    /// # Errors
    /// The Status that a client would be answered.
    pub fn request(&self, user: &User, verb: Verb, path: &str, body: &Value) -> Result<Value, Status> {
        match self.answer(user, verb, path, body.clone())? {
            Content::Full(bytes) => Ok(serde_json::from_slice(&bytes).unwrap_or_default()),
            Content::Object(value) => Ok(value),
            Content::Stream(_) | Content::Late(..) => Ok(Value::Null),
        }
    }

    /// The same for whoever only wants to know which object the answer is.
    ///
    /// # Errors
    /// The Status that a client would be answered.
    pub(crate) fn tell(&self, user: &User, verb: Verb, path: &str, body: Value) -> Result<Identity, Status> {
        let told: Told = match self.answer(user, verb, path, body)? {
            Content::Full(bytes) => serde_json::from_slice(&bytes).unwrap_or_default(),
            Content::Object(value) => serde_json::from_value(value).unwrap_or_default(),
            Content::Stream(_) | Content::Late(..) => Told::default(),
        };
        Ok(told.metadata)
    }

    fn answer(&self, user: &User, verb: Verb, path: &str, body: Value) -> Result<Content, Status> {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let mut query = Query::parse(query);
        if verb == Verb::Apply && query.find("fieldManager").is_none() {
            query.push("fieldManager", &user.name);
        }
        let request = Request {
            method: verb.method().to_owned(),
            path: path.to_owned(),
            query,
            content_type: verb.content_type().map(str::to_owned),
            user_agent: user.name.to_string(),
            body: Body::Value(body),
            ..Request::default()
        };
        let reply = api::handle(self, &request, Some(user));
        match reply.body {
            Content::Stream(_) => Err(Status::bad_request("a watch is no request: use Sandbox::watch")),
            Content::Late(_, status) => Err(*status),
            body if reply.status < 400 => Ok(body),
            Content::Full(bytes) => {
                let value = serde_json::from_slice(&bytes).unwrap_or_default();
                Err(Status::of_value(reply.status, &value))
            }
            Content::Object(value) => Err(Status::of_value(reply.status, &value)),
        }
    }
}

/// What an object is called.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Identity {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub resource_version: String,
}

/// An answer, as far as it says what it is about.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Told {
    metadata: Identity,
}

// === impl Verb ===

impl Verb {
    fn method(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Create => "POST",
            Self::Update => "PUT",
            Self::Delete => "DELETE",
            Self::MergePatch | Self::StrategicMergePatch | Self::JsonPatch | Self::Apply => "PATCH",
        }
    }

    fn content_type(self) -> Option<&'static str> {
        match self {
            Self::MergePatch => Some("application/merge-patch+json"),
            Self::StrategicMergePatch => Some("application/strategic-merge-patch+json"),
            Self::JsonPatch => Some("application/json-patch+json"),
            Self::Apply => Some("application/apply-patch+yaml"),
            _ => None,
        }
    }
}

// === impl Sandbox: trusted ===

impl Sandbox {
    /// The object of this name. `resource` is a storage name: `pods`, `nodes`, `daemonsets.apps`, `leases.coordination.k8s.io`.
    pub fn get(&self, resource: &str, namespace: &str, name: &str) -> Option<Arc<Object>> {
        self.store().get(resource, &Key::new(namespace, name)).cloned()
    }

    /// All objects of a resource, and the revision at which these are all.
    pub fn list(&self, resource: &str) -> (u64, Vec<Arc<Object>>) {
        let store = self.store();
        let objects = store
            .table(resource)
            .map_or_else(Vec::new, |table| table.iter().cloned().collect());
        (store.revision(), objects)
    }

    /// All changes of a resource after a revision, such as the one that [`Sandbox::list`] returned.
    pub fn watch(&self, resource: &str, after: u64) -> Watch {
        Watch::new(self, resource, after)
    }

    /// Changes an object in one step, if it still exists and has this uid (`""` for any). What `change` says `false` to is not
    /// written. resourceVersion is stamped; generation grows by itself if `spec` changed.
    pub fn modify(
        &self,
        resource: &str,
        (namespace, name, uid): (&str, &str, &str),
        change: impl FnOnce(&mut Value) -> bool,
    ) -> Option<Arc<Object>> {
        let now = self.clock().now();
        let mut store = self.store();
        store.attribute(&Arc::default());
        let current = store.get(resource, &Key::new(namespace, name))?.clone();
        if !uid.is_empty() && uid != current.uid() {
            return None;
        }
        let mut value = current.value();
        let spec = value.get("spec").cloned();
        if !change(&mut value) {
            return Some(current);
        }
        if spec.as_ref() != value.get("spec") {
            grow_generation(&mut value);
        }
        store.put(resource, value, now)
    }
}

fn grow_generation(value: &mut Value) {
    if let Some(generation) = value.pointer_mut("/metadata/generation") {
        *generation = (generation.as_i64().unwrap_or(0) + 1).into();
    }
}
