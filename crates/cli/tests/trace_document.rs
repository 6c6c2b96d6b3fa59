//! Holds docs/traces.md to the sources: every span, attribute and variable that they name is in it, and no other.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "nothing here runs outside of tests; what helpers fail at fails the test"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Each stage, its core and its shell: both may name spans.
const STAGES: [(&str, [&str; 2]); 4] = [
    ("node-health-monitor", ["node-health-core", "node-health-monitor"]),
    ("taint-manager", ["taint-core", "taint-manager"]),
    ("zone-evictor", ["zone-core", "zone-evictor"]),
    ("daemonset-syncer", ["daemonset-core", "daemonset-syncer"]),
];

/// Calls in which a literal is a span's name.
const CALLS: [&str; 3] = ["Span::root(", "Span::child_of(", "child("];
/// Types whose words (`fn as_str`) are spans' names.
const KINDS: [&str; 1] = ["impl SpanKind {"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The sources of a crate, without their tests.
fn sources(of: &str) -> Vec<String> {
    let (mut sources, mut open) = (Vec::new(), vec![root().join("crates").join(of).join("src")]);
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if !path.ends_with("tests.rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            sources.push(code.to_owned());
        }
    }
    assert!(!sources.is_empty(), "{of} has no sources");
    sources
}

/// What stands between an opening bracket, which comes right before `text`, and the one that closes it.
fn bracketed(text: &str, (open, close): (char, char)) -> &str {
    let mut depth = 1;
    for (at, sign) in text.char_indices() {
        depth += i32::from(sign == open) - i32::from(sign == close);
        if depth == 0 {
            return &text[..at];
        }
    }
    panic!("no end: {text}");
}

/// The literals of a piece of code.
fn literals(code: &str) -> impl Iterator<Item = &str> {
    code.split('"').skip(1).step_by(2)
}

/// The spans that a piece of code names.
fn spans_of(code: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for call in CALLS {
        // Whatever ends with it is another function.
        let calls = code.match_indices(call).filter(|(at, _)| {
            let before = code[..*at].chars().next_back();
            before.is_none_or(|sign| !sign.is_alphanumeric() && sign != '_')
        });
        let first = |(at, _): (usize, &str)| literals(bracketed(&code[at + call.len()..], ('(', ')'))).next();
        // A literal with a dot is the key of an attribute.
        names.extend(calls.filter_map(first).filter(|name| !name.contains('.')).map(str::to_owned));
    }
    for kind in KINDS {
        let Some((_, after)) = code.split_once(kind) else {
            continue;
        };
        let words = bracketed(after, ('{', '}')).split("fn as_str(").nth(1).expect("words");
        let words = bracketed(words.split_once('{').unwrap().1, ('{', '}'));
        names.extend(literals(words).map(str::to_owned));
    }
    names
}

/// Literals that look like the key of an attribute.
fn attributes_of(code: &str) -> impl Iterator<Item = String> {
    let is_key = |text: &&str| {
        let is_ours = (text.starts_with("k8s.") || text.starts_with("bailiff.")) && *text != "bailiff.dev";
        is_ours
            && text
                .chars()
                .all(|sign| sign.is_ascii_lowercase() || "._0123456789".contains(sign))
    };
    code.split('"').filter(is_key).map(str::to_owned)
}

/// A table of the document: its rows after the head, as cells.
fn table(document: &str, head: &str) -> Vec<Vec<String>> {
    let lines = document.lines().skip_while(|line| !line.starts_with(head));
    let rows: Vec<Vec<String>> = lines
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect())
        .collect();
    assert!(!rows.is_empty(), "no table '{head}'");
    rows
}

/// What stands in backquotes.
fn quoted(text: &str) -> impl Iterator<Item = String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned)
}

fn document() -> String {
    std::fs::read_to_string(root().join("docs/traces.md")).unwrap()
}

#[test]
fn every_span_is_in_the_document_and_nothing_else() {
    let mut written: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for row in table(&document(), "| span |") {
        assert!(["internal", "client"].contains(&&*row[2]), "{row:?}");
        written.entry(row[1].clone()).or_default().extend(quoted(&row[0]));
    }
    for (stage, crates) in STAGES {
        let sources = crates.iter().flat_map(|name| sources(name));
        let named: BTreeSet<String> = sources.flat_map(|code| spans_of(&code)).collect();
        let written = written.remove(stage).unwrap_or_default();
        assert_eq!(named, written, "what {stage} names, and what docs/traces.md says");
    }
}

#[test]
fn every_attribute_is_in_the_document_and_nothing_else() {
    let rows = table(&document(), "| attribute |");
    let written: BTreeSet<String> = rows.iter().flat_map(|row| quoted(&row[0])).collect();
    let crates = STAGES.iter().flat_map(|(_, crates)| crates);
    let named: BTreeSet<String> = crates
        .flat_map(|name| sources(name))
        .flat_map(|code| attributes_of(&code).collect::<Vec<_>>())
        .collect();
    assert_eq!(named, written, "what the sources name, and what docs/traces.md says");
}

#[test]
fn every_variable_that_is_read_is_in_the_document() {
    let document = document();
    let mut seen = 0;
    for code in sources("runtime") {
        for name in code.split(|sign: char| !sign.is_ascii_uppercase() && sign != '_') {
            // The rest of a name that is put together is in braces.
            if name.starts_with("OTEL_") && !name.ends_with('_') {
                assert!(document.contains(&format!("`{name}")), "{name} is not in docs/traces.md");
                seen += 1;
            }
        }
    }
    assert!(seen > 10, "only {seen} were seen");
}

/// As the document says of all of them.
#[test]
fn a_variable_that_means_nothing_ends_the_process_with_64() {
    let ended = Command::new(env!("CARGO_BIN_EXE_bailiff"))
        .env_clear()
        .env("OTEL_BSP_SCHEDULE_DELAY", "5s")
        .args(["run", "--kubeconfig=/nonexistent"])
        .output()
        .unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    let expected = "invalid value '5s' for environment variable OTEL_BSP_SCHEDULE_DELAY: allowed is a whole number of milliseconds";
    assert!(said.contains(expected), "{said}");
    assert_eq!(ended.status.code(), Some(64), "{said}");
}
