//! List and watch of one resource, decoded into the fields a stage reads.
//!
//! # Guarantees
//! - The first event is a [`Event::Snapshot`] of the whole collection, as consistent as the server's store (no `resourceVersion`,
//!   DS-201): as a stream where the server has that, else page by page. Every later change comes once, in order. After a gap (410, an
//!   error, a silence) a new snapshot says all there is.
//! - What comes together is shown together, a few events at a time. A connection that is busy may be read in turns (`LOOK` of
//!   `bailiff_runtime`'s client); what comes after a quiet time, and what a watch begins with, is shown at once.
//! - While lists fail, break off, or go on for [`SILENT_AFTER`], the watch counts as stale, whatever signs of life they give: who acts on
//!   what was shown acts on the past.
//! - A stream that gives no sign of life is dropped. Signs of life are the head of an answer, a line that can be read, the end of
//!   a list, and the end of a stream that lasted: the server is asked to end every watch within [`WATCH_FOR`], and ends a quiet one
//!   without a word. So silence beyond [`SILENT_AFTER`] means a broken connection, never a quiet cluster.
//! - A watch that was started in parts shows a list while it is read, a few objects at a time ([`Event::Part`]), and waits for the
//!   reader; [`Event::Snapshot`] is the end of it then. What is deleted meanwhile comes as [`Event::Deleted`], in its order. A list
//!   that breaks off leaves what was shown as it is; the next one says that it begins.
//! - [`Event::Fresh`] follows the snapshot that makes it true.
//! - An object that cannot be decoded is skipped, counted and logged; what was known of it before stays: snapshots name it.
//! - What goes wrong again and again is tried again ever more slowly: the pause shrinks only after a watch that lasted.
//! - Memory: one page of a list, or one piece of a stream, as it came, the decoded objects of one list (in parts: of one part) until
//!   the reader took them, and a bounded channel.
//! - Death policy: a panic (a bug in a view) is logged, said as [`Event::Stale`], and answered by a new list after the longest pause.

mod collected;
mod initial;
mod list;
mod task;
mod teller;
pub(crate) mod wire;

pub use list::read_collection;

use std::borrow::Cow;
use std::convert::Infallible;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bailiff_model::Mono;
use bailiff_runtime::client::Attention;
use bailiff_runtime::{Clock, Seed};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::api::Api;
use crate::decode::{Decode, Encoded};
use crate::views::Meta;
use collected::Way;
use task::Task;
use teller::{Life, Teller};

/// How long the server is asked to keep one watch open. Short, so that a dead connection is found soon; resuming costs one request.
pub const WATCH_FOR: Duration = Duration::from_secs(45);

/// A stream that gave no sign of life for so long is dropped, and the watch counts as stale: [`WATCH_FOR`] and a third.
pub const SILENT_AFTER: Duration = Duration::from_secs(60);

/// Batches of events waiting for the reader, of 64 at most, or parts of a list. The reader is a decision loop that never blocks; this only
/// smooths bursts.
const QUEUE: usize = 8;

/// A trimmed view of one kind of object.
pub trait View: Decode + Send + 'static {
    /// Its metadata, of which a watch needs name and namespace. With the version, the object is not searched for it once more; the rest
    /// is the view's own matter.
    fn meta(&self) -> &Meta;
}

/// Sees every object as the server sent it, in the watch's own task, before its view is decoded.
///
/// For what is wanted of few objects only, so that no view has to carry it.
pub trait Witness: Send + 'static {
    /// An object of a list, or a changed one.
    fn saw(&mut self, object: &Encoded<'_>);

    /// The list that the last objects were of is whole.
    fn saw_all(&mut self);

    /// An object is gone.
    fn gone(&mut self, meta: &Meta);
}

/// Sees nothing.
impl Witness for () {
    fn saw(&mut self, _: &Encoded<'_>) {}

    fn saw_all(&mut self) {}

    fn gone(&mut self, _: &Meta) {}
}

/// What a watch is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Path of the collection, such as `/api/v1/nodes`.
    pub path: Cow<'static, str>,
    /// Label selector, or empty.
    pub label_selector: &'static str,
    /// Field selector, or empty.
    pub field_selector: &'static str,
    /// How soon changes are wanted while there are many.
    pub attention: Attention,
}

/// What happened. `P` is what lists come in: nothing, if they come whole.
#[derive(Debug)]
pub enum Event<T, P = Infallible> {
    /// Some of a list that is not read to its end.
    Part(P),
    /// This, with the parts of the list if it came in parts, is all there is; forget the rest.
    Snapshot(Snapshot<T>),
    /// The object was created or changed.
    Applied(T),
    /// The object is gone.
    Deleted(Meta),
    /// What was shown has not been known to be the present for [`SILENT_AFTER`], or the first list failed. Said once.
    Stale {
        /// Until when it was; `None` if nothing was shown yet.
        since: Option<Mono>,
        /// What went wrong last.
        reason: String,
    },
    /// Heard from again after [`Event::Stale`]: the snapshot before this is the present.
    Fresh,
}

/// A whole collection.
#[derive(Debug)]
pub struct Snapshot<T> {
    /// Every object that could be decoded.
    pub objects: Vec<T>,
    /// Those that could not: they exist, and what was known of them is not refuted. Name, namespace, uid and version only.
    pub malformed: Vec<Meta>,
}

/// Some objects of a list.
///
/// The parts since the `first` one and the snapshot that ends them are the whole. An object of an earlier part may be in a later one
/// again, as it is then.
#[derive(Debug)]
pub struct ListPart<T> {
    /// The list begins here. One that broke off counts for nothing.
    pub first: bool,
    /// Those that could be decoded; the end names the others.
    pub objects: Vec<T>,
}

/// A watch whose lists come in parts, and what it tells.
pub type WatchInParts<T> = Watch<T, ListPart<T>>;
/// See [`WatchInParts`].
pub type EventInParts<T> = Event<T, ListPart<T>>;

/// A running watch. Dropping it ends it.
#[derive(Debug)]
pub struct Watch<T, P = Infallible> {
    events: mpsc::Receiver<Vec<Event<T, P>>>,
    /// Of the batch that was received last.
    next: std::vec::IntoIter<Event<T, P>>,
    shown: Life,
    clock: Clock,
    task: AbortHandle,
}

// === impl Source ===

impl Source {
    /// All objects of a collection.
    pub const fn all(path: &'static str) -> Self {
        Self {
            path: Cow::Borrowed(path),
            label_selector: "",
            field_selector: "",
            attention: Attention::Usual,
        }
    }

    /// Those of them that this field selector matches.
    #[must_use]
    pub const fn with_fields(mut self, selector: &'static str) -> Self {
        self.field_selector = selector;
        self
    }

    /// Those of them that this label selector matches.
    #[must_use]
    pub const fn with_labels(mut self, selector: &'static str) -> Self {
        self.label_selector = selector;
        self
    }

    /// The same, whose changes are wanted so soon.
    #[must_use]
    pub const fn with_attention(mut self, attention: Attention) -> Self {
        self.attention = attention;
        self
    }

    /// Pods of a namespace.
    pub fn pods_in(namespace: &str) -> Self {
        Self {
            path: Cow::Owned(format!("/api/v1/namespaces/{namespace}/pods")),
            ..Self::all("")
        }
    }

    /// Name for logs and metrics: the last part of the path.
    pub fn resource(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    fn query(&self, more: &[(&str, &str)]) -> String {
        let fixed = [("labelSelector", self.label_selector), ("fieldSelector", self.field_selector)];
        let mut query = String::from(&*self.path);
        for (position, (key, value)) in fixed.iter().chain(more).filter(|(_, value)| !value.is_empty()).enumerate() {
            query.push(if position == 0 { '?' } else { '&' });
            query.push_str(key);
            query.push('=');
            wire::encode_into(&mut query, value);
        }
        query
    }
}

// === impl Snapshot ===

impl<T> Snapshot<T> {
    /// The decoded objects as facts, the others by what identifies them.
    pub fn into_listed<F, K>(self, fact: impl Fn(T) -> F, key: impl Fn(&Meta) -> K) -> bailiff_model::Listed<F, K> {
        bailiff_model::Listed {
            all: self.objects.into_iter().map(fact).collect(),
            unreadable: self.malformed.iter().map(key).collect(),
        }
    }
}

// === impl Watch ===

impl<T, P> Drop for Watch<T, P> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl<T: View> Watch<T> {
    /// Starts a watch. Its task is owned by the returned value and restarts itself after every failure.
    pub fn start(api: &Api, source: Source, seed: &Seed) -> Self {
        Self::start_with(api, source, seed, ())
    }

    /// The same, and `witness` sees what comes.
    pub fn start_with(api: &Api, source: Source, seed: &Seed, witness: impl Witness) -> Self {
        Self::begin(api, source, seed, witness, None)
    }
}

impl<T: View> WatchInParts<T> {
    /// As [`Watch::start_with`], of a collection that is never to be whole in memory.
    pub fn start_in_parts(api: &Api, source: Source, seed: &Seed, witness: impl Witness) -> Self {
        Self::begin(api, source, seed, witness, Some(|first, objects| ListPart { first, objects }))
    }
}

impl<T: View, P: Send + 'static> Watch<T, P> {
    fn begin(api: &Api, source: Source, seed: &Seed, witness: impl Witness, part: Option<fn(bool, Vec<T>) -> P>) -> Self {
        let (sender, events) = mpsc::channel(QUEUE);
        let (shown, clock) = (Life::default(), api.clock().clone());
        let way = part.map(|part| Way {
            sender: sender.clone(),
            part,
        });
        let teller = Teller::new(sender, shown.clone(), &clock);
        let task = Task::new(
            api.clone(),
            source.clone(),
            seed.fork(&source.path),
            teller,
            Box::new(witness),
            way,
        );
        Self {
            events,
            next: Vec::new().into_iter(),
            shown,
            clock,
            // In a box, so that it is not moved on the stack of who starts it.
            task: tokio::spawn(Box::pin(task.supervise())).abort_handle(),
        }
    }

    /// The next event. Cancel-safe. Never ends while the process runs.
    pub async fn next(&mut self) -> Event<T, P> {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    /// The same, for who reads several watches.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Event<T, P>> {
        loop {
            if let Some(event) = self.next.next() {
                return Poll::Ready(event);
            }
            match ready!(self.events.poll_recv(context)) {
                Some(batch) => self.next = batch.into_iter(),
                // The task only ends with this value or the runtime.
                None => return Poll::Pending,
            }
        }
    }

    /// The next event of those that came together with the last one, if there is one.
    pub fn at_hand(&mut self) -> Option<Event<T, P>> {
        self.next.next()
    }

    /// How fresh what was shown is: now while the server keeps the watch's contract, that is, gave a sign of life within
    /// [`SILENT_AFTER`]; else when it last did; `None` before the first snapshot. A quiet cluster is not a stale one.
    pub fn fresh_at(&self) -> Option<Mono> {
        let (now, last) = (self.clock.now().mono, self.shown.last()?);
        Some(if now.saturating_since(last) < SILENT_AFTER {
            now
        } else {
            last
        })
    }
}
