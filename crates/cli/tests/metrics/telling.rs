//! What people are told: each alert with what it is about and what to do, each panel with what it shows.

use std::collections::BTreeSet;

use serde_json::Value;

use super::queries::{alerts, panels};

const OPERATIONS: &str = include_str!("../../../../docs/operations.md");
/// What someone on call is told apart by.
const SEVERITIES: [&str; 3] = ["critical", "warning", "info"];

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object[field]
        .as_str()
        .filter(|text| !text.trim().is_empty())
        .unwrap_or_else(|| panic!("no {field}: {object}"))
}

#[test]
fn alerts_say_what_they_are_about_and_what_to_do() {
    let mut names = BTreeSet::new();
    for alert in alerts() {
        let (name, annotations) = (text(&alert, "alert"), &alert["annotations"]);
        assert!(names.insert(name.to_owned()), "{name} twice");
        assert!(SEVERITIES.contains(&text(&alert["labels"], "severity")), "{name}");
        let holds = text(&alert, "for");
        assert!(holds.ends_with(['s', 'm', 'h']), "{name}: {holds}");
        let told = ["summary", "description"].map(|field| text(annotations, field));
        assert!(
            told.iter().all(|told| told.ends_with('.')) && told[0] != told[1],
            "{name}: {told:?}"
        );
    }
    // Its table has a line for each of them, and for no other.
    let section = OPERATIONS
        .split("\n## ")
        .find(|section| section.starts_with("Alerts\n"))
        .unwrap();
    let lines = section
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    let documented: BTreeSet<String> = lines
        .filter(|(_, what)| what.len() > 20)
        .map(|(name, _)| name.to_owned())
        .collect();
    assert_eq!(documented, names);
}

#[test]
fn panels_say_what_they_show() {
    let panels = panels();
    let unique = |field: &str| {
        panels
            .iter()
            .map(|panel| panel[field].to_string())
            .collect::<BTreeSet<_>>()
            .len()
    };
    assert_eq!(
        ["id", "title", "gridPos"].map(unique),
        [panels.len(); 3],
        "each has its own number, title and place"
    );
    for panel in &panels {
        assert!(text(panel, "description").ends_with('.'), "{panel}");
        for target in panel["targets"].as_array().unwrap() {
            text(target, "legendFormat");
        }
    }
}
