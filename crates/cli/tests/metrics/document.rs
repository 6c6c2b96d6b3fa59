//! docs/metrics.md, as it is made of what processes answered.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::catalogue::{BUCKET, Metric, OPEN};
use super::system::{BUS, BUS_OVER_ETCD, STAGES, Scrape};
use super::upstream;

/// Stands for the name of a stage in names that all of them have.
const STAGE: &str = "<stage>";

const HEAD: &str = "\
# Metrics

Every process answers `/metrics` on its admin port (`--admin-listen`) with OpenMetrics text; with TLS, to whoever shows a certificate of
a trusted CA. This document is made of such answers: a test starts all processes, lets them lose a zone, and compares what they say with
what stands here; `BAILIFF_UPDATE_DOCS=1 cargo test -p bailiff-cli --test metrics` writes it anew. The same test holds the alerts and the
dashboard of the chart to these names, labels and values.

**Upstream's.** Where a [rule](rules.md) is named, the metric is kube-controller-manager's, with its labels, buckets and meaning
(`client-go`: of every component that elects a leader); all others are Bailiff's own. Its metrics of work queues are not there
but for those two of the DaemonSets ([differences](differences.md), NL-141, TE-092); in the place of `rest_client_requests_total` there is
`<stage>_kube_client_requests_total`, and there are none of the Go runtime.

**Labels are bounded.** No label tells a node, a pod, a DaemonSet, a namespace or a uid: that is what `bailiff explain`, the bus and traces
are for. A label has one of a closed set of values, and all of them are there from the start, at 0, so that the first time that something
happens is an increase; but for these:
";

const SHARDS: &str = "
`series` is how many of them one process has at most. With `--shards` above 1 every series of a stage has a label `shard` more, and
there are as many for each shard that the process leads. `bailiff run` is one process with the metrics of the bus and of all stages, and one
Lease, `bailiff-0`. `bailiff_tls_…` is there with `--tls-cert-file`, `bailiff_trace_spans_…` with `--otlp-endpoint`.
";

/// The whole document.
pub fn render(scrapes: &[&Scrape]) -> String {
    let mut text = HEAD.to_owned();
    text += "\n| label | of | its values |\n|---|---|---|\n";
    for open in OPEN {
        let of: Vec<String> = open.of.iter().map(|part| pattern(part)).collect();
        writeln!(text, "| `{}` | {} | {} |", open.label, of.join(", "), open.values).unwrap();
    }
    text += SHARDS;
    for (title, metrics) in sections(scrapes) {
        write!(text, "\n## {title}\n\n").unwrap();
        text += "| metric | whose | type | unit | labels | series | meaning |\n|---|---|---|---|---|---|---|\n";
        for metric in metrics.values() {
            text += &row(metric);
        }
    }
    text
}

/// How names that begin, or end, so are written.
fn pattern(part: &str) -> String {
    match (part.ends_with('_'), part.starts_with('_')) {
        (true, _) => format!("`{part}…`"),
        (_, true) => format!("`{STAGE}{part}`"),
        _ => format!("`{part}`"),
    }
}

type Metrics = BTreeMap<String, Metric>;

/// What all have comes first, then what is each one's own.
fn sections(scrapes: &[&Scrape]) -> Vec<(String, Metrics)> {
    let of = |process: &str| metrics(scrapes, process);
    let stages = STAGES.map(of);
    let shared = joined(&stages);
    let everywhere = joined(&[shared.clone(), of(BUS)]);
    let without = |metrics: &Metrics, others: &Metrics| -> Metrics {
        let own = metrics.iter().filter(|(name, _)| !others.contains_key(*name));
        own.map(|(name, metric)| (name.clone(), metric.clone())).collect()
    };
    let mut sections = vec![
        ("Every process".to_owned(), everywhere.clone()),
        (
            format!("Every stage, `{STAGE}` being its name"),
            without(&shared, &everywhere),
        ),
    ];
    for (stage, metrics) in STAGES.iter().zip(&stages) {
        let own = without(metrics, &shared).into_values();
        let named = own.map(|metric| renamed(metric, STAGE, &snake(stage)));
        sections.push((
            format!("`{stage}`"),
            named.map(|metric| (metric.name.clone(), metric)).collect(),
        ));
    }
    let (bus, over_etcd) = (of(BUS), of(BUS_OVER_ETCD));
    let own = without(&without(&over_etcd, &bus), &everywhere);
    sections.push((format!("`{BUS}`"), without(&bus, &everywhere)));
    sections.push((format!("`{BUS_OVER_ETCD}`, besides"), own));
    sections
}

/// The metrics of a process; in a stage's names its own is [`STAGE`].
fn metrics(scrapes: &[&Scrape], process: &str) -> Metrics {
    let mut metrics = Metrics::new();
    for family in scrapes.iter().flat_map(|scrape| &scrape[process]) {
        let metric = renamed(Metric::of(family), &snake(process), STAGE);
        match metrics.get_mut(&metric.name) {
            Some(known) => known.absorb(&metric),
            None => drop(metrics.insert(metric.name.clone(), metric)),
        }
    }
    metrics
}

/// What all of these have.
fn joined(all: &[Metrics]) -> Metrics {
    let (first, others) = all.split_first().unwrap();
    let mut joined = first.clone();
    joined.retain(|name, metric| {
        let found: Option<Vec<&Metric>> = others.iter().map(|other| other.get(name)).collect();
        found.is_some_and(|found| {
            found.iter().for_each(|other| metric.absorb(other));
            true
        })
    });
    joined
}

fn snake(name: &str) -> String {
    name.replace('-', "_")
}

fn renamed(mut metric: Metric, from: &str, to: &str) -> Metric {
    if STAGES.iter().any(|stage| [from, to].contains(&snake(stage).as_str()))
        && let Some(rest) = metric.name.strip_prefix(from).filter(|rest| rest.starts_with('_'))
    {
        metric.name = format!("{to}{rest}");
    }
    metric
}

fn row(metric: &Metric) -> String {
    let Metric { name, kind, help, .. } = metric;
    let whose = upstream::of(name).map_or("", |upstream| upstream.rule);
    let (unit, labels) = (metric.unit(), labels(metric));
    let each: Vec<&str> = metric
        .open()
        .map(|open| open.each)
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    let each = if each.is_empty() {
        String::new()
    } else {
        format!(" for each {}", each.join(" and "))
    };
    let help = help.trim_end_matches('.');
    assert!(!help.contains('|'), "{help}");
    format!(
        "| `{name}` | {whose} | {kind} | {unit} | {labels} | {}{each} | {help} |\n",
        metric.series
    )
}

fn labels(metric: &Metric) -> String {
    let labels = metric.labels.iter().map(|(label, values)| {
        if label == BUCKET {
            return format!("`{label}`: {}", buckets(values).join(", "));
        }
        let values: Vec<String> = values
            .iter()
            .map(|value| {
                if value.is_empty() {
                    "empty".to_owned()
                } else {
                    format!("`{value}`")
                }
            })
            .collect();
        let colon = if values.is_empty() { "" } else { ": " };
        format!("`{label}`{colon}{}", values.join(", "))
    });
    labels.collect::<Vec<_>>().join("<br>")
}

/// Bounds in their order; that everything is below infinity need not be said.
fn buckets(values: &BTreeSet<String>) -> Vec<String> {
    let mut bounds: Vec<f64> = values
        .iter()
        .map(|value| value.parse().unwrap())
        .filter(|bound: &f64| bound.is_finite())
        .collect();
    bounds.sort_by(f64::total_cmp);
    bounds.iter().map(f64::to_string).collect()
}
