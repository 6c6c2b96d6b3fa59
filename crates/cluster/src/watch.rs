//! List and watch of one resource, decoded into the fields a stage reads.
//!
//! # Guarantees
//! - The first event is a [`Event::Snapshot`] of the whole collection, read from the server's store (no `resourceVersion`, DS-201);
//!   every later change comes once, in order. After a gap (410, a restart of the server) a new snapshot says all there is.
//! - A stream that gives no sign of life is dropped: the server is asked to end every watch within [`WATCH_FOR`] and sends a
//!   bookmark before it does, so silence beyond [`SILENT_AFTER`] means a broken connection, not a quiet cluster.
//! - An object that cannot be decoded is skipped, counted and logged; what was known of it before stays.
//! - Memory: one page of a list, one line of a stream, and a bounded channel.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bailiff_model::Mono;
use bailiff_runtime::Seed;
use bytes::BytesMut;
use http::Method;
use http_body_util::BodyExt;
use kube::client::Body;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::api::Api;
use crate::error::{Error, Kind, Status};
use crate::views::Meta;

/// How long the server is asked to keep one watch open. Short, so that a dead connection is found soon; resuming costs one request.
pub const WATCH_FOR: Duration = Duration::from_secs(45);

/// A stream that gave no sign of life for so long is dropped, and the watch counts as stale: [`WATCH_FOR`] and a third.
pub const SILENT_AFTER: Duration = Duration::from_secs(60);

/// A timer may fire that much before what the clock says, for its granularity of a millisecond.
const TIMER_SLACK: Duration = Duration::from_millis(10);

/// Objects a page of a list asks for, as client-go does.
const PAGE: usize = 500;

/// Longest line of a watch stream: the server refuses objects above 1.5 MiB (etcd), JSON may double it.
const MAX_LINE: usize = 8 << 20;

/// Events waiting for the reader. The reader is a decision loop that never blocks; this only smooths bursts.
const QUEUE: usize = 256;

/// First and longest pause between attempts, as client-go's reflector.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(800), Duration::from_secs(30));

/// A trimmed view of one kind of object.
pub trait View: DeserializeOwned + Send + 'static {
    /// Its metadata.
    fn meta(&self) -> &Meta;
}

/// What a watch is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Path of the collection, such as `/api/v1/nodes`.
    pub path: &'static str,
    /// Label selector, or empty.
    pub label_selector: &'static str,
    /// Field selector, or empty.
    pub field_selector: &'static str,
}

impl Source {
    /// All objects of a collection.
    pub const fn all(path: &'static str) -> Self {
        Self {
            path,
            label_selector: "",
            field_selector: "",
        }
    }

    /// Name for logs and metrics: the last part of the path.
    pub fn resource(&self) -> &'static str {
        self.path.rsplit('/').next().unwrap_or(self.path)
    }

    fn query(&self, more: &[(&str, &str)]) -> String {
        let fixed = [("labelSelector", self.label_selector), ("fieldSelector", self.field_selector)];
        let mut query = String::from(self.path);
        for (position, (key, value)) in fixed.iter().chain(more).filter(|(_, value)| !value.is_empty()).enumerate() {
            query.push(if position == 0 { '?' } else { '&' });
            query.push_str(key);
            query.push('=');
            encode_into(&mut query, value);
        }
        query
    }
}

/// What happened.
#[derive(Debug)]
pub enum Event<T> {
    /// This is all there is; forget the rest.
    Snapshot(Vec<T>),
    /// The object was created or changed.
    Applied(T),
    /// The object is gone; this is the last of it.
    Deleted(T),
    /// Nothing was heard from the server for [`SILENT_AFTER`], or it refuses. Said once.
    Stale {
        /// Last sign of life; `None` if there never was one.
        since: Option<Mono>,
        /// What went wrong last.
        reason: String,
    },
    /// Heard from again after [`Event::Stale`]. A snapshot or the missed changes come with it.
    Fresh,
}

/// A running watch. Dropping it ends it.
#[derive(Debug)]
pub struct Watch<T> {
    events: mpsc::Receiver<Event<T>>,
    life: Life,
    task: AbortHandle,
}

impl<T> Drop for Watch<T> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Last sign of life from the server, as nanoseconds since the clock's origin; 0 is never.
#[derive(Clone, Debug, Default)]
struct Life(Arc<AtomicU64>);

impl Life {
    fn beat(&self, now: Mono) {
        let nanos = u64::try_from(now.since_origin().as_nanos()).unwrap_or(u64::MAX);
        self.0.store(nanos.max(1), Ordering::Relaxed);
    }

    fn last(&self) -> Option<Mono> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            nanos => Some(Mono::from_origin(Duration::from_nanos(nanos))),
        }
    }
}

impl<T: View> Watch<T> {
    /// Starts a watch. Its task is owned by the returned value and restarts itself after every failure.
    pub fn start(api: &Api, source: Source, seed: &Seed) -> Self {
        let (sender, events) = mpsc::channel(QUEUE);
        let life = Life::default();
        let task = Task {
            api: api.clone(),
            seed: seed.fork(source.path),
            source,
            sender,
            life: life.clone(),
            stale: false,
            pause: BACKOFF.0,
        };
        let task = tokio::spawn(task.run()).abort_handle();
        Self { events, life, task }
    }

    /// The next event. Cancel-safe. Never ends while the process runs.
    pub async fn next(&mut self) -> Event<T> {
        match self.events.recv().await {
            Some(event) => event,
            // The task only ends with this value or the runtime.
            None => std::future::pending().await,
        }
    }

    /// When the server last gave a sign of life on this watch; `None` if it never did.
    pub fn last_sign_of_life(&self) -> Option<Mono> {
        self.life.last()
    }
}

struct Task<T> {
    api: Api,
    seed: Seed,
    source: Source,
    sender: mpsc::Sender<Event<T>>,
    life: Life,
    stale: bool,
    pause: Duration,
}

/// The reader is gone: the watch has no purpose any more.
struct Unwanted;

enum Ended {
    /// The server ended the stream as asked, or the connection broke: resume.
    Resume,
    /// The position is too old: list again.
    Expired,
}

impl<T: View> Task<T> {
    async fn run(mut self) {
        let mut position: Option<String> = None;
        loop {
            let step = match position.take() {
                None => self.list().await.map(Some),
                Some(from) => self.watch(from).await,
            };
            match step {
                Ok(next) => position = next,
                Err(Unwanted) => return,
            }
        }
    }

    /// Lists until it succeeds; returns the position to watch from.
    async fn list(&mut self) -> Result<String, Unwanted> {
        loop {
            match self.list_once().await {
                Ok((objects, position)) => {
                    self.alive().await?;
                    self.emit(Event::Snapshot(objects)).await?;
                    return Ok(position);
                }
                Err(error) => self.failed(&error).await?,
            }
        }
    }

    async fn list_once(&self) -> Result<(Vec<T>, String), Error> {
        let mut objects = Vec::new();
        let mut token = String::new();
        let limit = PAGE.to_string();
        loop {
            let path = self.source.query(&[("limit", limit.as_str()), ("continue", token.as_str())]);
            let page: Page = self.api.get(&path).await?;
            objects.extend(page.items.iter().filter_map(|raw| self.decode(raw)));
            token = page.metadata.next;
            if token.is_empty() {
                return Ok((objects, page.metadata.resource_version));
            }
        }
    }

    /// Watches from `position` until something ends it; returns where to go on, `None` for a new list.
    async fn watch(&mut self, position: String) -> Result<Option<String>, Unwanted> {
        self.api.metrics().watch_restart(self.source.resource());
        let mut position = position;
        match self.open(&position).await {
            Ok(body) => match self.read(body, &mut position).await? {
                Ended::Resume => Ok(Some(position)),
                Ended::Expired => Ok(None),
            },
            Err(error) if error.kind == Kind::Expired => Ok(None),
            Err(error) => {
                self.failed(&error).await?;
                Ok(Some(position))
            }
        }
    }

    async fn open(&self, position: &str) -> Result<Body, Error> {
        let timeout = self.seed.jitter(WATCH_FOR.mul_f64(0.8), 0.25).as_secs().max(1).to_string();
        let path = self.source.query(&[
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", position),
            ("timeoutSeconds", timeout.as_str()),
        ]);
        let opening = self.api.send(Method::GET, &path, "", Vec::new());
        match tokio::time::timeout(SILENT_AFTER, opening).await {
            Ok(answer) => answer.map(http::Response::into_body),
            Err(_) => Err(Error::new(
                Kind::Timeout,
                format!("no answer to a watch of {}", self.source.path),
            )),
        }
    }

    async fn read(&mut self, mut body: Body, position: &mut String) -> Result<Ended, Unwanted> {
        let mut buffer = BytesMut::new();
        let mut heard = false;
        loop {
            let frame = match tokio::time::timeout(SILENT_AFTER, body.frame()).await {
                Ok(Some(Ok(frame))) => frame,
                Ok(Some(Err(error))) => {
                    self.failed(&Error::new(Kind::Unavailable, error.to_string())).await?;
                    return Ok(Ended::Resume);
                }
                Ok(None) if heard => return Ok(Ended::Resume),
                Ok(None) => {
                    // A server that ends every watch at once is not to be asked again at once.
                    self.failed(&Error::new(Kind::Unavailable, "the watch ended at once")).await?;
                    return Ok(Ended::Resume);
                }
                Err(_) => {
                    self.failed(&Error::new(Kind::Timeout, "the watch fell silent")).await?;
                    return Ok(Ended::Resume);
                }
            };
            let Ok(data) = frame.into_data() else { continue };
            heard = true;
            self.alive().await?;
            buffer.extend_from_slice(&data);
            if let Some(ended) = self.read_lines(&mut buffer, position).await? {
                return Ok(ended);
            }
            if buffer.len() > MAX_LINE {
                self.failed(&Error::new(Kind::Unavailable, "a line of the watch is too long"))
                    .await?;
                return Ok(Ended::Resume);
            }
        }
    }

    async fn read_lines(&mut self, buffer: &mut BytesMut, position: &mut String) -> Result<Option<Ended>, Unwanted> {
        while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
            let line = buffer.split_to(end + 1);
            let Ok(line) = serde_json::from_slice::<Line<'_>>(&line) else {
                self.failed(&Error::new(Kind::Unavailable, "unreadable line in a watch"))
                    .await?;
                return Ok(Some(Ended::Resume));
            };
            if line.kind == "ERROR" {
                return self.error_line(line.object).await.map(Some);
            }
            if let Ok(Versioned { metadata }) = serde_json::from_str(line.object.get()) {
                position.clone_from(&metadata.resource_version);
            }
            let event = match &*line.kind {
                "ADDED" | "MODIFIED" => self.decode(line.object).map(Event::Applied),
                "DELETED" => self.decode(line.object).map(Event::Deleted),
                _ => None,
            };
            if let Some(event) = event {
                self.emit(event).await?;
            }
        }
        Ok(None)
    }

    async fn error_line(&mut self, object: &RawValue) -> Result<Ended, Unwanted> {
        let status: Status = serde_json::from_str(object.get()).unwrap_or_default();
        if status.code == 410 {
            return Ok(Ended::Expired);
        }
        let message = format!("watch ended by the server: {}: {}", status.reason, status.message);
        self.failed(&Error::new(Kind::Unavailable, message)).await?;
        Ok(Ended::Resume)
    }

    fn decode(&self, raw: &RawValue) -> Option<T> {
        match serde_json::from_str(raw.get()) {
            Ok(object) => Some(object),
            Err(error) => {
                let resource = self.source.resource();
                self.api.metrics().malformed(resource);
                let name = serde_json::from_str(raw.get()).map_or_else(|_| String::new(), |Named { metadata }| metadata.name);
                tracing::warn!(resource, %name, %error, "Skipped an object that could not be decoded");
                None
            }
        }
    }

    async fn alive(&mut self) -> Result<(), Unwanted> {
        self.life.beat(self.api.clock().now().mono);
        self.pause = BACKOFF.0;
        if std::mem::take(&mut self.stale) {
            self.emit(Event::Fresh).await?;
        }
        Ok(())
    }

    /// Says that the watch is stale once nothing was heard for long enough, and pauses before the next attempt.
    async fn failed(&mut self, error: &Error) -> Result<(), Unwanted> {
        let resource = self.source.resource();
        tracing::warn!(resource, %error, "Watch was interrupted");
        let now = self.api.clock().now().mono;
        let last = self.life.last();
        let silent = last.is_none_or(|last| now.saturating_since(last) + TIMER_SLACK >= SILENT_AFTER);
        if silent && !self.stale {
            self.stale = true;
            let reason = error.to_string();
            self.emit(Event::Stale { since: last, reason }).await?;
        }
        let pause = error.retry_after.unwrap_or(self.pause).min(BACKOFF.1);
        tokio::time::sleep(self.seed.jitter(pause, 0.5)).await;
        self.pause = (self.pause * 2).min(BACKOFF.1);
        Ok(())
    }

    async fn emit(&self, event: Event<T>) -> Result<(), Unwanted> {
        self.sender.send(event).await.map_err(|_| Unwanted)
    }
}

#[derive(Deserialize)]
struct Page {
    metadata: PageMeta,
    #[serde(default, deserialize_with = "crate::views::or_default")]
    items: Vec<Box<RawValue>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct PageMeta {
    resource_version: String,
    #[serde(rename = "continue")]
    next: String,
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type", borrow)]
    kind: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct Versioned {
    metadata: VersionMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct VersionMeta {
    resource_version: String,
}

#[derive(Deserialize, Default)]
struct Named {
    #[serde(default)]
    metadata: NameMeta,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct NameMeta {
    name: String,
}

/// Percent-encodes everything but unreserved characters (RFC 3986, 2.3).
fn encode_into(query: &mut String, value: &str) {
    use std::fmt::Write;
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            query.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(query, "%{byte:02X}");
        }
    }
}
