//! A small API server: lists, watches, creates, patches and deletes of what the stage works with. It answers as the real one does
//! where the stage looks.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use futures::stream;
use http::{Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::mpsc;

type TestBody = UnsyncBoxBody<Bytes, Infallible>;

/// The server; cloning it gives the same one.
#[derive(Clone, Default)]
pub struct FakeApi(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    version: u64,
    /// Objects by resource and name, such as `pods/p`. There is one namespace.
    objects: BTreeMap<String, Value>,
    /// Watches by resource.
    watchers: Vec<(String, mpsc::Sender<String>)>,
    writes: Vec<String>,
    events: Vec<String>,
    /// Annotations of events, in the same order.
    causes: Vec<Value>,
    /// Queries of lists.
    lists: Vec<String>,
    /// Nothing is answered.
    is_silent: bool,
}

impl FakeApi {
    /// A client of it.
    pub fn client(&self) -> kube::Client {
        let api = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let api = api.clone();
            async move { Ok::<_, Infallible>(api.answer(request).await) }
        });
        kube::Client::new(service, "default")
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Creates or replaces an object.
    pub fn put(&self, path: &str, object: Value) {
        self.state().store(path, object, "MODIFIED");
    }

    /// Changes an object by a merge patch.
    pub fn change(&self, path: &str, patch: &Value) {
        let mut object = self.get(path).unwrap();
        merge(&mut object, patch);
        self.put(path, object);
    }

    pub fn remove(&self, path: &str) {
        self.state().remove(path);
    }

    pub fn get(&self, path: &str) -> Option<Value> {
        self.state().objects.get(path).cloned()
    }

    /// All objects of a resource, with their paths.
    pub fn all(&self, resource: &str) -> Vec<(String, Value)> {
        let prefix = format!("{resource}/");
        let objects = self.state().objects.clone();
        objects.into_iter().filter(|(path, _)| path.starts_with(&prefix)).collect()
    }

    /// Writes so far: method and path.
    pub fn writes(&self) -> Vec<String> {
        self.state().writes.clone()
    }

    /// Events so far: reporting controller, reason, note.
    pub fn events(&self) -> Vec<String> {
        self.state().events.clone()
    }

    /// Annotations of events, in the same order.
    pub fn causes(&self) -> Vec<Value> {
        self.state().causes.clone()
    }

    pub fn lists(&self) -> Vec<String> {
        self.state().lists.clone()
    }

    /// Ends all watches; whether new ones are answered.
    pub fn set_silent(&self, is_silent: bool) {
        let mut state = self.state();
        state.is_silent = is_silent;
        state.watchers.clear();
    }

    async fn answer(&self, request: Request<Body>) -> Response<TestBody> {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path().to_owned();
        let query = parts.uri.query().unwrap_or_default().to_owned();
        let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let mut state = self.state();
        if state.is_silent {
            return refused(503, "ServiceUnavailable");
        }
        let key = key_of(&path);
        // It has no lists as streams.
        if query.contains("sendInitialEvents") {
            return refused(400, "BadRequest");
        }
        if query.contains("watch=true") {
            return state.watch(&key);
        }
        if key == "events" && parts.method == Method::POST {
            let text = |field: &str| body[field].as_str().unwrap_or_default().to_owned();
            let uid = body["regarding"]["uid"].as_str().unwrap_or_default();
            let event = format!("{} {uid} {} {}", text("reportingController"), text("reason"), text("note"));
            state.events.push(event);
            state.causes.push(body["metadata"]["annotations"].clone());
            return whole(201, &body);
        }
        if parts.method != Method::GET {
            state.writes.push(format!("{} {key}", parts.method));
        }
        match parts.method {
            Method::POST => state.create(&key, body),
            Method::PATCH => state.patch(&key, &body),
            Method::DELETE => state.delete(&key, &body["preconditions"]),
            _ if !key.contains('/') => {
                if !["configmaps", "events", "leases"].contains(&key.as_str()) {
                    state.lists.push(format!("{key}?{query}"));
                }
                state.list(&key)
            }
            _ => state
                .objects
                .get(&key)
                .map_or_else(|| refused(404, "NotFound"), |object| whole(200, object)),
        }
    }
}

/// `pods/p` from a path, or `pods` from that of a collection.
fn key_of(path: &str) -> String {
    let tail = path
        .split("/namespaces/ns/")
        .nth(1)
        .unwrap_or_else(|| path.rsplit('/').next().unwrap_or_default());
    tail.trim_end_matches("/status").to_owned()
}

impl State {
    fn store(&mut self, path: &str, mut object: Value, kind: &str) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        if object["metadata"]["uid"].is_null() {
            object["metadata"]["uid"] = json!(format!("uid-{}", self.version));
            object["metadata"]["creationTimestamp"] = json!("2024-01-01T00:00:00Z");
        }
        self.objects.insert(path.to_owned(), object.clone());
        self.tell(path, kind, &object);
        object
    }

    fn remove(&mut self, path: &str) -> Option<Value> {
        let mut object = self.objects.remove(path)?;
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.tell(path, "DELETED", &object);
        Some(object)
    }

    fn tell(&mut self, path: &str, kind: &str, object: &Value) {
        let line = format!("{}\n", json!({"type": kind, "object": object}));
        let resource = path.split('/').next().unwrap_or_default();
        self.watchers
            .retain(|(of, watcher)| of != resource || watcher.try_send(line.clone()).is_ok());
    }

    fn watch(&mut self, resource: &str) -> Response<TestBody> {
        let (sender, lines) = mpsc::channel(10_000);
        self.watchers.push((resource.to_owned(), sender));
        let frames = stream::unfold(lines, |mut lines| async move {
            let line = lines.recv().await?;
            Some((Ok::<_, Infallible>(http_body::Frame::data(Bytes::from(line))), lines))
        });
        Response::new(StreamBody::new(frames).boxed_unsync())
    }

    fn list(&self, resource: &str) -> Response<TestBody> {
        let prefix = format!("{resource}/");
        let items: Vec<&Value> = self
            .objects
            .iter()
            .filter(|(path, _)| path.starts_with(&prefix))
            .map(|(_, one)| one)
            .collect();
        whole(
            200,
            &json!({"metadata": {"resourceVersion": self.version.to_string()}, "items": items}),
        )
    }

    fn create(&mut self, collection: &str, mut object: Value) -> Response<TestBody> {
        let meta = &mut object["metadata"];
        if meta["name"].is_null() {
            meta["name"] = json!(format!("{}{}", meta["generateName"].as_str().unwrap(), self.version));
        }
        let path = format!("{collection}/{}", meta["name"].as_str().unwrap());
        if self.objects.contains_key(&path) {
            return refused(409, "AlreadyExists");
        }
        let stored = self.store(&path, object, "ADDED");
        whole(201, &stored)
    }

    fn patch(&mut self, path: &str, patch: &Value) -> Response<TestBody> {
        let Some(mut object) = self.objects.get(path).cloned() else {
            return refused(404, "NotFound");
        };
        if patch["metadata"]["uid"] != object["metadata"]["uid"] {
            return refused(409, "Conflict");
        }
        merge(&mut object, patch);
        let stored = self.store(path, object, "MODIFIED");
        whole(200, &stored)
    }

    fn delete(&mut self, path: &str, preconditions: &Value) -> Response<TestBody> {
        match self.objects.get(path) {
            None => refused(404, "NotFound"),
            Some(object) if object["metadata"]["uid"] != preconditions["uid"] => refused(409, "Conflict"),
            Some(_) => {
                self.remove(path);
                whole(200, &json!({"kind": "Status"}))
            }
        }
    }
}

/// RFC 7386.
pub fn merge(target: &mut Value, patch: &Value) {
    let Some(members) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    for (key, value) in members {
        merge(&mut target[key.as_str()], value);
    }
}

fn refused(code: u16, reason: &str) -> Response<TestBody> {
    whole(
        code,
        &json!({"kind": "Status", "code": code, "reason": reason, "message": reason}),
    )
}

fn whole(code: u16, body: &Value) -> Response<TestBody> {
    let body = Full::new(Bytes::from(body.to_string())).boxed_unsync();
    Response::builder().status(code).body(body).unwrap()
}
