//! What is recorded and what is observed, line by line: the vocabulary that files, observation and comparison share.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The fields of one line, without its time.
pub type Fields = Map<String, Value>;

/// Times are recorded to a hundredth of a second.
pub const ROUNDING: f64 = 0.005;

/// A span of times, in seconds since time zero.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Span(pub f64, pub f64);

/// A recorded transition of one object.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Line {
    /// Earliest and latest time over the recordings.
    pub t: Span,
    /// Transitions of one object in the same group came so close together that their order means nothing. Without one, the order
    /// to no other transition means anything.
    #[serde(default)]
    pub group: Option<u32>,
    /// What happened: `change` and its further fields.
    #[serde(flatten)]
    pub fields: Fields,
}

/// A recorded Event. Compared by all but the last four.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventLine {
    /// The involved object.
    pub obj: String,
    /// Namespace of the Event.
    pub namespace: String,
    /// `Normal` or `Warning`.
    #[serde(rename = "type")]
    pub severity: String,
    /// Reason.
    pub reason: String,
    /// Message.
    pub message: String,
    /// When the first one appeared.
    #[serde(default)]
    pub t: Option<Span>,
    /// Whether the reference carries a uid.
    #[serde(default)]
    pub uid: Option<String>,
    /// Who reported it.
    #[serde(default)]
    pub component: Option<String>,
    /// How often, over all Event objects with this text.
    #[serde(default)]
    pub count: Option<(u64, u64)>,
}

// === impl Span ===

impl Span {
    /// A moment.
    pub fn at(t: f64) -> Self {
        Self(t, t)
    }

    /// Whether `t` lies in it, or no more than `tolerance` outside.
    pub fn holds(self, t: f64, tolerance: f64) -> bool {
        t >= self.0 - tolerance - ROUNDING && t <= self.1 + tolerance + ROUNDING
    }

    /// Its middle.
    pub fn middle(self) -> f64 {
        f64::midpoint(self.0, self.1)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == self.1 {
            write!(f, "{:.2} s", self.0)
        } else {
            write!(f, "{:.2} to {:.2} s", self.0, self.1)
        }
    }
}

// === impl EventLine ===

impl EventLine {
    /// Whether two lines are about the same Event: what a comparison looks at.
    pub fn is_same(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }

    /// What a comparison looks at.
    pub fn identity(&self) -> [&str; 5] {
        [&self.obj, &self.namespace, &self.severity, &self.reason, &self.message]
    }
}

impl fmt::Display for EventLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "event {} {} {:?}", self.severity, self.reason, self.message)?;
        if self.namespace != "default" {
            write!(f, " in {}", self.namespace)?;
        }
        match self.t {
            Some(t) => write!(f, " at {t}"),
            None => Ok(()),
        }
    }
}

// === functions ===

/// The text of a field, `""` if it is none.
pub fn text<'a>(fields: &'a Fields, name: &str) -> &'a str {
    fields.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The kind of a transition.
pub fn change(fields: &Fields) -> &str {
    text(fields, "change")
}

/// Whether this is an entry of a value over time, which has rules of its own.
pub fn is_status(fields: &Fields) -> bool {
    change(fields) == "status"
}

/// A text that is the same for equal values, whatever the order of their keys.
pub fn canonical(value: &Value) -> String {
    match value {
        Value::Object(map) => canonical_fields(map),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(canonical).collect();
            format!("[{}]", items.join(","))
        }
        other => other.to_string(),
    }
}

/// As [`canonical`].
pub fn canonical_fields(fields: &Fields) -> String {
    let mut entries: Vec<(&String, &Value)> = fields.iter().collect();
    entries.sort_unstable_by_key(|(key, _)| *key);
    let entries: Vec<String> = entries
        .iter()
        .map(|(key, value)| format!("{key:?}:{}", canonical(value)))
        .collect();
    format!("{{{}}}", entries.join(","))
}

/// A line for people: the change, then its fields.
pub fn summary(fields: &Fields) -> String {
    /// Long enough for a condition with its message, short enough for one line of a terminal.
    const LONGEST: usize = 200;
    let mut line = change(fields).to_owned();
    for (key, value) in fields.iter().filter(|(key, _)| *key != "change") {
        let value = match value {
            Value::String(text) if !text.is_empty() && !text.contains(' ') => text.clone(),
            other => canonical(other),
        };
        line.push_str(&format!(" {key}={value}"));
    }
    shortened(&line, LONGEST)
}

/// `text`, cut after `longest` characters.
pub fn shortened(text: &str, longest: usize) -> String {
    match text.char_indices().nth(longest) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn equal_values_have_one_canonical_text() {
        let one = json!({"b": [1, {"y": null, "x": "2"}], "a": true});
        let two = json!({"a": true, "b": [1, {"x": "2", "y": null}]});
        assert_eq!(canonical(&one), canonical(&two));
        assert_ne!(canonical(&one), canonical(&json!({"a": true, "b": [1, {"x": 2, "y": null}]})));
    }

    #[test]
    fn a_span_tolerates_what_it_is_told_to() {
        let span = Span(1.0, 2.0);
        for (t, tolerance, wanted) in [
            (1.5, 0.0, true),
            (0.5, 0.4, false),
            (0.6, 0.4, true),
            (2.4, 0.4, true),
            (2.5, 0.4, false),
        ] {
            assert_eq!(span.holds(t, tolerance), wanted, "{t} {tolerance}");
        }
    }
}
