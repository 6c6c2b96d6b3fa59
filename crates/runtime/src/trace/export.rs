//! Hands finished spans to an OpenTelemetry exporter, in batches, from a task of its own.
//!
//! Between the emitting code and the exporter is a queue with a bound. A collector that is slow, dead or refuses costs the spans
//! that find no room or are in its batch, and nothing else.

use std::time::{Duration, SystemTime};

use bailiff_model::Wall;
use opentelemetry::InstrumentationScope;
use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId, TraceState};
use opentelemetry_sdk::error::OTelSdkError;
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanExporter, SpanLinks};
use prometheus_client::metrics::counter::Counter;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Finished, Sink, Spans};
use crate::Metrics;
use crate::shutdown::chain;

/// How spans wait for their export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batching {
    /// Spans that may wait (`OTEL_BSP_MAX_QUEUE_SIZE`).
    pub queue: usize,
    /// Spans per export, at most (`OTEL_BSP_MAX_EXPORT_BATCH_SIZE`).
    pub batch: usize,
    /// How long a span waits for company (`OTEL_BSP_SCHEDULE_DELAY`).
    pub delay: Duration,
    /// How long one export may take; the queue takes what comes meanwhile (`OTEL_BSP_EXPORT_TIMEOUT`).
    pub timeout: Duration,
}

/// Exports what its [`Spans`] emit, until `closing` is cancelled.
#[derive(Debug)]
pub struct Pump<E> {
    exporter: E,
    batching: Batching,
    queue: mpsc::Receiver<SpanData>,
    closing: CancellationToken,
    counters: Counters,
    failing: bool,
}

/// What became of spans.
#[derive(Clone, Debug, Default)]
struct Counters {
    exported: Counter,
    dropped: Counter,
    failed: Counter,
}

#[derive(Debug)]
struct Queue {
    sender: mpsc::Sender<SpanData>,
    counters: Counters,
}

/// Spans that `exporter` gets, and the task that hands them over.
pub fn export_to<E: SpanExporter>(exporter: E, batching: Batching, closing: CancellationToken) -> (Spans, Pump<E>) {
    let (sender, queue) = mpsc::channel(batching.queue);
    let counters = Counters::default();
    let sink = Queue {
        sender,
        counters: counters.clone(),
    };
    let pump = Pump {
        exporter,
        batching,
        queue,
        closing,
        counters,
        failing: false,
    };
    (Spans::new(sink), pump)
}

// === impl Batching ===

impl Default for Batching {
    fn default() -> Self {
        Self {
            // A zone of 1,000 nodes with 30 pods each that is evicted at 0.1 nodes per second makes about 12 spans per second; this holds
            // five minutes of it.
            queue: 4096,
            // OpenTelemetry's default, well below gRPC's limit of 4 MiB.
            batch: 512,
            // OpenTelemetry's default.
            delay: Duration::from_secs(5),
            // What OpenTelemetry gives the collector to answer in.
            timeout: Duration::from_secs(10),
        }
    }
}

// === impl Queue ===

impl Sink for Queue {
    fn emit(&self, span: Finished) {
        if self.sender.try_send(data_of(span)).is_err() {
            self.counters.dropped.inc();
        }
    }

    fn register(&self, metrics: &Metrics) {
        metrics.register("bailiff_trace_spans", |registry| {
            let Counters {
                exported,
                dropped,
                failed,
            } = self.counters.clone();
            registry.register("exported", "Spans that the collector took", exported);
            registry.register("dropped", "Spans that found no room in the export queue", dropped);
            registry.register("failed", "Spans that the collector refused or did not take in time", failed);
        });
    }
}

fn data_of(finished: Finished) -> SpanData {
    let Finished {
        context,
        parent,
        scope,
        span,
    } = finished;
    let mut events = SpanEvents::default();
    events.events.extend(
        span.events
            .into_iter()
            .map(|event| opentelemetry::trace::Event::new(event.name, system_time(event.at), event.attributes, 0)),
    );
    SpanData {
        span_context: SpanContext::new(
            TraceId::from(context.trace_id()),
            SpanId::from(context.span_id()),
            TraceFlags::SAMPLED,
            false,
            TraceState::NONE,
        ),
        parent_span_id: parent.map_or(SpanId::INVALID, SpanId::from),
        // An earlier stage or an earlier process may have emitted it.
        parent_span_is_remote: parent.is_some(),
        span_kind: span.kind,
        name: span.name,
        start_time: system_time(span.start),
        end_time: system_time(span.end),
        attributes: span.attributes,
        dropped_attributes_count: 0,
        events,
        links: SpanLinks::default(),
        status: span.status,
        instrumentation_scope: InstrumentationScope::builder(scope)
            .with_version(env!("CARGO_PKG_VERSION"))
            .build(),
    }
}

/// OTLP counts unsigned nanoseconds since 1970: what is earlier is 1970.
fn system_time(wall: Wall) -> SystemTime {
    SystemTime::from(wall.max(Wall::UNIX_EPOCH))
}

// === impl Pump ===

impl<E: SpanExporter> Pump<E> {
    /// Exports until closed; then what is queued, and returns.
    pub async fn run(mut self) {
        let Batching { batch: most, delay, .. } = self.batching;
        let mut batch = Vec::with_capacity(most);
        let mut due = None;
        loop {
            let room = most - batch.len();
            let wait = async { tokio::time::sleep_until(due.unwrap_or_else(Instant::now)).await };
            let is_open = tokio::select! {
                biased;
                () = self.closing.cancelled(), if !self.queue.is_closed() => { self.queue.close(); true }
                () = wait, if due.is_some() => { due = None; self.export(&mut batch).await; true }
                taken = self.queue.recv_many(&mut batch, room) => taken > 0,
            };
            if batch.len() == most || !is_open {
                due = None;
                self.export(&mut batch).await;
            } else if due.is_none() && !batch.is_empty() {
                due = Some(Instant::now() + delay);
            }
            if !is_open {
                return;
            }
        }
    }

    async fn export(&mut self, batch: &mut Vec<SpanData>) {
        if batch.is_empty() {
            return;
        }
        let count = batch.len() as u64;
        let Batching {
            batch: most, timeout, ..
        } = self.batching;
        let spans = std::mem::replace(batch, Vec::with_capacity(most));
        let outcome = tokio::time::timeout(timeout, self.exporter.export(spans)).await;
        let outcome = outcome.unwrap_or(Err(OTelSdkError::Timeout(timeout)));
        match &outcome {
            Ok(()) => self.counters.exported.inc_by(count),
            Err(_) => self.counters.failed.inc_by(count),
        };
        self.report(&outcome);
    }

    /// Says once that spans are lost, and once that they are not any more.
    fn report(&mut self, outcome: &Result<(), OTelSdkError>) {
        match outcome {
            Ok(()) if self.failing => tracing::info!("traces are exported again"),
            Err(error) if !self.failing => tracing::warn!(error = %chain(error), "traces cannot be exported; spans are lost"),
            _ => {}
        }
        self.failing = outcome.is_err();
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::{Arc, Mutex};

    use bailiff_model::TraceContext;
    use opentelemetry_sdk::error::OTelSdkResult;

    use super::super::Span;
    use super::*;

    /// An exporter that takes spans, refuses them, or never answers.
    #[derive(Clone, Debug)]
    struct Collector {
        mood: Mood,
        batches: Arc<Mutex<Vec<usize>>>,
    }

    #[derive(Clone, Copy, Debug)]
    enum Mood {
        Well,
        Refusing,
        Dead,
    }

    impl SpanExporter for Collector {
        async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
            match self.mood {
                Mood::Well => self.batches.lock().expect("not poisoned").push(batch.len()),
                Mood::Refusing => return Err(OTelSdkError::InternalFailure("no".into())),
                Mood::Dead => pending().await,
            }
            Ok(())
        }
    }

    struct Setup {
        spans: Spans,
        collector: Collector,
        closing: CancellationToken,
        task: tokio::task::JoinHandle<()>,
    }

    const USUAL: Batching = Batching {
        queue: 1000,
        batch: 50,
        delay: Duration::from_secs(3),
        timeout: Duration::from_secs(7),
    };

    fn mk_setup(mood: Mood) -> Setup {
        let collector = Collector {
            mood,
            batches: Arc::default(),
        };
        let closing = CancellationToken::new();
        let (spans, pump) = export_to(collector.clone(), USUAL, closing.clone());
        Setup {
            spans,
            collector,
            closing,
            task: tokio::spawn(pump.run()),
        }
    }

    impl Setup {
        fn emit(&self, count: usize) {
            for _ in 0..count {
                let trace = TraceContext::derived(&["a"]);
                self.spans
                    .emit(|| Span::child_of(trace, "a", Wall::UNIX_EPOCH, Wall::UNIX_EPOCH));
            }
        }

        fn batches(&self) -> Vec<usize> {
            self.collector.batches.lock().expect("not poisoned").clone()
        }

        async fn close(self) -> Vec<usize> {
            self.closing.cancel();
            self.task.await.expect("the pump does not panic");
            self.collector.batches.lock().expect("not poisoned").clone()
        }

        fn counted(&self) -> String {
            let metrics = Metrics::new();
            self.spans.register(&metrics);
            metrics.encode()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn spans_wait_for_company_but_not_long() {
        let setup = mk_setup(Mood::Well);
        setup.emit(3);
        tokio::time::sleep(USUAL.delay / 2).await;
        setup.emit(1);
        assert_eq!(setup.batches(), [0_usize; 0]);
        tokio::time::sleep(USUAL.delay).await;
        assert_eq!(setup.batches(), [4]);
        setup.emit(USUAL.batch + 1);
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(setup.batches(), [4, USUAL.batch]);
        assert_eq!(setup.close().await, [4, USUAL.batch, 1]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_dead_collector_costs_spans_and_nothing_else() {
        let setup = mk_setup(Mood::Dead);
        setup.emit(USUAL.queue + 100);
        tokio::time::sleep(USUAL.timeout * 30).await;
        let counted = setup.counted();
        assert!(counted.contains("bailiff_trace_spans_dropped_total 100\n"), "{counted}");
        assert!(
            counted.contains(&format!("bailiff_trace_spans_failed_total {}\n", USUAL.queue)),
            "{counted}"
        );
        assert_eq!(setup.close().await, [0_usize; 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn refused_spans_are_counted() {
        let setup = mk_setup(Mood::Refusing);
        setup.emit(2);
        tokio::time::sleep(USUAL.delay * 2).await;
        let counted = setup.counted();
        assert!(counted.contains("bailiff_trace_spans_failed_total 2\n"), "{counted}");
        assert_eq!(setup.close().await, [0_usize; 0]);
    }

    #[test]
    fn ids_and_times_are_what_was_given() {
        let trace = TraceContext::new(0xabc, 0x12).expect("ids are not zero");
        let start = Wall::from_microsecond(1_500_000).expect("in range");
        let span = Span::root(trace, "a", Wall::MIN, start).event("e", start, Vec::new());
        let finished = Finished {
            context: trace,
            parent: Some(0x34),
            scope: "zone-evictor",
            span,
        };
        let data = data_of(finished);
        assert_eq!(data.instrumentation_scope.name(), "zone-evictor");
        assert_eq!(data.span_context.trace_id().to_string(), format!("{:032x}", 0xabc));
        assert_eq!(data.span_context.span_id().to_string(), format!("{:016x}", 0x12));
        assert_eq!(data.parent_span_id.to_string(), format!("{:016x}", 0x34));
        assert_eq!(data.start_time, SystemTime::UNIX_EPOCH);
        assert_eq!(data.end_time, SystemTime::UNIX_EPOCH + Duration::from_millis(1500));
        assert_eq!(data.events.events[0].timestamp, data.end_time);
    }
}
