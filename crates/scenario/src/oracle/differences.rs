//! Deviations from recordings that are meant.
//!
//! A difference file, `differences/<scenario>.json` in this crate, names for a scenario the rule, the profile, the reason, and line by
//! line what was recorded and what is seen instead. It is applied to the recording, and the result is compared as strictly as any
//! other recording: nothing but those lines is accepted, and a line that is not seen any more fails until its file is removed.

use std::fmt;

use serde::Deserialize;
use serde_json::Value;

use super::file::Scenario;
use super::lines::{EventLine, Fields, Line, canonical, summary};

/// All difference files, by the names of their scenarios.
const FILES: &[(&str, &str)] = &[
    ("ds-create", include_str!("../../differences/ds-create.json")),
    (
        "ds-noschedule-pod-lost",
        include_str!("../../differences/ds-noschedule-pod-lost.json"),
    ),
    ("lg-zone-relabel", include_str!("../../differences/lg-zone-relabel.json")),
    (
        "nl-node-swapped-quickly",
        include_str!("../../differences/nl-node-swapped-quickly.json"),
    ),
    (
        "te-short-taint-removed",
        include_str!("../../differences/te-short-taint-removed.json"),
    ),
];

/// Whose behaviour is wanted where Bailiff differs on purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// kube-controller-manager's, as far as it can be had.
    Upstream,
    /// Bailiff's own.
    #[default]
    Bailiff,
}

/// Why deviations cannot be applied.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file is none.
    #[error("differences/{scenario}.json is no difference file")]
    Parse {
        /// The scenario.
        scenario: String,
        /// Field and place.
        source: serde_json::Error,
    },
    /// It is about something that was not recorded.
    #[error("differences/{scenario}.json: {object} has no recorded {line}")]
    NotRecorded {
        /// The scenario.
        scenario: String,
        /// The object.
        object: String,
        /// What should have been recorded.
        line: String,
    },
}

/// A difference file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Name of the scenario.
    pub scenario: String,
    /// The deviations.
    pub differences: Vec<Deviation>,
}

/// A deviation.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deviation {
    /// The rule that is not followed.
    pub rule: String,
    /// Under which profiles.
    pub profiles: Vec<Profile>,
    /// Why.
    pub reason: String,
    /// What differs.
    pub lines: Vec<Edit>,
}

/// A line that differs.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Edit {
    /// A transition.
    Transition {
        /// The object.
        object: String,
        /// What was recorded; nothing if it only happens here.
        recorded: Option<Line>,
        /// What is seen instead; nothing if it does not happen here.
        instead: Option<Line>,
    },
    /// An Event.
    Event {
        /// What was recorded.
        recorded: Option<Box<EventLine>>,
        /// What is seen instead.
        instead: Option<Box<EventLine>>,
    },
    /// The state at the end.
    Final {
        /// The object.
        object: String,
        /// The field; the whole object without one.
        field: Option<String>,
        /// What was recorded; null if there was no such object.
        #[serde(default)]
        recorded: Value,
        /// What is seen instead; null if there is no such object.
        #[serde(default)]
        instead: Value,
    },
}

/// A line that is accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The rule that is not followed.
    pub rule: String,
    /// The object.
    pub object: String,
    /// What was recorded.
    pub recorded: Option<String>,
    /// What is seen instead.
    pub instead: Option<String>,
}

// === impl Profile ===

impl Profile {
    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Upstream => "upstream",
            Self::Bailiff => "bailiff",
        }
    }
}

// === impl Accepted ===

impl fmt::Display for Accepted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nothing = || "nothing".to_owned();
        let recorded = self.recorded.clone().unwrap_or_else(nothing);
        let instead = self.instead.clone().unwrap_or_else(nothing);
        write!(f, "{} ({}): recorded {recorded}; here {instead}", self.object, self.rule)
    }
}

// === functions ===

/// The scenario as it is expected under a profile, and the lines in which that differs from the recording.
///
/// # Errors
/// Its difference file cannot be applied.
pub fn expected(scenario: &Scenario, profile: Profile) -> Result<(Scenario, Vec<Accepted>), Error> {
    let Some((_, text)) = FILES.iter().find(|(id, _)| *id == scenario.id) else {
        return Ok((scenario.clone(), Vec::new()));
    };
    let file = serde_json::from_str(text).map_err(|source| Error::Parse {
        scenario: scenario.id.clone(),
        source,
    })?;
    apply(scenario, &file, profile)
}

/// As [`expected`], with a file of the caller's.
///
/// # Errors
/// The file is about something that was not recorded.
pub fn apply(scenario: &Scenario, file: &File, profile: Profile) -> Result<(Scenario, Vec<Accepted>), Error> {
    let mut edited = scenario.clone();
    let mut accepted = Vec::new();
    for deviation in file
        .differences
        .iter()
        .filter(|deviation| deviation.profiles.contains(&profile))
    {
        for edit in &deviation.lines {
            let (object, recorded, instead) = edit.describe();
            if !edit.apply(&mut edited) {
                return Err(Error::NotRecorded {
                    scenario: scenario.id.clone(),
                    object,
                    line: recorded.unwrap_or_else(|| "place for it".to_owned()),
                });
            }
            accepted.push(Accepted {
                rule: deviation.rule.clone(),
                object,
                recorded,
                instead,
            });
        }
    }
    Ok((edited, accepted))
}

// === impl Edit ===

impl Edit {
    /// Object, what was recorded, what is seen instead.
    fn describe(&self) -> (String, Option<String>, Option<String>) {
        let line = |line: &Option<Line>| line.as_ref().map(|line| format!("{} at {}", summary(&line.fields), line.t));
        let event = |event: &Option<Box<EventLine>>| event.as_ref().map(ToString::to_string);
        let value = |value: &Value| (!value.is_null()).then(|| canonical(value));
        match self {
            Self::Transition {
                object,
                recorded,
                instead,
            } => (object.clone(), line(recorded), line(instead)),
            Self::Event { recorded, instead } => {
                let object = recorded.as_ref().or(instead.as_ref()).map_or("", |event| event.obj.as_str());
                (object.to_owned(), event(recorded), event(instead))
            }
            Self::Final {
                object,
                field,
                recorded,
                instead,
            } => {
                let field = field.as_ref().map(|field| format!(" {field}")).unwrap_or_default();
                (format!("{object}{field} at the end"), value(recorded), value(instead))
            }
        }
    }

    /// Replaces the line in the recording; `false` if it is not there.
    fn apply(&self, scenario: &mut Scenario) -> bool {
        match self {
            Self::Transition {
                object,
                recorded,
                instead,
            } => {
                let lines = scenario.observed.get_or_insert_default().entry(object.clone()).or_default();
                replace(lines, recorded.as_ref(), instead.as_ref(), |a, b| {
                    a.fields == b.fields && a.t == b.t
                })
            }
            Self::Event { recorded, instead } => {
                let events = scenario.events.get_or_insert_default();
                replace(events, recorded.as_deref(), instead.as_deref(), EventLine::is_same)
            }
            Self::Final {
                object,
                field,
                recorded,
                instead,
            } => {
                let finals = scenario.finals.get_or_insert_default();
                match field {
                    Some(field) => finals.get_mut(object).is_some_and(|fields| {
                        let is_recorded = fields.get(field) == Some(recorded);
                        fields.insert(field.clone(), instead.clone());
                        is_recorded
                    }),
                    None => {
                        let before = finals.remove(object).map_or(Value::Null, Value::Object);
                        if let Value::Object(fields) = instead {
                            finals.insert(object.clone(), Fields::clone(fields));
                        }
                        before == *recorded
                    }
                }
            }
        }
    }
}

/// Puts `instead` in the place of `recorded`; `false` if there is no such line.
fn replace<T: Clone>(lines: &mut Vec<T>, recorded: Option<&T>, instead: Option<&T>, is_same: impl Fn(&T, &T) -> bool) -> bool {
    let place = match recorded {
        Some(recorded) => lines.iter().position(|line| is_same(line, recorded)),
        None => Some(lines.len()),
    };
    let Some(place) = place else { return false };
    if recorded.is_some() {
        lines.remove(place);
    }
    if let Some(instead) = instead {
        lines.insert(place, instead.clone());
    }
    true
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use serde_json::json;

    use super::*;

    fn scenario() -> Scenario {
        serde_json::from_value(json!({
            "id": "x", "controllers": [], "duration": 3, "tolerance_s": 1,
            "observed": {"pod/a": [{"t": [1, 1], "change": "delete", "grace": 30, "group": 0}]},
            "events": [], "final": {"pod/a": {"terminating": true}},
        }))
        .expect("a scenario")
    }

    fn file(lines: &Value) -> File {
        serde_json::from_value(json!({
            "scenario": "x",
            "differences": [{"rule": "TE-102", "profiles": ["bailiff"], "reason": "because", "lines": lines}],
        }))
        .expect("a difference file")
    }

    #[test]
    fn only_the_lines_named_are_replaced_and_only_under_their_profile() {
        let file = file(&json!([
            {"transition": {"object": "pod/a", "recorded": {"t": [1, 1], "change": "delete", "grace": 30},
                            "instead": {"t": [2, 2], "change": "delete", "grace": 30}}},
            {"final": {"object": "pod/a", "field": "terminating", "recorded": true, "instead": false}},
        ]));
        let (edited, accepted) = apply(&scenario(), &file, Profile::Bailiff).expect("applies");
        assert_eq!(
            edited.observed.expect("there")["pod/a"][0].t,
            crate::oracle::lines::Span(2.0, 2.0)
        );
        assert_eq!(edited.finals.expect("there")["pod/a"]["terminating"], json!(false));
        let printed: Vec<String> = accepted.iter().map(ToString::to_string).collect();
        assert_eq!(
            printed,
            [
                "pod/a (TE-102): recorded delete grace=30 at 1.00 s; here delete grace=30 at 2.00 s",
                "pod/a terminating at the end (TE-102): recorded true; here false",
            ]
        );
        let (same, none) = apply(&scenario(), &file, Profile::Upstream).expect("applies");
        assert_eq!((same.observed, none), (scenario().observed, Vec::new()));
    }

    #[test]
    fn a_line_that_was_not_recorded_cannot_differ() {
        let lines = json!([{"transition": {"object": "pod/a", "recorded": {"t": [1, 1], "change": "delete", "grace": 5}}}]);
        let error = apply(&scenario(), &file(&lines), Profile::Bailiff).expect_err("not recorded");
        assert!(error.to_string().contains("pod/a has no recorded delete grace=5"), "{error}");
    }

    #[test]
    fn every_difference_file_is_known_and_can_be_read() {
        let known: BTreeSet<String> = FILES.iter().map(|(id, _)| format!("{id}.json")).collect();
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("differences");
        let present = std::fs::read_dir(directory).into_iter().flatten().flatten();
        let present: BTreeSet<String> = present
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        let present: BTreeSet<String> = present.into_iter().filter(|name| name.ends_with(".json")).collect();
        assert_eq!(present, known);
        for (id, text) in FILES {
            let file: File = serde_json::from_str(text).expect(id);
            assert_eq!(file.scenario, *id);
        }
    }
}
