//! A small API server: nodes, pods, watches, preconditions, events. It answers as the real one does where the stage looks.

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
pub const PODS: &str = "/api/v1/namespaces/default/pods";
/// The ConfigMaps among which that of pauses is; this server has none unless it is put there.
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
    objects: BTreeMap<String, Value>,
    watchers: Vec<(&'static str, mpsc::Sender<String>)>,
    requests: Vec<(String, Value)>,
    events: Vec<Value>,
    delay: Duration,
    budget: Option<&'static str>,
    denies_deletions: bool,
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

    /// Creates or replaces an object; its metadata gets a new resourceVersion. Watches hear of nodes.
    pub fn put(&self, collection: &str, object: Value) -> Value {
        let name = object["metadata"]["name"].as_str().expect("a name").to_owned();
        self.state().store(&format!("{collection}/{name}"), object)
    }

    /// Deletes an object. Watches hear of nodes.
    pub fn remove(&self, collection: &str, name: &str) {
        self.state().remove(&format!("{collection}/{name}"));
    }

    /// Every request but a watch takes so long from now on.
    pub fn slow(&self, delay: Duration) {
        self.state().delay = delay;
    }

    /// A budget of this name forbids every eviction; or none does.
    pub fn forbid(&self, budget: Option<&'static str>) {
        self.state().budget = budget;
    }

    /// From now on nobody may delete anything.
    pub fn deny_deletions(&self) {
        self.state().denies_deletions = true;
    }

    /// The object, if there is one.
    pub fn get(&self, collection: &str, name: &str) -> Option<Value> {
        self.state().objects.get(&format!("{collection}/{name}")).cloned()
    }

    /// Writes so far: method and path, and the body.
    pub fn writes(&self) -> Vec<(String, Value)> {
        let requests = self.state().requests.clone();
        requests
            .into_iter()
            .filter(|(request, _)| !request.starts_with("GET"))
            .collect()
    }

    /// Events: reporting controller, reason, note, and whether the object is named by uid.
    pub fn events(&self) -> Vec<(String, String, String, bool)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let one = |event: &Value| {
            let with_uid = event["regarding"]["uid"].is_string();
            (
                text(&event["reportingController"]),
                text(&event["reason"]),
                text(&event["note"]),
                with_uid,
            )
        };
        self.state().events.iter().map(one).collect()
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
        let delay = self.state().delay;
        if !delay.is_zero() && !query.contains("watch=true") {
            tokio::time::sleep(delay).await;
        }
        let quiet = [PAUSES, EVENTS, LEADERS].into_iter().find(|quiet| path == *quiet);
        let mut state = self.state();
        // It has no lists as streams.
        if query.contains("sendInitialEvents") {
            return refused(400);
        }
        if query.contains("watch=true") {
            return state.watch(quiet.unwrap_or(NODES));
        }
        if let Some(collection) = quiet {
            return state.list(collection);
        }
        if path.ends_with("/events") {
            state.events.push(body.clone());
            return whole(201, &body);
        }
        state.requests.push((format!("{} {path}", parts.method), body.clone()));
        let target = path.trim_end_matches("/status");
        match parts.method {
            Method::PATCH => state.patch(target, &body),
            Method::POST => state.evict(target, &body),
            Method::DELETE => state.delete(target, &body["preconditions"]),
            _ if path == NODES => state.list(NODES),
            _ => state
                .objects
                .get(target)
                .map_or_else(|| refused(404), |object| whole(200, object)),
        }
    }
}

impl State {
    fn store(&mut self, path: &str, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.tell(path, "MODIFIED", &object);
        self.objects.insert(path.to_owned(), object.clone());
        object
    }

    fn remove(&mut self, path: &str) {
        self.version += 1;
        if let Some(mut object) = self.objects.remove(path) {
            object["metadata"]["resourceVersion"] = json!(self.version.to_string());
            self.tell(path, "DELETED", &object);
        }
    }

    fn tell(&mut self, path: &str, kind: &str, object: &Value) {
        let line = format!("{}\n", json!({"type": kind, "object": object}));
        self.watchers
            .retain(|(of, watcher)| !path.starts_with(of) || watcher.try_send(line.clone()).is_ok());
    }

    fn watch(&mut self, collection: &'static str) -> Response<TestBody> {
        let (sender, lines) = mpsc::channel(10_000);
        self.watchers.push((collection, sender));
        let frames = stream::unfold(lines, |mut lines| async move {
            let line = lines.recv().await?;
            Some((Ok::<_, Infallible>(http_body::Frame::data(Bytes::from(line))), lines))
        });
        Response::new(StreamBody::new(frames).boxed_unsync())
    }

    fn list(&self, collection: &str) -> Response<TestBody> {
        let nodes = self.objects.iter().filter(|(path, _)| path.starts_with(collection));
        let items: Vec<&Value> = nodes.map(|(_, node)| node).collect();
        whole(
            200,
            &json!({"metadata": {"resourceVersion": self.version.to_string()}, "items": items}),
        )
    }

    fn checked(&self, path: &str, preconditions: &Value) -> Result<Value, u16> {
        let object = self.objects.get(path).ok_or(404_u16)?;
        for field in ["uid", "resourceVersion"] {
            if preconditions[field] != object["metadata"][field] {
                return Err(409);
            }
        }
        Ok(object.clone())
    }

    fn patch(&mut self, path: &str, patch: &Value) -> Response<TestBody> {
        let mut object = match self.checked(path, &patch["metadata"]) {
            Ok(object) => object,
            Err(code) => return refused(code),
        };
        if let Some(taints) = patch["spec"].get("taints") {
            object["spec"]["taints"] = taints.clone();
        }
        for (field, value) in patch["status"].as_object().into_iter().flatten() {
            object["status"][field] = value.clone();
        }
        let stored = self.store(path, object);
        whole(200, &stored)
    }

    fn evict(&mut self, path: &str, eviction: &Value) -> Response<TestBody> {
        let Some(pod) = path.strip_suffix("/eviction") else {
            return refused(404);
        };
        if let Err(code) = self.checked(pod, &eviction["deleteOptions"]["preconditions"]) {
            return refused(code);
        }
        let Some(budget) = self.budget else {
            self.objects.remove(pod);
            return whole(201, &json!({"kind": "Status", "status": "Success"}));
        };
        let cause =
            json!({"reason": "DisruptionBudget", "message": format!("The disruption budget {budget} needs 2 healthy pods")});
        let message = "Cannot evict pod as it would violate the pod's disruption budget.";
        whole(
            429,
            &json!({"kind": "Status", "code": 429, "reason": "TooManyRequests", "message": message, "details": {"causes": [cause]}}),
        )
    }

    fn delete(&mut self, path: &str, preconditions: &Value) -> Response<TestBody> {
        if self.denies_deletions {
            return refused(403);
        }
        match self.checked(path, preconditions) {
            Ok(object) => {
                self.objects.remove(path);
                whole(200, &object)
            }
            Err(code) => refused(code),
        }
    }
}

fn refused(code: u16) -> Response<TestBody> {
    let reason = match code {
        403 => "Forbidden",
        404 => "NotFound",
        _ => "Conflict",
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
