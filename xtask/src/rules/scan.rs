//! Finding rule ids in doc comments of tests, and in the list of differences.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

/// A test that names rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Test {
    /// Path from the repository's root.
    pub(crate) file: String,
    /// Name of the function.
    pub(crate) name: String,
    /// The rules that its doc comment names.
    pub(crate) rules: Vec<String>,
}

/// All tests below `crates` that name rules, in the order of their files.
pub(crate) fn tests(root: &Path) -> io::Result<Vec<Test>> {
    let mut files = Vec::new();
    sources(&root.join("crates"), &mut files)?;
    files.sort();
    let mut tests = Vec::new();
    for path in files {
        let text = std::fs::read_to_string(&path)?;
        let file = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
        tests.extend(tests_in(&file, &text));
    }
    Ok(tests)
}

fn sources(directory: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() && path.file_name().is_none_or(|name| name != "target") {
            sources(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// The tests of one file. A test is a function with an attribute `test`, whatever its path and arguments; its doc comment stands
/// right before it.
fn tests_in(file: &str, text: &str) -> Vec<Test> {
    let (mut tests, mut docs, mut is_test) = (Vec::new(), String::new(), false);
    for line in text.lines().map(str::trim) {
        if let Some(doc) = line.strip_prefix("///") {
            docs.push_str(doc);
        } else if let Some(attribute) = line.strip_prefix("#[") {
            let path = attribute.split(['(', ']']).next().unwrap_or_default();
            is_test |= path == "test" || path.ends_with("::test");
        } else if !line.starts_with("//") {
            let name = line
                .split_once("fn ")
                .map(|(_, rest)| rest.split(['(', '<']).next().unwrap_or_default());
            let rules = rules_in(&docs);
            if let Some(name) = name.filter(|_| is_test && !rules.is_empty()) {
                tests.push(Test {
                    file: file.to_owned(),
                    name: name.to_owned(),
                    rules,
                });
            }
            (docs, is_test) = (String::new(), false);
        }
    }
    tests
}

/// The rules that the first column of the table names; `A to B` names all between.
pub(crate) fn differences(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for cell in text.lines().filter_map(|line| line.strip_prefix('|')?.split('|').next()) {
        for part in cell.split(',') {
            match (part.split_once(" to "), rules_in(part).as_slice()) {
                (Some(_), [first, last]) => found.extend(between(first, last)),
                (_, rules) => found.extend(rules.iter().cloned()),
            }
        }
    }
    found
}

fn between(first: &str, last: &str) -> Vec<String> {
    let number = |id: &str| id.get(3..).and_then(|digits| digits.parse::<u32>().ok());
    let (Some(from), Some(to), Some(prefix)) = (number(first), number(last), first.get(..3)) else {
        return Vec::new();
    };
    (from..=to).map(|number| format!("{prefix}{number:03}")).collect()
}

/// The rule ids in a text, each once, in order of appearance: NL-, TE- or DS- and three digits.
pub(crate) fn rules_in(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let bytes = text.as_bytes();
    for (start, window) in bytes.windows(6).enumerate() {
        let is_rule = matches!(&window[..3], b"NL-" | b"TE-" | b"DS-") && window[3..].iter().all(u8::is_ascii_digit);
        let is_alone = bytes.get(start + 6).is_none_or(|byte| !byte.is_ascii_alphanumeric())
            && (start == 0 || !bytes[start - 1].is_ascii_alphanumeric());
        let id = String::from_utf8_lossy(window).into_owned();
        if is_rule && is_alone && !found.contains(&id) {
            found.push(id);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_found_by_their_attribute_and_rules_by_their_doc_comment() {
        let text = "
            /// NL-001, TE-002 (not ANL-003 nor NL-0045): NL-001 again
            /// and DS-006
            #[tokio::test(start_paused = true)]
            // why
            async fn it_holds() {}

            /// NL-007
            fn helper() {}

            /// NL-008
            #[test]
            #[allow(clippy::panic)]
            fn so_does_this() { let x = 1; }

            #[test]
            fn names_none() {}
        ";
        let mk = |name: &str, rules: &[&str]| Test {
            file: "f.rs".to_owned(),
            name: name.to_owned(),
            rules: rules.iter().map(|id| (*id).to_owned()).collect(),
        };
        let wanted = [
            mk("it_holds", &["NL-001", "TE-002", "DS-006"]),
            mk("so_does_this", &["NL-008"]),
        ];
        assert_eq!(tests_in("f.rs", text), wanted);
    }

    #[test]
    fn differences_are_those_of_the_first_column() {
        let text = "NL-001\n| rule | what |\n|---|---|\n| NL-002, DS-009 to DS-011 | not NL-003 |\n";
        let found: Vec<String> = differences(text).into_iter().collect();
        assert_eq!(found, ["DS-009", "DS-010", "DS-011", "NL-002"]);
    }
}
