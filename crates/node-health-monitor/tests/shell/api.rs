//! A small API server: nodes, leases, watches, status patches, events. It answers as the real one does where the stage looks.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use http::{Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::mpsc;

pub const NODES: &str = "/api/v1/nodes";
pub const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
/// The ConfigMaps among which that of pauses is; there is none unless it is put there.
pub const PAUSES: &str = "/api/v1/namespaces/kube-system/configmaps";
/// Where a rival is looked out for; this server knows of none unless it is put there.
pub const EVENTS: &str = "/api/v1/events";
pub const LEADERS: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";

type TestBody = UnsyncBoxBody<Bytes, Infallible>;

/// The server; cloning it gives the same one.
#[derive(Clone, Default)]
pub struct FakeApi(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    version: u64,
    objects: BTreeMap<&'static str, BTreeMap<String, Value>>,
    watchers: Vec<(&'static str, mpsc::Sender<String>)>,
    requests: Vec<String>,
    patches: Vec<Value>,
    events: Vec<Value>,
    refuses: Option<u16>,
    refuses_lists: bool,
    reads_take: Duration,
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
        self.0.lock().expect("not poisoned")
    }

    /// Creates or replaces an object; its metadata gets a new resourceVersion. Watches hear of it.
    pub fn put(&self, collection: &'static str, mut object: Value) {
        let mut state = self.state();
        state.version += 1;
        object["metadata"]["resourceVersion"] = json!(state.version.to_string());
        let name = object["metadata"]["name"].as_str().expect("a name").to_owned();
        state.tell(collection, "MODIFIED", &object);
        state.objects.entry(collection).or_default().insert(name, object);
    }

    /// Removes an object.
    pub fn remove(&self, collection: &'static str, name: &str) {
        let mut state = self.state();
        let object = state.objects.entry(collection).or_default().remove(name).expect("it exists");
        state.tell(collection, "DELETED", &object);
    }

    /// The object.
    pub fn get(&self, collection: &'static str, name: &str) -> Value {
        self.state().objects[collection][name].clone()
    }

    /// From now on requests other than watches get this code.
    pub fn refuse(&self, code: Option<u16>) {
        self.state().refuses = code;
    }

    /// From now on there are no lists of nodes and leases.
    pub fn refuse_lists(&self) {
        self.state().refuses_lists = true;
    }

    /// From now on reads of single objects take this long.
    pub fn reads_take(&self, duration: Duration) {
        self.state().reads_take = duration;
    }

    /// Requests since the last call: method and path, without queries; neither watches nor events.
    pub fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.state().requests)
    }

    /// Bodies of status patches.
    pub fn patches(&self) -> Vec<Value> {
        self.state().patches.clone()
    }

    /// Events, as reason and note.
    pub fn events(&self) -> Vec<(String, String)> {
        let text = |event: &Value, field: &str| event[field].as_str().unwrap_or_default().to_owned();
        self.state()
            .events
            .iter()
            .map(|event| (text(event, "reason"), text(event, "note")))
            .collect()
    }

    /// Annotation of the first event of this reason.
    pub fn annotation(&self, reason: &str, key: &str) -> String {
        let state = self.state();
        let event = state
            .events
            .iter()
            .find(|event| event["reason"] == reason)
            .expect("it was emitted");
        event["metadata"]["annotations"][key].as_str().unwrap_or_default().to_owned()
    }

    async fn answer(&self, request: Request<Body>) -> Response<TestBody> {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path().to_owned();
        let query = parts.uri.query().unwrap_or_default().to_owned();
        let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        if parts.method == Method::GET && [NODES, LEASES].iter().any(|all| path.starts_with(&format!("{all}/"))) {
            let reads_take = self.state().reads_take;
            tokio::time::sleep(reads_take).await;
        }
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
        if state.refuses_lists && [NODES, LEASES].contains(&path.as_str()) {
            return refused(503);
        }
        if parts.method == Method::PATCH {
            return state.patch(&path, body);
        }
        state.read(&path)
    }
}

impl State {
    fn tell(&mut self, collection: &'static str, kind: &str, object: &Value) {
        let line = format!("{}\n", json!({"type": kind, "object": object}));
        self.watchers
            .retain(|(of, watcher)| *of != collection || watcher.try_send(line.clone()).is_ok());
    }

    fn watch(&mut self, path: &str, query: &str) -> Response<TestBody> {
        let seconds = query.split('&').find_map(|pair| pair.strip_prefix("timeoutSeconds="));
        let seconds = seconds.and_then(|seconds| seconds.parse().ok()).unwrap_or(60);
        let end = tokio::time::Instant::now() + Duration::from_secs(seconds);
        let (sender, lines) = mpsc::channel(10_000);
        self.watchers.push((collection(path), sender));
        let frames = stream::unfold(lines, move |mut lines| async move {
            let line = tokio::time::timeout_at(end, lines.recv()).await.ok()??;
            Some((Ok::<_, Infallible>(http_body::Frame::data(Bytes::from(line))), lines))
        });
        Response::new(StreamBody::new(frames).boxed_unsync())
    }

    fn read(&self, path: &str) -> Response<TestBody> {
        let objects = self.objects.get(collection(path));
        let name = path.strip_prefix(collection(path)).and_then(|rest| rest.strip_prefix('/'));
        match name {
            None => {
                let items: Vec<&Value> = objects.into_iter().flat_map(BTreeMap::values).collect();
                whole(
                    200,
                    &json!({"metadata": {"resourceVersion": self.version.to_string()}, "items": items}),
                )
            }
            Some(name) => match objects.and_then(|objects| objects.get(name)) {
                Some(object) => whole(200, object),
                None => refused(404),
            },
        }
    }

    fn patch(&mut self, path: &str, body: Value) -> Response<TestBody> {
        let name = path
            .trim_start_matches(NODES)
            .trim_matches('/')
            .trim_end_matches("/status")
            .to_owned();
        self.patches.push(body.clone());
        let Some(mut node) = self.objects.get(NODES).and_then(|nodes| nodes.get(&name)).cloned() else {
            return refused(404);
        };
        for field in ["uid", "resourceVersion"] {
            if body["metadata"][field] != node["metadata"][field] {
                return refused(409);
            }
        }
        merge_conditions(&mut node, &body);
        self.version += 1;
        node["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.tell(NODES, "MODIFIED", &node);
        self.objects.entry(NODES).or_default().insert(name, node.clone());
        whole(200, &node)
    }
}

/// Conditions merge by type.
fn merge_conditions(node: &mut Value, patch: &Value) {
    if !node["status"]["conditions"].is_array() {
        node["status"]["conditions"] = json!([]);
    }
    let conditions = node["status"]["conditions"].as_array_mut().expect("made one");
    for new in patch["status"]["conditions"].as_array().expect("a list") {
        match conditions.iter_mut().find(|old| old["type"] == new["type"]) {
            Some(old) => {
                for (field, value) in new.as_object().expect("a condition") {
                    old[field] = value.clone();
                }
            }
            None => conditions.push(new.clone()),
        }
    }
}

fn collection(path: &str) -> &'static str {
    let known = [NODES, PAUSES, EVENTS, LEADERS]
        .into_iter()
        .find(|known| path.starts_with(known));
    known.unwrap_or(LEASES)
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
    Response::builder().status(code).body(body).expect("a response")
}
