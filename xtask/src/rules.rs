//! `cargo xtask rules`: which test proves which rule of the behaviour specification.
//!
//! Reads `docs/rules.toml` (ids and titles), the doc comments of all tests, and `docs/differences.md`; writes `docs/rules.md`. With
//! `--check` nothing is written: it fails if a rule is named by no test and no difference, if a test names a rule that does not
//! exist, or if the file is stale. Rules listed as open are allowed to be neither, and are printed as a warning every time.

mod scan;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::ExitCode;

use scan::Test;

const LIST: &str = "docs/rules.toml";
const DIFFERENCES: &str = "docs/differences.md";
const REPORT: &str = "docs/rules.md";

/// The parts of the specification, by the prefix of their rules.
const PARTS: [(&str, &str); 3] = [("NL", "Node lifecycle"), ("TE", "Taint eviction"), ("DS", "DaemonSets")];

/// What is known of the rules.
#[derive(Debug, Default, PartialEq, Eq)]
struct Rules {
    /// Id and title, in the list's order.
    titles: Vec<(String, String)>,
    /// What is missing, of rules that are still open.
    open: BTreeMap<String, String>,
}

/// Where rules are dealt with.
#[derive(Debug, Default)]
struct Coverage {
    tests: BTreeMap<String, Vec<Test>>,
    differences: BTreeSet<String>,
}

/// Runs the chore in the repository's root.
pub(crate) fn run(check: bool) -> ExitCode {
    match try_run(Path::new("."), check) {
        Ok(summary) => {
            println!("{summary}");
            ExitCode::SUCCESS
        }
        Err(complaints) => {
            for complaint in complaints {
                eprintln!("rules: {complaint}");
            }
            ExitCode::FAILURE
        }
    }
}

fn try_run(root: &Path, check: bool) -> Result<String, Vec<String>> {
    let read = |path: &str| std::fs::read_to_string(root.join(path)).map_err(|error| vec![format!("cannot read {path}: {error}")]);
    let rules = Rules::parse(&read(LIST)?)?;
    let coverage = Coverage {
        tests: by_rule(scan::tests(root).map_err(|error| vec![format!("cannot read the sources: {error}")])?),
        differences: scan::differences(&read(DIFFERENCES)?),
    };
    let mut complaints = complaints(&rules, &coverage);
    let report = render(&rules, &coverage);
    if check && read(REPORT).unwrap_or_default() != report {
        complaints.push(format!("{REPORT} is stale: run cargo xtask rules"));
    }
    if !check && let Err(error) = std::fs::write(root.join(REPORT), &report) {
        complaints.push(format!("cannot write {REPORT}: {error}"));
    }
    for (rule, why) in &rules.open {
        println!("warning: {rule} is open: {why}");
    }
    if complaints.is_empty() {
        Ok(summary(&rules, &coverage))
    } else {
        Err(complaints)
    }
}

// === impl Rules ===

impl Rules {
    /// Reads the list: the part of TOML that it uses, which is tables of `id = "text"`.
    fn parse(text: &str) -> Result<Self, Vec<String>> {
        let (mut rules, mut complaints, mut table) = (Self::default(), Vec::new(), String::new());
        for (number, line) in (1..).zip(text.lines().map(str::trim)) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                table = name.to_owned();
                continue;
            }
            let entry = line.split_once(" = ").and_then(|(id, value)| {
                let text = value.strip_prefix('"')?.strip_suffix('"')?;
                (scan::rules_in(id) == [id]).then(|| (id.to_owned(), text.to_owned()))
            });
            match (entry, table.as_str()) {
                (Some(entry), "rules") => rules.titles.push(entry),
                (Some((id, why)), "open") => drop(rules.open.insert(id, why)),
                _ => complaints.push(format!(r#"{LIST}:{number}: wanted an id = "text" in [rules] or [open]"#)),
            }
        }
        if complaints.is_empty() { Ok(rules) } else { Err(complaints) }
    }
}

fn by_rule(tests: Vec<Test>) -> BTreeMap<String, Vec<Test>> {
    let mut by_rule: BTreeMap<String, Vec<Test>> = BTreeMap::new();
    for test in tests {
        for rule in test.rules.clone() {
            by_rule.entry(rule).or_default().push(test.clone());
        }
    }
    by_rule
}

fn complaints(rules: &Rules, coverage: &Coverage) -> Vec<String> {
    let known: BTreeSet<&String> = rules.titles.iter().map(|(id, _)| id).collect();
    let mut complaints = Vec::new();
    for (id, _) in &rules.titles {
        let is_covered = coverage.is_covered(id);
        match rules.open.contains_key(id) {
            false if !is_covered => complaints.push(format!("{id} is named by no test and not in {DIFFERENCES}")),
            true if is_covered => complaints.push(format!("{id} is covered: take it off the list of open rules")),
            _ => {}
        }
    }
    if known.len() < rules.titles.len() {
        complaints.push(format!("{LIST} names a rule twice"));
    }
    let named = coverage.tests.keys().chain(&coverage.differences).chain(rules.open.keys());
    for id in named.filter(|id| !known.contains(id)).collect::<BTreeSet<_>>() {
        let place = coverage.tests.get(id).and_then(|tests| tests.first());
        let place = place.map_or_else(|| DIFFERENCES.to_owned(), |test| format!("{} ({})", test.name, test.file));
        complaints.push(format!("{id}, named by {place}, is not in {LIST}"));
    }
    complaints
}

// === impl Coverage ===

impl Coverage {
    fn is_covered(&self, id: &str) -> bool {
        self.tests.contains_key(id) || self.differences.contains(id)
    }
}

fn of_part<'a>(rules: &'a Rules, prefix: &'a str) -> impl Iterator<Item = &'a (String, String)> {
    rules.titles.iter().filter(move |(id, _)| id.starts_with(prefix))
}

fn summary(rules: &Rules, coverage: &Coverage) -> String {
    let parts = PARTS.map(|(prefix, _)| {
        let count = |is_counted: &dyn Fn(&String) -> bool| of_part(rules, prefix).filter(|(id, _)| is_counted(id)).count();
        let tested = count(&|id| coverage.tests.contains_key(id));
        let different = count(&|id| coverage.differences.contains(id));
        let open = count(&|id| rules.open.contains_key(id));
        let all = count(&|_| true);
        format!("{prefix}: {all} rules, {tested} named by tests, {different} in {DIFFERENCES}, {open} open")
    });
    parts.join("\n")
}

fn render(rules: &Rules, coverage: &Coverage) -> String {
    let mut text = String::from(
        "# Rules\n\nGenerated by `cargo xtask rules`; not to be edited. Which tests name a rule of the behaviour specification, and \
         which rules stand\nin [differences.md](differences.md). A rule may be in both: then the tests prove what is done instead, or \
         what is left of it.\n",
    );
    for (prefix, title) in PARTS {
        text.push_str(&format!("\n## {title}\n\n| rule | about | proven by |\n|---|---|---|\n"));
        for (id, about) in of_part(rules, prefix) {
            let mut places = Vec::new();
            if coverage.differences.contains(id) {
                places.push("[differs](differences.md)".to_owned());
            }
            places.extend(rules.open.get(id).map(|why| format!("**open**: {why}")));
            let tests = coverage.tests.get(id).map_or(&[][..], Vec::as_slice);
            for file in tests.iter().map(|test| &test.file).collect::<BTreeSet<_>>() {
                let names = tests
                    .iter()
                    .filter(|test| test.file == *file)
                    .map(|test| format!("`{}`", test.name));
                places.push(format!(
                    "{}: {}",
                    file.trim_start_matches("crates/"),
                    names.collect::<Vec<_>>().join(", ")
                ));
            }
            text.push_str(&format!("| {id} | {about} | {} |\n", places.join("<br>")));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_rules(ids: &[&str], open: &[&str]) -> Rules {
        Rules {
            titles: ids.iter().map(|id| ((*id).to_owned(), "About".to_owned())).collect(),
            open: open.iter().map(|id| ((*id).to_owned(), "why".to_owned())).collect(),
        }
    }

    fn mk_coverage(tested: &[&str], different: &[&str]) -> Coverage {
        let test = Test {
            file: "crates/a/src/b.rs".to_owned(),
            name: "it_holds".to_owned(),
            rules: tested.iter().map(|id| (*id).to_owned()).collect(),
        };
        Coverage {
            tests: by_rule(vec![test]),
            differences: different.iter().map(|id| (*id).to_owned()).collect(),
        }
    }

    #[test]
    fn a_rule_is_tested_or_different_or_openly_neither() {
        // Rules that tests, differences and the open list name; what is said about it.
        type Case<'a> = (&'a [&'a str], &'a [&'a str], &'a [&'a str], &'a str);
        let cases: [Case<'_>; 6] = [
            (&["NL-001"], &[], &[], ""),
            (&[], &["NL-001"], &[], ""),
            (&[], &[], &["NL-001"], ""),
            (&[], &[], &[], "named by no test"),
            (&["NL-001"], &[], &["NL-001"], "take it off"),
            (
                &["NL-001", "NL-009"],
                &[],
                &[],
                "NL-009, named by it_holds (crates/a/src/b.rs), is not in",
            ),
        ];
        for (tested, different, open, wanted) in cases {
            let found = complaints(&mk_rules(&["NL-001"], open), &mk_coverage(tested, different)).join("; ");
            assert!(found.contains(wanted) && found.is_empty() == wanted.is_empty(), "{found}");
        }
        assert_eq!(
            complaints(&mk_rules(&["NL-001", "NL-001"], &[]), &mk_coverage(&["NL-001"], &[])).len(),
            1
        );
    }

    #[test]
    fn the_list_is_read_and_what_is_no_entry_is_named() {
        let text = "# note\n[rules]\nNL-001 = \"About\"\n\n[open]\nNL-001 = \"why\"\n";
        assert_eq!(Rules::parse(text), Ok(mk_rules(&["NL-001"], &["NL-001"])));
        for line in ["NL-001: x", "XX-001 = \"x\"", "NL-001 = x"] {
            let found = Rules::parse(&format!("[rules]\n{line}")).expect_err("no entry").join("");
            assert!(found.starts_with("docs/rules.toml:2: "), "{found}");
        }
    }

    #[test]
    fn the_report_names_tests_by_file() {
        let text = render(
            &mk_rules(&["NL-001", "TE-002"], &["TE-002"]),
            &mk_coverage(&["NL-001"], &["NL-001"]),
        );
        assert!(
            text.contains("| NL-001 | About | [differs](differences.md)<br>a/src/b.rs: `it_holds` |"),
            "{text}"
        );
        assert!(text.contains("| TE-002 | About | **open**: why |"), "{text}");
        let counted = summary(&mk_rules(&["NL-001", "TE-002"], &["TE-002"]), &mk_coverage(&["NL-001"], &[]));
        assert!(
            counted.starts_with("NL: 1 rules, 1 named by tests, 0 in docs/differences.md, 0 open"),
            "{counted}"
        );
    }
}
