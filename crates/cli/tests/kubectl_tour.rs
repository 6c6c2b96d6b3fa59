//! Runs the tour of `examples/kubectl` with the kubectl that is installed, and holds docs/kubectl-tour.md to what it prints.
//!
//! The tour waits for what it shows, with deadlines of its own; nothing here waits. Where kubectl is missing or too old nothing can
//! be said, which is printed.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "nothing here runs outside of tests; what helpers fail at fails the test"
)]

use std::path::{Path, PathBuf};
use std::process::Command;

/// The first kubectl that waits for fields, `kubectl wait --for=jsonpath`.
const KUBECTL_MINOR: u32 = 23;
/// Set to have the document written instead of compared.
const UPDATE: &str = "BAILIFF_UPDATE_DOCS";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

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

/// The lines of each chapter.
fn chapters(output: &str) -> Vec<Vec<&str>> {
    let mut chapters: Vec<Vec<&str>> = Vec::new();
    for line in output.lines() {
        if line.starts_with("# ") {
            chapters.push(Vec::new());
        } else if let Some(chapter) = chapters.last_mut() {
            chapter.push(line);
        }
    }
    for chapter in &mut chapters {
        while chapter.last().is_some_and(|line| line.trim().is_empty()) {
            chapter.pop();
        }
    }
    chapters
}

/// The lines of each console block.
fn blocks(document: &str) -> Vec<Vec<&str>> {
    let mut blocks: Vec<Vec<&str>> = Vec::new();
    let mut is_open = false;
    for line in document.lines() {
        match line {
            "```console" => {
                blocks.push(Vec::new());
                is_open = true;
            }
            "```" => is_open = false,
            _ if is_open => blocks.last_mut().unwrap().push(line),
            _ => {}
        }
    }
    blocks
}

/// The document with its console blocks replaced.
fn rewritten(document: &str, chapters: &[Vec<&str>]) -> String {
    let (mut lines, mut next, mut is_open): (Vec<&str>, _, _) = (Vec::new(), chapters.iter(), false);
    for line in document.lines() {
        match line {
            "```console" => {
                is_open = true;
                lines.push(line);
                lines.extend(next.next().into_iter().flatten());
                continue;
            }
            "```" => is_open = false,
            _ => {}
        }
        if !is_open {
            lines.push(line);
        }
    }
    lines.iter().flat_map(|line| [line, "\n"]).collect()
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
fn blocks_are_replaced_one_by_one() {
    let document = "a\n```console\n$ old\n```\nb\n```console\n```\n";
    let output = "\n# One\n$ new\nx\n\n# Two\n$ more\n";
    let document = rewritten(document, &chapters(output));
    assert_eq!(document, "a\n```console\n$ new\nx\n```\nb\n```console\n$ more\n```\n");
    assert_eq!(blocks(&document), chapters(output));
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
    let tour = Command::new(root().join("examples/kubectl/tour.sh"))
        .env("BAILIFF", env!("CARGO_BIN_EXE_bailiff"))
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&tour.stdout);
    let errors = String::from_utf8_lossy(&tour.stderr);
    assert!(tour.status.success(), "the tour failed\n{output}\n{errors}");
    let file = root().join("docs/kubectl-tour.md");
    let document = std::fs::read_to_string(&file).unwrap();
    let (printed, shown) = (chapters(&output), blocks(&document));
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&file, rewritten(&document, &printed)).unwrap();
        return;
    }
    assert_eq!(
        printed.len(),
        shown.len(),
        "chapters of the tour, and console blocks of the document"
    );
    for (printed, shown) in printed.iter().zip(&shown) {
        let mask = |lines: &[&str]| lines.iter().map(|line| masked(line)).collect::<Vec<_>>().join("\n");
        let (printed, shown) = (mask(printed), mask(shown));
        assert_eq!(
            printed, shown,
            "the document is out of date: run this test with {UPDATE}=1 and review what it wrote"
        );
    }
}
