//! What happened to a pod, a node, a zone or a DaemonSet, where it stands, and what it waits for: from the records of the bus.
//!
//! Whoever asks collects the records that concern it ([`keys`] says which), the last ones of each key in the order of the bus; this
//! puts them in order and into words. Of a pod that stays because it tolerates what there is no stage says anything: what the API has
//! of it can be added ([`Seen`]). Nothing else is said that no record says.

pub mod keys;
mod next;
mod rules;
mod seen;

use bailiff_model::{Topic, TraceContext, Wall};
use serde_json::{Value, json};

use crate::Said;
use crate::json::json as fields;
use crate::sentence::sentence;

pub use next::Next;
pub use seen::Seen;

/// A record that concerns what is asked about.
#[derive(Clone, Copy, Debug)]
pub struct Told<'a> {
    /// Topic.
    pub topic: Topic,
    /// Key.
    pub key: &'a str,
    /// Its place in the order of the bus.
    pub revision: u64,
    /// When its producer made it, by the producer's clock.
    pub at: Wall,
    /// Who.
    pub by: &'a str,
    /// The trace it belongs to.
    pub trace: Option<TraceContext>,
    /// What it says; `None`: the key is gone.
    pub said: Option<Said<'a>>,
}

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Story {
    /// What it is about, such as `pod shop/web-1`.
    pub about: String,
    /// What was said, in order.
    pub past: Vec<Line>,
    /// What is said last of each key.
    pub present: Vec<Line>,
    /// What comes next, and what would stop it.
    pub future: Vec<Next>,
    /// The trace that shows it, the newest of several.
    pub trace_id: Option<String>,
}

/// A sentence.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// When it was said.
    pub at: Wall,
    /// By whom.
    pub by: String,
    /// The sentence.
    pub text: String,
    /// The rules it follows from (docs/rules.md).
    pub rules: &'static [&'static str],
    /// The same for programs: whose key it is, and all fields.
    pub record: Value,
}

// === impl Story ===

impl Story {
    /// The story that these records tell about `about`, as it was known at `at`. Records come in any order.
    pub fn of(about: String, told: &[Told<'_>], at: Option<Wall>) -> Self {
        let mut told: Vec<Told<'_>> = told
            .iter()
            .copied()
            .filter(|told| at.is_none_or(|at| told.at <= at))
            .collect();
        told.sort_by_key(|told| (told.revision, told.topic, told.key));
        // The same record may have been found twice. Several keys of one revision are several records: a change of many is one of the bus.
        told.dedup_by_key(|told| (told.revision, told.topic, told.key));
        let mut latest: Vec<Told<'_>> = Vec::new();
        for one in &told {
            latest.retain(|other| (other.topic, other.key) != (one.topic, one.key));
            latest.push(*one);
        }
        latest.retain(|one| one.said.is_some());
        latest.sort_by_key(|one| one.topic);
        let trace = told.iter().rev().find_map(|one| one.trace);
        Self {
            about,
            past: told.iter().map(Line::of).collect(),
            present: latest.iter().map(Line::of).collect(),
            future: next::of(&latest),
            trace_id: trace.map(|trace| format!("{:032x}", trace.trace_id())),
        }
    }

    /// In plain text.
    pub fn text(&self) -> String {
        self.told(&self.past)
    }

    /// In plain text, without what happened: where it stands, and what comes next.
    pub fn brief(&self) -> String {
        self.told(&[])
    }

    fn told(&self, past: &[Line]) -> String {
        let mut out = format!("{}\n", self.about);
        if self.past.is_empty() {
            out.push_str("  No stage has said anything about it that the bus still remembers.\n");
        }
        let mut part = |title: &str, lines: Vec<String>| {
            if !lines.is_empty() {
                out.push_str(&format!("{title}\n  {}\n", lines.join("\n  ")));
            }
        };
        part("What happened:", past.iter().map(Line::text).collect());
        part("Now:", self.present.iter().map(Line::text).collect());
        part("Next:", self.future.iter().map(Next::text).collect());
        if let Some(trace_id) = &self.trace_id {
            part("Trace:", vec![trace_id.clone()]);
        }
        out
    }

    /// As JSON.
    pub fn json(&self) -> Value {
        let lines = |lines: &[Line]| -> Vec<Value> { lines.iter().map(Line::json).collect() };
        let future: Vec<Value> = self.future.iter().map(Next::json).collect();
        let mut object = json!({"about": self.about, "past": lines(&self.past), "present": lines(&self.present), "future": future});
        if let Some(trace_id) = &self.trace_id {
            object["traceId"] = json!(trace_id);
        }
        object
    }
}

// === impl Line ===

impl Line {
    fn of(told: &Told<'_>) -> Self {
        Self {
            at: told.at,
            by: told.by.to_owned(),
            text: told.said.map_or_else(|| told.taken_back(), sentence),
            rules: told.said.map_or(&[], rules::of),
            record: told.fields(),
        }
    }

    fn text(&self) -> String {
        // The part behind the slash names the process, which is of no interest here.
        let stage = self.by.split('/').next().unwrap_or_default();
        let rules = if self.rules.is_empty() {
            String::new()
        } else {
            format!(" [{}]", self.rules.join(", "))
        };
        format!("{:.3} {stage}: {}{rules}", self.at, self.text)
    }

    fn json(&self) -> Value {
        json!({"at": self.at.to_string(), "by": self.by, "text": self.text, "rules": self.rules, "record": self.record})
    }
}

// === impl Told ===

impl Told<'_> {
    /// What it means that the key is gone.
    fn taken_back(&self) -> String {
        let what = match (self.topic, self.key.split_once('/')) {
            // The key is the uid, which tells people nothing.
            (_, Some(("pod", _))) => "the pod".to_owned(),
            (Topic::NodeHealth, _) => format!("node {}", self.key),
            (Topic::DaemonRollouts, _) => format!("daemonset {}", self.key),
            (_, Some((kind, name))) => format!("{kind} {name}"),
            (_, None) => self.key.to_owned(),
        };
        format!("nothing more is said of {what}")
    }

    /// Topic and key, and what is said under them unless the key is gone.
    fn fields(&self) -> Value {
        let mut object = json!({"topic": self.topic.as_str(), "key": self.key});
        if let Some(said) = self.said {
            object["body"] = fields(said);
        }
        object
    }
}

#[cfg(test)]
mod tests;
