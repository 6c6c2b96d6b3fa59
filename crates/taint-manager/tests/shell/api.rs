//! A small API server: nodes, pods, watches, patches, events. It answers as the real one does where the stage looks.

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

/// Collections, as the stage watches them.
pub const NODES: &str = "/api/v1/nodes";
pub const PODS: &str = "/api/v1/pods";
/// The ConfigMaps among which that of pauses is; there is none unless it is put there.
pub const PAUSES: &str = "/api/v1/namespaces/kube-system/configmaps";
/// Where a rival is looked out for; this server knows of none unless it is put there.
pub const EVENTS: &str = "/api/v1/events";
pub const LEADERS: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";

/// Path of the pods of the one namespace that is used.
const NAMESPACED_PODS: &str = "/api/v1/namespaces/default/pods";

type TestBody = UnsyncBoxBody<Bytes, Infallible>;

/// The server; cloning it gives the same one.
#[derive(Clone, Default)]
pub struct FakeApi(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    version: u64,
    objects: BTreeMap<(&'static str, String), Value>,
    watchers: Vec<(&'static str, mpsc::Sender<String>)>,
    requests: Vec<String>,
    events: Vec<Value>,
    refuses: Option<u16>,
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

    /// Creates or replaces an object. Watches hear of it.
    pub fn put(&self, collection: &'static str, object: Value) {
        self.state().store(collection, object);
    }

    /// Changes an object.
    pub fn change(&self, collection: &'static str, name: &str, change: impl FnOnce(&mut Value)) {
        let mut state = self.state();
        let mut object = state.objects[&(collection, name.to_owned())].clone();
        change(&mut object);
        state.store(collection, object);
    }

    /// The object.
    pub fn get(&self, collection: &'static str, name: &str) -> Value {
        self.state().objects[&(collection, name.to_owned())].clone()
    }

    /// From now on requests other than watches get this code.
    pub fn refuse(&self, code: Option<u16>) {
        self.state().refuses = code;
    }

    /// Requests since the last call: method and path, without queries; neither watches nor events.
    pub fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.state().requests)
    }

    /// Events: component, reason, uid of the object, note.
    pub fn events(&self) -> Vec<[String; 4]> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let state = self.state();
        let events = state.events.iter();
        events
            .map(|event| {
                let fields = [
                    &event["reportingController"],
                    &event["reason"],
                    &event["regarding"]["uid"],
                    &event["note"],
                ];
                fields.map(text)
            })
            .collect()
    }

    /// Annotations of events, in the same order.
    pub fn causes(&self) -> Vec<Value> {
        let state = self.state();
        state
            .events
            .iter()
            .map(|event| event["metadata"]["annotations"].clone())
            .collect()
    }

    async fn answer(&self, request: Request<Body>) -> Response<TestBody> {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path().to_owned();
        let query = parts.uri.query().unwrap_or_default().to_owned();
        let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let mut state = self.state();
        // It has no lists as streams.
        if query.contains("sendInitialEvents") {
            return refused(400);
        }
        if query.contains("watch=true") {
            return state.watch(&path, &query);
        }
        if path.ends_with("/events") && parts.method == Method::POST {
            state.events.push(body.clone());
            return whole(201, &body);
        }
        if [PAUSES, EVENTS, LEADERS].contains(&path.as_str()) {
            return state.read(&path);
        }
        state.requests.push(format!("{} {path}", parts.method));
        if let Some(code) = state.refuses {
            return refused(code);
        }
        if parts.method == Method::PATCH {
            return state.patch(&path, body);
        }
        state.read(&path)
    }
}

impl State {
    fn store(&mut self, collection: &'static str, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let line = line(&object);
        self.watchers
            .retain(|(of, watcher)| *of != collection || watcher.try_send(line.clone()).is_ok());
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        self.objects.insert((collection, name), object.clone());
        object
    }

    /// A watch from the version that is asked for: first what changed since, as it is now.
    fn watch(&mut self, path: &str, query: &str) -> Response<TestBody> {
        let from = query.split('&').find_map(|pair| pair.strip_prefix("resourceVersion="));
        let from: u64 = from.unwrap_or_default().parse().unwrap();
        let (sender, lines) = mpsc::channel(10_000);
        let collection = place(path).0;
        for ((of, _), object) in &self.objects {
            let version: u64 = object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
            if *of == collection && version > from {
                sender.try_send(line(object)).unwrap();
            }
        }
        self.watchers.push((collection, sender));
        let frames = stream::unfold(lines, |mut lines| async move {
            let line = lines.recv().await?;
            Some((Ok::<_, Infallible>(http_body::Frame::data(Bytes::from(line))), lines))
        });
        Response::new(StreamBody::new(frames).boxed_unsync())
    }

    fn read(&self, path: &str) -> Response<TestBody> {
        let (collection, name) = place(path);
        if name.is_empty() {
            let items: Vec<&Value> = self
                .objects
                .iter()
                .filter(|((of, _), _)| *of == collection)
                .map(|(_, object)| object)
                .collect();
            return whole(
                200,
                &json!({"metadata": {"resourceVersion": self.version.to_string()}, "items": items}),
            );
        }
        match self.objects.get(&(collection, name)) {
            Some(object) => whole(200, object),
            None => refused(404),
        }
    }

    fn patch(&mut self, path: &str, body: Value) -> Response<TestBody> {
        let (collection, name) = place(path);
        let Some(mut object) = self.objects.get(&(collection, name)).cloned() else {
            return refused(404);
        };
        for field in ["uid", "resourceVersion"] {
            let wanted = &body["metadata"][field];
            if !wanted.is_null() && *wanted != object["metadata"][field] {
                return refused(409);
            }
        }
        if !body["spec"]["taints"].is_null() {
            object["spec"]["taints"] = body["spec"]["taints"].clone();
        }
        for (key, value) in body["metadata"]["labels"].as_object().into_iter().flatten() {
            object["metadata"]["labels"][key] = value.clone();
        }
        for new in body["status"]["conditions"].as_array().into_iter().flatten() {
            let conditions = object["status"]["conditions"].as_array_mut().unwrap();
            let old = conditions.iter_mut().find(|old| old["type"] == new["type"]).unwrap();
            for (field, value) in new.as_object().unwrap() {
                old[field] = value.clone();
            }
        }
        let object = self.store(collection, object);
        whole(200, &object)
    }
}

fn line(object: &Value) -> String {
    format!("{}\n", json!({"type": "MODIFIED", "object": object}))
}

/// Collection and name; no name for the collection itself.
fn place(path: &str) -> (&'static str, String) {
    let known = [NODES, PAUSES, EVENTS, LEADERS]
        .into_iter()
        .find_map(|known| Some((known, path.strip_prefix(known)?)));
    let (collection, rest) = match known {
        Some(known) => known,
        None => (PODS, path.trim_start_matches(NAMESPACED_PODS).trim_start_matches(PODS)),
    };
    (collection, rest.trim_matches('/').trim_end_matches("/status").to_owned())
}

fn refused(code: u16) -> Response<TestBody> {
    let reason = match code {
        404 => "NotFound",
        409 => "Conflict",
        _ => "InternalError",
    };
    whole(
        code,
        &json!({"kind": "Status", "code": code, "reason": reason, "message": reason}),
    )
}

fn whole(code: u16, body: &Value) -> Response<TestBody> {
    let body = Full::new(Bytes::from(body.to_string())).boxed_unsync();
    Response::builder().status(code).body(body).unwrap()
}
