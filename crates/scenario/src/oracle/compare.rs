//! Where an observation differs from a recording.
//!
//! Every recorded transition must be there, with the same fields, at about the same time, in the order of its group; no other may be.
//! What differs between recordings is neither required nor forbidden. Counters of a status are values over time ([`status`]).

mod state;
mod status;
mod transitions;

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;
use serde_json::Value;

use super::file::{Scenario, Unstable};
use super::lines::{EventLine, Fields, Span};
use super::observe::Observed;

/// Something that is not as recorded.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// The object.
    pub object: String,
    /// In what way.
    pub kind: Kind,
    /// What was expected, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// When it was expected, tolerance not included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<Span>,
    /// What was seen, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seen: Option<String>,
    /// When it was seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<f64>,
}

/// In what way something differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// It did not happen.
    Missing,
    /// It happened and should not have.
    Unexpected,
    /// It happened otherwise.
    Changed,
    /// It happened too early or too late.
    Time,
    /// It happened after what it should have come before.
    Order,
    /// A status did not have a value around the time it should have.
    MissingValue,
    /// A status had a value for long that it should not have had.
    UnexpectedValue,
    /// The state at the end.
    Final,
}

/// All differences, by object. None: the scenario passes.
pub fn compare(scenario: &Scenario, seen: &Observed) -> Vec<Difference> {
    let mut differences = Vec::new();
    if let Some(recorded) = &scenario.observed {
        let none = Vec::new();
        let objects: BTreeSet<&String> = recorded.keys().chain(seen.transitions.keys()).collect();
        for object in objects {
            let lines = recorded.get(object).unwrap_or(&none);
            let steps = seen.transitions.get(object).map_or(&[] as &[_], Vec::as_slice);
            differences.extend(transitions::compare(scenario, object, lines, steps));
            differences.extend(status::compare(scenario, object, lines, steps, seen.end));
        }
    }
    if let Some(recorded) = &scenario.events {
        differences.extend(events(scenario, recorded, &seen.events));
    }
    if let Some(recorded) = &scenario.finals {
        differences.extend(state::compare(scenario, recorded, &seen.finals));
    }
    differences
}

fn events(scenario: &Scenario, recorded: &[EventLine], seen: &[EventLine]) -> Vec<Difference> {
    let mut differences = Vec::new();
    for line in recorded {
        if !seen.iter().any(|other| other.is_same(line)) {
            differences.push(Difference::missing(&line.obj, line.to_string()));
        }
    }
    for line in seen {
        let is_known = recorded.iter().any(|other| other.is_same(line));
        if !is_known && !scenario.unstable.iter().any(|entry| entry.excuses_event(line)) {
            differences.push(Difference::unexpected(&line.obj, line.to_string()));
        }
    }
    differences
}

// === impl Unstable ===

impl Unstable {
    /// Whether a transition may, but need not happen.
    fn excuses(&self, object: &str, fields: &Fields) -> bool {
        matches!(self, Self::Transition(about, wanted) if about == object && has_all(wanted, |key| fields.get(key)))
    }

    fn excuses_event(&self, line: &EventLine) -> bool {
        let Self::Event(wanted) = self else { return false };
        let field = |key: &str| match key {
            "obj" => Some(&line.obj),
            "namespace" => Some(&line.namespace),
            "type" => Some(&line.severity),
            "reason" => Some(&line.reason),
            "message" => Some(&line.message),
            _ => None,
        };
        wanted
            .iter()
            .all(|(key, value)| field(key).map(String::as_str) == value.as_str())
    }

    /// Whether a field of an object may be anything at the end.
    fn excuses_final(&self, object: &str, field: &str) -> bool {
        matches!(self, Self::Final(about, excused) if about == object && excused.as_deref().is_none_or(|excused| excused == field))
    }

    /// Whether an object may exist at the end although none is recorded.
    fn mentions(&self, object: &str) -> bool {
        matches!(self, Self::Final(about, _) | Self::Transition(about, _) if about == object)
    }
}

fn has_all<'a>(wanted: &Fields, field: impl Fn(&str) -> Option<&'a Value>) -> bool {
    wanted.iter().all(|(key, value)| field(key) == Some(value))
}

// === impl Difference ===

impl Difference {
    fn new(object: &str, kind: Kind) -> Self {
        Self {
            object: object.to_owned(),
            kind,
            expected: None,
            window: None,
            seen: None,
            at: None,
        }
    }

    fn missing(object: &str, expected: String) -> Self {
        Self {
            expected: Some(expected),
            ..Self::new(object, Kind::Missing)
        }
    }

    fn unexpected(object: &str, seen: String) -> Self {
        Self {
            seen: Some(seen),
            ..Self::new(object, Kind::Unexpected)
        }
    }

    fn expected(mut self, expected: String, window: Option<Span>) -> Self {
        self.expected = Some(expected);
        self.window = window;
        self
    }

    fn seen(mut self, seen: String, at: Option<f64>) -> Self {
        self.seen = Some(seen);
        self.at = at;
        self
    }
}

impl fmt::Display for Difference {
    /// Without the object: those of one object are listed under it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let expected = self.expected.as_deref().unwrap_or("nothing");
        let seen = self.seen.as_deref().unwrap_or("nothing");
        let window = self.window.map(|window| format!(" at {window}")).unwrap_or_default();
        let at = self.at.map(|at| format!(" at {at:.2} s")).unwrap_or_default();
        match self.kind {
            Kind::Missing => write!(f, "missing: {expected}{window}"),
            Kind::Unexpected => write!(f, "unexpected: {seen}{at}"),
            Kind::Changed => write!(f, "changed: {expected}{window}; seen {seen}{at}"),
            Kind::Time => write!(f, "at the wrong time: {expected}{window}; seen{at}"),
            Kind::Order => write!(f, "out of order: {expected}{window}; seen after {seen}{at}"),
            Kind::MissingValue => write!(f, "without the value: {expected}{window}; seen {seen}"),
            Kind::UnexpectedValue => write!(f, "with an unexpected value: {seen}{at}; recorded {expected}"),
            Kind::Final => write!(f, "at the end: recorded {expected}; seen {seen}"),
        }
    }
}

#[cfg(test)]
mod tests;
