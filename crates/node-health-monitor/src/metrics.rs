//! What the stage measures. Names with `node_collector` are upstream's (NL-140); the rest is this stage's own.

use std::time::Duration;

use bailiff_model::Verdict;
use bailiff_node_health_core::{Input, Read, ReadBy, Summary, WriteOutcome};
use bailiff_runtime::Metrics as Registry;
use bailiff_runtime::metrics::at_zero;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

/// Upstream's buckets of one node's turn (NL-140), seconds.
const TURN_BUCKETS: [f64; 8] = [0.001, 0.004, 0.016, 0.064, 0.256, 1.024, 4.096, 16.384];
/// Upstream's buckets of one pass (NL-140), seconds.
const PASS_BUCKETS: [f64; 8] = [0.01, 0.04, 0.16, 0.64, 2.56, 10.24, 40.96, 163.84];
/// From a few requests to several monitor periods, seconds.
const DELAY_BUCKETS: [f64; 10] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0];

/// The stage's metrics.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    turn: Histogram,
    pass: Histogram,
    delay: Histogram,
    nodes: Family<VerdictLabels, Gauge>,
    reads: Family<ReadLabels, Counter>,
    writes: Family<ResultLabels, Counter>,
    reprieved: Counter,
    stalls: Counter,
    waiting: Gauge,
    everything_down: Gauge,
    correlated_losses: Gauge,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct VerdictLabels {
    verdict: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReadLabels {
    by: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ResultLabels {
    result: &'static str,
}

impl Metrics {
    /// Registers everything.
    pub(crate) fn register(registry: &Registry) -> Self {
        let metrics = Self {
            turn: Histogram::new(TURN_BUCKETS),
            pass: Histogram::new(PASS_BUCKETS),
            delay: Histogram::new(DELAY_BUCKETS),
            nodes: Family::default(),
            reads: Family::default(),
            writes: Family::default(),
            reprieved: Counter::default(),
            stalls: Counter::default(),
            waiting: Gauge::default(),
            everything_down: Gauge::default(),
            correlated_losses: Gauge::default(),
        };
        registry.register("node_collector", |registry| {
            registry.register(
                "update_node_health_duration_seconds",
                "From the confirming read of a silent node to its verdict",
                metrics.turn.clone(),
            );
            registry.register(
                "update_all_nodes_health_duration_seconds",
                "Looking at all nodes whose timers are due",
                metrics.pass.clone(),
            );
        });
        metrics.register_own(registry);
        metrics.begin();
        metrics
    }

    fn begin(&self) {
        let verdicts = Verdict::ALL.map(Verdict::as_str);
        at_zero(&self.nodes, verdicts.map(|verdict| VerdictLabels { verdict }));
        for by in [ReadBy::Get, ReadBy::List].map(by_label) {
            at_zero(&self.reads, READS.map(|result| ReadLabels { by, result }));
        }
        at_zero(&self.writes, WRITES.map(|result| ResultLabels { result }));
    }

    fn register_own(&self, registry: &Registry) {
        registry.register("node_health_monitor", |registry| {
            let delay = "From the end of a node's grace to its verdict";
            registry.register("detection_delay_seconds", delay, self.delay.clone());
            registry.register("nodes", "Nodes by published verdict", self.nodes.clone());
            registry.register("confirming_reads", "Nodes read again, by result", self.reads.clone());
            registry.register(
                "status_writes",
                "Writes of Unknown conditions, by result",
                self.writes.clone(),
            );
            let reprieved = "Nodes whose grace had ended and that the confirming read found alive";
            registry.register("reprieved_nodes", reprieved, self.reprieved.clone());
            registry.register("stalls", "Times the process stood still", self.stalls.clone());
            registry.register("waiting_nodes", "Nodes waiting to be read or written", self.waiting.clone());
            let down = "1 while no voting node is ready anywhere";
            registry.register("everything_down", down, self.everything_down.clone());
            let losses = "Zones, and the cluster, that are held because leases stopped together";
            registry.register("correlated_losses", losses, self.correlated_losses.clone());
        });
    }

    /// The core looked at all timers that were due.
    pub(crate) fn passed(&self, took: Duration) {
        self.pass.observe(took.as_secs_f64());
    }

    /// A node was judged.
    pub(crate) fn judged(&self, past_grace: Duration, turn: Duration) {
        self.delay.observe(past_grace.as_secs_f64());
        self.turn.observe(turn.as_secs_f64());
    }

    /// A node was found alive.
    pub(crate) fn reprieved(&self) {
        self.reprieved.inc();
    }

    /// The process stood still.
    pub(crate) fn stalled(&self) {
        self.stalls.inc();
    }

    /// Counts the answers to requests.
    pub(crate) fn answered(&self, input: &Input) {
        match input {
            Input::Confirmed { by, answers, .. } => {
                for (_, read) in answers {
                    let (by, result) = (by_label(*by), read_label(read));
                    self.reads.get_or_create(&ReadLabels { by, result }).inc();
                }
            }
            Input::Written { outcome, .. } => {
                let result = write_label(outcome);
                self.writes.get_or_create(&ResultLabels { result }).inc();
            }
            _ => {}
        }
    }

    /// Sets what is a level.
    pub(crate) fn levels(&self, summary: &Summary) {
        for (verdict, nodes) in summary.verdicts {
            let labels = VerdictLabels { verdict };
            self.nodes.get_or_create(&labels).set(signed(nodes));
        }
        self.waiting.set(signed(summary.waiting));
        self.everything_down.set(i64::from(summary.everything_down));
        self.correlated_losses.set(signed(summary.losses_held));
    }
}

fn signed(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

const fn by_label(by: ReadBy) -> &'static str {
    match by {
        ReadBy::Get => "get",
        ReadBy::List => "list",
    }
}

/// What [`read_label`] answers.
const READS: [&str; 3] = ["found", "gone", "failed"];

const fn read_label(read: &Read) -> &'static str {
    match read {
        Read::Found { .. } => "found",
        Read::Gone => "gone",
        Read::Failed { .. } => "failed",
    }
}

/// What [`write_label`] answers.
const WRITES: [&str; 5] = ["stored", "conflict", "gone", "called_off", "failed"];

const fn write_label(outcome: &WriteOutcome) -> &'static str {
    match outcome {
        WriteOutcome::Stored(_) => "stored",
        WriteOutcome::Conflict => "conflict",
        WriteOutcome::Gone => "gone",
        WriteOutcome::CalledOff => "called_off",
        WriteOutcome::Failed { .. } => "failed",
    }
}
