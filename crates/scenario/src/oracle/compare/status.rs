//! Values over time: the counters of a DaemonSet's status.
//!
//! How briefly a value holds depends on how writes are batched, so a recording lists only what held for a while. Each recorded value
//! must be seen around its time, however briefly; a value that holds for long must be a recorded one at about the recorded time.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Difference, Kind};
use crate::oracle::file::Scenario;
use crate::oracle::lines::{Line, ROUNDING, Span, canonical, is_status, text};
use crate::oracle::observe::Step;

/// A value that holds for so long must be a recorded one.
const LONG: f64 = 2.4;
/// A value that holds for less is left out of recordings.
const BRIEF: f64 = 1.2;

/// A value and the time for which it held.
#[derive(Clone, Debug, PartialEq)]
struct Hold {
    value: Value,
    from: f64,
    to: f64,
}

pub fn compare(scenario: &Scenario, object: &str, lines: &[Line], steps: &[Step], end: f64) -> Vec<Difference> {
    let lines: Vec<&Line> = lines.iter().filter(|line| is_status(&line.fields)).collect();
    let steps: Vec<&Step> = steps.iter().filter(|step| is_status(&step.fields)).collect();
    let recorded = lines.iter().map(|line| text(&line.fields, "field"));
    let fields: BTreeSet<&str> = recorded.chain(steps.iter().map(|step| text(&step.fields, "field"))).collect();
    let mut differences = Vec::new();
    for field in fields {
        let wanted: Vec<(&Value, Span)> = lines
            .iter()
            .filter(|line| text(&line.fields, "field") == field)
            .map(|line| (line.fields.get("to").unwrap_or(&Value::Null), line.t))
            .collect();
        let holds = holds(steps.iter().filter(|step| text(&step.fields, "field") == field), end);
        differences.extend(one(object, field, &wanted, &holds, scenario.tolerance_s.get()));
    }
    differences
}

/// The values that a field had, from the beginning, when it was absent and counts as 0, to the end.
fn holds<'a>(steps: impl Iterator<Item = &'a &'a Step>, end: f64) -> Vec<Hold> {
    let beginning = Hold {
        value: 0.into(),
        from: f64::NEG_INFINITY,
        to: f64::INFINITY,
    };
    let mut holds = vec![beginning];
    for step in steps {
        let value = step.fields.get("to").cloned().unwrap_or_default();
        if let Some(last) = holds.last_mut() {
            last.to = step.t;
        }
        holds.push(Hold {
            value,
            from: step.t,
            to: f64::INFINITY,
        });
    }
    if let Some(last) = holds.last_mut() {
        last.to = end;
    }
    holds.dedup_by(|later, earlier| {
        let is_same = later.value == earlier.value;
        if is_same {
            earlier.to = later.to;
        }
        is_same
    });
    holds
}

fn one(object: &str, field: &str, wanted: &[(&Value, Span)], holds: &[Hold], tolerance: f64) -> Vec<Difference> {
    let mut differences = Vec::new();
    let list = |mut texts: Vec<String>| {
        texts.truncate(8);
        if texts.is_empty() {
            "nothing".to_owned()
        } else {
            texts.join(", ")
        }
    };
    for (value, span) in wanted {
        let (from, to) = (span.0 - tolerance, span.1 + tolerance);
        if !holds
            .iter()
            .any(|hold| hold.value == **value && hold.from <= to && hold.to >= from)
        {
            let near = holds.iter().filter(|hold| hold.from <= to && hold.to >= from);
            let near = list(near.map(Hold::describe).collect());
            let difference = Difference::new(object, Kind::MissingValue);
            differences.push(
                difference
                    .expected(format!("status {field}={}", canonical(value)), Some(*span))
                    .seen(near, None),
            );
        }
    }
    // Whether a value that held for just the limit is left out is not known; either will do.
    let steady = [BRIEF - ROUNDING, BRIEF + ROUNDING].map(|limit| steady(holds, limit));
    for hold in holds.iter().skip(1).filter(|hold| hold.lasts(LONG)) {
        // A blip just before does not make it a new value.
        let covers = |one: &&Hold| one.value == hold.value && one.from <= hold.from && one.to >= hold.to;
        let merged = steady.each_ref().map(|steady| steady.iter().find(covers));
        let merged = merged.into_iter().flatten().map(|one| one.from);
        let starts: Vec<f64> = merged.chain([hold.from]).collect();
        let is_recorded = |start: f64| {
            wanted
                .iter()
                .any(|(value, span)| **value == hold.value && span.holds(start, tolerance))
        };
        let is_initial = starts.contains(&f64::NEG_INFINITY);
        if !is_initial && !starts.into_iter().any(is_recorded) {
            let recorded = list(
                wanted
                    .iter()
                    .map(|(value, span)| format!("{} at {span}", canonical(value)))
                    .collect(),
            );
            let difference = Difference::new(object, Kind::UnexpectedValue);
            let seen = format!("status {field}={} for {:.2} s", canonical(&hold.value), hold.to - hold.from);
            differences.push(difference.expected(recorded, None).seen(seen, Some(hold.from)));
        }
    }
    differences
}

/// The values without those that held for less than `limit`, as recordings have them.
fn steady(holds: &[Hold], limit: f64) -> Vec<Hold> {
    let mut steady: BTreeMap<usize, Hold> = BTreeMap::new();
    for hold in holds.iter().filter(|hold| hold.to - hold.from >= limit) {
        match steady.last_entry() {
            Some(mut last) if last.get().value == hold.value => last.get_mut().to = hold.to,
            _ => {
                steady.insert(steady.len(), hold.clone());
            }
        }
    }
    steady.into_values().collect()
}

// === impl Hold ===

impl Hold {
    /// Whether it held for `seconds`, as far as times are known.
    fn lasts(&self, seconds: f64) -> bool {
        self.to - self.from >= seconds - ROUNDING
    }

    fn describe(&self) -> String {
        if self.from == f64::NEG_INFINITY {
            format!("{} from the beginning", canonical(&self.value))
        } else {
            format!("{} from {:.2} s", canonical(&self.value), self.from)
        }
    }
}
