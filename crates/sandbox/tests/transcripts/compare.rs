//! Whether an answer is what was recorded.

use serde_json::Value;

use super::bindings::Bindings;

/// How strictly bodies are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Everything, lists in order.
    Exact,
    /// What was recorded is there.
    Subset,
}

/// Compares a body. `ignore` are paths that may differ.
pub fn body(mode: Mode, expected: &Value, actual: &Value, ignore: &[String], bindings: &mut Bindings) -> Result<(), String> {
    value(mode, expected, actual, "$", ignore, bindings)
}

fn value(
    mode: Mode,
    expected: &Value,
    actual: &Value,
    path: &str,
    ignore: &[String],
    bindings: &mut Bindings,
) -> Result<(), String> {
    if ignore.iter().any(|ignored| ignored == path) {
        return Ok(());
    }
    let differs = || Err(format!("{path}: expected {}, found {}", short(expected), short(actual)));
    match (expected, actual) {
        (Value::Object(wanted), Value::Object(found)) => {
            for (key, wanted) in wanted {
                let key_path = format!("{path}.{key}");
                match found.get(key).or_else(|| found.get(&bindings.fill(key))) {
                    Some(found) => value(mode, wanted, found, &key_path, ignore, bindings)?,
                    None if ignore.contains(&key_path) => {}
                    None => return Err(format!("{key_path}: expected {}, found nothing", short(wanted))),
                }
            }
            if mode == Mode::Exact {
                let extra = found.keys().find(|key| {
                    let known = wanted.contains_key(*key) || wanted.keys().any(|one| bindings.fill(one) == **key);
                    !known && !ignore.contains(&format!("{path}.{key}"))
                });
                if let Some(extra) = extra {
                    return Err(format!("{path}.{extra}: expected nothing, found {}", short(&found[extra])));
                }
            }
            Ok(())
        }
        (Value::Array(wanted), Value::Array(found)) if mode == Mode::Exact => {
            for (index, (wanted, found)) in wanted.iter().zip(found).enumerate() {
                value(mode, wanted, found, &format!("{path}[{index}]"), ignore, bindings)?;
            }
            if wanted.len() == found.len() { Ok(()) } else { differs() }
        }
        (Value::Array(wanted), Value::Array(found)) => {
            for item in wanted {
                let matched = found
                    .iter()
                    .any(|found| value(mode, item, found, path, ignore, bindings).is_ok());
                if !matched {
                    return Err(format!("{path}: no element like {}", short(item)));
                }
            }
            Ok(())
        }
        (Value::String(wanted), Value::String(found)) => {
            if bindings.matches(wanted, found) {
                Ok(())
            } else {
                differs()
            }
        }
        // `<any>` stands for values other than texts, too.
        (Value::String(wanted), _) if wanted == "<any>" => Ok(()),
        (Value::Number(wanted), Value::Number(found)) if wanted.as_f64() == found.as_f64() => Ok(()),
        (wanted, found) if wanted == found => Ok(()),
        _ => differs(),
    }
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= 300 {
        text
    } else {
        format!("{}…", text.chars().take(300).collect::<String>())
    }
}

/// Compares a Status: what programs read, not the message.
pub fn refusal(expected: &Value, actual: &Value, bindings: &mut Bindings) -> Result<(), String> {
    for path in ["kind", "apiVersion", "status", "reason", "code"] {
        let (wanted, found) = (&expected[path], &actual[path]);
        value(Mode::Exact, wanted, found, &format!("$.{path}"), &[], bindings)
            .map_err(|why| format!("{why}; message {}", short(&actual["message"])))?;
    }
    for path in ["name", "group", "kind", "retryAfterSeconds"] {
        let at = |value: &Value| {
            value
                .get("details")
                .and_then(|details| details.get(path))
                .cloned()
                .unwrap_or_default()
        };
        value(
            Mode::Exact,
            &at(expected),
            &at(actual),
            &format!("$.details.{path}"),
            &[],
            bindings,
        )
        .map_err(|why| format!("{why}; message {}", short(&actual["message"])))?;
    }
    let causes = |value: &Value| {
        let list = value
            .pointer("/details/causes")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        let text = |cause: &Value, field: &str| cause[field].as_str().unwrap_or_default().to_owned();
        let mut causes: Vec<(String, String)> = list
            .iter()
            .map(|cause| (text(cause, "reason"), text(cause, "field")))
            .collect();
        causes.sort();
        causes.dedup();
        causes
    };
    let (wanted, found) = (causes(expected), causes(actual));
    if wanted == found {
        Ok(())
    } else {
        Err(format!("$.details.causes: expected {wanted:?}, found {found:?}"))
    }
}

/// A refusal as it was recorded, but for what it shows of an object: placeholders are missing there, so revisions and times are those of
/// the server that was recorded.
pub fn loosened(refusal: &Value) -> Value {
    match refusal {
        Value::String(text) => loosened_text(text).into(),
        Value::Array(items) => items.iter().map(loosened).collect(),
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), loosened(value))).collect(),
        other => other.clone(),
    }
}

fn loosened_text(text: &str) -> String {
    let (mut loose, mut rest) = (String::new(), text);
    let value = |rest: &str| {
        let keys = ["resourceVersion\\\":\\\"", "Timestamp\\\":\\\""].into_iter();
        keys.filter_map(|key| Some(rest.find(key)? + key.len())).min()
    };
    while let Some(start) = value(rest) {
        let (before, after) = rest.split_at(start);
        let end = after.find(['\\', '<']).unwrap_or(after.len());
        loose = loose + before + "<any>";
        rest = &after[end..];
    }
    loose + rest
}

/// Takes the record of ownership away, as the recordings lack it.
pub fn without_managed_fields(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
                metadata.shift_remove("managedFields");
            }
            for value in fields.values_mut() {
                without_managed_fields(value);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(without_managed_fields),
        _ => {}
    }
}
