//! What the stage counts.

use bailiff_model::intent::{Intent, IntentState, PodEviction, Trigger};
use bailiff_runtime::Metrics as Registry;
use bailiff_runtime::metrics::at_zero;
use bailiff_taint_core::{Answer, Input, Reading, Stats};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

/// Bounds of the delay from the end of a toleration time to its publication, in seconds: in time is below 10 ms; after a restart, or
/// with a bus that was away, it can be minutes.
const DELAYS: [f64; 8] = [0.001, 0.01, 0.1, 1.0, 10.0, 60.0, 300.0, 3600.0];

/// Metrics of the stage.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    nodes: Gauge,
    pods: Gauge,
    intents: Family<StateLabels, Gauge>,
    wishes: Gauge,
    waiting: Family<RequestLabels, Gauge>,
    requests: Family<ResultLabels, Counter>,
    published: Family<KindLabels, Counter>,
    delay: Histogram,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct StateLabels {
    state: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestLabels {
    request: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ResultLabels {
    request: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct KindLabels {
    kind: &'static str,
}

impl Metrics {
    /// Registers them under `taint_manager_…`.
    pub(crate) fn register(registry: &Registry) -> Self {
        let metrics = Self {
            nodes: Gauge::default(),
            pods: Gauge::default(),
            intents: Family::default(),
            wishes: Gauge::default(),
            waiting: Family::default(),
            requests: Family::default(),
            published: Family::default(),
            delay: Histogram::new(DELAYS),
        };
        registry.register("taint_manager", |registry| {
            registry.register("nodes", "Nodes looked after", metrics.nodes.clone());
            registry.register("pods", "Pods that are assigned to these nodes", metrics.pods.clone());
            registry.register("pod_intents", "Published pod intents by state", metrics.intents.clone());
            registry.register(
                "node_wishes",
                "Nodes that should be isolated or evicted",
                metrics.wishes.clone(),
            );
            let waiting = "Writes wanted, under way, or waiting for another try";
            registry.register("waiting_writes", waiting, metrics.waiting.clone());
            registry.register(
                "requests",
                "Requests to the API server, by what became of them",
                metrics.requests.clone(),
            );
            registry.register("published", "Records published, by kind and state", metrics.published.clone());
            let delay = "From the end of a toleration time to the publication that the pod is due";
            registry.register("due_delay_seconds", delay, metrics.delay.clone());
        });
        metrics.begin();
        metrics
    }

    fn begin(&self) {
        at_zero(
            &self.intents,
            ["scheduled", "due", "withdrawn"].map(|state| StateLabels { state }),
        );
        at_zero(&self.waiting, [PATCH_NODE, MARK_POD].map(|request| RequestLabels { request }));
        let requests = [
            (PATCH_NODE, &WRITES[..]),
            (MARK_POD, &WRITES),
            (READ_NODE, &READS),
            (READ_POD, &READS),
        ];
        for (request, results) in requests {
            let labels = results.iter().copied().map(|result| ResultLabels { request, result });
            at_zero(&self.requests, labels);
        }
        at_zero(&self.published, PUBLISHED.map(|kind| KindLabels { kind }));
    }

    /// Sets what is a level.
    pub(crate) fn levels(&self, stats: &Stats) {
        self.nodes.set(signed(stats.nodes));
        self.pods.set(signed(stats.pods));
        self.wishes.set(signed(stats.wishes));
        for (state, pods) in [
            ("scheduled", stats.scheduled),
            ("due", stats.due),
            ("withdrawn", stats.withdrawn),
        ] {
            self.intents.get_or_create(&StateLabels { state }).set(signed(pods));
        }
        for (request, waiting) in [(PATCH_NODE, stats.node_writes), (MARK_POD, stats.pod_marks)] {
            self.waiting.get_or_create(&RequestLabels { request }).set(signed(waiting));
        }
    }

    /// Counts an answer to a request; other inputs are none.
    pub(crate) fn answered(&self, input: &Input) {
        let (request, result) = match input {
            Input::NodePatched { answer, .. } => (PATCH_NODE, of_answer(answer)),
            Input::PodMarked { answer, .. } => (MARK_POD, of_answer(answer)),
            Input::NodeRead { reading, .. } => (READ_NODE, of_reading(reading)),
            Input::PodRead { reading, .. } => (READ_POD, of_reading(reading)),
            _ => return,
        };
        self.requests.get_or_create(&ResultLabels { request, result }).inc();
    }

    /// Counts a publication.
    pub(crate) fn published(&self, intent: &Intent) {
        let kind = match intent {
            Intent::Isolation(_) => "node_isolation",
            Intent::NodeEviction(_) => "node_eviction",
            Intent::Pod(eviction) => match eviction.state {
                IntentState::Scheduled => "pod_scheduled",
                IntentState::Due => "pod_due",
                IntentState::Withdrawn(_) => "pod_withdrawn",
            },
        };
        self.published.get_or_create(&KindLabels { kind }).inc();
        if let Intent::Pod(eviction) = intent {
            self.delayed(eviction);
        }
    }

    fn delayed(&self, eviction: &PodEviction) {
        if eviction.state == IntentState::Due && eviction.trigger != Trigger::Untolerated {
            let delay = eviction.decided_at.duration_since(eviction.due_at);
            self.delay.observe(delay.as_secs_f64().max(0.0));
        }
    }
}

const PATCH_NODE: &str = "patch_node";
const MARK_POD: &str = "mark_pod";
const READ_NODE: &str = "read_node";
const READ_POD: &str = "read_pod";
/// What [`of_answer`] answers.
const WRITES: [&str; 4] = ["done", "gone", "called_off", "failed"];
/// What [`of_reading`] answers.
const READS: [&str; 3] = ["found", "gone", "failed"];
/// Kinds of records that are published.
const PUBLISHED: [&str; 5] = ["node_isolation", "node_eviction", "pod_scheduled", "pod_due", "pod_withdrawn"];

fn signed(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

const fn of_answer(answer: &Answer) -> &'static str {
    match answer {
        Answer::Done(_) => "done",
        Answer::Gone => "gone",
        Answer::CalledOff => "called_off",
        Answer::Failed { .. } => "failed",
    }
}

const fn of_reading<T>(reading: &Reading<T>) -> &'static str {
    match reading {
        Reading::Found(_) => "found",
        Reading::Gone => "gone",
        Reading::Failed { .. } => "failed",
    }
}
