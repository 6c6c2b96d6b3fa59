//! A document whose console blocks are what a script prints, chapter by chapter.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Set to have the document written instead of compared.
const UPDATE: &str = "BAILIFF_UPDATE_DOCS";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Plays the script, and compares what it prints with the document, block by block, without what `masked` leaves out of each.
pub fn check(script: &str, document: &str, masked: impl Fn(&[&str]) -> Vec<String>) {
    // Every flag of the program is an environment variable too: those of whoever runs the tests mean nothing here.
    let own = std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("BAILIFF_"));
    let mut tour = Command::new(root().join(script));
    for (name, _) in own {
        tour.env_remove(name);
    }
    let tour = tour.env("BAILIFF", env!("CARGO_BIN_EXE_bailiff")).output().unwrap();
    let output = String::from_utf8_lossy(&tour.stdout);
    let errors = String::from_utf8_lossy(&tour.stderr);
    assert!(tour.status.success(), "the tour failed\n{output}\n{errors}");
    let file = root().join(document);
    let document = std::fs::read_to_string(&file).unwrap();
    let (printed, shown) = (chapters(&output), blocks(&document));
    assert_eq!(
        printed.len(),
        shown.len(),
        "chapters of the tour, and console blocks of the document"
    );
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&file, rewritten(&document, &printed)).unwrap();
        return;
    }
    for (printed, shown) in printed.iter().zip(&shown) {
        let (printed, shown) = (masked(printed), masked(shown));
        assert_eq!(
            printed.join("\n"),
            shown.join("\n"),
            "the document is out of date: run this test with {UPDATE}=1 and review what it wrote"
        );
    }
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

#[test]
fn blocks_are_replaced_one_by_one() {
    let document = "a\n```console\n$ old\n```\nb\n```console\n```\n";
    let output = "\n# One\n$ new\nx\n\n# Two\n$ more\n";
    let document = rewritten(document, &chapters(output));
    assert_eq!(document, "a\n```console\n$ new\nx\n```\nb\n```console\n$ more\n```\n");
    assert_eq!(blocks(&document), chapters(output));
}
