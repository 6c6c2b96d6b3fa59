//! What placeholders stand for: bound by answers, replaced in requests.

use std::collections::BTreeMap;

use serde_json::Value;

/// Values that placeholders were bound to.
#[derive(Clone, Debug, Default)]
pub struct Bindings {
    values: BTreeMap<String, String>,
    /// Order of revisions: the number in `<rv:N>` to the value.
    revisions: BTreeMap<u64, u64>,
    /// What the last answer about an object (by uid) held, for `<time>` in requests.
    seen: BTreeMap<String, Value>,
}

/// A text cut into literals and placeholders.
enum Piece<'a> {
    Text(&'a str),
    Hole(&'a str),
}

fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find('<') {
        let Some(length) = rest[start..].find('>') else { break };
        let hole = &rest[start..=start + length];
        let inner = &hole[1..hole.len() - 1];
        let known = ["rv:", "uid:", "name:", "continue:", "token:", "repeat:"]
            .iter()
            .any(|prefix| inner.starts_with(prefix))
            || ["uuid", "time", "microtime", "age", "any"].contains(&inner);
        if !known {
            pieces.push(Piece::Text(&rest[..=start]));
            rest = &rest[start + 1..];
            continue;
        }
        if start > 0 {
            pieces.push(Piece::Text(&rest[..start]));
        }
        pieces.push(Piece::Hole(inner));
        rest = &rest[start + length + 1..];
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest));
    }
    pieces
}

impl Bindings {
    /// The text with its placeholders replaced.
    pub fn fill(&self, text: &str) -> String {
        let mut filled = String::new();
        for piece in pieces(text) {
            match piece {
                Piece::Text(text) => filled.push_str(text),
                Piece::Hole(hole) => filled.push_str(&self.value(hole)),
            }
        }
        filled
    }

    fn value(&self, hole: &str) -> String {
        if let Some(rest) = hole.strip_prefix("repeat:") {
            let (what, times) = rest.rsplit_once(':').unwrap_or((rest, "1"));
            return what.repeat(times.parse().unwrap_or(1));
        }
        match hole {
            "time" => "2024-03-01T00:00:00Z".to_owned(),
            "microtime" => "2024-03-01T00:00:00.000000Z".to_owned(),
            _ => self.values.get(hole).cloned().unwrap_or_else(|| format!("<{hole}>")),
        }
    }

    /// A request body with its placeholders replaced.
    pub fn fill_body(&self, body: &Value) -> Value {
        let uid = body
            .pointer("/metadata/uid")
            .and_then(Value::as_str)
            .map(|uid| self.fill(uid));
        let known = uid.and_then(|uid| self.seen.get(&uid));
        self.fill_value(body, known)
    }

    fn fill_value(&self, value: &Value, known: Option<&Value>) -> Value {
        match value {
            Value::String(text) if text == "<time>" || text == "<microtime>" => match known {
                Some(Value::String(known)) => known.as_str().into(),
                _ => self.fill(text).into(),
            },
            Value::String(text) => self.fill(text).into(),
            Value::Array(items) => {
                let filled = items.iter().enumerate().map(|(index, item)| {
                    let known = known.and_then(|known| known.get(index));
                    self.fill_value(item, known)
                });
                filled.collect()
            }
            Value::Object(fields) => {
                let filled = fields.iter().map(|(key, value)| {
                    let below = known.and_then(|known| known.get(key));
                    (self.fill(key), self.fill_value(value, below))
                });
                Value::Object(filled.collect())
            }
            other => other.clone(),
        }
    }

    /// Remembers an answered object, and those in lists and events.
    pub fn remember(&mut self, value: &Value) {
        if let Some(uid) = value.pointer("/metadata/uid").and_then(Value::as_str) {
            self.seen.insert(uid.to_owned(), value.clone());
        }
        for item in value.get("items").and_then(Value::as_array).into_iter().flatten() {
            self.remember(item);
        }
        if let Some(object) = value.get("object") {
            self.remember(object);
        }
    }

    /// Whether `actual` is what `expected` stands for; binds what is met for the first time.
    pub fn matches(&mut self, expected: &str, actual: &str) -> bool {
        let pieces = pieces(expected);
        if let [Piece::Hole(hole)] = pieces.as_slice() {
            return self.bind(hole, actual);
        }
        self.matches_pieces(&pieces, actual)
    }

    fn matches_pieces(&mut self, pieces: &[Piece<'_>], actual: &str) -> bool {
        match pieces {
            [] => actual.is_empty(),
            [Piece::Text(text), rest @ ..] => actual
                .strip_prefix(text)
                .is_some_and(|actual| self.matches_pieces(rest, actual)),
            [Piece::Hole(hole)] => self.bind(hole, actual),
            [Piece::Hole(hole), rest @ ..] => {
                for end in 0..=actual.len() {
                    if !actual.is_char_boundary(end) {
                        continue;
                    }
                    let mut trial = Self {
                        values: self.values.clone(),
                        revisions: self.revisions.clone(),
                        seen: BTreeMap::new(),
                    };
                    if trial.bind(hole, &actual[..end]) && trial.matches_pieces(rest, &actual[end..]) {
                        self.values = trial.values;
                        self.revisions = trial.revisions;
                        return true;
                    }
                }
                false
            }
        }
    }

    fn bind(&mut self, hole: &str, actual: &str) -> bool {
        if let Some(rest) = hole.strip_prefix("rv:") {
            return self.bind_revision(rest, actual);
        }
        if let Some(prefix) = hole.strip_prefix("name:") {
            let prefix = prefix.rsplit_once('#').map_or(prefix, |(prefix, _)| prefix);
            let suffix = actual.strip_prefix(prefix).unwrap_or_default();
            let generated = suffix.len() == 5 && suffix.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
            return generated && self.same(hole, actual);
        }
        match hole {
            "any" | "age" => true,
            "time" => is_time(actual, 0),
            "microtime" => is_time(actual, 6),
            "uuid" => is_uuid(actual),
            _ if hole.starts_with("uid:") => self.same(hole, actual),
            _ if hole.starts_with("repeat:") => self.value(hole) == actual,
            // Continue and service account tokens.
            _ => self.same(hole, actual),
        }
    }

    fn same(&mut self, hole: &str, actual: &str) -> bool {
        if hole.starts_with("continue:") || hole.starts_with("token:") {
            self.values.insert(hole.to_owned(), actual.to_owned());
            return !actual.is_empty();
        }
        let bound = self.values.entry(hole.to_owned()).or_insert_with(|| actual.to_owned());
        bound == actual && !actual.is_empty()
    }

    fn bind_revision(&mut self, hole: &str, actual: &str) -> bool {
        let Ok(value) = actual.parse::<u64>() else { return false };
        if let Some((number, _)) = hole.split_once('+') {
            let Ok(number) = number.parse::<u64>() else { return false };
            self.values.insert(format!("rv:{hole}"), actual.to_owned());
            let least = self.revisions.get(&number).copied().unwrap_or(0);
            let below = self.revisions.get(&(number + 1)).copied().unwrap_or(u64::MAX);
            return value >= least && value < below;
        }
        let Ok(number) = hole.parse::<u64>() else { return false };
        if let Some(bound) = self.revisions.get(&number) {
            return *bound == value;
        }
        let before = self.revisions.range(..number).next_back().map_or(0, |(_, value)| *value);
        let after = self
            .revisions
            .range(number + 1..)
            .next()
            .map_or(u64::MAX, |(_, value)| *value);
        self.revisions.insert(number, value);
        self.values.insert(format!("rv:{number}"), actual.to_owned());
        value > before && value < after
    }
}

fn is_time(text: &str, digits: usize) -> bool {
    let shape = if digits == 0 {
        "0000-00-00T00:00:00Z"
    } else {
        "0000-00-00T00:00:00.000000Z"
    };
    let fits = |(one, other): (char, char)| if other == '0' { one.is_ascii_digit() } else { one == other };
    text.len() == shape.len() && text.chars().zip(shape.chars()).all(fits)
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36 && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}
