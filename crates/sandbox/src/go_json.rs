//! JSON as the real server writes it: compact, and with the escapes that Go's encoder adds for HTML.
//!
//! Values are equal with and without those escapes; bytes are not, and clients compare the bytes of raw fields (DS-207).

use std::collections::BTreeMap;
use std::io::{Result, Write};

use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{Formatter, Serializer};

pub mod syntax;

/// The JSON of a value.
pub fn bytes(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    append(&mut bytes, value);
    bytes
}

/// A value as Go prints maps and slices: what some refusals show.
pub fn printed(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(printed).collect::<Vec<_>>().join(" ")),
        Value::Object(fields) => {
            let sorted: BTreeMap<&String, &Value> = fields.iter().collect();
            let shown: Vec<String> = sorted
                .iter()
                .map(|(key, value)| format!("{key}:{}", printed(value)))
                .collect();
            format!("map[{}]", shown.join(" "))
        }
        Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

/// Writes the JSON of a value to the end of `bytes`.
pub fn append(bytes: &mut Vec<u8>, value: &Value) {
    let mut serializer = Serializer::with_formatter(bytes, Escaping);
    value
        .serialize(&mut serializer)
        .expect("a JSON value can be encoded into memory");
}

struct Escaping;

impl Formatter for Escaping {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> Result<()> {
        let mut rest = fragment.as_bytes();
        while let Some(at) = rest.iter().position(|byte| matches!(byte, b'<' | b'>' | b'&' | 0xe2)) {
            let (plain, special) = rest.split_at(at);
            writer.write_all(plain)?;
            let (written, length) = escape(special).unwrap_or((special.get(..1).unwrap_or_default(), 1));
            writer.write_all(written)?;
            rest = special.get(length..).unwrap_or_default();
        }
        writer.write_all(rest)
    }
}

/// What stands for the character that a text begins with, and its length, if it is one of those that are escaped.
fn escape(text: &[u8]) -> Option<(&[u8], usize)> {
    match text {
        [b'<', ..] => Some((b"\\u003c", 1)),
        [b'>', ..] => Some((b"\\u003e", 1)),
        [b'&', ..] => Some((b"\\u0026", 1)),
        // U+2028 and U+2029.
        [0xe2, 0x80, 0xa8, ..] => Some((b"\\u2028", 3)),
        [0xe2, 0x80, 0xa9, ..] => Some((b"\\u2029", 3)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// DS-151
    #[test]
    fn what_html_could_mistake_is_escaped_in_texts_and_keys() {
        for (value, expected) in [
            (json!("plain \u{20ac}"), "\"plain \u{20ac}\""),
            (
                json!("<a>&\u{2028}\"\\\u{2029}\n<"),
                r#""\u003ca\u003e\u0026\u2028\"\\\u2029\n\u003c""#,
            ),
            (json!({"<": ["&", 1.5, null]}), r#"{"\u003c":["\u0026",1.5,null]}"#),
            (json!("\u{2027}\u{202a}\u{1}"), "\"\u{2027}\u{202a}\\u0001\""),
        ] {
            assert_eq!(String::from_utf8(bytes(&value)).expect("text"), expected);
            let read: Value = serde_json::from_slice(&bytes(&value)).expect("JSON");
            assert_eq!(read, value);
        }
    }
}
