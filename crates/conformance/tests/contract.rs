//! `docs/contract.md` lists every item of every stage, as the suites have them.

use std::fmt::Write as _;
use std::path::Path;

use bailiff_conformance::Suite;

/// Writes the tables anew instead of comparing them.
const UPDATE: &str = "BAILIFF_UPDATE_DOCS";

fn table(suite: &Suite) -> String {
    let mut table = String::from("| id | level | what | why |\n|---|---|---|---|\n");
    for item in suite.items {
        // Writing to a String does not fail.
        let _ = writeln!(table, "| `{}` | {} | {} | {} |", item.id, item.level, item.says, item.because);
    }
    table
}

#[test]
fn the_document_lists_what_the_suites_test() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/contract.md");
    let document = std::fs::read_to_string(&path).expect("docs/contract.md is there");
    let mut wanted = document.clone();
    for suite in Suite::all() {
        let begin = format!("<!-- items: {} -->\n", suite.stage);
        let (before, rest) = wanted.split_once(&begin).unwrap_or_else(|| panic!("there is no {begin}"));
        let (_, after) = rest.split_once("<!-- /items -->").expect("a table ends");
        wanted = format!("{before}{begin}\n{}\n<!-- /items -->{after}", table(suite));
    }
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&path, &wanted).expect("docs/contract.md can be written");
    } else {
        assert!(
            wanted == document,
            "docs/contract.md differs from the suites: run this test with {UPDATE}=1"
        );
    }
}
