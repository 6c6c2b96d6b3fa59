//! Requests made of arbitrary bytes, and what has to hold for each answer.
//!
//! Bytes choose methods, paths, queries, headers and bodies; bodies begin as valid objects and are then bent. So nearly every input gets
//! past the parsers and into the rules. The same bytes make the same requests, here for the fuzzers and for the property in the tests.
//! Requests can also be written as text ([`written`]), as those of recordings are.

use std::time::Duration;

use bailiff_runtime::{Clock, Seed, Shutdown};
use bailiff_sandbox::api::kinds::Kinds;
use bailiff_sandbox::driver::{Driver, Options};
use bailiff_sandbox::service::Service;
use bailiff_sandbox::{Config, Sandbox, User};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tower::Service as _;

#[path = "upstream.rs"]
mod upstream;
#[path = "vocabulary.rs"]
mod vocabulary;

pub use upstream::is_upstream;
use vocabulary::{ACCEPTS, EXTREMES, FIELDS, HEADERS, METHODS, OBJECTS, ODD, PATCHES, QUERIES, SUBRESOURCES, TYPES};

/// Requests of one session: what one leaves behind meets the next.
const MOST_REQUESTS: usize = 16;
/// Virtual time that any answer but a watch may take: more than what a server makes a client wait on purpose.
const PATIENCE: Duration = Duration::from_secs(60);

/// Bytes as a source of choices; when they are used up, every choice is the first.
struct Choices<'a>(&'a [u8]);

/// A request as it goes over the wire.
#[derive(Clone, Debug, Default)]
pub struct Sent {
    pub method: String,
    pub path: String,
    pub content_type: String,
    pub accept: String,
    pub gzip: bool,
    pub header: Option<(&'static str, &'static str)>,
    pub body: Vec<u8>,
}

// === impl Choices ===

impl Choices<'_> {
    fn byte(&mut self) -> usize {
        let (first, rest) = self.0.split_first().map_or((0, self.0), |(first, rest)| (*first, rest));
        self.0 = rest;
        usize::from(first)
    }

    fn below(&mut self, bound: usize) -> usize {
        let wide = if bound > 256 {
            self.byte() << 8 | self.byte()
        } else {
            self.byte()
        };
        wide % bound.max(1)
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == n - 1
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    fn odd(&mut self) -> Value {
        let text = self.pick(&ODD);
        serde_json::from_str(text).unwrap_or_else(|_| text.into())
    }
}

// === making requests ===

/// The requests that these bytes make.
pub fn requests(bytes: &[u8]) -> Vec<Sent> {
    let mut choices = Choices(bytes);
    let mut requests = Vec::new();
    while !choices.0.is_empty() && requests.len() < MOST_REQUESTS {
        requests.push(request(&mut choices));
    }
    requests
}

fn request(choices: &mut Choices<'_>) -> Sent {
    let method = choices.pick(&METHODS);
    let (collection, name, text) = choices.pick(&OBJECTS);
    let mut path = collection.to_owned();
    if !matches!(method, "POST") || choices.one_in(3) {
        path = format!("{path}/{name}");
        if choices.one_in(2) {
            path = format!("{path}/{}", choices.pick(&SUBRESOURCES));
        }
    }
    if choices.one_in(16) {
        path = bent_text(path, choices);
    }
    for nth in 0..choices.below(4) {
        let (key, values) = choices.pick(&QUERIES);
        path.push(if nth == 0 { '?' } else { '&' });
        path.push_str(&format!("{key}={}", choices.pick(values)));
    }
    let content_type = match method {
        "PATCH" => choices.pick(&TYPES[..4]),
        _ if choices.one_in(8) => choices.pick(&TYPES),
        _ => "application/json",
    };
    let accept = if choices.one_in(2) {
        choices.pick(&ACCEPTS)
    } else {
        "application/json"
    };
    Sent {
        method: method.to_owned(),
        path: sendable(&path),
        content_type: content_type.to_owned(),
        accept: accept.to_owned(),
        gzip: choices.one_in(8),
        header: choices.one_in(16).then(|| choices.pick(&HEADERS)),
        body: body(method, content_type, text, choices),
    }
}

/// The requests that a text makes: each is a line `METHOD PATH`, a line with the content type, a line with what is accepted, and the
/// body, up to a byte that is in no text.
pub fn written(bytes: &[u8]) -> Vec<Sent> {
    bytes
        .split(|byte| *byte == 0xff)
        .take(MOST_REQUESTS)
        .filter_map(Sent::read)
        .collect()
}

/// A path that HTTP can carry: what it cannot never reaches the server.
fn sendable(path: &str) -> String {
    let is_fine =
        |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'<' | b'>' | b'#' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}');
    let mut sendable = String::new();
    for byte in path.bytes() {
        if is_fine(byte) {
            sendable.push(char::from(byte));
        } else {
            sendable.push_str(&format!("%{byte:02x}"));
        }
    }
    sendable
}

fn body(method: &str, content_type: &str, object: &str, choices: &mut Choices<'_>) -> Vec<u8> {
    let start = match method {
        "GET" | "HEAD" if !choices.one_in(16) => return Vec::new(),
        "DELETE" => {
            r#"{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":5,"propagationPolicy":"Foreground","preconditions":{"uid":"u"}}"#
        }
        "PATCH" if content_type == "application/json-patch+json" || choices.one_in(3) => choices.pick(&PATCHES),
        _ if choices.one_in(8) => choices.pick(&OBJECTS).2,
        _ => object,
    };
    let mut value: Value = serde_json::from_str(start).unwrap_or_default();
    for _ in 0..choices.below(6) {
        bend(&mut value, choices);
    }
    if content_type == "application/vnd.kubernetes.protobuf"
        && let Some(bytes) = bailiff_sandbox::protobuf::document(&value, &Kinds::built_in())
    {
        return if choices.one_in(2) { bent(bytes, choices) } else { bytes };
    }
    let mut text = value.to_string();
    // What is too deep or too long for a value, and names given twice.
    if choices.one_in(8) {
        let (mark, what) = ("\"x\"", choices.pick(&EXTREMES));
        text = text.replacen(mark, &extreme(what), 1);
    }
    if choices.one_in(16) {
        text = text.replacen('{', r#"{"metadata":{"name":"twice"},"spec":null,"#, 1);
    }
    let bytes = text.into_bytes();
    if choices.one_in(8) { bent(bytes, choices) } else { bytes }
}

/// A text of JSON that is deep or long.
fn extreme((kind, size): (char, usize)) -> String {
    match kind {
        '[' => "[".repeat(size) + &"]".repeat(size),
        '{' => "{\"a\":".repeat(size) + "1" + &"}".repeat(size),
        '9' => "9".repeat(size),
        _ => format!("\"{}\"", kind.to_string().repeat(size)),
    }
}

/// Changes something somewhere in a value.
fn bend(value: &mut Value, choices: &mut Choices<'_>) {
    let goes_deeper = !choices.one_in(4);
    match value {
        Value::Object(fields) if goes_deeper && !fields.is_empty() => {
            let nth = choices.below(fields.len());
            if let Some(field) = fields.values_mut().nth(nth) {
                bend(field, choices);
            }
        }
        Value::Array(items) if goes_deeper && !items.is_empty() => {
            let nth = choices.below(items.len());
            bend(&mut items[nth], choices);
        }
        Value::Object(fields) => match choices.below(3) {
            0 => {
                fields.insert(choices.pick(&FIELDS).to_owned(), choices.odd());
            }
            1 if !fields.is_empty() => {
                let nth = choices.below(fields.len());
                let name = fields.keys().nth(nth).cloned().unwrap_or_default();
                fields.remove(&name);
            }
            _ => *value = choices.odd(),
        },
        Value::Array(items) => match choices.below(3) {
            0 => items.push(choices.odd()),
            1 if !items.is_empty() => items.push(items[0].clone()),
            _ => *value = choices.odd(),
        },
        Value::String(text) if choices.one_in(3) => *text = bent_text(std::mem::take(text), choices),
        _ => *value = choices.odd(),
    }
}

/// Changes a few characters of a text.
fn bent_text(text: String, choices: &mut Choices<'_>) -> String {
    String::from_utf8_lossy(&bent(text.into_bytes(), choices)).into_owned()
}

/// Changes a few bytes.
fn bent(mut bytes: Vec<u8>, choices: &mut Choices<'_>) -> Vec<u8> {
    for _ in 0..=choices.below(4) {
        let at = choices.below(bytes.len() + 1);
        match choices.below(3) {
            0 => bytes.insert(at, choices.byte() as u8),
            1 => bytes.truncate(at),
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = choices.byte() as u8;
                }
            }
        }
    }
    bytes
}

// === judging answers ===

/// Sends the requests to a cluster of its own and judges every answer, and what they left behind. Returns the statuses of the answers.
///
/// # Panics
/// When something does not hold, which is the finding.
pub fn play(requests: &[Sent]) -> Vec<u16> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime of one thread can be made");
    runtime.block_on(async {
        let wall = "2026-11-21T01:00:00Z".parse().expect("a time");
        let sandbox = Sandbox::new(Config::default(), Clock::virtual_from(wall), &Seed::new(1));
        let shutdown = Shutdown::new();
        let (_, parts) = Driver::start(&sandbox, &Options::cluster(), &shutdown);
        let mut service = sandbox.service(User::admin());
        // What the requests are about exists, and a node for pods.
        let is_named = |collection: &str| requests.iter().any(|request| request.path.starts_with(collection));
        let named: Vec<&(&str, &str, &str)> = OBJECTS
            .iter()
            .filter(|(collection, name, _)| match *name {
                "n1" => true,
                "things.example.com" => is_named("/apis/example.com") || is_named(collection),
                _ => is_named(collection),
            })
            .collect();
        for (collection, _, text) in &named {
            let request = Sent::plain("POST", collection, text);
            judge(&mut service, &request).await;
        }
        let mut statuses = Vec::new();
        for request in requests {
            statuses.push(judge(&mut service, request).await);
        }
        // Everything can still be shown, and the parts that looked at it live.
        for (collection, _, _) in &named {
            for accept in ACCEPTS {
                let request = Sent {
                    accept: accept.to_owned(),
                    ..Sent::plain("GET", collection, "")
                };
                let status = judge(&mut service, &request).await;
                assert!(matches!(status, 200 | 404 | 405 | 406), "{request:?}: {status}");
            }
        }
        tokio::time::sleep(Duration::from_secs(90)).await;
        assert!(!parts.is_finished(), "a simulated part of the cluster died");
        shutdown.trigger();
        parts.await.expect("the parts end with the shutdown");
        statuses
    })
}

impl Sent {
    fn plain(method: &str, path: &str, body: &str) -> Self {
        Self {
            method: method.to_owned(),
            path: path.to_owned(),
            content_type: "application/json".to_owned(),
            accept: "application/json".to_owned(),
            body: body.as_bytes().to_vec(),
            ..Self::default()
        }
    }

    fn read(written: &[u8]) -> Option<Self> {
        let mut lines = written.splitn(4, |byte| *byte == b'\n');
        let mut line = || lines.next().and_then(|line| std::str::from_utf8(line).ok());
        let (method, path) = line()?.split_once(' ')?;
        let mut sent = Self::plain(method, &sendable(path), "");
        line()?.clone_into(&mut sent.content_type);
        line()?.clone_into(&mut sent.accept);
        sent.body = lines.next().unwrap_or_default().to_vec();
        Some(sent)
    }

    fn to_http(&self) -> Option<http::Request<Full<Bytes>>> {
        let mut request = http::Request::builder()
            .method(self.method.as_str())
            .uri(&self.path)
            .header("content-type", &self.content_type)
            .header("accept", &self.accept)
            .header("user-agent", "fuzz/1.0");
        if self.gzip {
            request = request.header("accept-encoding", "gzip");
        }
        if let Some((name, value)) = self.header {
            request = request.header(name, value);
        }
        request.body(Full::new(Bytes::from(self.body.clone()))).ok()
    }
}

async fn judge(service: &mut Service, sent: &Sent) -> u16 {
    let Some(request) = sent.to_http() else { return 400 };
    let shown = || {
        let body: String = String::from_utf8_lossy(&sent.body).chars().take(4000).collect();
        format!(
            "{} {} ({}, for {}) {body}",
            sent.method, sent.path, sent.content_type, sent.accept
        )
    };
    let answered = tokio::time::timeout(PATIENCE, service.call(request)).await;
    let Ok(Ok(answer)) = answered else {
        panic!("no answer: {}", shown())
    };
    let (parts, mut body) = answer.into_parts();
    let status = parts.status.as_u16();
    let header = |name: &str| {
        parts
            .headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
            .to_owned()
    };
    let mut bytes = Vec::new();
    // A watch may stay open, and is left then; anything else ends at once.
    while let Ok(Some(frame)) = tokio::time::timeout(Duration::from_millis(1), body.frame()).await {
        bytes.extend_from_slice(frame.expect("a body cannot fail").data_ref().expect("there are no trailers"));
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    assert!(
        status < 500 || is_upstream(status, &sent.method, &sent.content_type, &text),
        "{}: {status} {text}",
        shown()
    );
    if status >= 400 && sent.method != "HEAD" && header("content-encoding").is_empty() {
        let is_status = match header("content-type").as_str() {
            "application/json" => {
                serde_json::from_str(&text).is_ok_and(|value: Value| value["kind"] == "Status" && value["code"] == json!(status))
            }
            "application/yaml" => text.contains("kind: Status"),
            media if media.contains("protobuf") => bytes.starts_with(b"k8s\0"),
            media if media.starts_with("text/plain") => status == 404 && text == "404 page not found\n",
            _ => false,
        };
        assert!(is_status, "no Status: {}: {status} {:?} {text}", shown(), parts.headers);
    }
    status
}
