//! Transitions of one object, except for values over time.

use std::collections::BTreeMap;

use super::{Difference, Kind};
use crate::oracle::file::{Controller, Scenario};
use crate::oracle::lines::{Fields, Line, canonical, canonical_fields, change, is_status, summary, text};
use crate::oracle::observe::Step;

/// A recorded transition and the observed one that it stands for.
struct Pair<'a> {
    line: &'a Line,
    step: &'a Step,
}

pub fn compare(scenario: &Scenario, object: &str, lines: &[Line], steps: &[Step]) -> Vec<Difference> {
    let (pairs, missing, extra) = pair(lines, steps);
    let excused = |step: &&Step| scenario.unstable.iter().any(|entry| entry.excuses(object, &step.fields));
    let extra: Vec<&Step> = extra.into_iter().filter(|step| !excused(step)).collect();
    let mut differences = unpaired(object, missing, extra);
    let tolerance = scenario.tolerance_s.get();
    for Pair { line, step } in &pairs {
        if !line.t.holds(step.t, tolerance) {
            let difference = Difference::new(object, Kind::Time);
            differences.push(
                difference
                    .expected(summary(&line.fields), Some(line.t))
                    .seen(String::new(), Some(step.t)),
            );
        }
    }
    differences.extend(order(object, &pairs));
    if asserts_mark(scenario, object) {
        differences.extend(mark_before_delete(object, &pairs));
    }
    differences
}

/// The K-th of equal transitions stands for the K-th.
fn pair<'a>(lines: &'a [Line], steps: &'a [Step]) -> (Vec<Pair<'a>>, Vec<&'a Line>, Vec<&'a Step>) {
    let mut waiting: BTreeMap<String, Vec<&Step>> = BTreeMap::new();
    for step in steps.iter().rev().filter(|step| !is_status(&step.fields)) {
        waiting.entry(canonical_fields(&step.fields)).or_default().push(step);
    }
    let (mut pairs, mut missing) = (Vec::new(), Vec::new());
    for line in lines.iter().filter(|line| !is_status(&line.fields)) {
        match waiting.get_mut(&canonical_fields(&line.fields)).and_then(Vec::pop) {
            Some(step) => pairs.push(Pair { line, step }),
            None => missing.push(line),
        }
    }
    let mut extra: Vec<&Step> = waiting.into_values().flatten().collect();
    extra.sort_by_key(|step| step.seq);
    (pairs, missing, extra)
}

/// Says of what was recorded only and what was seen only which stands for which, where that is plain.
fn unpaired(object: &str, missing: Vec<&Line>, mut extra: Vec<&Step>) -> Vec<Difference> {
    let mut differences = Vec::new();
    for line in missing {
        let alike = extra.iter().position(|step| is_alike(&line.fields, &step.fields));
        let difference = match alike {
            Some(place) => {
                let step = extra.remove(place);
                let (recorded, seen) = apart(&line.fields, &step.fields);
                Difference::new(object, Kind::Changed)
                    .expected(recorded, Some(line.t))
                    .seen(seen, Some(step.t))
            }
            None => Difference::new(object, Kind::Missing).expected(summary(&line.fields), Some(line.t)),
        };
        differences.push(difference);
    }
    let unexpected = |step: &Step| Difference::new(object, Kind::Unexpected).seen(summary(&step.fields), Some(step.t));
    differences.extend(extra.into_iter().map(unexpected));
    differences
}

/// Whether two transitions are about the same thing.
fn is_alike(one: &Fields, other: &Fields) -> bool {
    ["change", "type", "key", "effect"]
        .iter()
        .all(|field| one.get(*field) == other.get(*field))
}

/// The fields in which two lines differ, for people.
fn apart(recorded: &Fields, seen: &Fields) -> (String, String) {
    let mut texts = (change(recorded).to_owned(), String::new());
    for field in ["type", "key", "effect"] {
        if let Some(value) = recorded.get(field) {
            texts.0.push_str(&format!(" {}", value.as_str().unwrap_or_default()));
        }
    }
    let mut names: Vec<&String> = recorded.keys().chain(seen.keys()).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let (a, b) = (recorded.get(name), seen.get(name));
        if a != b {
            let value = |value: Option<&serde_json::Value>| value.map_or_else(|| "nothing".to_owned(), canonical);
            texts.0.push_str(&format!(" {name}={}", value(a)));
            texts.1.push_str(&format!(" {name}={}", value(b)));
        }
    }
    (texts.0, texts.1.trim_start().to_owned())
}

/// No transition of an earlier group may come after one of a later group. One difference per transition is enough.
fn order(object: &str, pairs: &[Pair<'_>]) -> Vec<Difference> {
    let mut differences = Vec::new();
    for early in pairs {
        let before = |late: &&Pair<'_>| {
            let is_later = matches!((early.line.group, late.line.group), (Some(early), Some(late)) if early < late);
            is_later && (late.step.t, late.step.seq) < (early.step.t, early.step.seq)
        };
        if let Some(late) = pairs.iter().find(before) {
            let difference = Difference::new(object, Kind::Order);
            let seen = format!("{}, which came at {:.2} s,", summary(&late.line.fields), late.step.t);
            differences.push(
                difference
                    .expected(summary(&early.line.fields), Some(early.line.t))
                    .seen(seen, Some(early.step.t)),
            );
        }
    }
    differences
}

/// Whether only the taint eviction controller deletes this pod.
fn asserts_mark(scenario: &Scenario, object: &str) -> bool {
    let is_daemon = object.contains('@') && scenario.runs(Controller::DaemonsetController);
    object.starts_with("pod/") && !is_daemon && scenario.runs(Controller::TaintEvictionController)
}

/// DisruptionTarget is visible before the deletion, although both are in one group.
fn mark_before_delete(object: &str, pairs: &[Pair<'_>]) -> Option<Difference> {
    let mark = pairs
        .iter()
        .find(|pair| text(&pair.line.fields, "type") == "DisruptionTarget")?;
    let delete = pairs.iter().find(|pair| change(&pair.line.fields) == "delete")?;
    let is_one_group = mark.line.group.is_some() && mark.line.group == delete.line.group;
    (is_one_group && delete.step.seq < mark.step.seq).then(|| {
        let difference = Difference::new(object, Kind::Order);
        difference
            .expected(summary(&mark.line.fields), Some(mark.line.t))
            .seen(summary(&delete.line.fields), Some(mark.step.t))
    })
}
