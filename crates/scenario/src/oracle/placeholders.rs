//! Placeholders in the texts of objects and steps: times, and names that are only known while a scenario is played.

use bailiff_model::Wall;
use jiff::SignedDuration;
use serde_json::Value;

/// Where what a placeholder stands for is looked up.
pub trait Lookup {
    /// The present.
    fn now(&self) -> Wall;
    /// Name of the youngest pod of a DaemonSet for a node that is not terminating.
    fn pod(&self, namespace: &str, set: &str, node: &str) -> Option<String>;
    /// Name of the ControllerRevision of a DaemonSet with this number.
    fn revision(&self, namespace: &str, set: &str, number: i64) -> Option<String>;
    /// Uid of an object.
    fn uid(&self, resource: &str, namespace: &str, name: &str) -> Option<String>;
    /// A text that was captured.
    fn variable(&self, name: &str) -> Option<String>;
}

/// A placeholder that stands for nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There is no such placeholder.
    #[error("unknown placeholder ${{{0}}}: known are pod:NS/DS@NODE, rev:NS/DS#N, uid:RESOURCE/NS/NAME, var:NAME")]
    Unknown(String),
    /// Nothing like that exists now.
    #[error("${{{0}}} stands for nothing: there is no such object")]
    Nothing(String),
}

/// Replaces the placeholders of a text.
///
/// # Errors
/// The first placeholder that stands for nothing.
pub fn resolve(text: &str, lookup: &impl Lookup) -> Result<String, Error> {
    let mut text = times(text, lookup.now());
    // The innermost first: a name in a path may itself be made of placeholders.
    while let Some(end) = closing(&text) {
        let Some(start) = text[..end].rfind("${") else { break };
        let found = one(&text[start + 2..end], lookup)?;
        text.replace_range(start..=end, &found);
    }
    Ok(text)
}

/// Replaces the placeholders of all texts in a value.
///
/// # Errors
/// The first placeholder that stands for nothing.
pub fn resolve_all(value: &mut Value, lookup: &impl Lookup) -> Result<(), Error> {
    match value {
        Value::String(text) if text.contains(['<', '$']) => *text = resolve(text, lookup)?,
        Value::Array(items) => {
            for item in items {
                resolve_all(item, lookup)?;
            }
        }
        Value::Object(map) => {
            for value in map.values_mut() {
                resolve_all(value, lookup)?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// The first brace that closes a placeholder.
fn closing(text: &str) -> Option<usize> {
    let start = text.find("${")?;
    text[start..].find('}').map(|end| start + end)
}

fn one(placeholder: &str, lookup: &impl Lookup) -> Result<String, Error> {
    let unknown = || Error::Unknown(placeholder.to_owned());
    let (kind, what) = placeholder.split_once(':').ok_or_else(unknown)?;
    let found = match kind {
        "pod" => {
            let (set, node) = what.rsplit_once('@').ok_or_else(unknown)?;
            let (namespace, set) = set.split_once('/').ok_or_else(unknown)?;
            lookup.pod(namespace, set, node)
        }
        "rev" => {
            let (set, number) = what.rsplit_once('#').ok_or_else(unknown)?;
            let (namespace, set) = set.split_once('/').ok_or_else(unknown)?;
            let number = number.parse().map_err(|_| unknown())?;
            lookup.revision(namespace, set, number)
        }
        "uid" => {
            let (resource, rest) = what.split_once('/').ok_or_else(unknown)?;
            let (namespace, name) = rest.rsplit_once('/').unwrap_or(("", rest));
            lookup.uid(resource, namespace, name)
        }
        "var" => lookup.variable(what),
        _ => return Err(unknown()),
    };
    found.ok_or_else(|| Error::Nothing(placeholder.to_owned()))
}

/// Replaces `<now>` and `<now-60s>`.
fn times(text: &str, now: Wall) -> String {
    let mut result = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("<now") {
        result.push_str(&rest[..start]);
        rest = &rest[start..];
        let Some((offset, length)) = offset(rest) else {
            result.push_str("<now");
            rest = &rest[4..];
            continue;
        };
        let at = now.checked_add(SignedDuration::from_secs(offset)).unwrap_or(now);
        result.push_str(&printed(at));
        rest = &rest[length..];
    }
    result.push_str(rest);
    result
}

/// The offset in seconds that a text starts with, and how long it is.
fn offset(text: &str) -> Option<(i64, usize)> {
    let end = text.find('>')?;
    let inner = text[..end].strip_prefix("<now")?;
    if inner.is_empty() {
        return Some((0, end + 1));
    }
    let number = inner.strip_suffix('s')?;
    number
        .starts_with(['-', '+'])
        .then(|| number.parse().ok())?
        .map(|offset| (offset, end + 1))
}

/// RFC 3339 with seconds.
fn printed(at: Wall) -> String {
    jiff::fmt::temporal::DateTimePrinter::new()
        .precision(Some(0))
        .timestamp_to_string(&at)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    struct Known;

    impl Lookup for Known {
        fn now(&self) -> Wall {
            "2026-01-02T03:04:05.9Z".parse().expect("a time")
        }

        fn pod(&self, namespace: &str, set: &str, node: &str) -> Option<String> {
            (set != "none").then(|| format!("{namespace}.{set}.{node}"))
        }

        fn revision(&self, namespace: &str, set: &str, number: i64) -> Option<String> {
            Some(format!("{namespace}.{set}.{number}"))
        }

        fn uid(&self, resource: &str, namespace: &str, name: &str) -> Option<String> {
            Some(format!("{resource}.{namespace}.{name}"))
        }

        fn variable(&self, name: &str) -> Option<String> {
            (name == "x").then(|| "kept".to_owned())
        }
    }

    #[test]
    fn placeholders_are_replaced_wherever_they_stand() {
        let cases = [
            ("nothing", "nothing"),
            ("<now>", "2026-01-02T03:04:05Z"),
            ("a<now-60s>b<now+5s>", "a2026-01-02T03:03:05Zb2026-01-02T03:04:10Z"),
            ("<nowhere> <now", "<nowhere> <now"),
            ("/pods/${pod:default/ds@n1}", "/pods/default.ds.n1"),
            ("${rev:default/ds#2}${var:x}", "default.ds.2kept"),
            ("${uid:nodes/n1} ${uid:pods/ns/${var:x}}", "nodes..n1 pods.ns.kept"),
        ];
        for (text, wanted) in cases {
            assert_eq!(resolve(text, &Known).as_deref(), Ok(wanted), "{text}");
        }
        let mut value = json!({"a": ["${var:x}", 1], "b": {"c": "<now>"}});
        resolve_all(&mut value, &Known).expect("known");
        assert_eq!(value, json!({"a": ["kept", 1], "b": {"c": "2026-01-02T03:04:05Z"}}));
    }

    #[test]
    fn what_stands_for_nothing_is_said() {
        for (text, wanted) in [
            ("${node:x}", "unknown placeholder ${node:x}"),
            ("${rev:default/ds#x}", "unknown placeholder"),
            ("${pod:default/none@n1}", "${pod:default/none@n1} stands for nothing"),
            ("${var:y}", "${var:y} stands for nothing"),
        ] {
            let error = resolve(text, &Known).expect_err(text).to_string();
            assert!(error.starts_with(wanted), "{error}");
        }
    }
}
