//! Every metric that alerts and dashboard ask for is one that a component registers.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use super::{path, read};

/// What names begin with, and the crates whose sources have the rest of them.
const PREFIXES: [(&str, &[&str]); 14] = [
    ("node_health_monitor_kube_client", &["cluster"]),
    ("taint_manager_kube_client", &["cluster"]),
    ("zone_evictor_kube_client", &["cluster"]),
    ("daemonset_syncer_kube_client", &["cluster"]),
    ("node_health_monitor", &["node-health-monitor", "stage"]),
    ("taint_manager", &["taint-manager", "stage"]),
    ("zone_evictor", &["zone-evictor", "stage"]),
    ("daemonset_syncer", &["daemonset-syncer", "stage"]),
    ("event_bus_etcd", &["event-bus"]),
    ("event_bus", &["event-bus"]),
    ("bailiff_tls", &["runtime"]),
    ("node_collector", &["zone-evictor", "node-health-monitor"]),
    ("taint_eviction_controller", &["zone-evictor"]),
    ("", &["runtime"]),
];

/// The sources of a crate, without its tests.
fn sources(directory: &Path, text: &mut String) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap().path();
        if entry.is_dir() {
            sources(&entry, text);
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            let source = std::fs::read_to_string(&entry).unwrap();
            text.push_str(source.split("#[cfg(test)]").next().unwrap_or_default());
        }
    }
}

/// The names of metrics in an expression.
fn names(expression: &str) -> BTreeSet<String> {
    let mut depth = 0;
    // Selectors and ranges are no names; nor is what results are grouped by.
    let bare: String = expression
        .chars()
        .map(|char| {
            depth += i32::from("{[".contains(char)) - i32::from("}]".contains(char));
            if depth > 0 || "}]".contains(char) { ' ' } else { char }
        })
        .collect();
    let mut rest = bare.as_str();
    let mut found = BTreeSet::new();
    while let Some(start) = rest.find(|char: char| char.is_ascii_alphabetic()) {
        rest = &rest[start..];
        let end = rest
            .find(|char: char| !(char.is_ascii_alphanumeric() || char == '_'))
            .unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        rest = after;
        match word {
            "by" => rest = after.split_once(')').map_or("", |(_, rest)| rest),
            _ if after.starts_with('(') || after.starts_with(" by ") || ["or", "and", "unless"].contains(&word) => {}
            word => drop(found.insert(word.to_owned())),
        }
    }
    found
}

fn is_registered(metric: &str) -> bool {
    let suffixes = ["_total", "_bucket", "_count", "_sum"];
    let bare = suffixes
        .iter()
        .find_map(|suffix| metric.strip_suffix(suffix))
        .unwrap_or(metric);
    PREFIXES.iter().any(|(prefix, crates)| {
        let Some(name) = bare.strip_prefix(prefix).map(|name| name.trim_start_matches('_')) else {
            return false;
        };
        let mut text = String::new();
        for own in *crates {
            sources(&path(&format!("crates/{own}/src")), &mut text);
        }
        text.contains(&format!("\"{name}\""))
    })
}

#[test]
fn alerts_and_dashboard_ask_for_metrics_that_there_are() {
    let alerts: Value = serde_saphyr::from_str(&read("deploy/chart/bailiff/files/alerts.yaml")).unwrap();
    let dashboard: Value = serde_json::from_str(&read("deploy/chart/bailiff/files/dashboard.json")).unwrap();
    let rules = alerts.pointer("/groups/0/rules").and_then(Value::as_array).unwrap().iter();
    let targets = dashboard["panels"].as_array().unwrap().iter();
    let targets = targets.flat_map(|panel| panel["targets"].as_array().unwrap());
    let expressions: Vec<&str> = rules.chain(targets).map(|rule| rule["expr"].as_str().unwrap()).collect();
    assert!(expressions.len() > 30);
    let metrics: BTreeSet<String> = expressions.iter().flat_map(|expression| names(expression)).collect();
    assert!(metrics.len() > 30, "{metrics:?}");
    let unknown: Vec<&String> = metrics.iter().filter(|metric| !is_registered(metric)).collect();
    assert_eq!(unknown, Vec::<&String>::new());
}

#[test]
fn names_are_told_from_functions_and_labels() {
    let expression = "histogram_quantile(0.99, sum by (le) (rate(a_bucket{x=\"y\"}[5m]))) > 5 or max by (zone, reason) (b) < 1";
    assert_eq!(names(expression), ["a_bucket", "b"].map(str::to_owned).into());
    assert!(is_registered("zone_evictor_held") && !is_registered("zone_evictor_holding"));
}
