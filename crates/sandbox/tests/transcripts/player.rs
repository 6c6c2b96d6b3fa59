//! Plays a topic against any HTTP service, in the process or behind a socket.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use serde_json::Value;
use tower::ServiceExt;

use super::bindings::Bindings;
use super::compare::{self, Mode};

/// How long the player waits for an event.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long it listens for events that should not come.
const SILENCE: Duration = Duration::from_millis(200);

/// An open stream: what it holds, and what was read of it but not used.
struct Open<B> {
    body: B,
    rest: Vec<u8>,
}

/// Plays a topic to its end, or to the first difference. Gives the steps that were refused in other words than recorded.
pub async fn play<S, B>(topic: &Value, service: S, compact: impl Fn()) -> Result<Vec<String>, String>
where
    S: tower::Service<Request<Full<Bytes>>, Response = Response<B>> + Clone,
    S::Error: std::fmt::Debug,
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Debug,
{
    let mut player = Player {
        service,
        bindings: Bindings::default(),
        streams: BTreeMap::new(),
        bodies: BTreeMap::new(),
        reworded: Vec::new(),
    };
    for step in topic["steps"].as_array().into_iter().flatten() {
        let id = step["id"].as_str().unwrap_or_default();
        if let Some(action) = step["action"].as_str() {
            match action.split_once(' ') {
                Some(("sleep", seconds)) => {
                    tokio::time::sleep(Duration::from_secs_f64(seconds.parse().unwrap_or(1.0))).await;
                }
                _ => compact(),
            }
            continue;
        }
        player.step(step).await.map_err(|why| format!("{id}: {why}"))?;
    }
    Ok(player.reworded)
}

struct Player<S, B> {
    service: S,
    bindings: Bindings,
    streams: BTreeMap<String, Open<B>>,
    bodies: BTreeMap<String, Value>,
    reworded: Vec<String>,
}

impl<S, B> Player<S, B>
where
    S: tower::Service<Request<Full<Bytes>>, Response = Response<B>> + Clone,
    S::Error: std::fmt::Debug,
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Debug,
{
    async fn step(&mut self, step: &Value) -> Result<(), String> {
        let expected = &step["response"];
        let mode = step["watch"]["mode"].as_str().unwrap_or_default();
        let name = step["watch"]["stream"].as_str().unwrap_or("once").to_owned();
        if mode == "read" {
            return self.read(step, &name).await;
        }
        let request = self.request(&step["request"])?;
        let response = self
            .service
            .clone()
            .oneshot(request)
            .await
            .map_err(|error| format!("{error:?}"))?;
        let (parts, body) = response.into_parts();
        let status = expected["status"].as_u64().unwrap_or(0);
        if status != u64::from(parts.status.as_u16()) {
            let body = if parts.status.as_u16() == 200 {
                Bytes::new()
            } else {
                collect(body).await?
            };
            let shown = String::from_utf8_lossy(&body).chars().take(400).collect::<String>();
            return Err(format!("expected status {status}, found {}: {shown}", parts.status));
        }
        let kind = step["expect"].as_str().unwrap_or_default();
        self.headers(&expected["headers"], &parts.headers, kind == "error")?;
        if mode.is_empty() || expected.get("events").is_none() {
            return self.body(step, kind, body, &parts.headers).await;
        }
        let open = Open { body, rest: Vec::new() };
        self.streams.insert(name.clone(), open);
        self.read(step, &name).await
    }

    fn request(&self, request: &Value) -> Result<Request<Full<Bytes>>, String> {
        let text = |field: &str| request[field].as_str().unwrap_or_default();
        let mut uri = self.bindings.fill(text("path"));
        let mut separator = '?';
        for (key, value) in request["query"].as_object().into_iter().flatten() {
            let value = self.bindings.fill(value.as_str().unwrap_or_default());
            uri.push_str(&format!("{separator}{}={}", encode(key), encode(&value)));
            separator = '&';
        }
        let mut builder = Request::builder().method(text("method")).uri(uri);
        for (name, value) in request["headers"].as_object().into_iter().flatten() {
            builder = builder.header(name, value.as_str().unwrap_or_default());
        }
        let token = match &request["user"] {
            Value::Null => Some("admintoken".to_owned()),
            Value::String(user) => match user.as_str() {
                "none" => None,
                "admin" => Some("admintoken".to_owned()),
                "bob" => Some("bobtoken".to_owned()),
                _ => Some("unknown".to_owned()),
            },
            other => Some(self.bindings.fill(other["token"].as_str().unwrap_or_default())),
        };
        if let Some(token) = token {
            builder = builder.header("authorization", format!("Bearer {token}"));
        }
        let body = if let Some(encoded) = request["bodyBase64"].as_str() {
            STANDARD.decode(encoded).map_err(|error| error.to_string())?
        } else {
            match &request["body"] {
                Value::Null => Vec::new(),
                Value::String(text) => self.bindings.fill(text).into_bytes(),
                value => self.bindings.fill_body(value).to_string().into_bytes(),
            }
        };
        builder.body(Full::new(Bytes::from(body))).map_err(|error| error.to_string())
    }

    fn headers(&mut self, expected: &Value, actual: &http::HeaderMap, lenient: bool) -> Result<(), String> {
        for name in [
            "content-type",
            "warning",
            "retry-after",
            "content-encoding",
            "allow",
            "location",
            "etag",
        ] {
            let values: Vec<&str> = actual.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect();
            let found = (!values.is_empty()).then(|| values.join(" || "));
            let wanted = expected.get(name).and_then(Value::as_str);
            let presence_only = name == "etag" || (name == "retry-after" && lenient);
            let same = match (wanted, &found) {
                (Some(_), Some(_)) if presence_only => true,
                (Some(wanted), Some(found)) => self.bindings.matches(wanted, found),
                (None, None) => true,
                (Some(_), None) => false,
                // Only what was recorded must be there, but a warning is news to people.
                (None, Some(_)) => name != "warning" && name != "content-encoding",
            };
            if !same {
                return Err(format!("header {name}: expected {wanted:?}, found {found:?}"));
            }
        }
        Ok(())
    }

    async fn body(&mut self, step: &Value, kind: &str, body: B, headers: &http::HeaderMap) -> Result<(), String> {
        let bytes = collect(body).await?;
        let expected = &step["response"]["body"];
        if headers.contains_key("content-encoding") || expected.is_null() {
            if let Ok(actual) = serde_json::from_slice::<Value>(&bytes) {
                self.bindings.remember(&actual);
                self.capture(step, &actual);
            }
            return Ok(());
        }
        let actual: Value = match serde_json::from_slice(&bytes) {
            Ok(actual) if !expected.is_string() => actual,
            _ => String::from_utf8_lossy(&bytes).into_owned().into(),
        };
        self.bindings.remember(&actual);
        let id = step["id"].as_str().unwrap_or_default().to_owned();
        self.bodies.insert(id, actual.clone());
        self.compare(step, kind, expected, actual.clone())?;
        self.capture(step, &actual);
        self.equal(step, &actual)
    }

    fn compare(&mut self, step: &Value, kind: &str, expected: &Value, mut actual: Value) -> Result<(), String> {
        if step["keepManagedFields"] != true {
            compare::without_managed_fields(&mut actual);
        }
        let ignore: Vec<String> = step["ignore"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|one| one.as_str().map(str::to_owned))
            .collect();
        match kind {
            "exact" => compare::body(Mode::Exact, expected, &actual, &ignore, &mut self.bindings),
            "subset" => compare::body(Mode::Subset, expected, &actual, &ignore, &mut self.bindings),
            "error" => {
                compare::refusal(expected, &actual, &mut self.bindings)?;
                // What fails half-way has bound placeholders that later steps are not to be held to.
                let mut bindings = self.bindings.clone();
                match compare::body(Mode::Exact, &compare::loosened(expected), &actual, &[], &mut bindings) {
                    Ok(()) => self.bindings = bindings,
                    Err(why) => {
                        let id = step["id"].as_str().unwrap_or_default();
                        println!("{id} in other words: {why}");
                        self.reworded.push(id.to_owned());
                    }
                }
                Ok(())
            }
            "head" => Ok(()),
            other => Err(format!("no such comparison: {other}")),
        }
    }

    /// Binds what later requests need, where no comparison did.
    fn capture(&mut self, step: &Value, body: &Value) {
        for (placeholder, path) in step["capture"].as_object().into_iter().flatten() {
            let found = find(body, path.as_str().unwrap_or_default());
            if let Some(Value::String(found)) = found {
                let wrapped = if placeholder.starts_with('<') {
                    placeholder.clone()
                } else {
                    format!("<{placeholder}>")
                };
                self.bindings.matches(&wrapped, found);
            }
        }
    }

    fn equal(&self, step: &Value, actual: &Value) -> Result<(), String> {
        for pair in step["equal"].as_array().into_iter().flatten() {
            let (here, there) = (pair[0].as_str().unwrap_or_default(), pair[1].as_str().unwrap_or_default());
            let (id, path) = there.split_once(':').unwrap_or((there, "$"));
            let other = self.bodies.get(id).and_then(|body| find(body, path));
            if find(actual, here) != other {
                return Err(format!("{here} is not equal to {there}"));
            }
        }
        Ok(())
    }

    async fn read(&mut self, step: &Value, name: &str) -> Result<(), String> {
        let mut open = self.streams.remove(name).ok_or_else(|| format!("no stream {name}"))?;
        let optional = step["expect"] == "events-optional-bookmarks";
        let expected = step["response"]["events"].as_array().cloned().unwrap_or_default();
        let mut received = Vec::new();
        let mut remaining = expected.iter().peekable();
        let is_bookmark = |event: &Value| event["type"] == "BOOKMARK";
        while let Some(wanted) = remaining.peek().copied() {
            let event = match next_event(&mut open, PATIENCE).await? {
                Some(event) => event,
                None if optional && remaining.clone().all(is_bookmark) => break,
                None => return Err(format!("the stream said no more, expected {}", shown(wanted))),
            };
            self.bindings.remember(&event);
            received.push(event.clone());
            if optional && is_bookmark(&event) && !is_bookmark(wanted) {
                continue;
            }
            remaining.next();
            self.event(step, wanted, &event)?;
        }
        let events = Value::Object([("events".to_owned(), Value::Array(received))].into_iter().collect());
        self.capture(step, &events);
        match step["watch"]["end"].as_str() {
            Some("server") => loop {
                match next_event(&mut open, PATIENCE * 10).await? {
                    None => return Ok(()),
                    Some(event) if optional && is_bookmark(&event) => {}
                    Some(event) => return Err(format!("unexpected event {}", shown(&event))),
                }
            },
            Some(_) => Ok(()),
            None => {
                if let Ok(Some(event)) = next_event(&mut open, SILENCE).await {
                    return Err(format!("unexpected event {}", shown(&event)));
                }
                self.streams.insert(name.to_owned(), open);
                Ok(())
            }
        }
    }

    fn event(&mut self, step: &Value, wanted: &Value, event: &Value) -> Result<(), String> {
        if wanted["type"] != event["type"] {
            return Err(format!("expected event {}, found {}", shown(wanted), shown(event)));
        }
        let kind = if wanted["type"] == "ERROR" { "error" } else { "exact" };
        self.compare(step, kind, &wanted["object"], event["object"].clone())
            .map_err(|why| format!("event {}: {why}", wanted["type"]))
    }
}

fn shown(event: &Value) -> String {
    event.to_string().chars().take(300).collect()
}

/// The next line of a stream; nothing at its end or after `patience`.
async fn next_event<B>(open: &mut Open<B>, patience: Duration) -> Result<Option<Value>, String>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Debug,
{
    loop {
        if let Some(end) = open.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = open.rest.drain(..=end).collect();
            return serde_json::from_slice(&line).map(Some).map_err(|error| error.to_string());
        }
        match tokio::time::timeout(patience, open.body.frame()).await {
            Ok(Some(Ok(frame))) => open.rest.extend(frame.into_data().unwrap_or_default()),
            Ok(Some(Err(error))) => return Err(format!("{error:?}")),
            Ok(None) | Err(_) => return Ok(None),
        }
    }
}

async fn collect<B>(body: B) -> Result<Bytes, String>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Debug,
{
    let collected = tokio::time::timeout(PATIENCE, body.collect())
        .await
        .map_err(|_| "the answer does not end".to_owned())?;
    Ok(collected.map_err(|error| format!("{error:?}"))?.to_bytes())
}

/// `$.a[0].b` in a value.
fn find<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    let mut current = value;
    for step in path.trim_start_matches('$').split('.').filter(|step| !step.is_empty()) {
        let (name, indexes) = step.split_once('[').map_or((step, ""), |(name, rest)| (name, rest));
        if !name.is_empty() {
            current = current.get(name)?;
        }
        for index in indexes.split('[').filter(|index| !index.is_empty()) {
            current = current.get(index.trim_end_matches(']').parse::<usize>().ok()?)?;
        }
    }
    Some(current)
}

fn encode(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}
