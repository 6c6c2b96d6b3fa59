//! From the API's history to what a recording would say: transitions, Events, and the state at the end.
//!
//! Only what the controllers wrote is listed. Names that are chosen at run time are replaced by ones that are the same in every run
//! ([`names`]), and nodes whose order is free get letters ([`ranks`]).

mod changes;
mod events;
mod finals;
mod names;
mod ranks;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::file::Interchangeable;
use super::lines::{EventLine, Fields, is_status};

use events::Events;
use names::Names;

pub use changes::target;

/// Namespace of what only serves to find time zero. Nothing in it is observed.
pub const CANARY: &str = "oracle-canary";

/// What an object is, as far as recordings know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A Node.
    Node,
    /// A Pod.
    Pod,
    /// A DaemonSet.
    DaemonSet,
    /// A ControllerRevision.
    ControllerRevision,
    /// An Event.
    Event,
}

/// What became of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// It came into being.
    Created,
    /// It changed.
    Changed,
    /// It is gone.
    Gone,
}

/// One entry of the API's history.
#[derive(Clone, Debug)]
pub struct Write {
    /// When, in seconds since time zero.
    pub t: f64,
    /// Whether a controller asked for it.
    pub by_controllers: bool,
    /// What was written.
    pub kind: Kind,
    /// What became of it.
    pub what: What,
    /// The object, or its last state.
    pub object: Value,
    /// Its state before.
    pub previous: Option<Value>,
}

/// A transition that was seen.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// When, in seconds since time zero.
    pub t: f64,
    /// Its place among all writes.
    pub seq: usize,
    /// What happened.
    pub fields: Fields,
}

/// Everything that was seen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    /// Transitions, by object, oldest first.
    pub transitions: BTreeMap<String, Vec<Step>>,
    /// Events.
    pub events: Vec<EventLine>,
    /// The state at the end, by object.
    pub finals: BTreeMap<String, Fields>,
    /// When the end was, in seconds since time zero.
    pub end: f64,
}

/// Draws up what was seen until `end`. `writes` are all writes from the beginning, oldest first.
pub fn observe(writes: impl IntoIterator<Item = Write>, end: f64, interchangeable: &[Interchangeable]) -> Observed {
    let mut names = Names::default();
    let mut events = Events::default();
    let mut alive: BTreeMap<String, (Kind, Value)> = BTreeMap::new();
    let mut transitions: BTreeMap<String, Vec<Step>> = BTreeMap::new();
    for (seq, write) in writes.into_iter().enumerate() {
        if write.t > end || is_canary(&write.object) {
            continue;
        }
        if write.kind == Kind::Event {
            events.take(&write);
            continue;
        }
        let id = names.identify(&write);
        if write.by_controllers {
            for fields in changes::of(&write) {
                let step = Step { t: write.t, seq, fields };
                transitions.entry(id.clone()).or_default().push(step);
            }
        }
        match write.what {
            What::Created | What::Changed => alive.insert(id, (write.kind, write.object)),
            What::Gone => alive.remove(&id),
        };
    }
    let finals = alive
        .iter()
        .map(|(id, (kind, object))| (id.clone(), finals::of(*kind, object)));
    let mut observed = Observed {
        finals: finals.collect(),
        events: events.finish(&names),
        transitions,
        end,
    };
    observed.rename(|text| names.public(text));
    for set in interchangeable {
        ranks::rename(&mut observed, set);
    }
    observed
}

fn is_canary(object: &Value) -> bool {
    meta(object, "namespace") == CANARY
}

/// A text of an object's metadata.
pub fn meta<'a>(object: &'a Value, field: &str) -> &'a str {
    at(object, &format!("/metadata/{field}"))
}

/// A text of an object.
fn at<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

// === impl Observed ===

impl Observed {
    /// The parts of a scenario file that say what was observed. Values of a status are all listed, however briefly they held.
    pub fn to_json(&self) -> Value {
        let objects = self.transitions.iter().map(|(id, steps)| {
            let mut group = 0;
            let mut last = f64::NEG_INFINITY;
            let lines = steps.iter().enumerate().map(|(nth, step)| {
                /// Transitions that are closer together are one group.
                const GAP: f64 = 0.75;
                if nth > 0 && step.t - last >= GAP {
                    group += 1;
                }
                last = step.t;
                let mut line = Fields::new();
                line.insert("t".to_owned(), json!([rounded(step.t), rounded(step.t)]));
                line.extend(step.fields.clone());
                line.insert("group".to_owned(), group.into());
                Value::Object(line)
            });
            (id.clone(), Value::Array(lines.collect()))
        });
        let events = self.events.iter().map(|event| {
            json!({
                "t": event.t.map(|t| [rounded(t.0), rounded(t.1)]), "obj": event.obj, "namespace": event.namespace, "reason": event.reason,
                "type": event.severity, "message": event.message, "uid": event.uid, "component": event.component, "count": event.count,
            })
        });
        let finals = self
            .finals
            .iter()
            .map(|(id, fields)| (id.clone(), Value::Object(fields.clone())));
        json!({
            "observed": Fields::from_iter(objects), "events": events.collect::<Vec<_>>(), "final": Fields::from_iter(finals),
        })
    }

    /// How many transitions were seen, values over time not counted.
    pub fn len(&self) -> usize {
        self.transitions
            .values()
            .flatten()
            .filter(|step| !is_status(&step.fields))
            .count()
    }

    /// Whether nothing happened.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Replaces texts everywhere but in the names of fields.
    fn rename(&mut self, change: impl Fn(&str) -> String) {
        let transitions = std::mem::take(&mut self.transitions);
        for (id, mut steps) in transitions {
            for step in &mut steps {
                rename_fields(&mut step.fields, &change);
            }
            self.transitions.insert(change(&id), steps);
        }
        for event in &mut self.events {
            for text in [&mut event.obj, &mut event.namespace, &mut event.message] {
                *text = change(text);
            }
        }
        let finals = std::mem::take(&mut self.finals);
        for (id, mut fields) in finals {
            rename_fields(&mut fields, &change);
            self.finals.insert(change(&id), fields);
        }
    }
}

fn rename_fields(fields: &mut Fields, change: &impl Fn(&str) -> String) {
    fields.values_mut().for_each(|value| rename_value(value, change));
}

fn rename_value(value: &mut Value, change: &impl Fn(&str) -> String) {
    match value {
        Value::String(text) => *text = change(text),
        Value::Array(items) => items.iter_mut().for_each(|item| rename_value(item, change)),
        Value::Object(map) => rename_fields(map, change),
        _ => {}
    }
}

/// To a hundredth of a second, as recordings have it.
fn rounded(t: f64) -> f64 {
    // Adding zero makes a positive zero of a negative one.
    (t * 100.0).round() / 100.0 + 0.0
}

#[cfg(test)]
mod tests;
