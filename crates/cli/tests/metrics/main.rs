//! What all processes say of themselves on `/metrics`: that docs/metrics.md tells it, that it is bounded and named as it should be, and
//! that it answers what alerts and dashboard ask.
//!
//! The processes run once for all of these, through the loss of a zone.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "nothing here runs outside of tests; what helpers fail at fails the test"
)]

mod catalogue;
mod document;
mod openmetrics;
mod queries;
#[path = "../process/support.rs"]
#[allow(dead_code, reason = "the other tests of processes need the rest")]
mod support;
mod system;
mod telling;
mod upstream;

use std::collections::BTreeMap;
use std::path::Path;

use catalogue::{BUCKET, Metric};
use openmetrics::Family;
use queries::Series;
use system::{BUS, BUS_OVER_ETCD, PLAYED, RUN, STAGES, Scrape};

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
/// Set it to have the document written instead of compared.
const UPDATE: &str = "BAILIFF_UPDATE_DOCS";

/// Series of a metric in one process, for each zone or whatever else there may be more of: as many as the requests by method and result
/// have, and room for some results more. Histograms of a second label would be beyond it.
const MOST_SERIES: usize = 128;

/// All families of all processes.
fn families(scrape: &Scrape) -> impl Iterator<Item = (&'static str, &Family)> {
    scrape
        .iter()
        .flat_map(|(process, families)| families.iter().map(|family| (*process, family)))
}

/// What a process has, by name.
fn of(scrape: &Scrape, process: &str) -> BTreeMap<String, Metric> {
    let metrics = scrape[process].iter().map(Metric::of);
    metrics.map(|metric| (metric.name.clone(), metric)).collect()
}

#[test]
fn the_document_tells_what_is_scraped() {
    let text = document::render(&[&PLAYED.before, &PLAYED.after]);
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(DOCUMENT, &text).unwrap();
    }
    let kept = std::fs::read_to_string(Path::new(DOCUMENT)).unwrap_or_default();
    let differs = kept.lines().zip(text.lines()).find(|(kept, made)| kept != made);
    assert!(
        kept == text,
        "docs/metrics.md is stale ({differs:#?}): {UPDATE}=1 cargo test -p bailiff-cli --test metrics"
    );
}

/// What happens for the first time is an increase only of what was there before.
#[test]
fn closed_sets_of_labels_are_there_from_the_start() {
    for process in PLAYED.before.keys() {
        assert_eq!(of(&PLAYED.before, process), of(&PLAYED.after, process), "{process}");
    }
}

#[test]
fn labels_are_bounded() {
    let objects = &PLAYED.objects;
    assert!(objects.len() > 100, "{objects:?}");
    for (process, family) in families(&PLAYED.before).chain(families(&PLAYED.after)) {
        let metric = Metric::of(family);
        assert!(metric.series <= MOST_SERIES, "{process}: {metric:#?}");
        let (series, limit) = (family.samples.len(), metric.limit());
        assert!(series <= limit, "{process}: {series} series of at most {limit}: {metric:#?}");
        for (label, value) in family.samples.iter().flat_map(|sample| &sample.labels) {
            let object = objects.iter().find(|object| value.contains(*object));
            assert_eq!(object, None, "{process}: {} has {label}={value:?}", family.name);
        }
    }
}

#[test]
fn names_help_and_units_are_as_they_should_be() {
    const ODD: [&str; 8] = [
        "_milliseconds",
        "_ms",
        "_minutes",
        "_hours",
        "_percent",
        "_kilobytes",
        "_megabytes",
        "_total",
    ];
    for (process, family) in families(&PLAYED.after) {
        let (name, queried) = (&family.name, family.queried());
        let is_snake = name
            .chars()
            .all(|char| char.is_ascii_lowercase() || char.is_ascii_digit() || char == '_');
        assert!(is_snake && !ODD.iter().any(|odd| name.ends_with(odd)), "{process}: {name}");
        let is_own = upstream::OWN.iter().any(|prefix| name.starts_with(prefix));
        assert!(is_own || upstream::of(&queried).is_some(), "{process}: whose is {name}?");
        assert!(family.help.len() > 5, "{process}: {name}: {:?}", family.help);
        let is_timed = name.ends_with("_seconds") || name.ends_with("_per_second");
        assert!(family.kind != "histogram" || is_timed, "{process}: {name} has no unit");
        if let Some(unit) = &family.unit {
            assert!(name.ends_with(&format!("_{unit}")), "{process}: {name} is in {unit}");
        }
        assert!(!family.samples.is_empty(), "{process}: {name} has no series");
    }
}

/// NL-140, TE-090, DS-188: what asks kube-controller-manager for them is answered by us.
#[test]
fn upstreams_metrics_have_its_labels_and_buckets() {
    for upstream in &upstream::ALL {
        let found: Vec<&Family> = families(&PLAYED.after)
            .map(|(_, family)| family)
            .filter(|family| family.queried() == upstream.name)
            .collect();
        assert!(found.len() > 1, "{} is in a stage and in all in one", upstream.name);
        for family in found {
            assert_eq!(family.kind, upstream.kind, "{}", upstream.name);
            for sample in &family.samples {
                let labels: Vec<&str> = sample
                    .labels
                    .keys()
                    .map(String::as_str)
                    .filter(|label| *label != BUCKET)
                    .collect();
                assert_eq!(labels, upstream.labels, "{}", upstream.name);
            }
            let bounds = family.samples.iter().filter_map(|sample| sample.labels.get(BUCKET));
            let bounds = bounds
                .map(|bound| bound.parse().unwrap())
                .filter(|bound: &f64| bound.is_finite());
            assert_eq!(bounds.collect::<Vec<_>>(), upstream.buckets, "{}", upstream.name);
        }
    }
}

#[test]
fn one_process_has_what_all_have() {
    let mut all = of(&PLAYED.after, BUS);
    for (name, metric) in STAGES.iter().flat_map(|stage| of(&PLAYED.after, stage)) {
        match all.get_mut(&name) {
            Some(known) => known.absorb(&metric),
            None => drop(all.insert(name, metric)),
        }
    }
    let one = of(&PLAYED.after, RUN);
    assert!(one.keys().eq(all.keys()), "{one:#?}");
    for (name, metric) in one {
        let known = all.get_mut(&name).unwrap();
        let values = known.labels.clone();
        known.absorb(&metric);
        assert_eq!(known.labels, values, "{name}");
    }
}

#[test]
fn alerts_and_dashboard_ask_for_what_there_is() {
    let served = [&STAGES[..], &[BUS, BUS_OVER_ETCD]].concat();
    let families = families(&PLAYED.after).filter(|(process, _)| served.contains(process));
    let series = Series::of(families.map(|(_, family)| family));
    let queries = queries::all();
    assert!(queries.len() > 35, "{queries:#?}");
    let refused: Vec<String> = queries.iter().filter_map(|query| series.check(query).err()).collect();
    assert!(refused.is_empty(), "{refused:#?}");
}
