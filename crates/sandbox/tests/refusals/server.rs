//! A sandbox to send requests to, and what its refusals say.

use bailiff_runtime::{Clock, Seed};
use bailiff_sandbox::{Authorization, Config, Sandbox, User};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tower::ServiceExt;

/// Where pods of the default namespace are.
pub const PODS: &str = "/api/v1/namespaces/default/pods";
/// Merge patches.
pub const MERGE: &str = "application/merge-patch+json";
/// Strategic merge patches.
pub const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// A sandbox, asked as an administrator or as somebody else.
pub struct Server(Sandbox);

impl Server {
    pub fn new() -> Self {
        let config = Config {
            authorization: Authorization::Rbac,
            ..Config::default()
        };
        let wall = "2026-11-21T01:00:00Z".parse().expect("a time");
        Self(Sandbox::new(config, Clock::virtual_from(wall), &Seed::new(3)))
    }

    pub async fn send(&self, method: &str, path: &str, media: &str, body: &Value) -> (u16, Option<String>, Value) {
        let admin = User::new("admin", &["system:masters"]);
        self.send_as(admin, method, path, ("content-type", media), body).await
    }

    pub async fn send_as(
        &self,
        user: User,
        method: &str,
        path: &str,
        header: (&str, &str),
        body: &Value,
    ) -> (u16, Option<String>, Value) {
        let bytes = if body.is_null() {
            Bytes::new()
        } else {
            body.to_string().into()
        };
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header(header.0, header.1)
            .body(Full::new(bytes))
            .expect("a request");
        let response = self.0.service(user).oneshot(request).await.expect("the sandbox answers");
        let status = response.status().as_u16();
        let warning = response.headers().get("warning").map(|value| format!("{value:?}"));
        let bytes = response.into_body().collect().await.expect("a body").to_bytes();
        (status, warning, serde_json::from_slice(&bytes).unwrap_or_default())
    }

    /// Sends a body as it is, as an administrator; the answer is as it came.
    pub async fn send_text(&self, method: &str, path: &str, headers: &[(&str, &str)], text: &str) -> (u16, Bytes) {
        self.send_bytes(method, path, headers, text.to_owned().into_bytes()).await
    }

    /// The same for any bytes.
    pub async fn send_bytes(&self, method: &str, path: &str, headers: &[(&str, &str)], bytes: Vec<u8>) -> (u16, Bytes) {
        let mut request = http::Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::from(bytes))).expect("a request");
        let admin = User::new("admin", &["system:masters"]);
        let response = self.0.service(admin).oneshot(request).await.expect("the sandbox answers");
        let status = response.status().as_u16();
        (status, response.into_body().collect().await.expect("a body").to_bytes())
    }

    pub async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let (status, _, answer) = self.send("POST", path, "application/json", body).await;
        (status, answer)
    }

    pub async fn patch(&self, path: &str, media: &str, body: Value) -> (u16, Value) {
        let (status, _, answer) = self.send("PATCH", path, media, &body).await;
        (status, answer)
    }

    /// Forgets what was before.
    pub fn compact(&self) {
        self.0.compact();
    }

    pub async fn get(&self, path: &str) -> (u16, Value) {
        let (status, _, answer) = self.send("GET", path, "application/json", &Value::Null).await;
        (status, answer)
    }
}

/// The causes of a refusal, as `FieldValueInvalid field`, sorted.
pub fn causes(answer: &Value) -> Vec<String> {
    let list = answer.pointer("/details/causes").and_then(Value::as_array);
    let shown = |cause: &Value| {
        let text = |field: &str| cause.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        format!("{} {}", text("reason").trim_start_matches("FieldValue"), text("field"))
    };
    let mut causes: Vec<String> = list.into_iter().flatten().map(shown).collect();
    causes.sort();
    causes.dedup();
    causes
}

/// A pod with these fields, and these of its container.
pub fn pod(name: &str, spec: Value, container: Value) -> Value {
    let mut main = json!({"name": "main", "image": "example.org/app:1"});
    merge(&mut main, container);
    let mut all = json!({"containers": [main]});
    merge(&mut all, spec);
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": all})
}

/// Puts fields into an object.
pub fn merge(target: &mut Value, more: Value) {
    if let (Some(target), Value::Object(more)) = (target.as_object_mut(), more) {
        target.extend(more);
    }
}
