//! Finished spans of incidents, with times of their own choosing.
//!
//! An incident's spans begin and end when something happened in the cluster, often minutes before the code that reports them runs,
//! and their trace outlives processes. So they are not `tracing` spans: they are values, emitted once, when they are over. Nothing
//! here waits: a span that finds no room is dropped and counted.

mod export;
mod recorder;

use std::borrow::Cow;
use std::sync::Arc;

use bailiff_model::{TraceContext, Wall};
pub use opentelemetry::trace::{SpanKind, Status};
pub use opentelemetry::{KeyValue, Value};

use crate::Metrics;

pub use export::{Batching, Pump, export_to};
pub use recorder::Recorder;

/// The scope of spans that no stage tells.
const SCOPE: &str = "bailiff";

/// Takes finished spans. It must not block.
pub trait Sink: Send + Sync {
    /// Takes one span.
    fn emit(&self, span: Finished);

    /// Registers what the sink counts.
    fn register(&self, _metrics: &Metrics) {}
}

/// Where a service's finished spans go; cloning it gives the same place.
#[derive(Clone)]
pub struct Spans {
    sink: Option<Arc<dyn Sink>>,
    scope: &'static str,
}

/// A span that is over.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// What was done or waited for: one of few, such as `zone queue wait`.
    pub name: Cow<'static, str>,
    /// When it began.
    pub start: Wall,
    /// When it ended; taken as `start` if earlier, because wall clocks step.
    pub end: Wall,
    /// Who takes part in it.
    pub kind: SpanKind,
    /// Whom it concerns, and why it went as it did.
    pub attributes: Vec<KeyValue>,
    /// Whether it failed.
    pub status: Status,
    /// Moments within it.
    pub events: Vec<Event>,
    place: Place,
}

/// A moment within a span.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// What happened.
    pub name: Cow<'static, str>,
    /// When.
    pub at: Wall,
    /// Details.
    pub attributes: Vec<KeyValue>,
}

/// Where a span stands in its trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// It is the span that the context names, and has no parent.
    Root(TraceContext),
    /// It is a child of the span that the context names; its own id follows from what it says.
    Child(TraceContext),
}

/// A span with its ids, as a [`Sink`] takes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Finished {
    /// Trace and the span's own id.
    pub context: TraceContext,
    /// The parent's span id, in the same trace.
    pub parent: Option<u64>,
    /// Who tells it: the name of the instrumentation scope.
    pub scope: &'static str,
    /// The span.
    pub span: Span,
}

// === impl Span ===

impl Span {
    /// The first span of the trace: its id is the one in `trace`, so that children emitted earlier already refer to it.
    pub fn root(trace: TraceContext, name: impl Into<Cow<'static, str>>, start: Wall, end: Wall) -> Self {
        Self::new(Place::Root(trace), name.into(), start, end)
    }

    /// A span below the one that `parent` names.
    pub fn child_of(parent: TraceContext, name: impl Into<Cow<'static, str>>, start: Wall, end: Wall) -> Self {
        Self::new(Place::Child(parent), name.into(), start, end)
    }

    fn new(place: Place, name: Cow<'static, str>, start: Wall, end: Wall) -> Self {
        Self {
            name,
            start,
            end: end.max(start),
            kind: SpanKind::Internal,
            attributes: Vec::new(),
            status: Status::Unset,
            events: Vec::new(),
            place,
        }
    }

    /// The span with this kind.
    pub fn kind(mut self, kind: SpanKind) -> Self {
        self.kind = kind;
        self
    }

    /// The span with one more attribute.
    pub fn attribute(mut self, key: &'static str, value: impl Into<Value>) -> Self {
        self.attributes.push(KeyValue::new(key, value));
        self
    }

    /// The span with one more event.
    pub fn event(mut self, name: impl Into<Cow<'static, str>>, at: Wall, attributes: Vec<KeyValue>) -> Self {
        self.events.push(Event {
            name: name.into(),
            at,
            attributes,
        });
        self
    }

    /// The span, marked as failed.
    pub fn failed(mut self, why: impl Into<Cow<'static, str>>) -> Self {
        self.status = Status::error(why);
        self
    }

    /// Its own ids: for records, and for spans below it.
    pub fn context(&self) -> TraceContext {
        match self.place {
            Place::Root(own) => own,
            Place::Child(parent) => self.own_context(parent),
        }
    }

    fn parent(&self) -> Option<u64> {
        match self.place {
            Place::Root(_) => None,
            Place::Child(parent) => Some(parent.span_id()),
        }
    }

    /// The span's own id, below this parent: a hash of what it says about whom and since when. Told again, by a process that was
    /// started anew, it is the same span.
    fn own_context(&self, parent: TraceContext) -> TraceContext {
        let (parent_text, start) = (parent.to_string(), self.start.as_nanosecond().to_string());
        let attributes: Vec<String> = self.attributes.iter().map(|kv| format!("{}={}", kv.key, kv.value)).collect();
        let mut parts = vec![parent_text.as_str(), &self.name, &start];
        parts.extend(attributes.iter().map(String::as_str));
        parent.child(TraceContext::derived(&parts).span_id())
    }
}

// === impl Spans ===

impl Spans {
    /// Spans that go to `sink`.
    pub fn new(sink: impl Sink + 'static) -> Self {
        Self {
            sink: Some(Arc::new(sink)),
            scope: SCOPE,
        }
    }

    /// Spans that go nowhere.
    pub fn off() -> Self {
        Self {
            sink: None,
            scope: SCOPE,
        }
    }

    /// These spans, told by the stage of this name. Several stages may share a process, and so the service of its resource.
    pub fn of(self, scope: &'static str) -> Self {
        Self { scope, ..self }
    }

    /// Spans that are kept in memory, for tests.
    pub fn recorded() -> (Self, Recorder) {
        let recorder = Recorder::default();
        (Self::new(recorder.clone()), recorder)
    }

    /// Emits a finished span. Where spans go nowhere it is not made.
    pub fn emit(&self, mk_span: impl FnOnce() -> Span) {
        if let Some(sink) = &self.sink {
            let span = mk_span();
            sink.emit(Finished {
                context: span.context(),
                parent: span.parent(),
                scope: self.scope,
                span,
            });
        }
    }

    /// Registers how many spans were exported, dropped and refused.
    pub fn register(&self, metrics: &Metrics) {
        if let Some(sink) = &self.sink {
            sink.register(metrics);
        }
    }
}

impl std::fmt::Debug for Spans {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Spans")
            .field("off", &self.sink.is_none())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Wall = Wall::UNIX_EPOCH;

    fn mk_trace() -> TraceContext {
        TraceContext::derived(&["incident"])
    }

    fn after(seconds: i64) -> Wall {
        Wall::from_second(seconds).expect("in range")
    }

    #[test]
    fn what_goes_nowhere_is_not_made() {
        Spans::off().emit(|| unreachable!("nobody wants it"));
    }

    #[test]
    fn children_refer_to_the_root_whatever_is_emitted_first() {
        let (spans, recorder) = Spans::recorded();
        let trace = mk_trace();
        let queue = Span::child_of(trace, "queue", after(1), after(2)).attribute("node", "n1");
        let delete = Span::child_of(queue.context(), "delete", after(2), after(3));
        let (of_queue, of_delete) = (queue.context(), delete.context());
        spans.emit(|| queue);
        spans.emit(|| delete);
        spans.emit(|| Span::root(trace, "incident", START, after(3)));
        let ids: Vec<_> = recorder
            .take()
            .into_iter()
            .map(|span| (span.span.name.into_owned(), span.context, span.parent))
            .collect();
        let expected = [
            ("queue".to_owned(), of_queue, Some(trace.span_id())),
            ("delete".to_owned(), of_delete, Some(of_queue.span_id())),
            ("incident".to_owned(), trace, None),
        ];
        assert_eq!(ids, expected);
        assert_eq!(of_delete.trace_id(), trace.trace_id());
    }

    /// Another process that tells the same tells the same span; whatever else is told is another one.
    #[test]
    fn a_span_has_its_id_from_what_it_says() {
        let of = |name: &'static str, start, node: &'static str| {
            let span = Span::child_of(mk_trace(), name, after(start), after(9));
            span.attribute("node", node).context()
        };
        assert_eq!(of("a", 1, "n1"), of("a", 1, "n1"));
        let others = [of("b", 1, "n1"), of("a", 2, "n1"), of("a", 1, "n2")];
        assert!(others.iter().all(|other| *other != of("a", 1, "n1")), "{others:?}");
    }

    #[test]
    fn a_span_does_not_end_before_it_starts() {
        let span = Span::root(mk_trace(), "a", after(5), START).failed("why");
        assert_eq!(
            (span.start, span.end, span.status),
            (after(5), after(5), Status::error("why"))
        );
    }
}
