//! The state at the end.

use std::collections::{BTreeMap, BTreeSet};

use super::{Difference, Kind};
use crate::oracle::file::Scenario;
use crate::oracle::lines::{Fields, canonical, canonical_fields, shortened};

/// A field of a node takes some lines of a terminal, no more.
const LONGEST: usize = 400;

pub fn compare(scenario: &Scenario, recorded: &BTreeMap<String, Fields>, seen: &BTreeMap<String, Fields>) -> Vec<Difference> {
    let mut differences = Vec::new();
    let excuses = |object: &str, field: &str| scenario.unstable.iter().any(|entry| entry.excuses_final(object, field));
    let objects: BTreeSet<&String> = recorded.keys().chain(seen.keys()).collect();
    for object in objects {
        match (recorded.get(object), seen.get(object)) {
            (Some(recorded), Some(seen)) => {
                let fields: BTreeSet<&String> = recorded.keys().chain(seen.keys()).collect();
                for field in fields {
                    let (a, b) = (recorded.get(field), seen.get(field));
                    if a != b && !excuses(object, field) {
                        let value = |value: Option<&serde_json::Value>| {
                            let text = value.map_or_else(|| "nothing".to_owned(), canonical);
                            format!("{field}={}", shortened(&text, LONGEST))
                        };
                        differences.push(
                            Difference::new(object, Kind::Final)
                                .expected(value(a), None)
                                .seen(value(b), None),
                        );
                    }
                }
            }
            (Some(_), None) => {
                let expected = "it exists".to_owned();
                differences.push(Difference::new(object, Kind::Final).expected(expected, None));
            }
            (None, Some(seen)) if !scenario.unstable.iter().any(|entry| entry.mentions(object)) => {
                let seen = shortened(&canonical_fields(seen), LONGEST);
                differences.push(Difference::new(object, Kind::Final).seen(seen, None));
            }
            (None, _) => {}
        }
    }
    differences
}
