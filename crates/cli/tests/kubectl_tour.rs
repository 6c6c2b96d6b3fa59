//! Runs the tour of `examples/kubectl` with the kubectl that is installed, and holds docs/kubectl-tour.md to what it prints.
//!
//! The tour waits for what it shows, with deadlines of its own; nothing here waits. Where kubectl is missing or too old nothing can
//! be said, which is printed.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "nothing here runs outside of tests; what helpers fail at fails the test"
)]

#[path = "tour/document.rs"]
mod document;

use std::process::Command;

/// The first kubectl that waits for fields, `kubectl wait --for=jsonpath`.
const KUBECTL_MINOR: u32 = 23;

/// The minor version of kubectl, if there is one.
fn kubectl_minor() -> Option<u32> {
    let output = Command::new("kubectl")
        .args(["version", "--client", "-o", "json"])
        .output()
        .ok()?;
    let version: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
    let minor = version["clientVersion"]["minor"].as_str()?;
    minor.trim_end_matches('+').parse().ok()
}

/// A line without what differs from run to run: ages, the random ends of pod names, and the column widths that follow from them.
fn masked(line: &str) -> String {
    let words: Vec<String> = line.split_whitespace().map(masked_word).collect();
    words.join(" ")
}

fn masked_word(word: &str) -> String {
    let is_age = word.starts_with(|first: char| first.is_ascii_digit())
        && word.ends_with(['s', 'm', 'h'])
        && word.chars().all(|one| one.is_ascii_digit() || "smh".contains(one));
    if is_age {
        return "AGE".to_owned();
    }
    let mut text = word.to_owned();
    for prefix in ["agent-", "web-"] {
        if let Some(at) = text.find(prefix) {
            let (start, end) = (at + prefix.len(), at + prefix.len() + 5);
            if text
                .get(start..end)
                .is_some_and(|end| end.bytes().all(|byte| byte.is_ascii_alphanumeric()))
            {
                text.replace_range(start..end, "xxxxx");
            }
        }
    }
    text
}

#[test]
fn names_and_ages_are_masked_and_nothing_else() {
    let cases = [
        ("agent-8f4bk   1/1     Running   0   12s", "agent-xxxxx 1/1 Running 0 AGE"),
        ("pod/web-wfmvc evicted", "pod/web-xxxxx evicted"),
        (
            "node-a-000   Ready    <none>   2m3s   v1.36.2",
            "node-a-000 Ready <none> AGE v1.36.2",
        ),
        (
            "$ kubectl wait --timeout=60s # agent-8f",
            "$ kubectl wait --timeout=60s # agent-8f",
        ),
    ];
    for (line, wanted) in cases {
        assert_eq!(masked(line), wanted);
    }
}

#[test]
fn the_tour_prints_what_its_document_shows() {
    match kubectl_minor() {
        Some(minor) if minor >= KUBECTL_MINOR => {}
        found => {
            eprintln!("skipped: the tour needs kubectl 1.{KUBECTL_MINOR} or newer, found minor version {found:?}");
            return;
        }
    }
    document::check("examples/kubectl/tour.sh", "docs/kubectl-tour.md", |lines| {
        lines.iter().map(|line| masked(line)).collect()
    });
}
