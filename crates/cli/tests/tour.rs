//! Runs the tour of `examples/tour`, separate processes all, and holds docs/tour.md to what it prints.
//!
//! The tour waits for what it shows, with deadlines of its own; nothing here waits. It shows states at rest, so that every run shows the
//! same but for times and ids, and but for what was passed through on the way: none of which is compared.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "nothing here runs outside of tests; what helpers fail at fails the test"
)]

#[path = "tour/document.rs"]
mod document;

use regex::Regex;

/// What differs from run to run, and what stands for it.
const MASKS: [(&str, &str); 7] = [
    (r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
    (r"\b[0-9a-f]{32}\b", "TRACE"),
    (r"\b[\w.-]+_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "PROCESS"),
    // A kubelet that is back posts its status and renews its Lease at once.
    (r"\bby its (Lease|status)\b", "by its SIGN"),
    (r"\b[\w.-]+@[\w.-]+\b", "USER@HOST"),
    // After the ids, parts of which may look like one.
    (r"\b(\d+(\.\d+)?(ms|s|m|h|d))+\b", "DURATION"),
    // How often it was tried is how long somebody looked on.
    (r"\b(one request|\d+ requests) failed", "REQUESTS failed"),
];

/// A line without what differs from run to run, and the column widths that follow from it. Commands are the same in every run.
fn masked(line: &str) -> String {
    if line.starts_with("$ ") {
        return line.to_owned();
    }
    let mut text = line.to_owned();
    for (pattern, name) in MASKS {
        text = Regex::new(pattern).unwrap().replace_all(&text, name).into_owned();
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What a key passes through on its way: how much of it is told depends on who was quicker, and where the bus has several records of a
/// key at once it tells the last one.
const PASSED_THROUGH: [&str; 5] = [
    " is healthy: ",
    " is late: ",
    " is held since ",
    " waits for the zone's rate, ",
    " is being evicted",
];

/// The parts of an explanation that are in the order of the bus, where two stages that say something at the same moment come in either
/// order.
const IN_THE_ORDER_OF_THE_BUS: [&str; 2] = ["What happened:", "Now:"];

/// A block without what differs from run to run.
fn block(lines: &[&str]) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    let (mut title, mut part): (&str, Vec<String>) = ("", Vec::new());
    for line in lines {
        if line.starts_with(' ') {
            part.push(masked(line));
        } else {
            // A title, or the next command.
            kept.extend(ordered(title, std::mem::take(&mut part)));
            title = line;
            kept.push(masked(line));
        }
    }
    kept.extend(ordered(title, part));
    kept
}

fn ordered(title: &str, mut part: Vec<String>) -> Vec<String> {
    if title == "What happened:" {
        part.retain(|line| !PASSED_THROUGH.iter().any(|one| line.contains(one)));
    }
    if IN_THE_ORDER_OF_THE_BUS.contains(&title) {
        part.sort();
    }
    part
}

#[test]
fn what_the_bus_says_has_no_order_and_its_past_lacks_what_was_passed_through() {
    let late = "  2026-01-01T00:00:00Z m: node n is late: …";
    let told = "TIME m: node n is late: …";
    for past in [[late, "  b", "  a"], ["  a", late, "  b"]] {
        let lines = [
            &["$ x", "node n", "What happened:"][..],
            &past,
            &["Now:"],
            &past,
            &["Next:", "  b", "  a"],
        ]
        .concat();
        let wanted = [
            "$ x",
            "node n",
            "What happened:",
            "a",
            "b",
            "Now:",
            told,
            "a",
            "b",
            "Next:",
            "b",
            "a",
        ];
        assert_eq!(block(&lines), wanted);
    }
}

#[test]
fn times_and_ids_are_masked_and_nothing_else() {
    let cases = [
        (
            "2026-11-21T23:44:10.506Z zone-evictor: pod default/db-0 may not go yet; one request failed; next try 2026-11-21T23:44:11Z",
            "TIME zone-evictor: pod default/db-0 may not go yet; REQUESTS failed; next try TIME",
        ),
        (
            "live, lag 200ms, zone-evictor/vm_a972e5b1-46ee-483d-bd7a-20a12d909caf",
            "live, lag DURATION, zone-evictor/PROCESS",
        ),
        ("in 4m54s  0.2s 12.3s", "in DURATION DURATION DURATION"),
        ("  0123456789abcdef0123456789abcdef", "TRACE"),
        (
            "node-b-002  4/8 2 waiting at 0.5 nodes/s",
            "node-b-002 4/8 2 waiting at 0.5 nodes/s",
        ),
        ("$ bailiff run --grace 6s", "$ bailiff run --grace 6s"),
    ];
    for (line, wanted) in cases {
        assert_eq!(masked(line), wanted);
    }
}

#[test]
fn the_tour_prints_what_its_document_shows() {
    document::check("examples/tour/tour.sh", "docs/tour.md", block);
}
