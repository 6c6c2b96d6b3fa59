//! The API server of the tiny cluster: does what requests ask for, unless it is told to fail.

use bailiff_daemonset_core::effect::Owner;
use bailiff_daemonset_core::wire::{Call, Wanted};
use bailiff_daemonset_core::{Answer, Failure, FailureKind, Input, Pod, Request, RequestId};
use serde_json::{Value, json};

use super::{ANSWERS, Cluster, decode};

impl Cluster {
    pub(super) fn serve(&mut self, id: RequestId, owner: &Owner, request: &Request) {
        let call = request.call(owner).expect("JSON");
        let (what, done) = self.execute(&call);
        self.requests.push((self.now.mono, what.clone()));
        let is_lost = self.loses.is_some_and(|prefix| what.starts_with(prefix));
        if !matches!(call, Call::Get { .. }) {
            self.writes.push(what);
        }
        let done = if is_lost { Err(FailureKind::Unknown) } else { done };
        let answer = match (done, request.wanted()) {
            (Err(kind), _) => Answer::Failed(Failure {
                kind,
                message: "refused".to_owned(),
                retry_after: self.retry_after,
            }),
            (Ok(_), Wanted::Nothing) => Answer::Done,
            (Ok(object), Wanted::Created) => {
                let pod: Pod = decode(&object);
                Answer::Created {
                    name: pod.name,
                    uid: pod.uid,
                }
            }
            (Ok(object), Wanted::Pod) => Answer::Pod(Box::new(decode(&object))),
            (Ok(object), Wanted::Revision) => Answer::Revision(Box::new(decode(&object))),
            (Ok(object), Wanted::DaemonSet) => Answer::DaemonSet(Box::new(decode(&object))),
        };
        self.streams[ANSWERS].push_back(Input::Answered(id, answer));
    }

    /// So many of the requests that wait are sent.
    pub fn send(&mut self, most: usize) {
        for _ in 0..most.min(self.unsent.len()) {
            if let Some((id, owner, request)) = self.unsent.pop_front() {
                self.serve(id, &owner, &request);
            }
        }
    }

    /// How many requests wait.
    pub fn waiting(&self) -> usize {
        self.unsent.len()
    }

    /// Answers a request that was not sent; one that was is answered as ever.
    pub(super) fn call_off(&mut self, id: RequestId) {
        let before = self.unsent.len();
        self.unsent.retain(|(unsent, ..)| *unsent != id);
        if self.unsent.len() < before {
            self.called_off += 1;
            let answer = Answer::Failed(Failure {
                kind: FailureKind::CalledOff,
                message: "it is not wanted any more".to_owned(),
                retry_after: None,
            });
            self.streams[ANSWERS].push_back(Input::Answered(id, answer));
        }
    }

    fn execute(&mut self, call: &Call) -> (String, Result<Value, FailureKind>) {
        let what = describe(call);
        if let Some((_, kind)) = self.failures.iter().find(|(prefix, _)| what.starts_with(prefix)) {
            return (what, Err(*kind));
        }
        let done = match call {
            Call::Strategic { path, .. } | Call::Merge { path, .. }
                if self.pretends.is_some_and(|prefix| what.starts_with(prefix)) =>
            {
                self.objects.get(&key_of(path)).cloned().ok_or(FailureKind::NotFound)
            }
            Call::Get { path } => self.objects.get(&key_of(path)).cloned().ok_or(FailureKind::NotFound),
            Call::Create { path, body } => self.create(path, body),
            Call::Strategic { path, body } if path.ends_with("/status") => self.patch_status(&key_of(path), body),
            Call::Strategic { path, body } => self.patch_owners(&key_of(path), body),
            Call::Merge { path, body } => self.patch(&key_of(path), body),
            Call::Delete { path, uid } => self.delete(&key_of(path), uid),
        };
        (what, done)
    }

    fn create(&mut self, path: &str, body: &str) -> Result<Value, FailureKind> {
        let object: Value = serde_json::from_str(body).expect("JSON");
        let path = format!("{}/{}", key_of(path), object["metadata"]["name"].as_str().expect("named"));
        if self.objects.contains_key(&path) {
            return Err(FailureKind::AlreadyExists);
        }
        self.put(&path, object);
        Ok(self.objects[&path].clone())
    }

    fn check(&self, path: &str, meta: &Value) -> Result<(), FailureKind> {
        let object = self.objects.get(path).ok_or(FailureKind::NotFound)?;
        if object["metadata"]["uid"] != meta["uid"] {
            return Err(FailureKind::Invalid);
        }
        if !meta["resourceVersion"].is_null() && object["metadata"]["resourceVersion"] != meta["resourceVersion"] {
            return Err(FailureKind::Conflict);
        }
        Ok(())
    }

    fn patch(&mut self, path: &str, body: &Value) -> Result<Value, FailureKind> {
        self.check(path, &body["metadata"])?;
        self.change(path, body.clone());
        Ok(self.objects[path].clone())
    }

    /// Conditions are merged by type.
    fn patch_status(&mut self, path: &str, body: &Value) -> Result<Value, FailureKind> {
        self.check(path, &body["metadata"])?;
        let known = self.objects[path]["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let change = body["status"]["conditions"][0].clone();
        let mut kept: Vec<Value> = known.into_iter().filter(|one| one["type"] != change["type"]).collect();
        if change["$patch"].is_null() {
            kept.push(change);
        }
        let mut body = body.clone();
        body["status"]["conditions"] = Value::Array(kept);
        self.change(path, body);
        Ok(self.objects[path].clone())
    }

    fn patch_owners(&mut self, path: &str, body: &Value) -> Result<Value, FailureKind> {
        self.check(path, &body["metadata"])?;
        let mut object = self.objects[path].clone();
        let wanted = &body["metadata"]["ownerReferences"][0];
        let owners = &mut object["metadata"]["ownerReferences"];
        let mut kept: Vec<Value> = owners
            .as_array()
            .into_iter()
            .flatten()
            .filter(|one| one["uid"] != wanted["uid"])
            .cloned()
            .collect();
        if wanted["$patch"].is_null() {
            if kept.iter().any(|one| one["controller"] == json!(true)) {
                return Err(FailureKind::Invalid);
            }
            kept.push(wanted.clone());
        }
        *owners = Value::Array(kept);
        self.put(path, object);
        Ok(self.objects[path].clone())
    }

    fn delete(&mut self, path: &str, uid: &str) -> Result<Value, FailureKind> {
        let object = self.objects.get(path).ok_or(FailureKind::NotFound)?;
        if object["metadata"]["uid"] != json!(uid) {
            return Err(FailureKind::Conflict);
        }
        let is_running = path.starts_with("pods/") && {
            let pod: Pod = decode(object);
            pod.bound && !pod.is_terminal()
        };
        let is_held = object["metadata"]["finalizers"]
            .as_array()
            .is_some_and(|finalizers| !finalizers.is_empty());
        if is_running || is_held {
            let now = self.now.wall.to_string();
            self.change(path, json!({"metadata": {"deletionTimestamp": now}}));
        } else {
            self.remove(path);
        }
        Ok(Value::Null)
    }
}

/// `pods/x` from `/api/v1/namespaces/ns/pods/x`, and so on, as names are of one namespace each; the status subresource is the object
/// itself.
fn key_of(path: &str) -> String {
    let named = path.split_once("/namespaces/").and_then(|(_, tail)| tail.split_once('/'));
    let tail = named.map_or("", |(_, tail)| tail);
    tail.strip_suffix("/status").unwrap_or(tail).to_owned()
}

fn describe(call: &Call) -> String {
    match call {
        Call::Get { path } => format!("get {}", key_of(path)),
        Call::Create { path, body } => {
            let object: Value = serde_json::from_str(body).expect("JSON");
            let terms = &object["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
            let node = &terms["nodeSelectorTerms"][0]["matchFields"][0]["values"][0];
            format!("create {} {}", key_of(path), node.as_str().unwrap_or_default())
                .trim_end()
                .to_owned()
        }
        Call::Strategic { path, .. } if path.ends_with("/status") => format!("status {}", key_of(path)),
        Call::Strategic { path, body } => {
            let is_release = body["metadata"]["ownerReferences"][0]["$patch"] == json!("delete");
            format!("{} {}", if is_release { "release" } else { "adopt" }, key_of(path))
        }
        Call::Merge { path, body } if path.ends_with("/status") => {
            let is_count = body["status"]["collisionCount"].is_null();
            format!("{} {}", if is_count { "status" } else { "collision" }, key_of(path))
        }
        Call::Merge { path, body } if !body["revision"].is_null() => format!("renumber {} {}", key_of(path), body["revision"]),
        Call::Merge { path, body } => format!(
            "label {} {}",
            key_of(path),
            body["metadata"]["labels"]["controller-revision-hash"]
        ),
        Call::Delete { path, .. } => format!("delete {}", key_of(path)),
    }
}
