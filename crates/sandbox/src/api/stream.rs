//! A watch: initial objects, then every change that concerns it, bookmarks, and an end.
//!
//! A stream holds a cursor into the log, not events. What it sends is encoded once for all streams, as long as they see an event
//! alike; only streams whose selector an object enters or leaves, or that want another form, encode for themselves.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use tokio::time::{Instant, Sleep};

use super::kinds::Kind;
use super::negotiate::{Encoding, Shape};
use super::selector::Selector;
use super::{Call, input, read, table};
use crate::store::{Change, Event, Interest, Key, Lookup, NODE, Object};
use crate::{Sandbox, Status, go_json, protobuf};

/// How long a watch lasts at least if the client does not say; the real server adds as much again by chance.
const LONGEST: Duration = Duration::from_secs(1800);
/// Time between bookmarks.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// The longest that a client may ask for: what is in effect for ever.
const LONGEST_ASKED: Duration = Duration::from_secs(365 * 24 * 3600);
/// How long before its end a stream tells where it is.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);

/// What a watch begins with.
#[derive(Clone, Copy, Debug)]
pub struct Initial {
    /// The objects that exist, as events.
    pub objects: bool,
    /// A bookmark that says that these were all.
    pub end: bool,
}

/// An open watch.
pub struct Stream {
    sandbox: Sandbox,
    kind: Arc<Kind>,
    namespace: String,
    selector: Selector,
    interest: Interest,
    form: Form,
    id: u64,
    after: u64,
    /// What is to be sent before anything of the log.
    queue: VecDeque<Queued>,
    ended: bool,
    bookmarks: bool,
    /// The revision that the client knows it has seen.
    told: u64,
    timeout: Duration,
    timers: Option<Timers>,
}

/// The form of the events.
struct Form {
    shape: Shape,
    encoding: Encoding,
    include: String,
    headed: bool,
}

struct Timers {
    end: Pin<Box<Sleep>>,
    bookmark: Pin<Box<Sleep>>,
    last: Instant,
}

enum Queued {
    Object(Arc<Object>),
    Bookmark(u64),
    Error(Box<Status>),
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream")
            .field("kind", &self.kind.resource)
            .field("after", &self.after)
            .finish_non_exhaustive()
    }
}

// === impl Stream ===

impl Stream {
    /// Opens a watch that starts after `revision`, or with what there is.
    ///
    /// # Errors
    /// 429 when too many are open.
    pub fn open(
        call: &Call<'_>,
        selector: Selector,
        revision: u64,
        initial: Initial,
        bookmarks: bool,
        timeout: Option<Duration>,
    ) -> Result<Self, Status> {
        let mut store = call.store();
        let current = store.revision();
        let id = store.enlist_stream().ok_or_else(|| {
            let message = "Too many requests, please try again later.";
            Status::new(429, "TooManyRequests", message).retry_after(1)
        })?;
        let namespace = if call.kind.namespaced {
            call.target.namespace.clone()
        } else {
            String::new()
        };
        let mut stream = Self {
            sandbox: call.sandbox.clone(),
            kind: call.kind.clone(),
            interest: interest(&namespace, &selector),
            namespace,
            selector,
            form: Form {
                shape: call.accepted.shape,
                encoding: call.accepted.encoding,
                include: call.request.query.get("includeObject").to_owned(),
                headed: false,
            },
            id,
            after: current,
            queue: VecDeque::new(),
            ended: false,
            bookmarks,
            told: revision,
            timeout: timeout
                .unwrap_or_else(|| call.sandbox.seed().jitter(LONGEST, 1.0))
                .min(LONGEST_ASKED),
            timers: None,
        };
        let Some(table) = store.table(&call.kind.storage) else {
            stream.ended = true;
            return Ok(stream);
        };
        if initial.objects {
            stream.queue = read::candidates(table, &stream.namespace, &stream.selector, None)
                .filter(|object| stream.concerns(object))
                .cloned()
                .map(Queued::Object)
                .collect();
            stream.told = current;
        } else if revision != 0 && revision < table.compacted() {
            let message = format!("too old resource version: {revision} ({})", table.compacted());
            stream.queue.push_back(Queued::Error(Box::new(Status::expired(message))));
            stream.ended = true;
        } else if revision != 0 {
            stream.after = revision;
        }
        if initial.end {
            stream.queue.push_back(Queued::Bookmark(current));
        }
        Ok(stream)
    }

    fn concerns(&self, object: &Object) -> bool {
        (self.namespace.is_empty() || object.namespace() == self.namespace) && self.selector.matches(object)
    }

    /// The next line of the stream; nothing at its end.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(queued) = self.queue.pop_front() {
            return Poll::Ready(Some(self.queued(queued)));
        }
        if self.ended {
            return Poll::Ready(None);
        }
        loop {
            let (found, revision) = self.look(context);
            match found {
                Lookup::Found(event) => {
                    self.after = event.revision;
                    if let Some(line) = self.line(&event) {
                        self.told = event.revision;
                        return Poll::Ready(Some(line));
                    }
                }
                // The client lists again; that is how the real server treats it, too.
                Lookup::Behind => {
                    self.ended = true;
                    return Poll::Ready(None);
                }
                Lookup::Waiting(seen) => {
                    self.after = self.after.max(seen);
                    return self.poll_timers(context, revision);
                }
            }
        }
    }

    /// What comes next, and the revision as of which that is so.
    fn look(&self, context: &Context<'_>) -> (Lookup, u64) {
        let mut store = self.sandbox.store();
        let found = store.poll(&self.kind.storage, self.id, &self.interest, self.after, context.waker());
        (found, store.revision())
    }

    /// What is due by the clock, when nothing was to be told up to `revision`. By now there may be: a bookmark must not pass over it.
    fn poll_timers(&mut self, context: &mut Context<'_>, revision: u64) -> Poll<Option<Bytes>> {
        let timeout = self.timeout;
        let timers = self.timers.get_or_insert_with(|| {
            let now = Instant::now();
            let last = now + timeout.saturating_sub(LAST_BOOKMARK);
            Timers {
                end: Box::pin(tokio::time::sleep_until(now + timeout)),
                bookmark: Box::pin(tokio::time::sleep_until((now + BOOKMARK_EVERY).min(last))),
                last,
            }
        });
        if timers.end.as_mut().poll(context).is_ready() {
            self.ended = true;
            return Poll::Ready(None);
        }
        if !self.bookmarks {
            return Poll::Pending;
        }
        while timers.bookmark.as_mut().poll(context).is_ready() {
            let now = Instant::now();
            let next = now + BOOKMARK_EVERY;
            let next = if now < timers.last {
                next.min(timers.last)
            } else {
                now + timeout
            };
            timers.bookmark.as_mut().reset(next);
            if revision > self.told {
                self.told = revision;
                self.after = self.after.max(revision);
                let line = self.bookmark(revision, false);
                return Poll::Ready(Some(line));
            }
        }
        Poll::Pending
    }

    fn queued(&mut self, queued: Queued) -> Bytes {
        match queued {
            Queued::Object(object) => self.shaped("ADDED", &object, object.revision()),
            Queued::Bookmark(revision) => self.bookmark(revision, true),
            Queued::Error(status) => self.encoded("ERROR", &status.to_value()),
        }
    }

    /// The line for an event, if it concerns this stream.
    fn line(&mut self, event: &Arc<Event>) -> Option<Bytes> {
        let now = event.change != Change::Deleted && self.concerns(&event.object);
        let before = event.previous.as_ref().is_some_and(|previous| self.concerns(previous));
        match (before, now) {
            (false, false) => None,
            (true, true) => Some(self.natural(event, "MODIFIED")),
            (false, true) if event.change == Change::Added => Some(self.natural(event, "ADDED")),
            (false, true) => Some(self.shaped("ADDED", &event.object, event.revision)),
            (true, false) if event.change == Change::Deleted => Some(self.natural(event, "DELETED")),
            // It left the selector: the last state that the client may see, as of now.
            (true, false) => {
                let previous = event.previous.clone()?;
                Some(self.shaped("DELETED", &previous, event.revision))
            }
        }
    }

    /// The event as nearly all streams see it.
    fn natural(&mut self, event: &Event, change: &str) -> Bytes {
        if self.form.shape == Shape::Whole && self.form.encoding != Encoding::Protobuf && !self.kind.rules.converts() {
            event.line().clone()
        } else {
            self.shaped(change, &event.object, event.revision)
        }
    }

    fn shaped(&mut self, change: &str, object: &Object, revision: u64) -> Bytes {
        let mut value = match (self.form.shape, self.form.encoding) {
            (Shape::Whole, Encoding::Protobuf) => object.faithful(),
            _ => self.kind.rules.to_served(object.value()),
        };
        value["metadata"]["resourceVersion"] = revision.to_string().into();
        let shaped = self.shape(value, revision);
        self.encoded(change, &shaped)
    }

    fn encoded(&self, change: &str, object: &Value) -> Bytes {
        if self.form.encoding == Encoding::Protobuf
            && let Some(document) = protobuf::document(object, &self.sandbox.kinds())
        {
            return protobuf::frame(change, &document).into();
        }
        line(&json!({"type": change, "object": object}))
    }

    fn shape(&mut self, value: Value, revision: u64) -> Value {
        match self.form.shape {
            Shape::Whole | Shape::PartialList(_) => value,
            Shape::Partial(version) => table::partial(&value, version),
            Shape::Table(version) => {
                let mut metadata = Map::new();
                metadata.insert("resourceVersion".to_owned(), revision.to_string().into());
                let header = !std::mem::replace(&mut self.form.headed, true);
                let wall = self.sandbox.clock().wall();
                table::table(&self.kind, &self.form.include, wall, version, &[value], metadata, header)
            }
        }
    }

    fn bookmark(&mut self, revision: u64, end: bool) -> Bytes {
        let mut value = json!({"metadata": {"resourceVersion": revision.to_string()}});
        if end {
            value["metadata"]["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let mut value = input::bare(value, &self.kind);
        if !matches!(self.form.shape, Shape::Whole) {
            value = self.shape(value, revision);
        }
        self.encoded("BOOKMARK", &value)
    }
}

/// What a watch may be about, as far as that can be told without looking at objects.
fn interest(namespace: &str, selector: &Selector) -> Interest {
    if let Some(name) = selector.only_name() {
        Interest::Name(Key::new(namespace, name))
    } else if let Some(node) = selector.only(NODE) {
        Interest::Node(node.into())
    } else if namespace.is_empty() {
        Interest::All
    } else {
        Interest::Namespace(namespace.into())
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.sandbox.store().discharge_stream(&self.kind.storage, self.id);
    }
}

fn line(event: &Value) -> Bytes {
    let mut text = go_json::bytes(event);
    text.push(b'\n');
    text.into()
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use bailiff_runtime::{Clock, Seed};

    use super::super::negotiate::Accepted;
    use super::super::path::Target;
    use super::super::request::Request;
    use super::*;
    use crate::{Config, User, Verb};

    fn make(sandbox: &Sandbox, name: &str) {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        let maps = "/api/v1/namespaces/default/configmaps";
        sandbox
            .request(&User::admin(), Verb::Create, maps, &map)
            .expect("it is created");
    }

    /// What is written between a look into the log and the bookmark that is due then comes after the bookmark.
    #[tokio::test(start_paused = true)]
    async fn a_bookmark_does_not_pass_over_what_was_written_since_the_log_was_read() {
        let wall = "2026-11-21T01:00:00Z".parse().expect("a time");
        let sandbox = Sandbox::new(Config::default(), Clock::virtual_from(wall), &Seed::new(1));
        let kinds = sandbox.kinds();
        let kind = kinds.find("", "v1", "configmaps").expect("it is served");
        let user = User::admin();
        let call = Call {
            sandbox: &sandbox,
            request: &Request::default(),
            user: &user,
            target: &Target::default(),
            kind,
            accepted: Accepted::default(),
            now: sandbox.clock().now(),
            warnings: std::cell::RefCell::default(),
        };
        let initial = Initial {
            objects: false,
            end: false,
        };
        let revision = sandbox.store().revision();
        let mut stream = Stream::open(&call, Selector::default(), revision, initial, true, None).expect("a watch");
        let mut context = Context::from_waker(Waker::noop());
        assert!(stream.poll_next(&mut context).is_pending());
        // Something else was written, which is worth a bookmark.
        sandbox.store().skip_revision();
        let (found, seen) = stream.look(&context);
        assert!(matches!(found, Lookup::Waiting(_)));
        make(&sandbox, "late");
        tokio::time::advance(BOOKMARK_EVERY + Duration::from_secs(1)).await;
        let next = |polled: Poll<Option<Bytes>>| -> Value {
            let Poll::Ready(Some(line)) = polled else {
                panic!("nothing is told")
            };
            serde_json::from_slice(&line).expect("a line of JSON")
        };
        let bookmark = next(stream.poll_timers(&mut context, seen));
        assert_eq!(bookmark["type"], "BOOKMARK");
        let event = next(stream.poll_next(&mut context));
        assert_eq!(
            (&event["type"], &event["object"]["metadata"]["name"]),
            (&json!("ADDED"), &json!("late"))
        );
    }
}
